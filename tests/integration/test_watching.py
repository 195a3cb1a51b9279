"""The monitor watched, with real parts: history, Slack server, heartbeat server, command, HTTP service."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from rich.console import Console

from monitor.alerting.health.heartbeat import beat
from monitor.alerting.health.issues import WatchReason
from monitor.alerting.health.watchdog import watch_monitor
from monitor.config.load import parse_config
from monitor.core.records import Reason, Subject, Verdict
from monitor.core.windows import week
from monitor.demo import story
from monitor.history.store import Store
from monitor.operations.publish_thresholds import publish
from monitor.report.collect import collect_report
from monitor.report.terminal import run_summary
from monitor.run import run_window
from monitor.service.prometheus import exposition
from tests.fakes import forked, heartbeat, service
from tests.fakes.alerts_world import CONFIG as ALERTS
from tests.fakes.alerts_world import Judged, alerts_world
from tests.fakes.world import CONFIG, WEEKS, World, judged_at, make_world, pinned_world, rows, write_duckdb


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Pinned, and its eleventh week judged an hour after it was ready."""
    made = pinned_world(tmp_path_factory.mktemp("judged"))
    with made.opened(clock=lambda: judged_at(10)) as monitor:
        run_window(monitor, week(WEEKS[10], monitor.config.zone))
    return made


@pytest.fixture
def world(judged: World, tmp_path: Path) -> World:
    return judged.copied(tmp_path)


@pytest.fixture
def calls() -> Iterator[heartbeat.Calls]:
    with heartbeat.running() as found:
        yield found


def test_a_run_that_was_judged_calls_the_heartbeat_and_one_that_failed_says_so(world: World, calls: heartbeat.Calls):
    with world.opened(clock=lambda: judged_at(11), heartbeat_url=calls.url) as monitor:
        window = week(WEEKS[11], monitor.config.zone)
        run_window(monitor, window, dry_run=True)
        run_window(monitor, window, act="never")
        run_window(story.at(monitor, judged_at(11)), window)  # as the demo does, on made-up data
        assert calls.made == []
        run_window(monitor, window)
        assert calls.made == [("/ping/secret-1234", "")]
    (world.folder / "warehouse.duckdb").unlink()
    with world.opened(clock=lambda: judged_at(11), heartbeat_url=calls.url) as monitor:
        run_window(monitor, window)
    path, body = calls.made[-1]
    assert path == "/ping/secret-1234/fail"
    assert body.startswith("tickets: warehouse_failed")


def test_a_run_of_a_week_without_rows_says_so_and_is_no_success_for_the_heartbeat(world: World, calls: heartbeat.Calls):
    empty = judged_at(11) + timedelta(weeks=1)  # the made-up weeks end with the eleventh
    with world.opened(clock=lambda: empty, heartbeat_url=calls.url) as monitor:
        window = week(f"{empty - timedelta(weeks=1):%G-W%V}", monitor.config.zone)
        done = run_window(monitor, window)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(run_summary(done.evaluated, ()))
    assert f"tickets {window.name}: no rule could be judged: no rows.\n" in console.export_text()
    assert calls.made == [("/ping/secret-1234/fail", f"tickets: no rule could be judged in {window.name}")]


def test_each_source_and_schedule_may_have_an_address_of_its_own(world: World, calls: heartbeat.Calls):
    config = (world.folder / "alerts.yaml").read_text("utf-8")
    mails = "  e-mails: {relation: SELECT * FROM tickets WHERE label = 'none', score_is: probability_of_label}\n"
    (world.folder / "alerts.yaml").write_text(config.replace("evaluation:", f"{mails}evaluation:", 1), "utf-8")
    with world.opened(clock=lambda: judged_at(11), heartbeat_url=f"{calls.url}/{{schedule}}-{{source}}") as monitor:
        window = week(WEEKS[11], monitor.config.zone)
        run_window(monitor, window)
    found = dict(calls.made)
    assert sorted(found) == ["/ping/secret-1234/weekly-e-mails/fail", "/ping/secret-1234/weekly-tickets"]
    assert found["/ping/secret-1234/weekly-e-mails/fail"] == f"no rule could be judged in {WEEKS[11]}"
    assert beat(SecretStr(f"{calls.url}/{{source}}"), source="a/b c")
    assert calls.made[-1] == ("/ping/secret-1234/a%2Fb%20c", "")


def test_a_backfill_that_fails_does_not_call_the_heartbeat(
    world: World, calls: heartbeat.Calls, monkeypatch: pytest.MonkeyPatch
):
    def breaks(*_: object, **__: object) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr("monitor.operations.restate.record", breaks)
    for act in ("never", "auto"):
        with (
            world.opened(clock=lambda: judged_at(11), heartbeat_url=calls.url) as monitor,
            pytest.raises(RuntimeError, match="disk"),
        ):
            run_window(monitor, week(WEEKS[11], monitor.config.zone), act=act)
    assert [path for path, _ in calls.made] == ["/ping/secret-1234/fail"]


