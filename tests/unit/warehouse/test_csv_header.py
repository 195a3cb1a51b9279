"""The line of names of a CSV file, by the first lines of the file alone."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from monitor.warehouse.csv_header import Header, header_of
from monitor.warehouse.csv_lines import head_of
from monitor.warehouse.relation import UnreadableFile

NAMES = ("item", "label", "score")


BEFORE = (
    [], ["", " "], ["Tickets"], ["Tickets", "", "of May 2026"], ["# Tickets, exported; by nobody"],
    ["# one", "# two, three", ""],
)  # fmt: skip


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("before", BEFORE)
def test_lines_before_the_names_are_left_out(separator: str, before: list[str]) -> None:
    lines = [separator.join(NAMES), separator.join(("t1", "refund", "0.9"))]
    assert header_of("x.csv", [*before, *lines]) == Header(separator, NAMES, len(before))
    padded = f"Tickets{2 * separator}"  # as a spreadsheet writes a title
    assert header_of("x.csv", [*before, padded, *lines]) == Header(separator, NAMES, len(before) + 1)


@pytest.mark.parametrize("stated", ["sep=;", '"sep=;"', "SEP=;", " sep=; "])
def test_the_separator_may_be_stated_as_for_excel(stated: str) -> None:
    assert header_of("x.csv", [stated, "item;label, or none;score"]) == Header(
        ";", ("item", "label, or none", "score"), 1
    )
    assert header_of("x.csv", ["sep=^", "item^label", "a^b"]) == Header("^", ("item", "label"), 1)


def test_a_line_of_names_may_begin_with_a_hash() -> None:
    for more in ([], ["1,refund,0.9"], ["#2,refund,0.9", "1,refund,0.9"]):
        found = header_of("x.csv", ["#item,label,score", *more])
        assert (found.names[0], found.before) == ("#item", 0)


def test_names_may_be_quoted_and_have_separators_and_line_breaks() -> None:
    lines = ['"item","the', 'label","score ""s"", or so"', "1,2,3", ""]
    assert header_of("x.csv", lines) == Header(",", ("item", "the\nlabel", 'score "s", or so'))


def test_blanks_around_names_are_no_part_of_them() -> None:
    found = header_of("x.csv", [" item , label,score "])
    assert found == Header(",", NAMES)


def test_columns_without_a_name_and_of_the_same_name_differ() -> None:
    found = header_of("x.csv", [",item,Score,score,,"])
    assert found.names == ("column0", "item", "Score (1)", "score (2)", "column4", "column5")


@pytest.mark.parametrize("lines", [[], [""], ["", "  ", "\t"]])
def test_a_file_without_any_text_has_no_line_of_names(lines: list[str]) -> None:
    assert header_of("x.csv", lines) is None


def test_a_file_of_one_column_is_refused_with_what_it_begins_with() -> None:
    with pytest.raises(UnreadableFile, match=r"x\.csv has no line of names: it begins with item") as raised:
        header_of("x.csv", ["", "item", "t1", "t2"])
    assert "separated by comma, semicolon, tab or |" in raised.value.remedy
    with pytest.raises(UnreadableFile, match=r"begins with x{59}…"):
        header_of("x.csv", ["x" * 1_000])


def test_names_that_are_not_in_utf8_are_refused_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("title\nitem,größe\n".encode("latin-1"))
    with pytest.raises(UnreadableFile, match=r"line 2 of .* is not in UTF-8"):
        header_of(str(path), head_of(None, str(path)))
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        path.write_bytes("item,label\n".encode(encoding))
        with pytest.raises(UnreadableFile, match="is not in UTF-8"):
            header_of(str(path), head_of(None, str(path)))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_head_of_a_file_is_whole_lines_whatever_their_end(tmp_path: Path, end: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(f"\ufeffitem,label{end}t1,refund{end}".encode())
    assert head_of(None, str(path)) == ["item,label", "t1,refund", ""]
    packed = tmp_path / "x.csv.gz"
    packed.write_bytes(gzip.compress(f"item,label{end}".encode() * 100_000))
    head = head_of(None, str(packed))
    assert {line for line in head if line} == {"item,label"}
    assert len(head) < 2_000


@pytest.mark.parametrize(
    "content", [b"item,label\n", gzip.compress(b"item,label\n" * 1_000, mtime=0)[:20]], ids=["no gzip", "half a gzip"]
)
def test_what_is_no_whole_gzip_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match="it is no gzip file, or a damaged one"):
        head_of(None, str(path))


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(UnreadableFile, match="cannot be opened: Is a directory"):
        head_of(None, str(tmp_path / "x.csv"))
