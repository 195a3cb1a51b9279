"""Whether the labels in trouble explain what is wrong with their source as a whole. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from monitor.config.model import EvaluationConfig
from monitor.core.baseline import population_edges
from monitor.core.counts import Counts, bin_counts, difference
from monitor.core.diagnoses import Diagnosis, DiagnosisState, severity_of
from monitor.core.records import SEVERITY_RANK, Interval, Verdict
from monitor.inference.intervals import ece_intervals, mce_intervals
from monitor.inference.levels import interval as level_interval
from monitor.metrics.registry import CONTRACT, METRICS


def with_labels(
    diagnoses: Sequence[Diagnosis],
    verdicts: Mapping[str | None, Collection[Verdict]],
    counts: Mapping[str | None, Counts],
    evaluation: EvaluationConfig,
) -> list[Diagnosis]:
    """The diagnoses of one source; that of the source as a whole names the labels in trouble that alone explain it.

    They do if without their rows nothing is surely beyond the limit of a rule in breach any more, by the ``counts`` of
    the judged window. A breach that turns the source off is never explained, since then every label is off; and a label
    whose trouble is less severe explains nothing, since people might not be called for it.
    """
    whole = next((each for each in diagnoses if each.label is None and each.state is DiagnosisState.DEGRADED), None)
    if whole is None or None not in counts:
        return list(diagnoses)
    rank = {each.label: SEVERITY_RANK[severity_of(each, verdicts[each.label])] for each in diagnoses if each.is_trouble}
    troubled = tuple(label for label, its in rank.items() if label and label in counts and its <= rank[None])
    rest = difference(counts[None], [counts[label] for label in troubled]) if troubled else None
    breaches = [verdict for verdict in verdicts[None] if verdict.id in whole.because]
    if rest is None or not all(_unconfirmed(verdict, rest, evaluation) for verdict in breaches):
        return list(diagnoses)
    explained = replace(whole, notes=replace(whole.notes, explained_by=troubled))
    return [explained if each is whole else each for each in diagnoses]


def _unconfirmed(verdict: Verdict, rest: Counts, evaluation: EvaluationConfig) -> bool:
    """Whether the rest of the rows is not surely beyond the limit; of a change, against what all rows had before."""
    measured, condition = _measured(verdict.metric, rest.where(verdict.where), evaluation), verdict.detail["condition"]
    before = (verdict.baseline or 0.0) if condition in ("increase", "decrease") else 0.0
    if measured is None or measured.low is None or measured.high is None:
        return False
    if condition in ("below", "decrease"):
        return measured.high >= (verdict.threshold if condition == "below" else before - verdict.threshold)
    return measured.low - before <= verdict.threshold


def _measured(metric: str, rows: Counts, evaluation: EvaluationConfig) -> Interval | None:
    if metric in ("ece", "mce"):
        bins = [bin_counts(rows, population_edges(rows, evaluation))]
        if metric == "mce":
            return mce_intervals(bins, confidence=evaluation.confidence)[0].interval
        return ece_intervals(bins, [], confidence=evaluation.confidence, form="analytic")[0]
    known = metric in CONTRACT or (metric in METRICS and METRICS[metric].share is not None)
    return level_interval(metric, rows, evaluation.confidence) if known else None
