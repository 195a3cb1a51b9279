"""Weekly and accumulated rules together in years in which nothing is wrong: how many incidents do they open?

Twenty labels that keep their promise, in every part, to the accepted .02, are played for a year before, in which only
evidence adds up, and a year in which every rule is judged by the functions of a run: the shipped weekly rules,
auc-decrease, lasting-shortfall and lasting-segments. A week is judged only where a rule could breach in it, or an
incident is open: that is found for all labels and weeks of a year at once, from p-values that are never larger than
those of the run, and from evidence that is never smaller.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.checkout import DOCS, ROOT, commit_of
from benchmarks.plan import Notebook, gathered, key_of
from benchmarks.populations import LABELS, Bools, Curve, Floats, Ints, Population, counted
from benchmarks.sampling import COPIES, Clustered
from benchmarks.segments import IN_SEGMENTS, LASTING
from benchmarks.simulate import durations, measured
from benchmarks.tables import Table, console, write_between
from benchmarks.tally import Tally
from benchmarks.weeks import SOURCE, ByLabel, Open, Rows, Setting, drawn, opened, setting, shipped
from monitor.config.model import Config, Rule
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import CELLS, Counts
from monitor.core.promises import BANDS, PastWindow, Promise, Promises, Segment
from monitor.core.records import SCORE_BAND
from monitor.evaluation.comparisons import pooled
from monitor.evaluation.evaluate import SourceData, WindowCounts, verdicts_of
from monitor.evaluation.rule_metrics import rows_needed, rows_of
from monitor.inference.alignment import align, binned
from monitor.inference.change import ece_increase_ps, mce_increase_ps, mce_level_ps
from monitor.inference.dependence import ClusterSums, design_effect
from monitor.inference.levels import decrease_test, law_of
from monitor.inference.memory import kept_with
from monitor.inference.merging import merge_thin
from monitor.inference.sequential import LONGEST, SIZES, evidence_needed, log_e_values
from monitor.metrics.registry import METRICS

SEED = 20260101
WORKERS = 2
MEMORY = LONGEST - 1
"""Weeks before the year, in which evidence adds up and nothing is judged."""
YEAR, SIZES_OF_LABELS = 52, (200, 500, 2_000)
ACCEPTED = 0.02
MARGIN = 1.5
"""Weeks are judged with p-values up to so many times too large: no rounding or smaller family may lose a breach."""
NEARLY = math.log(1.5)
"""The same of evidence: a family of fewer labels needs less."""
COLUMNS = {"channel": 4, "model_version": 2}
CLUSTERED = 0.3
AUC_DECREASE = Rule(id="auc-decrease", metric="roc_auc", condition="decrease", threshold=0.03)
NOTEBOOK = ROOT / "var" / "quiet.jsonl"
EFFECTS = ("all", "predicted", "automated")


@cache
def every_rule() -> Config:
    """The shipped file with the rules that it has behind a # or not at all."""
    known = {rule.id for rule in shipped().rules}
    more = tuple(rule for rule in (AUC_DECREASE, LASTING, IN_SEGMENTS) if rule.id not in known)
    return shipped().model_copy(update={"rules": (*shipped().rules, *more)})


def weekly_rules(config: Config) -> list[Rule]:
    """Those that can open an incident on a metric."""
    return [rule for rule in config.rules_for("weekly") if rule.metric is not None]


