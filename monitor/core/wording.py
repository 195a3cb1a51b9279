"""A verdict in plain words, and what to do about it. Pure; shared by Slack, the terminal and the report.

Nothing is escaped here; :mod:`monitor.alerting.slack.message` escapes text for Slack.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any
from unicodedata import bidirectional

from monitor.core.maturity import Maturity
from monitor.core.records import SCORE_BAND, Reason, Subject, Verdict
from monitor.core.source_settings import from_detail as changes_from
from monitor.core.source_settings import in_words

LABEL_LENGTH = 80
SEGMENT_LENGTH = 40
SETTINGS_LENGTH = 300
EMPTY = "(empty)"
"""What a value without any character to show is called."""
_ISOLATES, _ISOLATED = "\u2068\u2069", re.compile("\u2068([^\u2068\u2069]*)\u2069")
_NO_ISOLATES = dict.fromkeys(map(ord, _ISOLATES))
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})

#: Metrics whose numbers are shares, written in per cent or percentage points.
_SHARES = frozenset(
    {
        "ece",
        "mce",
        "overconfidence",
        "accuracy",
        "false_negative_rate",
        "expected_accuracy",
        "expected_overconfidence",
        "expected_ece",
    }
)
_TITLES = {
    "ece": "ECE", "mce": "MCE", "brier": "Brier score", "nll": "negative log-likelihood", "roc_auc": "ROC AUC",
    "pr_auc": "PR AUC", "accuracy": "accuracy", "overconfidence": "overconfidence",
    "false_negative_rate": "false-negative rate", "ks": "KS distance", "psi": "PSI", "chi_square": "Cramér's V",
    "wasserstein": "Wasserstein distance", "jensen_shannon": "Jensen-Shannon distance",
    "missing": "rise of the missing share", "new_categories": "share of new values",
    "constant": "share of values gone", "empty": "empty (1: yes)",
    "ace": "ACE", "equal_width_ece": "ECE, equal width", "brier_reliability": "Brier, reliability",
    "brier_resolution": "Brier, resolution", "brier_uncertainty": "Brier, uncertainty",
    "class_weighted_nll": "log loss, class-weighted", "cohens_d": "Cohen's d", "point_biserial": "point-biserial r",
    "f1": "F1", "macro_f1": "F1, macro", "weighted_f1": "F1, weighted", "micro_f1": "F1, micro", "aurc": "AURC",
    "e_aurc": "E-AURC", "multiclass_mcc": "MCC", "mse": "MSE", "rmse": "RMSE", "mae": "MAE", "r_squared": "R²",
    "auc_ovo": "ROC AUC, one-vs-one", "auc_ovr_macro": "ROC AUC, one-vs-rest", "kappa": "Cohen's kappa",
    "imcp_area": "IMCP area", "expected_accuracy": "expected accuracy (an estimate)",
    "expected_overconfidence": "expected overconfidence (an estimate)", "expected_ece": "expected ECE (an estimate)",
    "auc_ovr_weighted": "ROC AUC, one-vs-rest, weighted", "matthews_correlation": "Matthews correlation",
}  # fmt: skip
#: The meaning of overconfidence; every page gives it where it first uses the name.
OVERCONFIDENCE = "mean score minus accuracy"
_AT = re.compile(r"(ece|ace|brier|nll|precision)_at_(\d)")
#: Conditions of rules whose limit is the lowest allowed value.
FLOORS = frozenset({"below", "decrease"})
#: Not "automated items": a verdict does not say whether automation was on then.
_ROWS = {
    "all": "all items",
    "predicted": "items given this label",
    "automated": "items with scores from automate_at on",
}


def title(metric: str) -> str:
    """The usual name of a metric.

    >>> title("roc_auc"), title("ece_at_3"), title("balanced_error")
    ('ROC AUC', 'ECE@3', 'balanced error')
    """
    ranked = _AT.fullmatch(metric)
    return f"{title(ranked[1])}@{ranked[2]}" if ranked else _TITLES.get(metric, metric.replace("_", " "))


def printable(text: str) -> str:
    """``text`` without characters that a terminal or a reader does not show; lines and tabs stay.

    >>> printable("spam\\u202egnp\\x1b[31m.exe\\nnext")
    'spamgnp[31m.exe\\nnext'
    """
    return "".join(c for c in text if c.isprintable() or c in "\n\t" or c in _ISOLATES)


def clean(text: str, length: int = LABEL_LENGTH) -> str:
    """Text from outside, made safe for a sentence: one line, printable, not longer than ``length``.

    Control characters, and invisible ones that reorder text (right-to-left overrides), are removed, since they could
    change how a message reads. Of these only those stay that :func:`isolated` put around a name.

    >>> clean("spam\\u202egnp.exe\\n")
    'spamgnp.exe'
    >>> clean("x" * 10, length=4)
    'xxx…'
    """
    line = " ".join(text.split())
    shown = printable(line)
    cut = shown if len(shown) <= length else shown[: length - 1] + "…"
    return "".join(
        isolated(part) if is_isolated else part.translate(_NO_ISOLATES)
        for is_isolated, part in zip(cycle((False, True)), _ISOLATED.split(cut))
    )


def isolated(text: str) -> str:
    """A name for a sentence. If letters in it run from right to left, they reorder nothing around it.

    Without the two invisible characters, numbers behind such a name are shown before it. Other names stay as they are.

    >>> isolated("web"), isolated("\\u05d0") == "\\u2068\\u05d0\\u2069"
    ('web', True)
    """
    plain = text.translate(_NO_ISOLATES)
    return f"\u2068{plain}\u2069" if any(bidirectional(c) in _RIGHT_TO_LEFT for c in plain) else plain


def who(subject: Subject) -> str:
    """The subject, as at the beginning of a sentence.

    >>> who(Subject("tickets", "billing")), who(Subject("tickets", None))
    ('billing', 'tickets (all labels)')
    """
    return clean(subject.label) if subject.label is not None else f"{clean(subject.source)} (all labels)"


def percent(value: float | None) -> str:
    """A share in per cent, with a decimal only if it is needed.

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

    >>> count_of(1, "finding"), count_of(3, "finding"), count_of(0, "breach")
    ('1 finding', '3 findings', '0 breaches')
    """
    plural = "es" if what.endswith("ch") else "s"
    return f"{number:,} {what}{'' if number == 1 else plural}"


def and_more(texts: Sequence[str], most: int) -> str:
    """At most so many texts, and how many there are besides.

    >>> and_more(["a", "b", "c"], 2), and_more(["a", "b"], 2)
    ('a, b and 1 more', 'a, b')
    """
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def from_to(least: int, most: int) -> str:
    """Two numbers as a range, or the only one.

    >>> from_to(64, 1200), from_to(64, 64)
    ('64 to 1,200', '64')
    """
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def moment(at: datetime) -> str:
    """A time in the form of messages.

    >>> moment(datetime(2026, 11, 16, 6, 3, tzinfo=UTC))
    '2026-11-16 06:03 UTC'
    """
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def duration(length: timedelta) -> str:
    """A length of time in its two largest units.

    >>> duration(timedelta(days=8, hours=17, minutes=3)), duration(timedelta(minutes=75)), duration(timedelta(0))
    ('8 d 17 h', '1 h 15 min', '0 min')
    """
    days, hours, minutes = length.days, length.seconds // 3600, length.seconds // 60 % 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def stamp(at: datetime) -> str:
    """A time with its weekday, in the form of lines about the switch.

    >>> stamp(datetime(2026, 11, 16, 6, 3, tzinfo=UTC))
    'Mon 2026-11-16 06:03 UTC'
    """
    return f"{at.astimezone(UTC):%a %Y-%m-%d %H:%M} UTC"


def plain_words(verdict: Verdict) -> str:
    """A breach in one sentence that needs no knowledge of the metric.

    If ``verdict.detail`` has ``promised`` (mean score) and ``kept`` (hit rate), overconfidence is
    described with both.

    >>> from datetime import UTC, datetime
    >>> from monitor.core.records import Window
    >>> week = Window(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC), "2026-W46", "weekly")
    >>> plain_words(Verdict("v1", "automated-overconfidence", Subject("tickets", "billing"), week, "overconfidence",
    ...     "automated", "breach", Reason.ABOVE_THRESHOLD, "critical", 0.05, value=0.32,
    ...     detail={"promised": 0.91, "kept": 0.59}))
    'billing is overconfident: 59% correct, scores claimed 91%'
    """
    of = pooled(verdict)
    return f"{who(verdict.subject)} {ending(verdict)}{f' ({of})' if of else ''}"


def ending(verdict: Verdict) -> str:
    """The sentence of :func:`plain_words` without its subject and without the number of pooled windows."""
    judged = as_judged(verdict)
    remarks = ["textbook value"] if judged is not verdict else []
    remarks += ["no significance asked for"] if verdict.detail.get("certainty") == "none" else []
    return _breach(judged) + (f" ({', '.join(remarks)})" if remarks else "")


def as_judged(verdict: Verdict) -> Verdict:
    """The verdict with the numbers that its rule judges: textbook ones, without limits, for ``value: plug_in``."""
    if verdict.detail.get("judged") != "plug_in":
        return verdict
    return replace(
        verdict,
        value=verdict.plug_in,
        low=None,
        high=None,
        baseline=verdict.detail.get("textbook_baseline"),
        change=verdict.detail.get("textbook_change"),
        change_low=None,
        change_high=None,
    )


def pooled(verdict: Verdict) -> str:
    """The words for a value of several pooled windows; "" for one window."""
    unit = "days" if verdict.window.schedule == "daily" else "weeks"
    judged = verdict.outcome != "not_evaluated"
    return f"{verdict.windows} {unit} pooled" if verdict.windows > 1 and judged else ""


def amount(verdict: Verdict, value: float | None) -> str:
    """A value of the verdict's metric: percentage points for shares, the bare number otherwise."""
    if value is None:
        return "unknown"
    return points(value) if verdict.metric in _SHARES else f"{value:.3g}"


