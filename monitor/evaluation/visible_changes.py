"""The change that each rule can show of each label at its volume, and in how many windows. Pure.

Some weeks are read as one sample that represents all others: the rows of k windows are that sample, scaled. The numbers
are those of a run in which nothing changes, from the same functions; nothing is decided here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from monitor.config.model import Config, EvaluationConfig, Rule, SourceConfig
from monitor.config.rule_sources import beside_wrong_truths, can_judge
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import Counts, Floats
from monitor.core.records import Subject, Window
from monitor.evaluation.data import DAYS_POOLED, ByLabel, RuleInput, pooled_at_most, rows_of
from monitor.evaluation.estimates import cost_parameters, other_binning
from monitor.evaluation.rule_metrics import RuleSample, beyond_alone, with_detectability
from monitor.metrics.registry import EXPECTED, METRICS, TOTALS, WHOLE

Lacks = Literal["", "rows", "baseline"]
LADDER = (1, 2, 3, 4, 6, 8, 13, 26, 52)
"""The numbers of weeks to try. Where more than `pool_weeks` are needed, the configured rule is not evaluated."""


@dataclass(frozen=True, slots=True)
class Typical:
    """The rows of a source in ``weeks`` weeks, by label; None is the source as a whole."""

    window: Window
    weeks: int
    labels: ByLabel


@dataclass(frozen=True, slots=True)
class Visible:
    """The change that one rule can show of one label.

    ``rows`` are those of the rule's population in a week or day. ``windows`` is the fewest that must be pooled for the
    rule to be evaluated, None where a year is not enough. ``detectable`` is the smallest change (or distance from the
    threshold) that is then seen with 80% power, by a label that alone of its family changes. ``lacks`` says what is
    missing where ``windows`` is None.
    ``out_of_reach``: no truth can be beyond the threshold, as with overconfidence of more than the mean score.
    """

    rule: Rule
    subject: Subject
    rows: float
    windows: int | None
    detectable: float | None = None
    lacks: Lacks = ""
    out_of_reach: bool = False

    def within(self, evaluation: EvaluationConfig) -> bool:
        """Whether the rule is evaluated with at most as many windows as it may pool."""
        return self.windows is not None and self.windows <= pooled_at_most(self.rule.schedule, evaluation)


def visible_changes(
    name: str, config: Config, typical: Typical, see: float = math.inf, rules: Sequence[Rule] | None = None
) -> list[Visible]:
    """The visible change of each label that a rule applies to, for each rule whose power can be computed, in order.

    With ``see`` the windows are those in which a change, or a distance from the threshold, of at most that is visible.
    """
    source = config.sources[name]
    baselines = {label: _baseline(name, label, counts, config, typical) for label, counts in typical.labels.items()}
    return [
        found
        for rule in (config.rules if rules is None else rules)
        if _is_measured(rule, source, config.evaluation)
        for found in _of_rule(beside_wrong_truths(rule, source), name, config, typical, baselines, see)
    ]


def _is_measured(rule: Rule, source: SourceConfig, evaluation: EvaluationConfig) -> bool:
    """Whether the counts of a label determine what the rule could show."""
    metric = METRICS.get(rule.metric or "")
    if metric is None or rule.accumulates or rule.is_plain or not can_judge(rule, source):
        return False
    of_whole = metric.needs in WHOLE  # ranks included
    return not (of_whole or metric.name in EXPECTED | TOTALS or metric.name in other_binning(evaluation))


def _baseline(source: str, label: str | None, counts: Counts, config: Config, typical: Typical) -> Baseline | None:
    """The baseline that would be pinned at this volume; None where it would be refused."""
    frozen = scaled(counts, config.baseline.weeks / typical.weeks)
    if frozen.rows < config.baseline.min_pairs:
        return None
    window = typical.window
    return Baseline(
        source=source, label=label, version=1, start=window.start, end=window.end, first_window=window.name,
        last_window=window.name, counts=frozen, edges=edges_of(frozen, config.evaluation), pinned_at=window.end,
        pinned_by="", reason="",
    )  # fmt: skip


def _of_rule(
    rule: Rule,
    name: str,
    config: Config,
    typical: Typical,
    baselines: Mapping[str | None, Baseline | None],
    see: float,
) -> Iterator[Visible]:
    source, windows = config.sources[name], typical.weeks * (1 if rule.schedule == "weekly" else 7)
    applies = [
        label
        for label in sorted(typical.labels, key=lambda each: (each is None, each or ""))
        if rule.applies_to(name, label, critical=source.is_critical(label))
    ]
    rate = config.evaluation.false_discovery_rate / max(1, len(applies) * config.decision_rules(rule.schedule))
    judged = {label: typical.labels[label] for label in applies if not rule.compares or baselines[label] is not None}
    visible: dict[str | None, tuple[int, RuleSample]] = {}
    most = LADDER[-1] if rule.schedule == "weekly" else DAYS_POOLED
    for count in (count for count in LADDER if rule.for_windows <= count <= most):
        inputs = [
            RuleInput(
                Subject(name, label), typical.window, (scaled(counts, count / windows),), baselines[label],
                parameters=cost_parameters(rule.measure, source, label),
            )
            for label, counts in judged.items()
            if label not in visible
        ]  # fmt: skip
        samples = [RuleSample(rule, each, config.evaluation, rate=rate) for each in inputs]
        enough = [sample for sample in samples if sample.enough and sample.counts.w.any()]
        for sample in with_detectability(enough):
            if sample.adequate and (sample.detectable or 0.0) <= see:
                visible[sample.given.subject.label] = count, sample
    for label in applies:
        rows = rows_of(rule, typical.labels[label]).rows / windows
        if label in visible:
            count, sample = visible[label]
            # no truth can be beyond the threshold, as verdicts decide it; a distance of 0 also means that all are
            unreachable = sample.detectable == 0 and not beyond_alone([sample])[0]["beyond"]
            yield Visible(rule, Subject(name, label), rows, count, sample.detectable, "", unreachable)
        else:
            yield Visible(rule, Subject(name, label), rows, None, lacks="rows" if label in judged else "baseline")


def scaled(counts: Counts, share: float) -> Counts:
    """The counts with ``share`` times as many rows, spread evenly over scores, hits and misses.

    >>> from monitor.core.counts import counts_from_rows
    >>> scaled(counts_from_rows([0.5, 0.7, 0.8, 0.9], [0, 1, 1, 1]), 2 / 3).wy.tolist()
    [0.0, 1.0, 1.0]
    """
    rows = counts.n.astype(np.float64)
    hits = _thinned(rows * counts.rate, share)
    rows_left = hits + _thinned(rows * (1 - counts.rate), share)
    part = np.divide(rows_left, rows, out=np.zeros_like(rows_left), where=rows > 0)
    weight = np.divide(counts.w, rows, out=np.zeros_like(rows), where=rows > 0)
    wy = hits * weight
    thinned = replace(
        counts,
        n=np.rint(rows_left).astype(np.int64),
        w=counts.w * part,
        w2=counts.w2 * part,
        ws=counts.ws * part,
        wy=wy,
        wsy=wy * counts.score,
        ws2=counts.ws2 * part,
        wy2=wy * np.divide(counts.wy2, counts.wy, out=np.ones_like(wy), where=counts.wy > 0),
    )
    return thinned.take(thinned.n > 0)


def _thinned(rows: Floats, share: float) -> Floats:
    """Whole numbers whose running sums are those of ``rows`` times ``share``, rounded; shape (K,)."""
    return np.diff(np.rint(np.cumsum(rows) * share), prepend=0.0)
