"""No two public classes of the project have the same name."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_no_two_public_classes_have_the_same_name() -> None:
    names = Counter(
        node.name
        for folder in ("monitor", "flows")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert names
    assert [name for name, count in names.items() if count > 1] == []
