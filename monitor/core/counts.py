"""Counts: the compressed sample that every metric reads.

The warehouse groups the rows of a subject by cell = floor(score * 10000 + 0.5), by what the
classifier decided (``predicted``) and by whether it acted alone (``automated``). Only those groups
leave it. A metric is a function of :class:`Counts`, or of the :class:`BinCounts` made from them, so
it costs the same for 200 rows and for 200 million.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from monitor.core.records import WHERES, ScoreIs, Where

CELLS = 10_000
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

INDEPENDENT = (1.0, 1.0)
# By the digits before the point; read from text, since numpy's powers of ten differ in the last digit by processor
_SCALES: Floats = np.array([float(f"1e{9 - digits}") for digits in range(310)])


KEYS = ("cell", "predicted", "automated")
SUMS = ("n", "w", "w2", "ws", "wy", "wsy", "ws2", "wy2")
"""The arrays of :class:`Counts`: the keys of a group, and its sums."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Counts:
    """The groups of one subject in one window; every array has one entry per group, shape (K,).

    ``cell`` 0..10000, ``predicted`` and ``automated`` are the keys, sorted and distinct; ``n``
    counts rows; ``w, w2, ws, wy, wsy, ws2, wy2`` are the sums of w, w^2, w*s, w*y, w*s*y, w*s^2 and w*y^2 with
    the weight w, the score s and the outcome y. ``design_effect`` is how many rows count as one independent
    row (1: all are independent), ``acting_effects`` the same for the predicted and for the automated rows
    alone: copies often have high scores, so the few rows that act may be worth less than the label's effect
    says. ``together`` is how much of the dependence is between rows of one band of scores (1: all of it, as copies
    have it). ``score_is`` says whether y is the truth of the label, or whether the prediction was right.
    """

    cell: Ints
    predicted: Bools
    automated: Bools
    n: Ints
    w: Floats
    w2: Floats
    ws: Floats
    wy: Floats
    wsy: Floats
    ws2: Floats
    wy2: Floats
    design_effect: float = 1.0
    score_is: ScoreIs = "probability_of_label"
    acting_effects: tuple[float, float] = INDEPENDENT
    together: float = 1.0

    @property
    def rows(self) -> int:
        """The number of rows behind the counts."""
        return int(self.n.sum())

    @property
    def positives(self) -> float:
        """The weighted sum of outcomes."""
        return float(self.wy.sum())

    @property
    def effective_rows(self) -> float:
        """Kish's effective size, (sum w)^2 / sum w^2, over the design effect."""
        squares = float(self.w2.sum())
        return float(self.w.sum()) ** 2 / squares / self.design_effect if squares > 0 else 0.0

    @property
    def squared_residuals(self) -> float:
        """Sum of w^2 (y - s - mean)^2 over the rows, the mean being that of all residuals.

        From the sums of the groups: exact where the weights of a group are equal and outcomes are 0 or 1.
        """
        total = float(self.w.sum())
        if not total > 0:
            return 0.0
        mean = float((self.wy - self.ws).sum()) / total
        spread = self.ws2 - 2 * self.wsy + self.wy - 2 * mean * (self.wy - self.ws) + mean**2 * self.w
        per_row = np.divide(self.w2 * spread, self.w, out=np.zeros_like(self.w), where=self.w > 0)
        return max(0.0, float(per_row.sum()))

    @property
    def score(self) -> Floats:
        """The mean score of each group (the score itself where scores are discrete)."""
        return np.clip(self.ws / self.w, 0.0, 1.0)

    @property
    def rate(self) -> Floats:
        """The share of outcomes that came true in each group."""
        return np.clip(self.wy / self.w, 0.0, 1.0)

    def take(self, mask: Bools) -> Counts:
        """The groups where ``mask`` holds."""
        places = np.flatnonzero(mask)  # searched once for all arrays
        return replace(self, **{name: getattr(self, name).take(places) for name in KEYS + SUMS})

    def weighted(self) -> Counts:
        """The groups with a weight above 0; ``self`` if all have one."""
        has_weight = self.w > 0
        return self if has_weight.all() else self.take(has_weight)

    def where(self, population: Where) -> Counts:
        """The rows of one population: all, predicted, or automated.

        Their design effect is the larger of that of all rows and their own, which is measured on few rows.
        """
        if population == "all":
            return self
        chosen = self.predicted if population == "predicted" else self.automated
        effect = self.acting_effects[WHERES[1:].index(population)]
        return replace(self.take(chosen), design_effect=max(1.0, self.design_effect, effect))

    def with_design_effect(self, effect: float) -> Counts:
        """The same rows with another design effect (at least 1), of which no band of scores is known."""
        return replace(self, design_effect=max(1.0, effect), together=1.0)

    def by_cell(self) -> Counts:
        """The groups added up by cell; ``predicted`` and ``automated`` become False."""
        if (np.diff(self.cell) > 0).all():
            if not (self.predicted.any() or self.automated.any()):
                return self
            return replace(self, predicted=np.zeros_like(self.predicted), automated=np.zeros_like(self.automated))
        cells, index = np.unique(self.cell, return_inverse=True)
        sums: dict[str, Any] = {name: _sum_by(getattr(self, name), index, len(cells)) for name in SUMS}
        off = np.zeros(len(cells), dtype=bool)
        return replace(self, cell=cells, predicted=off, automated=off, **sums)

    def digest(self) -> str:
        """A hash of the content, equal for equal rows in all engines.

        Sums are rounded to nine digits (decimals for those below 1), since engines may add in
        different orders. It is computed once: a run needs it to store, to compare and to judge.
        """
        known = _digests.get(self)
        if known is None:
            known = _digests[self] = _digest_of(self)
        return known


