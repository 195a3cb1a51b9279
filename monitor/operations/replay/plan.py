"""The plan of a replay: which windows of which sources both files judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from monitor.config.model import Config, Rule, SourceConfig
from monitor.core import windows
from monitor.core.records import SCHEDULES, Schedule, Window, WrongRequest
from monitor.operations.replay.model import SideName

_READ_BY = (
    "relation",
    "columns",
    "score_is",
    "window_on",
    "kind",
    "score",
    *sorted(SourceConfig.SHAPE - {"unresolved"}),
)
"""A change of these changes the counts."""


@dataclass(frozen=True, slots=True)
class Part:
    """One source on one schedule, and the windows to judge, oldest first."""

    schedule: Schedule
    source: str
    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ReplayPlan:
    """What to replay: both files, the weeks, and the work in parts."""

    present: Config
    proposed: Config
    weeks: tuple[Window, ...]
    parts: tuple[Part, ...]

    @property
    def total(self) -> int:
        """The number of progress steps: the windows of all parts."""
        return sum(len(part.windows) for part in self.parts)

    @property
    def files(self) -> dict[SideName, Config]:
        """Both files."""
        return {"present": self.present, "proposed": self.proposed}

    def rules(self, part: Part) -> Iterator[tuple[SideName, Rule]]:
        """The rules of both files that may be about a part."""
        for side, config in self.files.items():
            for rule in config.rules_for(part.schedule) if part.source in config.sources else ():
                if rule.match.source in (None, part.source):
                    yield side, rule


def plan_of(
    present: Config, proposed: Config, last: Window, weeks: int, *, sources: Sequence[str] | None = None
) -> ReplayPlan:
    """The plan for ``weeks`` weeks up to ``last``, and for their days if a file has daily rules.

    Raises :class:`WrongRequest` if the proposed file would read other counts than the stored ones.
    """
    if present.timezone != proposed.timezone:
        raise WrongRequest(
            f"the files have different time zones ({present.timezone} and {proposed.timezone}), so their weeks are not "
            "the same: give both the same timezone"
        )
    names = [name for name in {**present.sources, **proposed.sources} if sources is None or name in sources]
    for name in names:
        _refuse_other_reading(name, present.sources.get(name), proposed.sources.get(name))
    span = tuple(windows.up_to(last, weeks, present.zone))
    first = windows.containing("daily", span[0].start, present.zone)
    newest = windows.previous(windows.containing("daily", span[-1].end, present.zone), present.zone)
    days = tuple(windows.span(first, newest, present.zone))
    parts = tuple(
        Part(schedule, name, span if schedule == "weekly" else days)
        for schedule in SCHEDULES
        for name in names
        if any(name in config.sources and config.rules_for(schedule) for config in (present, proposed))
    )
    return ReplayPlan(present, proposed, span, parts)


def _refuse_other_reading(name: str, present: SourceConfig | None, proposed: SourceConfig | None) -> None:
    if present is None or proposed is None:
        return
    other = [key for key in _READ_BY if getattr(present, key) != getattr(proposed, key)]
    if other:
        raise WrongRequest(
            f"source {name}: {', '.join(other)} differs, and what the history holds was read by the present file: "
            "replay with the present one, or backfill with the new file into a history of its own"
        )
