"""Mistakes that types cannot show: names that must exist, keys that must fit together, thresholds out of reach.

Every check reads the plain document, not the typed form, so it works even if something else is wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from monitor.config.model import (
    OF_BANDS,
    OF_FEATURES,
    OF_SOURCE,
    OPERATOR,
    Config,
    Rule,
    ScoreMethod,
    SourceKind,
    mention_meant,
)
from monitor.config.problems import Problem, closest, meant
from monitor.config.relation import RelationSyntaxError, parse_relation
from monitor.config.yaml_document import Document, Path
from monitor.core.records import SCORE_BAND
from monitor.metrics.names import (
    ACCUMULATES,
    ALIASES,
    CONTRACT,
    EXPECTED,
    GIVES,
    NEEDS,
    TOTALS,
    WHERE_PREDICTED,
    WHOLE,
    can_give,
    range_of,
)

CANONICAL_COLUMNS = (
    "item", "label", "score", "actual", "resolved_at",
    "predicted", "predicted_at", "model_version", "cluster", "weight",
)  # fmt: skip

REGRESSION_COLUMNS = (
    "item", "predicted", "deviation", "actual", "resolved_at",
    "label", "predicted_at", "model_version", "weight",
)  # fmt: skip
SINGLE_LABEL_COLUMNS = (
    "item", "predicted_label", "confidence", "true_label", "resolved_at",
    "actual", "predicted_at", "model_version", "cluster", "weight",
)  # fmt: skip

WIDE_COLUMNS = (
    "item",
    "resolved_at",
    "true_label",
    "predicted_label",
    "predicted_at",
    "model_version",
    "cluster",
    "weight",
)
_OF_LABELS = ("true_label", "predicted_label")
_PLACE = "{label}"
KINDS: tuple[str, ...] = get_args(SourceKind)

_METHODS: tuple[str, ...] = get_args(ScoreMethod)
_HELD = ("token_logprobs", "label_logprobs", "votes")
_NOT_OF_REGRESSION = (
    "score_is", "score", "segments", "features", "automate_at", "labels", "costs",
    "score_scale", "positive", "negative", "latest_by", "agreement_by", "truth", "wide", "unresolved",
)  # fmt: skip

Found = Iterator[Problem]


def find_faults(document: Document) -> list[Problem]:
    """All problems that these checks find, in no particular order."""
    return [problem for check in _CHECKS for problem in check(document)]


_OF_THE_MACHINE = re.compile(r"(localtime|posixrules|Factory)$|(posix|right)/")
"""Files beside the IANA database's zones: of the machine's own zone, of none, and of clocks with leap seconds."""


def _time_zone(document: Document) -> Found:
    name = document.get("timezone")
    if not isinstance(name, str):
        return
    try:
        known = not _OF_THE_MACHINE.match(name) and ZoneInfo(name) is not None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = False
    if not known:
        zones = sorted(zone for zone in available_timezones() if not _OF_THE_MACHINE.match(zone))
        word = name.partition("/")[2] if _OF_THE_MACHINE.match(name) else name
        same = (zone for zone in zones if word.lower() in (zone.lower(), zone.split("/")[-1].lower()))
        near = min(same, key=len, default=closest(word, zones))
        remedy = f"timezone: {near}" if near else "timezone: a name such as UTC or Europe/Berlin"
        yield document.problem("CAL008", ("timezone",), f"unknown time zone {name!r}", remedy)


def _relations(document: Document) -> Found:
    for source, _ in document.named("sources"):
        for path in ((*source, "relation"), (*source, "truth", "relation"), (*source, "unresolved")):
            relation = document.get(*path)
            if isinstance(relation, str) and relation.strip():
                try:
                    parse_relation(relation)
                except RelationSyntaxError as error:
                    yield document.problem("CAL031", path, f"the relation {error}", error.remedy)


_LISTS_OF_NAMES = ("segments", "features", "latest_by", "agreement_by")
_JOINED = ("truth", "on")


def _empty_names(document: Document) -> Found:
    for path, _ in document.named("sources"):
        maps = (("labels",), _JOINED, ("types",))
        for named, _ in ((path, None), *chain.from_iterable(document.named(*path, *each) for each in maps)):
            if not str(named[-1]).strip():
                yield document.problem("CAL020", named, "a name is empty", "a name", at_key=True)


def _empty_values(document: Document) -> Found:
    for path, key, value in _values_that_are_names(document):
        if isinstance(value, str) and not value.strip():
            yield document.problem("CAL020", path, f"{key} is empty", _named_instead(path, key))


def _named_instead(path: Path, key: str) -> str:
    if path[-2] == "columns":
        return f"{key}: the name of their column, or no {key}"
    return 'mention: "<!subteam^S0123>", or no mention' if key == "mention" else f"a name for {key}"


def _values_that_are_names(document: Document) -> Iterator[tuple[Path, str, Any]]:
    """Path, key and value of each; those that their type refuses if they are "" only where they are blank."""
    for path, _ in document.named("sources"):
        for each, value in (*document.named(*path, "columns"), *document.named(*path, *_JOINED)):
            yield each, str(each[-1]), value
        for key in (*((name,) for name in _LISTS_OF_NAMES), ("wide", "labels")):
            yield from ((each, key[-1], value) for each, value in document.listed(*path, *key) if value != "")
    for each, value in document.listed("automation", "operators"):
        yield each, "operators", value
    for path, _ in (*document.listed("rules"), *document.listed("routes")):
        yield (*path, "match", "label"), "label", document.get(*path, "match", "label")
        yield (*path, "channel"), "channel", document.get(*path, "channel") or None
        yield (*path, "mention"), "mention", document.get(*path, "mention")


def _columns(document: Document) -> Found:
    for source, _ in document.named("sources"):
        others = (*_names(document, (*source, "segments")), *_names(document, (*source, "features")))
        known = tuple(dict.fromkeys((*_canonical(document, source), *others)))
        for path, theirs in document.named(*source, "columns"):
            ours = str(path[-1])
            if ours in known:
                continue
            turned = isinstance(theirs, str) and theirs in known
            remedy = f"{theirs}: {ours} (ours first, then theirs)" if turned else meant(ours, known, f"{{}}: {theirs}")
            yield document.problem("CAL030", path, f"unknown column {ours!r}", remedy, at_key=True)


def _segments_of_sources(document: Document) -> Found:
    """Finds segment columns with the name of the bands of scores, which every label has as segments."""
    for source, _ in document.named("sources"):
        for item, name in document.listed(*source, "segments"):
            if name == SCORE_BAND:
                summary = f"{SCORE_BAND} is the name of the bands of scores, and a column cannot have it as well"
                remedy = f"no {SCORE_BAND}; a column of this name under another one, from a view"
                yield document.problem("CAL020", item, summary, remedy)


def _canonical(document: Document, source: Path) -> tuple[str, ...]:
    if document.get(*source, "kind") == "regression":
        return REGRESSION_COLUMNS
    if document.get(*source, "wide") is not None:
        return WIDE_COLUMNS
    single = document.get(*source, "kind") == "single_label"
    names = SINGLE_LABEL_COLUMNS if single else (*CANONICAL_COLUMNS, *_OF_LABELS)
    made = document.get(*source, "score", "from")
    return tuple(made if name in ("score", "confidence") and isinstance(made, str) else name for name in names)


def _keys_of_kind(document: Document) -> Found:
    """Finds keys of a source that its kind does not have."""
    for path, _ in document.named("sources"):
        kind = document.get(*path, "kind")
        if kind == "regression":
            for key in (key for key in _NOT_OF_REGRESSION if document.get(*path, key) is not None):
                summary = f"{key} is about labels and scores, and a source of kind regression has numbers"
                yield document.problem("CAL033", (*path, key), summary, f"no {key}", at_key=True)
        elif kind in ("multiclass", "top_k") and document.get(*path, "score_is") == "confidence_in_prediction":
            summary = f"kind {kind} compares the scores of an item's labels, so each must be that of its label"
            yield document.problem("CAL033", (*path, "score_is"), summary, "score_is: probability_of_label")
        elif kind == "multiclass" and document.get(*path, "agreement_by") is not None:
            summary = "of an item of kind multiclass exactly one label is true, and annotators may differ"
            yield document.problem(
                "CAL033", (*path, "agreement_by"), summary, "kind: top_k, or no agreement_by", at_key=True
            )
        elif kind == "single_label":
            yield from _keys_of_single_label(document, path)


def _keys_of_single_label(document: Document, path: Path) -> Found:
    if document.get(*path, "score_is") == "probability_of_label":
        summary = "kind single_label has the confidence in the predicted label, and no score of any other label"
        yield document.problem("CAL033", (*path, "score_is"), summary, "no score_is")
    if document.get(*path, "wide") is not None:
        summary = "kind single_label has one label an item, and wide tables have a column for each"
        yield document.problem("CAL033", (*path, "wide"), summary, "kind: multiclass, or no wide", at_key=True)
    if document.get(*path, "columns", "actual") is None:
        for key in (key for key in ("positive", "negative") if document.get(*path, key) is not None):
            summary = f"{key} says which words of actual mean yes or no, and this source has true_label"
            yield document.problem(
                "CAL033", (*path, key), summary, f"no {key}, or columns: {{actual: ...}}", at_key=True
            )


def _shapes(document: Document) -> Found:
    """Finds keys on the shape of a source that contradict each other."""
    for path, _ in document.named("sources"):
        if document.get(*path, "negative") is not None and document.get(*path, "positive") is None:
            summary = "negative says which words mean no, and nothing says which mean yes"
            yield document.problem(
                "CAL033", (*path, "negative"), summary, "positive: [yes, true] beside it", at_key=True
            )
        if document.get(*path, "score") is not None:
            for key in (key for key in ("score_scale", "wide") if document.get(*path, key) is not None):
                summary = f"{key} is about columns of scores, and the scores of this source are made"
                yield document.problem("CAL033", (*path, key), summary, f"no {key}, or no score", at_key=True)
            if isinstance(document.get(*path, "unresolved"), str):
                summary = "the scores of this source are made here, of the rows of one relation"
                remedy = "unresolved: true, with these rows in the relation"
                yield document.problem("CAL033", (*path, "unresolved"), summary, remedy)
        yield from _wide_names(document, path)


def _types(document: Document) -> Found:
    for source, _ in document.named("sources"):
        for path, kind in document.named(*source, "types"):
            if isinstance(kind, str) and kind not in ("number", "text") and "%" not in kind:
                remedy = f'{path[-1]}: number, text, or how a date is written: "%d.%m.%Y %H:%M"'
                yield document.problem("CAL019", path, f"unknown type {kind!r}", remedy)


def _wide_names(document: Document, source: Path) -> Found:
    for key in ("score", "actual", "predicted"):
        path = (*source, "wide", key)
        name = document.get(*path)
        if not isinstance(name, str):
            continue
        if name.count(_PLACE) != 1:
            summary = f"{name!r} is not the name of one column a label: it must have {_PLACE} once"
            yield document.problem("CAL020", path, summary, f'{key}: "{key}_{_PLACE}"')
        elif name == _PLACE and key == "score" and not document.get(*source, "wide", "labels"):
            summary = "every column would be a label's score"
            yield document.problem("CAL020", path, summary, "labels: [phishing, billing] beside it")


def _score_methods(document: Document) -> Found:
    for source, _ in document.named("sources"):
        path = (*source, "score", "method")
        yield from _unknown(document, "CAL019", path, _METHODS)
        held, method = document.get(*source, "score", "from"), document.get(*path)
        if held in _HELD and method in _METHODS and str(method).startswith("vote_") != (held == "votes"):
            fitting = [each for each in _METHODS if each.startswith("vote_") == (held == "votes")]
            yield document.problem("CAL019", path, f"{method} is not made from {held}", f"one of {', '.join(fitting)}")


def _known_metrics(document: Document) -> Found:
    for path, _ in document.listed("rules"):
        name = document.get(*path, "metric")
        if isinstance(name, str) and name not in NEEDS:
            word = ALIASES.get(name.lower(), name)
            near = closest(word, NEEDS)
            remedy = f"metric: {near or 'one of ' + ', '.join(CONTRACT)} (all: docs/metrics.md)"
            yield document.problem("CAL012", (*path, "metric"), f"unknown metric {name!r}", remedy)


def _metrics_of_kinds(document: Document) -> Found:
    """Finds rules on a metric that no source of the rule has."""
    for path, _ in document.listed("rules"):
        name, only = str(document.get(*path, "metric")), document.get(*path, "match", "source")
        kinds = {str(p[-1]): document.get(*p, "kind") or "multilabel" for p, _ in document.named("sources")}
        about = {source: kind for source, kind in kinds.items() if only in (None, source) and kind in GIVES}
        if name not in NEEDS or not about or any(can_give(kind, name) for kind in about.values()):
            continue
        able = [kind for kind in KINDS if can_give(kind, name)]
        who = f"source {only!r} is" if only is not None else "every source is"
        theirs = " or ".join(dict.fromkeys(about.values()))
        summary = f"{name} is of sources of kind {' or '.join(able)}, and {who} {theirs}"
        remedy = f"another metric, or kind: {able[0]} at the source"
        yield document.problem("CAL032", (*path, "metric"), summary, remedy)


def _keys_of_whole(document: Document) -> Found:
    """Checks rules on metrics without a baseline (of one window alone) or without labels (of the whole source)."""
    for path, _ in document.listed("rules"):
        name = str(document.get(*path, "metric"))
        total = name in TOTALS
        if not total and NEEDS.get(name) not in WHOLE:
            continue
        why = "adds up with the rows" if total else "is of the whole rows of the window, which are not kept"
        if document.get(*path, "condition") in ("increase", "decrease"):
            summary = f"{name} has no baseline: it {why}"
            yield document.problem("CAL024", (*path, "condition"), summary, "condition: above, or condition: below")
        if document.get(*path, "for") not in (None, 1):
            summary = f"{name} is of one window alone: it {why}"
            yield document.problem("CAL024", (*path, "for"), summary, "no for", at_key=True)
        if not total:
            yield from _subjects_of_whole(document, path, name)


def _keys_of_expected(document: Document) -> Found:
    """Checks rules on estimates before the truth: of one window, on sources with waiting rows, without switching."""
    for path, _ in document.listed("rules"):
        name, only = str(document.get(*path, "metric")), document.get(*path, "match", "source")
        if name not in EXPECTED:
            continue
        if document.get(*path, "mature") is not None:
            summary = f"{name} is an estimate made before the truth is known: it waits for none"
            yield document.problem("CAL024", (*path, "mature"), summary, "no mature", at_key=True)
        if document.get(*path, "condition") in ("increase", "decrease"):
            summary = f"{name} is compared with a threshold: no baseline has rows without a truth"
            yield document.problem("CAL024", (*path, "condition"), summary, "condition: above, or condition: below")
        if document.get(*path, "for") not in (None, 1):
            summary = f"{name} is of one window alone: rows without a truth are not kept"
            yield document.problem("CAL024", (*path, "for"), summary, "no for", at_key=True)
        for item, action in document.listed(*path, "actions"):
            if action in ("disable_automation", "block_scores"):
                summary = f"{name} is an estimate made before the truth is known, so it switches nothing off"
                remedy = "actions: [slack], and a rule on accuracy, overconfidence or ece that switches"
                yield document.problem("CAL024", item, summary, remedy)
        about = [source for source, _ in document.named("sources") if only in (None, source[-1])]
        if about and all(document.get(*source, "unresolved") in (None, False) for source in about):
            summary = f"{name} is of rows whose truth is not known yet, and no source of this rule says that it has any"
            yield document.problem("CAL032", (*path, "metric"), summary, "unresolved: true at the source")


def _keys_of_accumulated(document: Document) -> Found:
    """Checks the keys of rules that accumulate evidence on the promises of automated, predicted or all rows."""
    for path, _ in document.listed("rules"):
        metric = document.get(*path, "metric")
        if document.get(*path, "condition") != "accumulated":
            if document.get(*path, "average_run_length") is not None:
                summary = "average_run_length belongs to condition: accumulated, and this rule has another"
                remedy = "condition: accumulated, or no average_run_length"
                yield document.problem("CAL024", (*path, "average_run_length"), summary, remedy, at_key=True)
            continue
        yield from _exact_laws(document, path, metric)
        if document.get(*path, "for") not in (None, 1):
            summary = "accumulated evidence is of many windows already"
            yield document.problem("CAL024", (*path, "for"), summary, "no for", at_key=True)


def _exact_laws(document: Document, path: Path, metric: object) -> Found:
    """Checks that evidence accumulates only on a metric with an exact law, and on subjects that have it."""
    if not isinstance(metric, str) or metric not in NEEDS:
        return
    if metric not in ACCUMULATES:
        summary = f"evidence accumulates for metrics with an exact law only, not for {metric}"
        yield document.problem("CAL024", (*path, "condition"), summary, f"metric: one of {', '.join(ACCUMULATES)}")
    if metric != "overconfidence" and document.get(*path, "scope") in ("segments", "small_labels"):
        summary = f"evidence on segments and small labels accumulates for overconfidence only, not for {metric}"
        yield document.problem("CAL024", (*path, "scope"), summary, "metric: overconfidence, or scope: labels")


def _keys_of_segments(document: Document) -> Found:
    """Checks rules on segments: their metric must exist for a part of a label's rows, their columns in a source."""
    for path, _ in document.listed("rules"):
        condition, measure = document.get(*path, "condition"), document.get(*path, "metric")
        if document.get(*path, "scope") != "segments":
            if document.get(*path, "segments") is not None:
                summary = "segments belongs to scope: segments, and this rule has another"
                remedy = "scope: segments beside it, or no segments"
                yield document.problem("CAL024", (*path, "segments"), summary, remedy, at_key=True)
            continue
        if measure is None or NEEDS.get(str(measure)) in WHOLE or str(measure) in EXPECTED | TOTALS:
            what = "a shift test" if measure is None else str(measure)
            summary = f"rules on segments are on metrics of the rows of each label, and this rule is on {what}"
            yield document.problem("CAL024", (*path, "scope"), summary, "metric: overconfidence, or no scope")
        if document.get(*path, "certainty") == "none":
            summary = "segments are many, and without certainty chance alone would be found in one of them"
            yield document.problem("CAL024", (*path, "certainty"), summary, "no certainty", at_key=True)
        for item, action in document.listed(*path, "actions"):
            if action == "block_scores":
                summary = "score ranges are blocked for the whole label, and this rule is on its segments"
                yield document.problem("CAL024", item, summary, "actions: [slack], or scope: labels")
        if condition != "accumulated" and measure not in OF_BANDS:
            for item, name in document.listed(*path, "segments"):
                if name == SCORE_BAND:
                    summary = f"{SCORE_BAND} is for {' and '.join(OF_BANDS)}, and this rule is on {measure}"
                    yield document.problem("CAL024", item, summary, "segments: all, or the names of columns")
        yield from _segment_names(document, path)


