"""The file ``.env`` of the folder in which ``calmon`` or a flow runs: what the environment has not set."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from monitor.config.environment import PREFIX, SettingsError

ENV_FILE = Path(".env")
_FILE = "_FILE"


def missing_of(environ: Mapping[str, str], path: Path = ENV_FILE) -> dict[str, str]:
    """What the file says of calmon's variables that ``environ`` does not set, itself or by ``NAME_FILE``.

    Without a file nothing. Raises :class:`SettingsError` where it cannot be read.
    """
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SettingsError(f"{path} cannot be read: {reason}; correct it, or move it away") from None
    said = dict(pair for number, line in enumerate(text.splitlines(), 1) for pair in _pairs(path, number, line))
    return {name: value for name, value in said.items() if not any(environ.get(each) for each in _twins(name))}


def read_into(environ: MutableMapping[str, str], path: Path = ENV_FILE) -> None:
    """Set in ``environ`` what the file says and it does not. Raises SettingsError as :func:`missing_of` does."""
    environ.update(missing_of(environ, path))


def _twins(name: str) -> tuple[str, str]:
    """A variable, and the one that gives the same by a file or itself."""
    return name, name.removesuffix(_FILE) if name.endswith(_FILE) else f"{name}{_FILE}"


def _pairs(path: Path, number: int, line: str) -> list[tuple[str, str]]:
    """The assignment of a line, as a shell reads it; none where it is of no variable of calmon."""
    name, equals, value = line.strip().removeprefix("export ").partition("=")
    if not equals or not name.startswith(PREFIX):
        return []
    try:
        words = shlex.split(value)
    except ValueError:  # whose text may hold the value
        raise SettingsError(f"{path}, line {number}: a quotation mark of {name} is not closed") from None
    return [(name, words[0])] if words and not words[0].startswith("#") else []
