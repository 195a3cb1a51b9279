"""Counts as numpy's compressed arrays (``.npz``), the form in which the history stores them."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt
from numpy.lib.format import write_array

from monitor.core.counts import KEYS, SUMS, Counts, SegmentCounts
from monitor.core.records import ScoreIs
from monitor.history.values import label_key, label_of

_Name = TypeVar("_Name", bound=tuple[str, ...])


def to_bytes(parts: Mapping[_Name, Counts]) -> bytes:
    """Counts by name as one file; the groups of the parts follow one another, ``lengths`` of each.

    >>> from monitor.core.counts import counts_from_rows
    >>> stored = from_bytes(to_bytes({("billing",): counts_from_rows([0.5, 0.9], [0, 1])}))
    >>> [(name, part.rows) for name, part in stored.items()]
    [(('billing',), 2)]
    """
    file, counts = io.BytesIO(), list(parts.values())
    arrays = {
        "names": np.array(json.dumps(list(parts))),
        "score_is": np.array([part.score_is for part in counts], dtype=str),
        "lengths": np.array([len(part.cell) for part in counts], dtype=np.int64),
        "effects": np.array(
            [[part.design_effect, *part.acting_effects, part.together] for part in counts], dtype=np.float64
        ),
        "keys": _joined(counts, KEYS).astype(np.uint16),
        "sums": _joined(counts, SUMS),
    }
    # as numpy.savez_compressed, but for the level: the usual one takes twice the time for one percent less
    with ZipFile(file, "w", ZIP_DEFLATED, compresslevel=5) as stored:
        for name, array in arrays.items():
            with stored.open(f"{name}.npy", "w") as part_of_file:
                write_array(part_of_file, array, allow_pickle=False)
    return file.getvalue()


def _joined(parts: Sequence[Counts], names: Sequence[str]) -> npt.NDArray[np.float64]:
    """The columns of these parts one after the other, shape (columns, groups)."""
    return np.hstack([np.empty((len(names), 0)), *([getattr(part, name) for name in names] for part in parts)])


def from_bytes(data: bytes) -> dict[tuple[str, ...], Counts]:
    """The counts that :func:`to_bytes` wrote, bit for bit. Raises ValueError for other bytes."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (BadZipFile, EOFError, zlib.error) as error:
        raise ValueError(f"these are no counts: {error}") from error
    names = json.loads(str(arrays["names"]))
    if not names:
        return {}
    ends = np.cumsum(arrays["lengths"])[:-1]
    columns = (np.split(arrays["keys"], ends, axis=1), np.split(arrays["sums"], ends, axis=1))
    about = (arrays["effects"].tolist(), arrays["score_is"].tolist())
    parts = zip(names, *columns, *about, strict=True)
    return {tuple(name): _counts(*part) for name, *part in parts}


def _counts(keys: Any, sums: Any, effects: list[float], score_is: ScoreIs) -> Counts:
    cell, predicted, automated = keys
    columns = {name: np.ascontiguousarray(each) for name, each in zip(SUMS, sums, strict=True)}
    return Counts(
        cell=cell.astype(np.int64),
        predicted=predicted.astype(bool),
        automated=automated.astype(bool),
        **{**columns, "n": columns["n"].astype(np.int64)},
        design_effect=effects[0],
        score_is=score_is,
        acting_effects=(effects[1], effects[2]),
        together=effects[3],
    )


def of_labels(labels: Mapping[str | None, Counts]) -> bytes:
    """The counts of labels, and of the source as a whole (None)."""
    return to_bytes({(label_key(label),): part for label, part in labels.items()})


def labels(data: bytes) -> dict[str | None, Counts]:
    """The counts of :func:`of_labels`, bit for bit. Raises ValueError for other bytes."""
    return {label_of(key): part for (key,), part in from_bytes(data).items()}


def of_segments(by_label: Mapping[str | None, SegmentCounts]) -> bytes:
    """The counts of each label by segment."""
    return to_bytes(
        {(label_key(label), *segment): part for label, of in by_label.items() for segment, part in of.items()}
    )


def segments(data: bytes) -> dict[str | None, dict[tuple[str, str], Counts]]:
    """The counts of :func:`of_segments`, without labels that have no segment. Raises ValueError for other bytes."""
    by_label: dict[str | None, dict[tuple[str, str], Counts]] = {}
    for (label, column, value), part in from_bytes(data).items():
        by_label.setdefault(label_of(label), {})[column, value] = part
    return by_label
