"""Sums over the rows of one cell, as PostgreSQL and Spark make them fastest: of what exceeds the cell; completed here.

All sums are exact, in whole multiples of 2^-40 (:meth:`~monitor.warehouse.dialects.Dialect.exact_sum`). One sum has too
few bits for scores of many rows, but scores of one cell differ by 0.0001 only. So the statement adds up by how much
each exceeds its cell, which has 27 bits and stays exact up to 2^26 rows a group in doubles (2^36 in whole numbers); and
what the cell itself amounts to, its rows times its score, is added here, once a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    sums: Mapping[str, Expression], score: Expression, cell: Expression, hit: Expression | None, *, doubles: bool
) -> dict[str, Expression]:
    """The aggregates by name, with rests in place of ws and ws2, and where a condition ``hit`` is given of wsy.

    With ``doubles`` the engine's floor() gives a double, and doubles are added up; else whole numbers of 64 bits.
    """
    at, point = (sa.cast(cell, sa.Double), ".0e0") if doubles else (sa.cast(cell, sa.BigInteger), "")
    of_score = sa.func.sum(_whole(score) - at * sa.literal_column(f"{_OF_SCORE}{point}"))
    of_square = sa.func.sum(_whole(score * score) - at * at * sa.literal_column(f"{_OF_SQUARE}{point}"))
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
    cell = _keys(groups["key"]) // 4
    each = {"ws": cell * _OF_SCORE, "ws2": cell * cell * _OF_SQUARE, "wsy": cell * _OF_SCORE}
    counts = {name: np.asarray(groups[of], dtype=np.int64) for name, of in _COUNTED.items() if name in rest}
    sums = {name: _total(beyond, counts[name], each[name]) / _UNIT for name, beyond in rest.items()}
    return {name: column for name, column in groups.items() if not name.endswith(_REST)} | sums


def _keys(column: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The keys as whole numbers. Counts by version have none: None or, from some drivers, NaN becomes 0."""
    numbers = np.nan_to_num(column) if column.dtype.kind == "f" else [key or 0 for key in column.tolist()]
    return np.array(numbers, dtype=np.int64)


def _total(
    beyond: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], each: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """What is beyond the cells plus what these amount to (K,), rounded once, as any exact sum is."""
    total = (beyond.astype(np.int64) + counts * each).astype(np.float64)
    for place in np.flatnonzero(counts >= _MANY).tolist():
        total[place] = float(int(beyond[place]) + int(counts[place]) * int(each[place]))
    return total
