"""What is said of the monitor's own troubles: bounds of Slack, foreign text, secrets, and truth of the time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerting.health import message
from monitor.alerting.health.issues import HealthIssue, WatchReason
from monitor.alerting.health.message import View
from monitor.alerting.health.troubles import change_of
from monitor.alerting.slack.links import Links
from tests.fakes.reading import as_read
from tests.fakes.slack import _form_problem

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
LINKS = Links("https://calmon.example.org", pages=frozenset({"runbook/run_missing"}))
MENTION = "<!subteam^S0123>"
HOSTILE = "<!channel> <@U1> `x` *bold* postgresql://u:s3cret@db/x password=hunter2 xoxb-12-ab \u202e" + "long " * 900


def view(*findings: HealthIssue, **more: object) -> View:
    change = change_of(findings, [], NOON)
    assert change is not None
    return replace(View(change.after, change.findings, "No label acts alone now.", NOON), **more)


def missing(text: str = "The weekly run of 2026-W46 is missing: it was due at 2026-11-16 06:00 UTC.") -> HealthIssue:
    return HealthIssue(WatchReason.RUN_MISSING, "critical", "weekly", text, "check that the scheduler is running")


def payloads(given: View) -> list[dict[str, object]]:
    edit, reply = message.history_back(NOON, NOON + timedelta(days=1), channel="#c")
    over = replace(given, incident=replace(given.incident, state="resolved", resolved_at=NOON), findings=())
    return [
        message.living_message(given, channel="#c", mention=MENTION, links=LINKS),
        message.reminder(given, channel="#c", root="r", number=1, mention=MENTION),
        message.news(given, given.findings, channel="#c", root="r", mention=MENTION),
        message.living_message(over, channel="#c", mention=MENTION, links=Links()),
        message.back(over, channel="#c", root="r"), edit, reply,
        message.history_down(
            "calmon-watchdog", HOSTILE, NOON, NOON, channel="#c", mention=MENTION, repeat=timedelta(days=1), number=0,
            ttl_s=30,
        ),
        message.on_demand_failed("calmon-backfill", HOSTILE, NOON, channel="#c", run="r", url=None, mention=MENTION),
    ]  # fmt: skip


@pytest.mark.parametrize("count", [1, 3, 40])
def test_every_message_keeps_slacks_bounds_mentions_nobody_else_and_shows_no_secret(count: int) -> None:
    many = [replace(missing(HOSTILE), key=str(n)) for n in range(count)]
    for payload in payloads(view(*many)):
        assert _form_problem(payload["text"], payload["blocks"], payload["metadata"]) is None
        read = as_read(payload).replace(MENTION, "").replace("<https://calmon.example.org/docs/runbook/", "")
        assert "<" not in read
        assert not any(secret in read for secret in ("s3cret", "hunter2", "xoxb-12", "\u202e"))


def test_the_push_text_begins_with_what_is_wrong_and_ends_with_whom_it_calls() -> None:
    text = message.living_message(view(missing()), channel="#c", mention=MENTION, links=Links())["text"]
    assert text.startswith("Monitor: evaluations are missing: The weekly run of 2026-W46 is missing")
    assert text.endswith(MENTION)


def test_what_is_acknowledged_calls_nobody_and_says_who_has_it() -> None:
    given = view(missing())
    taken = replace(given.incident, state="acknowledged", acknowledged_at=NOON, acknowledged_by="ana")
    payload = message.living_message(replace(given, incident=taken), channel="#c", mention=None, links=Links())
    read = as_read(payload)
    assert "Acknowledged by ana, 2026-11-16 12:00 UTC" in read
    assert "[Acknowledge]" not in read
    assert "[Silence for a day] [Silence for a week]" in read


def test_nothing_says_that_what_is_on_stays_on() -> None:
    assert not any("stays on" in as_read(payload) for payload in payloads(view(missing())))


def test_two_hooks_of_one_run_make_one_message() -> None:
    made = [
        message.on_demand_failed("f", text, NOON, channel="#c", run=run, url=None, mention=None)["metadata"]
        for text, run in (("crashed", "r1"), ("failed", "r1"), ("failed", "r2"))
    ]
    assert made[0] == made[1] != made[2]


def test_every_reason_has_a_title_and_the_trouble_one_end() -> None:
    for reason in WatchReason:
        given = view(HealthIssue(reason, "warning", "k", "text", "do", "tickets"))
        assert given.title.startswith("Monitor: ")
        over = replace(given, incident=replace(given.incident, state="resolved", resolved_at=NOON), findings=())
        assert over.title == "Monitor: nothing is wrong since 2026-11-16 12:00 UTC"


def test_several_findings_are_named_by_the_most_severe_and_counted() -> None:
    warning = HealthIssue(WatchReason.SCORES_MOVED, "warning", "k", "text", "do", "mail")
    assert view(warning, missing()).title == "Monitor: evaluations are missing, and 1 more"
