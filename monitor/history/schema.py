"""Read the schema revision of the tables, and upgrade them with Alembic.

Alembic takes long to import, so it is imported only where tables are created, upgraded or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from monitor.history import identity, tables
from monitor.history.connect import for_reading, for_writing, one_at_a_time, open_engine, store_url
from monitor.history.errors import HistoryError, NoRight, SchemaOutdated, StoreUnreachable
from monitor.history.reader import REVISION, VERSION_TABLE, revision, revision_of

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

LOCK = "schema"
"""The lock that changes of the tables take alone, and transactions that write rows share."""


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


def refuse_changed(connection: Connection) -> None:
    """Raise :class:`SchemaOutdated` if the tables, which were this program's, have another revision now."""
    refuse_other_revision(str(revision(connection)))


def refuse_other_revision(found: str) -> None:
    """Raise :class:`SchemaOutdated`, with the remedy, unless ``found`` is this program's revision."""
    if found == REVISION:  # the usual case; asking Alembic for the newest reads every migration
        return
    remedy = "run `calmon db upgrade`" if found in _known() else "it was written by another version: install that one"
    raise SchemaOutdated(f"the history is at schema revision {found}, this program needs {REVISION}; {remedy}")


# What the role or the server of a PostgreSQL history may not do, and what its owner must grant


_REFUSED = frozenset({"42501", "3F000"})
"""SQLSTATE of a right that is missing, and of a session without a schema in which it may create tables."""
_IS_READ_ONLY = "25006"
_READ_ONLY = frozenset({_IS_READ_ONLY, "0A000", "55000"})
"""SQLSTATE of a change on a server that takes none; the last two have other causes too."""
_RIGHTS = text(
    "SELECT quote_ident(current_user) AS role, quote_ident(current_schema()) AS schema, "
    "coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS creates, "
    "current_setting('search_path') AS path"
)
_OWNER = text(
    "SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_catalog.pg_class "
    "WHERE oid = to_regclass(:table) AND NOT pg_has_role(current_user, relowner, 'USAGE')"
)
_ANY_TABLE = tables.runs.name
_WRITES = text("SELECT has_table_privilege(to_regclass(:table), 'INSERT')")
_TABLES = text(
    "SELECT quote_ident(current_user), quote_ident(nspname), quote_ident(pg_get_userbyid(relowner)) "
    "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace "
    "WHERE c.oid = to_regclass(:table)"
)


def missing_right(connection: Connection, table: str) -> str | None:
    """Why the role may not create or change the tables, and what to grant; None if it may, and in SQLite.

    ``table`` is one of the history's tables, which may not exist yet.
    """
    if connection.dialect.name != "postgresql":
        return None
    role, schema, creates, path = connection.execute(_RIGHTS).one()
    owner = connection.execute(_OWNER, {"table": table}).scalar()
    if owner is not None:
        what = f"the tables of the history belong to the role {owner}, and the role {role} may not change them"
        return f"{what}; run `calmon db upgrade` as {owner}, or as a superuser: GRANT {owner} TO {role}"
    if schema is None:
        what = f"the role {role} may use no schema of its search_path ({path}), so it may not create the history there"
        return f"{what}; as the owner of the schema: GRANT USAGE, CREATE ON SCHEMA public TO {role}"
    if creates:
        return None
    what = f"the role {role} may not create tables in the schema {schema}, where the history would be"
    return f"{what}; as the owner of the schema: GRANT CREATE ON SCHEMA {schema} TO {role}"


def missing_grant(connection: Connection) -> str | None:
    """Which rights on the tables the role needs, and who may grant them; None if there are no tables."""
    found = connection.execute(_TABLES, {"table": _ANY_TABLE}).first()
    if found is None:
        return None
    role, schema, owner = found
    rows = f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}"
    numbers = f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}"
    return f"the role {role} may not use the tables of the history as calmon does; as {owner}: {rows}; {numbers}"


def only_reads(connection: Connection) -> str | None:
    """Which rights the role lacks to write into the tables; None if it has them, and in SQLite."""
    if connection.dialect.name != "postgresql" or connection.scalar(_WRITES, {"table": _ANY_TABLE}) is not False:
        return None
    return missing_grant(connection)


@contextmanager
def explained(engine: Engine, missing: Callable[[Connection], str | None]) -> Iterator[None]:
    """Raise a HistoryError where PostgreSQL refuses a statement for what the role, or the server, may not do.

    That is :class:`NoRight`, with what is ``missing``, and :class:`StoreUnreachable` for a server that takes no
    changes: it may take them soon, after a failover.
    """
    try:
        yield
    except DBAPIError as error:
        refusal = _refusal(engine, error, missing)
        if refusal is None:
            raise
        raise refusal from error


def _refusal(engine: Engine, error: DBAPIError, missing: Callable[[Connection], str | None]) -> HistoryError | None:
    state, cause = getattr(error.orig, "sqlstate", None), (str(error.orig).strip().splitlines() or [""])[0]
    if state not in _REFUSED | _READ_ONLY:
        return None
    with for_reading(engine).connect() as connection:  # the failed transaction answers nothing more
        if state in _REFUSED:
            why = missing(connection)
            return NoRight(f"{cause}: {why}" if why else f"the history's database refuses: {cause}")
        replica = identity.replica_refusal(connection)
    unwritable = StoreUnreachable(f"the history's database takes no changes: {cause}")
    return replica or (unwritable if state == _IS_READ_ONLY else None)
