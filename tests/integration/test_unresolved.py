"""Rows whose truth is not known yet: not rejected where the source says so, and counted by when they were predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.core.counts import Counts
from monitor.core.unresolved import UnresolvedRows
from monitor.warehouse.reader import RelationError, Warehouse
from tests.conftest import Loader

pytestmark = pytest.mark.postgres

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
LABELS = ("access", "billing", "Other")
Row = dict[str, Any]


def source(**settings: Any) -> SourceConfig:
    known = {
        "relation": "resolved_tickets",
        "score_is": "probability_of_label",
        "unresolved": True,
    }
    return SourceConfig.model_validate(known | settings)


def rows(size: int = 900, seed: int = 4) -> list[Row]:
    """Rows of three weeks, of which some have no truth, some a late one, some no score, and some come twice."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(size):
        at = WEEK.start + timedelta(minutes=int(rng.integers(-10_000, 20_000)))
        waits = rng.random() < 0.4
        score = None if rng.random() < 0.02 else round(float(rng.random()), 3)
        found.append({
            "item": f"t{rng.integers(size * 2 // 3)}", "label": str(rng.choice(LABELS)), "score": score,
            "actual": None if waits else float(rng.random() < (score or 0)), "predicted_at": at,
            "resolved_at": None if waits else at + timedelta(minutes=int(rng.exponential(4_000))),
        })  # fmt: skip
    return found


def expected(given: Sequence[Row], known_at: datetime) -> dict[bool, Counter[tuple[str, int, bool, bool]]]:
    """Plain Python: (label, cell, predicted, automated) by whether the row waits."""
    latest = {}
    for row in given:
        if row["score"] is None or not WEEK.start <= row["predicted_at"] < WEEK.end:
            continue
        waits = row["actual"] is None or row["resolved_at"] >= known_at
        place = (not waits, row["predicted_at"], row["score"])
        key = (row["item"], row["label"])
        if key not in latest or place > latest[key][0]:
            latest[key] = (place, row)
    found = {True: Counter(), False: Counter()}
    for (known, *_), row in latest.values():
        score = row["score"]
        found[not known][row["label"], int(np.floor(score * 10_000 + 0.5)), score >= 0.5, score >= 0.8] += 1
    return found


def seen(parts: Mapping[str, Counts]) -> Counter[tuple[str, int, bool, bool]]:
    found = Counter()
    for label, part in parts.items():
        keys = zip(part.cell.tolist(), part.predicted.tolist(), part.automated.tolist(), part.n.tolist(), strict=True)
        for cell, predicted, automated, n in keys:
            found[label, cell, predicted, automated] = n
    return found


def test_three_engines_draw_the_same_random_items_among_those_that_act_alone(loaded: dict[str, Warehouse]) -> None:
    acting = {}
    for row in rows():
        if row["score"] is not None and WEEK.start <= row["predicted_at"] < WEEK.end:
            acting.setdefault(row["label"], set()).add(row["item"])
    drawn = [
        {seed: warehouse.drawn("tickets", source(), WEEK, seed=seed, each=9, now=NOW) for seed in ("a", "b")}
        for warehouse in loaded.values()
    ]
    one = drawn[0]["a"]
    assert all(each == drawn[0] for each in drawn)
    assert [item.item for item in one] != [item.item for item in drawn[0]["b"]]
    assert Counter(item.label for item in one) == dict.fromkeys(LABELS, 9)
    wanted = expected(rows(), NOW)
    for label in LABELS:
        mine = [item for item in one if item.label == label]
        total = sum(n for known in wanted.values() for key, n in known.items() if key[0] == label and key[3])
        assert {item.of for item in mine} == {total}
        assert {item.item for item in mine} <= acting[label]
        assert all(item.score >= 0.8 for item in mine)
    known = {
        (row["label"], row["item"]): row["actual"] for row in rows() if row["resolved_at"] and row["resolved_at"] < NOW
    }
    assert {item.stated for item in one} == {1.0, 0.0, None}
    assert all(item.stated == known.get((item.label, item.item)) for item in one)


def assert_same(found: UnresolvedRows, wanted: UnresolvedRows) -> None:
    for ours, theirs in ((found.waiting, wanted.waiting), (found.resolved, wanted.resolved)):
        assert list(ours) == list(theirs)
        for label, part in ours.items():
            assert np.array_equal(part.n, theirs[label].n)
            assert np.array_equal(part.ws, theirs[label].ws), "sums do not depend on the order of rows"


@pytest.fixture
def loaded(load: Loader) -> dict[str, Warehouse]:
    return load(rows())


@pytest.mark.parametrize("known_at", [None, WEEK.start + timedelta(days=3)], ids=["the end", "an earlier moment"])
def test_three_engines_count_rows_without_a_truth_as_plain_python_does(
    loaded: dict[str, Warehouse], known_at: datetime | None
) -> None:
    wanted = expected(rows(), known_at or WEEK.end)
    found = {engine: w.unresolved("tickets", source(), WEEK, known_at=known_at) for engine, w in loaded.items()}
    for engine, part in found.items():
        assert seen(part.waiting) == wanted[True], engine
        assert seen(part.resolved) == wanted[False], engine
        assert part.set_aside.keys() == {"score_missing"}, engine
        assert_same(part, found["duckdb"])
    one = found["duckdb"]
    assert (
        one.rows(None) == sum(one.rows(label) for label in one.labels) == sum((wanted[True] + wanted[False]).values())
    )
    assert one.waiting_of(None).where("automated").rows == sum(n for key, n in wanted[True].items() if key[3])


