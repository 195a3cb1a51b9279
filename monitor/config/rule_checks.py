"""Mistakes of one rule that types cannot show: keys that do not fit its kind, and values that no source has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

from monitor.config.entries import GIVEN, NO, SEVERAL, But, Found, Misfit, Written, misfits, repeated
from monitor.config.model import OF_BANDS, SourceKind, default_column
from monitor.config.problems import meant
from monitor.core.records import SCORE_BAND
from monitor.metrics.names import (
    ACCUMULATES,
    CHANGES_ACCUMULATE,
    EXPECTED,
    GIVES,
    MOVED_BY_TRUTHS,
    NEEDS,
    TOTALS,
    WHERE_PREDICTED,
    WHOLE,
    can_give,
    range_of,
)

KINDS: tuple[str, ...] = get_args(SourceKind)
CHANGES = {"increase": "an increase", "decrease": "a decrease"}
_FALLING = ("roc_auc", "pr_auc", "accuracy", "automated_accuracy")
_WORSE = {"increase": "above", "decrease": "below"}
_ABOVE_OR_BELOW = "condition: above, or condition: below"
_SOME_ROWS = ("predicted", "automated")
_WHOLE_SCOPE = "scope: source, or leave the key out"
_NOTHING_LEFT = "{subject} the source as a whole, so matching {key!r} leaves nothing"
_UNCERTAIN = "{key} is of a metric that is compared with a threshold, and this rule is about {evidence}"

_OF_RULES: tuple[Misfit, ...] = (
    Misfit(
        "metric and test", "test:", GIVEN,
        "a rule has one of metric and test, not both", "metric or test, and a second rule for the other", "CAL023",
    ),
    Misfit("kept nowhere", "condition", CHANGES, "{metric} has no baseline: it {sums}", _ABOVE_OR_BELOW),
    Misfit("kept nowhere", "for:", SEVERAL, "{metric} is of one window alone: it {sums}", NO),
    Misfit("whole", "where", _SOME_ROWS, "{metric} is of all rows", "where: all, or leave the key out"),
    Misfit(
        "whole", "scope", ("labels",),
        "{metric} belongs to the source as a whole, so scope: labels leaves nothing", _WHOLE_SCOPE, "CAL027",
    ),
    Misfit(
        "expected", "mature:", GIVEN, "{metric} is an estimate made before the truth is known: it waits for none", NO
    ),
    Misfit(
        "expected", "condition", CHANGES,
        "{metric} is compared with a threshold: no baseline has rows without a truth", _ABOVE_OR_BELOW,
    ),
    Misfit("expected", "for:", SEVERAL, "{metric} is of one window alone: rows without a truth are not kept", NO),
    Misfit(
        "expected", "actions", ("disable_automation", "limit_scores", "block_scores"),
        "{metric} is an estimate made before the truth is known, so it switches nothing off",
        "actions: [slack], and a rule on accuracy, overconfidence or ece that switches",
    ),
    Misfit(
        "expected of no row", "metric", GIVEN,
        "{metric} is of rows whose truth is not known yet, and no source of this rule says that it has any",
        "unresolved: true at the source", "CAL032",
    ),
    Misfit(
        "immature", "mature:", GIVEN,
        "mature waits for truths, and no source of this rule says which rows have none yet",
        "window_on: predicted_at and unresolved at the source, or no mature",
    ),
    Misfit(
        "not accumulated", "average_run_length:", GIVEN,
        "average_run_length belongs to condition: accumulated, and this rule has another",
        "condition: accumulated, or no average_run_length",
    ),
    Misfit(
        "no lasting change", "evidence:", ("accumulated",),
        "evidence on a change accumulates where a metric with an exact law, the ECE or the ROC AUC gets worse",
        "condition: increase with metric: ece, or condition: decrease with metric: roc_auc",
    ),
    *(
        Misfit("lasting change", key, values, f"evidence on a change accumulates {summary}", NO)
        for key, values, summary in (
            ("schedule", ("daily",), "week by week: how days differ is not known"),
            ("scope", ("source", "segments"), "label by label"),
            ("reference:", ("previous_weeks",), "since the baseline"),
        )
    ),
    Misfit("lasting ranking", "where", _SOME_ROWS, "evidence on the ROC AUC accumulates of all rows", "where: all"),
    Misfit("accumulated", "for:", SEVERAL, "accumulated evidence is of many windows already", NO),
    Misfit(
        "without exact law", "condition", ("accumulated",),
        "evidence accumulates for metrics with an exact law only, not for {metric}",
        f"metric: one of {', '.join(ACCUMULATES)}",
    ),
    Misfit(
        "accumulated on another", "scope", ("segments",),
        "evidence on segments accumulates for overconfidence only, not for {metric}",
        "metric: overconfidence, or scope: labels",
    ),
    *(Misfit("without p-value", f"{key}:", GIVEN, _UNCERTAIN, NO) for key in ("certainty", "value")),
    Misfit(
        "not of segments", "segments:", GIVEN, "segments belongs to scope: segments, and this rule has another",
        "scope: segments beside it, or no segments",
    ),
    Misfit(
        "of no part", "scope", ("segments",),
        "rules on segments are on metrics of the rows of each label, and this rule is on {counted}",
        "metric: overconfidence, or no scope",
    ),
    Misfit(
        "of segments", "certainty:", ("none",),
        "segments are many, and without certainty chance alone would be found in one of them", NO,
    ),
    Misfit(
        "of segments", "actions", ("block_scores",),
        "score ranges are blocked for the whole label, and this rule is on its segments",
        "actions: [slack], or scope: labels",
    ),
    Misfit(
        "of columns", "segments", (SCORE_BAND,),
        f"{SCORE_BAND} is for {' and '.join(OF_BANDS)}, and this rule is on {{metric}}",
        "segments: all, or the names of columns",
    ),
    Misfit(
        "not of segments", "turns_off:", ("segments",),
        "turns_off: segments belongs to scope: segments, and this rule has another",
        "scope: segments beside it, or no turns_off",
    ),
    Misfit(
        "of segments, passive", "turns_off:", ("segments",),
        "turns_off says what disable_automation turns off, and this rule has no such action",
        "actions: [slack, disable_automation]",
    ),
    Misfit(  # routers must send the values of the columns
        "of segments, unnamed", "turns_off:", ("segments",),
        "segments are turned off by columns that routers know, and this rule does not name any",
        "segments: [the columns], without score_band",
    ),
    Misfit(
        "not rolling", "reference_weeks:", GIVEN,
        "reference_weeks says how many weeks reference: previous_weeks has, and this rule has another",
        "reference: previous_weeks beside it",
    ),
    Misfit(
        "rolling, unfit", "reference:", GIVEN,
        "the weeks before are a reference for one week of a label or a source: for a change of a metric that has "
        "counts, or a shift test of scores or labels",
        "schedule: weekly, for: 1, scope: labels and condition: increase, or no reference",
    ),
    Misfit(
        "on a level", "condition", ("decrease",),
        f"condition: decrease is about {', '.join(_FALLING[:-1])} and {_FALLING[-1]}, not about {{metric}}",
        "condition: increase, or metric: roc_auc",
    ),
    Misfit("not mutable", "mute:", GIVEN, "mute is of a significant rise of the ECE, and this rule is not", "no mute"),
    Misfit(
        "without test", "column:", GIVEN,
        "column belongs to shift tests, and this rule has none", "test: ks beside column, or no column",
    ),
    Misfit(
        "test", "condition", ("increase", "decrease", "below", "accumulated"),
        "a shift test compares with the baseline already: it fires above its threshold",
        "condition: above, or leave the key out",
    ),
    Misfit("test", "where", _SOME_ROWS, "a shift test is of all rows", "where: all, or leave the key out"),
    Misfit(
        "test", "for:", SEVERAL,
        "a shift test is of one window alone: the windows before are not compared", NO,
    ),
    Misfit(
        "test without column", "test", GIVEN,
        "{test} is of a feature column, and this rule names none", "{a_column}",
    ),
    Misfit(
        "test of the source", "scope", ("labels",),
        "{test} of {column} belongs to the source as a whole, so scope: labels leaves nothing", _WHOLE_SCOPE, "CAL027",
    ),
    Misfit(
        "of given labels", "where", _SOME_ROWS,
        "the label is given in all {where} rows, so {metric} is {constant} there", "where: all",
    ),
    Misfit(
        "of waiting rows", "where", ("automated",),
        "no automated row waits for people, so share_to_people is always 0 there", "where: all",
    ),
    Misfit(
        "without ranges", "actions", ("block_scores",),
        "block_scores needs score ranges: mce and ece have them, {measure} has none",
        "disable_automation, or metric: mce", "CAL026",
    ),
    Misfit(
        "of wrong truths", "actions", ("disable_automation", "limit_scores", "block_scores"),
        "where little is true, wrong truths move {metric} by more than their share, and a source of this rule has "
        "truth_error: they alone would turn labels off",
        "actions: [slack], or match: {{source: one without truth_error}}",
    ),
    Misfit(
        "of other rows", "actions", ("limit_scores",),
        "limit_scores keeps the scores that are shown to be right, and this rule is not on what acts alone",
        "metric: overconfidence with where: automated, or disable_automation",
    ),
    Misfit(
        "not of labels", "actions", ("limit_scores",),
        "limit_scores is about the scores of one label, and this rule is about {scope}",
        "scope: labels, or disable_automation",
    ),
    Misfit(
        "limits and more", "actions", ("disable_automation", "block_scores"),
        "limit_scores turns a label off by itself where no score is safe", "actions: [slack, limit_scores]",
    ),
    Misfit("of a source", "match.label:", GIVEN, _NOTHING_LEFT, "{labels}a match without label", "CAL027"),
    Misfit("of a source", "match.except:", GIVEN, _NOTHING_LEFT, "{labels}a match without except", "CAL027"),
    Misfit(
        "of one label", "match.except:", GIVEN, "match names one label, so that except leaves nothing out",
        "a match without label, or without except", "CAL027",
    ),
    Misfit(
        "of labels together", "match.critical:", GIVEN, _NOTHING_LEFT,
        "{labels}a match without critical", "CAL027",
    ),
    Misfit(  # a source as a whole is not critical, so such a match excludes it
        "whole by itself", "match.critical:", But(None, False), _NOTHING_LEFT, "a match without critical", "CAL027"
    ),
)  # fmt: skip


def of_rule(rule: Written, sources: Sequence[Written]) -> Found:
    """The mistakes of one rule."""
    about = [source for source in sources if rule["match.source"] in (None, source.name)]
    columns = _columns_of_test(rule["test"], sources)
    yield from misfits(rule, _kinds_of_rule(rule, about), _OF_RULES, _facts_of_rule(rule, about, columns))
    yield from _column_of_test(rule, columns)
    yield from _metric_of_kinds(rule, about)
    yield from _segment_names(rule, about)
    yield from _threshold(rule)
    yield from _measured(rule)
    for key in ("actions", "segments", "mute", "match.except"):
        yield from repeated(rule.document, rule.at(key))


def _kinds_of_rule(rule: Written, about: Sequence[Written]) -> set[str]:
    """The kinds of a rule by which keys may not fit it; ``about`` are its sources."""
    name, test, condition, scope = str(rule["metric"]), rule["test"], rule["condition"], rule["scope"]
    whole, total, expected = NEEDS.get(name) in WHOLE, name in TOTALS, name in EXPECTED
    lasting = rule["evidence"] == "accumulated"
    accumulated, of_segments, rolling = (
        lasting or condition == "accumulated", scope == "segments", rule["reference"] == "previous_weeks",
    )  # fmt: skip
    compared = rule["column"] or default_column(test)
    is_test, changes = test is not None and rule["metric"] is None, str(condition) in CHANGES
    acts, names = "disable_automation" in rule.texts("actions"), rule.texts("segments")
    subject = _subject(rule)
    kinds = {
        "of one label": rule["match.label"] is not None,
        "metric and test": test is not None and rule["metric"] is not None,
        "test": is_test,
        "test without column": is_test and rule["column"] is None and compared is None,
        "test of the source": is_test and compared not in (None, "score"),
        "without test": test is None,
        "whole": whole,
        "kept nowhere": whole or total,
        "on a level": name in NEEDS and not (whole or total or expected) and name not in _FALLING,
        "expected": expected,
        "expected of no row": expected and bool(about) and not any(source["unresolved"] for source in about),
        "immature": bool(about) and not any(map(_matures, about)),
        "no lasting change": lasting and CHANGES_ACCUMULATE.get(name) != _WORSE.get(str(condition)),
        "lasting change": lasting,
        "lasting ranking": lasting and name == "roc_auc",
        "accumulated": accumulated,
        "not accumulated": not accumulated,
        "without exact law": name in NEEDS and name not in ACCUMULATES,
        "accumulated on another": condition == "accumulated" and name in NEEDS and name != "overconfidence",
        "without p-value": bool(test) or accumulated,
        "of segments": of_segments,
        "not of segments": not of_segments,
        "of no part": rule["metric"] is None or whole or total or expected,
        "of columns": of_segments and not accumulated and rule["metric"] not in OF_BANDS,
        "of segments, passive": of_segments and not acts,
        "of segments, unnamed": of_segments and acts and (not names or SCORE_BAND in names or "all" in names),
        "not rolling": not rolling,
        "rolling, unfit": rolling
        and (
            (test is None and (not changes or whole or expected))
            or (test is not None and compared not in ("score", "label", "actual"))
            or of_segments
            or rule["schedule"] == "daily"
            or rule["for"] in SEVERAL
        ),
        "not mutable": (rule["condition"], rule["metric"]) != ("increase", "ece") or rule["certainty"] == "none",
        "of given labels": name in WHERE_PREDICTED,
        "of waiting rows": name == "share_to_people",
        "without ranges": _measure(rule) is not None and _measure(rule) not in {"ece", "mce", *EXPECTED},
        "of other rows": name != "automated_accuracy" and rule["where"] != "automated",
        "of wrong truths": name in NEEDS
        and not changes
        and name not in MOVED_BY_TRUTHS
        and any(source["truth_error"] for source in about),
        "not of labels": scope in ("segments", "source"),
        "limits and more": "limit_scores" in rule.texts("actions"),
        "of a source": subject is not None or scope == "source",
        "of labels together": subject is None and scope == "source",
        "whole by itself": subject is not None,
    }
    return {kind for kind, has in kinds.items() if has}


def _facts_of_rule(rule: Written, about: Sequence[Written], columns: Sequence[str]) -> dict[str, object]:
    """What the sentences about a rule name, beside its keys."""
    name, subject = str(rule["metric"]), _subject(rule)
    constant = WHERE_PREDICTED.get(name)
    return {
        "sums": "adds up with the rows" if name in TOTALS else "is of the whole rows of the window, which are not kept",
        "evidence": "a shift test" if rule["test"] else "evidence that accumulates",
        "measure": _measure(rule),
        "counted": rule["metric"] or "a shift test",
        "column": rule["column"] or default_column(rule["test"]),
        "scope": "segments" if rule["scope"] == "segments" else "the source as a whole",
        "a_column": f"column: {columns[0]}" if columns else _NO_FEATURES,
        "constant": "not defined" if constant is None else f"always {constant:g}",
        "subject": f"scope: {rule['scope']} is about" if subject is None else f"{subject} belongs to",
        "labels": "scope: labels, or " if subject is None else "",
    }


def _measure(rule: Written) -> str | None:
    measure = rule["metric"] or rule["test"]
    return None if measure is None else str(measure)


def _subject(rule: Written) -> str | None:
    """The rule's metric or column, if only a source as a whole has it; else None."""
    name, test = str(rule["metric"]), rule["test"]
    if name in NEEDS:
        return name if NEEDS[name] in WHOLE else None
    compared = rule["column"] or default_column(test)
    return f"{test} of {compared}" if isinstance(test, str) and compared not in (None, "score") else None


