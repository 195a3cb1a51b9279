"""Statements that readings of several windows have in common."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from monitor.config.model import SourceConfig
from monitor.config.relation import TableName
from monitor.core import windows
from monitor.core.records import Window
from monitor.warehouse.checks import Column, Layout
from monitor.warehouse.dialects import DIALECTS
from monitor.warehouse.engines import ENGINES
from monitor.warehouse.items import STATEMENTS
from monitor.warehouse.kept_statements import statements_of
from monitor.warehouse.relation import from_clause
from monitor.warehouse.row_levels import LEVELS
from monitor.warehouse.statements import Statements

THIS, LAST = (windows.week(name, ZoneInfo("Europe/Berlin")) for name in ("2026-W46", "2026-W45"))
NOW = datetime(2026, 11, 17, tzinfo=UTC)
KINDS = {"item": "text", "label": "text", "score": "number", "actual": "number", "resolved_at": "timestamptz"}


def source(**settings: Any) -> SourceConfig:
    return SourceConfig(**{"relation": "tickets", "score_is": "probability_of_label"} | settings)


def layout(table: str = "tickets", **kinds: str) -> Layout:
    columns = {name: Column(f"the {name}", kind) for name, kind in (KINDS | kinds).items()}  # type: ignore[arg-type]
    return Layout(from_clause(TableName((table,))), columns)


def made(
    window: Window = THIS, now: datetime = NOW, config: SourceConfig | None = None, *, engine: str = "postgresql",
    relation: Layout | None = None,
) -> Statements:  # fmt: skip
    return statements_of(config or source(), relation or layout(), ENGINES[engine].dialect, window, now)


def groups(statements: Statements) -> object:
    return statements.groups(latest=False, segments=[])


def test_a_second_window_has_the_statements_of_the_first_and_its_own_moments() -> None:
    this, last = made(), made(LAST, NOW + timedelta(hours=1))
    assert groups(last) is groups(this)
    assert last.undated() is this.undated()
    assert (last.window, this.window) == (LAST, THIS)
    assert last.parameters["window_start_timestamptz"] == LAST.start
    assert last.parameters["now_timestamptz"] == NOW + timedelta(hours=1)
    assert this.parameters["window_end_timestamptz"] == THIS.end


@pytest.mark.parametrize(
    "other",
    [
        {"config": source(automate_at=0.9)},
        {"config": source(kind="top_k")},
        {"engine": "duckdb"},
        {"relation": layout("others")},
        {"relation": layout(score="integer")},
        {"relation": layout(cluster="text")},
        {"now": THIS.end - timedelta(hours=1)},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_source_relation_or_engine_has_statements_of_its_own(other: dict[str, Any]) -> None:
    assert groups(made(**other)) is not groups(made())


def test_a_label_that_a_wide_relation_gains_is_in_the_statements() -> None:
    def wide(*labels: str) -> Layout:
        rows = [sa.select(sa.literal(label).label("the label")).select_from(sa.table("t")) for label in labels]
        return replace(layout(), relation=sa.union_all(*rows).subquery("long_form"))

    first, again = made(relation=wide("a", "b")), made(LAST, relation=wide("a", "b"))
    more, last = made(relation=wide("a", "b", "c")), made(LAST, relation=wide("a", "b", "c"))
    assert groups(again) is groups(first)
    assert groups(more) is not groups(first)
    assert groups(last) is groups(more)


def test_without_its_moments_a_kept_statement_is_an_error() -> None:
    compiled = made().undated().compile(dialect=sa.create_engine("sqlite://").dialect)
    with pytest.raises(sa.exc.InvalidRequestError, match="A value is required for bind parameter"):
        compiled.construct_params()


def test_statements_of_one_window_cannot_be_those_of_another() -> None:
    plain = Statements(source(), layout(), DIALECTS["postgresql"], THIS, NOW)
    with pytest.raises(ValueError, match="one window only"):
        plain.of_window(LAST, NOW)
    with pytest.raises(ValueError, match="one window only"):
        made().of_window(LAST, LAST.start)


def test_labels_that_change_from_window_to_window_take_no_more_and_more_memory() -> None:
    kept = made(config=source(relation="changing"))
    for number in range(2 * LEVELS):
        statements = kept.of_window(kept.window, kept.now)
        assert len(statements.levels) < LEVELS
        items = statements.items_of_every_row([f"label {number}"], hashed=False)
        assert statements.items_of_every_row([f"label {number}"], hashed=False) is items


def test_a_source_of_other_columns_shares_nothing_with_the_one_that_it_was_made_of() -> None:
    statements = made()
    other = replace(statements, source=source(automate_at=0.7))
    assert groups(other) is not groups(statements)


@pytest.mark.parametrize("engine", ["duckdb", "sqlite", "postgresql"])
@pytest.mark.parametrize("kind", ["timestamptz", "timestamp"])
@pytest.mark.parametrize("of", sorted(STATEMENTS))
def test_a_kept_statement_binds_what_a_statement_of_one_window_has(engine: str, kind: str, of: str) -> None:
    relation = layout(resolved_at=kind, predicted_at="timestamptz", predicted="number", deviation="number")
    config = source(kind=of, window_on="predicted_at")
    made(THIS, config=config, engine=engine, relation=relation)
    kept = made(LAST, config=config, engine=engine, relation=relation)
    plain = STATEMENTS[of](config, relation, ENGINES[engine].dialect, LAST, NOW)
    dialect = sa.create_engine("sqlite://").dialect  # its parameters have places, not names
    for one, other in ((kept.undated(), plain.undated()), (kept.repeated(), plain.repeated())):
        ours, theirs = one.compile(dialect=dialect), other.compile(dialect=dialect)
        given = ours.construct_params({**kept.parameters})
        assert [given[name] for name in ours.positiontup] == [theirs.params[name] for name in theirs.positiontup]
        assert str(ours) == str(theirs)
