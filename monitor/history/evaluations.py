"""Evaluations in the history: runs, estimates, verdicts and shift tests of each window, and notes of the flows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    select,
    update,
)

from monitor.core.records import (
    SCHEDULES,
    Estimate,
    Interval,
    Note,
    Outcome,
    Reason,
    Schedule,
    ShiftResult,
    Verdict,
    Where,
    Window,
)
from monitor.core.windows import run_command
from monitor.history import tables
from monitor.history.connect import (
    Between,
    Row,
    add_missing,
    at_window,
    filtered,
    one_at_a_time,
    put,
    record_of,
    records,
    row_by_id,
    row_of,
    window_of,
)
from monitor.history.errors import NotFound
from monitor.history.values import ANY, LabelFilter, number

_ROWS_AT_ONCE = 5_000
_IDS_AT_ONCE = 500  # SQLite takes 999 parameters or more
_WHOLE = tables.WHOLE
_EVALUATED = tables.verdicts.c.outcome.in_(("ok", "unconfirmed", "breach"))


def begin_run(
    connection: Connection, window: Window, sources: Sequence[str], *, run: str, acts: bool, rules_revision: str,
    now: datetime,
) -> None:  # fmt: skip
    """Store that ``run`` evaluates the sources in ``window``. A source's next run counts as one more attempt."""
    row: Row = {
        **at_window(window), "run": run, "state": "running",
        "started_at": now, "finished_at": None, "attempts": 1, "acts": acts,
        "rules_revision": rules_revision, "error": None,
    }  # fmt: skip
    attempts = tables.runs.c.attempts + case((tables.runs.c.run == run, 0), else_=1)
    for source in sources:
        put(connection, tables.runs, {**row, "source": source}, {"attempts": attempts})


def finish_run(
    connection: Connection, window: Window, sources: Sequence[str], *, state: str, now: datetime,
    error: str | None = None, drops: str = "",
) -> None:  # fmt: skip
    """Store how the evaluation of the sources in ``window`` ended.

    ``drops`` is the key of a note that no longer holds of these sources. Raises NotFound if the run of a source was not
    begun.
    """
    of_sources = filtered(update(tables.runs), tables.runs, **_of_window(window), source=sources)
    statement = of_sources.values(state=state, finished_at=now, error=error)
    if connection.execute(statement).rowcount < len(sources):
        raise NotFound(
            f"no run of {window.name} ({window.schedule}) was begun, or the history was put back from a backup since: "
            f"run the window again (`{run_command(window.schedule, window.name)}`)"
        )
    note = notes(connection).get(drops) if drops else None
    if note is not None:
        left = sorted(set(note.detail.get("sources", ())) - set(sources))
        if left:
            put_note(connection, replace(note, detail={**note.detail, "sources": left}))
        else:  # or it never named any
            drop_note(connection, drops)


def _of_window(window: Window) -> Row:
    return {"schedule": window.schedule, "window_start": window.start}


def runs_of(connection: Connection, window: Window) -> dict[str, Row]:
    """Source -> the row of its evaluation in ``window``."""
    statement = filtered(select(tables.runs), tables.runs, **_of_window(window)).order_by(tables.runs.c.source)
    return {row["source"]: dict(row) for row in connection.execute(statement).mappings()}


def run_of(connection: Connection, window: Window, source: str) -> Row | None:
    """The row of the evaluation of a source in ``window``, or None."""
    return runs_of(connection, window).get(source)


def evaluated_windows(
    connection: Connection, schedule: Schedule, limit: int = 100, *, until: datetime | None = None
) -> list[Window]:
    """The newest windows of which a run has begun, newest first; ``until`` leaves out windows that begin later."""
    rows = runs(connection, schedule, limit, until=until)
    return list(dict.fromkeys(map(window_of, rows)))


def runs(
    connection: Connection, schedule: Schedule | None = None, limit: int = 100, *, until: datetime | None = None
) -> list[Row]:
    """The evaluations of each source in the newest windows, newest first, then by source.

    ``limit`` counts windows; ``until`` leaves out windows that begin later.
    """
    table = tables.runs
    newest = filtered(select(table.c.schedule, table.c.window_start).distinct(), table, schedule=schedule)
    if until is not None:
        newest = newest.where(table.c.window_start <= until)
    order = (table.c.window_start.desc(), table.c.schedule)
    window = newest.order_by(*order).limit(limit).subquery()
    same = and_(table.c.schedule == window.c.schedule, table.c.window_start == window.c.window_start)
    statement = select(table).join(window, same).order_by(*order, table.c.source)
    return [dict(row) for row in connection.execute(statement).mappings()]


