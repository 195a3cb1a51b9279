"""What the commands say: status and history of the switch, incidents, health, one run, and what a change answers."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.truth.claims import Grammar, Reader, fixed, nothing, same_minute, subject_of
from tests.truth.facts import Facts, Row, moment
from tests.truth.script import AUTOMATE_AT
from tests.truth.sentences import PUT_BACK, TIME, VERDICT, WEEK, check_incident_state
from tests.truth.texts import Part, rows_of

WHOLE = "(the whole source)"
AUTOMATION = ("source", "label", "automation", "acts from", "why", "lease", "changed")


def _label(shown: str) -> str | None:
    return None if shown == WHOLE else shown


def is_on(facts: Facts, source: str, label: str | None) -> bool:
    return facts.why_off(source, label) is None


# --- calmon automation status


def check_status(reader: Reader, parts: list[Part]) -> None:
    """Every label's line: on or off, from which score, why, how long, who changed it last."""
    for table, row in rows_of(parts):
        reader.equal("columns of the status", str(table.head), table.head, AUTOMATION)
        source, label = row["source"], _label(row["label"])
        text = " | ".join(row.values())
        allowed = is_on(reader.facts, source, label)
        reader.check(
            row["automation"].startswith("on") == allowed, "automation", text, _true(reader.facts, source, label)
        )
        would_be = not allowed and reader.facts.own_why_off(source, label) is None
        once = "off; on once the history is confirmed"
        reader.equal("whether it will be on", text, row["automation"] == once, would_be)
        _blocked(reader, text, row["automation"], source, label)
        _why(reader, text, row["why"], source, label)
        _status_rest(reader, text, row, source, label)
    for part in parts:
        if isinstance(part, str):
            STATUS_LINES.read(reader, part)


STATUS_LINES = Grammar("lines of the status")
STATUS_LINES.add(
    r"Times are in UTC\.|DRY RUN: .*|no change yet|no such change(?:; kinds of change so far: [a-z_, ]+)?"
)(nothing)  # fmt: skip

NO_LABEL = (
    r"(?P<why>no label is known yet; the first run finds them|no label is known: no run has found one|"
    r"a source of kind regression has no labels)"
)


@STATUS_LINES.add(NO_LABEL)
def _no_label(reader: Reader, text: str, _: Any, why: str) -> None:
    known = list(reader.facts.labels())
    reader.check(not known, "no label is known", text, known[:2])
    _check_why(reader, text, why)


def _check_why(reader: Reader, text: str, why: str) -> None:
    if why.startswith("no label"):
        reader.equal("a run was done", text, "no run has found one" in why, bool(reader.facts.runs))


@STATUS_LINES.add(r"As of (?P<at>\d{4}-\d\d-\d\d \d\d:\d\d)\. Times are in UTC\.")
def _as_of(reader: Reader, text: str, context: Any, at: str) -> None:
    reader.equal("time of the status", text, at, f"{reader.facts.now:%Y-%m-%d %H:%M}")


@STATUS_LINES.add(
    r"(?P<source>[\w-]+)/(?P<label>[\w-]+): No (?:(?P<schedule>weekly|daily) )?rule acts on it any more, so .+: "
    r"calmon automation enable --source (?P=source) --label (?P=label) --reason TEXT"
)
def _stays_off(reader: Reader, text: str, context: Any, source: str, label: str, schedule: str | None) -> None:
    rules = (rule for rule in reader.facts.rules.values() if rule.acts and rule.scope == "labels")
    acting = [rule.id for rule in rules if schedule in (None, rule.schedule)]
    reader.check(not acting, "no rule acts", text, acting)


def _true(facts: Facts, source: str, label: str | None) -> str:
    return f"off: {facts.why_off(source, label)}" if facts.why_off(source, label) else "on"


