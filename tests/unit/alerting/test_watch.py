"""What is wrong with the monitor itself: pure findings from what the history holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from monitor.alerting.health import troubles
from monitor.alerting.health.issues import (
    LISTENER_NOTE,
    WATCHDOG_NOTE,
    HealthIssue,
    Observed,
    ReadingSeen,
    RunSeen,
    WatchReason,
    findings,
    not_heard,
)
from monitor.alerting.health.look import automation_line
from monitor.core import windows
from monitor.core.records import (
    Delivery,
    Identity,
    Mark,
    Note,
    Recorded,
    SwitchState,
    Window,
)

MONDAY = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)  # two and a half hours after the weekly run
WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
DAY = windows.day("2026-11-15", ZoneInfo("UTC"))


def run(window: Window = WEEK, *, state: str = "done", **changes: object) -> RunSeen:
    found = RunSeen(
        window.schedule, window.start, window.name, state, MONDAY - timedelta(hours=2), MONDAY, source="tickets"
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def reading(rows: int, week: int = 46, *, state: str = "ok", error: str | None = None) -> ReadingSeen:
    start = windows.week(f"2026-W{week}", ZoneInfo("UTC")).start
    return ReadingSeen("weekly", start, "tickets", state, rows, error)


def seen(**changes: object) -> Observed:
    calm = Observed(
        ZoneInfo("UTC"), ("weekly", "daily"), ("tickets",), runs=[run(), run(DAY)],
        since=datetime(2026, 9, 1, tzinfo=UTC),
    )  # fmt: skip
    return replace(calm, **changes)  # type: ignore[arg-type]


def reasons(found: list[HealthIssue]) -> list[str]:
    return [finding.reason.value for finding in found]


def test_a_week_that_is_missing_by_a_clock_that_is_days_ahead_calls_nobody_beside_the_days_without_rows():
    tuesday = MONDAY + timedelta(days=1)
    days = [windows.day(f"2026-11-{day}", ZoneInfo("UTC")) for day in (16, 9, 2)]
    read = [ReadingSeen("daily", day.start, "tickets", "ok", rows) for day, rows in zip(days, (0, 90, 90), strict=True)]
    ahead = seen(runs=[run(windows.week("2026-W45", ZoneInfo("UTC"))), run(days[0])], readings=read)
    found = findings(ahead, tuesday)
    assert {each.reason.value: each.severity for each in found} == {"data_stale": "warning", "run_missing": "info"}
    assert "`date -u`" in found[0].do_now
    dead = replace(ahead, runs=[run(windows.week("2026-W45", ZoneInfo("UTC"))), run(days[1])])  # no day is run either
    assert [each.severity for each in findings(dead, tuesday) if each.reason == "run_missing"] == ["critical"] * 2
    with_rows = replace(ahead, readings=[replace(read[0], rows=80), *read[1:]])
    assert [(each.reason, each.severity) for each in findings(with_rows, tuesday)] == [("run_missing", "critical")]


def test_a_history_that_began_after_the_window_misses_nothing():
    new = seen(runs=[run(DAY)], since=datetime(2026, 11, 16, 8, 0, tzinfo=UTC), scheduled=("weekly",))
    assert findings(new, datetime(2026, 11, 18, tzinfo=UTC)) == []
    assert reasons(findings(new, datetime(2026, 11, 24, tzinfo=UTC))) == ["run_missing"]


def test_a_source_that_runs_leave_out_is_found_once_the_run_is_late():
    both = {"sources": ("mails", "tickets"), "readings": [reading(1000)], "scheduled": ("weekly",)}
    late = MONDAY.replace(hour=12, minute=1)
    assert findings(seen(**both), MONDAY) == []  # the run of all sources may be still to come
    (found,) = findings(seen(**both), late)
    assert (found.reason, found.severity) == (WatchReason.RUN_MISSING, "critical")
    assert found.text.startswith("The weekly run of 2026-W46 for mails is missing: it was due at 2026-11-16 06:00 UTC")
    assert "`calmon run weekly --week 2026-W46`" in found.do_now
    ran = {"runs": [run(), run(source="mails")]}
    failed = [*both["readings"], replace(reading(0, state="relation_error"), source="mails")]
    assert findings(seen(**both | ran), late) == []
    assert reasons(findings(seen(**both | ran | {"readings": failed}), late)) == ["source_not_read"]
    assert findings(seen(**both, rules_revision="newer"), late) == []  # mails may be new in alerts.yaml


def test_a_run_that_never_ends_is_found():
    begun = run(state="running", finished_at=None)
    assert reasons(findings(seen(runs=[begun, run(DAY)]), MONDAY)) == []
    assert reasons(findings(seen(runs=[begun, run(DAY)]), MONDAY + timedelta(minutes=61))) == ["run_hung"]


def test_an_empty_window_beside_undated_rows_is_empty_and_not_rejected():
    def undated(rows: int, week: int, many: int) -> ReadingSeen:
        return replace(reading(rows, week), undated=many)

    before = [undated(1000, 45, 40), reading(900, 44), reading(1100, 43)]
    (found,) = findings(seen(readings=[undated(0, 46, 40), *before], switches=[ACTS]), MONDAY)
    assert (found.reason, found.severity) == ("data_stale", "critical")
    assert found.text.endswith(
        " In no window lie 40 rows of it, whose date is missing, malformed or in the future (40 before)."
    )
    daily = [replace(each, undated=40) for each in days(0, *[1000] * 27)]
    assert [(f.reason, f.severity) for f in findings(seen(readings=daily, switches=[ACTS]), MONDAY)] == [
        ("data_stale", "warning")
    ]
    lost = [replace(daily[0], undated=840), *daily[1:]]
    stale = findings(seen(readings=lost, switches=[ACTS]), MONDAY)
    assert [(f.reason, f.severity) for f in stale] == [("data_stale", "critical")]


ACTS = SwitchState("tickets", "billing", "on", lease_until=MONDAY + timedelta(days=9))
"""A label that acts now: what cannot be judged of its source is critical then."""


def test_a_newest_window_whose_rows_are_gone_says_so_and_not_that_nothing_was_resolved():
    before = [reading(1000, 45), reading(900, 44), reading(1100, 43)]
    (empty,) = findings(seen(readings=[replace(reading(0), before=1000), *before]), MONDAY)
    (small,) = findings(seen(readings=[replace(reading(9), before=1000, left=9), *before]), MONDAY)
    assert (empty.reason, small.reason) == ("data_stale", "data_small")
    assert empty.text == (
        "tickets has no row for 2026-W46. Usual are 1,000. Of 2026-W46 1,000 rows were read before, and none is left: "
        "the relation was emptied or replaced."
    )
    assert small.text.endswith(
        " Of 2026-W46 1,000 rows were read before, and 9 are left: the relation was emptied or replaced."
    )


def test_data_that_run_dry_or_shrink_are_found():
    before = [reading(1000, 45), reading(900, 44), reading(1100, 43)]
    assert reasons(findings(seen(readings=[reading(0), *before]), MONDAY)) == ["data_stale"]
    assert reasons(findings(seen(readings=[reading(199), *before]), MONDAY)) == ["data_small"]
    assert reasons(findings(seen(readings=[reading(200), *before]), MONDAY)) == []
    assert "usual are 1,000" in findings(seen(readings=[reading(199), *before]), MONDAY)[0].text


def test_a_source_that_could_not_be_read_is_found_with_the_week_since_when():
    broken = [reading(0, week, state="relation_error", error="column score is text") for week in (46, 45)]
    for switches, severity in (([ACTS], "critical"), ([], "warning"), ([replace(ACTS, state="off")], "warning")):
        (found,) = findings(seen(readings=[*broken, reading(900, 44)], switches=switches), MONDAY)
        assert (found.reason, found.severity) == (WatchReason.SOURCE_NOT_READ, severity)
    assert "for 2026-W46 (since 2026-W45): column score is text" in found.text


def days(*rows: int, last: str = "2026-11-15") -> list[ReadingSeen]:
    """Readings of consecutive days, the newest first."""
    newest = windows.day(last, ZoneInfo("UTC")).start
    return [ReadingSeen("daily", newest - timedelta(days=i), "tickets", "ok", n) for i, n in enumerate(rows)]


def test_a_quiet_sunday_is_compared_with_sundays():
    sunday, week_days = 3, [40, 1000, 1000, 1000, 1000, 1000]
    usual = [sunday, *week_days] * 4
    assert findings(seen(readings=days(*usual)), MONDAY) == []
    assert findings(seen(readings=days(*[0, *week_days] * 4)), MONDAY) == []
    dry = findings(seen(readings=days(150, *usual, last="2026-11-16")), MONDAY + timedelta(days=1, hours=-3))
    (small,) = [f for f in dry if f.reason != WatchReason.RUN_MISSING]
    assert small.reason == WatchReason.DATA_SMALL
    assert "the median of the 4 days of this weekday before" in small.text


def test_after_an_empty_week_sundays_are_still_what_is_usual_of_a_sunday():
    usual = [3, 40, 1000, 1000, 1000, 1000, 1000]
    (dry,) = findings(seen(readings=days(*[0] * 7, *usual * 3)), MONDAY)
    assert "Usual are 3." in dry.text
    (new,) = findings(seen(readings=days(*[0] * 7, 40, last="2026-11-16")), MONDAY + timedelta(days=1, hours=-3))[-1:]
    assert "Usual are 40." in new.text


def test_a_source_that_is_new_and_still_empty_is_not_stale():
    assert findings(seen(readings=[reading(0)]), MONDAY) == []
    assert findings(seen(readings=[reading(0), reading(0, 45)]), MONDAY) == []


def message(state: str, hours: float, channel: str = "#a", error: str | None = "channel_not_found") -> Delivery:
    at = MONDAY - timedelta(hours=hours)
    return Delivery(f"{state}{hours}{channel}", "incidents", channel, {}, at, state, error=error)  # type: ignore[arg-type]


def test_messages_that_do_not_get_through_are_found_once_a_channel():
    waiting = [message("failed", 2), message("pending", 3), message("failed", 0.5), message("dead", 5, "#b")]
    found = findings(seen(deliveries=waiting), MONDAY)
    assert [(f.reason, f.channel) for f in found] == [("delivery_refused", "#b"), ("delivery_stuck", "#a")]
    assert found[1].text.startswith("2 messages to #a")


@pytest.mark.parametrize(
    ("waiting", "severities"),
    [
        ([message("failed", 2)], ["warning"]),  # a route's other channel can say so
        ([message("failed", 2), message("failed", 3, "#b")], ["critical", "critical"]),
        ([message("failed", 2), message("failed", 0.5, "#b")], ["warning"]),
        ([replace(message("failed", 2), error_code="token_revoked")], ["critical"]),
        ([replace(message("failed", 2), error_code="is_archived")], ["warning"]),
        ([replace(message("failed", 2), error_code="missing_scope")], ["warning"]),
    ],
)
def test_that_no_message_reaches_slack_is_critical_and_another_service_hears_of_it(
    waiting: list[Delivery], severities: list[str]
):
    found = findings(seen(deliveries=waiting, channels=frozenset({"#a", "#b"})), MONDAY)
    assert [each.severity for each in found] == severities
    nobody = severities[0] == "critical"
    assert all(each.text.endswith("Nothing has reached Slack so far.") == nobody for each in found)
    assert not_heard(found) == (found[0].text if nobody else None)
    sent = (MONDAY - timedelta(days=3), MONDAY - timedelta(days=2))
    found = findings(seen(deliveries=waiting, channels=frozenset({"#a", "#b"}), sent=sent), MONDAY)
    since = f"Nothing has reached Slack since {sent[1]:%Y-%m-%d %H:%M} UTC."
    assert all(each.text.endswith(since) == nobody for each in found)


def test_a_critical_label_of_which_nobody_was_told_is_shown_and_calls_nobody():
    (found,) = findings(seen(untold=frozenset({("tickets", "billing"), ("tickets", None)})), MONDAY)
    assert (found.severity, found.is_unhealthy) == ("info", False)
    assert found.text.startswith("Nobody was told of tickets (all labels), tickets/billing: critical")
    assert troubles.needing([found]) == ()


def test_a_message_that_was_sent_after_the_others_were_tried_reached_slack():
    tried = MONDAY - timedelta(hours=1)
    waits = replace(message("failed", 2), error_code="token_revoked", claimed_at=tried)
    for later, severity in ((-1, "critical"), (1, "warning")):
        sent = (tried + timedelta(minutes=later),) * 2
        (found,) = findings(seen(deliveries=[waits], channels=frozenset({"#a"}), sent=sent), MONDAY)
        assert (found.severity, "Nothing has reached" in found.text) == (severity, severity == "critical")


def test_messages_that_were_given_up_without_a_token_are_found_where_there_was_one_before():
    lost = [message("not_sent", 30), message("not_sent", 5), message("not_sent", 24 * 8)]
    week = timedelta(weeks=1)
    never = seen(deliveries=lost)
    assert findings(never, MONDAY) == []
    ever = replace(never, sent=(MONDAY - 9 * week, MONDAY - 2 * week))
    (found,) = findings(ever, MONDAY)
    assert (found.reason, found.severity, found.channel) == (WatchReason.DELIVERY_NOT_SENT, "critical", "#a")
    assert found.text.startswith("2 messages to #a were not sent and will not be: a process had no token")
    assert not_heard([found]) == found.text
    (again,) = findings(replace(ever, sent=(MONDAY - 9 * week, MONDAY - timedelta(hours=1))), MONDAY)
    assert (again.severity, "No message" in again.text, not_heard([again])) == ("warning", False, None)
    later = replace(ever, sent=(MONDAY - timedelta(hours=20), MONDAY - timedelta(hours=1)))
    assert findings(later, MONDAY)[0].text.startswith("1 message to #a was not sent")  # the first had none before it


def change_of(state: str, hours: float) -> Delivery:
    """A change of a message that was never sent: it was never tried."""
    return replace(message(state, hours), operation="edit", root="m1")


def test_what_changes_a_message_that_was_never_sent_is_no_message_that_was_refused_or_given_up():
    refused = replace(message("dead", 24 * 2, error="invalid_blocks"), attempts=1)
    (found,) = findings(seen(deliveries=[refused, change_of("dead", 1), change_of("dead", 2)]), MONDAY)
    assert found.text == "1 message to #a was refused by Slack for good: invalid_blocks"
    assert findings(seen(deliveries=[change_of("dead", 1), change_of("dead", 2)]), MONDAY) == []
    week = timedelta(weeks=1)
    given_up = [replace(message("not_sent", 30), attempts=1), change_of("not_sent", 1)]
    sent_since = seen(deliveries=given_up, sent=(MONDAY - week, MONDAY - timedelta(hours=9)))
    (found,) = findings(sent_since, MONDAY)  # the token is there again, and the change came after the last message
    assert (found.severity, not_heard([found])) == ("warning", None)
    assert found.text.startswith("1 message to #a was not sent and will not be")


def listening(at: datetime | None, **changes: object) -> list[HealthIssue]:
    """What is found with this last connection of the listener, where messages were sent for a day."""
    notes = {} if at is None else {LISTENER_NOTE: Note(LISTENER_NOTE, at)}
    return findings(seen(notes=notes, sent=(MONDAY - timedelta(days=1), MONDAY), **changes), MONDAY)


def test_a_listener_that_is_gone_is_found_where_one_ran_or_is_configured_and_nowhere_else():
    hour = timedelta(hours=1)
    assert (listening(None), listening(MONDAY - hour / 4), listening(MONDAY - hour / 4, has_buttons=True)) == (
        [],
        [],
        [],
    )
    (gone,) = listening(MONDAY - hour)
    assert (gone.reason, gone.severity) == ("listener_silent", "warning")
    assert gone.text.endswith("calmon slack has not been connected to Slack since 2026-11-16 08:00 UTC.")
    (never,) = listening(None, has_buttons=True)
    assert never.text.endswith("messages with buttons are sent since 2026-11-15 09:00 UTC.")
    assert listening(MONDAY - timedelta(days=8)) == []  # a trial of last week
    assert reasons(listening(MONDAY - timedelta(days=8), has_buttons=True)) == ["listener_silent"]
    restored = Identity(Mark("h", int((MONDAY - hour / 4).timestamp()), 1))
    assert listening(MONDAY - 9 * hour, identity=restored) == []  # the note is that of the backup


def test_after_a_night_in_which_the_machine_was_off_the_listener_has_time_to_connect():
    sent, night = (MONDAY - timedelta(days=9), MONDAY), timedelta(hours=9)
    for before, found in ((MONDAY - night, []), (MONDAY - timedelta(minutes=15), ["listener_silent"])):
        looked = Note(WATCHDOG_NOTE, MONDAY, {"before": before.isoformat()})
        notes = {WATCHDOG_NOTE: looked, LISTENER_NOTE: Note(LISTENER_NOTE, MONDAY - night)}
        assert reasons(findings(seen(notes=notes, sent=sent), MONDAY)) == found


def test_a_message_that_a_person_has_deleted_is_no_refusal():
    gone = replace(message("dead", 5), error_code="message_not_found")
    assert findings(seen(deliveries=[gone]), MONDAY) == []
    for other in (replace(gone, error_code="invalid_blocks"), replace(gone, error_code=None)):
        assert reasons(findings(seen(deliveries=[other]), MONDAY)) == ["delivery_refused"]


@pytest.mark.parametrize(
    ("hours", "expected"),
    [(49, []), (47, ["lease_ending"]), (25, ["lease_ending"]), (23, ["lease_ending"]), (-1, ["lease_ended"])],
)
def test_a_lease_is_warned_of_two_days_and_one_day_before_it_ends(hours: int, expected: list[str]):
    on = [SwitchState("tickets", label, "on", lease_until=MONDAY + timedelta(hours=hours)) for label in ("a", "b")]
    found = findings(seen(switches=on), MONDAY)
    assert reasons(found) == expected
    if found:
        assert "a, b" in found[0].text


def test_a_lease_that_the_next_weekly_run_renews_in_time_is_warned_of_only_once_that_is_late():
    lease, end = timedelta(days=9), WEEK.end + timedelta(days=9)  # a Wednesday, 41 hours after the next weekly run
    on = [SwitchState("tickets", "a", "on", lease_until=end)]
    weekly = seen(switches=on, scheduled=("weekly",), runs=[run()], lease=lease)
    late = end - timedelta(hours=36)
    assert findings(weekly, end - timedelta(hours=47)) == []
    assert reasons(findings(weekly, late - timedelta(minutes=1))) == []
    assert reasons(findings(weekly, late + timedelta(minutes=1))) == ["run_missing", "lease_ending"]
    judged = replace(weekly, runs=[run(windows.week("2026-W47", ZoneInfo("UTC"))), run()])
    assert reasons(findings(judged, end - timedelta(hours=41))) == ["lease_ending"]  # run, and not renewed
    other = replace(weekly, switches=[replace(on[0], lease_until=end - timedelta(hours=1))])
    assert reasons(findings(other, end - timedelta(hours=47))) == ["lease_ending"]  # not of that run


def test_what_an_operator_turned_on_for_a_time_calls_nobody_when_that_is_over():
    end = MONDAY + timedelta(hours=24)
    on = SwitchState("tickets", "a", "on", lease_until=end, hold_until=end, by_operator=True, verdict="v")
    assert findings(seen(switches=[on]), MONDAY) == []
    over = findings(seen(switches=[on], scheduled=()), end + timedelta(minutes=1))
    assert [(f.reason, f.severity) for f in over] == [("lease_ended", "warning")]
    assert over[0].text.startswith("The enable of tickets by a person ended at ")
    longer = replace(on, hold_until=end + timedelta(days=3))  # it ends with its lease all the same
    assert findings(seen(switches=[longer]), MONDAY) == []
    by_run = replace(on, by_operator=False)
    assert [f.severity for f in findings(seen(switches=[by_run]), MONDAY + timedelta(hours=1))] == ["critical"]


def year_seen(now: datetime, zone: ZoneInfo) -> Observed:
    """What the history of a monitor holds that does its work: 9 days of lease from weekly evidence, quiet Sundays."""
    weeks, every_day = (windows.before(windows.containing(s, now, zone), n, zone) for s, n in LOOKED_AT)
    ended = [w for w in (*weeks, *every_day) if now >= begins(w, zone)]
    runs = [
        RunSeen(w.schedule, w.start, w.name, "done", begins(w, zone), begins(w, zone), source="tickets") for w in ended
    ]
    usual = (1000, 1000, 1000, 1000, 1000, 50, 0)
    rows = {w.start: 5000 if w.schedule == "weekly" else usual[w.start.astimezone(zone).weekday()] for w in ended}
    lease = timedelta(days=9)
    until = max(w.end for w in ended if w.schedule == "weekly") + lease
    return Observed(
        zone, ("weekly", "daily"), ("tickets",), runs, [
            ReadingSeen(w.schedule, w.start, "tickets", "ok", rows[w.start]) for w in ended
        ], [SwitchState("tickets", "a", "on", lease_until=until)], since=min(r.started_at for r in runs), lease=lease,
    )  # fmt: skip


LOOKED_AT = (("weekly", 12), ("daily", 84))


def begins(window: Window, zone: ZoneInfo) -> datetime:
    """When the schedules of deployments/prefect.yaml judge a window."""
    end = window.end.astimezone(zone)
    return end.replace(hour=6 if window.schedule == "weekly" else 7, minute=30).astimezone(UTC)


@pytest.mark.parametrize(
    ("zone", "changes"),
    [
        ("Europe/Berlin", ("2026-03-29", "2026-10-25")),
        ("America/Los_Angeles", ("2026-03-08", "2026-11-01")),
        ("Pacific/Auckland", ("2026-04-05", "2026-09-27")),
    ],
)
def test_ordinary_days_around_a_change_of_clocks_give_no_finding_at_any_hour(zone: str, changes: tuple[str, str]):
    for change in changes:
        for hour in range(-2 * 24, 8 * 24, 3):
            now = datetime.fromisoformat(change).replace(tzinfo=UTC) + timedelta(hours=hour, minutes=20)
            assert findings(year_seen(now, ZoneInfo(zone)), now) == [], now


@pytest.mark.parametrize(
    "closing",
    [
        Identity(Mark("h", 1, 1), confirmed=False),
        Identity(Mark("h", 1, 1), confirmed=True, seen=Recorded(Mark("h", 1, 2))),
        Identity(Mark("h", 1, 1), confirmed=True, newest_at=MONDAY + timedelta(days=9)),
    ],
)
def test_while_every_gate_is_closed_no_lease_is_spoken_of(closing: Identity):
    for hours, said in ((20, "Automation of tickets ends by itself"), (-1, "The lease of tickets ended")):
        on = SwitchState("tickets", "a", "on", lease_until=MONDAY + timedelta(hours=hours))
        (found,) = findings(seen(switches=[on], identity=closing), MONDAY)
        assert found.reason in (WatchReason.HISTORY_RESTORED, WatchReason.CLOCK_BEHIND)
        (usual,) = findings(seen(switches=[on], identity=Identity(Mark("h", 1, 1), confirmed=True)), MONDAY)
        assert usual.text.startswith(said)


def test_the_gravest_comes_first_and_many_names_are_cut():
    on = [SwitchState("tickets", f"l{n:02}", "on", lease_until=MONDAY + timedelta(hours=40)) for n in range(20)]
    failed = run(state="failed", error="no such column")
    found = findings(seen(switches=on, runs=[failed, run(DAY)]), MONDAY)
    assert reasons(found) == ["run_failed", "lease_ending"]
    assert (found[0].severity, "no such column" in found[0].text) == ("critical", True)
    assert "and 8 more" in found[1].text


@pytest.mark.parametrize("reason", list(WatchReason))
def test_every_reason_has_a_runbook_page_and_is_in_the_overview(reason: WatchReason):
    docs = Path(__file__).parents[3] / "docs"
    assert (docs / "runbook" / f"{reason.value}.md").is_file()
    assert f"runbook/{reason.value}.md" in (docs / "watching.md").read_text("utf-8")


def test_automation_of_a_source_that_alerts_yaml_has_lost_ends_once_gates_have_lost_it_too():
    on = SwitchState("letters", "billing", "on", lease_until=MONDAY + timedelta(days=5))
    whole = SwitchState("letters", None, "on")
    known = seen(switches=[on, whole], with_scores=frozenset({"tickets", "letters"}))
    assert findings(known, MONDAY) == []  # until a run publishes the new file, its labels go on
    lost = replace(known, with_scores=frozenset({"tickets"}))
    for now in (MONDAY, MONDAY + timedelta(days=4, hours=12), MONDAY + timedelta(days=90)):
        (found,) = [each for each in findings(lost, now) if each.source == "letters"]
        assert (found.reason, found.severity) == (WatchReason.LEASE_ENDED, "critical")
        assert found.text == (
            "Automation of letters ended for billing: alerts.yaml has no source letters any more, so every gate "
            "refuses it."
        )
        assert "`calmon automation disable --source letters --all --reason TEXT`" in found.do_now
    assert findings(replace(lost, switches=[replace(on, state="off"), whole]), MONDAY) == []
    assert automation_line(known, MONDAY).startswith("Automation is on for 1 label")
    assert automation_line(lost, MONDAY) == "No label acts alone now."
