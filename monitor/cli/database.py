"""``calmon db upgrade|check|backup|restore|confirm|prune``: the history database itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli import common as cli
from monitor.context import utc_now
from monitor.core.wording import count_of
from monitor.history import archive
from monitor.history.errors import HistoryLost, StoreMissing
from monitor.history.store import Store
from monitor.report.csv_table import Table

if TYPE_CHECKING:
    from monitor.operations.prune import Pruned

db_app = typer.Typer(no_args_is_help=True, help="The history database.")
cli.app.add_typer(db_app, name="db")

WhyOption = Annotated[str, typer.Option("--reason", help="Why; stored with the history.")]


def _opened(*, new: bool) -> Store:
    try:
        return Store.from_url(cli.store_address(), create=not new, check=False)
    except (HistoryLost, StoreMissing):
        if not new:
            raise
        return Store.from_url(cli.store_address(), anew=True)


@db_app.command(epilog="Example:  calmon db upgrade")
def upgrade(
    *, new: Annotated[bool, typer.Option("--new", help="Make a new history where one was lost for good.")] = False
) -> None:
    """Bring the history database to this version's schema. Nothing is lost; run it after an update.

    With --new, every label of a new history is off, no baseline is pinned, and gates that knew the lost one accept it.
    A history that is there stays.
    """
    with _opened(new=new) as store:
        before = store.revision()
        store.upgrade()
        after = store.revision()
    cli.say(f"the history is at revision {after}" + ("" if before == after else f" (it was {before})"))


@db_app.command(
    epilog="Example:  calmon db confirm --reason 'restored the backup of Sunday; billing was turned off again by hand'"
)
def confirm(reason: WhyOption, by: cli.ByOption = None) -> None:
    """Accept a history that was put back: gates act on it again, those as well that have seen a newer one.

    Look at `calmon automation status` first, and turn off what was turned off since the backup.
    """
    cli.check_reason(reason)
    with cli.existing_store() as store:
        before = store.identity()
        found = store.confirm(why=reason, by=cli.who(by), now=utc_now())
    again = "again"
    if before.confirmed and not before.went_back:
        again = "also where they have seen a newer one; it was confirmed already"
    cli.say(f"confirmed: gates accept this history {again} (epoch {found.mark.epoch})")


@db_app.command(epilog="Examples:  calmon db backup backups/history-2026-11-22.sqlite")
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file; SQLite, whatever the engine.")],
) -> None:
    """Copy the whole history into one file, while it is in use. alerts.yaml and reports are not in it."""
    if file.exists():
        raise cli.UsageError(f"{file} is there already; choose another name")
    archive.backup(cli.store_address(), file)
    cli.say(f"the history was copied to {file} ({file.stat().st_size / 2**20:.1f} MiB)")


@db_app.command(
    epilog="Example:  calmon db restore backups/history-2026-11-22.sqlite --reason 'the disk was damaged' --by ann"
)
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of `calmon db backup`.")],
    reason: WhyOption,
    by: cli.ByOption = None,
) -> None:
    """Put a backup in the place of the history, all or nothing. Every gate is closed until `calmon db confirm`.

    It may be in use meanwhile. What was turned off since the backup is on again in it: hence the confirmation.
    """
    cli.check_reason(reason)
    archive.restore(cli.store_address(), file, by=cli.who(by), reason=reason, now=utc_now())
    next_step = "Compare `calmon automation status` with what should be on, then `calmon db confirm --reason TEXT`"
    cli.say(f"restored from {file}. Every gate is closed. {next_step}")


@db_app.command(epilog="Examples:  calmon db check  ·  calmon db check --json  ·  calmon db check --schema")
def check(
    json_output: cli.JsonFlag = False,
    only_schema: Annotated[
        bool, typer.Option("--schema", help="Only whether its tables are those of this version: what commands need.")
    ] = False,
) -> None:
    """Whether the history can be read whole, which one it is, and how many rows it has. Exit 1: something is wrong."""
    if only_schema:  # exit 1 for a history that is missing, or has another revision
        with cli.existing_store() as store:
            revision = store.revision()
        typer.echo(json.dumps({"revision": revision}) if json_output else f"schema revision {revision}")
        return
    found = archive.check(cli.store_address())
    if json_output:
        cli.print_json(asdict(found))
    else:
        mark, text = found.identity.mark if found.identity else None, f"schema revision {found.revision}"
        text += f", history {mark.history}, epoch {mark.epoch}, version {mark.version}" if mark else ""
        if found.revision is not None:
            cli.say(text)
        for name, rows in found.rows.items():
            cli.say(f"{name}: {count_of(rows, 'row')}")
        for problem in found.problems:
            cli.warn(problem, style="red")
    if found.problems:
        raise typer.Exit(cli.FAILED)


@db_app.command("prune", epilog="Examples:  calmon db prune --dry-run  ·  calmon db prune")
def prune_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    json_output: cli.JsonFlag = False,
) -> None:
    """Remove what is old and only describes: counts, further estimates, examples of rejected rows.

    How old say `keep_details` and `keep_day_counts` under `history` in alerts.yaml. Verdicts, switches, incidents,
    messages, baselines and the estimates that rules judge stay for good. Where much of a SQLite file is free then, it
    is written anew.
    """
    from monitor.operations.prune import prune  # noqa: PLC0415 - brings SciPy, which the other commands never need

    configured = cli.configuration()
    with cli.existing_store() as store:
        found = prune(store, configured, utc_now(), dry_run=dry_run)
    if json_output:
        removed = asdict(found.removed) | Table.of([found], "dry_run", "shrunk", "in_the_way").documents[0]
        spans = {"details_from": dict(found.keep.details_from), "counts_from": dict(found.keep.counts_from)}
        cli.print_json(removed | {"bytes_before": found.before, "bytes_after": found.after} | spans)
    else:
        for line in pruned_lines(found, configured.zone):
            cli.say(line)


def pruned_lines(found: Pruned, zone: tzinfo) -> Iterator[str]:
    """The lines that `calmon db prune` prints; dates are those of ``zone``, in which windows begin."""
    keep, removed = found.keep, found.removed
    details, counts = (
        ", ".join(f"{schedule} {start.astimezone(zone):%Y-%m-%d}" for schedule, start in starts.items())
        for starts in (keep.details_from, keep.counts_from)
    )
    yield f"details are kept of windows from: {details}; counts of those from: {counts}"
    verb = "would be removed" if found.dry_run else "removed"
    what = {
        f"counts of labels ({removed.bytes_of_counts / 2**20:,.1f} MiB)": removed.counts,
        "further estimates": removed.estimates,
        "shift tests": removed.shift_tests,
        "lists of rejected rows' examples": removed.examples,
    }
    yield f"{verb}, of {count_of(removed.windows, 'window')}: " + ", ".join(
        f"{count:,} {name}" for name, count in what.items()
    )
    size = f"the history takes {found.after / 2**20:,.1f} MiB"
    if not found.dry_run:
        size += f" (it was {found.before / 2**20:,.1f})" + (", its file was written anew" if found.shrunk else "")
    yield size
    if found.in_the_way:
        yield f"{found.in_the_way}; its free space is used by the next windows"
