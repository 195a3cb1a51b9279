"""Why a label's calibration changed: the segments whose traffic or calibration changed, and what each explains. Pure.

The unit is a cell: the rows that have the same value in every segment column and, for the ECE, lie in the same bin.
Each cell has a mean of q = sign (outcome - score) in the window and in the baseline. For the overconfidence the sign is
-1; for the ECE it is that of the bin's gap, so that the mean of q over all rows is the metric itself and every sum over
cells is exactly additive. A value that the baseline does not have is compared with the baseline's rows that agree in
the other columns.

A segment is a candidate by how much more its q has changed than that of the other rows (weighted least squares, with
the variance of both spans), never by its size: where everything got worse alike, no segment is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy  # submodules are loaded at first use, and most commands never use them

from monitor.core.causes import Cause, CauseKind, Causes, ChangePart, Split
from monitor.core.counts import CELLS, Bools, Counts, Floats, Ints, pool
from monitor.core.counts_by_segment import CountsBySegment, Segment
from monitor.inference.multiplicity import adjust

if TYPE_CHECKING:
    from monitor.core.records import Where

Metric = Literal["overconfidence", "ece"]
MOST_CAUSES = 3
LEAST_SHARE = 0.2
"""A cause explains at least this share of the change."""
MIN_ROWS = 50
"""The effective rows that a segment needs in the window, and that a value needs in the baseline to be known."""
NEARLY_ALL = 0.98
"""A segment with a larger share of the rows leaves no other rows to compare with."""
PAIR_PENALTY = 8.0
"""By how much the chi-square of a pair must exceed that of a single segment: there are many more pairs."""
CELLS_AT_MOST = 3_000
_IN_FAVOUR = 6.0  # added to the chi-square of "only the new value changed", times its share beyond a half
_SHRINK = 50.0  # rows with the variance of the bin that are added to a cell's own
_DIRECTION = {"overconfidence": -1.0}


@dataclass(frozen=True, slots=True, eq=False)
class _Span:
    """The cells of one span, arrays of shape (J,): ``gap`` is the mean of outcome - score, ``noise`` its variance."""

    values: Ints  # (J, columns): codes of the segment values
    bin: Ints
    share: Floats
    gap: Floats
    spread: Floats
    noise: Floats
    rows: Floats  # effective

    def level(self, sign: Floats) -> Floats:
        """Mean of q in each cell."""
        return np.asarray(sign[self.bin] * self.gap)


@dataclass(frozen=True, slots=True, eq=False)
class _Change:
    """Both spans and how they are compared; ``reference`` (J, I) weights the baseline's cells for each cell now."""

    columns: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    now: _Span
    then: _Span
    sign: Floats
    sign_then: Floats
    toward: Floats
    reference: Any
    known: tuple[Bools, ...]  # per column: whether the baseline knows the value

    @property
    def difference(self) -> Floats:
        """The mean of q in each cell now minus that of its reference, both with today's signs."""
        return np.asarray(self.now.level(self.toward) - self.reference @ self.then.level(self.toward))

    @property
    def total(self) -> float:
        """The change of the metric."""
        now, then = self.now, self.then
        return float(now.share @ now.level(self.sign) - then.share @ then.level(self.sign_then))


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """Segments that may be causes, with the cells that belong to each, shape (J, K)."""

    segments: tuple[Segment, ...]
    within: Floats


def find_causes(
    now: CountsBySegment,
    then: CountsBySegment,
    *,
    metric: Metric,
    where: Where = "all",
    edges: Sequence[int] = (CELLS,),
    rate: float = 0.01,
    confidence: float = 0.95,
) -> Causes | None:
    """The likely causes of the change of ``metric`` from ``then`` (the baseline) to ``now``.

    ``edges`` are the upper edges of the ECE's bins, in cells. Candidates are one family at the false discovery rate
    ``rate``. None where either span has no row of the population ``where``.
    """
    now, then = _same_columns(now, then)
    change = _prepared(now, then, metric, where, edges if metric == "ece" else (CELLS,))
    if change is None:
        return None
    z = float(scipy.special.ndtri(0.5 + confidence / 2))
    total = _interval(change.total, _total_noise(change), z)
    splits = [_split(change, column, z) for column in range(len(change.columns))]
    found = Causes(metric, total, tuple(split for split, _ in splits), columns=change.columns)
    if not _is_significant(change, confidence):
        return found
    named = _named(change, [noise for _, noise in splits], found.splits, rate, z)
    kept = sorted(named, key=lambda cause: -cause.share)[:MOST_CAUSES]
    return replace(found, causes=tuple(kept))