def _blocked(reader: Reader, text: str, shown: str, source: str, label: str | None) -> None:
    ranges = reader.facts.switch(source, label).blocked
    if label is not None:
        ranges = ranges + reader.facts.switch(source, None).blocked
    said = [(float(a), float(b)) for a, b in re.findall(r"([\d.]+) to ([\d.]+)", shown)]
    if is_on(reader.facts, source, label):
        reader.check(bool(said) == bool(ranges), "blocked scores", text, ranges)
        inside = all(any(lo <= a and b <= hi for lo, hi in said) for a, b in ranges)
        reader.check(inside, "blocked scores", text, ranges)
        parts = {part for part in shown.rpartition("but not for ")[2].split(", ") if " = " in part}
        reader.equal("segments off", text, parts, reader.facts.switch(source, label).off(reader.facts.now))


def _why(reader: Reader, text: str, why: str, source: str, label: str | None) -> None:
    facts, reason = reader.facts, reader.facts.why_off(source, label)
    mine, whole = facts.switch(source, label), facts.switch(source, None)
    of_source = why.startswith("the whole source is ")
    reader.check(of_source == (reason in ("source", "source closed")), "why off", text, reason)
    if of_source:
        told = why.partition(": ")[2].removesuffix(", against the last evaluation")
        if told and not why.startswith("the whole source is closed"):
            reader.check(
                told in (whole.why, f"{whole.why}, by {whole.by}"), "reason of the source's switch", text, whole.why
            )
        return
    reader.equal("history that is not confirmed", text, PUT_BACK in why, reason == "history")
    if reason == "lease":
        reader.check("lease ended" in why, "why off", text, reason)
    if reason == "never":
        reader.check(why.startswith("never set"), "why off", text, reason)
    if mine.why and reason in (None, "off") and ": " in why:
        reader.check(mine.why in why, "reason of the switch", text, mine.why)


def _status_rest(reader: Reader, text: str, row: dict[str, str], source: str, label: str | None) -> None:
    facts = reader.facts
    mine = facts.switch(source, label)
    least = AUTOMATE_AT.get((source, label), AUTOMATE_AT[source, None])
    if row["acts from"] != "not known yet":
        reader.number("acts from", text, row["acts from"].split(" ")[0], least)
    if row["changed"]:
        at, _, by = row["changed"].partition(" by ")
        reader.equal("changed by", text, by, mine.by)
        reader.check(same_minute(at, mine.since), "changed at", text, mine.since)
    if row["lease"]:
        left, _, until = row["lease"].rpartition(", ")
        reader.check(same_minute(until, mine.lease), "lease until", text, mine.lease)
        if mine.lease is not None:
            exact = mine.lease - facts.now
            a_moment_later = exact - timedelta(seconds=1)  # the clock moves on until it is told
            reader.check(_left(left, exact) or _left(left, a_moment_later), "lease left", text, exact)
    else:
        reader.check(mine.state != "on" or mine.lease is None, "lease", text, mine.lease)


def _left(said: str, true: timedelta) -> bool:
    if said == "ended":
        return true <= timedelta(0)
    found = re.fullmatch(r"(?:(\d+) d )?(?:(\d+) h ?)?(?:(\d+) min)?", said)
    if found is None:
        return False
    days, hours, minutes = (int(part or 0) for part in found.groups())
    least = timedelta(days=days, hours=hours, minutes=minutes)
    return least <= true < least + (timedelta(hours=1) if days else timedelta(minutes=1))


def check_status_json(reader: Reader, text: str) -> None:
    """The same as data."""
    for row in json.loads(text):
        source, label, told = row["source"], row["label"], json.dumps(row)
        mine = reader.facts.switch(source, label)
        reader.equal("automation", told, row["allowed"], is_on(reader.facts, source, label))
        reader.equal("state", told, row["state"], mine.state)
        reader.equal("by", told, row["by"], mine.by)
        reader.equal("lease until", told, moment(row["lease_until"]), mine.lease)
        reader.equal("hold until", told, moment(row["hold_until"]), mine.hold)
        reader.equal("changed at", told, moment(row["changed_at"]), mine.since)


# --- calmon automation history


