"""The counts of one label in each of its segments as bytes, for the history: all of them in one compressed block."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from monitor.core.counts import KEYS, SUMS, Counts
from monitor.core.promises import Segment

SegmentCounts = Mapping[Segment, Counts]
"""Counts by (column, value)."""


def to_bytes(parts: SegmentCounts) -> bytes:
    """A compressed form; :func:`from_bytes` reads it back.

    >>> from monitor.core.counts import counts_from_rows
    >>> found = from_bytes(to_bytes({("channel", "web"): counts_from_rows([0.5, 0.9], [0, 1])}))
    >>> [(segment, counts.rows) for segment, counts in found.items()]
    [(('channel', 'web'), 2)]
    """
    names, counts = [list(segment) for segment in parts], list(parts.values())
    if not counts:
        return b""
    arrays: dict[str, Any] = {name: np.concatenate([getattr(each, name) for each in counts]) for name in KEYS + SUMS}
    arrays["lengths"] = np.array([len(each.cell) for each in counts])
    arrays["effects"] = np.array([[each.design_effect, *each.acting_effects] for each in counts])
    about = json.dumps({"segments": names, "score_is": counts[0].score_is})
    buffer = io.BytesIO()
    np.savez(buffer, about=np.array(about), **arrays)
    return zlib.compress(buffer.getvalue(), 6)


def from_bytes(data: bytes) -> dict[Segment, Counts]:
    """The counts that :func:`to_bytes` wrote, by segment."""
    if not data:
        return {}
    with np.load(io.BytesIO(zlib.decompress(data)), allow_pickle=False) as stored:
        about = json.loads(str(stored["about"]))
        ends = np.cumsum(stored["lengths"])[:-1]
        columns = {name: np.split(stored[name], ends) for name in KEYS + SUMS}
        effects = stored["effects"].tolist()
    return {
        (column, value): Counts(
            **{name: columns[name][place] for name in KEYS + SUMS}, design_effect=effects[place][0],
            score_is=about["score_is"], acting_effects=(effects[place][1], effects[place][2]),
        )
        for place, (column, value) in enumerate(about["segments"])
    }  # fmt: skip
