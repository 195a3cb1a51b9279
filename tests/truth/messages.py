"""What messages about incidents say: the living message and its edits, the replies in its thread, the push text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

from monitor.core.page_paths import label_path
from tests.truth.claims import Grammar, Reader, minute, nothing, same_minute, subject_of
from tests.truth.facts import Facts, Row
from tests.truth.monitoring import check_clock_behind, window_start
from tests.truth.sentences import (
    NUMBER,
    PUT_BACK,
    TIME,
    VERDICT,
    WEEK,
    About,
    check_harm,
    check_harm_of_source,
    check_incident_state,
    excess_of,
    segment_words,
)
from tests.truth.texts import Message

DOCS = Path(__file__).parents[2] / "docs"
N = NUMBER
EMOJI = r"(?::\w+: )"
RANK = {"critical": 0, "warning": 1, "info": 2}
#: What the newest evaluation says of an incident or a label, the worst first.
NOW = (
    "in breach", "above the limit, not confirmed", "not judged", "within the limit, not resolved yet", "resolved",
)  # fmt: skip
AGAIN = "open again, not in this message"
_BY_OUTCOME = dict(zip(("breach", "unconfirmed", "not_evaluated", "ok"), NOW, strict=False))
_STAMP = rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<NAME>{TIME}) UTC"


def _stamp(name: str) -> str:
    return _STAMP.replace("NAME", name)


@dataclass(frozen=True)
class Label:
    """The incidents of one label in one message."""

    facts: Facts
    source: str
    label: str | None
    incidents: tuple[Row, ...]

    @property
    def name(self) -> str:
        return self.label or f"{self.source} (all labels)"

    def now_of(self, incident: Row) -> str:
        """What the newest evaluation says of one of them."""
        if incident["state"] == "resolved":
            return "resolved"
        newest = About(self.facts, incident).newest
        return "in breach" if newest is None else _BY_OUTCOME[newest["outcome"]]

    @property
    def elsewhere(self) -> set[str]:
        """The rules of its incidents that are not resolved and are not in this message."""
        mine = {i["id"] for i in self.incidents}
        return {
            i["rule"] for i in self.facts.incidents.values()
            if (i["source"], i["label"] or None) == (self.source, self.label) and ":" not in i["rule"]
            and i["id"] not in mine and i["state"] != "resolved"
        }  # fmt: skip

    @property
    def open_rules(self) -> set[str]:
        """All of its rules that are not resolved, whatever the message."""
        return self.elsewhere | {i["rule"] for i in self.incidents if i["state"] != "resolved"}

    @property
    def in_part(self) -> bool:
        """All of this message is resolved, and something else of the label is not."""
        return self.now == "resolved" and bool(self.elsewhere)

    @property
    def resolved(self) -> str:
        """``billing resolved``, where that is true of the whole label; else with the rules that are."""
        if self.in_part and self.resolved_rules:
            return f"{self.name}: {', '.join(sorted(self.resolved_rules))} resolved"
        return f"{self.name} {self.over}"

    @property
    def resolved_rules(self) -> set[str]:
        """Its rules of which no incident is open, here or elsewhere."""
        return {i["rule"] for i in self.incidents} - self.open_rules

    @property
    def over(self) -> str:
        """What is said of a label whose incidents in this message are all resolved."""
        if not self.in_part:
            return "resolved"
        return "resolved in part" if self.resolved_rules else AGAIN

    def state_of_rule(self, rule: str) -> str | None:
        """The worst state of the rule's incidents in this message: only one of them can be open."""
        return min((self.now_of(i) for i in self.incidents if i["rule"] == rule), key=NOW.index, default=None)

    @property
    def now(self) -> str:
        """The worst that the newest evaluations say."""
        return min((self.now_of(i) for i in self.incidents), key=NOW.index)

    @property
    def severity(self) -> str:
        left = [i for i in self.incidents if i["state"] != "resolved"] or self.incidents
        return str(min((i["severity"] for i in left), key=RANK.__getitem__))

    @property
    def state(self) -> str:
        states = {i["state"] for i in self.incidents}
        return next(each for each in ("open", "acknowledged", "silenced", "resolved") if each in states)

    def verdicts(self, window: str | None = None) -> list[Row]:
        """The verdicts of its incidents' rules, those that are current and the breaches behind the incidents."""
        rules = {i["rule"] for i in self.incidents}
        behind = {i["last_verdict"] for i in self.incidents}
        return [
            v for v in self.facts.verdicts.values()
            if (v["source"], v["label"] or None) == (self.source, self.label) and v["rule"] in rules
            and (v["current"] or v["id"] in behind) and window in (None, v["window_name"])
        ]  # fmt: skip


def labels_of(facts: Facts, incidents: Iterable[Row]) -> dict[tuple[str, str | None], Label]:
    """The labels of a message."""
    groups: dict[tuple[str, str | None], list[Row]] = {}
    for each in incidents:
        groups.setdefault((each["source"], each["label"] or None), []).append(each)
    return {key: Label(facts, *key, tuple(mine)) for key, mine in groups.items()}


# --- the switch of a label


SWITCH = Grammar("the switch in words")
_DRY = r"(?: \(dry run: runs change no switch\))?"
_BLOCKED = (
    r"(?:, but not for (?:scores (?P<blocked>[\d., to]+?))?(?:(?: and )?(?P<parts>\w+ = \w+(?:(?:, | and )\w+ = \w+)*))?)?"
    r"(?P<ending>(?:, for .+? only until \w+ [\d-]+ [\d:]+ UTC)*)"
)


@dataclass(frozen=True)
class Of:
    """The label whose switch a sentence is about."""

    source: str
    label: str | None
    is_resolved: bool = False


def _off_is(reader: Reader, text: str, of: Of, *reasons: str) -> None:
    true = reader.facts.why_off(of.source, of.label)
    reader.check(true in reasons, "automation", text, f"{true or 'on'}")


@SWITCH.add(rf"Automation is off: nobody has turned it on{_DRY}")
def _never(reader: Reader, text: str, of: Of) -> None:
    """It is off, and no event has ever turned it on: a run may have turned off what was never set."""
    _off_is(reader, text, of, "never", "off", "source", "source closed")
    mine = [e for e in reader.facts.switch_events if (e["source"], e["label"] or None) == (of.source, of.label)]
    on = [e["at"] for e in mine if e["to_state"] == "on"]
    reader.check(not on, "nobody has turned it on", text, on[-1:])


@SWITCH.add(rf"Automation is off: {PUT_BACK} \(calmon db confirm --reason TEXT, once it is looked at\){_DRY}")
def _put_back(reader: Reader, text: str, of: Of) -> None:
    _off_is(reader, text, of, "history")