def _keys_of_turns_off(document: Document) -> Found:
    """Checks that a rule that turns off segments names their columns, since routers must send these values."""
    for path, _ in document.listed("rules"):
        if document.get(*path, "turns_off") != "segments":
            continue
        names = [name for _, name in document.listed(*path, "segments")]
        acts = any(action == "disable_automation" for _, action in document.listed(*path, "actions"))
        at = (*path, "turns_off")
        if document.get(*path, "scope") != "segments":
            summary = "turns_off: segments belongs to scope: segments, and this rule has another"
            yield document.problem("CAL024", at, summary, "scope: segments beside it, or no turns_off", at_key=True)
        elif not acts:
            summary = "turns_off says what disable_automation turns off, and this rule has no such action"
            yield document.problem("CAL024", at, summary, "actions: [slack, disable_automation]", at_key=True)
        elif not names or SCORE_BAND in names or "all" in names:
            summary = "segments are turned off by columns that routers know, and this rule does not name any"
            yield document.problem("CAL024", at, summary, "segments: [the columns], without score_band", at_key=True)


def _keys_of_small_labels(document: Document) -> Found:
    """Checks rules on small labels: they must accumulate evidence and, being about no single label, not switch."""
    for path, _ in document.listed("rules"):
        if document.get(*path, "scope") != "small_labels":
            continue
        if document.get(*path, "condition") != "accumulated":
            summary = "rules on small labels accumulate evidence on overconfidence, and this rule does not"
            remedy = "metric: overconfidence with condition: accumulated, or scope: labels"
            yield document.problem("CAL024", (*path, "scope"), summary, remedy)
        for item, action in document.listed(*path, "actions"):
            if action == "disable_automation":
                summary = "a rule on small labels does not know which of them is wrong, so it switches nothing off"
                yield document.problem("CAL024", item, summary, "actions: [slack]")


