"""The rows behind a finding, for people to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from monitor.config.model import Config
from monitor.context import Monitor
from monitor.core.records import Window, WrongRequest
from monitor.core.wording import clean, isolated
from monitor.history.store import Store
from monitor.report.words import listed
from monitor.warehouse.examples import ExampleQuery, ExampleRow


@dataclass(frozen=True, slots=True)
class Examples:
    """The rows found, the most confident decisions first; ``more``: there are more than the query's limit."""

    source: str
    window: Window
    query: ExampleQuery
    rows: tuple[ExampleRow, ...]
    more: bool


def source_of(store: Store, config: Config, source: str | None, label: str | None, window: Window) -> str:
    """The source to read: the named one, the only one, or the only one that had the label in the window.

    Raises WrongRequest if no source or several fit, or if the window was read and the source has no such label.
    """
    names = [source] if source is not None else list(config.sources)
    labels_of = {name: _labels(store, window, name) for name in names}
    fitting = [name for name in names if label is None or label in labels_of[name]]
    if len(fitting) == 1:
        return fitting[0]
    if len(names) == 1 and not labels_of[names[0]]:  # this window was never read, so ask the warehouse
        return names[0]
    if len(names) == 1:
        raise WrongRequest(f"{names[0]} has no label {label!r} in {window.name}; it has: {listed(labels_of[names[0]])}")
    what = "these have rows" if label is None else f"these had the label {label!r} in {window.name}"
    raise WrongRequest(f"say which source with --source; {what}: {', '.join(fitting) or 'none that is known'}")


def _labels(store: Store, window: Window, source: str) -> Sequence[str]:
    """The labels that a source had in a window; () if the window was not read."""
    reading = store.load_reading(window.schedule, window.start, source)
    return () if reading is None else sorted(label for label in reading.labels if label is not None)


def examples(monitor: Monitor, source: str, window: Window, query: ExampleQuery) -> Examples:
    """Read the rows of ``query`` from the warehouse. Raises :class:`WrongRequest`, and what reading raises."""
    larger = replace(query, limit=query.limit + 1)
    try:
        found = monitor.warehouse.examples(source, monitor.config.sources[source], window, larger, now=monitor.clock())
    except ValueError as error:
        raise WrongRequest(str(error)) from error
    return Examples(source, window, query, tuple(found[: query.limit]), len(found) > query.limit)


def really(rows: Sequence[ExampleRow]) -> str:
    """What most of wrong items really are; "" where no truth names another label.

    >>> from datetime import UTC, datetime
    >>> row = ExampleRow("t1", "billing", 0.9, 0.0, True, datetime(2026, 11, 16, tzinfo=UTC), {}, ("other",))
    >>> really([row, row, replace(row, true_labels=())])
    '2 of 3 are really other'
    """
    others = Counter(label for row in rows for label in row.true_labels if label != row.label)
    return "".join(
        f"{count} of {len(rows)} {'is' if count == 1 else 'are'} really {isolated(clean(label))}"
        for label, count in others.most_common(1)
    )


def document(found: Examples) -> dict[str, Any]:
    """The JSON document of the examples."""
    query = found.query
    return {
        "source": found.source,
        "label": query.label,
        "window": found.window.name,
        "decisions": "right" if query.right else "wrong",
        "score_min": query.least,
        "score_max": query.most,
        "more": found.more,
        "rows": [asdict(row) for row in found.rows],
    }
