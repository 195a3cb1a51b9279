"""The texts by which a rejected row is shown, as one text: a statement that counts rows has one column for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import sqlalchemy as sa

from monitor.warehouse.dialects import Dialect, Expression

SHOWN = ("item", "label", "score", "date")
"""What is shown of a rejected row, each as text; None if it has none."""
EXAMPLES = 20
"""So many rows are shown of each reason."""
_SEPARATOR = "\x01"  # it sorts before all that people write, so that "a" comes before "a b"
_TEXT, _NOTHING = "1", "2"  # what a part begins with; plain letters, which every encoding of a database has


def packed(texts: Sequence[Expression], dialect: Dialect) -> Expression:
    """The texts as one, which sorts as they do one after the other. A separator within one of them becomes a space."""
    separator, space, text_follows, nothing = (
        sa.literal(each, sa.Text) for each in (_SEPARATOR, " ", _TEXT, _NOTHING)
    )  # by bytes: before PostgreSQL 18 nothing can be replaced under some collations
    plain = (sa.func.replace(dialect.ordered(text), separator, space, type_=sa.Text) for text in texts)
    parts: list[Expression] = [sa.func.coalesce(text_follows + text, nothing, type_=sa.Text) for text in plain]
    return reduce(lambda before, part: before + separator + part, parts)


def unpacked(text: str) -> Mapping[str, str | None]:
    """What is shown of a row, from :func:`packed`.

    >>> unpacked("1t1\\x011billing\\x012\\x0112026-11-09")
    {'item': 't1', 'label': 'billing', 'score': None, 'date': '2026-11-09'}
    """
    parts = text.split(_SEPARATOR)
    return {name: None if part == _NOTHING else part[1:] for name, part in zip(SHOWN, parts, strict=True)}


def as_shown(text: str | None) -> str | None:
    """A text as :func:`packed` keeps it."""
    return None if text is None else text.replace(_SEPARATOR, " ")


def order(row: Mapping[str, str | None]) -> tuple[tuple[bool, bytes], ...]:
    """By what rejected rows of one reason are sorted: item, label, score and date by their bytes, None last."""
    return tuple((row[name] is None, (row[name] or "").encode("utf-8", "surrogatepass")) for name in SHOWN)