@SWITCH.add(
    rf"Automation is off(?P<whole> for all of (?P<source>[\w-]+))? since {_stamp('since')}"
    rf"(?: \((?P<run>weekly run|daily run)\)|: turned off by (?P<who>.+?): (?P<why>.+?))?{_DRY}"
)
def _off(reader: Reader, text: str, of: Of, whole: Any, source: Any, since: str, run: Any, who: Any, why: Any) -> None:
    _off_is(reader, text, of, *(("source",) if whole else ("off",)))
    mine = reader.facts.switch(of.source, None if whole else of.label)
    if run is None and who is None and not same_minute(since, mine.since):
        _off_ever_since(reader, text, of, bool(whole), since)  # it had ended before it was turned off
        return
    reader.check(same_minute(since, mine.since), "off since", text, mine.since)
    reader.equal("off by", text, run or who, mine.by)
    if why is not None:
        reader.equal("why off", text, why, mine.why)


@SWITCH.add(
    rf"Automation is off(?P<whole> for all of (?P<source>[\w-]+))? since {_stamp('since')}, turned off once more on {_stamp('again')}"
    rf"(?: \((?P<run>weekly run|daily run)\)| by (?P<who>.+?): (?P<why>.+?))?{_DRY}"
)
def _off_again(
    reader: Reader, text: str, of: Of, whole: Any, source: Any, since: str, again: str, run: Any, who: Any, why: Any
) -> None:
    _off_is(reader, text, of, "source" if whole else "off")
    label = None if whole else of.label
    mine = reader.facts.switch(of.source, label)
    reader.check(same_minute(again, mine.since), "off once more", text, mine.since)
    reader.equal("off by", text, run or who, mine.by)
    if why is not None:
        reader.equal("why off", text, why, mine.why)
    _off_ever_since(reader, text, of, bool(whole), since)


def _off_ever_since(reader: Reader, text: str, of: Of, whole: bool, since: str) -> None:
    """From that minute on automation was not on, for the label or for all labels of the source."""
    facts, began = reader.facts, minute(since) + timedelta(minutes=1)
    labels = [label for source, label in facts.labels() if source == of.source] if whole else [of.label]
    for label in labels:
        if began < facts.now:
            share = facts.on_share(of.source, label, began, facts.now)
            reader.check(share == 0, "off since", text, f"{label} was on for {share:.1%} of the time since")


@SWITCH.add(
    rf"Automation is off(?P<whole> for all of (?P<source>[\w-]+))? since {_stamp('since')}: "
    rf"(?:the enable by (?P<who>.+?) has ended|its lease ended, no evaluation renewed it){_DRY}"
)
def _ended(reader: Reader, text: str, of: Of, whole: Any, source: Any, since: str, who: Any) -> None:
    _off_is(reader, text, of, "source closed" if whole else "lease")
    mine = reader.facts.switch(of.source, None if whole else of.label)
    reader.check(same_minute(since, mine.lease), "off since", text, mine.lease)
    if who is not None:
        reader.equal("enabled by", text, who, mine.by)
        reader.check(mine.by_person, "an operator's enable", text, mine.by)


SWITCH.add(rf"Automation is off: it has no lease{_DRY}")(
    lambda reader, text, of: _off_is(reader, text, of, "lease")
)  # fmt: skip


@SWITCH.add(rf"Automation is off: the clock is behind the newest change of a switch{_DRY}")
def _clock_behind(reader: Reader, text: str, of: Of) -> None:
    check_clock_behind(reader, text)


@SWITCH.add(rf"Automation is on{_BLOCKED}(?:, until {_stamp('until')} unless an evaluation renews it)?{_DRY}")
def _on_by_run(reader: Reader, text: str, of: Of, blocked: Any, parts: Any, ending: str, until: Any) -> None:
    mine = _on(reader, text, of, blocked, until)
    _segments_off(reader, text, of, parts, ending)
    # of a label that is well again it says no more
    reader.check(
        of.is_resolved or not mine.by_person, "enabled by whom", text, f"{mine.by}, until {mine.hold}: {mine.why}"
    )


@SWITCH.add(
    rf"Automation is on{_BLOCKED}, until {_stamp('until')} unless an evaluation renews it: enabled by (?P<who>.+?): "
    rf"(?P<why>.+?){_DRY}"
)
@SWITCH.add(
    rf"Automation is left on(?: against this finding)?{_BLOCKED}: enabled by (?P<who>.+?) until {_stamp('until')}: "
    rf"(?P<why>.+?){_DRY}"
)
def _on_by_person(
    reader: Reader, text: str, of: Of, blocked: Any, parts: Any, ending: str, who: str, until: str, why: str
) -> None:
    mine = _on(reader, text, of, blocked, until)
    _segments_off(reader, text, of, parts, ending)
    reader.equal("enabled by", text, who, mine.by)
    reader.equal("why on", text, why, mine.why)
    reader.check(mine.by_person, "an operator's enable", text, mine.by)


def _segments_off(reader: Reader, text: str, of: Of, parts: Any, ending: str) -> None:
    """The segments that a label's items may not have, and those that may have them for a time."""
    mine, now = reader.facts.switch(of.source, of.label), reader.facts.now
    reader.equal("segments off", text, set(re.split(", | and ", parts)) if parts else set(), mine.off(now))
    said = set(re.findall(r", for (.+?) only until ", ending))
    reader.equal("segments on for a time", text, said, mine.ending(now))


def _on(reader: Reader, text: str, of: Of, blocked: Any, until: Any) -> Any:
    mine = reader.facts.switch(of.source, of.label)
    _off_is(reader, text, of, None)  # type: ignore[arg-type]
    if until is not None:
        reader.check(same_minute(until, mine.lease), "on until", text, mine.lease)
    ranges = set(mine.blocked) | set(reader.facts.switch(of.source, None).blocked if of.label else ())
    said = {(float(a), float(b)) for a, b in re.findall(r"([\d.]+) to ([\d.]+)", blocked or "")}
    covered = all(any(lo <= a and b <= hi for lo, hi in said) for a, b in ranges)
    reader.check(bool(said) == bool(ranges) and covered, "blocked scores", text, ranges)
    return mine


# --- one of several verdicts


def check_one_of(reader: Reader, text: str, who: str, candidates: list[Row]) -> Row | None:
    """A sentence about a label's verdict that does not name the rule: it is true of one of the candidates."""
    best: Reader | None = None
    for row in candidates:
        tried = Reader(reader.facts, reader.origin)
        VERDICT.read(tried, f"{who} {text}", row)
        if not tried.false:
            reader.claims += tried.claims
            return row
        best = tried if best is None or len(tried.false) < len(best.false) else best
    if best is not None and best.false:
        reader.claims += best.claims
        reader.false += best.false[:1]
    else:
        reader.check(False, "verdict", text, "there is no such verdict")
    return None


