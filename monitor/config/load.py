"""Loads alerts.yaml as a :class:`~monitor.config.model.Config`, or reports all of its problems at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from monitor.config.checks import find_faults
from monitor.config.fields import EXAMPLES, typed
from monitor.config.model import Config
from monitor.config.problems import ConfigProblems, Problem
from monitor.config.yaml_document import Document, read_document

LARGEST_BYTES = 1024 * 1024
"""The largest alerts.yaml that is read; 10,000 labels take about half of that."""


def load_config(path: Path) -> Config:
    """The configuration in the file at ``path``.

    Raises :class:`ConfigProblems` with all mistakes, or with the one that made the file unreadable.
    """
    return parse_config(text_of(path), str(path))


def parse_config(text: str, name: str = "alerts.yaml") -> Config:
    """The configuration in ``text``; ``name`` is printed before the line numbers of problems.

    Raises :class:`ConfigProblems` with all mistakes, in the order of the lines.
    """
    document = read_document(text, name)
    if document.data is None:
        remedy = "version, sources, rules and automation"
        nothing = Problem("CAL010", "the file says nothing", remedy, name, 1, 1)
        raise ConfigProblems(document.problems or (nothing,), text)
    config, of_values = typed(document)
    problems = [*document.problems, *of_values, *_nothing_to_watch(document), *find_faults(document)]
    if problems or config is None:
        raise ConfigProblems(tuple(sorted(problems, key=lambda p: (p.line, p.column, p.id))), text)
    return config


def _nothing_to_watch(document: Document) -> Iterator[Problem]:
    for key in ("sources", "rules"):
        if (key,) in document.values and document.get(key) in (None, {}, ()) and (key,) not in document.broken:
            yield document.problem("CAL010", (key,), f"no {key}: nothing would be watched", EXAMPLES[key])


def text_of(path: Path) -> str:
    """The file as text. Raises :class:`ConfigProblems` if it cannot be read or is larger than LARGEST_BYTES."""
    try:
        with path.open("rb") as stream:  # read no more: it may be a device without an end
            content = stream.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            summary = f"the file is larger than {LARGEST_BYTES // 1024:,} KiB"
            raise ConfigProblems((_unreadable(path, summary, "name a file of rules in CALMON_CONFIG, or shorten it"),))
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        summary = f"the file is not UTF-8 text (first wrong byte on line {line})"
        problem = _unreadable(path, summary, "save the file as UTF-8")
    except FileNotFoundError:
        problem = _unreadable(path, "the file does not exist", "create it, or name another one in CALMON_CONFIG")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        problem = _unreadable(path, f"the file cannot be read: {reason}", "make it readable for this user")
    raise ConfigProblems((problem,))


def _unreadable(path: Path, summary: str, remedy: str) -> Problem:
    return Problem("CAL002", summary, remedy, str(path), severity="fatal")
