"""A gate's snapshot in memory, with prepared answers for each label and the time until which it may be used. Pure.

There are two clocks. ``elapsed`` (seconds, only runs forward) measures the age of a snapshot and how much of a lease
has passed since it was read. The time of day comes from the snapshot alone, so a router whose clock is wrong neither
prolongs a lease nor ends it early.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from monitor.automation.gate.snapshot import Decision, SwitchSnapshot, Terms, decide, terms

Entry: TypeAlias = tuple[float, Terms]

MARGIN_S = 0.001  # so near the end of a lease `decide` answers, exact to the microsecond
QUICK_SHARE = 0.5  # of the TTL; before that nobody checks that the refresher runs

_UNKNOWN_SOURCE: Entry = (math.inf, terms(SwitchSnapshot(datetime.min), "?", "?", datetime.min))  # noqa: DTZ901 - of an empty snapshot


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotCache:
    """A snapshot with the answers for every label that has a switch.

    Its reading began at ``began``; at ``fresh_until`` it is too old, and from ``due`` on a gate must check that the
    refresher runs. The snapshot's time of day was at most ``now`` at ``anchored`` and at least ``seen`` at ``ended``,
    because a snapshot is made between the beginning and the end of its reading. ``entries`` hold, by (source, label),
    the terms and until when they are valid; ``without_switch``, by source, those of labels without a switch. All times
    but ``now`` and ``seen`` are on the ``elapsed`` clock.
    """

    snapshot: SwitchSnapshot
    entries: Mapping[tuple[str, str], Entry]
    without_switch: Mapping[str, Entry]
    anchored: float
    now: datetime
    ended: float
    seen: datetime
    began: float
    fresh_until: float
    due: float

    def time(self, elapsed: float) -> datetime:
        """The latest possible time on the snapshot's clock, so that no lease is used after its end."""
        return self.now + timedelta(seconds=elapsed - self.anchored)

    def earliest(self, elapsed: float) -> datetime:
        """The earliest possible time on the snapshot's clock: an older snapshot is outdated."""
        return self.seen + timedelta(seconds=elapsed - self.ended)

    def is_fresh(self, elapsed: float) -> bool:
        """Whether the snapshot may be used; False too if the clock ran backwards."""
        return self.began <= elapsed < self.fresh_until

    def answer(self, source: str, label: str, score: float | None, elapsed: float, segments: object = None) -> Decision:
        """The decision of :func:`~monitor.automation.gate.snapshot.decide`, mostly from prepared terms."""
        if type(source) is str and type(label) is str and label:
            until, found = self.entries.get((source, label)) or self.without_switch.get(source, _UNKNOWN_SOURCE)
            if elapsed < until:
                return found.judge(score, segments)
        return decide(self.snapshot, source, label, score, self.time(elapsed), segments)


def hold(
    snapshot: SwitchSnapshot,
    *,
    began: float,
    ttl_s: float,
    ended: float | None = None,
    previous: SnapshotCache | None = None,
) -> SnapshotCache:
    """Prepare a snapshot whose reading began at ``began`` and ended at ``ended`` (None: at once).

    The time never goes back: if the snapshot's clock is behind that of ``previous``, the previous clock continues.

    >>> from datetime import UTC
    >>> snapshot = SwitchSnapshot(datetime(2026, 11, 21, tzinfo=UTC))
    >>> held = hold(snapshot, began=100.0, ttl_s=30)
    >>> held.is_fresh(129.9), held.is_fresh(130.0), held.answer("tickets", "billing", 0.9, 101.0).reason.value
    (True, False, 'never_set')
    """
    now = snapshot.at if previous is None else max(snapshot.at, previous.time(began))
    ended = began if ended is None else ended
    seen = snapshot.at if previous is None else max(snapshot.at, previous.earliest(ended))
    labels = [(source, label) for source, label in snapshot.switches if label is not None]
    longer_label = (
        max((label for _, label in labels), key=len, default="") + "?"
    )  # longer than every label with a switch
    entries = {key: _entry(snapshot, *key, now, began) for key in labels}
    without_switch = {source: _entry(snapshot, source, longer_label, now, began) for source, _ in snapshot.switches}
    fresh_until, due = began + ttl_s, began + ttl_s * QUICK_SHARE
    return SnapshotCache(snapshot, entries, without_switch, began, now, ended, seen, began, fresh_until, due)


def renew(held: SnapshotCache, *, began: float, ttl_s: float) -> SnapshotCache:
    """The same snapshot, which a reading that began at ``began`` has confirmed."""
    return replace(held, began=began, fresh_until=began + ttl_s, due=began + ttl_s * QUICK_SHARE)


def _entry(snapshot: SwitchSnapshot, source: str, label: str, now: datetime, elapsed: float) -> Entry:
    """The terms of one label, and until when they hold: a lease's end or that of a segment's enable may change them."""
    states = (snapshot.switches.get((source, label)), snapshot.switches.get((source, None)))
    known = [state for state in states if state is not None]
    ends = [state.lease_until for state in known if state.lease_until is not None]
    ends += [each.off_from for state in known for each in state.segments if each.off_from is not None]
    remaining = min(((end - now).total_seconds() for end in ends if end > now), default=math.inf)
    return elapsed + remaining - MARGIN_S, terms(snapshot, source, label, now)