_WHEN = rf"\((?P<window>{WEEK})(?:, (?P<pooled>\d+) (?:weeks|days) pooled)?\)"


def _ending(reader: Reader, text: str, said: str, label: Label, *, breach: bool) -> Row | None:
    """``ending (window[, n weeks pooled])`` of a label: true of a verdict of one of its incidents in that window."""
    found = re.fullmatch(rf"(?P<ending>.+) {_WHEN}", said)
    if found is None:
        reader.unknown(f"what a verdict says: {text}")
        return None
    if found["ending"] in NOW:
        reader.equal("now", text, found["ending"], label.now)
        return None
    pooled = f" ({found['pooled']} weeks pooled)" if found["pooled"] else ""
    candidates = label.verdicts(found["window"])
    if breach:
        candidates = [v for v in candidates if v["outcome"] == "breach"]
    if not candidates:
        reader.check(False, "verdict", text, f"no such verdict of {label.name} in {found['window']}")
        return None
    return check_one_of(reader, found["ending"] + pooled, label.name, candidates)


# --- the living message


@dataclass(frozen=True)
class Living:
    """A living message as it is to be read: its labels, and the names under which they appear in it."""

    facts: Facts
    labels: dict[tuple[str, str | None], Label]
    dry_run: bool

    def by_name(self, name: str) -> Label | None:
        """The label of a name: ``billing``, ``billing (tickets)``, ``tickets/billing``, ``tickets (all labels)``."""
        for (source, label), each in self.labels.items():
            known = {each.name, f"{source}/{label}", f"{label} ({source})", f"{source}/{each.name}"}
            if name in known:
                return each
        return None

    @property
    def newest_windows(self) -> set[str]:
        """The newest window that any of its open incidents was judged in; of what is over, that in which it ended."""
        every = [i for each in self.labels.values() for i in each.incidents]
        left = [i for i in every if i["state"] != "resolved"]
        seen = [v for i in left if (v := About(self.facts, i).newest) is not None]
        if seen:
            newest = max(v["window_end"] for v in seen)
            return {v["window_name"] for v in seen if v["window_end"] == newest}
        return {e["window"] for i in every for e in self.facts.events_of(i["id"]) if e["window"]}

    def newest_week(self) -> set[str]:
        """The same of weekly rules alone."""
        weekly = {
            key: Label(self.facts, *key, tuple(i for i in each.incidents if i["schedule"] == "weekly"))
            for key, each in self.labels.items()
        }  # fmt: skip
        return Living(
            self.facts, {k: each for k, each in weekly.items() if each.incidents}, self.dry_run
        ).newest_windows


def check_living(reader: Reader, message: Message, living: Living) -> None:
    """Header, each label's block, links and buttons, and the push text."""
    header = [lines for kind, lines in message.blocks if kind == "header"]
    _header(reader, header[0][0], living)
    label: Label | None = None
    contexts = [lines for kind, lines in message.blocks if kind == "context"]
    for line in (line for lines in contexts for line in lines):
        CONTEXT.read(reader, line, living)
    for lines in (lines for kind, lines in message.blocks if kind == "section"):
        label = _section(reader, lines, living, label)
    _buttons(reader, message, living)
    check_links(reader, message)
    for line in message.push.split("\n"):
        _push(reader, line, living)


def _header(reader: Reader, text: str, living: Living) -> None:
    """What it says in one line: the label or how many, what they are now, the newest window."""
    found = re.fullmatch(rf"(?P<done>:large_green_circle: )?(?P<what>.+) \((?P<window>{WEEK})\)", text)
    if found is None:
        reader.unknown(f"header: {text}")
        return
    reader.check(found["window"] in living.newest_windows, "newest window", text, living.newest_windows)
    labels = list(living.labels.values())
    over = all(each.now == "resolved" for each in labels)
    whole = over and not any(each.in_part for each in labels)
    reader.equal("all resolved", text, bool(found["done"]), whole)
    what = found["what"]
    if len(labels) == 1:
        (only,) = labels
        marks = [only.severity, *([only.state] if only.state != "open" else [])]
        true = only.resolved if over else f"{only.name} {only.now}: {', '.join(marks)}"
        reader.equal("headline", text, _sorted_rules(what) if over else what, true)
        return
    if whole:
        reader.equal("headline", text, what, f"all {len(labels)} labels resolved")
        return
    _counted(reader, text, what, labels)


def _sorted_rules(text: str) -> str:
    """The rules in ``billing: one, two resolved`` in the order of the alphabet."""
    found = re.fullmatch(r"(?P<name>.+): (?P<rules>[\w, -]+) resolved", text)
    return text if found is None else f"{found['name']}: {', '.join(sorted(found['rules'].split(', ')))} resolved"


def _counted(reader: Reader, text: str, what: str, labels: list[Label]) -> None:
    true = Counter(each.over if each.now == "resolved" else each.now for each in labels)
    true["critical"] = sum(each.severity == "critical" and each.now != "resolved" for each in labels)
    true |= Counter(each.state for each in labels if each.state in ("acknowledged", "silenced"))
    kinds = "|".join(map(re.escape, (*NOW, "resolved in part", AGAIN, "critical", "acknowledged", "silenced")))
    said: Counter[str] = Counter()
    for many, kind in re.findall(rf"(\d+) (?:labels? )?({kinds})(?:, |$)", what):
        said[kind] += int(many)
    reader.equal("headline", text, +said, +true)


CONTEXT = Grammar("context of a message")


@CONTEXT.add(
    rf"(?:(?:week|day) (?P<window>{WEEK}))?(?:, )?(?:(?P<first>\d\S+) to (?P<last>\S+)|(?P<day>\d{{4}}-\d\d-\d\d))? · (?P<sources>(?:[\w-]+)(?:, [\w-]+)*)"
)
def _about(
    reader: Reader, text: str, living: Living, window: Any, first: Any, last: Any, day: Any, sources: str
) -> None:
    known = living.newest_windows
    window = window or day or next((w for w in known if f"{window_start(w):%Y-%m-%d}" == first), str(first))
    reader.check(window in known, "newest window", text, known)
    reader.equal("sources", text, set(sources.split(", ")), {source for source, _ in living.labels})
    if first is not None:
        start = window_start(window)
        reader.equal("days", text, (first, last), (f"{start:%Y-%m-%d}", f"{start + timedelta(days=6):%Y-%m-%d}"))


