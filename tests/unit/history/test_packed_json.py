"""JSON in few bytes: what was packed once is read for good."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.history import packed_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_it_comes_back_as_it_was(value: object) -> None:
    assert packed_json.from_bytes(packed_json.to_bytes(value)) == value


def test_what_an_earlier_version_has_packed_is_still_read() -> None:
    stored = bytes.fromhex("01ab464930a6880463645a0b00")
    assert packed_json.from_bytes(stored) == {"promised": 0.5, "kept": 0.25}
    # nothing that is stored can be read with another dictionary: a new one gets another first byte
    assert zlib.crc32(packed_json._COMMON) == 2584188098


def test_bytes_of_another_version_are_refused() -> None:
    with pytest.raises(ValueError, match="written by another version"):
        packed_json.from_bytes(b"\x02whatever")


def test_a_verdicts_detail_is_little_more_than_its_numbers() -> None:
    checks = [["readable", True, []], ["rows", True, ["n"]], ["beyond", False, ["value", "threshold"]],
              ["sure", False, ["p_value", "p_adjusted", "rate"]]]  # fmt: skip
    detail = {
        "confidence": 0.95,
        "rows_needed": 500,
        "condition": "above",
        "checks": checks,
        "rate": 0.01,
        "family": 20,
    }
    assert len(packed_json.to_bytes(detail)) < 50
