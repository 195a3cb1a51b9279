"""Counts come back from numpy's arrays to the bit; other bytes are an error that names them."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts import KEYS, SUMS, Counts, counts_from_rows
from monitor.history import counts_file

NUMBERS = st.sampled_from([0.0, -0.0, 1 / 3, 5e-324, 1e300, float("inf"), float("nan")]) | st.floats()
GROUPS = st.lists(
    st.tuples(st.integers(0, 10_000), st.booleans(), st.booleans(), st.integers(0, 2**50), *[NUMBERS] * 7), max_size=20
)


def bits_of(counts: Counts) -> list[object]:
    arrays = [(getattr(counts, name).dtype, getattr(counts, name).tobytes()) for name in KEYS + SUMS]
    return [*arrays, *(getattr(counts, f.name) for f in fields(counts) if f.name not in KEYS + SUMS)]


@given(GROUPS)
def test_any_counts_come_back_to_the_bit(groups: list[tuple[float, ...]]) -> None:
    columns = list(zip(*groups, strict=True)) or [()] * 11
    kinds = (np.int64, np.bool_, np.bool_, np.int64, *[np.float64] * 7)
    arrays = {n: np.array(v, dtype=k) for n, v, k in zip(KEYS + SUMS, columns, kinds, strict=True)}
    counts = Counts(**arrays, design_effect=1.7, acting_effects=(1.0, 2.3), score_is="confidence_in_prediction")  # type: ignore[arg-type]
    assert bits_of(counts_file.from_bytes(counts_file.to_bytes({(): counts}))[()]) == bits_of(counts)


def test_the_counts_of_labels_and_of_the_whole_come_back_to_the_bit() -> None:
    rng = np.random.default_rng(1)
    labels = {
        name: replace(counts_from_rows(rng.random(300), rng.random(300) < 0.4), design_effect=effect)
        for name, effect in (("b", 1.1), ("a", 1.2), ("ä", 1.3), (None, 1.4))
    }
    again = counts_file.labels(counts_file.of_labels(labels))
    assert {name: bits_of(part) for name, part in again.items()} == {
        name: bits_of(part) for name, part in labels.items()
    }


@pytest.mark.parametrize("damaged", [b"", b"x", counts_file.to_bytes({(): counts_from_rows([0.5], [1])})[:-30]])
def test_other_bytes_are_an_error(damaged: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        counts_file.from_bytes(damaged)
