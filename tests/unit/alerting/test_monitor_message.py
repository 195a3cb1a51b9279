"""What is said of the monitor's own troubles: bounds of Slack, foreign text, secrets, and truth of the time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerting.health import message
from monitor.alerting.health.issues import HealthIssue, WatchReason
from monitor.alerting.health.message import MonitorStory
from monitor.alerting.health.troubles import decide, needing
from monitor.alerting.slack.incident_message import incident_message, repeat_message
from monitor.alerting.slack.links import Links
from monitor.config.model import Route
from monitor.core.records import Incident
from tests.fakes.reading import as_read
from tests.fakes.slack import _form_problem

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
LINKS = Links("https://calmon.example.org", pages=frozenset({"runbook/run_missing"}))
MENTION = "<!subteam^S0123>"
HOSTILE = "<!channel> <@U1> `x` *bold* postgresql://u:s3cret@db/x password=hunter2 xoxb-12-ab \u202e" + "long " * 900


ROUTE = Route(channel="#c", mention=MENTION)
Told = tuple[MonitorStory, Incident]


def told(*issues: HealthIssue) -> Told:
    made = decide(issues, [], NOON)
    return MonitorStory(needing(issues), "No label acts alone now.", NOON), made.incident


def over(given: Told) -> Told:
    story, incident = given
    return replace(story, issues=()), replace(incident, state="resolved", resolved_at=NOON)


def missing(text: str = "The weekly run of 2026-W46 is missing: it was due at 2026-11-16 06:00 UTC.") -> HealthIssue:
    return HealthIssue(WatchReason.RUN_MISSING, "critical", text, "check that the scheduler is running")


def payloads(given: Told) -> list[dict[str, object]]:
    edit, reply = message.history_back(NOON, NOON + timedelta(days=1), channel="#c")
    story, thread = given[0], {"channel": "#c", "root": "r", "mention": MENTION}
    return [
        incident_message(*given, ROUTE, LINKS),
        repeat_message(*given, number=1, **thread),
        message.news(*given, story.issues, **thread),
        incident_message(*over(given), ROUTE, Links()),
        message.news(*over(given), (), **thread), edit, reply,
        message.history_down(
            "calmon-watchdog", HOSTILE, NOON, NOON, channel="#c", mention=MENTION, repeat=timedelta(days=1), number=0,
            ttl_s=30,
        ),
        message.on_demand_failed("calmon-backfill", HOSTILE, NOON, channel="#c", run="r", url=None, mention=MENTION),
    ]  # fmt: skip


@pytest.mark.parametrize("count", [1, 3, 40])
def test_every_message_keeps_slacks_bounds_mentions_nobody_else_and_shows_no_secret(count: int):
    many = [missing(HOSTILE)] * count
    for payload in payloads(told(*many)):
        assert _form_problem(payload["text"], payload["blocks"], payload["metadata"]) is None
        read = as_read(payload).replace(MENTION, "").replace("<https://calmon.example.org/docs/runbook/", "")
        assert "<" not in read
        assert not any(secret in read for secret in ("s3cret", "hunter2", "xoxb-12", "\u202e"))


def test_the_push_text_begins_with_what_is_wrong_and_ends_with_whom_it_calls():
    text = incident_message(*told(missing()), ROUTE)["text"]
    assert text.startswith("Monitor: evaluations are missing: The weekly run of 2026-W46 is missing")
    assert text.endswith(MENTION)


def test_what_is_acknowledged_calls_nobody_and_says_who_has_it():
    story, incident = told(missing())
    taken = replace(incident, state="acknowledged", acknowledged_at=NOON, acknowledged_by="ana")
    read = as_read(incident_message(story, taken, ROUTE))
    assert MENTION not in read
    assert "Acknowledged by ana, 2026-11-16 12:00 UTC" in read
    assert "[Acknowledge]" not in read
    assert "[Silence for a day] [Silence for a week]" in read


def test_nothing_says_that_what_is_on_stays_on():
    assert not any("stays on" in as_read(payload) for payload in payloads(told(missing())))


def test_two_hooks_of_one_run_make_one_message():
    made = [
        message.on_demand_failed("f", text, NOON, channel="#c", run=run, url=None, mention=None)["metadata"]
        for text, run in (("crashed", "r1"), ("failed", "r1"), ("failed", "r2"))
    ]
    assert made[0] == made[1] != made[2]


def test_every_reason_has_a_title_and_the_trouble_one_end():
    for reason in WatchReason:
        given = told(HealthIssue(reason, "warning", "text", "do", "tickets"))
        assert given[0].title(given[1]).startswith("Monitor: ")
        story, incident = over(given)
        assert story.title(incident) == "Monitor: nothing is wrong since 2026-11-16 12:00 UTC"


def test_several_findings_are_named_by_the_most_severe_and_counted():
    warning = HealthIssue(WatchReason.SCORES_MOVED, "warning", "text", "do", "mail")
    story, incident = told(warning, missing())
    assert story.title(incident) == "Monitor: evaluations are missing, and 1 more"
