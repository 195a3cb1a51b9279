"""Runs of diagnoses of one subject that need somebody: when one begins, goes on, ends and comes back. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.core.diagnoses import Diagnosis, DiagnosisState

NOT_SEEN = timedelta(weeks=4)
"""A trouble ends that was not seen for so long, though nothing could be judged; it comes back up to so long after."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One run of troubles: ``first`` found it, ``last`` is its newest, and with ``ended`` it was over.

    ``seen_until`` is the end of the newest window with a trouble, or with a value beyond its limit that could not be
    judged. ``back``: it began at most four weeks after the one before ended, and so belongs to the same incident.
    """

    first: Diagnosis
    last: Diagnosis
    seen_until: datetime
    ended: Diagnosis | None = None
    back: bool = False

    def after(self, diagnosis: Diagnosis) -> Episode:
        """The episode after one more diagnosis."""
        seen = self.seen_until if diagnosis.notes.within_limits else diagnosis.window.end
        if diagnosis.is_trouble:
            return replace(self, last=diagnosis, seen_until=diagnosis.window.end)
        if diagnosis.state is DiagnosisState.FINE or diagnosis.window.end - seen >= NOT_SEEN:
            return replace(self, ended=diagnosis)
        return replace(self, seen_until=seen)


def episodes(oldest_first: Iterable[Diagnosis]) -> list[Episode]:
    """The episodes of one subject, oldest first; only the last one may still go on.

    >>> episodes([])
    []
    """
    made: list[Episode] = []
    for diagnosis in oldest_first:
        if made and made[-1].ended is None:
            made[-1] = made[-1].after(diagnosis)
        elif diagnosis.is_trouble:
            before = made[-1].ended if made else None
            back = before is not None and diagnosis.window.end - before.window.end <= NOT_SEEN
            made.append(Episode(diagnosis, diagnosis, diagnosis.window.end, back=back))
    return made
