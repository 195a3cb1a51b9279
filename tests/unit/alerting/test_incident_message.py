"""What a message about an incident shows: fields of its story, in few words, whatever people named their labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from monitor.alerting.slack import incident_message as messages
from monitor.alerting.slack.blocks import Payload, edited, escape
from monitor.alerting.slack.links import Links
from monitor.alerting.slack.message import delivery_of, is_call, mark_possible_repeat, trial_message
from monitor.config.model import Route
from monitor.core import documents
from monitor.core.diagnoses import (
    Cost,
    Diagnosis,
    DiagnosisState,
    LabelProblem,
    LikelyCause,
    NextStep,
    Notes,
    NotTold,
    Since,
)
from monitor.core.records import BURST, Incident, IncidentReason, Severity, SwitchState, Window
from monitor.incidents.life import IncidentDecision
from monitor.story.label import LabelStory, label_story, title_of
from monitor.story.switch import switch_story
from tests.fakes.reading import as_read
from tests.fakes.slack_forms import form_problem

WEEK = Window(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC), "2026-W46", "weekly")
NOW = WEEK.end + timedelta(hours=7)
MENTION = "<!subteam^S0123>"
ONCALL = Route(channel="#ml-oncall", mention=MENTION)
LINKS = Links("https://calmon.example.org/", pages=documents.pages())
OFF = SwitchState(
    "tickets", "billing", "off", actor="weekly run", changed_at=NOW, reason="automated-overconfidence"
)  # fmt: skip
LEFT_ON = SwitchState(
    "tickets", "billing", "on", by_operator=True, actor="ana", reason="a bad import of last Sunday", verdict="v",
    changed_at=NOW, lease_until=NOW + timedelta(hours=20), hold_until=NOW + timedelta(hours=20),
)  # fmt: skip


def incident(label: str | None = "billing", **given: Any) -> Incident:
    known = {
        "id": "4f1c9a02be7d6653", "kind": "label", "source": "tickets", "label": label, "severity": "critical",
        "state": "open", "opened_at": NOW, "opened_window": "2026-W45", "window": "2026-W46", "window_end": WEEK.end,
        "seen_until": WEEK.end, "reason": "overconfident", "last": "opened", "rules": ("automated-overconfidence",),
    }  # fmt: skip
    return Incident(**(known | given))


def full(label: str | None = "billing", source: str = "tickets", **given: Any) -> Diagnosis:
    """A diagnosis with all that there can be."""
    known = {
        "problem": LabelProblem.OVERCONFIDENT, "since": Since("2026-W43", "2026-W42", "2026-W44", gradual=True),
        "cost": Cost(1118.4, 0.583, 0.891, 344.2, 301.0, 388.1), "segment": ("channel", "web form of the old shop"),
        "cause": LikelyCause("version", "2026.10.4-rc1", "2026-W43", 0.82), "because": ("v1", "v2"),
        "advice": NextStep("act_from_score", score=0.95, items=71.0, before=0.58, after=0.97, low=0.95, high=0.98),
    }  # fmt: skip
    return Diagnosis(source, label, WEEK, DiagnosisState.UNSAFE, **(known | given))


def story(diagnosis: Diagnosis | None = None, switch: SwitchState = OFF, about: Incident | None = None) -> LabelStory:
    told = diagnosis or full()
    return label_story(
        told, as_of=NOW, trouble=full(told.label), incident=about,
        switch=switch_story(switch, NOW, whole=None, against=True),
    )  # fmt: skip


def silent(reason: NotTold) -> Diagnosis:
    notes = Notes(last_rows="2026-W45", usual_rows=1234, weeks=3)
    return Diagnosis("tickets", "billing", WEEK, DiagnosisState.CANNOT_TELL, reason=reason, notes=notes)


STORIES = {
    "all there can be": story(),
    "left on": story(switch=LEFT_ON),
    "recalibrate": story(full(advice=NextStep("recalibrate", method="isotonic", before=0.12, after=0.02))),
    **{f"cannot tell: {reason.value}": story(silent(reason)) for reason in NotTold},
    "fine": story(Diagnosis("tickets", "billing", WEEK, DiagnosisState.FINE)),
}
STATES = {
    "open": incident(),
    "acknowledged": incident(state="acknowledged", acknowledged_by="ana (Slack U1)", acknowledged_at=NOW),
    "silenced": incident(state="silenced", silenced_by="ana (Slack U1)", silenced_until=NOW),
    "resolved": incident(state="resolved", resolved_by="ana", resolved_at=NOW),
    "burst": incident(None, kind=BURST, labels=tuple(f"label number {at}" for at in range(200))),
}


MESSAGES = {
    name: lambda about=about: messages.incident_message(STORIES["all there can be"], about, ONCALL, LINKS)
    for name, about in STATES.items()
}


def before_the_buttons(payload: Payload) -> str:
    """What is read first: the header and the text."""
    blocks = [block for block in payload["blocks"] if block["type"] in ("header", "section")]
    return "\n".join(str(block["text"]["text"]) for block in blocks)


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("state", STATES)
def test_a_message_has_at_most_sixty_words_before_the_buttons_and_a_form_that_slack_accepts(name: str, state: str):
    payload = messages.incident_message(STORIES[name], STATES[state], ONCALL, LINKS)
    read = before_the_buttons(payload).replace(MENTION, "")
    words = [word for word in read.split() if not word.startswith(":")]
    assert len(words) <= 60, read
    assert form_problem(payload["text"], payload["blocks"], payload["metadata"]) is None


def test_a_message_says_what_is_the_matter_since_when_why_what_acts_and_what_to_do():
    read = as_read(messages.incident_message(STORIES["all there can be"], incident(), ONCALL, LINKS))
    told = STORIES["all there can be"]
    for field in (told.headline, told.facts, told.since, told.next_step, told.do_now):
        assert field
        assert field in read
    assert "Automation is off" in read
    assert read.count("[actions]") == 1
    short = story(full(advice=None))
    assert short.cause in as_read(messages.incident_message(short, incident(), ONCALL, LINKS))
    assert "https://calmon.example.org/" in read


@pytest.mark.parametrize(
    ("state", "switch", "offered"),
    [
        ("open", OFF, ["incident_ack", "automation_on"]),
        ("open", LEFT_ON, ["incident_ack", "automation_off"]),
        ("acknowledged", OFF, ["automation_on"]),
        ("burst", LEFT_ON, ["incident_ack"]),
        ("resolved", OFF, None),
    ],
)
def test_the_buttons_offer_what_can_be_done_now_and_carry_the_incident(
    state: str, switch: SwitchState, offered: list[str] | None
):
    payload = messages.incident_message(story(switch=switch), STATES[state], ONCALL)
    rows = [block for block in payload["blocks"] if block["type"] == "actions"]
    if offered is None:
        assert rows == []
        return
    (row,) = rows
    silence = ["incident_silence_day", "incident_silence_week"]
    assert [element["action_id"] for element in row["elements"]] == [*offered, *silence]
    assert {element["value"] for element in row["elements"]} == {"4f1c9a02be7d6653"}


@pytest.mark.parametrize("state", STATES)
def test_only_what_nobody_has_taken_mentions_people(state: str):
    payload = messages.incident_message(STORIES["all there can be"], STATES[state], ONCALL)
    assert (MENTION in as_read(payload)) == (state in ("open", "burst"))


def test_a_malformed_mention_is_plain_text():
    odd = messages.incident_message(
        story(), incident(), Route(channel="#c", mention="the <b>team")
    )  # fmt: skip
    assert odd["blocks"][1]["text"]["text"] == "the &lt;b&gt;team"


# --- what strangers wrote


HOSTILE = [
    "*bold*", "_italic_", "~struck~", "`code`", "```block```", ":tada:", ":+1:", ":red_circle:", "<!channel>", "<@U1>",
    "a*b_c_ ~d~", "<https://evil.example|click>", "__init__", ":wave::skin-tone-3:", "rm `x` \u202e@here\n*bold*\x07",
    "x" * 300, "a very long <label> & more " * 30,
]  # fmt: skip


def texts(payload: Payload) -> Iterator[str]:
    yield payload["text"]
    for block in payload["blocks"]:
        parts = [block["text"]] if "text" in block else block.get("elements", [])
        yield from (part["text"] for part in parts if part.get("type") == "mrkdwn")


def test_the_end_of_an_incident_of_many_labels_is_told_of_all_of_them() -> None:
    over = replace(STATES["burst"], state="resolved", resolved_by="ana", resolved_at=NOW)
    fine = story(Diagnosis("tickets", "label number 0", WEEK, DiagnosisState.FINE), about=over)
    assert title_of(fine, over) == "fine again: 200 labels of tickets"
    by_hand = story(full("label number 0"), about=over)
    assert title_of(by_hand, over) == "200 labels of tickets need somebody (resolved)"


def everything(word: str) -> list[Payload]:
    """Every kind of message in which a label, a segment, a version, a person, and a note are ``word``."""
    diagnosis = full(
        word, segment=(word, word), cause=LikelyCause("mix", word, "2026-W43"),
        advice=NextStep("recalibrate", method="isotonic"),
    )  # fmt: skip
    told = story(diagnosis, replace(LEFT_ON, label=word, actor=word, reason=word))
    one = incident(word, state="acknowledged", acknowledged_by=word, acknowledged_at=NOW)
    many = incident(None, kind=BURST, labels=(word, "other"))
    made = [
        messages.incident_message(told, one, Route(channel="#c")),
        messages.incident_message(told, many, Route(channel="#c")),
        messages.repeat_message(told, one, channel="#c", root="r", number=1, mention=None),
    ]
    for reason in (IncidentReason.WORSE, IncidentReason.NOTED, IncidentReason.RESOLVED_BY_HAND):
        decision = IncidentDecision("note", reason, one, actor=word, why=word, window=WEEK)
        made.append(messages.news_message(decision, told, channel="#c", root="r"))
    return made


def marks_of(word: str) -> Counter[str]:
    """Slack's marks in all texts: bold, italic, struck, code, emoji, mentions, links."""
    read = "\n".join(text for payload in everything(word) for text in texts(payload))
    return Counter(re.findall(r"[*~`]|(?<![^\W_])_|_(?![^\W_])|(?<!\w):[\w+-]+:|<|>", read))


