"""The design effect of rows that are not independent: how many of them count as one.

Copies of a row, mails of one thread and the labels of one ticket are right or wrong together, and
an interval that treats them as independent is too narrow. The *design effect* (Kish 1965) is the
variance of a mean over the variance that as many independent rows would have; numbers of rows are
divided by it. Here it is a function of eight sums that the warehouse computes; no row leaves it.

With the residual r = w (y - s) of a row, its mean over the weights m = sum r / sum w, and the sums A
of r and W of w in a cluster::

    effect = sum over clusters (A - m W)^2  /  sum over rows (r - m w)^2

Where the formula gives no answer, a safe value is used: see :func:`design_effect`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

MIN_CLUSTERS = 10.0  # with fewer clusters (of equal size), nothing is known about how alike their rows are
_NOTHING = 1e-12  # squared residuals of less than this for each squared weight are rounding


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """The sums of which the design effect is a function. ``aa, aw, cc`` are sums of A^2, A W and W^2 over clusters.

    ``r, w, rr, rw, ww`` are sums of r, w, r^2, r w and w^2 over rows. Centring follows from them, since
    sum (A - m W)^2 = sum A^2 - 2 m sum A W + m^2 sum W^2.
    """

    aa: float
    aw: float
    cc: float
    r: float
    w: float
    rr: float
    rw: float
    ww: float

    @classmethod
    def of(cls, sums: Mapping[str, float]) -> Self:
        """The sums by their names, as a statement of the warehouse returns them.

        Where ``rw`` and ``ww`` are missing, every weight is 1, and they equal ``r`` and ``w``.
        """
        known = {"rw": sums["r"], "ww": sums["w"], **sums}
        return cls(**{field.name: float(known[field.name]) for field in fields(cls)})

    @property
    def mean(self) -> float:
        """The mean residual; 0 without rows."""
        return self.r / self.w if self.w > 0 else 0.0

    @property
    def clustered(self) -> float:
        """Sum of the squared centred residuals of clusters."""
        return max(0.0, self.aa - 2 * self.mean * self.aw + self.mean**2 * self.cc)

    @property
    def independent(self) -> float:
        """Sum of the squared centred residuals of rows."""
        return max(0.0, self.rr - 2 * self.mean * self.rw + self.mean**2 * self.ww)

    @property
    def clusters(self) -> float:
        """The number of clusters of equal size that these are worth, Kish's (sum W)^2 / sum W^2."""
        return self.w**2 / self.cc if self.cc > 0 else 0.0

    @property
    def all_alike(self) -> float:
        """The effect if all rows of a cluster were copies: each cluster of equal size counts as one row."""
        return max(1.0, self.cc / self.ww) if self.ww > 0 else 1.0

    @property
    def silent(self) -> bool:
        """Whether these sums say nothing about how alike the rows of a cluster are.

        There are too few clusters (the centred sum of a single one is always 0), or all residuals are equal.
        """
        return self.clusters < MIN_CLUSTERS or self.independent <= _NOTHING * self.ww


def design_effect(sums: ClusterSums) -> float:
    """How many rows count as one, at least 1; 1 without rows.

    * If the residuals of a cluster cancel each other out, the formula gives less than 1, more certainty than from
      independent rows. That is usually chance, so the effect is then 1.
    * With fewer than ten clusters, or with residuals that are all equal, nothing shows how alike the rows of
      one cluster are: they count as copies (:attr:`ClusterSums.all_alike`), a single cluster as one row.

    Twenty pairs of copies, half of them with the residual +1 and half with -1:

    >>> design_effect(ClusterSums(aa=80, aw=0, cc=80, r=0, w=40, rr=40, rw=0, ww=40))
    2.0
    """
    if not sums.w > 0:
        return 1.0
    return sums.all_alike if sums.silent else max(1.0, sums.clustered / sums.independent)


def two_way_effect(item: ClusterSums, cluster: ClusterSums, both: ClusterSums) -> float:
    """The effect where rows depend on each other if they share the item *or* the cluster; at least 1.

    The clustered sums of squares are added, minus those of the groups that share both, which were counted
    twice: item + cluster - both (Cameron, Gelbach & Miller 2011). Where a cluster consists of whole items, that
    is the effect by cluster; where no two rows of a cluster share an item, it is more than either. Never
    less than the larger one of the two.

    Copies in threads of two items with two labels each, and the same with a cluster for each label:

    >>> rows = {"r": 0, "w": 80, "rr": 20, "rw": 0, "ww": 80}
    >>> item, thread = ClusterSums(aa=40, aw=0, cc=160, **rows), ClusterSums(aa=80, aw=0, cc=320, **rows)
    >>> two_way_effect(item, thread, item)
    4.0
    """
    larger = max(design_effect(item), design_effect(cluster))
    if item.silent or cluster.silent:
        return larger
    return max(larger, (item.clustered + cluster.clustered - both.clustered) / item.independent)


def share_in_bands(cluster: ClusterSums, band: ClusterSums) -> float:
    """How much of the dependence within clusters is between rows of one band of scores, from 0 to 1.

    ``band`` are the sums of the rows of each cluster in each band. Copies have all of it there, rows with scores of
    their own hardly any. It is 1 where nothing shows how alike the rows of a cluster are.

    >>> rows = {"r": 0, "w": 40, "rr": 40, "rw": 0, "ww": 40}
    >>> pairs = ClusterSums(aa=80, aw=0, cc=80, **rows)
    >>> share_in_bands(pairs, pairs), share_in_bands(pairs, ClusterSums(aa=50, aw=0, cc=50, **rows))
    (1.0, 0.25)
    """
    whole = design_effect(cluster)
    if whole <= 1 or cluster.silent:
        return 1.0
    return min(1.0, max(0.0, band.clustered / band.independent - 1) / (whole - 1))
