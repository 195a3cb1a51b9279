"""A verdict in plain words, and what to do about it. Pure; shared by Slack, the terminal and the report.

Nothing here is escaped for any medium: :mod:`monitor.alerts.message` does that for Slack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from monitor.records import Incident, IncidentEvent, Reason, Subject, Verdict

LABEL_LENGTH = 80

#: Metrics whose numbers are shares, told in per cent or percentage points.
_SHARES = frozenset({"ece", "mce", "shortfall", "accuracy", "false_negative_rate"})
_TITLES = {
    "ece": "ECE", "mce": "MCE", "brier": "Brier score", "nll": "negative log-likelihood", "roc_auc": "ROC AUC",
    "pr_auc": "PR AUC", "accuracy": "accuracy", "shortfall": "shortfall", "false_negative_rate": "false-negative rate",
    "ks": "KS distance", "psi": "PSI", "chi_square": "Cramér's V",
    "ace": "ACE", "equal_width_ece": "ECE, equal width", "brier_reliability": "Brier, reliability",
    "brier_resolution": "Brier, resolution", "brier_uncertainty": "Brier, uncertainty",
    "class_weighted_nll": "log loss, class-weighted", "cohens_d": "Cohen's d", "point_biserial": "point-biserial r",
    "f1": "F1", "macro_f1": "F1, macro", "weighted_f1": "F1, weighted", "micro_f1": "F1, micro", "aurc": "AURC",
    "e_aurc": "E-AURC", "multiclass_mcc": "MCC", "mse": "MSE", "rmse": "RMSE", "mae": "MAE", "r_squared": "R²",
    "auc_ovo": "ROC AUC, one-vs-one", "auc_ovr_macro": "ROC AUC, one-vs-rest", "kappa": "Cohen's kappa",
    "imcp_area": "IMCP area",
    "auc_ovr_weighted": "ROC AUC, one-vs-rest, weighted", "matthews_correlation": "Matthews correlation",
}  # fmt: skip
_AT = re.compile(r"(ece|ace|brier|nll|precision)_at_(\d)")
_ROWS = {"all": "items", "predicted": "items given this label", "automated": "automated items"}


def title(metric: str) -> str:
    """The name people know a metric by.

    >>> title("roc_auc"), title("ece_at_3"), title("balanced_error")
    ('ROC AUC', 'ECE@3', 'balanced error')
    """
    ranked = _AT.fullmatch(metric)
    return f"{title(ranked[1])}@{ranked[2]}" if ranked else _TITLES.get(metric, metric.replace("_", " "))


def clean(text: str, length: int = LABEL_LENGTH) -> str:
    """Foreign text made fit to stand in a sentence: one line, printable, not longer than ``length``.

    Control characters and the invisible ones that reorder text (right-to-left overrides) go, since
    they could make a message read as something else.

    >>> clean("spam\\u202egnp.exe\\n")
    'spamgnp.exe'
    >>> clean("x" * 10, length=4)
    'xxx…'
    """
    line = " ".join(text.split())
    printable = "".join(c for c in line if c.isprintable())
    return printable if len(printable) <= length else printable[: length - 1] + "…"


def who(subject: Subject) -> str:
    """The subject as a sentence begins with it.

    >>> who(Subject("tickets", "billing")), who(Subject("tickets", None))
    ('billing', 'tickets (all labels)')
    """
    return clean(subject.label) if subject.label is not None else f"{clean(subject.source)} (all labels)"


def percent(value: float | None) -> str:
    """A share in per cent, with a decimal only where it tells something.

    >>> percent(0.59), percent(0.0213), percent(None)
    ('59%', '2.1%', 'unknown')
    """
    if value is None:
        return "unknown"
    number = 100 * value
    return f"{number:.1f}%" if abs(number) < 10 else f"{number:.0f}%"


def points(value: float | None) -> str:
    """A difference of shares in percentage points.

    >>> points(0.32), points(0.061)
    ('32 points', '6.1 points')
    """
    if value is None:
        return "an unknown number of points"
    number = abs(100 * value)
    return f"{number:.1f} points" if number < 10 else f"{number:.0f} points"


def count_of(number: int, what: str) -> str:
    """A number with its noun.

    >>> count_of(1, "finding"), count_of(3, "finding")
    ('1 finding', '3 findings')
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def moment(at: datetime) -> str:
    """A time as messages tell it.

    >>> moment(datetime(2026, 11, 16, 6, 3, tzinfo=UTC))
    '2026-11-16 06:03 UTC'
    """
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def standing(incident: Incident, breach: Verdict, last: IncidentEvent | None) -> str:
    """How an incident stands, as one sentence without its full stop; "" where it has just been opened.

    ``breach`` is its last breach, ``last`` what happened to it last.
    """
    if incident.state == "resolved":
        return _ended(incident, last)
    so_far = [_by_whom(incident), _so_far(incident, breach), _latest(incident, last)]
    told = "; ".join(part for part in so_far if part)
    return told[:1].upper() + told[1:]


