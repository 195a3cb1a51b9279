"""The tables of the history database. Only ``monitor.history`` reads or writes them.

With these keys, evaluating a window twice replaces rows and never adds any. The types of the columns convert
values, so that a row has what its record has: a label of None (the source as a whole) and a segment of None (all rows)
are stored as ``""``, since keys cannot be NULL, and of JSON tuples and records are made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import JSON, TypeDecorator

from monitor.core.records import KeptScores, SegmentSwitch, WeekSpread, WindowOutcome
from monitor.core.redaction import without_secrets
from monitor.history.values import label_key, number, segment_key, segment_of

_TIMES_REMEMBERED = 4096


class UtcDateTime(TypeDecorator[datetime]):
    """An instant: aware in Python, naive UTC in the database (SQLite knows no time zones)."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To naive UTC. Raises ValueError for a naive value, whose time zone is unknown."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Back to an aware instant."""
        return None if value is None else value.replace(tzinfo=UTC)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], datetime | None] | None:
        """Remember the times that were read last: many rows have the same ones, such as those of a window."""
        convert = super().result_processor(dialect, coltype)
        return None if convert is None else lru_cache(_TIMES_REMEMBERED)(convert)


class Converted(TypeDecorator[Any]):
    """A column whose values are ``stored`` in another form than records have, and ``read`` from it."""

    impl = Text
    cache_ok = True
    coerce_to_is_types = ()  # so a label of None is compared as any other label

    def __init__(self, kind: Any, stored: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
        super().__init__()
        self.impl, self.stored, self.read = kind, stored, read

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """The value to store."""
        return self.stored(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Back to the value of a record."""
        return self.read(value)


class Number(TypeDecorator[float]):
    """A number in double precision; NaN and infinity are stored as NULL."""

    impl = Float
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        """The number to store."""
        return number(value)


metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(column_0_label)s",
    }
)

_JSON = JSON(none_as_null=True)
_WORD, _ID, _LONG_ID = String(16), String(32), String(64)  # words and names of ours, hashes


def _same(value: Any) -> Any:
    return value


def _or_none(value: Any) -> Any:
    return value or None