_digests: WeakKeyDictionary[Counts, str] = WeakKeyDictionary()


def _digest_of(counts: Counts) -> str:
    acting = counts.acting_effects if counts.acting_effects != INDEPENDENT else ()
    effects = " ".join(f"{effect:.6g}" for effect in (counts.design_effect, *acting))
    hashed = hashlib.sha256(f"{effects} {counts.score_is}".encode())
    for name in (*KEYS, "n"):
        hashed.update(np.ascontiguousarray(getattr(counts, name)).astype("<i8").tobytes())
    are_soft = counts.wy2.tobytes() != counts.wy.tobytes()
    for name in SUMS[1:] if are_soft else SUMS[1:-1]:
        hashed.update(_rounded(getattr(counts, name)).tobytes())
    return hashed.hexdigest()[:16]


def rounded_effect(effect: float) -> float:
    """A design effect rounded to ten digits, as readings keep it.

    Engines add in different orders. If effects differ in the last digit, the search for an ECE may end 3e-5 apart.

    >>> rounded_effect(1.3629351894392616) == rounded_effect(1.3629351894392627) == 1.362935189
    True
    """
    return float(f"{effect:.10g}")


def _rounded(values: Floats) -> Floats:
    """Finite values rounded to nine significant digits, or nine decimals below 1; -0 becomes 0."""
    scale = _SCALES[np.ceil(np.log10(np.maximum(np.abs(values), 1.0))).astype(np.intp)]
    return np.rint(values * scale) / scale + 0.0


