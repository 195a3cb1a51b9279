"""What is kept is what would be worked out again."""

from __future__ import annotations

from dataclasses import replace
from weakref import ref

import numpy as np
import pytest

from monitor.core.counts import counts_from_rows
from monitor.inference.memory import each_by_content, kept_with
from tests.fakes.one_table import table


@pytest.mark.parametrize("name", ["upper", "n", "w", "ws", "wy", "n_eff"])
def test_every_array_of_a_table_distinguishes_it_from_others(name: str):
    seen = each_by_content(lambda tables: [float(getattr(each, name)[-1]) for (each,) in tables])
    one = table([40, 60], [0.3, 0.8], [0.2, 0.7])
    other = replace(one, **{name: getattr(one, name) + 1})
    assert seen([(other,)])[0] == seen([(one,)])[0] + 1
    assert seen([(one,), (other,)]) == [seen([(one,)])[0], seen([(other,)])[0]]


def test_what_is_kept_with_counts_goes_with_them():
    counts = counts_from_rows([0.2], [0])
    made = kept_with(counts, "array", lambda: np.arange(3.0))
    assert kept_with(counts, "array", lambda: np.arange(4.0)) is made
    assert kept_with(counts_from_rows([0.2], [0]), "array", lambda: np.arange(4.0)) is not made
    gone = ref(counts)
    del counts
    assert gone() is None