@pytest.mark.parametrize("word", HOSTILE)
def test_a_name_or_a_note_formats_nothing_mentions_nobody_and_stays_within_slacks_bounds(word: str):
    assert not marks_of(word) - marks_of("billing")
    for payload in everything(word):
        assert form_problem(payload["text"], payload["blocks"], payload["metadata"]) is None
        assert not set("\u202e\x07") & set(as_read(payload))
        assert form_problem(payload["text"], mark_possible_repeat(payload)["blocks"], payload["metadata"]) is None


def test_a_usual_name_is_shown_letter_for_letter():
    for name in ("password_reset", "billing: refunds", "a-b.c/d", "ratio 12:30:45", "Größe #2"):
        assert escape(name) == name


def test_every_text_of_the_blocks_is_verbatim_so_that_slack_links_nothing_by_itself():
    for payload in everything("example.com"):
        parts = [p for b in payload["blocks"] for p in ([b["text"]] if "text" in b else b.get("elements", []))]
        assert all(part["verbatim"] is True for part in parts if part["type"] == "mrkdwn")


# --- what is stored beside the text


def test_a_message_has_one_id_and_each_edit_its_own():
    post = messages.incident_message(story(), incident(), ONCALL)
    later = messages.incident_message(story(switch=LEFT_ON), incident(version=7, state="acknowledged"), ONCALL)
    assert post["metadata"] == later["metadata"]
    edits = [edited(dict(post), "root", sequence)["metadata"] for sequence in (1, 2)]
    assert post["metadata"] not in edits
    assert edits[0] != edits[1]
    again = messages.incident_message(story(), incident(), ONCALL, again="2026-W47")
    assert again["metadata"] != post["metadata"]


