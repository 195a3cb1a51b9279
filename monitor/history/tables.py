"""The tables of the history database. Only ``monitor.history`` reads or writes them.

Keys are chosen so that evaluating a window twice replaces rows and never adds any. The label ``""``
and the segment ``""`` mean "the source as a whole" and "no segment", since keys cannot be NULL.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

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
)  # fmt: skip
from sqlalchemy.types import JSON, TypeDecorator

from monitor.core.redaction import without_secrets


class UtcDateTime(TypeDecorator[datetime]):
    """An instant: aware in Python, naive UTC in the database (SQLite knows no time zones)."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To naive UTC. Raises ValueError for a naive value, since nobody can know what it means."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Back to an aware instant."""
        return None if value is None else value.replace(tzinfo=UTC)


class ErrorText(TypeDecorator[str]):
    """Why something failed, without secrets: hidden when it is written, and when a row of an older version is read."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """What is stored."""
        return None if value is None else without_secrets(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        """What is read."""
        return None if value is None else without_secrets(value)


metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(column_0_label)s",
    }
)

_WHEN = UtcDateTime


# What comes from data, people or alerts.yaml has no length of its own. An index of PostgreSQL takes keys of
# about 2,700 bytes: labels (LABEL_BYTES) and segments (values.segment_key) are kept short enough for that.
_NAME = Text()


def _key(name: str, kind: Any = _NAME) -> Column[Any]:
    return Column(name, kind, primary_key=True)


# One evaluation of one window; a repeated run renews the row.
runs = Table(
    "runs", metadata,
    _key("schedule"), _key("window_start", _WHEN),
    Column("window_end", _WHEN, nullable=False), Column("window_name", String(32), nullable=False),
    Column("run", String(64), nullable=False), Column("state", String(32), nullable=False),
    Column("started_at", _WHEN, nullable=False), Column("finished_at", _WHEN),
    Column("attempts", Integer, nullable=False), Column("acts", Boolean, nullable=False),
    Column("rules_revision", String(32), nullable=False), Column("error", ErrorText),
)  # fmt: skip

Index("ix_runs_window_start", runs.c.window_start)

# What reading one source for one window gave: state is ok, relation_error or warehouse_failed.
readings = Table(
    "readings", metadata,
    _key("schedule"), _key("window_start", _WHEN), _key("source"),
    Column("state", String(32), nullable=False), Column("error", ErrorText),
    Column("rows", Integer, nullable=False), Column("versions", JSON, nullable=False),
    Column("digest", String(64), nullable=False), Column("read_at", _WHEN, nullable=False),
    Column("rejected", JSON),
)  # fmt: skip

counts = Table(
    "counts", metadata,
    _key("schedule"), _key("window_start", _WHEN), _key("source"), _key("label"),
    Column("rows", Integer, nullable=False), Column("digest", String(64), nullable=False),
    Column("data", LargeBinary, nullable=False), Column("promises", JSON),
)  # fmt: skip

quality = Table(
    "quality", metadata,
    _key("schedule"), _key("window_start", _WHEN), _key("source"), _key("reason"),
    Column("rows", Integer, nullable=False), Column("examples", JSON, nullable=False),
)  # fmt: skip

estimates = Table(
    "estimates", metadata,
    _key("schedule"), _key("window_start", _WHEN), _key("source"), _key("label"), _key("segment"),
    _key("metric", String(64)), _key("population", String(16)),
    Column("window_name", String(32), nullable=False),
    Column("value", Float(53)), Column("plug_in", Float(53)), Column("low", Float(53)), Column("high", Float(53)),
    Column("n", Integer, nullable=False), Column("positives", Float(53), nullable=False),
    Column("detail", JSON, nullable=False),
)  # fmt: skip

baselines = Table(
    "baselines", metadata,
    _key("source"), _key("label"), _key("version", Integer),
    Column("start", _WHEN, nullable=False), Column("end", _WHEN, nullable=False),
    Column("first_window", String(32), nullable=False), Column("last_window", String(32), nullable=False),
    Column("rows", Integer, nullable=False), Column("edges", JSON, nullable=False),
    Column("digest", String(64), nullable=False), Column("data", LargeBinary, nullable=False),
    Column("pinned_at", _WHEN, nullable=False), Column("pinned_by", Text, nullable=False),
    Column("reason", Text, nullable=False),
)  # fmt: skip

# `current` is False for a verdict whose (window, rule, subject) has been judged again on other data.
verdicts = Table(
    "verdicts", metadata,
    _key("id", String(32)),
    Column("schedule", String(16), nullable=False), Column("window_start", _WHEN, nullable=False, index=True),
    Column("window_end", _WHEN, nullable=False), Column("window_name", String(32), nullable=False),
    Column("source", Text, nullable=False), Column("label", Text, nullable=False),
    Column("rule", String(80), nullable=False), Column("metric", String(64), nullable=False),
    Column("population", String(16), nullable=False), Column("outcome", String(16), nullable=False),
    Column("reason", String(64), nullable=False), Column("severity", String(16), nullable=False),
    Column("threshold", Float(53), nullable=False),
    *(Column(name, Float(53)) for name in (
        "value", "low", "high", "plug_in", "baseline", "change", "change_low", "change_high",
        "p_value", "p_adjusted", "detectable")),
    Column("n", Integer, nullable=False), Column("windows", Integer, nullable=False),
    Column("baseline_version", Integer), Column("rules_revision", String(32), nullable=False),
    Column("data_digest", String(64), nullable=False), Column("actions", JSON, nullable=False),
    Column("detail", JSON, nullable=False), Column("stored_at", _WHEN, nullable=False),
    Column("current", Boolean, nullable=False),
)  # fmt: skip

Index("ix_verdicts_subject", verdicts.c.source, verdicts.c.label, verdicts.c.schedule, verdicts.c.window_start)

# open_key is the fingerprint while the incident is open and NULL afterwards: one open incident each.
incidents = Table(
    "incidents", metadata,
    _key("id", String(32)),
    Column("open_key", String(400), unique=True),
    Column("rule", String(80), nullable=False), Column("source", Text, nullable=False),
    Column("label", Text, nullable=False), Column("severity", String(16), nullable=False),
    Column("state", String(16), nullable=False), Column("schedule", String(16), nullable=False),
    Column("opened_at", _WHEN, nullable=False), Column("opened_window", String(32), nullable=False),
    Column("first_verdict", String(32), nullable=False),
    Column("last_verdict", String(32), nullable=False), Column("last_window_start", _WHEN, nullable=False),
    Column("breaches", Integer, nullable=False), Column("reason", String(64), nullable=False),
    Column("resolved_at", _WHEN), Column("resolved_window", String(32)), Column("resolved_by", Text),
    Column("acknowledged_at", _WHEN), Column("acknowledged_by", Text),
    Column("silenced_until", _WHEN), Column("silenced_by", Text),
    Column("ok_windows", Integer, nullable=False, server_default="0"),
    Column("reopened", Integer, nullable=False, server_default="0"),
    Column("root", String(64)), Column("version", Integer, nullable=False, server_default="1"),
    Column("further_reasons", JSON),
)  # fmt: skip

Index("ix_incidents_label", incidents.c.label, incidents.c.opened_at)
Index("ix_incidents_root", incidents.c.root)
Index("ix_incidents_resolved_at", incidents.c.resolved_at)

# What happened to incidents, who did it and why; written once by its key.
incident_events = Table(
    "incident_events", metadata,
    _key("key", String(64)),
    Column("incident", String(32), nullable=False, index=True), Column("at", _WHEN, nullable=False),
    Column("kind", String(16), nullable=False), Column("reason", Text, nullable=False),
    Column("actor", Text, nullable=False), Column("window", String(32), nullable=False),
    Column("verdict", String(32)), Column("detail", JSON, nullable=False),
)  # fmt: skip

# Every message, and every change of one, written as pending before it is sent. state: pending, sending, sent,
# failed (will be tried again), dead (will not), not_sent (no token), superseded (a later edit says it all).
deliveries = Table(
    "deliveries", metadata,
    _key("id", String(64)),
    Column("kind", String(32), nullable=False), Column("channel", Text, nullable=False),
    Column("payload", JSON, nullable=False), Column("state", String(16), nullable=False, index=True),
    Column("attempts", Integer, nullable=False), Column("created_at", _WHEN, nullable=False),
    Column("next_attempt_at", _WHEN, nullable=False), Column("claimed_at", _WHEN), Column("claimed_by", Text),
    Column("sent_at", _WHEN), Column("external_channel", String(64)), Column("external_id", String(64)),
    Column("error", ErrorText),
    Column("operation", String(16), nullable=False, server_default="post"),
    Column("root", String(64)), Column("sequence", Integer, nullable=False, server_default="0"),
    Column("error_code", String(64)), Column("uncertain", Boolean, nullable=False, server_default=false()),
)  # fmt: skip

Index("ix_deliveries_edit", deliveries.c.root, deliveries.c.operation, deliveries.c.sequence)
Index("ix_deliveries_root_state", deliveries.c.root, deliveries.c.state)
Index("ix_deliveries_sent_at", deliveries.c.sent_at)

switches = Table(
    "switches", metadata,
    _key("source"), _key("label"),
    Column("state", String(16), nullable=False), Column("blocked", JSON, nullable=False),
    Column("lease_until", _WHEN), Column("hold_until", _WHEN),
    Column("by_operator", Boolean, nullable=False), Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False), Column("verdict", String(32)),
    Column("ok_streak", Integer, nullable=False), Column("last_window_end", _WHEN),
    Column("changed_at", _WHEN, nullable=False), Column("version", Integer, nullable=False),
    Column("counts", Text), Column("not_evaluated", String(64)),
)  # fmt: skip

# `key` makes an event happen once: the evaluation (schedule, window, digest) or the command's id.
switch_events = Table(
    "switch_events", metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("key", String(400), nullable=False), Column("source", Text, nullable=False),
    Column("label", Text, nullable=False), Column("at", _WHEN, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("from_state", String(16), nullable=False), Column("to_state", String(16), nullable=False),
    Column("blocked", JSON, nullable=False), Column("lease_until", _WHEN), Column("until", _WHEN),
    Column("actor", Text, nullable=False), Column("reason", Text, nullable=False), Column("verdict", String(32)),
    Column("waits_for", String(80)),
    UniqueConstraint("key", "source", "label", name="uq_switch_events_key"),
)  # fmt: skip

Index("ix_switch_events_switch", switch_events.c.source, switch_events.c.label)

# What each acting rule found last about a label: `windows` are the newest evaluated ones, newest first.
evidence = Table(
    "evidence", metadata,
    _key("source"), _key("label"), _key("rule", String(80)),
    Column("schedule", String(16), nullable=False), Column("windows", JSON, nullable=False),
    Column("judged_until", _WHEN), Column("since", _WHEN), Column("version", Integer, nullable=False),
)  # fmt: skip

# The newest published set; the gate reads it instead of alerts.yaml.
thresholds = Table(
    "thresholds", metadata,
    _key("source"), _key("label"),
    Column("automate_at", Float(53), nullable=False), Column("published_at", _WHEN, nullable=False),
)  # fmt: skip

shifts = Table(
    "shifts", metadata,
    _key("schedule"), _key("window_start", _WHEN), _key("source"), _key("label"),
    _key("test", String(32)), _key("column"),
    Column("window_name", String(32), nullable=False),
    Column("statistic", Float(53)), Column("p_value", Float(53)),
    Column("n", Integer, nullable=False), Column("n_baseline", Integer, nullable=False),
    Column("detail", JSON, nullable=False),
)  # fmt: skip

# Every set of thresholds that changed what is stored: `kind` is published (all scores of a file, none lower
# or confirmed by a person), raised (only its higher ones) or refused (lower ones that nobody has confirmed).
publications = Table(
    "publications", metadata,
    Column("sequence", Integer, primary_key=True, autoincrement=True),
    Column("revision", String(32), nullable=False), Column("kind", String(16), nullable=False),
    Column("at", _WHEN, nullable=False), Column("host", Text, nullable=False), Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False), Column("changes", JSON, nullable=False),
)  # fmt: skip

# One row: which history this is and how far it has come (see monitor.history.identity).
history = Table(
    "history", metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("history_id", String(36), nullable=False), Column("epoch", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False), Column("confirmed", Boolean, nullable=False),
    Column("newest_at", _WHEN), Column("why", Text, nullable=False), Column("changed_by", Text, nullable=False),
    Column("changed_at", _WHEN),
)  # fmt: skip

# What the flows leave for the watch: when the watchdog last looked, which runs wait, which flow failed last.
notes = Table(
    "notes", metadata,
    _key("key", String(200)), Column("at", _WHEN, nullable=False), Column("detail", JSON, nullable=False),
)  # fmt: skip
