"""The evidence that a run or a person decides by: that of the rules as alerts.yaml has them now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from monitor.automation.evidence import lease_bound
from monitor.automation.label_evidence import known_of
from monitor.config.load import load_config
from monitor.core.records import RuleEvidence, SwitchState, WindowOutcome
from tests.fakes.alerts_world import CONFIG

MONDAY = datetime(2026, 1, 12, tzinfo=UTC)
LEASE = timedelta(days=2)


def test_a_rule_that_got_another_schedule_is_waited_for_by_that_one_and_keeps_its_breach(tmp_path: Path):
    (tmp_path / "alerts.yaml").write_text(CONFIG.replace("lease: 9d", "lease: 2d"))
    breach = WindowOutcome(MONDAY, "breach", "v1")
    daily = RuleEvidence(
        "tickets", "billing", "automated-overconfidence", "daily", windows=(breach,), judged_until=MONDAY, version=3
    )
    stored = {("billing", "automated-overconfidence"): daily}
    (found,) = known_of(load_config(tmp_path / "alerts.yaml"), SwitchState("tickets", "billing"), stored, MONDAY)
    assert (found.schedule, found.windows, found.version) == ("weekly", (breach,), 3)
    assert lease_bound(daily, MONDAY, LEASE) == MONDAY + LEASE
    assert lease_bound(found, MONDAY, LEASE) == MONDAY + timedelta(days=7, hours=12)
