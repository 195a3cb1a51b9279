"""One source in one window, read from DuckDB, SQLite and PostgreSQL."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import md5
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.core.counts import Counts, counts_from_rows
from monitor.core.records import RejectReason, ScorePlace, Window
from monitor.operations.collect import with_whole
from monitor.warehouse.reader import Reading, Warehouse
from tests.conftest import ENGINES, Loader

pytestmark = pytest.mark.postgres

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
SUMS = ("n", "w", "w2", "ws", "wy", "wsy", "ws2", "wy2")
FILES = ("duckdb", "sqlite")
# tests/integration/test_warehouse_kinds.py and test_warehouse_files.py have these
OF_OTHER_KINDS = {
    "prediction_invalid", "deviation_invalid", "outcome_not_finite", "no_true_label", "several_true_labels",
    "line_unreadable",
}  # fmt: skip


def source(**settings: Any) -> SourceConfig:
    return SourceConfig(**{"relation": "resolved_tickets", "score_is": "probability_of_label"} | settings)


def row(item: str = "t1", label: str = "billing", score: Any = 0.9, actual: Any = 1.0, **more: Any) -> dict[str, Any]:
    plain = {
        "item": item,
        "label": label,
        "score": score,
        "actual": actual,
        "resolved_at": WEEK.start + timedelta(days=1),
    }
    return plain | more


def read_all(
    warehouses: Mapping[str, Warehouse], config: SourceConfig, window: Window = WEEK, now: datetime = NOW
) -> dict[str, Reading]:
    return {engine: warehouse.read("tickets", config, window, now=now) for engine, warehouse in warehouses.items()}


def assert_same(ours: Counts, theirs: Counts) -> None:
    for key in ("cell", "predicted", "automated"):
        assert np.array_equal(getattr(ours, key), getattr(theirs, key)), key
    for name in SUMS:
        assert np.allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-9), name
    assert ours.score_is == theirs.score_is


def bad(reading: Reading) -> dict[str, int]:
    return {quality.reason: quality.rows for quality in reading.quality}


# --- an oracle in plain Python


def reason_of(r: Mapping[str, Any], window: Window, now: datetime) -> RejectReason | bool | None:
    """The reason to set a row aside, None for a sound one, False for one of another window."""
    when = r["resolved_at"]
    if when is None:
        return RejectReason.DATE_MISSING
    if window.start <= when < window.end:
        checks = (
            (r["item"] is None, RejectReason.ITEM_MISSING),
            (r["label"] in (None, ""), RejectReason.LABEL_MISSING),
            (len((r["label"] or "").encode()) > 1_000, RejectReason.LABEL_TOO_LONG),
            (r["score"] is None, RejectReason.SCORE_MISSING),
            (r["score"] is None or not 0 <= r["score"] <= 1, RejectReason.SCORE_OUT_OF_RANGE),
            (r["actual"] is None, RejectReason.OUTCOME_MISSING),
            (r["actual"] is None or not 0 <= r["actual"] <= 1, RejectReason.OUTCOME_OUT_OF_RANGE),
            (r["predicted"] not in (0, 1), RejectReason.PREDICTED_INVALID),
            (r["weight"] is None or not 0 < r["weight"] < math.inf, RejectReason.WEIGHT_INVALID),
            (when > now, RejectReason.DATE_IN_FUTURE),
        )
        return next((reason for holds, reason in checks if holds), None)
    return RejectReason.DATE_IN_FUTURE if when > now else False


def expected(
    rows: Sequence[Mapping[str, Any]], config: SourceConfig, window: Window, now: datetime
) -> tuple[dict[str, Counts], dict[str, int]]:
    found = defaultdict(int)
    latest = {}
    for r in rows:
        reason = reason_of(r, window, now)
        if isinstance(reason, RejectReason):
            found[reason.value] += 1
        elif reason is None:
            key = (r["item"], r["label"])
            found["duplicate"] += key in latest
            if key not in latest or r["resolved_at"] > latest[key]["resolved_at"]:
                latest[key] = r
    by_label = defaultdict(list)
    for (_, label), r in latest.items():
        by_label[label].append(r)
    counts = {}
    for label, kept in by_label.items():
        score, actual, predicted, weight = (
            np.array([r[name] for r in kept], float) for name in ("score", "actual", "predicted", "weight")
        )
        agreed = predicted * actual + (1 - predicted) * (1 - actual)
        outcome = actual if config.score_is == "probability_of_label" else agreed
        counts[label] = counts_from_rows(
            score, outcome, predicted=predicted == 1, weight=weight,
            automate_at=config.automate_from(label), score_is=config.score_is,
        )  # fmt: skip
    return counts, {reason: n for reason, n in found.items() if n}


@cache
def random_rows(size: int = 1500) -> list[dict[str, Any]]:
    rng = np.random.default_rng(20261109)

    def sometimes(usual: Any, *odd: Any) -> Any:
        return odd[rng.integers(len(odd))] if rng.random() < 0.03 else usual

    rows = []
    for index in range(size):
        score = float(rng.choice([rng.random(), 0.8, 0.9, 0.0, 1.0, 0.00005, 0.89995]))
        when = WEEK.start + timedelta(microseconds=int(rng.integers(-(10**11), 8 * 10**11)))
        rows.append({
            "item": sometimes(f"t{rng.integers(size)}", None),
            "label": sometimes(f"label {index % 3}", None, "", "ü" * 501),
            "score": sometimes(score, None, -0.01, 1.01, math.inf),
            "predicted": sometimes(int(rng.random() < score), None, 2),
            "actual": sometimes(float(rng.choice([0, 1, 0.25])), None, 1.5, -1.0),
            "weight": sometimes(float(rng.random() + 0.5), None, 0.0, -1.0, math.inf),
            "resolved_at": sometimes(when, None, datetime(2031, 1, 1, tzinfo=UTC)),
            "channel": sometimes("web", None, "e-mail"),
        })  # fmt: skip
    return rows


@pytest.mark.parametrize("score_is", ["probability_of_label", "confidence_in_prediction"])
@pytest.mark.parametrize("now", [NOW, WEEK.start + timedelta(days=3)], ids=["after the window", "within the window"])
def test_three_engines_count_the_same_as_plain_python_whatever_the_rows(
    load_once: Loader, score_is: str, now: datetime
) -> None:
    rows = random_rows()
    config = source(score_is=score_is, segments=("channel",), labels={"label 1": {"automate_at": 0.9}})
    counts, reasons = expected(rows, config, WEEK, now)
    unseen = {"score_not_a_number", "date_malformed", *OF_OTHER_KINDS}
    assert set(reasons) == {reason.value for reason in RejectReason} - unseen
    for engine, reading in read_all(load_once(rows), config, WEEK, now).items():
        assert bad(reading) == reasons, engine
        assert list(reading.labels) == sorted(counts), engine
        for label, found in reading.labels.items():
            assert_same(found, counts[label])
        assert reading.rows == sum(found.rows for found in counts.values())


def test_segments_add_up_to_their_label_and_a_missing_value_is_a_segment_of_its_own(load: Loader) -> None:
    config = source(segments=("channel",))
    for reading in read_all(load(random_rows(600)), config).values():
        assert set(reading.segments) == {("channel", "web"), ("channel", "e-mail"), ("channel", "(none)")}
        for label, counts in reading.labels.items():
            parts = [labels[label] for labels in reading.segments.values() if label in labels]
            assert sum(part.rows for part in parts) == counts.rows
            assert sum(part.positives for part in parts) == pytest.approx(counts.positives, abs=1e-9)


def test_a_label_has_the_same_digest_on_every_engine(load: Loader) -> None:
    readings = read_all(load(random_rows(400)), source())
    first, *others = [
        {label: counts.digest() for label, counts in reading.labels.items()} for reading in readings.values()
    ]
    assert others == [first] * (len(ENGINES) - 1)


# --- rows set aside


def test_text_among_the_numbers_of_sqlite_is_never_read_as_zero(load: Loader) -> None:
    rows = [row("a"), row("b", score="high"), row("c", actual="yes"), row("d", weight="x"), row("e", predicted="no")]
    rows = [{"predicted": 1, "weight": 1.0} | r for r in rows]
    reading = read_all(load(rows, engines=("sqlite",)), source())["sqlite"]
    reasons = ("score_not_a_number", "outcome_out_of_range", "predicted_invalid", "weight_invalid")
    assert bad(reading) == dict.fromkeys(reasons, 1)
    assert reading.rows == 1


def test_repeats_of_the_same_instant_are_decided_by_their_values_whatever_their_order(load: Loader) -> None:
    rows = [row("a", score=score, actual=actual) for score in (0.3, 0.7) for actual in (0.0, 1.0)]
    for order in (rows, rows[::-1]):
        for reading in read_all(load(order), source()).values():
            assert (reading.labels["billing"].cell.tolist(), reading.labels["billing"].positives) == ([7000], 1.0)


def test_a_label_may_have_a_thousand_bytes_in_utf8_and_no_more(load: Loader) -> None:
    longest = ("x" * 1_000, "ü" * 500, "漢" * 333 + "x", "😀" * 250)
    rows = [row(f"t{index}", label) for index, label in enumerate(longest)]
    rows += [row(f"u{index}", label + "y") for index, label in enumerate(longest)]
    for engine, reading in read_all(load(rows), source()).items():
        assert set(reading.labels) == set(longest), engine
        assert bad(reading) == {"label_too_long": 4}, engine
        (quality,) = reading.quality
        assert {len(example["label"] or "") for example in quality.examples} == {201}, "enough to find the row"


def test_a_segment_of_too_many_values_is_left_out_and_nothing_else_is(load: Loader) -> None:
    rows = [row(f"t{index}", message_id=f"m{index}", day=f"d{index % 200}", channel="web") for index in range(201)]
    config = source(segments=("message_id", "day", "channel"))
    for engine, reading in read_all(load(rows), config).items():
        assert {segment for segment, _ in reading.segments} == {"day", "channel"}, engine
        assert len({value for segment, value in reading.segments if segment == "day"}) == 200
        assert reading.labels["billing"].rows == reading.rows == 201
        (left_out,) = reading.quality
        assert (left_out.source, left_out.reason, left_out.rows) == ("tickets", "too_many_values", 0)
        assert left_out.examples == ({"segment": "message_id", "values": "more than 200"},)


@pytest.mark.parametrize(
    ("labels_a_row", "left", "said_of"),
    [
        (0.3, {"large", "named"}, "2 of 4 labels have fewer than 10"),
        (1, {"large", "named", "rare"}, "1 of 4 labels have fewer than 4"),
    ],
)
def test_of_very_many_labels_those_of_few_rows_count_in_the_whole_only(
    load: Loader, monkeypatch: pytest.MonkeyPatch, labels_a_row: float, left: set[str], said_of: str
) -> None:
    rows = [
        row(f"t{label}{index}", label, 0.3 + index / 20, float(index % 2), channel=f"c{index % 2}", weight=1.0 + index)
        for label, of_it in (("large", 10), ("rare", 9), ("named", 1), ("rarer", 2))
        for index in range(of_it)
    ]
    config = source(segments=("channel",), labels={"named": {"critical": True}})
    warehouses = load(rows)
    before = {engine: with_whole(reading) for engine, reading in read_all(warehouses, config).items()}
    monkeypatch.setattr("monitor.warehouse.reading.LABELS_A_ROW", labels_a_row)
    for engine, reading in read_all(warehouses, config).items():
        assert set(reading.labels) == left, engine
        assert {label for labels in reading.segments.values() for label in labels} == left
        counts = with_whole(reading).labels
        assert_same(counts["large"], before[engine].labels["large"])
        assert_same(counts[None], before[engine].labels[None])
        assert counts[None].design_effect == before[engine].labels[None].design_effect
        assert reading.rows == 22
        (said,) = reading.quality
        assert (said.reason, said.rows) == ("rare_labels", 0)
        assert str(said.examples[0]["why"]).startswith(f"{said_of} rows in this window")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_fingerprint_is_another_one_where_rows_have_changed(engine: str, load: Loader) -> None:
    config = source(segments=("channel",))
    more = {"cluster": "c", "channel": "web", "weight": 1.0}
    rows = [row("t1", **more), row("t2", "access", 0.2, 0.0, **more), row("t3", score=None, **more)]

    def found(rows: Sequence[Mapping[str, Any]], config: SourceConfig = config) -> str | None:
        (warehouse,) = load(list(rows), engines=(engine,)).values()
        return warehouse.fingerprint("tickets", config, WEEK, now=NOW)

    first = found(rows)
    elsewhere = row("t4", resolved_at=WEEK.end, **more)
    assert first == found(rows[::-1]) == found([*rows, elsewhere])
    changes = [
        {"score": 0.9000000000000001}, {"item": "t9"}, {"actual": None}, {"label": "access"}, {"cluster": None},
        {"score": 0.91}, {"resolved_at": WEEK.start + timedelta(days=2)}, {"actual": 0.0},
        {"cluster": "web", "channel": "c"}, {"weight": 1.5}, {"cluster": "d"}, {"channel": "wab"}, {"score": 1.5},
    ]  # fmt: skip
    some = changes if engine == "duckdb" else changes[:9:2]  # to load rows anew takes long elsewhere
    others = [found([rows[0] | change, *rows[1:]]) for change in some]
    others += [found(rows[1:]), found([*rows, rows[0]]), found(rows, source(segments=("channel",), automate_at=0.9))]
    for name in ("item", "label", "score", "actual") if engine == "duckdb" else ("actual",):  # exchanged by two rows
        others.append(found([rows[0] | {name: rows[1][name]}, rows[1] | {name: rows[0][name]}, rows[2]]))
    assert first not in others
    assert len(set(others)) == len(others)


def test_a_row_whose_date_has_come_changes_the_fingerprint(load: Loader) -> None:
    config = source(window_on="predicted_at")
    rows = [row("t1", predicted_at=WEEK.start, resolved_at=WEEK.end + timedelta(days=3))]
    for warehouse in load(rows).values():
        before, still, after = (
            warehouse.fingerprint("tickets", config, WEEK, now=WEEK.end + timedelta(days=days)) for days in (1, 2, 4)
        )
        assert before == still != after


def test_every_engine_has_fingerprints(load: Loader) -> None:
    rows = [row("t1", channel="web"), row("t2", score=1.5), row("t3", label="x" * 2000), row("t4", actual=None)]
    for engine, warehouse in load(rows).items():
        found = [
            warehouse.fingerprint("tickets", source(segments=segments), WEEK, now=NOW)
            for segments in ((), ("channel",), ("channel",))
        ]
        assert found[0] != found[1] == found[2], engine
        reading = warehouse.read("tickets", source(segments=("channel",)), WEEK, now=NOW)
        assert reading.fingerprint == found[1]


def test_sums_have_no_error_of_rounding_however_many_rows_a_score_has(load: Loader) -> None:
    rng = np.random.default_rng(5)
    score, actual = 0.7 + rng.random(3_000) * 1e-6, rng.random(3_000) < 0.7
    pairs = list(zip(score.tolist(), actual.tolist(), strict=True))
    plain = [row(f"t{n}", score=s, actual=int(y)) for n, (s, y) in enumerate(pairs)]
    exact = {
        "ws": sum(math.floor(s * 2**40 + 0.5) for s, _ in pairs), "wy": sum(y for _, y in pairs) * 2**40,
        "wsy": sum(math.floor(s * 2**40 + 0.5) for s, y in pairs if y),
        "ws2": sum(math.floor(s * s * 2**40 + 0.5) for s, _ in pairs),
    }  # fmt: skip
    exact["wy2"] = exact["wy"]
    for kind in ("INTEGER", "DOUBLE PRECISION"):
        for engine, reading in read_all(load(plain, types={"actual": kind}), source()).items():
            counts = reading.labels["billing"]
            assert counts.cell.tolist() == [7000]
            assert {name: getattr(counts, name)[0] * 2**40 for name in exact} == exact, (engine, kind)


def test_soft_truths_have_the_sum_of_their_squares_in_every_engine(load: Loader) -> None:
    plain = [row(f"t{n}", score=0.7, actual=y) for n, y in enumerate((0.0, 0.25, 0.75, 1.0))]
    weighted = [{**one, "weight": 2.0**n} for n, one in enumerate(plain)]
    for rows, expected in ((plain, 1.625), (weighted, 10.375)):
        for engine, reading in read_all(load(rows), source()).items():
            assert reading.labels["billing"].wy2.tolist() == [expected], engine


def test_examples_name_the_rows_as_text_and_are_at_most_twenty(load: Loader) -> None:
    rows = [row(f"t{index:02}", score=2.5) for index in range(30)]
    for reading in read_all(load(rows), source()).values():
        (quality,) = reading.quality
        assert (quality.source, quality.reason, quality.rows) == ("tickets", "score_out_of_range", 30)
        assert [example["item"] for example in quality.examples] == [f"t{index:02}" for index in range(20)]
        assert quality.examples[0].keys() == {"item", "label", "score", "date"}
        assert (quality.examples[0]["label"], quality.examples[0]["score"]) == ("billing", "2.5")
        assert str(quality.examples[0]["date"]).startswith("2026-11-10")


def test_a_window_without_rows_is_a_reading_without_labels(load: Loader) -> None:
    config = source(segments=("cluster",))
    rows = [row("a", cluster="c", model_version="v1", resolved_at=WEEK.end)]
    for reading in read_all(load(rows), config).values():
        assert (dict(reading.labels), dict(reading.segments), dict(reading.versions)) == ({}, {}, {})
        assert (reading.rows, reading.whole_design_effect, reading.quality) == (0, 1.0, ())


# --- values


def test_booleans_and_whole_numbers_are_outcomes_and_predictions(load: Loader) -> None:
    rows = [row("a", actual=True, predicted=True), row("b", actual=False, predicted=False, score=0.85)]
    for types in ({"actual": "BOOLEAN", "predicted": "BOOLEAN"}, {"actual": "INTEGER", "predicted": "SMALLINT"}):
        plain = (
            rows
            if "BOOLEAN" in types.values()
            else [r | {"actual": int(r["actual"]), "predicted": int(r["predicted"])} for r in rows]
        )
        for reading in read_all(load(plain, types=types), source()).values():
            counts = reading.labels["billing"]
            assert (counts.cell.tolist(), counts.predicted.tolist(), counts.wy.tolist()) == (
                [8500, 9000],
                [False, True],
                [0, 1],
            )
            assert counts.automated.tolist() == [False, True]


def test_decimal_scores_are_doubles_before_they_are_summed(load: Loader) -> None:
    rows = [row(f"t{index}", score=0.9) for index in range(7)]
    readings = read_all(load(rows, types={"score": "DECIMAL(5, 4)"}), source(automate_at=0.9))
    for reading in readings.values():
        assert_same(reading.labels["billing"], counts_from_rows([0.9] * 7, [1] * 7, automate_at=0.9))


@pytest.mark.parametrize("scale", [1, 100])
def test_decimals_that_no_double_holds_are_rejected_rows(load: Loader, scale: int) -> None:
    odd = ("1e400", "-1e400", "Infinity", "NaN", "1e300", "1e-400", "-1e-400", "1e-301", "0", "1")
    rows = [row(f"t{number}", cluster=f"c{number % 2}") for number in range(20)]
    then = [f"UPDATE resolved_tickets SET score = {value!r} WHERE item = 't{n}'" for n, value in enumerate(odd)]
    warehouses = load(rows, types={"score": "NUMERIC", "actual": "NUMERIC"}, then=then, engines=("postgresql",))
    for settings in ({}, {"kind": "top_k"}, {"segments": ["cluster"]}):
        config = source(score_scale=scale, **settings)
        reading = warehouses["postgresql"].read("tickets", config, WEEK, now=NOW)
        assert bad(reading) == {"score_not_a_number": 1, "score_out_of_range": 4}
        counts = reading.labels["billing"]
        assert counts.rows == 15
        assert float(counts.ws.sum()) == pytest.approx((1 + 10 * 0.9) / scale)


def test_without_a_prediction_the_classifier_said_yes_from_one_half_on(load: Loader) -> None:
    rows = [row("a", score=0.5), row("b", score=0.4999)]
    for reading in read_all(load(rows), source(automate_at=0.1)).values():
        assert reading.labels["billing"].predicted.tolist() == [False, True]
        assert reading.labels["billing"].automated.tolist() == [False, True]


def test_model_versions_are_counted(load: Loader) -> None:
    rows = [
        row("a", model_version="v1"),
        row("b", model_version="v2"),
        row("c", model_version="v2"),
        row("d", model_version=None),
    ]
    for reading in read_all(load(rows), source()).values():
        assert reading.versions == {"(none)": 1, "v1": 1, "v2": 2}


# --- dependent rows


def design_effect(residual: np.ndarray, weight: np.ndarray, keys: Sequence[Any]) -> float:
    """The definition, row by row: squared cluster sums of centred weighted residuals over squared residuals."""
    return max(1.0, unclipped_effect(residual, weight, keys))


def unclipped_effect(residual: np.ndarray, weight: np.ndarray, keys: Sequence[Any]) -> float:
    centred = weight * (residual - np.average(residual, weights=weight))
    sums = defaultdict(float)
    for index, (key, value) in enumerate(zip(keys, centred, strict=True)):
        sums[("alone", index) if key is None else key] += value
    return sum(total**2 for total in sums.values()) / float((centred**2).sum())


@pytest.mark.parametrize("weighted", [False, True])
def test_the_design_effect_is_that_of_the_definition(load: Loader, weighted: bool) -> None:
    rng = np.random.default_rng(7)
    rows = []
    for item in range(120):
        score, actual = float(rng.random()), float(rng.random() < 0.5)
        for copy in range(1 + item % 4):
            cluster = None if item % 5 == 0 else f"c{item}"
            more = {"cluster": cluster} | ({"weight": float(rng.random() + 0.2)} if weighted else {})
            rows += [row(f"i{item}-{copy}", label, score, actual, **more) for label in ("billing", "spam")]
    for engine, reading in read_all(load(rows), source(segments=("cluster",))).items():
        for label in ("billing", "spam"):
            kept = [r for r in rows if r["label"] == label]
            assert reading.labels[label].design_effect == pytest.approx(oracle(kept, "cluster"), rel=1e-9), engine
            assert reading.labels[label].design_effect > 1.5
            segment = reading.segments[("cluster", "c1")][label]
            assert segment.design_effect == reading.labels[label].design_effect
        whole = oracle([r | {"group": r["cluster"] or r["item"]} for r in rows], "group")  # clusters hold whole items
        assert reading.whole_design_effect == pytest.approx(whole, rel=1e-9), engine


@pytest.mark.parametrize("weighted", [False, True])
def test_how_much_of_the_dependence_is_in_a_band_of_scores_is_that_of_the_definition(
    load: Loader, weighted: bool
) -> None:
    rng, rows = np.random.default_rng(8), []
    for item in range(120):  # two rows of one score and two others, with outcomes alike
        scores, chance = [0.95, 0.95, 0.05, 0.5], 0.1 + 0.8 * (item % 2)
        for copy, score in enumerate(scores):
            cluster = None if item % 5 == 0 else f"c{item}"
            more = {"cluster": cluster} | ({"weight": float(rng.random() + 0.2)} if weighted else {})
            rows.append(row(f"i{item}-{copy}", "billing", score, float(rng.random() < chance), **more))
    banded = [one | {"band": one["cluster"] and (one["cluster"], one["score"] // 0.05)} for one in rows]
    expected = (unclipped(banded, "band") - 1) / (oracle(rows, "cluster") - 1)
    assert 0.05 < expected < 0.95
    for engine, reading in read_all(load(rows), source()).items():
        assert reading.labels["billing"].together == pytest.approx(expected, rel=1e-8), engine


def oracle(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    residual = np.array([r["actual"] - r["score"] for r in rows])
    weight = np.array([r.get("weight", 1.0) for r in rows])
    return design_effect(residual, weight, [r[key] for r in rows])


def unclipped(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    residual = np.array([r["actual"] - r["score"] for r in rows])
    return unclipped_effect(residual, np.array([r.get("weight", 1.0) for r in rows]), [r[key] for r in rows])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("odd", ["", "another cluster", "no cluster"])
def test_items_of_a_cluster_are_dependent_as_by_the_definition(load: Loader, weighted: bool, odd: str) -> None:
    rng = np.random.default_rng(13)
    rows = []
    for item in range(150):  # the scores of a cluster are alike, and so is whether its decisions are right
        cluster, group = None if item % 5 == 0 else f"c{item // 4}", item // 4
        more = {"cluster": cluster} | ({"weight": 1.0 + item % 3} if weighted else {})
        for label in ("billing", "spam", "refund")[: 1 + item % 3]:
            score = float(np.clip(rng.normal(0.8 if group % 2 else 0.3, 0.15), 0, 1))
            right = (group % 3 > 0) == (rng.random() < 0.85)
            actual = float((score >= 0.5) == right)
            rows.append(row(f"i{item}", label, score, abs(actual - 0.1) if label == "spam" else actual, **more))
    if odd:  # one row of an item: its cluster is not that of the others
        rows[-1] |= {"cluster": "c0" if odd == "another cluster" else None}
        assert rows[-2]["item"] == rows[-1]["item"]
    more = {"weight": 1.0} if weighted else {}  # of items without a cluster, which have one row that counts
    aside = [row(f"i{item}", "access", 1.5, cluster="c7", **more) for item in range(0, 150, 15)]
    keys = ("item", "cluster", "both")
    rows_of = [r | {"both": r["cluster"] and (r["item"], r["cluster"])} for r in rows]
    by_item, by_cluster, by_both = (unclipped(rows_of, key) for key in keys)
    of_items = effects_of_items(rows)
    assert 1.1 < by_both < min(by_item, by_cluster)
    assert min(of_items.values()) > 1.01
    for engine, reading in read_all(load([*rows, *aside]), source()).items():
        assert (bad(reading), reading.rows) == ({"score_out_of_range": 10}, len(rows))
        assert reading.whole_design_effect == pytest.approx(by_item + by_cluster - by_both, rel=1e-9), engine
        for metric, expected in of_items.items():
            assert reading.items[metric].design_effect == pytest.approx(expected, rel=1e-9), (engine, metric)


def effects_of_items(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The design effects of the metrics of items within clusters, by the definition; rows act from .8 on."""
    items = defaultdict(list)
    for each in rows:
        items[each["item"]].append(each)
    wrong = [[abs((r["score"] >= 0.5) - r["actual"]) for r in of] for of in items.values()]
    values = {
        "review_rate": [float(not any(r["score"] >= 0.8 for r in of)) for of in items.values()],
        "hamming_loss": [float(np.mean(each)) for each in wrong],
        "subset_loss": [max(each) for each in wrong],
    }
    weights = np.array([of[0].get("weight", 1.0) for of in items.values()])
    clusters = [max((r["cluster"] for r in of if r["cluster"]), default=None) for of in items.values()]
    return {metric: design_effect(np.array(each), weights, clusters) for metric, each in values.items()}


