"""Names from outside in sentences: right-to-left letters move nothing around them, an empty value is seen; advice."""

from __future__ import annotations

import pytest

from monitor.core.records import Subject
from monitor.core.wording import clean, isolated, segment_name
from monitor.report import words

ARABIC, HEBREW = "شكوى", "עברית"
FIRST, LAST = "\u2068", "\u2069"


@pytest.mark.parametrize("value", [ARABIC, HEBREW, f"vip {ARABIC}", f"{ARABIC} 2"])
def test_a_segment_s_right_to_left_value_is_kept_from_reordering_the_numbers_behind_it(value: str):
    assert segment_name("channel", value) == f"channel = {FIRST}{value}{LAST}"
    assert words.segment(Subject("tickets", "billing", ("channel", value))) == f"channel = {FIRST}{value}{LAST}"
    assert segment_name(value, "web") == f"{FIRST}{value}{LAST} = web"


@pytest.mark.parametrize("value", ["web", "e-mail 2", "Größe", "日本", "🔥"])
def test_a_value_that_runs_from_left_to_right_stays_as_it_is(value: str):
    assert segment_name("channel", value) == f"channel = {value}"


@pytest.mark.parametrize("value", ["", "  ", "\u202e", FIRST + LAST])
def test_a_value_with_nothing_to_show_is_said_to_be_empty(value: str):
    assert segment_name("channel", value) == "channel = (empty)"


def test_a_cut_value_is_isolated_as_a_whole():
    found = segment_name("channel", ARABIC * 40)
    assert found.startswith(f"channel = {FIRST}{ARABIC}")
    assert found.endswith(f"…{LAST}")


def test_a_sentence_that_is_cleaned_again_keeps_what_isolates_its_names_and_nothing_else_that_is_invisible():
    sentence = f"turned off {segment_name('channel', ARABIC)}: 12 of 40"
    assert clean(sentence) == sentence
    assert clean(f"bil{FIRST}l{LAST}ing \u2066x\u2069 {FIRST}{ARABIC}") == f"billing x {ARABIC}"
    assert clean(f"{LAST}{ARABIC}{FIRST} 12") == f"{ARABIC} 12"
    assert isolated(isolated(ARABIC)) == isolated(ARABIC)


def test_a_sentence_that_is_cut_within_a_name_leaves_no_isolate_open():
    sentence = f"turned off {segment_name('channel', ARABIC * 5)}"
    for length in range(12, len(sentence)):
        found = clean(sentence, length)
        assert len(found) <= length
        assert found.count(FIRST) == found.count(LAST)