# --- preparing


def _same_columns(now: CountsBySegment, then: CountsBySegment) -> tuple[CountsBySegment, CountsBySegment]:
    """Both with their common columns only; while there are too many cells, the column with most values is dropped."""
    for column in set(now.columns) ^ set(then.columns):
        now, then = (_without(s, s.columns.index(column)) if column in s.columns else s for s in (now, then))
    while len(now.columns) > 1 and max(len(now.parts), len(then.parts)) * 2 > CELLS_AT_MOST:
        counts = [len({key[at] for key in now.parts}) for at in range(len(now.columns))]
        drop = int(np.argmax(counts))
        now, then = _without(now, drop), _without(then, drop)
    return now, then


def _without(spans: CountsBySegment, drop: int) -> CountsBySegment:
    grouped: dict[tuple[str, ...], list[Counts]] = {}
    for key, counts in spans.parts.items():
        grouped.setdefault((*key[:drop], *key[drop + 1 :]), []).append(counts)
    columns = (*spans.columns[:drop], *spans.columns[drop + 1 :])
    return CountsBySegment(columns, {key: pool(parts) for key, parts in grouped.items()})


def _prepared(
    now: CountsBySegment, then: CountsBySegment, metric: Metric, where: Where, edges: Sequence[int]
) -> _Change | None:
    keys = [*now.parts, *then.parts]
    names = tuple(tuple(sorted({key[at] for key in keys})) for at in range(len(now.columns)))
    first, second = (_span(spans, names, where, edges) for spans in (now, then))
    if first is None or second is None:
        return None
    signs = [np.full(len(edges), _DIRECTION[metric]) if metric in _DIRECTION else _signs(s) for s in (first, second)]
    signs = [np.resize(sign, len(edges)) for sign in signs]
    known = tuple(
        np.bincount(second.values[:, at], weights=second.rows, minlength=len(values)) >= MIN_ROWS
        for at, values in enumerate(names)
    )
    reference = _reference(first, second, known)
    toward = signs[0] if metric in _DIRECTION else _likely_signs(first, len(edges))
    return _Change(now.columns, names, first, second, signs[0], signs[1], toward, reference, known)


def _span(spans: CountsBySegment, names: Sequence[Sequence[str]], where: Where, edges: Sequence[int]) -> _Span | None:
    """The cells with rows, each with its variance shrunk towards that of its bin; None without rows."""
    codes = [{value: code for code, value in enumerate(values)} for values in names]
    lines: list[Floats] = []
    values: list[list[int]] = []
    for key, counts in sorted(spans.parts.items()):
        chosen = counts.where(where)
        if not chosen.rows:
            continue
        at = np.searchsorted(np.asarray(edges), chosen.cell, side="left")
        columns = (chosen.w, chosen.w2 * chosen.design_effect, chosen.ws, chosen.wy, chosen.wsy, chosen.ws2)
        sums = np.array([np.bincount(at, weights=column, minlength=len(edges)) for column in columns])
        for place in np.flatnonzero(sums[0] > 0):
            lines.append(np.concatenate([[float(place)], sums[:, place]]))
            values.append([codes[column][value] for column, value in enumerate(key)])
    if not lines:
        return None
    place, w, w2, ws, wy, wsy, ws2 = np.array(lines).T
    bins, gap, rows = place.astype(np.int64), (wy - ws) / w, w**2 / w2
    cell_spread = np.maximum(0.0, (ws2 - 2 * wsy + wy) / w - gap**2)
    # a cell of one row has no spread of its own; the bin has that of all its rows
    by_bin = [np.bincount(bins, weights=part, minlength=len(edges))[bins] for part in (w, wy - ws, ws2 - 2 * wsy + wy)]
    usual = np.maximum(0.0, by_bin[2] / by_bin[0] - (by_bin[1] / by_bin[0]) ** 2)
    spread = (cell_spread * rows + usual * _SHRINK) / (rows + _SHRINK)
    codes_of = np.array(values, dtype=np.int64).reshape(len(lines), len(names))
    return _Span(codes_of, bins, w / w.sum(), gap, spread, spread / rows, rows)


def _signs(span: _Span) -> Floats:
    """The sign of each bin's gap; 1 without rows."""
    totals = np.bincount(span.bin, weights=span.share * span.gap)
    return np.where(totals < 0, -1.0, 1.0)


