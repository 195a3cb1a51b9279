"""Makes the typed form of a document. Each error of its keys and values becomes a problem with its place."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from monitor.config.model import Config
from monitor.config.problems import PROBLEMS, Problem, closest, meant
from monitor.config.sections import Pattern, known_keys, pattern
from monitor.config.yaml_document import MERGE_KEY, Document, Path
from monitor.core.records import ActionKind

NO_DEFAULT = (
    "automation.when_not_evaluated is missing, and has no default because both answers cost something: 'keep' lets the "
    "classifier act without new evidence until its lease ends, 'disable' stops it in every quiet week"
)

# Words of other tools, and the names used here.
_SYNONYMS = MappingProxyType(
    {
        "chi2": "chi_square",
        ">": "above", "gt": "above", "<": "below", "lt": "below", "rises": "increase", "falls": "decrease",
        "page": "critical",
        "error": "critical", "hourly": "daily", "monthly": "weekly", "disable": "disable_automation",
        "block": "block_scores", "limit": "limit_scores", "quantile": "equal_frequency", "uniform": "equal_width",
    }
)  # fmt: skip

# Keys that people expect elsewhere, and where they are.
_ELSEWHERE: Mapping[Pattern, str] = MappingProxyType(
    {
        ("rules", "*", "for_windows"): "for",
        **{("rules", "*", key): f"match: {{{key}: …}}" for key in ("source", "label", "critical", "except")},
        **{("routes", "*", key): f"match: {{{key}: …}}" for key in ("source", "label", "severity", "rule")},
    }
)

_ID_OF_CHOICE = {
    "test": "CAL013",
    "condition": "CAL014",
    "where": "CAL015",
    "severity": "CAL016",
    "actions": "CAL017",
    "schedule": "CAL018",
}

EXAMPLES = {
    "version": "version: 1",
    "sources": "sources: {tickets: {relation: resolved_tickets, score_is: probability_of_label}}",
    "rules": "rules: [{id: ece-increase, metric: ece, condition: increase, threshold: 0.02}]",
    "relation": "relation: the table, view or SELECT to read",
    "score_is": "score_is: probability_of_label, or score_is: confidence_in_prediction",
    "id": "id: a name such as ece-increase",
    "threshold": "threshold: a number such as 0.05",
    "channel": 'channel: "#ml-monitoring"',
    "after": "after: 2",
    "from": "from: token_logprobs",
    "method": "method: mean_probability",
    "on": "on: the column that both relations have",
    "unresolved": "unresolved: true, with these rows in the relation, as by a SELECT with UNION ALL",
    "positive": "positive: [yes, true]",
    "negative": "negative: [no, false]",
    "latest_by": "latest_by: updated_at",
    "agreement_by": "agreement_by: annotator",
}


@dataclass(frozen=True, slots=True)
class _Wrong:
    """One error of pydantic, at its place in the document."""

    document: Document
    path: Path
    error: ErrorDetails

    @property
    def key(self) -> str:
        """The key of the value; for an item of a list, the key of the list."""
        return next((step for step in reversed(self.path) if isinstance(step, str)), "the file")

    def written(self, otherwise: str) -> str:
        """The value as it is written; ``otherwise`` for a list or mapping."""
        return self.document.written.get(self.path, otherwise)

    def problem(self, id: str, summary: str, remedy: str, *, at: Path | None = None, at_key: bool = False) -> Problem:
        return self.document.problem(id, self.path if at is None else at, summary, remedy, at_key=at_key)


def typed(document: Document) -> tuple[Config | None, list[Problem]]:
    """The typed form of a document, or the problems of its keys and values: one a place."""
    try:
        return Config.model_validate(document.data, strict=True, by_alias=True, by_name=False, context=document), []
    except ValidationError as error:
        problems: dict[tuple[str | int, ...], Problem | None] = {}
        for each in error.errors():
            path = _path(each["loc"], document)
            if path is not None and path not in document.broken:
                translate = _TRANSLATIONS.get(each["type"], _wrong_type)
                problems.setdefault(each["loc"], translate(_Wrong(document, path, each)))
        return None, list(filter(None, problems.values()))


def _path(loc: tuple[str | int, ...], document: Document) -> Path | None:
    """The path of pydantic's location; None for the branch of ``re_enable`` that was not chosen."""
    if loc[:2] != ("automation", "re_enable") or len(loc) < 3:
        return loc[:-1] if loc[-1:] == ("[key]",) else loc
    is_mapping = isinstance(document.get("automation", "re_enable"), dict)
    return None if is_mapping == (loc[2] != "ReEnableAfter") else (*loc[:2], *loc[3:])


