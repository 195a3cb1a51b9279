"""The main job end to end: the same document twice, three engines alike, numbers that plain code confirms."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
from sklearn import metrics as sk
from sqlalchemy.exc import OperationalError

from monitor.alerting.health.issues import findings
from monitor.alerting.health.look import observed
from monitor.config.model import SourceConfig
from monitor.context import Monitor
from monitor.core.records import Reason, Window
from monitor.core.windows import day, week
from monitor.operations.pin_baseline import pin
from monitor.report.collect import collect_report
from monitor.run import Run, act, begin, judge, read, run_window
from monitor.warehouse.reader import Reading, Warehouse, WarehouseFailed
from tests.fakes import forked
from tests.fakes import world as worlds
from tests.fakes.world import BASELINE, WEEKS, World, make_world, pinned_world

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest.fixture
def pinned(tmp_path: Path) -> World:
    return pinned_world(tmp_path)


def window(monitor: Monitor, name: str) -> Window:
    return week(name, monitor.config.zone)


def calmon(world: World, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return forked.calmon(world.folder, os.environ | world.environment | environment, *words)


def table_sizes(world: World) -> dict[str, int]:
    engine = sa.create_engine(world.store_url)
    with engine.connect() as connection:
        names = sa.inspect(connection).get_table_names()
        sizes = {n: int(connection.execute(sa.text(f'SELECT count(*) FROM "{n}"')).scalar_one()) for n in names}
    engine.dispose()
    return sizes


def test_the_same_week_twice_gives_the_same_document_and_nothing_grows(pinned: World) -> None:
    world = pinned
    runs = [calmon(world, "run", "weekly", "--week", WEEKS[-1], "--json") for _ in range(2)]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr
    sizes = table_sizes(world)
    third = calmon(world, "run", "weekly", "--week", WEEKS[-1], "--json")
    documents = [json.loads(run.stdout) for run in (*runs, third)]
    for document in documents:
        document.pop("run")
        for action in document["actions"]:
            action.pop("state")
    assert documents[0] == documents[1] == documents[2]
    assert table_sizes(world) == sizes
    assert sizes["deliveries"] == 2  # the message and its picture
    assert list(json.loads(third.stdout)) == [
        "run",
        "schedule",
        "window",
        "quality",
        "estimates",
        "verdicts",
        "labels",
        "actions",
    ]


def test_the_label_that_slips_is_found_reported_and_switched_off_and_no_other(pinned: World) -> None:
    with pinned.opened() as monitor:
        for name in WEEKS[6:11]:
            result = run_window(monitor, window(monitor, name))
        breaches = {
            (v.rule, v.subject.label) for part in result.evaluated for v in part.verdicts if v.outcome == "breach"
        }
        assert breaches == {("automated-overconfidence", "slipping"), ("ece-increase", "slipping")}
        assert {(a.kind, a.label, a.state) for a in result.actions} == {
            ("slack", "slipping", "not sent: no token"), ("disable_automation", "slipping", "turned off"),
        }  # fmt: skip
        states = {label: monitor.store.switch("tickets", label).state for label in worlds.LABELS}
        assert states == {"rare": "on", "slipping": "off", "steady": "on"}
        told = {row["label"]: row for row in result.document["labels"]}
        slipping = told["slipping"]
        assert (slipping["state"], slipping["problem"], slipping["automation"]) == ("unsafe", "overconfident", "off")
        assert WEEKS[8] <= slipping["since"] <= WEEKS[10]
        assert slipping["items"] > 0
        assert slipping["extra_errors"] > 0
        assert {told[label]["state"] for label in ("rare", "steady")} <= {"fine", "cannot_tell"}
        stored = monitor.store.diagnoses(window(monitor, WEEKS[10]))
        assert {each.label: each.state.value for each in stored} == {label: row["state"] for label, row in told.items()}
        again = run_window(monitor, window(monitor, WEEKS[10]), dry_run=True).document["labels"]
        assert again == result.document["labels"]


def test_an_older_window_never_acts_unless_asked(pinned: World) -> None:
    with pinned.opened() as monitor:
        run_window(monitor, window(monitor, WEEKS[9]), act="never")
        run_window(monitor, window(monitor, WEEKS[11]), act="never")
        older = run_window(monitor, window(monitor, WEEKS[10]))
        assert {a.state for a in older.actions} == {"not done: a newer window has been evaluated (--act overrides)"}
        assert monitor.store.incidents() == []
        told = run_window(monitor, window(monitor, WEEKS[10]), act="always")
        assert ("slack", "not sent: no token") in {(a.kind, a.state) for a in told.actions}


def test_the_window_before_is_read_again_only_where_its_rows_have_changed(
    pinned: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, names = Warehouse.read, list[str]()

    def noted(self: Warehouse, name: str, source: SourceConfig, asked: Window, **how: Any) -> Reading:
        names.append(asked.name)
        return read(self, name, source, asked, **how)

    with pinned.opened() as monitor:
        run_window(monitor, window(monitor, WEEKS[9]))
        monkeypatch.setattr(Warehouse, "read", noted)
        run_window(monitor, window(monitor, WEEKS[10]))
        assert names == [WEEKS[10]]
        before = monitor.store.load_reading("weekly", window(monitor, WEEKS[10]).start, "tickets")
    frame = worlds.rows()
    (row, *_) = frame.index[frame["item"].str.startswith(WEEKS[10])]
    frame.loc[row, "actual"] = 1 - frame.loc[row, "actual"]
    worlds.write_duckdb(pinned.folder / "warehouse.duckdb", frame)
    with pinned.opened() as monitor:
        run_window(monitor, window(monitor, WEEKS[11]))
        assert sorted(names) == [WEEKS[10], WEEKS[10], WEEKS[11]]
        after = monitor.store.load_reading("weekly", window(monitor, WEEKS[10]).start, "tickets")
    assert before.digest != after.digest
    assert before.fingerprint != after.fingerprint


@pytest.mark.parametrize(("gone", "reason"), [("label", "no_rows"), ("column", "relation_error")])
def test_a_label_that_may_act_and_vanishes_is_reported_and_turned_off_where_asked(
    tmp_path: Path, gone: str, reason: str
) -> None:
    config = worlds.CONFIG.replace("when_not_evaluated: keep", "when_not_evaluated: disable")
    world = make_world(tmp_path, config=config)
    with world.opened() as monitor:
        run_window(monitor, window(monitor, WEEKS[8]))
        assert monitor.store.switch("tickets", "steady").state == "on"
    frame = worlds.rows()
    rest = frame[frame["label"] != "steady"] if gone == "label" else frame.drop(columns="actual")
    worlds.write_duckdb(tmp_path / "warehouse.duckdb", rest)
    with world.opened() as monitor:
        result = run_window(monitor, window(monitor, WEEKS[9]))
        found = {v["reason"] for v in result.document["verdicts"] if v["label"] == "steady"}
        assert found == {reason}
        assert monitor.store.switch("tickets", "steady").state == "off"


def test_kept_weeks_are_read_again_where_the_configuration_reads_them_otherwise(tmp_path: Path) -> None:
    def automated(world: World) -> list[tuple[int, int]]:
        with world.opened() as monitor:
            document = run_window(monitor, window(monitor, WEEKS[9])).document
        return [(v["n"], v["windows"]) for v in document["verdicts"] if v["rule"] == "automated-overconfidence"]

    config = worlds.CONFIG.replace("min_samples: 30,", "min_samples: 5000,")  # never reached: all four weeks are pooled
    stricter = config.replace("automate_at: 0.8", "automate_at: 0.95")
    changed, fresh = tmp_path / "changed", tmp_path / "fresh"
    changed.mkdir()
    fresh.mkdir()
    world = make_world(changed, config=config)
    before = automated(world)
    (changed / "alerts.yaml").write_text(stricter, "utf-8")
    assert before != automated(world) == automated(make_world(fresh, config=stricter))


def test_a_dry_run_says_the_same_and_leaves_nothing_behind(pinned: World) -> None:
    before = table_sizes(pinned)
    dry = calmon(pinned, "run", "weekly", "--week", WEEKS[-1], "--json", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert table_sizes(pinned) == before
    real = calmon(pinned, "run", "weekly", "--week", WEEKS[-1], "--json")
    assert json.loads(dry.stdout)["verdicts"] == json.loads(real.stdout)["verdicts"]


def test_a_broken_source_is_reported_and_does_not_stop_the_others(tmp_path: Path) -> None:
    config = worlds.CONFIG.replace(
        "evaluation:", "  mail:\n    relation: nowhere\n    score_is: probability_of_label\nevaluation:"
    )
    world = make_world(tmp_path, config=config)
    found = calmon(world, "run", "weekly", "--week", WEEKS[-1], "--json")
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    assert {v["reason"] for v in document["verdicts"] if v["source"] == "mail"} == {"relation_error"}
    assert {e["source"] for e in document["estimates"]} == {"tickets"}


@pytest.mark.postgres
def test_a_source_that_never_had_a_row_is_not_evaluated_and_not_healthy(tmp_path: Path) -> None:
    empty = "  mail:\n    relation: select * from tickets where label = 'no such'\n    score_is: probability_of_label\n"
    world = make_world(tmp_path, config=worlds.CONFIG.replace("evaluation:", f"{empty}evaluation:", 1))
    now = datetime(2026, 8, 25, 12, tzinfo=UTC)
    with world.opened(lambda: now) as monitor:
        found = run_window(monitor, week(WEEKS[-2], monitor.config.zone))
        mine = [v for part in found.evaluated if part.source == "mail" for v in part.verdicts]
        weekly = {rule.id for rule in monitor.config.rules if rule.schedule == "weekly"}
        assert {(v.rule, v.subject.label, v.outcome) for v in mine} == {(r, None, "not_evaluated") for r in weekly}
        assert monitor.store.switch("mail", None).version == 0
        issues = findings(observed(monitor.store, monitor.config, now), now)
    assert any(i.reason == "nothing_judged" and i.text.startswith("Nothing of mail was judged") for i in issues), issues


def test_plug_in_values_agree_with_scikit_learn_and_plain_numpy_on_the_rows(world: World) -> None:
    with world.opened() as monitor:
        document = run_window(monitor, window(monitor, WEEKS[-1]), dry_run=True).document
    frame = worlds.rows()
    frame = frame[frame["item"].str.startswith(WEEKS[-1])]
    found = {(e["label"], e["metric"], e["where"]): e for e in document["estimates"] if e["segment"] is None}
    for label, part in [*frame.groupby("label"), (None, frame)]:
        for where, subset in populations(part).items():
            for metric, value in oracle(subset).items():
                row = found[label, metric, where]
                assert row["n"] == len(subset)
                if value is None or np.isnan(value):
                    assert row["plug_in"] is None, (label, metric, where)
                else:
                    assert row["plug_in"] == pytest.approx(value, abs=1e-9), (label, metric, where)


def populations(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    predicted = frame[frame["predicted"] == 1]
    return {"all": frame, "predicted": predicted, "automated": predicted[predicted["score"] >= 0.8]}


def oracle(frame: pd.DataFrame) -> dict[str, float | None]:
    """The textbook values, from the rows, with other code than ours."""
    s, y, d = frame["score"].to_numpy(), frame["actual"].to_numpy(), frame["predicted"].to_numpy()
    both = len(set(y)) == 2
    # seven distinct scores and fifteen bins: at least as many bins as scores, unless mid-ranks share one
    bins = equal_frequency_bins(s, 15)
    gaps = [(abs(y[bins == b].mean() - s[bins == b].mean()), (bins == b).mean()) for b in np.unique(bins)]
    return {
        "ece": sum(gap * share for gap, share in gaps),
        "mce": max(gap for gap, _ in gaps),
        "brier": sk.brier_score_loss(y, s) if both else float(np.mean((s - y) ** 2)),
        "nll": sk.log_loss(y, s, labels=[0, 1]),
        "roc_auc": sk.roc_auc_score(y, s) if both else None,
        "pr_auc": sk.average_precision_score(y, s) if both else None,
        "accuracy": sk.accuracy_score(y, d),
        "overconfidence": float(np.mean(s) - np.mean(y)),
        "false_negative_rate": 1 - sk.recall_score(y, d) if y.sum() else None,
    }


def equal_frequency_bins(scores: np.ndarray, bins: int) -> np.ndarray:
    """The bin in whose (lower, upper] share of the ranks the middle of each distinct score's ranks lies."""
    ranks = pd.Series(scores).rank(method="average").to_numpy() - 0.5
    return np.ceil(np.round(ranks / len(scores) * bins, 9)) - 1