def check_switch_history(reader: Reader, parts: list[Part]) -> None:
    """One line an event, in their order, each as it is stored."""
    events = list(reader.facts.switch_events)
    rows = [row for _, row in rows_of(parts)]
    reader.equal("number of changes", "automation history", len(rows), len(events))
    for row, event in zip(rows, events, strict=False):
        text = " | ".join(row.values())
        said = (row["source"], _label(row["label"]), row["what"], row["from"], row["to"], row["by"])
        every = None if event["source"] else "all"  # a line about every gate
        true = (
            every or event["source"],
            every or event["label"] or None,
            event["kind"],
            event["from_state"],
            event["to_state"],
            event["actor"],
        )
        reader.equal("change", text, said, true)
        reader.check(same_minute(row["when"], event["at"]), "when", text, event["at"])
        reader.equal("why", text, row["why"], " ".join(event["reason"].split()))
        reader.equal("verdict", text, row["verdict"], event["verdict"] or "")
        _why_of_run(reader, text, event)


def _why_of_run(reader: Reader, text: str, event: Row) -> None:
    """What a run gives as its reason is what its verdicts were."""
    if event["actor"] not in ("weekly run", "daily run"):
        return
    for rule, reason, window in re.findall(rf"([\w-]+): (\w+) in ({WEEK})", event["reason"]):
        mine = [
            v for v in reader.facts.verdicts.values()
            if (v["rule"], v["source"], v["label"], v["window_name"], v["reason"])
            == (rule, event["source"], event["label"], window, reason)
        ]  # fmt: skip
        reader.check(bool(mine), "reason of a run", text, f"no verdict of {rule} in {window} with {reason}")
    for rule, judged in re.findall(
        r"([\w-]+) was (not judged lately|not judged yet|judged until [-\d]+ [:\d]+ UTC)", event["reason"]
    ):
        _last_judged(reader, text, event, rule, judged)
    if "good window" in event["reason"] and event["kind"] == "enabled":
        schedule, window, _ = event["key"].split(":", 2)
        mine = reader.facts.current(schedule, window, event["source"], event["label"] or None)
        acting = [v for v in mine if reader.facts.rules[v["rule"]].acts]
        good = any(v["outcome"] == "ok" for v in acting) and all(v["outcome"] != "breach" for v in acting)
        judged_since = any(not v["current"] for v in reader.facts.verdicts.values() if v["window_name"] == window)
        reader.check(good or judged_since, "a good window", text, [(v["rule"], v["outcome"]) for v in acting])


def _last_judged(reader: Reader, text: str, event: Row, rule: str, said: str) -> None:
    """Until when a rule was judged is what its verdicts were by then; a late one is due by its own schedule.

    The newest verdict of a daily rule may not have been known: stories play a weekly run before the daily one of that
    morning.
    """
    is_weekly = reader.facts.rules[rule].schedule == "weekly"
    mine = {
        v["window_end"] for v in reader.facts.verdicts.values()
        if (v["rule"], v["source"], v["label"]) == (rule, event["source"], event["label"])
        and v["reason"] not in ("relation_error", "warehouse_failed") and v["stored_at"] <= event["at"]
    }  # fmt: skip
    ends = [*sorted(mine, reverse=True), None, None][: 1 if is_weekly else 2]
    if said == "not judged yet":
        reader.check(None in ends, "not judged yet", text, ends)
    elif said == "not judged lately":
        due = timedelta(days=7 if is_weekly else 1, hours=12)
        late = [end is None or end + due < event["at"] for end in ends]
        reader.check(any(late), "not judged lately", text, ends)
    else:
        known = {f"judged until {end:%Y-%m-%d %H:%M} UTC" for end in ends if end is not None}
        reader.check(said in known, "judged until", text, known)


# --- calmon incidents