def _refused(wrong: _Wrong) -> Problem:
    """The problem of a value that its type in ``field_types.py`` refuses."""
    error = wrong.error["ctx"]
    facts = {**error["facts"], "key": wrong.key, "written": wrong.written("this")}
    return wrong.problem(wrong.error["type"], error["summary"].format(**facts), error["remedy"].format(**facts))


def _unknown_key(wrong: _Wrong) -> Problem:
    key, above = str(wrong.path[-1]), wrong.path[:-1]
    place = f" of {_name(above)}" if above else ""
    of_number = f"a decimal point in the number before it (.{key}): a comma begins another key"
    remedy = _ELSEWHERE.get((*pattern(above), key))
    remedy = remedy or (of_number if key.isdecimal() else meant(key, known_keys(above)))
    return wrong.problem("CAL004", f"unknown key {key!r}{place}", remedy, at_key=True)


def _missing(wrong: _Wrong) -> Problem | None:
    key, above = str(wrong.path[-1]), wrong.path[:-1]
    if wrong.path in {("automation",), ("automation", "when_not_evaluated")}:
        remedy = "automation: {when_not_evaluated: keep}" if key == "automation" else "when_not_evaluated: keep"
        return wrong.problem("CAL011", NO_DEFAULT, f"{remedy} (or disable)", at=wrong.path[:1], at_key=True)
    if (*above, MERGE_KEY) in wrong.document.broken:  # with a merge key it is unknown which keys are missing
        return None
    remedy = EXAMPLES.get(key, f"{key}: …")
    return wrong.problem("CAL005", f"{_name(above)} has no {key!r}", remedy, at=above, at_key=True)


def _version(wrong: _Wrong) -> Problem:
    written = wrong.written("of this kind")
    is_text = isinstance(wrong.error["input"], str) and written.strip().isdecimal()
    summary = f"version is the text {written!r}, not a number" if is_text else f"version {written} is not known"
    remedy = "version: 1, without quotes" if is_text else "version: 1"
    return wrong.problem("CAL007", f"{summary}: this program reads version 1", remedy)


def _choice(wrong: _Wrong) -> Problem:
    if wrong.path == ("version",):
        return _version(wrong)
    key, known = wrong.key, re.findall(r"'([^']+)'", wrong.error["ctx"]["expected"])
    written = wrong.written("a list or mapping")
    form = f"{key}: {{}}" if isinstance(wrong.path[-1], str) else "{}"
    remedy = meant(_SYNONYMS.get(written.lower(), written), known, form)
    if key == "re_enable":
        remedy = "re_enable: manual, or re_enable: {after: 2}"
    what = "action" if key == "actions" else key
    return wrong.problem(_ID_OF_CHOICE.get(key, "CAL019"), f"unknown {what} {written!r}", remedy)


def _range(wrong: _Wrong) -> Problem:
    type_, given = wrong.error["type"], wrong.error["input"]
    (bound,) = (float(value) for name, value in wrong.error["ctx"].items() if name in {"ge", "gt", "le", "lt"})
    words = {"greater_than_equal": "at least", "greater_than": "above", "less_than_equal": "at most"}
    limit = f"{words.get(type_, 'below')} {bound:g}"
    remedy = f"{bound:g}" if type_.endswith("equal") else f"a number {limit}"
    if bound <= 1 and 2 <= float(given) <= 100 and "less" in type_:
        remedy = f"{float(given) / 100:g}"  # a percentage
    summary = f"{wrong.key} must be {limit}, not {wrong.written(str(given))}"
    return wrong.problem("CAL020", summary, f"{wrong.key}: {remedy}")


def _empty(wrong: _Wrong) -> Problem | None:
    key = wrong.key
    if wrong.error["type"] == "too_short" and wrong.error["input"]:
        return None  # what is in it is wrong
    if wrong.error["loc"][-1] == "[key]":
        return wrong.problem("CAL020", "a name is empty", "a name", at_key=True)
    remedies = {
        "mention": 'mention: "<!subteam^S0123>", or no mention',
        **({key: f"{key}: the name of their column, or no {key}"} if wrong.path[-2] == "columns" else {}),
    }
    return wrong.problem("CAL020", f"{key} is empty", remedies.get(key, f"a name for {key}"))


