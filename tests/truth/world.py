"""What a seed plans: labels that break, heal, flap and vanish, operators, outages; and the rows of the warehouse.

The rows are real: they are read, counted and judged by the program. What is known here and nowhere else is what was
planted (a label's mood in each week, the arrival of a model version).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from monitor.core.records import Window
from monitor.core.windows import week
from tests.fakes.world import CONFIDENCES

Mood = Literal["good", "bad", "web", "slow", "under", "few", "gone", "null"]
UTC_ZONE = ZoneInfo("UTC")
START = datetime(2026, 1, 5, tzinfo=UTC)
BASELINE = 3
KINDS = 6
"""Seeds that leave the same rest of this have the same sources, labels and rules; only ``automation`` differs."""
OPERATOR, STRANGER = ("U1", "dora"), ("U9", "guest")
PEOPLE = ("ana", "ben", "carol")
REASONS = ("looked at by hand", "the model was rolled back", "retrained", "wrong since noon", "audit of the queue")
MANY = tuple(f"queue-{letter}" for letter in "abcdef")
ROWS, FEW = 420, 25
_WEIGHTS = np.array([10, 10, 10, 10, 15, 20, 25]) / 100
_RULES = """\
  - {id: automated-overconfidence, metric: overconfidence, where: automated, condition: above, threshold: 0.05,
     min_samples: 60, severity: critical, actions: [slack, disable_automation]}
  - {id: ece-increase, metric: ece, condition: increase, threshold: 0.03, severity: warning, actions: [slack]}
  - {id: score-shift, test: ks, column: score, threshold: 0.1, severity: info, actions: [slack]}
"""
_PARTS = """\
  - {id: weekly-segments, metric: overconfidence, where: automated, condition: above, threshold: 0.08,
     scope: segments, segments: [channel], turns_off: segments, min_samples: 60, severity: critical,
     actions: [slack, disable_automation]}
"""
_DAYS = """\
  - {id: ece-two-days, metric: ece, condition: above, threshold: 0.1, schedule: daily, for: 2, min_samples: 125,
     severity: critical, actions: [slack, disable_automation]}
"""
_ROUTES = """\
  - {match: {severity: critical}, channel: "#ml-oncall", mention: "<!subteam^S0123>", repeat: 24h}
  - {channel: "#ml-monitoring", repeat: 1w}
"""
ACTING = ("automated-overconfidence", "weekly-segments", "ece-two-days")
"""The rules that may turn automation off."""


@dataclass(frozen=True)
class Event:
    """One planned step; ``what`` and ``more`` depend on the kind: run, drain, watch, look, person, slack, restore."""

    at: datetime
    kind: str
    what: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A history before it is played; ``moods`` are by (week, source, label), ``version_from`` by source."""

    seed: int
    daily: bool
    parts: bool
    token: bool
    linked: bool
    automation: Mapping[str, str]
    labels: Mapping[str, tuple[str, ...]]
    weeks: tuple[Window, ...]
    moods: Mapping[tuple[str, str, str], Mood]
    version_from: Mapping[str, datetime]
    events: tuple[Event, ...]

    @property
    def yaml(self) -> str:
        """alerts.yaml."""
        sources = "".join(
            f"  {source}: {{relation: {source}, score_is: probability_of_label, segments: [channel], automate_at: 0.8"
            + (", labels: {phishing: {critical: true, automate_at: 0.9}}" if "phishing" in labels else "")
            + "}\n"
            for source, labels in self.labels.items()
        )
        automation = ", ".join(f"{key}: {value}" for key, value in self.automation.items())
        return (
            f"version: 1\ntimezone: UTC\nsources:\n{sources}"
            "evaluation: {interval: analytic, resamples: 100, min_samples: 200}\n"
            f"baseline: {{weeks: {BASELINE}, min_pairs: 300}}\n"
            f"rules:\n{_RULES}{_PARTS if self.parts else ''}{_DAYS if self.daily else ''}"
            f'automation: {{{automation}, operators: ["<@{OPERATOR[0]}>"]}}\n'
            f"routes:\n{_ROUTES}"
        )

    @property
    def baseline(self) -> tuple[Window, ...]:
        """The weeks before the first one."""
        return tuple(_week(number) for number in range(-BASELINE, 0))


