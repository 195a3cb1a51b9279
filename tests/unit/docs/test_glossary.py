"""The glossary: every term is used, and each is written the same way on the pages."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (DOCS / "glossary.md").read_text("utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| Term", "| ---"))
]
TERMS = [
    re.sub(r" in rules$", "", term.strip()).strip("*`") for row in ROWS for term in row[0].split(", ")
]  # fmt: skip
#: Other words for a term, which the pages once had, each with the term to write.
OTHERWISE = {
    r"\bROC-AUC\b": "ROC AUC",
    r"\bPR-AUC\b": "PR AUC",
    r"\bbad news\b": "breach",
    r"\b[Tt]hreshold of automation\b": "automation threshold",
    r"\bthe gravest\b": "the most severe",
    r"\b(?:the|whole|no|a) board\b": "snapshot",
    r"\bnot confirmed yet\b": "unconfirmed",
}


def test_every_term_is_defined_once_and_says_where() -> None:
    assert len(TERMS) > 60
    assert sorted(set(TERMS)) == sorted(TERMS)
    assert [row for row in ROWS if len(row) != 3 or not all(row)] == []


def test_every_term_is_used_on_another_page() -> None:
    pages = " ".join(path.read_text("utf-8") for path in DOCS.rglob("*.md") if path.name != "glossary.md").lower()
    assert [term for term in TERMS if not re.search(rf"\b{re.escape(term.lower())}", pages)] == []


def test_no_page_has_another_word_for_a_term() -> None:
    found = [
        f"{path.relative_to(DOCS)}: {match.group()}: write {term}"
        for path in sorted(DOCS.rglob("*.md"))
        for word, term in OTHERWISE.items()
        for match in re.finditer(word, " ".join(path.read_text("utf-8").split()))
    ]
    assert found == []
