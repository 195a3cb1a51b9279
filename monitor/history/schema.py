"""Read the schema revision of the tables, and upgrade them with Alembic.

Alembic takes long to import, so it is imported only where tables are created, upgraded or refused.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, inspect, text

from monitor.history import identity
from monitor.history.connect import beside_others, for_writing, one_at_a_time, open_engine, store_url
from monitor.history.errors import SchemaOutdated
from monitor.history.reader import REVISION
from monitor.history.rights import explained, missing_right

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

# Not Alembic's default name: a Prefect server in the same database has a table of that name.
VERSION_TABLE = "calmon_revision"
LOCK = "schema"
"""The lock that changes of the tables take alone, and transactions that write rows share."""
_STORED = text(f"SELECT version_num FROM {VERSION_TABLE}")


def alembic_config(connection: Connection | None = None) -> Config:
    """The Alembic configuration of the migrations in the installed package. It needs no file."""
    from alembic.config import Config  # noqa: PLC0415 - see above

    config = Config()
    config.set_main_option("script_location", "monitor.history:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def head() -> str:
    """The newest revision, which this program writes."""
    (revision,) = _scripts().get_heads()
    return revision


def revision_of(connection: Connection) -> str | None:
    """The revision of the tables; None if there are no tables."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found: str | None = connection.execute(_STORED).scalar_one_or_none()
    return found


def creation_refused(url: str) -> str | None:
    """Why the role of an address may not create a history there, and what to grant; None if it may, and for SQLite.

    Raises sqlalchemy's errors where the database does not answer.
    """
    address = store_url(url)
    if address.get_backend_name() != "postgresql":
        return None
    engine = open_engine(address)
    try:
        with engine.connect() as connection:
            return missing_right(connection, VERSION_TABLE)
    finally:
        engine.dispose()


def upgrade(engine: Engine, *, by_operator: bool = False) -> None:
    """Upgrade the tables to :func:`head`, all or nothing. A second caller waits and finds it done.

    ``by_operator``: if the tables are created now, gates accept this history in the place of another one. Raises
    :class:`~monitor.history.errors.NoRight` where the role may not create or change tables, and StoreUnreachable for a
    read replica.
    """
    from alembic import command  # noqa: PLC0415 - see above

    with explained(engine, partial(missing_right, table=VERSION_TABLE)), for_writing(engine).begin() as connection:
        one_at_a_time(connection, LOCK)
        found = revision_of(connection)
        if found is not None and found not in _known():
            refuse_other_revision(found)
        is_new = found is None
        command.upgrade(alembic_config(connection), "head")
        if is_new and by_operator:
            identity.vouch(connection)


def _known() -> set[str]:
    """The revisions that this program can read or upgrade."""
    return {script.revision for script in _scripts().walk_revisions()}


def _scripts() -> ScriptDirectory:
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - see above

    return ScriptDirectory.from_config(alembic_config())


def keep_unchanged(connection: Connection) -> None:
    """Keep other programs from upgrading the tables until the end of this transaction; waits for one that does so now.

    Called before :func:`refuse_changed`: else an upgrade could come between that check and the rows that are written.
    """
    beside_others(connection, LOCK)


def refuse_changed(connection: Connection) -> None:
    """Raise :class:`SchemaOutdated` if the tables, which were this program's, have another revision now."""
    refuse_other_revision(str(connection.execute(_STORED).scalar_one_or_none()))


def refuse_other_revision(found: str) -> None:
    """Raise :class:`SchemaOutdated`, with the remedy, unless ``found`` is this program's revision."""
    if found == REVISION:  # the usual case; asking Alembic for the newest reads every migration
        return
    remedy = "run `calmon db upgrade`" if found in _known() else "it was written by another version: install that one"
    raise SchemaOutdated(f"the history is at schema revision {found}, this program needs {REVISION}; {remedy}")