@cache
def keeping(population: Population) -> Population:
    """The label, calibrated where a score that acts alone is in truth more than the accepted .02 too high."""
    score = np.arange(round(population.automate_at * CELLS), CELLS + 1) / CELLS
    score = np.clip(score, 1e-6, 1 - 1e-6)
    promised_too_much = float((score - population.curve.worth(score)).max()) > ACCEPTED
    return replace(population, curve=Curve()) if promised_too_much else population


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """The rows of some windows: their clusters' ``effects`` (windows, 3) and ``segments`` (codes of rows) by label.

    ``late``: half of a window's truths are known only when the next window is judged.
    """

    rows: ByLabel
    segments: Mapping[str, Mapping[str, Ints]]
    effects: Mapping[str, Floats]
    late: bool = False
    _counts: dict[tuple[str, int, bool], Counts] = field(default_factory=dict)
    _spans: dict[tuple[str, int, int], Counts] = field(default_factory=dict)
    _promised: dict[tuple[str, bool], Mapping[Segment | None, Sequence[Promise]]] = field(default_factory=dict)

    def counts(self, label: str, index: int, *, now: bool) -> Counts:
        """The counts of one window, as it is judged (``now``) or as it is known a week later."""
        key = (label, index, now and self.late)
        if key not in self._counts:
            whole, *acting = self.effects[label][index].tolist()
            found = self._of_rows(label, index, index, half=key[2])
            self._counts[key] = replace(found, design_effect=whole, acting_effects=(acting[0], acting[1]))
        return self._counts[key]

    @property
    def independent(self) -> bool:
        """Whether no row is a copy of another."""
        return all(bool((each == 1).all()) for each in self.effects.values())

    def span(self, label: str, first: int, index: int) -> Counts:
        """Independent rows of some windows as one sample, the last of them as it is judged."""
        key = (label, first, index)
        if key not in self._spans:
            self._spans[key] = self._of_rows(label, first, index, half=self.late)
        return self._spans[key]

    def _of_rows(self, label: str, first: int, last: int, *, half: bool) -> Counts:
        rows = self.rows[label]
        start, end = rows.starts[last], rows.starts[last + 1]
        part = slice(rows.starts[first], start + (end - start) // 2 if half else end)
        return counted(rows.cells[part], rows.outcomes[part], rows.population.automate_at)

    def promises(self, label: str, *, now: bool) -> Mapping[Segment | None, Sequence[Promise]]:
        """What the rows that act alone promised and kept in each window: of the label (None) and of each segment."""
        key = (label, now and self.late)
        if key not in self._promised:
            self._promised[key] = self._made(label, half=key[1])
        return self._promised[key]

    def _made(self, label: str, *, half: bool) -> dict[Segment | None, list[Promise]]:
        rows, windows = self.rows[label], len(self.rows[label].starts) - 1
        size = np.diff(rows.starts)
        window = np.repeat(np.arange(windows), size)
        acts = rows.cells >= round(rows.population.automate_at * CELLS)
        if half:
            acts &= np.arange(len(window)) - rows.starts[window] < size[window] // 2
        effect = np.maximum(self.effects[label][:, 0], self.effects[label][:, 2])
        own = {column: codes[acts] for column, codes in self.segments[label].items()}
        window, cells, outcomes = window[acts], rows.cells[acts], rows.outcomes[acts]
        masks: dict[Segment | None, Bools] = {None: np.ones(len(cells), dtype=bool)}
        masks |= {(c, str(v)): own[c] == v for c, count in COLUMNS.items() for v in range(count)}
        masks |= {
            (SCORE_BAND, name): (cells >= round(low * CELLS)) & ((cells < round(high * CELLS)) | (high >= 1))
            for name, (low, high) in BANDS.items()
        }
        return {
            segment: _promises(window[mask], cells[mask] / CELLS, outcomes[mask], windows, effect)
            for segment, mask in masks.items()
            if mask.any()
        }


def _promises(window: Ints, score: Floats, outcome: Bools, windows: int, effect: Floats) -> list[Promise]:
    n = np.bincount(window, minlength=windows)
    total = np.maximum(n, 1)
    claimed = np.bincount(window, weights=score, minlength=windows) / total
    kept = np.bincount(window, weights=outcome, minlength=windows) / total
    each = zip(n.tolist(), (n / effect).tolist(), claimed.tolist(), kept.tolist(), strict=True)
    return [Promise(*numbers) for numbers in each]


Made = Callable[[Sequence[Population], int, int, np.random.Generator], World]


def _as_they_come(labels: Sequence[Population], windows: int, n: int, rng: np.random.Generator) -> World:
    rows = drawn(labels, windows, n, rng)
    none = np.ones((windows, len(EFFECTS)))
    return World(rows, {name: _segments(rng, windows * n) for name in rows}, dict.fromkeys(rows, none))


def _late(labels: Sequence[Population], windows: int, n: int, rng: np.random.Generator) -> World:
    return replace(_as_they_come(labels, windows, n, rng), late=True)


def _clustered(labels: Sequence[Population], windows: int, n: int, rng: np.random.Generator) -> World:
    """Three rows in ten in clusters of five copies, which have one segment and are known by their cluster."""
    copied = round(CLUSTERED * n / COPIES)
    single = n - copied * (COPIES - 1)
    copies = np.tile(np.where(np.arange(single) < copied, COPIES, 1), windows)
    rows, segments, effects = {}, {}, {}
    for name, once in drawn(labels, windows, single, rng).items():
        codes = _segments(rng, windows * single)
        segments[name] = {column: np.repeat(each, copies) for column, each in codes.items()}
        cells, outcomes = np.repeat(once.cells, copies), np.repeat(once.outcomes, copies)
        rows[name] = Rows(once.population, cells, outcomes, np.arange(windows + 1) * n)
        effects[name] = _effects(once, copies)
    return World(rows, segments, effects)


def _effects(once: Rows, copies: Ints) -> Floats:
    """The design effects of all, predicted and automated rows of each window, as the warehouse works them out."""
    windows = len(once.starts) - 1
    window = np.repeat(np.arange(windows), np.diff(once.starts))
    residual, m = once.outcomes - once.cells / CELLS, copies.astype(np.float64)
    sums = {"aa": (m * residual) ** 2, "aw": m**2 * residual, "cc": m**2, "r": m * residual, "w": m}
    sums |= {"rr": m * residual**2, "rw": m * residual, "ww": m}
    found = np.ones((windows, len(EFFECTS)))
    for place, least in enumerate((0.0, 0.5, once.population.automate_at)):
        chosen = once.cells >= round(least * CELLS)
        parts = {name: np.bincount(window[chosen], values[chosen], windows) for name, values in sums.items()}
        found[:, place] = [design_effect(ClusterSums.of({k: v[at] for k, v in parts.items()})) for at in range(windows)]
    return found


def _segments(rng: np.random.Generator, rows: int) -> dict[str, Ints]:
    return {column: rng.integers(0, count, rows) for column, count in COLUMNS.items()}


WORLDS: dict[str, Made] = {"as they come": _as_they_come, "clusters": _clustered, "late truths": _late}


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """Windows, of which those from ``first`` on are judged, with their rows and all rules."""

    place: Setting
    world: World
    first: int

    @property
    def judged(self) -> range:
        """The numbers of the windows that are judged."""
        return range(self.first, len(self.place.windows))

    def together(self, label: str, index: int, depth: int) -> Counts:
        """The counts of so many windows up to one, as a run pools them."""
        if depth == 1 or not self.world.independent:
            chain = [self.world.counts(label, index - back, now=back == 0) for back in range(depth)]
            return pooled(chain)
        return self.world.span(label, index - depth + 1, index)

    def data(self, index: int) -> SourceData:
        """What a run of one window sees."""
        depth = self.place.config.evaluation.pool_weeks
        current, *earlier = (self._window(index - back, now=back == 0) for back in range(depth))
        past = tuple(self._past(at) for at in range(index - 1, index - MEMORY - 1, -1))
        return SourceData(SOURCE, current, tuple(earlier), baselines=self.place.baselines, past=past)

    def _window(self, index: int, *, now: bool) -> WindowCounts:
        counts: dict[str | None, Counts] = {name: self.world.counts(name, index, now=now) for name in self.world.rows}
        return WindowCounts(self.place.windows[index], counts, segments=self._segments(index, now=now))

    def _segments(self, index: int, *, now: bool) -> dict[str | None, dict[Segment, Promises]]:
        found: dict[str | None, dict[Segment, Promises]] = {}
        for name in self.world.rows:
            every = {s: each[index] for s, each in self.world.promises(name, now=now).items() if s is not None}
            found[name] = {segment: {"automated": each} for segment, each in every.items() if each.rows}
        return found

    def _past(self, index: int) -> PastWindow:
        whole = {name: self.world.promises(name, now=False)[None][index] for name in self.world.rows}
        labels: dict[str | None, Promises] = {name: {"automated": each} for name, each in whole.items() if each.rows}
        return PastWindow(self.place.windows[index], labels, segments=self._segments(index, now=False))


# Which weeks may hold a breach


def smallest_ps(rule: Rule, played: Played) -> Floats:
    """The smallest p-value that a run could come to, however many windows it pools: shape (labels, judged windows).

    1 where the value is not beyond the threshold, since that is no breach either.
    """
    config = played.place.config
    source = config.sources[SOURCE]
    names = [name for name in played.world.rows if rule.applies_to(SOURCE, name, critical=source.is_critical(name))]
    found: Floats = np.ones((len(names), len(played.judged)))
    deepest, least = config.evaluation.pool_weeks, rows_needed(rule, config.evaluation)
    for depth in range(1, deepest + 1):
        samples = {
            (place, column): rows_of(rule, played.together(name, index, depth))
            for place, name in enumerate(names)
            for column, index in enumerate(played.judged)
        }
        # a run measures fewer rows than are needed only where no more of them can be had
        asked = {at: counts for at, counts in samples.items() if depth == deepest or counts.rows >= least}
        ps = p_values(rule, [(counts, played.place.baselines[names[at[0]]]) for at, counts in asked.items()], config)
        for at, p in zip(asked, ps, strict=True):
            found[at] = min(found[at], p)
    return found


def p_values(rule: Rule, asked: Sequence[tuple[Counts, Baseline]], config: Config) -> list[float]:
    """The p-value of each sample beside its baseline, as a run has it; 1 for what cannot be a breach."""
    if rule.metric not in ("ece", "mce"):
        return [_plain_p(rule, *each, config) for each in asked]
    if rule.condition == "increase":
        aligned = [align(counts, base.counts, base.edges["all"], config.evaluation.bins) for counts, base in asked]
        usable = [place for place, each in enumerate(aligned) if each.usable]
        pairs = [(aligned[place].window, aligned[place].baseline) for place in usable]
        if rule.metric == "ece":
            ps = ece_increase_ps(pairs, confidence=config.evaluation.confidence)
        else:
            ps = mce_increase_ps([(now, then) for pair in pairs for now, then in [merge_thin(pair)]])
        found = np.ones(len(asked))
        found[usable] = ps
        return found.tolist()
    if rule.metric != "mce":
        raise ValueError(f"{rule.id}: such a rule was not shipped when this was written")
    return mce_level_ps([merge_thin((binned(counts, base.edges["all"]),))[0] for counts, base in asked], rule.threshold)


def _plain_p(rule: Rule, counts: Counts, base: Baseline, config: Config) -> float:
    metric = str(rule.metric)
    value = _point(metric, counts)
    if value is None:
        return 1.0
    if rule.condition == "decrease":
        before = kept_with(base.counts, ("point", metric), lambda: _point(metric, base.counts))
        if before is None or before - value < rule.threshold - 1e-9:
            return 1.0
        return decrease_test(metric, counts, base.counts, config.evaluation.confidence).p_value or 0.0
    if (value - rule.threshold) * (1 if rule.condition == "above" else -1) < -1e-9:
        return 1.0
    law = law_of(metric, counts)
    return 1.0 if law is None else law.p_value(rule.threshold, "below" if rule.condition == "below" else "above")


def _point(metric: str, counts: Counts) -> float | None:
    """A metric's value; of an area by a shorter way than the run's, since this is asked of every week."""
    if metric != "roc_auc":
        return METRICS[metric].point(counts) if counts.rows else None
    hits, misses = counts.wy, counts.w - counts.wy  # by cell, in the order of scores
    pairs = float(hits.sum() * misses.sum())
    return float((hits * (np.cumsum(misses) - misses / 2)).sum()) / pairs if pairs > 0 else None


def may_breach(rule: Rule, played: Played) -> Bools:
    """The judged windows in which the rule could breach for any label, shape (judged windows,)."""
    if rule.accumulates:
        return _may_accumulate(rule, played)
    p, config = np.sort(smallest_ps(rule, played), axis=0), played.place.config
    adjusted = (p * len(p) / np.arange(1, len(p) + 1)[:, None]).min(axis=0) * config.decision_rules("weekly")
    return np.asarray(adjusted < MARGIN * config.evaluation.false_discovery_rate)


def _may_accumulate(rule: Rule, played: Played) -> Bools:
    """From evidence of all windows, neither capped nor cut off after a year: that is never smaller than a run's."""
    labels = np.array([_evidence(rule, played.world, name) for name in played.world.rows])[:, list(played.judged)]
    found = [evidence_needed(each, rule.average_run_length) - NEARLY <= each.max() for each in labels.T]
    return np.array(found)


def _evidence(rule: Rule, world: World, name: str) -> Floats:
    """The log evidence of one label after each window, shape (windows,)."""
    whole, now = world.promises(name, now=False), world.promises(name, now=True)
    if rule.scope != "segments":
        return np.asarray(_grown(rule, [whole[None]], [now[None]])[0])
    segments = [segment for segment in now if segment is not None]
    paths = _grown(rule, [whole[each] for each in segments], [now[each] for each in segments])
    there = np.array([[promise.rows > 0 for promise in now[each]] for each in segments])
    total: Floats = np.logaddexp.reduce(np.where(there, paths, -np.inf), axis=0)
    return np.asarray(total - np.log(np.maximum(there.sum(axis=0), 1)))


def _grown(rule: Rule, whole: Sequence[Sequence[Promise]], now: Sequence[Sequence[Promise]]) -> Floats:
    """The log of R after each window, its newest one as it is known ``now``: shape (series, windows)."""
    shape = (len(whole), len(whole[0]), len(SIZES))
    full, newest = (
        log_e_values([each for series in known for each in series], rule.threshold).reshape(shape)
        for known in (whole, now)
    )
    parts, first, path = np.full((shape[0], shape[2]), -np.inf), -math.log(len(SIZES)), np.zeros(shape[:2])
    for at in range(shape[1]):
        begun = np.logaddexp(parts, first)
        path[:, at] = np.logaddexp.reduce(begun + newest[:, at], axis=1)
        parts = begun + full[:, at]
    return path


# Years


def incidents_of(played: Played, *, every_week: bool = False) -> Counter[str]:
    """The incidents that each rule opens; ``every_week`` judges all weeks, which is slow and finds the same."""
    config = played.place.config
    rules = weekly_rules(config)
    possible = np.any([may_breach(rule, played) for rule in rules], axis=0) if not every_week else None
    open_now: Open = {}
    found: Counter[str] = Counter()
    for place, index in enumerate(played.judged):
        if possible is None or possible[place] or any(each.state != "resolved" for each in open_now.values()):
            data = played.data(index)
            verdicts = [v for rule in rules for v in verdicts_of(rule, data, config, (), outcomes_only=True)]
            found += opened(verdicts, open_now)
    return found


def played_year(labels: Sequence[Population], world: str, n: int, weeks: int, rng: np.random.Generator) -> Played:
    """A year of these labels in one of the worlds, with a year before it."""
    place = setting(labels, n, MEMORY + weeks, rng)
    baselines = dict(place.baselines)
    if world == "clusters":
        baselines = {name: _clustered_baseline(each, labels, rng) for name, each in baselines.items()}
    place = replace(place, config=every_rule(), baselines=baselines)
    return Played(place, WORLDS[world](labels, MEMORY + weeks, n, rng), MEMORY)


def _clustered_baseline(base: Baseline, labels: Sequence[Population], rng: np.random.Generator) -> Baseline:
    label = next(each for each in labels if each.name == base.label)
    counts = Clustered(CLUSTERED, known=True).draw(label, rng, base.counts.rows)
    return replace(base, counts=counts, edges=edges_of(counts, shipped().evaluation))


@dataclass(frozen=True, slots=True)
class QuietYear:
    """One year of ``weeks`` weeks with ``n`` rows a label-week in which nothing is wrong."""

    world: str
    n: int
    number: int
    weeks: int
    seed: int

    part = "quiet"

    @property
    def cost(self) -> float:
        """About how many seconds it takes."""
        return 3.0 * self.weeks / YEAR

    def run(self) -> list[Tally]:
        """The incidents of the year."""
        rng = np.random.default_rng((self.seed, list(WORLDS).index(self.world), self.n, self.number))
        labels = [keeping(label) for label in LABELS]
        found = incidents_of(played_year(labels, self.world, self.n, self.weeks, rng))
        lasting = {rule.id for rule in every_rule().rules if rule.accumulates}
        sums = {f"{rule} incidents": float(count) for rule, count in found.items()}
        groups = {"lasting": lasting, "weekly": set(found) - lasting, "all": set(found)}
        for group, rules in groups.items():
            total = float(sum(found[rule] for rule in rules))
            sums |= {f"{group} incidents": total, f"{group} incidents squared": total**2}
        return [Tally("quiet", (self.world, self.n), 1, sums)]


def tasks(years: int, weeks: int, worlds: Sequence[str], sizes: Sequence[int]) -> list[QuietYear]:
    """All years, those of one number side by side, so that what is finished is of all lines alike."""
    return [QuietYear(world, n, number, weeks, SEED) for number in range(years) for world in worlds for n in sizes]


def table(lines: Sequence[Tally]) -> Table:
    """Incidents a year, together and by kind of rule."""
    heads = (
        "rows", "rows a label-week", "years", "weekly rules: incidents", "rules that accumulate: incidents",
        "a year, together", "at most (95%)", "by rule",
    )  # fmt: skip
    rows = tuple(_line(tally) for tally in lines)
    note = (
        "Each year has twenty labels, and a year before it in which only evidence adds up. At most: the larger upper "
        "limit of Student's over the years and of a Poisson count's."
    )
    return Table("Nothing is wrong: incidents of weekly and accumulated rules together", heads, rows, (note,), texts=1)


def _line(tally: Tally) -> tuple[str, ...]:
    world, n = tally.line
    names = [name for name in tally.sums if name.endswith(" incidents")]
    rules = {name.removesuffix(" incidents"): tally.of(name) for name in names if tally.of(name)}
    told = ", ".join(f"{rule} {count:.0f}" for rule, count in rules.items() if rule not in ("all", "weekly", "lasting"))
    return (
        str(world), f"{n:,}", f"{tally.count}", f"{tally.of('weekly incidents'):.0f}",
        f"{tally.of('lasting incidents'):.0f}", f"{tally.share('all incidents'):.3f}",
        f"{tally.upper_mean('all incidents'):.3f}", told or "-",
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quiet", description=str(__doc__).split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look only: seconds instead of minutes")
    parser.add_argument("--years", type=int, default=50, help="years a line (default 50)")
    parser.add_argument("--resume", action="store_true", help="go on with a study that was interrupted")
    parser.add_argument("--workers", type=int, default=WORKERS, help=f"processes (default {WORKERS})")
    parser.add_argument("--notebook", type=Path, default=NOTEBOOK, help="where what is finished is written down")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/statistics.md")
    given = parser.parse_args(arguments)
    if given.years < 1 or (given.quick and given.write_docs):
        parser.error("--years must be at least 1, and --write-docs takes the whole study, not --quick")
    asked = (
        tasks(1, 4, list(WORLDS), SIZES_OF_LABELS[:1])
        if given.quick
        else tasks(given.years, YEAR, list(WORLDS), SIZES_OF_LABELS)
    )
    commit = commit_of(ROOT)
    study = "quick" if given.quick else f"{commit} {YEAR}"
    notebook = Notebook(given.notebook, hashlib.sha256(study.encode()).hexdigest()[:16])
    finished = notebook.resume() if given.resume and given.notebook.exists() else notebook.begin()
    finished = measured(asked, finished, notebook, given.workers)
    lines = gathered(asked, finished)["quiet"]
    table(lines).show(console())
    if given.write_docs:
        spent = sum(durations(asked, {key_of(task): finished[key_of(task)] for task in asked}).values())
        origin = (
            f"Made by `python -m benchmarks.quiet --years {given.years} --write-docs` at commit {commit}, seed {SEED}, "
            f"{spent:,.0f} s of a processor in {given.workers} processes."
        )
        write_between(DOCS, "quiet", f"{origin}\n\n{table(lines).markdown()}")


if __name__ == "__main__":
    main()
