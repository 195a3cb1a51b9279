"""Every file that the pages for developers name exists, and holds what they say is in it."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = ("docs/architecture.md", "docs/first-change.md", "docs/glossary.md", "CONTRIBUTING.md")
FOLDERS = "monitor|flows|tests|docs|benchmarks|deployments"
PATH = re.compile(rf"`((?:{FOLDERS})/[^`\s]*)`")
CONTENT = re.compile(rf"`((?:{FOLDERS})/[\w/]+\.py)` \(((?:`\w+`(?:, | and )?)+)\)")


def written_out(path: str) -> list[str]:
    """``a/{b,c}.py`` as ``a/b.py`` and ``a/c.py``; ``<id>`` is any name."""
    parts = [part.strip("{}").split(",") for part in re.split(r"(\{[^}]*\})", re.sub(r"<\w+>", "*", path))]
    return ["".join(choice) for choice in product(*parts)]


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_is_named_exists(page: str) -> None:
    named = sorted(set(PATH.findall((ROOT / page).read_text("utf-8"))))
    assert named
    missing = [path for name in named for path in written_out(name) if not any(ROOT.glob(path.rstrip("/")))]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_a_file_holds_the_names_that_are_given_with_it(page: str) -> None:
    for path, names in CONTENT.findall((ROOT / page).read_text("utf-8")):
        text = (ROOT / path).read_text("utf-8")
        missing = [name for name in re.findall(r"\w+", names) if not re.search(rf"\b{name}\b", text)]
        assert missing == [], f"not in {path}"
