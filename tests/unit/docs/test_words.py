"""Sentences are in plain technical English: what the glossary replaced does not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import monitor

ROOT = Path(monitor.__file__).parent
REPLACED = re.compile(
    r"\bwhat became of\b|\bmend(ed)?\b|\b[Ss]urely\b|\b[Ii]s it sure\b|\bunexplained\b|\bin breach in \d"
    r"|\bas they stood\b|\bstands (there|in it|against|beside|between)\b|\bpromises more\b|\bno longer mean\b"
    r"|write instead: valid"
)


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module that are no docstrings, with their lines."""
    tree = ast.parse(path.read_text())
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def test_no_sentence_has_a_word_that_was_replaced() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted(ROOT.rglob("*.py"))
        for line, text in sentences(path)
        if REPLACED.search(text)
    ]
    assert found == []
