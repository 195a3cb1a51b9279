"""What the monitor's role may do in PostgreSQL beyond reading: for ``calmon check``.

A reading is a read-only transaction, so a relation changes no rows. But a SELECT may call functions with effects that
a transaction neither undoes nor forbids: ending sessions, taking locks, reading files of the server.
docs/warehouse-roles.md has a role that may do none of this.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from monitor.core.wording import and_more

NAMED = 5
POWERS = {
    "rolsuper": "is a superuser",
    "rolcreaterole": "may create roles",
    "rolcreatedb": "may create databases",
    "rolreplication": "may replicate",
    "rolbypassrls": "bypasses row security",
}
GROUPS = (
    "pg_read_server_files",
    "pg_write_server_files",
    "pg_execute_server_program",
    "pg_signal_backend",
    "pg_write_all_data",
    "pg_maintain",
    "pg_checkpoint",
    "pg_create_subscription",
)
EFFECTFUL = (
    "pg_terminate_backend", "pg_cancel_backend", "pg_sleep", "pg_sleep_for", "pg_sleep_until", "pg_notify",
    "pg_advisory_lock", "pg_advisory_lock_shared", "pg_advisory_xact_lock", "pg_advisory_xact_lock_shared",
    "pg_try_advisory_lock", "pg_try_advisory_lock_shared", "pg_try_advisory_xact_lock",
    "pg_try_advisory_xact_lock_shared", "pg_read_file", "pg_read_binary_file", "pg_ls_dir", "pg_reload_conf",
    "pg_switch_wal", "pg_log_backend_memory_contexts", "lo_import", "lo_export", "dblink", "dblink_exec",
    "dblink_connect",
)  # fmt: skip
"""Names of functions with effects. Every role may call most of them unless that is revoked."""

_POWERS = sa.text(f"SELECT {', '.join(POWERS)} FROM pg_catalog.pg_roles WHERE rolname = current_user")
_GROUPS = sa.text(
    "SELECT rolname FROM pg_catalog.pg_roles WHERE rolname = ANY(:names) AND pg_has_role(current_user, oid, 'MEMBER') "
    "ORDER BY rolname"
)
_CREATE = sa.text(
    "SELECT 'database ' || current_database() WHERE has_database_privilege(current_database(), 'CREATE') UNION ALL "
    "SELECT 'schema ' || nspname FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_' AND "
    "has_schema_privilege(oid, 'CREATE') ORDER BY 1"
)
_WRITE = sa.text(
    "SELECT c.oid::regclass::text FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = "
    "c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> "
    "'information_schema' AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE') ORDER BY 1"
)
_CALL = sa.text(
    "SELECT DISTINCT proname::text FROM pg_catalog.pg_proc WHERE proname = ANY(:names) AND "
    "has_function_privilege(oid, 'EXECUTE') ORDER BY 1"
)


def beyond_select(connection: sa.Connection) -> list[str]:
    """What the role of this connection may do beyond SELECT, in words; empty for the documented role."""
    powers = connection.execute(_POWERS).mappings().one()
    powers_held = [words for name, words in POWERS.items() if powers[name]]
    if powers["rolsuper"]:
        return [POWERS["rolsuper"]]  # who may do everything else
    return [*powers_held, *_granted(connection)]


def _granted(connection: sa.Connection) -> Iterator[str]:
    checks = (
        (_GROUPS, GROUPS, "is a member of"),
        (_CREATE, None, "may create in"),
        (_WRITE, None, "may write to"),
        (_CALL, EFFECTFUL, "may call functions with effects:"),
    )
    for statement, names, words in checks:
        rows = connection.execute(statement, {} if names is None else {"names": list(names)})
        found = [str(name) for (name,) in rows]
        if found:
            yield f"{words} {and_more(found, NAMED)}"
