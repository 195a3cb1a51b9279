"""Rules with ``condition: accumulated``: the evidence of up to a year of windows, computed anew from their counts.

Nothing is carried from one run to the next: late truths change old counts, and would be counted twice.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.promises import Population, Promise, pooled_promise
from monitor.core.records import Comparison, Where, Window
from monitor.core.verdict_detail import VerdictDetail
from monitor.evaluation.comparisons import judged
from monitor.evaluation.data import RuleInput, SourceData, evidence_windows
from monitor.evaluation.rule_metrics import rows_needed
from monitor.inference.registered import largest_allowed
from monitor.inference.sampling import Proportion, Ranking
from monitor.inference.sequential import (
    LONGEST,
    detectable_overconfidence,
    evidence_needed,
    likely_start,
    restarted,
    restarted_each,
)
from monitor.metrics.names import CHANGES_ACCUMULATE

DAYS_OF_WEEK = 7
SUSPECTED = math.log(20.0)
"""From this log evidence on, the value is of the windows since the fault's likely start, not of all windows."""
FORGOTTEN = 100.0
"""Evidence is capped at this multiple of what a label alone needs, so that a fixed fault is soon forgotten."""
ENDED = math.log(20.0)
"""A confirmed fault has ended once its log evidence is so much below its highest: then evidence adds up anew."""
SHOWN = 12
"""The number of windows whose evidence is stored with a verdict, for its explanation."""

Run = Sequence[tuple[Window, Promise]]
"""The windows of one subject with its promise in each, oldest first."""


def dated_promises(rule: Rule, data: SourceData, label: str | None) -> Run:
    """The promise of a label in each window with its rows whose evidence adds up, oldest first; () if it has none now.

    Of a share, "scores" claim that each decision is right: its overconfidence is the share of wrong ones.
    """
    if label not in data.current.labels:
        return ()
    claimed = rule.measure == "overconfidence"
    known = ((part.window, part.promise(label, population_of(rule))) for part in evidence_windows(data, label))
    dated = (
        (window, promise if claimed else replace(promise, promised=1.0))
        for window, promise in known
        if promise is not None and promise.effective > 0
    )
    return tuple(islice(dated, LONGEST))[::-1]


def population_of(rule: Rule) -> Population:
    """The rows, or the share of right decisions, on which the rule accumulates evidence.

    Among predicted and automated rows a decision is right where the outcome came true.

    >>> [population_of(Rule(id="x", metric=name, threshold=0.9)) for name in ("overconfidence", "recall", "precision")]
    ['all', 'found', 'predicted']
    """
    return population(rule.measure, rule.where)


def population(metric: str, where: Where) -> Population:
    """The rows, or the share of right decisions, that a metric over ``where`` is about."""
    if metric == "overconfidence":
        return where
    if metric == "roc_auc":
        return "ranked"
    return (_DECIDED if where == "all" else {}).get(metric, where)


_DECIDED: Mapping[str, Population] = {
    "accuracy": "right", "error_rate": "right", "recall": "found", "false_negative_rate": "found",
    "specificity": "cleared", "false_positive_rate": "cleared", "precision": "predicted",
    "automated_accuracy": "automated",
}  # fmt: skip


def is_floor(rule: Rule) -> bool:
    """Whether the metric is wrong below its threshold: then evidence accumulates that it is below it."""
    return CHANGES_ACCUMULATE.get(rule.measure) == "below"


def margin_of(rule: Rule) -> float:
    """The largest accepted overconfidence: of a share that must not be below its threshold, what is missing to 1."""
    return 1.0 - rule.threshold if is_floor(rule) else rule.threshold


def value_of(rule: Rule, promise: Promise) -> float:
    """The metric of these rows."""
    return promise.kept if is_floor(rule) else promise.overconfidence


def law_of_promise(rule: Rule, promise: Promise) -> Proportion | Ranking:
    """The sampling law of the metric of these rows."""
    if rule.measure == "roc_auc":
        return Ranking(promise.kept, promise.effective)
    if is_floor(rule):
        return Proportion(promise.kept, promise.effective)
    return Proportion(promise.kept, promise.effective, offset=promise.promised, scale=-1.0)


def is_beyond(rule: Rule, promise: Promise) -> bool:
    """Whether the metric of these rows is on the wrong side of the threshold."""
    value = value_of(rule, promise)
    return value < rule.threshold if is_floor(rule) else value > rule.threshold


