"""The tables of the history database. Only ``monitor.history`` reads or writes them.

With these keys, evaluating a window twice replaces rows and never adds any. The types of the columns convert
values, so that a row has what its record has: a label of None (the source as a whole) and a segment of None (all rows)
are stored as ``""``, since keys cannot be NULL, and of JSON tuples and records are made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

_TIME = UtcDateTime
_NUMBER = Number(53)
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

# Names from data, people or alerts.yaml have no maximum length. PostgreSQL's indexes take keys of at most
# about 2,700 bytes: labels (LABEL_BYTES) and segments (values.segment_key) are kept shorter than that.
_NAME = Text()


WHOLE: Final = None
"""The label of a source as a whole, and the segment of all rows."""


#: Columns that have the same type in every table.
_TYPES: Mapping[str, Any] = {
    "window_start": _TIME, "window_end": _TIME, "window_name": _ID, "label": _LABEL, "segment": _SEGMENT,
    "rule": String(80),
}  # fmt: skip
_OF_LABEL = ("source", "label")
_OF_WINDOW = ("schedule", "window_start", "source")
_OF_BOTH = ("schedule", "window_start", *_OF_LABEL)


def _key(name: str, kind: Any = None) -> Column[Any]:
    return Column(name, kind or _TYPES.get(name, _NAME), primary_key=True)


def _required(name: str, kind: Any = None, **options: Any) -> Column[Any]:
    return Column(name, kind or _TYPES.get(name, _NAME), nullable=False, **options)


# One row for each source of an evaluated window; a repeated run of the source replaces it.
runs = Table(
    "runs", metadata,
    *map(_key, _OF_WINDOW), _required("window_end"),
    _required("window_name"), _required("run", _LONG_ID), _required("state", _ID),
    _required("started_at", _TIME), Column("finished_at", _TIME), _required("attempts", Integer),
    _required("acts", Boolean), _required("rules_revision", _ID), Column("error", _ERROR),
)  # fmt: skip

Index("ix_runs_window_start", runs.c.window_start, runs.c.schedule)

# The result of reading one source in one window: state is ok, relation_error or warehouse_failed.
readings = Table(
    "readings", metadata,
    *map(_key, _OF_WINDOW), _required("state", _ID),
    Column("error", _ERROR), _required("rows", Integer), _required("versions", _JSON),
    _required("digest", _LONG_ID), _required("read_at", _TIME), Column("rejected", _JSON),
    Column("fingerprint", _LONG_ID), Column("settings", _JSON),
)  # fmt: skip

# What a reading counted of each label, and what its scores promised; the promises of segments are removed with cells.
counts = Table(
    "counts", metadata,
    *map(_key, _OF_BOTH),
    _required("rows", Integer), _required("digest", _LONG_ID), _required("promises", _JSON),
    Column("segments", _JSON),
)  # fmt: skip

# The counts of all labels of a reading, and of their segments, as arrays of numpy (monitor.history.counts_file).
# `calmon db prune` removes old ones.
cells = Table(
    "cells", metadata,
    *map(_key, _OF_WINDOW), _required("labels", LargeBinary),
    Column("segments", LargeBinary),
)  # fmt: skip

quality = Table(
    "quality",
    metadata,
    *map(_key, _OF_WINDOW),
    _key("reason"),
    _required("rows", Integer),
    _required("examples", _TUPLE),
)

# Windows come first in the key: a run replaces those of a window.
estimates = Table(
    "estimates", metadata,
    *map(_key, _OF_BOTH), _key("segment"),
    _key("metric", _LONG_ID), _key("population", _WORD), _required("window_name"),
    *(Column(name, _NUMBER) for name in ("value", "plug_in", "low", "high")), _required("n", Integer),
    _required("positives", _NUMBER), Column("detail", _DETAIL), sqlite_with_rowid=False,
)  # fmt: skip

baselines = Table(
    "baselines", metadata,
    *map(_key, _OF_LABEL), _key("version", Integer),
    _required("start", _TIME), _required("end", _TIME),
    _required("first_window", _ID), _required("last_window", _ID), _required("rows", Integer),
    _required("edges", _EDGES), _required("digest", _LONG_ID), _required("data", LargeBinary),
    _required("pinned_at", _TIME), _required("pinned_by", Text), _required("reason", Text),
    Column("segment_data", LargeBinary), Column("settings", _JSON), _required("weeks", _SPREADS),
)  # fmt: skip

NUMBERS_OF_VERDICT = (
    "value", "low", "high", "plug_in", "baseline", "change", "change_low", "change_high", "p_value", "p_adjusted",
    "detectable",
)  # fmt: skip

# `current` is False for a verdict whose (window, rule, subject) was judged again on other data. `condition` is also in
# `detail`, which is long and seldom read.
verdicts = Table(
    "verdicts", metadata,
    _key("id", _ID), _required("schedule", _WORD), _required("window_start"),
    _required("window_end"), _required("window_name"), _required("source", Text),
    _required("label"), _required("rule"), _required("metric", _LONG_ID),
    _required("population", _WORD), _required("outcome", _WORD), _required("reason", _LONG_ID),
    _required("severity", _WORD), _required("threshold", _NUMBER),
    *(Column(name, _NUMBER) for name in NUMBERS_OF_VERDICT),
    _required("n", Integer), _required("windows", Integer), Column("baseline_version", Integer),
    _required("rules_revision", _ID), _required("data_digest", _LONG_ID), _required("stored_at", _TIME),
    _required("current", Boolean), Column("condition", _WORD), _required("actions", _TUPLE),
    _required("detail", _JSON),
)  # fmt: skip

Index("ix_verdicts_window", verdicts.c.schedule, verdicts.c.window_start)
Index("ix_verdicts_label", verdicts.c.source, verdicts.c.label, verdicts.c.schedule, verdicts.c.window_start)

# Every label that was ever estimated or judged: an emergency stop must not wait for what was.
labels = Table("labels", metadata, *map(_key, _OF_LABEL))

# What is the matter with each label in each window. The columns are for queries; `detail` has the whole diagnosis.
DIAGNOSED = ("problem", "since", "since_low", "since_high", "found", "cause", "advice", "reason")
COST_OF_TROUBLE = ("items", "correct", "claimed", "extra_errors", "extra_errors_low", "extra_errors_high")
diagnoses = Table(
    "diagnoses", metadata,
    *map(_key, _OF_BOTH),
    _required("window_end"), _required("window_name"), _required("state", _WORD),
    *(Column(name, Text) for name in DIAGNOSED),
    *(Column(name, _NUMBER) for name in COST_OF_TROUBLE), Column("acted", Boolean), Column("segment", _JSON),
    _required("because", _JSON), _required("detail", _JSON), _required("diagnosed_at", _TIME),
)  # fmt: skip

Index("ix_diagnoses_source", diagnoses.c.source, diagnoses.c.window_end)
Index("ix_diagnoses_end", diagnoses.c.window_end)

# `open_key` is the fingerprint until the incident is resolved, then NULL: so a fingerprint has one open incident.
incidents = Table(
    "incidents", metadata,
    _key("id", _ID), Column("open_key", String(400), unique=True), _required("kind", _ID),
    _required("source", Text), _required("label"), _required("severity", _WORD),
    _required("state", _WORD), _required("opened_at", _TIME), _required("opened_window", _ID),
    _required("window", _ID), _required("window_end"), _required("seen_until", _TIME),
    _required("reason", _LONG_ID), _required("last", _ID), _required("rules", _TUPLE),
    _required("labels", _TUPLE), Column("resolved_at", _TIME), Column("resolved_window", _ID),
    Column("resolved_by", Text), Column("acknowledged_at", _TIME), Column("acknowledged_by", Text),
    Column("silenced_until", _TIME), Column("silenced_by", Text), Column("quiet_since", _TIME),
    _required("reopened", Integer), Column("root", _LONG_ID), _required("version", Integer),
    _required("further_reasons", _TUPLE),
)  # fmt: skip

Index("ix_incidents_label", incidents.c.label, incidents.c.opened_at)
Index("ix_incidents_kind", incidents.c.kind, incidents.c.opened_at)
Index("ix_incidents_root", incidents.c.root)
Index("ix_incidents_resolved_at", incidents.c.resolved_at)

# The events of incidents, with actor and reason. `key` makes an event happen once.
incident_events = Table(
    "incident_events", metadata,
    _key("key", _LONG_ID), _required("incident", _ID, index=True), _required("at", _TIME),
    _required("kind", _WORD), _required("reason", Text), _required("actor", Text),
    _required("window", _ID), _required("detail", _JSON),
)  # fmt: skip

# Every message, edit, reply and file, stored as pending before it is sent. state: pending, sending, sent,
# failed (will be tried again), dead (will not), not_sent (no token), superseded (not needed any more).
deliveries = Table(
    "deliveries", metadata,
    _key("id", _LONG_ID), _required("kind", _ID), _required("channel", Text), _required("payload", _JSON),
    _required("state", _WORD, index=True), _required("attempts", Integer), _required("created_at", _TIME),
    _required("next_attempt_at", _TIME), Column("claimed_at", _TIME), Column("claimed_by", Text),
    Column("sent_at", _TIME), Column("external_channel", _LONG_ID), Column("external_id", _LONG_ID),
    Column("error", _ERROR), _required("operation", _WORD, server_default="post"), Column("root", _LONG_ID),
    _required("sequence", Integer, server_default="0"), Column("error_code", _LONG_ID),
    _required("uncertain", Boolean, server_default=false()),
)  # fmt: skip

Index("ix_deliveries_edit", deliveries.c.root, deliveries.c.operation, deliveries.c.sequence)
Index("ix_deliveries_root_state", deliveries.c.root, deliveries.c.state)
Index("ix_deliveries_sent_at", deliveries.c.sent_at)

switches = Table(
    "switches", metadata,
    *map(_key, _OF_LABEL), _required("state", _WORD), _required("blocked", _RANGES),
    Column("lease_until", _TIME), Column("hold_until", _TIME), _required("by_operator", Boolean),
    _required("actor", Text), _required("reason", Text), Column("verdict", _ID),
    _required("ok_streak", Integer), Column("last_window_end", _TIME), _required("changed_at", _TIME),
    _required("version", Integer), Column("counts", Text), Column("not_evaluated", _LONG_ID),
    Column("segments", _SWITCHED_SEGMENTS), Column("kept", _KEPT_SCORES),
)  # fmt: skip

# `key` makes an event happen once: it is the evaluation (schedule, window, digest) or the command's id.
switch_events = Table(
    "switch_events", metadata,
    Column("id", Integer, primary_key=True, autoincrement=True), _required("key", String(400)),
    _required("source", Text), _required("label"), _required("at", _TIME), _required("kind", _ID),
    _required("from_state", _WORD), _required("to_state", _WORD), _required("blocked", _RANGES),
    Column("lease_until", _TIME), Column("until", _TIME), _required("actor", Text), _required("reason", Text),
    Column("verdict", _ID), Column("waits_for", String(80)),
    Column("segments", _SWITCHED_SEGMENTS),
    UniqueConstraint("key", "source", "label", name="uq_switch_events_key"),
)  # fmt: skip

Index("ix_switch_events_switch", switch_events.c.source, switch_events.c.label)
Index("ix_switch_events_at", switch_events.c.at)

# The evidence of each acting rule on a label: `windows` are the outcomes of the newest evaluated ones, newest first.
evidence = Table(
    "evidence", metadata,
    *map(_key, _OF_LABEL), _key("rule"), _required("schedule", _WORD),
    _required("windows", _OUTCOMES), Column("judged_until", _TIME), Column("since", _TIME),
    _required("version", Integer),
)  # fmt: skip

# The newest published set; the gate reads it instead of alerts.yaml.
thresholds = Table(
    "thresholds",
    metadata,
    *map(_key, _OF_LABEL),
    _required("automate_at", _NUMBER),
    _required("published_at", _TIME),
)

shifts = Table(
    "shifts", metadata,
    *map(_key, _OF_BOTH), _key("test", _ID),
    _key("column"), _required("window_name"), Column("statistic", _NUMBER), Column("p_value", _NUMBER),
    _required("n", Integer), _required("n_baseline", Integer), Column("detail", _DETAIL), sqlite_with_rowid=False,
)  # fmt: skip

# Every set of thresholds that was published or refused. `kind`: published (all scores of a file: none is lower, or a
# person confirmed it), raised (only the higher ones), refused (lower ones that nobody has confirmed).
publications = Table(
    "publications",
    metadata,
    Column("sequence", Integer, primary_key=True, autoincrement=True),
    _required("revision", _ID),
    _required("kind", _WORD),
    _required("at", _TIME),
    _required("host", Text),
    _required("actor", Text),
    _required("reason", Text),
    _required("changes", _JSON),
)

# One row: the identity of this history and how far it has come (see monitor.history.identity).
history = Table(
    "history", metadata,
    Column("id", Integer, primary_key=True, autoincrement=False), _required("history_id", String(36)),
    _required("epoch", BigInteger), _required("version", BigInteger), _required("confirmed", Boolean),
    Column("newest_at", _TIME), _required("why", Text), _required("changed_by", Text), Column("changed_at", _TIME),
)  # fmt: skip

# Notes of people at a time of a source (label "": for all its labels). A removed one stays, with actor and reason.
annotation_table = Table(  # not "annotations": `from __future__` imports that name
    "annotations", metadata,
    _key("id", _ID), _required("source", Text), _required("label"), _required("at", _TIME),
    _required("text", Text), _required("added_at", _TIME), _required("added_by", Text), Column("removed_at", _TIME),
    Column("removed_by", Text), Column("removed_reason", Text), Column("key", String(400), unique=True),
)  # fmt: skip

Index("ix_annotations_source", annotation_table.c.source, annotation_table.c.at)

# Items of a week drawn for an audit, `of` so many that act on the label; what people found, and what the relation said.
audits = Table(
    "audits", metadata,
    _key("source"), _key("window_start"), _key("label"), _key("item"), _required("score", _NUMBER),
    _required("of", Integer), Column("outcome", _NUMBER), Column("stated", _NUMBER), Column("decided_at", _TIME),
)  # fmt: skip

# How many items of a window had their truth, and the expected share; one row each time that this changed.
maturities = Table(
    "maturities", metadata,
    *map(_key, _OF_BOTH), _key("known_at", _TIME),
    _required("window_end"), _required("window_name"), _required("items", Integer),
    _required("known", Integer), *(Column(name, _NUMBER) for name in ("expected", "low", "high")),
    _required("windows", Integer), _required("over", Boolean),
)  # fmt: skip


# Notes that the flows leave for the watchdog: when it last looked, which runs wait, which flow failed last.
notes = Table("notes", metadata, _key("key", String(200)), _required("at", _TIME), _required("detail", _JSON))


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