def test_the_rows_that_act_have_a_design_effect_of_their_own(load: Loader) -> None:
    rows = []
    for index in range(120):  # what scores .9 comes in threes, what scores .2 or .6 alone
        for copy in range(3 if index % 4 == 0 else 1):
            score = 0.9 if index % 4 == 0 else (0.2, 0.6)[index % 2]
            rows.append(row(f"t{index} {copy}", score=score, actual=float(index % 8 < 4), cluster=f"c{index}"))
    for engine, reading in read_all(load(rows), source(automate_at=0.9)).items():
        counts = reading.labels["billing"]
        assert counts.where("automated").design_effect == pytest.approx(3.0), engine
        kept = [r for r in rows if r["score"] >= 0.5]
        assert counts.where("predicted").design_effect == pytest.approx(oracle(kept, "cluster"), rel=1e-9), engine
        assert counts.design_effect == pytest.approx(oracle(rows, "cluster"), rel=1e-9), engine
        assert 1 < counts.design_effect < counts.where("predicted").design_effect < 3


def test_an_empty_cluster_is_no_cluster(load: Loader) -> None:
    rows = [row(f"t{index}", actual=float(index % 2), cluster="" if index % 3 else None) for index in range(60)]
    for reading in read_all(load(rows), source()).values():
        assert reading.labels["billing"].design_effect == 1.0
        assert reading.whole_design_effect == 1.0