@CONTEXT.add(rf"(?:report (?P<week>{WEEK}))?(?: · )?(?P<named>label: .*?)?(?: · )?(?P<pages>runbook.*)?")
def _footer(reader: Reader, text: str, living: Living, week: Any, named: Any, pages: Any) -> None:
    for name in (part.removeprefix("label: ") for part in (named or "").split(" · ") if part):
        reader.check(living.by_name(name) is not None, "label of a link", text, name)
    if week is not None:
        known = living.newest_week() | living.newest_windows
        reader.check(week in known, "linked week", text, known)
    reasons = {v["reason"] for each in living.labels.values() for v in each.verdicts()}
    for reason in re.findall(r"runbook: `?(?:docs/runbook/)?(\w+)", pages or ""):
        reader.check(reason in reasons, "runbook of a reason", text, reasons)


CONTEXT.add(r"Possible repeat: .+")(nothing)


def labelled(path: str) -> tuple[str, str]:
    """(source, label) of the path of a label's page; "" of the source as a whole."""
    steps = re.fullmatch(r"label/(?P<source>[^/?]+)/(?P<label>[^/?]*)", path)
    if steps is not None:
        return unquote(steps["source"]), unquote(steps["label"])
    asked = parse_qs(path.removeprefix("label?"), keep_blank_values=True)
    return asked.get("source", [""])[0], asked.get("label", [""])[0]


def check_links(reader: Reader, message: Message) -> None:
    """Every link leads to a page that exists; that of a label to the label it names."""
    for address, text in message.links:
        path = re.sub(r"^https://[^/]+/", "", address)
        page = re.fullmatch(r"docs/(?P<name>[\w/-]+?)(?:\.md)?(?:#\w+)?", path)
        if page is not None:
            there = (DOCS / f"{page['name']}.md").is_file() and not path.endswith(".md")
            reader.check(there, "link", f"{text}: {address}", "no such page of the dashboard")
        elif text.startswith("label: "):
            source, label = labelled(path)
            there = (label or source) in text and path == label_path(source, label or None)
            reader.check(there, "link", f"{text}: {address}", "it leads to another label")
        else:
            known = path == "" or re.fullmatch(rf"report\?week={WEEK}", path) is not None
            reader.check(known, "link", f"{text}: {address}", "no such page of the dashboard")


LINES = Grammar("line of a label's block")
_TODO = r"(?:Tonight|Tomorrow|Do now|Before (?:it|one of them) is turned on again): "


def _section(reader: Reader, lines: list[str], living: Living, label: Label | None) -> Label | None:
    """One section: a label's block, what is left in one line each, advice, or a mention. Gives the label it was of."""
    first = re.fullmatch(rf"{EMOJI}(?P<rest>.+)", lines[0])
    if first is not None:
        label = _named(living, first["rest"])
        if label is None:
            reader.unknown(f"label of a block: {lines[0]}")
            return None
        _first_line(reader, lines[0], first["rest"], label, living)
        lines = lines[1:]
    for line in lines:
        if line.startswith("• "):
            _one_line(reader, line, living)
        else:
            LINES.read(reader, line, (living, label))
    return label


def _named(living: Living, text: str) -> Label | None:
    """The label a line begins with: the longest known name."""
    names = {}
    for (source, name), each in living.labels.items():
        of_label = (f"{name} ({source})", f"{source}/{name}") if name is not None else ()
        names |= dict.fromkeys((*of_label, each.name), each)
    fitting = [known for known in names if re.match(re.escape(known) + r"[ :]", text)]
    return names[max(fitting, key=len)] if fitting else None


def _without_name(text: str, label: Label) -> str:
    for known in (f"{label.label} ({label.source})", f"{label.source}/{label.name}", label.name):
        if re.match(re.escape(known) + r"[ :]", text):
            return text[len(known) :].lstrip()
    return text


def _first_line(reader: Reader, text: str, rest: str, label: Label, living: Living) -> None:
    """What the newest evaluation saw of the label, or that it is over."""
    told = _without_name(rest, label)
    if told.startswith(": "):
        reader.equal("now", text, "resolved", label.now)
        again = told == f": {AGAIN}."
        reader.equal("open again", text, again, label.over == AGAIN)
        if again:
            return
        ended = [i for i in label.incidents if i["state"] == "resolved"]
        _one_incident_state(reader, text, told.removeprefix(": ").removesuffix("."), ended)
        return
    row = _ending(reader, text, told.removesuffix("."), label, breach=False)
    if row is not None:
        reader.equal("now", text, _BY_OUTCOME[row["outcome"]], label.now)


def _one_incident_state(reader: Reader, text: str, told: str, incidents: list[Row]) -> None:
    """How one of the incidents stands."""
    best: Reader | None = None
    for each in incidents:
        tried = Reader(reader.facts, reader.origin)
        check_incident_state(tried, told[:1].upper() + told[1:], each)
        if not tried.false:
            reader.claims += tried.claims
            return
        best = tried if best is None or len(tried.false) < len(best.false) else best
    if best is None:
        reader.check(False, "standing", text, "no such incident")
    else:
        reader.claims += best.claims
        reader.false += best.false[:1]


@LINES.add(r"Last breach: (?P<ending>.+)\.")
def _last_breach(reader: Reader, text: str, of: Any, ending: str) -> None:
    _living, label = of
    _ending(reader, text, _whole(ending), label, breach=True)


def _whole(ending: str) -> str:
    """What a verdict says behind the words "last breach:", as after a name."""
    return re.sub(r"\A(?=(?:overconfident|correct|worst|worse|lower)\b)", "is ", ending)


@LINES.add(r"(?P<words>Automation is .+)\.")
def _switch_line(reader: Reader, text: str, of: Any, words: str) -> None:
    _, label = of
    SWITCH.read(reader, words, Of(label.source, label.label, is_resolved=label.now == "resolved"))


@LINES.add(r"To turn it on: `calmon automation enable`\.")
def _how_to_turn_on(reader: Reader, text: str, of: Any) -> None:
    _, label = of
    _off_is(reader, text, Of(label.source, label.label), "never", "off", "source", "source closed", "lease")
    reader.equal("resolved", text, "resolved", label.now)


