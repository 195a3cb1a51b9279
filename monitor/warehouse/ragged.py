"""Rows of different lengths, such as the tokens of many answers, in two flat arrays.

A row that cannot be read has a reason and is left empty; the others are read. So one broken answer stops nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
RowValue = str | Sequence[float] | None


class BadArray(StrEnum):
    """Why no score could be made of a row. All are described in ``docs/confidence.md``."""

    MISSING = "missing"
    NOT_JSON = "not_json"
    NOT_AN_ARRAY = "not_an_array"
    EMPTY = "empty"
    NOT_A_NUMBER = "not_a_number"
    OUT_OF_RANGE = "out_of_range"
    TOO_FEW_NUMBERS = "too_few_numbers"


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """N rows of numbers: row i is ``values[starts[i]:starts[i + 1]]``.

    ``values`` has shape (T,), ``starts`` (N + 1,). ``reasons`` maps the index of each row that could not be read to the
    reason; such a row is empty.
    """

    values: Floats
    starts: Ints
    reasons: dict[int, BadArray]

    @property
    def lengths(self) -> Ints:
        """How many numbers each row has, shape (N,)."""
        return np.asarray(np.diff(self.starts), dtype=np.int64)

    @property
    def row(self) -> Ints:
        """The row of each number, shape (T,)."""
        return np.repeat(np.arange(len(self.starts) - 1), self.lengths)

    def summed(self, values: Floats) -> Floats:
        """The sum over each row of numbers of shape (T,), shape (N,); 0 for an empty row."""
        total = np.bincount(self.row, weights=values, minlength=len(self.starts) - 1)
        return np.asarray(total, dtype=np.float64)

    def mean(self, values: Floats) -> Floats:
        """The mean over each row, shape (N,); NaN for an empty row."""
        total, lengths = self.summed(values), self.lengths
        return np.asarray(np.divide(total, lengths, out=np.full(len(lengths), np.nan), where=lengths > 0))

    def least(self, values: Floats) -> Floats:
        """The smallest number of each row, shape (N,); NaN for an empty row."""
        found = np.full(len(self.starts) - 1, np.nan)
        filled = self.lengths > 0
        if filled.any():
            found[filled] = np.minimum.reduceat(values, self.starts[:-1][filled])
        return found

    def largest(self, values: Floats) -> Floats:
        """The largest number of each row, shape (N,); NaN for an empty row."""
        return -self.least(-values)

    def without(self, rows: npt.NDArray[np.bool_], reason: BadArray) -> Ragged:
        """The same rows, but those of the mask, shape (N,), are empty, with this reason."""
        if not rows.any():
            return self
        kept = ~rows[self.row]
        lengths = np.where(rows, 0, self.lengths)
        reasons = self.reasons | {int(i): reason for i in np.flatnonzero(rows) if int(i) not in self.reasons}
        return Ragged(self.values[kept], _starts(lengths), reasons)


def ragged(rows: Sequence[RowValue]) -> Ragged:
    """Rows of JSON text (``"[-0.1, -2.3]"``), lists of numbers or None as :class:`Ragged`.

    >>> made = ragged(["[-0.1, -0.2]", [-0.5], None, "[]", "nonsense", '["a"]'])
    >>> made.lengths.tolist(), {row: str(reason) for row, reason in made.reasons.items()}
    ([2, 1, 0, 0, 0, 0], {2: 'missing', 3: 'empty', 4: 'not_json', 5: 'not_a_number'})
    """
    parsed = _parsed(rows)
    reasons: dict[int, BadArray] = {}
    for index, value in enumerate(parsed):
        reason = value if isinstance(value, BadArray) else _trouble(value)
        if reason is not None:
            reasons[index] = reason
    lists: list[list[float]] = [[] if index in reasons else value for index, value in enumerate(parsed)]
    lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    values = np.fromiter(chain.from_iterable(lists), dtype=np.float64, count=int(lengths.sum()))
    return Ragged(values, _starts(lengths), reasons)


def _starts(lengths: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _parsed(rows: Sequence[RowValue]) -> list[Any]:
    """The value of each row's JSON, or the reason why it has none."""
    plain = [row for row in rows if isinstance(row, str) and _is_flat(row)]
    if len(plain) == len(rows):
        try:  # all at once is several times faster; if it fails, rows are parsed one by one
            return list(json.loads(f"[{','.join(plain)}]"))
        except (ValueError, RecursionError):
            pass
    return [_one(row) for row in rows]


def _is_flat(text: str) -> bool:
    """Whether the text is one array of plain values, or malformed."""
    return text[:1] == "[" and text[-1:] == "]" and text.count("[") == 1 and text.count("]") == 1


def _one(row: RowValue) -> Any:
    if row is None:
        return BadArray.MISSING
    if not isinstance(row, str):
        return list(row) if isinstance(row, (Sequence, np.ndarray)) else BadArray.NOT_AN_ARRAY
    try:
        return json.loads(row)
    except (ValueError, RecursionError):
        return BadArray.NOT_JSON


def _trouble(value: Any) -> BadArray | None:
    if value is None:
        return BadArray.MISSING
    if not isinstance(value, list):
        return BadArray.NOT_AN_ARRAY
    if not value:
        return BadArray.EMPTY
    return None if all(_is_number(number) for number in value) else BadArray.NOT_A_NUMBER


def _is_number(value: Any) -> bool:
    # `true` is no number, and neither are NaN and Infinity, which Python's JSON parser accepts
    if type(value) is float or isinstance(value, np.floating):
        return math.isfinite(value)
    return type(value) is int and abs(value) < 2**53
