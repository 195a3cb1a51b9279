"""A drill: a test label is switched on and off, and gates are watched until they notice.

The label is reserved (:data:`DRILL_LABEL`): no run judges it and no list of labels has it. Its lease is short, so that
a killed drill leaves nothing open. Every change has its event.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal, Protocol

from monitor.automation.gate.snapshot import Decision
from monitor.automation.state import effective, is_blocked
from monitor.context import Monitor
from monitor.core.records import DRILL_LABEL
from monitor.core.score_ranges import STEPS
from monitor.operations.change_switch import change_switch, known_labels

POLL_S = 0.005
SLACK_S = 1.0  # a gate must notice within its TTL and this
PATIENCE = 2.0  # a gate that has not noticed after so many times that limit is given up
SHORTEST_LEASE = timedelta(minutes=5)
GOLDEN = 0.618034  # spreads the changes evenly over the time between a gate's readings

Turn = Literal["on", "off"]


class DrillRefused(ValueError):
    """A drill is not possible here, or would disturb something; the message says what."""


class DrillGate(Protocol):
    """The part of a gate that a drill needs."""

    def allows(self, source: str, label: str, score: float | None = None) -> Decision:
        """The gate's decision."""
        ...


@dataclass(frozen=True, slots=True)
class Notice:
    """One gate and one change: ``seconds`` from before the change was stored until the gate's decision changed.

    ``seconds`` is None if the gate did not notice in time; ``reason`` is the gate's last one.
    """

    run: int
    gate: str
    turn: Turn
    seconds: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class DrillSummary:
    """One gate and one kind of change: the number of changes, how many it noticed in time, and the seconds it took."""

    gate: str
    turn: Turn
    changes: int
    within: int
    shortest: float | None
    median: float | None
    longest: float | None


def limit(ttl_s: float) -> float:
    """How many seconds a gate may take to notice a change.

    >>> limit(30)
    31.0
    """
    return ttl_s + SLACK_S


def drill(
    monitor: Monitor,
    source: str,
    gates: Mapping[str, DrillGate],
    *,
    runs: int,
    ttl_s: float,
    by: str,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[Notice]:
    """Switch the test label of ``source`` on and off ``runs`` times; yields one notice for each gate and change.

    The label is off at the end, also after an error or Ctrl-C. Raises :class:`DrillRefused` before anything is changed.
    """
    score = check(monitor, source)
    patience = PATIENCE * limit(ttl_s)
    with reserved_label(monitor, source, by, patience) as turn_to:
        turn_to("off", "a drill begins")
        # every gate has read a snapshot before times are measured
        _await(gates, source, score, "off", time.monotonic(), patience)
        for run in range(1, runs + 1):
            for turn in ("on", "off"):
                time.sleep((run + (turn == "off") / 2) * GOLDEN % 1 * ttl_s / 4)
                progress(f"drill {run} of {runs}: {turn}")
                began = time.monotonic()
                turn_to(turn, f"drill {run} of {runs}")
                for gate, (seconds, reason) in _await(gates, source, score, turn, began, patience).items():
                    yield Notice(run, gate, turn, seconds, reason)


def check(monitor: Monitor, source: str) -> float:
    """A score for which the test label may act when it is on. Raises :class:`DrillRefused` if there is none."""
    now = monitor.clock()
    if DRILL_LABEL in known_labels(monitor, source):
        raise DrillRefused(f"{source} has a real label {DRILL_LABEL!r}; a drill would switch it. Rename it in the view")
    whole = monitor.store.switch(source, None)
    probe = replace(monitor.store.switch(source, DRILL_LABEL), state="on", lease_until=now + SHORTEST_LEASE, blocked=())
    found = effective(probe, now, whole=whole)
    if not found.allowed:
        raise DrillRefused(f"{found.detail}: no gate would open for {source}, so nothing can be measured")
    running = monitor.store.switch(source, DRILL_LABEL)
    if effective(running, now, whole=None).allowed:
        raise DrillRefused(
            f"{running.actor} has a drill of {source} under way; if it was killed, it is over by {running.lease_until}"
        )
    threshold = monitor.config.sources[source].automate_from(DRILL_LABEL)
    scores = [step / STEPS for step in range(STEPS, -1, -1) if step / STEPS >= threshold]
    for score in scores:
        if not is_blocked(score, found.blocked):
            return score
    raise DrillRefused(f"every score from {threshold:g} on is blocked for the whole source {source}")


@contextmanager
def reserved_label(monitor: Monitor, source: str, by: str, patience: float) -> Iterator[Callable[[Turn, str], None]]:
    """A function that switches the test label, which is off when the block ends, also after an error."""
    lease = max(SHORTEST_LEASE, timedelta(seconds=2 * patience))
    automation = monitor.config.automation.model_copy(update={"lease": lease})
    short = replace(monitor, config=monitor.config.model_copy(update={"automation": automation}))

    def turn_to(turn: Turn, reason: str) -> None:
        change_switch(short, source, DRILL_LABEL, enable=turn == "on", by=by, reason=reason)

    try:
        yield turn_to
    finally:
        if monitor.store.switch(source, DRILL_LABEL).state == "on":
            turn_to("off", "the drill was broken off")


def _await(
    gates: Mapping[str, DrillGate], source: str, score: float, turn: Turn, began: float, patience: float
) -> dict[str, tuple[float | None, str]]:
    """By gate, the seconds it took (None: it did not notice in time) and its last reason."""
    found: dict[str, tuple[float | None, str]] = {}
    last = dict.fromkeys(gates, "")
    while len(found) < len(gates) and time.monotonic() - began < patience:
        for name in gates.keys() - found.keys():
            decision = gates[name].allows(source, DRILL_LABEL, score=score)
            last[name] = decision.reason.value
            if decision.allowed == (turn == "on"):
                found[name] = (time.monotonic() - began, decision.reason.value)
        time.sleep(POLL_S)
    return {name: found.get(name, (None, last[name])) for name in gates}


def summaries(notices: Sequence[Notice], ttl_s: float) -> list[DrillSummary]:
    """A summary for each gate and kind of change; "on" and "off" are apart, since only "off" protects anybody.

    >>> found = summaries([Notice(1, "history", "off", 0.5, "off"), Notice(2, "history", "off", 9.0, "off")], 2)
    >>> found[0].changes, found[0].within, found[0].median
    (2, 1, 4.75)
    """
    keys = dict.fromkeys((notice.gate, notice.turn) for notice in notices)
    found = []
    for gate, turn in keys:
        times = [notice.seconds for notice in notices if (notice.gate, notice.turn) == (gate, turn)]
        noticed = [seconds for seconds in times if seconds is not None]
        within = sum(seconds <= limit(ttl_s) for seconds in noticed)
        spread = (min(noticed), statistics.median(noticed), max(noticed)) if noticed else (None, None, None)
        found.append(DrillSummary(gate, turn, len(times), within, *spread))
    return found
