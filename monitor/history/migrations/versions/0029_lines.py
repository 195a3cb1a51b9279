"""Nine estimates of one population of a label share a line: one row, in billionths. The views show them as before.

Numbers are rounded to nine decimals, except those below 0.0001 and those from nine million on.

Revision ID: 0029
Revises: 0028
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_PLACES = 9
_FLOATS = ("value", "plug_in", "low", "high")
_SERIES = "source, label, segment, metric, population"
_PUBLIC = """
    CREATE VIEW v1_estimates AS
    SELECT schedule, window_name, window_start, source, NULLIF(label, '') AS label, NULLIF(segment, '') AS segment,
           metric, population, value, low, high, plug_in, n, positives
    FROM estimates
"""
_OLD_VIEW = f"""
    CREATE VIEW estimates AS
    SELECT schedule, window_start, {_SERIES}, window_name, value,
           NULLIF(COALESCE(plug_in, value), {{infinity}}) AS plug_in, low, high, n, positives, detail
    FROM estimated JOIN estimate_windows ON estimate_windows.id = window_id
    JOIN estimate_series ON estimate_series.id = series_id
"""
_VIEWS = ("v1_estimates", "estimates")


def upgrade() -> None:
    """Give each series its place in a line, and move the numbers there."""
    _drop_views()
    _give_places()
    _set_aside()
    _make_tables()
    _fill()
    op.drop_table("estimated_before")
    op.execute(_view())
    op.execute(_PUBLIC)


def downgrade() -> None:
    """Store one row for each estimate again."""
    _drop_views()
    _set_aside()
    _make_old_table()
    for place in range(_PLACES):
        numbers = ", ".join(f"b.{name}_{place} / 1e9" for name in ("value", "low", "high"))
        op.execute(f"""
            INSERT INTO estimated (window_id, series_id, value, low, high, plug_in, n, positives, detail)
            SELECT b.window_id, s.id, {numbers}, NULLIF(b.plug_in_{place}, -{_infinity()}) / 1e9,
                   COALESCE(x.n, b.n), COALESCE(x.positives, b.positives), x.detail
            FROM estimated_before b JOIN estimate_series s ON s.line = b.line AND s.place = {place}
            LEFT JOIN estimate_extras x ON x.window_id = b.window_id AND x.series_id = s.id
            WHERE COALESCE(b.value_{place}, b.plug_in_{place}) IS NOT NULL
        """)
    for table in ("estimated_before", "estimate_extras"):
        op.drop_table(table)
    with op.batch_alter_table("estimate_series") as altered:
        altered.drop_constraint("uq_estimate_series_line", type_="unique")
        for name in ("line", "place"):
            altered.drop_column(name)
    op.execute(_OLD_VIEW.format(infinity=_infinity()))
    op.execute(_PUBLIC)


def _give_places() -> None:
    """Give places in the order of the ids: metrics that are never pruned come before the others."""
    for name in ("line", "place"):
        op.add_column("estimate_series", sa.Column(name, sa.Integer()))
    names = ("id", "source", "label", "segment", "population", "line", "place")
    table, connection = sa.table("estimate_series", *map(sa.column, names)), op.get_bind()
    lines: dict[tuple[str, ...], int] = {}
    taken: Counter[int] = Counter()
    placed = []
    for number, *of in connection.execute(sa.select(*(table.c[n] for n in names[:5])).order_by(table.c.id)):
        line = lines.get(tuple(of))
        if line is None or taken[line] == _PLACES:
            line = lines[tuple(of)] = len(taken) + 1
        placed.append({"number": number, "new_line": line, "new_place": taken[line]})
        taken[line] += 1
    if placed:
        given: dict[str, Any] = {"line": sa.bindparam("new_line"), "place": sa.bindparam("new_place")}
        connection.execute(table.update().where(table.c.id == sa.bindparam("number")).values(given), placed)
    with op.batch_alter_table("estimate_series") as altered:
        for name in ("line", "place"):
            altered.alter_column(name, existing_type=sa.Integer(), nullable=False)
        altered.create_unique_constraint("uq_estimate_series_line", ["line", "place"])


def _set_aside() -> None:
    """Copy the table and drop it. A renamed table would keep the names of its keys."""
    op.execute("CREATE TABLE estimated_before AS SELECT * FROM estimated")
    op.drop_table("estimated")


def _is_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _infinity() -> str:
    return "CAST('Infinity' AS double precision)" if _is_postgresql() else "9e999"


def _billionths(name: str) -> str:
    """SQL of a number in billionths; numbers are limited to 1e290, since PostgreSQL refuses products that overflow."""
    infinity = _infinity()
    return f"""
        CASE WHEN {name} IN ({infinity}, -{infinity}) THEN {name} WHEN {name} > 1e290 THEN 1e299
             WHEN {name} < -1e290 THEN -1e299
             WHEN ABS({name}) >= 1e-4 AND ABS({name}) < 9e6 THEN ROUND({name} * 1e9) ELSE {name} * 1e9 END
    """


def _drop_views() -> None:
    for name in _VIEWS:
        op.execute(f"DROP VIEW {name}")


def _fill() -> None:
    """Fill lines and extras. A line has the largest n and positives of its estimates; others are in the extras."""
    known = f"CASE WHEN b.value IS NULL AND b.plug_in IS NULL THEN -{_infinity()} ELSE {_billionths('b.plug_in')} END"
    numbers = {name: _billionths(f"b.{name}") for name in _FLOATS} | {"plug_in": known}
    columns = [
        (f"{name}_{p}", f"MAX(CASE WHEN s.place = {p} THEN {numbers[name]} END)")
        for p in range(_PLACES)
        for name in _FLOATS
    ]
    op.execute(f"""
        INSERT INTO estimated (window_id, line, n, positives, {", ".join(name for name, _ in columns)})
        SELECT b.window_id, s.line, MAX(b.n), MAX(b.positives), {", ".join(given for _, given in columns)}
        FROM estimated_before b JOIN estimate_series s ON s.id = b.series_id
        GROUP BY b.window_id, s.line ORDER BY b.window_id, s.line
    """)
    op.execute("""
        INSERT INTO estimate_extras (window_id, series_id, n, positives, detail)
        SELECT b.window_id, b.series_id, NULLIF(b.n, e.n), NULLIF(b.positives, e.positives), b.detail
        FROM estimated_before b JOIN estimate_series s ON s.id = b.series_id
        JOIN estimated e ON e.window_id = b.window_id AND e.line = s.line
        WHERE b.detail IS NOT NULL OR b.n <> e.n OR b.positives <> e.positives
        ORDER BY b.window_id, b.series_id
    """)


def _view() -> str:
    def at(name: str) -> str:
        return "CASE s.place " + " ".join(f"WHEN {p} THEN e.{name}_{p}" for p in range(_PLACES)) + " END"

    value, plug_in, infinity = at("value"), at("plug_in"), _infinity()
    return f"""
        CREATE VIEW estimates AS
        SELECT schedule, window_start, {_SERIES}, window_name, ({value}) / 1e9 AS value,
               NULLIF(NULLIF(COALESCE({plug_in}, {value}), {infinity}), -{infinity}) / 1e9 AS plug_in,
               ({at("low")}) / 1e9 AS low, ({at("high")}) / 1e9 AS high, COALESCE(x.n, e.n) AS n,
               COALESCE(x.positives, e.positives) AS positives, x.detail AS detail
        FROM estimated e JOIN estimate_windows w ON w.id = e.window_id JOIN estimate_series s ON s.line = e.line
        LEFT JOIN estimate_extras x ON x.window_id = e.window_id AND x.series_id = s.id
        WHERE COALESCE({value}, {plug_in}) IS NOT NULL
    """


def _make_tables() -> None:
    op.create_table(
        "estimated",
        *(sa.Column(name, sa.Integer(), autoincrement=False, nullable=False) for name in ("window_id", "line")),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("positives", sa.Float(precision=53), nullable=False),
        *(sa.Column(f"{name}_{place}", sa.Float(precision=53)) for place in range(_PLACES) for name in _FLOATS),
        sa.PrimaryKeyConstraint("window_id", "line", name=op.f("pk_estimated")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "estimate_extras",
        *(sa.Column(name, sa.Integer(), autoincrement=False, nullable=False) for name in ("window_id", "series_id")),
        sa.Column("n", sa.Integer()),
        sa.Column("positives", sa.Float(precision=53)),
        sa.Column("detail", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("window_id", "series_id", name=op.f("pk_estimate_extras")),
        sqlite_with_rowid=False,
    )


def _make_old_table() -> None:
    op.create_table(
        "estimated",
        *(sa.Column(name, sa.Integer(), autoincrement=False, nullable=False) for name in ("window_id", "series_id")),
        *(sa.Column(name, sa.Float(precision=53)) for name in _FLOATS),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("positives", sa.Float(precision=53), nullable=False),
        sa.Column("detail", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("window_id", "series_id", name=op.f("pk_estimated")),
        sqlite_with_rowid=False,
    )
