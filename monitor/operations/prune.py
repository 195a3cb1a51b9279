"""Removing old details from the history. It must keep whatever later runs read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from monitor.alerting.health.issues import FAILED_NOTE
from monitor.config.model import Config
from monitor.core import windows
from monitor.core.records import SCHEDULES, Window
from monitor.evaluation.baseline_checks import AROUND
from monitor.history.errors import StoreUnreachable
from monitor.history.prune import Removed, Retention
from monitor.history.store import Store
from monitor.inference.sequential import LONGEST
from monitor.metrics.names import CONTRACT
from monitor.operations.measure_maturity import RESTATED

WEEKS_OF_COUNTS = LONGEST + RESTATED["weekly"]
"""The fewest weeks of counts to keep: a replay of a year, and a year of evidence before a restated week."""


DETAILS_OF_DAYS = 8
"""For how many weeks estimates of days are kept that no rule judges: they are most of a young history."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed (with ``dry_run``: would be), and the size of the history before and after, in bytes.

    ``shrunk``: the SQLite file was rewritten to its smaller size. ``in_the_way`` says why it could not be, although
    much of it is free.
    """

    removed: Removed
    keep: Retention
    dry_run: bool
    before: int
    after: int
    shrunk: bool = False
    in_the_way: str = ""


def retention(store: Store, config: Config, now: datetime) -> Retention:
    """What is kept: metrics of present rules and of stored verdicts, of weeks the contract's, and counts runs may need.

    Weeks are counted back from the last ready one.
    """
    named = {each: {r.measure for r in config.rules_for(each)} | store.judged_measures(each) for each in SCHEDULES}
    details = _before(config, now, config.history.keep_details).start
    days = _before(config, now, config.history.keep_day_counts).start
    weeks = max(config.history.keep_details, WEEKS_OF_COUNTS, config.baseline.weeks + AROUND)
    return Retention(
        details_from={"weekly": details, "daily": _before(config, now, DETAILS_OF_DAYS).start},
        counts_from={"weekly": _before(config, now, weeks).start, "daily": days},
        metrics={"weekly": frozenset({*CONTRACT, *named["weekly"]}), "daily": frozenset(named["daily"])},
        of_segments={
            each: frozenset(rule.measure for rule in config.rules_for(each) if rule.scope == "segments")
            for each in SCHEDULES
        },
        tests={each: frozenset(measures) for each, measures in named.items()},
    )


def _before(config: Config, now: datetime, weeks: int) -> Window:
    return windows.before(windows.last_ready("weekly", now, config.zone), weeks, config.zone)[-1]


def prune(
    store: Store,
    config: Config,
    now: datetime,
    *,
    dry_run: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Pruned:
    """Remove old details window by window, each in one transaction; ``progress`` gets each. Raises HistoryError."""
    keep, before = retention(store, config, now), store.size()
    removed = Removed()
    if not dry_run:
        store.drop_note(
            f"{FAILED_NOTE}calmon-prune"
        )  # pruning is tried again now; if it fails, the flow's hook leaves the note again
    for schedule, start in store.windows_due(keep):
        progress(f"{schedule} {start.astimezone(config.zone):%Y-%m-%d}")
        due = store.due_of(schedule, start, keep) if dry_run else store.remove_details(schedule, start, keep, now)
        removed += due
    if dry_run:
        return Pruned(removed, keep, dry_run, before, before)
    shrunk, in_the_way = False, ""
    try:
        shrunk = store.shrink()
    except StoreUnreachable as error:
        in_the_way = str(error)
    return Pruned(removed, keep, dry_run, before, store.size(), shrunk, in_the_way)
