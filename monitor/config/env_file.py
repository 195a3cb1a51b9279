"""The file ``.env`` of the working directory: values of variables that the environment has not set."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from monitor.config.environment import PREFIX, SettingsError

ENV_FILE = Path(".env")
_FILE = "_FILE"


def missing_of(environ: Mapping[str, str], path: Path = ENV_FILE) -> dict[str, str]:
    """The file's values of calmon's variables that ``environ`` sets neither directly nor by ``NAME_FILE``.

    {} without a file. Raises :class:`SettingsError` if the file cannot be read.
    """
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SettingsError(f"{path} cannot be read: {reason}; correct it, or move it away") from None
    values = dict(pair for number, line in enumerate(text.splitlines(), 1) for pair in _pairs(path, number, line))
    return {name: value for name, value in values.items() if not any(environ.get(each) for each in _twins(name))}


def read_into(environ: MutableMapping[str, str], path: Path = ENV_FILE) -> None:
    """Set the file's values in ``environ``, where they are missing. Raises SettingsError like :func:`missing_of`."""
    environ.update(missing_of(environ, path))


def _twins(name: str) -> tuple[str, str]:
    """A variable and its counterpart with or without ``_FILE``."""
    return name, name.removesuffix(_FILE) if name.endswith(_FILE) else f"{name}{_FILE}"


def _pairs(path: Path, number: int, line: str) -> list[tuple[str, str]]:
    """The assignment in a line, as a shell reads it; nothing if it is not for a variable of calmon."""
    name, equals, value = line.strip().removeprefix("export ").partition("=")
    if not equals or not name.startswith(PREFIX):
        return []
    try:
        words = shlex.split(value)
    except ValueError:  # its text may hold the value
        raise SettingsError(f"{path}, line {number}: a quotation mark of {name} is not closed") from None
    return [(name, words[0])] if words and not words[0].startswith("#") else []