def news(incident: Incident, last: IncidentEvent | None) -> str:
    """What has just happened to an incident, by the named reason of the decision, and how long it has lasted."""
    told = last.reason if last is not None else incident.state
    if incident.breaches < 2 or incident.state == "resolved":
        return told
    unit = "day" if incident.schedule == "daily" else "week"
    return f"{told}, {count_of(incident.breaches, unit)} in breach since {incident.opened_window}"


def _by_whom(incident: Incident) -> str:
    if incident.state == "acknowledged" and incident.acknowledged_at is not None:
        return f"Acknowledged by {clean(incident.acknowledged_by or 'somebody')}, {moment(incident.acknowledged_at)}"
    if incident.state == "silenced" and incident.silenced_until is not None:
        return f"Silenced until {moment(incident.silenced_until)} by {clean(incident.silenced_by or 'somebody')}"
    return ""


def _so_far(incident: Incident, breach: Verdict) -> str:
    came_back = {0: "", 1: "came back once", 2: "came back twice"}.get(
        incident.reopened, f"came back {incident.reopened} times"
    )
    if incident.breaches < 2:
        return came_back
    unit = "day" if incident.schedule == "daily" else "week"
    many = f"in breach in {count_of(incident.breaches, unit)} since {incident.opened_window}"
    return f"{many}, last in {breach.window.name}" + (f"; {came_back}" if came_back else "")


def _latest(incident: Incident, last: IncidentEvent | None) -> str:
    """What the last evaluation saw, where it saw no breach."""
    if incident.ok_windows:
        return (
            f"within the threshold in {last.window if last and last.window else 'the last window'}, held back "
            "since it keeps coming back: one more good window ends it"
        )
    if last is not None and last.kind == "continued" and "not evaluated" in last.reason:
        return f"{last.reason} ({last.window})"
    return ""


def _ended(incident: Incident, last: IncidentEvent | None) -> str:
    if incident.resolved_by is not None:
        why = clean(str(last.detail.get("why", "")), 300) if last is not None else ""
        return f"Resolved by {clean(incident.resolved_by)}" + (f": {why}" if why else "")
    good = (
        "within threshold again" if incident.ok_windows < 2 else f"within threshold {incident.ok_windows} times running"
    )
    unit = "day" if incident.schedule == "daily" else "week"
    return f"Resolved in {incident.resolved_window}: {good}, after {count_of(incident.breaches, unit)} in breach"


def plain_words(verdict: Verdict) -> str:
    """What the verdict says, in one sentence that needs no knowledge of the metric.

    ``verdict.detail`` may hold ``promised`` (mean score) and ``kept`` (hit rate): a shortfall is
    then told with both.

    >>> from datetime import UTC, datetime
    >>> from monitor.records import Window
    >>> week = Window(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC), "2026-W46", "weekly")
    >>> plain_words(Verdict("v1", "automated-shortfall", Subject("tickets", "billing"), week, "shortfall", "automated",
    ...     "breach", Reason.ABOVE_THRESHOLD, "critical", 0.05, value=0.32, detail={"promised": 0.91, "kept": 0.59}))
    'billing promises more than it keeps: automated items were right 59% of the time, their scores said 91%'
    """
    if verdict.outcome == "breach":
        return f"{who(verdict.subject)} {_breach(verdict)}"
    told = _NOT_JUDGED if verdict.outcome == "not_evaluated" else _FINE
    tell = told.get(verdict.reason)
    ending = tell(verdict) if tell else verdict.reason.value.replace("_", " ")
    return f"{who(verdict.subject)} {ending}"


def amount(verdict: Verdict, value: float | None) -> str:
    """A value of the verdict's metric: percentage points for shares, the bare number otherwise."""
    if value is None:
        return "unknown"
    return points(value) if verdict.metric in _SHARES else f"{value:.3g}"


def _breach(verdict: Verdict) -> str:
    if verdict.reason == Reason.DISTRIBUTION_SHIFTED:
        return _shifted(verdict)
    if verdict.reason == Reason.TRAFFIC_MIX:
        return (
            "shows no sign of a change at equal scores, but more traffic now falls where its scores were always wrong: "
            f"{_error(verdict)} now, {amount(verdict, verdict.baseline)} in the baseline"
        )
    rose = verdict.reason == Reason.INCREASED
    return _rise(verdict) if rose else _level(verdict) + _streak(verdict.detail, verdict)


