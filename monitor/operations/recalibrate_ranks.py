"""One score map for the k highest scores of each item, fitted jointly on the rows of a week."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from monitor.context import Monitor
from monitor.core.counts import Counts
from monitor.core.records import Refused, Subject, Window
from monitor.evaluation.estimates import generator
from monitor.operations.recalibrate import FittingRows, recalibrate
from monitor.recalibration.fitting import fit
from monitor.recalibration.ranked_gain import RankedGain, ranked_gain
from monitor.recalibration.score_map import Method, ScoreMap

KINDS = ("top_k", "multiclass")


def ranked_of(monitor: Monitor, source: str | None, window: Window) -> tuple[str, Mapping[int, Counts]]:
    """The source, and by k the counts of its k highest scores. Raises :class:`Refused` and reading errors."""
    name = _one(monitor, source)
    found = monitor.warehouse.read(name, monitor.config.sources[name], window, now=monitor.clock()).ranked
    if not found:
        raise Refused(f"{name} has no rows in {window.name}")
    return name, {k: counts for k, counts in found.items() if k in monitor.config.evaluation.top_k.ks}


def _one(monitor: Monitor, source: str | None) -> str:
    """The requested source, or the only one that has ranks."""
    sources = monitor.config.sources
    names = [name for name, each in sources.items() if each.kind in KINDS]
    if source is not None and source not in names:
        raise Refused(f"{source} is of kind {sources[source].kind}; this is of kind {' or '.join(KINDS)}")
    if source is None and not names:
        raise Refused(f"alerts.yaml has no source of kind {' or '.join(KINDS)}")
    if source is None and len(names) != 1:
        known = ", ".join(names) or "none"
        raise Refused(f"say which source with --source; of kind {' or '.join(KINDS)}: {known}")
    return source or names[0]


@dataclass(frozen=True, slots=True)
class RecalibratedRanks:
    """A source's joint score map, and its gain for each k."""

    source: str
    gain: RankedGain
    score_map: ScoreMap


def recalibrate_ranks(monitor: Monitor, source: str | None, window: Window, method: Method | None) -> RecalibratedRanks:
    """The map of ``method`` (None: the one that helps most on the rows of the largest k, else temperature).

    Raises Refused without such a source or without rows, CannotFit if no map can be fitted, and the errors of a
    reading.
    """
    evaluation = monitor.config.evaluation
    name, ranked = ranked_of(monitor, source, window)
    subject, whole = Subject(name, None), ranked[max(ranked)]
    choice = recalibrate(FittingRows(subject, [whole], window.name, window.name), None, evaluation).choice
    chosen: Method = method or choice.method or "temperature"
    rng = generator(evaluation.seed, subject, "recalibration of ranks", window.name)
    gain = ranked_gain(chosen, ranked, rng, evaluation.top_k.bins)
    made = fit(chosen, whole)
    return RecalibratedRanks(name, gain, replace(made, source=name, fitted_on=f"{window.name}, k = {max(ranked)}"))
