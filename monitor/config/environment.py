"""Reads one variable of the environment, directly or from a file; without pydantic, which a gate should not import."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from monitor.core.redaction import remember

PREFIX = "CALMON_"

SECRETS = (
    "warehouse_url",
    "store_url",
    "audit_url",
    "slack_bot_token",
    "slack_app_token",
    "heartbeat_url",
    "watchdog_heartbeat_url",
    "gate_token",
    "apprise",
)
"""The fields that may hold a password or token: each has a ``..._FILE`` variable and is masked when printed."""

STORE_URL = "sqlite:///var/history.sqlite"
GATE_TTL_S = 30
_LONGEST_TTL_S = 3600


class SettingsError(Exception):
    """The environment is invalid; the message names each variable and what to do, but never a value."""


def variable(field: str) -> str:
    """The environment variable of a field.

    >>> variable("store_url")
    'CALMON_STORE_URL'
    """
    return f"{PREFIX}{field}".upper()


def given(environ: Mapping[str, str], field: str) -> str | None:
    """The value of a field in the environment, directly or from a file; None if it is not set.

    From then on a secret is hidden in every error (:mod:`monitor.core.redaction`).

    >>> given({"CALMON_CONFIG": " "}, "config") is None
    True
    """
    found = _given(environ, field)
    if found is not None and field in SECRETS and not _is_a_path(field, found):
        remember(found)
    return found


def _is_a_path(field: str, value: str) -> bool:
    """Whether an address is the bare path of a file: that is no secret, and hints would be hidden with it."""
    return field in ("warehouse_url", "store_url") and not set(value) & set("@:=?")


def _given(environ: Mapping[str, str], field: str) -> str | None:
    name = variable(field)
    value = environ.get(name, "").strip()
    path = environ.get(f"{name}_FILE", "").strip() if field in SECRETS else ""
    if not path:
        return value or None
    if value:
        raise SettingsError(f"{name} and {name}_FILE are both set; unset one of them")
    return _read_secret(f"{name}_FILE", Path(path))


def _read_secret(name: str, path: Path) -> str:
    try:
        secret = path.read_text("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise SettingsError(f"{name}: {path} is not UTF-8 text") from None  # the error would show its bytes
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise SettingsError(f"{name}: {path} cannot be read: {reason}") from error
    if not secret:
        raise SettingsError(f"{name}: {path} is empty; write the value into it")
    return secret


# Checks of values. Each returns the value, or raises ValueError with the rest of a sentence, without the value.


def whole_seconds(value: object, longest: int, example: str) -> int:
    """A whole number of seconds from 1 to ``longest``. Raises ValueError."""
    text = str(value)
    seconds = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= seconds <= longest:
        raise ValueError(f"is not a whole number of seconds from 1 to {longest}{example}")
    return seconds


_EXAMPLES = {"sqlite": "var/history.sqlite", "duckdb": "var/warehouse.duckdb"}
_IN_FILES = re.compile(r"(?:sqlite|duckdb)(?:\+\w+)?://")


def database_address(value: str) -> str:
    """An SQLAlchemy address. It is refused if its password is not percent-encoded: part of that would be the host.

    Raises ValueError.
    """
    found = re.match(r"[a-z][a-z0-9_+]*://", value)
    if not found:
        raise ValueError(
            "is not a database address; write it like sqlite:///var/history.sqlite or postgresql://user@host/database"
        )
    rest = value[found.end() :]
    if _IN_FILES.match(value) and rest and not rest.startswith(("/", "?")):
        kind = value.partition(":")[0].partition("+")[0]
        raise ValueError(f"names a file, so it needs three slashes ({kind}:///{_EXAMPLES[kind]})")
    if _IN_FILES.match(value) and "?" in rest and "=" not in rest.partition("?")[2]:
        raise ValueError("has a ?, after which an address has options: give the file a name without it, or a link")
    if not _has_plain_host(rest):
        raise ValueError(
            "cannot be read: percent-encode the user and password in it (@ as %40, : as %3A, / as %2F, ? as %3F, "
            "% as %25), and write the port as a number"
        )
    return value


def _has_plain_host(rest: str) -> bool:
    """Whether ``rest``, after ``://``, is [user[:password]@]host[:port] and /path or ?query; a file has no host."""
    if rest.startswith(("/", "?")) or not rest:
        return True
    first = rest.find("@")
    behind = rest[first + 1 :]
    place, path = re.match(r"([^/?#]*)([^?]*)", behind).groups()  # type: ignore[union-attr]  # it fits any text
    if first >= 0 and ("@" in place or "@" in path):
        return False
    return re.fullmatch(r"(\[[0-9A-Fa-f:.%]*\]|[^:\[\]]*)(:\d{0,5})?", place) is not None


def web_address(value: str) -> str:
    """An HTTP or HTTPS address. Raises ValueError."""
    if not re.match(r"https?://[^/\s]", value):
        raise ValueError("is not a web address; it begins with https:// or http://")
    try:
        urlsplit(value).port  # noqa: B018 - raises if it is no port
    except ValueError:
        raise ValueError("has a host or a port that cannot be one; write it like https://calmon.example.com") from None
    return value


def header_name(value: str) -> str:
    """The name of an HTTP header. Raises ValueError.

    >>> header_name("X-Forwarded-User")
    'X-Forwarded-User'
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,63}", value):
        raise ValueError("is no name of a header; write it like X-Forwarded-User")
    return value


def service_address(value: str) -> str:
    """The address of calmon's own service, without a slash at its end. Raises ValueError.

    >>> service_address("https://calmon.example.com/")
    'https://calmon.example.com'
    """
    if re.search(r"[@?#\s]", web_address(value)):
        raise ValueError("has more than a host, a port and a path; a token goes into CALMON_GATE_TOKEN")
    return value.rstrip("/")


def bearer_token(value: str) -> str:
    """A token that is valid in an HTTP header. Raises ValueError."""
    if not re.fullmatch(r"[!-~]+", value):
        raise ValueError("holds spaces or characters that no token has")
    return value


def apprise_addresses(value: str) -> dict[str, str]:
    """The addresses of receivers by name. Raises ValueError.

    >>> apprise_addresses("oncall=pagerduty://key@app mail=mailto://me:word@example.org?to=a@example.org")["oncall"]
    'pagerduty://key@app'
    """
    pairs = [part.partition("=") for part in value.split()]
    if not all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) and "://" in address for name, _, address in pairs):
        raise ValueError(
            "holds no list of names with Apprise addresses; write it like oncall=pagerduty://… mail=mailto://…"
        )
    if len({name for name, _, _ in pairs}) < len(pairs):
        raise ValueError("holds a name twice")
    return {name: address for name, _, address in pairs}


def gate_ttl(value: object) -> int:
    """The greatest age of a gate's snapshot, in seconds. Raises ValueError."""
    return whole_seconds(value, _LONGEST_TTL_S, " (an hour); write it like 30")
