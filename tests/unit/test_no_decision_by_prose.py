"""Nothing is decided by looking into text that is meant for people: such decisions are enums, fields or columns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROSE = frozenset({
    "reason", "words", "detail", "text", "title", "error", "message", "why", "what", "sentence", "headline", "facts",
    "next_step", "do_now", "doubt", "short", "stays",
})  # fmt: skip
LOOKING_INTO = frozenset({
    "startswith", "endswith", "partition", "rpartition", "removeprefix", "removesuffix", "split", "rsplit", "find",
    "index",
})  # fmt: skip
MATCHING = frozenset({"match", "fullmatch", "search"})
UNCHANGED = frozenset({"strip", "lower", "upper", "casefold"})
ALLOWED = {
    ("flows/hooks.py", "REPORTED_BY_THE_RUN in (state.message or '')"):
        "Prefect hands a hook the state as its server keeps it: the type of the error is only in the message",
    ("monitor/service/pages/incidents.py", "story.sentence.removeprefix(story.name)"):
        "layout: the name stands before the sentence, as a link",
    ("monitor/cli/automation.py", "story.words.removeprefix('Automation is ')"): "layout: the column is of automation",
}  # fmt: skip
NUMBERS = frozenset({"verdict", "one"})
"""Whose ``detail`` is a mapping of named numbers (of a verdict, of an estimate), so that ``in`` asks for a key."""


def _attribute(node: ast.expr) -> ast.Attribute | None:
    """The attribute behind ``x.reason``, ``(x.reason or "")``, ``x.reason.strip()``, ``x.reason.partition(...)[0]``."""
    match node:
        case ast.Attribute():
            return node
        case ast.BoolOp(values=[first, *_]) | ast.Subscript(value=first):
            return _attribute(first)
        case ast.Call(func=ast.Attribute(value=first, attr=name)) if name in LOOKING_INTO | UNCHANGED:
            return _attribute(first)
    return None


def _is_prose(node: ast.expr) -> bool:
    found = _attribute(node)
    return found is not None and found.attr in PROSE


def decisions(code: str) -> Iterator[str]:
    """Every expression that looks into an attribute of prose."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Call(func=ast.Attribute(value=looked, attr=name)) if name in LOOKING_INTO:
                found = _is_prose(looked)
            case ast.Call(func=ast.Attribute(attr=name), args=[*_, looked]) if name in MATCHING:
                found = _is_prose(looked)
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Attribute(ast.Name(whose), "detail")]):
                found = whose not in NUMBERS
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[looked]):
                found = _is_prose(looked)
            case _:
                continue
        if found:
            yield ast.unparse(node)


def test_nothing_is_decided_by_looking_into_a_sentence() -> None:
    files = [path for room in ("monitor", "flows") for path in sorted((ROOT / room).rglob("*.py"))]
    found = {(str(path.relative_to(ROOT)), each) for path in files for each in decisions(path.read_text("utf-8"))}
    assert sorted(found - set(ALLOWED)) == [], "decide by an enum, a field or a column"
    assert sorted(set(ALLOWED) - found) == [], "no longer there: not to be allowed any more"


@pytest.mark.parametrize(
    "code",
    [
        'found.reason.startswith("the whole source")', '(each.error or "").startswith(DELETED)',
        'RATE_LIMITED in (done.error or "")', 'incident.reason.partition(",")[0] == "a"',
        'set(incident.reason.split(", ")) <= known', '"off" in decision.detail', 're.match("no", event.words)',
        'state.reason.strip().removeprefix("not evaluated: ")',
    ],
)  # fmt: skip
def test_each_way_of_looking_into_a_sentence_is_found(code: str) -> None:
    assert len(list(decisions(code))) == 1


@pytest.mark.parametrize("code", ["verdict.reason == Reason.NO_ROWS", '"kept" in verdict.detail', "reason.strip()"])
def test_named_reasons_and_named_numbers_are_no_prose(code: str) -> None:
    assert list(decisions(code)) == []