def _columns(keys: Ints) -> dict[str, Any]:
    """The three keys of groups with the numbers cell x 4 + predicted x 2 + automated, shape (K,)."""
    return {"cell": keys // 4, "predicted": keys % 4 >= 2, "automated": keys % 2 == 1}


def _sum_by(values: npt.NDArray[Any], index: npt.NDArray[np.intp], size: int) -> npt.NDArray[Any]:
    # bincount of no values gives whole numbers, whatever the type of the weights
    total = np.bincount(index, weights=np.asarray(values, np.float64), minlength=size).astype(np.float64, copy=False)
    return np.rint(total).astype(np.int64) if values.dtype.kind == "i" else total


def counts_from_groups(
    columns: dict[str, npt.ArrayLike],
    *,
    design_effect: float = 1.0,
    score_is: ScoreIs,
    acting_effects: tuple[float, float] = INDEPENDENT,
) -> Counts:
    """Counts from grouped columns, named as the fields, which are sorted here. Keys must be distinct.

    Without ``wy2`` outcomes are 0 or 1, so that it equals ``wy``.
    """
    columns = {"wy2": columns["wy"], **columns}
    cell = np.asarray(columns["cell"], dtype=np.int64)
    predicted = np.asarray(columns["predicted"], dtype=bool)
    automated = np.asarray(columns["automated"], dtype=bool)
    order = np.lexsort((automated, predicted, cell))
    sums: dict[str, Any] = {name: np.asarray(columns[name], dtype=np.float64)[order] for name in SUMS[1:]}
    n = np.asarray(columns["n"], dtype=np.int64)[order]
    return Counts(
        cell=cell[order],
        predicted=predicted[order],
        automated=automated[order],
        n=n,
        **sums,
        design_effect=design_effect,
        score_is=score_is,
        acting_effects=acting_effects,
    )


def counts_from_rows(
    score: npt.ArrayLike,
    outcome: npt.ArrayLike,
    *,
    predicted: npt.ArrayLike | None = None,
    weight: npt.ArrayLike | None = None,
    automate_at: float = 0.5,
    design_effect: float = 1.0,
    score_is: ScoreIs = "probability_of_label",
) -> Counts:
    """Counts of rows, for simulations and tests. The warehouse does the same in SQL.

    ``score`` and ``outcome`` have shape (n,), values in [0, 1]; ``predicted`` defaults to
    score >= 0.5, ``weight`` to 1.

    >>> counts = counts_from_rows([0.9, 0.9, 0.2], [1, 0, 0])
    >>> counts.cell.tolist(), counts.n.tolist(), counts.wy.tolist()
    ([2000, 9000], [1, 2], [0.0, 1.0])
    """
    s = np.asarray(score, dtype=np.float64)
    y = np.asarray(outcome, dtype=np.float64)
    w = np.ones_like(s) if weight is None else np.asarray(weight, dtype=np.float64)
    decided = (s >= 0.5) if predicted is None else np.asarray(predicted, dtype=bool)
    acted = decided & (s >= automate_at)
    cell = np.floor(s * CELLS + 0.5).astype(np.int64)
    keys, index = np.unique(cell * 4 + decided * 2 + acted, return_inverse=True)
    columns = _columns(keys)
    products = {"w": w, "w2": w * w, "ws": w * s, "wy": w * y, "wsy": w * s * y, "ws2": w * s * s, "wy2": w * y * y}
    columns["n"] = np.bincount(index, minlength=len(keys))
    for name, values in products.items():
        columns[name] = np.bincount(index, weights=values, minlength=len(keys))
    return counts_from_groups(columns, design_effect=design_effect, score_is=score_is)


def pool(parts: Iterable[Counts]) -> Counts:
    """Several windows (or labels) as one sample.

    The design effect is the one that all rows together would have if no cluster had rows in two parts: the mean
    of the parts' effects, weighted by their squared residuals (:func:`_pooled_effect`). If a cluster has rows in
    several windows, the result is slightly too small (docs/statistics.md). Raises ValueError without parts.
    """
    kept = list(parts)
    if not kept:
        raise ValueError("nothing to pool: give at least one Counts")
    if len(kept) == 1:
        return kept[0]
    keys = [part.cell * 4 + part.predicted * 2 + part.automated for part in kept]
    found, index = np.unique(np.concatenate(keys), return_inverse=True)
    columns = _columns(found)
    for name in SUMS:
        columns[name] = _sum_by(np.concatenate([getattr(part, name) for part in kept]), index, len(found))
    acting = kept[0].acting_effects
    if len({(part.design_effect, part.acting_effects) for part in kept}) > 1:
        predicted, automated = (_pooled_effect([part.where(where) for part in kept]) for where in WHERES[1:])
        acting = (predicted, automated)
    # the distinct keys are in order already
    rows = sum(part.rows for part in kept)
    together = sum(part.together * part.rows for part in kept) / rows if rows else 1.0
    return Counts(
        **columns, design_effect=_pooled_effect(kept), score_is=kept[0].score_is, acting_effects=acting,
        together=together,
    )  # fmt: skip


def difference(whole: Counts, parts: Sequence[Counts]) -> Counts | None:
    """The rows of ``whole`` without those of ``parts``; None if the parts have rows that the whole does not have.

    >>> whole = pool([counts_from_rows([0.9, 0.2], [1, 0]), counts_from_rows([0.9], [0])])
    >>> rest = difference(whole, [counts_from_rows([0.9, 0.2], [1, 0])])
    >>> (rest.cell.tolist(), rest.n.tolist(), rest.wy.tolist())
    ([9000], [1], [0.0])
    """
    if not parts:
        return whole
    without = pool(parts)
    keys = whole.cell * 4 + whole.predicted * 2 + whole.automated
    taken = without.cell * 4 + without.predicted * 2 + without.automated
    places = np.searchsorted(keys, taken)
    if (places == len(keys)).any() or (keys[places] != taken).any():
        return None
    left: dict[str, Any] = {name: getattr(whole, name).copy() for name in SUMS}
    for name in SUMS:
        left[name][places] -= getattr(without, name)
    if (left["n"] < 0).any():
        return None
    return replace(whole, **left).take(left["n"] > 0)


def _pooled_effect(parts: Sequence[Counts]) -> float:
    """The sum of effect x squared residuals, divided by the sum of squared residuals.

    An effect is a ratio of sums over clusters to sums over rows, so numerators and denominators can be added.
    If all residuals equal their mean, the weights are the sums of squared weights instead.
    """
    if len({part.design_effect for part in parts}) == 1:
        return parts[0].design_effect  # the usual case, without a rounding error
    shares = [part.squared_residuals for part in parts]
    if not sum(shares) > 0:
        shares = [float(part.w2.sum()) for part in parts]
    total = sum(shares)
    return sum(part.design_effect * share for part, share in zip(parts, shares, strict=True)) / total if total else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class BinCounts:
    """Counts summed by bin; every array has shape (M,), empty bins included.

    Bin m has the cells in (upper[m-1], upper[m]], the first from 0 on. ``n`` counts rows. ``w``, ``ws`` and ``wy``
    are the sums of w, w*s and w*y. ``kish`` is the number of rows of equal weight with outcomes 0 and 1 that tell as
    much of the rate, Kish's (sum w)^2 / sum w^2, and more where outcomes are soft; None if it is ``n``. ``n_eff``, the
    number of effective rows, is ``kish`` over the design effect; ``together`` is that of :class:`Counts`.
    """

    upper: Ints
    n: Ints
    w: Floats
    ws: Floats
    wy: Floats
    n_eff: Floats
    kish: Floats | None = None
    together: float = field(default=1.0, kw_only=True)

    @property
    def independent(self) -> Floats:
        """The effective rows of each bin if all rows were independent (0 where empty)."""
        return self.n.astype(np.float64) if self.kish is None else self.kish

    @property
    def inside(self) -> Floats:
        """The effective rows of each bin by itself: rows of a cluster in other bins do not make it less certain."""
        if self.together == 1:
            return self.n_eff
        alone, left = self.independent, self.n_eff
        mixed = left + (alone - left) * self.together
        return np.divide(alone * left, mixed, out=np.zeros_like(left), where=mixed > 0)

    @property
    def design_effect(self) -> float:
        """By how much clusters divide the effective rows, at least 1.

        >>> rows = counts_from_rows([0.2, 0.3, 0.8, 0.9], [0, 1, 1, 1], weight=[1, 1, 1, 4], design_effect=2.0)
        >>> bin_counts(rows, (5000, 10000)).design_effect
        2.0
        """
        effective = float(self.n_eff.sum())
        return max(1.0, float(self.independent.sum()) / effective) if effective > 0 else 1.0

    @property
    def score(self) -> Floats:
        """Mean score c_m of each bin (0 where empty)."""
        return np.divide(self.ws, self.w, out=np.zeros_like(self.ws), where=self.w > 0)

    @property
    def rate(self) -> Floats:
        """Hit rate y_m of each bin (0 where empty)."""
        return np.divide(self.wy, self.w, out=np.zeros_like(self.wy), where=self.w > 0)

    def filled(self) -> BinCounts:
        """The bins that have a row."""
        keep = self.n > 0
        columns = ((f.name, getattr(self, f.name)) for f in fields(self))
        held: dict[str, Any] = {name: column[keep] for name, column in columns if isinstance(column, np.ndarray)}
        return replace(self, **held)

    def range_of(self, index: int) -> tuple[float, float]:
        """The score range (lower, upper] of one bin, in scores."""
        lower = self.upper[index - 1] / CELLS if index > 0 else 0.0
        return float(lower), float(self.upper[index] / CELLS)


def equal_frequency_edges(counts: Counts, bins: int) -> tuple[int, ...]:
    """Upper edges (in cells) of at most ``bins`` bins with equal numbers of rows.

    Each distinct cell goes to the bin in which its mid-rank lies, in intervals (lower, upper], so ties stay
    together. There are fewer bins if there are fewer distinct cells. The last edge is always 10000.

    >>> equal_frequency_edges(counts_from_rows([0.1, 0.2, 0.3, 0.9], [0, 0, 1, 1]), 2)
    (2000, 10000)
    """
    if len(counts.cell) == 0:
        return (CELLS,)
    last_of_cell = np.append(np.diff(counts.cell) > 0, True)
    cells, ends = counts.cell[last_of_cell], np.cumsum(counts.n)[last_of_cell]
    twice_mid_rank = ends + np.append(0, ends[:-1])
    # bin m has the mid-ranks up to (m + 1) N / bins: in whole numbers no rounding can move a cell to another bin
    reached = np.searchsorted(twice_mid_rank * bins, 2 * ends[-1] * np.arange(1, bins + 1), side="right")
    last_of_bin = reached[np.diff(reached, prepend=0) > 0] - 1
    return (*cells[last_of_bin[:-1]].tolist(), CELLS)


def equal_width_edges(bins: int) -> tuple[int, ...]:
    """Upper edges (in cells) of ``bins`` bins of equal width.

    >>> equal_width_edges(4)
    (2500, 5000, 7500, 10000)
    """
    return tuple(round(CELLS * (k + 1) / bins) for k in range(bins))


def bin_counts(counts: Counts, edges: Sequence[int]) -> BinCounts:
    """The counts summed into bins with these upper edges, shape (len(edges),)."""
    upper = np.asarray(edges, dtype=np.int64)
    ends = np.searchsorted(counts.cell, upper, side="right")  # cells are sorted, and there are fewer edges than cells
    ends[-1] = len(counts.cell)
    index = np.repeat(np.arange(len(upper)), np.diff(ends, prepend=0))
    sums = {name: _sum_by(getattr(counts, name), index, len(upper)) for name in ("n", "w", "w2", "ws", "wy", "wy2")}
    w, w2 = sums["w"], sums["w2"]
    kish = np.divide(w * w, w2, out=np.zeros_like(w), where=w2 > 0)
    if (sums["wy2"] < sums["wy"]).any():
        kish = kish / _softness(w, sums["wy"], sums["wy2"], kish)
    n_eff = kish / counts.design_effect
    return BinCounts(upper, sums["n"], w, sums["ws"], sums["wy"], n_eff, kish, together=counts.together)


_MORE = 20.0


def _softness(w: Floats, wy: Floats, wy2: Floats, rows: Floats) -> Floats:
    """The variance of each bin's outcomes, divided by that of outcomes 0 and 1 with the same mean; (M,), 0 to 1.

    Few rows hardly show it: each bin has ``_MORE`` rows more with the ratio of all bins, these one that is 0 or 1.
    """
    of_whole = np.divide(wy * (w - wy), w, out=np.zeros_like(w), where=w > 0)
    own = np.maximum(of_whole - (wy - wy2), 0.0)
    usual = min(1.0, float(own.sum() / of_whole.sum() + 1 / rows.sum()))
    ratio = np.divide(own, of_whole, out=np.full_like(w, usual), where=of_whole > 0)
    return np.asarray((ratio * rows + _MORE * usual) / (rows + _MORE))


SegmentCounts: TypeAlias = Mapping[tuple[str, str], Counts]
"""Counts by (column, value)."""


@dataclass(frozen=True, slots=True, eq=False)
class ProbabilityRows:
    """Scores and truth of N items over K labels.

    ``probability`` and ``truth`` have shape (N, K): scores in [0, 1] (NaN: this label was not scored on this item),
    outcomes in [0, 1] (one-hot for ``multiclass``). ``weight`` has shape (N,); ``items`` is the number of items that
    the sample represents, N without sampling.
    """

    labels: tuple[str, ...]
    probability: Floats
    truth: Floats
    weight: Floats
    items: int


@dataclass(frozen=True, slots=True, eq=False)
class RegressionRows:
    """N predicted numbers with their standard deviations and what came true; every array has shape (N,)."""

    predicted: Floats
    deviation: Floats
    actual: Floats
    weight: Floats
    items: int
