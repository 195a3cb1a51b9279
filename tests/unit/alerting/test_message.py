"""What a message says, word by word (golden cases) and within Slack's bounds."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from monitor.alerting.slack import incident_message as incidents
from monitor.alerting.slack import message
from monitor.alerting.slack.blocks import EMOJI, edited, escape
from monitor.alerting.slack.incident_message import IN_FULL, delivery_id, incident_message
from monitor.alerting.slack.labels import AlertItem, LabelFindings, SwitchLine, tonight
from monitor.alerting.slack.links import Links
from monitor.automation.harm import Harm, TimeOn
from monitor.config.model import Route
from monitor.core import documents, wording
from monitor.core.records import (
    Incident,
    IncidentEvent,
    IncidentReason,
    Interval,
    Outcome,
    Reason,
    Severity,
    Subject,
    Verdict,
    Window,
)
from monitor.core.wording import advice, plain_words
from tests.fakes.reading import as_read
from tests.fakes.slack import _form_problem

WEEK = Window(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC), "2026-W46", "weekly")
DAY = Window(datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 17, tzinfo=UTC), "2026-11-16", "daily")
ONCALL = Route(channel="#ml-oncall", mention="<!subteam^S0123>")
QUIET = Route(channel="#ml-monitoring")
CASES = Path(__file__).parents[2] / "cases" / "messages"


def verdict(label: str | None = "billing", **given: Any) -> Verdict:
    known: dict[str, Any] = {
        "id": "4f1c9a02be7d6653", "rule": "automated-overconfidence", "subject": Subject("tickets", label),
        "window": WEEK, "metric": "overconfidence", "where": "automated", "outcome": "breach",
        "reason": Reason.ABOVE_THRESHOLD,
        "severity": "critical", "threshold": 0.05, "value": 0.32, "low": 0.22, "high": 0.42, "plug_in": 0.32,
        "p_value": 1e-7, "p_adjusted": 4.2e-6, "detectable": 0.11, "n": 118, "windows": 2,
        "detail": {"promised": 0.91, "kept": 0.59},
    }  # fmt: skip
    return Verdict(**(known | given))


def finding(told: Verdict, **given: Any) -> AlertItem:
    incident = Incident(
        id=f"i-{told.rule}-{told.subject.source}-{told.subject.label}", rule=told.rule, source=told.subject.source,
        label=told.subject.label, severity=told.severity, state="open", schedule="weekly", opened_at=WEEK.end,
        opened_window=WEEK.name, first_verdict=told.id, last_verdict=told.id, last_window_start=WEEK.start,
        breaches=1, reason=told.reason.value,
    )  # fmt: skip
    return AlertItem(told, incident, **given)


OFF = SwitchLine("Automation is off since Mon 2026-11-16 06:00 UTC (weekly run)", "off")
LINKS = Links("https://calmon.example.org/", pages=documents.pages())
OVERCONFIDENCE = finding(verdict(), switch=OFF, excess_errors=37.8, harm=Harm(37.8, TimeOn(1.0), "weekly", rows=118))
INCREASE = finding(
    verdict(
        "refund", rule="ece-increase", metric="ece", where="all", reason=Reason.INCREASED, severity="warning",
        threshold=0.02, value=0.061, low=0.049, high=0.075, baseline=0.019, change=0.042, change_low=0.028,
        change_high=0.057, p_adjusted=3e-4, detectable=0.018, n=2104, windows=1,
        detail={"worst_range": [0.82, 0.91], "worst_n": 143, "worst_gap": -0.17},
    ),
    baseline_interval=Interval(0.019, 0.014, 0.025, 0.021),
)  # fmt: skip
MIX = finding(replace(INCREASE.verdict, reason=Reason.TRAFFIC_MIX, subject=Subject("mail", "spam"), detail={}))
BLOCKED = finding(
    verdict(
        "phishing", rule="mce-blocks-scores", metric="mce", where="all", threshold=0.2, value=0.31, low=0.24, high=0.41,
        n=4021, windows=1, detail={"worst_range": [0.74, 0.83], "worst_n": 212, "worst_gap": -0.33},
    )
)  # fmt: skip
SHIFT = finding(
    verdict(
        None, rule="score-shift", metric="ks", where="all", reason=Reason.DISTRIBUTION_SHIFTED, severity="info",
        threshold=0.1, value=0.18, low=None, high=None, p_adjusted=None, detectable=None, n=4021, windows=1, detail={},
    )
)  # fmt: skip
GOING_ON = replace(
    OVERCONFIDENCE,
    incident=replace(
        OVERCONFIDENCE.incident, state="acknowledged", acknowledged_by="ana <!here>", acknowledged_at=WEEK.end,
        breaches=3, reopened=1,
    ),
    switch=OFF,
)  # fmt: skip
ENDED = replace(
    INCREASE,
    incident=replace(INCREASE.incident, state="resolved", resolved_window="2026-W48", ok_windows=1, breaches=2),
    window=Window(datetime(2026, 11, 23, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC), "2026-W48", "weekly"),
)
HOSTILE = finding(
    verdict("<!channel> `rm` \u202e@here\n*bold*\x07" + "x" * 300, detail={"promised": 0.9, "kept": 0.5}),
    switch=SwitchLine("Automation is off <@U1>", "off"),
)


def many(count: int) -> list[AlertItem]:
    return [finding(verdict(f"label_{i:03d}", severity="warning" if i % 3 else "critical")) for i in range(count)]


W47 = Window(datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC), "2026-W47", "weekly")
UNCONFIRMED = replace(
    INCREASE,
    incident=replace(INCREASE.incident, state="acknowledged", acknowledged_by="ana", acknowledged_at=WEEK.end),
    latest=replace(
        INCREASE.verdict, window=W47, outcome="unconfirmed", reason=Reason.NOT_SIGNIFICANT_IN_FAMILY, value=0.05,
        change=0.031, p_adjusted=0.03, actions=(), detail={"condition": "increase"},
    ),
    last=IncidentEvent("k", INCREASE.incident.id, W47.end, "continued", IncidentReason.UNCONFIRMED_OPEN.value, "run",
                       W47.name, "v2"),
    window=W47,
)  # fmt: skip
HELD = replace(
    OVERCONFIDENCE,
    switch=SwitchLine(
        "Automation is left on against this finding: enabled by ana until Tue 2026-11-17 09:00 UTC: a bad import",
        "on", allowed=True, held_until=datetime(2026, 11, 17, 9, tzinfo=UTC),
    ),
)  # fmt: skip
ALSO = finding(
    verdict(rule="mce-increase", metric="mce", where="all", reason=Reason.INCREASED, severity="warning", value=0.31,
            baseline=0.014, change=0.296, windows=1, n=2394,
            detail={"worst_range": [0.68, 0.79], "worst_gap": -0.33, "worst_n": 201}),
    switch=OFF,
)  # fmt: skip
MESSAGES = {
    "one_critical": lambda: incident_message([OVERCONFIDENCE], window=WEEK, route=ONCALL),
    "three_with_links": lambda: incident_message(
        [SHIFT, INCREASE, OVERCONFIDENCE], window=WEEK, route=ONCALL, links=LINKS
    ),
    "one_label_two_rules": lambda: incident_message([ALSO, OVERCONFIDENCE], window=WEEK, route=ONCALL, links=LINKS),
    "left_on": lambda: incident_message([HELD], window=WEEK, route=ONCALL),
    "unconfirmed": lambda: incident_message([UNCONFIRMED], window=WEEK, route=QUIET, links=LINKS),
    "blocked_scores_and_mix": lambda: incident_message([MIX, BLOCKED], window=WEEK, route=QUIET),
    "hostile_label": lambda: incident_message([HOSTILE], window=WEEK, route=QUIET),
    "twenty_four": lambda: incident_message(many(24), window=WEEK, route=ONCALL),
    "going_on": lambda: incident_message([ENDED, GOING_ON], window=WEEK, route=ONCALL),
    "all_resolved": lambda: incident_message([ENDED], window=WEEK, route=ONCALL),
    "numbers": lambda: incidents.numbers_message(
        [OVERCONFIDENCE, ALSO, GOING_ON, INCREASE], window=WEEK, channel="#ml-oncall", root="r", links=LINKS
    ),
    "news": lambda: incidents.news_message(
        [(GOING_ON, GOING_ON.verdict), (HOSTILE, None), (UNCONFIRMED, UNCONFIRMED.latest)], window=WEEK,
        channel="#ml-oncall", root="r", changes=["a:2", "b:3"], mention="<!subteam^S0123>", calls=True,
    ),
    "repeat": lambda: incidents.repeat_message(
        [OVERCONFIDENCE, UNCONFIRMED, HOSTILE], channel="#ml-oncall", root="r", number=1, mention="<!subteam^S0123>"
    ),
    "trial": lambda: message.trial_message("#ml-oncall", "critical", "ana <!here>", WEEK.end, "<!subteam^S0123>"),
}  # fmt: skip


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_reads_as_its_golden_case(name: str) -> None:
    read, case = as_read(MESSAGES[name]()), CASES / f"{name}.txt"
    if os.environ.get("CALMON_TEST_WRITE_CASES"):  # then read the difference before you keep it
        case.write_text(read, encoding="utf-8")
    assert read == case.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MESSAGES)
def test_slack_accepts_the_form_of_every_message(name: str) -> None:
    payload = MESSAGES[name]()
    assert _form_problem(payload["text"], payload["blocks"], payload["metadata"]) is None


@pytest.mark.parametrize("count", [1, 7, 8, 9, 60, 400])
def test_any_number_of_incidents_stays_within_slacks_bounds(count: int) -> None:
    long = "a very long <label> & more " * 30
    payload = incident_message(
        [finding(verdict(f"{long}{i}"), switch=SwitchLine(long, "off")) for i in range(count)],
        window=WEEK,
        route=ONCALL,
    )
    assert _form_problem(payload["text"], payload["blocks"], payload["metadata"]) is None
    assert len(message.mark_possible_repeat(payload)["blocks"]) <= 50


def test_at_most_five_labels_are_described_in_full_and_the_rest_has_a_line_each() -> None:
    payload = incident_message(many(24), window=WEEK, route=ONCALL)
    read = as_read(payload)
    assert sum(block["type"] == "actions" for block in payload["blocks"]) == IN_FULL == 5
    assert "*and 19 more labels:*" in read
    assert all(f"label_{i:03d}* is overconfident" in read for i in range(24))


def test_a_label_has_one_block_and_one_row_of_buttons_however_many_rules_fail() -> None:
    read = as_read(incident_message([ALSO, OVERCONFIDENCE], window=WEEK, route=ONCALL))
    assert read.count("[actions]") == 1
    assert read.count("*billing*") == 1
    assert "Also failing: mce-increase." in read
    assert "adjusted p" not in read


def test_the_notification_begins_with_the_label_and_the_mention_comes_last() -> None:
    text = incident_message([OVERCONFIDENCE], window=WEEK, route=ONCALL)["text"]
    assert text.startswith("billing is overconfident")
    assert text.endswith("<!subteam^S0123>")


def test_critical_findings_come_first_then_those_with_the_most_wrong_items() -> None:
    few, most = finding(verdict("few"), excess_errors=3.0), finding(verdict("most"), excess_errors=90.0)
    read = as_read(incident_message([SHIFT, INCREASE, few, most], window=WEEK, route=QUIET))
    places = [read.index(f"*{name}*") for name in ("most", "few", "refund")]
    assert places == sorted(places)


def test_a_label_can_neither_mention_anybody_nor_format_the_message() -> None:
    read = as_read(incident_message([HOSTILE], window=WEEK, route=QUIET))
    assert "<" not in read.replace("<!subteam", "")
    assert "\u202e" not in read
    assert "\x07" not in read
    assert "`rm`" not in read


def marks_of(label: str) -> Counter[str]:
    """Slack's marks in all texts about one label: bold, italic, struck, code, emoji, mentions, links."""
    told = finding(verdict(label), switch=OFF)
    payloads = [
        incident_message([told], window=WEEK, route=QUIET),
        incidents.repeat_message([told], channel="#ml-oncall", root="r", number=1, mention=None),
        incidents.numbers_message([told], window=WEEK, channel="#ml-oncall", root="r"),
    ]
    texts = [p["text"] for p in payloads] + [
        part["text"] for payload in payloads for block in payload["blocks"] for part in _mrkdwn(block)
    ]
    return Counter(re.findall(r"[*~`]|(?<![^\W_])_|_(?![^\W_])|(?<!\w):[\w+-]+:|<|>", "\n".join(texts)))


