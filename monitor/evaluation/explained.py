"""Whether the labels in trouble explain what is wrong with their source as a whole. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from monitor.config.model import EvaluationConfig
from monitor.core.baseline import population_edges
from monitor.core.counts import Counts, bin_counts, difference
from monitor.core.diagnoses import Diagnosis, DiagnosisState
from monitor.core.records import Verdict
from monitor.inference.intervals import ece_intervals, mce_intervals
from monitor.inference.levels import interval as level_interval
from monitor.metrics.registry import CONTRACT, METRICS


def with_labels(
    diagnoses: Sequence[Diagnosis],
    verdicts: Collection[Verdict],
    counts: Mapping[str | None, Counts],
    evaluation: EvaluationConfig,
) -> list[Diagnosis]:
    """The diagnoses of one source; that of the source as a whole names the labels in trouble that alone explain it.

    They do if without their rows no rule in breach is beyond its limit any more, by the ``counts`` of the judged
    window. A breach that turns the source off is never explained, since then every label is off.
    """
    troubled = tuple(each.label for each in diagnoses if each.label in counts and each.label and each.is_trouble)
    whole = next((each for each in diagnoses if each.label is None and each.state is DiagnosisState.DEGRADED), None)
    if whole is None or not troubled or None not in counts:
        return list(diagnoses)
    rest = difference(counts[None], [counts[label] for label in troubled])
    breaches = [verdict for verdict in verdicts if verdict.id in whole.because]
    if rest is None or not all(_within(verdict, rest, evaluation) for verdict in breaches):
        return list(diagnoses)
    explained = replace(whole, notes=replace(whole.notes, explained_by=troubled))
    return [explained if each is whole else each for each in diagnoses]


def _within(verdict: Verdict, rest: Counts, evaluation: EvaluationConfig) -> bool:
    """Whether the rest of the rows has a value within the limit; of a change, no worse than all rows had before."""
    value, condition = _value(verdict.metric, rest.where(verdict.where), evaluation), verdict.detail["condition"]
    if value is None:
        return False
    if condition == "below":
        return value >= verdict.threshold
    change = value - (verdict.baseline or 0.0) if condition in ("increase", "decrease") else value
    return (-change if condition == "decrease" else change) <= verdict.threshold


def _value(metric: str, rows: Counts, evaluation: EvaluationConfig) -> float | None:
    if metric in ("ece", "mce"):
        bins = [bin_counts(rows, population_edges(rows, evaluation))]
        measured = ece_intervals(bins, [], confidence=evaluation.confidence, form="analytic")
        worst = mce_intervals(bins, confidence=evaluation.confidence)
        return measured[0].value if metric == "ece" else worst[0].interval.value
    known = metric in CONTRACT or (metric in METRICS and METRICS[metric].share is not None)
    return level_interval(metric, rows, evaluation.confidence).value if known else None
