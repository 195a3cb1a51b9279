"""The line of names of a CSV file: which line it is, how it is divided, and what the columns are called.

What comes before it is no data: blank lines, a title (a line of one field), remarks that begin with ``#``, and the line
``sep=;`` in which Excel finds the separator.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from monitor.warehouse.relation import UnreadableFile

QUOTED = "put a value that has the separator or a line break in quotes"
SEPARATORS = (",", ";", "\t", "|")
_STATED = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
_MOST_BEFORE = 100
"""A title, remarks and blank lines are at most this many lines."""
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Header:
    """How the names of a file are separated, what its columns are called, and how many lines come before."""

    separator: str
    names: tuple[str, ...]
    before: int = 0


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Raise :class:`UnreadableFile` for a file that cannot be opened, or is no whole gzip file."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        what = getattr(error, "strerror", None) or "it is no gzip file, or a damaged one"
        remedy = "write the file again, or give the monitor the right to read it"
        raise UnreadableFile(f"{path} cannot be opened: {what}", remedy) from error


def opened(path: str) -> IO[bytes]:
    """A file, unpacked if it is one of gzip."""
    return gzip.open(path, "rb") if path.lower().endswith(".gz") else Path(path).open("rb")  # type: ignore[return-value]


def header_of(path: str, lines: Sequence[str]) -> Header | None:
    """The line of names among the first lines of a file; None if all are blank. Raises :class:`UnreadableFile`.

    >>> header_of("x.csv", ["Export of May", "", 'item;"label, or none";score', "t1;refund;0,9"])
    Header(separator=';', names=('item', 'label, or none', 'score'), before=2)
    >>> header_of("x.csv", ["# of today", "id,score,score,", "t1,0.9,0.8,"]).names
    ('id', 'score (1)', 'score (2)', 'column3')
    """
    separators: Sequence[str] = SEPARATORS
    for place, line in enumerate(lines[:_MOST_BEFORE]):
        stated = _STATED.fullmatch(line.strip())
        if stated is not None:
            separators = stated[1]
        elif line.strip() and not _is_remark(lines[place:], separators):
            separator, names = _divided(lines[place:], separators)
            if sum(bool(name) for name in names) > 1:
                if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in "".join(names)):
                    raise not_in_utf8(f"line {place + 1} of {path}")
                # of a column without a name its place, of several with one name that and a number each
                named = [name or f"column{at}" for at, name in enumerate(names)]
                times, seen = Counter(name.casefold() for name in named), Counter[str]()
                for at, name in enumerate(named):
                    seen[name.casefold()] += 1
                    if times[name.casefold()] > 1:
                        named[at] = f"{name} ({seen[name.casefold()]})"
                return Header(separator, tuple(named), place)
    some = next((line for line in lines if line.strip()), None)
    if some is None:
        return None
    remedy = "the first line names the columns, separated by comma, semicolon, tab or |"
    raise UnreadableFile(f"{path} has no line of names: it begins with {_shortened(some)}", remedy)


def misnamed(path: str, header: Header, first: int) -> UnreadableFile:
    """The error that most lines of a file have more values than there are names; ``first`` is the first of them."""
    names = _shortened(header.separator.join(header.names))
    what = f"most lines of {path} have more fields than its line of names, {names}: the first is line {first}"
    return UnreadableFile(what, f"remove lines before the names, name all columns, and {QUOTED}")


def not_in_utf8(where: str, convert: str = "iconv -f latin1 -t utf-8", encoding: str = "Latin-1") -> UnreadableFile:
    """The error that a file, or a line of it, is not in UTF-8."""
    remedy = f"write the file in UTF-8 (if it is in {encoding}: {convert})"
    return UnreadableFile(f"{where} is not in UTF-8", remedy)


def _shortened(line: str) -> str:
    """A line as it is shown in an error."""
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _divided(lines: Sequence[str], separators: Sequence[str]) -> tuple[str, list[str]]:
    """The separator that divides the first line into most fields, and these."""
    fields = {separator: _fields(lines, separator) for separator in separators}
    most = max(fields, key=lambda separator: len(fields[separator]))
    return most, fields[most]


def _fields(lines: Sequence[str], separator: str) -> list[str]:
    """The fields of the first line, which goes on in the next one if a quoted name has a line break."""
    try:
        return [field.strip() for field in next(csv.reader((f"{line}\n" for line in lines), delimiter=separator), [])]
    except csv.Error:  # a field that is longer than any name
        return []


def _is_remark(lines: Sequence[str], separators: Sequence[str]) -> bool:
    """Whether the first line begins with # and has not as many fields as the first line after it without."""
    if not lines[0].startswith("#"):
        return False
    rest = next((lines[at:] for at, line in enumerate(lines) if line.strip() and not line.startswith("#")), None)
    if rest is None:
        return False
    separator, fields = _divided(rest, separators)
    return len(_fields(lines, separator)) != len(fields)
