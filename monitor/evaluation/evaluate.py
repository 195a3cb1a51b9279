"""One source in one window, from counts to verdicts. Pure: all input comes as arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from monitor.config.model import Config, EvaluationConfig, Rule
from monitor.config.rule_sources import beside_wrong_truths, can_judge
from monitor.core.baseline import Baseline, edges_of
from monitor.core.maturity import Maturity
from monitor.core.records import (
    DELAYS_FAILED,
    UNRESOLVED_FAILED,
    Comparison,
    Estimate,
    Interval,
    Reason,
    RejectedRows,
    ShiftResult,
    Subject,
    Verdict,
    Window,
)
from monitor.core.rejection_records import Rejections
from monitor.core.verdict_detail import VerdictDetail
from monitor.evaluation.accumulated import accumulate, dated_promises
from monitor.evaluation.before_truth import compare_expected, estimates_before_truth, present_map
from monitor.evaluation.comparisons import compare_family, is_near_threshold
from monitor.evaluation.data import (
    RuleInput,
    SourceData,
    WindowCounts,
    is_new_version,
    poolable,
    subjects,
    windows_pooled,
)
from monitor.evaluation.estimates import Sample, estimate, extra_estimates, extra_metrics
from monitor.evaluation.lasting_changes import accumulate_changes
from monitor.evaluation.lasting_segments import accumulate_segments
from monitor.evaluation.references import against_baseline, against_weeks_before, rolling_baselines
from monitor.evaluation.row_comparisons import comparisons_of, estimates_of_whole
from monitor.evaluation.safe_scores import with_safe_scores
from monitor.evaluation.shift.counts_tests import source_shifts
from monitor.evaluation.shift.findings import p_values_of
from monitor.evaluation.verdicts import decide
from monitor.evaluation.week_spread import correlations_for
from monitor.evaluation.window_segments import compare_segments
from monitor.evaluation.wrong_truths import classes_of, with_wrong_truths
from monitor.inference.between_weeks import ALIKE
from monitor.metrics.discrimination import point_biserial_core
from monitor.metrics.groups import on_counts
from monitor.metrics.names import EXPECTED

MATURE = 0.9
"""The share of a window's expected truths from which on it says what scores mean now."""
EVERYTHING_UP_TO = 1_000
"""In a source with more labels, labels get only the metrics of the contract and of rules; the source gets all.

Nothing is drawn for the estimates of these labels: a few draws a label are most of the time of a run.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """The results of one source in one window; ``restated`` has those of earlier windows with late truths."""

    source: str
    window: Window
    estimates: tuple[Estimate, ...]
    verdicts: tuple[Verdict, ...]
    shifts: tuple[ShiftResult, ...]
    quality: tuple[RejectedRows, ...]
    problem: Reason | None = None
    error: str = ""
    rejected: Rejections = field(default_factory=Rejections)
    maturity: tuple[Maturity, ...] = ()
    restated: tuple[Evaluated, ...] = ()


def evaluate(data: SourceData, config: Config, extra_shifts: tuple[ShiftResult, ...] = ()) -> Evaluated:
    """Estimates, shift tests and verdicts of one source in one window.

    ``extra_shifts`` are tests that need rows (drift of feature samples), done by the caller.
    """
    window = data.current.window
    estimates = () if data.problem else tuple(estimates_of(data, config))
    shifts = (
        () if data.problem else (*source_shifts(data.name, window, data.current.labels, data.baselines), *extra_shifts)
    )
    verdicts = [
        verdict for rule in config.rules_for(window.schedule) for verdict in verdicts_of(rule, data, config, shifts)
    ]
    return Evaluated(
        data.name, window, estimates, tuple(verdicts), shifts, data.quality, data.problem, data.error,
        data.current.rejected, tuple(data.current.maturity.values()),
    )  # fmt: skip


def estimates_of(data: SourceData, config: Config) -> list[Estimate]:
    """Every estimate of a source: the contract's metrics, then other metrics of labels, then of the source as a whole.

    With more than :data:`EVERYTHING_UP_TO` labels, labels get the other metrics only where a rule names them.
    """
    source, window, evaluation = config.sources[data.name], data.current.window, config.evaluation
    samples = samples_of(data, config)
    rules = [(rule.metric, rule.where) for rule in config.rules if rule.metric is not None]
    every = extra_metrics(source.kind, rules)
    few = len(data.current.labels) <= EVERYTHING_UP_TO + 1
    of_labels = every if few else [pair for pair in every if pair in rules]
    labelled = [sample for sample in samples if sample.subject.label is not None]
    whole = [sample for sample in samples if sample.subject.label is None]

    return [
        *estimate(samples, window, evaluation, source.kind, draws_labels=few),
        *extra_estimates(labelled, of_labels, window, evaluation, source),
        *extra_estimates(whole, every, window, evaluation, source),
        *estimates_of_whole(data.current.whole, source.kind, Subject(data.name, None), window, evaluation),
        *estimates_before_truth(
            data.name, data.current.whole.unresolved, data.baselines, evaluation, present_maps(data, evaluation)
        ),
        *(_correlations(data) if few else ()),
    ]


def present_maps(data: SourceData, evaluation: EvaluationConfig) -> dict[str | None, Baseline]:
    """By label, the reference whose calibration map holds at present: its baseline, or the windows that refute it.

    A young window, of which many truths are still to come, refutes nothing: its easy rows came first.
    """
    if data.current.whole.unresolved is None:
        return dict(data.baselines)
    found = {}
    for label, baseline in data.baselines.items():
        maturity = data.current.maturity.get(label)
        is_young = maturity is not None and maturity.of_expected < MATURE
        parts = poolable(data, label, evaluation.pool_weeks)[is_young:]
        judged = [(part.window, part.labels[label]) for part in parts]
        found[label] = present_map(baseline, judged, evaluation)
    return found


def _correlations(data: SourceData) -> Iterator[Estimate]:
    """The correlation of score and outcome of each label in each segment, without limits."""
    for segment, labels in sorted(data.segments.items()):
        for label, counts in labels.items():
            r = on_counts(point_biserial_core, counts)
            if r is not None:
                of, found = Subject(data.name, label, segment), Interval(r, None, None, r)
                yield Estimate(of, data.current.window, "point_biserial", "all", found, counts.rows, counts.positives)


def samples_of(data: SourceData, config: Config) -> list[Sample]:
    """One sample for each label, for the source as a whole, and for each (segment, label).

    Bins are the baseline's where there is one, else the window's own. A segment has its label's bins.
    """
    edges = {
        label: data.baselines[label].edges if label in data.baselines else edges_of(counts, config.evaluation)
        for label, counts in data.current.labels.items()
    }
    whole = [
        Sample(Subject(data.name, label), counts, edges[label])
        for label, counts in sorted(data.current.labels.items(), key=lambda item: (item[0] is None, item[0] or ""))
    ]
    parts = [
        Sample(Subject(data.name, label, segment), counts, edges[label])
        for segment, labels in sorted(data.segments.items())
        for label, counts in sorted(labels.items())
        if label in edges
    ]
    return whole + parts


def verdicts_of(
    rule: Rule, data: SourceData, config: Config, shifts: tuple[ShiftResult, ...], *, outcomes_only: bool = False
) -> list[Verdict]:
    """The verdicts of one rule on every subject that it applies to: always its whole family.

    ``outcomes_only`` is for callers that count outcomes over many windows. The interval of an ECE is then analytic
    wherever the configured form could not change the outcome: a breach needs an adjusted p-value below the rate, and
    p-values, detectable changes and pooling do not depend on the form. Outcomes are the same; the reason of an ``ok``
    and its interval may differ.
    """
    source = config.sources[data.name]
    if not can_judge(rule, source):
        return []
    stated, rule = rule, beside_wrong_truths(rule, source)
    labels = [
        label
        for label in subjects(data, source)
        if rule.applies_to(data.name, label, critical=source.is_critical(label))
    ]
    most = windows_pooled(rule, config, data.current.window)
    if rule.rolls:
        compared = subjects(data, source) if rule.is_of_mix else labels
        rolling = rolling_baselines(rule, data, compared, config.evaluation)
        shifts = tuple(source_shifts(data.name, data.current.window, data.current.labels, rolling)) if rule.test else ()
    rule_inputs = [with_maturity(rule, input_of(data, label, shifts, most), data.current) for label in labels]
    if rule.rolls:
        rule_inputs = [against_weeks_before(rule, each, rolling) for each in rule_inputs]
    else:
        known = correlations_for(rule, data.baselines) if rule.compares else {}
        rule_inputs = [
            replace(
                against_baseline(rule, each, data.references, source, data.baselines),
                week=known.get(each.subject.label, ALIKE),
            )
            for each in rule_inputs
        ]
    nothing_known = data.problem is not None or not (data.current.labels or set(subjects(data, source)) - {None})
    if not labels and nothing_known and rule.match.source in (None, data.name):
        # no label is known: one verdict on the source says that it was not evaluated
        rule_inputs = [input_of(data, None, shifts, most)]
    tests = () if rule.test is None else p_values_of(shifts)
    quick = outcomes_only and rule.metric == "ece" and not rule.is_plain and config.evaluation.interval != "analytic"
    verdicts = _decided(rule, _compared(rule, rule_inputs, data, config, quick=quick), data, config, tests)
    if stated.threshold == rule.threshold:
        return verdicts
    classes = classes_of(source, data.current.labels)
    return [with_wrong_truths(each, stated.threshold, source.truth_error, classes) for each in verdicts]


def _compared(
    rule: Rule, family: Sequence[RuleInput], data: SourceData, config: Config, *, quick: bool
) -> list[Comparison]:
    """The comparisons of a family of rule inputs, from the samples that the kind of the rule asks for."""
    if rule.accumulates:
        return _accumulated(rule, family, data, config)
    if rule.scope == "segments":
        return compare_segments(rule, family, data, config)
    source, evaluation, whole = config.sources[data.name], config.evaluation, data.current.whole
    if rule.metric in EXPECTED:
        maps = present_maps(data, evaluation)
        return [compare_expected(rule, each, whole.unresolved, maps, evaluation) for each in family]
    if quick:
        return _outcomes(rule, family, data, config)
    return comparisons_of(rule, family, whole, source, evaluation, level=_level_in_family(family, data, config))


def _level_in_family(family: Sequence[RuleInput], data: SourceData, config: Config) -> float:
    """A p-value that is significant in the family, whatever the others in it are."""
    rules = config.decision_rules(data.current.window.schedule)
    return config.evaluation.false_discovery_rate / max(1, rules * len(family))


def _accumulated(rule: Rule, family: Sequence[RuleInput], data: SourceData, config: Config) -> list[Comparison]:
    """The evidence of a year on labels, their segments, or the source as a whole."""
    evaluation, labels = config.evaluation, [each.subject.label for each in family]
    if rule.compares:
        return accumulate_changes(rule, family, data, evaluation)
    if rule.scope == "segments":
        return accumulate_segments(rule, family, data, config)
    return accumulate(rule, family, [dated_promises(rule, data, label) for label in labels], evaluation)


def _outcomes(rule: Rule, family: Sequence[RuleInput], data: SourceData, config: Config) -> list[Comparison]:
    """Comparisons of an ECE, by an analytic interval where the configured one gives the same outcome.

    It may give another where a breach is likely, and where a value is near the threshold.
    """
    analytic = config.evaluation.model_copy(update={"interval": "analytic"})
    rate, level = config.evaluation.false_discovery_rate, _level_in_family(family, data, config)
    found = compare_family(rule, family, analytic, level=level)
    adjusted = [verdict.p_adjusted for verdict in _decided(rule, found, data, config)]
    likely = [
        place
        for place, p in enumerate(adjusted)
        if (p is not None and p < rate)
        or found[place].detail.get("newest_p") is not None
        or is_near_threshold(rule, found[place])
    ]
    configured = compare_family(rule, [family[at] for at in likely], config.evaluation, level=level)
    for place, comparison in zip(likely, configured, strict=True):
        found[place] = comparison
    return found


def _decided(
    rule: Rule, family: Sequence[Comparison], data: SourceData, config: Config, tests: Sequence[float] = ()
) -> list[Verdict]:
    rules = config.decision_rules(data.current.window.schedule)
    rate, source = config.evaluation.false_discovery_rate, config.sources[data.name]
    decided = decide(
        rule,
        family,
        rate=rate,
        decision_rules=rules,
        revision=config.revision,
        acts_from=source.least_automate_at,
        tests=tests,
    )
    return with_safe_scores(rule, decided, data, config)


def input_of(data: SourceData, label: str | None, shifts: tuple[ShiftResult, ...], most: int) -> RuleInput:
    """The input of a rule for one label; the rule may pool so many windows at ``most``, the judged one included."""
    baseline = data.baselines.get(label)
    window, rejection = data.current.window, data.current.rejected.of(label)
    parts = poolable(data, label, most)
    counts, before = tuple(part.labels[label] for part in parts), tuple(part.window for part in parts[1:])
    label_shifts = tuple(s for s in shifts if s.subject == Subject(data.name, label))
    problem = data.problem or (Reason.REJECTED_ROWS if rejection else None)
    detail: VerdictDetail = {"rejected": rejection.detail} if rejection and not data.problem else {}
    return RuleInput(
        Subject(data.name, label), window, counts, baseline, label_shifts, problem, detail, before=before,
        new_version=is_new_version(data, baseline),
    )  # fmt: skip


def with_maturity(rule: Rule, rule_input: RuleInput, current: WindowCounts) -> RuleInput:
    """The input, with the problem ``not_mature`` where fewer truths are known than the rule waits for.

    If a part that the rule needs could not be read, the problem is ``unresolved_failed``.
    """
    needed = {DELAYS_FAILED: rule.mature is not None, UNRESOLVED_FAILED: rule.metric in EXPECTED}
    if rule_input.problem is None and any(needed[part] for part in current.not_read):
        return replace(rule_input, problem=Reason.UNRESOLVED_FAILED)
    maturity = current.maturity.get(rule_input.subject.label)
    if rule.mature is None or maturity is None or rule_input.problem or maturity.of_expected >= rule.mature:
        return rule_input
    return replace(rule_input, problem=Reason.NOT_MATURE, detail={"maturity": maturity.detail(rule.mature)})
