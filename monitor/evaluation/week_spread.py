"""How much the weeks of a baseline differ, and what that makes of a week's rows when a rule compares with it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monitor.config.model import Config, Rule
from monitor.core.baseline import Baseline, Baselines, Edges
from monitor.core.counts import Counts
from monitor.core.records import WHERES, WeekSpread, WeekSpreads, Where, spread_key
from monitor.evaluation.data import rows_in
from monitor.inference.between_weeks import WeekCorrelation, correlations, spread_of, spread_of_gaps
from monitor.inference.bins import binned
from monitor.inference.levels import law_of
from monitor.inference.sampling import LogitArea
from monitor.metrics.names import ECES
from monitor.metrics.registry import METRICS
from monitor.metrics.selective import OF_AUTOMATED

Compared = tuple[str, Where]
Spreads = dict[str | None, WeekSpread]
BINNED = ("ece", "mce")
GAPS = "mce"
"""What the gaps of bins are kept as: they are what both calibration errors are made of."""
ALWAYS: tuple[Compared, ...] = (
    *((GAPS, where) for where in WHERES),
    ("roc_auc", "all"),
    ("accuracy", "all"),
    ("automated_accuracy", "all"),
)
"""What shipped rules compare, whatever the rules are when a baseline is pinned: they may be turned on later."""


def compared_by(config: Config) -> tuple[Compared, ...]:
    """The metrics of counts, with their rows, whose spread is kept with a baseline."""
    rules = [(rule.measure, rule.where) for rule in config.rules if rule.test is None and rule.compares]
    own = [each for each in rules if METRICS[each[0]].needs == "counts" and each[0] not in ECES]
    return tuple(dict.fromkeys([*ALWAYS, *own]))


def spreads_of(weeks: Sequence[Counts], edges: Edges, compared: Sequence[Compared]) -> WeekSpreads:
    """The spread of each metric over the weeks of one label; those that too few weeks have are left out."""
    found = {spread_key(*each): _spread(*each, weeks, edges) for each in compared}
    return {name: spread for name, spread in found.items() if spread is not None}


def _spread(metric: str, where: Where, weeks: Sequence[Counts], edges: Edges) -> WeekSpread | None:
    parts = [part for week in weeks for part in [rows_in(where, week)] if part.w.any()]
    if metric == GAPS:
        return spread_of_gaps([binned(part, edges[where]) for part in parts])
    laws = [(law_of(metric, part), measured_rows(metric, part)) for part in parts]
    seen = [(law, rows) for law, rows in laws if law is not None and rows > 0]
    # at the value found by all weeks would be better still, but few laws can say their variance at another value
    variances = [law.variance if isinstance(law, LogitArea) else law.above.variance for law, _ in seen]
    return spread_of([law.value for law, _ in seen], variances, [rows for _, rows in seen])


def measured_rows(metric: str, counts: Counts) -> float:
    """The independent rows that a metric measures."""
    return (rows_in("automated", counts) if metric in OF_AUTOMATED else counts).effective_rows


def weeks_of(rule: Rule, baseline: Baseline | None) -> int:
    """The number of weeks of a baseline that are known to differ."""
    spread = None if baseline is None else baseline.weeks.get(spread_key_of(rule))
    return 1 if spread is None else spread.weeks


def spread_key_of(rule: Rule) -> str:
    """The name of the spread that a rule uses: that of the gaps of all bins for a rule on calibration."""
    return spread_key(GAPS if rule.measure in BINNED else rule.measure, rule.where)


def correlations_for(rule: Rule, baselines: Baselines) -> Mapping[str | None, WeekCorrelation]:
    """By label, the correlation of two rows of one week in what the rule compares with these baselines.

    The source as a whole (None) is no label among others: it borrows from none.
    """
    key = spread_key_of(rule)
    known = {label: base.weeks[key] for label, base in baselines.items() if key in base.weeks}
    labels: Spreads = {label: spread for label, spread in known.items() if label is not None}
    whole: Spreads = {label: spread for label, spread in known.items() if label is None}
    return {**correlations(labels), **correlations(whole)}
