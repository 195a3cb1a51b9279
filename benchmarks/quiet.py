"""Incidents of all shipped weekly rules together, in years in which nothing is wrong.

Twenty labels, whose overconfidence is at most the accepted .02 in every segment, are simulated for two years. In the
first only evidence accumulates. In the second every shipped weekly rule is judged by the functions of a run, those on
shifts included. A rule is judged only in weeks in which it could breach or has an open incident; evidence on changes
in all weeks. That is found for all labels and weeks of a year together, from p-values that are never larger than those
of the run, and from evidence that is never smaller.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
from scipy.special import expit, logit

from benchmarks.populations import LABELS, VERBAL, Bools, Curve, Floats, Ints, Population
from benchmarks.sampling import COPIES
from benchmarks.tables import Table
from benchmarks.tally import Tally
from benchmarks.weeks import SOURCE, Open, Setting, judged, opened, setting, shipped
from monitor.config.model import Config, Rule
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import CELLS, BinCounts, Counts, pool
from monitor.core.promises import BANDS, PastWindow, Promise, Promises, Segment, SegmentPromises, segment_promises
from monitor.core.records import SCORE_BAND, Subject, Verdict
from monitor.evaluation.comparisons import looks_from
from monitor.evaluation.data import RuleInput, SourceData, WindowCounts
from monitor.evaluation.lasting_changes import ChangeRun, parts_of, strand_runs
from monitor.evaluation.rule_metrics import accepted_fall, rows_needed
from monitor.evaluation.week_spread import compared_by, correlations_for, spreads_of
from monitor.inference.between_weeks import ALIKE
from monitor.inference.bins import MOVED_BY, MOVED_SHARE, binned, merge_thin
from monitor.inference.change import ece_increase_ps, mce_increase_ps, mce_level_ps
from monitor.inference.dependence import ClusterSums, design_effect
from monitor.inference.gaps import stack, with_gaps
from monitor.inference.levels import all_promises_of, change_p, law_of
from monitor.inference.maximum import Pair, stays_within
from monitor.inference.sequential import LONGEST, SIZES, evidence_needed, log_e_values

SEED = 20261128  # another one than while the rules were made
MEMORY = LONGEST - 1
"""Weeks before the year, in which evidence accumulates and nothing is judged."""
YEAR, FEWER, SIZES_OF_LABELS = 52, 20, (200, 500, 2_000)
ACCEPTED = 0.02
MARGIN = 1.5
"""Weeks with p-values up to this many times the limit are judged: rounding or a smaller family must lose no breach."""
NEARLY = math.log(1.5)
"""The same margin for log evidence: a family of fewer labels needs less."""
COLUMNS = {"channel": 4, "model_version": 2}
PARTS = math.prod(COLUMNS.values())
POINTS = 256
"""The number of distinct scores of a label: few, so that counting is fast."""
CLUSTERED = 0.3
WOBBLE, MOVES = 0.1, 0.04
SWING, LARGEST = 0.4, 25
"""How far the rows of a season swing, and how many times as many rows the largest label has as the smallest."""
NEARLY_HALF = 0.52
"""One half, with an allowance for rounding."""
PromisesOf = Mapping[Segment | None, Sequence[Promise]]
EFFECTS = ("all", "predicted", "automated")


def weekly_rules(config: Config) -> list[Rule]:
    """The weekly rules that send or act."""
    return [rule for rule in config.rules_for("weekly") if rule.actions]


@cache
def keeping(population: Population) -> Population:
    """The label, calibrated at automated scores that are too high by more than the accepted .02."""
    score = np.arange(round(population.automate_at * CELLS), CELLS + 1) / CELLS
    score = np.clip(score, 1e-6, 1 - 1e-6)
    promised_too_much = float((score - population.curve.worth(score)).max()) > ACCEPTED
    return replace(population, curve=Curve()) if promised_too_much else population


@dataclass(frozen=True, slots=True, eq=False)
class Label:
    """A population as kinds of rows: a kind is a score and, for automated scores, a segment. Arrays of shape (K,).

    ``cell`` are at most :data:`POINTS` scores, ``part`` numbers the combinations of segments (-1: not needed),
    ``chance`` is the share of a kind among the rows, and ``worth`` the share of the kind that comes true.
    ``cells`` (C,) are the distinct scores, and ``starts`` (C,) the first kind of each.
    """

    name: str
    automate_at: float
    cell: Ints
    part: Ints
    chance: Floats
    worth: Floats
    cells: Ints
    starts: Ints

    @property
    def acts(self) -> Bools:
        """Which kinds are automated, shape (K,)."""
        return self.part >= 0


@cache
def kinds_of(population: Population) -> Label:
    """The population with only POINTS scores, each the mean of equally many of its points."""
    points = np.array([part.mean() for part in np.array_split(np.sort(population.scores.points()), POINTS)])
    cells, count = np.unique(np.rint(points * CELLS).astype(np.int64), return_counts=True)
    acts = cells >= round(population.automate_at * CELLS)
    repeats = np.where(acts, PARTS, 1)
    starts = np.cumsum(repeats) - repeats
    cell = np.repeat(cells, repeats)
    part = np.where(np.repeat(acts, repeats), np.arange(len(cell)) - np.repeat(starts, repeats), -1)
    chance = np.repeat(count / repeats, repeats) / POINTS
    return Label(
        population.name, population.automate_at, cell, part, chance, population.curve.worth(cell / CELLS), cells, starts
    )


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Rows and hits of one label by window and kind, both (T, K), and design effects by window (T, 3)."""

    n: Ints
    hits: Floats
    effects: Floats


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """The labels; by name, what is known of each window later (``whole``), and when it is judged (``now``)."""

    labels: Mapping[str, Label]
    whole: Mapping[str, Sums]
    now: Mapping[str, Sums]

    def of(self, label: str, *, now: bool) -> Sums:
        """The sums of a label: as known when a window is judged (``now``), or later."""
        return (self.now if now else self.whole)[label]

    def counts(self, label: str, index: int, *, now: bool) -> Counts:
        """The counts of one window."""
        sums, kinds = self.of(label, now=now), self.labels[label]
        return counts_of(kinds, sums.n[index], sums.hits[index], sums.effects[index])

    def promises(self, label: str, *, now: bool) -> dict[Segment | None, list[Promise]]:
        """The promises of the automated rows in each window: of the label (None) and of each segment."""
        sums, kinds = self.of(label, now=now), self.labels[label]
        segments = masks_of(tuple(kinds.cell.tolist()), tuple(kinds.part.tolist()))
        chosen = np.array(list(segments.values()), dtype=np.float64).T
        n, kept = sums.n @ chosen, sums.hits @ chosen
        claimed = (sums.n * (kinds.cell / CELLS)) @ chosen
        effect = np.maximum(sums.effects[:, 0], sums.effects[:, 2])
        rows = np.maximum(n, 1.0)
        found = np.stack([n / effect[:, None], claimed / rows, kept / rows], axis=2)
        return {
            segment: [
                Promise(round(k), *each) for k, each in zip(n[:, at].tolist(), found[:, at].tolist(), strict=True)
            ]
            for at, segment in enumerate(segments)
        }


