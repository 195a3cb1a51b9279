"""Truths that come late: what a young window says, which rules wait, and what late truths restate.

One world, judged in two ways and once late by the whole program: a dozen runs, which take some seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copyfile
from typing import Any

import duckdb
import pytest

from monitor.context import Monitor, Sent
from monitor.core.records import Delivery, Estimate, Reason, Window
from monitor.core.windows import SETTLE
from monitor.operations import act as acting
from monitor.operations.collect import collect
from monitor.operations.pin_baseline import pin
from monitor.run import Run, run_window
from monitor.warehouse.reader import Warehouse, WarehouseFailed
from tests.fakes.late_truths import LateTruths, late_truths

YOUNG, NEXT, LAST = 14, 15, 21
"""The weeks that are judged: two after each other, and one after all their truths have come."""
MATURE = 0.9


class Nowhere:
    """Slack: every message is there at once."""

    def send(self, delivery: Delivery, _root: Sent | None = None, /) -> Sent:
        return Sent("C1", delivery.id)

    def find(self, _delivery: Delivery, _root: Sent | None = None, /) -> None: ...

    def check(self) -> Any: ...


@dataclass(frozen=True)
class Judged:
    """One way to judge the world, and what each run gave."""

    world: LateTruths
    way: str
    mature: float | None
    results: dict[int, Run]

    @contextmanager
    def opened(self) -> Iterator[Monitor]:
        with self.world.judged_by(self.way, mature=self.mature) as monitor:
            yield replace(monitor, sender=Nowhere())

    def run(self, number: int) -> Run:
        self.world.at(self.world.weeks[number].end + SETTLE)
        begin(self.world, self.way)
        with self.opened() as monitor:
            self.results[number] = run_window(monitor, self.world.weeks[number])
        return self.results[number]

    def estimates(self) -> list[Estimate]:
        weeks = {self.world.weeks[number].name for number in (YOUNG, NEXT)}
        with self.opened() as monitor:
            found = monitor.store.estimates(schedule="weekly", segments=True)
        return [e for e in found if e.window.name in weeks]

    def replies(self) -> list[str]:
        with self.opened() as monitor:
            found = monitor.store.deliveries()
        return [str(each.payload) for each in found if each.operation == "reply"]


def begin(world: LateTruths, way: str) -> bool:
    """Whether the way had no history: then one with nothing but the baseline, whose truths had all come long before."""
    if (world.folder / f"{way}.sqlite").exists():
        return False
    if not (world.folder / "pinned.sqlite").exists():
        with world.judged_by("pinned", mature=None) as monitor:
            pin(monitor, world.weeks[0], world.weeks[7], by="test", reason="test")
    for file in list(world.folder.glob("pinned.sqlite*")):
        copyfile(file, world.folder / file.name.replace("pinned", way))
    return True


def week_of(judged: Judged, number: int) -> Window:
    return judged.world.weeks[number]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> LateTruths:
    faults = [0.0] * NEXT + [0.3] * 10
    return late_truths(tmp_path_factory.mktemp("late"), weeks=LAST + 1, size=500, seed=3, faults=faults)


def judged_by(world: LateTruths, way: str, mature: float | None) -> Judged:
    judged = Judged(world, way, mature, {})
    for number in (YOUNG, NEXT, LAST):
        judged.run(number)
    return judged


@pytest.fixture(scope="module")
def waiting(world: LateTruths) -> Judged:
    return judged_by(world, "waiting", MATURE)


@pytest.fixture(scope="module")
def hasty(world: LateTruths) -> Judged:
    return judged_by(world, "hasty", None)


def test_a_young_window_says_how_many_truths_are_known_and_rules_wait_for_them(waiting: Judged) -> None:
    """The share that is expected holds what came in the end."""
    young = waiting.results[YOUNG]
    assert {v.reason for part in young.evaluated for v in part.verdicts if v.subject.label} == {Reason.NOT_MATURE}
    assert not young.actions
    with waiting.opened() as monitor:
        start = week_of(waiting, YOUNG).start
        ends = monitor.store.maturities("weekly", "tickets", since=start, until=start)
    known = {m.subject.label: m for part in young.evaluated for m in part.maturity}
    assert set(known) == {None, "access", "billing", "refund"}
    for label, then in known.items():
        final = ends[start, label]
        assert 0.5 < then.share < 0.8
        assert not then.is_final
        assert then.low - 0.01 <= final.share <= then.high + 0.01
        assert final.is_final
        assert final.items == then.items
    (row,) = (row for row in young.document["maturity"] if row["label"] is None)
    assert (row["items"], row["known"], row["state"]) == (1500, known[None].known, "provisional")


def test_late_truths_restate_a_window_and_what_was_said_before_stays(waiting: Judged) -> None:
    """The rule that waited finds the fault of the week that has matured, and opens its incident."""
    assert waiting.results[LAST].document["restated"] == [
        {"source": "tickets", "window": week_of(waiting, number).name} for number in (YOUNG, NEXT)
    ]
    with waiting.opened() as monitor:
        for number in (YOUNG, NEXT):
            start = week_of(waiting, number).start
            now = monitor.store.verdicts(schedule="weekly", window_start=start, rule="overconfidence", label="access")
            ever = monitor.store.verdicts(
                schedule="weekly", window_start=start, rule="overconfidence", label="access", current_only=False
            )
            assert [v.outcome for v in now] == [["ok", "breach"][number == NEXT]]
            assert {v.reason for v in ever} > {Reason.NOT_MATURE}
            assert all(monitor.store.verdict(v.id).id == v.id for v in ever)
        opened = [i for i in monitor.store.incidents() if "overconfidence" in i.rules]
        switch = monitor.store.switch("tickets", "access")
    assert [(i.label, i.opened_window, i.is_open) for i in opened] == [("access", week_of(waiting, LAST).name, True)]
    assert switch.state != "on"


def test_a_restated_window_is_diagnosed_again(waiting: Judged) -> None:
    (then,) = (d for d in waiting.results[NEXT].diagnoses if d.label == "access")
    with waiting.opened() as monitor:
        (now,) = (d for d in monitor.store.diagnoses(week_of(waiting, NEXT)) if d.label == "access")
        stored = monitor.store.verdicts(schedule="weekly", window_start=week_of(waiting, NEXT).start, label="access")
    assert (then.is_trouble, now.is_trouble) == (False, True)
    assert {v.id for v in stored if v.outcome == "breach"} >= set(now.because) > set()


@pytest.mark.parametrize("way", ["waiting", "hasty"])
def test_final_estimates_are_those_of_a_run_with_all_truths(
    way: str, world: LateTruths, request: pytest.FixtureRequest
) -> None:
    judged = request.getfixturevalue(way)
    late = Judged(world, "late", None, {})
    world.at(world.weeks[LAST].end + SETTLE)
    if begin(world, "late"):
        with late.opened() as monitor:
            for number in (YOUNG, NEXT):
                run_window(monitor, world.weeks[number], act="never")
    assert judged.estimates() == late.estimates()
    assert len(late.estimates()) > 400


def test_what_was_restated_is_acted_on_although_runs_might_not_or_were_killed_before(
    world: LateTruths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that may not act, and one that is killed between its verdicts and its actions, leave it to the next."""
    judged = Judged(world, "killed", MATURE, {})
    judged.run(NEXT)
    with monkeypatch.context() as patched:
        patched.setattr(acting, "refusals_of", lambda *_: {"tickets": "not done: an older window"})
        judged.run(LAST)
        patched.undo()
        patched.setattr(acting, "take_evidence", killed)
        with pytest.raises(KeyboardInterrupt):
            judged.run(LAST)
    judged.run(LAST)
    with judged.opened() as monitor:
        opened = [(i.label, i.opened_window) for i in monitor.store.incidents() if "overconfidence" in i.rules]
        (evidence,) = (e for e in monitor.store.evidence("tickets") if e.label == "access")
    assert opened == [("access", week_of(judged, LAST).name)]
    assert [each.outcome for each in evidence.windows] == ["breach"]
    assert not judged.run(LAST).document.get("restated")