def _segment_names(document: Document, rule: Path) -> Found:
    only = document.get(*rule, "match", "source")
    sources = [path for path, _ in document.named("sources") if only in (None, path[-1])]
    known = [SCORE_BAND, *(name for path in sources for name in _names(document, (*path, "segments")))]
    for item, name in document.listed(*rule, "segments"):
        if isinstance(name, str) and name not in (*known, "all"):
            remedy = meant(name, list(dict.fromkeys(known)), "segments: [{}]")
            yield document.problem("CAL030", item, f"no source has the segment {name!r}", remedy)


def _keys_of_reference(document: Document) -> Found:
    """Checks that only weekly rules on a change, and tests on counts, have the weeks before as a reference."""
    for path, _ in document.listed("rules"):
        rolls = document.get(*path, "reference") == "previous_weeks"
        if document.get(*path, "reference_weeks") is not None and not rolls:
            summary = "reference_weeks says how many weeks reference: previous_weeks has, and this rule has another"
            yield document.problem(
                "CAL024", (*path, "reference_weeks"), summary, "reference: previous_weeks beside it", at_key=True
            )
        for key, why, remedy in _against_reference(document, path) if rolls else ():
            yield document.problem("CAL024", (*path, key), why, remedy, at_key=True)


def _against_reference(document: Document, path: Path) -> Iterator[tuple[str, str, str]]:
    """(key, reason, what to write) for each key that does not fit the weeks before as a reference."""
    test, metric = document.get(*path, "test"), document.get(*path, "metric")
    if test is None and str(document.get(*path, "condition")) not in _CHANGES:
        yield "reference", "only a change and a shift test are compared with the weeks before", "condition: increase"
    elif isinstance(metric, str) and (NEEDS.get(metric) in WHOLE or metric in EXPECTED):
        yield "reference", f"{metric} has no counts of the weeks before to be compared with", "no reference"
    column = document.get(*path, "column") or default_column(test)
    if test is not None and column not in ("score", "label", "actual"):
        yield "reference", "feature columns are compared with the baseline only", "no reference"
    if document.get(*path, "schedule") == "daily":
        yield "schedule", "a day is not compared with the weeks before", "schedule: weekly"
    if document.get(*path, "for") not in (None, 1):
        yield "for", "the weeks before are those before one week: a rule on several has none", "for: 1"
    if document.get(*path, "scope") in ("segments", "small_labels"):
        yield "scope", "segments and small labels are compared with the baseline only", "scope: labels"