def _likely_signs(span: _Span, bins: int) -> Floats:
    """The likelier sign of each bin's true gap, where true gaps are normal about a straight line over the bins.

    A bin with few rows and a small gap has either sign by chance; here it takes that of the line. The variance about
    the line is by moments, as that of DerSimonian and Laird (1986). A bin without rows has 1. Shape (bins,).
    """
    weight = np.bincount(span.bin, weights=span.share, minlength=bins)
    held = np.flatnonzero(weight > 0)
    gap = np.bincount(span.bin, weights=span.share * span.gap, minlength=bins)[held] / weight[held]
    noise = np.bincount(span.bin, weights=span.share**2 * span.noise, minlength=bins)[held] / weight[held] ** 2
    exact = 1 / np.maximum(noise, 1e-12)
    line, hat = _line(held, exact)
    misfit = float(exact @ (gap - line @ (hat @ gap)) ** 2) - (len(held) - np.linalg.matrix_rank(line))
    between = max(0.0, misfit / max(float(exact.sum() - np.trace(hat @ (exact[:, None] * line))), 1e-12))
    line, hat = _line(held, 1 / (1 / exact + between))
    sign = np.ones(bins)
    sign[held] = np.where(between * gap + line @ (hat @ gap) / exact < 0, -1.0, 1.0)
    return sign


def _line(at: Ints, weight: Floats) -> tuple[Floats, Floats]:
    """The design matrix of a line at ``at``, (M, 2), and the matrix that gives its WLS coefficients, (2, M)."""
    line = np.column_stack([np.ones(len(at)), at])
    return line, np.asarray(np.linalg.pinv(line.T @ (weight[:, None] * line)) @ (line.T * weight))


def _reference(now: _Span, then: _Span, known: Sequence[Bools]) -> Any:
    """The weights of the baseline's cells that each cell is compared with; rows sum to 1, sparse (J, I).

    These cells agree in the bin and in every column whose value the baseline knows; else those of the bin; else all.
    """
    places: list[Ints] = []
    masks: dict[tuple[int, ...], Ints] = {}
    for values, place in zip(now.values, now.bin, strict=True):
        codes = tuple(int(v) if known[at][v] else -1 for at, v in enumerate(values))
        key = (*codes, int(place))
        if key not in masks:
            same = then.bin == place
            agrees = same & np.all(
                [(v < 0) | (then.values[:, at] == v) for at, v in enumerate(codes)] or [same], axis=0
            )
            chosen = agrees if agrees.any() else same if same.any() else np.ones_like(same)
            masks[key] = np.flatnonzero(chosen)
        places.append(masks[key])
    weights = [then.share[found] / then.share[found].sum() for found in places]
    starts = np.concatenate([[0], np.cumsum([len(found) for found in places])])
    shape = (len(now.bin), len(then.bin))
    return scipy.sparse.csr_matrix((np.concatenate(weights), np.concatenate(places), starts), shape=shape)


# --- the change as a whole


def _interval(value: float, noise: float, z: float) -> ChangePart:
    half = z * float(np.sqrt(max(noise, 0.0)))
    return ChangePart(float(value), float(value - half), float(value + half))


def _total_noise(change: _Change) -> float:
    """Variance of the change: that of the outcomes, and that of the traffic mix."""
    noise = 0.0
    for span, sign in ((change.now, change.sign), (change.then, change.sign_then)):
        level, rows = span.level(sign), float(span.rows.sum())
        noise += float(span.share**2 @ span.noise) + float(span.share @ (level - span.share @ level) ** 2) / rows
    return noise


def _is_significant(change: _Change, confidence: float) -> bool:
    """Whether the metric has changed significantly, after what noise alone adds to an ECE is subtracted."""
    both = (change.now, change.sign, 1.0), (change.then, change.sign_then, -1.0)
    fair = change.total - sum(way * _noise_bias(span, sign) for span, sign, way in both)
    z = float(scipy.special.ndtri(0.5 + confidence / 2))
    return fair * change.total > 0 and abs(fair) > z * _total_noise(change) ** 0.5


