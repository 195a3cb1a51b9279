"""The types of values in alerts.yaml: how each may be written, when it is refused, and its JSON Schema."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, LiteralString
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError, PydanticKnownError

from monitor.config.durations import LONGEST, nearest_duration, parse_duration
from monitor.config.problems import closest
from monitor.config.relation import Query, RelationSyntaxError, parse_relation
from monitor.metrics.names import ALIASES, ALSO_CALLED, CONTRACT, NEEDS, metric_named

OPERATOR = re.compile(r"<?(?:@|!subteam\^)?([UWS][A-Z0-9]+)(?:\|[^<>]*)?>?")
"""An entry of ``operators``, with the id of the Slack user (U, W) or user group (S) that it means."""
_EVERYBODY = re.compile(r"<?[@!]?(here|channel|everyone)(?:\|[^<>]*)?>?")
_SOMEBODY = re.compile(r"<?(?:@|!subteam\^)?([UWS](?=[A-Z0-9]*[0-9])[A-Z0-9]{2,})(?:\|[^<>]*)?>?")
_OF_THE_MACHINE = re.compile(r"(localtime|posixrules|Factory)$|(posix|right)/")
"""Files beside the IANA database's zones: of the machine's own zone, of none, and of clocks with leap seconds."""
_PLACE = "{label}"


def refused(id: LiteralString, summary: str, remedy: str, /, **facts: Any) -> PydanticCustomError:
    """The error of a value; ``{key}`` and ``{written}`` in its texts are known where the document is."""
    return PydanticCustomError(id, "{summary}", {"summary": summary, "remedy": remedy, "facts": facts})


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticKnownError("string_too_short", {"min_length": 1})
    return text


def _addressable(name: str) -> str:
    """The name of a source, which is a part of addresses and of lines."""
    odd = any(unicodedata.category(each) in ("Cc", "Zl", "Zp") for each in name)
    if odd or "/" in name or _not_blank(name) in (".", ".."):
        summary = "the name of a source is a part of addresses: it is one line, without / and control characters"
        raise refused("CAL020", summary, "another name")
    return name


def _read_relation(value: Any, info: ValidationInfo) -> Any:
    """A relation as it is read: of a SELECT without comments and final semicolon.

    Text that is no relation is refused in alerts.yaml; the warehouse says so of any other.
    """
    if not isinstance(value, str) or not value.strip():
        return value.strip() if isinstance(value, str) else value
    try:
        relation = parse_relation(value)
    except RelationSyntaxError as error:
        if info.context is None:
            return value.strip()
        raise refused("CAL031", "the relation {error}", "{remedy}", error=str(error), remedy=error.remedy) from None
    return relation.text if isinstance(relation, Query) else value.strip()


def _read_joined(value: Any) -> Any:
    """The columns of a join: one name, a list, or a mapping to the columns of the second relation."""
    names = (_not_blank(value),) if isinstance(value, str) else value
    is_names = isinstance(names, tuple) and all(isinstance(name, str) for name in names)
    return {name: name for name in names} if is_names else value


def _read_duration(example: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if value is None or isinstance(value, timedelta):
            return value
        duration = parse_duration(value) if isinstance(value, str) else None
        if duration is None:
            why = " (a number needs its unit: m, h, d or w)" if isinstance(value, int | float) else ""
            near = nearest_duration(value) or example
            raise refused("CAL009", "{written!r} is not a duration{why}", "{key}: {near}", why=why, near=near)
        if not timedelta(0) < duration <= LONGEST:
            summary = "{key} must be between 1m and 366d, not {written}"
            raise refused("CAL020", summary, "{key}: {example}", example=example)
        return duration

    return read


def _known_zone(name: str) -> str:
    of_machine = _OF_THE_MACHINE.match(name)
    try:
        if not of_machine and ZoneInfo(name) is not None:
            return name
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    zones = sorted(zone for zone in available_timezones() if not _OF_THE_MACHINE.match(zone))
    word = name.partition("/")[2] if of_machine else name
    same = (zone for zone in zones if word.lower() in (zone.lower(), zone.split("/")[-1].lower()))
    places = (zone for zone in zones if "/" in zone)  # of three letters another zone is nearly the same word
    near = min(same, key=len, default=closest(word, places)) or "a name such as UTC or Europe/Berlin"
    raise refused("CAL008", "unknown time zone {written!r}", "{key}: {near}", near=near)


def mention_meant(text: str) -> str | None:
    """The people that ``text`` means, as Slack writes them; None if Slack would show it and call nobody.

    Read are @here, @channel, @everyone and ids of users (U, W) and user groups (S), bare or as Slack writes them.

    >>> mention_meant("<!here|here>"), mention_meant("U0123ABCD, <!subteam^S0123|the ml>"), mention_meant("@ann")
    ('<!here>', '<@U0123ABCD> <!subteam^S0123>', None)
    """
    words = [_word_meant(word) for word in re.findall(r"<[^<>]*>|<?[^\s,<]*[^\s,]", text)]
    return None if None in words else " ".join(word for word in words if word)


def _word_meant(word: str) -> str | None:
    if everybody := _EVERYBODY.fullmatch(word):
        return f"<!{everybody[1]}>"
    somebody = _SOMEBODY.fullmatch(word)
    if somebody is None:
        return None
    return f"<!subteam^{somebody[1]}>" if somebody[1].startswith("S") else f"<@{somebody[1]}>"


def _read_mention(text: str, info: ValidationInfo) -> str:
    if info.context is None:  # of a message that was sent before
        return mention_meant(text) or text
    meant = mention_meant(_not_blank(text))
    if meant is None:  # Slack would show it as plain text
        summary = "the mention {written!r} calls nobody: Slack knows people by their ids"
        remedy = 'mention: "<@U0123ABCD>" (a user), "<!subteam^S0123ABCD>" (a user group) or "<!here>"'
        raise refused("CAL020", summary, remedy)
    return meant


def _slack_id(text: str, info: ValidationInfo) -> str:
    if info.context is not None and not OPERATOR.fullmatch(_not_blank(text)):
        summary = "the operator {written!r} is not the id of a Slack user or user group"
        raise refused("CAL020", summary, 'an id such as "<@U0123ABCD>" or "<!subteam^S0123ABCD>"')
    return text


def _known_metric(name: str) -> str:
    if name not in NEEDS:
        near = closest(ALIASES.get(name.lower(), name), NEEDS) or f"one of {', '.join(CONTRACT)}"
        raise refused("CAL012", "unknown metric {written!r}", "{key}: {near} (all: docs/metrics.md)", near=near)
    return name


def _type_of_column(name: str) -> str:
    if name not in ("number", "text") and "%" not in name:
        remedy = '{key}: number, text, or how a date is written: "%d.%m.%Y %H:%M"'
        raise refused("CAL019", "unknown type {written!r}", remedy)
    return name


def _one_a_label(name: str) -> str:
    if name.count(_PLACE) != 1:
        summary = "{written!r} is not the name of one column a label: it must have {place} once"
        raise refused("CAL020", summary, '{key}: "{key}_{place}"', place=_PLACE)
    return name


def _whole_number(value: Any) -> Any:
    if isinstance(value, bool | float):  # Python takes true and 1.0 for the number 1
        raise PydanticKnownError("literal_error", {"expected": "1"})
    return value


_NAME = {"type": "string", "minLength": 1}
_NAMES = {"type": "array", "items": _NAME}
_DURATION = {"type": "string", "pattern": r"^\s*[0-9]{1,6} ?[mhdw]\s*$", "examples": ["24h", "9d", "1w"]}

Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Cost = Annotated[float, Field(ge=0.0, le=1e9)]
Word = Annotated[str, Field(min_length=1)]
Filled = Annotated[str, AfterValidator(_not_blank)]
Name = Annotated[Word, AfterValidator(_not_blank)]
Relation = Annotated[Word, BeforeValidator(_read_relation)]
Joined = Annotated[
    Mapping[Filled, Filled],
    Field(min_length=1),
    BeforeValidator(_read_joined),
    WithJsonSchema({"anyOf": [_NAME, _NAMES, {"type": "object", "additionalProperties": _NAME}]}),
]
Columns = Annotated[
    tuple[Name, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [_NAME, _NAMES]}),
]
Segments = Annotated[tuple[Word, ...], WithJsonSchema({"anyOf": [{"const": "all"}, _NAMES]})]
Words = Annotated[
    tuple[Word, ...], WithJsonSchema({"type": "array", "items": {"type": ["string", "number", "boolean"]}})
]
Lease = Annotated[
    timedelta,
    BeforeValidator(_read_duration("9d")),
    WithJsonSchema(_DURATION),
    Field(json_schema_extra={"default": "9d"}),
]
Repeat = Annotated[
    timedelta | None,
    BeforeValidator(_read_duration("24h")),
    WithJsonSchema({"anyOf": [_DURATION, {"type": "null"}]}),
]
TimeZone = Annotated[str, AfterValidator(_known_zone)]
SourceName = Annotated[str, AfterValidator(_addressable)]
Mention = Annotated[str, AfterValidator(_read_mention)]
Operator = Annotated[str, AfterValidator(_slack_id)]
Metric = Annotated[
    str,
    AfterValidator(metric_named),
    AfterValidator(_known_metric),
    WithJsonSchema({"enum": [*NEEDS, *ALSO_CALLED]}),
]
ColumnType = Annotated[Word, AfterValidator(_type_of_column)]
ColumnOfLabel = Annotated[Word, AfterValidator(_one_a_label)]
Version = Annotated[Literal[1], BeforeValidator(_whole_number)]
Initial = Annotated[
    Literal["off", "on_first_ok"],
    BeforeValidator(lambda value: "off" if value is False else value),  # YAML reads off as false
    WithJsonSchema({"enum": ["off", "on_first_ok", False]}),
]
