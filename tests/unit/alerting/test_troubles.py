"""Which findings are one trouble of the monitor, and the life of its incident. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerting.health.issues import HealthIssue, WatchReason
from monitor.alerting.health.message import automation_now
from monitor.alerting.health.troubles import TROUBLE_OF, Group, TroubleChange, changes, groups
from monitor.alerting.incidents import acknowledge, silence
from monitor.core.records import Incident, Severity, SwitchState

R = WatchReason
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def found(reason: WatchReason, source: str = "", severity: Severity = "critical", **more: object) -> HealthIssue:
    return replace(HealthIssue(reason, severity, f"{reason}:{source}", "text", "do", source), **more)


def one(known: list[Incident], now: datetime, *findings: HealthIssue) -> TroubleChange:
    (made,) = changes(groups(findings, known), known, now)
    return made


def test_every_reason_belongs_to_a_trouble():
    assert set(TROUBLE_OF) == set(WatchReason)


def test_what_one_outage_does_is_one_trouble_and_others_are_their_own():
    lease = found(R.LEASE_ENDING, "tickets", until=NOON + HOUR)
    outage = [found(R.RUN_MISSING), found(R.RUN_HUNG), lease, found(R.LEASE_ENDED, "mails", until=NOON)]
    other = [found(R.DELIVERY_STUCK, channel="#a"), found(R.DATA_SMALL, "mails"), found(R.SCORES_MOVED, "mails")]
    made = groups([*outage, *other], [])
    assert {(g.rule, g.subject): len(g.findings) for g in made} == {
        ("monitor:not-running", ""): 4, ("monitor:delivery", "#a"): 1, ("monitor:data", "mails"): 1,
        ("monitor:scores", "mails"): 1,
    }  # fmt: skip
    assert [g.rule for g in groups([lease], [])] == ["monitor:automation"]
    unread = groups([found(R.SOURCE_NOT_READ, "tickets"), lease], [])
    assert [(g.rule, len(g.findings)) for g in unread] == [("monitor:data", 2)]


def test_a_lease_that_ended_during_an_outage_is_not_reported_again_after_it():
    ended = found(R.LEASE_ENDED, "tickets", until=NOON + 5 * DAY)
    opened = one([], NOON, found(R.RUN_MISSING)).after
    reporting = one([opened], NOON + 5 * DAY, found(R.RUN_MISSING), ended).after
    over = replace(reporting, state="resolved", resolved_at=NOON + 9 * DAY)
    assert groups([ended], [over]) == []
    assert [g.rule for g in groups([replace(ended, until=NOON + 10 * DAY)], [over])] == ["monitor:automation"]


@pytest.mark.parametrize(
    ("other", "source"),
    [
        (R.SCORES_MOVED, "tickets"),
        (R.CLOCK_BEHIND, ""),
        (R.DELIVERY_STUCK, ""),
        (R.RUN_FAILED, ""),
        (R.DATA_SMALL, "tickets"),
    ],
)
def test_what_was_open_when_a_lease_ended_and_did_not_say_so_has_not_reported_it(other: WatchReason, source: str):
    opened = one([], NOON, found(other, source)).after
    over = replace(opened, state="resolved", resolved_at=NOON + 9 * DAY)
    ended = found(R.LEASE_ENDED, "tickets", until=NOON + 5 * DAY)
    assert [g.rule for g in groups([ended], [over])] == ["monitor:automation"]


@pytest.mark.parametrize(("reason", "source"), [(R.SOURCE_NOT_READ, "tickets"), (R.RUN_MISSING, "")])
def test_labels_that_an_outage_turned_off_stay_its_trouble_until_they_are_on(reason: WatchReason, source: str):
    off = found(R.TURNED_OFF, "tickets")
    opened = one([], NOON, found(reason, source), off).after
    again = one([opened], NOON + HOUR, off)  # the source can be read again
    assert (again.after.id, again.after.state, again.after.reasons) == (opened.id, "open", ("turned_off_unjudged",))
    assert not again.calls
    over = one([again.after], NOON + 2 * HOUR)
    assert (over.event, over.after.id) == ("resolved", opened.id)
    assert [g.rule for g in groups([off], [over.after])] == ["monitor:automation"]  # turned off later
    mails = [g.rule for g in groups([found(R.TURNED_OFF, "mails")], [opened])]
    assert mails == (["monitor:automation"] if source else ["monitor:not-running"])


def test_it_opens_goes_on_and_ends():
    opened = one([], NOON, found(R.DATA_SMALL, "tickets", "warning"))
    assert (opened.event, opened.after.state, opened.after.severity) == ("opened", "open", "warning")
    same = one([opened.after], NOON + HOUR, found(R.DATA_SMALL, "tickets", "warning"))
    assert (same.event, same.after) == ("", opened.after)
    graver = one([opened.after], NOON + HOUR, found(R.SOURCE_NOT_READ, "tickets"))
    assert (graver.event, graver.calls, graver.after.version) == ("continued", True, 2)
    over = one([graver.after], NOON + 2 * HOUR)
    assert (over.event, over.after.state, over.after.resolved_at) == ("resolved", "resolved", NOON + 2 * HOUR)


def test_nobody_is_called_for_what_is_acknowledged_however_grave_it_becomes():
    opened = one([], NOON, found(R.DATA_SMALL, "tickets", "warning")).after
    acknowledged = acknowledge(opened, "ana", NOON).incident
    assert acknowledged is not None
    made = one([acknowledged], NOON + HOUR, found(R.SOURCE_NOT_READ, "tickets"))
    assert (made.calls, made.after.state) == (False, "acknowledged")


def test_a_silence_ends_by_itself():
    opened = one([], NOON, found(R.RUN_MISSING)).after
    silent = silence(opened, "ana", NOON + HOUR, NOON).incident
    assert silent is not None
    assert one([silent], NOON + HOUR / 2, found(R.RUN_MISSING)).after.state == "silenced"
    made = one([silent], NOON + HOUR, found(R.RUN_MISSING))
    assert (made.event, made.after.state) == ("unsilenced", "open")


def test_what_comes_back_within_a_day_is_the_same_and_flapping_ends_after_six_quiet_hours():
    incident, now = one([], NOON, found(R.DELIVERY_STUCK, channel="#a")).after, NOON
    for _ in range(2):
        incident = one([incident], now + HOUR).after
        back = one([incident], now + 2 * HOUR, found(R.DELIVERY_STUCK, channel="#a"))
        assert (back.event, back.calls, back.after.id) == ("reopened", True, incident.id)
        incident, now = back.after, now + 2 * HOUR
    held = one([incident], now + HOUR)
    assert (held.event, held.after.state) == ("held_back", "open")
    assert one([held.after], now + 6 * HOUR).event == ""
    assert one([held.after], now + 7 * HOUR).event == "resolved"
    much_later = one([replace(held.after, state="resolved", resolved_at=now)], now + 2 * DAY, found(R.RUN_MISSING))
    assert much_later.event == "opened"


@pytest.mark.parametrize(
    ("hours", "says"),
    [
        ((-3, -2), "No label acts alone now: automation of 2 labels ended with their leases, the last at "),
        ((-3, 5), "Automation is on for 1 label; without an evaluation it ends 2026-11-16 17:00 UTC. Automation of 1 "),
        ((5, 9), "Automation is on for 2 labels; without an evaluation it ends between 2026-11-16 17:00 UTC and "),
        ((5, 5 + 30 / 3600), "Automation is on for 2 labels; without an evaluation it ends 2026-11-16 17:00 UTC."),
        ((), "No label acts alone now."),
    ],
)
def test_what_may_act_is_computed_from_the_leases_of_that_time(hours: tuple[float, ...], says: str):
    on = [SwitchState("tickets", str(n), "on", lease_until=NOON + h * HOUR) for n, h in enumerate(hours)]
    assert automation_now([*on, SwitchState("tickets", "off", "off")], NOON).startswith(says)
    off = SwitchState("tickets", None, "off")
    assert automation_now([*on, off], NOON) == "No label acts alone now."
    ended = SwitchState("tickets", None, "on", verdict="v", lease_until=NOON - 9 * HOUR)  # before any of theirs
    assert automation_now([*on, ended], NOON) == "No label acts alone now."


def test_a_group_names_its_reasons_once_in_order_of_gravity():
    group = Group(TROUBLE_OF[R.DATA_SMALL], "t", (found(R.SOURCE_NOT_READ, "t"), found(R.DATA_SMALL, "t", "warning")))
    assert group.severity == "critical"
    assert group.reasons == {"reason": "source_not_read", "further_reasons": ("data_small",)}


def test_a_lease_that_ended_under_a_source_that_is_off_is_not_what_ended_automation() -> None:
    ended = SwitchState("tickets", "billing", "on", lease_until=NOON - timedelta(days=1))
    assert "ended with its lease" in automation_now([ended], NOON)
    assert automation_now([ended, SwitchState("tickets", None, "off")], NOON) == "No label acts alone now."
