"""What the documents say of every variable is true: it exists, its default, its file form, and who uses it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from pydantic import SecretStr

from monitor.config.environment import SECRETS
from monitor.config.settings import Settings, variable

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "configuration.md").read_text("utf-8")
EXAMPLE = (ROOT / ".env.example").read_text("utf-8")
FIELDS = tuple(Settings.model_fields)
NOT_USED = re.compile(r"(?i)\bnot (?:yet )?(?:called|used)\b|by this version yet")


def rows() -> dict[str, list[str]]:
    """Each variable's row of the table: meaning, default, file form, used by."""
    section = PAGE.partition("## Environment")[2]
    lines = (line for line in section.splitlines() if line.startswith("| `CALMON_"))
    cells = ([cell.strip() for cell in line.strip("|").split(" |")] for line in lines)
    return {row[0].strip(" `"): row[1:] for row in cells}


@cache
def users(field: str) -> frozenset[str]:
    """The modules that read a setting: as an attribute of the settings, or by its name from the environment."""
    found = set()
    for path in (*(ROOT / "monitor").rglob("*.py"), *(ROOT / "flows").glob("*.py")):
        if path.name in ("settings.py", "environment.py") and path.parent.name == "config":
            continue
        text = path.read_text("utf-8")
        if field in text and any(_reads(node, field) for node in ast.walk(ast.parse(text))):
            found.add(path.relative_to(ROOT).as_posix())
    return frozenset(found)


def _reads(node: ast.AST, field: str) -> bool:
    if isinstance(node, ast.Attribute) and node.attr == field:
        whose = ast.unparse(node.value)
        return whose.endswith(("settings", "settings()"))
    return (
        isinstance(node, ast.Call)
        and any(isinstance(one, ast.Constant) and one.value == field for one in node.args)
        and ast.unparse(node.func) in ("_checked", "given", "environment.given")
    )


def test_the_table_has_every_variable_once_and_no_other() -> None:
    assert set(rows()) == {variable(field) for field in FIELDS}
    assert PAGE.count("\n| `CALMON_") == len(FIELDS)


@pytest.mark.parametrize("field", FIELDS)
def test_a_variable_is_used_where_the_table_says(field: str) -> None:
    row = rows()[variable(field)]
    assert len(row) == 4, f"{variable(field)} needs the cells meaning, default, also as a file, used by"
    named = set(re.findall(r"`((?:monitor|flows)/[\w/]+\.py)`", row[3]))
    assert named, f"say in docs/configuration.md which module uses {variable(field)}; these do: {sorted(users(field))}"
    assert named <= users(field), f"{variable(field)} is used by {sorted(users(field))}"


@pytest.mark.parametrize("field", FIELDS)
def test_a_variable_has_the_file_form_that_the_table_says(field: str) -> None:
    expected = f"`{variable(field)}_FILE`" if field in SECRETS else ""
    assert rows()[variable(field)][2] == expected


@pytest.mark.parametrize("field", FIELDS)
def test_a_variable_has_the_default_that_the_table_says(field: str) -> None:
    default = Settings.model_fields[field].default
    if default is not None:
        shown = default.get_secret_value() if isinstance(default, SecretStr) else str(default)
        assert rows()[variable(field)][1] == shown


@pytest.mark.parametrize("field", FIELDS)
def test_no_document_says_of_a_variable_that_it_is_not_used_yet(field: str) -> None:
    (comment,) = re.findall(rf"((?:^#.*\n)+)(?:# )?{variable(field)}=", EXAMPLE, re.MULTILINE)
    assert not NOT_USED.search(comment), comment
    assert not NOT_USED.search(" | ".join(rows()[variable(field)]))
