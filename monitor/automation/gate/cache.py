"""What a gate holds in memory: one snapshot, worked out label by label, and until when it may be used. Pure.

Two clocks are used. How old a snapshot is, and how much of a lease has passed since it was read, is
counted on a clock that only ever runs forward (``elapsed``, in seconds). What time it *is* comes
from the snapshot alone, so a router whose clock is wrong neither prolongs a lease nor ends it early.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from monitor.automation.gate.snapshot import Decision, SwitchSnapshot, Terms, decide, terms

Entry: TypeAlias = tuple[float, Terms]

MARGIN_S = 0.001  # near the end of a lease it is `decide` that says, to the microsecond
QUICK_SHARE = 0.5  # of the TTL; until then somebody else sees to the next reading

_NOBODY: Entry = (math.inf, terms(SwitchSnapshot(datetime.min), "?", "?", datetime.min))  # noqa: DTZ901 - of a snapshot without anything


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotCache:
    """A board with the answers for every label that has a switch.

    ``began`` is when reading it began, ``fresh_until`` when it is too old, ``due`` when a gate must
    see whether anybody reads the next one. At ``anchored`` it was ``now`` at the latest, and at ``ended`` it
    was ``seen`` at the earliest: a snapshot is made some time between the beginning and the end of its reading.
    ``entries`` hold, for each (source, label), until when its terms are valid; ``strangers``, for each
    source, those of labels without a switch. All but ``now`` and ``seen`` are on the ``elapsed`` clock.
    """

    board: SwitchSnapshot
    entries: Mapping[tuple[str, str], Entry]
    strangers: Mapping[str, Entry]
    anchored: float
    now: datetime
    ended: float
    seen: datetime
    began: float
    fresh_until: float
    due: float

    def time(self, elapsed: float) -> datetime:
        """What time it is by the snapshot's clock, at the latest: no lease is taken to last longer than it does."""
        return self.now + timedelta(seconds=elapsed - self.anchored)

    def earliest(self, elapsed: float) -> datetime:
        """What time it is by the snapshot's clock, at the earliest: what is older than this is of the past."""
        return self.seen + timedelta(seconds=elapsed - self.ended)

    def is_fresh(self, elapsed: float) -> bool:
        """Whether the snapshot may be used; not on a clock that ran backwards, either."""
        return self.began <= elapsed < self.fresh_until

    def answer(self, source: str, label: str, score: float | None, elapsed: float, segments: object = None) -> Decision:
        """What :func:`~monitor.automation.gate.snapshot.decide` says, mostly without asking it."""
        if type(source) is str and type(label) is str and label:
            until, found = self.entries.get((source, label)) or self.strangers.get(source, _NOBODY)
            if elapsed < until:
                return found.judge(score, segments)
        return decide(self.board, source, label, score, self.time(elapsed), segments)


def hold(
    board: SwitchSnapshot,
    *,
    began: float,
    ttl_s: float,
    ended: float | None = None,
    previous: SnapshotCache | None = None,
) -> SnapshotCache:
    """A board whose reading began at ``began`` and ended at ``ended`` (None: at once).

    The time never goes back: where the snapshot's clock is behind what the previous one says, that one
    goes on.

    >>> from datetime import UTC
    >>> board = SwitchSnapshot(datetime(2026, 11, 21, tzinfo=UTC))
    >>> held = hold(board, began=100.0, ttl_s=30)
    >>> held.is_fresh(129.9), held.is_fresh(130.0), held.answer("tickets", "billing", 0.9, 101.0).reason.value
    (True, False, 'never_set')
    """
    now = board.at if previous is None else max(board.at, previous.time(began))
    ended = began if ended is None else ended
    seen = board.at if previous is None else max(board.at, previous.earliest(ended))
    labels = [(source, label) for source, label in board.switches if label is not None]
    unknown = max((label for _, label in labels), key=len, default="") + "?"  # longer than any that has a switch
    entries = {key: _entry(board, *key, now, began) for key in labels}
    strangers = {source: _entry(board, source, unknown, now, began) for source, _ in board.switches}
    fresh_until, due = began + ttl_s, began + ttl_s * QUICK_SHARE
    return SnapshotCache(board, entries, strangers, began, now, ended, seen, began, fresh_until, due)


def renew(held: SnapshotCache, *, began: float, ttl_s: float) -> SnapshotCache:
    """The same snapshot, of which a reading that began at ``began`` has found that it still holds."""
    return replace(held, began=began, fresh_until=began + ttl_s, due=began + ttl_s * QUICK_SHARE)


def _entry(board: SwitchSnapshot, source: str, label: str, now: datetime, elapsed: float) -> Entry:
    """The terms of one label, and until when: the end of a lease, or of an enable of a segment, may change them."""
    states = (board.switches.get((source, label)), board.switches.get((source, None)))
    known = [state for state in states if state is not None]
    ends = [state.lease_until for state in known if state.lease_until is not None]
    ends += [each.off_from for state in known for each in state.segments if each.off_from is not None]
    rest = min(((end - now).total_seconds() for end in ends if end > now), default=math.inf)
    return elapsed + rest - MARGIN_S, terms(board, source, label, now)