def save(
    connection: Connection,
    window: Window,
    sources: Sequence[str],
    estimates: Sequence[Estimate],
    verdicts: Sequence[Verdict],
    shifts: Sequence[ShiftResult],
    now: datetime,
    unread: Collection[str] = (),
) -> None:
    """Replace the estimates and shift tests of these sources in this window, and add the verdicts.

    Verdicts are never removed; older ones only lose ``current``. Of ``unread`` sources, which have no numbers now,
    those of an earlier evaluation stay.
    """
    one_at_a_time(connection, f"evaluation {window.schedule} {window.start.isoformat()}")
    read = [source for source in sources if source not in unread]
    _replace(connection, tables.estimates, window, read, map(_estimate_row, estimates))
    shift_rows = (row_of(tables.shifts, each, n=int(each.n), n_baseline=int(each.n_baseline)) for each in shifts)
    _replace(connection, tables.shifts, window, read, shift_rows)
    _save_verdicts(connection, window, sources, verdicts, now)
    subjects = {each.subject for each in estimates} | {each.subject for each in verdicts}
    names = {(subject.source, subject.label) for subject in subjects}
    add_missing(connection, tables.labels, [{"source": source, "label": label} for source, label in names])


def replace_estimates(connection: Connection, window: Window, source: str, estimates: Sequence[Estimate]) -> None:
    """Replace the estimates of a window that was read once more. Its verdicts stay."""
    one_at_a_time(connection, f"evaluation {window.schedule} {window.start.isoformat()}")
    _replace(connection, tables.estimates, window, [source], map(_estimate_row, estimates))


def _replace(
    connection: Connection, table: Table, window: Window, sources: Sequence[str], new_rows: Iterable[Row]
) -> None:
    """Replace the rows of these sources in this window."""
    connection.execute(filtered(delete(table), table, **_of_window(window), source=sources))
    for some in _parts(new_rows):
        connection.execute(table.insert(), some)


