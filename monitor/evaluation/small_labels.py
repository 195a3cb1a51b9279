"""Rules of ``scope: small_labels``: labels too small ever to be judged alone, judged together.

Their rows of a window count as one sample, so that evidence on "some of these labels are overconfident" accumulates as
it does for one label. A ranking of the likeliest labels is for people only (:mod:`monitor.inference.between_weeks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scipy.special import ndtr

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.promises import Promise, pooled_promise
from monitor.core.records import Comparison
from monitor.evaluation.accumulated import (
    Run,
    accumulate,
    dated_promises,
    evidence_of,
    margin_of,
    proofs,
)
from monitor.evaluation.data import RuleInput, SourceData
from monitor.inference.between_weeks import shrunk

LIKELIEST = 5
"""The most labels that a verdict names."""

Runs = Mapping[str, Run]


def small_runs(
    rule: Rule, data: SourceData, labels: Sequence[RuleInput], evaluation: EvaluationConfig
) -> dict[str, Run]:
    """The windows of each label whose rows of a year could not show, alone, a change that matters."""
    runs = [dated_promises(rule, data, each.subject.label) for each in labels]
    found = proofs(rule, labels, [bool(run) for run in runs], lambda at: ([runs[at]], [margin_of(rule)]), evaluation)
    return {
        str(labels[at].subject.label): runs[at]
        for at, proof in found
        if not evidence_of(rule, labels[at], proof.paths[0], proof.detail).adequate
    }


def accumulate_small(rule: Rule, whole: RuleInput, runs: Runs, evaluation: EvaluationConfig) -> Comparison:
    """The evidence of one rule on all small labels of a source together; ``whole`` is the source."""
    by_window: dict[Any, list[Promise]] = {}
    for run in runs.values():
        for window, promise in run:
            by_window.setdefault(window, []).append(promise)
    together = [(window, pooled_promise(by_window[window])) for window in sorted(by_window)]
    (found,) = accumulate(rule, [whole], [together], evaluation)
    if found.problem is not None:
        return replace(found, detail={**found.detail, "small_labels": len(runs)})
    since = together[-found.windows][0]
    parts = {label: [p for window, p in run if window.start >= since.start] for label, run in runs.items()}
    pooled = {label: pooled_promise(kept) for label, kept in parts.items() if kept}
    likeliest = _likeliest(rule, pooled) if found.beyond else []
    return replace(found, detail={**found.detail, "small_labels": len(runs), "likeliest": likeliest})


def _likeliest(rule: Rule, pooled: Mapping[str, Promise]) -> list[list[Any]]:
    """The labels that are overconfident more probably than not: name, rows, mean score, hit rate, probability.

    Empty where the labels differ no more than by chance.
    """
    kept = pooled_promise(list(pooled.values())).kept
    spread = max(kept * (1 - kept), 1e-4)
    means, deviations = shrunk(
        [each.overconfidence for each in pooled.values()], [spread / each.effective for each in pooled.values()]
    )
    if not deviations.any():
        return []
    beyond = ndtr((means - rule.threshold) / deviations)
    ranked = sorted(zip(beyond.tolist(), pooled.items(), strict=True), key=lambda each: (-each[0], each[1][0]))
    return [
        [label, each.rows, round(each.promised, 6), round(each.kept, 6), round(probability, 3)]
        for probability, (label, each) in ranked[:LIKELIEST]
        if probability > 0.5
    ]