def check_incident_list(reader: Reader, parts: list[Part]) -> None:
    """Each incident's line is as it is stored."""
    rows = [row for _, row in rows_of(parts)]
    reader.equal("number of incidents", "incidents list --all", len(rows), len(reader.facts.incidents))
    for row in rows:
        text = " | ".join(row.values())
        i = reader.facts.incident(row["id"])
        if i["rule"].startswith("monitor:"):
            _monitor_row(reader, text, row, i)
            continue
        source, label = subject_of(row["label"])
        reader.equal(
            "incident",
            text,
            (row["severity"], row["rule"], source, label),
            (i["severity"], i["rule"], i["source"], i["label"] or None),
        )
        reader.equal("since", text, row["since"], i["opened_window"])
        reader.equal("breaches", text, row["breaches"], str(i["breaches"]))
        reader.check(i["last_verdict"].startswith(row["verdict"]), "last breach", text, i["last_verdict"])
        INCIDENT_STATE.read(reader, row["state"], i)
    for part in parts:
        if isinstance(part, str):
            reader.check(part == "no incident is open" and not reader.facts.incidents, "incidents", part, len(rows))


def _monitor_row(reader: Reader, text: str, row: dict[str, str], i: Row) -> None:
    """An incident of the monitor itself: it is about a source, a channel, or the monitor."""
    said, true = (row["severity"], row["rule"], row["label"]), (i["severity"], i["rule"], i["source"] or "the monitor")
    reader.equal("incident", text, said, true)
    INCIDENT_STATE.read(reader, row["state"], i)


INCIDENT_STATE = Grammar("state of an incident")


@INCIDENT_STATE.add(rf"silenced until (?P<until>{TIME}) UTC")
def _state_silenced(reader: Reader, text: str, i: Row, until: str) -> None:
    reader.equal("incident state", text, "silenced", i["state"])
    reader.check(same_minute(until, i["silenced_until"]), "until", text, i["silenced_until"])


@INCIDENT_STATE.add(r"(?P<state>open|acknowledged|resolved)(?: by (?P<who>.+))?")
def _state_plain(reader: Reader, text: str, i: Row, state: str, who: str | None) -> None:
    reader.equal("incident state", text, state, i["state"])
    true = i["acknowledged_by"] if state == "acknowledged" else i["resolved_by"] if state == "resolved" else None
    reader.equal("by whom", text, who, true)


EVENT_KINDS = {
    "opened": "breach", "reopened": "breach", "resolved": "ok", "held_back": "ok", "held back": "ok",
}  # fmt: skip


def check_incident_show(reader: Reader, parts: list[Part], id: str) -> None:
    """One incident: its title, what its last breach says, its state, and all that happened."""
    i = reader.facts.incidents[id]
    lines = [part for part in parts if isinstance(part, str)]
    of_monitor = i["rule"].startswith("monitor:")
    name = f"{i['source']}/{i['label']}" if i["label"] else f"{i['source']} (all labels)"
    name = (i["source"] or "the monitor") if of_monitor else name
    reader.equal("incident", lines[0], lines[0], f"{id}: {name}, {i['rule']} ({i['severity']})")
    if of_monitor:
        _show_of_monitor(reader, lines, i)
        return
    VERDICT.read(reader, lines[1], reader.facts.verdicts[i["last_verdict"]])
    check_incident_state(reader, lines[2], i)
    for line in lines[3:]:
        SHOW_LINES.read(reader, line, i)
    events = reader.facts.events_of(id)
    rows = [row for _, row in rows_of(parts)]
    reader.equal("number of events", id, len(rows), len(events))
    for row, event in zip(rows, sorted(events, key=lambda e: (e["at"], e["key"])), strict=False):
        _event_line(reader, row, event)


def _show_of_monitor(reader: Reader, lines: list[str], i: Row) -> None:
    reasons = ", ".join([i["reason"], *(i["further_reasons"] or ())])
    reader.equal("reason", lines[1], lines[1], reasons.replace("_", " "))
    over = re.fullmatch(r"resolved, from (.+) to (.+)", lines[2])
    state, _, since = ("resolved", "", over[1]) if over else lines[2].rpartition(", since ")
    INCIDENT_STATE.read(reader, state, i)
    reader.check(same_minute(since, i["opened_at"]), "since", lines[2], i["opened_at"])
    if over:
        reader.check(same_minute(over[2], i["resolved_at"]), "to", lines[2], i["resolved_at"])
    post = [d for d in reader.facts.deliveries if d["id"] == i["root"]]
    said = (
        lines[3].removeprefix("message: ").removesuffix("; calmon health").split(":")[0].replace("not sent", "not_sent")
    )
    reader.equal("what became of the message", lines[3], said, post[0]["state"] if post else "no route took it")