def test_a_single_cluster_is_worth_one_row(load: Loader) -> None:
    rows = [row(f"t{index}", actual=float(index % 2), cluster="one") for index in range(40)]
    for reading in read_all(load(rows), source()).values():
        assert reading.labels["billing"].effective_rows == pytest.approx(1.0)
        assert (reading.labels["billing"].rows, reading.rows) == (40, 40)


# --- windows


@pytest.mark.parametrize("types", [{}, {"resolved_at": "TIMESTAMP"}], ids=["with a time zone", "naive, so UTC"])
def test_a_window_begins_with_its_first_instant_and_ends_before_its_last(load: Loader, types: dict[str, str]) -> None:
    moment = timedelta(microseconds=1)
    times = {"first": WEEK.start, "last": WEEK.end - moment, "before": WEEK.start - moment, "after": WEEK.end}
    rows = [row(name, resolved_at=when.replace(tzinfo=None) if types else when) for name, when in times.items()]
    for engine, warehouse in load(rows, types=types).items():
        taken = warehouse.feature_sample("tickets", source(features=("item",)), WEEK, limit=10)
        assert sorted(taken["item"]) == ["first", "last"], engine


@pytest.mark.parametrize(
    ("zone", "hours"), [("Europe/Berlin", {"24": 24, "25": 25, "26": 24}), ("Africa/Cairo", {"29": 25, "30": 24})]
)
def test_days_on_which_clocks_change_have_each_of_their_rows_once(
    load: Loader, zone: str, hours: dict[str, int]
) -> None:
    days = [windows.day(f"2026-10-{day}", ZoneInfo(zone)) for day in hours]
    every = int((days[-1].end - days[0].start) / timedelta(minutes=30))
    times = [days[0].start + timedelta(minutes=30 * step) for step in range(every)]
    rows = [row(f"t{step}", resolved_at=when) for step, when in enumerate(times)]
    for engine, warehouse in load(rows).items():
        read = [warehouse.read("tickets", source(), each, now=NOW).rows for each in days]
        assert (read, sum(read)) == ([2 * each for each in hours.values()], every), engine


