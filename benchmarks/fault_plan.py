"""The plan of the faults of a year, by seed; and by when people must be notified of each kind."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.core.records import Window


class Kind(StrEnum):
    """The kinds of faults that strike one run."""

    LINE = "killed at a line, left 'running'"
    STEP = "killed between stored steps"
    WORKERS = "two workers at once"
    READ = "connection dropped mid-read"
    HISTORY = "history's connection dropped"
    WAREHOUSE = "warehouse out of reach"
    LOST = "one refusal or lost answer of Slack"
    SLACK = "Slack out of reach"
    CHANNEL = "a channel refuses the bot"
    AHEAD = "clock weeks ahead"
    DAYS_AHEAD = "clock days ahead"
    BEHIND = "clock behind"
    DISK = "disk full"
    REPEATED = "operator's command repeated"
    AWAY = "nothing runs for days"


QUARTER = timedelta(minutes=15)
PROMISED = {
    Kind.LINE: timedelta(hours=3) + QUARTER, Kind.WAREHOUSE: timedelta(), Kind.AHEAD: timedelta(),
    Kind.DISK: timedelta(),
}  # fmt: skip
"""Kinds that always need a person -> the time from the fault until the message must be in Slack."""
STUCK_FOR = timedelta(hours=1) + QUARTER
"""The time until a message that a channel does not accept must be reported in the other channel."""
GATES_CLOSED = QUARTER
"""The time until it must be in Slack that the clock is behind a switch's change, as also after one that was ahead."""
IN_SLACK = (Kind.LOST, Kind.SLACK, Kind.CHANNEL)
LASTING = (Kind.LINE, Kind.SLACK, Kind.CHANNEL, Kind.DISK, Kind.AHEAD, Kind.DAYS_AHEAD, Kind.BEHIND)
"""Kinds that last for hours, in which no other run may be due."""


OUTAGES = (Kind.WAREHOUSE, Kind.AWAY)
"""Kinds that last while other runs become due."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: ``place`` (0 to 1) is the point of the run where it strikes, ``lasts`` the time until it is fixed."""

    kind: Kind
    place: float
    lasts: timedelta


def planned(
    seed: int, runs: Sequence[tuple[Window, datetime]], count: int, sending: Collection[int], commanded: Collection[int]
) -> dict[int, Fault]:
    """Number of a run -> its fault. ``sending`` are runs that send messages, ``commanded`` have a command before them.

    Each fault is in a different part of the year, and ends two days before the next part.
    """
    rng, days = random.Random(seed), 1 + (runs[-1][1] - runs[0][1]).days  # noqa: S311 - a plan, not a secret
    size, found = days / count, dict[int, Fault]()
    parts = [_runs_of(runs, round(n * size), max(round(n * size) + 1, round((n + 1) * size) - 2)) for n in range(count)]
    kinds = [list(Kind)[n % len(Kind)] for n in range(count)]
    for kind in sorted(rng.sample(kinds, count), key=lambda k: (k != Kind.REPEATED, k not in IN_SLACK, k != Kind.AWAY)):
        lasts = timedelta(hours=rng.randint(*_HOURS.get(kind, (2, 6))))
        suitable = commanded if kind is Kind.REPEATED else sending if kind in IN_SLACK else range(len(runs))
        if kind in OUTAGES:  # without a command meanwhile: it would come before the windows that are made up for
            suitable = [each for part in parts for each in part if not _during(runs, each, lasts) & set(commanded)]
        if kind is Kind.AWAY:  # of one schedule: what is missed of both is judged in another order
            weeks = {number for number, (window, _) in enumerate(runs) if window.schedule == "weekly"}
            suitable = [each for each in suitable if not _during(runs, each, lasts) & weeks]
        part = rng.choice([part for part in parts if set(part) & set(suitable)] or parts)
        parts.remove(part)
        if kind is Kind.BEHIND:  # not before the year, in windows that the year without faults does not have
            part = [each for each in part if runs[each][0].start >= runs[0][0].start + timedelta(weeks=1)]
        if kind is Kind.DAYS_AHEAD:  # not after the year, for the same reason
            part = [each for each in part if runs[each][0].start <= runs[-1][0].start - timedelta(weeks=1)] or part
        run = _chosen(rng, runs, [each for each in part if each in suitable] or part, kind)
        found[run] = Fault(kind, rng.random(), lasts)
    return found


_HOURS = {Kind.WAREHOUSE: (2, 30), Kind.AWAY: (26, 46)}


def _during(runs: Sequence[tuple[Window, datetime]], number: int, lasts: timedelta) -> set[int]:
    """The runs that become due while a fault lasts that strikes at a run, and the first one after."""
    until = next((n for n, (_, at) in enumerate(runs) if at > runs[number][1] + lasts), len(runs) - 1)
    return set(range(number, until + 1))


def _runs_of(runs: Sequence[tuple[Window, datetime]], first: int, until: int) -> list[int]:
    begin = runs[0][1]
    return [number for number, (_, at) in enumerate(runs) if first <= (at - begin).days < until]


def _chosen(rng: random.Random, runs: Sequence[tuple[Window, datetime]], of: Sequence[int], kind: Kind) -> int:
    """One of these runs; weekly ones are likelier. A fault that lasts begins with the last run of its day."""
    number = rng.choice([each for each in of for _ in range(4 if runs[each][0].schedule == "weekly" else 1)])
    follows = number + 1 < len(runs) and runs[number + 1][1] - runs[number][1] < timedelta(hours=2)
    return number + 1 if kind in LASTING and follows else number