def _mrkdwn(block: Any) -> list[Any]:
    parts = [block["text"]] if "text" in block else block.get("elements", [])
    return [part for part in parts if part.get("type") == "mrkdwn"]


@pytest.mark.parametrize(
    "label",
    ["*bold*", "_italic_", "~struck~", "`code`", "```block```", ":tada:", ":+1:", "<!channel>", "<@U1>", "a*b_c_ ~d~",
     "<https://evil.example|click>", "__init__", ":wave::skin-tone-3:"],
)  # fmt: skip
def test_a_label_with_marks_of_slack_adds_none_to_a_message(label: str) -> None:
    assert marks_of(label) == marks_of("billing")


def test_a_usual_name_is_shown_letter_for_letter() -> None:
    for name in ("password_reset", "billing: refunds", "a-b.c/d", "ratio 12:30:45", "Größe #2"):
        assert escape(name) == name


def test_every_text_of_the_blocks_is_verbatim_so_that_slack_links_nothing_by_itself() -> None:
    payload = incident_message([OVERCONFIDENCE, HOSTILE], window=WEEK, route=ONCALL)
    parts = [p for b in payload["blocks"] for p in ([b["text"]] if "text" in b else b.get("elements", []))]
    assert all(p["verbatim"] is True for p in parts if p["type"] == "mrkdwn")