def test_only_a_decision_that_calls_mentions_people_in_the_thread():
    for calls in (True, False):
        decision = IncidentDecision("continue", IncidentReason.WORSE, incident(), calls=calls, window=WEEK)
        line = messages.news_message(decision, story(), channel="#c", root="r", mention=MENTION)
        assert (MENTION in as_read(line)) is calls
        reply = delivery_of(line, kind="incidents", now=NOW, operation="reply", root="r")
        assert (is_call(reply), line["incidents"]) == (calls, ["4f1c9a02be7d6653"])


def test_another_problem_is_named_for_a_label_and_not_for_many_of_which_each_has_its_own():
    said = []
    for labels in ((), ("billing", "refund")):
        decision = IncidentDecision("continue", IncidentReason.OTHER_PROBLEM, incident(labels=labels), window=WEEK)
        said.append(as_read(messages.news_message(decision, story(), channel="#c", root="r")))
    assert "billing is overconfident now." in said[0]
    assert "billing, refund goes on, with another problem." in said[1]


def test_an_incident_that_is_over_is_called_so_whatever_is_known_of_its_label_now():
    for diagnosis, title in (
        (full(), "billing must not act alone (resolved)"),
        (silent(NotTold.TOO_FEW_ROWS), "billing cannot be judged (resolved)"),
        (Diagnosis("tickets", "billing", WEEK, DiagnosisState.FINE), "billing is fine again"),
    ):
        over = incident(state="resolved")
        made = messages.incident_message(story(diagnosis, about=over), over, ONCALL)
        assert made["blocks"][0]["text"]["text"] == f":large_green_circle: {title}"
        assert made["text"].startswith(title)


@pytest.mark.parametrize("severity", ["critical", "warning"])
def test_the_severity_shows_as_a_colour(severity: Severity):
    read = as_read(messages.incident_message(story(), incident(severity=severity), ONCALL))
    assert (":red_circle:" in read) is (severity == "critical")


def test_a_trial_mentions_nobody_that_it_should_not():
    payload = trial_message("#ml-oncall", "critical", "ana <!here>", NOW, MENTION)
    assert "<" not in as_read(payload).replace(MENTION, "").replace("<https://calmon.example.org/docs/", "")
    assert MENTION not in payload["text"]
