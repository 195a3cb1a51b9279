"""One score map for the k highest scores of each item, fitted jointly on the rows of a week."""

from __future__ import annotations

from dataclasses import dataclass, replace

from monitor.context import Monitor
from monitor.core.records import Subject, Window
from monitor.evaluation.estimates import generator
from monitor.operations.ask_warehouse import ranked_of
from monitor.operations.recalibrate import FittingRows, recalibrate
from monitor.recalibration.fitting import fit
from monitor.recalibration.ranked_gain import RankedGain, ranked_gain
from monitor.recalibration.score_map import Method, ScoreMap


@dataclass(frozen=True, slots=True)
class RecalibratedRanks:
    """A source's joint score map, and its gain for each k."""

    source: str
    gain: RankedGain
    score_map: ScoreMap


def recalibrate_ranks(monitor: Monitor, source: str | None, window: Window, method: Method | None) -> RecalibratedRanks:
    """The map of ``method`` (None: the one that helps most on the rows of the largest k, else temperature).

    Raises NothingToAsk without such a source or without rows, CannotFit if no map can be fitted, and the errors of a
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