def _keys_of_plain(document: Document) -> Found:
    """Checks that ``value`` and ``certainty`` are given only for metrics that are compared with a threshold."""
    for path, _ in document.listed("rules"):
        test, accumulates = document.get(*path, "test"), document.get(*path, "condition") == "accumulated"
        for key in ("certainty", "value"):
            if document.get(*path, key) is None or not (test or accumulates):
                continue
            why = "a shift test" if test else "evidence that accumulates"
            summary = f"{key} is of a metric that is compared with a threshold, and this rule is about {why}"
            yield document.problem("CAL024", (*path, key), summary, f"no {key}", at_key=True)


def _subjects_of_whole(document: Document, path: Path, name: str) -> Found:
    if document.get(*path, "where") in ("predicted", "automated"):
        yield document.problem("CAL024", (*path, "where"), f"{name} is of all rows", "where: all, or leave the key out")
    if document.get(*path, "scope") == "labels":
        summary = f"{name} belongs to the source as a whole, so scope: labels leaves nothing"
        yield document.problem("CAL027", (*path, "scope"), summary, "scope: source, or leave the key out")


def _operators(document: Document) -> Found:
    """Finds operators that are no Slack id, so that nobody is meant by them."""
    for item, value in document.listed("automation", "operators"):
        if isinstance(value, str) and value.strip() and not OPERATOR.fullmatch(value):
            summary = f"the operator {value!r} is not the id of a Slack user or user group"
            remedy = 'an id such as "<@U0123ABCD>" or "<!subteam^S0123ABCD>"'
            yield document.problem("CAL020", item, summary, remedy)


