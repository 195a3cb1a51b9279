"""Writing estimates: nine of one population of a label share a line, and what they are of is named once.

They are read from the view ``estimates``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, func, or_, select, update

from monitor.history import tables
from monitor.history.connect import Row, one_at_a_time
from monitor.history.tables import NUMBERS_OF_PLACE, PLACES
from monitor.history.window_numbers import number_of, window_of

_NAMES = ("source", "label", "segment", "metric", "population")
_LINE = ("source", "label", "segment", "population")
_BILLION = 1e9
_ROUNDED_FROM, _ROUNDED_TO = 1e-4, 9e6
_LARGEST = 1e290

_Key = tuple[str, ...]


class _Place(NamedTuple):
    series: int
    line: int
    place: int


def replace(
    connection: Connection, schedule: str, start: datetime, sources: Sequence[str], rows: Sequence[Row]
) -> None:
    """Put these rows (of the view) in the place of what is stored of the sources in this window."""
    table, of_sources = tables.estimated, tables.estimate_series.c.source.in_(list(sources))
    mine = table.c.window_id == window_of(schedule, start).scalar_subquery()
    lines = select(tables.estimate_series.c.line).where(of_sources)
    if connection.execute(delete(table).where(mine, table.c.line.in_(lines))).rowcount:  # else there are none
        _remove_extras(connection, schedule, start, of_sources)
    if not rows:
        return
    window = number_of(connection, schedule, start, rows[0]["window_name"])
    made, extras = _stored(window, rows, _places_of(connection, rows))
    connection.execute(table.insert(), made)
    if extras:
        connection.execute(tables.estimate_extras.insert(), extras)


def remove(connection: Connection, schedule: str, start: datetime, which: ColumnElement[bool]) -> None:
    """Forget the estimates of one window whose series fulfil the condition."""
    table, series = tables.estimated, tables.estimate_series
    mine = table.c.window_id == window_of(schedule, start).scalar_subquery()
    for place in range(PLACES):
        lines = select(series.c.line).where(series.c.place == place, which)
        nothing = {f"{name}_{place}": None for name in NUMBERS_OF_PLACE}
        connection.execute(update(table).where(mine, table.c.line.in_(lines)).values(nothing))
    held = (table.c[f"{name}_{place}"].is_not(None) for place in range(PLACES) for name in ("value", "plug_in"))
    connection.execute(delete(table).where(mine, ~or_(*held)))
    _remove_extras(connection, schedule, start, which)


def _remove_extras(connection: Connection, schedule: str, start: datetime, which: ColumnElement[bool]) -> None:
    table, series = tables.estimate_extras, tables.estimate_series
    mine = table.c.window_id == window_of(schedule, start).scalar_subquery()
    connection.execute(delete(table).where(mine, table.c.series_id.in_(select(series.c.id).where(which))))


def _stored(window: int, rows: Sequence[Row], places: Mapping[_Key, _Place]) -> tuple[list[Row], list[Row]]:
    """The lines of these estimates, and what does not fit into them."""
    empty = {f"{name}_{place}": None for place in range(PLACES) for name in NUMBERS_OF_PLACE}
    lines: dict[int, Row] = {}
    extras: list[Row] = []
    for row in rows:
        series, number, place = places[_key_of(row)]
        counted = {name: row[name] for name in ("n", "positives")}
        line = lines.setdefault(number, {"window_id": window, "line": number, **counted, **empty})
        line.update({f"{name}_{place}": in_billionths(row[name]) for name in ("value", "low", "high")})
        line[f"plug_in_{place}"] = _textbook(line[f"value_{place}"], in_billionths(row["plug_in"]))
        own = {name: None if each == line[name] else each for name, each in counted.items()}
        if row["detail"] or any(each is not None for each in own.values()):
            extras.append({"window_id": window, "series_id": series, **own, "detail": row["detail"] or None})
    return list(lines.values()), extras


def in_billionths(value: float | None) -> float | None:
    """A number as it is stored: in whole billionths where these leave enough digits of it; at most 1e290.

    >>> in_billionths(0.0123456789), in_billionths(1e-6 / 3)
    (12345679.0, 333.3333333333333)
    """
    if value is None:
        return None
    scaled = min(max(value, -_LARGEST), _LARGEST) * _BILLION
    return float(round(scaled)) if _ROUNDED_FROM <= abs(value) < _ROUNDED_TO else scaled


def _textbook(value: float | None, plug_in: float | None) -> float | None:
    """NULL where it is the value, as for most metrics; infinity, which no estimate is, where there is none."""
    if plug_in is None:
        return -math.inf if value is None else math.inf
    return None if plug_in == value else plug_in


def _places_of(connection: Connection, rows: Sequence[Row]) -> Mapping[_Key, _Place]:
    """What is estimated -> where it is; what never was before gets a place."""
    keys, sources = dict.fromkeys(map(_key_of, rows)), sorted({row["source"] for row in rows})
    known = _known(connection, sources)
    if keys.keys() <= known.keys():
        return known
    one_at_a_time(connection, "places of estimates")
    known = _known(connection, sources)  # once more: others may have given places until now
    return known | _add(connection, [key for key in keys if key not in known], known)


_OF_SERIES = [tables.estimate_series.c[name] for name in (*_NAMES, "id", "line", "place")]
_AT_ONCE = {"insertmanyvalues_page_size": 3_000}


def _known(connection: Connection, sources: Sequence[str]) -> dict[_Key, _Place]:
    table = tables.estimate_series
    return _placed(connection.execute(select(*_OF_SERIES).where(table.c.source.in_(sources))))


def _placed(found: Iterable[Any]) -> dict[_Key, _Place]:
    return {tuple(row[: len(_NAMES)]): _Place(*row[len(_NAMES) :]) for row in found}


def _add(connection: Connection, new: Sequence[_Key], known: Mapping[_Key, _Place]) -> dict[_Key, _Place]:
    """Give each of these the next place of the last line of its population, or the first one of a new line."""
    table = tables.estimate_series
    newest = connection.execute(select(func.coalesce(func.max(table.c.line), 0))).scalar_one()
    last: dict[_Key, int] = {}
    for key, (_, line, _) in known.items():
        last[_line_of(key)] = max(line, last.get(_line_of(key), 0))
    taken = Counter(line for _, line, _ in known.values())
    rows = []
    for key in new:
        line = last.get(_line_of(key), 0)
        if not line or taken[line] == PLACES:
            line = last[_line_of(key)] = newest = newest + 1
        rows.append({**dict(zip(_NAMES, key, strict=True)), "line": line, "place": taken[line]})
        taken[line] += 1
    if not rows:
        return {}
    return _placed(connection.execute(table.insert().returning(*_OF_SERIES), rows, execution_options=_AT_ONCE))


def _key_of(row: Row) -> _Key:
    return tuple(row[name] for name in _NAMES)


def _line_of(key: _Key) -> _Key:
    return tuple(part for name, part in zip(_NAMES, key, strict=True) if name in _LINE)