def level(verdict: Verdict, value: float | None) -> str:
    """A value of the verdict's metric in sentences: ECE 0.12, ROC AUC 0.74, 12 points, 4.1%."""
    if value is None:
        return "unknown"
    if verdict.metric in ("overconfidence", "expected_overconfidence"):
        return points(value)
    if verdict.metric in ("false_negative_rate", "accuracy", "expected_accuracy"):
        return percent(value)
    return f"{value:.3f}" if verdict.metric in _SHARES else f"{value:.3g}"


_SENTENCES: Mapping[Reason, Mapping[str, str]] = {
    Reason.TRAFFIC_MIX: {
        "": "has more traffic where scores were already wrong: {change}; at equal scores no change was found",
    },
    Reason.INCREASED: {
        "": "got worse: {change}",
        "ece": "calibration got worse: {change}",
        "mce": "{worst} ({weeks} {was})",
        "overconfidence": "got more overconfident among {rows}: {change}",
        "false_negative_rate": (
            "misses more than before{place}: {now} of true items not found, was {then} in {reference}"
        ),
    },
    Reason.DECREASED: {
        "": "separates right from wrong worse than before: {change}",
        **dict.fromkeys(("accuracy", "automated_accuracy"), "is correct less often than before: {change}"),
    },
    Reason.BELOW_THRESHOLD: {
        "": "is lower than allowed{place}: {title} {now}, at least {limit} required",
        "overconfidence": "is overconfident{place}: {gap}",
        "accuracy": "is correct too rarely{place}: {now} of {rows} correct, at least {limit} required",
        **dict.fromkeys(
            ("roc_auc", "pr_auc"),
            "separates right from wrong poorly{place}: {title} {now}, at least {limit} required",
        ),
    },
    Reason.ABOVE_THRESHOLD: {
        "": "is worse than allowed{place}: {title} {now}, at most {limit} allowed",
        "overconfidence": "is overconfident{place}: {gap}",
        "ece": "calibration is poor{place}: ECE {now}, at most {limit} allowed",
        "mce": "{worst}, at most {most} allowed",
        "false_negative_rate": (
            "misses too many{place}: {now} of true items not found, at most {limit} allowed"
        ),
    },
}  # fmt: skip
"""By the reason of a breach and its metric ("": any other), what is said after the subject's name."""


