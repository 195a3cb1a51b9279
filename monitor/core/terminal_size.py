"""The size of a terminal as environment variables have it. A stop must work whatever they say."""

from __future__ import annotations

import re
from collections.abc import MutableMapping

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
