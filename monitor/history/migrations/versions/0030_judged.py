"""Verdicts refer to what was judged, with which result, and when by id. A view shows them as before.

Revision ID: 0030
Revises: 0029
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_FLOATS = (
    "value", "low", "high", "plug_in", "baseline", "change", "change_low", "change_high", "p_value", "p_adjusted",
    "detectable",
)  # fmt: skip
_NUMBERS = ", ".join(_FLOATS)
_OWN = f'{_NUMBERS}, n, windows, baseline_version, "current", id, data_digest, detail'
_EVALUATION = "schedule, window_start, window_end, window_name, rules_revision, stored_at"
_NAMES = "source, label, rule, metric, population, severity, threshold, outcome, reason"
_PUBLIC = """
    CREATE VIEW v1_verdicts AS
    SELECT id, schedule, window_name, window_start, window_end, source, NULLIF(label, '') AS label, rule, metric,
           population, outcome, reason, severity, threshold, value, low, high, plug_in, baseline, change, change_low,
           change_high, p_value, p_adjusted, detectable, n, windows, baseline_version, rules_revision, stored_at
    FROM verdicts WHERE "current"
"""
_JOINED = """
    judged j JOIN evaluations e ON e.id = j.evaluation_id JOIN verdict_series s ON s.id = j.series_id