@LINES.add(
    # no story has a score that is published, but not configured: such a line would find no estimate to agree with
    rf"(?:(?P<rows>{N}) items? reached (?:`automate_at`|(?:0\.\d+, )?the (?:lowest )?score from which gates acted(?:, label by label)?): )?"
    r"(?P<harm>(?:[Aa]bout|[Aa]utomation was) .+)\."
)
def _harm_line(reader: Reader, text: str, of: Any, rows: Any, harm: str) -> None:
    """Harm in the window of a breach: of one of the label's verdicts, by the time that automation was on then."""
    living, label = of
    harm = harm[:1].lower() + harm[1:]
    best: Reader | None = None
    for row in label.verdicts():
        excess = excess_of(living.facts, row)
        if row["outcome"] != "breach" or excess is None:
            continue
        tried = Reader(reader.facts, reader.origin)
        if label.label is None:
            check_harm_of_source(tried, harm, label.source, row)
        else:
            check_harm(tried, harm, label.source, label.label, row["window_start"], row["window_end"], excess)
        if rows is not None:
            found = living.facts.estimate(
                row["schedule"], row["window_name"], label.source, label.label, "overconfidence", "automated"
            )
            tried.number("items", text, rows, None if found is None else found["n"])
        if not tried.false:
            reader.claims += tried.claims
            return
        best = tried if best is None or len(tried.false) < len(best.false) else best
    if best is None:
        reader.check(False, "harm", text, "no breach with such an estimate")
    else:
        reader.false += best.false[:1]


_OTHERS = {
    "Also failing": "in breach", "Above the limit, not confirmed": "above the limit, not confirmed",
    "Not judged": "not judged", "Within the limit, not resolved yet": "within the limit, not resolved yet",
    "Resolved": "resolved",
}  # fmt: skip


@LINES.add(
    r"(?P<groups>(?:(?:Also failing|Above the limit, not confirmed|Not judged|Within the limit, not resolved yet|Resolved): [\w, -]+\.\s?)+)"
)
def _others(reader: Reader, text: str, of: Any, groups: str) -> None:
    _, label = of
    named: list[str] = []
    for words, names in re.findall(rf"({'|'.join(_OTHERS)}): ([\w, -]+)\.", groups):
        for rule in re.sub(r" and \d+ more$", "", names).split(", "):
            reader.equal("other rule", text, _OTHERS[words], label.state_of_rule(rule))
            named.append(rule)
    reader.equal("each other rule once", text, len(named), len(set(named)))


@LINES.add(r"Not resolved, and not in this message: (?P<rules>[\w, -]+)\.")
def _elsewhere(reader: Reader, text: str, of: Any, rules: str) -> None:
    _, label = of
    reader.equal("resolved in part", text, set(rules.split(", ")), label.elsewhere)


@LINES.add(r"Not resolved: (?P<rules>[\w, -]+)\.")
def _not_resolved(reader: Reader, text: str, of: Any, rules: str) -> None:
    _, label = of
    reader.equal("resolved in part", text, set(rules.split(", ")), label.open_rules)


@LINES.add(
    r"No (?:(?P<schedule>weekly|daily) )?rule acts on it any more, so (?:it does not come back by itself|its blocked scores stay "
    r"blocked) \(`calmon automation enable`\)\."
)
def _stays_off(reader: Reader, text: str, of: Any, schedule: str | None) -> None:
    scope = "source" if of[1].label is None else "labels"
    acting = [
        r.id for r in reader.facts.rules.values() if r.acts and r.scope == scope and schedule in (None, r.schedule)
    ]
    reader.check(not acting, "no rule acts", text, acting)


@LINES.add(r"It keeps coming back, so it stays open until one more window is within the limit\.")
def _keeps(reader: Reader, text: str, of: Any) -> None:
    _, label = of
    held = [i for i in label.incidents if label.now_of(i) == "within the limit, not resolved yet"]
    reader.check(any(i["reopened"] >= 2 for i in held), "keeps coming back", text, [i["reopened"] for i in held])


@LINES.add(r"It stays open: only a window within the limit resolves it\.")
def _stays(reader: Reader, text: str, of: Any) -> None:
    _, label = of
    reader.check(label.state != "resolved", "stays open", text, label.state)
    reader.check(label.now not in ("in breach", "resolved"), "stays open", text, label.now)


def check_version(reader: Reader, text: str, before: str, after: str, window: str) -> None:
    """The main model version of a window, and of the reading before it."""
    schedule = "weekly" if "W" in window else "daily"
    for source in {r["source"] for r in reader.facts.readings}:
        mine = [
            r for r in reader.facts.readings if (r["source"], r["schedule"]) == (source, schedule) and r["versions"]
        ]
        main = [max(sorted(r["versions"]), key=lambda v, r=r: r["versions"][v]) for r in mine]  # type: ignore[misc]
        names = [
            f"{r['window_start']:%G-W%V}" if schedule == "weekly" else f"{r['window_start']:%Y-%m-%d}" for r in mine
        ]
        if window in names:
            k = names.index(window)
            if k and (main[k - 1], main[k]) == (before, after):
                reader.check(True, "model version", text, "")
                return
    reader.check(False, "model version", text, "no source changed so")


@LINES.add(_TODO + r"(?P<todo>.+)")
def _advice(reader: Reader, text: str, of: Any, todo: str) -> None:
    _living, label = of
    if label is not None:
        _advice_of(reader, text, todo, label)


def _advice_of(reader: Reader, text: str, todo: str, label: Label) -> None:
    """Advice is not against what the switch and the verdicts are."""
    off = reader.facts.why_off(label.source, label.label) is not None
    if "people decide these items" in todo or "nothing acts alone" in todo:
        reader.check(off, "advice: people decide", text, "automation is on")
    if "automation goes on as its operator wants" in todo or "turn automation off if" in todo:
        reader.check(not off, "advice: automation is on", text, reader.facts.why_off(label.source, label.label))
    critical = any(
        i["state"] != "resolved" and (v := About(reader.facts, i).newest) is not None
        and (v["severity"], v["outcome"]) == ("critical", "breach") for i in label.incidents
    )  # fmt: skip
    if "turn automation off where" in todo:
        reader.check(critical and label.label is None, "advice: labels may act", text, "no critical breach of a source")
    if todo.startswith("nothing to do"):
        reader.check(off or not critical, "advice: nothing to do", text, "a critical breach, and automation is on")
    if "whether outcomes of this label still reach" in todo or "If it is gone for good" in todo:
        newest = [About(reader.facts, i).newest for i in label.incidents]
        gone = any(v is not None and v["reason"] == "no_rows" for v in newest)
        reader.check(gone, "advice: label disappeared", text, [v and v["reason"] for v in newest])
    for id in re.findall(r"\b([0-9a-f]{8})\b", todo):
        reader.check(
            any(i["id"].startswith(id) for i in label.incidents), "id", text, [i["id"] for i in label.incidents]
        )


@LINES.add(r"Worst in (?P<where>[\w -]+ = [^:]+): .+\.")
def _worst_segment(reader: Reader, text: str, of: Any, where: str) -> None:
    _, _, value = where.partition(" = ")
    stored = reader.facts.rows("SELECT DISTINCT segment FROM estimates WHERE segment != ''")
    reader.check(any(value in row["segment"] for row in stored), "segment", text, "no such segment")


