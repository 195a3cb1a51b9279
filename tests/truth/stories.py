"""Each label's diagnosis against its verdicts, counts and switches; and its story against both, field by field."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from monitor.story.gather import Teller
from monitor.story.label import LabelStory
from tests.truth.faces import all_forms, leaves, share, tokens
from tests.truth.messages import printed
from tests.truth.rows import RUNS, SILENT, TROUBLES, Row, Rows, start_of
from tests.truth.world import ACTING

if TYPE_CHECKING:
    from tests.truth.checker import Checker
    from tests.truth.histories import Told

PROBLEMS = {
    "overconfidence": {"overconfident", "underconfident"}, "ks": {"shifted"},
    "ece": {"overconfident", "underconfident", "miscalibrated", "shifted"},
}  # fmt: skip
"""What a breach of a metric can be called."""
HEADLINES = {
    "unsafe": "must not act alone", "cannot_tell": "cannot be judged", "overconfident": "is overconfident",
    "underconfident": "is underconfident", "miscalibrated": "scores that do not match", "shifted": "other traffic",
}  # fmt: skip


def check(checker: Checker, rows: Rows, told: Told) -> None:
    """The story of every label that was ever diagnosed."""
    teller = Teller.of(told.monitor)
    for source, label in sorted({(row["source"], row["label"]) for row in rows.table("diagnoses")}):
        diagnoses = rows.diagnoses(source, label)
        incidents = rows.incidents(source, label or None)
        kept = told.monitor.store.incident(incidents[-1]["id"]) if incidents else None
        story = teller.of_label(source, label or None, kept)
        checker.holds("story", story is not None, story, diagnoses[-1])
        if story is None:
            continue
        _diagnosis(checker, rows, diagnoses)
        _story(checker, rows, story, diagnoses, incidents[-1] if incidents else None)
        if label:
            _switch(checker, rows, story)
            _acts(checker, rows, diagnoses[-1], dry=told.plan.automation["dry_run"] == "true")


# --- a diagnosis, from verdicts and counts


def _diagnosis(checker: Checker, rows: Rows, diagnoses: list[Row]) -> None:
    newest, kept = diagnoses[-1], diagnoses[-1]["detail"]
    told = tuple(str(newest[name]) for name in ("source", "label", "window_name", "diagnosed_at", "state", "detail"))
    if told not in checker.judged:  # after a clock is set back, later verdicts have earlier times
        state, because = rows.judged(newest)
        checker.equal("state", newest["state"], state)
        checker.equal("rests on", set(kept["because"]), because)
        checker.judged.add(told)
    columns = ("problem", "found", "reason", "because")
    checker.equal("columns", [newest[c] or None for c in columns], [kept[c] or None for c in columns])
    verdicts = {verdict["id"]: verdict for verdict in rows.table("verdicts")}
    lead = verdicts[kept["because"][0]]
    _why_not(checker, rows, newest, [verdicts[id] for id in kept["because"]])
    episode = rows.episode(diagnoses)
    if newest["state"] not in TROUBLES:
        if rows.is_unchanged(newest):
            checker.equal("trouble that goes on", bool(newest["found"]), bool(episode))
        return
    checker.holds("problem", newest["problem"] in PROBLEMS[lead["metric"]], newest["problem"], lead["metric"])
    if rows.is_unchanged(newest):
        checker.equal("found", newest["found"], episode[0]["window_name"])
        _cost(checker, rows, newest, lead)
    since, low, high = (start_of(newest[name]) for name in ("since", "since_low", "since_high"))
    checker.holds("since", low <= since <= high <= lead["window_end"], newest["since"], (low, high))
    _cause(checker, rows, newest)


def _why_not(checker: Checker, rows: Rows, newest: Row, verdicts: list[Row]) -> None:
    """Why nothing can be told is why the most important verdict was not judged; and when rows came last."""
    if newest["state"] != "cannot_tell":
        checker.equal("reason", newest["reason"], None)
        return
    reasons = {verdict["reason"] for verdict in verdicts}
    checker.holds(
        "reason", newest["reason"] == next(n for n, said in SILENT if said & reasons), newest["reason"], reasons
    )
    if newest["reason"] == "no_rows" and rows.is_unchanged(newest):
        last = None
        for schedule in (newest["schedule"], "weekly"):  # of a day the last day, where days are counted
            windows = rows.counted(newest["source"], newest["label"], schedule, newest["window_end"])
            last = last or max((row["window_start"] for row in windows if row["rows"]), default=None)
        told = newest["detail"]["notes"]["last_rows"]
        checker.equal("last rows", start_of(told) if told else None, last)


def _cost(checker: Checker, rows: Rows, newest: Row, lead: Row) -> None:
    expected = rows.cost(newest, lead["schedule"], start_of(newest["since"])) if newest["label"] else None
    if expected is None:
        return
    told = newest["items"], newest["correct"], newest["claimed"], newest["extra_errors"]
    items, correct, claimed, acted = expected
    numbers = items, correct, claimed, items * (claimed - correct)
    close = all(abs(a - b) <= 1e-6 * max(1.0, abs(b)) for a, b in zip(told, numbers, strict=True))
    checker.holds("cost", close and newest["acted"] == acted, (*told, newest["acted"]), (*numbers, acted))


def _cause(checker: Checker, rows: Rows, newest: Row) -> None:
    """A version arrived then, or somebody wrote it down; near the beginning."""
    cause, near = newest["detail"]["cause"], {newest[name] for name in ("since", "since_low", "since_high")}
    if cause is None:
        return
    began, weekly = start_of(cause["began"]), "-W" in cause["began"]
    spans = [(start_of(name), timedelta(days=7 if "-W" in name else 1)) for name in near]
    is_near = any(start - length <= began < start + length * (2 if weekly else 1) for start, length in spans)
    checker.holds("cause near the beginning", is_near, cause, near)
    if cause["kind"] == "version":
        read = [r for r in rows.table("readings") if r["source"] == newest["source"] and cause["what"] in r["versions"]]
        first = min((row["window_start"] for row in read), default=None)
        checker.equal("cause", began, first)
    elif cause["kind"] == "annotation":
        checker.holds("cause", cause["what"] in {row["text"] for row in rows.table("annotations")}, cause)


# --- a story, from its diagnosis


def _story(checker: Checker, rows: Rows, story: LabelStory, diagnoses: list[Row], incident: Row | None) -> None:
    newest = diagnoses[-1]
    checker.equal("newest diagnosis", (story.state, story.window), (newest["state"], newest["window_name"]))
    checker.equal("incident of the story", story.incident and story.incident.id, incident and incident["id"])
    _headline(checker, story, newest, incident)
    shown = story.trouble if newest["state"] not in TROUBLES else story.diagnosis
    about = next((row for row in diagnoses if shown and row["window_name"] == shown.window.name), None)
    checker.equal("doubt in words", bool(story.doubt), newest["reason"] is not None)
    notes = newest["detail"]["notes"]
    checker.within(
        "doubt in words", tokens(story.doubt), {newest["window_name"], *all_forms(leaves(notes))}, story.doubt
    )
    texts = (story.facts, story.since, story.cost, story.where, story.cause)
    if about is None:
        checker.equal("no trouble", texts, ("",) * len(texts))
        return
    _texts(checker, rows, story, about)
    if incident is not None and newest["since"] and incident["kind"] == "label" and incident["state"] != "resolved":
        key = (incident["id"], incident["reopened"])
        before, at = checker.since.get(key, (newest["since"], ""))
        if at != newest["window_name"]:
            checker.holds("since moves later", start_of(newest["since"]) <= start_of(before), newest["since"], before)
        checker.since[key] = newest["since"], newest["window_name"]


def _headline(checker: Checker, story: LabelStory, newest: Row, incident: Row | None) -> None:
    is_open = incident is not None and incident["state"] != "resolved"
    words = HEADLINES.get(newest["state"] if newest["state"] != "degraded" else newest["problem"], "is fine")
    if is_open and incident is not None and incident["kind"] == "burst":
        words = f"{len(incident['labels'])} labels of {newest['source']}"
    elif is_open and incident is not None and incident["kind"] == "vanished":
        words = "has no rows any more"
    elif newest["state"] == "fine":
        words = "is fine again" if incident is not None and not is_open else "is fine"
    checker.holds("headline", words in story.headline, story.headline, words)
    is_fine = "is fine" in story.headline
    checker.holds("fine where nothing was judged", not is_fine or newest["state"] == "fine", story.headline, newest)


NOT_OF_ITEMS = ("less_discriminating", "miscalibrated", "shifted")
"""Problems that the share of right items does not show: what is told is what their rule measured."""


def _texts(checker: Checker, rows: Rows, story: LabelStory, about: Row) -> None:
    """The numbers and dates of each text are those of the row, in their order."""
    kept, cost = about["detail"], about["detail"]["cost"]
    if cost is not None and about["problem"] not in NOT_OF_ITEMS:
        numbers = [share(cost["correct"]), share(cost["claimed"]), f"{round(cost['items']):,}"]
        known = kept["notes"].get("with_truth")
        numbers += [] if known is None else [share(known), about["window_name"]]
        checker.equal("facts", tokens(story.facts), numbers)
        checker.equal("harm while automation was off", "would have" not in story.facts, bool(about["acted"]))
    else:
        lead = next(v for v in rows.table("verdicts") if v["id"] == kept["because"][0])
        checker.within("facts", tokens(story.facts), all_forms(leaves(lead)), story.facts)
    if cost is not None:
        low, high = (f"{max(round(cost[name]), 0):,}" for name in ("low", "high"))
        extra = cost["extra_errors"]
        checker.equal("cost in words", tokens(story.cost), [f"{round(extra):,}", low, high] if extra > 0 else [])
        checker.holds(
            "cost in words", not story.cost or about["acted"] == ("would have been" not in story.cost), story.cost
        )
    since = kept["since"]
    span = [] if since["low"] == since["high"] else [since["low"], since["high"]]
    checker.equal("since in words", tokens(story.since), [since["window"], *span])
    segment = kept["segment"]
    checker.equal("segment in words", bool(story.where), segment is not None)
    checker.holds("segment in words", segment is None or segment[1] in story.where, story.where, segment)
    cause = kept["cause"]
    checker.equal("cause in words", bool(story.cause), cause is not None)
    checker.within("cause in words", tokens(story.cause), all_forms(leaves(cause)) | {share(1.0)}, story.cause)
    advised = kept["advice"] is not None and story.state.value != "fine"
    checker.equal("next step in words", bool(story.next_step), advised)
    checker.within("next step in words", tokens(story.next_step), all_forms(leaves(kept["advice"])), story.next_step)


# --- a switch


def _acts(checker: Checker, rows: Rows, newest: Row, *, dry: bool) -> None:
    """An acting rule in breach has turned automation off, unless a person has turned it on since."""
    last = rows.state_of(newest["source"], newest["label"])
    about = {v["rule"] for v in rows.verdicts(newest) if v["outcome"] == "breach"} & set(ACTING) - {"weekly-segments"}
    if about and not dry and last is not None and last["actor"] in RUNS:
        checker.equal("on against a breach", rows.is_on(newest["source"], newest["label"]), False)


def _switch(checker: Checker, rows: Rows, story: LabelStory) -> None:
    """Whether automation may act, since when not, until when, by whom and why."""
    switch, source, label = story.switch, story.source, story.label or ""
    on = rows.is_on(source, label)
    checker.equal("automation", switch.allowed, on)
    checker.equal("automation in words", not switch.words.startswith("Automation is off"), on)
    events = [event for event in rows.table("switch_events") if event["label"] in (label, "")]
    checker.within("dates of the switch", tokens(switch.words), all_forms(leaves(events)), switch.words)
    word = "enable" if not switch.allowed else "disable"
    checker.holds("command of the switch", f"automation {word} " in switch.command, switch.command, switch.words)
    printed(checker, rows, f"`{switch.command}`")
    last = rows.state_of(source, label)
    if on and last is not None and last["actor"] not in RUNS:
        until = f"{last['lease_until']:%Y-%m-%d %H:%M}"
        named = all(part in switch.words for part in (last["actor"], last["reason"], until))
        checker.holds("on by whom, until when and why", named, switch.words, last)
    if "is off since" in switch.words and last is not None:
        since = rows.off_since(source, label)
        told = next((token for token in tokens(switch.words) if " " in token), None)
        stored = since and f"{since:%Y-%m-%d %H:%M}"
        checker.holds("off since", stored in (None, told), switch.words, stored)