"""
_COLUMNS = (
    "id", "schedule", "window_start", "window_end", "window_name", "source", "label", "rule", "metric", "population",
    "outcome", "reason", "severity", "threshold", *_FLOATS, "n", "windows", "baseline_version", "rules_revision",
    "data_digest", "actions", "detail", "stored_at", '"current"', "condition",
)  # fmt: skip
_TABLES = ("judged", "evaluations", "verdict_series")


def upgrade() -> None:
    """Store each series and evaluation once, and replace the table by a view."""
    op.execute("DROP VIEW v1_verdicts")
    _make_tables()
    op.execute(f"""
        INSERT INTO verdict_series ({_NAMES}, condition, actions)
        SELECT DISTINCT {_NAMES}, COALESCE(condition, ''), CAST(actions AS TEXT) FROM verdicts ORDER BY {_NAMES}
    """)
    _number_evaluations()
    op.execute(
        f"INSERT INTO evaluations (id, {_EVALUATION}) SELECT DISTINCT evaluation_id, {_EVALUATION} "
        "FROM evaluated ORDER BY 1"
    )
    _fill()
    op.drop_table("evaluated")
    op.drop_table("verdicts")
    op.execute(f"CREATE VIEW verdicts AS SELECT {_shown()} FROM {_JOINED}")
    op.execute(_PUBLIC)


def downgrade() -> None:
    """Store verdicts in one table again."""
    for name in ("v1_verdicts", "verdicts"):
        op.execute(f"DROP VIEW {name}")
    _make_old_table()
    op.execute(f"INSERT INTO verdicts ({', '.join(_COLUMNS)}) SELECT {_shown()} FROM {_JOINED} ORDER BY e.id, s.id")
    for name in _TABLES:
        op.drop_table(name)
    op.execute(_PUBLIC)


def _is_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _shown() -> str:
    """The columns of the view, in their order."""
    own = {"condition": "NULLIF(s.condition, '') AS condition", "id": "j.id AS id"}
    if _is_postgresql():
        own["actions"] = "CAST(s.actions AS json) AS actions"
    return ", ".join(own.get(name, name) for name in _COLUMNS)


def _number_evaluations() -> None:
    """Number the evaluations: verdicts that were saved together, one of each series. Repeated ones get the next number."""
    op.execute(f"""
        CREATE TABLE evaluated AS
        SELECT id, {_EVALUATION}, DENSE_RANK() OVER (ORDER BY stored_at, window_start, {_EVALUATION}, turn)
               AS evaluation_id, series_id
        FROM (SELECT v.id, {_EVALUATION}, s.id AS series_id,
                     ROW_NUMBER() OVER (PARTITION BY {_EVALUATION}, s.id ORDER BY v.id) AS turn
              FROM verdicts v JOIN verdict_series s ON {_same(_NAMES, "s", "v")}
              AND s.condition = COALESCE(v.condition, '') AND s.actions = CAST(v.actions AS TEXT)) AS turns
    """)


def _same(names: str, one: str, other: str) -> str:
    return " AND ".join(f"{one}.{name} = {other}.{name}" for name in names.split(", "))


def _fill() -> None:
    op.execute(f"""
        INSERT INTO judged (evaluation_id, series_id, {_OWN})
        SELECT e.evaluation_id, e.series_id, {_OWN.replace(" id,", " v.id,")}
        FROM evaluated e JOIN verdicts v ON v.id = e.id
        ORDER BY e.evaluation_id, e.series_id
    """)
    if _is_postgresql():  # the next generated ids follow the copied ones
        op.execute(
            "SELECT setval(pg_get_serial_sequence('evaluations', 'id'), "
            "(SELECT COALESCE(MAX(id), 0) + 1 FROM evaluations), false)"
        )


def _make_tables() -> None:
    op.create_table(
        "verdict_series",
        sa.Column("threshold", sa.Float(precision=53), nullable=False),
        sa.Column("id", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("source", "label")),
        sa.Column("rule", sa.String(length=80), nullable=False),
        sa.Column("metric", sa.String(length=64), nullable=False),
        *(sa.Column(n, sa.String(length=16), nullable=False) for n in ("population", "severity", "condition", "outcome")),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("actions", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verdict_series")),
        sa.UniqueConstraint(
            "source", "label", "rule", "metric", "population", "severity", "threshold", "condition", "outcome", "reason",
            "actions", name=op.f("uq_verdict_series_source"),
        ),
    )  # fmt: skip
    op.create_table(
        "evaluations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("schedule", sa.String(length=16), nullable=False),
        *(sa.Column(name, sa.DateTime(), nullable=False) for name in ("window_start", "window_end")),
        *(sa.Column(name, sa.String(length=32), nullable=False) for name in ("window_name", "rules_revision")),
        sa.Column("stored_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evaluations")),
    )
    op.create_index("ix_evaluations_schedule", "evaluations", ["schedule", "window_start"])
    op.create_index("ix_evaluations_window_start", "evaluations", ["window_start"])
    _make_judged()


def _make_judged() -> None:
    op.create_table(
        "judged",
        *(sa.Column(name, sa.Float(precision=53)) for name in _FLOATS),
        *(
            sa.Column(name, sa.Integer(), autoincrement=False, nullable=False)
            for name in ("evaluation_id", "series_id", "n", "windows")
        ),
        sa.Column("baseline_version", sa.Integer()),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("data_digest", sa.String(length=64), nullable=False),
        sa.Column("detail", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("evaluation_id", "series_id", name=op.f("pk_judged")),
        sa.UniqueConstraint("id", name=op.f("uq_judged_id")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_judged_series_id", "judged", ["series_id"])


def _make_old_table() -> None:
    op.create_table(
        "verdicts",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("schedule", sa.String(length=16), nullable=False),
        *(sa.Column(name, sa.DateTime(), nullable=False) for name in ("window_start", "window_end")),
        sa.Column("window_name", sa.String(length=32), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("source", "label")),
        sa.Column("rule", sa.String(length=80), nullable=False),
        sa.Column("metric", sa.String(length=64), nullable=False),
        *(sa.Column(name, sa.String(length=16), nullable=False) for name in ("population", "outcome")),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("severity", sa.String(length=16), nullable=False),
        sa.Column("threshold", sa.Float(precision=53), nullable=False),
        *(sa.Column(name, sa.Float(precision=53)) for name in _FLOATS),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("n", "windows")),
        sa.Column("baseline_version", sa.Integer()),
        sa.Column("rules_revision", sa.String(length=32), nullable=False),
        sa.Column("data_digest", sa.String(length=64), nullable=False),
        sa.Column("actions", sa.JSON(), nullable=False),
        sa.Column("detail", sa.LargeBinary(), nullable=False),
        sa.Column("stored_at", sa.DateTime(), nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("condition", sa.String(length=16)),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verdicts")),
    )
    op.create_index(op.f("ix_verdicts_window_start"), "verdicts", ["window_start"])
    subject = (
        "source",
        "label",
        "schedule",
        "window_start",
        "current",
        "rule",
        "outcome",
        "value",
        "threshold",
        "baseline",
    )
    op.create_index("ix_verdicts_subject", "verdicts", list(subject))
