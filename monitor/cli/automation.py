"""``calmon automation status|history|enable|disable``."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, ClassVar
from zoneinfo import ZoneInfo

import typer

from monitor.automation.evidence import is_against
from monitor.automation.gate.snapshot import EVERY_SCORE, Key, SwitchSnapshot, closed_by_history, snapshot_of
from monitor.automation.label_evidence import known_of, stays_off
from monitor.automation.segments import as_stored
from monitor.automation.state import Allowed, GateReason, effective, off_segments
from monitor.automation.switch import operator_change
from monitor.cli import common as cli
from monitor.cli.demand import OnDemand
from monitor.cli.without_configuration import monitor_to_switch
from monitor.config.model import Config
from monitor.config.problems import closest
from monitor.context import Monitor, utc_now
from monitor.core.diagnoses import DiagnosisState
from monitor.core.records import EVERY_SOURCE, LABEL_BYTES, RuleEvidence, SwitchEvent, SwitchState
from monitor.core.wording import clean
from monitor.operations.change_switch import change_switch, known_labels, rules_against, stored_sources
from monitor.report.console import plain_table
from monitor.report.csv_table import Table
from monitor.story.gather import Teller
from monitor.story.switch import command_for

DRY_RUN = (
    "DRY RUN: runs turn nothing off, block nothing and turn nothing on; they store what they would have done "
    "(`automation: {dry_run: true}` in alerts.yaml)"
)
NO_THRESHOLD = "the history has no automate_at yet: gates refuse until the next run"
_COLOURS = {"on": "green", "limited": "yellow", "off": "red"}
EVERY = "*"
"""What people write for every label, although it is a name like others; `calmon report` takes it for the source."""


class SwitchCommands(OnDemand):
    """The commands of ``calmon automation``; those of other modules are imported on demand."""

    modules: ClassVar[Mapping[str, str]] = {
        "token": "monitor.cli.service",
        "thresholds": "monitor.cli.thresholds",
        "advise": "monitor.cli.thresholds",
    }


automation_app = typer.Typer(
    cls=SwitchCommands, no_args_is_help=True, help="The switch: what may act alone, and who changed it."
)
SwitchCommands.owner = automation_app
cli.app.add_typer(automation_app, name="automation")

AllFlag = Annotated[bool, typer.Option("--all", help="Every label known of the source (or of all sources).")]
ReasonOption = Annotated[str, typer.Option(help="Why; stored with the change.")]
UntilOption = Annotated[
    str | None, typer.Option(help="Until when it holds against runs, like 2026-11-22T18:00; default: 24 hours.")
]
OffUntilOption = Annotated[
    str | None,
    typer.Option(
        "--until",
        help="Until when no run may undo it, like 2026-11-22T18:00; default: for ever. It never ends by itself.",
    ),
]


SegmentOption = Annotated[
    str | None, typer.Option("--segment", help="Only items with this value, like channel=web; with --label or --all.")
]


@automation_app.command(
    epilog="Examples:  calmon automation status  ·  calmon automation status --source tickets --label billing  ·  "
    "calmon automation status --json"
)
def status(source: cli.SourceOption = None, label: cli.LabelOption = None, json_output: cli.JsonFlag = False) -> None:
    """What may act now, label by label: from which score, why, for how long, and who changed it."""
    with cli.monitor(writes=False, reads=False) as opened:
        found = opened.store.stored_switches()
        names = [source] if source in lost_sources(opened) else cli.check_source(opened.config, source)
        names = names or list(dict.fromkeys([*opened.config.sources, *(name for name, _ in _lost_and_on(opened))]))
        snapshot = snapshot_of(opened.clock(), found.switches, found.automate_at, found.identity)
        rows = [row for name in names for row in status_rows(opened, snapshot, name, label)]
        nothing = _no_label(opened, names) if label is None else _unknown_label(label, _labels_of(opened, names))
        teller = Teller(opened.store, opened.config, snapshot.at)
        told = [
            teller.switch_now(snapshot.state(row["source"], row["label"]), against=row["against_last_evaluation"])
            for row in rows
        ]
    if opened.config.automation.dry_run:
        cli.warn(DRY_RUN, style="bold yellow")
    if json_output:
        cli.print_json(rows)
        return
    if not rows:
        cli.say(nothing)
        return
    table = plain_table("source", "label", "automation", "acts from")
    for row, story in zip(rows, told, strict=True):
        words = story.words.removeprefix("Automation is ") + "; on once it is confirmed" * bool(row["if_confirmed"])
        least = "not known: gates refuse" if row["automate_at"] is None else f"{row['automate_at']:g}"
        name, of, state, score = cli.cells(row["source"], _label(row["label"]), words, least)
        state.stylize(_COLOURS[story.state])
        table.add_row(name, of, state, score)
    cli.out.print(table)
    cli.say(f"As of {cli.stated(snapshot.at, opened.config.zone)}.")
    for row, story in zip(rows, told, strict=True):
        if story.stays:
            command = command_for(row["source"], row["label"], enable=True)
            cli.say(f"{clean(row['source'])}/{clean(_label(row['label']))}: {story.stays}: {command}")


def _no_label(opened: Monitor, sources: Iterable[str]) -> str:
    """Why no label of these sources is known."""
    configured = opened.config.sources
    if all(name in configured and configured[name].kind == "regression" for name in sources):
        return "a source of kind regression has no labels"
    if opened.store.runs(limit=1):
        return "no label is known: no run has found one"
    return "no label is known yet; the first run finds them"


def lost_sources(opened: Monitor) -> list[str]:
    """The sources of the history's switches and scores that alerts.yaml does not have, as after it was renamed there.

    Gates know the history alone, so that what is on there is on.
    """
    return sorted(stored_sources(opened.store) - set(opened.config.sources))


def _lost_and_on(opened: Monitor) -> list[Key]:
    """The labels of lost sources that are on."""
    lost, switches = lost_sources(opened), opened.store.switches()
    on = [(each.source, each.label) for each in switches if each.state == "on" and each.label is not None]
    return sorted(key for key in on if key[0] in lost)


def _label(label: str | None) -> str:
    return "(the whole source)" if label is None else label


def status_rows(opened: Monitor, snapshot: SwitchSnapshot, source: str, label: str | None) -> list[dict[str, Any]]:
    """The switch of every known label of one source, or of the requested one, as plain data."""
    keys: list[str | None] = [name for name in known_labels(opened, source) if label in (None, name)]
    if label is None and (source, None) in snapshot.switches:
        keys.append(None)
    stored = {(each.label, each.rule): each for each in opened.store.evidence(source)}
    return [_status_row(opened.config, snapshot, snapshot.state(source, key), stored) for key in keys]


def _status_row(
    config: Config,
    snapshot: SwitchSnapshot,
    state: SwitchState,
    stored: Mapping[tuple[str | None, str], RuleEvidence],
) -> dict[str, Any]:
    source, label = state.source, state.label
    whole = None if label is None else snapshot.state(source, None)
    found, least = effective(state, snapshot.at, whole=whole), snapshot.threshold(source, label)
    # where the source's own switch forbids, the reason of the label's switch is not why it is off
    forbids = whole if found.reason == GateReason.SOURCE_OFF else None
    if found.allowed and least is None:  # as after an upgrade: gates refuse what has no threshold
        why = NO_THRESHOLD if source in config.sources else f"alerts.yaml has no source {source}: gates refuse"
        found = Allowed(False, GateReason.NO_THRESHOLD, why)
    closed = closed_by_history(snapshot, snapshot.at)  # a restored history closes every gate
    if_confirmed = None if closed is None else found.allowed
    found = found if closed is None else Allowed(False, closed.reason, closed.detail)
    off, blocked = off_segments(state, snapshot.at), [list(r) for r in found.blocked]
    # readers that know no segments must take all scores as blocked
    limits: dict[str, Any] = {"blocked": EVERY_SCORE, "blocked_scores": blocked} if off else {"blocked": blocked}
    known = known_of(config, state, stored, snapshot.at)
    return {
        "source": source, "label": label, "state": state.state, "allowed": found.allowed,
        "why": found.detail, "until": found.until.isoformat(timespec="minutes") if found.until else None,
        "automate_at": least, **limits, "by": state.actor, "reason": state.reason,
        "verdict": state.verdict, "lease_until": state.lease_until, "hold_until": state.hold_until,
        "changed_at": state.changed_at if state.state != "never_set" else None,  # else only a segment of it was changed
        "against_last_evaluation": is_against(known, state.blocked, state.segments),
        "dry_run": config.automation.dry_run, "source_reason": None if forbids is None else forbids.reason,
        "if_confirmed": if_confirmed, "segments_off": [{"column": column, "value": value} for column, value in off],
        "stays_off": stays_off(state, config, known) or None,
    }  # fmt: skip


@automation_app.command(
    epilog="Examples:  calmon automation enable --source tickets --label billing --reason 'retrained'  ·  "
    "calmon automation enable --all --reason 'go live'  ·  "
    "calmon automation enable --label billing --reason 'checked by hand' --until 2026-11-30T18:00"
)
def enable(
    reason: ReasonOption,
    source: cli.SourceOption = None,
    label: cli.LabelOption = None,
    every: AllFlag = False,
    even_in_breach: Annotated[
        list[str] | None,
        typer.Option(help="With --all: this label although a rule that acts is in breach. May be repeated."),
    ] = None,
    segment: SegmentOption = None,
    until: UntilOption = None,
    by: cli.ByOption = None,
) -> None:
    """Let labels act alone again. It holds against runs until --until, except for critical labels.

    --source alone: the source's own switch, which only ever forbids; its labels keep theirs.
    --all leaves out labels of which a rule that acts is in breach, and names them; --even-in-breach LABEL takes one in.
    A label in breach at its last evaluation goes off at --until, unless a good window comes first.
    A segment that is off stays off until it is enabled with --segment.
    """
    _change(
        enable=True, reason=reason, source=source, label=label, every=every, segment=segment, until=until, by=by,
        even_in_breach=even_in_breach or (),
    )  # fmt: skip


@automation_app.command(
    epilog="Examples:  calmon automation disable --label billing --reason 'wrong since noon'  ·  "
    "calmon automation disable --all --reason 'model is being replaced'  ·  "
    "calmon automation disable --source tickets --reason 'nothing of it, until the audit is done'"
)
def disable(
    reason: ReasonOption,
    source: cli.SourceOption = None,
    label: cli.LabelOption = None,
    every: AllFlag = False,
    segment: SegmentOption = None,
    until: OffUntilOption = None,
    by: cli.ByOption = None,
) -> None:
    """Stop labels from acting alone. No run undoes it; after --until, good windows may where re_enable lets them.

    --source alone: the source's own switch, which stops all its labels, those to come as well.
    --segment: only items with that value, until a person enables it again; routers must send their values.
    It works while alerts.yaml or a variable is broken, by the history alone.
    """
    _change(
        enable=False, reason=reason, source=source, label=label, every=every, segment=segment, until=until, by=by
    )  # fmt: skip


def _change(
    *, enable: bool, reason: str, source: str | None, label: str | None, every: bool, segment: str | None,
    until: str | None, by: str | None, even_in_breach: Sequence[str] = (),
) -> None:  # fmt: skip
    """Change switches; to stop, whatever alerts.yaml says."""
    opening = partial(monitor_to_switch, stops=not enable)
    with opening(writes=False) as (read_only, broken):  # wrong arguments must not create a history
        config, actor = read_only.config, cli.who(by)
        check_words(source, label, reason, every=every)
        lost = [] if enable else lost_sources(read_only)  # what gates still know must be stopped all the same
        if broken and source not in (None, *lost):
            raise cli.UsageError(f"the history has no source {source!r}; it has: {', '.join(lost) or 'none'}")
        names = [source] if source is not None and source in lost else cli.check_source(config, source)
        if label is None and not every:
            targets: list[Key] = [(name, None) for name in names or ()]
        else:
            targets = targets_of(read_only, names, label, enable=enable)
        _check_even_in_breach(targets, even_in_breach, every=every)
        hold, part = cli.moment(until, config), _segment(segment)
        if broken and until is not None and datetime.fromisoformat(until).tzinfo is None:
            raise cli.UsageError(
                "--until needs its offset here, like 2026-11-22T18:00+01:00: the zone is in alerts.yaml"
            )
        if part is not None:
            targets = segment_targets(config, targets, part, enable=enable, until=until)
        check_change(config, enable=enable, by=actor, reason=reason, until=hold)
        unknown = _not_known_yet(read_only, names or [], label)
    with opening(writes=True) as (opened, _), cli.lines_at_the_end() as said:
        for name, each in targets:
            was = opened.store.switch(name, each)
            against = rules_against(opened, was) if enable and every and part is None else []
            if against and each not in even_in_breach:
                takes = (
                    "" if each is None else f"; --even-in-breach {shlex.quote(clean(each))} turns it on all the same"
                )
                said.append(f"{name}/{_label(each)}: left as it is: in breach of {', '.join(against)}{takes}")
                continue
            words = change_switch(opened, name, each, enable=enable, by=actor, reason=reason, until=hold, segment=part)
            state = opened.store.switch(name, each)
            words += _how_long(state, part, config.zone, critical=_is_critical(config, name, each))
            if part is not None:
                was_off = as_stored(part, was.segments) in off_segments(was, opened.clock())
                words += "; this segment was not off" * (enable and not was_off)
            elif hold is not None:
                words += _until_changes_nothing(state)
            if each is not None and (enable or part is not None):
                words += _as_it_is(opened, state, enable=enable)
            if each is not None and enable:
                unknown += _not_judged(opened, name, each)
            said.append(f"{name}/{_label(each)}: {words}")
        left = [name for name in names or config.sources if name not in dict(targets)] if every else []
        nothing = [f"{name}: nothing done: {_no_label(opened, [name])}" for name in left]
    after = ["the switch was changed all the same; messages show it once that is corrected"]
    notes = [f"note: {broken}", *after, "next: calmon check --offline"] if broken else []
    for line in (*unknown, *nothing, *notes):
        cli.warn(line)


def _check_even_in_breach(targets: Sequence[Key], named: Sequence[str], *, every: bool) -> None:
    """Raise UsageError where --even-in-breach names what --all does not turn on."""
    if named and not every:
        raise cli.UsageError("--even-in-breach is for --all; --label L turns on one label, in breach or not")
    known = {label for _, label in targets if label is not None}
    for label in named:
        if label not in known:
            raise cli.UsageError(f"--even-in-breach: {_unknown_label(label, known)}")


def _not_known_yet(opened: Monitor, sources: Sequence[str], label: str | None) -> list[str]:
    """A note for a label that a source has not while it has others: it may be misspelt, and the meant one stays on."""
    known = set() if label is None else _labels_of(opened, sources)
    if label is None or not known or label in known:
        return []
    return [
        f"note: {sources[0]} has no label {label!r} so far; {_meant(label, known)} The change is stored all the same."
    ]


def _not_judged(opened: Monitor, source: str, label: str) -> list[str]:
    """A note for a label that is on and cannot be judged, with what to do: no run would see what it does."""
    story = Teller.of(opened).of_label(source, label)
    if story is None or story.state is not DiagnosisState.CANNOT_TELL:
        return []
    return [f"note: {story.sentence}" + (f"; next: {story.next_step}" if story.next_step else "")]


def _is_critical(config: Config, source: str, label: str | None) -> bool:
    settings = config.sources.get(source)
    if settings is None:
        return False
    return settings.any_critical if label is None else settings.is_critical(label)


def _segment(text: str | None) -> tuple[str, str] | None:
    """The column and the value of --segment. Raises UsageError."""
    if text is None:
        return None
    column, sign, value = text.partition("=")
    if not (sign and column.strip() and value.strip()):
        raise cli.UsageError(f"--segment is column=value, like channel=web, not {text!r}")
    return column.strip(), value.strip()


def segment_targets(
    config: Config, targets: list[Key], segment: tuple[str, str], *, enable: bool, until: str | None
) -> list[Key]:
    """The labels whose segment is to change. Raises UsageError where none can have it."""
    labels = [(name, each) for name, each in targets if each is not None]
    if not labels:
        raise cli.UsageError("--segment is of labels: say --label L, or --all")
    if until is not None and not enable:
        raise cli.UsageError("a segment is off until somebody enables it again: no --until")
    for name in dict.fromkeys(name for name, _ in labels):
        settings = config.sources.get(name)
        known = () if settings is None else settings.segments
        if not enable and settings is not None and segment[0] not in known:
            columns = ", ".join(known) or "none"
            raise cli.UsageError(f"{name} has no segment column {segment[0]!r} in alerts.yaml (it has: {columns})")
    return [*labels]


def _until_changes_nothing(state: SwitchState) -> str:
    """That an ``--until`` was given which this change has no use for."""
    if state.state == "off" and state.hold_until is None:
        return "; --until changes nothing: it was off already, until a person turns it on"
    if state.state == "on" and state.label is None and state.verdict is None:
        return "; --until changes nothing: a source that is on stays so until it is turned off"
    return ""


def _how_long(state: SwitchState, part: tuple[str, str] | None, zone: ZoneInfo, *, critical: bool) -> str:
    """Until when a change of a switch, or of a segment of it, holds against runs."""
    stored = None if part is None else as_stored(part, state.segments)
    changed = state if part is None else next((each for each in state.segments if each.segment == stored), None)
    if changed is None or changed.hold_until is None:
        return ""
    hold = cli.stated(changed.hold_until, zone)
    if part is None and state.state == "off":
        return f" until {hold}; from then on good windows may turn it on where re_enable lets them"
    if part is None and state.label is None and state.verdict is None:
        return "; it forbids nothing, and its labels stay as they are"
    lasts = ", and only a good window of the same rule makes it last" if changed.verdict is not None else ""
    holds = "a breach turns it off at once: its label is critical" if critical else f"no run undoes that before {hold}"
    return f"; {holds}{lasts}"


def _as_it_is(opened: Monitor, state: SwitchState, *, enable: bool) -> str:
    """What automation of the label does now; after an enable, the command that opens what is closed all the same."""
    story = Teller.of(opened).switch_now(state, against=state.verdict is not None)
    opens = "" if story.allowed or not (enable and story.enable_helps) else f" (`{story.command}` opens it)"
    return f". {story.words}{opens}"


def check_words(source: str | None, label: str | None, reason: str, *, every: bool) -> None:
    """Raise UsageError for options that are missing, contradictory, empty or too long."""
    if (every and label is not None) or (not every and label is None and source is None):
        raise cli.UsageError(
            "say which: --label L (with --source S where two sources have it), --all, "
            "or --source S alone for the source's own switch"
        )
    cli.check_reason(reason)
    if label == "":  # as from an unset shell variable: it must never mean every label
        raise cli.UsageError("--label is empty; name the label, or say --all")
    if label is not None and len(label.encode(errors="replace")) > LABEL_BYTES:
        raise cli.UsageError(f"--label is longer than {LABEL_BYTES:,} bytes: rows of such a label are rejected")


def check_change(config: Config, *, enable: bool, by: str, reason: str, until: datetime | None) -> None:
    """Raise UsageError for what the switch itself refuses: a blank name, an --until that is over."""
    state, automation, now = SwitchState("", None), config.automation, utc_now()
    try:
        operator_change(state, enable=enable, by=by, reason=reason, now=now, until=until, automation=automation, key="")
    except ValueError as error:
        raise cli.UsageError(str(error)) from error


def targets_of(opened: Monitor, sources: list[str] | None, label: str | None, *, enable: bool) -> list[Key]:
    """The switches to change: (source, label), where the label None is the source's own. Raises UsageError.

    To turn off, those of sources that alerts.yaml has lost as well, as far as they are on.
    """
    whole = sources or list(opened.config.sources) or lost_sources(opened)
    labels_of = {name: known_labels(opened, name) for name in whole}
    known = {each for labels in labels_of.values() for each in labels}
    if label == EVERY and label not in known:
        raise cli.UsageError(
            f"no label is named {EVERY!r}: --all is every label (with --source S: of that source), and "
            "--source S alone the source's own switch"
        )
    if label is not None:
        targets: list[Key] = [(name, label) for name in whole if sources or label in labels_of[name]]
    else:  # to enable, first the source's own switch where it was ever set
        own = [name for name in whole if enable and opened.store.switch(name, None).version]
        targets = [(name, each) for name in whole for each in (*[None] * (name in own), *labels_of[name])]
    if not enable and not sources and opened.config.sources:
        targets += [key for key in _lost_and_on(opened) if label in (None, key[1])]
    if not targets and label:
        raise cli.UsageError(f"{_unknown_label(label, known)} Add --source S to set it all the same")
    if not targets:
        why = _no_label(opened, whole)
        raise cli.UsageError(f"{why}. Give --source and --label, or --source alone for the source's own switch")
    return targets


def _labels_of(opened: Monitor, sources: Iterable[str]) -> set[str]:
    return {label for source in sources for label in known_labels(opened, source)}


def _unknown_label(label: str, known: Collection[str]) -> str:
    """That nobody knows a label, with the one that was probably meant.

    >>> _unknown_label("Bilding", ["billing", "login"])
    "no source knows the label 'Bilding'; did you mean 'billing'?"
    """
    return f"no source knows the label {label!r}; {_meant(label, known)}"


def _meant(label: str, known: Collection[str]) -> str:
    near = closest(label, known)
    return f"did you mean {near!r}?" if near is not None else "`calmon automation status` lists those that are known."


@automation_app.command(
    "history",
    epilog="Examples:  calmon automation history --label billing  ·  "
    "calmon automation history --kind disabled --last 20",
)
def history_command(
    source: cli.SourceOption = None,
    label: cli.LabelOption = None,
    kind: Annotated[
        str | None, typer.Option(help="Only such changes, like disabled, blocked, enabled or would_disable.")
    ] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Only so many, the newest.")] = None,
    json_output: cli.JsonFlag = False,
) -> None:
    """Every change of the switch, the oldest first: when, what, who, why."""
    with cli.store() as store:
        found = store.switch_events()
        if source not in {event.source for event in found}:
            cli.check_stored_source(store, source)
    events = [  # those about every gate are about each switch
        e
        for e in found
        if kind in (None, e.kind)
        and (e.source == EVERY_SOURCE or (source in (None, e.source) and label in (None, e.label)))
    ][-(last or 0) :]
    if json_output:
        cli.print_json(_event_rows(events))
        return
    if not events:
        filtered = any(given is not None for given in (source, label, kind))
        known = sorted({e.kind for e in found})
        of_kinds = f"; kinds of change so far: {', '.join(known)}" if kind is not None and kind not in known else ""
        nothing = f"no such change{of_kinds}" if filtered and found else "no change yet"
        cli.say(nothing)
        return
    zone = cli.zone_of_history()
    rows = []
    for e in events:
        change = e.kind.replace("_", " "), e.actor, e.reason, e.verdict or ""
        subject = ("all", "all") if e.source == EVERY_SOURCE else (e.source, _label(e.label))
        rows.append((f"{e.at.astimezone(zone):%Y-%m-%d %H:%M}", *subject, *change))
    cli.print_table(("when", "source", "label", "what", "by", "why", "verdict"), rows)
    cli.say(f"Times are in {zone.key}.")


def _event_rows(events: Sequence[SwitchEvent]) -> list[dict[str, Any]]:
    rows = Table.of(
        events, "at", "source", "label", "kind", "from=from_state", "to=to_state", "by=actor", "reason", "blocked",
        "segments", "verdict", "lease_until", "until", "waits_for",
    ).documents  # fmt: skip
    for row in rows:
        row["source"] = row["source"] or None
        row["segments"] = Table.of(row["segments"], "column", "value", "off_from").documents
    return rows
