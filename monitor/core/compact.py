"""Groups of counts in few bytes, without loss: the form in which the history stores them.

Most sums nearly follow from the columns before them (a cell gives about its score; w = n without weights). So each
column is stored as the difference from its prediction, in whole units: rows, or 2^-40, of which the warehouse's sums
are multiples. A column without such a unit is stored as the bits of its numbers. Predictions use only sums, products
and quotients of float64, which every processor rounds alike.

Differences are small. Their bytes are sorted by place, and each place is compressed separately, since scores with many
decimals make noise in some places and little in others. Groups of one row, whose sums follow from one another, come
first. Older versions compressed all places together.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

TOGETHER = b"\x01"
APART = b"\x03"
"""The first byte: all places in one zlib stream, or a head and then each place, plain or deflated.

Other first bytes are of older versions or have another meaning (:mod:`monitor.history.label_counts`).
"""

Column = npt.NDArray[Any]
Columns = Mapping[str, Column]

_SUMS = ("w", "w2", "ws", "wy", "wsy", "ws2")
_UNITS = (1.0, 2.0**40)
_BITS = len(_UNITS)
_HEAD = struct.Struct("<II")
_PLACES = 8
_LARGEST = 2.0**62
_RAW = -15  # a deflate stream without header and checksum
_STRATEGIES = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_RLE)
_COMMON = (
    b'{"score_is":"confidence_in_prediction","effects":[1.0,{"score_is":"probability_of_label","effects":[1.0,1.0,1.0]}'
)
"""The common content of heads, for compression. Never change it: stored bytes need it."""


def is_compact(data: bytes) -> bool:
    """Whether these bytes were made by :func:`to_bytes`."""
    return data[:1] in (TOGETHER, APART)


def to_bytes(columns: Columns, about: Any) -> bytes:
    """Compress the keys and sums of :class:`monitor.core.counts.Counts`, each of shape (K,), and ``about`` as JSON.

    Groups may be in any order, for example those of several subjects one after the other.
    """
    head, places, by_rows = [_head(columns, about)], [], _by_rows(columns)
    orders = [None, None, *(_order(name, columns, by_rows) for name in _SUMS)]
    for (unit, values), order in zip(_differences(columns), orders, strict=True):
        held, kept = _places(values if order is None else values[order])
        packed = [min(place, _deflated(place), key=len) for place in kept]
        plain = sum(1 << at for at, (place, each) in enumerate(zip(kept, packed, strict=True)) if place is each)
        head += [b"" if unit is None else bytes([unit]), bytes([held, plain])]
        places += packed
    return APART + _deflated(b"".join(head), _COMMON) + b"".join(places)


def together(columns: Columns, about: Any) -> bytes:
    """The form of revisions 0021 to 0027 of the history, which a downgrade writes."""
    parts = [_head(columns, about)]
    for unit, values in _differences(columns):
        held, places = _places(values)
        parts += [b"" if unit is None else bytes([unit]), bytes([held]), *places]
    return TOGETHER + zlib.compress(b"".join(parts), 9)


def _head(columns: Columns, about: Any) -> bytes:
    text = json.dumps(about, separators=(",", ":")).encode()
    return _HEAD.pack(len(columns["cell"]), len(text)) + text


def _differences(columns: Columns) -> Iterator[tuple[int | None, npt.NDArray[np.uint64]]]:
    """For keys, rows and each sum, the unit, and each group's difference from its prediction."""
    keys = columns["cell"].astype(np.int64) * 4 + columns["predicted"] * 2 + columns["automated"]
    yield None, _folded(np.diff(keys, prepend=np.int64(0)))
    yield None, _folded(columns["n"].astype(np.int64))
    for name in _SUMS:
        values = np.ascontiguousarray(columns[name], dtype=np.float64)
        unit = _unit_of(values)
        yield unit, _folded(_whole(values, unit) - _whole(_predicted(name, columns), unit))


