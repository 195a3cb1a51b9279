"""All that the diagnosis of one label is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from statistics import median

from monitor.config.model import EvaluationConfig
from monitor.core.counts import Counts
from monitor.core.diagnoses import Diagnosis
from monitor.core.promises import PastWindow, Promise
from monitor.core.records import Annotation, Schedule, Verdict, Where, Window
from monitor.evaluation.shift.onset import Level

ACTS: tuple[Where, ...] = ("automated", "predicted", "all")
"""The rows that act: the first of these that a label has."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelFacts:
    """What is known about one label (None: the source as a whole) at the end of ``window``.

    ``verdicts`` has the newest one of each rule, of both schedules; ``acting`` the rules that may touch the switch, and
    ``waits`` those that wait for truths, so that their newest outcome is of an earlier window;
    ``past`` the earlier diagnoses, oldest first; ``windows`` those of a year and the judged one, oldest first;
    ``levels`` the values of other metrics by (metric, where), oldest first; ``counts`` those of the newest windows by
    name, newest first; ``time_on`` the share of a window, by label and name, in which automation was on (none: never),
    without the time in which some scores were blocked: ``limited`` has that, with the promise of the rows that acted.
    ``renamed_to`` is the label that appeared when this one vanished and is like it. The truth of ``unchecked`` items
    that acted alone is not known; ``unchecked_before``: of none was it known in the window before.
    """

    source: str
    label: str | None
    window: Window
    evaluation: EvaluationConfig
    verdicts: Sequence[Verdict] = ()
    acting: frozenset[str] = frozenset()
    waits: frozenset[str] = frozenset()
    past: Sequence[Diagnosis] = ()
    windows: Mapping[Schedule, Sequence[PastWindow]] = field(default_factory=dict)
    levels: Mapping[tuple[str, Where], Sequence[Level]] = field(default_factory=dict)
    counts: Mapping[str, Counts] = field(default_factory=dict)
    time_on: Mapping[tuple[str | None, str], float] = field(default_factory=dict)
    limited: Mapping[tuple[str | None, str], Sequence[tuple[Promise, float]]] = field(default_factory=dict)
    annotations: Sequence[Annotation] = ()
    renamed_to: str = ""
    unchecked: int = 0
    unchecked_before: bool = False

    def acted(self, schedule: Schedule) -> list[tuple[Window, Promise, list[tuple[Promise, float]]]]:
        """What the rows that act promised and kept in each window, oldest first.

        With each what those promised that did act, and for which share of its time. Of a source as a whole, those of
        each of its labels: their switches differ.
        """
        windows = self.windows.get(schedule, ())
        labels: list[str | None] = [self.label]
        if self.label is None:
            names = {label for each in windows for label in each.labels if label is not None}
            labels = [*sorted(names)] or labels
        found = []
        for label in labels:
            kept = [(each.window, each.labels.get(label, {})) for each in windows]
            where: Where = next((where for where in ACTS if any(where in promises for _, promises in kept)), "all")
            for window, promises in kept:
                if where in promises:
                    key, promise = (label, window.name), promises[where]
                    found.append((window, promise, [(promise, self.time_on.get(key, 0.0)), *self.limited.get(key, ())]))
        return found

    def last_rows(self) -> tuple[str, int | None]:
        """The newest window in which the label had rows ("": none), and how many it usually has: of a day, a day."""
        for schedule in dict.fromkeys((self.window.schedule, "weekly")):
            windows = self.windows.get(schedule, ())
            rows = [(w.window.name, of["all"].rows) for w in windows if (of := w.labels.get(self.label))]
            if rows:
                return rows[-1][0], round(median(count for _, count in rows))
        return "", None


# --- a label whose rows stopped when those of another began: perhaps it has only another name


LIKE = 1.5
"""Shares of the rows are alike up to this factor."""
SCORES_LIKE = 0.1
LEAST = 10
"""A label with fewer rows a window is like too many others."""
BEFORE = 4
LATELY = 8
"""So many windows later nobody is asked any more."""
Measures = tuple[int, float, float]


def renamed_to(label: str, windows: Sequence[PastWindow]) -> str:
    """The label that appeared when ``label`` vanished, with about its share of the rows and its mean score; "": none.

    ``windows`` are oldest first. One that both have rows in is that of the change.
    """
    places = [place for place, each in enumerate(windows) if label in each.labels]
    last = places[-1] if places else 0
    if not last or not 1 <= len(windows) - 1 - last <= LATELY:
        return ""
    known = {name for each in windows[:last] for name in each.labels}
    arrived = {name for each in windows[last : last + 2] for name in each.labels if name is not None} - known
    rows, shares, scores = zip(*(_measures(windows[place], label) for place in places[-BEFORE:]), strict=True)
    then = round(median(rows)), median(shares), median(scores)
    # of the newest window: the first one may have few rows, since the name changed within it
    newest = {name: _measures(windows[-1], name) for name in arrived if name in windows[-1].labels}
    found = {
        name: now
        for name, now in newest.items()
        if min(then[0], now[0]) >= LEAST
        and 1 / LIKE <= now[1] / then[1] <= LIKE
        and abs(now[2] - then[2]) <= SCORES_LIKE
    }
    return min(sorted(found), key=lambda name: abs(log(found[name][1] / then[1])), default="")


def _measures(window: PastWindow, label: str) -> Measures:
    """The rows of a label, their share of all rows, and their mean score."""
    every = sum(of["all"].rows for name, of in window.labels.items() if name is not None)
    own = window.labels[label]["all"]
    return own.rows, own.rows / every, own.promised