SHOW_LINES = Grammar("lines of an incident")


@SHOW_LINES.add(r"message: (?P<state>.+?); calmon explain (?P<id>[0-9a-f]+)")
def _message_line(reader: Reader, text: str, i: Row, state: str, id: str) -> None:
    reader.check(i["last_verdict"].startswith(id), "last breach", text, i["last_verdict"])
    post = [d for d in reader.facts.deliveries if d["id"] == i["root"]]
    true = post[0]["state"] if post else "no route took it"
    said = state.split(":", maxsplit=1)[0].replace("not sent", "not_sent")
    reader.equal("what became of the message", text, said, true)


def _event_line(reader: Reader, row: dict[str, str], event: Row) -> None:
    text = " | ".join(row.values())
    reader.check(same_minute(row["when"], event["at"]), "when", text, event["at"])
    reader.equal(
        "what happened",
        text,
        (row["what"], row["window"], row["by"]),
        (event["kind"].replace("_", " "), event["window"], event["actor"]),
    )
    why = event["reason"] + (f": {event['detail']['why']}" if event["detail"].get("why") else "")
    reader.equal("why", text, row["why"], why)
    verdict = reader.facts.verdicts.get(event["verdict"] or "")
    if verdict is not None and event["actor"] == "run":
        wanted = EVENT_KINDS.get(event["kind"])
        if wanted is not None:
            reader.equal("outcome behind it", text, verdict["outcome"], wanted)
        _reason_words(reader, text, event["reason"], verdict)


def _reason_words(reader: Reader, text: str, reason: str, verdict: Row) -> None:
    """The named reason of an event is not against the verdict behind it."""
    says = {
        "within": ("ok",), "still": ("breach",), "first": ("breach",), "came back": ("breach",),
        "above the limit, not confirmed": ("unconfirmed",), "not evaluated": ("not_evaluated",),
        "label disappeared": ("not_evaluated",), "not judged": ("not_evaluated",),
    }  # fmt: skip
    for begins, outcomes in says.items():
        if reason.startswith(begins):
            reader.check(verdict["outcome"] in outcomes, "reason of an event", text, verdict["outcome"])


# --- what a change answers

CHANGED = Grammar("answer to a change of the switch")


@CHANGED.add(r"(?P<source>[\w-]+)/(?P<label>[\w -]+|\(the whole source\)): (?P<words>(?:already )?turned (?:on|off).*)")
def _changed(reader: Reader, text: str, _: Any, source: str, label: str, words: str) -> None:
    name = _label(label)
    mine = reader.facts.switch(source, name)
    turned_on = re.match(r"(?:already )?turned on", words) is not None
    reader.equal("state", text, "on" if turned_on else "off", mine.state)
    if turned_on and name is not None:
        closed = (reader.facts.why_off(source, name) or "").startswith("source")
        reader.equal("closed by its source", text, "it does not act yet: the whole source is" in words, closed)
    for time in re.findall(TIME, words):
        known = [t for t in (mine.lease, mine.hold, reader.facts.switch(source, None).lease) if t is not None]
        reader.check(any(same_minute(time, t) for t in known), "until", text, known)


