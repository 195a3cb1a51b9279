"""Pinning a baseline: reading its weeks, refusing what is too small, freezing the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from monitor import windows
from monitor.adapters import Monitor
from monitor.baselines import Baseline, Refusal, edges_of, refusal
from monitor.collecting import read, with_whole
from monitor.counts import Counts, pool
from monitor.records import Window


@dataclass(frozen=True, slots=True)
class Pinned:
    """What pinning gave: new versions, and the labels that were refused with the count."""

    baselines: tuple[Baseline, ...]
    refusals: tuple[Refusal, ...]


def default_span(monitor: Monitor) -> tuple[Window, Window]:
    """The last ``baseline.weeks`` ready weeks."""
    last = windows.last_ready("weekly", monitor.clock(), monitor.config.zone)
    before = windows.before(last, monitor.config.baseline.weeks - 1, monitor.config.zone)
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
    progress: Callable[[str], None] = lambda _: None,
) -> Pinned:
    """Freeze the weeks from ``first`` to ``last`` as a new version of each label's baseline.

    With ``label`` only that label of each source that has it: the versions of the others stay.
    Raises WarehouseFailed or RelationError where a source cannot be read, and then pins nothing.
    """
    found: list[Baseline] = []
    refusals: list[Refusal] = []
    for name in sources or monitor.config.sources:
        progress(f"reading {name}")
        for each, counts in _wanted(_weeks(monitor, name, first, last), label):
            too_few = refusal(name, each, counts, monitor.config.baseline.min_pairs)
            if too_few is not None:
                refusals.append(too_few)
            else:
                found.append(_freeze(monitor, name, each, counts, first, last, by, reason))
    monitor.store.save_baselines(found)
    return Pinned(tuple(found), tuple(refusals))


def _weeks(monitor: Monitor, source: str, first: Window, last: Window) -> dict[str | None, Counts]:
    """The weeks of one source as one sample a label."""
    parts: dict[str | None, list[Counts]] = {}
    for window in windows.span(first, last, monitor.config.zone):
        for label, counts in with_whole(read(monitor, window, source, store=True)).labels.items():
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
