"""The pictures of the docs are written by one command, and every one that is shown exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.pictures import PICTURES, write

DOCS = Path(__file__).parents[3] / "docs"
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def test_the_command_writes_every_picture_the_same_way_twice(tmp_path: Path) -> None:
    first, second = write(tmp_path / "one"), write(tmp_path / "two")
    assert [path.stem for path in first] == list(PICTURES)
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes().startswith(SIGNATURE)
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_every_picture_that_a_page_shows_exists_and_is_described(page: Path) -> None:
    for text, target in re.findall(r"!\[([^\]]*)\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert len(text) > 20
        assert (page.parent / target).read_bytes().startswith(SIGNATURE)