def test_the_mention_of_the_route_is_on_top_and_a_malformed_one_is_plain_text() -> None:
    payload = incident_message([OVERCONFIDENCE], window=WEEK, route=ONCALL)
    assert payload["blocks"][1]["text"]["text"] == "<!subteam^S0123>"
    odd = incident_message([OVERCONFIDENCE], window=WEEK, route=Route(channel="#c", mention="the <b>team"))
    assert odd["blocks"][1]["text"]["text"] == "the &lt;b&gt;team"


@pytest.mark.parametrize("name", ["news", "repeat", "trial", "going_on"])
def test_foreign_text_mentions_nobody_in_any_kind_of_message(name: str) -> None:
    payload = MESSAGES[name]()
    read = as_read(payload).replace("<!subteam^S0123>", "").replace("<https://calmon.example.org/docs/", "")
    assert "<" not in read
    assert ("<!subteam^S0123>" in payload["text"]) == (name != "trial")


@pytest.mark.parametrize("count", [1, 40, 400])
def test_any_number_of_news_and_reminders_stays_within_slacks_bounds(count: int) -> None:
    long = [finding(verdict("a very long <label> & more " * 30 + str(i))) for i in range(count)]
    told = [(each, each.verdict) for each in long]
    for payload in (
        incidents.news_message(told, window=WEEK, channel="#c", root="r", changes=["x"]),
        incidents.repeat_message(long, channel="#c", root="r", number=2, mention=None),
    ):
        assert _form_problem(payload["text"], payload["blocks"], payload["metadata"]) is None
        assert len(payload["blocks"]) <= 49


