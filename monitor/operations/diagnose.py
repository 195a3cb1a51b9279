"""Diagnose every label of a run: gather what its diagnosis is made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, cached_property

import numpy as np

from monitor.automation.as_of import Key, by_switch, time_on, times_on
from monitor.automation.renaming import RENAMES
from monitor.config.counting import settings_of
from monitor.config.rule_sources import acting_rules
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.counts import CELLS, Counts
from monitor.core.diagnoses import AutomationState, Diagnosis, NotTold
from monitor.core.promises import PastWindow, Promise, of_the_same_evidence, promise_of
from monitor.core.records import TRUTHS_SCARCE, Reason, Schedule, SwitchEvent, SwitchState, Verdict, Where, Window
from monitor.core.score_ranges import Ranges
from monitor.evaluation.data import WindowCounts
from monitor.evaluation.diagnosis import NEWEST, diagnose, with_labels
from monitor.evaluation.evaluate import Evaluated
from monitor.evaluation.label_facts import LabelFacts, renamed_to
from monitor.evaluation.shift.onset import Level, level_of
from monitor.inference.levels import all_promises_of
from monitor.inference.sequential import LONGEST
from monitor.metrics.names import ACCUMULATES
from monitor.story.gather import Teller

BACK = timedelta(weeks=53)
"""How far back diagnoses are looked at."""
MATURES = timedelta(weeks=12)
"""An older verdict of a rule that waits for truths says nothing of the present."""
_NOT_YET = (Reason.NOT_MATURE, Reason.UNRESOLVED_FAILED)
COUNTED = 8
"""Scores are recalibrated on so many of the newest windows, at most."""
Label = str | None


def diagnoses_of(monitor: Monitor, evaluated: Evaluated, current: WindowCounts) -> list[Diagnosis]:
    """The diagnosis of each label of a source that has a verdict, and of the source as a whole if it has.

    ``current`` are the counts of the judged window; those before it are read from the history.
    """
    facts = _SourceFacts(monitor, evaluated, current)
    found = [diagnose(facts.of(label)) for label in sorted(facts.verdicts, key=lambda label: label or "")]
    found = _with_truth_share(monitor, found, current)
    return with_labels(found, facts.verdicts, current.labels, monitor.config.evaluation)


def _with_truth_share(monitor: Monitor, found: Sequence[Diagnosis], current: WindowCounts) -> list[Diagnosis]:
    """The diagnoses; those of a trouble say how much of what acted has a truth, where the reading calls it scarce."""
    rows, window = current.whole.unresolved, current.window
    if rows is None or not any(each.is_trouble for each in found):
        return list(found)
    said = {each.reason for each in monitor.store.quality(window.schedule, window.start, rows.source)}
    if TRUTHS_SCARCE not in said:
        return list(found)
    known = {each.label: rows.resolved_of(each.label).where("automated").rows for each in found}
    acted = {each.label: rows.acting(each.label) for each in found if each.is_trouble}
    return [
        replace(each, notes=replace(each.notes, with_truth=known[each.label] / acted[each.label]))
        if acted.get(each.label)
        else each
        for each in found
    ]


@dataclass
class _SourceFacts:
    """What is known about one source; what most labels do not need is read when it is asked for first."""

    monitor: Monitor
    evaluated: Evaluated
    current: WindowCounts

    def __post_init__(self) -> None:
        self.windows, self._counted = cache(self._windows), cache(self._counts_of)
        self.counts_in = cache(self._counts_in)

    def of(self, label: Label) -> LabelFacts:
        """The facts of one label."""
        source, config, verdicts = self.evaluated.source, self.monitor.config, self.verdicts[label]
        breaches = [v for v in verdicts if v.outcome == "breach" and v.severity != "info"]
        schedules = {v.window.schedule for v in breaches}
        if any(v.reason is Reason.NO_ROWS for v in verdicts):
            schedules |= {"weekly", self.evaluated.window.schedule}
        known = {schedule: self.windows(schedule) for schedule in schedules}
        on, limited = self._time_on(label, known) if breaches else ({}, {})
        unchecked = self._unchecked(label) if "weekly" in known else 0
        return LabelFacts(
            source, label, self.evaluated.window, config.evaluation, verdicts,
            frozenset(rule.id for rule in acting_rules(config, source, label)), self.waits, self.past.get(label, ()),
            known,
            self._levels(label, breaches), self._counts(label, schedules) if breaches else {},
            on, limited,
            self.monitor.store.annotations(source, label) if breaches else (),
            "" if label is None or "weekly" not in known or breaches else self._renamed_to(label, known["weekly"]),
            unchecked, unchecked > 0 and label in self._unchecked_before,
        )  # fmt: skip

    def _unchecked(self, label: Label) -> int:
        """How many items of the window acted alone on the label and have no truth."""
        waiting = self.current.whole.unresolved
        return 0 if label is None or waiting is None else waiting.waiting_of(label).where("automated").rows

    @cached_property
    def _unchecked_before(self) -> frozenset[Label]:
        """The labels that acted in the window and the one before, then without a truth of any item that acted."""
        window, source = self.evaluated.window, self.evaluated.source
        before = windows.previous(window, self.monitor.config.zone)
        past = self.monitor.store.diagnoses(before, source)
        silent = [each.label for each in past if each.label and each.reason is NotTold.NO_TRUTH_WHERE_IT_ACTS]
        return frozenset(
            label
            for label in silent
            if all(time_on(self._events, (source, label), each.start, each.end) > 0 for each in (before, window))
        )

    def _renamed_to(self, label: str, windows: Sequence[PastWindow]) -> str:
        """The label that this one seems to be now; "" if nobody knows, or somebody has said what one of them is."""
        found = renamed_to(label, windows)
        said = self.monitor.store.switch_events_of(RENAMES) if found else []
        named = {each.label for each in said if each.source == self.evaluated.source}
        return "" if named & {label, found} else found

    # --- verdicts and diagnoses

    @cached_property
    def verdicts(self) -> Mapping[Label, list[Verdict]]:
        """By label, the newest verdict of each rule of alerts.yaml: of windows that ended by the end of this one."""
        window, rules = self.evaluated.window, {rule.id for rule in self.monitor.config.rules}
        newest = {(v.subject.label, v.rule): v for v in [*self._elsewhere(), *self.evaluated.verdicts]}
        newest |= {key: verdict for key, verdict in self._matured().items() if newest[key].reason in _NOT_YET}
        found: dict[Label, list[Verdict]] = defaultdict(list)
        for (label, rule), verdict in sorted(newest.items(), key=lambda item: item[0][1]):
            if rule in rules and verdict.window.end <= window.end:
                found[label].append(verdict)
        return found

    @property
    def waits(self) -> frozenset[str]:
        """The rules that wait for truths."""
        return frozenset(rule.id for rule in self.monitor.config.rules if rule.mature is not None)

    def _matured(self) -> dict[tuple[Label, str], Verdict]:
        """Of rules that wait for truths of the judged window: the newest verdict on a window that had its truths."""
        window = self.evaluated.window
        waiting = (
            {(v.subject.label, v.rule) for v in self.evaluated.verdicts if v.reason in _NOT_YET} if self.waits else ()
        )
        if not waiting:
            return {}
        between = (window.start - MATURES, window.start)
        past = self.monitor.store.verdicts(schedule=window.schedule, source=self.evaluated.source, between=between)
        judged = sorted((v for v in past if v.reason not in _NOT_YET), key=lambda verdict: verdict.window.start)
        newest = {
            (v.subject.label, v.rule): v for v in judged if v.rule in self.waits and v.window.start < window.start
        }
        return {key: verdict for key, verdict in newest.items() if key in waiting}

    def _elsewhere(self) -> list[Verdict]:
        """The verdicts of the other schedule that still say something of the present, oldest first."""
        window = self.evaluated.window
        other: Schedule = "daily" if window.schedule == "weekly" else "weekly"
        between = (window.end - NEWEST[other] - windows.LENGTH[other], window.end - windows.LENGTH[other])
        found = self.monitor.store.verdicts(schedule=other, source=self.evaluated.source, between=between)
        return sorted(found, key=lambda verdict: verdict.window.start)

    @cached_property
    def past(self) -> Mapping[Label, list[Diagnosis]]:
        """The earlier diagnoses of labels that were in trouble, oldest first."""
        window, found = self.evaluated.window, defaultdict(list)
        for diagnosis in self.monitor.store.troubled_diagnoses(self.evaluated.source, window, window.end - BACK):
            found[diagnosis.label].append(diagnosis)
        return found

    # --- windows

    def _windows(self, schedule: Schedule) -> tuple[PastWindow, ...]:
        """The windows of a year, oldest first, up to the judged one or the newest that ended before it."""
        config, source, judged = self.monitor.config, self.evaluated.source, self.evaluated.window
        here = schedule == judged.schedule
        until = judged if here else windows.containing(schedule, judged.end, config.zone)
        past = self.monitor.store.past_promises(source, until, LONGEST, config.zone, segments=True)
        kept = tuple(reversed(of_the_same_evidence(past, settings_of(config.sources[source]))))
        if not here:
            return kept
        now, promises = self.current, {label: all_promises_of(part) for label, part in self.current.labels.items()}
        return (*kept, PastWindow(now.window, promises, now.versions, now.rejected, now.segments))

    def _levels(self, label: Label, breaches: Sequence[Verdict]) -> dict[tuple[str, Where], list[Level]]:
        """The stored values of each metric in breach that is not made of promises, oldest first."""
        asked = {(v.metric, v.where, v.window.schedule) for v in breaches if v.metric not in ACCUMULATES}
        return {(metric, where): self._series(label, metric, where, of) for metric, where, of in sorted(asked)}

    def _series(self, label: Label, metric: str, where: Where, schedule: Schedule) -> list[Level]:
        evaluated = self.evaluated
        stored = self.monitor.store.estimates(
            metric=metric, source=evaluated.source, label=label, where=where, schedule=schedule, segments=False,
            between=(evaluated.window.start - BACK, evaluated.window.end),
        )  # fmt: skip
        own = [e for e in evaluated.estimates if (e.metric, e.where, e.subject.segment) == (metric, where, None)]
        by_window = {
            e.window.name: e for e in [*stored, *own] if e.subject.label == label and e.window.schedule == schedule
        }
        levels = (
            level_of(name, e.interval) for name, e in sorted(by_window.items()) if e.window.end <= evaluated.window.end
        )
        return [level for level in levels if level is not None]

    # --- counts and switches

    def _counts(self, label: Label, schedules: Collection[Schedule]) -> dict[str, Counts]:
        """The label's counts in the newest windows, newest first."""
        return {
            name: counts[label]
            for schedule in sorted(schedules)
            for name, counts in self._counted(schedule)
            if label in counts
        }

    def _counts_of(self, schedule: Schedule) -> list[tuple[str, Mapping[Label, Counts]]]:
        newest = (past.window for past in reversed(self.windows(schedule)[-COUNTED:]))
        return [(window.name, labels) for window in newest if (labels := self.counts_in(window))]

    def _counts_in(self, window: Window) -> Mapping[Label, Counts]:
        if window == self.current.window:
            return self.current.labels
        reading = self.monitor.store.load_reading(window.schedule, window.start, self.evaluated.source)
        return {} if reading is None else reading.labels

    def _time_on(
        self, label: Label, known: Mapping[Schedule, Sequence[PastWindow]]
    ) -> tuple[dict[tuple[Label, str], float], dict[tuple[Label, str], list[tuple[Promise, float]]]]:
        """The share of each window in which automation was on; of a source as a whole, for each of its labels.

        Of the time in which some scores were blocked, with the promise of the rows that acted then. Where the counts
        of a window are not kept any more, all of its rows count.
        """
        on: dict[tuple[Label, str], float] = {}
        limited: dict[tuple[Label, str], list[tuple[Promise, float]]] = {}
        for past in (past for of in known.values() for past in of[-LONGEST // 2 :]):
            for name in past.labels if label is None else [label]:
                if name is None:
                    continue
                key, window = (name, past.window.name), past.window
                shares = times_on(self._events, (self.evaluated.source, name), window.start, window.end)
                on[key] = shares.pop((), 0.0)
                for blocked, share in shares.items():
                    counts = self.counts_in(window).get(name)
                    if counts is None:
                        on[key] += share
                    elif (promise := _promise_beside(counts, blocked)) is not None:
                        limited.setdefault(key, []).append((promise, share))
        return on, limited

    @cached_property
    def _events(self) -> Mapping[Key, Sequence[SwitchEvent]]:
        store = self.monitor.store
        return by_switch([*store.switch_events(self.evaluated.source), *store.gate_events()])


def _promise_beside(counts: Counts, blocked: Ranges) -> Promise | None:
    """The promise of the rows that act while these scores are blocked; None if none does."""
    acts = counts.where("automated")
    is_blocked = np.any([(low <= acts.cell / CELLS) & (acts.cell / CELLS <= high) for low, high in blocked], axis=0)
    return promise_of(acts.take(~is_blocked))


def automation_of(monitor: Monitor, diagnoses: Sequence[Diagnosis]) -> tuple[AutomationState, ...]:
    """Whether each label may act alone now: on, off, or limited, which is on except for some scores or segments."""
    switches = {(each.source, each.label): each for each in monitor.store.switches()}
    states = (switches.get(key, SwitchState(*key)) for key in ((each.source, each.label) for each in diagnoses))
    teller = Teller.of(monitor)
    return tuple(teller.switch_now(state).state for state in states)
