"""What automation did month by month: what acted, and what it cost, from stored estimates and the time it was on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from math import sqrt

from monitor.automation.as_of import Key, by_switch, on_spans
from monitor.core.records import SwitchEvent, Window
from monitor.history.evaluations import GridNumber
from monitor.service.pages.base import PageContext

_READ = (
    (("overconfidence", "predicted"), ("overconfidence", "automated")),
    (("automated_accuracy", "all"), ("excess_errors", "all")),
)
"""Groups that are read together: every metric of a group in every population of that group."""
_Numbers = Mapping[tuple[str, str], GridNumber]


@dataclass(frozen=True, slots=True)
class Work:
    """Sums over labels and weeks. ``predicted``, ``eligible`` (score from ``automate_at`` on) and ``acted`` are rows.

    What acted is the eligible rows times the share of the week in which automation was on; so are the ``wrong`` actions
    and the ``extra`` errors beyond those that scores claimed. ``avoided`` are such errors while it was off after
    it had been on, with limits that take weeks and labels for independent (``spread`` is the sum of squares of their
    half widths). ``priced`` and ``spared`` are the cost of wrong actions and of avoided errors, of labels with a
    configured cost.
    """

    predicted: float = 0.0
    eligible: float = 0.0
    acted: float = 0.0
    wrong: float = 0.0
    extra: float = 0.0
    avoided: float = 0.0
    spread: float = 0.0
    priced: float = 0.0
    spared: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def limits(self) -> tuple[float, float]:
        """The limits of the avoided errors."""
        return self.avoided - sqrt(self.spread), self.avoided + sqrt(self.spread)


def work_by_month(
    context: PageContext, weeks: Sequence[Window], labels: Mapping[str, Sequence[str]]
) -> dict[str, Work]:
    """The month in which weeks begin -> the work of ``labels`` (by source) in these ``weeks``, oldest first."""
    months = {week.start: f"{week.start.astimezone(context.config.zone):%b %Y}" for week in weeks}
    places = {week.start: place for place, week in enumerate(weeks)}
    sums = dict.fromkeys(months.values(), Work())
    for source, names in labels.items():
        by_cell: dict[tuple[datetime, str | None], dict[tuple[str, str], GridNumber]] = {}
        for series in _READ:
            for row in context.store.grid_numbers(list(places), source, names, series, schedule="weekly"):  # type: ignore[arg-type]
                by_cell.setdefault((row.window_start, row.label), {})[row.metric, row.population] = row
        steps, first = steps_of(context, source, weeks), context.store.first_on(source)
        shares = {label: _shares(context, (source, label), steps, weeks) for label in {label for _, label in by_cell}}
        config = context.config.sources.get(source)  # None where it was removed
        for (start, label), numbers in by_cell.items():
            costs = None if config is None else config.costs_of(label)
            price = 0.0 if costs is None else costs.false_positive or 0.0
            on, week, begun = shares[label][places[start]], weeks[places[start]], first.get(label)
            # before it was ever on, nothing was avoided
            known = 0.0 if begun is None else (week.end - max(begun, week.start)) / (week.end - week.start)
            sums[months[start]] += work_of(numbers, on, max(0.0, known - on), price)
    return sums


def steps_of(context: PageContext, source: str, weeks: Sequence[Window]) -> Mapping[Key, Sequence[SwitchEvent]]:
    """The events of each switch of a source that say what it was in any of these weeks."""
    return by_switch(context.store.switch_events(source, since=weeks[0].start))


def _shares(
    context: PageContext, key: Key, steps: Mapping[Key, Sequence[SwitchEvent]], weeks: Sequence[Window]
) -> list[float]:
    """The share of each week in which automation of a label was on."""
    gates, end = context.store.gate_events(), min(weeks[-1].end, context.now)
    spans = on_spans(steps.get(key, []), steps.get((key[0], None), []), gates, weeks[0].start, end)
    return [
        sum(
            max(0.0, (min(until, week.end) - max(since, week.start)) / (week.end - week.start))
            for since, until in spans
        )
        for week in weeks
    ]


def work_of(numbers: _Numbers, on: float, off: float, price: float) -> Work:
    """The work of one label in a week, in which automation was ``on`` and ``off``; ``price`` is of a wrong action."""
    predicted, automated = numbers.get(("overconfidence", "predicted")), numbers.get(("overconfidence", "automated"))
    accuracy, excess = numbers.get(("automated_accuracy", "all")), numbers.get(("excess_errors", "all"))
    eligible = 0.0 if automated is None else float(automated.n)
    wrong = 0.0 if accuracy is None or accuracy.value is None else on * eligible * (1 - accuracy.value)
    errors = 0.0 if excess is None else excess.value or 0.0
    half = 0.0 if excess is None or excess.low is None or excess.high is None else (excess.high - excess.low) / 2
    avoided = off * errors
    return Work(
        0.0 if predicted is None else float(predicted.n), eligible, on * eligible, wrong, on * errors, avoided,
        (off * half) ** 2, price * wrong, price * avoided,
    )  # fmt: skip
