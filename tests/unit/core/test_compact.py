"""Counts are kept in few bytes, and come back to the bit; what older versions wrote is read as well."""

from __future__ import annotations

import io
import json
import zlib
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core import compact, segment_bytes
from monitor.core.counts import KEYS, SUMS, Counts, counts_from_bytes, counts_from_rows

GRID = 2.0**40
ODD = st.sampled_from([0.0, -0.0, 1.0, 1 / 3, 5e-324, 1e300, float("inf"), float("nan"), 2.0**53, 2.0**70])
NUMBERS = ODD | st.floats(allow_nan=True) | st.integers(-(2**61), 2**61).map(lambda k: k / GRID)
GROUPS = st.lists(
    st.tuples(st.integers(0, 10_000), st.booleans(), st.booleans(), st.integers(0, 2**50), *[NUMBERS] * 6), max_size=20
)

TOGETHER = (
    "0178da63676060b006e26aa5e2e4fca2d4f8cc62252ba582a2fca4c4a4cc9ccc92caf8fcb4f89cc4a4d41c251da5d4b4b4d4"
    "e412a08268433d031d288ead656670707068696862909797b7b3b363646262630162a0a10c8c60c4c0c4c0c4c2c8c0086282"
    "7800e6da1757"
)
APART = (
    "0363676060b006620a8c6066666464000310c508e200310000404040848082001f1f1f3e3e3e02020604020206000000020002046300032600"
)


def counts_of(groups: list[tuple[float, ...]]) -> Counts:
    columns = list(zip(*groups, strict=True)) or [()] * 10
    kinds = (np.int64, np.bool_, np.bool_, np.int64, *[np.float64] * 6)
    arrays = {n: np.array(v, dtype=k) for n, v, k in zip(KEYS + SUMS, columns, kinds, strict=True)}
    return Counts(**arrays, design_effect=1.7, acting_effects=(1.0, 2.3), score_is="confidence_in_prediction")  # type: ignore[arg-type]


def bits_of(counts: Counts) -> list[object]:
    arrays = [(getattr(counts, name).dtype, getattr(counts, name).tobytes()) for name in KEYS + SUMS]
    return [*arrays, *(getattr(counts, f.name) for f in fields(counts) if f.name not in KEYS + SUMS)]


def of_warehouse(rows: int, decimals: int) -> Counts:
    """As the warehouse counts: sums are whole multiples of 2^-40."""
    rng = np.random.default_rng(rows)
    score = np.round(rng.random(rows), decimals)
    counts = counts_from_rows(score, rng.random(rows) < score, automate_at=0.8)
    return replace(counts, **{n: np.rint(getattr(counts, n) * GRID) / GRID for n in ("ws", "wsy", "ws2")})


def older(counts: Counts) -> bytes:
    """What versions before 0021 wrote."""
    buffer = io.BytesIO()
    about = {"score_is": np.array(counts.score_is), "design_effect": counts.design_effect}
    arrays = {name: getattr(counts, name) for name in KEYS + SUMS}
    np.savez(buffer, **about, acting_effects=np.array(counts.acting_effects), **arrays)  # type: ignore[arg-type]
    return zlib.compress(buffer.getvalue(), 6)


def older_segments(parts: segment_bytes.SegmentCounts) -> bytes:
    counts, buffer = list(parts.values()), io.BytesIO()
    arrays = {name: np.concatenate([getattr(each, name) for each in counts]) for name in KEYS + SUMS}
    arrays["lengths"] = np.array([len(each.cell) for each in counts])
    arrays["effects"] = np.array([[each.design_effect, *each.acting_effects] for each in counts])
    about = json.dumps({"segments": [list(each) for each in parts], "score_is": counts[0].score_is})
    np.savez(buffer, about=np.array(about), **arrays)  # type: ignore[arg-type]
    return zlib.compress(buffer.getvalue(), 6)


@given(GROUPS)
def test_any_counts_come_back_to_the_bit(groups: list[tuple[float, ...]]) -> None:
    counts = counts_of(groups)
    assert bits_of(counts_from_bytes(counts.to_bytes())) == bits_of(counts)


@pytest.mark.parametrize(("rows", "decimals", "times"), [(2_000, 4, 8), (2_000, 2, 8), (2_000, 12, 2), (40, 12, 3)])
def test_counts_of_a_warehouse_take_a_part_of_the_bytes(rows: int, decimals: int, times: int) -> None:
    counts = of_warehouse(rows, decimals)
    assert bits_of(counts_from_bytes(counts.to_bytes())) == bits_of(counts)
    assert times * len(counts.to_bytes()) < len(older(counts))


def test_what_older_versions_wrote_is_read() -> None:
    counts = of_warehouse(300, 3)
    assert bits_of(counts_from_bytes(older(counts))) == bits_of(counts)
    parts = {("channel", "web"): counts, ("channel", "phone"): of_warehouse(50, 2)}
    for kept in (older_segments(parts), segment_bytes.to_bytes(parts)):
        again = segment_bytes.from_bytes(kept)
        assert {segment: bits_of(each) for segment, each in again.items()} == {s: bits_of(c) for s, c in parts.items()}


@pytest.mark.parametrize("written", [TOGETHER, APART])
def test_what_a_version_wrote_is_read_by_all_later_ones(written: str) -> None:
    counts = counts_from_bytes(bytes.fromhex(written))
    assert bits_of(counts) == bits_of(of_warehouse(12, 1))


@given(GROUPS)
def test_the_form_of_before_holds_the_same(groups: list[tuple[float, ...]]) -> None:
    columns, about = compact.from_bytes(counts_of(groups).to_bytes())
    again, said = compact.from_bytes(compact.together(columns, about))
    assert said == about
    assert {name: each.tobytes() for name, each in again.items()} == {n: each.tobytes() for n, each in columns.items()}


def test_bytes_of_another_version_are_refused() -> None:
    with pytest.raises(ValueError, match="written by another version"):
        compact.from_bytes(b"\x02" + b"later")
