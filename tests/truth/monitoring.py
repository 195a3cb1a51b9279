"""What the monitor says of itself: findings (health, messages), where automation stands, when it was back at work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from tests.truth.claims import Grammar, Reader, fixed, nothing, same_minute
from tests.truth.facts import Facts, Row
from tests.truth.mishaps import PATIENCE, Mishaps
from tests.truth.script import AUTOMATE_AT
from tests.truth.sentences import NUMBER, TIME, WEEK
from tests.truth.texts import Message, Part

N = NUMBER
FINDING = Grammar("finding of the monitor")
COUNTED = r"(?:(?P<n>\d+) messages?)?(?: and )?(?:(?P<edits>\d+) changes? of (?:a message|messages))?"
_SINCE = rf"(?: \(since (?P<since>{WEEK})\))?"
ROUTED = {"#ml-oncall", "#ml-monitoring"}
_IN_NO_WINDOW = ("line_unreadable", "date_missing", "date_malformed", "date_in_future")
_RUN = rf"The (?P<schedule>weekly|daily) run of (?P<window>{WEEK})"


def window_start(name: str) -> datetime:
    """The start of a window, without a time zone."""
    return datetime.strptime(f"{name}-1" if "W" in name else name, "%G-W%V-%u" if "W" in name else "%Y-%m-%d")


def window_after(name: str) -> str:
    """The window that follows."""
    start = window_start(name) + timedelta(days=7 if "W" in name else 1)
    return f"{start:%G-W%V}" if "W" in name else f"{start:%Y-%m-%d}"


def _run(facts: Facts, schedule: str, window: str) -> Row | None:
    return next((r for r in facts.runs if (r["schedule"], r["window_name"]) == (schedule, window)), None)


@FINDING.add(rf"{_RUN} left out (?P<sources>.+?): it was of other sources alone\.")
def _left_out(reader: Reader, text: str, _: Any, schedule: str, window: str, sources: str) -> None:
    start = f"{window_start(window):%Y-%m-%d %H:%M}"
    mine = [r for r in reader.facts.readings if r["schedule"] == schedule and str(r["window_start"])[:16] == start]
    names, _more = _names(sources)
    reader.check(not names & {r["source"] for r in mine}, "sources that were not read", text, mine)


@FINDING.add(
    rf"{_RUN} is missing(?:, and the (?P<more>one|\d+) after it)?: (?:it|the first) was due at (?P<due>{TIME}) UTC\.?(?P<rest>.*)"
)
def _missing(reader: Reader, text: str, _: Any, schedule: str, window: str, more: Any, due: str, rest: str) -> None:
    many = {None: 0, "one": 1}.get(more, int(more) if more and more.isdigit() else 0)
    name = window
    for _k in range(many + 1):
        found = _run(reader.facts, schedule, name)
        reader.check(found is None, "run missing", text, found and (found["window_name"], found["state"]))
        name = window_after(name)
    ready = window_start(window_after(window)) + timedelta(hours=6)
    said = datetime.strptime(due, "%Y-%m-%d %H:%M")
    reader.check(ready <= said <= ready + timedelta(hours=8), "due at", text, ready)
    reader.check(said <= reader.facts.now.replace(tzinfo=None), "due already", text, reader.facts.now)


@FINDING.add(rf"{_RUN} failed: (?P<error>.+)")
def _failed(reader: Reader, text: str, _: Any, schedule: str, window: str, error: str) -> None:
    found = _run(reader.facts, schedule, window)
    reader.equal("run failed", text, "failed", found and found["state"])
    if found is not None:
        reader.check(error.rstrip(".") in (found["error"] or "").rstrip(".") + ".", "error", text, found["error"])


@FINDING.add(rf"{_RUN} began at (?P<at>{TIME}) UTC and has not ended: it hangs, or its process was killed\.")
def _hangs(reader: Reader, text: str, _: Any, schedule: str, window: str, at: str) -> None:
    found = _run(reader.facts, schedule, window)
    reader.equal("run state", text, "running", found and found["state"])
    reader.check(
        found is not None and same_minute(at, found["started_at"]), "began at", text, found and found["started_at"]
    )


@FINDING.add(
    rf"(?:The (?P<schedule>weekly|daily) run|The flow (?P<flow>[\w-]+)) failed at (?P<at>{TIME}) UTC: (?P<error>.+)"
)
def _flow_failed(reader: Reader, text: str, _: Any, schedule: Any, flow: Any, at: str, error: str) -> None:
    name = flow or f"calmon-{schedule}"
    found = mishaps(reader).failing(name, reader.made_at or reader.facts.now)
    reader.check(found is not None and same_minute(at, found.start), "failure of a flow", text, found)
    reader.equal("error of a flow", text, error, found and found.error)


@FINDING.add(rf"The watchdog last looked at (?P<at>{TIME}) UTC; it is due every quarter of an hour\.")
def _silent(reader: Reader, text: str, _: Any, at: str) -> None:
    now = reader.made_at or reader.facts.now
    looked = reader.facts.told.looked
    reader.check(same_minute(at, looked), "last look of the watchdog", text, looked)
    reader.check(not mishaps(reader).is_watched(now), "watchdog that is silent", text, mishaps(reader).silences)
    reader.check(looked is not None and now - looked > PATIENCE, "watchdog that is silent", text, looked)


@FINDING.add(r"Runs that were due more than an hour ago have not begun: (?P<runs>.+?)(?: and (?P<more>\d+) more)?\.")
def _wait(reader: Reader, text: str, _: Any, runs: str, more: str | None) -> None:
    looked = reader.facts.told.looked
    found = [] if looked is None else mishaps(reader).waiting_at(looked)
    reader.equal("runs that wait", text, runs.split("; "), [f"{flow} due {due} UTC (Late)" for flow, due in found[:5]])
    reader.equal("how many runs wait", text, int(more or 0), max(0, len(found) - 5))


@FINDING.add(r"The history is not confirmed: (?P<why>.+)\. Every gate is closed, and no label acts\.")
def _not_confirmed(reader: Reader, text: str, _: Any, why: str) -> None:
    check_closed(reader, text)
    found, told = mishaps(reader).put_back, reader.facts.told
    true = found and f"restored from copy.sqlite: {found.why}"
    if found is not None and not found.by_command and told.lost is not None and told.found is not None:
        (version, epoch), (lost, of_lost) = told.found, told.lost
        copy = f"it is at version {version} of epoch {epoch}"
        true = f"an older copy was put back: {copy}, and version {lost} of epoch {of_lost} was there before"
    reader.equal("why it is not confirmed", text, why, true)


def mishaps(reader: Reader) -> Mishaps:
    """What the plan lets go wrong with the monitor itself."""
    return reader.facts.troubles.mishaps or Mishaps()


def check_closed(reader: Reader, text: str) -> None:
    """An older history was put back, and nobody has confirmed it."""
    by = reader.made_at or reader.facts.now
    reader.check(reader.facts.is_closed(by), "history that is not confirmed", text, reader.facts.closed)


def _reading(facts: Facts, source: str, window: str) -> Row | None:
    starts = window_start(window)
    schedule = "weekly" if "W" in window else "daily"
    mine = [r for r in facts.readings if (r["source"], r["schedule"]) == (source, schedule)]
    return next((r for r in mine if r["window_start"].replace(tzinfo=None) == starts), None)


def check_clock_behind(reader: Reader, text: str, said: str | None = None) -> None:
    """The clock by which a text was made had not reached the newest change of a switch."""
    by = reader.made_at or reader.facts.now
    newest = max((event["at"] for event in reader.facts.switch_events), default=by)
    reader.check(newest - timedelta(minutes=10) > by, "clock behind", text, (newest, by))
    if said is not None:
        reader.check(same_minute(said, newest), "newest change", text, newest)


def _newest_reading(reader: Reader, text: str, source: str, window: str) -> Row | None:
    found = _reading(reader.facts, source, window)
    if found is None:
        reader.check(False, "reading", text, "nothing was read")
        return None
    schedule = found["schedule"]
    mine = [r["window_start"] for r in reader.facts.readings if (r["source"], r["schedule"]) == (source, schedule)]
    reader.equal("newest window", text, found["window_start"], max(mine))
    return found


def _since(reader: Reader, text: str, source: str, window: str, since: str | None, holds: Any) -> None:
    """From ``since`` on every reading of the source was like this, and the one before was not."""
    schedule = "weekly" if "W" in window else "daily"
    mine = [r for r in reader.facts.readings if (r["source"], r["schedule"]) == (source, schedule)]
    start = window_start(since or window)
    after = [r for r in mine if r["window_start"].replace(tzinfo=None) >= start]
    reader.check(bool(after) and all(map(holds, after)), "since", text, [r["state"] for r in after])
    before = [r for r in mine if r["window_start"].replace(tzinfo=None) < start]
    reader.check(not before or not holds(before[-1]), "since", text, "it began earlier")


@FINDING.add(
    rf"(?P<source>[\w-]+) could not be read for (?P<window>{WEEK}){_SINCE}: (?P<error>.+?)\.? Its labels were not judged\."
)
def _unread(reader: Reader, text: str, _: Any, source: str, window: str, since: Any, error: str) -> None:
    found = _newest_reading(reader, text, source, window)
    if found is not None:
        reader.check(found["state"] != "ok", "could not be read", text, found["state"])
        reader.check(error in (found["error"], found["state"]), "error", text, found["error"])
        _since(reader, text, source, window, since, lambda r: r["state"] != "ok")


_GONE = (
    rf"(?: Of {{}} (?P<{{}}>{N}) rows? (?:was|were) read before, and (?:(?P<{{}}>{N}) (?:is|are)|none is) left: "
    r"the relation was emptied or replaced\.)?"
)


def _gone(reader: Reader, text: str, source: str, window: str, read: str, left: str | None) -> None:
    mine = _reading(reader.facts, source, window)
    gone = [q for q in reader.facts.quality if q["reason"] == "rows_gone" and mine is not None and all(
        q[name] == mine[name] for name in ("source", "schedule", "window_start")
    )]  # fmt: skip
    reader.check(bool(gone), "rows that are gone", text, mine)
    reader.equal("rows that are left", text, int((left or "0").replace(",", "")), mine and mine["rows"])
    key = ("weekly" if "W" in window else "daily", window, source)
    reader.number("rows that were read before", text, read, reader.facts.told.gone.get(key))


@FINDING.add(
    rf"(?P<source>[\w-]+) has no row for (?P<window>{WEEK}){_SINCE}(?P<why>: nothing was resolved, or the view is no longer filled)?\. Usual are (?P<usual>{N})\."
    rf"(?: In no window (?:lie (?P<undated>{N}) rows|lies (?P<one_undated>1) row) of it, whose date is missing, malformed or in the future \((?P<before>{N}) before\)\.)?"
    + _GONE.format(f"(?P<again>{WEEK})", "here", "none")
    + _GONE.format(f"(?P<past>{WEEK})", "were", "left")
)
def _no_row(
    reader: Reader, text: str, _: Any, source: str, window: str, since: Any, usual: str, undated: Any,
    one_undated: Any, before: Any, why: Any, again: Any, here: Any, none: Any, past: Any, were: Any, left: Any,
) -> None:  # fmt: skip
    undated = undated or one_undated
    found = _newest_reading(reader, text, source, window)
    for name, read, rest in ((again, here, none), (past, were, left)):
        if name is not None:
            _gone(reader, text, source, name, read, rest)
    reader.check(bool(why) or window in (again, past), "why there is no row", text, why)
    if found is not None:
        reader.equal("rows", text, 0, found["rows"])
        _usual(reader, text, found, usual)
        _since(reader, text, source, window, since, lambda r: r["state"] == "ok" and r["rows"] == 0)
        if undated is not None:
            schedule = found["schedule"]
            mine = [r for r in reader.facts.readings if (r["source"], r["schedule"]) == (source, schedule)][::-1]
            filled = next((r for r in mine if r["rows"] or r["state"] != "ok"), mine[-1])
            reader.number("rows without a window", text, undated, _in_no_window(reader.facts, found))
            reader.number("rows without a window before", text, before, _in_no_window(reader.facts, filled))


def _in_no_window(facts: Facts, reading: Row) -> int:
    """How many rows a reading found that lie in no window."""
    same = ("source", "schedule", "window_start")
    return sum(
        q["rows"] for q in facts.quality if q["reason"] in _IN_NO_WINDOW and all(q[k] == reading[k] for k in same)
    )


def _usual(reader: Reader, text: str, found: Row, usual: str, windows: int = 8) -> None:
    before = [
        r for r in reader.facts.readings
        if (r["source"], r["schedule"]) == (found["source"], found["schedule"]) and r["state"] == "ok"
        and r["window_start"] < found["window_start"]
    ]  # fmt: skip
    alike = [r for r in before if r["window_start"].weekday() == found["window_start"].weekday()]
    empty = [r["window_start"] for r in before if r["rows"]][-1:]
    of_days = [r for r in alike if empty and r["window_start"] <= empty[0]]
    before = alike if of_days else before  # a history of a few days has no such weekday
    known = {round(median([r["rows"] for r in before[-windows:]] or [0]))}
    with_rows = [r["rows"] for r in before if r["rows"]]
    known.add(round(median(with_rows[-windows:] or [0])))
    reader.check(any(abs(int(usual.replace(",", "")) - k) <= 1 for k in known), "usual rows", text, known)


@FINDING.add(
    rf"(?P<source>[\w-]+) has (?P<rows>{N}) rows? for (?P<window>{WEEK}); usual are (?P<usual>{N}) \(the median of the (?P<count>\d+) (?:windows|days of this weekday) before\)\."
    + _GONE.format(f"(?P<again>{WEEK})", "were", "left")
)
def _few_rows(
    reader: Reader, text: str, _: Any, source: str, rows: str, window: str, usual: str, count: str, again: Any,
    were: Any, left: Any,
) -> None:  # fmt: skip
    found = _newest_reading(reader, text, source, window)
    if again is not None:
        reader.equal("window of the rows", text, again, window)
        _gone(reader, text, source, again, were, left)
    if found is not None:
        reader.number("rows", text, rows, found["rows"])
        _usual(reader, text, found, usual, int(count))


@FINDING.add(
    rf"Nothing of (?P<source>[\w-]+) was judged in (?P<window>{WEEK}){_SINCE}: all (?P<n>{N}) verdicts of the (?P<schedule>\w+) rules are not evaluated \((?P<reasons>.+)\)\."
)
def _nothing_judged(
    reader: Reader, text: str, _: Any, source: str, window: str, since: Any, n: str, schedule: str, reasons: str
) -> None:
    mine = reader.facts.current(schedule, window, source)
    reader.check(
        bool(mine) and all(v["outcome"] == "not_evaluated" for v in mine),
        "nothing judged",
        text,
        [v["outcome"] for v in mine],
    )
    reader.number("verdicts", text, n, len(mine))
    for words, many in re.findall(r"([\w ]+?) (\d+)(?:, |$)", reasons):
        reason = words.strip().replace(" ", "_")
        reader.equal(f"verdicts {reason}", text, int(many), sum(v["reason"] == reason for v in mine))


@FINDING.add(
    rf"(?P<source>[\w-]+) in (?P<window>{WEEK}){_SINCE}: (?P<rules>.+?) could not judge (?P<labels>.+?): (?P<why>too many of their rows|their scores moved|when their truths came, or which of their items still wait for one, could not be read|.+ rows).*"
)
def _could_not_judge(
    reader: Reader, text: str, _: Any, source: str, window: str, since: Any, rules: str, labels: str, why: str
) -> None:
    schedule = "weekly" if "W" in window else "daily"
    of_part = why.startswith("when their truths came")
    reason = "unresolved_failed" if of_part else "scores_moved" if why == "their scores moved" else "rejected_rows"
    if of_part:
        planned = reader.facts.told.unread.get((schedule, window, source))
        reader.check(bool(planned), "part that could not be read", text, planned)
    true = {
        (v["rule"], v["label"] or "all labels") for v in reader.facts.current(schedule, window, source) if v["reason"] == reason
    }  # fmt: skip
    said_rules, said_labels = set(rules.split(", ")), set(re.sub(r" and \d+ more$", "", labels).split(", "))
    reader.equal("rules", text, said_rules, {rule for rule, _label in true})
    known = {label for _rule, label in true} | {"the source as a whole", f"{source} (all labels)"}
    reader.check(said_labels <= known and bool(true), "labels", text, true)


@FINDING.add(
    rf"A switch was changed at (?P<at>{TIME}) UTC, which the clock of this machine has not reached yet\. Every gate is closed, and no label acts\."
)
def _clock_behind(reader: Reader, text: str, _: Any, at: str) -> None:
    check_clock_behind(reader, text, at)


@FINDING.add(
    rf"Every row of (?P<source>[\w-]+) for (?P<window>{WEEK}){_SINCE} was rejected \((?P<n>{N})\): nothing could be judged\."
)
def _every_row(reader: Reader, text: str, _: Any, source: str, window: str, since: Any, n: str) -> None:
    found = _reading(reader.facts, source, window)
    schedule = "weekly" if "W" in window else "daily"
    set_aside = sum(
        q["rows"] for q in reader.facts.quality
        if q["source"] == source and q["schedule"] == schedule and found is not None and q["window_start"] == found["window_start"]
        and q["reason"] not in (*_IN_NO_WINDOW, "duplicate")
    )  # fmt: skip
    reader.equal("rows", text, 0, found and found["rows"])
    reader.number("rejected rows", text, n, set_aside)


@FINDING.add(
    COUNTED
    + r" to (?P<channel>#[\w-]+) (?P<what>(?:have|has) waited for more than an hour|(?:were|was) refused by Slack for good): (?P<error>.+?)(?: (?P<nobody>Nothing has reached Slack (?:so far|since [-\d]+ [:\d]+ UTC))\.)?"
)
def _messages(
    reader: Reader,
    text: str,
    _: Any,
    n: str | None,
    edits: str | None,
    channel: str,
    what: str,
    error: str,
    nobody: Any,
) -> None:
    if "waited" in what:
        now, hour = reader.made_at or reader.facts.now, timedelta(hours=1)
        waiting = [d for d in _waiting(reader) if d["channel"] == channel]
        mine = [d for d in waiting if now - d["created_at"] > hour]
        if _by_kind(mine) != (n, edits):  # the clock moves on until it is told
            mine = [d for d in waiting if now + timedelta(seconds=1) - d["created_at"] > hour]
    else:
        mine = [d for d in _refused(reader, channel) if d["attempts"]]
    reader.equal("messages", text, (n, edits), _by_kind(mine))
    known = {d["error"] for d in mine} | {"no error was noted"}
    reader.check(error in known or error.rstrip(".") in known, "error", text, known)
    if nobody:
        _reaches_nobody(reader, text, nobody)


def _by_kind(deliveries: list[Row]) -> tuple[str | None, str | None]:
    """How many post something, and how many edit what was posted."""
    edits = sum(d["operation"] == "edit" for d in deliveries)
    return str(len(deliveries) - edits or "") or None, str(edits or "") or None


def _state(reader: Reader, delivery: Row) -> str:
    """The state of a delivery when a text was made: what comes round sends after it has looked."""
    now: str = delivery["state"]
    return now if reader.made_at is None else reader.facts.before.get(delivery["id"], now)


def _waiting(reader: Reader) -> list[Row]:
    return [d for d in reader.facts.deliveries if _state(reader, d) in ("pending", "failed", "sending")]


def _refused(reader: Reader, channel: str) -> list[Row]:
    """What Slack refused in a channel in the last seven days, and what was to change what it refused."""
    now = reader.made_at or reader.facts.now
    dead = [d for d in reader.facts.deliveries if _state(reader, d) == "dead" and d["channel"] == channel]
    return [d for d in dead if timedelta(0) < now - d["created_at"] <= timedelta(days=7)]


@FINDING.add(
    r"(?P<n>\d+) changes? of messages to (?P<channel>#[\w-]+) (?:was|were) not sent, since Slack has refused these messages for good\."
)
def _changes_of_refused(reader: Reader, text: str, _: Any, n: str, channel: str) -> None:
    mine, states = _refused(reader, channel), {d["id"]: d["state"] for d in reader.facts.deliveries}
    reader.equal("messages", text, int(n), len(mine))
    reader.check(all(states[d["root"]] == "dead" for d in mine), "messages that were refused", text, mine)


@FINDING.add(
    COUNTED
    + r" to (?P<channel>#[\w-]+) (?:was|were) not sent and will not be: a process had no token, although messages had been sent before\.(?: (?P<nobody>Nothing has reached Slack (?:so far|since [-\d]+ [:\d]+ UTC))\.)?"
)
def _not_sent(reader: Reader, text: str, _: Any, n: str | None, edits: str | None, channel: str, nobody: Any) -> None:
    now = reader.made_at or reader.facts.now
    sent = [d["sent_at"] for d in reader.facts.deliveries if d["sent_at"] and d["sent_at"] <= now]
    mine = [
        d for d in reader.facts.deliveries
        if (d["channel"], _state(reader, d)) == (channel, "not_sent") and min(sent) < d["created_at"] < now and d["attempts"]
        and now - d["created_at"] <= timedelta(days=7)
    ]  # fmt: skip
    reader.equal("messages", text, (n, edits), _by_kind(mine))
    newest = max((d["created_at"] for d in mine), default=now)
    reader.equal("whether any is sent now", text, bool(nobody), newest > max(sent))
    if nobody and mishaps(reader).tokenless:
        reader.check(
            mishaps(reader).has_no_token(now, max(sent)), "token that is missing", text, mishaps(reader).tokenless
        )
    _nothing_since(reader, text, nobody, now)


def _nothing_since(reader: Reader, text: str, nobody: str | None, now: datetime) -> None:
    """When the newest message was sent."""
    last = max((d["sent_at"] for d in reader.facts.deliveries if d["sent_at"] and d["sent_at"] <= now), default=None)
    known = "so far" if last is None else f"since {last:%Y-%m-%d %H:%M} UTC"
    reader.check(nobody in (None, f"Nothing has reached Slack {known}"), "when the last was sent", text, known)


def _reaches_nobody(reader: Reader, text: str, nobody: str) -> None:
    """Slack refuses the token, or each channel in which a message ever was has one that waits for an hour."""
    now = reader.made_at or reader.facts.now
    _nothing_since(reader, text, nobody, now)
    waits = [d for d in _waiting(reader) if now - d["created_at"] > timedelta(hours=1)]
    refused = any(d["error_code"] in ("invalid_auth", "token_revoked", "token_expired") for d in waits)
    reader.check(refused or {d["channel"] for d in waits} >= ROUTED, "that nothing reaches Slack", text, waits)


def _names(said: str) -> tuple[set[str], int]:
    more = re.search(r" and (\d+) more$", said)
    return set(re.sub(r" and \d+ more$", "", said).split(", ")), int(more[1]) if more else 0


def _with_lease(facts: Facts, source: str, until: str) -> set[str]:
    return {
        label or "the source as a whole"
        for (s, label) in facts.switches
        if s == source and (mine := facts.switch(s, label)).state == "on" and same_minute(until, mine.lease)
    }


@FINDING.add(
    rf"Automation of (?P<source>[\w-]+) ends by itself at (?P<at>{TIME}) UTC, in less than (?P<hours>\d+) hours, for (?P<labels>.+?), unless an evaluation renews its lease\."
)
def _ends(reader: Reader, text: str, _: Any, source: str, at: str, hours: str, labels: str) -> None:
    _lease(reader, text, source, at, labels)
    left = datetime.strptime(at, "%Y-%m-%d %H:%M") - reader.facts.now.replace(tzinfo=None)
    reader.check(timedelta(0) < left <= timedelta(hours=int(hours)), "hours left", text, left)


@FINDING.add(
    rf"The lease of (?P<source>[\w-]+) ends at (?P<at>{TIME}) UTC, in less than (?P<hours>\d+) hours, for (?P<labels>.+?), unless an evaluation renews it\. Every gate is closed: automation is off already\."
)
def _ends_while_closed(reader: Reader, text: str, _: Any, source: str, at: str, hours: str, labels: str) -> None:
    _ends(reader, text, _, source, at, hours, labels)
    if not reader.facts.is_closed(reader.made_at or reader.facts.now):
        check_clock_behind(reader, text)


@FINDING.add(
    rf"The lease of (?P<source>[\w-]+) ended at (?P<at>{TIME}) UTC for (?P<labels>.+?): no evaluation renewed it, so automation is off\."
)
def _ended(reader: Reader, text: str, _: Any, source: str, at: str, labels: str) -> None:
    _lease(reader, text, source, at, labels)
    reader.check(datetime.strptime(at, "%Y-%m-%d %H:%M") <= reader.facts.now.replace(tzinfo=None), "ended", text, at)


@FINDING.add(
    r"Automation of (?P<source>[\w-]+) ended for (?P<labels>.+?): alerts\.yaml has no source (?P<gone>[\w-]+) any more, so every gate refuses it\."
)
def _lost(reader: Reader, text: str, _: Any, source: str, labels: str, gone: str) -> None:
    reader.check(source == gone and source not in {name for name, _ in AUTOMATE_AT}, "source that is gone", text, gone)
    names, _more = _names(labels)
    for name in names:
        reader.equal("state of the switch", text, "on", reader.facts.switch(source, name).state)


def _lease(reader: Reader, text: str, source: str, at: str, labels: str) -> None:
    names, more = _names(labels)
    true = _with_lease(reader.facts, source, at)
    reader.check(names <= true and len(names) + more == len(true), "labels whose lease it is", text, true)


@FINDING.add(
    r"Automation of (?P<source>[\w-]+) was turned off for (?P<labels>.+?), since no acting rule could be judged \((?P<reason>.+)\)\."
)
def _turned_off(reader: Reader, text: str, _: Any, source: str, labels: str, reason: str) -> None:
    names, _more = _names(labels)
    for name in names:
        label = None if name in ("the whole source", "the source as a whole") else name
        mine = reader.facts.switch(source, label)
        reader.equal("state of the switch", text, "off", mine.state)
        reader.check(mine.why.startswith("not evaluated"), "why off", text, mine.why)


@FINDING.add(
    rf"Nobody answers the buttons of messages: calmon slack has (?:not been connected to Slack since (?P<at>{TIME}) UTC"
    rf"|never been noted as connected to Slack, and messages with buttons are sent since (?P<sent>{TIME}) UTC)\."
)
def _not_listening(reader: Reader, text: str, _: Any, at: str | None, sent: str | None) -> None:
    facts = reader.facts
    now = reader.made_at or facts.now
    reader.equal("has ever listened", text, at is not None, facts.troubles.listened(now) is not None)
    reader.check(facts.troubles.is_silent(now), "buttons that are not answered", text, facts.troubles.away)
    reader.check(
        at is None or same_minute(at, facts.troubles.listened(now)), "last connected", text, facts.troubles.away
    )


# --- where automation stands

AUTOMATION = Grammar("automation line")
_ENDS = rf"it ends (?P<first>{TIME}) UTC|it ends between (?P<low>{TIME}) UTC and (?P<high>{TIME}) UTC"
_OVER = rf"(?P<over>\d+) labels? ended with (?:its lease|their leases), (?:the last )?at (?P<last>{TIME}) UTC"


@AUTOMATION.add(
    rf"Automation is on for (?P<on>\d+) labels?; without an evaluation (?:{_ENDS})\.(?: Automation of {_OVER}\.)?"
    rf"|No label acts alone now(?:: automation of {_OVER.replace('over>', 'over2>').replace('last>', 'last2>')})?\."
)
def _stands(
    reader: Reader, text: str, source: str | None, on: Any, first: Any, low: Any, high: Any, over: Any, last: Any,
    over2: Any, last2: Any,
) -> None:  # fmt: skip
    facts = reader.facts
    mine = [key for key in facts.switches if key[1] is not None and source in (None, "", key[0])]
    acting = [key for key in mine if facts.why_off(*key) is None]
    reader.equal("labels that act alone", text, int(on or 0), len(acting))
    leases = sorted(m for m in (facts.ends(*key) for key in acting) if m is not None)
    if first is not None and leases:
        reader.check(same_minute(first, leases[0]) and same_minute(first, leases[-1]), "ends", text, leases)
    if low is not None and leases:
        reader.check(same_minute(low, leases[0]) and same_minute(high, leases[-1]), "ends between", text, leases)
    ended = [key for key in mine if facts.why_off(*key) == "lease"]
    reader.equal("labels whose lease ended", text, int(over or over2 or 0), len(ended))
    if (last or last2) and ended:
        newest = max(m for m in (facts.switch(*key).lease for key in ended) if m is not None)
        reader.check(same_minute(last or last2, newest), "ended at", text, newest)


@AUTOMATION.add(r"Every gate is closed, since the clock is behind the history: no label acts alone now\.")
def _closed_by_clock(reader: Reader, text: str, _: Any) -> None:
    check_clock_behind(reader, text)


@AUTOMATION.add(r"Every gate is closed until somebody confirms the history: no label acts alone now\.")
def _closed_by_history(reader: Reader, text: str, _: Any) -> None:
    check_closed(reader, text)


# --- messages about the monitor


ENDINGS = Grammar("the monitor is well again")


@ENDINGS.add(
    rf"(?:(?P<work>Back at work)|Data of [\w-]+: nothing wrong|Scores of [\w-]+ can be compared again"
    rf"|(?P<open>Neither the history nor the clock closes every gate)|No message to (?P<channel>#[\w-]+) waits|(?P<buttons>Buttons of messages answer again)|Automation of [\w-]+: no lease ends and no label is turned off unjudged) since (?P<since>{TIME}) UTC"
    rf"|alerts\.yaml has no source [\w-]+ any more \(seen (?P<seen>{TIME}) UTC\)"
)
def _well_again(
    reader: Reader, text: str, incident: Row, work: Any, buttons: Any, since: Any, seen: Any, open: Any, channel: Any
) -> None:  # fmt: skip
    """It is over since a time after it began, and not after that was noticed; work is back with a run that ended."""
    at = datetime.strptime(since or seen, "%Y-%m-%d %H:%M")
    began, over = (incident[k].replace(tzinfo=None, second=0, microsecond=0) for k in ("opened_at", "resolved_at"))
    reader.check(began <= at <= over, "since", text, (began, over))
    if buttons:
        heard = reader.facts.troubles.listened(incident["resolved_at"]) == incident["resolved_at"]
        reader.check(heard, "buttons that are answered", text, reader.facts.troubles.away)
    if open:
        reader.check(
            not reader.facts.is_closed(incident["resolved_at"]), "gates that are open", text, reader.facts.closed
        )
    if channel:
        mine = [d for d in _waiting(reader) if d["channel"] == channel]
        old = [d for d in mine if incident["resolved_at"] - d["created_at"] > timedelta(hours=1)]
        reader.check(not old, "messages that wait", text, old)
    if work:
        done = [r["finished_at"] for r in reader.facts.runs if r["state"] == "done"]
        reader.check(any(same_minute(since, t) for t in done) or at == over, "back at work", text, done[-3:])


LINE = Grammar("line of a message about the monitor")


@LINE.add(r"Automation: (?P<line>.+)|(?P<bare>(?:Automation is on for|No label acts alone now).+)")
def _automation_line(reader: Reader, text: str, incident: Row, line: Any, bare: Any) -> None:
    source = incident["source"] if incident["rule"] not in ("monitor:not-running", "monitor:delivery") else None
    AUTOMATION.read(reader, line or bare, source)


@LINE.add(rf"Acknowledged by (?P<who>.+?) at (?P<at>{TIME}) UTC: no more reminders")
def _acknowledged(reader: Reader, text: str, incident: Row, who: str, at: str) -> None:
    reader.equal("incident state", text, "acknowledged", incident["state"])
    reader.equal("by whom", text, who, incident["acknowledged_by"])
    reader.check(same_minute(at, incident["acknowledged_at"]), "when", text, incident["acknowledged_at"])


@LINE.add(rf"Silenced until (?P<until>{TIME}) UTC by (?P<who>.+)")
def _silenced(reader: Reader, text: str, incident: Row, until: str, who: str) -> None:
    reader.equal("incident state", text, "silenced", incident["state"])
    reader.equal("by whom", text, who, incident["silenced_by"])
    reader.check(same_minute(until, incident["silenced_until"]), "until", text, incident["silenced_until"])


@LINE.add(rf"since (?P<since>{TIME}) UTC · incident `?(?P<id>[0-9a-f]{{8}})`? · as of (?P<at>{TIME}) UTC")
def _foot(reader: Reader, text: str, incident: Row, since: str, id: str, at: str) -> None:
    reader.check(incident["id"].startswith(id), "incident", text, incident["id"])
    reader.check(same_minute(since, incident["opened_at"]), "since", text, incident["opened_at"])
    true = reader.made_at or reader.facts.now
    reader.check(same_minute(at, true), "as of", text, true)


@LINE.add(rf"It was: (?P<what>.+), from (?P<start>{TIME}) UTC to (?P<end>{TIME}) UTC \(.+\)\.")
def _it_was(reader: Reader, text: str, incident: Row, what: str, start: str, end: str) -> None:
    reader.equal("incident state", text, "resolved", incident["state"])
    events = reader.facts.events_of(incident["id"])
    by_watchdog = [e["reason"] for e in events if e["actor"] == "watchdog" and e["kind"] != "resolved"]
    found = {reason for reasons in by_watchdog for reason in reasons.split(", ")}
    reader.equal("what it was", text, set(what.split(", ")), {each.replace("_", " ") for each in found})
    reader.check(same_minute(start, incident["opened_at"]), "from", text, incident["opened_at"])
    at = datetime.strptime(end, "%Y-%m-%d %H:%M")
    reader.check(at <= incident["resolved_at"].replace(tzinfo=None), "to", text, incident["resolved_at"])


@LINE.add(r"(?::large_green_circle: )(?P<end>.+?)\.?")
def _over(reader: Reader, text: str, incident: Row, end: str) -> None:
    reader.equal("incident state", text, "resolved", incident["state"])
    ENDINGS.read(reader, end, incident)


@LINE.add(r"(?:Not acknowledged yet|New|It is back): Monitor: (?P<title>.+)")
def _again(reader: Reader, text: str, incident: Row, title: str) -> None:
    if reader.made_at is not None and incident["resolved_at"] is not None and incident["resolved_at"] >= reader.made_at:
        return  # it was composed just before what ended it, in the same step
    wanted = ("open",) if text.startswith("Not acknowledged") else ("open", "acknowledged", "silenced")
    reader.check(incident["state"] in wanted, "incident state", text, incident["state"])


@LINE.add(
    r"(?:Press Acknowledge above, or write|Write) `calmon incidents ack (?P<id>[0-9a-f]{8})`: that ends these reminders\."
)
def _press(reader: Reader, text: str, incident: Row, id: str) -> None:
    reader.check(incident["id"].startswith(id), "id", text, incident["id"])


LINE.add(
    r"(?:Do now|What to do|Tonight|Tomorrow):(?: .+)?|• .+|<!subteam\^S0123>|Monitor: .+"
    rf"|Not seen since {TIME} UTC; it kept coming back, so it ends after 6 quiet hours|(?:runbook|`docs/).+"
)(nothing)


def check_message(reader: Reader, message: Message, members: list[Row], change: str) -> None:
    """A message about the monitor itself: its findings, where automation stands, who has it."""
    if not members:
        reader.check(False, "incident", message.push, "the message belongs to no incident")
        return
    incident = members[0]
    for _kind, lines in message.blocks:
        for line in lines:
            told = re.sub(r"^:\w+: ", "", re.sub(r" (?:runbook|\(`docs/runbook/\w+\.md`\))$", "", line))
            if FINDING.fits(told):
                FINDING.read(reader, told)
            else:
                LINE.read(reader, line, incident)


# --- health

HEALTH = Grammar("health")


def check_health(reader: Reader, parts: Sequence[Part]) -> None:
    """Every line of ``calmon health``; and what must be said is among them."""
    lines = [str(part) for part in parts]
    for line in lines:
        HEALTH.read(reader, line)
    facts, said = reader.facts, any("Nobody answers the buttons" in line for line in lines)
    reader.equal("whether buttons are answered", "health", not said, not facts.troubles.is_silent(facts.now))
    if facts.troubles.mishaps is not None:
        _nothing_unsaid(reader, "\n".join(lines))


def _nothing_unsaid(reader: Reader, health: str) -> None:
    """What is wrong with the flows and with the history is said, and only then."""
    found, facts, looked = mishaps(reader), reader.facts, reader.facts.told.looked
    is_fresh = looked is not None and facts.now - looked <= PATIENCE
    true = {
        "The history is not confirmed": facts.is_closed(facts.now),
        "The watchdog last looked at": not is_fresh,
        "Runs that were due": looked is not None and is_fresh and bool(found.waiting_at(looked)),
        "The flow calmon-drain failed": found.failing("calmon-drain", facts.now) is not None,
        "The flow calmon-watchdog failed": found.failing("calmon-watchdog", facts.now) is not None,
    }
    for words, holds in true.items():
        reader.equal("what is wrong with the monitor", f"health: {words}", words in health, holds)


HEALTH.add(r"  do now: .+|(?:What to do|Do now): .+")(nothing)


@HEALTH.add(r"(?P<severity>critical|warning|info): (?P<told>.+)")
def _found(reader: Reader, text: str, _: Any, severity: str, told: str) -> None:
    FINDING.read(reader, told)


@HEALTH.add(r"automation: (?P<line>.+)")
def _acts(reader: Reader, text: str, _: Any, line: str) -> None:
    AUTOMATION.read(reader, line, None)


@HEALTH.add(r"nothing has been run yet")
def _never_run(reader: Reader, text: str, _: Any) -> None:
    reader.check(not reader.facts.runs, "nothing run", text, len(reader.facts.runs))


@HEALTH.add(r"healthy")
def _healthy(reader: Reader, text: str, _: Any) -> None:
    """Nothing that must be said is left out: something was judged, leases live, sources were read."""
    facts = reader.facts
    reader.check(bool(facts.runs), "something has been run", text, len(facts.runs))
    for schedule in {r["schedule"] for r in facts.runs}:
        newest = max((r for r in facts.runs if r["schedule"] == schedule), key=lambda r: r["window_start"])
        reader.check(newest["state"] == "done", "newest run", text, (newest["window_name"], newest["state"]))
        for source in {v["source"] for v in facts.current(schedule, newest["window_name"])}:
            mine = facts.current(schedule, newest["window_name"], source)
            judged = any(v["outcome"] != "not_evaluated" for v in mine) or {v["reason"] for v in mine} == {
                "in_baseline"
            }
            reader.check(judged, "anything judged", text, f"{source} in {newest['window_name']}: nothing was judged")
            bad = {v["reason"] for v in mine} & {"rejected_rows", "scores_moved", "unresolved_failed"}
            reader.check(not bad, "nothing to say of what could not be judged", text, bad)
    mine = [r for r in facts.readings if r["state"] != "ok"]
    for reading in mine:
        same = [
            r["window_start"]
            for r in facts.readings
            if (r["source"], r["schedule"]) == (reading["source"], reading["schedule"])
        ]
        reader.check(reading["window_start"] < max(same), "newest reading", text, reading["state"])


@HEALTH.add(
    rf"As of (?P<at>{TIME}) UTC, from stored runs and alerts\.yaml\. "
    r"Not checked: warehouse and Slack \(`calmon check`\)\."
)
def _as_of(reader: Reader, text: str, _: Any, at: str) -> None:
    reader.check(same_minute(at, reader.facts.now), "as of", text, reader.facts.now)


HEALTH.add(fixed(""))(nothing)