@cache
def masks_of(cell: tuple[int, ...], part: tuple[int, ...]) -> dict[Segment | None, Bools]:
    """Segment -> which kinds of a label belong to it, shape (K,); only automated kinds."""
    cells, parts = np.array(cell), np.array(part)
    acts = parts >= 0
    masks: dict[Segment | None, Bools] = {None: acts}
    numbers = dict(zip(COLUMNS, np.unravel_index(np.maximum(parts, 0), tuple(COLUMNS.values())), strict=True))
    masks |= {(c, str(v)): acts & (numbers[c] == v) for c, count in COLUMNS.items() for v in range(count)}
    for name, (low, high) in BANDS.items():
        band = (cells >= round(low * CELLS)) & ((cells < round(high * CELLS)) | (high >= 1))
        masks |= {(SCORE_BAND, name): acts & band} if (acts & band).any() else {}
    return masks


def counts_of(label: Label, n: Ints, hits: Floats, effects: Floats) -> Counts:
    """The counts of rows and hits by kind, both (K,), as in the warehouse; the classifier decides yes from .5 on."""
    rows, kept = np.add.reduceat(n, label.starts), np.add.reduceat(hits, label.starts)
    has_rows = rows > 0
    cell, n, wy = label.cells[has_rows], rows[has_rows], kept[has_rows]
    score, w = cell / CELLS, n.astype(np.float64)
    predicted, (effect_of_all, *acting) = score >= 0.5, effects.tolist()
    return Counts(
        cell=cell, predicted=predicted, automated=predicted & (score >= label.automate_at), n=n, w=w, w2=w,
        ws=w * score, wy=wy, wy2=wy, wsy=wy * score, ws2=w * score * score, design_effect=effect_of_all,
        acting_effects=(acting[0], acting[1]),
    )  # fmt: skip


Made = Callable[[Label, Ints, np.random.Generator], tuple[Sums, Sums]]
Sizes = Callable[[int, int, np.random.Generator], Ints]


