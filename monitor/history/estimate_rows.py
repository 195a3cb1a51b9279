"""Write estimates. The view ``estimates`` reads them.

A series is what is estimated: source, label, segment, metric, population. It is named once, and has a place in a line.
A line is a row of numbers of one label (or segment) in one window: parts of nine places, each part of one population.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, func, select, update

from monitor.history import tables
from monitor.history.connect import Row, one_at_a_time
from monitor.history.tables import EXACT, NUMBERS_OF_PLACE, PARTS, PLACES, PLACES_OF_PART
from monitor.history.window_numbers import number_of, window_of

_NAMES = ("source", "label", "segment", "metric", "population")
_LINE = ("source", "label", "segment")
_BILLION = 1e9
_ROUNDED_FROM, _ROUNDED_TO = 1e-4, 9e6
_LARGEST = 1e290

_CHUNK = 500

_Key = tuple[str, ...]


class _Place(NamedTuple):
    series: int
    line: int
    place: int
    detailed: bool

    @property
    def part(self) -> tuple[int, int]:
        """The line, and the index of the part in it."""
        return self.line, self.place // PLACES_OF_PART


def replace(
    connection: Connection, schedule: str, start: datetime, sources: Sequence[str], rows: Sequence[Row]
) -> None:
    """Replace the stored estimates of the sources in this window by these rows (of the view)."""
    table, of_sources = tables.estimated, tables.estimate_series.c.source.in_(list(sources))
    is_window = table.c.window_id == window_of(schedule, start).scalar_subquery()
    line_ids = select(tables.estimate_series.c.line).where(of_sources)
    if connection.execute(delete(table).where(is_window, table.c.line.in_(line_ids))).rowcount:  # else no extras
        _remove_extras(connection, schedule, start, of_sources)
    if not rows:
        return
    window = number_of(connection, schedule, start, rows[0]["window_name"])
    lines, extras = _stored(window, rows, _places_of(connection, rows))
    connection.execute(table.insert(), lines)
    if extras:
        connection.execute(tables.estimate_extras.insert(), extras)


def remove(connection: Connection, schedule: str, start: datetime, which: ColumnElement[bool]) -> None:
    """Remove the estimates of one window whose series meet the condition."""
    table = tables.estimated
    is_window = table.c.window_id == window_of(schedule, start).scalar_subquery()
    for places, lines in _to_remove(connection, which).items():
        empty = {column: None for place in places for column in _columns_of(place)}
        for first in range(0, len(lines), _CHUNK):
            chunk = (is_window, table.c.line.in_(lines[first : first + _CHUNK]))
            connection.execute(update(table).where(*chunk).values(empty) if places else delete(table).where(*chunk))
    _remove_extras(connection, schedule, start, which)


def _to_remove(connection: Connection, which: ColumnElement[bool]) -> dict[tuple[_Place, ...], list[int]]:
    """Places whose numbers are to be removed -> the lines in which it is these. () -> lines to remove as a whole."""
    series = tables.estimate_series
    columns = (series.c.id, series.c.line, series.c.place, series.c.detailed)
    lines: dict[int, list[_Place]] = {}
    for row in connection.execute(select(*columns).where(which).order_by(series.c.line, series.c.place)):
        lines.setdefault(row.line, []).append(_Place(*row))
    sizes = select(series.c.line, func.count()).group_by(series.c.line)
    whole_lines = {line for line, size in connection.execute(sizes) if size == len(lines.get(line, ()))}
    going: dict[tuple[_Place, ...], list[int]] = {}
    for line, places in lines.items():
        removed = () if line in whole_lines else tuple(_Place(0, 0, each.place, each.detailed) for each in places)
        going.setdefault(removed, []).append(line)
    return going


def _columns_of(place: _Place) -> list[str]:
    numbers = [f"{name}_{place.place}" for name in NUMBERS_OF_PLACE]
    return [*numbers, f"detail_{place.part[1]}"] if place.detailed else numbers


def _remove_extras(connection: Connection, schedule: str, start: datetime, which: ColumnElement[bool]) -> None:
    table, series = tables.estimate_extras, tables.estimate_series
    is_window = table.c.window_id == window_of(schedule, start).scalar_subquery()
    connection.execute(delete(table).where(is_window, table.c.series_id.in_(select(series.c.id).where(which))))


_EMPTY = {
    **{f"{name}_{place}": None for place in range(PLACES) for name in NUMBERS_OF_PLACE},
    **{f"{name}_{part}": None for part in range(PARTS) for name in ("n", "positives", "detail")},
}


def _stored(window: int, rows: Sequence[Row], places: Mapping[_Key, _Place]) -> tuple[list[Row], list[Row]]:
    """The lines of these estimates, and the rows of extras for what does not fit into a line."""
    lines: dict[int, Row] = {}
    extras: list[Row] = []
    for row in rows:
        place = places[_key_of(row)]
        line = lines.setdefault(place.line, {"window_id": window, "line": place.line, **_EMPTY})
        more = _put(row, place, line)
        if any(each is not None for each in more.values()):
            extras.append({"window_id": window, "series_id": place.series, **more})
    return list(lines.values()), extras


def _put(row: Row, place: _Place, line: Row) -> Row:
    """Write an estimate into its line. Returns what does not fit, by column."""
    part, detail = place.part[1], row["detail"] or None
    if line[f"n_{part}"] is None:
        line |= {f"{name}_{part}": row[name] for name in ("n", "positives")}
    more = {name: None if row[name] == line[f"{name}_{part}"] else row[name] for name in ("n", "positives")}
    numbers = {name: in_billionths(row[name]) for name in NUMBERS_OF_PLACE}
    short = {name: _short(each) for name, each in numbers.items()}
    short["plug_in"] = _short_plug_in(numbers["value"], numbers["plug_in"])
    line.update({f"{name}_{place.place}": each for name, each in short.items()})
    if place.detailed:
        line[f"detail_{part}"], detail = detail, None
    exact = {name: each if short[name] == EXACT else None for name, each in numbers.items()}
    return {**more, **exact, "detail": detail}


def in_billionths(value: float | None) -> float | None:
    """A number in billionths: whole ones if that leaves enough digits; at most 1e290.

    >>> in_billionths(0.0123456789), in_billionths(1e-6 / 3)
    (12345679.0, 333.3333333333333)
    """
    if value is None:
        return None
    scaled = min(max(value, -_LARGEST), _LARGEST) * _BILLION
    return float(round(scaled)) if _ROUNDED_FROM <= abs(value) < _ROUNDED_TO else scaled


def _short(billionths: float | None) -> int | None:
    """The number as a line stores it, in four bytes; EXACT if it is among the extras."""
    if billionths is None:
        return None
    fits = billionths.is_integer() and abs(billionths) <= tables.LARGEST_BILLIONTHS
    return int(billionths) if fits else EXACT


def _short_plug_in(value: float | None, plug_in: float | None) -> int | None:
    """The plug-in value as a line stores it: NULL if it equals the value, as for most metrics."""
    if plug_in is None:
        return tables.NEITHER if value is None else tables.ONLY_VALUE
    return None if plug_in == value else _short(plug_in)


def _places_of(connection: Connection, rows: Sequence[Row]) -> Mapping[_Key, _Place]:
    """Series -> its place. A new series gets one."""
    keys, sources = dict.fromkeys(map(_key_of, rows)), sorted({row["source"] for row in rows})
    details = dict.fromkeys(_key_of(row) for row in rows if row["detail"])
    known = _known(connection, sources)
    if keys.keys() <= known.keys() and not _without_detail(known, details):
        return known
    one_at_a_time(connection, "places of estimates")
    known = _known(connection, sources)  # again: others may have added places before this lock was taken
    known |= _add(connection, [key for key in keys if key not in known], known, details)
    return known | _put_details(connection, known, details)


def _without_detail(known: Mapping[_Key, _Place], details: Iterable[_Key]) -> dict[tuple[int, int], _Key]:
    """Parts that have no detail in the line -> the first series of the part that has one."""
    parts = {place.part for place in known.values() if place.detailed}
    return {known[key].part: key for key in reversed(list(details)) if known[key].part not in parts}


def _put_details(connection: Connection, known: Mapping[_Key, _Place], details: Iterable[_Key]) -> dict[_Key, _Place]:
    """Store details of these series in their lines from now on, if their part has no other one there."""
    table, keys = tables.estimate_series, list(_without_detail(known, details).values())
    if keys:
        is_series = table.c.id.in_([known[key].series for key in keys])
        connection.execute(update(table).where(is_series).values(detailed=True))
    return {key: known[key]._replace(detailed=True) for key in keys}


_OF_SERIES = [tables.estimate_series.c[name] for name in (*_NAMES, "id", "line", "place", "detailed")]
_AT_ONCE = {"insertmanyvalues_page_size": 3_000}


def _known(connection: Connection, sources: Sequence[str]) -> dict[_Key, _Place]:
    table = tables.estimate_series
    return _placed(connection.execute(select(*_OF_SERIES).where(table.c.source.in_(sources))))


def _placed(found: Iterable[Any]) -> dict[_Key, _Place]:
    return {tuple(row[: len(_NAMES)]): _Place(*row[len(_NAMES) :]) for row in found}


def _add(
    connection: Connection, new: Sequence[_Key], known: Mapping[_Key, _Place], details: Collection[_Key]
) -> dict[_Key, _Place]:
    """Give each new series a place. ``details`` are the series with a detail."""
    if not new:
        return {}
    table = tables.estimate_series
    newest = connection.execute(select(func.coalesce(func.max(table.c.line), 0))).scalar_one()
    free = _FreePlaces(newest, known)
    rows = [{**dict(zip(_NAMES, key, strict=True)), **free.next_of(key, has_detail=key in details)} for key in new]
    return _placed(connection.execute(table.insert().returning(*_OF_SERIES), rows, execution_options=_AT_ONCE))


class _FreePlaces:
    """Finds free places: the next one of a population's last part, or the first one of a new part."""

    def __init__(self, newest: int, known: Mapping[_Key, _Place]) -> None:
        self._newest = newest
        self._last: dict[_Key, tuple[int, int]] = {}  # the last part of a population, and of a label (or segment)
        for key, place in known.items():
            for group in (_population_of(key), _line_of(key)):
                self._last[group] = max(place.part, self._last.get(group, place.part))
        self._taken = Counter(place.part for place in known.values())
        self._detailed = {place.part for place in known.values() if place.detailed}

    def next_of(self, key: _Key, *, has_detail: bool) -> Row:
        """The line and place of a new series, and whether its detail is in the line: if it is the part's first one."""
        part = self._last.get(_population_of(key))
        if part is None or self._taken[part] == PLACES_OF_PART:
            part = self._new_part(key)
        place = part[1] * PLACES_OF_PART + self._taken[part]
        self._taken[part] += 1
        detailed = has_detail and part not in self._detailed
        if detailed:
            self._detailed.add(part)
        return {"line": part[0], "place": place, "detailed": detailed}

    def _new_part(self, key: _Key) -> tuple[int, int]:
        line, number = self._last.get(_line_of(key), (0, PARTS - 1))
        if number + 1 == PARTS:
            self._newest = line = self._newest + 1
        part = (line, (number + 1) % PARTS)
        self._last[_population_of(key)] = self._last[_line_of(key)] = part
        return part


def _key_of(row: Row) -> _Key:
    return tuple(row[name] for name in _NAMES)


def _line_of(key: _Key) -> _Key:
    return tuple(part for name, part in zip(_NAMES, key, strict=True) if name in _LINE)


def _population_of(key: _Key) -> _Key:
    return (*_line_of(key), key[_NAMES.index("population")])