def accumulate(
    rule: Rule, family: Sequence[RuleInput], runs: Sequence[Run], evaluation: EvaluationConfig
) -> list[Comparison]:
    """The evidence of one rule on each of several subjects; ``runs`` are their windows.

    The evidence needed depends on the number of judged subjects and on the evidence of each (e-BH). A subject without a
    row in the judged window is not judged: its evidence is as it was.
    """
    has_rows = [any(window == each.window for window, _ in run[-1:]) for each, run in zip(family, runs, strict=True)]

    def measured(places: Sequence[int]) -> list[Comparison]:
        found = proofs(rule, [([runs[at]], [margin_of(rule)]) for at in places], evaluation)
        each = zip(places, found, strict=True)
        return [evidence_of(rule, family[at], proof.paths[0], proof.detail) for at, proof in each]

    return judged(rule, family, has_rows, measured)


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """The evidence of a subject: one path, or several whose mean it is (``now``); ``detail`` is as stored."""

    paths: list[EvidencePath]
    now: float
    needed: float
    detail: VerdictDetail

    @property
    def lead(self) -> EvidencePath:
        """The path with the most evidence."""
        return max(self.paths, key=lambda path: path.now)


def proofs(
    rule: Rule, subjects: Sequence[tuple[Sequence[Run], Sequence[float]]], evaluation: EvaluationConfig
) -> list[Proof]:
    """The evidence of the judged subjects of a family, each with its runs and what is accepted of each run."""
    length = run_length(rule)
    margins = [margin for _, of in subjects for margin in of]
    alone = [float(len(subjects) * length * len(of)) for _, of in subjects for _ in of]
    every = iter(paths_of([run for runs, _ in subjects for run in runs], margins, alone))
    paths = [[next(every) for _ in of] for _, of in subjects]
    now = [mean_evidence([path.now for path in of]) for of in paths]
    needed = evidence_needed(now, length)
    shared = family_detail(rule, evaluation, needed, len(subjects))
    return [Proof(of, each, needed, {**shared, "sure": each >= needed}) for of, each in zip(paths, now, strict=True)]


def run_length(rule: Rule) -> int:
    """The average run length of a family, in windows."""
    return rule.average_run_length * (DAYS_OF_WEEK if rule.schedule == "daily" else 1)


def family_detail(rule: Rule, evaluation: EvaluationConfig, needed: float, labels: int) -> VerdictDetail:
    """The detail that all verdicts of a family have; ``needed`` is log evidence."""
    return {
        "needed": rounded_evidence(needed),
        "average_run_length": rule.average_run_length,
        "labels": labels,
        "rows_needed": rows_needed(rule, evaluation),
        "confidence": evaluation.confidence,
        "seen_at_most": 2 * rule.threshold if rule.compares else largest_allowed(rule.measure, rule.threshold),
        "asks": 1,
    }


@dataclass(frozen=True, slots=True, eq=False)
class EvidencePath:
    """The windows of one label, oldest first, with the log evidence after each.

    ``alone`` is the log evidence that the label needs if no other label has any. ``begins`` is the index of the window
    from which on the newest evidence adds up: that after the last fault that was confirmed and has ended.
    """

    windows: tuple[Window, ...]
    promises: tuple[Promise, ...]
    evidence: tuple[float, ...]
    margin: float
    alone: float
    begins: int = 0

    @property
    def now(self) -> float:
        """The log evidence after the newest window."""
        return self.evidence[-1]

    @property
    def suspected(self) -> bool:
        """Whether a fault is suspected; a short run length needs less evidence than usually makes one suspect."""
        return self.now >= min(SUSPECTED, self.alone)

    @property
    def start(self) -> int:
        """The index of the first window that the value covers.

        Where a fault is suspected, this is its likely start; else the window after the last confirmed fault, or 0.
        """
        if self.suspected:
            return self.begins + likely_start(self.promises[self.begins :], self.margin)
        return max((place + 1 for place, found in enumerate(self.evidence) if found >= self.alone), default=0)


def paths_of(runs: Sequence[Run], margins: Sequence[float], alone: Sequence[float]) -> list[EvidencePath]:
    """The path of the evidence over the windows of each run, with the overconfidence that is accepted of it.

    ``alone`` is the evidence (no logarithm) that each run would need without any other.
    """
    most = [each * FORGOTTEN for each in alone]
    dated = [(tuple(window for window, _ in run), tuple(promise for _, promise in run)) for run in runs]
    evidence = restarted_each([promises for _, promises in dated], margins, most)
    return [
        _with_endings(EvidencePath(windows, promises, tuple(path.tolist()), margin, math.log(needed)), limit)
        for (windows, promises), path, margin, needed, limit in zip(dated, evidence, margins, alone, most, strict=True)
    ]


