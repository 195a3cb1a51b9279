"""The counts of a reading as bytes: to the bit, the source as a whole only where its labels do not give it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from monitor.core.counts import KEYS, SUMS, Counts, counts_from_rows, pool
from monitor.history import label_counts


def rows_of(label: int, **options: float) -> Counts:
    rng = np.random.default_rng(label)
    made = counts_from_rows(rng.random(300), rng.random(300) < 0.4, automate_at=0.8)
    return replace(made, design_effect=1.0 + label / 3, **options)


LABELS = {"b": rows_of(1), "a": rows_of(2), "ä": rows_of(3)}
WHOLE = replace(pool(LABELS.values()), design_effect=1.7, acting_effects=(1.2, 1.1))


def same(one: Counts, other: Counts) -> bool:
    said = ("design_effect", "acting_effects", "score_is")
    bits = all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in KEYS + SUMS)
    return bits and all(getattr(one, name) == getattr(other, name) for name in said)


def test_a_whole_that_its_labels_give_takes_a_few_bytes_and_comes_back_to_the_bit() -> None:
    in_order = pool([LABELS[name] for name in sorted(LABELS)])
    whole = replace(in_order, design_effect=1.7, acting_effects=(1.2, 1.1))
    stored = label_counts.to_bytes({None: whole, **LABELS})
    assert label_counts.is_pooled(stored[None])
    assert len(stored[None]) < 20
    backwards = {label: stored[label] for label in sorted(stored, key=str, reverse=True)}
    found = label_counts.from_bytes(backwards)
    assert found.keys() == stored.keys()
    assert all(same(found[label], part) for label, part in {None: whole, **LABELS}.items())


@pytest.mark.parametrize("other", [
    replace(WHOLE, ws=WHOLE.ws + 2.0**-40), WHOLE.take(WHOLE.cell > 100),
    replace(WHOLE, score_is="confidence_in_prediction"),
])  # fmt: skip
def test_a_whole_of_its_own_is_stored(other: Counts) -> None:
    stored = label_counts.to_bytes({None: other, **LABELS})
    assert not label_counts.is_pooled(stored[None])
    found = label_counts.from_bytes(stored)[None]
    assert same(found, other)


def test_without_labels_there_is_no_whole_to_give() -> None:
    assert label_counts.to_bytes({}) == {}
    stored = label_counts.to_bytes({None: WHOLE})
    assert same(label_counts.from_bytes(stored)[None], WHOLE)
    with pytest.raises(ValueError, match="there are none"):
        label_counts.from_bytes({None: label_counts.POOLED + b"[1.0,1.0,1.0]"})
