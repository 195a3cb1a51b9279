"""``calmon db init|upgrade|confirm``: the history database itself."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.adapters import utc_now
from monitor.cli import app as cli
from monitor.history.errors import HistoryLost, StoreMissing
from monitor.history.store import Store

db_app = typer.Typer(no_args_is_help=True, help="The history database.")
cli.app.add_typer(db_app, name="db")

WhyOption = Annotated[str, typer.Option("--reason", help="Why; stored with the history.")]


def store_address() -> str:
    """The address of the history in this environment."""
    return cli.settings().store_url.get_secret_value()


@db_app.command(epilog="Example:  calmon db init")
def init() -> None:
    """Make a new, empty history: also where one was lost for good. One that is there is left as it is.

    Every label is off, and no baseline is pinned. Gates that knew the lost history accept the new one.
    """
    with cli.plain_errors():
        try:
            with Store.from_url(store_address(), create=False, check=False):
                cli.out.print("the history is there already; nothing was changed")
                return
        except (StoreMissing, HistoryLost):
            Store.from_url(store_address(), anew=True).close()
    cli.out.print("a new history was made: every label is off, and no baseline is pinned")


@db_app.command(epilog="Example:  calmon db upgrade")
def upgrade() -> None:
    """Bring the history database to this version's schema. Nothing is lost; run it after an update."""
    with cli.plain_errors(), Store.from_url(store_address(), create=True, check=False) as store:
        before = store.revision()
        store.upgrade()
        after = store.revision()
    cli.out.print(f"the history is at revision {after}" + ("" if before == after else f" (it was {before})"))


@db_app.command(
    epilog="Example:  calmon db confirm --reason 'restored the backup of Sunday; billing was turned off again by hand'"
)
def confirm(reason: WhyOption, by: cli.ByOption = None) -> None:
    """Accept a history that was put back: gates act on it again, those as well that have seen a newer one.

    Look at `calmon automation status` first, and turn off what was turned off since the backup.
    """
    if not reason.strip():
        raise cli.fail("--reason may not be empty: the next person wants to know why", cli.USAGE)
    with cli.plain_errors(), Store.from_url(store_address(), create=False) as store:
        found = store.confirm(why=reason, by=cli.who(by), now=utc_now())
    cli.out.print(f"confirmed: gates accept this history again (epoch {found.mark.epoch})", markup=False)
