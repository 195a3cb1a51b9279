"""Checks from its text, without a database, whether a relation is one table, one view or one SELECT."""

from __future__ import annotations

import re

# One SQL token in which semicolons and brackets have no meaning, or else one character.
_TOKEN = re.compile(
    r"""
      (?P<skip> '(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | --[^\n]* | /\*.*?\*/ | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ )
    | (?P<open> ' | " | ` | /\* )
    | (?P<one> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_WRITES = re.compile(
    r"(insert|update|delete|merge|truncate|drop|create|alter|grant|revoke|copy|attach|detach|pragma|set|call|exec"
    r"|execute|vacuum|install|load|export|import|replace|show|describe|explain|from|values|table)\s",
    re.IGNORECASE,
)
_READS = re.compile(r"\(*\s*(select|with)\b", re.IGNORECASE)


def is_select(relation: str) -> bool:
    """Whether the relation is a SELECT statement, not the name of a table or view.

    >>> is_select("select * from a"), is_select("marts.resolved_tickets"), is_select("selected_tickets")
    (True, False, False)
    """
    return bool(_READS.match(_without_leading_comments(relation)))


def without_final_semicolon(relation: str) -> str:
    """The relation without a final semicolon, so that it fits into brackets."""
    return relation.strip().rstrip("; \t\n") if is_select(relation) else relation.strip()


def relation_fault(relation: str) -> str | None:
    """What is wrong with the text of a relation; None if nothing is.

    >>> relation_fault("select 1; drop table a")
    'holds several statements'
    >>> relation_fault("select ';' as a from b;") is None
    True
    """
    text = _without_leading_comments(relation)
    if not is_select(text):
        return _fault_of_name(text)
    depth = 0
    for token in _TOKEN.finditer(without_final_semicolon(text)):
        if token["open"]:
            return f"has a {token['open']} that is never closed"
        depth += {"(": 1, ")": -1}.get(token["one"] or "", 0)
        if depth < 0:
            return "closes a bracket it never opened"
        if token["one"] == ";":
            return "holds several statements"
    return "has a bracket that is never closed" if depth else None


def _fault_of_name(text: str) -> str | None:
    if not text:
        return "is empty"
    if _WRITES.match(text):
        return f"is a {text.split(maxsplit=1)[0].upper()} statement"
    return "holds several statements" if ";" in text else None


def _without_leading_comments(text: str) -> str:
    return re.sub(r"\A(\s+|--[^\n]*(\n|\Z)|/\*.*?\*/)+", "", text, flags=re.DOTALL)
