"""The tokens of the HTTP service: who may read, turn off, turn on. Only the standard library.

One line for each token: ``name sha256:HASH scope[,scope]``; empty lines and lines that begin with ``#`` are
skipped. A token is 256 random bits, so it cannot be guessed, and no dictionary has it: a plain
SHA-256 is enough, and the slow hashes made for passwords would only make every request slow.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

Scope: TypeAlias = Literal["read", "disable", "enable", "annotate"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
PREFIX = "calmon_"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HASH = re.compile(r"sha256:([0-9a-f]{64})")
# 43 characters: the random part, with any prefix
_LOOKS_LIKE_ONE = re.compile(rf"({PREFIX})[A-Za-z0-9_-]+|[A-Za-z0-9_-]{{43,}}")
_OTHERS = 0o006
LARGEST_FILE = 1_000_000


class TokensBroken(Exception):
    """The tokens file cannot be used; the message names file and line, never a token or a hash."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the file: a name, the SHA-256 of its token (hex), and what it may do."""

    name: str
    digest: str
    scopes: frozenset[Scope]

    def line(self) -> str:
        """The line of the file.

        >>> Entry("router", "0" * 64, frozenset({"read"})).line().split()[::2]
        ['router', 'read']
        """
        return f"{self.name} sha256:{self.digest} {','.join(s for s in SCOPES if s in self.scopes)}\n"


def new_token() -> str:
    """A token nobody can guess: 256 random bits, with a prefix by which scanners for leaked secrets recognise it."""
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    """The SHA-256 of a token (hex), which the file stores.

    >>> digest_of("calmon_example")[:8]
    'adda3448'
    """
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def hidden(text: str) -> str:
    """``text`` without what looks like a token, for logs.

    >>> hidden("GET /v1/automation/calmon_abc-123_x/billing")
    'GET /v1/automation/calmon_***/billing'
    """
    return _LOOKS_LIKE_ONE.sub(r"\1***", text)


def parse(text: str) -> tuple[Entry, ...]:
    """The entries of a tokens file. Raises :class:`TokensBroken` with the line that is wrong.

    >>> parse("# who asks\\nrouter sha256:" + "0" * 64 + " read\\n")[0].name
    'router'
    """
    entries: dict[str, Entry] = {}
    digests: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        entry = _entry(line, number)
        if entry.name in entries or entry.digest in digests:
            raise TokensBroken(f"line {number}: the name or the hash is there twice")
        entries[entry.name] = entry
        digests.add(entry.digest)
    return tuple(entries.values())


def _entry(line: str, number: int) -> Entry:
    name, digest, scopes = (*line.split(), "", "", "")[:3]
    found = _HASH.fullmatch(digest)
    if len(line.split()) != 3 or not NAME.fullmatch(name) or not found:
        raise TokensBroken(f"line {number}: write NAME sha256:HASH SCOPES, as `calmon automation token` does")
    requested = scopes.split(",")
    if not set(requested) <= set(SCOPES):
        raise TokensBroken(f"line {number}: a scope is one of {', '.join(SCOPES)}, with commas between them")
    return Entry(name, found[1], frozenset(s for s in SCOPES if s in requested))


def entry_of(entries: Sequence[Entry], token: str) -> Entry | None:
    """The entry of a token. Compares with every entry in constant time, so that the time reveals nothing."""
    digest, found = digest_of(token), None
    for entry in entries:
        if hmac.compare_digest(entry.digest, digest):
            found = entry  # no early exit
    return found


class TokensFile:
    """The file of tokens, read at every request: it is small.

    A revoked token ends with the next request; a broken file refuses everything until it is fixed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self) -> tuple[Entry, ...]:
        """The tokens as they are now. Raises :class:`TokensBroken`."""
        try:
            with self.path.open("rb") as file:
                content = file.read(LARGEST_FILE + 1)
        except OSError as error:
            raise TokensBroken(f"{self.path}: cannot be read: {error.strerror}") from error
        if len(content) > LARGEST_FILE:
            raise TokensBroken(f"{self.path}: is larger than {LARGEST_FILE:,} bytes")
        try:
            return parse(content.decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise TokensBroken(f"{self.path}: is not UTF-8 text") from None
        except TokensBroken as broken:
            raise TokensBroken(f"{self.path}: {broken}") from None

    def warning(self) -> str | None:
        """The warning that everybody may read or write the file; None if only its owner may. Raises OSError."""
        text = f"{self.path} can be read or written by everybody on this machine; run: chmod o-rw {self.path}"
        return text if self.path.stat().st_mode & _OTHERS else None

    def add(self, name: str, scopes: frozenset[Scope]) -> str:
        """Append a new entry, create the file where there is none, and return the token, which is stored nowhere.

        Raises :class:`TokensBroken` for a file that cannot be used, ValueError for a bad name or one that exists.
        """
        if not NAME.fullmatch(name):
            raise ValueError("a name is up to 64 letters, digits, dots, dashes and underscores")
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)  # two commands at once must not both find the name free
                if any(entry.name == name for entry in self.entries()):
                    raise ValueError(f"{self.path} has a token called {name}; delete its line, or take another name")
                token = new_token()
                _append(file, Entry(name, digest_of(token), scopes).line())
            finally:
                os.close(file)
        except OSError as error:
            raise TokensBroken(f"{self.path}: cannot be written: {error.strerror}") from error
        return token


def _append(file: int, line: str) -> None:
    """Add a line by one write, so that a reader sees all of it or nothing."""
    size = os.fstat(file).st_size
    unfinished = size > 0 and os.pread(file, 1, size - 1) != b"\n"
    os.write(file, (("\n" if unfinished else "") + line).encode())
    os.fsync(file)
