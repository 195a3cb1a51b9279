"""``calmon annotations add|list|remove``."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from monitor.cli import common as cli
from monitor.context import utc_now
from monitor.core.records import Subject
from monitor.history.store import Store
from monitor.history.values import ANY
from monitor.operations import annotate as notes
from monitor.operations.change_switch import check_label
from monitor.report.csv_table import Table

NONE_YET = "no annotation yet; `calmon annotations add` adds one"

annotations_app = typer.Typer(no_args_is_help=True, help="Notes at a time of a source or label, shown on every axis.")
cli.app.add_typer(annotations_app, name="annotations")


@annotations_app.command(
    epilog="Examples:  calmon annotations add --source tickets --at 2026-W40 'prompt v7'  ·  "
    "calmon annotations add --source tickets --label billing --at 2026-09-30T14:00 'new form went live'"
)
def add(
    text: Annotated[str, typer.Argument(help="What happened, in a few words.")],
    source: Annotated[str, typer.Option(help="The source that it is about.")],
    label: Annotated[str | None, typer.Option(help="The label; default: all labels of the source.")] = None,
    at: Annotated[
        str | None, typer.Option(help="When, like 2026-09-30T14:00, 2026-09-30 or 2026-W40; default: now.")
    ] = None,
    by: cli.ByOption = None,
) -> None:
    """Note what happened at a time; it is shown on every axis of the dashboard."""
    with cli.monitor(reads=False) as opened:
        cli.check_source(opened.config, source)
        if label is not None:
            check_label(opened, source, label)
        when = cli.moment(at, opened.config) or utc_now()
        requested = notes.NewAnnotation(source, label, when, text, cli.who(by))
        stored, _ = notes.annotate(opened.store, requested, opened.clock)
        at_text = cli.stated(stored.at, opened.config.zone)
    cli.say(f"noted as {stored.id} at {at_text}: {Subject(source, label).name}")


@annotations_app.command(
    "list", epilog="Examples:  calmon annotations list  ·  calmon annotations list --source tickets --all --json"
)
def list_command(
    source: cli.SourceOption = None,
    label: Annotated[str | None, typer.Option(help="Only of this label and of its whole source.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Removed ones too, with who removed them and why.")] = False,
    json_output: cli.JsonFlag = False,
) -> None:
    """Annotations by time."""
    with cli.store() as store:
        found = store.annotations(source, ANY if label is None else label, removed=every)
        nothing = "" if found else _why_nothing(store, source)
    if json_output:
        whose = ("added_by", "removed_by", "removed_reason")
        cli.print_json(
            Table.of(found, "id", "source", "label", "text", *whose, "at", "added_at", "removed_at").documents
        )
        return
    stated = partial(cli.stated, zone=cli.zone_of_history())
    rows = []
    for each in found:
        about, removed = Subject(each.source, each.label).name, ""
        if each.removed_at is not None:
            removed = f"{stated(each.removed_at)} by {each.removed_by}: {each.removed_reason}"
        rows.append((each.id[:8], stated(each.at), about, each.text, each.added_by, stated(each.added_at), removed))
    cli.print_table(("id", "at", "about", "text", "by", "added", "removed"), rows, nothing=nothing)


def _why_nothing(store: Store, source: str | None) -> str:
    """Why no annotation was found. Raises UsageError for an unknown source."""
    every = store.annotations(removed=True)
    if source not in {each.source for each in every}:
        cli.check_stored_source(store, source)
    return "no such annotation; `calmon annotations list --all` shows removed ones, too" if every else NONE_YET


@annotations_app.command("remove", epilog="Example:  calmon annotations remove 4f1c9a02 --reason 'wrong week'")
def remove_command(
    id: Annotated[str, typer.Argument(metavar="ID", help="The annotation's id, or how it begins.")],
    reason: Annotated[str, typer.Option(help="Why; it stays stored with the annotation.")],
    by: cli.ByOption = None,
) -> None:
    """Take an annotation away from every axis. It stays stored with who removed it, when and why."""
    with cli.monitor(reads=False) as opened:
        removed, already = notes.remove(opened.store, id, by=cli.who(by), reason=reason, clock=opened.clock)
    cli.say(f"{removed.id}: {'already removed by ' + str(removed.removed_by) if already else 'removed'}")