LINES.add(r"<!subteam\^S0123>|and \d+ more labels?:|\.\.\. and \d+ others?: .+")(nothing)


@LINES.add(r"(?P<standing>(?:Acknowledged|Silenced|In breach|Came back|Resolved).+)\.")
def _standing_line(reader: Reader, text: str, of: Any, standing: str) -> None:
    _, label = of
    _one_incident_state(reader, text, standing, [i for i in label.incidents if i["state"] != "resolved"])


@LINES.add(r"(?P<words>.+) is still (?P<now>[\w ,]+)\.")
def _still(reader: Reader, text: str, of: Any, words: str, now: str) -> None:
    living, label = of
    label = label or living.by_name(words)
    if label is None:
        reader.check(False, "label", text, "is not in this message")
        return
    reader.equal("now", text, now, label.now)


def _one_line(reader: Reader, text: str, living: Living) -> None:
    """``• emoji source/label ending (when)[, and n other rules][: ids]``."""
    found = re.fullmatch(
        rf"• {EMOJI}(?P<rest>.+?)(?:, and (?P<more>\d+) other rules?)?(?:: (?P<ids>`[0-9a-f]{{8}}`(?:, `[0-9a-f]{{8}}`)*))?",
        text,
    )
    label = None if found is None else _named(living, found["rest"])
    if found is None or label is None:
        reader.unknown(f"label in one line: {text}")
        return
    told = _without_name(found["rest"], label)
    if told in ("resolved", "resolved in part", AGAIN):
        reader.equal("resolved in part", text, told, label.over if label.now == "resolved" else label.now)
    elif (
        later := re.fullmatch(rf"(?P<now>.+?) \((?P<window>{WEEK})\); last breach: (?P<ending>.+)", told)
    ) is not None:
        reader.equal("now", text, later["now"], label.now)
        _ending(reader, text, _whole(later["ending"]), label, breach=True)
    else:
        _ending(reader, text, told, label, breach=True)
    if told not in ("resolved", "resolved in part", AGAIN):
        # a reminder, which has ids, is about those that nobody has acknowledged
        shown = sum(i["state"] == "open" if found["ids"] else i["state"] != "resolved" for i in label.incidents)
        reader.equal("other rules", text, int(found["more"] or 0), shown - 1)
    if found["ids"] is not None:
        said = set(re.findall(r"[0-9a-f]{8}", found["ids"]))
        true = {i["id"][:8] for i in label.incidents if i["state"] == "open"}
        reader.equal("ids of what is open", text, said, true)


def _buttons(reader: Reader, message: Message, living: Living) -> None:
    """What can be pressed is about an incident of the message, and fits what holds."""
    known = {i["id"]: each for each in living.labels.values() for i in each.incidents}
    for action, words, value in message.buttons:
        label = known.get(value)
        reader.check(label is not None, "button", f"{words} {value}", "an incident that is not in the message")
        if label is None:
            continue
        off = reader.facts.why_off(label.source, label.label)
        if action == "automation_off":
            reader.check(off is None, "button", f"{words} of {label.name}", f"automation is off: {off}")
        if action == "automation_on":
            reader.check(off is not None, "button", f"{words} of {label.name}", "automation is on")
        if action == "incident_ack":
            states = [i["state"] for i in label.incidents]
            reader.check("open" in states or "silenced" in states, "button", f"{words} of {label.name}", states)


def _push(reader: Reader, text: str, living: Living) -> None:
    """One label of the notification."""
    if not text or text.startswith("<!") or text == "…":
        return
    if text.startswith("(possible repeat) "):
        text = text.removeprefix("(possible repeat) ")
    label = _named(living, text)
    if label is None:
        reader.unknown(f"push text: {text}")
        return
    told = _without_name(text, label)
    if told.endswith(("resolved", AGAIN)) and label.now == "resolved":
        reader.equal("resolved in part", text, _sorted_rules(text), label.resolved)
        return
    if text.endswith("…"):
        return  # cut at Slack's bound
    what, _, switch = told.partition(". Automation is ")
    if switch:
        SWITCH.read(reader, f"Automation is {switch.removesuffix('.')}", Of(label.source, label.label))
    what = what.removesuffix(".")
    later = re.fullmatch(r"(?P<now>.+?); last breach: (?P<ending>.+)", what)
    if later is not None:
        now = re.fullmatch(rf"(?P<now>.+) \((?P<window>{WEEK})\)", later["now"])
        reader.equal("now", text, now and now["now"], label.now)
        _ending(reader, text, _whole(later["ending"]), label, breach=True)
        return
    row = _ending(reader, text, what, label, breach=True)
    if row is not None:
        reader.equal("now", text, "in breach", label.now)


def check_shown(reader: Reader, message: Message, living: Living) -> None:
    """Whether the lines about switches are so still: on or off, and by whom. A lease that has ended is dated."""
    label: Label | None = None
    for line in (line for kind, lines in message.blocks if kind == "section" for line in lines):
        head = re.fullmatch(rf"{EMOJI}(?P<rest>.+)", line)
        label = (_named(living, head["rest"]) or label) if head is not None else label
        if not line.startswith("Automation is ") or label is None:
            continue
        off = reader.facts.why_off(label.source, label.label)
        says_on = not line.startswith("Automation is off")
        dated = off in ("lease", "source closed") and " until " in line
        reader.check(
            says_on == (off is None) or (says_on and dated), "message as shown", line, f"{label.name}: {off or 'on'}"
        )
        who = re.search(r"(?:enabled|turned off) by (.+?)(?: until |:)", line)
        whole = " for all of " in line
        mine = reader.facts.switch(label.source, None if whole else label.label)
        if who is not None and not dated:
            reader.equal("message as shown: by whom", line, who[1], mine.by)


# --- replies


NEWS = Grammar("what an evaluation did")


def _outcome(reader: Reader, text: str, of: Any, *outcomes: str) -> None:
    """The verdict behind the news has one of these outcomes."""
    _incident, verdict = of
    true = None if verdict is None else verdict["outcome"]
    reader.check(true in outcomes, "outcome behind the news", text, true)


@NEWS.add(r"new|still in breach|still in breach, silenced|back in breach: reopened|back in breach, silenced")
def _news_breach(reader: Reader, text: str, of: Any) -> None:
    _outcome(reader, text, of, "breach")


@NEWS.add(rf"late truths of (?P<window>{WEEK}): still in breach, with other numbers")
def _news_corrected(reader: Reader, text: str, of: Any, window: str) -> None:
    _outcome(reader, text, of, "breach")
    reader.equal("window", text, window, of[1] and of[1]["window_name"])