def test_a_failure_is_reported_on_the_path_of_an_address_with_a_query(calls: heartbeat.Calls):
    assert beat(SecretStr(f"{calls.url}?status=up"), failed="no rows")
    assert calls.made == [("/ping/secret-1234/fail?status=up", "no rows")]


@pytest.mark.parametrize("answer", [404, 500, "hang", "reset", "redirect"])
def test_a_heartbeat_that_is_not_taken_is_logged_without_its_address(
    calls: heartbeat.Calls, answer: int | str, caplog: pytest.LogCaptureFixture
):
    calls.answer = answer
    with caplog.at_level(logging.WARNING):
        assert not beat(SecretStr(calls.url), time_limit_s=0.5)
    assert "heartbeat" in caplog.text
    assert "secret-1234" not in caplog.text
    assert [path for path, _ in calls.made] == ["/ping/secret-1234"]


def test_nobody_at_the_address_fails_nothing():
    assert not beat(SecretStr("http://127.0.0.1:9/ping"), time_limit_s=0.5)


def test_a_relation_that_was_emptied_and_filled_with_old_rows_is_no_week_without_news(world: World):
    frame, file = rows(), world.folder / "warehouse.duckdb"
    old, of_judged = of_week(frame, 0), of_week(frame, 10)
    told = []
    for left in (0, 30):
        write_duckdb(file, pd.concat([old, of_judged.head(left)]))
        with world.opened(clock=lambda: judged_at(11)) as monitor:
            run_window(monitor, week(WEEKS[11], monitor.config.zone))
            told += [f.text for f in watch_monitor(monitor) if f.reason == WatchReason.DATA_STALE]
            judged = week(WEEKS[10], monitor.config.zone)
            note = collect_report(monitor.store, monitor.config, judged, judged_at(11)).notes
        assert (
            f"tickets had 1,800 rows of this window when it was read before, and {left} when it was read last" in note
        )
    were = f" Of {WEEKS[10]} 1,800 rows were read before, and"
    assert told[0].endswith(f"{were} none is left: the relation was emptied or replaced.")
    assert told[1].endswith(f"{were} 30 are left: the relation was emptied or replaced.")


def test_a_window_that_is_run_again_without_its_rows_says_that_they_are_gone_and_not_if_they_are_rejected(world: World):
    file, again = world.folder / "warehouse.duckdb", rows()
    write_duckdb(file, again.assign(score=2.0))
    with world.opened(clock=lambda: judged_at(10)) as monitor:
        window = week(WEEKS[10], monitor.config.zone)
        run_window(monitor, window)
        assert "rows_gone" not in {q.reason for q in monitor.store.quality("weekly", window.start)}
    for left in (1_800, 0):
        write_duckdb(file, pd.concat([of_week(again, 9), of_week(again, 10).head(left)]))
        with world.opened(clock=lambda: judged_at(10)) as monitor:
            run_window(monitor, window, fewer_rows=True)
            found = [f.text for f in watch_monitor(monitor) if f.reason == WatchReason.DATA_STALE]
            notes = collect_report(monitor.store, monitor.config, window, judged_at(10)).notes
    assert "tickets had 1,800 rows of this window when it was read before, and 0 when it was read last" in notes
    (text,) = found
    assert text.startswith(f"tickets has no row for {WEEKS[10]}. Usual are ")
    assert text.endswith(
        f" Of {WEEKS[10]} 1,800 rows were read before, and none is left: the relation was emptied or replaced."
    )


def of_week(frame: pd.DataFrame, index: int) -> pd.DataFrame:
    return frame[frame["item"].str.startswith(WEEKS[index])]


def health(world: World, *words: str) -> subprocess.CompletedProcess[str]:
    return forked.calmon(world.folder, world.environment, "health", *words)


def test_health_names_what_is_wrong_and_ends_with_1(world: World):
    found = health(world, "--json")  # the world's weeks are long over: the last one was never judged
    document = json.loads(found.stdout)
    assert (found.returncode, document["healthy"], document["ever_run"]) == (1, False, True)
    assert "lease_ended" in [each["reason"] for each in document["findings"]]
    assert datetime.fromisoformat(document["as_of"]).utcoffset() == timedelta(0)
    assert document["not_checked"] == ["warehouse", "Slack"]
    plain = health(world)
    assert plain.returncode == 1
    assert "do now:" in plain.stdout
    last = plain.stdout.splitlines()[-1]
    assert re.fullmatch(
        r"As of \d{4}-\d\d-\d\d \d\d:\d\d UTC, from stored runs and alerts\.yaml\. "
        r"Not checked: warehouse and Slack \(`calmon check`\)\.",
        last,
    )


def test_health_of_a_history_that_is_not_there_is_an_error_and_makes_none(tmp_path: Path):
    new = make_world(tmp_path)
    found = health(new)
    assert found.returncode == 1
    assert "there is no history" in found.stderr
    assert not (tmp_path / "history.sqlite").exists()