def test_an_edit_has_an_id_of_its_own_and_says_what_the_message_would() -> None:
    post = incident_message([OVERCONFIDENCE], window=WEEK, route=ONCALL)
    first, second = (edited(post, "root", number) for number in (1, 2))
    ids = {p["metadata"]["event_payload"]["delivery_id"] for p in (post, first, second)}
    assert len(ids) == 3
    assert first["blocks"] == second["blocks"] == post["blocks"]


def test_the_buttons_offer_what_can_be_done_now_and_carry_the_incident() -> None:
    def offered(given: AlertItem) -> list[str]:
        blocks = incident_message([given], window=WEEK, route=QUIET)["blocks"]
        elements = [e for b in blocks if b["type"] == "actions" for e in b["elements"]]
        assert {e["value"] for e in elements} <= {given.incident.id}
        return [e["action_id"] for e in elements]

    quiet = ["incident_silence_day", "incident_silence_week"]
    assert offered(replace(OVERCONFIDENCE, switch=None)) == ["incident_ack", *quiet]
    assert offered(replace(OVERCONFIDENCE, switch=HELD.switch)) == ["incident_ack", *quiet, "automation_off"]
    assert offered(GOING_ON) == [*quiet, "automation_on"]
    assert offered(ENDED) == []


def test_a_message_needs_a_finding() -> None:
    with pytest.raises(ValueError, match="at least one finding"):
        incident_message([], window=WEEK, route=QUIET)


def test_the_delivery_id_depends_on_channel_window_and_incidents_and_on_nothing_else() -> None:
    id = delivery_id("#a", WEEK, ["i1", "i2"])
    assert id == delivery_id("#a", WEEK, ["i2", "i1"])
    others = {
        delivery_id("#b", WEEK, ["i1", "i2"]),
        delivery_id("#a", DAY, ["i1", "i2"]),
        delivery_id("#a", WEEK, ["i1"]),
    }
    assert len(others | {id}) == 4
    payload = incident_message([OVERCONFIDENCE], window=WEEK, route=ONCALL)
    assert payload["metadata"] == {
        "event_type": "calmon_delivery",
        "event_payload": {"delivery_id": delivery_id("#ml-oncall", WEEK, [OVERCONFIDENCE.incident.id])},
    }


