"""A verdict explained in plain sentences: first version."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.alerts.words import advice, plain_words, title
from monitor.records import Reason, Verdict
from monitor.rules.model import Config

_WHY = {
    Reason.WITHIN_THRESHOLD: "The value is not past the threshold, and the rows could have shown it if it were.",
    Reason.NOT_SIGNIFICANT_IN_FAMILY: "The value is past the threshold, but chance alone among all labels of the "
    "source could have done it: the adjusted p-value is not below the false discovery rate.",
    Reason.STREAK_INCOMPLETE: "The value is past the threshold now, but not in every window the rule asks for.",
    Reason.INCREASED: "The rise is past the threshold, and chance could hardly have done it. The label behaves "
    "differently at the same scores.",
    Reason.TRAFFIC_MIX: "The rise is past the threshold and no chance, but at equal scores the label behaves as "
    "before: traffic moved to where it was always wrong.",
    Reason.ABOVE_THRESHOLD: "The value is above the threshold, and chance could hardly have done it.",
    Reason.BELOW_THRESHOLD: "The value is below the threshold, and chance could hardly have done it.",
    Reason.DISTRIBUTION_SHIFTED: "The distribution is farther from the baseline's than the threshold allows.",
    Reason.NO_BASELINE: "There is nothing to compare with: no baseline of this label has been pinned.",
    Reason.IN_BASELINE: "The window lies in the time the baseline was made from: it would be compared with itself.",
    Reason.TOO_FEW_ROWS: "The rows, even pooled, could not have shown a change that matters. This is no all-clear.",
    Reason.SCORES_MOVED: "The scores lie elsewhere than in the baseline's time, so bins cannot be compared.",
    Reason.NO_ROWS: "There were no rows to judge.",
    Reason.RELATION_ERROR: "The relation of this source is not what alerts.yaml says.",
    Reason.WAREHOUSE_FAILED: "The warehouse did not answer.",
}


def explain(verdict: Verdict, config: Config) -> Iterator[str]:
    """The sentences, in the order a person asks: what, how sure, against what, what could be seen, why, what now."""
    yield plain_words(verdict)
    yield _seen(verdict)
    if verdict.change is not None:
        yield (
            f"Against baseline version {verdict.baseline_version}: {_n(verdict.baseline)} then, a change of "
            f"{_n(verdict.change)} (95% interval {_n(verdict.change_low)} to {_n(verdict.change_high)})."
        )
    if verdict.p_value is not None:
        rate = config.evaluation.false_discovery_rate
        yield (
            f"How sure: p = {verdict.p_value:.3g}; adjusted for all labels and rules of the schedule "
            f"{_n(verdict.p_adjusted)}, which must be below {rate:g}."
        )
    if verdict.detectable is not None:
        seen, threshold = _n(verdict.detectable), f"{verdict.threshold:g}"
        yield f"What could have been seen with 80% power: {seen} (the threshold is {threshold})."
    yield f"So: {verdict.outcome} ({verdict.reason.value}). {_WHY[verdict.reason]}"
    yield f"What to do: {advice(verdict)}"
    yield f"More: docs/runbook/{verdict.reason.value}.md and docs/rules/{verdict.rule}.md"


def _seen(verdict: Verdict) -> str:
    if verdict.reason in (Reason.NO_BASELINE, Reason.IN_BASELINE):  # not looked at, which is not "undefined"
        return f"Seen in {verdict.window.name}: {verdict.n:,} rows, not measured by this rule."
    pooled = f", {verdict.windows} windows pooled" if verdict.windows > 1 else ""
    rows = "" if verdict.where == "all" else f" {verdict.where}"
    text = f"Seen in {verdict.window.name}: {title(verdict.metric)} {_n(verdict.value)}"
    if verdict.low is not None:
        text += f" (95% interval {_n(verdict.low)} to {_n(verdict.high)})"
    if verdict.plug_in is not None and verdict.plug_in != verdict.value:
        text += f", textbook value {_n(verdict.plug_in)}"
    return f"{text}, from {verdict.n:,}{rows} rows{pooled}."


def _n(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"
