"""Estimates in half the bytes in PostgreSQL: billionths of four bytes, and three populations of a label in a line.

Numbers that do not fit (below 0.0001 or above 2.1) are in the extras; one detail of each part of a line is in the line.
The views show them as before.

Revision ID: 0031
Revises: 0030
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

_PARTS, _OF_PART = 3, 9
_PLACES = _PARTS * _OF_PART
_FLOATS = ("value", "plug_in", "low", "high")
_LARGEST = 2**31 - 2
_ONLY_VALUE, _NEITHER, _EXACT = 2**31 - 1, 1 - 2**31, -(2**31)
_SERIES = "source, label, segment, metric, population"
_PUBLIC = """
    CREATE VIEW v1_estimates AS
    SELECT schedule, window_name, window_start, source, NULLIF(label, '') AS label, NULLIF(segment, '') AS segment,
           metric, population, value, low, high, plug_in, n, positives
    FROM estimates
"""
_FROM = """
    FROM estimated e JOIN estimate_windows w ON w.id = e.window_id JOIN estimate_series s ON s.line = e.line
    LEFT JOIN estimate_extras x ON x.window_id = e.window_id AND x.series_id = s.id
"""


def upgrade() -> None:
    """Shorten the numbers that fit, and join three lines into one."""
    _drop_views()
    _set_aside()
    with op.batch_alter_table("estimate_series") as altered:
        altered.add_column(sa.Column("detailed", sa.Boolean(), nullable=False, server_default=sa.false()))
    with op.batch_alter_table("estimate_series") as altered:
        altered.alter_column("detailed", existing_type=sa.Boolean(), existing_nullable=False, server_default=None)
    _mark_detailed()
    _join_lines()
    _make_lines()
    _make_extras(exact=True)
    _fill()
    _fill_extras()
    _drop_copies()
    op.execute(_view())
    op.execute(_PUBLIC)


def downgrade() -> None:
    """Store floats, and one line for each part, again."""
    _drop_views()
    _set_aside()
    _make_old_lines()
    _make_extras(exact=False)
    for part in range(_PARTS):
        _fill_old(part)
    op.execute("""
        INSERT INTO estimate_extras (window_id, series_id, n, positives, detail)
        SELECT window_id, series_id, n, positives, detail FROM extras_before
        WHERE n IS NOT NULL OR positives IS NOT NULL OR detail IS NOT NULL ORDER BY window_id, series_id
    """)
    for part in range(_PARTS):
        op.execute(f"""
            INSERT INTO estimate_extras (window_id, series_id, detail)
            SELECT b.window_id, s.id, b.detail_{part} FROM estimated_before b JOIN estimate_series s ON s.line = b.line
            WHERE s.detailed AND s.place / {_OF_PART} = {part} AND b.detail_{part} IS NOT NULL
            ON CONFLICT (window_id, series_id) DO UPDATE SET detail = excluded.detail
        """)
    _part_lines()
    _drop_copies()
    with op.batch_alter_table("estimate_series") as altered:
        altered.drop_column("detailed")
    op.execute(_old_view())
    op.execute(_PUBLIC)


def _is_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _drop_views() -> None:
    for name in ("v1_estimates", "estimates"):
        op.execute(f"DROP VIEW {name}")


def _set_aside() -> None:
    """Copy the tables and drop them. A renamed table would keep the names of its keys."""
    for name, copy in (("estimated", "estimated_before"), ("estimate_extras", "extras_before")):
        op.execute(f"CREATE TABLE {copy} AS SELECT * FROM {name}")
        op.drop_table(name)
    op.create_index("ix_extras_before", "extras_before", ["series_id", "window_id"])
    op.create_index("ix_estimated_before", "estimated_before", ["line", "window_id"])


def _drop_copies() -> None:
    for name in ("estimated_before", "extras_before"):
        op.drop_table(name)


def _infinity() -> str:
    return "CAST('Infinity' AS double precision)" if _is_postgresql() else "9e999"


_OF_SERIES = sa.table(
    "estimate_series",
    *map(sa.column, ("id", "source", "label", "segment", "population", "line", "place")),
    sa.column("detailed", sa.Boolean()),
)


def _mark_detailed() -> None:
    """Mark the series of each line that has most details: its details move into the line."""
    table, extras, connection = _OF_SERIES.c, sa.table("extras_before", *map(sa.column, ("series_id", "detail"))), op.get_bind()
    details = sa.func.count(extras.c.detail)
    found = sa.select(table.line, table.id, details).where(table.id == extras.c.series_id)
    most: dict[int, int] = {}
    for line, number, count in connection.execute(found.group_by(table.line, table.id).order_by(details.desc())):
        if count:
            most.setdefault(line, number)
    _change_series([{"number": number, "new": True} for number in most.values()], detailed=sa.bindparam("new"))


def _change_series(changes: list[dict[str, Any]], **values: Any) -> None:
    if changes:
        changed = _OF_SERIES.update().where(_OF_SERIES.c.id == sa.bindparam("number")).values(values)
        op.get_bind().execute(changed, changes)


def _join_lines() -> None:
    """Join up to three lines of a label (or segment) into one, in their order: each becomes a part."""
    table, connection = _OF_SERIES.c, op.get_bind()
    op.create_table("parts", *_keys("line_before", "line", "part"), sa.PrimaryKeyConstraint("line_before"))
    lines = connection.execute(sa.select(table.line, table.source, table.label, table.segment).distinct().order_by("line"))
    newest: dict[tuple[str, ...], int] = {}
    held: Counter[int] = Counter()
    rows = []
    for before, *of in lines.all():
        if held[newest.get(tuple(of), 0)] in (0, _PARTS):
            newest[tuple(of)] = len(held) + 1
        line = newest[tuple(of)]
        rows.append({"line_before": before, "line": line, "part": held[line]})
        held[line] += 1
    if rows:
        connection.execute(sa.table("parts", *map(sa.column, rows[0])).insert(), rows)
    _renumber(f"""SELECT s.id AS number, p.line AS line, p.part * {_OF_PART} + s.place AS place
                  FROM estimate_series s JOIN parts p ON p.line_before = s.line""")  # fmt: skip


def _part_lines() -> None:
    """Make each part a line again."""
    _renumber(f"""SELECT id AS number, (line - 1) * {_PARTS} + place / {_OF_PART} + 1 AS line,
                         place % {_OF_PART} AS place FROM estimate_series""")  # fmt: skip


def _renumber(query: str) -> None:
    """Change lines and places by way of negative numbers, since two series must never share a place of a line."""
    found = op.get_bind().execute(sa.text(query)).all()
    changes = [{"number": number, "new_line": -line, "new_place": place} for number, line, place in found]
    _change_series(changes, line=sa.bindparam("new_line"), place=sa.bindparam("new_place"))
    op.execute("UPDATE estimate_series SET line = -line")


def _short(name: str) -> str:
    """SQL of the integer that a line stores for a float."""
    infinity = _infinity()
    return f"""
        CASE WHEN {name} = {infinity} THEN {_ONLY_VALUE} WHEN {name} = -{infinity} THEN {_NEITHER}
             WHEN ABS({name}) <= {_LARGEST} AND {name} = ROUND({name}) THEN CAST({name} AS INTEGER)
             WHEN {name} IS NOT NULL THEN {_EXACT} END
    """


def _fill() -> None:
    parts = [(f"{name}_{part}", f"b{part}.{name}") for part in range(_PARTS) for name in ("positives", "n")]
    numbers = [(f"{name}_{part * _OF_PART + place}", _short(f"b{part}.{name}_{place}"))
               for part in range(_PARTS) for place in range(_OF_PART) for name in _FLOATS]  # fmt: skip
    details = [(f"detail_{part}", f"d{part}.detail") for part in range(_PARTS)]
    columns = parts + numbers + details
    joined = " ".join(
        f"""LEFT JOIN parts p{part} ON p{part}.line = l.line AND p{part}.part = {part}
            LEFT JOIN estimated_before b{part} ON b{part}.line = p{part}.line_before AND b{part}.window_id = l.window_id
            LEFT JOIN estimate_series s{part} ON s{part}.line = l.line AND s{part}.place / {_OF_PART} = {part}
            AND s{part}.detailed
            LEFT JOIN extras_before d{part} ON d{part}.series_id = s{part}.id AND d{part}.window_id = l.window_id"""
        for part in range(_PARTS)
    )
    op.execute(f"""
        INSERT INTO estimated (window_id, line, {", ".join(name for name, _ in columns)})
        SELECT l.window_id, l.line, {", ".join(given for _, given in columns)}
        FROM (SELECT DISTINCT b.window_id, p.line FROM estimated_before b JOIN parts p ON p.line_before = b.line) l
        {joined} ORDER BY l.window_id, l.line
    """)


def _fill_extras() -> None:
    """Fill the extras: other details, different n or positives, and numbers that are not whole billionths."""
    op.execute("""
        INSERT INTO estimate_extras (window_id, series_id, n, positives, detail)
        SELECT window_id, series_id, x.n, x.positives, CASE WHEN s.detailed THEN NULL ELSE x.detail END
        FROM extras_before x JOIN estimate_series s ON s.id = x.series_id
        WHERE NOT s.detailed OR x.n IS NOT NULL OR x.positives IS NOT NULL ORDER BY window_id, series_id
    """)
    for place in range(_PLACES):
        exact = {name: f"e.{name}_{place} = {_EXACT}" for name in _FLOATS}
        numbers = ", ".join(f"CASE WHEN {exact[name]} THEN b.{name}_{place % _OF_PART} END" for name in _FLOATS)
        op.execute(f"""
            INSERT INTO estimate_extras (window_id, series_id, {", ".join(_FLOATS)})
            SELECT e.window_id, s.id, {numbers}
            FROM estimated e JOIN parts p ON p.line = e.line AND p.part = {place // _OF_PART}
            JOIN estimated_before b ON b.window_id = e.window_id AND b.line = p.line_before
            JOIN estimate_series s ON s.line = e.line AND s.place = {place}
            WHERE {" OR ".join(exact.values())}
            ON CONFLICT (window_id, series_id) DO UPDATE
            SET {", ".join(f"{name} = excluded.{name}" for name in _FLOATS)}
        """)
    op.drop_table("parts")


def _fill_old(part: int) -> None:
    columns = [(f"{name}_{place}", _long(name, part * _OF_PART + place)) for place in range(_OF_PART) for name in _FLOATS]
    op.execute(f"""
        INSERT INTO estimated (window_id, line, n, positives, {", ".join(name for name, _ in columns)})
        SELECT b.window_id, (b.line - 1) * {_PARTS} + {part + 1}, b.n_{part}, b.positives_{part},
               {", ".join(given for _, given in columns)}
        FROM estimated_before b WHERE b.n_{part} IS NOT NULL ORDER BY b.window_id, b.line
    """)


def _long(name: str, place: int) -> str:
    """SQL of the float for a number of a line."""
    number, infinity = f"b.{name}_{place}", _infinity()
    exact = f"""(SELECT x.{name} FROM estimate_series s JOIN extras_before x ON x.series_id = s.id
                 WHERE s.line = b.line AND s.place = {place} AND x.window_id = b.window_id)"""
    return f"""
        CASE {number} WHEN {_ONLY_VALUE} THEN {infinity} WHEN {_NEITHER} THEN -{infinity} WHEN {_EXACT} THEN {exact}
             ELSE {number} END
    """


def _at(name: str) -> str:
    """SQL of a line's column at the place of a series. It selects the part first, so that it compares fewer places."""
    parts = []
    for part in range(_PARTS):
        places = range(part * _OF_PART, (part + 1) * _OF_PART)
        parts.append(f"WHEN {part} THEN CASE s.place {' '.join(f'WHEN {p} THEN e.{name}_{p}' for p in places)} END")
    return f"CASE s.place / {_OF_PART} {' '.join(parts)} END"


def _of_part(name: str) -> str:
    cases = " ".join(f"WHEN {part} THEN e.{name}_{part}" for part in range(_PARTS))
    return f"CASE s.place / {_OF_PART} {cases} END"


def _view() -> str:
    """SQL of the view. Billionths are divided as floats: PostgreSQL would make a numeric of an integer."""
    kind = "double precision" if _is_postgresql() else "REAL"

    def number(name: str) -> str:
        return f"CASE {_at(name)} WHEN {_EXACT} THEN x.{name} ELSE CAST({_at(name)} AS {kind}) END"

    value, plug_in = _at("value"), _at("plug_in")
    return f"""
        CREATE VIEW estimates AS
        SELECT schedule, window_start, {_SERIES}, window_name, ({number("value")}) / 1e9 AS value,
               CASE WHEN {plug_in} IS NULL THEN ({number("value")}) / 1e9
                    WHEN {plug_in} IN ({_ONLY_VALUE}, {_NEITHER}) THEN NULL
                    ELSE ({number("plug_in")}) / 1e9 END AS plug_in,
               ({number("low")}) / 1e9 AS low, ({number("high")}) / 1e9 AS high,
               COALESCE(x.n, {_of_part("n")}) AS n, COALESCE(x.positives, {_of_part("positives")}) AS positives,
               COALESCE(x.detail, CASE WHEN s.detailed THEN {_of_part("detail")} END) AS detail {_FROM}
        WHERE COALESCE({value}, {plug_in}) IS NOT NULL
    """


def _old_view() -> str:
    def at(name: str) -> str:
        return "CASE s.place " + " ".join(f"WHEN {p} THEN e.{name}_{p}" for p in range(_OF_PART)) + " END"

    value, plug_in, infinity = at("value"), at("plug_in"), _infinity()
    return f"""
        CREATE VIEW estimates AS
        SELECT schedule, window_start, {_SERIES}, window_name, ({value}) / 1e9 AS value,
               NULLIF(NULLIF(COALESCE({plug_in}, {value}), {infinity}), -{infinity}) / 1e9 AS plug_in,
               ({at("low")}) / 1e9 AS low, ({at("high")}) / 1e9 AS high, COALESCE(x.n, e.n) AS n,
               COALESCE(x.positives, e.positives) AS positives, x.detail AS detail {_FROM}
        WHERE COALESCE({value}, {plug_in}) IS NOT NULL
    """


def _keys(*names: str) -> list[Any]:
    return [sa.Column(name, sa.Integer(), autoincrement=False, nullable=False) for name in names]


def _make_lines() -> None:
    op.create_table(
        "estimated",
        *(sa.Column(f"positives_{part}", sa.Float(precision=53)) for part in range(_PARTS)),
        *_keys("window_id", "line"),
        *(sa.Column(f"n_{part}", sa.Integer()) for part in range(_PARTS)),
        *(sa.Column(f"{name}_{place}", sa.Integer()) for place in range(_PLACES) for name in _FLOATS),
        *(sa.Column(f"detail_{part}", sa.LargeBinary()) for part in range(_PARTS)),
        sa.PrimaryKeyConstraint("window_id", "line", name=op.f("pk_estimated")),
        sqlite_with_rowid=False,
    )


def _make_old_lines() -> None:
    op.create_table(
        "estimated",
        *_keys("window_id", "line"),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("positives", sa.Float(precision=53), nullable=False),
        *(sa.Column(f"{name}_{place}", sa.Float(precision=53)) for place in range(_OF_PART) for name in _FLOATS),
        sa.PrimaryKeyConstraint("window_id", "line", name=op.f("pk_estimated")),
        sqlite_with_rowid=False,
    )


def _make_extras(*, exact: bool) -> None:
    op.create_table(
        "estimate_extras",
        *(sa.Column(name, sa.Float(precision=53)) for name in ("positives", *(_FLOATS if exact else ()))),
        *_keys("window_id", "series_id"),
        sa.Column("n", sa.Integer()),
        sa.Column("detail", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("window_id", "series_id", name=op.f("pk_estimate_extras")),
        sqlite_with_rowid=False,
    )