def _rise(verdict: Verdict) -> str:
    now, then = amount(verdict, verdict.value), amount(verdict, verdict.baseline)
    told = {
        "ece": f"has scores that no longer mean what they did: off by {now} on average, {then} in the baseline",
        "mce": f"has a score range that went wrong: there its scores are off by {now}, {then} at worst in the baseline",
        "shortfall": f"keeps less of what its scores promise: {now} too few hits among {_ROWS[verdict.where]}, "
        f"{then} in the baseline",
        "false_negative_rate": f"misses more than it did: {percent(verdict.value)} of the true ones were not found, "
        f"{percent(verdict.baseline)} in the baseline",
    }
    return told.get(verdict.metric, f"got worse: {title(verdict.metric)} rose from {then} to {now}")


def _level(verdict: Verdict) -> str:
    if verdict.metric == "shortfall":
        return _shortfall(verdict)
    now, limit = amount(verdict, verdict.value), amount(verdict, verdict.threshold)
    if verdict.reason == Reason.BELOW_THRESHOLD:
        return _too_low(verdict, now, limit)
    told = {
        "ece": f"has scores that are off by {now} on average, more than the {limit} allowed",
        "mce": f"has scores that are off by {now} in their worst range, more than the {limit} allowed",
        "false_negative_rate": f"misses too many: {percent(verdict.value)} of the true ones were not found, "
        f"{percent(verdict.threshold)} are allowed",
    }
    return told.get(
        verdict.metric, f"is worse than allowed: {title(verdict.metric)} is {now}, at most {limit} is allowed"
    )


def _too_low(verdict: Verdict, now: str, limit: str) -> str:
    if verdict.metric in ("roc_auc", "pr_auc"):
        told = "tells right from wrong less well than it must"
        return f"{told}: {title(verdict.metric)} is {now}, at least {limit} is wanted"
    if verdict.metric == "accuracy":
        right, wanted = percent(verdict.value), percent(verdict.threshold)
        return f"is right too seldom: {right} of {_ROWS[verdict.where]}, {wanted} are wanted"
    return f"is lower than allowed: {title(verdict.metric)} is {now}, at least {limit} is wanted"


def _shortfall(verdict: Verdict) -> str:
    promised, kept = verdict.detail.get("promised"), verdict.detail.get("kept")
    rows = _ROWS[verdict.where]
    if promised is None or kept is None:
        return (
            f"promises more than it keeps: {rows} were right {points(verdict.value)} less often than their scores said"
        )
    told = f"{rows} were right {percent(kept)} of the time, their scores said {percent(promised)}"
    return f"promises more than it keeps: {told}"


def _shifted(verdict: Verdict) -> str:
    what = {
        "ks": "gets other scores than in the baseline",
        "psi": "gets other scores than in the baseline",
        "chi_square": "sees its labels in other proportions than in the baseline",
    }
    told = what.get(verdict.metric, "gets other data than in the baseline")
    now, limit = amount(verdict, verdict.value), amount(verdict, verdict.threshold)
    return f"{told}: {title(verdict.metric)} {now}, {limit} is allowed"


def _error(verdict: Verdict) -> str:
    where = "in the worst score range" if verdict.metric == "mce" else "on average"
    return f"they are off by {amount(verdict, verdict.value)} {where}"


def _streak(detail: Mapping[str, Any], verdict: Verdict) -> str:
    asks = detail.get("asks", 1)
    if asks <= 1:
        return ""
    unit = "days" if verdict.window.schedule == "daily" else "weeks"
    longest = max((group["windows"] for group in detail.get("groups", [])), default=1)
    return f", {asks} {unit} running" if longest == 1 else f", {asks} times running in {longest} {unit} together"


def _too_few(verdict: Verdict) -> str:
    needed, condition = verdict.detail.get("rows_needed", 0), verdict.detail.get("condition")
    rows = f"{verdict.n:,} rows" + (f" ({needed:,} are needed)" if verdict.n < needed else "")
    if verdict.value is None and "kept" in verdict.detail:
        return f"was not judged: {title(verdict.metric)} is undefined for its {rows}"
    if verdict.detectable is None:
        return f"was not judged: {rows} are too few"
    least = f"{amount(verdict, verdict.detectable)} or more"
    what = f"a value {least} past the threshold" if condition in ("above", "below") else f"a change of {least}"
    return f"was not judged: with {rows} only {what} would show"


def _no_rows(verdict: Verdict) -> str:
    if verdict.where == "all" or not verdict.n:
        return "was not judged: no item with a known outcome arrived"
    what = {"predicted": "was given this label", "automated": "was acted on automatically"}[verdict.where]
    return f"was not judged: {verdict.n:,} outcomes arrived, but none of an item that {what}"