def plan(seed: int) -> Plan:
    """The history of a seed."""
    rng = Random(f"truth {seed}")
    daily, many = seed % 3 == 0, seed % KINDS == 4
    labels = {"tickets": ("billing", "phishing", "refund", *(MANY if many else ())), "mails": ("orders", "spam")}
    weeks = tuple(_week(number) for number in range(3 if daily else rng.randint(5, 7)))
    automation = {
        "when_not_evaluated": rng.choice(("keep", "keep", "disable")),
        "initial": rng.choice(("on_first_ok", "on_first_ok", "off")),
        "re_enable": rng.choice(("manual", "{after: 2}")), "dry_run": "true" if rng.random() < 0.06 else "false",
    }  # fmt: skip
    moods = _moods(labels, weeks, rng, many=many, falls_silent=seed % KINDS == 2)
    events = sorted([*_runs(labels, weeks, rng, daily=daily), *_others(labels, weeks, rng)], key=lambda e: e.at)
    arrives = {name: weeks[rng.randint(1, len(weeks) - 2)].start for name in labels if rng.random() < 0.5}
    return Plan(
        seed, daily, seed % 3 == 1, rng.random() < 0.9, rng.random() < 0.6, automation, labels, weeks,
        _with_version(moods, arrives, weeks, rng), arrives, tuple(events),
    )  # fmt: skip


def _week(number: int) -> Window:
    year, name, _ = (START + timedelta(weeks=number)).isocalendar()
    return week(f"{year}-W{name:02d}", UTC_ZONE)


def _moods(
    labels: Mapping[str, tuple[str, ...]], weeks: Sequence[Window], rng: Random, *, many: bool, falls_silent: bool
) -> dict[tuple[str, str, str], Mood]:
    made = {}
    kinds = ("bad", "bad", "bad", "web", "slow", "under", "few", "gone", "null")
    together = rng.randint(1, len(weeks) - 2)
    for source, names in labels.items():
        for label in names:
            mood, until = "good", 0
            for number, window in enumerate(weeks):
                if many and label in MANY:
                    mood = "bad" if number >= together else "good"
                elif number >= until:
                    healthy = number == 0 or mood != "good" or rng.random() < 0.72
                    mood = "good" if healthy else rng.choice(kinds)
                    until = number + (1 if mood == "good" else rng.choice((1, 2, 3, 4, 6)))
                made[window.name, source, label] = mood  # type: ignore[assignment]
        if falls_silent:  # a trouble that cannot be judged any more, right after it began
            _fall_silent(made, source, names[-1], weeks)
    return made


def _fall_silent(moods: dict[tuple[str, str, str], Mood], source: str, label: str, weeks: Sequence[Window]) -> None:
    for number, window in enumerate(weeks):
        moods[window.name, source, label] = "good" if number == 0 else "bad" if number < 3 else "gone"


def _with_version(
    moods: dict[tuple[str, str, str], Mood], arrives: Mapping[str, datetime], weeks: Sequence[Window], rng: Random
) -> dict[tuple[str, str, str], Mood]:
    """With a new model version one label of its source often breaks."""
    for source, at in arrives.items():
        label = {"tickets": "billing", "mails": "orders"}[source]
        if rng.random() < 0.6:
            moods |= {(window.name, source, label): "bad" for window in weeks if window.start >= at}
    return moods


def _runs(
    labels: Mapping[str, tuple[str, ...]], weeks: Sequence[Window], rng: Random, *, daily: bool
) -> Iterator[Event]:
    """Runs in their time, of all sources or of each alone, late, twice, or never; sources that cannot be read."""
    for window in weeks:
        alone = [[name] for name in labels]
        for sources in alone if rng.random() < 0.4 else [sorted(labels)]:
            yield from _run("weekly", window.name, window.end + timedelta(hours=6), sources, labels, rng)
    if daily:
        for number in range(8, 14):
            start = START + timedelta(days=number)
            at = start + timedelta(days=1, hours=7, minutes=30)
            yield from _run("daily", f"{start:%Y-%m-%d}", at, ["tickets"], labels, rng)


def _run(
    schedule: str, name: str, at: datetime, sources: list[str], labels: Mapping[str, tuple[str, ...]], rng: Random
) -> Iterator[Event]:
    fate, more = rng.random(), {"schedule": schedule, "sources": sources}
    at += timedelta(minutes=rng.randint(5, 60))
    if fate < 0.05:
        return  # the monitor was down
    if fate < 0.11:
        yield Event(at, "run", name, {**more, "hidden": rng.choice(sources)})
        if rng.random() < 0.4:
            return
        at += timedelta(hours=rng.randint(1, 20))
    elif fate < 0.15:
        at += timedelta(days=rng.randint(1, 2))
    elif fate < 0.2:
        more["jump"] = rng.choice((-70, 45, 3000))  # minutes by which the clock is wrong during the run
    elif fate < 0.24:
        yield Event(at, "run", name, {**more, "killed": True})
        at += timedelta(hours=rng.randint(1, 9))
    yield Event(at, "run", name, more)
    if schedule == "weekly" and rng.random() < 0.15:
        source = rng.choice(sources)
        late = (source, rng.choice(labels[source]), rng.choice(("good", "bad")))
        yield Event(at + timedelta(hours=rng.randint(2, 50)), "run", name, {**more, "late": late})


