"""Groups of counts as few bytes, without loss: the form in which the history keeps them.

Most sums follow from the columns before them (a cell has nearly its score, w = n without weights), so each column is
kept as the difference from what the others predict, in whole units: rows, or 2^-40, of which the warehouse's sums are
multiples. Differences are small, their bytes are sorted by place, and all of it is compressed. A column that is in no
such units is kept by the bits of its numbers. Predictions are made of sums, products and quotients of float64 alone,
which every processor rounds alike.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

VERSION = b"\x01"
"""The first byte. What older versions of this program wrote begins with another one: that of a zlib stream."""

Column = npt.NDArray[Any]
Columns = Mapping[str, Column]

_SUMS = ("w", "w2", "ws", "wy", "wsy", "ws2")
_UNITS = (1.0, 2.0**40)
_BITS = len(_UNITS)
_HEAD = struct.Struct("<II")
_PLACES = 8
_LARGEST = 2.0**62


def is_compact(data: bytes) -> bool:
    """Whether these bytes are of :func:`to_bytes`."""
    return data[:1] == VERSION


def to_bytes(columns: Columns, about: Any) -> bytes:
    """The keys and sums of :class:`monitor.core.counts.Counts`, each of shape (K,), and what JSON can hold of them.

    Groups may be in any order: those of several subjects can follow each other.
    """
    keys = columns["cell"].astype(np.int64) * 4 + columns["predicted"] * 2 + columns["automated"]
    said = json.dumps(about, separators=(",", ":")).encode()
    parts = [_HEAD.pack(len(keys), len(said)), said]
    parts += [_placed(_folded(np.diff(keys, prepend=np.int64(0)))), _placed(_folded(columns["n"].astype(np.int64)))]
    for name in _SUMS:
        values = np.ascontiguousarray(columns[name], dtype=np.float64)
        unit = _unit_of(values)
        difference = _whole(values, unit) - _whole(_predicted(name, columns), unit)
        parts += [bytes([unit]), _placed(_folded(difference))]
    return VERSION + zlib.compress(b"".join(parts), 9)


def from_bytes(data: bytes) -> tuple[dict[str, Column], Any]:
    """The columns and what was said of them. Raises ValueError for bytes of another form."""
    if not is_compact(data):
        raise ValueError(f"counts begin with the byte {data[:1]!r}: they were written by another version")
    kept = _Kept(zlib.decompress(data[1:]))
    groups, length = _HEAD.unpack(kept.take(_HEAD.size))
    about = json.loads(kept.take(length))
    keys = np.cumsum(_unfolded(kept.column(groups)))
    columns: dict[str, Column] = {"cell": keys // 4, "predicted": keys % 4 >= 2, "automated": keys % 2 == 1}
    columns["n"] = _unfolded(kept.column(groups))
    for name in _SUMS:
        (unit,) = kept.take(1)
        whole = _unfolded(kept.column(groups)) + _whole(_predicted(name, columns), unit)
        columns[name] = whole.view(np.float64) if unit == _BITS else whole / _UNITS[unit]
    return columns, about


class _Kept:
    """Bytes that are read from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int) -> bytes:
        """The next ``length`` bytes."""
        part = self._data[self._at : self._at + length]
        self._at += length
        return part

    def column(self, groups: int) -> npt.NDArray[np.uint64]:
        """The next column, as :func:`_placed` wrote it."""
        (held,) = self.take(1)
        places = np.zeros((groups, _PLACES), dtype=np.uint8)
        for place in range(_PLACES):
            if held >> place & 1:
                places[:, place] = np.frombuffer(self.take(groups), dtype=np.uint8)
        return places.view("<u8").reshape(groups).astype(np.uint64)


def _placed(values: npt.NDArray[np.uint64]) -> bytes:
    """All lowest bytes, then all second ones, and so on; places at which every byte is 0 are left out."""
    places = values.astype("<u8").view(np.uint8).reshape(-1, _PLACES)
    held = [place for place in range(_PLACES) if places[:, place].any()]
    return bytes([sum(1 << place for place in held)]) + b"".join(places[:, place].tobytes() for place in held)


def _folded(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """0, -1, 1, -2 as 0, 1, 2, 3: small ones of either sign have few bytes."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def _unfolded(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)
    return found


def _unit_of(values: npt.NDArray[np.float64]) -> int:
    """The first unit of which all values are multiples, to the bit; else :data:`_BITS`."""
    for unit, size in enumerate(_UNITS):
        with np.errstate(over="ignore"):
            scaled = values * size
        if (np.abs(scaled) < _LARGEST).all():  # never so with NaN
            back = np.rint(scaled).astype(np.int64) / size
            if (back.view(np.int64) == values.view(np.int64)).all():
                return unit
    return _BITS


def _whole(values: npt.NDArray[np.float64], unit: int) -> npt.NDArray[np.int64]:
    """Whole units, at most 2^62 of them; or the bits of the numbers."""
    if unit == _BITS:
        return values.view(np.int64)
    with np.errstate(over="ignore"):
        return np.rint(np.clip(values * _UNITS[unit], -_LARGEST, _LARGEST)).astype(np.int64)


def _predicted(name: str, known: Columns) -> npt.NDArray[np.float64]:
    """What the columns before say of a sum: finite, and 0 where they say nothing."""
    n = known["n"].astype(np.float64)
    with np.errstate(all="ignore"):
        if name == "w":
            found = n
        elif name == "w2":
            found = known["w"] * known["w"] / n
        elif name == "ws":
            found = known["w"] * (known["cell"] / 10_000)
        elif name == "wy":
            found = np.zeros_like(n)
        else:
            found = known["ws"] * known["wy" if name == "wsy" else "ws"] / known["w"]
    return np.where(np.isfinite(found), found, 0.0)