def _tuples(kept: Any) -> tuple[tuple[Any, ...], ...]:
    return tuple(map(tuple, kept))


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _made(kind: Callable[..., Any], kept: Any, **of: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Records of a kind, some of whose fields are made ``of`` what JSON has."""
    return tuple(kind(**each | {name: made(each[name]) for name, made in of.items()}) for each in kept or ())


_LABEL = Converted(Text(), label_key, _or_none)
_SEGMENT = Converted(Text(), segment_key, segment_of)
_ERROR = Converted(Text(), lambda text: None if text is None else without_secrets(text), _same)
_TUPLE = Converted(_JSON, _same, tuple)
_RANGES = Converted(_JSON, _same, _tuples)
_DETAIL = Converted(_JSON, _or_none, lambda kept: kept or {})
_SWITCHED_SEGMENTS = Converted(
    _JSON, _or_none, lambda kept: _made(SegmentSwitch, kept, off_from=_moment, hold_until=_moment)
)
_KEPT_SCORES = Converted(_JSON, _same, lambda kept: None if kept is None else KeptScores(**kept))
_OUTCOMES = Converted(
    _JSON, _same, lambda kept: _made(WindowOutcome, kept, window_end=_moment, blocked=_tuples, segments=_tuples)
)
_EDGES = Converted(_JSON, _same, lambda kept: {where: tuple(edges) for where, edges in kept.items()})
_SPREADS = Converted(
    _JSON,
    lambda weeks: {name: astuple(spread) for name, spread in weeks.items()},
    lambda kept: {name: WeekSpread(*numbers) for name, numbers in kept.items()},
)

WHOLE: Final = None
"""The label of a source as a whole, and the segment of all rows."""
NUMBERS_OF_VERDICT = (
    "value", "low", "high", "plug_in", "baseline", "change", "change_low", "change_high", "p_value", "p_adjusted",
    "detectable",
)  # fmt: skip
DIAGNOSED = ("problem", "since", "since_low", "since_high", "found", "cause", "advice", "reason")
COST_OF_TROUBLE = ("items", "correct", "claimed", "extra_errors", "extra_errors_low", "extra_errors_high")

# Names from data, people or alerts.yaml have no maximum length. PostgreSQL's indexes take keys of at most
# about 2,700 bytes: labels (LABEL_BYTES) and segments (values.segment_key) are kept shorter than that.
_NAMES_BY_TYPE: Sequence[tuple[Any, Sequence[str]]] = (
    (Text(), (
        *DIAGNOSED, "schedule", "source", "item", "column", "actor", "host", "channel", "counts", "text", "why",
        "pinned_by", "resolved_by", "acknowledged_by", "silenced_by", "claimed_by", "changed_by", "added_by",
        "removed_by", "removed_reason",
    )),
    (_LABEL, ["label"]), (_SEGMENT, ["segment"]), (_ERROR, ["error"]), (String(80), ["rule", "waits_for"]),
    (_WORD, ("state", "severity", "outcome", "population", "condition", "from_state", "to_state")),
    (_ID, (
        "id", "kind", "window", "window_name", "first_window", "last_window", "opened_window", "resolved_window",
        "revision", "rules_revision", "verdict", "last", "test",
    )),
    (_LONG_ID, (
        "run", "digest", "data_digest", "fingerprint", "metric", "root", "external_channel", "external_id",
        "error_code", "not_evaluated",
    )),
    (UtcDateTime, (
        "window_start", "window_end", "started_at", "finished_at", "read_at", "start", "end", "pinned_at", "stored_at",
        "diagnosed_at", "opened_at", "seen_until", "resolved_at", "acknowledged_at", "silenced_until", "quiet_since",
        "at", "created_at", "next_attempt_at", "claimed_at", "sent_at", "lease_until", "hold_until", "last_window_end",
        "changed_at", "until", "judged_until", "published_at", "newest_at", "added_at", "removed_at", "decided_at",
        "known_at",
    )),
    (Integer, (
        "rows", "attempts", "n", "n_baseline", "version", "windows", "baseline_version", "reopened", "ok_streak", "of",
        "known",
    )),
    (Number(53), (
        *NUMBERS_OF_VERDICT, *COST_OF_TROUBLE, "positives", "threshold", "automate_at", "statistic", "score", "stated",
        "expected",
    )),
    (Boolean, ("acts", "current", "acted", "by_operator", "confirmed", "over")),
    (LargeBinary, ("data", "segment_data")),
    (_JSON, ("versions", "rejected", "settings", "promises", "payload", "because", "detail", "changes")),
    (_TUPLE, ("examples", "actions", "rules", "labels", "further_reasons")),
    (_RANGES, ["blocked"]), (_SWITCHED_SEGMENTS, ["segments"]), (_KEPT_SCORES, ["kept"]), (_EDGES, ["edges"]),
    (_SPREADS, ["weeks"]),
)  # fmt: skip
_TYPES = {name: kind for kind, names in _NAMES_BY_TYPE for name in names}
_OF_LABEL = ("source", "label")
_OF_WINDOW = ("schedule", "window_start", "source")
_OF_BOTH = ("schedule", "window_start", *_OF_LABEL)
_OF_OUTPUT = ("window_end", "window_name")


def _table(
    name: str, keys: Sequence[str], required: Sequence[str] = (), optional: Sequence[str] = (), *more: SchemaItem,
    other: Mapping[str, Any] | None = None, **options: Any,
) -> Table:  # fmt: skip
    """A table of columns whose types go by their names, but for ``other`` ones."""
    types = _TYPES | dict(other or {})
    columns = [Column(each, types[each], primary_key=True) for each in keys]
    columns += [Column(each, types[each], nullable=each in optional) for each in (*required, *optional)]
    return Table(name, metadata, *columns, *more, **options)


# One row for each source of an evaluated window; a repeated run of the source replaces it.
runs = _table(
    "runs", _OF_WINDOW, (*_OF_OUTPUT, "run", "state", "started_at", "attempts", "acts", "rules_revision"),
    ("finished_at", "error"), other={"state": _ID},
)  # fmt: skip

Index("ix_runs_window_start", runs.c.window_start, runs.c.schedule)

# The result of reading one source in one window: state is ok, relation_error or warehouse_failed.
readings = _table(
    "readings", _OF_WINDOW, ("state", "rows", "versions", "digest", "read_at"),
    ("error", "rejected", "fingerprint", "settings"), other={"state": _ID},
)  # fmt: skip

# What a reading counted of each label, and what its scores promised; the promises of segments are removed with cells.
counts = _table("counts", _OF_BOTH, ("rows", "digest", "promises"), ["segments"], other={"segments": _JSON})

# The counts of all labels of a reading, and of their segments, as arrays of numpy (monitor.history.counts_file).
# `calmon db prune` removes old ones.
cells = _table("cells", _OF_WINDOW, ["labels"], ["segments"], other=dict.fromkeys(("labels", "segments"), LargeBinary))

quality = _table("quality", (*_OF_WINDOW, "reason"), ("rows", "examples"))

# Windows come first in the key: a run replaces those of a window.
estimates = _table(
    "estimates", (*_OF_BOTH, "segment", "metric", "population"), ("window_name", "n", "positives"),
    ("value", "plug_in", "low", "high", "detail"), other={"detail": _DETAIL}, sqlite_with_rowid=False,
)  # fmt: skip

baselines = _table(
    "baselines", (*_OF_LABEL, "version"),
    (
        "start", "end", "first_window", "last_window", "rows", "edges", "digest", "data", "pinned_at", "pinned_by",
        "reason", "weeks",
    ),
    ("segment_data", "settings"),
)  # fmt: skip

# `current` is False for a verdict whose (window, rule, subject) was judged again on other data. `condition` is also in
# `detail`, which is long and seldom read.
verdicts = _table(
    "verdicts", ["id"],
    (
        *_OF_BOTH, *_OF_OUTPUT, "rule", "metric", "population", "outcome", "reason", "severity", "threshold", "n",
        "windows", "rules_revision", "data_digest", "stored_at", "current", "actions", "detail",
    ),
    (*NUMBERS_OF_VERDICT, "baseline_version", "condition"), other={"schedule": _WORD, "reason": _LONG_ID},
)  # fmt: skip

Index("ix_verdicts_window", verdicts.c.schedule, verdicts.c.window_start)
Index("ix_verdicts_label", verdicts.c.source, verdicts.c.label, verdicts.c.schedule, verdicts.c.window_start)

# Every label that was ever estimated or judged: an emergency stop must not wait for what was.
labels = _table("labels", _OF_LABEL)

# What is the matter with each label in each window. The columns are for queries; `detail` has the whole diagnosis.
diagnoses = _table(
    "diagnoses", _OF_BOTH, (*_OF_OUTPUT, "state", "because", "detail", "diagnosed_at"),
    (*DIAGNOSED, *COST_OF_TROUBLE, "acted", "segment"), other={"segment": _JSON},
)  # fmt: skip

Index("ix_diagnoses_source", diagnoses.c.source, diagnoses.c.window_end)
Index("ix_diagnoses_end", diagnoses.c.window_end)

# `open_key` is the fingerprint until the incident is resolved, then NULL: so a fingerprint has one open incident.
incidents = _table(
    "incidents", ["id"],
    (
        "kind", *_OF_LABEL, "severity", "state", "opened_at", "opened_window", "window", "window_end", "seen_until",
        "reason", "last", "rules", "labels", "reopened", "version", "further_reasons",
    ),
    (
        "resolved_at", "resolved_window", "resolved_by", "acknowledged_at", "acknowledged_by", "silenced_until",
        "silenced_by", "quiet_since", "root",
    ),
    Column("open_key", String(400), unique=True), other={"reason": _LONG_ID},
)  # fmt: skip

Index("ix_incidents_label", incidents.c.label, incidents.c.opened_at)
Index("ix_incidents_kind", incidents.c.kind, incidents.c.opened_at)
Index("ix_incidents_root", incidents.c.root)
Index("ix_incidents_resolved_at", incidents.c.resolved_at)

# The events of incidents, with actor and reason. `key` makes an event happen once.
incident_events = _table(
    "incident_events", ["key"], ("at", "kind", "reason", "actor", "window", "detail"), (),
    Column("incident", _ID, nullable=False, index=True), other={"key": _LONG_ID, "kind": _WORD},
)  # fmt: skip

# Every message, edit, reply and file, stored as pending before it is sent. state: pending, sending, sent,
# failed (will be tried again), dead (will not), not_sent (no token), superseded (not needed any more).
deliveries = _table(
    "deliveries", ["id"], ("kind", "channel", "payload", "attempts", "created_at", "next_attempt_at"),
    (
        "claimed_at", "claimed_by", "sent_at", "external_channel", "external_id", "error", "root", "error_code",
    ),
    Column("state", _WORD, nullable=False, index=True),
    Column("operation", _WORD, nullable=False, server_default="post"),
    Column("sequence", Integer, nullable=False, server_default="0"),
    Column("uncertain", Boolean, nullable=False, server_default=false()), other={"id": _LONG_ID},
)  # fmt: skip

Index("ix_deliveries_edit", deliveries.c.root, deliveries.c.operation, deliveries.c.sequence)
Index("ix_deliveries_root_state", deliveries.c.root, deliveries.c.state)
Index("ix_deliveries_sent_at", deliveries.c.sent_at)

switches = _table(
    "switches", _OF_LABEL,
    ("state", "blocked", "by_operator", "actor", "reason", "ok_streak", "changed_at", "version"),
    (
        "lease_until", "hold_until", "verdict", "last_window_end", "counts", "not_evaluated", "segments", "kept",
    ),
)  # fmt: skip

# `key` makes an event happen once: it is the evaluation (schedule, window, digest) or the command's id.
switch_events = _table(
    "switch_events", (), (*_OF_LABEL, "at", "kind", "from_state", "to_state", "blocked", "actor", "reason"),
    ("lease_until", "until", "verdict", "waits_for", "segments"),
    Column("id", Integer, primary_key=True, autoincrement=True), Column("key", String(400), nullable=False),
    UniqueConstraint("key", "source", "label", name="uq_switch_events_key"),
)  # fmt: skip

Index("ix_switch_events_switch", switch_events.c.source, switch_events.c.label)
Index("ix_switch_events_at", switch_events.c.at)

# The evidence of each acting rule on a label: `windows` are the outcomes of the newest evaluated ones, newest first.
evidence = _table(
    "evidence", (*_OF_LABEL, "rule"), ("schedule", "windows", "version"), ("judged_until", "since"),
    other={"schedule": _WORD, "windows": _OUTCOMES, "since": UtcDateTime},
)  # fmt: skip

# The newest published set; the gate reads it instead of alerts.yaml.
thresholds = _table("thresholds", _OF_LABEL, ("automate_at", "published_at"))

shifts = _table(
    "shifts", (*_OF_BOTH, "test", "column"), ("window_name", "n", "n_baseline"), ("statistic", "p_value", "detail"),
    other={"detail": _DETAIL}, sqlite_with_rowid=False,
)  # fmt: skip

# Every set of thresholds that was published or refused. `kind`: published (all scores of a file: none is lower, or a
# person confirmed it), raised (only the higher ones), refused (lower ones that nobody has confirmed).
publications = _table(
    "publications", (), ("revision", "kind", "at", "host", "actor", "reason", "changes"), (),
    Column("sequence", Integer, primary_key=True, autoincrement=True), other={"kind": _WORD},
)  # fmt: skip

# One row: the identity of this history and how far it has come (see monitor.history.identity).
history = _table(
    "history", (), ("version", "confirmed", "why", "changed_by"), ("newest_at", "changed_at"),
    Column("id", Integer, primary_key=True, autoincrement=False), Column("history_id", String(36), nullable=False),
    Column("epoch", BigInteger, nullable=False), other={"version": BigInteger},
)  # fmt: skip

# Notes of people at a time of a source (label "": for all its labels). A removed one stays, with actor and reason.
annotation_table = _table(  # not "annotations": `from __future__` imports that name
    "annotations", ["id"], (*_OF_LABEL, "at", "text", "added_at", "added_by"),
    ("removed_at", "removed_by", "removed_reason"), Column("key", String(400), unique=True),
)  # fmt: skip

Index("ix_annotations_source", annotation_table.c.source, annotation_table.c.at)

# Items of a week drawn for an audit, `of` so many that act on the label; what people found, and what the relation said.
audits = _table(
    "audits", ("source", "window_start", "label", "item"), ("score", "of"), ("outcome", "stated", "decided_at"),
    other={"outcome": Number(53)},
)  # fmt: skip

# How many items of a window had their truth, and the expected share; one row each time that this changed.
maturities = _table(
    "maturities", (*_OF_BOTH, "known_at"), (*_OF_OUTPUT, "items", "known", "windows", "over"),
    ("expected", "low", "high"), other={"items": Integer},
)  # fmt: skip

# Notes that the flows leave for the watchdog: when it last looked, which runs wait, which flow failed last.
notes = _table("notes", ["key"], ("at", "detail"), other={"key": String(200)})


# The public views, for SQL, notebooks and Grafana: their columns stay when tables change. docs/history.md lists them.
# the label "" means "the source as a whole" and the segment "" means "none": in the views they are NULL
_ABOUT = "source, NULLIF(label, '') AS label"
_WINDOW = "schedule, window_name, window_start"
_WEEK = "CASE schedule WHEN 'weekly' THEN window_name END AS week"
VIEWS = {
    "v1_runs": f"""
        SELECT {_WINDOW}, window_end, source, state, started_at, finished_at, attempts, acts, rules_revision, error
        FROM runs""",
    "v1_readings": "SELECT schedule, window_start, source, state, rows, error, read_at FROM readings",
    "v1_rejected_rows": "SELECT schedule, window_start, source, reason, rows FROM quality",
    "v1_estimates": f"""
        SELECT {_WINDOW}, {_WEEK}, {_ABOUT}, NULLIF(segment, '') AS segment, metric, population, value, low, high,
               plug_in, n, positives
        FROM estimates""",
    "v1_verdicts": f"""
        SELECT id, {_WINDOW}, {_WEEK}, window_end, {_ABOUT}, rule, metric, population, outcome, reason, severity,
               threshold, value, low, high, plug_in, baseline, change, change_low, change_high, p_value, p_adjusted,
               detectable, n, windows, baseline_version, rules_revision, stored_at
        FROM verdicts WHERE "current" """,
    "v1_diagnoses": f"""
        SELECT {_WINDOW}, {_WEEK}, window_end, {_ABOUT}, state, problem, since, since_low, since_high, found, items,
               correct, claimed, extra_errors, extra_errors_low, extra_errors_high, acted, segment, cause, advice,
               reason, diagnosed_at
        FROM diagnoses""",
    "v1_incidents": f"""
        SELECT id, kind, {_ABOUT}, severity, state, opened_at, opened_window, "window" AS last_window, reason,
               acknowledged_at, acknowledged_by, silenced_until, silenced_by, resolved_at, resolved_window, resolved_by,
               reopened
        FROM incidents""",
    "v1_incident_events": 'SELECT incident, at, kind, reason, actor, "window" AS window_name FROM incident_events',
    "v1_switches": f"""
        SELECT {_ABOUT}, state, lease_until, hold_until, by_operator, actor, reason, verdict, changed_at, segments
        FROM switches""",
    "v1_switch_events": f"""
        SELECT id, {_ABOUT}, at, kind, from_state, to_state, lease_until, until, actor, reason, verdict, segments
        FROM switch_events""",
    "v1_baselines": f"""
        SELECT {_ABOUT}, version, "start" AS span_start, "end" AS span_end, first_window, last_window, rows, pinned_at,
               pinned_by, reason
        FROM baselines""",
    "v1_annotations": f"SELECT id, {_ABOUT}, at, text, added_at, added_by FROM annotations WHERE removed_at IS NULL",
    "v1_deliveries": """
        SELECT id, kind, operation, channel, state, attempts, created_at, sent_at, error_code
        FROM deliveries""",
}