def _with_endings(path: EvidencePath, most: float) -> EvidencePath:
    """The path with evidence that adds up anew after each confirmed fault that has ended.

    That only makes evidence smaller, so that what is proved of false alarms holds.
    """
    highest = path.begins
    for place in range(path.begins, len(path.evidence)):
        found = path.evidence[place]
        if found >= path.evidence[highest]:
            highest = place
        elif path.evidence[highest] >= path.alone and found <= path.evidence[highest] - ENDED:
            begins = highest + 1
            anew = restarted(path.promises[begins:], path.margin, most)
            evidence = (*path.evidence[:begins], *anew.tolist())
            return _with_endings(replace(path, evidence=evidence, begins=begins), most)
    return path


def evidence_of(rule: Rule, rule_input: RuleInput, path: EvidencePath, shared: VerdictDetail) -> Comparison:
    """The comparison of one path of evidence; ``shared`` is the detail of its family (:func:`family_detail`)."""
    start = path.start
    pooled, since = path.promises[start:], path.windows[start]
    total = pooled_promise(pooled)
    low, high = law_of_promise(rule, total).interval(shared["confidence"])
    value, beyond = value_of(rule, total), is_beyond(rule, total)
    seen = detectable_overconfidence(pooled, path.margin, path.alone)
    detectable = None if seen is None else seen - path.margin
    claimed: VerdictDetail = (
        {"promised": total.promised, "kept": total.kept} if rule.measure == "overconfidence" else {}
    )
    newest = value_of(rule, pooled[-1]), is_beyond(rule, pooled[-1])
    detail: VerdictDetail = {
        **shared,
        **claimed,
        "effective_rows": total.effective,
        "evidence": rounded_evidence(path.now),
        "since": since.name,
        "suspected": path.suspected,
        "path": _steps(rule, path),
        **(newest_alone(pooled[-1].rows, *newest, shared["rows_needed"]) if beyond and len(pooled) > 1 else {}),
    }
    enough = total.rows >= shared["rows_needed"]
    return Comparison(
        rule_input.subject, rule_input.window, value=value, low=low, high=high, plug_in=value,
        detectable=detectable, n=total.rows, windows=len(pooled), beyond=beyond,
        adequate=enough and detectable is not None and detectable <= shared["seen_at_most"],
        baseline_version=rule_input.baseline.version if rule_input.baseline else None, data_digest=_digest(path),
        detail=detail,
    )  # fmt: skip


def newest_alone(rows: int, value: float | None, beyond: bool, needed: int) -> VerdictDetail:
    """The result of the newest of several windows alone: an incident goes on only if it agrees."""
    return {"newest_alone": {"n": rows, "value": value, "beyond": beyond, "too_few": rows < needed}}


def _steps(rule: Rule, path: EvidencePath) -> list[list[Any]]:
    """The newest windows, oldest first: name, rows, mean score, hit rate, evidence.

    Of another metric than the overconfidence, None in place of the mean score, and the metric in place of the hit rate.
    """
    claims = rule.measure == "overconfidence"
    scores = [round(each.promised, 6) if claims else None for each in path.promises]
    rates = [round(each.kept if claims else value_of(rule, each), 6) for each in path.promises]
    steps = zip(path.windows, path.promises, scores, rates, path.evidence, strict=True)
    return [[w.name, p.rows, *numbers, rounded_evidence(found)] for w, p, *numbers, found in steps][-SHOWN:]


def mean_evidence(evidence: Sequence[float]) -> float:
    """The log of the mean evidence, from the logarithms."""
    return float(np.logaddexp.reduce(np.array(evidence))) - math.log(len(evidence))


def rounded_evidence(evidence: float) -> float:
    """The evidence, from its logarithm, to four digits: further digits would differ between machines."""
    return float(f"{math.exp(max(evidence, -700.0)):.4g}")


def _digest(path: EvidencePath) -> str:
    parts = [
        (window.name, promise.rows, f"{promise.effective:.9g} {promise.promised:.9g} {promise.kept:.9g}")
        for window, promise in zip(path.windows, path.promises, strict=True)
    ]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
