"""Whatever happens in whatever order, the switch errs to "off", and what is done twice is done once.

The machine works on a real history and asks as a gate does. What must hold is said of the log of all
that happened (:class:`Log`), not of the switch's own fields, so that it repeats none of its reckoning.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from monitor.automation.gate.cache import hold
from monitor.automation.gate.snapshot import SwitchSnapshot, decide
from monitor.automation.state import is_blocked
from monitor.automation.switch import Evidence, after_run
from monitor.config.load import parse_config
from monitor.config.model import AutomationConfig, ReEnableAfter
from monitor.config.settings import load_settings
from monitor.context import ActMode, Monitor
from monitor.core.records import Outcome, Reason, Schedule, Subject, SwitchEvent, SwitchState, Verdict, Window
from monitor.core.score_ranges import merged, outwards
from monitor.evaluation.evaluate import Evaluated
from monitor.history import switches as stored_switches
from monitor.history import tables
from monitor.history.connect import put_versions
from monitor.history.store import Store
from monitor.operations import act
from monitor.operations.change_switch import change_switch
from monitor.operations.restate import record
from monitor.warehouse.reader import Warehouse

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LEASE = 9 * DAY
HOLD = 24 * HOUR
TTL_S = 30.0
LENGTH: dict[Schedule, timedelta] = {"weekly": 7 * DAY, "daily": DAY}
PERIOD: dict[Schedule, timedelta] = {"weekly": 7.5 * DAY, "daily": 1.5 * DAY}  # with half a day for a run that is late
REASONS = {
    "ok": Reason.WITHIN_THRESHOLD, "breach": Reason.ABOVE_THRESHOLD, "not_evaluated": Reason.TOO_FEW_ROWS,
    "unconfirmed": Reason.STREAK_INCOMPLETE, "rejected": Reason.REJECTED_ROWS, "unread": Reason.WAREHOUSE_FAILED,
}  # fmt: skip
KEYS: tuple[str | None, ...] = ("plain", "grave", None)
SCORES = (0.79, 0.8, 0.85, 0.9, 0.95, 1.0)
RULES = {
    "weekly-off": ("weekly", "labels", "disable_automation"), "weekly-block": ("weekly", "labels", "block_scores"),
    "daily-off": ("daily", "labels", "disable_automation"), "whole-off": ("weekly", "source", "disable_automation"),
    "whole-block": ("weekly", "source", "block_scores"), "daily-new": ("daily", "labels", "disable_automation"),
}  # fmt: skip
REVISIONS = {"first": set(RULES) - {"daily-new"}, "second": set(RULES) - {"weekly-off"}}
CONFIG = """\
version: 1
sources:
  {source}:
    relation: nowhere
    score_is: probability_of_label
    automate_at: 0.8
    labels: {{plain: {{}}, grave: {{critical: true}}}}
