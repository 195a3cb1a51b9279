"""Mistakes that types cannot see: names that must exist, keys that must fit together, values that can never be met.

Every check reads the plain document, not the typed form, so that it still speaks when something else is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from monitor.rules.document import Document, Path
from monitor.rules.problems import Problem, closest, meant
from monitor.rules.relation import relation_fault

CANONICAL_COLUMNS = (
    "item", "label", "score", "actual", "resolved_at",
    "predicted", "predicted_at", "model_version", "cluster", "weight",
)  # fmt: skip

_LARGEST_NLL = -math.log(1e-15)  # of a score of 0 or 1, which the formula keeps from being infinite
_RANGES = {"nll": (0.0, _LARGEST_NLL), "shortfall": (-1.0, 1.0), "psi": (0.0, math.inf)}

Found = Iterator[Problem]


def find_faults(document: Document) -> list[Problem]:
    """All problems of this kind, in no order."""
    return [problem for check in _CHECKS for problem in check(document)]


def _time_zone(document: Document) -> Found:
    name = document.get("timezone")
    if not isinstance(name, str):
        return
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zones = sorted(available_timezones())
        near = next((zone for zone in zones if zone.split("/")[-1].lower() == name.lower()), closest(name, zones))
        remedy = f"timezone: {near}" if near else "timezone: a name such as UTC or Europe/Berlin"
        yield document.problem("CAL008", ("timezone",), f"unknown time zone {name!r}", remedy)


def _relations(document: Document) -> Found:
    for path, _ in document.named("sources"):
        relation = document.get(*path, "relation")
        fault = relation_fault(relation) if isinstance(relation, str) and relation.strip() else None
        if fault:
            remedy = "relation: one table, one view or one SELECT"
            yield document.problem("CAL031", (*path, "relation"), f"the relation {fault}", remedy)


def _empty_names(document: Document) -> Found:
    for path, _ in document.named("sources"):
        for named, _ in ((path, None), *document.named(*path, "labels")):
            if not str(named[-1]).strip():
                yield document.problem("CAL020", named, "a name is empty", "a name", at_key=True)


def _columns(document: Document) -> Found:
    for source, _ in document.named("sources"):
        others = (*_names(document, (*source, "segments")), *_names(document, (*source, "features")))
        known = tuple(dict.fromkeys((*CANONICAL_COLUMNS, *others)))
        for path, theirs in document.named(*source, "columns"):
            ours = str(path[-1])
            if ours in known:
                continue
            turned = isinstance(theirs, str) and theirs in CANONICAL_COLUMNS
            remedy = f"{theirs}: {ours} (ours first, then theirs)" if turned else meant(ours, known, f"{{}}: {theirs}")
            yield document.problem("CAL030", path, f"unknown column {ours!r}", remedy, at_key=True)


def _repeated_entries(document: Document) -> Found:
    lists = [(*source, key) for source, _ in document.named("sources") for key in ("segments", "features")]
    lists += [(*rule, "actions") for rule, _ in document.listed("rules")]
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
            yield document.problem("CAL023", _head(document, path), summary, "metric: ece, or test: ks")


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
        if rule.get("metric") == "false_negative_rate" and rule.get("where") in {"predicted", "automated"}:
            summary = f"among {rule['where']} rows nothing is missed, so false_negative_rate is always 0 there"
            yield document.problem("CAL024", (*path, "where"), summary, "where: all")


def _keys_of_test(document: Document, path: Path) -> Found:
    if document.get(*path, "condition") in {"increase", "below"}:
        summary = "a shift test compares with the baseline already: it fires above its threshold"
        yield document.problem("CAL024", (*path, "condition"), summary, "condition: above, or leave the key out")
    if document.get(*path, "where") in {"predicted", "automated"}:
        summary = "a shift test is of all rows"
        yield document.problem("CAL024", (*path, "where"), summary, "where: all, or leave the key out")
    yield from _column_of_test(document, path)


def default_column(test: object) -> str:
    """What a shift test is of where its rule names no column."""
    return "label" if test == "chi_square" else "score"


def _column_of_test(document: Document, path: Path) -> Found:
    test, column = document.get(*path, "test"), document.get(*path, "column")
    features = [name for source, _ in document.named("sources") for name in _names(document, (*source, "features"))]
    known = tuple(dict.fromkeys((default_column(test), *features)))
    if isinstance(column, str) and column not in known:
        summary = f"unknown column {column!r}: {test} is of the {known[0]} or of one of the sources' features"
        yield document.problem("CAL030", (*path, "column"), summary, meant(column, known, "column: {}"))
    compared = column or known[0]
    if compared != "score" and document.get(*path, "scope") == "labels":
        summary = f"{test} of {compared} belongs to the source as a whole, so scope: labels leaves nothing"
        yield document.problem("CAL027", (*path, "scope"), summary, "scope: source, or leave the key out")


def _thresholds(document: Document) -> Found:
    for path, rule in document.listed("rules"):
        threshold = document.get(*path, "threshold")
        if not isinstance(rule, dict) or not isinstance(threshold, int | float) or isinstance(threshold, bool):
            continue
        name = rule.get("metric") or rule.get("test")
        low, high = _possible(str(name), rule.get("condition"))
        if not low <= threshold <= high or math.isinf(threshold):
            kind = f"an increase of {name}" if rule.get("condition") == "increase" else str(name or "the value")
            span = f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:.3g}"
            percent = 2 <= threshold <= 100
            remedy = f"threshold: {threshold / 100:g}" if percent else f"threshold: a number {span}"
            summary = f"impossible threshold {document.written[(*path, 'threshold')]}: {kind} is {span}"
            yield document.problem("CAL025", (*path, "threshold"), summary, remedy)


def _possible(measure: str, condition: object) -> tuple[float, float]:
    """The values a threshold can be held against."""
    low, high = _RANGES.get(measure, (0.0, 1.0))
    return (0.0, high - low) if condition == "increase" else (low, high)


def _blocked_scores(document: Document) -> Found:
    for path, rule in document.listed("rules"):
        measure = (rule.get("metric") or rule.get("test")) if isinstance(rule, dict) else None
        for action, kind in document.listed(*path, "actions"):
            if kind == "block_scores" and measure is not None and measure not in {"ece", "mce"}:
                summary = f"block_scores needs score ranges: mce and ece have them, {measure} has none"
                yield document.problem("CAL026", action, summary, "disable_automation, or metric: mce")


def _scopes(document: Document) -> Found:
    for path, _ in document.listed("rules"):
        if document.get(*path, "scope") != "source":
            continue
        for key in ("label", "critical"):
            if document.get(*path, "match", key) is not None:
                summary = f"scope: source is about the source as a whole, so matching {key!r} leaves nothing"
                remedy = f"scope: labels, or a match without {key}"
                yield document.problem("CAL027", (*path, "match", key), summary, remedy, at_key=True)


def _matched_sources(document: Document) -> Found:
    known = [str(path[-1]) for path, _ in document.named("sources")]
    for path, _ in (*document.listed("rules"), *document.listed("routes")):
        name = document.get(*path, "match", "source")
        if isinstance(name, str) and name not in known and known:
            yield document.problem(
                "CAL028", (*path, "match", "source"), f"unknown source {name!r}", meant(name, known, "source: {}")
            )


def _routed_rules(document: Document) -> Found:
    ids = [document.get(*path, "id") for path, _ in document.listed("rules")]
    known = list(dict.fromkeys(name for name in ids if isinstance(name, str)))
    for path, _ in document.listed("routes"):
        name = document.get(*path, "match", "rule")
        if isinstance(name, str) and name not in known and known:
            yield document.problem(
                "CAL029", (*path, "match", "rule"), f"unknown rule {name!r}", meant(name, known, "rule: {}")
            )


def _names(document: Document, path: Path) -> tuple[str, ...]:
    return tuple(value for _, value in document.listed(*path) if isinstance(value, str))


def _head(document: Document, rule: Path) -> Path:
    """Where a problem of a whole rule is shown: at its id, if it has one."""
    return (*rule, "id") if document.get(*rule, "id") is not None else rule


_CHECKS: tuple[Callable[[Document], Found], ...] = (
    _time_zone,
    _relations,
    _empty_names,
    _columns,
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