def _breach(verdict: Verdict) -> str:
    if verdict.reason == Reason.DISTRIBUTION_SHIFTED:
        return _shifted(verdict)
    of_metric = _SENTENCES.get(verdict.reason, _SENTENCES[Reason.ABOVE_THRESHOLD])
    sentence = of_metric.get(verdict.metric, of_metric[""]).format(
        now=level(verdict, verdict.value), then=level(verdict, verdict.baseline),
        limit=level(verdict, verdict.threshold), was=amount(verdict, verdict.baseline),
        most=amount(verdict, verdict.threshold), change=_now_and_then(verdict), gap=_gap(verdict),
        worst=_worst(verdict), place=place(verdict), rows=_ROWS[verdict.where], title=title(verdict.metric),
        reference=reference(verdict), weeks=reference(verdict).removeprefix("the "),
    )  # fmt: skip
    is_change = verdict.reason in (Reason.TRAFFIC_MIX, Reason.INCREASED, Reason.DECREASED)
    return sentence if is_change else sentence + _streak(verdict.detail, verdict)


def segment_name(column: str, value: str) -> str:
    """A segment of a label's rows in words.

    >>> segment_name("channel", "web"), segment_name("score_band", "from 0.9")
    ('channel = web', 'scores from 0.9')
    """
    if column == SCORE_BAND:
        return f"scores {clean(value)}"
    return f"{part_name(column)} = {part_name(value)}"