def _noise_bias(span: _Span, sign: Floats) -> float:
    """By how much noise raises an ECE: E|gap + noise| - |gap| over the bins; an overconfidence is not raised."""
    if (sign < 0).all():
        return 0.0
    weight = np.bincount(span.bin, weights=span.share, minlength=len(sign))
    held = weight > 0
    gap = np.abs(np.bincount(span.bin, weights=span.share * span.gap, minlength=len(sign))[held] / weight[held])
    deviation = np.sqrt(
        np.bincount(span.bin, weights=span.share**2 * span.noise, minlength=len(sign))[held] / weight[held] ** 2
    )
    t = gap / np.maximum(deviation, 1e-12) / np.sqrt(2)
    raised = deviation * np.sqrt(2 / np.pi) * np.exp(-(t**2)) + gap * scipy.special.erf(t) - gap
    return float(weight[held] @ raised)


def _split(change: _Change, at: int, z: float) -> tuple[Split, float]:
    """Mix and rate of one column, exactly additive, and the variance of the mix.

    mix = sum (share now - share then) (level then - metric then); a value that the baseline does not know has the
    baseline's level.
    """
    now, then, names = change.now, change.then, change.names[at]
    share1, share0 = (np.bincount(s.values[:, at], weights=s.share, minlength=len(names)) for s in (now, then))
    level = then.level(change.sign_then)
    metric = float(then.share @ level)
    known = share0 > 0
    sums = np.bincount(then.values[:, at], weights=then.share * level, minlength=len(names))
    noises = np.bincount(then.values[:, at], weights=then.share**2 * then.noise, minlength=len(names))
    away = np.where(known, sums / np.where(known, share0, 1.0) - metric, 0.0)
    moved = share1 - share0
    mix = float(moved @ away)
    noise = float((moved[known] / share0[known]) ** 2 @ noises[known])
    for share, span in ((share1, now), (share0, then)):
        noise += float(share @ (away - share @ away) ** 2) / float(span.rows.sum())
    rate_noise = max(0.0, _total_noise(change) + noise)
    split = Split(
        change.columns[at],
        _interval(mix, noise, z),
        _interval(change.total - mix, rate_noise, z),
        names[int(np.argmax(moved * away * np.sign(mix or 1.0)))],
    )
    return split, noise


# --- candidates


def _candidates(change: _Change) -> _Candidates:
    """The single segments and pairs with enough rows that leave other rows to compare with."""
    now, names = change.now, change.names
    singles = [((at, code),) for at, values in enumerate(names) for code in range(len(values))]
    pairs = [(a, b) for (a,), (b,) in combinations(singles, 2) if a[0] != b[0]]
    segments: list[Segment] = []
    within: list[Floats] = []
    seen: set[bytes] = set()
    for parts in (*singles, *pairs):
        mask = np.all([now.values[:, at] == code for at, code in parts], axis=0)
        rows = float(now.rows[mask].sum())
        key = mask.tobytes()
        if rows < MIN_ROWS or float(now.share[mask].sum()) > NEARLY_ALL or key in seen:
            continue
        seen.add(key)
        segments.append(tuple((change.columns[at], names[at][code]) for at, code in parts))
        within.append(mask.astype(float))
    return _Candidates(tuple(segments), np.array(within).T if within else np.zeros((len(now.bin), 0)))


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """How much more the change is inside each candidate than outside, given those chosen before: shape (K,)."""

    more: Floats
    deviation: Floats

    @property
    def z(self) -> Floats:
        return np.divide(self.more, self.deviation, out=np.zeros_like(self.more), where=self.deviation > 0)


def _fit(change: _Change, within: Floats, chosen: Floats) -> _Fit:
    """Weighted least squares of the cells' changes on each candidate beside ``chosen`` (J, C), which has the constant.

    By Frisch and Waugh: what ``chosen`` explains of the candidate is subtracted first. The variance is that of the
    cells of both spans, so cells that share a reference do not count as independent.
    """
    weight = change.now.share[:, None]
    projected = np.linalg.lstsq(chosen.T @ (weight * chosen), chosen.T @ (weight * within), rcond=None)[0]
    free = within - chosen @ projected
    size = np.sum(weight * free**2, axis=0)
    line = np.divide(weight * free, size, out=np.zeros_like(free), where=size > 1e-9)
    back = (change.reference.T @ line).T
    noise = change.now.noise @ line**2 + back**2 @ change.then.noise
    return _Fit(np.asarray(change.difference @ line), np.sqrt(noise))


