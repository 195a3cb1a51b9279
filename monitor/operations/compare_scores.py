"""Which score construction is best calibrated on a window of a source: the warehouse is read once for each."""

from __future__ import annotations

from monitor.context import Monitor
from monitor.core.counts import Counts
from monitor.core.records import Window
from monitor.operations.collect import with_whole
from monitor.recalibration.compare_constructions import Compared, compare
from monitor.warehouse.score_construction import CONSTRUCTIONS


class NothingToCompare(Exception):
    """There are no score constructions or no rows to compare; the message says what to do."""


def compare_scores(monitor: Monitor, source: str, label: str | None, window: Window) -> list[Compared]:
    """Every score construction that the source's column allows, on the rows of a label (None: of all), best first.

    These constructions need the same kind of numbers as the configured one, so all have the same rows. Raises
    :class:`NothingToCompare`, and what reading raises (RelationError, WarehouseFailed).
    """
    config = monitor.config.sources[source]
    if config.score is None:
        raise NothingToCompare(f"{source} reads its scores as they are; give it `score: {{from: ..., method: ...}}`")
    needs = CONSTRUCTIONS[config.score.method].needs
    found: dict[str, Counts] = {}
    for name in (name for name, construction in CONSTRUCTIONS.items() if construction.needs == needs):
        changed = config.model_copy(update={"score": config.score.model_copy(update={"method": name})})
        reading = monitor.warehouse.read(source, changed, window, now=monitor.clock())
        labels = with_whole(reading).labels
        if label in labels:
            found[name] = labels[label]
    if not found:
        raise NothingToCompare(f"{source} has no rows {'' if label is None else f'of {label!r} '}in {window.name}")
    evaluation = monitor.config.evaluation
    return compare(found, bins=evaluation.bins, confidence=evaluation.confidence)
