"""The rows behind a finding, for somebody who wants to read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from monitor.config.model import Config
from monitor.context import Monitor
from monitor.core.records import Window
from monitor.history.store import Store
from monitor.report.words import listed
from monitor.warehouse.examples import ExampleQuery, ExampleRow


class NoSuchRows(Exception):
    """There are no rows that could be shown; the message says what to ask for."""


@dataclass(frozen=True, slots=True)
class Examples:
    """What was found, the most confident decisions first; ``more``: there are more than were asked for."""

    source: str
    window: Window
    wanted: ExampleQuery
    rows: tuple[ExampleRow, ...]
    more: bool


def source_of(store: Store, config: Config, source: str | None, label: str | None, window: Window) -> str:
    """The source that is meant: the one named, the only one there is, or the only one that had the label in the window.

    Raises :class:`NoSuchRows` where that is none or several, or the window has been read and the source has no such
    label.
    """
    names = [source] if source is not None else list(config.sources)
    having = {name: _labels(store, window, name) for name in names}
    fitting = [name for name in names if label is None or label in having[name]]
    if len(fitting) == 1:
        return fitting[0]
    if len(names) == 1 and not having[names[0]]:  # never read: the warehouse knows
        return names[0]
    if len(names) == 1:
        raise NoSuchRows(f"{names[0]} has no label {label!r} in {window.name}; it has: {listed(having[names[0]])}")
    what = "these have rows" if label is None else f"these had the label {label!r} in {window.name}"
    raise NoSuchRows(f"say which source with --source; {what}: {', '.join(fitting) or 'none that is known'}")


def _labels(store: Store, window: Window, source: str) -> Sequence[str]:
    """The labels that a source had in a window, () where it was not read."""
    reading = store.load_reading(window.schedule, window.start, source)
    return () if reading is None else sorted(label for label in reading.labels if label is not None)


def examples(monitor: Monitor, source: str, window: Window, wanted: ExampleQuery) -> Examples:
    """Read them from the warehouse. Raises :class:`NoSuchRows`, and what reading raises."""
    asked = replace(wanted, limit=wanted.limit + 1)
    try:
        found = monitor.warehouse.examples(source, monitor.config.sources[source], window, asked, now=monitor.clock())
    except ValueError as error:
        raise NoSuchRows(str(error)) from error
    return Examples(source, window, wanted, tuple(found[: wanted.limit]), len(found) > wanted.limit)


def document(found: Examples) -> dict[str, Any]:
    """The JSON document of the examples."""
    wanted = found.wanted
    return {
        "source": found.source,
        "label": wanted.label,
        "window": found.window.name,
        "decisions": "right" if wanted.right else "wrong",
        "score_min": wanted.least,
        "score_max": wanted.most,
        "more": found.more,
        "rows": [asdict(row) | {"resolved_at": row.resolved_at.isoformat()} for row in found.rows],
    }
