"""The lines of the log: as text or, with ``CALMON_LOG=json``, as one JSON object a line; each says what it is about."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType

ABOUT = ("run", "schedule", "window", "source", "incident")
"""What a line may be about, in the order in which it is written."""
_about: ContextVar[Mapping[str, str]] = ContextVar("about", default=MappingProxyType({}))


@contextmanager
def about(**what: str) -> Iterator[None]:
    """Every line within the block is about this: run, schedule, window, source, incident."""
    token = _about.set({**_about.get(), **{name: text for name, text in what.items() if text}})
    try:
        yield
    finally:
        _about.reset(token)


class TextLines(logging.Formatter):
    """``2026-11-16 06:30:04 INFO 2026-W46 tickets: evaluating``: date and time are in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text; a traceback is on lines of its own."""
        at = datetime.fromtimestamp(record.created, UTC)
        found = _about.get()
        subject = " ".join(found[name] for name in ("window", "source", "incident") if name in found)
        text = f"{at:%Y-%m-%d %H:%M:%S} {record.levelname} {subject or record.name}: {record.getMessage()}"
        return text if record.exc_info is None else f"{text}\n{self.formatException(record.exc_info)}"


class JsonLines(logging.Formatter):
    """One JSON object a line: at, level, logger, message, what it is about, and the traceback of an error."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"at": at, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        if record.exc_info is not None:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line | {name: _about.get()[name] for name in ABOUT if name in _about.get()})


def is_ours(record: logging.LogRecord) -> bool:
    """Whether a line is worth a place: everything from warnings on, and of less only what this project has logged.

    Flows log through Prefect's loggers, so the file that has logged says whose line it is.
    """
    return record.levelno >= logging.WARNING or "prefect" not in record.pathname.replace(os.sep, "/").split("/")