def _mentions(document: Document) -> Found:
    """Finds mentions that Slack would show as plain text, so that they call nobody."""
    for route, _ in document.listed("routes"):
        text = document.get(*route, "mention")
        if isinstance(text, str) and text.strip() and mention_meant(text) is None:
            summary = f"the mention {text!r} calls nobody: Slack knows people by their ids"
            remedy = 'mention: "<@U0123ABCD>" (a user), "<!subteam^S0123ABCD>" (a user group) or "<!here>"'
            yield document.problem("CAL020", (*route, "mention"), summary, remedy)


def _repeated_entries(document: Document) -> Found:
    lists = [(*source, key) for source, _ in document.named("sources") for key in ("segments", "features")]
    lists += [(*rule, key) for rule, _ in document.listed("rules") for key in ("actions", "segments", "mute")]
    for path in (*lists, ("automation", "operators")):
        seen: set[object] = set()
        for item, value in document.listed(*path):
            if isinstance(value, str) and value in seen:
                summary = f"{value!r} is written twice in {path[-1]}"
                yield document.problem("CAL003", item, summary, f"{value!r} once")
            seen.add(value if isinstance(value, str) else None)


def _rule_ids(document: Document) -> Found:
    lines: dict[str, int] = {}
    for path, _ in document.listed("rules"):
        name, at = document.get(*path, "id"), document.place((*path, "id"))
        if not isinstance(name, str):
            continue
        if name in lines:
            summary = f"the rule id {name!r} is used twice (first on line {lines[name]})"
            yield document.problem("CAL022", (*path, "id"), summary, f"id: {name}-2, or another name")
        lines.setdefault(name, at.line)


