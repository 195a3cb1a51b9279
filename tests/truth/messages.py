"""What Slack and a terminal show of incidents: numbers, names, dates and commands are those of the story."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from monitor.story.gather import Teller
from monitor.story.label import LABELS_NAMED, LabelStory, story_lines
from tests.truth.faces import all_forms, buttons, commands, leaves, links, refusal, shown, tokens
from tests.truth.histories import PUBLIC
from tests.truth.rows import Row, Rows
from tests.truth.world import PEOPLE

if TYPE_CHECKING:
    from tests.truth.checker import Checker
    from tests.truth.histories import Told
    from tests.truth.world import Event

_AUTOMATION = re.compile(r"Automation is (off|on|left on)")
_SINCE = re.compile(r"\bsince (\d{4}-(?:W\d\d|\d\d-\d\d(?! \d\d:)))")


def keys_of(rows: Rows) -> frozenset[str]:
    """The keys of all deliveries and events of incidents."""
    return frozenset(
        [row["id"] for row in rows.table("deliveries")] + [e["key"] for e in rows.table("incident_events")]
    )


def fields(story: LabelStory, incident: Row | None, events: list[Row]) -> set[str]:
    """Every number and date that a face of this story may show: those of its texts and of its incident."""
    switch = story.switch
    texts = [
        story.name, story.source, story.headline, story.facts, story.since, story.cost, story.where, story.cause,
        story.next_step, story.do_now, story.doubt, story.window, *(evidence[:8] for evidence in story.evidence),
        *([] if switch is None else [switch.words, switch.short, switch.stays, switch.command]),
    ]  # fmt: skip
    of_incident = {} if incident is None else {k: v for k, v in incident.items() if k not in ("version", "reopened")}
    more = [] if incident is None else [incident["id"][:8], len(incident["labels"]) - LABELS_NAMED]
    return {t for text in texts for t in tokens(text)} | all_forms([*leaves([of_incident, events]), *more])


def check(checker: Checker, rows: Rows, told: Told, event: Event) -> None:
    """The messages that were composed since the last step; after a drain also those that stand in the channel."""
    teller = Teller.of(told.monitor)
    by_id = {row["id"]: row for row in rows.table("incidents")}
    new = [row for row in rows.table("deliveries") if row["id"] not in checker.read and row["kind"] == "incidents"]
    new.sort(key=lambda row: (row["created_at"], row["sequence"]))
    last = {row["root"] or row["id"]: row["id"] for row in new if row["operation"] in ("post", "edit")}
    for delivery in new:
        incident = _incident(rows, delivery)
        if delivery["operation"] in ("post", "edit") and last[delivery["root"] or delivery["id"]] != delivery["id"]:
            continue  # edited at once
        story = teller.of_incident(told.monitor.store.incident(incident["id"]))
        assert story is not None
        _message(checker, rows, delivery, incident, story)
        if not event.more.get("jump", 0) < 0:  # a run whose clock was behind said so; the next drain edits it
            _automation(checker, rows, shown(delivery["payload"]), incident, "automation in a message")
        if delivery["operation"] in ("post", "edit"):
            checker.living[incident["id"]] = delivery
    if event.kind in ("drain", "watch"):
        for id, delivery in checker.living.items():
            if by_id[id]["state"] != "resolved" and delivery["state"] != "not_sent":
                _automation(checker, rows, shown(delivery["payload"]), by_id[id], "message as it stands")


def _incident(rows: Rows, delivery: Row) -> Row:
    """The incident of a message; a picture knows only that of its thread."""
    named, root = delivery["payload"].get("incidents", []), delivery["root"]
    return next(row for row in rows.table("incidents") if row["id"] in named or (not named and row["root"] == root))


def _message(checker: Checker, rows: Rows, delivery: Row, incident: Row, story: LabelStory) -> None:
    payload, text = delivery["payload"], shown(delivery["payload"])
    about = fields(story, incident, rows.events(incident))
    checker.within("message within its story", tokens(text), about, text)
    named = {person for person in PEOPLE if re.search(rf"\b{person}\b", text)}
    known = str([incident, rows.events(incident), story.switch and story.switch.words, story.cause])
    checker.holds("names within the story", all(person in known for person in named), text, known)
    checker.holds("length of a message", len(text.split("\n", 1)[-1].split()) <= 110, text)
    _since(checker, text, story)
    printed(checker, rows, text)
    if delivery["operation"] in ("post", "edit"):
        offered = "incident_ack" in buttons(payload)
        wanted = incident["state"] in ("open", "silenced")
        checker.equal("whether it can be acknowledged", offered, wanted)
        checker.holds("newest window of a message", incident["window"] in text, text, incident["window"])
        checker.holds("headline of a message", story.headline.split(":")[0] in text, text, story.headline)
    if payload.get("metadata", {}).get("event_payload", {}).get("change") == "repeat":
        checker.holds("id in a reminder", incident["id"][:8] in text, text, incident["id"])
        checker.equal("reminder of an open incident", incident["state"], "open")
    for link in links(payload):
        checker.holds("link", link.startswith(f"{PUBLIC}/") and "/docs/" not in link, link)


def _since(checker: Checker, text: str, story: LabelStory) -> None:
    """Nothing began at another time than the story says."""
    began = set(_SINCE.findall(text))
    checker.holds("one since", began <= set(tokens(story.since)), text, story.since)


def _automation(checker: Checker, rows: Rows, text: str, incident: Row, kind: str) -> None:
    """Whether automation is on or off, as a message says, is what the switch says."""
    said = {match[1] for match in _AUTOMATION.finditer(text)}
    if incident["labels"]:
        off = sum(not rows.is_on(incident["source"], label) for label in incident["labels"])
        counted = f"Automation is off for {off} of {len(incident['labels'])} labels"
        checker.holds(f"{kind} of many labels", not said or counted in text, text, counted)
    elif said and incident["label"]:
        on = rows.is_on(incident["source"], incident["label"])
        ended = rows.is_on(incident["source"], incident["label"], rows.now - timedelta(minutes=1))
        checker.holds(kind, {word != "off" for word in said} <= {on, ended}, text, "on" if on else "off")


def _all_events(rows: Rows, incident: Row) -> list[Row]:
    return [event for event in rows.table("incident_events") if event["incident"] == incident["id"]]


def terminal(checker: Checker, rows: Rows, told: Told) -> None:
    """`calmon incidents show` of every incident of a label, and the lines of its story."""
    teller = Teller.of(told.monitor)
    for incident in rows.table("incidents"):
        if incident["kind"].startswith("monitor"):
            continue
        story = teller.of_incident(told.monitor.store.incident(incident["id"]))
        assert story is not None
        text = told.command("incidents", "show", incident["id"][:8])
        about = fields(story, incident, _all_events(rows, incident)) | {incident["id"]}
        checker.within("terminal within its story", tokens(text), about, text)
        _since(checker, text, story)
        lines = story_lines(story)
        checker.holds("terminal has its story", all(line in text for line in lines), text, lines)
        checker.within("lines within the story", tokens("\n".join(lines)), about, "\n".join(lines))
        printed(checker, rows, text)
    told.command("incidents", "list")
    told.command("automation", "status")
    for args, code, text in told.printed:
        if args[:2] in (("incidents", "show"), ("incidents", "list"), ("automation", "status")) or args[0] == "explain":
            checker.equal("a command that only reads", code, 0)
        printed(checker, rows, text)
    told.printed.clear()


def printed(checker: Checker, rows: Rows, text: str) -> None:
    """Every command that is printed is one."""
    for command in commands(text):
        why = refusal(command)
        checker.equal("command runs as printed", (command, why), (command, None))
        for id in re.findall(r"\b[0-9a-f]{8}\b", command):
            stored = [*rows.table("incidents"), *rows.table("verdicts")]
            checker.holds("id in a command", any(row["id"].startswith(id) for row in stored), command)