def _matures(source: Written) -> bool:
    return source["window_on"] == "predicted_at" and bool(source["unresolved"])


_NO_FEATURES = "features: [COLUMN] in the source, and column: COLUMN in the rule"


def _columns_of_test(test: object, sources: Sequence[Written]) -> tuple[str, ...]:
    """The columns that a shift test may name: scores or label mixes, and features of any source."""
    own = ("label", "actual") if test == "chi_square" else filter(None, [default_column(test)])
    return tuple(dict.fromkeys((*own, *(name for source in sources for name in source.texts("features")))))


def _column_of_test(rule: Written, known: Sequence[str]) -> Found:
    test, column, own = rule["test"], rule["column"], default_column(rule["test"])
    if test is not None and rule["metric"] is None and isinstance(column, str) and column not in known:
        of = "of one of the sources' features" if own is None else f"of the {own} or of one of the sources' features"
        remedy = meant(column, known, "column: {}") if known else _NO_FEATURES
        yield rule.problem("CAL030", "column", f"unknown column {column!r}: {test} is {of}", remedy)


def _metric_of_kinds(rule: Written, about: Sequence[Written]) -> Found:
    """Finds a metric that no source of the rule has."""
    name, only = str(rule["metric"]), rule["match.source"]
    kinds = [kind for kind in (str(source["kind"] or "multilabel") for source in about) if kind in GIVES]
    if name in NEEDS and kinds and not any(can_give(kind, name) for kind in kinds):
        able = [kind for kind in KINDS if can_give(kind, name)]
        who = f"source {only!r} is" if only is not None else "every source is"
        theirs = " or ".join(dict.fromkeys(kinds))
        summary = f"{name} is of sources of kind {' or '.join(able)}, and {who} {theirs}"
        yield rule.problem("CAL032", "metric", summary, f"another metric, or kind: {able[0]} at the source")