def test_features_that_cannot_be_sampled_stop_no_label_from_being_judged(
    pinned: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = worlds.CONFIG.replace("    automate_at: 0.8", "    features: [channel]\n    automate_at: 0.8")
    (pinned.folder / "alerts.yaml").write_text(config, "utf-8")

    def broken(*_: Any, **__: Any) -> Any:
        raise WarehouseFailed("the warehouse went away")

    with pinned.opened() as monitor:
        monkeypatch.setattr(type(monitor.warehouse), "feature_sample", broken)
        result = run_window(monitor, window(monitor, WEEKS[10]))
        assert any(v.outcome == "breach" for part in result.evaluated for v in part.verdicts)
        (lost,) = [s for s in monitor.store.shifts(schedule="weekly") if s.test == "features"]
        assert lost.detail == {"reason": "the warehouse went away"}


def test_a_page_about_features_that_cannot_be_made_ends_no_run_and_is_noted(
    pinned: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = worlds.CONFIG.replace("    automate_at: 0.8", "    features: [channel]\n    automate_at: 0.8")
    (pinned.folder / "alerts.yaml").write_text(config, "utf-8")
    monkeypatch.setitem(sys.modules, "evidently", None)  # importing it raises ImportError
    with pinned.opened() as monitor:
        result = run_window(monitor, window(monitor, WEEKS[10]))
        assert "it was never turned on" in {action["state"] for action in result.document["actions"]}
        stored = monitor.store.shifts(schedule="weekly")
        (page,) = [s for s in stored if s.test == "page"]
        assert "evidently" in page.detail["reason"]
        assert "psi" in {s.test for s in stored if s.column == "channel"}
        data = collect_report(monitor.store, monitor.config, window(monitor, WEEKS[10]), now=monitor.clock())
        assert any("tickets has no page about its features: " in note for note in data.notes)


def test_a_window_that_was_never_run_has_no_estimates_though_it_is_read_again(world: World) -> None:
    with world.opened() as monitor:
        run_window(monitor, window(monitor, WEEKS[10]))
    frame = worlds.rows()
    (row, *_) = frame.index[frame["item"].str.startswith(WEEKS[9])]
    frame.loc[row, "actual"] = 1 - frame.loc[row, "actual"]
    worlds.write_duckdb(world.folder / "warehouse.duckdb", frame)
    with world.opened() as monitor:
        run_window(monitor, window(monitor, WEEKS[10]))
        assert {each.window.name for each in monitor.store.estimates()} == {WEEKS[10]}


def test_a_trouble_stays_where_its_window_cannot_be_judged_once_more(tmp_path: Path) -> None:
    """Else the trouble that it found would be gone: nobody would be needed, and its message would say so."""
    world = worlds.acted_world(tmp_path)
    worlds.write_duckdb(tmp_path / "warehouse.duckdb", worlds.rows().assign(score=np.nan))
    with world.opened(lambda: worlds.judged_at(11)) as monitor:
        newest = window(monitor, WEEKS[11])

        def stored() -> Any:
            told = [(i.id, i.state, i.version) for i in monitor.store.unresolved_incidents(of_monitor=False)]
            return [each for each in monitor.store.diagnoses(newest) if each.is_trouble], told

        before = stored()
        assert [each.label for each in before[0]] == ["slipping"]
        for _ in range(2):
            again = run_window(monitor, newest)
            assert {v["reason"] for v in again.document["verdicts"] if v["label"]} == {Reason.REJECTED_ROWS}
            states = {each["label"]: each["state"] for each in again.document["labels"]}
            assert states.pop("slipping") == "unsafe"  # as the pages say it
            assert set(states.values()) == {"cannot_tell"}
            assert stored() == before


def test_a_label_without_rows_of_a_day_says_the_last_day_that_had_some(tmp_path: Path) -> None:
    frame = worlds.rows()
    gone = (frame["label"] == "steady") & (frame["resolved_at"] >= pd.Timestamp("2026-07-22", tz="UTC"))
    daily = "  - {id: daily-level, metric: accuracy, condition: below, threshold: 0.1, schedule: daily}\n"
    world = make_world(tmp_path, config=worlds.CONFIG.replace("rules:\n", "rules:\n" + daily))
    worlds.write_duckdb(tmp_path / "warehouse.duckdb", frame[~gone])
    with world.opened() as monitor:
        for name in ("2026-07-20", "2026-07-21", "2026-07-22"):
            done = run_window(monitor, day(name, monitor.config.zone))
    (told,) = [each for each in done.diagnoses if each.label == "steady"]
    assert told.notes.last_rows == "2026-07-21"
    assert 0 < (told.notes.usual_rows or 0) < worlds.ROWS / 5


SLOW = """\
  mail:
    relation: SELECT * FROM tickets WHERE sleep_ms(1000) IS NOT NULL
    score_is: probability_of_label
"""


def test_a_source_that_takes_too_long_is_reported_and_does_not_stop_the_others(tmp_path: Path) -> None:
    world = make_world(tmp_path, config=worlds.CONFIG.replace("evaluation:", SLOW + "evaluation:"))
    with world.opened(warehouse_timeout_s="4") as monitor:
        result = run_window(monitor, window(monitor, WEEKS[-1]))
        kept = monitor.store.load_reading("weekly", window(monitor, WEEKS[-1]).start, "mail")
    assert {v["reason"] for v in result.document["verdicts"] if v["source"] == "mail"} == {"warehouse_failed"}
    assert {e["source"] for e in result.document["estimates"]} == {"tickets"}
    assert kept.error.startswith("no answer within 4 s: the warehouse duckdb:///")


def test_a_run_that_fails_says_so_in_the_history_and_the_next_one_renews_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a mistake\nin computing \0")

    with world.opened() as monitor:
        judged = window(monitor, WEEKS[8])
        with monkeypatch.context() as patch:
            patch.setattr("monitor.run.evaluate", broken)
            with pytest.raises(ZeroDivisionError, match="a mistake"):
                run_window(monitor, judged)
        failed = monitor.store.run_of(judged, "tickets")
        run_window(monitor, judged)
        again = monitor.store.run_of(judged, "tickets")
    assert (failed["state"], failed["error"]) == ("failed", "ZeroDivisionError: a mistake in computing ")
    assert failed["finished_at"] is not None
    assert (again["state"], again["error"], again["attempts"]) == ("done", None, 2)


def test_a_history_that_fails_too_does_not_hide_why_the_run_did(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("the first")

    def gone(*_: Any, **__: Any) -> Any:
        raise OSError("the second")

    with world.opened() as monitor:
        monkeypatch.setattr("monitor.run.evaluate", broken)
        monkeypatch.setattr(type(monitor.store), "finish_run", gone)
        with pytest.raises(ZeroDivisionError, match="the first"):
            run_window(monitor, window(monitor, WEEKS[8]))


def test_an_id_given_as_a_segment_is_left_out_and_said(tmp_path: Path) -> None:
    world = make_world(tmp_path, config=worlds.CONFIG.replace("segments: [channel]", "segments: [channel, item]"))
    with world.opened() as monitor:
        result = run_window(monitor, window(monitor, WEEKS[8]))
    assert result.document["quality"] == [{"source": "tickets", "reason": "too_many_values", "rows": 0}]
    segments = {name for e in result.document["estimates"] for name in e["segment"] or {}}
    assert segments == {"channel"}
    assert {v["label"] for v in result.document["verdicts"]} == {*worlds.LABELS}


def test_where_all_labels_are_rare_no_rule_on_labels_judges_the_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.warehouse.reading._few_rows", lambda labels: 10**6)
    with world.opened() as monitor:
        result = run_window(monitor, window(monitor, WEEKS[8]))
    assert result.document["quality"] == [{"source": "tickets", "reason": "rare_labels", "rows": 0}]
    assert {e["label"] for e in result.document["estimates"]} == {None}
    assert {v["label"] for v in result.document["verdicts"]} <= {None}
    scopes = {rule.id: rule.scope for rule in monitor.config.rules}
    assert {scopes[v["rule"]] for v in result.document["verdicts"]} <= {"source"}


def test_pinning_takes_the_sources_that_can_be_read_and_says_which_could_not(tmp_path: Path) -> None:
    config = worlds.CONFIG.replace(
        "evaluation:", "  mail:\n    relation: nowhere\n    score_is: probability_of_label\nevaluation:"
    )
    world = make_world(tmp_path, config=config)
    found = calmon(world, "baseline", "pin", "--from", BASELINE[0], "--to", BASELINE[1])
    assert found.returncode == 1
    assert [line.split(":")[0] for line in found.stdout.splitlines() if line.startswith("pinned")] == [
        f"pinned {name} version 1"
        for name in ("tickets/rare", "tickets/slipping", "tickets/steady", "tickets (all labels)")
    ]
    (line,) = [line for line in found.stderr.splitlines() if "mail" in line]
    assert line.startswith("not pinned, cannot be read: mail: the warehouse refuses the relation:")
    with world.opened() as monitor:
        assert [b.version for b in monitor.store.baselines()] == [1, 1, 1, 1]


def test_a_caller_that_will_try_again_gets_the_error_and_nothing_pinned(world: World) -> None:
    (world.folder / "warehouse.duckdb").unlink()
    with world.opened() as monitor:
        ends = window(monitor, BASELINE[0]), window(monitor, BASELINE[1])
        with pytest.raises(WarehouseFailed, match="is not there"):
            pin(monitor, *ends, by="test", reason="test", try_again=True)
        found = pin(monitor, *ends, by="test", reason="test")
        assert monitor.store.baselines() == []
    assert found.baselines == ()
    assert "is not there" in found.unread["tickets"]


def test_what_was_judged_of_a_window_stays_where_it_cannot_be_read_once_more(tmp_path: Path) -> None:
    world = pinned_world(tmp_path)

    def stored(monitor: Monitor) -> tuple[Any, ...]:
        of_week = monitor.store.verdicts(window_start=judged.start)
        return monitor.store.estimates(), monitor.store.shifts(), of_week, monitor.store.unresolved_incidents()

    with world.opened() as monitor:
        judged = window(monitor, WEEKS[10])
        first = run_window(monitor, judged)
        before = stored(monitor)
        assert all(before)
    warehouse = (tmp_path / "warehouse.duckdb").rename(tmp_path / "elsewhere.duckdb")
    with world.opened() as monitor:
        failed = run_window(monitor, judged)
        assert {part.problem for part in failed.evaluated} == {Reason.WAREHOUSE_FAILED}
        assert failed.document["labels"] == first.document["labels"]
        assert stored(monitor) == before
        later = run_window(monitor, week(WEEKS[11], UTC))  # which was never judged
        assert {v.reason for part in later.evaluated for v in part.verdicts} == {Reason.WAREHOUSE_FAILED}
        now = judged.end + timedelta(days=8)
        issues = findings(observed(monitor.store, monitor.config, now), now)
        assert "source_not_read" in {issue.reason for issue in issues}
    printed = calmon(world, "run", "weekly", "--week", WEEKS[10])
    assert printed.returncode == 1
    assert f"tickets {WEEKS[10]}: not read again, what was judged of it stays, warehouse failed" in printed.stdout
    warehouse.rename(tmp_path / "warehouse.duckdb")
    with world.opened() as monitor:
        again = run_window(monitor, judged)
        assert {v.outcome for part in again.evaluated for v in part.verdicts} <= {"ok", "unconfirmed", "breach"}
        assert monitor.store.estimates() == before[0]


def test_a_report_says_that_rows_were_read_again_after_the_verdicts(tmp_path: Path) -> None:
    world = pinned_world(tmp_path)
    first, following = (week(name, UTC) for name in WEEKS[8:10])
    with world.opened(clock=lambda: first.end + timedelta(hours=7)) as monitor:
        run_window(monitor, first)
        assert not _read_again(monitor, first)
    late = worlds.rows()
    late = late[late["resolved_at"].between(first.start, first.end) & (late["label"] == "steady")].head(50)
    late["item"] = "late-" + late["item"]
    worlds.write_duckdb(tmp_path / "warehouse.duckdb", pd.concat([worlds.rows(), late], ignore_index=True))
    with world.opened(clock=lambda: following.end + timedelta(hours=7)) as monitor:
        run_window(monitor, following)
        (note,) = _read_again(monitor, first)
        assert not _read_again(monitor, following)
    assert note == (
        f"tickets: rows of {first.name} were read again after its verdicts, which stay as they are: tickets/steady had "
        f"246 automated rows then and has 268 now. `calmon run weekly --week {first.name} --dry-run` judges these"
    )


def _read_again(monitor: Monitor, window: Window) -> list[str]:
    report = collect_report(monitor.store, monitor.config, window, monitor.clock())
    return [note for note in report.notes if "were read again" in note]


def test_a_diagnosis_for_which_the_history_does_not_answer_is_tried_again(
    pinned: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> Any:
        raise OperationalError("SELECT 1", {}, Exception("disk I/O error"))

    with pinned.opened() as monitor:
        monkeypatch.setattr("monitor.run.diagnoses_of", lost)
        due, tries = Run(window(monitor, WEEKS[10]), ("tickets",)), iter([True, False])
        run = judge(monitor, read(monitor, begin(monitor, due)))
        with pytest.raises(OperationalError):
            act(monitor, replace(run, try_again=lambda: next(tries)))
        act(monitor, replace(run, try_again=lambda: next(tries)))
        assert [s.test for s in monitor.store.shifts(schedule="weekly") if s.test == "diagnosis"] == ["diagnosis"]


def test_a_diagnosis_that_fails_ends_no_run_and_is_noted(pinned: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise ZeroDivisionError("a defect")

    with pinned.opened() as monitor:
        monkeypatch.setattr("monitor.run.diagnoses_of", broken)
        result = run_window(monitor, window(monitor, WEEKS[10]))
        assert "it was never turned on" in {action["state"] for action in result.document["actions"]}
        assert monitor.store.switch("tickets", "slipping").state == "off"
        assert monitor.store.run_of(window(monitor, WEEKS[10]), "tickets")["state"] == "done"
        assert monitor.store.diagnoses(window(monitor, WEEKS[10])) == []
        data = collect_report(monitor.store, monitor.config, window(monitor, WEEKS[10]), now=monitor.clock())
        assert [n for n in data.notes if "could not be diagnosed" in n and "ZeroDivisionError: a defect" in n]
        monkeypatch.undo()
        run_window(monitor, window(monitor, WEEKS[10]))
        assert {d.label for d in monitor.store.diagnoses(window(monitor, WEEKS[10]))} >= set(worlds.LABELS)
        stored = monitor.store.shifts(schedule="weekly")
        assert not [s for s in stored if s.test == "diagnosis"]
