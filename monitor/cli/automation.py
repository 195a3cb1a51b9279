"""``calmon automation status|history|enable|disable``."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any

import typer

from monitor.adapters import Monitor, utc_now
from monitor.automation.state import effective
from monitor.automation.switch import operator_change
from monitor.cli import app as cli
from monitor.operating import change_switch, known_labels
from monitor.records import LABEL_BYTES, SwitchEvent, SwitchState
from monitor.report.terminal import plain_table
from monitor.rules.model import Config

automation_app = typer.Typer(no_args_is_help=True, help="The switch: what may act alone, and who changed it.")
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


@automation_app.command(epilog="Example:  calmon automation status --json")
def status(source: cli.SourceOption = None, json_output: cli.JsonFlag = False) -> None:
    """What may act now, label by label, why, and until when."""
    with cli.monitor(writes=False) as opened:
        cli.check_source(opened.config, source)
        rows = [row for name in opened.config.sources if source in (None, name) for row in status_rows(opened, name)]
    if json_output:
        typer.echo(json.dumps(rows, indent=1))
        return
    table = plain_table("source", "label", "automation", "why", "until", "changed by")
    for row in rows:
        state = "[green]on[/green]" if row["allowed"] else "[red]off[/red]"
        blocked = ", ".join(f"{low:g}..{high:g}" for low, high in row["blocked"])
        if row["allowed"] and blocked:
            state = f"[yellow]on, but for {blocked}[/yellow]"
        source_cell, label_cell, why, by = cli.cells(
            row["source"],
            row["label"] or "(the source)",
            row["why"] if row["reason"] in ("", row["why"]) else f"{row['why']}: {row['reason']}",
            row["by"],
        )
        table.add_row(source_cell, label_cell, state, why, row["until"] or "", by)
    cli.out.print(table if rows else "no label is known yet; the first run finds them")


def status_rows(opened: Monitor, source: str) -> list[dict[str, Any]]:
    """The switch of every known label of one source, as plain data."""
    whole = opened.store.switch(source, None)
    labels = [label for label in known_labels(opened, source) if label is not None]
    states = [opened.store.switch(source, label) for label in labels]
    if whole.version:
        states.append(whole)
    return [_status_row(state, whole, opened.clock()) for state in states]


def _status_row(state: SwitchState, whole: SwitchState, now: datetime) -> dict[str, Any]:
    found = effective(state, now, whole=None if state.label is None else whole)
    return {
        "source": state.source, "label": state.label, "state": state.state, "allowed": found.allowed,
        "why": found.reason, "until": found.until.isoformat(timespec="minutes") if found.until else None,
        "blocked": [list(r) for r in found.blocked], "by": state.actor, "reason": state.reason,
        "verdict": state.verdict,
    }  # fmt: skip


@automation_app.command(
    epilog="Example:  calmon automation enable --source tickets --label billing --reason 'retrained'"
)
def enable(
    reason: ReasonOption,
    source: cli.SourceOption = None,
    label: cli.LabelOption = None,
    every: AllFlag = False,
    until: UntilOption = None,
    by: cli.ByOption = None,
) -> None:
    """Let labels act alone again. It holds against runs until --until, except for critical labels."""
    _change(enable=True, reason=reason, source=source, label=label, every=every, until=until, by=by)


@automation_app.command(epilog="Example:  calmon automation disable --all --reason 'model is being replaced'")
def disable(
    reason: ReasonOption,
    source: cli.SourceOption = None,
    label: cli.LabelOption = None,
    every: AllFlag = False,
    until: OffUntilOption = None,
    by: cli.ByOption = None,
) -> None:
    """Stop labels from acting alone. No run undoes it; after --until, good windows may where re_enable lets them."""
    _change(enable=False, reason=reason, source=source, label=label, every=every, until=until, by=by)


def _change(
    *, enable: bool, reason: str, source: str | None, label: str | None, every: bool, until: str | None, by: str | None
) -> None:
    with cli.monitor(writes=False) as looked_at:  # wrong words must not make a history
        config, actor = looked_at.config, cli.who(by)
        check_words(label, reason, every=every)
        targets = targets_of(looked_at, cli.check_source(config, source), label, enable=enable)
        hold = cli.moment(until, config)
        check_change(config, enable=enable, by=actor, reason=reason, until=hold)
    with cli.monitor() as opened:
        for name, each in targets:
            state = change_switch(opened, name, each, enable=enable, by=actor, reason=reason, until=hold)
            cli.out.print(f"{name}/{each if each is not None else '(the source)'}: {state}", markup=False)


def check_words(label: str | None, reason: str, *, every: bool) -> None:
    """Raise UsageError for words that say too little, too much, or nothing."""
    if every == (label is not None):
        raise cli.UsageError("say which: --label L (with --source S where two sources have it), or --all")
    if not reason.strip():
        raise cli.UsageError("--reason may not be empty: the next person wants to know why")
    if label == "":  # as from an unset shell variable: it must never mean every label
        raise cli.UsageError("--label is empty; name the label, or say --all")
    if label is not None and len(label.encode(errors="replace")) > LABEL_BYTES:
        raise cli.UsageError(f"--label is longer than {LABEL_BYTES:,} bytes: rows of such a label are set aside")


def check_change(config: Config, *, enable: bool, by: str, reason: str, until: datetime | None) -> None:
    """Raise UsageError for what the switch itself refuses: a name of blanks, an --until that is over."""
    try:
        operator_change(
            SwitchState("", None), enable=enable, by=by, reason=reason, now=utc_now(), until=until,
            automation=config.automation, key="",
        )  # fmt: skip
    except ValueError as error:
        raise cli.UsageError(str(error)) from error


def targets_of(
    opened: Monitor, asked: list[str] | None, label: str | None, *, enable: bool
) -> list[tuple[str, str | None]]:
    """The switches that are meant: (source, label), where the label None is the source's own."""
    targets = [
        (name, each)
        for name in asked or opened.config.sources
        for each in ([label] if label is not None else switch_labels(opened, name, enable=enable))
        if asked or label is None or each in known_labels(opened, name)
    ]
    if not targets:
        raise cli.UsageError(
            f"no source knows the label {label!r}; add --source S to set it all the same"
            if label
            else "no label is known yet: run `calmon run weekly` once, or give --source and --label"
        )
    return targets


