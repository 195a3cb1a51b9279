"""A score map as SQL gives the scores that a router computes with it, on three engines."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import duckdb
import psycopg
import pytest

from monitor.recalibration.score_map import ScoreMap, apply_one, as_sql

SCORES = [0.0, 1e-9, 0.001, 0.2, 0.35, 0.5, 0.6, 0.61, 0.9, 0.999999, 1.0]
MAPS = {
    "temperature": ScoreMap("temperature", slope=1 / 1.7),
    "platt": ScoreMap("platt", slope=12.5, intercept=-3e-7),
    "steep": ScoreMap("platt", slope=40.0, intercept=120.0),
    "isotonic": ScoreMap("isotonic", knots=((0.2, 0.1), (0.35, 0.1), (0.6, 0.123456789), (0.9, 1.0))),
    "one knot": ScoreMap("isotonic", knots=((0.5, 0.25),)),
}


@pytest.fixture(scope="module")
def engines(postgres_url: str) -> dict[str, list[list[float | None]]]:
    """The new scores of every map, in the order of MAPS, by engine."""
    values = ", ".join(f"({place}, {score!r})" for place, score in enumerate(SCORES))
    last = f"({len(SCORES)}, NULL)"
    columns = ", ".join(f"{as_sql(each, 'score')} AS m{place}" for place, each in enumerate(MAPS.values()))
    table = f"(SELECT place, CAST(s AS DOUBLE PRECISION) AS score FROM (VALUES {values}, {last}) AS v(place, s)) AS t"
    in_sqlite = f"WITH v(place, score) AS (VALUES {values}, {last}) SELECT {columns} FROM v ORDER BY place"
    query = f"SELECT {columns} FROM {table} ORDER BY place"
    with psycopg.connect(postgres_url.replace("postgresql+psycopg://", "postgresql://")) as connection:
        of_postgres = connection.execute(query).fetchall()
    with closing(sqlite3.connect(":memory:")) as in_memory:
        of_sqlite = in_memory.execute(in_sqlite).fetchall()
    found = {
        "duckdb": duckdb.sql(query).fetchall(),
        "sqlite": of_sqlite,
        "postgresql": of_postgres,
    }
    return {engine: [list(column) for column in zip(*lines, strict=True)] for engine, lines in found.items()}


@pytest.mark.postgres
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("engine", ["duckdb", "sqlite", "postgresql"])
def test_sql_gives_the_scores_of_a_router(engine: str, name: str, engines: dict[str, list[list[float]]]) -> None:
    *found, of_null = engines[engine][list(MAPS).index(name)]
    assert found == pytest.approx([apply_one(MAPS[name], score) for score in SCORES], abs=1e-12)
    assert of_null is None


def test_an_expression_in_the_place_of_a_column_is_put_in_brackets() -> None:
    made = as_sql(ScoreMap("isotonic", knots=((0.5, 0.25),)), "score / 100")
    assert made == "CASE WHEN (score / 100) <= 0.5 THEN 0.25 WHEN (score / 100) > 0.5 THEN 0.25 END"


def test_scores_of_another_scale_are_divided_by_it() -> None:
    score_map = ScoreMap("temperature", slope=0.5)
    made = as_sql(score_map, "percent", scale=100)
    with duckdb.connect() as connection:
        (row,) = connection.execute(f"SELECT {made} FROM (SELECT 90.0 AS percent)").fetchall()
    assert row[0] == pytest.approx(apply_one(score_map, 0.9), abs=1e-12)