def test_a_delivery_is_made_of_a_payload_with_its_own_id() -> None:
    payload = incident_message([OVERCONFIDENCE], window=WEEK, route=ONCALL)
    made = message.delivery_of(payload, kind="incidents", now=WEEK.end)
    assert (made.id, made.channel, made.state) == (
        payload["metadata"]["event_payload"]["delivery_id"], "#ml-oncall", "pending",
    )  # fmt: skip
    with pytest.raises(ValueError, match="not a kind"):
        message.delivery_of(payload, kind="gossip", now=WEEK.end)


METRICS = (
    "ece",
    "mce",
    "brier",
    "nll",
    "roc_auc",
    "pr_auc",
    "accuracy",
    "overconfidence",
    "false_negative_rate",
    "ks",
    "psi",
)
OUTCOMES: dict[Reason, Outcome] = {
    Reason.WITHIN_THRESHOLD: "ok",
    **dict.fromkeys((Reason.NOT_SIGNIFICANT_IN_FAMILY, Reason.STREAK_INCOMPLETE), "unconfirmed"),
    **dict.fromkeys(
        (Reason.INCREASED, Reason.DECREASED, Reason.TRAFFIC_MIX, Reason.ABOVE_THRESHOLD, Reason.BELOW_THRESHOLD,
         Reason.DISTRIBUTION_SHIFTED, Reason.CLASS_MIX),
        "breach",
    ),
    **dict.fromkeys(
        (Reason.NO_BASELINE, Reason.SETTINGS_CHANGED, Reason.IN_BASELINE, Reason.TOO_FEW_ROWS, Reason.SCORES_MOVED,
         Reason.NO_ROWS, Reason.REJECTED_ROWS, Reason.NOT_MATURE, Reason.UNRESOLVED_FAILED, Reason.RELATION_ERROR,
         Reason.WAREHOUSE_FAILED),
        "not_evaluated",
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("metric", METRICS)
def test_every_reason_of_every_metric_has_a_sentence_and_advice(reason: Reason, metric: str) -> None:
    bare = verdict(
        "spam", metric=metric, reason=reason, outcome=OUTCOMES[reason], value=None, baseline=None, p_adjusted=None,
        detectable=None, detail={},
    )  # fmt: skip
    full = replace(bare, value=0.1, baseline=0.05, p_adjusted=0.2, detectable=0.1)
    for told in (bare, full):
        sentence = plain_words(told)
        assert sentence.startswith("spam ")
        assert "None" not in sentence
        assert advice(told).endswith(".")
        assert advice(told).count(". ") <= 1


@pytest.mark.parametrize("severity", ["info", "warning", "critical"])
def test_the_severity_shows_in_the_message(severity: Severity) -> None:
    read = as_read(incident_message([finding(verdict(severity=severity))], window=WEEK, route=QUIET))
    assert f"billing in breach: {severity} (2026-W46)" in read
    assert EMOJI[severity] in read


def test_a_foreign_text_is_one_short_printable_line() -> None:
    assert wording.clean("a\r\n\tb\u200b\u2066c\x1b[31m" + "y" * 500, 12) == "a bc[31myyy…"


@pytest.mark.parametrize(
    ("label", "severity", "said"),
    [
        (None, "critical", "turn automation off where wrong items do harm: `calmon automation disable --source "
         "'mail desk' --label LABEL --reason TEXT`, or `--all` for every label"),
        (None, "warning", "nothing to do"),
        ("billing", "critical", "nothing to do"),
    ],
)  # fmt: skip
def test_of_a_critical_breach_of_a_source_as_a_whole_its_labels_can_be_turned_off(
    label: str | None, severity: Severity, said: str
) -> None:
    of_source = replace(OVERCONFIDENCE.verdict, subject=Subject("mail desk", label), severity=severity, metric="ece")
    assert tonight(LabelFindings((finding(of_source),))) == said


def test_a_reminder_says_of_labels_of_one_name_which_sources_they_are_of() -> None:
    both = [
        finding(replace(OVERCONFIDENCE.verdict, subject=Subject(source, "refund"))) for source in ("mail", "tickets")
    ]
    text = incidents.repeat_message(both, channel="#x", root="r", number=1, mention=None)["text"]
    assert text == "refund (mail), refund (tickets): not acknowledged yet"
    alone = incidents.repeat_message(both[:1], channel="#x", root="r", number=1, mention=None)["text"]
    assert alone == "refund: not acknowledged yet"