def test_health_of_a_new_history_is_good(tmp_path: Path):
    new = make_world(tmp_path)
    with Store.from_url(new.store_url):
        pass
    found = health(new)
    assert (found.returncode, found.stdout.splitlines()[0]) == (0, "nothing has been run yet")


def numbers(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Family -> (labels, value), by the parser of the client library."""
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text)
    }


def test_prometheus_reads_what_the_history_holds(world: World):
    with world.opened(clock=lambda: judged_at(10)) as monitor:
        found = numbers(exposition(monitor.store, monitor.config, judged_at(10)).decode())
        diagnoses = monitor.store.newest_diagnoses(back=timedelta(weeks=4), until=monitor.clock())
        stored = {
            (e.subject.label or "", e.metric, e.where): e.interval.value
            for e in monitor.store.estimates(window_start=week(WEEKS[10], monitor.config.zone).start)
        }
    assert found["calmon_last_run_timestamp_seconds"] == [
        ({"schedule": "weekly", "source": "tickets", "state": "done"}, judged_at(10).timestamp())
    ]
    assert {"schedule": "weekly", "source": "tickets"} in [labels for labels, _ in found["calmon_rows"]]
    shown = {(row["label"], row["metric"], row["where"]): value for row, value in found["calmon_estimate"]}
    assert len(shown) >= 9 * 4
    assert shown == {key: stored[key] for key in shown}
    on = {row["label"]: value for row, value in found["calmon_automation_on"]}
    assert (on["steady"], on["slipping"]) == (1.0, 0.0)
    breaches = [v for row, v in found["calmon_verdicts"] if row["outcome"] == "breach"]
    assert sum(breaches) >= 1
    state = {row["label"]: row["state"] for row, _ in found["calmon_label_state"]}
    assert state == {each.label or "": each.state.value for each in diagnoses}
    assert (state["slipping"], state["steady"]) == ("unsafe", "fine")
    counts = {row["state"]: value for row, value in found["calmon_labels"]}
    assert counts["unsafe"] == 1
    assert sum(counts.values()) == 3


def test_a_source_that_the_newest_run_left_out_is_shown_with_its_own_newest_window(tmp_path: Path):
    sunday = datetime(2026, 11, 15, tzinfo=UTC)
    weeks = [week(name, ZoneInfo("UTC")) for name in ("2026-W44", "2026-W45")]
    with Store.from_url(f"sqlite:///{tmp_path}/newest.sqlite") as store:
        for window, sources in zip(weeks, (("a", "b"), ("a",)), strict=True):
            store.begin_run(window, sources, run=window.name, acts=True, rules_revision="1", now=sunday)
            verdicts = [
                Verdict(f"{window.name}{s}", window.name, Subject(s, "x"), window, "ece", "all", "ok",
                        Reason.WITHIN_THRESHOLD, "warning", 0.02) for s in sources
            ]  # fmt: skip
            store.save_evaluation(window, sources, [], verdicts, [], sunday)
            store.finish_run(window, sources, state="done", now=sunday)
        now = weeks[-1].end + timedelta(hours=7)
        two = CONFIG.replace("  tickets:", "  b: {relation: b, score_is: probability_of_label}\n  a:")
        found = numbers(exposition(store, parse_config(two), now).decode())
    newest = {(row["source"], row["rule"]) for row, _ in found["calmon_verdicts"]}
    assert newest == {("a", "2026-W45"), ("b", "2026-W44")}


def test_the_service_answers_prometheus_and_asks_others_for_a_token(tmp_path: Path):
    place = service.make_place(tmp_path)
    with service.running(place) as running:
        with running.client("router") as client:
            answer = client.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        on = {row["label"]: value for row, value in numbers(answer.text)["calmon_automation_on"]}
        assert (on["billing"], on["phishing"], on[service.ODD]) == (1.0, 0.0, 1.0)
        with running.client("stopper") as client:
            assert client.get("/metrics").status_code == 403
        with running.client() as client:
            assert client.get("/metrics").status_code == 401


def test_a_history_in_use_is_read_at_the_time_of_asking(world: World):
    with world.opened() as monitor:
        later = datetime.now(UTC) + timedelta(days=400)
        found = numbers(exposition(monitor.store, monitor.config, later).decode())
    assert all(value == 0.0 for _, value in found["calmon_automation_on"])
    assert all(value < 0 for _, value in found["calmon_lease_seconds"])


def test_automation_of_a_source_that_gates_have_lost_is_not_on(tmp_path: Path):
    with alerts_world(tmp_path, sends=False) as life:
        life.evaluate("2026-W02", [Judged("billing", "automated-overconfidence", "ok", 0.01)])
        monitor, now = life.monitor, life.clock.now
        renamed = parse_config(ALERTS.replace("  tickets:", "  letters:"), "alerts.yaml")
        for config, on in ((monitor.config, 1.0), (renamed, 0.0)):
            publish(monitor.store, config, now)
            found = numbers(exposition(monitor.store, config, now).decode())
            assert [value for row, value in found["calmon_automation_on"] if row["label"] == "billing"] == [on]
