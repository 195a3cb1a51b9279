"""What is told of all labels of one window, and of the runs of each source. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from monitor.core.diagnoses import DiagnosisState, NotTold
from monitor.core.records import Action
from monitor.core.wording import clean, count_of, duration
from monitor.story.label import NOT_TOLD, STATE_WORDS, LabelStory, labels_words

ALONE = 6
"""So many labels that cannot be judged for one reason have a line each; more have one line together."""
_ACTIONS = {
    "slack": "message",
    "disable_automation": "automation off",
    "limit_scores": "fewer scores act",
    "block_scores": "scores blocked",
}


def needing(stories: Iterable[LabelStory]) -> list[LabelStory]:
    """The stories of labels that need somebody, the worst first, then the costliest."""
    return sorted((story for story in stories if story.needs_somebody), key=urgency)


def urgency(story: LabelStory) -> tuple[int, float, str, str]:
    """The place of a story: the worst first, then the costliest, then by name."""
    cost, order = story.diagnosis.cost, list(DiagnosisState)
    return order.index(story.state), -(cost.extra_errors if cost else 0.0), story.source, story.label or ""


def doubts(stories: Iterable[LabelStory]) -> list[str]:
    """A line for each label that cannot be judged, with why; many of a source for one reason are one line."""
    alike: dict[tuple[str, NotTold | None], list[LabelStory]] = {}
    for story in stories:
        if story.state is DiagnosisState.CANNOT_TELL and not story.needs_somebody:
            alike.setdefault((story.source, story.diagnosis.reason), []).append(story)
    lines = []
    for (source, reason), group in alike.items():
        labels = [story for story in group if story.label is not None]
        if reason is None or len(labels) <= ALONE:
            lines += [story.sentence for story in group]
            continue
        names = labels_words(tuple(story.label or "" for story in labels))
        together = f"{count_of(len(labels), 'label')} of {clean(source)} cannot be judged"
        why = NOT_TOLD[reason].format(it="they", its="their", it_has="they have")
        lines += [story.sentence for story in group if story.label is None]
        lines.append(f"{together}: {why} in {labels[0].window} ({names})")
    return lines


def counts_words(stories: Iterable[LabelStory]) -> str:
    """How many labels are in which state; a source as a whole counts as no label."""
    labels = [story for story in stories if story.label is not None]
    counted = ", ".join(
        f"{number:,} {words}"
        for state, words in STATE_WORDS.items()
        if (number := sum(story.state is state for story in labels))
    )
    chance = sum(story.state is DiagnosisState.FINE and bool(story.diagnosis.notes.unconfirmed) for story in labels)
    note = f" ({chance:,} of them with a value beyond its limit that can be chance)" if chance else ""
    return f"{count_of(len(labels), 'label')}: {counted}{note}" if labels else "no label was judged"


def actions_words(actions: Iterable[Action]) -> str:
    """What was done, in one line; "" where nothing was."""
    about: dict[tuple[str, str], list[str]] = {}
    for action in actions:
        about.setdefault((action.kind, action.state), []).append(action.label or f"all of {action.source}")
    return "; ".join(
        f"{_ACTIONS[kind]}: {clean(state, 200)} ({labels_words(tuple(dict.fromkeys(labels)))})"
        for (kind, state), labels in about.items()
    )


_UNITS = {"weekly": "week", "daily": "day"}


def source_stories(
    runs: Iterable[Mapping[str, Any]], sources: Iterable[str], now: datetime
) -> list[tuple[str, str, bool]]:
    """Of each source the newest run of each schedule, in words, and whether one did not end well, or not after a day.

    ``runs`` are rows, newest first.

    >>> source_stories([], ["tickets"], datetime(2026, 11, 16))
    [('tickets', 'never judged', False)]
    """
    newest: dict[tuple[str, str], Mapping[str, Any]] = {}
    for run in runs:
        newest.setdefault((run["source"], run["schedule"]), run)
    stories = []
    for source in sources:
        mine = [newest[source, schedule] for schedule in _UNITS if (source, schedule) in newest]
        failed = any(
            (run["state"] != "done" and now - run["started_at"] > timedelta(days=1)) or run["state"] == "failed"
            for run in mine
        )
        stories.append((source, "; ".join(_run_words(run, now) for run in mine) or "never judged", failed))
    return stories


def _run_words(run: Mapping[str, Any], now: datetime) -> str:
    name, begun, ended = f"{_UNITS[run['schedule']]} {clean(run['window_name'])}", run["started_at"], run["finished_at"]
    if ended is None:
        return f"{name} {run['state']}, begun {duration(now - begun)} ago"
    return f"{name} {'judged' if run['state'] == 'done' else run['state']} {duration(now - ended)} ago"