@NEWS.add(r"still in breach, acknowledged by (?P<who>.+)")
def _news_acknowledged(reader: Reader, text: str, of: Any, who: str) -> None:
    _outcome(reader, text, of, "breach")
    reader.equal("by whom", text, who, of[0]["acknowledged_by"])


@NEWS.add(
    rf"resolved: within the limit (?:in (?P<window>{WEEK})|(?P<many>\d+) (?:weeks|days) in a row)"
    rf"|within the limit in (?P<held>{WEEK}); it keeps coming back, so one more good (?:week|day) resolves it"
)
def _news_ok(reader: Reader, text: str, of: Any, window: Any, many: Any, held: Any) -> None:
    _outcome(reader, text, of, "ok")
    if held is None:
        reader.equal("incident state", text, "resolved", of[0]["state"])
    if (window or held) is not None and of[1] is not None:
        reader.equal("window", text, window or held, of[1]["window_name"])


@NEWS.add(
    rf"(?P<what>(?:above|below) the limit, not confirmed|not judged|no outcome of this label arrived) in (?P<window>{WEEK}): stays open"
)
def _news_open(reader: Reader, text: str, of: Any, what: str, window: str) -> None:
    _outcome(reader, text, of, "unconfirmed" if "not confirmed" in what else "not_evaluated")
    reader.check(of[0]["state"] != "resolved", "stays open", text, of[0]["state"])
    if of[1] is not None:
        reader.equal("window", text, window, of[1]["window_name"])
        if what.startswith("no outcome"):
            reader.equal("reason", text, "no_rows", of[1]["reason"])


@NEWS.add(
    r"resolved by (?P<who>.+)|resolved: no rule watches it any more|the silence has ended|acknowledged|silenced.*"
)
def _news_person(reader: Reader, text: str, of: Any, who: Any) -> None:
    if who is not None:
        reader.equal("by whom", text, who, of[0]["resolved_by"])


NEWS_LINE = re.compile(
    r"• (?P<rule>[\w-]+): (?P<what>.+?)\. (?P<seen>\S.*?)\."
    rf"(?: The limit in alerts\.yaml was (?P<limit>{N}) in (?P<then>{WEEK})\.)?(?: Numbers: (?P<numbers>.+)\.)?"
)  # fmt: skip


def check_news(reader: Reader, message: Message, living: Living, window: str) -> None:
    """The reply to one evaluation: what happened to each incident, and what was seen of it."""
    label: Label | None = None
    for lines in (lines for kind, lines in message.blocks if kind == "section"):
        for line in lines:
            if line == window or line.startswith("<!"):
                reader.check(line.startswith("<!") or line == window, "window", line, window)
                continue
            head = re.fullmatch(rf"{EMOJI}(?P<name>.+)", line)
            if head is not None:
                label = living.by_name(head["name"])
                reader.check(label is not None, "label", line, "not in this message")
                if label is not None and line.startswith(":white_check_mark:"):
                    reader.equal("resolved as a whole", line, set(), label.open_rules)
                continue
            if line.startswith(("Automation is ", "No ", "Not resolved: ", "To turn it on: ", "Tonight: ")):
                LINES.read(reader, line, (living, label))
                continue
            _news_line(reader, line, label, window)
    for each in living.labels.values():
        _news_push(reader, message.push, each)
    check_links(reader, message)


def _news_push(reader: Reader, text: str, label: Label) -> None:
    """The notification of a reply, where it says that a label is resolved, or some of its rules are."""
    name = rf"(?:\A|; ){re.escape(label.name)}"
    if re.search(rf"{name} resolved(?:\b|:)", text):
        reader.equal("resolved as a whole", text, set(), label.open_rules)
    part = re.search(rf"{name}: (?P<rules>[\w, -]+) resolved\. Not resolved: (?P<others>[\w, -]+)(?:\.| \()", text)
    if part is not None:
        resolved, others = set(part["rules"].split(", ")), set(part["others"].split(", "))
        reader.check(resolved <= label.resolved_rules, "resolved in part", text, label.resolved_rules)
        reader.equal("not resolved", text, others, label.open_rules)
        switch = re.search(rf"{name}: .*? (?P<words>Automation is .+?)(?: \((?:{WEEK})\)|; |\Z)", text)
        if switch is not None:
            SWITCH.read(reader, switch["words"], Of(label.source, label.label, is_resolved=True))


def _news_line(reader: Reader, text: str, label: Label | None, window: str) -> None:
    found = NEWS_LINE.fullmatch(text)
    if found is None or label is None:
        reader.unknown(f"news: {text}")
        return
    mine = [i for i in label.incidents if i["rule"] == found["rule"]]
    if not mine:
        reader.check(False, "incident", text, f"none of {found['rule']} in this message")
        return
    incident = max(mine, key=lambda i: i["opened_at"])
    rows = [
        v for v in reader.facts.verdicts.values()
        if v["current"] and (v["rule"], v["source"], v["label"] or None, v["window_name"])
        == (found["rule"], label.source, label.label, window)
    ]  # fmt: skip
    verdict = rows[0] if rows else None
    NEWS.read(reader, found["what"], (incident, verdict))
    if verdict is not None:
        VERDICT.read(reader, found["seen"], verdict)
        if found["limit"]:
            last = reader.facts.verdicts[incident["last_verdict"]]
            reader.equal("former limit", text, found["limit"], f"{last['threshold']:g}")
            reader.equal("window of the former limit", text, found["then"], last["window_name"])
            reader.check(last["threshold"] != verdict["threshold"], "another limit", text, verdict["threshold"])
        if found["numbers"]:
            check_measured(reader, found["numbers"], verdict)


NUMBERS = Grammar("numbers of a verdict")
_MEASURED = rf"(?P<value>{N}|unknown)(?: \((?P<low>{N}) to (?P<high>{N})\))?"


def _measured(reader: Reader, text: str, found: dict[str, Any], row: Row, names: tuple[str, str, str]) -> None:
    for part, name in zip(("value", "low", "high"), names, strict=True):
        reader.number(name, text, found[part], row[name])


@NUMBERS.add(
    rf"(?:overconfidence(?: \(mean score minus accuracy\))?|ECE|MCE|ROC AUC|KS distance|expected accuracy \(an estimate\)) {_MEASURED}"
)
def _value(reader: Reader, text: str, row: Row, **found: Any) -> None:
    _measured(reader, text, found, row, ("value", "low", "high"))


@NUMBERS.add(rf"limit (?P<limit>{N})")
def _limit(reader: Reader, text: str, row: Row, limit: str) -> None:
    reader.number("limit", text, limit, row["threshold"])


