"""What else changed when a trouble began: a model version, the mix of rows or of classes, or what was noted. Pure.

A cause must begin within one window of the trouble, and explain a fifth of the change or more against rows that do not
have it. A version that all rows have has no such rows: the break must come with it, and be larger than those that the
label has anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from monitor.core.counts import Floats
from monitor.core.diagnoses import LikelyCause, Segment, Since
from monitor.core.promises import APART, PastWindow, pooled_promise
from monitor.core.records import SCORE_BAND, Annotation
from monitor.core.wording import percent
from monitor.evaluation.weekly_evidence import NEARLY_ALL, WeeklyEvidence, breaks_at, changes, mean_of
from monitor.inference.class_mix import class_mix, in_bands

LEAST_SHARE = 0.2
ARRIVED = 0.1
"""The share of a window's rows from which a model version has arrived."""
NEAR = 1
"""An annotation is at most so many windows before the trouble, as is a model version: few rows have it at first."""
SURE, LIKELY = 3.0, 2.0
"""How many standard deviations what a cause explains must be away from 0; fewer if it is one that arrived just then."""
MIX_WINDOWS = 4
"""The mix of rows is compared over so many windows before and after the trouble began, at most."""
VERSION = "model_version"


@dataclass(frozen=True, slots=True)
class _Around:
    """A trouble of the label (and ``segment``) that began in the window of index ``at``; ``total`` is its change.

    ``history`` has the windows of earlier troubles too, which ``evidence`` is without.
    """

    evidence: WeeklyEvidence
    history: WeeklyEvidence
    at: int
    segment: Segment | None
    total: float


def likely_cause(
    label: str | None,
    evidence: WeeklyEvidence,
    history: WeeklyEvidence,
    since: Since,
    segment: Segment | None,
    windows: Sequence[PastWindow],
    annotations: Sequence[Annotation],
) -> LikelyCause | None:
    """The cause of a trouble that began at ``since``, mostly in ``segment`` if there is one; None if none is likely."""
    if since.window not in evidence.windows:
        return None
    at = evidence.windows.index(since.window)
    line = 0 if segment is None else 1 + evidence.segments.index(segment)
    total = float(changes(evidence.value[:1], evidence.variance[:1])[0][0, at])
    if line:
        total = max(total, float(evidence.share[line - 1, at:].mean() * evidence.value[line, at:].mean()))
    around = _Around(evidence, history, at, segment, total)
    # of the rows of each window, by model version of the label
    shares = {value: history.share[k] for k, (column, value) in enumerate(history.segments) if column == VERSION}
    if (
        not shares
    ):  # versions are no segments: 1 for that of most rows of the source, if the label surely has rows of it
        own = {version for window in windows for version in window.versions if window.surely_has(label, version)}
        main = {window.window.name: window.main_version for window in windows}
        alone = [main.get(name) for name in history.windows]
        shares = {v: np.array([float(each == v) for each in alone]) for v in dict.fromkeys(alone) if v in own}
    return next(_causes(label, around, shares, windows, annotations), None)


def _causes(
    label: str | None,
    around: _Around,
    shares: Mapping[str, Floats],
    windows: Sequence[PastWindow],
    annotations: Sequence[Annotation],
) -> Iterator[LikelyCause]:
    known = {name: place for place, name in enumerate(around.evidence.windows)}
    spans = {each.window.name: each.window for each in windows}
    begins = spans[around.evidence.windows[around.at]].start
    for version, arrived in arrivals(shares).items():
        first = around.history.windows[arrived]
        place = known.get(first)  # None: it came with an earlier trouble
        before = spans[around.history.windows[arrived - 1]].end
        unseen = [each for each in windows if before <= each.window.start < spans[first].start]
        came = next((each.window for each in unseen if _has(version, label, each)), spans[first])
        if place is not None and came.start <= begins <= came.end:  # with the trouble or just before it
            yield from _version(around, version, place, came.name)
    yield from _mix(around)
    yield from _class_mix(around, label, windows)
    yield from _annotation(around, windows, annotations)


# --- model versions


