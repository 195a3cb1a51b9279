"""The alert rules for Prometheus, on what /metrics really says: quiet in a quiet fortnight, and each fires."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from monitor.alerting.health.issues import WATCHDOG_NOTE
from monitor.config.load import parse_config
from monitor.core.records import Note, Reason, Schedule, Subject, SwitchState, Verdict, Window
from monitor.core.windows import last_ready
from monitor.history.store import Store
from monitor.service.prometheus import exposition
from tests.fakes.world import CONFIG

FOLDER = Path(__file__).parents[2] / "deployments" / "prometheus"
RULES = yaml.safe_load((FOLDER / "calmon-rules.yml").read_text("utf-8"))["groups"][0]["rules"]
NAMES = [rule["alert"] for rule in RULES]
EXPRESSION = re.compile(r"(time\(\) - )?(\w+)(?:\{(.*)\})? (>|==) (\d+)")
MONDAY = datetime(2026, 11, 16, 8, tzinfo=UTC)
CONFIGURED = parse_config(CONFIG)


def firing(text: str, now: datetime, up: float = 1.0) -> set[str]:
    """The alerts whose expression has a result, without regard to how long it must hold."""
    samples = [(s.name, s.labels, s.value) for family in text_string_to_metric_families(text) for s in family.samples]
    samples.append(("up", {"job": "calmon"}, up))

    def holds(rule: dict[str, Any]) -> bool:
        found = EXPRESSION.fullmatch(rule["expr"])
        assert found, rule["expr"]
        age, name, matchers, sign, limit = found.groups()
        wanted = re.findall(r'(\w+)(!?=)"([^"]*)"', matchers or "")
        values = [
            now.timestamp() - value if age else value
            for its_name, labels, value in samples
            if its_name == name and all((labels.get(key, "") == text) == (op == "=") for key, op, text in wanted)
        ]
        return any(value > float(limit) if sign == ">" else value == float(limit) for value in values)

    return {rule["alert"] for rule in RULES if holds(rule)}


class Life:
    """A history to which runs and looks of the watchdog are added, without data."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def judge(self, schedule: Schedule, now: datetime, took: timedelta = timedelta(minutes=2)) -> Window:
        window = last_ready(schedule, now, CONFIGURED.zone)
        rules = [rule.id for rule in CONFIGURED.rules_for(schedule)]
        verdicts = [
            Verdict(f"{schedule}{window.name}{rule}", rule, Subject("tickets", "billing"), window, "ece", "all", "ok",
                    Reason.WITHIN_THRESHOLD, "warning", 0.02) for rule in rules
        ]  # fmt: skip
        revision = CONFIGURED.revision
        at = now - took
        self.store.begin_run(window, ["tickets"], run=window.name, acts=True, rules_revision=revision, now=at)
        self.store.save_evaluation(window, ["tickets"], [], verdicts, [], now)
        self.store.finish_run(window, ["tickets"], state="done", now=now)
        return window

    def look(self, now: datetime) -> None:
        self.store.put_note(Note(WATCHDOG_NOTE, now))

    def firing(self, now: datetime) -> set[str]:
        return firing(exposition(self.store, CONFIGURED, now).decode(), now)


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    """One in which all is well on a Monday at eight."""
    with Store.from_url(f"sqlite:///{tmp_path}/history.sqlite") as store:
        made = Life(store)
        for schedule in ("weekly", "daily"):
            made.judge(schedule, MONDAY)
        made.look(MONDAY)
        yield made


def test_no_alert_fires_in_a_quiet_fortnight(life: Life) -> None:
    for hours in range(0, 14 * 24, 6):
        now = MONDAY + timedelta(hours=hours)
        if now.hour == 8:
            life.judge("daily", now)
        if now.hour == 8 and now.weekday() == 0:
            life.judge("weekly", now)
        life.look(now)
        assert life.firing(now + timedelta(minutes=59)) == set(), now


def week_stops(life: Life) -> datetime:
    for days in range(1, 9):
        life.judge("daily", MONDAY + timedelta(days=days))
    return MONDAY + timedelta(days=8)


def days_stop(life: Life) -> datetime:
    life.look(MONDAY + timedelta(hours=35))
    return MONDAY + timedelta(hours=35)


def watchdog_stops(life: Life) -> datetime:
    return MONDAY + timedelta(minutes=61)


def run_fails(life: Life) -> datetime:
    window = life.judge("daily", MONDAY)
    life.store.finish_run(window, ["tickets"], state="failed", now=MONDAY, error="no such column")
    return MONDAY


def lease_ends(life: Life) -> datetime:
    on = SwitchState("tickets", "billing", "on", lease_until=MONDAY - timedelta(minutes=1), changed_at=MONDAY)
    life.store.apply_switch(SwitchState("tickets", "billing"), on, None)
    return MONDAY


def run_is_slow(life: Life) -> datetime:
    life.judge("daily", MONDAY, took=timedelta(minutes=41))
    return MONDAY


@pytest.mark.parametrize(
    ("alert", "happens", "only"),
    [
        ("CalmonWeekNotJudged", week_stops, {"CalmonWatchdogSilent", "CalmonUnwell"}),
        ("CalmonDayNotJudged", days_stop, {"CalmonUnwell"}),
        ("CalmonWatchdogSilent", watchdog_stops, {"CalmonUnwell"}),
        ("CalmonUnwell", run_fails, set()),
        ("CalmonGateRefuses", lease_ends, {"CalmonUnwell"}),
        ("CalmonRunSlow", run_is_slow, set()),
    ],
)
def test_each_alert_fires_where_its_fault_is(
    life: Life, alert: str, happens: Callable[[Life], datetime], only: set[str]
) -> None:
    now = happens(life)
    found = life.firing(now)
    assert alert in found
    assert found <= {alert} | only


def test_a_service_that_does_not_answer_fires() -> None:
    assert firing("", MONDAY, up=0.0) == {"CalmonDown"}
    assert firing("", MONDAY, up=1.0) == set()


def test_promtool_accepts_the_files_and_their_unit_tests_which_make_each_rule_fire() -> None:
    tests = yaml.safe_load((FOLDER / "calmon-rules.test.yml").read_text("utf-8"))["tests"]
    fired = [each["alertname"] for test in tests for each in test["alert_rule_test"] if each["exp_alerts"]]
    assert sorted(fired) == sorted(NAMES)
    if (promtool := shutil.which("promtool")) is not None:  # of Debian's package prometheus
        for words in (
            ("check", "config", "--syntax-only", "prometheus.yml"),
            ("test", "rules", "calmon-rules.test.yml"),
        ):
            done = subprocess.run([promtool, *words], cwd=FOLDER, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr


def test_grafana_draws_what_each_rule_asks_with_a_line_where_it_fires() -> None:
    board = json.loads((FOLDER.parent / "grafana-dashboard.json").read_text("utf-8"))
    panels = [panel for panel in board["panels"] if panel["datasource"]["uid"] == "${DS_PROMETHEUS}"]
    assert {given["name"] for given in board["__inputs"]} == {"DS_CALMON", "DS_PROMETHEUS"}
    for rule, panel in zip(RULES, panels, strict=True):
        asked, sign, limit = rule["expr"].rsplit(" ", 2)
        assert panel["description"] == f"Alert {rule['alert']}; docs/watching.md"
        assert [target["expr"] for target in panel["targets"]] == [asked]
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        line = float(limit) or 1  # of whole numbers, those above 0 are 1 and more
        assert [(each["color"], each["value"]) for each in steps] == (
            [("green", None), ("red", line)] if sign == ">" else [("red", None), ("green", line)]
        )