def drawn_rows(label: Label, n: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Rows and hits by kind of ``n`` (T,) random rows in each window, both of shape (T, K)."""
    rows = rng.multinomial(n, label.chance / label.chance.sum())
    return rows, rng.binomial(rows, label.worth).astype(np.float64)


def _independent(label: Label, n: Ints, rng: np.random.Generator) -> tuple[Sums, Sums]:
    found = Sums(*drawn_rows(label, n, rng), np.ones((len(n), len(EFFECTS))))
    return found, found


def _with_share(swing: float) -> Made:
    """The share of true items goes up and down by ``swing`` within a year; each class keeps its scores."""

    def made(label: Label, n: Ints, rng: np.random.Generator) -> tuple[Sums, Sums]:
        wave = 1 + swing * np.sin(2 * np.pi * (np.arange(len(n)) / YEAR + rng.random()))
        true, others = (label.chance * of for of in (label.worth, 1 - label.worth))
        of_true = wave[:, None] * true
        chance = of_true + (1 - wave[:, None] * true.sum()) / others.sum() * others
        rows = rng.multinomial(n, chance / chance.sum(axis=1, keepdims=True))
        found = Sums(rows, rng.binomial(rows, of_true / chance).astype(np.float64), np.ones((len(n), len(EFFECTS))))
        return found, found

    return made


def _late(label: Label, n: Ints, rng: np.random.Generator) -> tuple[Sums, Sums]:
    now, _ = _independent(label, n // 2, rng)
    later, _ = _independent(label, n - n // 2, rng)
    return replace(now, n=now.n + later.n, hits=now.hits + later.hits), now


def _wobbling(label: Label, n: Ints, rng: np.random.Generator) -> tuple[Sums, Sums]:
    """The logit of every score is off by another error each week; here the truth is, at the same scores."""
    off = rng.normal(0.0, WOBBLE, len(n))
    rows = rng.multinomial(n, label.chance / label.chance.sum())
    hits = rng.binomial(rows, expit(logit(label.worth) + off[:, None])).astype(np.float64)
    found = Sums(rows, hits, np.ones((len(n), len(EFFECTS))))
    return found, found


def _levels_move(label: Label, n: Ints, rng: np.random.Generator) -> tuple[Sums, Sums]:
    """The share of each of seven levels of scores moves by up to four points a week; what a score is worth does not."""
    level = np.searchsorted(VERBAL[1:], label.cell / CELLS, side="right")
    share = np.bincount(level, label.chance, minlength=len(VERBAL))
    now = (share + rng.uniform(-MOVES, MOVES, (len(n), len(share)))).clip(0.0)
    times = np.where(share > 0, now / np.where(share > 0, share, 1.0), 0.0)
    chance = label.chance * times[:, level]
    rows = rng.multinomial(n, chance / chance.sum(axis=1, keepdims=True))
    hits = rng.binomial(rows, label.worth).astype(np.float64)
    found = Sums(rows, hits, np.ones((len(n), len(EFFECTS))))
    return found, found


def _wrong_late(label: Label, n: Ints, rng: np.random.Generator) -> tuple[Sums, Sums]:
    """Items on which the classifier decided wrongly get their truth, and so their window, a week later.

    That changes what a week shows since the label has up to a fifth more rows or fewer in each week.
    """
    all_rows = np.concatenate([n[:1], n]) * rng.uniform(0.8, 1.2, len(n) + 1)
    rows, hits = drawn_rows(label, np.rint(all_rows).astype(np.int64), rng)
    yes = label.cell >= CELLS // 2
    right, wrong = np.where(yes, hits, rows - hits)[1:], np.where(yes, rows - hits, hits)[:-1]
    found = Sums(np.rint(right + wrong).astype(np.int64), np.where(yes, right, wrong), np.ones((len(n), len(EFFECTS))))
    return found, found


def _clustered(label: Label, n: Ints, rng: np.random.Generator) -> tuple[Sums, Sums]:
    """Three in ten rows are in clusters of five copies, which have one segment and a cluster key."""
    copied = np.rint(CLUSTERED * n / COPIES).astype(np.int64)
    once, single = drawn_rows(label, copied, rng), drawn_rows(label, n - copied * COPIES, rng)
    effects = effects_of(label, [(COPIES, *once), (1, *single)])
    found = Sums(COPIES * once[0] + single[0], COPIES * once[1] + single[1], effects)
    return found, found


def effects_of(label: Label, parts: Sequence[tuple[int, Ints, Floats]]) -> Floats:
    """The design effects of all, predicted and automated rows of each window, as computed by the warehouse.

    ``parts`` are (copies of each row, rows and hits without their copies).
    """
    score = label.cell / CELLS
    found = []
    for least in (0.0, 0.5, label.automate_at):
        chosen = (label.cell >= round(least * CELLS)).astype(np.float64)
        each: list[dict[str, Floats]] = []
        for m, rows, hits in parts:
            n, r = rows @ chosen, hits @ chosen - (rows * score) @ chosen
            squares = (rows * score**2 + hits * (1 - 2 * score)) @ chosen
            of_clusters = {"aa": m**2 * squares, "aw": m**2 * r, "cc": m**2 * n}
            each.append({**of_clusters, "r": m * r, "w": m * n, "rr": m * squares, "rw": m * r, "ww": m * n})
        sums = {name: np.sum([part[name] for part in each], axis=0).tolist() for name in each[0]}
        windows = range(len(sums["w"]))
        found.append([design_effect(ClusterSums(**{name: of[at] for name, of in sums.items()})) for at in windows])
    return np.array(found).T


def _even(n: int, windows: int, rng: np.random.Generator) -> Ints:
    return np.full((len(LABELS), windows), n)


def _seasons(n: int, windows: int, rng: np.random.Generator) -> Ints:
    """All labels 40% up and down within a year."""
    wave = 1 + SWING * np.sin(2 * np.pi * (np.arange(windows) / YEAR + rng.random()))
    return np.asarray(np.rint(_even(n, windows, rng) * wave), dtype=np.int64)


def _tripled(n: int, windows: int, rng: np.random.Generator) -> Ints:
    """All labels have three times as many rows in every tenth week, at random."""
    return np.asarray(_even(n, windows, rng) * np.where(rng.random(windows) < 0.1, 3, 1))


def _unequal(n: int, windows: int, rng: np.random.Generator) -> Ints:
    """Labels from an eighth to about three times of ``n``, which is their mean."""
    sizes = rng.permutation(np.geomspace(1, LARGEST, len(LABELS)))
    return np.asarray(np.rint(np.repeat(n * sizes[:, None] / sizes.mean(), windows, axis=1)), dtype=np.int64)


WORLDS: dict[str, tuple[Made, Sizes]] = {
    "as they come": (_independent, _even),
    "clusters": (_clustered, _even),
    "late truths": (_late, _even),
    "seasons": (_independent, _seasons),
    "labels of unequal size": (_independent, _unequal),
    "share of true items, 20% up and down": (_with_share(0.2), _even),
    "share of true items, 40% up and down": (_with_share(0.4), _even),
    "late truths, seasons, unequal sizes": (_late, lambda *of: _seasons(*of) * _unequal(*of) // of[0]),
    "scores wobble by .1 of logit": (_wobbling, _even),
    "shares of score levels move by 4 points": (_levels_move, _even),
    "wrong items a week later": (_wrong_late, _even),
    "three times the rows in some weeks": (_independent, _tripled),
}
"""Name -> functions that draw the sums of a label, as known in the end and when each window is judged, and the rows of
each label in each window."""


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """A simulated year: windows, of which those from ``first`` on are judged, with their rows and all rules."""

    place: Setting
    world: World
    first: int

    @property
    def judged(self) -> range:
        """The indices of the windows that are judged."""
        return range(self.first, len(self.place.windows))

    def together(self, label: str, index: int, depth: int) -> Counts:
        """The pooled counts of ``depth`` windows up to ``index``, as in a run."""
        return pool([self.world.counts(label, index - back, now=back == 0) for back in range(depth)])

    def sums(self, label: str, depth: int) -> tuple[Ints, Floats, Floats]:
        """Rows and hits by kind (J, K), and design effect (J,), of ``depth`` windows up to each judged one."""
        now, whole = self.world.of(label, now=True), self.world.of(label, now=False)
        back = [(now, np.array(self.judged)), *((whole, np.array(self.judged) - k) for k in range(1, depth))]
        n, hits = sum(each.n[at] for each, at in back), sum(each.hits[at] for each, at in back)
        score = self.world.labels[label].cell / CELLS
        squares = np.array([_squared_residuals(each.n[at], each.hits[at], score) for each, at in back])
        effects = np.array([each.effects[at, 0] for each, at in back])
        return n, hits, (effects * squares).sum(axis=0) / squares.sum(axis=0)

    def data(self, index: int, promises: Mapping[tuple[str, bool], PromisesOf]) -> SourceData:
        """The data of a run of one window; ``promises`` are those of all windows, by (label, as judged or later).

        Without them also without a past: for rules that use neither.
        """
        depth = self.place.config.evaluation.pool_weeks
        current, *earlier = (self._window(index - back, promises, now=back == 0) for back in range(depth))
        past = tuple(self._past(at, promises) for at in range(index - 1, index - MEMORY - 1, -1) if promises)
        return SourceData(SOURCE, current, tuple(earlier), baselines=self.place.baselines, past=past)

    def _window(self, index: int, promises: Mapping[tuple[str, bool], PromisesOf], *, now: bool) -> WindowCounts:
        counts: dict[str | None, Counts] = {name: self.world.counts(name, index, now=now) for name in self.world.labels}
        parts = self._segments(index, promises, now=now) if promises else {}
        return WindowCounts(self.place.windows[index], counts, {}, segments=parts)

    def _segments(
        self, index: int, promises: Mapping[tuple[str, bool], PromisesOf], *, now: bool
    ) -> dict[str | None, dict[Segment, Promises]]:
        found: dict[str | None, dict[Segment, Promises]] = {}
        for name in self.world.labels:
            every = {s: each[index] for s, each in promises[name, now].items() if s is not None and s[0] in COLUMNS}
            parts: dict[Segment, Promises] = {
                segment: {"automated": each} for segment, each in every.items() if each.rows
            }
            found[name] = {**kept_of(self.world, name, index, now=now)[1], **parts}
        return found

    def _past(self, index: int, promises: Mapping[tuple[str, bool], PromisesOf]) -> PastWindow:
        labels: dict[str | None, Promises] = {
            name: kept_of(self.world, name, index, now=False)[0] for name in self.world.labels
        }
        return PastWindow(self.place.windows[index], labels, segments=self._segments(index, promises, now=False))


@lru_cache(maxsize=16_384)
def kept_of(world: World, label: str, index: int, *, now: bool) -> tuple[Promises, SegmentPromises]:
    """What the history keeps of one window: the promises of a label, and those of its bands of scores."""
    counts = world.counts(label, index, now=now)
    return all_promises_of(counts), segment_promises({label: counts}, {})[label]


def _squared_residuals(n: Ints, hits: Floats, score: Floats) -> Floats:
    """The sum of (y - s - mean)^2 over the rows of each window, (J,)."""
    rows, r = n.sum(axis=1), (hits - n * score).sum(axis=1)
    return np.asarray((n * score**2 + hits * (1 - 2 * score)).sum(axis=1) - r**2 / np.maximum(rows, 1))


# Which weeks may have a breach


def smallest_ps(rule: Rule, played: Played) -> Floats:
    """The smallest p-value that a run could compute, however many windows it pools: shape (labels, judged windows).

    1 if the value is not beyond the threshold, since that is no breach; 0 if scores moved.
    """
    config = played.place.config
    source = config.sources[SOURCE]
    names = [name for name in played.world.labels if rule.applies_to(SOURCE, name, critical=source.is_critical(name))]
    found: Floats = np.ones((len(names), len(played.judged)))
    deepest, least = config.evaluation.pool_weeks, rows_needed(rule, config.evaluation)
    fewest = min(looks_from(rule, config.evaluation), least)
    for depth in range(1, deepest + 1):
        for place, name in enumerate(names):
            n, hits, effect = played.sums(name, depth)
            # a run uses fewer rows than needed if there are no more, or of the windows since one that was fine
            needed = fewest if depth < deepest else 0
            enough = n @ _population(rule, played.world.labels[name]) >= needed
            p_values = _binned_ps if rule.metric in ("ece", "mce") else _plain_ps
            p = p_values(rule, played, name, depth, (n, hits, effect)) * (depth if rule.compares else 1)
            found[place] = np.minimum(found[place], np.where(enough, p, 1.0))
    return found


def _population(rule: Rule, label: Label) -> Ints:
    """The indices of the kinds that the rule is about."""
    return (label.acts if rule.where == "automated" else np.ones(len(label.cell), dtype=bool)).astype(np.int64)


def _binned_ps(rule: Rule, played: Played, name: str, depth: int, sums: tuple[Ints, Floats, Floats]) -> Floats:
    """The p-values of a rule on ECE or MCE for each judged window, (J,), in the bins of the baseline."""
    base, evaluation = played.place.baselines[name], played.place.config.evaluation
    then = binned(base.counts, base.edges["all"])
    tables, moved = tables_of(played, name, depth)
    if rule.condition != "increase":
        merged = [merge_thin((now,))[0] for now in tables]
        return np.where(moved > MOVED_SHARE, 0.0, mce_level_ps(merged, rule.threshold))
    found = np.ones(len(tables))
    pairs: list[Pair] = [(now, then) for now in tables]
    if rule.metric == "ece":
        found = np.array(ece_increase_ps(pairs, confidence=evaluation.confidence))
    else:
        pairs = [(now, then) for pair in pairs for now, then in [merge_thin(pair)]]
        near = np.flatnonzero(_mce_is_beyond([now for now, _ in pairs], rule.threshold))
        found[near] = mce_increase_ps([pairs[at] for at in near])
    return np.where(moved > MOVED_SHARE, 0.0, found)


def bins_of(label: Label, base: Baseline) -> Floats:
    """Which kinds are in which bin of the baseline, 1 or 0, shape (K, bins)."""
    upper = np.asarray(base.edges["all"], dtype=np.int64)
    index = np.minimum(np.searchsorted(upper, label.cell, side="left"), len(upper) - 1)
    return np.asarray(index[:, None] == np.arange(len(upper)), dtype=np.float64)


@lru_cache(maxsize=128)  # three rules use the same bins, of twenty labels at four depths
def tables_of(played: Played, name: str, depth: int) -> tuple[list[BinCounts], Floats]:
    """The bins of a label in each judged window, and the share of rows in bins whose mean score has moved, (J,).

    If it is more than a fifth, a run makes other bins.
    """
    label, base = played.world.labels[name], played.place.baselines[name]
    (n, hits, effect), upper = played.sums(name, depth), np.asarray(base.edges["all"], dtype=np.int64)
    chosen = bins_of(label, base)
    rows, ws, wy = n @ chosen, (n * (label.cell / CELLS)) @ chosen, hits @ chosen
    each = zip(rows.astype(np.int64), rows, ws, wy, rows / effect[:, None], strict=True)
    then = binned(base.counts, base.edges["all"])
    elsewhere = (then.n == 0) | (np.abs(ws / np.maximum(rows, 1) - then.score) > MOVED_BY)
    return [BinCounts(upper, *one) for one in each], (rows * elsewhere).sum(axis=1) / np.maximum(rows.sum(axis=1), 1)


def _mce_is_beyond(merged: Sequence[BinCounts], threshold: float) -> Bools:
    """Whether the debiased MCE may be above the threshold, (J,). A larger one in the baseline makes the rise smaller.

    It is above if gaps shrunk to this error would show the observed largest gap in less than half of all samples.
    """
    tables = stack(merged)
    largest = np.abs(tables.gap).max(axis=1)
    gap = np.maximum(np.abs(tables.gap) - np.maximum(largest - threshold, 0.0)[:, None], 0.0)
    within = stays_within(largest[:, None], tables.n, tables.score, with_gaps(tables, gap))
    shown = 1 - np.where(tables.share > 0, within, 1.0).prod(axis=1)
    return np.asarray((largest > threshold) & (shown < NEARLY_HALF))


def _plain_ps(rule: Rule, played: Played, name: str, depth: int, sums: tuple[Ints, Floats, Floats]) -> Floats:
    """The p-values of any other rule for each judged window, (J,): 1 if the value is not beyond the threshold."""
    base, found = played.place.baselines[name], np.ones(len(played.judged))
    value = _values(str(rule.metric), played.world.labels[name], *sums[:2])
    level, upwards = rule.threshold, rule.condition == "above"
    if rule.condition == "decrease":
        level = (0.0 if (law := law_of(str(rule.metric), base.counts)) is None else law.value) - rule.threshold
    beyond = np.isfinite(value) & ((value > level - 1e-9) if upwards else (value < level + 1e-9))
    for place in np.flatnonzero(beyond):
        counts = played.together(name, played.judged[place], depth).where(rule.where)
        if rule.condition == "decrease":
            accepted = accepted_fall(rule)
            found[place] = change_p(str(rule.metric), counts, base.counts, falls=True, accepted=accepted) or 0.0
        else:
            law = law_of(str(rule.metric), counts)
            found[place] = 1.0 if law is None else law.p_value(level, "above" if upwards else "below")
    return found


def _values(metric: str, label: Label, n: Ints, hits: Floats) -> Floats:
    """A metric's value in each judged window, (J,); NaN if it has none."""
    score, misses = label.cell / CELLS, n - hits
    with np.errstate(invalid="ignore", divide="ignore"):
        if metric == "automated_accuracy":
            return np.asarray((hits @ label.acts) / (n @ label.acts))
        if metric == "overconfidence":
            return np.asarray(((n * score - hits) @ label.acts) / (n @ label.acts))
        if metric == "false_negative_rate":
            return np.asarray(hits @ (score < 0.5) / hits.sum(axis=1))
        if metric == "roc_auc":
            # kinds with the same score are tied, so they are added up by score
            kept, lost = (np.add.reduceat(each, label.starts, axis=1) for each in (hits, misses))
            pairs = kept.sum(axis=1) * lost.sum(axis=1)
            return np.asarray((kept * (np.cumsum(lost, axis=1) - lost / 2)).sum(axis=1) / pairs)
    raise ValueError(f"{metric}: no rule on it was shipped when this was written")


def may_breach(rule: Rule, played: Played) -> Bools:
    """The judged windows in which the rule could breach for any label, shape (judged windows,)."""
    if rule.accumulates:
        return _may_accumulate(rule, played)
    p, config = np.sort(smallest_ps(rule, played), axis=0), played.place.config
    adjusted = (p * len(p) / np.arange(1, len(p) + 1)[:, None]).min(axis=0) * config.decision_rules("weekly")
    return np.asarray(adjusted < MARGIN * config.evaluation.false_discovery_rate)


def _may_accumulate(rule: Rule, played: Played) -> Bools:
    """By the evidence of all windows, neither capped nor limited to a year: it is never smaller than a run's."""
    evidence = evidence_of_change if rule.evidence == "accumulated" else _evidence
    labels = np.array([evidence(rule, played, name) for name in played.world.labels])[:, list(played.judged)]
    found = [evidence_needed(each, rule.average_run_length) - NEARLY <= each.max() for each in labels.T]
    return np.array(found)


def _evidence(rule: Rule, played: Played, name: str) -> Floats:
    """The log evidence of one label after each window, shape (windows,)."""
    whole, now = (played.world.promises(name, now=each) for each in (False, True))
    segments = [segment for segment in now if (segment is not None) == (rule.scope == "segments")]
    return _mean([rule.threshold] * len(segments), [whole[each] for each in segments], [now[each] for each in segments])


def evidence_of_change(rule: Rule, played: Played, name: str) -> Floats:
    """The same of a change from the baseline, with the smallest margin that a run could use.

    The margin has the error of the baseline: it is smallest where the bands of a strand have shares of the rows in
    proportion to 1 / variance, whatever the rows of the windows that a run takes together.
    """
    base, windows, world = played.place.baselines[name], tuple(played.place.windows), played.world
    known = (False,) if world.now[name] is world.whole[name] else (False, True)
    parts = [parts_of(rule, world.counts(name, at, now=now)) for now in known for at in range(len(windows))]
    then = {band: part for band, part in parts_of(rule, base.counts).items() if any(band in each for each in parts)}
    week = correlations_for(rule, played.place.baselines).get(name, ALIKE)
    given = RuleInput(Subject(SOURCE, name), windows[-1], baseline=base, week=week)
    runs, _ = strand_runs(rule, ChangeRun(windows * len(known), tuple(parts), then), given)
    rates = {band: (part.kept * part.effective + 0.5) / (part.effective + 1) for band, part in then.items()}
    surest = {
        band: replace(part, effective=part.effective / (rates[band] * (1 - rates[band]))) for band, part in then.items()
    }
    _, margins = strand_runs(rule, ChangeRun(windows[:1], (surest,), then), given)
    promises = [[promise for _, promise in each] for each in runs]
    return _mean(margins, [each[: len(windows)] for each in promises], [each[-len(windows) :] for each in promises])


def _mean(margins: Sequence[float], whole: Sequence[Sequence[Promise]], now: Sequence[Sequence[Promise]]) -> Floats:
    """The log of the mean evidence after each window: of all parts, by as few as have rows in the newest one."""
    rows = np.array([[promise.rows > 0 for promise in part] for part in now]).sum(axis=0)
    return np.asarray(np.logaddexp.reduce(_grown(margins, whole, now), axis=0) - np.log(np.maximum(rows, 1)))


def _grown(margins: Sequence[float], whole: Sequence[Sequence[Promise]], now: Sequence[Sequence[Promise]]) -> Floats:
    """The log of R after each window, whose newest one is as known ``now``: shape (series, windows)."""
    shape = (len(whole), len(whole[0]), len(SIZES))
    of_each = np.repeat(margins, shape[1])
    full, newest = (
        log_e_values([each for series in known for each in series], of_each).reshape(shape) for known in (whole, now)
    )
    parts, first, path = np.full((shape[0], shape[2]), -np.inf), -math.log(len(SIZES)), np.zeros(shape[:2])
    for at in range(shape[1]):
        begun = np.logaddexp(parts, first)
        path[:, at] = np.logaddexp.reduce(begun + newest[:, at], axis=1)
        parts = begun + full[:, at]
    return path


# Years


def incidents_of(played: Played, *, every_week: bool = False) -> Counter[str]:
    """The incidents that each rule opens. ``every_week`` judges all weeks, which is slow and has the same result."""
    open_now: Open = {}
    found: Counter[str] = Counter()
    for verdicts in judged_weeks(played, open_now, every_week=every_week):
        found += opened(verdicts, open_now)
    return found


def judged_weeks(played: Played, open_now: Open, *, every_week: bool = False) -> Iterator[list[Verdict]]:
    """The verdicts of each week, of rules that must be judged. The caller updates ``open_now`` before the next.

    A rule must be where it could breach for a label, and while it has an open incident.
    """
    config = played.place.config
    rules = weekly_rules(config)
    possible = {rule.id: may_breach(rule, played) for rule in rules if not every_week}
    every: dict[tuple[str, bool], PromisesOf] = {}
    for place, index in enumerate(played.judged):
        is_open = {rule for (rule, _), each in open_now.items() if each.state != "resolved"}
        due = [rule for rule in rules if every_week or possible[rule.id][place] or rule.id in is_open]
        if not due:
            continue
        deep = any(rule.accumulates or rule.scope == "segments" for rule in due)
        if deep and not every:
            keys = [(name, now) for name in played.world.labels for now in (False, True)]
            every = {(name, now): played.world.promises(name, now=now) for name, now in keys}
        data = played.data(index, every if deep else {})
        yield judged(data, config, due)


@cache
def windows_of(n: int, weeks: int) -> Setting:
    """The windows and baseline spans for ``n`` rows; the baselines themselves are drawn anew for every year."""
    return setting(LABELS, n, MEMORY + weeks, np.random.default_rng(SEED))


def played_year(labels: Sequence[Population], world: str, n: int, weeks: int, rng: np.random.Generator) -> Played:
    """Simulate a year of these labels in one of the worlds, with a year before it."""
    place, (draw, sizes) = windows_of(n, weeks), WORLDS[world]
    kinds = {label.name: kinds_of(label) for label in labels}
    rows = dict(zip(kinds, sizes(n, MEMORY + weeks, rng), strict=False))
    both = {name: draw(kind, rows[name], rng) for name, kind in kinds.items()}
    baselines: dict[str | None, Baseline] = {
        name: pinned(place.baselines[name], kind, rows[name].mean() / n, draw, rng) for name, kind in kinds.items()
    }
    found = World(kinds, {name: each[0] for name, each in both.items()}, {name: each[1] for name, each in both.items()})
    return Played(replace(place, config=shipped(), baselines=baselines), found, MEMORY)


def pinned(base: Baseline, label: Label, share: float, made: Made, rng: np.random.Generator) -> Baseline:
    """The baseline with ``share`` times as many rows, but not too few to be pinned, drawn anew week by week."""
    rows, weeks = max(round(base.counts.rows * share), shipped().baseline.min_pairs), (base.end - base.start).days // 7
    whole, _ = made(label, np.full(weeks, math.ceil(rows / weeks)), rng)
    parts = [counts_of(label, *each) for each in zip(whole.n, whole.hits, whole.effects, strict=True)]
    counts = pool(parts)
    edges = edges_of(counts, shipped().evaluation)
    return replace(base, counts=counts, edges=edges, weeks=spreads_of(parts, edges, compared_by(shipped())))


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
        """The approximate seconds."""
        return 25.0 * self.weeks / YEAR

    def run(self) -> list[Tally]:
        """The tally of the incidents of the year."""
        rng = np.random.default_rng((self.seed, list(WORLDS).index(self.world), self.n, self.number))
        labels = [keeping(label) for label in LABELS]
        found = incidents_of(played_year(labels, self.world, self.n, self.weeks, rng))
        lasting = {rule.id for rule in shipped().rules if rule.accumulates}
        sums = {f"{rule} incidents": float(count) for rule, count in found.items()}
        acting = {rule.id for rule in shipped().rules if rule.acts}
        groups = {"lasting": lasting, "weekly": set(found) - lasting, "acting": acting, "all": set(found)}
        for group, rules in groups.items():
            total = float(sum(found[rule] for rule in rules))
            sums |= {f"{group} incidents": total, f"{group} incidents squared": total**2}
        return [Tally("quiet", (self.world, self.n), 1, sums)]


def years(number: int, weeks: int, sizes: Sequence[int]) -> list[QuietYear]:
    """The tasks, ordered by number, so that all lines of the table progress equally.

    Where the share of true items changes, much is judged, and a year takes five times as long: there are at most
    :data:`FEWER` of them.
    """
    return [
        QuietYear(world, n, year, weeks, SEED)
        for year in range(number)
        for world in WORLDS
        for n in sizes
        if year < FEWER or not world.startswith("share of")
    ]


def table(lines: Sequence[Tally]) -> Table:
    """The table of incidents a year, together and by kind of rule."""
    heads = (
        "rows", "rows a label-week", "years", "weekly rules: incidents", "rules that accumulate: incidents",
        "a year, together", "at most (95%)", "switch-offs a year", "by rule",
    )  # fmt: skip
    rows = tuple(_line(tally) for tally in lines)
    note = (
        "Each year has twenty labels, and a year before it in which only evidence adds up. At most: the larger upper "
        "limit of Student's over the years and of a Poisson count's. Switch-offs: incidents of rules that act."
    )
    return Table("Nothing is wrong: incidents of weekly and accumulated rules together", heads, rows, (note,), texts=1)


def _line(tally: Tally) -> tuple[str, ...]:
    world, n = tally.line
    names = [name for name in tally.sums if name.endswith(" incidents")]
    rules = {name.removesuffix(" incidents"): tally.of(name) for name in names if tally.of(name)}
    text = ", ".join(
        f"{rule} {count:.0f}" for rule, count in rules.items() if rule not in ("all", "weekly", "lasting", "acting")
    )
    return (
        str(world), f"{n:,}", f"{tally.count}", f"{tally.of('weekly incidents'):.0f}",
        f"{tally.of('lasting incidents'):.0f}", f"{tally.share('all incidents'):.3f}",
        f"{tally.upper_mean('all incidents'):.3f}", f"{tally.share('acting incidents'):.3f}", text or "-",
    )  # fmt: skip