def switch_labels(opened: Monitor, source: str, *, enable: bool) -> list[str | None]:
    """What --all means: every known label; the source's own switch too where it stands at off."""
    labels = [label for label in known_labels(opened, source) if label is not None]
    whole = opened.store.switch(source, None)
    return [*labels, None] if whole.version and enable else [*labels]


@automation_app.command("history", epilog="Example:  calmon automation history --label billing")
def history_command(
    source: cli.SourceOption = None, label: cli.LabelOption = None, json_output: cli.JsonFlag = False
) -> None:
    """Every change of the switch: when, what, who, why."""
    with cli.store() as store:
        events = [e for e in store.switch_events(source=source) if label in (None, e.label)]
    if json_output:
        typer.echo(json.dumps([_event_row(e) for e in events], indent=1))
        return
    table = plain_table("when", "source", "label", "what", "from", "to", "by", "why", "verdict")
    for e in events:
        table.add_row(*cli.cells(f"{e.at:%Y-%m-%d %H:%M}", e.source, e.label or "(the source)", e.kind, e.from_state,
                                 e.to_state, e.actor, e.reason, e.verdict or ""))  # fmt: skip
    cli.out.print(table if events else "no change yet")


def _event_row(event: SwitchEvent) -> dict[str, Any]:
    return {
        "at": event.at.isoformat(), "source": event.source, "label": event.label, "kind": event.kind,
        "from": event.from_state, "to": event.to_state, "by": event.actor, "reason": event.reason,
        "blocked": [list(r) for r in event.blocked], "verdict": event.verdict,
        "lease_until": event.lease_until.isoformat() if event.lease_until else None,
        "until": event.until.isoformat() if event.until else None,
    }  # fmt: skip
