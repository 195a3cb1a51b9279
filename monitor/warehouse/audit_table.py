"""Drawn items in a table that their owner names: the one place beside the history to which rows are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from monitor.config.settings import Settings
from monitor.core.audits import SHEET, AuditedItem, sheet_row
from monitor.core.records import Refused, Window
from monitor.core.redaction import without_secrets
from monitor.core.wording import clean

_KEYS = ("source", "label", "item", "week")


def add_drawn(settings: Settings, table: str, items: Iterable[AuditedItem], window: Window) -> int:
    """Add the items of the window that are not in the table, without a truth; returns how many.

    ``table`` may have a schema before it; it is made where it is missing. What people wrote in it stays. All are added
    or none. Raises :class:`Refused`.
    """
    drawn = [dict(zip(SHEET, sheet_row(item, window), strict=True)) for item in items]
    with _opened(settings, table) as (connection, sheet):
        sheet.create(connection, checkfirst=True)
        keys = sa.select(*(sheet.c[name] for name in _KEYS)).where(sheet.c.week == window.name)
        there = {tuple(row) for row in connection.execute(keys)}
        new = [row for row in drawn if tuple(row[name] for name in _KEYS) not in there]
        if new:
            connection.execute(sa.insert(sheet), new)
    return len(new)


def filled_rows(settings: Settings, table: str, source: str) -> list[tuple[str, dict[str, str | None]]]:
    """The rows of a source with what people wrote, each with the name of its item. Raises :class:`Refused`."""
    with _opened(settings, table) as (connection, sheet):
        wanted = sa.select(sheet.c.item, sheet.c.label, sheet.c.truth).where(sheet.c.source == source)
        rows = connection.execute(wanted.order_by(sheet.c.week, sheet.c.item, sheet.c.label)).mappings()
        return [(f"item {row['item']}", dict(row)) for row in rows]


@contextmanager
def _opened(settings: Settings, table: str) -> Iterator[tuple[sa.Connection, sa.Table]]:
    if settings.audit_url is None:
        raise Refused("set CALMON_AUDIT_URL: the database of the table, with a user that may write there")
    schema, _, name = table.rpartition(".")
    columns = (
        sa.Column(
            column, sa.Double() if column == "score" else sa.Text(),
            primary_key=column in _KEYS, nullable=column == "truth",
        )
        for column in SHEET
    )  # fmt: skip
    sheet = sa.Table(name, sa.MetaData(), *columns, schema=schema or None)
    try:
        with sa.create_engine(settings.audit_url.get_secret_value(), poolclass=NullPool).begin() as connection:
            yield connection, sheet
    except SQLAlchemyError as error:
        why = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise Refused(f"{clean(table)} in the database of CALMON_AUDIT_URL: {without_secrets(why)}") from error