def _parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows in parts: those of very many labels, all at once, take much memory."""
    left = iter(rows)
    while part := list(islice(left, _ROWS_AT_ONCE)):
        yield part


def _save_verdicts(
    connection: Connection, window: Window, sources: Sequence[str], verdicts: Sequence[Verdict], now: datetime
) -> None:
    """Add new verdicts, and set ``current`` for exactly those of this evaluation, new or already stored."""
    table = tables.verdicts
    of_sources = filtered(select(table.c.id, table.c.current), table, **_of_window(window), source=sources)
    found = connection.execute(of_sources).all()
    known, ids = {row.id for row in found}, {verdict.id for verdict in verdicts}
    new = [verdict for verdict in verdicts if verdict.id not in known]
    for some in _parts(_verdict_row(verdict, now) for verdict in new):
        add_missing(connection, table, some)
    toggled = [{"verdict": row.id} for row in found if row.current != (row.id in ids)]
    if toggled:
        toggle = update(table).where(table.c.id == bindparam("verdict"))
        connection.execute(toggle.values(current=~table.c.current), toggled)


def _newest(
    connection: Connection, table: Table, schedule: Schedule, source: str, *further: ColumnElement[bool]
) -> tuple[datetime, str] | None:
    """The newest window in which a source has such a row. Not max(): so only the end of the index is read."""
    newest = select(table.c.window_start, table.c.window_name).where(*further)
    of_source = filtered(newest, table, schedule=schedule, source=source)
    row = connection.execute(of_source.order_by(table.c.window_start.desc()).limit(1)).first()
    return None if row is None else (row.window_start, row.window_name)


def newest_evaluated(connection: Connection, schedule: Schedule, source: str) -> datetime | None:
    """The start of the newest window for which the source has an evaluated verdict.

    A window in which nothing could be evaluated does not count: otherwise one run under a clock that is ahead
    would make all later windows too old to act.
    """
    newest = _newest(connection, tables.verdicts, schedule, source, _EVALUATED)
    return None if newest is None else newest[0]


def newest_window(connection: Connection, schedule: Schedule, source: str) -> str | None:
    """The name of the newest window with a verdict of any outcome, or an estimate, of the source; None: no window."""
    found = (_newest(connection, table, schedule, source) for table in (tables.verdicts, tables.estimates))
    return max(filter(None, found), default=(None, None))[1]


def judged_windows(connection: Connection, since: datetime | None = None) -> dict[tuple[Schedule, str], list[datetime]]:
    """(schedule, source) -> the starts of the windows that were judged, from ``since`` on; not where it was unread."""
    run, verdict = tables.runs, tables.verdicts
    of_run = [verdict.c[name] == run.c[name] for name in ("schedule", "window_start", "source")]
    unread = verdict.c.reason.in_((Reason.WAREHOUSE_FAILED.value, Reason.RELATION_ERROR.value))
    read = select(verdict.c.id).where(*of_run, verdict.c.current, ~unread).exists()
    done = and_(run.c.state == "done", run.c.window_start >= (since or datetime.min.replace(tzinfo=UTC)))
    statement = select(run.c.schedule, run.c.source, run.c.window_start).where(done, read).order_by(run.c.window_start)
    found: dict[tuple[Schedule, str], list[datetime]] = {}
    for row in connection.execute(statement):
        found.setdefault((row.schedule, row.source), []).append(row.window_start)
    return found


def judged(connection: Connection, schedule: Schedule, window_start: datetime, source: str) -> list[Row]:
    """The number of current verdicts of a source in one window, by outcome and reason."""
    table = tables.verdicts
    columns = (table.c.window_name, table.c.outcome, table.c.reason)
    count = select(*columns, func.count().label("verdicts"))
    counted = filtered(count, table, schedule=schedule, window_start=window_start, source=source, current=True)
    found = connection.execute(counted.group_by(*columns).order_by(*columns))
    return [dict(row) for row in found.mappings()]


def not_judged(
    connection: Connection, schedule: Schedule, window_start: datetime, source: str, reason: Reason
) -> list[Row]:
    """Rule, severity and label of each current verdict of a source in one window with this reason."""
    table = tables.verdicts
    columns = select(table.c.rule, table.c.severity, table.c.label)
    equals: Row = {"schedule": schedule, "window_start": window_start, "source": source, "reason": reason.value}
    statement = filtered(columns, table, **equals, current=True)
    return [dict(row) for row in connection.execute(statement).mappings()]


def verdicts(
    connection: Connection,
    *,
    schedule: Schedule | None = None,
    source: str | None = None,
    label: LabelFilter = ANY,
    rule: str | None = None,
    window_start: datetime | None = None,
    outcome: Outcome | None = None,
    between: Between = None,
    current_only: bool = True,
) -> list[Verdict]:
    """Verdicts by window, source, label and rule. ``current_only`` leaves out those that were judged again since."""
    table = tables.verdicts
    equals: Row = {
        "schedule": schedule,
        "source": source,
        "rule": rule,
        "window_start": window_start,
        "outcome": outcome,
    }
    statement = filtered(select(table), table, label, between, **equals, current=current_only or None)
    ordered = statement.order_by(table.c.window_start, table.c.source, table.c.label, table.c.rule, table.c.stored_at)
    return [_verdict(row) for row in connection.execute(ordered).mappings()]


def judged_after(
    connection: Connection, schedule: Schedule, source: str, start: datetime
) -> set[tuple[str, str | None]]:
    """Each (rule, label) with an evaluated verdict of a window that begins after ``start``."""
    table = tables.verdicts
    conditions = and_(table.c.schedule == schedule, table.c.source == source, table.c.window_start > start)
    statement = select(table.c.rule, table.c.label).where(conditions, _EVALUATED, table.c.current).distinct()
    return {(rule, label) for rule, label in connection.execute(statement)}


def verdict(connection: Connection, prefix: str) -> Verdict:
    """The one verdict whose id is, or begins with, ``prefix``. Raises NotFound and Ambiguous."""
    return _verdict(row_by_id(connection, tables.verdicts, "verdict", prefix))


def verdicts_by_id(connection: Connection, ids: Sequence[str]) -> dict[str, Verdict]:
    """The verdicts with these ids, by id; those that are not stored any more are left out."""
    table, found = tables.verdicts, dict[str, Verdict]()
    for begin in range(0, len(ids), _IDS_AT_ONCE):
        chosen = select(table).where(table.c.id.in_(ids[begin : begin + _IDS_AT_ONCE]))
        found |= {row["id"]: _verdict(row) for row in connection.execute(chosen).mappings()}
    return found


def estimates(
    connection: Connection,
    *,
    metric: str | None = None,
    source: str | None = None,
    label: LabelFilter = ANY,
    where: Where | None = None,
    schedule: Schedule | None = None,
    segments: bool = False,
    window_start: datetime | None = None,
    between: Between = None,
) -> list[Estimate]:
    """Estimates by window, source, label and metric; those of segments only if ``segments``."""
    table = tables.estimates
    equals: Row = {"metric": metric, "source": source, "population": where, "schedule": schedule}
    every = _with_window_end(table)
    statement = filtered(every, table, label, between, **equals, window_start=window_start)
    if not segments:
        statement = statement.where(table.c.segment == _WHOLE)
    ordered = statement.order_by(table.c.window_start, *table.primary_key)
    found = connection.execute(ordered).mappings()
    return [record_of(Estimate, row, where=row["population"], interval=record_of(Interval, row)) for row in found]


class GridNumber(NamedTuple):
    """An estimate. Its fields are read much sooner than those of a row of SQLAlchemy."""

    label: str | None
    window_start: datetime
    metric: str
    population: Where
    value: float | None
    low: float | None
    high: float | None
    n: int
    segment: tuple[str, str] | None = None


def numbers(
    connection: Connection,
    windows: Sequence[datetime],
    source: str,
    labels: Collection[str | None],
    series: Collection[tuple[str, Where]],
    *,
    schedule: Schedule,
    segment: tuple[str, str] | None = None,
    segments: bool = False,
) -> list[GridNumber]:
    """The estimates of these windows and series, by window and segment.

    Of all rows, or of one ``segment``; with ``segments``, of every segment instead. Each is found by its key, so the
    cost does not grow with the history.
    """
    table = tables.estimates
    conditions = (
        table.c.schedule == schedule,
        table.c.window_start.in_(list(windows)),
        table.c.source == source,
        table.c.label.in_(labels),
        table.c.segment > _WHOLE if segments else table.c.segment == segment,
        table.c.metric.in_({metric for metric, _ in series}),
        table.c.population.in_({where for _, where in series}),
    )
    statement = select(*(table.c[name] for name in GridNumber._fields)).where(*conditions)
    return [
        GridNumber._make(row) for row in connection.execute(statement.order_by(table.c.window_start, table.c.segment))
    ]


def shifts(
    connection: Connection,
    schedule: Schedule | None = None,
    window_start: datetime | None = None,
    source: str | None = None,
) -> list[ShiftResult]:
    """Shift tests by window, source, label and test."""
    table = tables.shifts
    every = _with_window_end(table).order_by(table.c.window_start, *table.primary_key)
    equals: Row = {"schedule": schedule, "window_start": window_start, "source": source}
    return records(connection, ShiftResult, filtered(every, table, **equals))


def rule_outcomes(connection: Connection, since: datetime) -> list[tuple[str, str, str, int]]:
    """(rule, schedule, outcome, number of verdicts), for windows from ``since`` on."""
    table = tables.verdicts
    by = (table.c.rule, table.c.schedule, table.c.outcome)
    return list(connection.execute(select(*by, func.count()).where(_recent(since)).group_by(*by)).tuples())


def breaches_of_labels(connection: Connection, since: datetime) -> list[tuple[str, str, str | None, int]]:
    """(rule, source, label, number of windows in breach), for windows from ``since`` on, most breaches first."""
    table = tables.verdicts
    by, count = (table.c.rule, table.c.source, table.c.label), func.count()
    statement = select(*by, count).where(_recent(since), table.c.outcome == "breach").group_by(*by)
    found = connection.execute(statement.order_by(count.desc(), table.c.source, table.c.label))
    return list(found.tuples())


def _recent(since: datetime) -> Any:
    table = tables.verdicts
    # names both schedules, since the index begins with the schedule
    return and_(table.c.schedule.in_(SCHEDULES), table.c.window_start >= since, table.c.current.is_(True))


def known_labels(connection: Connection, source: str) -> set[str | None]:
    """Labels that were estimated, judged, pinned or switched (None: the source as a whole)."""
    kept = (tables.labels, tables.baselines, tables.switches)
    statements = (select(table.c.label).where(table.c.source == source).distinct() for table in kept)
    return {label for statement in statements for label in connection.execute(statement).scalars()}


def _with_window_end(table: Table) -> Select[Any]:
    """The rows with the end of their window. Only the run has it: days are not always 24 h long."""
    runs = tables.runs
    same = and_(
        runs.c.schedule == table.c.schedule, runs.c.window_start == table.c.window_start,
        runs.c.source == table.c.source,
    )  # fmt: skip
    return select(table, runs.c.window_end).select_from(table.outerjoin(runs, same))


def _estimate_row(estimate: Estimate) -> Row:
    interval = {name: getattr(estimate.interval, name) for name in ("value", "plug_in", "low", "high")}
    converted = {"n": int(estimate.n), "positives": number(estimate.positives) or 0.0}
    return row_of(tables.estimates, estimate, population=estimate.where, **interval, **converted)


def _verdict_row(verdict: Verdict, now: datetime) -> Row:
    converted = {"n": int(verdict.n), "windows": int(verdict.windows), "reason": verdict.reason.value}
    stored = {"population": verdict.where, "condition": verdict.detail.get("condition"), "stored_at": now}
    return row_of(tables.verdicts, verdict, **converted, **stored, current=True)


def _verdict(row: RowMapping) -> Verdict:
    return record_of(Verdict, row, where=row["population"], reason=Reason(row["reason"]))


def put_note(connection: Connection, note: Note) -> None:
    """Write a note. It replaces the one with the same key."""
    put(connection, tables.notes, row_of(tables.notes, note))


def drop_note(connection: Connection, key: str) -> None:
    """Delete a note, if it exists."""
    connection.execute(delete(tables.notes).where(tables.notes.c.key == key))


def notes(connection: Connection) -> dict[str, Note]:
    """Key -> note."""
    return {note.key: note for note in records(connection, Note, select(tables.notes))}
