"""Mistakes that types cannot show: keys that do not fit together, names that must exist, thresholds out of reach.

pydantic compares the keys of a mapping only if all of its values are right. These checks read the plain document, so
that every mistake is told at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from monitor.config.entries import Found, Written, entries, repeated
from monitor.config.fields import EXAMPLES
from monitor.config.model import Config, Rule
from monitor.config.problems import Problem, meant
from monitor.config.rule_checks import CHANGES, of_rule, reach
from monitor.config.source_checks import of_source
from monitor.config.yaml_document import MERGE_KEY, Document
from monitor.metrics.names import ACCUMULATES, metric_named


def find_faults(document: Document) -> list[Problem]:
    """All problems that these checks find, in no particular order."""
    sources, rules, routes = (entries(document, key) for key in ("sources", "rules", "routes"))
    rules = [Written(document, rule.path, {**rule.keys, **_first_name(rule)}) for rule in rules]
    found = [problem for source in sources for problem in of_source(source)]
    found += [problem for rule in rules for problem in of_rule(rule, sources)]
    found += repeated(document, ("automation", "operators"))
    found += _rule_ids(rules)
    found += _matched(rules, routes, [source.name for source in sources])
    return found


def _first_name(rule: Written) -> dict[str, Any]:
    metric = rule["metric"]
    return {"metric": metric_named(metric)} if isinstance(metric, str) else {}


def _rule_ids(rules: Sequence[Written]) -> Found:
    lines: dict[str, int] = {}
    for rule in rules:
        name, at = rule["id"], rule.at("id")
        if isinstance(name, str) and name in lines:
            summary = f"the rule id {name!r} is used twice (first on line {lines[name]})"
            yield rule.problem("CAL022", "id", summary, f"id: {name}-2, or another name")
        elif isinstance(name, str):
            lines[name] = rule.document.place(at).line


def _matched(rules: Sequence[Written], routes: Sequence[Written], sources: Sequence[str]) -> Found:
    ids = list(dict.fromkeys(rule["id"] for rule in rules if isinstance(rule["id"], str)))
    for entry in (*rules, *routes):
        yield from _unknown(entry, "CAL028", "source", sources)
    for route in routes:
        yield from _unknown(route, "CAL029", "rule", ids)
        is_item, keys = isinstance(route.path[-1], int), {"channel", "apprise"}
        if is_item and not keys & set(route.keys) and (*route.path, MERGE_KEY) not in route.document.broken:
            summary = "a route has neither 'channel' nor 'apprise'"
            yield route.document.problem("CAL005", route.path, summary, EXAMPLES["channel"], at_key=True)


def _unknown(entry: Written, id: str, key: str, known: Sequence[str]) -> Found:
    """A problem if a match names what is not in ``known``; nothing if ``known`` is empty."""
    word = entry[f"match.{key}"]
    if isinstance(word, str) and word not in known and known:
        yield entry.problem(id, f"match.{key}", f"unknown {key} {word!r}", meant(word, known, f"{key}: {{}}"))


def never_fires(rule: Rule) -> str:
    """Why a rule can never be in breach, though its threshold is a possible value; "" if it can.

    >>> never_fires(Rule(id="x", metric="accuracy", threshold=1.0))
    'accuracy is never above 1, so it never fires'
    """
    low, high = reach(rule.measure, rule.condition)
    if rule.test == "wasserstein" and rule.column in (None, "score"):
        high = 1.0  # scores are from 0 to 1; features are as they come
    below = rule.condition == "below" or (rule.condition == "accumulated" and ACCUMULATES.get(rule.measure) == "below")
    if below and rule.threshold <= low:
        return f"{rule.measure} is never below {rule.threshold:g}, so it never fires"
    if below or rule.threshold < high:
        return ""
    change = CHANGES.get(rule.condition)
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
