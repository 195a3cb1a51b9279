"""The counts of all segments of one label as one compressed block, for the history."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from monitor.core import compact
from monitor.core.counts import KEYS, SUMS, Counts
from monitor.core.promises import Segment

SegmentCounts = Mapping[Segment, Counts]
"""Counts by (column, value)."""


def to_bytes(parts: SegmentCounts) -> bytes:
    """The counts as compressed bytes; :func:`from_bytes` reads them back.

    >>> from monitor.core.counts import counts_from_rows
    >>> found = from_bytes(to_bytes({("channel", "web"): counts_from_rows([0.5, 0.9], [0, 1])}))
    >>> [(segment, counts.rows) for segment, counts in found.items()]
    [(('channel', 'web'), 2)]
    """
    names, counts = [list(segment) for segment in parts], list(parts.values())
    if not counts:
        return b""
    arrays: dict[str, Any] = {name: np.concatenate([getattr(each, name) for each in counts]) for name in KEYS + SUMS}
    effects = [[float(effect) for effect in (each.design_effect, *each.acting_effects)] for each in counts]
    lengths = [len(each.cell) for each in counts]
    about = {"segments": names, "score_is": counts[0].score_is, "lengths": lengths, "effects": effects}
    return compact.to_bytes(arrays, about)


def from_bytes(data: bytes) -> dict[Segment, Counts]:
    """By segment, the counts that :func:`to_bytes` of this or an older version wrote."""
    if not data:
        return {}
    arrays, about = compact.from_bytes(data) if compact.is_compact(data) else _older(data)
    ends = np.cumsum(about["lengths"])[:-1]
    columns = {name: np.split(arrays[name], ends) for name in KEYS + SUMS}
    return {
        (column, value): Counts(
            **{name: columns[name][place] for name in KEYS + SUMS},
            design_effect=about["effects"][place][0],
            score_is=about["score_is"],
            acting_effects=(about["effects"][place][1], about["effects"][place][2]),
        )
        for place, (column, value) in enumerate(about["segments"])
    }


def _older(data: bytes) -> tuple[dict[str, Any], Any]:
    """The counts in the form before the compact one: NumPy's arrays."""
    with np.load(io.BytesIO(zlib.decompress(data)), allow_pickle=False) as stored:
        about = {name: stored[name].tolist() for name in ("lengths", "effects")}
        return {name: stored[name] for name in KEYS + SUMS}, json.loads(str(stored["about"])) | about