def _measures(document: Document) -> Found:
    for path, rule in document.listed("rules"):
        if not isinstance(rule, dict):
            continue
        metric, test = rule.get("metric"), rule.get("test")
        if metric is not None and test is not None:
            remedy = "metric or test, and a second rule for the other"
            yield document.problem(
                "CAL023", (*path, "test"), "a rule has one of metric and test, not both", remedy, at_key=True
            )
        elif metric is None and test is None and not {(*path, "metric"), (*path, "test")} & document.broken:
            summary = "the rule has neither metric nor test, so it measures nothing"
            at = (*path, "id") if document.get(*path, "id") is not None else path
            yield document.problem("CAL023", at, summary, "metric: ece, or test: ks")


def _fitting_keys(document: Document) -> Found:
    for path, rule in document.listed("rules"):
        if not isinstance(rule, dict):
            continue
        if rule.get("test") is not None and rule.get("metric") is None:
            yield from _keys_of_test(document, path)
        elif rule.get("test") is None and rule.get("column") is not None:
            summary = "column belongs to shift tests, and this rule has none"
            yield document.problem(
                "CAL024", (*path, "column"), summary, "test: ks beside column, or no column", at_key=True
            )
        for summary in _same_whatever_comes(rule.get("metric"), rule.get("where")):
            yield document.problem("CAL024", (*path, "where"), summary, "where: all")


def _same_whatever_comes(metric: object, where: object) -> Iterator[str]:
    """Why a metric has one value in these rows, whatever they are; nothing if it has not."""
    if not isinstance(metric, str):
        return
    if where in ("predicted", "automated") and metric in WHERE_PREDICTED:
        value = WHERE_PREDICTED[metric]
        result = "not defined" if value is None else f"always {value:g}"
        yield f"the label is given in all {where} rows, so {metric} is {result} there"
    if where == "automated" and metric == "share_to_people":
        yield "no automated row waits for people, so share_to_people is always 0 there"


def _keys_of_test(document: Document, path: Path) -> Found:
    if document.get(*path, "condition") in ("increase", "decrease", "below", "accumulated"):
        summary = "a shift test compares with the baseline already: it fires above its threshold"
        yield document.problem("CAL024", (*path, "condition"), summary, "condition: above, or leave the key out")
    if document.get(*path, "where") in ("predicted", "automated"):
        summary = "a shift test is of all rows"
        yield document.problem("CAL024", (*path, "where"), summary, "where: all, or leave the key out")
    if document.get(*path, "for") not in (None, 1):
        summary = "a shift test is of one window alone: the windows before are not compared"
        yield document.problem("CAL024", (*path, "for"), summary, "no for", at_key=True)
    yield from _column_of_test(document, path)


_NO_FEATURES = "features: [COLUMN] in the source, and column: COLUMN in the rule"


def default_column(test: object) -> str | None:
    """The default column of a shift test; None if the rule must name one."""
    return None if test in OF_FEATURES else "label" if test == "chi_square" else "score"


def _columns_of_test(document: Document, test: object) -> tuple[str, ...]:
    """The columns that a shift test may name: scores or label mixes, and features of any source."""
    features = [name for source, _ in document.named("sources") for name in _names(document, (*source, "features"))]
    default_columns = ("label", "actual") if test == "chi_square" else tuple(filter(None, [default_column(test)]))
    return tuple(dict.fromkeys((*default_columns, *features)))


def _column_of_test(document: Document, path: Path) -> Found:
    test, column = document.get(*path, "test"), document.get(*path, "column")
    known, own = _columns_of_test(document, test), default_column(test)
    if column is None and own is None:
        summary = f"{test} is of a feature column, and this rule names none"
        yield document.problem("CAL024", (*path, "test"), summary, f"column: {known[0]}" if known else _NO_FEATURES)
    if isinstance(column, str) and column not in known:
        of = "of one of the sources' features" if own is None else f"of the {own} or of one of the sources' features"
        summary = f"unknown column {column!r}: {test} is {of}"
        remedy = meant(column, known, "column: {}") if known else _NO_FEATURES
        yield document.problem("CAL030", (*path, "column"), summary, remedy)
    compared = column or own
    if compared not in (None, "score") and document.get(*path, "scope") == "labels":
        summary = f"{test} of {compared} belongs to the source as a whole, so scope: labels leaves nothing"
        yield document.problem("CAL027", (*path, "scope"), summary, "scope: source, or leave the key out")


_CHANGES = {"increase": "an increase", "decrease": "a decrease"}
_FALLING = ("roc_auc", "pr_auc", "accuracy", "automated_accuracy")


