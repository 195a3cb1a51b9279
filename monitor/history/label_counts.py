"""The counts of a reading as bytes. Those of the source as a whole are not stored if its labels' counts give them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from monitor.core.counts import KEYS, SUMS, Counts, counts_from_bytes, pool

POOLED = b"\x02"
"""The first byte of data that means "the labels' counts added up". :mod:`monitor.core.compact` never writes it
first."""


def to_bytes(labels: Mapping[str | None, Counts]) -> dict[str | None, bytes]:
    """The counts of every label; None is the source as a whole."""
    whole, pooled = labels.get(None), _pooled(labels)
    short = whole is not None and pooled is not None and _are_same(whole, pooled)
    return {label: _effects(part) if label is None and short else part.to_bytes() for label, part in labels.items()}


def _effects(whole: Counts) -> bytes:
    effects = [float(effect) for effect in (whole.design_effect, *whole.acting_effects)]
    return POOLED + json.dumps(effects, separators=(",", ":")).encode()


def from_bytes(stored: Mapping[str | None, bytes]) -> dict[str | None, Counts]:
    """The counts that :func:`to_bytes` wrote, bit for bit. Raises ValueError for added-up counts without any label."""
    whole = stored.get(None)
    if whole is None or not is_pooled(whole):
        return {label: counts_from_bytes(data) for label, data in stored.items()}
    found: dict[str | None, Counts] = {
        label: counts_from_bytes(data) for label, data in stored.items() if label is not None
    }
    pooled = _pooled(found)
    if pooled is None:
        raise ValueError("the counts of a source as a whole are those of its labels, and there are none")
    design_effect, predicted, automated = json.loads(whole[len(POOLED) :])
    return {None: replace(pooled, design_effect=design_effect, acting_effects=(predicted, automated)), **found}


def is_pooled(data: bytes) -> bool:
    """Whether these bytes mean the labels' counts added up."""
    return data[: len(POOLED)] == POOLED


def _pooled(labels: Mapping[str | None, Counts]) -> Counts | None:
    """The labels' counts added up, in the order of their names: rounding of large sums depends on the order."""
    names = sorted(label for label in labels if label is not None)
    return pool([labels[name] for name in names]) if names else None


def _are_same(whole: Counts, pooled: Counts) -> bool:
    """Whether both are the same bit for bit, apart from their design effects."""
    pairs = ((getattr(whole, name), getattr(pooled, name)) for name in KEYS + SUMS)
    return whole.score_is == pooled.score_is and all(one.tobytes() == other.tobytes() for one, other in pairs)
