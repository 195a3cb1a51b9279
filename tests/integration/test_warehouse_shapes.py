"""Tables in other shapes than the long form give what the long form of the same data gives, from three engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.core.counts import Counts
from monitor.warehouse.checks import labels_of
from monitor.warehouse.reader import Reading, RelationError, Warehouse
from tests.conftest import ENGINES, Loader

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
INSIDE = WEEK.start + timedelta(days=1)
LABELS = ("access", "billing", "Other", "phishing")
TYPES = {"confidence": "DOUBLE PRECISION", "pct": "DOUBLE PRECISION", "updated_at": "TIMESTAMP WITH TIME ZONE"}
Row = dict[str, Any]
LongForm = Callable[[list[Row], SourceConfig], dict[str, Reading]]


def november(day: int) -> datetime:
    return datetime(2026, 11, day, tzinfo=UTC)


def source(**settings: Any) -> SourceConfig:
    known = {"relation": "resolved_tickets", "score_is": "probability_of_label", "segments": ["channel"]}
    return SourceConfig.model_validate(known | settings)


def single(**settings: Any) -> SourceConfig:
    return source(**{"kind": "single_label", "score_is": "confidence_in_prediction"} | settings)


def read(warehouse: Warehouse, config: SourceConfig) -> Reading:
    return warehouse.read("tickets", config, WEEK, now=NOW)


def items(n: int = 300, seed: int = 1) -> list[Row]:
    """Items with a predicted label, its confidence in whole percent, and the label that was true."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(n):
        predicted, percent = str(rng.choice(LABELS)), int(rng.integers(30, 101))
        true = predicted if rng.random() < percent / 110 else str(rng.choice(LABELS))
        rows.append(
            {"item": f"t{number}", "predicted_label": predicted, "confidence": percent / 100, "true_label": true,
             "resolved_at": INSIDE + timedelta(minutes=number), "channel": ("mail", "chat")[number % 2],
             "cluster": f"c{number % 37}", "weight": 1.0 + number % 3, "model_version": f"v{number % 2}"}
        )  # fmt: skip
    return rows


def long_of_single(rows: list[Row]) -> list[Row]:
    """What the owner's view would say: one row an item, about its predicted label."""
    taken = ("item", "resolved_at", "channel", "cluster", "weight", "model_version")
    return [
        {
            **{name: row[name] for name in taken if name in row},
            "label": row["predicted_label"], "score": row["confidence"], "predicted": 1,
            "actual": None if row["true_label"] is None else float(row["true_label"] == row["predicted_label"]),
        }
        for row in rows
    ]  # fmt: skip