rules:
{rules}
automation: {{when_not_evaluated: {when}, initial: {initial}, re_enable: {re_enable}, dry_run: {dry}}}
"""
_sources = itertools.count()

cells = st.integers(0, 10_000).map(lambda cell: cell / 10_000)
ranges = st.lists(st.tuples(cells, cells).map(lambda pair: (min(pair), max(pair))), max_size=2)
# What the rules of one switch find in a window: the one that turns off, and (weekly) the one that blocks.
STORIES: dict[str, tuple[str | None, str | None]] = {
    "nothing": (None, None), "good": ("ok", "ok"), "good in part": ("not_evaluated", "ok"), "bad": ("breach", "ok"),
    "scores": ("ok", "breach"), "all wrong": ("breach", "breach"), "silent": ("not_evaluated", "not_evaluated"),
    "doubtful": ("unconfirmed", "ok"), "both doubtful": ("unconfirmed", "unconfirmed"), "unread": ("unread", "unread"),
    "rejected in part": ("rejected", "ok"),
}  # fmt: skip
OF: dict[tuple[Schedule, str | None], tuple[str, ...]] = {
    **{("weekly", key): ("weekly-off", "weekly-block") for key in ("plain", "grave")},
    **{("daily", key): ("daily-off", "daily-new") for key in ("plain", "grave")},
    ("weekly", None): ("whole-off", "whole-block"), ("daily", None): (),
}  # fmt: skip
stories = st.sampled_from([
    "good", "bad", "scores", "good", "silent", "nothing", "good in part", "all wrong", "doubtful", "both doubtful",
    "unread", "rejected in part",
])  # fmt: skip
wrong_scores = st.sampled_from([[(0.8412, 0.9088)], [(0.9477, 1.0)], [(0.1, 0.8), (0.93, 0.951)], []])
findings = st.fixed_dictionaries(dict.fromkeys(KEYS, stories))


class Crash(Exception):
    """The process died here."""


@dataclass(frozen=True)
class Entry:
    """One thing that happened to one switch. ``says`` is "on" or "off" (a person), or what a run found."""

    at: datetime
    says: str
    by_person: bool
    until: datetime | None = None  # of a person's change: until when it holds
    window: tuple[str, datetime] | None = None
    blocked: tuple[tuple[float, float], ...] = ()
    acted_on_allowed: bool = False  # the gate said yes before
    lease_to: datetime | None = None  # as far as this lets automation go on


@dataclass
class Said:
    """What one rule said about one window, when it was last asked; ``place``: how much had happened before."""

    outcome: str
    blocked: tuple[tuple[float, float], ...]
    place: int


@dataclass
class Log:
    """All that happened to one switch, and what must therefore be so now.

    ``rules`` are those of alerts.yaml now, and what each has said; ``settled``: whether a run or a person has decided
    since alerts.yaml changed, a run died, or one that may not act found something.
    """

    critical: bool
    dry: bool
    good_needed: float
    entries: list[Entry] = field(default_factory=list)
    rules: set[str] = field(default_factory=set)
    said: dict[str, dict[datetime, Said]] = field(default_factory=dict)
    judged: dict[str, datetime] = field(default_factory=dict)
    asked: dict[str, datetime] = field(default_factory=dict)
    settled: bool = True

    def hears(self, verdicts: list[Verdict], now: datetime, *, acts: bool = True) -> None:
        """Take what a run has found, rule by rule; one that may not act judges nothing lately."""
        for name in self.rules if acts else {v.rule for v in verdicts if v.outcome != "not_evaluated"}:
            self.asked.setdefault(name, now)
        for v in verdicts:
            end, windows = v.window.end, self.said.setdefault(v.rule, {})
            if v.reason == Reason.WAREHOUSE_FAILED:
                continue
            if acts:
                self.judged[v.rule] = max(end, self.judged.get(v.rule, end))
            if v.outcome not in ("ok", "breach") and end in windows and windows[end].outcome == "breach":
                continue  # only a window within the threshold takes a breach back
            blocked = () if "disable_automation" in v.actions else tuple((a, b) for a, b in v.detail["blocked"])
            windows[end] = Said(v.outcome, blocked, len(self.entries))

    def in_breach(self) -> list[Said]:
        """The last decisive words of the acting rules, where they are a breach."""
        last = []
        for name in self.rules:
            windows = self.said.get(name, {})
            decisive = [windows[end] for end in sorted(windows) if windows[end].outcome in ("ok", "breach")]
            last += decisive[-1:]
        return [each for each in last if each.outcome == "breach"]

    def judged_lately(self, turned_on: datetime) -> datetime:
        """As far as the rule that was judged longest ago lets a lease go."""
        ends = [
            self.judged.get(rule, max(self.asked.get(rule, turned_on), turned_on)) + max(LEASE, PERIOD[RULES[rule][0]])  # type: ignore[index]
            for rule in self.rules
        ]
        return min(ends)

    def of_runs(self, *says: str) -> list[Entry]:
        return [e for e in self.entries if not e.by_person and e.says in says]

    def persons(self) -> list[Entry]:
        return [e for e in self.entries if e.by_person]

    def held(self, when: datetime, before: int) -> bool:
        """Whether a person's enable, the last word of any person before this entry, held then."""
        words = [e for e in self.entries[:before] if e.by_person]
        return bool(words) and words[-1].says == "on" and not self.critical and (words[-1].until or when) > when

    def _undone(self, position: int) -> bool:
        """Whether something after this entry may have undone what it stopped."""
        later = self.entries[position + 1 :]
        good = {e.window for e in later if e.says == "ok"}
        return any(e.by_person and e.says == "on" for e in later) or len(good) >= self.good_needed

    def why_closed(self, score: float, now: datetime) -> str:
        """Why automation may not act for this reason alone; "" where nothing here forbids it."""
        reason = self._by_a_person(now)
        if reason or self.dry:
            return reason
        stopped = (self._by_a_run(position, entry, score) for position, entry in enumerate(self.entries))
        return self._by_the_evidence(score, now) or next(filter(None, stopped), "")

    def _by_a_person(self, now: datetime) -> str:
        last = next((e for e in reversed(self.persons())), None)
        if last is None or last.says == "on":
            return ""
        may_be_over = last.until is not None and last.until <= now and self._undone(self.entries.index(last))
        return "" if may_be_over else "a person turned it off"

    def _by_the_evidence(self, score: float, now: datetime) -> str:
        """The property: the last evaluated outcome of an acting rule is a breach, and no hold runs."""
        if not self.settled:
            return ""
        against = [b for b in self.in_breach() if not b.blocked or any(low <= score <= high for low, high in b.blocked)]
        enables = [i for i, e in enumerate(self.entries) if e.by_person and e.says == "on"]
        for breach in against:
            holds = bool(enables) and (self.entries[enables[-1]].until or now) > now
            protects = holds and (not self.critical or enables[-1] >= breach.place)
            if not protects:
                return "the last evaluation of an acting rule is a breach, and no enable holds"
        return ""

    def _by_a_run(self, position: int, entry: Entry, score: float) -> str:
        if entry.by_person or self.held(entry.at, position) or self._undone(position):
            return ""
        if entry.says == "off":
            return "a run turned it off"
        if entry.says == "silent off" and entry.acted_on_allowed:
            return "it could not be evaluated"
        in_range = any(low <= score <= high for low, high in entry.blocked)
        blocks = entry.says == "block" and entry.acted_on_allowed and in_range
        return "the score is blocked" if blocks else ""

    def lease(self) -> datetime:
        """The latest moment up to which anything that happened lets automation go on."""
        ends = [e.lease_to for e in self.entries if e.lease_to] + [e.at + LEASE for e in self.persons()]
        return max(ends, default=MONDAY - LEASE)