_NOT_JUDGED: dict[Reason, Callable[[Verdict], str]] = {
    Reason.NO_BASELINE: lambda _: "was not judged: there is no baseline to compare with yet",
    Reason.IN_BASELINE: lambda _: "was not judged: this window is part of the baseline",
    Reason.TOO_FEW_ROWS: _too_few,
    Reason.SCORES_MOVED: lambda _: (
        "was not judged: its scores lie elsewhere now, too few are comparable with the baseline"
    ),
    Reason.NO_ROWS: _no_rows,
    Reason.REJECTED_ROWS: lambda _: "was not judged: too many of its rows were rejected",
    Reason.RELATION_ERROR: lambda _: "was not judged: the source could not be read as configured",
    Reason.WAREHOUSE_FAILED: lambda _: "was not judged: the warehouse did not answer",
}

_FINE: dict[Reason, Callable[[Verdict], str]] = {
    Reason.WITHIN_THRESHOLD: lambda v: f"is fine: {title(v.metric)} is within what the rule allows",
    Reason.NOT_SIGNIFICANT_IN_FAMILY: lambda v: (
        f"is {unconfirmed_words(v)}: {title(v.metric)} {amount(v, v.value)}, "
        f"adjusted p {'unknown' if v.p_adjusted is None else format(v.p_adjusted, '.2g')}, chance alone could do that"
    ),
    Reason.STREAK_INCOMPLETE: lambda v: (
        f"is {unconfirmed_words(v)}: not yet in as many windows in a row as the rule asks for"
    ),
}


def unconfirmed_words(verdict: Verdict) -> str:
    """The outcome ``unconfirmed`` for people: on which side of its limit the value is, and that this is no proof."""
    side = "below" if verdict.detail.get("condition") == "below" else "above"
    return f"{side} the limit, not confirmed"


def advice(verdict: Verdict) -> str:
    """What to do now, by the verdict's reason: one or two sentences."""
    if verdict.reason == Reason.NO_ROWS and verdict.where != "all" and verdict.n:
        return "Nothing to do if so much is meant to be left to people; else see whether `automate_at` is too high."
    if verdict.reason in (Reason.ABOVE_THRESHOLD, Reason.BELOW_THRESHOLD):
        return _LEVEL_ADVICE.get(verdict.metric, _LOOK)
    return _ADVICE[verdict.reason]


_RANKING = (
    "Recalibration cannot mend this: the ranking itself is poor. "
    "Look for a new model version or new kinds of items, and retrain."
)
_LOOK = "Look at the trend and at some of the wrong items, then recalibrate or retrain."

_LEVEL_ADVICE = {
    "shortfall": "Let people decide these items. Read some of the wrong ones, then raise `automate_at` or recalibrate "
    "before automation is turned on again.",
    "mce": "Let people decide the items in this score range. If the range stays wrong in the next window, recalibrate.",
    "ece": "Recalibrate the scores, then pin a new baseline. Until then, do not read a score as a probability.",
    "roc_auc": _RANKING,
    "pr_auc": _RANKING,
    "false_negative_rate": "Look through recent items for missed ones and handle them by hand. "
    "Lower the decision threshold or retrain.",
    "accuracy": "Read some of the wrong items: they tell whether the threshold or the model is to blame.",
}

_ADVICE = {
    Reason.ABOVE_THRESHOLD: _LOOK,
    Reason.BELOW_THRESHOLD: _LOOK,
    Reason.INCREASED: "Ask what changed since the baseline: a model version, a prompt, a channel. "
    "Roll that back, or recalibrate and pin a new baseline.",
    Reason.TRAFFIC_MIX: "The traffic changed; nothing shows that the classifier did. "
    "Find the segment that grew; recalibrate where its scores were always wrong.",
    Reason.DISTRIBUTION_SHIFTED: "A shift alone is no fault: see whether ECE or shortfall moved as well. "
    "If the new traffic is here to stay, pin a new baseline.",
    Reason.WITHIN_THRESHOLD: "Nothing to do.",
    Reason.NOT_SIGNIFICANT_IN_FAMILY: "Not confirmed: look again after the next window.",
    Reason.STREAK_INCOMPLETE: "Not confirmed: the next window decides.",
    Reason.NO_BASELINE: "Pin a baseline: `calmon baseline pin`.",
    Reason.IN_BASELINE: "Nothing to do: a baseline is not compared with itself.",
    Reason.TOO_FEW_ROWS: "Wait for more rows (a new baseline or main model version begins pooling anew), "
    "pool more weeks (`pool_weeks`), or have more items checked by people.",
    Reason.SCORES_MOVED: "If the new scores are meant (a new model version), pin a new baseline.",
    Reason.NO_ROWS: "See whether outcomes still reach the warehouse for this label.",
    Reason.REJECTED_ROWS: "Fix the rejected rows at their source, then run the same window again.",
    Reason.RELATION_ERROR: "Run `calmon check`: it names the column or relation that is wrong.",
    Reason.WAREHOUSE_FAILED: "See whether the warehouse is up, then run the same command again.",
}
