"""The distinct keys of groups."""

import numpy as np
import pytest

from monitor.core.distinct import distinct

KEYS = {
    "none": [],
    "one": [40_003],
    "zero": [0, 0, 0],
    "dense": [2, 0, 1, 2, 2, 5],
    "few of many": [40_000, 3, 40_000],
    "negative": [-1, 3, 3, -1, 2],
    "negative and large": [np.iinfo(np.int64).min, np.iinfo(np.int64).max],
    "at the edge": [31, 0],
    "beyond the edge": [32, 0],
    "large, then negative": [np.iinfo(np.int64).max, np.iinfo(np.int64).min],
    "rising": [3, 7, 40_003],
    "rising from below zero": [-2, -2, 0, 5, 5],
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS.keys())
def test_distinct_keys_and_places_are_those_that_sorting_finds(keys: list[int]) -> None:
    asked = np.asarray(keys, dtype=np.int64)
    found, place = distinct(asked)
    expected, expected_place = np.unique(asked, return_inverse=True)
    np.testing.assert_array_equal(found, expected, strict=True)
    np.testing.assert_array_equal(place, expected_place, strict=True)


@pytest.mark.parametrize("size", [10, 2_500, 60_000])
def test_random_keys_are_found_and_placed_as_by_sorting(size: int) -> None:
    asked = np.random.default_rng(size).integers(0, 40_004, size)
    found, place = distinct(asked)
    np.testing.assert_array_equal(found[place], asked)
    np.testing.assert_array_equal(found, np.unique(asked), strict=True)