def _order(name: str, known: Columns, by_rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """The order of groups for a sum: first those of one row, or for w s y those with one outcome."""
    if name == "wsy":
        with np.errstate(all="ignore"):
            return _last((known["wy"] > 0) & (known["wy"] < known["w"]))
    return by_rows


def _by_rows(known: Columns) -> npt.NDArray[np.intp]:
    """The order in which groups of one row come first."""
    return _last(known["n"] > 1)


def _last(chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """The order in which the ``chosen`` groups come last, as a stable sort has them."""
    return np.concatenate([np.flatnonzero(~chosen), np.flatnonzero(chosen)])


def _deflated(place: bytes, common: bytes = b"") -> bytes:
    """The bytes, compressed in the better of two ways."""
    found = []
    for strategy in _STRATEGIES:
        packing = zlib.compressobj(9, zlib.DEFLATED, _RAW, 9, strategy, common)
        found.append(packing.compress(place) + packing.flush())
    return min(found, key=len)


def from_bytes(data: bytes) -> tuple[dict[str, Column], Any]:
    """The columns and ``about``, from the bytes of :func:`to_bytes`. Raises ValueError for another form."""
    if not is_compact(data):
        raise ValueError(f"counts begin with the byte {data[:1]!r}: they were written by another version")
    kept = _Apart(data[1:]) if data[:1] == APART else _Together(data[1:])
    keys = np.cumsum(_unfolded(kept.column()))
    columns: dict[str, Column] = {"cell": keys // 4, "predicted": keys % 4 >= 2, "automated": keys % 2 == 1}
    columns["n"] = _unfolded(kept.column())
    by_rows = _by_rows(columns)
    for name in _SUMS:
        unit = kept.unit()
        whole = _unfolded(kept.column(_order(name, columns, by_rows))) + _whole(_predicted(name, columns), unit)
        columns[name] = whole.view(np.float64) if unit == _BITS else whole / _UNITS[unit]
    return columns, kept.about


class _Together:
    """A reader of the form of :func:`together`, from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = self._inflated(data)
        self._at = 0
        self.groups, length = _HEAD.unpack(self.take(_HEAD.size))
        self.about = json.loads(self.take(length))

    def _inflated(self, data: bytes) -> bytes:
        return zlib.decompress(data)

    def take(self, length: int) -> bytes:
        """The next ``length`` bytes."""
        part = self._data[self._at : self._at + length]
        self._at += length
        return part

    def unit(self) -> int:
        """The unit of the next column."""
        (unit,) = self.take(1)
        return unit

    def column(self, order: npt.NDArray[np.intp] | None = None) -> npt.NDArray[np.uint64]:
        """The next column; ``order`` is not used, since this form does not reorder groups."""
        (held,) = self.take(1)
        return _column(self.groups, held, lambda _: self.take(self.groups))


class _Apart(_Together):
    """A reader of a head, and of the places after it."""

    def _inflated(self, data: bytes) -> bytes:
        unpacking = zlib.decompressobj(_RAW, _COMMON)
        head = unpacking.decompress(data)
        self._places = unpacking.unused_data
        return head

    def column(self, order: npt.NDArray[np.intp] | None = None) -> npt.NDArray[np.uint64]:
        """The next column; groups that were stored in ``order`` are put back into their own order."""
        held, plain = self.take(2)
        found = _column(self.groups, held, lambda number: self._place(bool(plain >> number & 1)))
        if order is None:
            return found
        placed = np.empty_like(found)
        placed[order] = found
        return placed

    def _place(self, plain: bool) -> bytes:
        if plain:
            place, self._places = self._places[: self.groups], self._places[self.groups :]
            return place
        unpacking = zlib.decompressobj(_RAW)
        place = unpacking.decompress(self._places)
        self._places = unpacking.unused_data
        return place


def _column(groups: int, held: int, next_place: Callable[[int], bytes]) -> npt.NDArray[np.uint64]:
    """The numbers whose bytes at these places are stored; ``next_place`` gets how many places were read before."""
    places = np.zeros((groups, _PLACES), dtype=np.uint8)
    for number, place in enumerate(each for each in range(_PLACES) if held >> each & 1):
        places[:, place] = np.frombuffer(next_place(number), dtype=np.uint8)
    return places.view("<u8").reshape(groups).astype(np.uint64, copy=False)


def _places(values: npt.NDArray[np.uint64]) -> tuple[int, list[bytes]]:
    """The places with a byte that is not 0, as bits, and the bytes of each such place."""
    places = values.astype("<u8").view(np.uint8).reshape(-1, _PLACES)
    held = [place for place in range(_PLACES) if places[:, place].any()]
    return sum(1 << place for place in held), [places[:, place].tobytes() for place in held]


def _folded(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Map 0, -1, 1, -2 to 0, 1, 2, 3, so that small numbers of either sign have few bytes."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def _unfolded(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64)
    return found


def _unit_of(values: npt.NDArray[np.float64]) -> int:
    """The first unit of which all values are exact multiples, else :data:`_BITS`."""
    for unit, size in enumerate(_UNITS):
        with np.errstate(over="ignore"):
            scaled = values * size
        if (np.abs(scaled) < _LARGEST).all():  # false for NaN
            back = np.rint(scaled).astype(np.int64) / size
            if (back.view(np.int64) == values.view(np.int64)).all():
                return unit
    return _BITS


def _whole(values: npt.NDArray[np.float64], unit: int) -> npt.NDArray[np.int64]:
    """The values as numbers of units, at most 2^62; or their bits."""
    if unit == _BITS:
        return values.view(np.int64)
    with np.errstate(over="ignore"):
        return np.rint(np.clip(values * _UNITS[unit], -_LARGEST, _LARGEST)).astype(np.int64)


def _predicted(name: str, known: Columns) -> npt.NDArray[np.float64]:
    """A sum as predicted by the columns before it: finite, and 0 without a prediction."""
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