def test_dates_without_a_time_are_midnight_in_utc(load: Loader) -> None:
    rows = [
        row(day, resolved_at=datetime.fromisoformat(day).date())
        for day in ("2026-11-08", "2026-11-09", "2026-11-15", "2026-11-16")
    ]
    config = source(features=("item",))
    for warehouse in load(rows, types={"resolved_at": "DATE"}).values():
        assert set(warehouse.feature_sample("tickets", config, WEEK, limit=9)["item"]) == {"2026-11-09", "2026-11-15"}


def test_sqlite_takes_seconds_since_1970_and_not_milliseconds(load: Loader) -> None:
    seconds = int(WEEK.start.timestamp())
    times = {"first": seconds, "fraction": seconds + 0.5, "before": seconds - 1, "milliseconds": seconds * 1000}
    rows = [row(name, resolved_at=when) for name, when in times.items()]
    warehouse = load(rows, types={"resolved_at": "NUMERIC"}, engines=("sqlite",))["sqlite"]
    reading = warehouse.read("tickets", source(), WEEK, now=NOW)
    assert (reading.rows, bad(reading)) == (2, {"date_malformed": 1})


def test_dates_in_the_future_are_counted_over_the_whole_relation(load: Loader) -> None:
    rows = [row("a"), row("b", resolved_at=NOW), row("c", resolved_at=NOW + timedelta(seconds=1))]
    for reading in read_all(load(rows), source()).values():
        assert (reading.rows, bad(reading)) == (1, {"date_in_future": 1})


