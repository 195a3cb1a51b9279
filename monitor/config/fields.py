"""Makes the typed form from a document: keys, types, choices and ranges; each error is a problem with its place."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from monitor.config.checks import default_column
from monitor.config.durations import LONGEST, nearest_duration, parse_duration
from monitor.config.model import Config, SourceConfig
from monitor.config.problems import Problem, closest, meant
from monitor.config.relation import without_comments
from monitor.config.sections import Pattern, known_keys, pattern
from monitor.config.yaml_document import MERGE_KEY, Document, Path
from monitor.core.records import ActionKind
from monitor.metrics.names import NEEDS, WHOLE

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
        "block": "block_scores", "quantile": "equal_frequency", "uniform": "equal_width",
    }
)  # fmt: skip

# Keys that people expect elsewhere, and where they are.
_ELSEWHERE: Mapping[Pattern, str] = MappingProxyType(
    {
        ("rules", "*", "for_windows"): "for",
        **{("rules", "*", key): f"match: {{{key}: …}}" for key in ("source", "label", "critical")},
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

_EXAMPLES = {
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
    "positive": "positive: [yes, true]",
    "negative": "negative: [no, false]",
    "latest_by": "latest_by: updated_at",
    "agreement_by": "agreement_by: annotator",
    "unresolved": "unresolved: true, or unresolved: the relation that has these rows",
}


class Typing:
    """One pass over a document; ``config`` is None if the document has problems of this kind."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self._broken = set(document.broken)
        self.config = self._validated(self._copy(document.data, ()))

    def _copy(self, value: Any, path: Path) -> Any:
        """Plain data for the model: only known keys, durations parsed, dependent defaults filled in."""
        convert = _CONVERSIONS.get(pattern(path))
        if convert is not None:
            return convert(self, value, path)
        return self._inside(value, path)

    def _inside(self, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            kept = [key for key in value if self._is_known(key, path)]
            copied = {key: self._copy(value[key], (*path, key)) for key in kept}
            fill = _DEFAULTS.get(pattern(path))
            return copied if fill is None else fill(copied)
        if isinstance(value, tuple):
            return tuple(self._copy(item, (*path, index)) for index, item in enumerate(value))
        return value

    def _is_known(self, key: str, path: Path) -> bool:
        known = known_keys(path)
        if known is None or key in known:
            return True
        place = f" of {_name(path)}" if path else ""
        of_number = f"a decimal point in the number before it (.{key}): a comma begins another key"
        remedy = _ELSEWHERE.get((*pattern(path), key)) or (of_number if key.isdecimal() else meant(key, known))
        self._note("CAL004", (*path, key), f"unknown key {key!r}{place}", remedy, at_key=True)
        return False

    def _duration(self, value: Any, path: Path) -> timedelta | None:
        read = parse_duration(value) if isinstance(value, str) else None
        if value is None or (read is not None and timedelta(0) < read <= LONGEST):
            return read
        written = self.document.written.get(path, "this")
        if read is not None:
            self._note("CAL020", path, f"{path[-1]} must be between 1m and 366d, not {written}", _example(path))
            return None
        why = " (a number needs its unit: m, h, d or w)" if isinstance(value, int | float) else ""
        near = nearest_duration(written)
        remedy = f"{path[-1]}: {near}" if near else _example(path)
        self._note("CAL009", path, f"{written!r} is not a duration{why}", remedy)
        return None

    def _version_number(self, value: Any, path: Path) -> Any:
        if isinstance(value, bool | float):  # Python takes true and 1.0 for the number 1
            self._version(path)
        return value

    def _relation(self, value: Any, path: Path) -> Any:
        return without_comments(value) if isinstance(value, str) else value

    def _unresolved(self, value: Any, path: Path) -> Any:
        """The value of ``unresolved``: ``true`` means the source's own relation, a text names another one."""
        if isinstance(value, bool):
            return SourceConfig.OWN_RELATION if value else None
        if isinstance(value, str) and not value.strip():
            self._note("CAL020", path, "unresolved is empty", _EXAMPLES["unresolved"])
        return self._relation(value, path)

    def _word(self, value: Any, path: Path) -> Any:
        """A value of the data, as written: ``yes`` and ``1`` are words here."""
        return self.document.written[path] if isinstance(value, bool | int | float) else value

    def _one_or_many(self, value: Any, path: Path) -> Any:
        return (value,) if isinstance(value, str) else self._inside(value, path)

    def _shared_columns(self, value: Any, path: Path) -> Any:
        """The columns of a join: one name, a list, or a mapping to the columns of the second relation."""
        names = (value,) if isinstance(value, str) else value
        if isinstance(names, tuple) and all(isinstance(name, str) for name in names):
            return {name: name for name in names}
        return self._inside(value, path)

    def _filled(self, value: Any, path: Path) -> Any:
        """The sources or rules, of which there must be at least one."""
        if value in (None, {}, ()):
            self._note("CAL010", path, f"no {path[0]}: nothing would be watched", _EXAMPLES[str(path[0])])
        return self._inside(value, path)

    def _validated(self, data: Any) -> Config | None:
        try:
            config = Config.model_validate(data, strict=True)
        except ValidationError as error:
            for found in error.errors():
                self._translate(found)
            return None
        return None if self.problems else config

    def _translate(self, found: ErrorDetails) -> None:
        path = self._path(found["loc"])
        if path is not None and path not in self._broken:
            translate = _TRANSLATIONS.get(found["type"], Typing._wrong_type)
            translate(self, path, found)

    def _path(self, loc: tuple[str | int, ...]) -> Path | None:
        """The path of pydantic's location; None for the branch of ``re_enable`` that was not chosen."""
        if loc[:2] != ("automation", "re_enable") or len(loc) < 3:
            return loc
        is_mapping = isinstance(self.document.get("automation", "re_enable"), dict)
        return None if is_mapping == (loc[2] != "ReEnableAfter") else (*loc[:2], *loc[3:])

    def _missing(self, path: Path, found: ErrorDetails) -> None:
        key = str(path[-1])
        if path in {("automation",), ("automation", "when_not_evaluated")}:
            remedy = "automation: {when_not_evaluated: keep}" if key == "automation" else "when_not_evaluated: keep"
            self._note("CAL011", path[:1], NO_DEFAULT, f"{remedy} (or disable)", at_key=True)
        elif (*path[:-1], MERGE_KEY) not in self._broken:  # with a merge key it is unknown which keys are missing
            summary = f"{_name(path[:-1])} has no {key!r}"
            self._note("CAL005", path[:-1], summary, _EXAMPLES.get(key, f"{key}: …"), at_key=True)

    def _version(self, path: Path) -> None:
        written = self.document.written.get(path, "of this kind")
        is_text = isinstance(self.document.get(*path), str) and written.strip().isdecimal()
        summary = f"version is the text {written!r}, not a number" if is_text else f"version {written} is not known"
        remedy = "version: 1, without quotes" if is_text else "version: 1"
        self._note("CAL007", path, f"{summary}: this program reads version 1", remedy)

    def _choice(self, path: Path, found: ErrorDetails) -> None:
        if path == ("version",):
            self._version(path)
            return
        key, known = _key(path), re.findall(r"'([^']+)'", found["ctx"]["expected"])
        written = self.document.written.get(path, "a list or mapping")
        form = f"{key}: {{}}" if isinstance(path[-1], str) else "{}"
        remedy = meant(_SYNONYMS.get(written.lower(), written), known, form)
        if key == "re_enable":
            remedy = "re_enable: manual, or re_enable: {after: 2}"
        what = "action" if key == "actions" else key
        self._note(_ID_OF_CHOICE.get(key, "CAL019"), path, f"unknown {what} {written!r}", remedy)

    def _range(self, path: Path, found: ErrorDetails) -> None:
        (bound,) = (float(value) for name, value in found["ctx"].items() if name in {"ge", "gt", "le", "lt"})
        words = {"greater_than_equal": "at least", "greater_than": "above", "less_than_equal": "at most"}
        limit = f"{words.get(found['type'], 'below')} {bound:g}"
        value, inclusive = float(found["input"]), found["type"].endswith("equal")
        remedy = f"{bound:g}" if inclusive else f"a number {limit}"
        if bound <= 1 < value <= 100 and "less" in found["type"]:
            remedy = f"{value / 100:g}"  # a percentage
        written = self.document.written.get(path, found["input"])
        self._note("CAL020", path, f"{_key(path)} must be {limit}, not {written}", f"{_key(path)}: {remedy}")

    def _empty(self, path: Path, found: ErrorDetails) -> None:
        self._note("CAL020", path, f"{_key(path)} is empty", f"a name for {_key(path)}")

    def _rule_id(self, path: Path, found: ErrorDetails) -> None:
        written = str(found["input"])
        slug = re.sub(r"[^a-z0-9]+", "-", written.lower()).strip("-")[:80].rstrip("-") or "ece-increase"
        rule = "lower-case letters, digits and '-', at most 80"
        self._note("CAL021", path, f"{written!r} is not a rule id ({rule})", f"id: {slug}")

    def _wrong_type(self, path: Path, found: ErrorDetails) -> None:
        kind, example = _KINDS.get(found["type"], (found["msg"], "a value of that kind"))
        written = self.document.written.get(path, "")
        key = f"{path[-1]}: " if path and isinstance(path[-1], str) else ""
        meant_value = _as_actions(written) if key == "actions: " else _rewritten(found["type"], written)
        remedy = f"{key}{meant_value or example}"
        if key and _key(path) in _EXAMPLES and not meant_value:
            remedy = _EXAMPLES[_key(path)]
        if found["input"] is None:
            remedy = f"{remedy}, or leave the key out"
        summary = f"{_name(path)} must be {kind}, not {_described(found['input'], written)}"
        self._note("CAL006", path, summary, remedy)

    def _note(self, id: str, path: Path, summary: str, remedy: str, *, at_key: bool = False) -> None:
        self._broken.add(path)
        self.problems.append(self.document.problem(id, path, summary, remedy, at_key=at_key))


_CONVERSIONS: Mapping[Pattern, Callable[[Typing, Any, Path], Any]] = MappingProxyType(
    {
        ("version",): Typing._version_number,
        ("sources",): Typing._filled,
        ("rules",): Typing._filled,
        ("sources", "*", "relation"): Typing._relation,
        ("sources", "*", "truth", "relation"): Typing._relation,
        ("sources", "*", "truth", "on"): Typing._shared_columns,
        ("sources", "*", "unresolved"): Typing._unresolved,
        ("sources", "*", "latest_by"): Typing._one_or_many,
        ("sources", "*", "agreement_by"): Typing._one_or_many,
        ("sources", "*", "positive", "*"): Typing._word,
        ("sources", "*", "negative", "*"): Typing._word,
        ("automation", "lease"): Typing._duration,
        ("automation", "initial"): lambda _, word, _path: "off" if word is False else word,  # YAML reads off as false
        ("routes", "*", "repeat"): Typing._duration,
    }
)

_TRANSLATIONS: Mapping[str, Callable[[Typing, Path, ErrorDetails], None]] = MappingProxyType(
    {
        "missing": Typing._missing,
        "literal_error": Typing._choice,
        **dict.fromkeys(("greater_than", "greater_than_equal", "less_than", "less_than_equal"), Typing._range),
        "string_too_short": Typing._empty,
        "too_short": Typing._empty,
        "string_too_long": Typing._rule_id,
        "string_pattern_mismatch": Typing._rule_id,
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


def _with_rule_defaults(rule: dict[str, Any]) -> dict[str, Any]:
    """Fill in a rule's defaults. Metrics of whole rows, and shift tests except of scores, are of the source as a whole.

    The default column of a shift test is the scores, of chi-square the label mix. A rule on segments is about all
    segments unless it names columns.
    """
    if rule.get("segments") == "all" or (rule.get("scope") == "segments" and rule.get("segments") is None):
        rule = {**rule, "segments": ("all",)}
    if NEEDS.get(str(rule.get("metric"))) in WHOLE:
        return {"scope": "source", **rule}
    if rule.get("scope") == "segments":
        return rule
    if rule.get("test") is None:
        return rule
    column = rule.get("column") or default_column(rule["test"])
    return {"scope": "labels" if column == "score" else "source", **rule, "column": column}


_SCORE_IS = {"regression": "probability_of_label", "single_label": "confidence_in_prediction"}


def _with_kind_defaults(source: dict[str, Any]) -> dict[str, Any]:
    """Fill in ``score_is`` for sources of numbers, which have no scores, and of single labels, with confidences."""
    score_is = _SCORE_IS.get(str(source.get("kind")))
    return source if score_is is None else {"score_is": score_is, **source}


_DEFAULTS: Mapping[Pattern, Callable[[dict[str, Any]], dict[str, Any]]] = MappingProxyType(
    {("rules", "*"): _with_rule_defaults, ("sources", "*"): _with_kind_defaults}
)


def _key(path: Path) -> str:
    """The key of a value; for an item of a list, the key of the list."""
    return next((step for step in reversed(path) if isinstance(step, str)), "the file")


def _name(path: Path) -> str:
    """A path in words: ``rules[2].match``.

    >>> _name(("rules", 2, "match")), _name(())
    ('rules[3].match', 'the file')
    """
    text = "".join(f"[{step + 1}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.lstrip(".") or "the file"


def _example(path: Path) -> str:
    return f"{path[-1]}: {'9d' if path[-1] == 'lease' else '24h'}"


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
