"""Write verdicts. The view ``verdicts`` reads them.

A series is what was judged and with which result: source, label, rule, outcome and so on. Series and evaluations are
named once; a row has their ids and the numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, select, update

from monitor.history import tables
from monitor.history.connect import Row, add_missing, among, insert_missing

_SERIES = (
    "source", "label", "rule", "metric", "population", "severity", "threshold", "condition", "outcome", "reason",
    "actions",
)  # fmt: skip
_EVALUATION = ("schedule", "window_start", "window_end", "window_name", "rules_revision", "stored_at")
_FIELDS = (*tables.NUMBERS_OF_VERDICT, "n", "windows", "baseline_version", "current", "id", "data_digest", "detail")
_CHUNK = 500
_Key = tuple[Any, ...]


def add(connection: Connection, rows: Sequence[Row]) -> None:
    """Add the rows (of the view) whose ids do not exist yet. Leaves existing rows as they are."""
    new = [_with_keys(row) for row in {row["id"]: row for row in rows}.values()]
    if not new:
        return
    series = _series(connection, new)
    numbered = [(series[_key(row, _SERIES)], row) for row in new]
    for evaluation, part in _evaluations(connection, numbered):
        numbers = ({"evaluation_id": evaluation, "series_id": number} for number, _ in part)
        fields = ({name: row[name] for name in _FIELDS} for _, row in part)
        add_missing(connection, tables.judged, [a | b for a, b in zip(numbers, fields, strict=True)])


def toggle_current(connection: Connection, ids: Sequence[str]) -> None:
    """Toggle ``current`` of these verdicts."""
    table = tables.judged
    for start in range(0, len(ids), _CHUNK):
        chunk = ids[start : start + _CHUNK]
        connection.execute(update(table).where(table.c.id.in_(chunk)).values(current=~table.c.current))


def _with_keys(row: Row) -> Row:
    """The row with its actions and condition as the table of series stores them."""
    actions = json.dumps(row["actions"], separators=(",", ":"))
    return {**row, "actions": actions, "condition": row["condition"] or ""}


_SERIES_COLUMNS = [tables.verdict_series.c[name] for name in (*_SERIES, "id")]
_KNOWN = select(*_SERIES_COLUMNS).where(among(tables.verdict_series.c.source, "sources"))


def _series(connection: Connection, rows: Sequence[Row]) -> dict[_Key, int]:
    """Series -> its id. A new series gets one."""
    keys, parameters = (
        dict.fromkeys(_key(row, _SERIES) for row in rows),
        {"sources": sorted({row["source"] for row in rows})},
    )
    known = _found(connection.execute(_KNOWN, parameters))
    new = [dict(zip(_SERIES, key, strict=True)) for key in keys if key not in known]
    if new:
        missing = insert_missing(connection, tables.verdict_series).returning(*_SERIES_COLUMNS)
        known |= _found(connection.execute(missing, new))
    if not keys.keys() <= known.keys():  # another process has added them meanwhile
        known = _found(connection.execute(_KNOWN, parameters))
    return known


def _found(result: Iterable[Any]) -> dict[_Key, int]:
    return {tuple(row[:-1]): row[-1] for row in result}


_Numbered = tuple[int, Row]


def _evaluations(connection: Connection, numbered: Sequence[_Numbered]) -> Iterator[tuple[int, list[_Numbered]]]:
    """The id of each new evaluation, with its verdicts: at most one of each series."""
    parts: dict[_Key, list[_Numbered]] = {}
    times: dict[_Key, int] = {}
    for each in numbered:
        key = _key(each[1], _EVALUATION)
        repeat = times[(*key, each[0])] = times.get((*key, each[0]), 0) + 1
        parts.setdefault((*key, repeat), []).append(each)
    table = tables.evaluations
    for key, part in parts.items():
        insert = table.insert().values(dict(zip(_EVALUATION, key[:-1], strict=True))).returning(table.c.id)
        yield int(connection.execute(insert).scalar_one()), sorted(part, key=lambda each: each[0])


def _key(row: Row, names: Sequence[str]) -> _Key:
    return tuple(row[name] for name in names)