def test_a_window_on_the_prediction_takes_rows_by_predicted_at(load: Loader) -> None:
    inside, outside = WEEK.start + timedelta(hours=1), WEEK.start - timedelta(hours=1)
    rows = [
        row("predicted inside", predicted_at=inside, resolved_at=NOW),
        row("resolved inside", predicted_at=outside, resolved_at=inside),
        row("never predicted", predicted_at=None),
        row("not resolved", predicted_at=inside, resolved_at=None),
        row("resolved tomorrow", predicted_at=inside, resolved_at=NOW + timedelta(days=1)),
        row("predicted tomorrow", predicted_at=NOW + timedelta(days=1), resolved_at=inside),
    ]
    config = source(window_on="predicted_at", features=("item",))
    for engine, warehouse in load(rows).items():
        reading = warehouse.read("tickets", config, WEEK, now=NOW)
        assert (reading.rows, bad(reading)) == (1, {"date_missing": 2, "date_in_future": 2}), engine


# --- samples of features


def test_a_sample_of_features_has_one_row_an_item_and_is_the_same_on_every_engine_and_every_time(load: Loader) -> None:
    rows = [
        row(f"t{item}", label, body=item, channel=None if item % 7 == 0 else f"c{item % 3}")
        for item in range(200)
        for label in ("spam", "billing")
    ]
    config = source(features=("channel", "body_length"), columns={"body_length": "body"})
    samples = [
        warehouse.feature_sample("tickets", config, WEEK, limit=50)
        for order in (rows, rows[::-1])
        for warehouse in load(order, types={"body": "DECIMAL(9, 2)"}).values()
    ]
    assert list(samples[0].columns) == ["channel", "body_length"]
    assert (len(samples[0]), samples[0]["body_length"].nunique()) == (50, 50)
    assert samples[0]["body_length"].dtype == np.float64
    assert len(samples) == 2 * len(ENGINES)
    assert all(sample.equals(samples[0]) for sample in samples)


