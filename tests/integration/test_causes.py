"""From a breach to its cause: read by segment, stored with the verdict, in the message and the explanation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sqlalchemy.exc import OperationalError

from monitor.core.cause_words import cause_line, cause_words, causes_of, nothing, short_cause_line
from monitor.core.causes import Began, Causes
from monitor.core.counts import Counts
from monitor.core.records import Verdict
from monitor.core.windows import week
from monitor.operations.annotate import NewAnnotation, annotate
from monitor.report.explanation import VerdictContext, explain
from monitor.run import run_window
from monitor.warehouse.reader import Warehouse, WarehouseFailed, WarehouseTimeout
from tests.fakes.world import WEEKS, World, pinned_world, rows, write_duckdb, write_sqlite

pytestmark = pytest.mark.slow

CHANGED = 8
"""The place of the first week in which web goes wrong."""
EDGES = {"slipping": (1_000, 5_000, 10_000), "steady": (9_000, 10_000)}


def planted() -> pd.DataFrame:
    """The world with one thing wrong: "steady" is not what its scores claim in what comes through the web, in v2."""
    frame = rows()
    frame.loc[frame["label"] == "slipping", "actual"] = 0
    frame.loc[frame["label"] == "slipping", ["score", "predicted"]] = [0.02, 0]
    week_of = frame["item"].str.slice(0, 8)
    frame["model_version"] = np.where(week_of >= WEEKS[CHANGED], "v2", "v1")
    wrong = (frame["label"] == "steady") & (frame["channel"] == "web") & (week_of >= WEEKS[CHANGED])
    unlucky = np.random.default_rng(1).random(len(frame)) < 0.5
    frame.loc[wrong & unlucky & (frame["score"] > 0.5), "actual"] = 0
    return frame


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = pinned_world(tmp_path_factory.mktemp("causes"))
    write_duckdb(world.folder / "warehouse.duckdb", planted())
    with world.opened() as monitor:
        at = week(WEEKS[CHANGED], monitor.config.zone).start
        annotate(monitor.store, NewAnnotation("tickets", None, at, "new web form", "ana"), monitor.clock)
        for name in WEEKS[7 : CHANGED + 2]:
            run_window(monitor, week(name, monitor.config.zone))
    return world


def breaches(world: World) -> list[Verdict]:
    with world.opened() as monitor:
        window = week(WEEKS[CHANGED + 1], monitor.config.zone)
        found = monitor.store.verdicts(schedule="weekly", window_start=window.start)
    return [v for v in found if v.outcome == "breach" and v.subject.label == "steady" and v.metric != "ks"]


def test_the_planted_channel_is_the_cause_with_its_week_and_what_happened_then(judged: World) -> None:
    found = breaches(judged)
    assert found
    for verdict in found:
        causes = causes_of(verdict)
        assert causes is not None
        assert causes.columns == ("channel", "model_version")
        assert [cause.segment for cause in causes.causes] == [(("channel", "web"),)]
        assert causes.began is not None
        assert causes.began.window == WEEKS[CHANGED]
        assert f"model version v2 arrived ({WEEKS[CHANGED]})" in causes.began.events
        assert any('ana noted "new web form"' in event for event in causes.began.events)


def of_a_new_version(folder: Path, changed: int, run: int) -> Verdict:
    """A breach of "steady", which gets worse in all channels in week ``changed``, with which all rows are of v2."""
    world = pinned_world(folder)
    frame = planted()
    after = frame["item"].str.slice(0, 8) >= WEEKS[changed]
    frame["model_version"] = np.where(after, "v2", "v1")
    wrong = after & (frame["label"] == "steady") & (frame["score"] > 0.5)
    frame.loc[wrong & (np.random.default_rng(2).random(len(frame)) < 0.4), "actual"] = 0
    write_duckdb(world.folder / "warehouse.duckdb", frame)
    with world.opened() as monitor:
        window = week(WEEKS[run], monitor.config.zone)
        run_window(monitor, window)
        found = monitor.store.verdicts(schedule="weekly", window_start=window.start)
    return next(
        v for v in found if v.outcome == "breach" and v.subject.label == "steady" and v.metric == "overconfidence"
    )


@pytest.mark.parametrize(("changed", "run", "named"), [(6, 6, True), (7, 8, False)])
def test_a_version_of_all_rows_is_a_cause_only_where_it_is_known_that_it_came_when_the_change_began(
    tmp_path: Path, changed: int, run: int, named: bool
) -> None:
    causes = causes_of(of_a_new_version(tmp_path, changed, run))
    assert causes is not None
    assert causes.began is None
    assert ((("model_version", "v2"),) in [cause.segment for cause in causes.causes]) is named


def arriving(
    folder: Path,
    arrived: int,
    *,
    of_arrival: float = 1.0,
    of_change: float = 1.0,
    left_out: tuple[int, ...] = (),
    then: tuple[str, int, float] = ("", len(WEEKS), 0.0),
) -> Causes:
    """The causes of a breach of "steady", whose rows go wrong in week 8: ``of_change`` of them, then all.

    All rows are of v2 after the week ``arrived``, and in it ``of_arrival`` of them, first those that go wrong. No run
    is of a week ``left_out``; but each run reads the weeks that it may pool as well. ``then`` is another version, its
    first week and its share of the rows from then on.
    """
    world, frame = pinned_world(folder), rows()
    week_of, draws = frame["item"].str.slice(0, 8), np.random.default_rng(5).random((2, len(frame)))
    wrong = (week_of > WEEKS[CHANGED]) | ((week_of == WEEKS[CHANGED]) & (draws[0] < of_change))
    has_it = (week_of > WEEKS[arrived]) | ((week_of == WEEKS[arrived]) & (draws[0] < of_arrival))
    frame["model_version"] = np.where(has_it, "v2", "v1")
    other, since, share = then
    frame.loc[week_of.isin(WEEKS[since:]) & (np.random.default_rng(8).random(len(frame)) < share), "model_version"] = (
        other
    )
    frame.loc[frame["label"] == "slipping", ["score", "predicted", "actual"]] = [0.02, 0, 0]
    unlucky = (frame["label"] == "steady") & (frame["score"] > 0.5) & (draws[1] < 0.15)
    frame.loc[wrong & unlucky, "actual"] = 0
    write_duckdb(world.folder / "warehouse.duckdb", frame)
    with world.opened() as monitor:
        for place in range(6, CHANGED + 4):
            if place not in left_out:
                run_window(monitor, week(WEEKS[place], monitor.config.zone))
        found = monitor.store.verdicts(schedule="weekly")
    last = max((v for v in found if v.outcome == "breach" and "causes" in v.detail), key=lambda v: v.window.start)
    causes = causes_of(last)
    assert causes is not None
    return causes


V2 = (("model_version", "v2"),)


def test_a_version_that_came_after_the_change_most_likely_began_is_no_cause_but_is_said_to_have_come_then(
    tmp_path: Path,
) -> None:
    causes = arriving(tmp_path, CHANGED + 1, of_change=0.6)
    began = causes.began
    assert began is not None
    assert (began.window, began.low, began.high) == (WEEKS[CHANGED], WEEKS[CHANGED], WEEKS[CHANGED + 1])
    assert causes.causes == ()
    assert nothing(causes).endswith(
        f"it began in {WEEKS[CHANGED]} (between {WEEKS[CHANGED]} and {WEEKS[CHANGED + 1]}; in that time model version "
        f"v2 arrived ({WEEKS[CHANGED + 1]}))"
    )


@pytest.mark.parametrize("share", [1.0, 0.6, 0.3])
def test_a_version_with_which_the_change_came_is_the_cause_also_where_few_rows_had_it_at_first(
    tmp_path: Path, share: float
) -> None:
    causes = arriving(tmp_path, CHANGED, of_arrival=share, of_change=share)
    assert causes.began is not None
    assert [(cause.segment, cause.arrived) for cause in causes.causes] == [(V2, WEEKS[CHANGED])]
    if share == 0.3:
        assert (causes.began.window, causes.began.low) == (WEEKS[CHANGED + 1], WEEKS[CHANGED + 1])
        assert "when it began" not in cause_words(causes.causes[0], causes)


def test_a_version_that_replaced_the_one_with_which_the_change_came_leaves_the_cause_to_that_one(
    tmp_path: Path,
) -> None:
    causes = arriving(tmp_path, CHANGED, then=("v3", CHANGED + 1, 1.0))
    assert [(cause.segment, cause.arrived) for cause in causes.causes] == [(V2, WEEKS[CHANGED])]


def test_a_version_of_few_rows_that_came_with_the_change_of_all_rows_is_no_cause_of_it(tmp_path: Path) -> None:
    causes = arriving(tmp_path, 6, then=("v3", CHANGED, 0.12))
    assert causes.began is not None
    assert f"model version v3 arrived ({WEEKS[CHANGED]})" in causes.began.events
    assert causes.causes == ()


def test_a_version_that_was_complete_before_the_change_began_is_no_cause(tmp_path: Path) -> None:
    assert arriving(tmp_path, CHANGED - 1).causes == ()


def test_a_version_that_may_have_come_in_a_week_that_was_not_read_is_not_said_to_have_come_after_it(
    tmp_path: Path,
) -> None:
    causes = arriving(tmp_path, CHANGED - 1, left_out=(7, 8, 9, 10))
    assert causes.began == Began(WEEKS[11], WEEKS[7], WEEKS[11])
    assert causes.causes == ()


def test_a_channel_that_was_wrong_from_its_first_week_on_is_so_since_that_week(tmp_path: Path) -> None:
    world, frame = pinned_world(tmp_path), rows()
    week_of, draws = frame["item"].str.slice(0, 8), np.random.default_rng(6).random((2, len(frame)))
    new = (week_of >= WEEKS[CHANGED]) & (draws[0] < 0.4)
    frame.loc[new, "channel"] = "chat"
    frame.loc[new & (frame["label"] == "steady") & (frame["score"] > 0.5) & (draws[1] < 0.5), "actual"] = 0
    frame.loc[frame["label"] == "slipping", ["score", "predicted", "actual"]] = [0.02, 0, 0]
    write_duckdb(world.folder / "warehouse.duckdb", frame)
    with world.opened() as monitor:
        for name in WEEKS[6 : CHANGED + 3]:
            run_window(monitor, week(name, monitor.config.zone))
        window = week(WEEKS[CHANGED + 2], monitor.config.zone)
        found = monitor.store.verdicts(schedule="weekly", window_start=window.start)
    causes = causes_of(next(v for v in found if v.outcome == "breach" and v.subject.label == "steady"))
    assert causes is not None
    assert [(each.segment, each.traffic[0]) for each in causes.causes] == [((("channel", "chat"),), 0.0)]
    assert causes.causes[0].began == Began(WEEKS[CHANGED], WEEKS[CHANGED], WEEKS[CHANGED])


def test_message_and_explanation_say_the_same_cause(judged: World) -> None:
    verdict = breaches(judged)[0]
    line = cause_line(verdict)
    assert line.startswith("Likely cause: channel = web: overconfidence up by ")
    with judged.opened() as monitor:
        messages = [str(delivery.payload) for delivery in monitor.store.deliveries()]
    short = short_cause_line(verdict).partition(": ")[2]
    assert short.startswith("channel = web (")
    assert any(short in message for message in messages)
    assert any(line.partition(": ")[2] in message for message in messages)  # the numbers, in the thread
    steps = explain(VerdictContext(verdict, verdict.rules_revision)).steps
    assert next(step.text for step in steps if step.name == "causes").endswith(f"{line}.")


def test_the_same_counts_leave_every_engine_and_add_up_to_those_of_the_labels(tmp_path: Path, judged: World) -> None:
    urls = (judged.warehouse_url, write_sqlite(tmp_path / "w.sqlite", planted()))
    found = []
    with judged.opened() as monitor:
        source, window, now = monitor.config.sources["tickets"], week(WEEKS[8], monitor.config.zone), monitor.clock()
        whole = monitor.warehouse.read("tickets", source, window, now=now)
    for url in urls:
        with Warehouse.from_url(url) as warehouse:
            found.append(warehouse.by_segment("tickets", source, window, EDGES, now=now))
    for label, upper in EDGES.items():
        parts = [each[label].parts for each in found]
        assert parts[0].keys() == parts[1].keys() == {("email", "v2"), ("web", "v2")}
        assert all(parts[0][key].digest() == parts[1][key].digest() for key in parts[0])
        assert sum(part.rows for part in parts[0].values()) == whole.labels[label].rows
        assert {int(cell) for part in parts[0].values() for cell in part.cell} <= set(upper)
        assert sum(_hits(part) for part in parts[0].values()) == _hits(whole.labels[label])


def _hits(counts: Counts) -> float:
    return counts.positives


@pytest.mark.parametrize("error", [WarehouseFailed("gone"), ZeroDivisionError("nobody foresaw it")])
def test_causes_that_are_not_found_leave_the_verdict_as_it_is_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    world = pinned_world(tmp_path)
    write_duckdb(world.folder / "warehouse.duckdb", planted())

    def failed(*_: object, **__: object) -> None:
        raise error

    with world.opened() as monitor:
        window = week(WEEKS[CHANGED], monitor.config.zone)
        told = [v for part in run_window(monitor, window, dry_run=True).evaluated for v in part.verdicts]
        monkeypatch.setattr(Warehouse, "by_segment", failed)
        run = run_window(monitor, window, act="always")
        without = [v for part in run.evaluated for v in part.verdicts]
    assert any(v.outcome == "breach" for v in without)
    assert not any("causes" in v.detail for v in (*told, *without))  # neither in a dry run
    assert [replace(v, detail={}) for v in told] == [replace(v, detail={}) for v in without]
    assert "the causes of the breaches of tickets were not found" in caplog.text


@pytest.mark.parametrize(
    ("error", "tries"),
    [(WarehouseFailed("connection lost"), 2), (OperationalError("SELECT", {}, OSError("the history's")), 2),
     (WarehouseTimeout("900 s"), 1)],
    ids=["the warehouse's", "the history's", "time limit"],
)  # fmt: skip
def test_causes_are_read_once_more_after_a_lost_connection_but_not_after_a_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, tries: int
) -> None:
    world, read, asked = pinned_world(tmp_path), Warehouse.by_segment, list[str]()
    write_duckdb(world.folder / "warehouse.duckdb", planted())

    def fails_first(self: Warehouse, *given: Any, **named: Any) -> Any:
        asked.append("")
        if len(asked) == 1:
            raise error
        return read(self, *given, **named)

    monkeypatch.setattr(Warehouse, "by_segment", fails_first)
    with world.opened() as monitor:
        run = run_window(monitor, week(WEEKS[CHANGED], monitor.config.zone))
        breaches = [v for part in run.evaluated for v in part.verdicts if v.outcome == "breach"]
    assert breaches
    assert any("causes" in v.detail for v in breaches) is (tries == 2)
    assert (len(asked) == 1) is (tries == 1)