def _others(labels: Mapping[str, tuple[str, ...]], weeks: Sequence[Window], rng: Random) -> Iterator[Event]:
    """What people do, drains, the watchdog, an outage of Slack, an older history that is put back, looks."""
    first, last = weeks[0].end + timedelta(hours=7), weeks[-1].end + timedelta(days=2)
    span = int((last - first) / timedelta(minutes=1))
    for _ in range(rng.randint(6, 10)):
        what = rng.choices(
            ("enable", "disable", "acknowledge", "silence", "resolve", "note", "whole", "annotate"),
            (4, 2, 5, 2, 1, 1, 1, 1),
        )[0]  # fmt: skip
        source = rng.choice(sorted(labels))
        yield Event(first + timedelta(minutes=rng.randint(0, span)), "person", what, {
            "by": rng.choice(PEOPLE), "why": rng.choice(REASONS), "source": source, "pick": rng.random(),
            "label": rng.choice(labels[source]), "way": rng.choice(("terminal", "slack")),
            "hours": rng.choice((None, None, 6, 40, 400)), "on": rng.random() < 0.5,
        })  # fmt: skip
    at = first
    while at < last + timedelta(days=10):
        yield Event(at, "watch" if rng.random() < 0.4 else "drain")
        at += timedelta(hours=rng.choice((31, 55, 80)))
    if rng.random() < 0.3:
        began = first + timedelta(minutes=rng.randint(0, span))
        yield Event(began, "slack", "down")
        yield Event(began + timedelta(hours=rng.randint(2, 60)), "slack", "up")
    if rng.random() < 0.2:
        copied = first + timedelta(minutes=rng.randint(0, span // 2))
        back = copied + timedelta(days=rng.choice((2, 8)))
        yield Event(copied, "backup")
        yield Event(back, "restore", "", {"by": rng.choice(PEOPLE), "why": "the disk was damaged"})
        yield Event(back + timedelta(hours=rng.choice((3, 100))), "confirm", "", {"by": "ana"})
    for window in rng.sample(weeks, k=2):
        yield Event(window.end + timedelta(hours=rng.randint(8, 160)), "look")
    yield Event(last + timedelta(days=11), "look")


# --- rows


def rows_of(planned: Plan, source: str, window: Window, only: str | None = None, mood: Mood | None = None) -> Any:
    """The rows of a source in a week; or those of one label, in another mood, as truths that came late."""
    frames = [
        _rows(planned, source, label, window, mood or planned.moods.get((window.name, source, label), "good"))
        for label in ((only,) if only else planned.labels[source])
    ]
    return pd.concat([frame for frame in frames if len(frame)] or frames, ignore_index=True)


def _rows(planned: Plan, source: str, label: str, window: Window, mood: Mood) -> pd.DataFrame:
    about = f"{planned.seed if window.start >= START else ''} {source} {label} {window.name} {mood}"
    rng = np.random.default_rng(zlib.crc32(about.encode()))
    many = {"gone": 0, "few": FEW}.get(mood, ROWS * (3 if planned.daily else 1))
    score = rng.choice(CONFIDENCES, many, p=_WEIGHTS)
    channel = rng.choice(["web", "email", "app"], many)
    off = {"bad": 0.3, "web": 0.45, "slow": 0.05 * (1 + (window.start - START).days // 14), "under": -0.3}.get(
        mood, 0.0
    )
    wrong = (channel == "web") if mood == "web" else np.full(many, True)
    truth = np.clip(np.where((score >= 0.5) & wrong, score - off, score), 0.0, 1.0)
    arrived = planned.version_from.get(source)
    return pd.DataFrame({
        "item": [f"{label}-{window.name}-{number}" for number in range(many)], "label": label,
        "score": np.where(rng.random(many) < 0.3, np.nan, score) if mood == "null" else score,
        "actual": (rng.random(many) < truth).astype(int), "predicted": (score >= 0.5).astype(int),
        "resolved_at": [window.start + timedelta(seconds=float(s)) for s in rng.random(many) * 604_000],
        "channel": channel, "model_version": "v2" if arrived and window.start >= arrived else "v1",
    })  # fmt: skip
