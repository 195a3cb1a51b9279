"""Stories from the history: what one label, or one incident, is told from. What several stories need is read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar, cast

from monitor.automation.as_of import Key, by_switch, identity_as_of, off_since, switch_as_of
from monitor.automation.label_evidence import stays_off
from monitor.automation.state import is_blocked
from monitor.config.model import Config
from monitor.context import Monitor, known_now
from monitor.core.diagnoses import Diagnosis, DiagnosisState
from monitor.core.episodes import NOT_SEEN, episodes
from monitor.core.records import Incident, KeptScores, SwitchEvent, SwitchState, Verdict, Window
from monitor.history.errors import HistoryError
from monitor.history.store import Store
from monitor.story.label import LabelStory, label_story, story_of_many
from monitor.story.switch import SwitchStory, switch_story
from monitor.story.window import urgency

_T = TypeVar("_T")
BACK = timedelta(weeks=53)
WITHIN = timedelta(weeks=1)
"""A past week is told as of the end of its run, at most so long after it: of one that was read again, the first."""
LOOKS_BACK = timedelta(weeks=12)
"""A label that nobody judged for so long before the newest window is not shown any more."""


@dataclass(frozen=True, slots=True)
class Teller:
    """Tells the stories of labels from one look at the history.

    ``until`` is the end of a past week: what was judged later is left out, and switches are as they were at ``now``.
    """

    store: Store
    config: Config
    now: datetime
    until: datetime | None = None
    _read_once: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, monitor: Monitor) -> Teller:
        """The stories of a monitor as of now."""
        return cls(monitor.store, monitor.config, monitor.clock())

    def of_incident(self, incident: Incident) -> LabelStory | None:
        """The story of an incident's subject, which may be many labels. None without any diagnosis."""
        stories = [self.of_label(incident.source, label, incident) for label in incident.labels or (incident.label,)]
        told = [story for story in stories if story is not None]
        return story_of_many(told) if incident.labels and told else next(iter(told), None)

    def of_label(self, source: str, label: str | None, incident: Incident | None = None) -> LabelStory | None:
        """The story of one label, or of a source as a whole; None without any diagnosis."""
        diagnoses = self.diagnoses(source, label)
        return self._story(diagnoses, incident, {}) if diagnoses else None

    @classmethod
    def of_run(cls, store: Store, config: Config, window: Window, now: datetime) -> Teller:
        """The stories of a past window, as of its run; at most :data:`WITHIN` after its end."""
        ended = [run["finished_at"] for run in store.runs_of(window).values() if run["finished_at"] is not None]
        at = min(max([window.end, *ended]), window.end + WITHIN, now)
        return cls(store, config, at, until=window.end)

    def of_window(self, diagnoses: Iterable[Diagnosis], verdicts: Iterable[Verdict] = ()) -> list[LabelStory]:
        """The stories of diagnoses of one window, stored or not, which rest on ``verdicts``.

        A label that is fine has little to tell, and no past is read for it.
        """
        judged = {verdict.id: verdict for verdict in verdicts}
        return [
            self._told(each)
            if each.state is DiagnosisState.FINE
            else self._story([*self._before(each), each], None, judged)
            for each in diagnoses
        ]

    def _before(self, diagnosis: Diagnosis) -> list[Diagnosis]:
        """The earlier diagnoses of a label that was in trouble within a year; of another there is nothing to tell."""
        troubled = self._once(
            "troubled", diagnosis.source, diagnosis.window,
            make=lambda: self.store.troubled_diagnoses(diagnosis.source, diagnosis.window, self.now - BACK),
        )  # fmt: skip
        if diagnosis.label not in {each.label for each in troubled}:
            return []
        past = self.diagnoses(diagnosis.source, diagnosis.label)
        return [each for each in past if each.window != diagnosis.window and each.window.end <= diagnosis.window.end]

    def _story(
        self,
        diagnoses: list[Diagnosis],
        incident: Incident | None,
        verdicts: Mapping[str, Verdict],
        *,
        with_switch: bool = True,
    ) -> LabelStory:
        newest = diagnoses[-1]
        ended_too = incident is not None or newest.state is not DiagnosisState.CANNOT_TELL
        # of the trouble that goes on, or that ended at most four weeks before the newest window
        run = next(iter(episodes(diagnoses)[-1:]), None)
        ended = None if run is None else run.ended
        is_told = ended is None or (ended_too and newest.window.end - ended.window.end <= NOT_SEEN)
        trouble = run.last if run is not None and is_told else None
        unsafe = newest.state is DiagnosisState.UNSAFE
        lead = None if trouble is None else self.lead(trouble, verdicts)
        return self._told(
            newest, trouble=trouble, incident=incident, lead=lead,
            switch=self.switch(newest.source, newest.label, against=unsafe) if with_switch else None,
        )  # fmt: skip

    def of_all(self) -> list[LabelStory]:
        """The story of every label of the newest windows, the worst first, then the costliest.

        A label that is fine, or was never in trouble, has no facts here, and no switch: its own story has both.
        """
        unresolved = self.store.unresolved_incidents()
        incidents = {(each.source, each.label): each for each in unresolved if not each.labels}
        diagnoses = self.store.newest_diagnoses(back=LOOKS_BACK, until=self.until or self.now)
        stories = []
        for each in diagnoses:
            incident = incidents.get((each.source, each.label)) if self.until is None else None
            before = self._before(each) if each.state is DiagnosisState.CANNOT_TELL else []
            stories.append(self._story([*before, each], incident, {}, with_switch=bool(before) or each.is_trouble))
        return sorted(stories, key=urgency)

    def _told(self, diagnosis: Diagnosis, **about: Any) -> LabelStory:
        """The story of a diagnosis; where several sources have a label of this name, with its source."""
        label, others = diagnosis.label, [each for each in self.config.sources if each != diagnosis.source]
        shared = label is not None and any(
            label in self._once("labels", source, make=partial(self.store.known_labels, source)) for source in others
        )
        return label_story(diagnosis, as_of=self.now, of_source=shared, **about)

    def diagnoses(self, source: str, label: str | None) -> list[Diagnosis]:
        """The diagnoses of a label in the last year, oldest first."""

        def read() -> list[Diagnosis]:
            found = self.store.diagnoses_of(source, label, since=(self.until or self.now) - BACK)
            return [each for each in found if self.until is None or each.window.end <= self.until]

        return self._once("diagnoses", source, label, make=read)

    def lead(self, diagnosis: Diagnosis, verdicts: Mapping[str, Verdict] | None = None) -> Verdict | None:
        """The verdict that a diagnosis rests on first: one of ``verdicts``, else the stored one, else None."""
        if not diagnosis.because:
            return None
        try:
            return (verdicts or {}).get(diagnosis.because[0]) or self.store.verdict(diagnosis.because[0])
        except HistoryError:
            return None

    def switch(self, source: str, label: str | None, *, against: bool = False) -> SwitchStory | None:
        """The present switch of a label. None for a source's own switch that was never set, which forbids nothing."""
        state = self._state(source, label)
        if label is None and state.state == "never_set":
            return None
        return self.switch_now(state, against=against)

    def switch_now(self, state: SwitchState, *, against: bool = False) -> SwitchStory:
        """The story of one switch: where it is off, since when, by the ends of its leases too."""
        key, whole = (state.source, state.label), None if state.label is None else self._state(state.source, None)
        identity = (
            self._once("identity", make=self.store.identity)
            if self.until is None
            else identity_as_of(by_switch(self.store.gate_events()), self.now)
        )
        told = partial(
            switch_story, state, self.now, whole=whole, identity=identity, against=against,
            dry_run=self.config.automation.dry_run,
        )  # fmt: skip
        story = told()
        if not story.allowed and state.state != "never_set":
            story = told(off_since=off_since(self._events(*key), key, self.now))  # from all of its events
        helps = story.enable_helps and state.source in self.config.sources
        counts = self.until is None and state.ok_streak  # the evidence of a past week is not kept
        read = partial(known_now, self.store, self.config, *key, self.now)
        known = self._once("known", *key, make=read) if counts else ()
        return replace(story, stays=stays_off(state, self.config, known), enable_helps=helps)

    def _state(self, source: str, label: str | None) -> SwitchState:
        if self.until is None:
            of_each = self._once("switches", make=lambda: {(s.source, s.label): s for s in self.store.switches()})
            return of_each.get((source, label), SwitchState(source, label))
        events = self._events(source, label).get((source, label), ())
        return self._with_kept(switch_as_of(events, self.now, source=source, label=label))

    def _with_kept(self, state: SwitchState) -> SwitchState:
        """A past state with what was shown of the scores that were left: the verdict that blocked others has it."""
        by_id = self.store.verdicts_by_id([state.verdict]) if state.blocked and state.verdict else {}
        limits = [KeptScores(**limit) for verdict in by_id.values() if (limit := verdict.detail.get("limit"))]
        return replace(state, kept=next((kept for kept in limits if not is_blocked(kept.score, state.blocked)), None))

    def _events(self, source: str, label: str | None) -> dict[Key, list[SwitchEvent]]:
        """The events of a label's switch, of its source's and of all gates."""
        read = partial(self.store.switch_events, source)
        own = [
            e
            for each in dict.fromkeys((None, label))
            for e in self._once("events", source, each, make=partial(read, each))
        ]
        return by_switch([*own, *self._once("gates", make=self.store.gate_events)])

    def _once(self, *key: Any, make: Callable[[], _T]) -> _T:
        if key not in self._read_once:
            self._read_once[key] = make()
        return cast("_T", self._read_once[key])
