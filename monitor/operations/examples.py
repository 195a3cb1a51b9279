"""The rows behind a finding, for people to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from monitor.context import Monitor
from monitor.core.records import Window, WrongRequest
from monitor.core.wording import clean, isolated
from monitor.report.words import listed
from monitor.warehouse.statements import ExampleQuery, ExampleRow


@dataclass(frozen=True, slots=True)
class Examples:
    """The rows found, the most confident decisions first; ``more``: there are more than the query's limit."""

    source: str
    window: Window
    query: ExampleQuery
    rows: tuple[ExampleRow, ...]
    more: bool


def examples(monitor: Monitor, source: str, window: Window, query: ExampleQuery) -> Examples:
    """Read the rows of ``query`` from the warehouse.

    Raises :class:`WrongRequest`, also for a label that the source did not have in a window that was read, and what
    reading raises.
    """
    reading = monitor.store.load_reading(window.schedule, window.start, source)
    known = () if reading is None else sorted(label for label in reading.labels if label is not None)
    if query.label is not None and known and query.label not in known:
        raise WrongRequest(f"{source} has no label {query.label!r} in {window.name}; it has: {listed(known)}")
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