def arrivals(shares: Mapping[str, Floats]) -> dict[str, int]:
    """The index of the window in which each version arrived; one that was there from the first window never did.

    >>> arrivals({"1": np.array([1.0, 0.6, 0.0]), "2": np.array([0.0, 0.4, 1.0])})
    {'2': 1}
    """
    first = {version: int((share >= ARRIVED).argmax()) for version, share in shares.items() if (share >= ARRIVED).any()}
    return {version: at for version, at in first.items() if at > 0}


def _has(version: str, label: str | None, window: PastWindow) -> bool:
    """Whether a window that is no evidence has a version all the same: in the label's rows, else in its source's."""
    parts = window.segments.get(label, {})
    own = {value: part["all"].rows for (column, value), part in parts.items() if column == VERSION and "all" in part}
    rows = own or window.versions
    return rows.get(version, 0) >= ARRIVED * sum(rows.values()) > 0


def _version(around: _Around, version: str, place: int, name: str) -> Iterator[LikelyCause]:
    evidence = around.evidence
    line = {segment: k for k, segment in enumerate(evidence.segments)}.get((VERSION, version))
    if line is not None and float(evidence.share[line, place:].mean()) <= NEARLY_ALL:
        # the share of the change that it explains against the other rows since then, and whether that is sure
        gap, noise = (of[line, place:] for of in evidence.against(evidence.rest()))
        known, share, is_sure = np.isfinite(noise), 0.0, False
        if known.any():
            mean, certainty = mean_of(gap[known], noise[known])
            share = mean * float(evidence.share[line, place:].mean()) / max(around.total, 1e-9)
            is_sure = mean > LIKELY * certainty**-0.5
        if around.segment == (VERSION, version) or (is_sure and share >= LEAST_SHARE):
            yield LikelyCause("version", version, name, min(share, 1.0))
    elif _comes_with(around, place):
        others_too = False
        if line is not None and LEAST_SHARE <= float(evidence.share[line, place]) <= NEARLY_ALL:
            # rows without the version, in a window in which only some had it, surely were not better than its rows
            gap, noise = (of[line, place] for of in evidence.against(evidence.rest()))
            others_too = bool(gap + 2 * np.sqrt(noise) < LEAST_SHARE * around.total)
        if not others_too:
            yield LikelyCause("version", version, name)


def _comes_with(around: _Around, place: int) -> bool:
    """Whether the label breaks where something came, or one window later, as it did at no time before."""
    at = max(place, around.at)
    name = around.evidence.windows[at]
    line = 0
    if around.segment in around.history.segments:
        line = 1 + around.history.segments.index(around.segment)
    return name in around.history.windows and breaks_at(around.history, line, around.history.windows.index(name))


# --- the mix of rows


def _mix(around: _Around) -> Iterator[LikelyCause]:
    """The column whose changed shares explain most, where that is enough, with the value that adds most."""
    columns = {column for column, _ in around.evidence.segments} - {VERSION, SCORE_BAND}
    made = [_mix_of(around, column) for column in sorted(columns)] if around.at > 0 else []
    share, value = max((each for each in made if each is not None), default=(0.0, ""))
    if share >= LEAST_SHARE:
        yield LikelyCause("mix", value, around.evidence.windows[around.at], min(share, 1.0))


def _mix_of(around: _Around, column: str) -> tuple[float, str] | None:
    """The share of the change that a column's changed shares explain, if that is sure, and "column=value".

    The values have the level that they had before; a new one has its own.
    """
    evidence, at = around.evidence, around.at
    lines = np.array([k for k, segment in enumerate(evidence.segments) if segment[0] == column])
    before = slice(max(0, at - MIX_WINDOWS), at)
    after = slice(at, at + MIX_WINDOWS)
    rows = evidence.rows[1:][lines]
    then, now = (rows[:, span].sum(axis=1) / max(rows[:, span].sum(), 1e-9) for span in (before, after))
    level, noise = _levels(evidence, lines, slice(0, at))
    new, _ = _levels(evidence, lines, slice(at, None))
    known = np.isfinite(noise)
    whole, _ = _levels(evidence, np.array([-1]), slice(0, at))
    parts = (now - then) * (np.where(known, level, new) - whole)
    sampling = (now * (1 - now)) / max(rows[:, after].sum(), 1.0)
    deviation = np.sqrt(
        ((now - then)[known] ** 2 @ noise[known]) + sampling @ (np.where(known, level, new) - whole) ** 2
    )
    explained = float(parts.sum())
    if around.total <= 0 or explained <= SURE * deviation:
        return None
    _, value = evidence.segments[int(lines[parts.argmax()])]
    return explained / around.total, f"{column}={value}"


