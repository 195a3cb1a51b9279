"""Sums over the rows of one cell, as PostgreSQL makes them fastest: of what is left beyond the cell, completed here.

All sums are exact, in whole multiples of 2^-40 (:meth:`~monitor.warehouse.dialects.Dialect.exact_sum`). One sum of
doubles has too few bits for scores of many rows, but scores of one cell differ by 0.0001 only. So the statement adds up
by how much each exceeds its cell, which has 27 bits and stays exact up to 2^26 rows a group; and what the cell itself
amounts to, its rows times its score, is added here, once a group.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from monitor.warehouse.dialects import FIXED_POINT, Arrays, Expression

_UNIT = 2.0**40
_OF_SCORE, _OF_SQUARE = round(_UNIT / 10**4), round(_UNIT / 10**8)  # a cell is its score times 10,000
_REST = "_rest"
_COUNTED: Mapping[str, str] = {"ws": "n", "ws2": "n", "wsy": "wy"}
_MANY = 2**22  # from so many rows on their sum may not fit into 64 bits


def with_rests(
    sums: Mapping[str, Expression], score: Expression, cell: Expression, hit: Expression | None
) -> dict[str, Expression]:
    """The aggregates by name, with rests in place of ws and ws2, and where a condition ``hit`` is given of wsy."""
    at = sa.cast(cell, sa.Double)
    of_score = sa.func.sum(_whole(score) - at * sa.literal_column(f"{_OF_SCORE}.0e0"))
    of_square = sa.func.sum(_whole(score * score) - at * at * sa.literal_column(f"{_OF_SQUARE}.0e0"))
    rests: dict[str, Expression] = {"ws": of_score, "ws2": of_square}
    if hit is not None:
        rests["wsy"] = sa.func.coalesce(of_score.filter(hit), sa.literal_column("0"))
    kept = {name: value for name, value in sums.items() if name not in rests}
    return kept | {f"{name}{_REST}": value for name, value in rests.items()}


def _whole(value: Expression) -> Expression:
    return sa.func.floor(value * FIXED_POINT + sa.literal_column("0.5"))


def completed(groups: Arrays) -> Arrays:
    """Groups of the counts with ws, ws2 and wsy in place of their rests, if they have these."""
    rest = {name: groups[f"{name}{_REST}"] for name in _COUNTED if f"{name}{_REST}" in groups}
    if not rest:
        return groups
    cell = np.array([key or 0 for key in groups["key"].tolist()], dtype=np.int64) // 4  # counts by version have none
    each = {"ws": cell * _OF_SCORE, "ws2": cell * cell * _OF_SQUARE, "wsy": cell * _OF_SCORE}
    sums = {name: _total(beyond, groups[_COUNTED[name]], each[name]) / _UNIT for name, beyond in rest.items()}
    return {name: column for name, column in groups.items() if not name.endswith(_REST)} | sums


def _total(
    beyond: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], each: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """What is beyond the cells plus what these amount to (K,), rounded once, as any exact sum is."""
    total = (beyond.astype(np.int64) + counts * each).astype(np.float64)
    for place in np.flatnonzero(counts >= _MANY).tolist():
        total[place] = float(int(beyond[place]) + int(counts[place]) * int(each[place]))
    return total
