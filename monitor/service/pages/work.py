"""What automation did week by week, for ``/`` and ``/automation``: counted from the published scores, as in reports.

The stored estimates of a week count rows from ``automate_at`` of the alerts.yaml of its run. Where gates acted from
another score, the week's counts are read: that is slower, but such weeks are few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from monitor.automation.acting_scores import PublishedScores
from monitor.automation.as_of import on_spans, time_acting
from monitor.automation.harm import TimeOn
from monitor.core.records import Where, Window
from monitor.history.grid import GridNumber, steps_by_label
from monitor.history.readings import StoredReading
from monitor.history.thresholds import Publication
from monitor.report.acting_work import Configured, works_of
from monitor.report.figures.automation_work import LabelWork
from monitor.service.pages.base import PageContext

_Series = tuple[str, Where]
_PREDICTED: _Series = ("overconfidence", "predicted")
_PROMISED: _Series = ("overconfidence", "automated")
_KEPT: _Series = ("automated_accuracy", "all")
_EXCESS: _Series = ("excess_errors", "all")
_READ = ((_PREDICTED, _PROMISED), (_KEPT, _EXCESS))
"""Groups that are read together: every metric of a group in every population of that group."""
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class WorkOfWeeks:
    """For each week, the work of its labels. ``unknown`` label-weeks are left out.

    Their counts were removed, and gates acted from another score than ``automate_at``.
    """

    by_week: tuple[list[LabelWork], ...]
    unknown: int = 0


def work_of_weeks(context: PageContext, weeks: Sequence[Window], labels: Mapping[str, Sequence[str]]) -> WorkOfWeeks:
    """The work in some weeks, oldest first, of these labels by their source."""
    found: tuple[list[LabelWork], ...] = tuple([] for _ in weeks)
    if not weeks:
        return WorkOfWeeks(found)
    scores, unknown = _Scores(context, weeks), 0
    for source, names in labels.items():
        of_source = _Source(context, scores, source, weeks)
        for place, works in of_source.works(names):
            found[place].extend(works or ())
            unknown += works is None
    return WorkOfWeeks(found, unknown)


@dataclass(frozen=True)
class _Scores:
    """From which scores labels acted, and by which the rows of each week were counted."""

    context: PageContext
    weeks: Sequence[Window]

    @cached_property
    def published(self) -> PublishedScores:
        """The published scores, and how they came about."""
        return PublishedScores(self.context.store.thresholds(), self._publications)

    @cached_property
    def _publications(self) -> Sequence[Publication]:
        return self.context.store.publications()

    @cached_property
    def _published_at(self) -> dict[str, datetime]:
        """When the scores of each rules revision were published as they are in its alerts.yaml."""
        return {entry.by.revision: entry.at for entry in self._publications if entry.kind == "published"}

    @cached_property
    def _revisions(self) -> Mapping[datetime, frozenset[str]]:
        return self.context.store.revisions("weekly", [week.start for week in self.weeks])

    def counted_from(self, week: Window, source: str, label: str) -> float | None:
        """``automate_at`` of the alerts.yaml with which the week was evaluated; None: not known."""
        revisions = self._revisions.get(week.start, frozenset())
        if len(revisions) != 1:
            return None
        (revision,) = revisions
        config = self.context.config
        if revision == config.revision and source in config.sources:
            return config.sources[source].automate_from(label)
        at = self._published_at.get(revision)
        spans = [] if at is None else self.published.spans(source, label, at, at + _INSTANT)
        return spans[0][2] if spans else None


@dataclass(frozen=True)
class _Source:
    """The work of the labels of one source."""

    context: PageContext
    scores: _Scores
    name: str
    weeks: Sequence[Window]

    def works(self, labels: Sequence[str]) -> Iterable[tuple[int, list[LabelWork] | None]]:
        """(the place of a week, the work of a label in it) wherever numbers are stored; None: not known."""
        on = self._times_on(labels)
        for (place, label), numbers in self._numbers(labels).items():
            yield place, self._work(place, label, on[label][place], numbers)

    def _work(
        self, place: int, label: str, on: TimeOn, numbers: Mapping[_Series, GridNumber]
    ) -> list[LabelWork] | None:
        config = self.context.config.sources.get(self.name)  # None where it was removed
        costs = None if config is None else config.costs_of(label)
        cost = None if costs is None else costs.false_positive
        counted_from = self.scores.counted_from(self.weeks[place], self.name, label) if on.scores else None
        if all(score == counted_from for score, _ in on.scores):
            return [_as_estimated(numbers, on.share, cost)]
        reading = self._reading(place)
        if config is None or reading is None or label not in reading.labels:
            return None
        configured = Configured(config.automate_from(label), cost)
        return works_of(reading.labels[label], on, configured, self.context.config.evaluation.confidence)

    def _reading(self, place: int) -> StoredReading | None:
        if place not in self._readings:
            start = self.weeks[place].start
            self._readings[place] = self.context.store.load_reading("weekly", start, self.name)
        return self._readings[place]

    @cached_property
    def _readings(self) -> dict[int, StoredReading | None]:
        return {}

    def _numbers(self, labels: Sequence[str]) -> dict[tuple[int, str], dict[_Series, GridNumber]]:
        """The stored estimates by the place of their week and by label."""
        places = {week.start: place for place, week in enumerate(self.weeks)}
        found: dict[tuple[int, str], dict[_Series, GridNumber]] = {}
        for series in _READ:
            rows = self.context.store.grid_numbers(list(places), self.name, labels, series, schedule="weekly")
            for row in rows:
                found.setdefault((places[row.window_start], row.label), {})[row.metric, row.population] = row
        return found

    def _times_on(self, labels: Iterable[str]) -> dict[str, list[TimeOn]]:
        """For each label, how long automation was on in each week, and from which scores it acted."""
        first, end = self.weeks[0].start, min(self.weeks[-1].end, self.context.now)
        since = first - 2 * self.context.config.automation.lease  # a switch that is on then was renewed since
        steps = steps_by_label(self.context.store.switch_steps(self.name, since=since))
        whole, gates, published = steps.get("", []), self.context.store.gate_events(), self.scores.published
        found = {}
        for label in labels:
            on = on_spans(steps.get(label, []), whole, gates, first, end)
            acting = published.spans(self.name, label, first, self.weeks[-1].end) if on else []
            found[label] = [time_acting(on, acting, week.start, week.end) for week in self.weeks]
        return found


def _as_estimated(of: Mapping[_Series, GridNumber], on: float, cost: float | None) -> LabelWork:
    predicted, promised = of.get(_PREDICTED), of.get(_PROMISED)
    correct, excess = of.get(_KEPT), of.get(_EXCESS)
    accuracy = None if correct is None else correct.value
    gap = None if promised is None else promised.value
    return LabelWork(
        predicted=0 if predicted is None else predicted.n,
        eligible=0 if promised is None else promised.n,
        on=on,
        accuracy=accuracy,
        promised=None if accuracy is None or gap is None else accuracy + gap,
        excess=(excess.value or 0.0) if excess is not None else 0.0,
        low=None if excess is None else excess.low,
        high=None if excess is None else excess.high,
        cost=cost,
    )
