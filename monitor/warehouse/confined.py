"""Restrict DuckDB to reading the database and the files that relations name.

DuckDB's functions read any file of the machine (``read_text('/proc/self/environ')``) and call any web address, and a
relation may be a SELECT. So access outside the database is turned off, except to data files that the relations in
alerts.yaml or views of the database name as a literal. It cannot be turned on again while the database is open.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from glob import escape, glob
from pathlib import Path
from typing import Any

_LITERAL = re.compile(r"'((?:[^']|'')+)'")
_DATA = re.compile(r"[^\x00]*\.(?:parquet|pq|csv|tsv|json|jsonl|ndjson)(?:\.(?:gz|zst))?", re.IGNORECASE)
_WILD = re.compile(r"[*?\[]")
_OFF = ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access")
_ONE_AT_A_TIME = threading.Lock()  # connections to one file share their settings


def named_files(texts: Iterable[str]) -> list[str]:
    """The data files that relations name, by a path or a literal in a SELECT, without web addresses.

    >>> named_files(["exports/*.parquet", "SELECT * FROM read_csv('it''s.csv')", "select read_text('/etc/passwd')"])
    ['exports/*.parquet', "it's.csv"]
    >>> named_files(["SELECT * FROM 'https://example.com/x.csv'", "tickets"])
    []
    """
    found: dict[str, None] = {}
    for text in texts:
        literals = [each.replace("''", "'") for each in _LITERAL.findall(text)]
        for path in (text.strip(), *literals):
            if _DATA.fullmatch(path) and "://" not in path:
                found[path] = None
    return list(found)


def allowed(paths: Iterable[str]) -> list[str]:
    """The paths that DuckDB must be allowed to open: each path itself, and the present matches of a pattern.

    DuckDB takes a name with ``*``, ``?`` or ``[`` for a pattern, so such a name is allowed in its escaped form too.
    """
    found: dict[str, None] = {}
    for path in paths:
        whole = str(Path(path).absolute())
        matches = sorted(glob(whole, recursive=True)) if _WILD.search(path) else []  # noqa: PTH207 - absolute
        named = [each for path in (whole, *matches) for each in (path, escape(path))]
        found |= dict.fromkeys(each for each in named if _DATA.fullmatch(each))
    return list(found)


def confine(connection: Any, relations: Sequence[str]) -> bool:
    """Let a DuckDB connection read only its database and the named files, in UTC.

    Returns whether the same files will do later: False if a pattern may match more files then.
    """
    with _ONE_AT_A_TIME:
        connection.execute("SET TimeZone = 'UTC'")
        if not connection.execute("SELECT current_setting('enable_external_access')").fetchone()[0]:
            return False
        views = connection.execute("SELECT sql FROM duckdb_views() WHERE NOT internal AND sql IS NOT NULL").fetchall()
        named = named_files([*relations, *(sql for (sql,) in views)])
        files = allowed(named)
        listed = ", ".join("'" + path.replace("'", "''") + "'" for path in files)
        connection.execute(f"SET allowed_paths = [{listed}]")
        for name in _OFF:
            connection.execute(f"SET {name} = false")
        return not any(_WILD.search(path) for path in named)
