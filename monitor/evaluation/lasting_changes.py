"""Rules with ``evidence: accumulated``: did a label get worse than its baseline, by the evidence of up to a year?

The e-values are those of :mod:`monitor.inference.sequential`, of rows that promise what the baseline makes expect of
them: its accuracy, its share of pairs in order (the AUC), or their score less what scores of their band promised too
much then. Accepted is the baseline's own error, up to a one-sided limit of :data:`SURE`, and a sixth of the threshold.
So for a label whose baseline was no luckier than that, R is the detector that it is elsewhere, since all its
expectations are given the baseline. A luckier one has the rest of the threshold, which the change must exceed as well.

A week's rows count as few as they are worth where weeks differ (:mod:`monitor.inference.between_weeks`) by as much as
may be: what is off by too much each week would add up.

*A rise of the ECE* is gaps that grew, whatever their sign. Which ones is not known before, so that evidence is the mean
over :data:`STRANDS`: scores of one band, of all, or on both sides of one half in opposite directions (too extreme, as
after a change of temperature; Cox 1958), each too high and too low. A mean of detectors is a detector, and signed gaps
keep their sign from week to week while noise does not, which a sum of ECEs cannot tell.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from scipy.special import ndtri

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.counts import Counts, Floats
from monitor.core.promises import APART, BANDS, PastWindow, Promise, bands_of, columns, pooled_promise, promise_of
from monitor.core.records import SCORE_BAND, Comparison, Interval, Window
from monitor.core.verdict_detail import VerdictDetail
from monitor.evaluation.accumulated import (
    SHOWN,
    Proof,
    Run,
    law_of_promise,
    mean_evidence,
    newest_alone,
    paths_of,
    population_of,
    proofs,
    rounded_evidence,
    value_of,
)
from monitor.evaluation.comparisons import judged
from monitor.evaluation.data import RuleInput, SourceData, WindowCounts, evidence_windows, promise_in, rows_in
from monitor.evaluation.rule_metrics import (
    RuleSample,
    accepted_fall,
    exceeds_threshold,
    explained_by_mix,
    in_bins,
)
from monitor.evaluation.week_spread import weeks_of
from monitor.inference.bins import pool_bins
from monitor.inference.change import mover
from monitor.inference.class_mix import class_mix, in_bands
from monitor.inference.gaps import GapTables, analytic_limits, farther
from monitor.inference.memory import kept_with
from monitor.inference.sequential import LONGEST, detectable_overconfidence

SURE = 0.95
"""The baseline is taken to be as much better than it was as it may be with this probability."""
LATELY = 4
"""The windows that tell together whether the share of true items changed."""
ALL = "all scores"
Strand = tuple[tuple[str, int], ...]
"""Bands of scores with the direction in which their gaps are looked for: 1 too high, -1 too low."""
STRANDS: tuple[Strand, ...] = tuple(
    tuple((name, side * way) for name, side in parts)
    for parts in (
        *(((name, 1),) for name in BANDS),
        tuple((name, 1) for name in APART),
        tuple((name, -1 if BANDS[name][1] <= 0.5 else 1) for name in APART),
    )
    for way in (1, -1)
)
ONE: tuple[Strand, ...] = (((ALL, 1),),)
Parts = Mapping[str, Promise]
"""What the rows of each band claimed, and what came true; of other metrics than the ECE one part, :data:`ALL`."""


@dataclass(frozen=True, slots=True, eq=False)
class ChangeRun:
    """The windows of a label whose evidence adds up, oldest first, with their parts, and those of its baseline."""

    windows: tuple[Window, ...]
    parts: tuple[Parts, ...]
    then: Parts

    def since(self, start: int) -> Parts:
        """The parts of all windows from an index on, taken together."""
        each = {name: [parts[name] for parts in self.parts[start:] if name in parts] for name in self.then}
        return {name: pooled_promise(found) for name, found in each.items() if found}

    @property
    def digest(self) -> str:
        """A hash of all numbers."""
        numbers = columns([[parts.get(name) for name in self.then] for parts in self.parts]).round(9).tolist()
        return hashlib.sha256(repr((*(window.name for window in self.windows), numbers)).encode()).hexdigest()[:16]


def change_run(rule: Rule, rule_input: RuleInput, data: SourceData) -> ChangeRun | None:
    """The windows of a label with what a rule needs of each; None if it has no such row now, or no baseline."""
    label, baseline = rule_input.subject.label, rule_input.baseline
    if baseline is None or label not in data.current.labels:
        return None
    then = parts_of(rule, baseline.counts)
    dated: list[tuple[Window, Parts]] = []
    for window in islice(evidence_windows(data, label), LONGEST):
        parts = {name: part for name, part in _parts_in(rule, window, label).items() if name in then}
        dated += [(window.window, parts)] if parts else []
    if not dated or dated[0][0] != rule_input.window:
        return None
    dated.reverse()
    return ChangeRun(tuple(window for window, _ in dated), tuple(parts for _, parts in dated), then)


def _parts_in(rule: Rule, window: WindowCounts | PastWindow, label: str | None) -> Parts:
    if rule.measure != "ece":
        return _whole(rule, window.promise(label, population_of(rule)))
    kept = window.segments.get(label, {})
    if not kept and isinstance(window, WindowCounts):
        return parts_of(rule, window.labels[label]) if label in window.labels else {}
    found = {name: kept.get((SCORE_BAND, name), {}).get(rule.where) for name in BANDS}
    return {name: part for name, part in found.items() if part is not None and part.effective > 0}


def parts_of(rule: Rule, counts: Counts) -> Parts:
    """What the rows of each band claimed and what came true, in counts."""

    def bands() -> Parts:
        found = {name: promise_of(part) for (_, name), part in bands_of(rows_in(rule.where, counts))}
        return {name: part for name, part in found.items() if part is not None and part.effective > 0}

    if rule.measure == "ece":
        return kept_with(counts, ("bands", rule.where), bands)
    return _whole(rule, promise_in(counts, population_of(rule)))


def _whole(rule: Rule, promise: Promise | None) -> Parts:
    if promise is None or not promise.effective > 0:
        return {}
    return {ALL: promise if rule.measure == "overconfidence" else replace(promise, promised=1.0)}


# --- evidence


def strand_runs(
    rule: Rule, run: ChangeRun, rule_input: RuleInput, times: Floats | None = None
) -> tuple[list[Run], list[float]]:
    """The rows of each strand in each window, as the baseline makes expect them, and what is accepted of each strand.

    A window without rows of a strand is worth no row of it; a strand without any row is left out. ``times`` (W, 2) say
    how many times as frequent true items and others are in each window as in the baseline (None: once).
    """
    names, strands = list(run.then), STRANDS if rule.measure == "ece" else ONE
    of_names = [{name: way for name, way in strand if name in run.then} for strand in strands]
    way = np.array([[strand.get(name, 0.0) for name in names] for strand in of_names if strand]).T
    rows, n, promised, kept = columns([[parts.get(name) for name in names] for parts in run.parts])
    rows0, n0, promised0, kept0 = columns([list(run.then.values())])
    way = way[:, (n.sum(axis=0) @ np.abs(way)) > 0]
    among, turned = np.abs(way), way < 0
    total = n @ among
    of_true, of_others = np.hsplit(np.ones((1, 2)) if times is None else times, 2)
    true, others = kept0 * of_true, (1 - kept0) * of_others
    expected = np.clip(promised - (promised0 - true / (true + others)), 0.0, 1.0)
    claimed, found = ((n * of @ way + n @ turned) / np.maximum(total, 1e-9) for of in (expected, kept))
    worth = total / (1 + rule_input.week.most * (rows @ among))
    rate = (kept0 * n0 + 0.5) / (n0 + 1)
    weight = n.sum(axis=0)[:, None] * among / total.sum(axis=0)
    variance = (rate * (1 - rate) / n0) @ weight**2
    variance *= 1 + rule_input.week.most * (rows0 @ among) / weeks_of(rule, rule_input.baseline)
    margins = accepted_fall(rule) + float(ndtri(SURE)) * np.sqrt(variance[0])
    each = zip(*(of.T.tolist() for of in (rows @ among, worth, claimed, found)), strict=True)
    runs: list[Run] = [[(w, Promise(*of)) for w, *of in zip(run.windows, *parts, strict=True)] for parts in each]
    return runs, margins.tolist()


def accumulate_changes(
    rule: Rule, family: Sequence[RuleInput], data: SourceData, evaluation: EvaluationConfig
) -> list[Comparison]:
    """The evidence of one rule on a change of each of several labels; see :func:`accumulate`, which is of levels."""
    runs = [change_run(rule, rule_input, data) for rule_input in family]
    has_rows = [
        bool(each.counts) and (run is not None or each.baseline is None) for each, run in zip(family, runs, strict=True)
    ]

    def measured(places: Sequence[int]) -> list[Comparison]:
        of_places = [(family[at], run) for at in places if (run := runs[at]) is not None]
        strands = [strand_runs(rule, run, rule_input) for rule_input, run in of_places]
        proved = zip(of_places, proofs(rule, strands, evaluation), strict=True)
        labels = [(rule_input, run, proof) for (rule_input, run), proof in proved]
        # the windows since the likely start of a suspected change, and the baseline
        parts = [[run.since(proof.lead.start), run.then, *run.parts[-SHOWN:]] for _, run, proof in labels]
        values = iter(_measured(rule, [one for each in parts for one in each], evaluation.confidence))
        every = zip(labels, parts, strict=True)
        return [_comparison(rule, each, of, [next(values) for _ in of], evaluation) for each, of in every]

    return judged(rule, family, has_rows, measured)


# --- numbers

Proved = tuple[RuleInput, ChangeRun, Proof]
"""A label with its windows and the evidence of each of its strands."""


def _comparison(
    rule: Rule, label: Proved, parts: Sequence[Parts], values: Sequence[Interval], evaluation: EvaluationConfig
) -> Comparison:
    rule_input, run, proof = label
    lead, shared = proof.lead, proof.detail
    now, then, *newest = values
    low, high = mover(then, now)
    beyond = exceeds_threshold(rule, now, then)
    rows = [sum(part.rows for name, part in each.items() if name in (ALL, *APART)) for each in parts]
    windows = len(run.windows) - lead.start
    # what all rows could have shown; a strand of few rows could have shown less
    whole = max(proof.paths, key=lambda path: sum(part.effective for part in path.promises))
    detectable = detectable_overconfidence(whole.promises[lead.start :], whole.margin, lead.alone)
    alone = newest_alone(rows[-1], newest[-1].value, exceeds_threshold(rule, newest[-1], then), shared["rows_needed"])
    evidence = [mean_evidence(now) for now in zip(*(path.evidence[-SHOWN:] for path in proof.paths), strict=True)]
    steps = zip(run.windows[-SHOWN:], rows[2:], newest, evidence, strict=True)
    detail: VerdictDetail = {
        **rule_input.reference,
        **shared,
        "evidence": rounded_evidence(evidence[-1]),
        "since": run.windows[lead.start].name,
        "suspected": lead.suspected,
        "path": [[w.name, n, None, round(of.value or 0.0, 6), rounded_evidence(found)] for w, n, of, found in steps],
        **(alone if beyond and windows > 1 else {}),
        **(_mix(rule, label, evaluation) if beyond and shared["sure"] else {}),
    }
    return Comparison(
        rule_input.subject, rule_input.window, value=now.value, low=now.low, high=now.high, plug_in=now.plug_in,
        baseline=then.value, change=(now.value or 0.0) - (then.value or 0.0), change_low=low, change_high=high,
        detectable=detectable, n=rows[0], windows=windows, beyond=beyond,
        adequate=rows[0] >= shared["rows_needed"] and detectable is not None and detectable <= shared["seen_at_most"],
        baseline_version=rule_input.baseline_version, data_digest=run.digest, detail=detail,
    )  # fmt: skip


def _mix(rule: Rule, label: Proved, evaluation: EvaluationConfig) -> VerdictDetail:
    """Whether another share of true items explains the change, by all windows that may be pooled.

    The evidence on an ECE is of many windows: it is explained if it is too little beside the baseline at the share of
    each window in which only the share changed.
    """
    each, run, proof = label
    rate = evaluation.false_discovery_rate / proof.detail["labels"]
    sample = in_bins(RuleSample(rule, each, evaluation, len(each.counts), rate=rate))
    found = explained_by_mix(sample) if sample.usable else VerdictDetail()
    if found and rule.measure == "ece":
        runs, margins = strand_runs(rule, run, each, share_times(run))
        paths = paths_of(runs, margins, [math.exp(proof.lead.alone)] * len(runs))
        evidence = rounded_evidence(mean_evidence([path.now for path in paths]))
        found["class_mix"] |= {"explains": evidence < proof.detail["needed"], "evidence_at_shares": evidence}
    return found


def share_times(run: ChangeRun) -> Floats:
    """How many times as frequent true items and others are in each window as in the baseline, shape (W, 2).

    1 where it is not so that only their share changed, by the windows that may be pooled with each.
    """
    found: Floats = np.ones((len(run.parts), 2))
    tables = [in_bands(parts) for parts in (*run.parts, run.then)]
    for at, table in enumerate(tables[:-1]):
        mix = class_mix(table, tables[-1], pool_bins(tables[max(0, at - LATELY + 1) : at + 1]))
        if mix is not None and mix.only_share_changed:
            found[at] = mix.told / mix.then, (1 - mix.told) / (1 - mix.then)
    return found


def _measured(rule: Rule, parts: Sequence[Parts], confidence: float) -> list[Interval]:
    """The metric of each, with its limits; of an ECE by bands of scores."""
    if rule.measure != "ece" or not parts:
        values = [(value_of(rule, each[ALL]), law_of_promise(rule, each[ALL])) for each in parts]
        return [Interval(value, *law.interval(confidence), value) for value, law in values]
    _, n, score, kept = columns([[each.get(name) for name in APART] for each in parts])
    gap = kept - score
    share, sign = n / n.sum(axis=1, keepdims=True), np.where(gap == 0, farther(score), np.sign(gap))
    tables = GapTables(np.where(n > 0, n, 1.0), score, gap, share, sign)
    low, point, high = analytic_limits(tables, confidence)
    every = zip(point.tolist(), low.tolist(), high.tolist(), tables.plug_in.tolist(), strict=True)
    return [Interval(*each) for each in every]