def part_name(text: str, length: int = SEGMENT_LENGTH) -> str:
    """A segment's column or value in a sentence.

    >>> part_name("web"), part_name("")
    ('web', '(empty)')
    """
    return isolated(clean(text, length)) or EMPTY


def place(verdict: Verdict) -> str:
    """The part that a rule is about: " in channel = web", or "" for all rows of a label."""
    segment = verdict.detail.get("segment")
    return "" if segment is None else f" in {segment_name(*segment)}"


def _named(verdict: Verdict, value: float | None) -> str:
    """A value with its metric: "ECE 0.120", "overconfident by 12 points"."""
    if verdict.metric == "overconfidence" and value is not None:
        return f"{'under' if value < 0 else 'over'}confident by {points(value)}"
    return f"{title(verdict.metric)} {level(verdict, value)}"


def reference(verdict: Verdict) -> str:
    """The reference of a change: the baseline, or the weeks before."""
    weeks = verdict.detail.get("reference")
    return "the baseline" if weeks is None else weeks_before(weeks["weeks"])


def weeks_before(weeks: int) -> str:
    """The weeks before, in sentences.

    >>> weeks_before(4), weeks_before(1)
    ('the 4 weeks before', 'the week before')
    """
    return "the week before" if weeks == 1 else f"the {weeks} weeks before"


def _now_and_then(verdict: Verdict) -> str:
    now = _named(verdict, verdict.value) + place(verdict)
    if verdict.metric == "overconfidence" and verdict.baseline is not None:
        return f"{now}, {_named(verdict, verdict.baseline)} in {reference(verdict)}"
    return f"{now}, was {level(verdict, verdict.baseline)} in {reference(verdict)}"


def _worst(verdict: Verdict) -> str:
    """The place, size and direction of the largest gap."""
    where, off = verdict.detail.get("worst_range"), off_in_worst(verdict)
    if where is None or not off:
        return f"has scores that are {amount(verdict, verdict.value)} off in their worst range{place(verdict)}"
    return f"is worst in scores {where[0]:.2f} to {where[1]:.2f}{place(verdict)}: {off}"


def off_in_worst(verdict: Verdict) -> str:
    """How far off the scores of the worst range are, and which way; "" where it is not known.

    By the value that the rule judges, which is the debiased MCE: the gap as observed is the largest of many by chance.
    """
    gap = verdict.detail.get("worst_gap")
    if gap is None:
        return ""
    value = as_judged(verdict).value if verdict.metric == "mce" else abs(gap)
    return f"{points(value)} too {'high' if gap < 0 else 'low'}"


def _gap(verdict: Verdict) -> str:
    """By how much scores claimed too much."""
    promised, kept = verdict.detail.get("promised"), verdict.detail.get("kept")
    of = "" if verdict.where == "automated" else f" of {_ROWS[verdict.where]}"  # the usual rows of messages
    if promised is None or kept is None:
        return f"{points(verdict.value)} less{of} correct than scores claimed"
    return f"{percent(kept)}{of} correct, scores claimed {percent(promised)}"