def test_a_sample_is_stratified_by_the_predicted_label_and_drawn_among_fewer_where_there_are_many(load: Loader) -> None:
    rows = [
        row(f"t{item}", label, score=0.9 if (label == "spam") == (item % 4 > 0) and item % 10 else 0.1)
        for item in range(400)
        for label in ("spam", "billing")
    ]
    config, samples = source(features=("item",)), []
    for engine, warehouse in load(rows).items():
        taken = [int(item[1:]) for item in warehouse.feature_sample("tickets", config, WEEK, limit=40)["item"]]
        found = Counter("" if item % 10 == 0 else "spam" if item % 4 else "billing" for item in taken)
        assert found == {"": 4, "billing": 8, "spam": 28}, engine  # a tenth of each
        few = warehouse.feature_sample("tickets", config, WEEK, limit=5, at_least=400)["item"].tolist()
        hashes = [md5(item.encode(), usedforsecurity=False).hexdigest() for item in few]
        assert (len(few), hashes, max(hashes) < "2") == (5, sorted(hashes), True), engine
        # rows that repeat looked like items: then all items are candidates
        many = warehouse.feature_sample("tickets", config, WEEK, limit=40, at_least=10**6)["item"]
        assert many.tolist() == [f"t{item}" for item in taken], engine
        samples.append((taken, few))
    assert all(each == samples[0] for each in samples)