@CHANGED.add(
    r"(?P<source>[\w-]+)/(?P<label>[\w -]+): (?P<part>\w+ = \w+) turned (?P<way>on|off)"
    rf"(?: until (?P<until>{TIME}) UTC, since the last evaluation said breach|; no run undoes that before (?P<hold>{TIME}) UTC)?"
    r"(?P<critical>(?:;|, and) a breach turns it off at once: its label is critical)?"
    r"(?:; the label itself is (?P<state>[\w ]+), for all its items)?(?P<was_on>; this segment was not off)?(?P<closed>; it does not act yet: the whole source is .*)?"
)
def _changed_segment(
    reader: Reader, text: str, _: Any, source: str, label: str, part: str, way: str, until: Any, hold: Any, state: Any,
    closed: Any, critical: Any, was_on: Any,
) -> None:  # fmt: skip
    facts = reader.facts
    if way == "on":
        reader.equal("critical", text, critical is not None, (source, label) in facts.critical)
        reader.equal("was on", text, was_on is not None, part not in facts.off_before(source, label))
    is_closed = (facts.why_off(source, label) or "").startswith("source")
    reader.equal("closed by its source", text, closed is not None, way == "on" and is_closed)
    mine = facts.switch(source, label)
    reader.equal("segment", text, part in mine.off(facts.now), way == "off")
    ends = dict(mine.segments).get(part)
    reader.check((until is not None) == (part in mine.ending(facts.now)), "until", text, ends)
    if until is not None:
        reader.check(same_minute(until, ends), "until", text, ends)
    if hold is not None:
        stored = facts.segment_hold(source, label, part)
        reader.check(same_minute(hold, stored), "no run undoes that before", text, stored)
    reader.equal("state of the label", text, (state or "on").replace(" ", "_"), mine.state)


CHANGED.add(fixed("error: until must lie in the future"))(nothing)


@CHANGED.add(rf"(?P<source>[\w-]+): nothing done: {NO_LABEL}")
def _nothing_known(reader: Reader, text: str, _: Any, source: str, why: str) -> None:
    _check_why(reader, text, why)
    known = [s for s, label in reader.facts.labels() if s == source]
    known += [v for v in reader.facts.verdicts.values() if v["source"] == source]
    reader.check(not known, "nothing known", text, known[:2])


@CHANGED.add(
    r"note: (?P<source>[\w-]+) has no label '(?P<label>[^']+)' so far; (?:did you mean '(?P<meant>[^']+)'\?|"
    r"`calmon automation status` lists those that are known\.) The change is stored all the same\."
)
def _not_seen(reader: Reader, text: str, _: Any, source: str, label: str, meant: str | None) -> None:
    judged = {v["label"] for v in reader.facts.verdicts.values() if v["source"] == source}
    reader.check(label not in judged, "no label so far", text, sorted(filter(None, judged))[:3])
    reader.check(meant is None or meant in judged or (source, meant) in reader.facts.labels(), "meant", text, meant)
    reader.check((source, label) in reader.facts.labels(), "stored", text, label)


PRESSED = Grammar("answer to a press or to a command about an incident")


@PRESSED.add(r"(?:error: )?(?P<rule>monitor:[\w-]+)(?: (?P<source>\S+))?: (?P<words>.+)")
def _about_the_monitor(reader: Reader, text: str, i: Row, rule: str, source: str | None, words: str) -> None:
    reader.equal("incident", text, (rule, source or ""), (i["rule"], i["source"]))
    if "ends by itself" not in words:
        _answered(reader, text, i, words)


@PRESSED.add(r"(?:error: )?(?P<name>[\w/-]+(?: \(all labels\))?), (?P<rule>[\w-]+): (?P<words>.+)")
def _about_incident(reader: Reader, text: str, i: Row, name: str, rule: str, words: str) -> None:
    source, label = subject_of(name)
    subject = (rule, i["source"], i["label"])
    beside = [e for e in reader.facts.incidents.values() if (e["rule"], e["source"], e["label"]) == subject]
    if rule != i["rule"] and beside:  # a press is about all of the label; the one that was pressed was so before
        reader.check(i["state"] in ("acknowledged", "silenced", "resolved"), "incident", text, i["state"])
        i = beside[-1]
    reader.equal("incident", text, (source, label, rule), (i["source"], i["label"] or None, i["rule"]))
    _answered(reader, text, i, words)