@NUMBERS.add(rf"n = (?P<n>{N})(?: of (?P<windows>\d+) windows)?")
def _n(reader: Reader, text: str, row: Row, n: str, windows: Any) -> None:
    reader.number("n", text, n, row["n"])
    reader.equal("windows", text, int(windows or 1), row["windows"])


@NUMBERS.add(rf"adjusted p (?:below (?P<most>1e-15)|(?P<p>{N}))")
def _p(reader: Reader, text: str, row: Row, most: Any, p: Any) -> None:
    if most is not None:
        reader.check(row["p_adjusted"] < float(most), "adjusted p", text, row["p_adjusted"])
    else:
        reader.number("adjusted p", text, p, row["p_adjusted"])


@NUMBERS.add(rf"evidence (?P<found>{N}) of the (?P<needed>{N}) needed")
def _evidence(reader: Reader, text: str, row: Row, found: str, needed: str) -> None:
    reader.number("evidence", text, found, row["detail"]["evidence"])
    reader.number("evidence needed", text, needed, row["detail"]["needed"])


@NUMBERS.add(r"in (?P<place>.+)")
def _segment(reader: Reader, text: str, row: Row, place: str) -> None:
    reader.equal("segment", text, place, segment_words(row))


@NUMBERS.add(rf"baseline {_MEASURED}")
def _baseline(reader: Reader, text: str, row: Row, value: str, low: Any, high: Any) -> None:
    reader.number("baseline", text, value, row["baseline"])


@NUMBERS.add(rf"change {_MEASURED}")
def _change(reader: Reader, text: str, row: Row, **found: Any) -> None:
    _measured(reader, text, found, row, ("change", "change_low", "change_high"))


@NUMBERS.add(rf"detectable change (?P<least>{N})")
def _detectable(reader: Reader, text: str, row: Row, least: str) -> None:
    reader.number("detectable", text, least, row["detectable"])


@NUMBERS.add(
    rf"worst in scores (?P<low>{N}) to (?P<high>{N}): (?P<off>{N}) points too (?P<way>high|low) \(n = (?P<n>{N})\)"
)
def _worst(reader: Reader, text: str, row: Row, low: str, high: str, off: str, way: str, n: str) -> None:
    detail = row["detail"]
    reader.number("worst range", text, low, detail["worst_range"][0])
    reader.number("worst range", text, high, detail["worst_range"][1])
    reader.number("worst gap", text, off, row["value"], scale=100)
    reader.equal("direction", text, way, "high" if detail["worst_gap"] < 0 else "low")
    reader.number("n", text, n, detail["worst_n"])


@NUMBERS.add(r"incident `(?P<incident>[0-9a-f]{8})`, `calmon explain (?P<id>[0-9a-f]+)`")
def _ids(reader: Reader, text: str, row: Row, incident: str, id: str) -> None:
    reader.equal("verdict", text, id, row["id"])
    i = reader.facts.incident(incident)
    reader.equal("incident", text, (i["rule"], i["source"], i["label"]), (row["rule"], row["source"], row["label"]))


def check_measured(reader: Reader, text: str, row: Row) -> None:
    """Numbers of one verdict, parts joined by "; "."""
    whole = text.replace("accuracy; ", "accuracy\x00 ")
    for part in whole.split("; "):
        NUMBERS.read(reader, part.replace("\x00", ";"), row)


def check_numbers(reader: Reader, message: Message, living: Living) -> None:
    """The reply with the statistics behind a message."""
    for lines in (lines for kind, lines in message.blocks if kind == "section"):
        for line in lines:
            rule = re.fullmatch(r"• (?P<rule>[\w-]+) \((?P<severity>\w+)\): (?P<numbers>.+)", line)
            if rule is not None:
                id = re.search(r"calmon explain ([0-9a-f]+)", line)
                row = reader.facts.verdict(id[1]) if id else None
                if row is None:
                    reader.unknown(f"numbers: {line}")
                    continue
                reader.equal("rule", line, (rule["rule"], rule["severity"]), (row["rule"], row["severity"]))
                check_measured(reader, rule["numbers"], row)
            elif re.fullmatch(rf"Numbers of (?:{WEEK})", line) or living.by_name(line) is not None:
                reader.claims["heading"] += 1
            else:
                LINES.read(reader, line, (living, None))
    check_links(reader, message)


def check_repeat(reader: Reader, message: Message, living: Living) -> None:
    """A reminder: what waits, with ids that can be acknowledged."""
    waiting = [each for each in living.labels.values() if each.state == "open"]
    label: Label | None = None
    for lines in (lines for kind, lines in message.blocks if kind == "section"):
        for line in lines:
            head = re.fullmatch(r"Not acknowledged yet: (?P<n>\d+) labels?", line)
            if head is not None:
                reader.equal("labels that wait", line, int(head["n"]), len(waiting))
            elif line.startswith("• "):
                reader.check("`" in line, "id in a reminder", line, "it names no id")
                _one_line(reader, line, living)
                head = re.fullmatch(rf"• {EMOJI}(?P<rest>.+)", line)
                label = None if head is None else _named(living, head["rest"])
            elif line.startswith(("Automation is ", "No ")):
                LINES.read(reader, line, (living, label))
            else:
                REPEAT.read(reader, line)


REPEAT = Grammar("reminder")
REPEAT.add(
    r"(?:Press Acknowledge above, or run|Run) `calmon incidents ack ID` with (?:each|the) id of this list; that ends these reminders\."
    r"|<!subteam\^S0123>"
)(nothing)


def check_ended(reader: Reader, message: Message, living: Living) -> None:
    """The reply that an operator's enable has ended."""
    for lines in (lines for kind, lines in message.blocks if kind == "section"):
        for line in lines:
            found = re.fullmatch(r"(?P<name>.+?): (?P<words>Automation is .+)\.", line)
            label = living.by_name(found["name"]) if found else None
            if found is not None and label is not None:
                SWITCH.read(reader, found["words"], Of(label.source, label.label))
            else:
                (only,) = living.labels.values() if len(living.labels) == 1 else (None,)
                LINES.read(reader, line, (living, only))


PICTURE = Grammar("picture")


@PICTURE.add(
    rf"(?P<shows>(?:reliability diagram|trend)(?: and trend)?) of (?P<name>.+?), (?P<window>{WEEK}): (?P<words>.+)"
)
def _picture(reader: Reader, text: str, row: Any, shows: str, name: str, window: str, words: str) -> None:
    source, label = subject_of(name)
    known = [
        v for v in reader.facts.verdicts.values() if (v["source"], v["label"] or None, v["window_name"]) == (source, label, window)
    ]  # fmt: skip
    check_one_of(reader, words.removeprefix(f"{label or name} "), label or f"{source} (all labels)", known)
