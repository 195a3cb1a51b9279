"""One score map for the k highest scores of each item, fitted jointly on the rows of a week."""

from __future__ import annotations

from dataclasses import replace

from monitor.context import Monitor
from monitor.core.counts import Counts
from monitor.core.records import Refused, Subject, Window
from monitor.evaluation.estimates import generator
from monitor.operations.recalibrate import FittingRows, recalibrate
from monitor.recalibration.fitting import fit
from monitor.recalibration.ranked_gain import RankedGain, ranked_gain
from monitor.recalibration.score_map import Method, ScoreMap

KINDS = ("top_k", "multiclass")


def recalibrate_ranks(
    monitor: Monitor, source: str | None, window: Window, method: Method | None
) -> tuple[RankedGain, ScoreMap]:
    """The map of ``method`` (None: the one that helps most on the rows of the largest k, else temperature), and by k
    what it gains.

    ``source`` None: the only one that has ranks. Raises Refused without such a source or without rows, CannotFit if no
    map can be fitted, and the errors of a reading.
    """
    evaluation, sources = monitor.config.evaluation, monitor.config.sources
    ranking = [name for name, each in sources.items() if each.kind in KINDS]
    names = [name for name in ranking if source in (None, name)]
    if len(names) != 1:
        known = ", ".join(ranking) or "none"
        raise Refused(f"say which source with --source; of kind {' or '.join(KINDS)}: {known}")
    (name,) = names
    read = monitor.warehouse.read(name, sources[name], window, now=monitor.clock()).ranked
    ranked: dict[int, Counts] = {k: counts for k, counts in read.items() if k in evaluation.top_k.ks}
    if not ranked:
        raise Refused(f"{name} has no rows in {window.name}")
    subject, whole = Subject(name, None), ranked[max(ranked)]
    choice = recalibrate(FittingRows(subject, [whole], window.name, window.name), None, evaluation).choice
    chosen: Method = method or choice.method or "temperature"
    rng = generator(evaluation.seed, subject, "recalibration of ranks", window.name)
    gain = ranked_gain(chosen, ranked, rng, evaluation.top_k.bins)
    made = fit(chosen, whole)
    return gain, replace(made, source=name, fitted_on=f"{window.name}, k = {max(ranked)}")
