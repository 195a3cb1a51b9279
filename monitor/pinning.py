"""Pinning a baseline: reading its weeks, refusing what is too small, freezing the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from monitor import windows
from monitor.adapters import Monitor
from monitor.baselines import Baseline, Refusal, edges_of, refusal
from monitor.collecting import read
from monitor.counts import Counts, pool
from monitor.records import Window
from monitor.rules.model import Config
from monitor.warehouse.reader import RelationError, WarehouseFailed, WarehouseTimeout


@dataclass(frozen=True, slots=True)
class Pinned:
    """What pinning gave: new versions, the labels that were refused with the count, the sources that were not read.

    ``unread`` maps such a source to the reason in words.
    """

    baselines: tuple[Baseline, ...]
    refusals: tuple[Refusal, ...]
    unread: Mapping[str, str] = field(default_factory=dict)


def default_span(config: Config, now: datetime) -> tuple[Window, Window]:
    """The last ``baseline.weeks`` ready weeks."""
    last = windows.last_ready("weekly", now, config.zone)
    before = windows.before(last, config.baseline.weeks - 1, config.zone)
    return (before[-1] if before else last), last


def pin(
    monitor: Monitor,
    first: Window,
    last: Window,
    *,
    by: str,
    reason: str,
    label: str | None = None,
    sources: Sequence[str] | None = None,
    try_again: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Pinned:
    """Freeze the weeks from ``first`` to ``last`` as a new version of each label's baseline.

    With ``label`` only that label of each source that has it: the versions of the others stay.
    A source that cannot be read stops no other. With ``try_again`` a warehouse that does not answer
    raises WarehouseFailed instead, and nothing is pinned: for a caller that will try again.
    """
    found: list[Baseline] = []
    refusals: list[Refusal] = []
    unread: dict[str, str] = {}
    for name in sources or monitor.config.sources:
        progress(f"reading {name}")
        try:
            samples = _weeks(monitor, name, first, last)
        except (RelationError, WarehouseFailed) as error:
            if try_again and isinstance(error, WarehouseFailed) and not isinstance(error, WarehouseTimeout):
                raise
            unread[name] = _said(error)
            continue
        for each, counts in _wanted(samples, label):
            too_few = refusal(name, each, counts, monitor.config.baseline.min_pairs)
            if too_few is not None:
                refusals.append(too_few)
            else:
                found.append(_freeze(monitor, name, each, counts, first, last, by, reason))
    monitor.store.save_baselines(found)
    return Pinned(tuple(found), tuple(refusals), unread)


def _said(error: RelationError | WarehouseFailed) -> str:
    """The error without the source's name, under which it is kept."""
    if isinstance(error, RelationError):
        return "; ".join(f"{problem.message}: {problem.remedy}" for problem in error.problems)
    return str(error)


def _weeks(monitor: Monitor, source: str, first: Window, last: Window) -> dict[str | None, Counts]:
    """The weeks of one source as one sample a label."""
    parts: dict[str | None, list[Counts]] = {}
    baselines = monitor.store.latest_baselines(source)
    for window in windows.span(first, last, monitor.config.zone):
        for label, counts in read(monitor, window, source, baselines, store=True)[1].labels.items():
            parts.setdefault(label, []).append(counts)
    return {label: pool(counts) for label, counts in parts.items()}


def _wanted(samples: dict[str | None, Counts], label: str | None) -> Iterator[tuple[str | None, Counts]]:
    for each in sorted(samples, key=lambda name: (name is None, name or "")):
        if label is None or each == label:
            yield each, samples[each]


def _freeze(
    monitor: Monitor, source: str, label: str | None, counts: Counts, first: Window, last: Window, by: str, reason: str
) -> Baseline:
    latest = monitor.store.latest_baselines(source).get(label)
    return Baseline(
        source=source, label=label, version=1 if latest is None else latest.version + 1,
        start=first.start, end=last.end, first_window=first.name, last_window=last.name,
        counts=counts, edges=edges_of(counts, monitor.config.evaluation),
        pinned_at=monitor.clock(), pinned_by=by, reason=reason,
    )  # fmt: skip
