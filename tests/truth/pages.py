"""What the overview and the pages of labels tell, outside of their evidence, is the stories of the labels."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from monitor.story.gather import Teller
from tests.fakes.in_process import in_process
from tests.truth import messages
from tests.truth.faces import tokens, told_on
from tests.truth.histories import environment_settings

if TYPE_CHECKING:
    from monitor.story.label import LabelStory
    from tests.truth.checker import Checker
    from tests.truth.histories import Told
    from tests.truth.rows import Rows


def check(checker: Checker, rows: Rows, told: Told) -> None:
    """Somebody looks: the terminal, the overview, and the page of every label."""
    messages.terminal(checker, rows, told)
    teller = Teller.of(told.monitor)
    labels = sorted({(row["source"], row["label"]) for row in rows.table("diagnoses") if row["label"]})
    stories = [story for about in labels if (story := _story(told, teller, rows, *about)) is not None]
    with in_process(environment_settings(), clock=told.clock) as client:
        shown = told_on(client.get("/").text)
        for story in stories:
            if story.state.value != "fine":
                mine = [text for text in shown if story.headline in text]
                checker.holds("overview names who needs somebody", len(mine) == 1, shown, story.headline)
                _is_told(checker, rows, story, mine, "overview within its stories")
        for story in stories:
            page = told_on(client.get(f"/label/{quote(story.source)}/{quote(story.label or '')}").text)
            checker.holds(
                "page of a label tells its story",
                any(story.headline.removesuffix(" again") in text for text in page),
                page,
            )
            _is_told(checker, rows, story, page, "page within its story")


def _story(told: Told, teller: Teller, rows: Rows, source: str, label: str) -> LabelStory | None:
    incidents = rows.incidents(source, label)
    kept = told.monitor.store.incident(incidents[-1]["id"]) if incidents else None
    return teller.of_label(source, label, kept if kept is not None and not kept.labels else None)


def _is_told(checker: Checker, rows: Rows, story: LabelStory, texts: list[str], kind: str) -> None:
    """Texts have no number, date or command that the story has not."""
    incidents = rows.incidents(story.source, story.label)
    events = [event for incident in incidents for event in rows.events(incident)]
    about = messages.fields(story, incidents[-1] if incidents else None, events) | {"0.8", "0.9"}
    for text in texts:
        checker.within(kind, tokens(text), about, text)
        checker.equal(
            "automation on a page", "Automation is off" in text and story.switch and story.switch.allowed, False
        )