def test_a_row_without_a_truth_is_rejected_only_where_the_source_does_not_say_that_it_waits(
    loaded: dict[str, Warehouse],
) -> None:
    dated = source(window_on="predicted_at")
    for warehouse in loaded.values():
        waiting = warehouse.read("tickets", dated, WEEK, now=NOW)
        rejected = warehouse.read("tickets", dated.model_copy(update={"unresolved": False}), WEEK, now=NOW)
        reasons = {q.reason: q.rows for q in rejected.quality}
        assert reasons["outcome_missing"] + reasons["date_missing"] > 100
        said = {q.reason: q for q in waiting.quality}
        assert said.pop("waiting_unusable").examples[0]["why"].endswith(" score missing")
        assert said.keys() <= {"duplicate", "score_missing", "date_in_future"}
        assert {c.reason for c in waiting.rejected} <= {"score_missing", "date_in_future"}


def test_open_items_of_a_table_of_their_own_are_added_in_a_select(load: Loader, loaded: dict[str, Warehouse]) -> None:
    given = rows()
    resolved = [row for row in given if row["actual"] is not None]
    still_open = [{name: row[name] for name in ("item", "label", "score", "predicted_at")} for row in given]
    names = ("item", "label", "score", "predicted_at")
    values = ", ".join("(" + ", ".join(_sql(row[name]) for name in names) + ")" for row in still_open)
    types = "item TEXT, label TEXT, score DOUBLE PRECISION, predicted_at TIMESTAMP WITH TIME ZONE"
    then = (f"CREATE TABLE open_tickets ({types})", f"INSERT INTO open_tickets VALUES {values}")
    for engine, warehouse in load(resolved, then=then).items():
        both = (
            "SELECT item, label, score, actual, predicted_at, resolved_at FROM resolved_tickets UNION ALL "
            "SELECT item, label, score, NULL, predicted_at, NULL FROM open_tickets"
        )
        found = warehouse.unresolved("tickets", source(relation=both), WEEK)
        assert_same(found, loaded[engine].unresolved("tickets", source(), WEEK))


def _sql(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"'{value.isoformat()}'" if isinstance(value, datetime) else repr(value)


def test_other_shapes_have_rows_without_a_truth_too(load: Loader) -> None:
    at = WEEK.start + timedelta(days=1)
    plain = {"confidence": 0.9, "predicted_at": at, "predicted_label": "billing"}
    given = [
        {"item": "a", "true_label": "billing", "resolved_at": at, **plain},
        {"item": "b", "true_label": None, "resolved_at": None, **plain},
        {"item": "c", "true_label": "", "resolved_at": None, **plain},
    ]
    config = source(kind="single_label", score_is="confidence_in_prediction")
    for warehouse in load(given, types={"confidence": "DOUBLE PRECISION"}).values():
        found = warehouse.unresolved("tickets", config, WEEK)
        assert (found.waiting_of("billing").rows, found.resolved_of("billing").rows) == (2, 1)
        assert warehouse.read("tickets", config, WEEK, now=NOW).quality == ()


def test_predictions_that_no_truth_is_joined_to_wait_for_theirs(load: Loader) -> None:
    at = WEEK.start + timedelta(days=1)
    given = [{"item": item, "label": "billing", "score": 0.9, "predicted_at": at} for item in "abc"]
    then = (
        "CREATE TABLE truths (item TEXT, actual INTEGER, resolved_at TIMESTAMP WITH TIME ZONE)",
        f"INSERT INTO truths VALUES ('a', 1, '{at.isoformat()}'), ('b', 0, '{WEEK.end.isoformat()}')",
    )
    config = source(truth={"relation": "truths", "on": {"item": "item"}})
    for warehouse in load(given, then=then).values():
        found = warehouse.unresolved("tickets", config, WEEK)
        assert (found.waiting_of("billing").rows, found.resolved_of(None).rows) == (2, 1)
        assert warehouse.read("tickets", config, WEEK, now=NOW).rows == 1


def test_a_relation_without_predicted_at_says_what_needs_it(load: Loader) -> None:
    given = [{name: value for name, value in row.items() if name != "predicted_at"} for row in rows(3)]
    (warehouse,) = load(given, engines=("duckdb",)).values()
    with pytest.raises(RelationError, match="column predicted_at is missing, which unresolved needs"):
        warehouse.read("tickets", source(), WEEK, now=NOW)
    with pytest.raises(ValueError, match="has no unresolved"):
        warehouse.unresolved("tickets", source(unresolved=False), WEEK)


def test_scores_that_are_made_here_and_items_with_one_true_label_have_waiting_rows(load: Loader) -> None:
    at = WEEK.start + timedelta(days=1)
    known = {"actual": None, "predicted_at": at, "resolved_at": None}
    made = [
        {"item": item, "label": "billing", "votes": votes, **known} for item, votes in (("a", "[1, 1]"), ("b", "x"))
    ]
    (warehouse,) = load(made, engines=("duckdb",)).values()
    found = warehouse.unresolved("tickets", source(score={"from": "votes", "method": "vote_share"}), WEEK)
    assert (found.waiting_of("billing").cell.tolist(), found.set_aside) == ([10_000], {"score_not_a_number": 1})
    scores = (("billing", 0.3), ("access", 0.4), ("Other", 0.2))
    several = [{"item": "a", "label": label, "score": score, **known} for label, score in scores]
    (warehouse,) = load(several, engines=("duckdb",)).values()
    found = warehouse.unresolved("tickets", source(kind="multiclass"), WEEK)
    decided = {label: part.predicted.tolist() for label, part in found.waiting.items()}
    assert decided == {"Other": [False], "access": [True], "billing": [False]}, "the largest score was decided"
