"""Results that need whole items, which the history does not keep: read from the warehouse on request."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.context import Monitor
from monitor.core.counts import Counts
from monitor.core.records import Window


class NothingToAsk(Exception):
    """No source fits, or it has no rows; the message says what to do."""


def ranked_of(monitor: Monitor, source: str | None, window: Window) -> tuple[str, Mapping[int, Counts]]:
    """The source, and by k the counts of its k highest scores. Raises :class:`NothingToAsk` and reading errors."""
    name = _one(monitor, source, ("top_k", "multiclass"))
    found = monitor.warehouse.read(name, monitor.config.sources[name], window, now=monitor.clock()).ranked
    if not found:
        raise NothingToAsk(f"{name} has no rows in {window.name}")
    return name, {k: counts for k, counts in found.items() if k in monitor.config.evaluation.top_k.ks}


def _one(monitor: Monitor, source: str | None, kinds: tuple[str, ...]) -> str:
    """The requested source, or the only one of these kinds."""
    sources = monitor.config.sources
    names = [name for name, each in sources.items() if each.kind in kinds]
    if source is not None and source not in names:
        raise NothingToAsk(f"{source} is of kind {sources[source].kind}; this is of kind {' or '.join(kinds)}")
    if source is None and not names:
        raise NothingToAsk(f"alerts.yaml has no source of kind {' or '.join(kinds)}")
    if source is None and len(names) != 1:
        known = ", ".join(names) or "none"
        raise NothingToAsk(f"say which source with --source; of kind {' or '.join(kinds)}: {known}")
    return source or names[0]
