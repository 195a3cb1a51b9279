"""From which score a label could act at a past time: the published scores, with every later publication undone. Pure.

A gate refuses what is below the published score, whatever ``automate_at`` says in an alerts.yaml: a lower one counts
only once a person has published it, and a higher one from the run on that publishes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Protocol


class ScoreChange(Protocol):
    """The change of one score: the fields of a ``ThresholdChange`` of the history. A score of None: never."""

    @property
    def source(self) -> str: ...  # noqa: D102
    @property
    def label(self) -> str | None: ...  # noqa: D102
    @property
    def before(self) -> float | None: ...  # noqa: D102


class Publishing(Protocol):
    """One publication of scores: the fields of a ``Publication`` of the history that are needed here."""

    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def at(self) -> datetime: ...  # noqa: D102
    @property
    def changes(self) -> Sequence[ScoreChange]: ...  # noqa: D102


Span = tuple[datetime, datetime, float | None]
"""From when until when a label acted from which score; None: from none, the gate was closed."""


@dataclass(frozen=True)
class PublishedScores:
    """The published scores ``now``, by (source, label; None: labels without their own), and how they came about.

    ``publications`` are all entries, the newest first.
    """

    now: Mapping[tuple[str, str | None], float]
    publications: Sequence[Publishing]

    def spans(self, source: str, label: str, start: datetime, end: datetime) -> list[Span]:
        """The spans of ``start <= t < end`` with the score from which the label acted; empty if nothing is known."""
        if not self.now and not self.publications:
            return []
        whole, own = self.now.get((source, None)), self.now.get((source, label))
        score, is_own = (whole, False) if own is None else (own, True)
        until, found = end, list[Span]()
        for at, changes in self._changes.get(source, ()):
            if at <= start:
                break
            change = changes.get(label) or (None if is_own else changes.get(None))
            whole = changes[None].before if None in changes else whole
            if change is None:
                continue
            if at < until:
                found.append((at, until, score))
                until = at
            if label in changes:  # without a score of its own afterwards it had one before
                is_own = not is_own or change.before != whole
            score = change.before
        return [(start, until, score), *found[::-1]]

    @cached_property
    def _changes(self) -> dict[str, list[tuple[datetime, dict[str | None, ScoreChange]]]]:
        """When the scores of each source changed, newest first, with the changes by label; refusals changed none."""
        found: dict[str, list[tuple[datetime, dict[str | None, ScoreChange]]]] = {}
        for entry in self.publications:
            by_source: dict[str, dict[str | None, ScoreChange]] = {}
            for change in () if entry.kind == "refused" else entry.changes:
                by_source.setdefault(change.source, {})[change.label] = change
            for source, changes in by_source.items():
                found.setdefault(source, []).append((entry.at, changes))
        return found


NOT_KNOWN = PublishedScores({}, ())
"""Of a history in which nothing was published."""
