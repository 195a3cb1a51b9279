"""What a process of ours has from its machine: variables that libraries read, the terminal's size, the user."""

from __future__ import annotations

import getpass
import os
import re
import sys
from collections.abc import MutableMapping

ANY_NUMBER = "OMP_NUM_THREADS"
LIBRARIES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread(environ: MutableMapping[str, str]) -> None:
    """Set the variables of NumPy's and SciPy's linear algebra, read when NumPy is imported; one that is set stays.

    A second thread mostly waits, but uses a whole processor.
    Sums over 10,001 cells are just long enough to be split among threads. On two busy cores, judging a week of 20
    labels took 25.8 s of processor time with two threads and 4.6 s with one. The last digits would also depend on the
    number of cores.

    >>> environ = {"MKL_NUM_THREADS": "4"}
    >>> one_thread(environ)
    >>> environ
    {'MKL_NUM_THREADS': '4', 'OPENBLAS_NUM_THREADS': '1'}
    """
    if ANY_NUMBER not in environ:
        environ.update({name: "1" for name in LIBRARIES if name not in environ})


def silent_end() -> None:
    """Write nothing more to standard error while the interpreter ends.

    Where a thread of another library outlives the work, DuckDB lists there, in some forty lines, what was not freed.
    """
    if "_duckdb" in sys.modules:
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


LOOPBACK = ("127.0.0.1", "localhost", "::1")


def exempt_loopback(environ: MutableMapping[str, str]) -> None:
    """Keep requests to this machine away from proxies: a proxy elsewhere cannot reach a server on loopback.

    Both spellings of NO_PROXY are set, since libraries prefer one or the other.

    >>> environ = {"HTTP_PROXY": "http://proxy.example:8080", "NO_PROXY": "intranet.example"}
    >>> exempt_loopback(environ)
    >>> environ["no_proxy"]
    'intranet.example,127.0.0.1,localhost,::1'
    """
    named = [name.strip() for name in (environ.get("no_proxy") or environ.get("NO_PROXY") or "").split(",")]
    if "*" not in named:
        named = [name for name in named if name] + [name for name in LOOPBACK if name not in named]
    environ["no_proxy"] = environ["NO_PROXY"] = ",".join(named)


SIZES = ("COLUMNS", "LINES", "TERMINAL_WIDTH")
"""The variables that Rich and Typer read. Each of the two fails at some odd value."""
_SIZE = re.compile("0*[1-9][0-9]{0,4}", re.ASCII)


def size_of(text: str) -> int | None:
    r"""The size; None for what is no positive whole number, or larger than any terminal.

    >>> [size_of(text) for text in ("80", "", "0", "-80", "abc", "1e3", "\u00b2", "9" * 5000)]
    [80, None, None, None, None, None, None, None]
    """
    return int(text) if _SIZE.fullmatch(text) else None


def drop_odd_sizes(environ: MutableMapping[str, str]) -> None:
    """Remove the variables that have no usable size.

    >>> environ = {"COLUMNS": "1e3", "LINES": "24"}
    >>> drop_odd_sizes(environ)
    >>> environ
    {'LINES': '24'}
    """
    for name in SIZES:
        if name in environ and size_of(environ[name]) is None:
            del environ[name]


UNKNOWN = "unknown"


def system_user() -> str:
    """The name of the system's user; "unknown" for a user without one, as in many containers."""
    try:
        return getpass.getuser().strip() or UNKNOWN
    except (KeyError, OSError):
        return UNKNOWN