def _segment_names(rule: Written, about: Sequence[Written]) -> Found:
    known = [SCORE_BAND, *(name for source in about for name in source.texts("segments"))]
    for item, name in rule.items("segments") if rule["scope"] == "segments" else ():
        if name not in (*known, "all"):
            remedy = meant(name, list(dict.fromkeys(known)), "segments: [{}]")
            yield rule.document.problem("CAL030", item, f"no source has the segment {name!r}", remedy)


def _measured(rule: Written) -> Found:
    unread = {rule.at("metric"), rule.at("test")} & rule.document.broken
    if rule["metric"] is None and rule["test"] is None and not unread:
        at = rule.path if rule["id"] is None else rule.at("id")
        summary = "the rule has neither metric nor test, so it measures nothing"
        yield rule.document.problem("CAL023", at, summary, "metric: ece, or test: ks")


def _threshold(rule: Written) -> Found:
    threshold, condition = rule["threshold"], str(rule["condition"])
    if not isinstance(threshold, int | float) or isinstance(threshold, bool):
        return
    measure = _measure(rule)
    name = str(measure)
    low, high = reach(name, condition)
    if not low <= threshold <= high or math.isinf(threshold):
        change = CHANGES.get(condition)
        kind, span = f"{change} of {name}" if change else measure or "the value", _span(low, high)
        remedy = f"{threshold / 100:g}" if 2 <= threshold <= 100 else f"a number {span}".strip()
        written = rule.document.written[rule.at("threshold")]
        summary = f"impossible threshold {written}: {kind} is {span or 'finite'}"
        yield rule.problem("CAL025", "threshold", summary, f"threshold: {remedy}")


def reach(measure: str, condition: str) -> tuple[float, float]:
    """The smallest and the largest value, or change, that a rule compares with its threshold."""
    low, high = (0.0, math.inf) if measure in ("psi", "wasserstein") else range_of(measure)
    return (0.0, high - low) if condition in CHANGES else (low, high)


def _span(low: float, high: float) -> str:
    if math.isinf(low):
        return "" if math.isinf(high) else f"at most {high:.3g}"
    return f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:.3g}"