def _falling_metrics(document: Document) -> Found:
    """Checks that ``decrease`` is used for metrics where more is better and whose interval is exact on both sides."""
    for path, _ in document.listed("rules"):
        metric = document.get(*path, "metric")
        known = (
            isinstance(metric, str) and NEEDS.get(metric) not in (None, "unresolved", *WHOLE) and metric not in TOTALS
        )
        if document.get(*path, "condition") == "decrease" and known and metric not in _FALLING:
            summary = f"condition: decrease is about {', '.join(_FALLING[:-1])} and {_FALLING[-1]}, not about {metric}"
            yield document.problem("CAL024", (*path, "condition"), summary, "condition: increase, or metric: roc_auc")


def _mutable_rules(document: Document) -> Found:
    """Checks that ``mute`` names only reasons that a breach of the rule can have."""
    for path, _ in document.listed("rules"):
        if document.get(*path, "mute") is None:
            continue
        for why, remedy in (*_against_mute(document, path), *_against_reasons(document, path))[:1]:
            yield document.problem("CAL024", (*path, "mute"), why, remedy, at_key=True)


def _against_mute(document: Document, path: Path) -> Iterator[tuple[str, str]]:
    """(why, what to write) for a rule of which no breach has a reason that may be left out."""
    rise = document.get(*path, "condition") == "increase" and document.get(*path, "metric") in ("ece", "mce")
    if not rise:
        yield "mute leaves out reasons of a rise of the ECE or MCE, and this rule is about something else", "no mute"
    elif document.get(*path, "certainty") == "none":
        yield "mute leaves out reasons that a significant rise has, and this rule has certainty: none", "no mute"


def _against_reasons(document: Document, path: Path) -> Iterator[tuple[str, str]]:
    """(why, what to write) for each reason in ``mute`` that no breach of the rule has."""
    reasons = [reason for _, reason in document.listed(*path, "mute")]
    mce = document.get(*path, "metric") == "mce"
    if "traffic_mix" in reasons and mce:
        yield "a rise of the MCE has no reason traffic_mix, which is of a rise of the ECE", "mute: [class_mix]"
    only = document.get(*path, "match", "source")
    sources = [source for source, _ in document.named("sources") if only in (None, source[-1])]
    without = "no mute" if mce else "mute: [traffic_mix]"
    if "class_mix" in reasons and document.get(*path, "scope") in OF_SOURCE:
        yield "class_mix is of a label, and this rule is about all labels together", without
    if "class_mix" in reasons and sources and all(_is_of_predictions(document, source) for source in sources):
        yield "class_mix is of scores that are probabilities of a label, and no source of this rule has them", without


def _is_of_predictions(document: Document, source: Path) -> bool:
    """Whether a source's scores are confidences in what was predicted."""
    given = (document.get(*source, "kind"), document.get(*source, "score_is"))
    return "single_label" in given or "confidence_in_prediction" in given


def _maturing_rules(document: Document) -> Found:
    """Checks that ``mature`` is used only if windows hold predicted rows, and waiting rows are counted."""
    for path, _ in document.listed("rules"):
        if document.get(*path, "mature") is None:
            continue
        only = document.get(*path, "match", "source")
        sources = [source for source, _ in document.named("sources") if only in (None, source[-1])]
        fit = [
            document.get(*source, "window_on") == "predicted_at" and document.get(*source, "unresolved")
            for source in sources
        ]
        if sources and not any(fit):
            summary = "mature waits for truths, and no source of this rule says which rows have none yet"
            remedy = "window_on: predicted_at and unresolved at the source, or no mature"
            yield document.problem("CAL024", (*path, "mature"), summary, remedy, at_key=True)


def _thresholds(document: Document) -> Found:
    for path, rule in document.listed("rules"):
        threshold = document.get(*path, "threshold")
        if not isinstance(rule, dict) or not isinstance(threshold, int | float) or isinstance(threshold, bool):
            continue
        name = rule.get("metric") or rule.get("test")
        low, high = _reach(str(name), str(rule.get("condition")))
        if not low <= threshold <= high or math.isinf(threshold):
            change = _CHANGES.get(str(rule.get("condition")))
            kind = f"{change} of {name}" if change else str(name or "the value")
            span = _span(low, high)
            percent = 2 <= threshold <= 100
            remedy = f"threshold: {threshold / 100:g}" if percent else f"threshold: a number {span}".strip()
            summary = f"impossible threshold {document.written[(*path, 'threshold')]}: {kind} is {span or 'finite'}"
            yield document.problem("CAL025", (*path, "threshold"), summary, remedy)


def _reach(measure: str, condition: str) -> tuple[float, float]:
    """The smallest and the largest value, or change, that a rule compares with its threshold."""
    low, high = (0.0, math.inf) if measure in ("psi", "wasserstein") else range_of(measure)
    return (0.0, high - low) if condition in _CHANGES else (low, high)