def test_a_window_without_most_of_its_rows_keeps_what_was_measured_and_the_run_says_so(
    hasty: Judged, tmp_path: Path
) -> None:
    for name in ("warehouse.duckdb", "hasty.sqlite"):
        copyfile(hasty.world.folder / name, tmp_path / name)
    with duckdb.connect(str(tmp_path / "warehouse.duckdb")) as connection:
        connection.execute(f"DELETE FROM tickets WHERE item LIKE '%-{YOUNG}-%' AND item NOT LIKE '%7'")
    copied = LateTruths(tmp_path, hasty.world.weeks, [hasty.world.weeks[LAST].end + SETTLE])
    with copied.judged_by("hasty", mature=None) as monitor:
        young = week_of(hasty, YOUNG)
        before = monitor.store.load_reading("weekly", young.start, "tickets")
        (found,) = collect(monitor, week_of(hasty, LAST), ["tickets"], store=True)
        after = monitor.store.load_reading("weekly", young.start, "tickets")
    assert (after.rows, after.digest) == (before.rows, before.digest)
    assert young not in [each.data.current.window for each in found.restated]
    notes = [example for each in found.data.quality if each.reason == "rows_deleted" for example in each.examples]
    assert [note["window"] for note in notes] == [young.name]
    assert 2 * int(str(notes[0]["now"])) < int(str(notes[0]["before"]))


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_window_whose_delays_could_not_be_read_is_judged_again_once_they_can(
    world: LateTruths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its counts are good: rules that do not wait judge them, those that wait do not take it for complete."""

    def broken(*_: object, **__: object) -> None:
        raise WarehouseFailed("no answer")

    waits, judges = Judged(world, "broken", MATURE, {}), Judged(world, "broken hasty", None, {})
    with monkeypatch.context() as patch:
        patch.setattr(Warehouse, "delays", broken)
        for judged in (waits, judges):
            (part,) = judged.run(YOUNG).evaluated
            assert (part.problem, part.maturity, len(part.estimates) > 100) == (None, (), True)
            assert [(each.reason, each.rows) for each in part.quality] == [("delays_failed", 0)]
            reasons = {v.reason for v in part.verdicts}
            assert (reasons == {Reason.UNRESOLVED_FAILED}) == (judged is waits), reasons
    for judged in (waits, judges):
        (part,) = judged.run(NEXT).evaluated
        (restated,) = part.restated
        assert restated.window == week_of(judged, YOUNG)
        assert Reason.UNRESOLVED_FAILED not in {v.reason for v in restated.verdicts}
        with judged.opened() as monitor:
            assert monitor.store.quality("weekly", restated.window.start) == []
