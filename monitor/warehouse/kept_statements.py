"""The statements of a source are kept between readings: building them takes a third of a small reading.

A process reads several windows of a source (the window, the one before, those of the baseline), and may open the
warehouse again for each. The statements depend on the configuration of the source, the columns of its relation and the
engine. The window is bound when they are executed.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from monitor.config.model import SourceConfig
from monitor.core.records import Window
from monitor.warehouse.checks import Layout
from monitor.warehouse.dialects import Dialect
from monitor.warehouse.items import STATEMENTS
from monitor.warehouse.statements import Statements

KEPT = 32
"""The statements of at most this many sources are kept."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What statements depend on, without the relation itself, and the first statements that were made for it."""

    key: Hashable
    statements: Statements = field(compare=False)


def statements_of(source: SourceConfig, layout: Layout, dialect: Dialect, window: Window, now: datetime) -> Statements:
    """The statements about a source in one window: those of an earlier reading, if only the window differs.

    Dates after ``now`` (time zone aware) lie in the future.
    """
    made = STATEMENTS[source.kind](source, layout, dialect, window, now, named=True)
    columns = tuple((name, column.name, column.kind) for name, column in layout.columns.items())
    shape = _Shape((source.model_dump_json(), columns, dialect, made.sees_future), made)
    kept = _first_of(shape)
    if not kept.layout.relation.compare(layout.relation, compare_keys=False):
        # the key lacks the labels of a relation with one column per label
        _first_of.cache_clear()
        kept = _first_of(shape)
    return kept.of_window(window, now)


@lru_cache(KEPT)
def _first_of(shape: _Shape) -> Statements:
    return shape.statements
