"""Recalibrates a label from its counts of some weeks in the history, or the highest scores of items from rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from monitor.config.model import EvaluationConfig
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.baseline import changed_from
from monitor.core.counts import Counts, pool
from monitor.core.records import Refused, Subject, Window
from monitor.core.source_settings import Settings, in_words, other_numbers
from monitor.core.wording import clean
from monitor.evaluation.estimates import generator
from monitor.history.readings import COUNTS_REMOVED
from monitor.history.store import Store
from monitor.operations.diagnose import COUNTED
from monitor.recalibration.fitting import CannotFit, fit
from monitor.recalibration.gain import Choice, Gain, choose, gains_on_unseen, helps, refusal
from monitor.recalibration.ranked_gain import RankedGain, ranked_gain
from monitor.recalibration.score_map import Method, ScoreMap

RANKING = ("top_k", "multiclass")
"""The kinds of sources whose items have ranks."""


@dataclass(frozen=True, slots=True, eq=False)
class FittingRows:
    """The rows on which a map is fitted, by window, newest first (or a baseline), and the names of these."""

    subject: Subject
    windows: Sequence[Counts]
    fitted_on: str
    newest: str

    @property
    def counts(self) -> Counts:
        """All rows."""
        return pool(self.windows)


@dataclass(frozen=True, slots=True)
class Recalibrated:
    """The gains of every method, the choice among them, and the map (None if there is none)."""

    gains: dict[Method, Gain]
    choice: Choice
    score_map: ScoreMap | None


def weeks_of_trouble(store: Store, subject: Subject, last: Window, zone: ZoneInfo) -> int:
    """How many weeks of rows advice on the subject is from, ``last`` included; 1 where it was in no trouble then."""
    diagnoses = store.diagnoses(last, subject.source)
    since = next((each.since for each in diagnoses if each.label == subject.label and each.is_trouble), None)
    if since is None:
        return 1
    names = [window.name for window in windows.up_to(last, COUNTED, zone)]
    return COUNTED - names.index(since.window) if since.window in names else COUNTED


def from_windows(store: Store, subject: Subject, span: Sequence[Window], now: Settings) -> FittingRows:
    """The rows of the subject in these windows (oldest first), read under the source's settings ``now``.

    Raises :class:`Refused`, also if a window was read under settings by which a row had another score or outcome.
    """
    parts: list[Counts] = []
    for window in span:
        reading = store.load_reading(window.schedule, window.start, subject.source)
        if reading is not None and reading.state == COUNTS_REMOVED:
            raise Refused(
                f"the counts of {subject.source} {window.name} were removed since they are old (calmon db prune); "
                f"`calmon backfill --from {window.name} --to {window.name}` reads them again"
            )
        if reading is None or reading.state != "ok":
            why = "was not read" if reading is None else f"could not be read ({reading.error})"
            raise Refused(f"{subject.source} {window.name} {why}; `calmon run weekly --week {window.name}` reads it")
        counts = reading.labels.get(subject.label)
        changed = () if counts is None else other_numbers(changed_from(reading.settings, counts, now))
        if changed:
            raise Refused(
                f"{subject.source} {window.name} was read under other settings ({clean(in_words(changed))}); "
                f"`calmon backfill --from {window.name} --to {span[-1].name}` reads it again"
            )
        parts += [] if counts is None else [counts]
    names = span[0].name if len(span) == 1 else f"{span[0].name}..{span[-1].name}"
    if not parts:
        raise Refused(f"{subject.name} has no rows in {names}")
    return FittingRows(subject, parts[::-1], names, span[-1].name)


def recalibrate(rows: FittingRows, method: Method | None, evaluation: EvaluationConfig) -> Recalibrated:
    """The gains on these rows, and the map of ``method`` (None: the one that helps most, if any does).

    The same rows give the same result, here and in a diagnosis. Raises :class:`Refused` if ``method`` cannot be
    fitted.
    """
    rng = generator(evaluation.seed, rows.subject, "recalibration", rows.newest)
    gains = gains_on_unseen(rows.windows, rng, evaluation)
    choice = choose(gains)
    chosen = method or choice.method
    if chosen is None:
        return Recalibrated(gains, choice, None)
    counts = rows.counts
    obstacle = refusal(chosen, counts)
    if obstacle is not None:
        raise Refused(f"{chosen} is not offered for {counts.rows:,} rows: {obstacle}")
    try:
        made = fit(chosen, counts)
    except CannotFit as error:
        raise Refused(f"{chosen} cannot be fitted: {error}") from error
    if method is not None:
        better = helps(gains[method])
        outcome = "it helps" if better else "on rows not seen it does not help"
        choice = Choice(method, "helps" if better else "none_helps", f"{method}, as asked for: {outcome}")
    subject = rows.subject
    return Recalibrated(
        gains, choice, replace(made, source=subject.source, label=subject.label, fitted_on=rows.fitted_on)
    )


def recalibrate_ranks(
    monitor: Monitor, name: str, window: Window, method: Method | None
) -> tuple[RankedGain, ScoreMap]:
    """One map for the k highest scores of each item, fitted jointly on the rows of a week, and by k what it gains.

    It is of ``method`` (None: the one that helps most on the rows of the largest k, else temperature). Raises Refused
    without rows that have ranks, CannotFit if no map can be fitted, and the errors of a reading.
    """
    evaluation, source = monitor.config.evaluation, monitor.config.sources[name]
    read = monitor.warehouse.read(name, source, window, now=monitor.clock()).ranked
    ranked: dict[int, Counts] = {k: counts for k, counts in read.items() if k in evaluation.top_k.ks}
    if not ranked:
        raise Refused(f"{name} has no rows with ranks in {window.name}: sources of kind {' or '.join(RANKING)} have")
    subject, whole = Subject(name, None), ranked[max(ranked)]
    choice = recalibrate(FittingRows(subject, [whole], window.name, window.name), None, evaluation).choice
    chosen: Method = method or choice.method or "temperature"
    rng = generator(evaluation.seed, subject, "recalibration of ranks", window.name)
    gain = ranked_gain(chosen, ranked, rng, evaluation.top_k.bins)
    made = fit(chosen, whole)
    return gain, replace(made, source=name, fitted_on=f"{window.name}, k = {max(ranked)}")