def never_fires(rule: Rule) -> str:
    """Why a rule can never be in breach, though its threshold is a possible value; "" if it can.

    >>> never_fires(Rule(id="x", metric="accuracy", threshold=1.0))
    'accuracy is never above 1, so it never fires'
    """
    low, high = _reach(rule.measure, rule.condition)
    if rule.test == "wasserstein" and rule.column in (None, "score"):
        high = 1.0  # scores are from 0 to 1; features are as they come
    below = rule.condition == "below" or (rule.accumulates and ACCUMULATES.get(rule.measure) == "below")
    if below and rule.threshold <= low:
        return f"{rule.measure} is never below {rule.threshold:g}, so it never fires"
    if below or rule.threshold < high:
        return ""
    change = _CHANGES.get(rule.condition)
    of_column = f" of {rule.column}" if rule.test == "wasserstein" and rule.column else ""
    what = f"{change} of {rule.measure}" if change else f"{rule.measure}{of_column}"
    return f"{what} is never above {rule.threshold:g}, so it never fires"


def matches_nothing(rule: Rule, config: Config) -> str:
    """Why a rule has no verdict: ``critical`` of its match is not what any label is; "" if it can have one."""
    match = rule.match
    sources = [source for name, source in config.sources.items() if match.source in (None, name)]
    if match.critical is None or not sources:
        return ""
    if match.label is not None and all(source.is_critical(match.label) != match.critical for source in sources):
        is_critical = "not critical" if match.critical else "critical"
        return f"match names the label {match.label!r}, which is {is_critical}, so it has no verdict"
    if match.critical and not any(source.any_critical for source in sources):
        return "match is about critical labels, and no label has critical: true, so it has no verdict"
    return ""


def _span(low: float, high: float) -> str:
    if math.isinf(low):
        return "" if math.isinf(high) else f"at most {high:.3g}"
    return f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:.3g}"


def _blocked_scores(document: Document) -> Found:
    for path, rule in document.listed("rules"):
        measure = (rule.get("metric") or rule.get("test")) if isinstance(rule, dict) else None
        for action, kind in document.listed(*path, "actions"):
            if kind == "block_scores" and measure is not None and str(measure) not in {"ece", "mce", *EXPECTED}:
                summary = f"block_scores needs score ranges: mce and ece have them, {measure} has none"
                yield document.problem("CAL026", action, summary, "disable_automation, or metric: mce")


def _scopes(document: Document) -> Found:
    for path, _ in document.listed("rules"):
        whole = _of_the_whole(document, path)
        scope = document.get(*path, "scope")
        if whole is None and scope not in OF_SOURCE:
            continue
        reason = f"scope: {scope} is about" if whole is None else f"{whole} belongs to"
        for key in ("label", "critical"):
            matched = document.get(*path, "match", key)
            # a source as a whole is not critical, so such a match excludes it
            if matched is not None and not (whole and matched is False):
                summary = f"{reason} the source as a whole, so matching {key!r} leaves nothing"
                remedy = f"{'scope: labels, or ' if whole is None else ''}a match without {key}"
                yield document.problem("CAL027", (*path, "match", key), summary, remedy, at_key=True)


def _of_the_whole(document: Document, path: Path) -> str | None:
    """The rule's metric or column, if only a source as a whole has it; else None."""
    name = str(document.get(*path, "metric"))
    if name in NEEDS:
        return name if NEEDS[name] in WHOLE else None
    test = document.get(*path, "test")
    compared = document.get(*path, "column") or default_column(test)
    return f"{test} of {compared}" if isinstance(test, str) and compared not in (None, "score") else None


def _matched_sources(document: Document) -> Found:
    known = [str(path[-1]) for path, _ in document.named("sources")]
    for path, _ in (*document.listed("rules"), *document.listed("routes")):
        yield from _unknown(document, "CAL028", (*path, "match", "source"), known)


def _routed_rules(document: Document) -> Found:
    ids = [document.get(*path, "id") for path, _ in document.listed("rules")]
    known = list(dict.fromkeys(name for name in ids if isinstance(name, str)))
    for path, _ in document.listed("routes"):
        yield from _unknown(document, "CAL029", (*path, "match", "rule"), known)


def _unknown(document: Document, id: str, path: Path, known: Sequence[str]) -> Found:
    """Yields a problem if a text is not in ``known``; nothing if ``known`` is empty."""
    key, word = path[-1], document.get(*path)
    if isinstance(word, str) and word not in known and known:
        yield document.problem(id, path, f"unknown {key} {word!r}", meant(word, known, f"{key}: {{}}"))


def _names(document: Document, path: Path) -> tuple[str, ...]:
    return tuple(value for _, value in document.listed(*path) if isinstance(value, str))


_CHECKS: tuple[Callable[[Document], Found], ...] = (
    _time_zone,
    _relations,
    _empty_names,
    _empty_values,
    _columns,
    _segments_of_sources,
    _operators,
    _mentions,
    _keys_of_kind,
    _shapes,
    _types,
    _score_methods,
    _known_metrics,
    _metrics_of_kinds,
    _keys_of_whole,
    _keys_of_expected,
    _keys_of_accumulated,
    _keys_of_segments,
    _keys_of_turns_off,
    _keys_of_small_labels,
    _keys_of_plain,
    _keys_of_reference,
    _falling_metrics,
    _mutable_rules,
    _maturing_rules,
    _repeated_entries,
    _rule_ids,
    _measures,
    _fitting_keys,
    _thresholds,
    _blocked_scores,
    _scopes,
    _matched_sources,
    _routed_rules,
)