def _rule_id(wrong: _Wrong) -> Problem:
    written = str(wrong.error["input"])
    slug = re.sub(r"[^a-z0-9]+", "-", written.lower()).strip("-")[:80].rstrip("-") or "ece-increase"
    rule = "lower-case letters, digits and '-', at most 80"
    return wrong.problem("CAL021", f"{written!r} is not a rule id ({rule})", f"id: {slug}")


def _wrong_type(wrong: _Wrong) -> Problem | None:
    type_, given, path = wrong.error["type"], wrong.error["input"], wrong.path
    if path in (("sources",), ("rules",)) and given in (None, {}, ()):
        return None  # CAL010
    kind, example = _KINDS.get(type_, (wrong.error["msg"], "a value of that kind"))
    written = wrong.written("")
    key = f"{path[-1]}: " if path and isinstance(path[-1], str) else ""
    meant_value = _as_actions(written) if key == "actions: " else _rewritten(type_, written)
    remedy = f"{key}{meant_value or example}"
    if key and wrong.key in EXAMPLES and not meant_value:
        remedy = EXAMPLES[wrong.key]
    if given is None:
        remedy = f"{remedy}, or leave the key out"
    return wrong.problem("CAL006", f"{_name(path)} must be {kind}, not {_described(given, written)}", remedy)


_TRANSLATIONS: Mapping[str, Callable[[_Wrong], Problem | None]] = MappingProxyType(
    {
        **dict.fromkeys(PROBLEMS, _refused),
        "extra_forbidden": _unknown_key,
        "missing": _missing,
        "literal_error": _choice,
        **dict.fromkeys(("greater_than", "greater_than_equal", "less_than", "less_than_equal"), _range),
        "string_too_short": _empty,
        "too_short": _empty,
        "string_too_long": _rule_id,
        "string_pattern_mismatch": _rule_id,
    }
)

_KINDS = {
    "string_type": ("text", "text"),
    "float_type": ("a number", "a number such as 0.05"),
    "int_type": ("a whole number", "a whole number"),
    "bool_type": ("true or false", "true or false"),
    "tuple_type": ("a list", "[a, b]"),
    "mapping_type": ("keys with values", "{key: value}"),
    "dict_type": ("keys with values", "{key: value}"),
    "model_type": ("keys with values", "{key: value}"),
    "time_delta_type": ("a duration", "a duration such as 24h"),
}


def _name(path: Path) -> str:
    """A path in words: ``rules[2].match``.

    >>> _name(("rules", 2, "match")), _name(())
    ('rules[3].match', 'the file')
    """
    text = "".join(f"[{step + 1}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.lstrip(".") or "the file"


def _described(value: Any, written: str) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict | tuple):
        return "keys with values" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return f"the text {written!r}"
    return written if isinstance(value, bool) else f"the number {written}"


def _rewritten(type_: str, written: str) -> str | None:
    """The written value as it should be for this type; None if that is not clear."""
    if not written:
        return None
    if type_ == "string_type":
        return f'"{written}"'
    if type_ == "tuple_type":
        return f"[{written}]"
    if type_ == "bool_type":
        word = written.strip("\"'").lower()
        return {"yes": "true", "1": "true", "true": "true", "no": "false", "0": "false", "false": "false"}.get(word)
    number = _number(written) if type_ in {"float_type", "int_type"} else None
    if number is None or not math.isfinite(number) or (type_ == "int_type" and not number.is_integer()):
        return None
    return f"{number:.0f}" if type_ == "int_type" else f"{number:.6g}"


def _as_actions(written: str) -> str:
    """The list of actions that one word means: ``none`` is no action, and an unknown word the usual one.

    >>> _as_actions("disable"), _as_actions("none"), _as_actions("mail")
    ('[disable_automation]', '[]', '[slack]')
    """
    word = _SYNONYMS.get(written.lower(), written)
    if word.lower() in ("none", "nothing", "no", "off", "false"):
        return "[]"
    return f"[{closest(word, get_args(ActionKind)) or 'slack'}]"


def _number(written: str) -> float | None:
    r"""The number that is meant by "5%", "0,05", "1e-2" or a quoted number.

    >>> _number("5%"), _number("0,05"), _number("1e-2"), _number("many")
    (0.05, 0.05, 0.01, None)
    """
    text = written.strip().replace(",", ".")
    scale = 0.01 if text.endswith("%") else 1.0
    try:
        return float(text.rstrip("% ")) * scale
    except ValueError:
        return None
