"""Labels get worse: by which week is it found, beside control charts that ring falsely as often?

Twenty labels have a quiet year. Then a change begins on some of them, and the shipped weekly rules are judged each
week by the functions of a run. Control charts see the same weeks: their limit is the one that the unchanged labels
cross as often as wanted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import beta

from benchmarks.populations import LABELS, SIX_PERCENT, Floats, Population, less_precise, raised
from benchmarks.quiet import (
    MEMORY,
    WORLDS,
    YEAR,
    Label,
    Played,
    Sums,
    World,
    bins_of,
    judged_weeks,
    keeping,
    kinds_of,
    played_year,
)
from benchmarks.tables import Table
from benchmarks.tally import Line, Tally
from monitor.core.counts import CELLS

ECE_RULE, PRECISION = "ece-increase", 0.59
FALSE_ALARMS = 0.2
"""Of a control chart, a year, of twenty labels."""
STEP = 0.25
"""Limits of control charts are multiples of it."""
SLACK = 0.5
"""What a CUSUM takes off each week, in standard deviations: half of the change that it finds soonest."""
Change = Callable[[Label, int], Label]


def _as(population: Callable[[Population], Population]) -> Change:
    """What scores are worth in another population with the same scores."""
    of = {label.name: keeping(label) for label in LABELS}
    return lambda label, week: replace(label, worth=kinds_of(population(of[label.name])).worth)


def _stretched(by: float, *, flatter: bool) -> Change:
    """What scores are worth is nearer to one half, or farther from it, on average by so much."""

    @cache
    def changed(label: Label, week: int) -> Label:
        def worth(power: float) -> Floats:
            return np.asarray(expit(logit(label.worth.clip(1e-9, 1 - 1e-9)) * power))

        def short(power: float) -> float:
            return float(label.chance @ np.abs(worth(power) - label.worth)) - by

        return replace(label, worth=worth(float(brentq(short, *((0.0, 1.0) if flatter else (1.0, 50.0))))))

    return changed


def _lower(by: float, low: float = 0.0, high: float = 1.0, *, a_week: bool = False) -> Change:
    """What scores in [low, high] are worth is less by so much, or by so much more each week."""

    def changed(label: Label, week: int) -> Label:
        less = by * (week if a_week else 1) * ((label.cell >= low * CELLS) & (label.cell <= high * CELLS))
        return replace(label, worth=(label.worth - less).clip(0.0, 1.0))

    return changed


def _what_acts(label: Label, week: int) -> Label:
    return _lower(0.10, label.automate_at)(label, week)


def _confused(label: Label, week: int) -> Label:
    """15% of the items of this label are really another one."""
    return replace(label, worth=label.worth * 0.85)


def auc_of(label: Label, chance: Floats) -> float:
    """The area under the ROC curve of kinds with these shares of the rows."""
    order = np.argsort(label.cell, kind="stable")
    kept, lost = (np.add.reduceat((chance * of)[order], label.starts) for of in (label.worth, 1 - label.worth))
    return float((kept * (np.cumsum(lost) - lost / 2)).sum() / (kept.sum() * lost.sum()))


@cache
def _less_sharp(label: Label, week: int) -> Label:
    """Scores nearer to the share of true items, so that the AUC is .05 less; what a score is worth stays."""
    true = float(label.chance @ label.worth)
    near = label.chance * np.exp(-(((label.worth - true) / 0.15) ** 2))

    def tilted(by: float) -> Floats:
        found = near * np.exp(by * (label.worth - true))
        return np.asarray(found / found.sum())

    middle = tilted(float(brentq(lambda by: float(tilted(by) @ label.worth) - true, -60.0, 60.0)))
    goal = auc_of(label, label.chance) - 0.05

    def mixed(share: float) -> Floats:
        return (1 - share) * label.chance + share * middle

    share = float(brentq(lambda share: auc_of(label, mixed(share)) - goal, 0.0, 1.0))
    return replace(label, chance=mixed(share))


LASTING: dict[str, Change] = {
    "underconfident: ECE +.04": _stretched(0.04, flatter=False),
    "-.15 at scores of .5 to .8": _lower(0.15, 0.5, 0.8),
    "15% are another label": _confused,
    "ROC AUC -.05, calibrated": _less_sharp,
    ".005 less each week": _lower(0.005, a_week=True),
    "-.05 at all scores": _lower(0.05),
    "-.10 of what acts": _what_acts,
    "ECE +.03: low scores too low, high ones too high": _stretched(0.03, flatter=True),
}
SUDDEN: dict[str, Change] = {
    "true ECE +.05": _as(lambda label: raised(label, 0.05)),
    "true ECE +.03": _as(lambda label: raised(label, 0.03)),
    "precision above .8 falls to .59, 6% positives": _as(lambda label: less_precise(label, PRECISION, 0.8)),
}
CHANGES = LASTING | SUDDEN
"""Name -> the label in one of the weeks of the change, counted from 1."""
RISES = [change for change in SUDDEN if change.startswith("true ECE")]
LINES: tuple[Line, ...] = (
    ("true ECE +.05", "as they come", 5_000, 3, 1),
    ("true ECE +.05", "as they come", 2_000, 3, 2),
    ("true ECE +.03", "as they come", 5_000, 1, 4),
    ("precision above .8 falls to .59, 6% positives", "as they come", 5_000, 1, 2),
    *(
        (change, world, 2_000, 4, 20)
        for world in ("as they come", "scores wobble by .1 of logit")
        for change in LASTING
    ),
)
"""Change, world, rows a label-week, how many labels change, and weeks that are judged."""


def changed_year(line: Line, names: Sequence[str], rng: np.random.Generator) -> Played:
    """A quiet year of twenty labels, then weeks in which these labels have changed."""
    change, world, rows, _, weeks = str(line[0]), str(line[1]), int(line[2]), line[3], int(line[4])
    played, (draw, _) = played_year([keeping(label) for label in LABELS], world, rows, weeks, rng), WORLDS[world]

    def after(name: str) -> Sums:
        label, before = played.world.labels[name], played.world.of(name, now=False)
        drawn = [draw(CHANGES[change](label, week + 1), np.full(1, rows), rng)[0] for week in range(weeks)]
        parts = [Sums(before.n[:MEMORY], before.hits[:MEMORY], before.effects[:MEMORY]), *drawn]
        return Sums(
            *(np.concatenate(each) for each in zip(*((part.n, part.hits, part.effects) for part in parts), strict=True))
        )

    sums = {**played.world.whole, **{name: after(name) for name in names}}
    return replace(played, world=World(played.world.labels, sums, sums))


def _cusum(z: Floats) -> Floats:
    total, path = 0.0, []
    for each in z.tolist():
        total = max(0.0, total + each - SLACK)
        path.append(total)
    return np.array(path)


CHARTS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "bands of the ECE": lambda ece, gap: ece,
    "CUSUM of the ECE": lambda ece, gap: _cusum(ece),
    "CUSUM of the mean gap": lambda ece, gap: np.maximum(_cusum(gap), _cusum(-gap)),
}
"""Name -> the statistic of each week, (weeks,), from numbers in standard deviations of the quiet year."""


def charted(played: Played, name: str) -> dict[str, Floats]:
    """The largest statistic of each control chart up to each week of the change, (weeks,).

    The charts see the plug-in ECE in the baseline's bins, and the mean of score - outcome.
    """
    label, sums = played.world.labels[name], played.world.of(name, now=False)
    gaps = (sums.n * (label.cell / CELLS) - sums.hits) @ bins_of(label, played.place.baselines[name])
    rows = sums.n.sum(axis=1)
    numbers = (np.abs(gaps).sum(axis=1) / rows, gaps.sum(axis=1) / rows)
    ece, gap = ((x[MEMORY:] - x[:MEMORY].mean()) / x[:MEMORY].std(ddof=1) for x in numbers)
    return {chart: np.maximum.accumulate(path(ece, gap)) for chart, path in CHARTS.items()}


@dataclass(frozen=True, slots=True)
class Planted:
    """One year, at whose end some labels change. No week is judged after all of them are found."""

    line: Line
    number: int
    seed: int

    part = "power"

    @property
    def cost(self) -> float:
        """The approximate seconds."""
        return 3.5

    def run(self) -> list[Tally]:
        """The tally of the week in which each changed label was found, by which rule, and of the charts."""
        rng = np.random.default_rng((self.seed, LINES.index(self.line), self.number))
        names = self._names()
        played = changed_year(self.line, names, rng)
        sums = _found(played, names, rise=self.line[0] in RISES)
        for name in played.world.labels:
            for chart, path in charted(played, name).items():
                for week in told(self.line):
                    sums[f"{chart} {name in names} {week} {int(path[week - 1] / STEP)}"] += 1
        return [Tally(self.part, self.line, len(names), {name: float(total) for name, total in sums.items()})]

    def _names(self) -> list[str]:
        """The names of the labels that change."""
        if str(self.line[0]).startswith("precision"):
            return [SIX_PERCENT.name]
        ordinary, count = [label.name for label in LABELS[1:-1]], int(self.line[3])
        return [ordinary[(self.number + len(ordinary) // count * k) % len(ordinary)] for k in range(count)]


def told(line: Line) -> list[int]:
    """The weeks by which a line says how many labels were found."""
    return sorted({1, min(4, int(line[4])), int(line[4])})


def _found(played: Played, names: Sequence[str], *, rise: bool) -> Counter[str]:
    """How many of the labels were found in each week, by which rules, and breaches of the other labels."""
    index = {window: at - played.first + 1 for at, window in enumerate(played.place.windows)}
    found: Counter[str] = Counter()
    seen: dict[str, int] = {}
    for verdicts in judged_weeks(played, {}):
        for verdict in verdicts:
            name, week = str(verdict.subject.label), index[verdict.window]
            if verdict.outcome != "breach":
                continue
            if name not in names:
                found["blamed"] += 1
            elif (not rise or verdict.rule == ECE_RULE) and seen.setdefault(name, week) == week:
                found[f"first by {verdict.rule}"] += 1
        if len(seen) == len(names):
            break
    return found + Counter(f"found in week {week}" for week in seen.values())


def found_by(tally: Tally, week: int) -> float:
    """The share of the changed labels that were found by a week."""
    return sum(tally.share(f"found in week {each + 1}") for each in range(week))


def charts_by(tally: Tally, chart: str, limit: int, week: int, *, changed: bool = True) -> float:
    """The number of labels on which a control chart had crossed its limit by a week."""
    before = f"{chart} {changed} {week} "
    return sum(n for name, n in tally.sums.items() if name.startswith(before) and int(name.split()[-1]) >= limit)


def limits_of(lines: Sequence[Tally]) -> dict[str, int]:
    """Of each chart the smallest limit with at most the wanted false alarms on the unchanged labels of these lines."""
    wanted = sum(
        FALSE_ALARMS / len(LABELS) * int(tally.line[4]) / YEAR * (len(LABELS) / int(tally.line[3]) - 1) * tally.count
        for tally in lines
    )

    def false(chart: str, limit: int) -> float:
        return sum(charts_by(tally, chart, limit, int(tally.line[4]), changed=False) for tally in lines)

    return {chart: next(limit for limit in range(1, 1_000) if false(chart, limit) <= wanted) for chart in CHARTS}


def table(lines: Sequence[Tally]) -> Table:
    """The table: found by the shipped rules, and by control charts."""
    limits = {
        world: limits_of([line for line in lines if line.line[1] == world and line.line[0] in LASTING])
        for world in {line.line[1] for line in lines}
    }

    def row(tally: Tally) -> tuple[str, ...]:
        change, world, rows, labels, _ = tally.line
        weeks = told(tally.line)
        total = round(found_by(tally, weeks[-1]) * tally.count)
        least = float(beta.ppf(0.05, total, tally.count - total + 1)) if total else 0.0
        charts = (
            " ".join(f"{charts_by(tally, chart, limit, week) / tally.count:.2f}" for week in weeks)
            for chart, limit in limits[world].items()
        )
        first = {name.removeprefix("first by "): n for name, n in tally.sums.items() if name.startswith("first by ")}
        return (
            str(change), str(world), f"{rows:,}", f"{labels}", f"{tally.count}", ", ".join(map(str, weeks)),
            " ".join(f"{found_by(tally, week):.2f}" for week in weeks), f"{least:.3f}", *charts,
            f"{tally.of('blamed'):.0f}", ", ".join(f"{rule} {n:.0f}" for rule, n in sorted(first.items())),
        )  # fmt: skip

    heads = (
        "change", "world", "rows", "of 20 labels", "labels", "by week", "found", "the last at least (95%)", *CHARTS,
        "breaches of others", "first found by",
    )  # fmt: skip
    notes = (
        "A rise of the true ECE is found when ece-increase breaches, any other change when a rule does that sends.",
        f"The limits of the charts have at most {FALSE_ALARMS} false alarms a year of {len(LABELS)} labels.",
    )
    return Table("Something gets worse: by which week it is found", heads, tuple(map(row, lines)), notes, texts=2)