def replayed(events: list[SwitchEvent]) -> tuple[str, tuple[tuple[float, float], ...], datetime | None]:
    """State, blocked ranges and lease, by the events alone."""
    state, blocked, lease = "never_set", (), None
    for event in events:
        assert event.from_state == state, "each event begins where the last one ended"
        state, blocked, lease = event.to_state, event.blocked, event.lease_until
    return state, blocked, lease


class SwitchMachine(RuleBasedStateMachine):
    """One source with a plain and a critical label, through weeks and days, people, crashes and quiet."""

    store = Store.from_url("sqlite://")
    dry = False

    @initialize(
        when=st.sampled_from(["keep", "disable"]), initial=st.sampled_from(["off", "on_first_ok"]),
        good=st.sampled_from([None, 1, 2]),
    )  # fmt: skip
    def start(self, when: str, initial: str, good: int | None) -> None:
        self.source = f"source-{next(_sources)}"
        self.now, self.passed = MONDAY + 7 * HOUR, timedelta(0)  # what clocks say, and what really passed
        self.when, self.initial = when, initial
        self.texts = {
            name: CONFIG.format(
                source=self.source, when=when, initial=initial, dry=str(self.dry).lower(),
                re_enable="manual" if good is None else f"{{after: {good}}}",
                rules="\n".join(
                    f"  - {{id: {id}, metric: mce, threshold: 0.2, schedule: {when}, scope: {scope}, "
                    f"actions: [{action}]}}"
                    for id, (when, scope, action) in RULES.items() if id in rules
                ),
            )
            for name, rules in REVISIONS.items()
        }  # fmt: skip
        self.monitor = Monitor(
            parse_config(self.texts["first"]), load_settings({}), Warehouse.from_url("sqlite://"), self.store, None,
            lambda: self.now,
        )  # fmt: skip
        with self.store._write() as connection:  # what earlier examples left would only make this one slow
            for table in tables.metadata.sorted_tables:
                if table is not tables.history:  # a history without its identity is a damaged one
                    connection.execute(table.delete())
        self.store.publish_thresholds(self.monitor.config.thresholds, self.now)
        self.thresholds = self.store.thresholds()
        needed = float("inf") if good is None else good
        self.logs = {
            key: Log(key != "plain", self.dry, needed) for key in KEYS
        }  # the source stops a critical label as well
        self.revision = "first"
        self.rules_of_this_revision()
        self.windows: dict[Schedule, list[Window]] = {"weekly": [], "daily": []}
        self.crashed: tuple[Window, Evaluated] | None = None
        self.held, self.read_at = hold(self.board(), began=self.elapsed(), ttl_s=TTL_S), self.elapsed()
        self.store_is_gone = False

    def rules_of_this_revision(self) -> None:
        for key, log in self.logs.items():
            scope = "source" if key is None else "labels"
            log.rules = {id for id in REVISIONS[self.revision] if RULES[id][1] == scope}

    # The gate

    def elapsed(self) -> float:
        return self.passed.total_seconds()

    def states(self) -> dict[str | None, SwitchState]:
        found = {key: SwitchState(self.source, key) for key in KEYS}
        return found | {s.label: s for s in self.store.switches() if s.source == self.source}

    def board(self) -> SwitchSnapshot:
        return SwitchSnapshot(self.now, {(s.source, s.label): s for s in self.states().values()}, self.thresholds)

    def allowed(self, label: str, score: float) -> bool:
        return decide(self.board(), self.source, label, score, self.now).allowed

    def anything_allowed(self, board: SwitchSnapshot, key: str | None) -> bool:
        labels = ["plain", "grave"] if key is None else [key]
        return any(decide(board, self.source, one, s, self.now).allowed for one in labels for s in SCORES)

    # What happens

    @rule(hours=st.sampled_from([1, 20, 25, 24 * 3, 24 * 7, 24 * 12]))
    def time_passes(self, hours: int) -> None:
        self.now += hours * HOUR
        self.passed += hours * HOUR

    @rule(revision=st.sampled_from(list(REVISIONS)))
    def alerts_yaml_changes(self, revision: str) -> None:
        """A rule is added and another one removed, or back again; nothing is decided by that."""
        if revision == self.revision:
            return
        self.revision, self.crashed = revision, None
        self.monitor = replace(self.monitor, config=parse_config(self.texts[revision]))
        self.rules_of_this_revision()
        for log in self.logs.values():
            log.settled = False

    @rule(hours=st.sampled_from([-30, -2, 1]))
    def the_clock_is_set(self, hours: int) -> None:
        self.now = max(MONDAY + 7 * HOUR, self.now + hours * HOUR)

    @rule(gone=st.booleans())
    def the_store_comes_and_goes(self, gone: bool) -> None:
        self.store_is_gone = gone

    @rule(
        schedule=st.sampled_from(["weekly", "weekly", "daily"]), late=st.sampled_from([0, 0, 0, 0, 1, 3]),
        found=findings, blocked=wrong_scores, mode=st.sampled_from(["auto", "auto", "auto", "always", "never"]),
        crash=st.sampled_from([None, None, None, "before acting", "in the first change", "in the second change"]),
    )  # fmt: skip
    def a_run(
        self, schedule: Schedule, late: int, found: dict[str | None, str], blocked: list[tuple[float, float]],
        mode: ActMode, crash: str | None,
    ) -> None:  # fmt: skip
        length = LENGTH[schedule]
        end = MONDAY + ((self.now - MONDAY) // length - late) * length
        window = Window(end - length, end, f"{schedule} {end:%m-%d}", schedule)
        verdicts = [
            judged(id, self.source, key, window, outcome, blocked)
            for key, story in found.items()
            for id, outcome in zip(OF[schedule, key], STORIES[story], strict=False)
            if outcome is not None and id in REVISIONS[self.revision]
        ]
        self.run(window, Evaluated(self.source, window, (), tuple(verdicts), (), ()), mode, crash)

    @precondition(lambda self: self.crashed is not None)
    @rule()
    def the_crashed_run_is_repeated(self) -> None:
        assert self.crashed is not None
        self.run(*self.crashed, "auto", None)

    def run(self, window: Window, part: Evaluated, mode: ActMode, crash: str | None) -> None:
        newest = [w.start for w in self.windows[window.schedule]]
        before, board = self.states(), self.board()
        was_allowed = {key: self.anything_allowed(board, key) for key in KEYS}
        may = act.refusals_of(self.monitor, window, [self.source], mode)
        record(self.monitor, window, [part])
        if any(v.outcome != "not_evaluated" for v in part.verdicts):
            self.windows[window.schedule].append(window)
        self.crashed = (window, part) if crash else None
        if crash != "before acting":
            with dying(crash):
                act.act(self.monitor, window, [part], [], may, requested=mode == "always")
        after = self.states()
        refused = mode == "never" or (mode == "auto" and bool(newest) and window.start < max(newest))
        if refused or crash == "before acting":
            assert after == before, "a backfill and an older window change nothing"
            if crash != "before acting":
                self.what_was_found_is_kept(part)
            return
        for key, log in self.logs.items():
            found = [v for v in part.verdicts if v.subject.label == key]
            if found:
                log.hears(found, self.now)
                log.settled = crash is None
        for key in KEYS:
            self.note_run(key, window, part, mode, crash, before[key], after[key], was_allowed[key])
        self.the_gate_says_yes_only_where_nothing_forbids_it()

    def what_was_found_is_kept(self, part: Evaluated) -> None:
        """What may not act is evidence all the same: the next run acts on it, and an enable is against it."""
        for key, log in self.logs.items():
            found = [v for v in part.verdicts if v.subject.label == key]
            if found:
                log.hears(found, self.now, acts=False)
                log.settled = False

    def note_run(
        self, key: str | None, window: Window, part: Evaluated, mode: ActMode, crash: str | None,
        before: SwitchState, after: SwitchState, was_allowed: bool,
    ) -> None:  # fmt: skip
        verdicts = [v for v in part.verdicts if v.subject.label == key]
        log, says = self.logs[key], said(verdicts, self.when)
        persons = log.persons()
        if persons and persons[-1].says == "off" and persons[-1].until is None:
            assert after.state == "off", "a run never undoes an operator's off"
        if self.initial == "off" and key is not None and not any(e.says == "on" for e in persons):
            assert after.state != "on", "no run turns on what nobody ever turned on"
        if self.dry:
            assert (after.state, after.blocked) == (before.state, before.blocked), "a dry run moves nothing"
        applied = [e.window[1] for e in log.entries if e.window]
        is_newest = all(window.end >= end for end in applied)
        if not is_newest and after.lease_until and before.lease_until and before.lease_until > self.now:
            assert after.lease_until <= max(before.lease_until, window.end + LEASE)
        same = [e.window[1] for e in log.entries if e.window and e.window[0] == window.schedule]
        if any(window.end < end - 6 * DAY for end in same) and before.lease_until and after.lease_until:
            assert after.lease_until <= before.lease_until, "an old week renews nothing"
        if not verdicts or ((crash or not is_newest) and after.version == before.version):
            return  # it may not have come so far, or may have been too old: nothing is claimed
        blocked = tuple((low, high) for v in verdicts for low, high in v.detail["blocked"] if v.outcome == "breach")
        renews = ("ok", "block", "doubtful", "good but rejected", "off") if self.dry else (
            "ok", "block", "doubtful", "good but rejected",
        )  # fmt: skip
        turned_on = before.changed_at if before.state == "on" and before.changed_at else self.now
        lease_to = min(window.end + LEASE, log.judged_lately(turned_on)) if says in renews else None
        log.entries.append(
            Entry(self.now, says, False, None, (window.schedule, window.end), blocked, was_allowed, lease_to)
        )

    @rule(
        key=st.sampled_from(["plain", "plain", "grave", None]),
        enable=st.sampled_from([True, True, False]),
        hold=st.sampled_from([None, None, HOLD / 2, 3 * DAY, 20 * DAY]),
    )
    def a_person(self, key: str | None, enable: bool, hold: timedelta | None) -> None:
        until = None if hold is None else self.now + hold
        before = self.states()[key]
        change_switch(self.monitor, self.source, key, enable=enable, by="ana", reason="because", until=until)
        after = self.states()
        if enable:
            until = until or self.now + HOLD
        elif after[key].hold_until is None:
            until = None  # an off of what was not on has no end
        log = self.logs[key]
        log.entries.append(Entry(self.now, "on" if enable else "off", True, until))
        log.settled = True
        if enable and log.in_breach():
            assert after[key].verdict is not None, "an enable against the evidence says so"
            assert after[key].lease_until == min(until or self.now, self.now + LEASE), "and is on while it holds"
        assert after[key].version == before.version + 1
        if enable and key is not None and after[None].state == "never_set":
            assert self.allowed(key, 1.0), "an enable opens at once"

    @rule(
        key=st.sampled_from(["plain", "plain", "grave", None]), story=st.sampled_from(["bad", "scores"]),
        enable_first=st.booleans(), hours=st.sampled_from([1, 25]), blocked=wrong_scores,
    )  # fmt: skip
    def a_person_and_a_breach(
        self, key: str | None, story: str, enable_first: bool, hours: int, blocked: list[tuple[float, float]]
    ) -> None:
        """What matters most, in one step: an enable before a breach, shortly or not, or after it."""
        if key is None:
            self.a_person("plain", True, None)
        if enable_first:
            self.a_person(key, True, None)
            self.time_passes(hours)
        self.a_run("weekly", 0, {key: story}, blocked, "auto", None)
        if not enable_first:
            self.a_person(key, True, None)
        self.time_passes(26 - hours)

    @rule(
        key=st.sampled_from(["plain", "plain", "grave"]), schedule=st.sampled_from(["weekly", "daily"]),
        then=st.lists(
            st.sampled_from(["doubtful", "both doubtful", "silent", "good in part", "rejected in part"]),
            min_size=1, max_size=2,
        ),
        other=st.booleans(),
    )  # fmt: skip
    def a_breach_that_nothing_clears_and_a_person(
        self, key: str, schedule: Schedule, then: list[str], other: bool
    ) -> None:
        """After a breach no window of its rule is good: a later enable is against it, whoever else is good."""
        self.time_passes(24 * 7)
        self.a_run(schedule, 0, {key: "bad"}, [], "auto", None)
        for story in then:
            self.time_passes(24 * 7)
            self.a_run(schedule, 0, {key: story}, [], "auto", None)
            if other:
                self.a_run("daily" if schedule == "weekly" else "weekly", 0, {key: "good"}, [], "auto", None)
        self.a_person(key, True, None)
        self.time_passes(25)

    @rule(
        weeks=st.integers(1, 2), times=st.integers(1, 2), schedule=st.sampled_from(["weekly", "weekly", "daily"]),
        story=st.sampled_from(["good", "good", "good in part", "rejected in part"]),
    )  # fmt: skip
    def all_is_well(self, weeks: int, times: int, schedule: Schedule, story: str) -> None:
        """Good windows, or windows in which one rule is good, each judged once or twice."""
        for _ in range(weeks):
            self.time_passes(24 * 7)
            for _ in range(times):
                self.a_run(schedule, 0, dict.fromkeys(KEYS, story), [], "auto", None)

    # What must hold

    @invariant()
    def the_gate_says_yes_only_where_nothing_forbids_it(self) -> None:
        board = self.board()
        for label, score in itertools.product(("plain", "grave"), SCORES):
            decision = decide(board, self.source, label, score, self.now)
            if not decision.allowed:
                assert decision.until is None
                continue
            log = self.logs[label]
            note(f"{label} {score} {log.entries} whole: {self.logs[None].entries}")
            assert score >= 0.8
            first_ok = self.initial == "on_first_ok" and bool(log.of_runs("ok"))
            assert any(e.says == "on" for e in log.persons()) or first_ok, "never set"
            assert self.now < log.lease(), "the lease has ended"
            assert self.now < decision.until <= log.lease()
            assert log.why_closed(score, self.now) == ""
            assert self.logs[None].why_closed(score, self.now) == ""

    @invariant()
    def a_gate_without_its_store_is_closed_after_its_ttl(self) -> None:
        if not self.store_is_gone:
            self.held, self.read_at = hold(self.board(), began=self.elapsed(), ttl_s=TTL_S), self.elapsed()
            assert self.held.answer(self.source, "plain", 0.9, self.elapsed()) == decide(
                self.held.snapshot, self.source, "plain", 0.9, self.now
            )
        age = self.elapsed() - self.read_at
        assert self.held.is_fresh(self.elapsed()) == (age < TTL_S)

    @invariant()
    def the_events_in_their_order_give_the_state_and_every_change_has_one(self) -> None:
        events = self.store.switch_events(self.source)
        for key, state in self.states().items():
            mine = [e for e in events if e.label == key]
            assert replayed(mine) == (state.state, state.blocked, state.lease_until)
            if self.dry:
                changes = [e for e in mine if not e.kind.startswith("would_")]
                assert len(changes) <= state.version <= len(mine)
            else:
                assert not any(e.kind.startswith("would_") for e in mine)
                assert len(mine) == state.version
            assert len({e.key for e in mine}) == len(mine)

    @invariant()
    def off_keeps_nothing_alive(self) -> None:
        for state in self.states().values():
            assert merged(state.blocked) == outwards(state.blocked) == state.blocked
            if state.state != "on":
                assert (state.blocked, state.lease_until) == ((), None)


@contextmanager
def dying(crash: str | None) -> Iterator[None]:
    """The process dies in the transaction of its n-th change of a switch, after the event is written."""
    left = {None: 0, "in the first change": 1, "in the second change": 2}[crash]
    write = put_versions

    def dies(connection: Any, table: Any, rows: Any) -> None:
        nonlocal left
        left -= table is tables.switches
        if left == 0 and table is tables.switches:
            raise Crash
        write(connection, table, rows)

    with pytest.MonkeyPatch.context() as patch:
        if crash:
            patch.setattr(stored_switches, "put_versions", dies)
        with suppress(Crash):
            yield


def judged(
    rule: str, source: str, key: str | None, window: Window, outcome: str, blocked: list[tuple[float, float]]
) -> Verdict:
    content, says = repr((rule, source, key, window.name, outcome, blocked)), outcome
    outcome = says if says in ("ok", "breach", "unconfirmed") else "not_evaluated"
    return Verdict(
        id=hashlib.sha256(content.encode()).hexdigest()[:16], rule=rule, subject=Subject(source, key), window=window,
        metric="mce", where="all", outcome=outcome, reason=REASONS[says], severity="critical", threshold=0.2,
        actions=(RULES[rule][2],) if outcome == "breach" else (),  # type: ignore[arg-type]
        detail={"blocked": [list(each) for each in blocked] if RULES[rule][2] == "block_scores" else []},
    )  # fmt: skip


def said(verdicts: list[Verdict], when: str) -> str:
    """What a window says about one switch, in the words of the contract."""
    breaches = [v for v in verdicts if v.outcome == "breach"]
    if any("disable_automation" in v.actions or not any(w.detail["blocked"] for w in breaches) for v in breaches):
        return "off"
    if breaches:
        return "block"
    if any(v.outcome == "unconfirmed" for v in verdicts):
        return "doubtful"
    if any(v.outcome == "ok" for v in verdicts):
        return "good but rejected" if any(v.reason == Reason.REJECTED_ROWS for v in verdicts) else "ok"
    return "silent off" if when == "disable" else "silent"


class DryRunMachine(SwitchMachine):
    """The same in a dry run."""

    dry = True


def how_many(examples: int) -> settings:
    return settings(
        max_examples=examples, stateful_step_count=25, deadline=None, derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )  # fmt: skip


SwitchMachine.TestCase.settings = how_many(60)
DryRunMachine.TestCase.settings = how_many(20)
TestSwitchMachine = SwitchMachine.TestCase
TestDryRunMachine = DryRunMachine.TestCase


@given(ranges, cells)
def test_merging_blocks_the_same_scores(parts: list[tuple[float, float]], score: float):
    assert is_blocked(score, merged(parts)) == any(low <= score <= high for low, high in parts)


@given(ranges, st.randoms())
def test_merged_ranges_are_sorted_apart_and_do_not_depend_on_the_order(parts, random):
    found = merged(parts)
    assert all(one[1] < two[0] for one, two in itertools.pairwise(found))
    random.shuffle(parts)
    assert merged(parts) == merged(found) == found


@given(st.lists(st.sampled_from(["ok", "breach", "not_evaluated"]), min_size=1, max_size=12), st.integers(1, 3))
def test_it_comes_back_exactly_after_so_many_good_weeks_without_a_breach_between(weeks: list[Outcome], needed: int):
    """Against a plain count: not evaluated neither counts nor breaks a row; a breach starts it again."""
    automation = AutomationConfig(when_not_evaluated="keep", re_enable=ReEnableAfter(after=needed))
    state = replace(
        SwitchState("tickets", "billing"), state="off", actor="weekly run", changed_at=MONDAY, version=1
    )  # fmt: skip
    on, row = False, 0
    for number, outcome in enumerate(weeks):
        end = MONDAY + number * 7 * DAY
        window = Window(end - 7 * DAY, end, str(number), "weekly")
        found = judged("weekly-off", "tickets", "billing", window, outcome, [])
        evidence = Evidence(end, "weekly", (found,), str(number))
        state = after_run(state, evidence, automation, critical=False, now=end).after
        row = 0 if outcome == "breach" else row + (outcome == "ok")
        on = outcome != "breach" and (on or row >= needed)
        row = 0 if on else row
        assert (state.state == "on") is on
