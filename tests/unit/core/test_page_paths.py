"""The addresses of pages: whatever a label is called, the service accepts the path."""

from __future__ import annotations

from unicodedata import category
from urllib.parse import parse_qs, unquote, urlsplit

from hypothesis import example, given
from hypothesis import strategies as st

from monitor.core.page_paths import label_path

NAMES = st.text(st.characters(exclude_categories=("Cs",)))


@given(NAMES, NAMES)
@example("my src", "new\tTab")
@example("a\nb", "\x85")
@example("tickets", "a/../b")
@example("tickets", "a/b c")
def test_a_label_s_path_has_no_control_character_and_no_segment_of_dots_and_says_the_label(source: str, label: str):
    parts = urlsplit(label_path(source, label))
    path = unquote(parts.path)
    assert not any(category(char) == "Cc" for char in path)  # which the service refuses
    assert not {".", ".."} & set(path.split("/"))
    query = parse_qs(parts.query, keep_blank_values=True)
    named = (query["source"][0], query["label"][0]) if query else tuple(path.split("/", 2)[1:])
    assert named == (source, label)