def _levels(evidence: WeeklyEvidence, lines: Floats, span: slice) -> tuple[Floats, Floats]:
    """The mean value of some segments (-1: the label) over some windows, and its variance."""
    variance = evidence.variance[1 + lines, span]
    weight = np.where(np.isfinite(variance), 1 / variance, 0.0)
    total = weight.sum(axis=1)
    with np.errstate(divide="ignore"):
        mean = (weight * evidence.value[1 + lines, span]).sum(axis=1) / np.maximum(total, 1e-9)
        return mean, np.asarray(1 / total)


# --- the share of true items


def _class_mix(around: _Around, label: str | None, windows: Sequence[PastWindow]) -> Iterator[LikelyCause]:
    """Another share of true items, where nothing else changed in the label's scores and it explains enough.

    All rows tell whether it is so; the odds of a hit then change by one factor in each band of the rows in trouble.
    Nothing is said where the share of true items is an accuracy: of confidence in a decision, or of given labels only.
    """
    evidence, at = around.evidence, around.at
    used = [window for window in windows if window.window.name in evidence.windows]
    if not all(_has_classes(label, window) for window in used):
        return
    tables = []
    for windows_of in (used[:at], used[at:]):
        parts = [window.segments.get(label, {}) for window in windows_of]
        every = {name: [part.get((SCORE_BAND, name), {}).get("all") for part in parts] for name in APART}
        known = {name: [each for each in of if each is not None] for name, of in every.items()}
        tables.append(in_bands({name: pooled_promise(of) for name, of in known.items() if of}))
    then, now = tables
    mix = class_mix(now, then) if then.w.sum() > 0 and now.w.sum() > 0 else None
    if mix is None or not mix.only_share_changed:
        return
    lines = [1 + k for k, (column, name) in enumerate(evidence.segments) if column == SCORE_BAND and name in APART]
    rows, kept = evidence.rows[lines], evidence.kept[lines]
    before = (rows * kept)[:, :at].sum(axis=1) / np.maximum(rows[:, :at].sum(axis=1), 1e-9)
    true, others = before * mix.told / mix.then, (1 - before) * (1 - mix.told) / (1 - mix.then)
    worse = rows[:, at:].sum(axis=1) @ (before - true / (true + others)) / max(rows[:, at:].sum(), 1e-9)
    share = evidence.sign * float(worse) / max(around.total, 1e-9)
    if share >= LEAST_SHARE:
        what = f"{percent(mix.then)} to {percent(mix.now)}"
        yield LikelyCause("class_mix", what, evidence.windows[at], min(share, 1.0))


def _has_classes(label: str | None, window: PastWindow) -> bool:
    every, given = (window.promise(label, where) for where in ("all", "predicted"))
    is_of_label = (window.settings or {}).get("score_is") == "probability_of_label"
    return is_of_label and every is not None and (given is None or given.rows < every.rows)


# --- what people noted


def _annotation(
    around: _Around, windows: Sequence[PastWindow], annotations: Sequence[Annotation]
) -> Iterator[LikelyCause]:
    """The annotation nearest to the beginning of the trouble, and no later, where a break came with it."""
    window = next(each.window for each in windows if each.window.name == around.evidence.windows[around.at])
    length = window.end - window.start
    near = [note for note in annotations if window.start - NEAR * length <= note.at < window.end]
    if near and _comes_with(around, around.at):
        nearest = min(near, key=lambda note: max(window.start - note.at, note.at - window.end, timedelta()))
        yield LikelyCause("annotation", nearest.text, f"{nearest.at:%Y-%m-%d}")
