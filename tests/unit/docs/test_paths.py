"""Every file and module that a page names exists, and holds what the page says is in it."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOR_DEVELOPERS = ("docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md")
PAGES = sorted(
    {
        *FOR_DEVELOPERS,
        "README.md",
        *(f"docs/{path.relative_to(ROOT / 'docs')}" for path in (ROOT / "docs").rglob("*.md")),
    }
)
FOLDERS = "monitor|flows|tests|docs|benchmarks|deployments"
PATH = re.compile(rf"`((?:{FOLDERS})/[^`\s]*)`")
DOTTED = re.compile(r"(?<![\w/.])((?:monitor|flows|benchmarks)(?:\.[a-z_]+)+(?:\.\w+)?)(?![\w(])")
CONTENT = re.compile(rf"`((?:{FOLDERS})/[\w/]+\.py)` \(((?:`\w+`(?:, | and )?)+)\)")


def written_out(path: str) -> list[str]:
    """``a/{b,c}.py`` as ``a/b.py`` and ``a/c.py``; ``<id>`` is any name."""
    parts = [part.strip("{}").split(",") for part in re.split(r"(\{[^}]*\})", re.sub(r"<\w+>", "*", path))]
    return ["".join(choice) for choice in product(*parts)]


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_is_named_exists(page: str) -> None:
    named = sorted(set(PATH.findall((ROOT / page).read_text("utf-8"))))
    assert named or page not in FOR_DEVELOPERS
    missing = [path for name in named for path in written_out(name) if not any(ROOT.glob(path.rstrip("/")))]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_a_file_holds_the_names_that_are_given_with_it(page: str) -> None:
    for path, names in CONTENT.findall((ROOT / page).read_text("utf-8")):
        text = (ROOT / path).read_text("utf-8")
        missing = [name for name in re.findall(r"\w+", names) if not re.search(rf"\b{name}\b", text)]
        assert missing == [], f"not in {path}"


def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    for split in (name, name.rpartition(".")[0]):
        path = ROOT / split.replace(".", "/")
        if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
            module = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
            return split == name or bool(re.search(rf"\b{name.rpartition('.')[2]}\b", module.read_text("utf-8")))
    return False


@pytest.mark.parametrize("page", PAGES)
def test_every_module_that_is_named_exists(page: str) -> None:
    text = re.sub(r"```text.*?```", "", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)
    assert [name for name in sorted(set(DOTTED.findall(text))) if not is_there(name)] == []
