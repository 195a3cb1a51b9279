"""What the role of a PostgreSQL history may not do, and what its owner must grant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import ProgrammingError

from monitor.history.errors import NoRight

_REFUSED = frozenset({"42501", "3F000"})
"""SQLSTATE of a right that is missing, and of a session without a schema in which it may create tables."""
_RIGHTS = text(
    "SELECT quote_ident(current_user) AS role, quote_ident(current_schema()) AS schema, "
    "coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS creates, "
    "current_setting('search_path') AS path"
)
_OWNER = text(
    "SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_catalog.pg_class "
    "WHERE oid = to_regclass(:table) AND NOT pg_has_role(current_user, relowner, 'USAGE')"
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


@contextmanager
def explained(engine: Engine, table: str) -> Iterator[None]:
    """Raise :class:`NoRight` where a change of the tables fails for a right that the role does not have."""
    try:
        yield
    except ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) not in _REFUSED:
            raise
        with engine.connect() as connection:  # the failed transaction answers nothing more
            why = missing_right(connection, table)
        raise NoRight(why or f"the history's database refuses: {str(error.orig).strip().splitlines()[0]}") from error