def _named(change: _Change, mix_noises: Sequence[float], splits: Sequence[Split], rate: float, z: float) -> list[Cause]:
    """The causes that are significant and explain enough, in the order in which they were found."""
    found: list[Cause] = _mixes(change, mix_noises, splits, rate, z)
    candidates = _candidates(change)
    chosen = np.ones((len(change.now.bin), 1))
    total = change.total
    for _ in range(MOST_CAUSES):
        if not candidates.segments:
            break
        fit = _fit(change, candidates.within, chosen)
        share = change.now.share @ candidates.within * fit.more / total
        p_values = scipy.special.ndtr(-fit.z * np.sign(total))
        adjusted = np.array(adjust(p_values.tolist(), 1))
        score = fit.z**2 - PAIR_PENALTY * np.array([len(segment) - 1 for segment in candidates.segments])
        fits = (adjusted < rate) & (share >= LEAST_SHARE)
        if not fits.any():
            break
        best = int(np.argmax(np.where(fits, score, -np.inf)))
        mask = candidates.within[:, best]
        part = _interval(share[best] * total, (fit.deviation[best] * float(change.now.share @ mask)) ** 2, z)
        found.append(_cause(change, "rate", candidates.segments[best], mask > 0, part, float(adjusted[best])))
        chosen = np.column_stack([chosen, mask])
    return [*found, *_replaced(change, chosen, found, rate, z)]


def _mixes(change: _Change, noises: Sequence[float], splits: Sequence[Split], rate: float, z: float) -> list[Cause]:
    """The column whose traffic explains most of the change, if that is enough; only one, since columns correlate."""
    if not splits:
        return []
    values = np.array([split.mix.value for split in splits]) * np.sign(change.total)
    deviation = np.sqrt(np.maximum(noises, 1e-18))
    adjusted = adjust(scipy.special.ndtr(-values / deviation).tolist(), 1)
    best = int(np.argmax(values))
    if adjusted[best] >= rate or values[best] < LEAST_SHARE * abs(change.total):
        return []
    split = splits[best]
    mask = change.now.values[:, best] == change.names[best].index(split.of)
    return [_cause(change, "mix", ((split.column, split.of),), mask, split.mix, float(adjusted[best]))]


def _replaced(change: _Change, chosen: Floats, found: Sequence[Cause], rate: float, z: float) -> list[Cause]:
    """A value that the baseline does not know, where "only its rows changed" fits better than "all changed alike".

    It need not have changed significantly more than the other rows, which may be few or none. At most one.
    """
    named = {cause.segment for cause in found}
    for at, column in enumerate(change.columns):
        shares = np.bincount(change.now.values[:, at], weights=change.now.share, minlength=len(change.names[at]))
        for code in np.argsort(-shares):
            segment = ((column, change.names[at][int(code)]),)
            if shares[code] < LEAST_SHARE or change.known[at][code] or segment in named:
                continue
            inside = (change.now.values[:, at] == code).astype(float)[:, None]
            new, old = (_fit(change, part, np.hstack([1 - part, chosen[:, 1:]])) for part in (inside, 1 - inside))
            contrast = _fit(change, inside, chosen)
            way, part = np.sign(change.total), float(new.more[0] * shares[code])
            p_value = float(scipy.special.ndtr(-new.z[0] * way))
            in_favour = _IN_FAVOUR * max(0.0, float(shares[code]) - 0.5)
            only_new = max(0.0, old.z[0] * way) ** 2 < max(0.0, contrast.z[0] * way) ** 2 + in_favour
            if only_new and p_value < rate and part / change.total >= LEAST_SHARE:
                interval = _interval(part, float(new.deviation[0] * shares[code]) ** 2, z)
                return [_cause(change, "replaced", segment, inside[:, 0] > 0, interval, p_value)]
    return []


def _cause(
    change: _Change, kind: CauseKind, segment: Segment, mask: Bools, part: ChangePart, p_adjusted: float
) -> Cause:
    now, then, difference = change.now, change.then, change.difference
    same = np.ones(len(then.bin), dtype=bool)
    for column, value in segment:
        at = change.columns.index(column)
        same &= then.values[:, at] == change.names[at].index(value)
    inside, outside = float(now.share[mask].sum()), float(now.share[~mask].sum())
    change_inside = float(now.share[mask] @ difference[mask]) / inside if inside else 0.0
    change_outside = float(now.share[~mask] @ difference[~mask]) / outside if outside else 0.0
    traffic = (float(then.share[same].sum()), inside)
    rows = round(float(now.rows[mask].sum()))
    share = part.value / change.total
    return Cause(kind, segment, share, part, p_adjusted, rows, change_inside, change_outside, traffic)