def _shifted(verdict: Verdict) -> str:
    sentence = _what_shifted(verdict.metric, verdict.detail.get("column", "score"), reference(verdict))
    now, limit = amount(verdict, verdict.value), amount(verdict, verdict.threshold)
    return f"{sentence}: {title(verdict.metric)} {now}, at most {limit} allowed"


def _what_shifted(test: str, column: str, then: str = "the baseline") -> str:
    """The result of a shift test, after its subject's name.

    >>> _what_shifted("chi_square", "actual"), _what_shifted("missing", "language")
    ('true labels come in other proportions than in the baseline', 'has more missing values in language')
    """
    if column in ("score", "label", "actual"):
        labels = {"label": "predicted labels", "actual": "true labels"}.get(column, "labels")
        mix = f"{labels} come in other proportions than in {then}"
        return mix if test == "chi_square" else f"scores are distributed differently than in {then}"
    name = clean(column, LABEL_LENGTH)
    found = {
        "missing": f"has more missing values in {name}",
        "empty": f"has no value left in {name}",
        "new_categories": f"has values in {name} that the baseline does not have",
        "constant": f"has one value left in {name}",
    }
    return found.get(test, f"has {name} distributed differently than in the baseline")


def _streak(detail: Mapping[str, Any], verdict: Verdict) -> str:
    asks = detail.get("asks", 1)
    if asks <= 1:
        return ""
    unit = "days" if verdict.window.schedule == "daily" else "weeks"
    longest = max((group["windows"] for group in detail.get("groups", [])), default=1)
    return f", {asks} {unit} in a row" if longest == 1 else f", {asks} times in a row in {longest} {unit} together"


def out_of_reach(verdict: Verdict) -> bool:
    """Whether no truth can be beyond the threshold."""
    return bool(verdict.detail.get("out_of_reach", False))


def maturity_words(maturity: Maturity) -> str:
    """How many items of a window have their truth, and which share is finally expected, in words.

    >>> from datetime import UTC, datetime
    >>> from monitor.core import windows
    >>> week = windows.containing("weekly", datetime(2026, 11, 16, tzinfo=UTC), windows.ZoneInfo("UTC"))
    >>> maturity_words(Maturity(Subject("tickets", None), week, 1000, 620, 0.93, 0.913, 0.951))
    '62% of 1,000 items have their truth; 91% to 95% are expected in the end: provisional'
    """
    state = "final" if maturity.is_final else "provisional"
    return f"{maturity.share:.0%} of {maturity.items:,} items have their truth; {expected_words(maturity)}: {state}"


def expected_words(maturity: Maturity) -> str:
    """The share of items that is expected to have a truth in the end, in words."""
    if maturity.low is None or maturity.high is None:
        return "how many will is not known"
    low, high = f"{maturity.low:.0%}", f"{maturity.high:.0%}"
    return f"{low if low == high else f'{low} to {high}'} are expected in the end"


def waits_for(maturity: Mapping[str, Any]) -> str:
    """Why a rule waits for truths, from the detail of its verdict.

    >>> waits_for({"items": 1000, "known": 620, "of_expected": 0.652, "least": 0.9})
    '62% of 1,000 items have their truth, 65% of those expected at most; the rule waits for 90%'
    """
    share = maturity["known"] / maturity["items"] if maturity["items"] else 1.0
    what = f"{share:.0%} of {maturity['items']:,} items have their truth"
    return (
        f"{what}, {maturity['of_expected']:.0%} of those expected at most; the rule waits for {maturity['least']:.0%}"
    )


def changed_settings(verdict: Verdict) -> str:
    """What has changed of the source since its baseline was pinned, so that nothing is compared with it."""
    return clean(in_words(changes_from(verdict.detail.get("settings", ()))), length=SETTINGS_LENGTH) or "not stored"


def missing_part(verdict: Verdict) -> str:
    """The part of the source that a rule needs beside its counts: the waiting items for an estimate, or delays."""
    return (
        "which items wait for their truth" if "before_truth" in verdict.detail else "when the truths of its items came"
    )


def renamed_since(verdict: Verdict) -> str:
    """What was renamed in the source since the baseline was pinned, which is still compared with; "" if nothing."""
    return clean(in_words(changes_from(verdict.detail.get("renamed", ()))), length=SETTINGS_LENGTH)