def _answered(reader: Reader, text: str, i: Row, words: str) -> None:
    state = {
        "acknowledged": "acknowledged", "already acknowledged": "acknowledged", "silenced": "silenced",
        "already silenced as long": "silenced", "resolved by hand": "resolved", "already resolved": "resolved",
    }  # fmt: skip
    found = re.fullmatch(rf"(?P<words>.+?)(?: until (?P<until>{TIME}) UTC)?", words)
    assert found is not None
    if found["words"] not in state:
        reader.unknown(f"answer: {text}")
        return
    reader.equal("incident state", text, state[found["words"]], i["state"])
    if found["until"]:
        reader.check(same_minute(found["until"], i["silenced_until"]), "until", text, i["silenced_until"])


@PRESSED.add(
    rf"automation of (?P<name>.+?): (?P<words>(?:already )?turned (?P<way>on|off))(?:, but not for (?P<parts>[^;]+))?"
    rf"(?:; without a good evaluation it ends (?P<until>{TIME}) UTC)?(?:\. It does not act yet: (?P<closed>.+))?"
)
def _pressed_switch(
    reader: Reader, text: str, i: Row, name: str, words: str, way: str, parts: str | None, until: str | None,
    closed: str | None,
) -> None:  # fmt: skip
    source, label = subject_of(name)
    if way == "on":
        reader.equal("does not act yet", text, closed is not None, reader.facts.why_off(source, label) is not None)
    mine = reader.facts.switch(source, label)
    reader.equal("state", text, way, mine.state)
    off = mine.off(reader.facts.now) if way == "on" else set()
    reader.equal("segments off", text, set(parts.split(", ")) if parts else set(), off)
    if until is not None:
        reader.check(same_minute(until, mine.lease), "until", text, mine.lease)


@PRESSED.add(r"(?P<name>[\w/-]+(?: \(all labels\))?): (?P<words>.+?) \((?P<rules>[\w-]+(?:, [\w-]+)*)\)")
def _about_label(reader: Reader, text: str, i: Row, name: str, words: str, rules: str) -> None:
    """What a press did to all incidents of a label that are in one message."""
    source, label = subject_of(name)
    for rule in rules.split(", "):
        mine = [
            each
            for each in reader.facts.incidents.values()
            if (each["source"], each["label"] or None, each["rule"]) == (source, label, rule)
        ]
        if not mine:
            reader.check(False, "incident", text, f"none of {rule}")
            continue
        _answered(reader, text, max(mine, key=lambda each: each["opened_at"]), words)


PRESSED.add(r"asked for a reason|not_an_operator|not_possible: .+")(nothing)


# --- calmon db backup, restore, confirm


COPIED = Grammar("copies of a history")


@COPIED.add(r"the history was copied to (?P<file>\S+) \((?P<size>[\d.]+) MiB\)")
def _copied(reader: Reader, text: str, copy: Path, file: str, size: str) -> None:
    reader.equal("file of the copy", text, file, str(copy))
    reader.number("size of the copy", text, size, copy.stat().st_size / 2**20)


@COPIED.add(
    r"restored from (?P<file>\S+)\. Every gate is closed\. Compare `calmon automation status` with what should be on, "
    r"then `calmon db confirm --reason TEXT`"
)
def _restored(reader: Reader, text: str, copy: Path, file: str) -> None:
    reader.equal("file of the copy", text, file, str(copy))
    reader.check(reader.facts.is_closed(reader.facts.now), "every gate is closed", text, reader.facts.closed)


@COPIED.add(r"confirmed: gates accept this history again \(epoch (?P<epoch>\d+)\)")
def _confirmed(reader: Reader, text: str, copy: Path, epoch: str) -> None:
    reader.check(not reader.facts.is_closed(reader.facts.now), "every gate is closed", text, reader.facts.closed)
    (row,) = reader.facts.rows("SELECT epoch, confirmed FROM history")
    reader.equal("epoch", text, (int(epoch), 1), (row["epoch"], row["confirmed"]))