def test_a_sample_takes_the_features_of_the_first_label_and_of_sound_rows_only(load: Loader) -> None:
    rows = [
        row("a", "spam", channel="second"),
        row("a", "billing", channel="first"),
        row("b", score=None, channel="bad"),
    ]
    for warehouse in load(rows).values():
        assert warehouse.feature_sample("tickets", source(features=("channel",)), WEEK, limit=9)[
            "channel"
        ].tolist() == ["first"]


def test_without_features_a_sample_has_no_columns(load: Loader) -> None:
    for warehouse in load([row()], engines=FILES).values():
        assert warehouse.feature_sample("tickets", source(), WEEK, limit=9).shape == (0, 0)


# --- rejected rows leave the warehouse by label, place of the score and truth


def place_of(score: float | None) -> int | None:
    if score is None:
        return None
    if 0 <= score <= 1:
        return min(math.floor(score * 10_000 + 0.5) // 1_000, 9)
    return int(ScorePlace.BELOW_0 if score < 0 else ScorePlace.ABOVE_1 if score <= 100 else ScorePlace.ABOVE_100)


def expected_cells(rows: Sequence[Mapping[str, Any]], config: SourceConfig) -> dict[tuple[Any, ...], list[float]]:
    """(label, reason, place, truth) -> rows and hits, in plain Python."""
    found = defaultdict(lambda: [0, 0.0])
    for r in rows:
        reason, when = reason_of(r, WEEK, NOW), r["resolved_at"]
        if not isinstance(reason, RejectReason) or when is None or not WEEK.start <= when < WEEK.end:
            continue
        label = r["label"] if r["label"] and len(r["label"].encode()) <= 1_000 else None
        usable = r["actual"] is not None and 0 <= r["actual"] <= 1
        outcome = r["actual"]
        if config.score_is == "confidence_in_prediction":
            usable = usable and r["predicted"] in (0, 1)
            outcome = r["actual"] if r["predicted"] else 1 - r["actual"] if usable else None
        truth = 1 if usable else -1 if r["actual"] == -1 else None
        cell = found[label, reason.value, place_of(r["score"]), truth]
        cell[0] += 1
        cell[1] += outcome if usable else 0.0
    return found


@pytest.mark.parametrize("score_is", ["probability_of_label", "confidence_in_prediction"])
def test_three_engines_reject_the_same_rows_as_plain_python(load_once: Loader, score_is: str) -> None:
    rows = random_rows()
    config = source(score_is=score_is)
    cells = expected_cells(rows, config)
    assert {truth for _, _, _, truth in cells} == {None, 1, -1}
    assert {place for _, _, place, _ in cells} >= {None, 0, 9, ScorePlace.ABOVE_1, ScorePlace.BELOW_0}
    for engine, reading in read_all(load_once(rows), config).items():
        found = {(c.label, c.reason, c.place, c.truth): [c.rows, c.hits] for c in reading.rejected}
        assert set(found) == set(cells), engine
        for key, (n, hits) in cells.items():
            assert found[key] == [n, pytest.approx(hits, abs=1e-9)], (engine, key)


def test_scores_at_the_edge_of_a_tenth_are_in_the_tenth_of_their_cell(load: Loader) -> None:
    edges = [0.0, 0.1, 0.3, 0.7, 0.8, 0.9, 1.0, 0.29994, 0.29996, 0.89999, 0.8999499]
    rows = [row(f"t{i}", score=score, actual=None) for i, score in enumerate(edges)]
    for engine, reading in read_all(load(rows), source()).items():
        counted = sorted(c.place for c in reading.rejected for _ in range(c.rows) if c.place is not None)
        assert counted == sorted(place_of(score) for score in edges), engine  # type: ignore[type-var]
