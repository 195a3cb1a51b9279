"""Comparisons (:class:`~monitor.core.records.Comparison`) of metrics that need more than the counts of a label.

Metrics of *ranks* are ordinary metrics of other counts: those of the k highest-scored labels of each item. An ECE with
its *own binning* is the ordinary ECE in other bins. A *cost* is the registered metric with the costs of its label.
Metrics of *whole rows* and of *numbers* get their spread from a bootstrap of items.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from monitor.config.model import EvaluationConfig, Rule, SourceConfig, SourceKind
from monitor.core.baseline import edges_of, population_edges
from monitor.core.counts import ProbabilityRows, bin_counts
from monitor.core.records import Comparison, Estimate, Subject, Window
from monitor.core.verdict_detail import kept_of
from monitor.evaluation.comparisons import compare, compare_family, compared_by, gates
from monitor.evaluation.data import COUNTED, OF_ITEMS, Rows, RuleInput, WholeSource
from monitor.evaluation.estimates import cost_parameters, each_ece, generator, other_binning
from monitor.inference.bootstrap import Spreads, row_spreads
from monitor.inference.intervals import NOTHING
from monitor.inference.levels import interval as level_interval
from monitor.inference.levels import interval_of
from monitor.metrics import cost
from monitor.metrics.certainty import KEPT_IN, as_detail, class_tables
from monitor.metrics.definition import Metric
from monitor.metrics.registry import EXPECTED, GIVES, METRICS, TOTALS, WHOLE
from monitor.metrics.top_k import ON_RANKED


def needs_whole_rows(rule: Rule) -> bool:
    """Whether a rule is about ranks, whole rows or rows without a truth, which the history does not keep."""
    return rule.metric is not None and (METRICS[rule.metric].needs in WHOLE or rule.metric in EXPECTED)


def comparisons_of(
    rule: Rule,
    rule_inputs: Sequence[RuleInput],
    whole: WholeSource,
    source: SourceConfig,
    evaluation: EvaluationConfig,
    *,
    level: float | None = None,
) -> list[Comparison]:
    """The comparison of each subject, from the data that the metric of the rule reads.

    ``level``: as in :func:`~monitor.evaluation.comparisons.compare_family`, which compares all metrics of counts.
    """
    metric = METRICS.get(rule.metric or "")
    if metric is None:  # a shift test
        return compare_family(rule, rule_inputs, evaluation, level=level)
    if metric.needs in WHOLE:
        compare_one = _of_ranks if metric.needs in COUNTED else _of_rows
        return [compare_one(rule, rule_input, whole, evaluation) for rule_input in rule_inputs]
    if metric.name in TOTALS:
        newest = [replace(rule_input, counts=rule_input.counts[:1]) for rule_input in rule_inputs]
        return compare_family(rule, newest, evaluation)
    own_binning = other_binning(evaluation).get(metric.name)
    if own_binning is not None:
        # the bins of baselines are made again from their cells
        rebinned = [
            each
            if (frozen := each.baseline) is None
            else replace(each, baseline=replace(frozen, edges=edges_of(frozen.counts, own_binning)))
            for each in rule_inputs
        ]
        return compare_family(rule.model_copy(update={"metric": "ece"}), rebinned, own_binning, level=level)
    if metric.name in cost.ON_GROUPS:
        costs = [cost_parameters(metric.name, source, each.subject.label) for each in rule_inputs]
        rule_inputs = [replace(each, parameters=of) for each, of in zip(rule_inputs, costs, strict=True)]
    return compare_family(rule, rule_inputs, evaluation, level=level)


# --- ranks


def _ordinary(name: str, evaluation: EvaluationConfig) -> tuple[str, EvaluationConfig]:
    """The ordinary metric that a ranked metric is on ranked counts, and the evaluation with the bins of an ECE."""
    ordinary, evaluations = ON_RANKED.get(name, "prevalence"), other_binning(evaluation)
    if ordinary not in evaluations:
        return ordinary, evaluation
    return "ece", evaluations[ordinary].model_copy(update={"bins": evaluation.top_k.bins})


def _of_ranks(rule: Rule, rule_input: RuleInput, whole: WholeSource, evaluation: EvaluationConfig) -> Comparison:
    name, adapted = _ordinary(rule.measure, evaluation)
    counts = whole.of(METRICS[rule.measure])
    # no baseline has ranks, but within the weeks of the source's own baseline nothing is judged
    baseline = rule_input.baseline if rule_input.in_baseline else None
    alone = replace(rule_input, counts=() if counts is None else (counts,), baseline=baseline)
    found = compare(rule.model_copy(update={"metric": name}), alone, adapted)
    if METRICS[rule.measure].needs not in OF_ITEMS:
        return found
    # items have no score, so there is no mean score to compare with the hit rate
    return replace(found, detail=kept_of(found.detail, found.detail.keys() - {"promised", "kept"}))


# --- whole rows and numbers


def _of_rows(rule: Rule, rule_input: RuleInput, whole: WholeSource, evaluation: EvaluationConfig) -> Comparison:
    """The comparison of a rule on whole rows or numbers, in the window alone."""
    rows = whole.rows
    checks, problem = gates(rule, rule_input, has_rows=rows is not None)
    unread = rows is None or rule_input.problem is not None
    found = Comparison(
        rule_input.subject, rule_input.window, n=0 if rows is None or unread else rows.items, problem=problem,
        data_digest=whole.digest(), detail=rule_input.detail if unread else {}, checks=checks,
    )  # fmt: skip
    if rows is None or problem is not None:
        return found
    spread = _spreads(rows, [rule.measure], whole, rule_input.subject, rule_input.window, evaluation)[rule.measure]
    return compared_by(spread, rule, found, evaluation, {})


def _spreads(
    rows: Rows, names: Iterable[str], whole: WholeSource, subject: Subject, window: Window, evaluation: EvaluationConfig
) -> Spreads:
    """The spread of each metric, widened by the design effect; it does not depend on the other ``names``."""
    rng = generator(evaluation.seed, subject, "whole rows", window.name)
    found = row_spreads(rows, names, rng, resamples=evaluation.resamples)
    wider = math.sqrt(whole.design_effect)
    return {
        name: None if spread is None else replace(spread, se=spread.se * wider, skew=spread.skew * wider)
        for name, spread in found.items()
    }


# --- estimates


def estimates_of_whole(
    whole: WholeSource, kind: SourceKind, subject: Subject, window: Window, evaluation: EvaluationConfig
) -> list[Estimate]:
    """The estimates of items, ranks, whole rows or numbers that the source has, in the order of the registry."""
    metrics = [metric for metric in METRICS.values() if metric.needs in WHOLE & GIVES[kind]]
    by_rows = [metric.name for metric in metrics if metric.needs not in COUNTED]
    spreads = {} if whole.rows is None else _spreads(whole.rows, by_rows, whole, subject, window, evaluation)
    found = []
    for metric in metrics:
        counts = whole.of(metric)
        if metric.needs in OF_ITEMS and counts is None:
            continue
        if metric.rank is not None and metric.rank not in evaluation.top_k.ks:
            continue
        n = counts.rows if counts else 0
        name, adapted = _ordinary(metric.name, evaluation)
        if metric.needs not in COUNTED:
            interval = interval_of(spreads.get(metric.name), evaluation.confidence)
            n = 0 if whole.rows is None else whole.rows.items
        elif counts is None:
            interval = NOTHING
        elif name != "ece":
            interval = level_interval(name, counts, adapted.confidence)
        else:  # as a rule measures it in one window, so that both show the same limits
            bins = bin_counts(counts, population_edges(counts, adapted))
            interval = each_ece([(bins, subject, window.name)], "all", adapted)[0]
        positives = counts.positives if counts else 0.0
        found.append(Estimate(subject, window, metric.name, "all", interval, n, positives, _tables(metric, whole.rows)))
    return found


def _tables(metric: Metric, rows: Rows | None) -> dict[str, Any]:
    """The K x K tables, stored with the estimate of one metric; empty for the others."""
    if metric.name != KEPT_IN or not isinstance(rows, ProbabilityRows):
        return {}
    found = class_tables(rows)
    return {} if found is None else as_detail(found)
