"""Removes secrets from addresses and errors before they are printed, stored, logged or sent.

It works in two ways. Secrets that this process has read (:func:`remember`) are replaced wherever they appear, however
they are quoted. In addition, patterns find what looks like a secret: a password in an address, ``password=``, tokens.
Only the standard library, since a gate uses it too.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import parse_qsl, quote, quote_plus, unquote, unquote_plus, urlsplit

HIDDEN = "***"
SHORTEST = 6
"""Shorter secrets are not searched for, since they would be found inside usual words. Patterns still apply."""

_NAMES = "pass|pwd|token|secret|key|cred|sig|auth|ticket|session"
_PARAMETER = re.compile(rf"(?i)([?&;#][^=&#;\s]*(?:{_NAMES})[^=&#;\s]*)=[^&#;\s]*")
_PASSWORD = re.compile(r"(://[^:/@?#\s]*):.*@", re.DOTALL)
_WEB_USER = re.compile(r"(?i)\b(https?://)[^:/@?#\s]+@")
_SECRET_PATH = re.compile(r"(?i)\b(https?://(?:hooks\.slack\.com|files\.slack\.com/upload|hc-ping\.com)/)[^\s\"'<>]+")
_ADDRESS = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'`<>|]+")
_ASSIGNED = re.compile(
    r"""(?ix) (?P<name> \b[\w.-]* (?:password|passwd|passphrase|pwd|secret|token|api_?key|access_?key|credential
                                    |signature) [\w.-]* )
    (?: (?P<is> \s*=\s*) (?!\*\*\*) (?: '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.)*" | [^\s&,;)\]}"']+ )
      | (?P<json> ["']\s*:\s*["']) (?!\*\*\*) [^"']+ )"""
)
_TOKENS = (
    re.compile(r"\bxox[a-z](?:\.xox[a-z])?-[\w-]+|\bxapp-[\w-]+"),
    re.compile(r"\bcalmon_[A-Za-z0-9_-]{20,}"),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"),
    re.compile(r"(?i)(?<=bearer )[!-~]{8,}|(?<=basic )[A-Za-z0-9+/]{12,}=*"),
)

_lock = threading.Lock()
_known: frozenset[str] = frozenset()
_search: re.Pattern[str] | None = None


def shown_address(address: str) -> str:
    """The address without its password and secret parameters; in doubt a part is hidden.

    >>> shown_address("postgresql+psycopg://calmon:s3cret@db/history?sslpassword=x&sslmode=require")
    'postgresql+psycopg://calmon:***@db/history?sslpassword=***&sslmode=require'
    """
    hidden = _PASSWORD.sub(rf"\1:{HIDDEN}@", _exactly(address))
    hidden = _SECRET_PATH.sub(rf"\1{HIDDEN}", _WEB_USER.sub(rf"\1{HIDDEN}@", hidden))
    return _PARAMETER.sub(rf"\1={HIDDEN}", hidden)


def without_secrets(text: object) -> str:
    """A text, such as that of an error, without secrets. Call it before cutting a text: half a secret is not found.

    >>> without_secrets("cannot open duckdb:///md:x?motherduck_token=abc: password='a b' refused, xoxb-1-2")
    'cannot open duckdb:///md:x?motherduck_token=***: password=*** refused, ***'
    """
    hidden = _exactly(str(text))
    hidden = _ADDRESS.sub(lambda found: _in_text(found[0]), hidden)
    hidden = _ASSIGNED.sub(lambda found: f"{found['name']}{found['is'] or found['json']}{HIDDEN}", hidden)
    for pattern in _TOKENS:
        hidden = pattern.sub(HIDDEN, hidden)
    return hidden


def remember(secret: str) -> None:
    """Hide this secret in every later text; of an address, its password and secret parameters."""
    global _known, _search  # noqa: PLW0603 - the known secrets belong to the process
    with _lock:
        if found := {form for part in _parts(secret.strip()) for form in _forms(part)} - _known:
            _known |= found
            _search = re.compile("|".join(re.escape(one) for one in sorted(_known, key=len, reverse=True)))


def hide_in(error: BaseException) -> None:
    """Hide secrets in the texts of an error and of its causes, for code that prints it itself."""
    for each in _chain(error, set()):
        each.args = tuple(without_secrets(one) if isinstance(one, str) else one for one in each.args)
        # SQLAlchemy prints the statement and its parameters with an error, but can omit the parameters
        statement, values = getattr(each, "statement", None), getattr(each, "params", None)
        if isinstance(statement, str):
            each.statement = without_secrets(statement)  # type: ignore[attr-defined]
        if values is not None and without_secrets(repr(values)) != repr(values):
            each.hide_parameters = True  # type: ignore[attr-defined]


@contextmanager
def secrets_hidden() -> Iterator[None]:
    """Hide secrets in the logs of this process, and in every error that leaves the block or decorated function."""
    hide_at_the_edge()
    try:
        yield
    except BaseException as error:
        hide_in(error)
        raise


def error_text(error: BaseException) -> str:
    """An unexpected error with its traceback, without secrets."""
    return without_secrets("".join(traceback.format_exception(error)))


def hide_at_the_edge() -> None:
    """Hide secrets in every log record, and in what Python prints about uncaught errors."""
    plain = logging.getLogRecordFactory()
    if not isinstance(plain, partial) or plain.func is not _record:
        logging.setLogRecordFactory(partial(_record, plain))
        sys.excepthook = lambda _kind, error, _trace: _print(error_text(error))
        threading.excepthook = lambda found: _print(error_text(found.exc_value)) if found.exc_value else None


def _record(plain: Callable[..., logging.LogRecord], *given: object, **more: object) -> logging.LogRecord:
    record = plain(*given, **more)
    try:
        text = record.getMessage()
    except (TypeError, ValueError, KeyError):  # the arguments do not fit the format: logging reports that itself
        return record
    if (hidden := without_secrets(text)) != text:
        record.msg, record.args = hidden, ()
    if record.exc_info and record.exc_info[1] is not None:
        record.exc_text = error_text(record.exc_info[1]).rstrip("\n")  # a formatter uses this if it is set
    return record


def _print(text: str) -> None:
    sys.stderr.write(text)


def _in_text(found: str) -> str:
    """An address inside a sentence, without the punctuation at its end."""
    address = found.rstrip(".,:;)]}")
    return shown_address(address) + found[len(address) :]


def _exactly(text: str) -> str:
    return _search.sub(HIDDEN, text) if _search is not None else text


def _parts(secret: str) -> Iterator[str]:
    """The parts to hide of a secret; of a database's address not all, since its host may be shown."""
    if "://" not in secret:
        yield secret
        return
    scheme, _, rest = secret.partition("://")
    before, at, _ = rest.rpartition("@")
    user, _, password = before.partition(":")
    shown = set(re.split(r"[/@:?&=]", rest.removeprefix(before))) | {user, unquote(user)}
    if at and unquote(password) not in shown:
        yield password
    query = rest.partition("?")[2]
    yield from (value for name, value in parse_qsl(query) if re.search(_NAMES, name, re.IGNORECASE))
    if scheme.lower() in ("http", "https"):
        yield secret
        yield from _web_parts(secret)


def _web_parts(address: str) -> Iterator[str]:
    """All of a heartbeat address's path and query: anyone who knows it could suppress the alarm."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return
    yield from (part for part in (parts.path.strip("/"), parts.query) if len(part) > SHORTEST)
    yield from (part for part in parts.path.split("/") if len(part) > SHORTEST + 1)
    yield from (value for _, value in parse_qsl(parts.query))


def _forms(part: str) -> Iterator[str]:
    """The forms in which a secret may appear: percent-encoded, decoded, quoted in Python, JSON or libpq."""
    for plain in (part, unquote(part), unquote_plus(part)):
        libpq = plain.replace("\\", "\\\\").replace("'", "\\'")
        inside = (repr(plain)[1:-1], json.dumps(plain)[1:-1], libpq, plain.replace("'", "''"))
        for form in (plain, quote(plain), quote(plain, safe=""), quote_plus(plain), *inside):
            if len(form) >= SHORTEST:
                yield form


def _chain(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    more: Iterable[BaseException | None] = (error.__cause__, error.__context__, getattr(error, "orig", None))
    if isinstance(error, BaseExceptionGroup):
        more = (*more, *error.exceptions)
    for each in more:
        yield from _chain(each if isinstance(each, BaseException) else None, seen)