def probabilities(n: int = 120, seed: int = 2) -> list[Row]:
    """Long rows of items with a score for each of four labels, of which some are true."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(n):
        for label in LABELS:
            percent = int(rng.integers(0, 101))
            rows.append(
                {"item": f"t{number}", "label": label, "score": percent / 100,
                 "actual": int(rng.random() < percent / 120),
                 "resolved_at": INSIDE + timedelta(minutes=number), "channel": ("mail", "chat")[number % 2]}
            )  # fmt: skip
    return rows


def wide_of(rows: list[Row], *, scale: int = 1) -> list[Row]:
    """The same, one row an item."""
    found = {}
    for row in rows:
        item = found.setdefault(row["item"], {name: row[name] for name in ("item", "resolved_at", "channel")})
        item[f"p_{row['label']}"] = row["score"] if scale == 1 else round(row["score"] * scale)
        item[f"is_{row['label']}"] = row["actual"]
    return list(found.values())


WIDE_TYPES = {f"{kind}_{label}": "DOUBLE PRECISION" for kind in ("p", "is") for label in LABELS}
WIDE = {"score": "p_{label}", "actual": "is_{label}"}


def same_counts(found: Counts, expected: Counts, where: object) -> None:
    for name in ("cell", "predicted", "automated", "n"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), (where, name)
    for name in ("w", "w2", "ws", "wy", "wsy", "ws2", "wy2"):
        assert np.allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-9), (where, name)
    assert found.design_effect == pytest.approx(expected.design_effect, abs=1e-9), where
    assert found.acting_effects == pytest.approx(expected.acting_effects, abs=1e-9), where
    assert found.score_is == expected.score_is


def same(found: Reading, expected: Reading, where: object) -> None:
    assert list(found.labels) == list(expected.labels), where
    assert list(found.segments) == list(expected.segments), where
    for label, counts in expected.labels.items():
        same_counts(found.labels[label], counts, (where, label))
    for segment, labels in expected.segments.items():
        for label, counts in labels.items():
            same_counts(found.segments[segment][label], counts, (where, segment, label))
    assert found.whole_design_effect == pytest.approx(expected.whole_design_effect, abs=1e-9)
    assert (found.rows, found.versions) == (expected.rows, expected.versions), where
    assert [(q.reason, q.rows, {e["item"] for e in q.examples}) for q in found.quality] == [
        (q.reason, q.rows, {e["item"] for e in q.examples}) for q in expected.quality
    ], where
    assert found.rejected == expected.rejected, where


@pytest.fixture(scope="module")
def known_readings() -> dict[str, dict[str, Reading]]:
    """Readings that tests of this module have made, by their rows and configuration."""
    return {}


@pytest.fixture
def long_form(load: Loader, known_readings: dict[str, dict[str, Reading]]) -> LongForm:
    """Readings of rows in the long form by engine, each made once: many tests compare with the same."""

    def _read(rows: list[Row], config: SourceConfig) -> dict[str, Reading]:
        same_as = repr((rows, config))
        if same_as not in known_readings:
            known_readings[same_as] = {engine: read(each, config) for engine, each in load(rows).items()}
        return known_readings[same_as]

    return _read


EVERY = list(ENGINES)


def same_readings(shaped: Mapping[str, Warehouse], config: SourceConfig, long: Mapping[str, Reading]) -> list[str]:
    """The engines in which it was seen that the shaped data give what the long form gives."""
    assert list(shaped) == list(long)
    for engine, warehouse in shaped.items():
        assert long[engine].rows > 0
        same(read(warehouse, config), long[engine], engine)
    return list(shaped)


# --- one row an item


def test_single_labels_give_the_estimates_of_their_long_form(load: Loader, long_form: LongForm) -> None:
    rows = items()
    assert (
        same_readings(
            load(rows, types=TYPES),
            single(),
            long_form(long_of_single(rows), source(score_is="confidence_in_prediction")),
        )
        == EVERY
    )


def test_single_labels_below_one_half_are_predicted_all_the_same(load: Loader) -> None:
    rows = [row | {"confidence": 0.4} for row in items(40)]
    for engine, warehouse in load(rows, types=TYPES).items():
        reading = read(warehouse, single())
        assert all(counts.predicted.all() for counts in reading.labels.values()), engine


def test_bad_rows_of_single_labels_are_set_aside_for_the_reasons_of_the_long_form(
    load: Loader, long_form: LongForm
) -> None:
    rows = items(60)
    bad = [
        {"confidence": None}, {"confidence": 1.5}, {"confidence": -0.1}, {"confidence": 87.0}, {"true_label": None},
        {"predicted_label": None}, {"predicted_label": ""}, {"item": None}, {"weight": -1.0},
        {"predicted_label": "x" * 600},        {"resolved_at": None}, {"resolved_at": NOW + timedelta(days=2)},
    ]  # fmt: skip
    for number, wrong in enumerate(bad):
        rows[number] |= wrong
    rows += [rows[20] | {"resolved_at": INSIDE + timedelta(hours=20), "confidence": 0.35}]
    assert (
        same_readings(
            load(rows, types=TYPES),
            single(),
            long_form(long_of_single(rows), source(score_is="confidence_in_prediction")),
        )
        == EVERY
    )


def test_a_true_label_of_no_characters_is_no_truth(load: Loader) -> None:
    rows = items(20)
    rows[3] |= {"true_label": ""}
    for engine, warehouse in load(rows, types=TYPES).items():
        (found,) = read(warehouse, single()).quality
        assert (found.reason, found.rows) == ("outcome_missing", 1), engine


def test_a_single_label_may_say_whether_it_was_right(load: Loader, long_form: LongForm) -> None:
    rows = items()
    said = [row | {"was_right": "Yes" if row["true_label"] == row["predicted_label"] else "no"} for row in rows]
    config = single(columns={"actual": "was_right"}, positive=["yes"], negative=["no"])
    assert (
        same_readings(
            load(said, types=TYPES),
            config,
            long_form(long_of_single(rows), source(score_is="confidence_in_prediction")),
        )
        == EVERY
    )


def test_scores_of_single_labels_may_be_made_from_log_probabilities(load: Loader, long_form: LongForm) -> None:
    rows = [row | {"token_logprobs": str([float(np.log(row["confidence"]))])} for row in items(50)]
    made = {"score": {"from": "token_logprobs", "method": "sequence_probability"}}
    long = [
        new | {"token_logprobs": row["token_logprobs"]} for new, row in zip(long_of_single(rows), rows, strict=True)
    ]
    like = source(score_is="confidence_in_prediction", **made)
    assert same_readings(load(rows, types=TYPES), single(**made), long_form(long, like)) == EVERY


# --- scores in percent, truths in words


@pytest.mark.parametrize("wrong", [{}, {"pct": None}, {"pct": 101.0}, {"pct": -1.0}])
def test_scores_in_percent_give_the_estimates_of_those_in_shares(load: Loader, long_form: LongForm, wrong: Row) -> None:
    rows = probabilities(60)
    rows[3] |= {name: value if value is None else value / 100 for value in wrong.values() for name in ("score",)}
    percents = [row | {"pct": None if row["score"] is None else round(row["score"] * 100)} for row in rows]
    config = source(score_scale=100, columns={"score": "pct"})
    assert same_readings(load(percents, types=TYPES), config, long_form(rows, source())) == EVERY


@pytest.mark.parametrize("negative", [[], ["no", "n"]])
def test_truths_in_words_give_the_estimates_of_numbers(load: Loader, long_form: LongForm, negative: list[str]) -> None:
    rows = probabilities(60)
    rows[5] |= {"actual": None}
    words = ({1: "Yes", 0: "no"}, {1: " TRUE ", 0: "N"})
    said = [row | {"actual": words[place % 2].get(row["actual"])} for place, row in enumerate(rows)]
    said[6] |= {"actual": ""}
    rows[6] |= {"actual": None}
    config = source(positive=["yes", "true"], negative=negative)
    assert same_readings(load(said, types={"actual": "TEXT"}), config, long_form(rows, source())) == EVERY


def test_a_long_table_may_name_the_label_that_is_true_and_the_one_that_was_given(
    load: Loader, long_form: LongForm
) -> None:
    rows = probabilities(40)
    rng = np.random.default_rng(3)
    truth = {row["item"]: (str(rng.choice(LABELS)), str(rng.choice(LABELS))) for row in rows}
    named = [row | dict(zip(("category", "given"), truth[row["item"]], strict=True)) for row in rows]
    plain = [
        row
        | {
            "actual": int(truth[row["item"]][0] == row["label"]),
            "predicted": int(truth[row["item"]][1] == row["label"]),
        }
        for row in rows
    ]
    config = source(kind="multiclass", columns={"true_label": "category", "predicted_label": "given"})
    assert same_readings(load(named), config, long_form(plain, source(kind="multiclass"))) == EVERY


# --- one column a label


@pytest.mark.parametrize("scale", [1, 100])
@pytest.mark.parametrize("kind", ["multilabel", "top_k"])
def test_wide_tables_give_the_estimates_of_their_long_form(
    load: Loader, long_form: LongForm, scale: int, kind: str
) -> None:
    rows = probabilities()
    config = source(wide=WIDE, score_scale=scale, kind=kind)
    assert (
        same_readings(load(wide_of(rows, scale=scale), types=WIDE_TYPES), config, long_form(rows, source(kind=kind)))
        == EVERY
    )


def test_bad_rows_of_wide_tables_are_set_aside_for_the_reasons_of_the_long_form(
    load: Loader, long_form: LongForm
) -> None:
    rows = probabilities(30)
    for place, wrong in enumerate([{"score": None}, {"score": 1.2}, {"score": -0.2}, {"actual": None}, {"actual": 3}]):
        rows[place * 5] |= wrong
    for row in rows[40:44]:
        row |= {"resolved_at": None}
    for row in rows[44:48]:
        row |= {"item": None}
    wide = wide_of(rows[:44] + rows[48:]) + wide_of(rows[44:48])
    assert same_readings(load(wide, types=WIDE_TYPES), source(wide=WIDE), long_form(rows, source())) == EVERY


def test_wide_scores_may_have_one_column_with_the_true_label(load: Loader, long_form: LongForm) -> None:
    rng = np.random.default_rng(5)
    rows = probabilities(60)
    truth = {row["item"]: str(rng.choice(LABELS)) for row in rows}
    wide = [
        {name: value for name, value in row.items() if not name.startswith("is_")} | {"category": truth[row["item"]]}
        for row in wide_of(rows)
    ]
    long = [row | {"actual": int(truth[row["item"]] == row["label"])} for row in rows]
    config = source(kind="multiclass", wide={"score": "p_{label}"}, columns={"true_label": "category"})
    assert same_readings(load(wide, types=WIDE_TYPES), config, long_form(long, source(kind="multiclass"))) == EVERY


def test_wide_tables_may_have_a_decision_a_label(load: Loader, long_form: LongForm) -> None:
    rows = [row | {"predicted": int(row["score"] > 0.6)} for row in probabilities(40)]
    by_item = {row["item"]: row for row in wide_of(rows)}
    for row in rows:
        by_item[row["item"]][f"did_{row['label']}"] = row["predicted"]
    types = WIDE_TYPES | {f"did_{label}": "INTEGER" for label in LABELS}
    config = source(wide=WIDE | {"predicted": "did_{label}"}, score_is="confidence_in_prediction")
    assert (
        same_readings(
            load(list(by_item.values()), types=types),
            config,
            long_form(rows, source(score_is="confidence_in_prediction")),
        )
        == EVERY
    )


def test_what_a_wide_table_lacks_is_named(load: Loader) -> None:
    wide = [{name: value for name, value in row.items() if name != "is_Other"} for row in wide_of(probabilities(5))]
    types = WIDE_TYPES | {"p_access": "TEXT"}
    for engine, warehouse in load([row | {"p_access": "a"} for row in wide], types=types).items():
        found = [problem.message for problem in warehouse.check("tickets", source(wide=WIDE))]
        assert found == ["column p_access (of label access) is text", "column is_Other is missing, for label Other"], (
            engine
        )
        (none,) = warehouse.check("tickets", source(wide={"score": "q_{label}", "actual": "is_{label}"}))
        assert none.message == "no column is called like q_{label}", engine


def test_the_labels_of_a_pattern_are_found_in_any_case_of_letters() -> None:
    assert labels_of("P_{label}_score", ["p_a_SCORE", "p__score", "x", "p_b_c_score"]) == ["a", "b_c"]


# --- predictions and truths apart, truths that were corrected


def apart(rows: list[Row], truth: tuple[str, ...]) -> tuple[list[Row], list[str]]:
    """Predictions without their truths, and the statements that make the table of these."""
    names = ("item", *truth)

    def text(value: Any) -> str:
        if value is None:
            return "NULL"
        return (
            str(value)
            if isinstance(value, int | float)
            else f"'{value.isoformat() if hasattr(value, 'isoformat') else value}'"
        )

    kinds = {
        "item": "TEXT",
        "actual": "DOUBLE PRECISION",
        "resolved_at": "TIMESTAMP WITH TIME ZONE",
        "updated_at": "TIMESTAMP WITH TIME ZONE",
    }
    columns = ", ".join(f'"{name}" {kinds.get(name, "TEXT")}' for name in names)
    values = ", ".join(f"({', '.join(text(row[name]) for name in names)})" for row in rows)
    predictions = [{name: value for name, value in row.items() if name not in truth} for row in rows]
    return predictions, [f"CREATE TABLE resolutions ({columns})", f"INSERT INTO resolutions VALUES {values}"]


def test_predictions_and_resolutions_apart_give_the_estimates_of_one_table(load: Loader, long_form: LongForm) -> None:
    rows = items()
    predictions, then = apart(rows, ("true_label", "resolved_at"))
    waiting = [row | {"item": f"open{place}"} for place, row in enumerate(predictions[:20])]
    config = single(truth={"relation": "resolutions", "on": {"item": "item"}})
    shaped = load([*predictions, *waiting], types=TYPES, then=then)
    assert (
        same_readings(shaped, config, long_form(long_of_single(rows), source(score_is="confidence_in_prediction")))
        == EVERY
    )


def test_what_both_tables_have_is_the_truths_where_it_says_what_came_true(load: Loader, long_form: LongForm) -> None:
    rows = items(50)
    predictions, then = apart(rows, ("true_label", "resolved_at"))
    wrong = [
        row | {"resolved_at": INSIDE - timedelta(days=30), "true_label": "x", "id": place}
        for place, row in enumerate(predictions)
    ]
    then.append('ALTER TABLE resolutions ADD COLUMN "channel" TEXT')
    config = single(truth={"relation": "select * from resolutions", "on": {"item": "item"}})
    assert (
        same_readings(
            load(wrong, types=TYPES, then=then),
            config,
            long_form(long_of_single(rows), source(score_is="confidence_in_prediction")),
        )
        == EVERY
    )


def test_keys_of_two_types_are_compared_as_texts(load: Loader, long_form: LongForm) -> None:
    rows = [row | {"item": str(place)} for place, row in enumerate(items(30))]
    predictions, then = apart(rows, ("true_label", "resolved_at"))
    numbered = [{("number" if name == "item" else name): value for name, value in row.items()} for row in predictions]
    config = single(truth={"relation": "resolutions", "on": {"number": "item"}}, columns={"item": "number"})
    shaped = load(
        [row | {"number": int(row["number"])} for row in numbered], types=TYPES | {"number": "INTEGER"}, then=then
    )
    assert (
        same_readings(shaped, config, long_form(long_of_single(rows), source(score_is="confidence_in_prediction")))
        == EVERY
    )


def test_a_key_that_a_table_lacks_is_named(load: Loader) -> None:
    predictions, then = apart(items(5), ("true_label", "resolved_at"))
    for engine, warehouse in load(predictions, types=TYPES, then=then).items():
        config = single(truth={"relation": "resolutions", "on": {"item": "ticket"}})
        (problem,) = warehouse.check("tickets", config)
        assert problem.message == "column ticket, by which truths are joined, is not in the truth", engine
        (missing,) = warehouse.check("tickets", single(truth={"relation": "nothing_here", "on": {"item": "item"}}))
        assert "nothing_here" in missing.message, engine


def test_of_several_rows_an_item_the_latest_counts_in_its_own_window_only(load: Loader, long_form: LongForm) -> None:
    rows = items(60)
    now = [row | {"updated_at": row["resolved_at"]} for row in rows]
    before = [row | {"true_label": "x", "updated_at": november(1)} for row in now[:30]]
    moved = [row | {"resolved_at": WEEK.end + timedelta(hours=1), "updated_at": november(16)} for row in now[50:]]
    shaped = load([*before, *now, *moved], types=TYPES)
    config = single(latest_by=["updated_at"])
    assert (
        same_readings(shaped, config, long_form(long_of_single(rows[:50]), source(score_is="confidence_in_prediction")))
        == EVERY
    )
    assert {warehouse.survey("tickets", config).replaced for warehouse in shaped.values()} == {40}


def test_a_truth_that_was_corrected_in_its_own_table_is_the_latest(load: Loader, long_form: LongForm) -> None:
    rows = [row | {"updated_at": row["resolved_at"]} for row in items(60)]
    predictions, then = apart(
        [*rows, *(row | {"true_label": "x", "updated_at": row["updated_at"] - timedelta(days=2)} for row in rows[:30])],
        ("true_label", "resolved_at", "updated_at"),
    )
    config = single(truth={"relation": "resolutions", "on": {"item": "item"}}, latest_by=["updated_at"])
    shaped = load(predictions[:60], types=TYPES, then=then)
    assert (
        same_readings(shaped, config, long_form(long_of_single(rows), source(score_is="confidence_in_prediction")))
        == EVERY
    )


def test_the_latest_of_a_long_table_is_of_each_label_and_of_a_wide_one_of_the_item(
    load: Loader, long_form: LongForm
) -> None:
    rows = probabilities(30)
    dated = [row | {"updated_at": november(12)} for row in rows]
    old = [row | {"updated_at": november(11), "score": 0.5} for row in dated[:17]]
    config, shaped = source(latest_by=["updated_at"]), load([*dated, *old], types=TYPES)
    assert same_readings(shaped, config, long_form(rows, source())) == EVERY
    assert {warehouse.survey("tickets", config).replaced for warehouse in shaped.values()} == {17}
    wide = [row | {"updated_at": november(12)} for row in wide_of(rows)]
    older = [row | {"updated_at": november(11), "p_Other": 0.5} for row in wide[:9]]
    assert (
        same_readings(
            load([*older, *wide], types=TYPES | WIDE_TYPES),
            source(latest_by=["updated_at"], wide=WIDE),
            long_form(rows, source()),
        )
        == EVERY
    )


def test_a_column_of_latest_by_that_is_missing_is_named(load: Loader) -> None:
    for engine, warehouse in load(items(3), types=TYPES).items():
        with pytest.raises(RelationError, match="column changed_at is missing, which latest_by names"):
            read(warehouse, single(latest_by=["changed_at"]))
        assert engine
