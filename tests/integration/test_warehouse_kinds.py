"""Sources of kind top_k, multiclass and regression, and scores made from log-probabilities, from three engines."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from sklearn import metrics as sk

from benchmarks.sampling import sums_of_rows
from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.core.counts import ProbabilityRows, counts_from_rows
from monitor.core.rejection import Read, rejections
from monitor.inference.dependence import design_effect
from monitor.metrics.top_k import precision_at
from monitor.warehouse import scored
from monitor.warehouse.reader import Reading, RelationError, Warehouse
from tests.conftest import ENGINES, Loader
from tests.fakes.points import point

pytestmark = pytest.mark.postgres

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
INSIDE = WEEK.start + timedelta(days=1)
LABELS = ("access", "billing", "Other", "phishing")


def source(**settings: Any) -> SourceConfig:
    return SourceConfig(**{"relation": "resolved_tickets", "score_is": "probability_of_label"} | settings)


def read_all(warehouses: Mapping[str, Warehouse], config: SourceConfig) -> dict[str, Reading]:
    return {engine: w.read("tickets", config, WEEK, now=NOW) for engine, w in warehouses.items()}


def bad(reading: Reading) -> dict[str, int]:
    return {quality.reason: quality.rows for quality in reading.quality}


def items(n: int, seed: int = 1) -> list[dict[str, Any]]:
    """Items with four scored labels, of which one is true; scores in steps, so that there are ties."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(n):
        scores = np.round(rng.dirichlet(np.ones(len(LABELS))), 1)
        true = int(rng.choice(len(LABELS), p=[0.6, 0.25, 0.1, 0.05]))
        rows += [
            {"item": f"t{number}", "label": label, "score": float(score), "actual": float(place == true),
             "resolved_at": INSIDE, "cluster": f"c{number % 17}"}
            for place, (label, score) in enumerate(zip(LABELS, scores, strict=True))
        ]  # fmt: skip
    return rows


def by_item(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    found = defaultdict(list)
    for row in rows:
        found[row["item"]].append(row)
    return [sorted(each, key=lambda r: (-r["score"], r["label"].encode())) for each in found.values()]


@pytest.mark.parametrize("kind", ["top_k", "multiclass"])
def test_the_labels_of_an_item_are_ranked_by_score_and_then_by_name_alike_in_every_engine(
    load: Loader, kind: str
) -> None:
    rows = items(60)
    for engine, reading in read_all(load(rows), source(kind=kind)).items():
        assert sorted(reading.ranked) == [1, 3, 5], engine
        for rank, found in reading.ranked.items():
            kept = [row for each in by_item(rows) for row in each[:rank]]
            largest = [place == 0 for each in by_item(rows) for place in range(min(rank, len(each)))]
            expected = counts_from_rows(
                [r["score"] for r in kept], [r["actual"] for r in kept], automate_at=0.8,
                predicted=largest if kind == "multiclass" else None,
            )  # fmt: skip
            assert np.array_equal(found.cell, expected.cell), (engine, rank)
            for name in ("n", "w", "ws", "wy", "wsy", "ws2", "wy2"):
                assert np.allclose(getattr(found, name), getattr(expected, name), atol=1e-9), (engine, rank, name)


@pytest.mark.parametrize("decided", [False, True])
def test_of_a_multiclass_item_the_label_with_the_largest_score_was_decided_unless_a_column_says_another(
    load: Loader, decided: bool
) -> None:
    rows = items(80, seed=3)
    for each in by_item(rows):
        for place, row in enumerate(each):
            row["expected"] = int(place == 1 if decided else place == 0)
    told = [{k: v for k, v in row.items() if k != "expected"} for row in rows]
    given = [row | {"predicted": full["expected"]} for row, full in zip(told, rows, strict=True)] if decided else told
    ties = sum(each[0]["score"] == each[1]["score"] for each in by_item(rows))
    below = sum(each[0]["score"] < 0.5 for each in by_item(rows))
    assert ties > 3
    assert below > 10
    for engine, reading in read_all(load(given), source(kind="multiclass")).items():
        for label in LABELS:
            mine = [row for row in rows if row["label"] == label and row["expected"]]
            found = reading.labels[label]
            chosen = found.take(found.predicted)
            assert int(chosen.n.sum()) == len(mine), (engine, label)
            assert float(chosen.wy.sum()) == sum(row["actual"] for row in mine), (engine, label)
            assert float(chosen.ws.sum()) == pytest.approx(sum(row["score"] for row in mine)), (engine, label)
        assert sum(int(c.n[c.predicted].sum()) for label, c in reading.labels.items() if label is not None) == 80


def test_rows_of_one_item_within_a_rank_are_dependent(load: Loader) -> None:
    rows = [{name: value for name, value in row.items() if name != "cluster"} for row in items(100)]
    reading = read_all(load(rows, engines=("duckdb",)), source(kind="top_k"))["duckdb"]
    kept = [row for each in by_item(rows) for row in each[:3]]
    sums = sums_of_rows([r["score"] for r in kept], [r["actual"] for r in kept], [r["item"] for r in kept])
    assert reading.ranked[3].design_effect == pytest.approx(design_effect(sums))
    assert reading.ranked[1].design_effect == pytest.approx(1.0)  # one row an item


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["multilabel", "top_k", "multiclass"])
def test_items_of_which_no_label_acts_are_counted_alike_in_every_engine(
    load: Loader, kind: str, weighted: bool
) -> None:
    rows = [
        row | {"actual": 0.5 if kind == "multilabel" and row["actual"] else row["actual"]} for row in items(90, seed=4)
    ]
    if weighted:
        rows = [row | {"weight": 1.0 + int(row["item"][1:]) % 3} for row in rows]
    config = source(kind=kind, automate_at=0.6, labels={"Other": {"automate_at": 0.7}})
    acts, weight, cluster = defaultdict(bool), {}, {}
    for row in rows:
        acts[row["item"]] |= row["score"] >= (0.7 if row["label"] == "Other" else 0.6)  # ties at the threshold act
        weight[row["item"]], cluster[row["item"]] = row.get("weight", 1.0), row["cluster"]
    w = np.array([weight[item] for item in acts])
    left = np.array([not each for each in acts.values()], dtype=float)
    assert 0.2 < left.mean() < 0.8
    sums = sums_of_rows(np.zeros(len(w)), left, [cluster[item] for item in acts], w)
    earlier = [row | {"resolved_at": INSIDE - timedelta(hours=1), "score": 0.99} for row in rows[:8]]  # corrected later
    for engine, reading in read_all(load([*rows, *earlier]), config).items():
        found = reading.items["review_rate"]
        assert found.rows == 90
        assert point("review_rate", found) == pytest.approx(np.average(left, weights=w)), engine
        assert found.design_effect == pytest.approx(design_effect(sums)), engine
        assert float(found.w2.sum()) == pytest.approx((w**2).sum()), engine


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_by_pair_of_labels_are_those_of_the_rows_in_every_engine(load: Loader, weighted: bool) -> None:
    rng = np.random.default_rng(8)
    rows = [row | {"actual": float(rng.choice([0.0, 1.0, 0.5]))} for row in items(70, seed=5) if rng.random() < 0.8]
    if weighted:
        rows = [row | {"weight": 1.0 + int(row["item"][1:]) % 3} for row in rows]
    repeated = [
        row | {"resolved_at": INSIDE - timedelta(hours=1), "actual": 1.0} for row in rows[:20]
    ]  # corrected later
    truth = defaultdict(float)
    for row in rows:
        truth[row["label"]] += row["actual"]
    kept = sorted(truth, key=lambda label: (-truth[label], label))[:3]
    of = {(row["item"], row["label"]): row for row in rows}
    assert len(of) == len(rows)
    for engine, warehouse in load([*rows, *repeated]).items():
        found = warehouse.label_pairs("tickets", source(), WEEK, 3, now=NOW)
        by_pair = {(str(a), str(b)): k for k, (a, b) in enumerate(zip(found["a"], found["b"], strict=True))}
        assert {label for pair in by_pair for label in pair} == set(kept), engine
        for (a, b), k in by_pair.items():
            both = [(x, of[x["item"], b]) for x in rows if x["label"] == a and (x["item"], b) in of]
            w = np.array([y.get("weight", 1.0) for _, y in both])
            of_a, of_b = (np.array([pair[side]["actual"] for pair in both]) for side in (0, 1))
            told_a, told_b = (np.array([pair[side]["score"] >= 0.5 for pair in both]) for side in (0, 1))
            expected = {"n": len(both), "true": w @ of_b, "both_true": w @ (of_a * of_b), "predicted": w @ told_b}
            expected["both_predicted"] = w @ (told_a & told_b)
            assert {name: float(found[name][k]) for name in expected} == pytest.approx(expected), (engine, a, b)


@pytest.mark.parametrize("kind", ["multilabel", "top_k"])
def test_losses_and_gains_of_items_are_those_of_scikit_learn_in_every_engine(load: Loader, kind: str) -> None:
    rng = np.random.default_rng(9)
    rows = [
        row | {"actual": float(rng.random() < 0.3)} for row in items(60, seed=6)
    ]  # with ties, and items without truth
    score, truth = (
        np.array([[r[key] for r in rows[k : k + 4]] for k in range(0, 240, 4)]) for key in ("score", "actual")
    )
    told = score >= 0.5
    assert (truth.sum(axis=1) == 0).any()
    expected = {
        "hamming_loss": sk.hamming_loss(truth.astype(int), told.astype(int)),
        "subset_loss": sk.zero_one_loss(truth.astype(int), told.astype(int)),
    }
    # of tied scores the label first by its bytes, as everywhere
    order = np.argsort(np.argsort([label.encode() for label in LABELS]))
    broken = score - 1e-6 * order
    for k in (1, 3, 5) if kind == "top_k" else ():
        expected[f"ndcg_at_{k}"] = sk.ndcg_score(truth, broken, k=k)
    for engine, reading in read_all(load(rows), source(kind=kind)).items():
        found = {name: precision_at(counts) for name, counts in reading.items.items() if name != "review_rate"}
        assert found == pytest.approx(expected), engine


def test_without_rows_there_is_no_share_of_items(load: Loader) -> None:
    outside = [row | {"resolved_at": WEEK.start - timedelta(days=3)} for row in items(3)]
    for engine, reading in read_all(load(outside), source()).items():
        assert reading.items == {}, engine


def test_multiclass_gives_whole_rows_of_probabilities(load: Loader) -> None:
    rows = items(30)
    expected = {row["item"]: [0.0] * 4 for row in rows}
    for row in rows:
        expected[row["item"]][sorted(LABELS).index(row["label"])] = row["score"]
    for engine, reading in read_all(load(rows), source(kind="multiclass")).items():
        found = reading.whole
        assert isinstance(found, ProbabilityRows)
        assert found.labels == tuple(sorted(LABELS)), engine
        assert found.items == 30
        assert sorted(map(tuple, found.probability.tolist())) == sorted(map(tuple, expected.values()))
        assert (found.truth.sum(axis=1) == 1).all()
        assert found.weight.tolist() == [1.0] * 30
        assert reading.rows == 120


def test_items_without_one_true_label_are_set_aside_whole_and_counted_by_reason(load: Loader) -> None:
    rows = items(20)
    none = [row | {"item": "none", "actual": 0.0} for row in rows[:4]]
    two = [row | {"item": "two", "actual": float(place < 2)} for place, row in enumerate(rows[:4])]
    soft = [row | {"item": "soft", "actual": 0.5 if place < 2 else 0.0} for place, row in enumerate(rows[:4])]
    later = {"resolved_at": INSIDE + timedelta(hours=1)}
    twice = [rows[0] | {"actual": 1.0 - rows[0]["actual"]}, rows[0] | later]
    for engine, reading in read_all(load([*none, *two, *soft, *twice, *rows[1:]]), source(kind="multiclass")).items():
        assert bad(reading) == {"duplicate": 1, "no_true_label": 8, "several_true_labels": 4}, engine
        assert reading.rows == 80
        assert reading.whole.items == 20
        (named,) = [q for q in reading.quality if q.reason == "several_true_labels"]
        assert {example["item"] for example in named.examples} == {"two"}


def test_a_label_that_was_not_scored_on_an_item_has_no_probability(load: Loader) -> None:
    rows = [row for row in items(10) if row["label"] != "Other" or row["actual"] == 1 or row["item"] != "t3"]
    missing = 40 - len(rows)
    reading = read_all(load(rows, engines=("duckdb",)), source(kind="multiclass"))["duckdb"]
    assert np.isnan(reading.whole.probability).sum() == missing > 0


def test_too_many_items_give_a_sample_that_holds_rare_labels_and_weighs_as_all(
    load: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.warehouse.reading.ITEMS_AT_MOST", 48)
    rows = items(150, seed=3)
    truths = {row["item"]: row["label"] for row in rows if row["actual"] == 1}
    samples = {}
    for engine, reading in read_all(load(rows), source(kind="multiclass")).items():
        found = reading.whole
        assert found.items == 150
        assert len(found.weight) <= 48
        per_label = found.truth.T @ found.weight
        wanted = [sum(label == true for true in truths.values()) for label in found.labels]
        assert per_label.tolist() == pytest.approx(wanted), engine
        assert min(found.truth.sum(axis=0)) == min(wanted)  # all of the rarest, of which a plain sample holds a third
        samples[engine] = sorted(map(tuple, np.column_stack([found.probability, found.truth, found.weight]).tolist()))
    assert list(samples) == list(ENGINES)
    assert all(sample == samples[ENGINES[0]] for sample in samples.values())


def number(item: str, **more: Any) -> dict[str, Any]:
    plain = {"item": item, "predicted": 4.0, "deviation": 1.5, "actual": 5.0, "resolved_at": INSIDE}
    return plain | more


NUMBER_TYPES = {"predicted": "DOUBLE PRECISION", "deviation": "DOUBLE PRECISION"}


def test_a_source_of_numbers_gives_its_rows_and_says_what_is_wrong_with_others(load: Loader) -> None:
    rows = [
        number("a"), number("b", actual=-3.25), number("c", predicted=None), number("d", deviation=0.0),
        number("e", deviation=-1.0), number("f", actual=None), number("g", resolved_at=NOW + timedelta(days=9)),
        number("h", predicted=math.inf), number(None), number("a", actual=7.0, resolved_at=INSIDE + timedelta(hours=1)),
        number("z", resolved_at=WEEK.end),
    ]  # fmt: skip
    for engine, reading in read_all(load(rows, types=NUMBER_TYPES), source(kind="regression")).items():
        found = reading.numbers
        triples = sorted(zip(found.predicted, found.deviation, found.actual, strict=True))
        assert triples == [(4.0, 1.5, -3.25), (4.0, 1.5, 7.0)], engine
        assert reading.numbers.weight.tolist() == [1.0, 1.0]
        assert (reading.rows, reading.labels) == (2, {})
        assert bad(reading) == {
            "item_missing": 1, "prediction_invalid": 2, "deviation_invalid": 2, "outcome_missing": 1,
            "date_in_future": 1, "duplicate": 1,
        }, engine  # fmt: skip
        (named,) = [q for q in reading.quality if q.reason == "deviation_invalid"]
        assert [example["item"] for example in named.examples] == ["d", "e"]


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "sqlite"])
def test_numbers_that_are_not_finite_are_set_aside(load: Loader, engine: str) -> None:
    rows = [number("a"), number("b", deviation=math.nan), number("c", actual=math.nan), number("d", predicted=math.nan)]
    reading = read_all(load(rows, types=NUMBER_TYPES, engines=(engine,)), source(kind="regression"))[engine]
    assert bad(reading) == {"prediction_invalid": 1, "deviation_invalid": 1, "outcome_not_finite": 1}


def test_too_many_numbers_give_a_sample_that_weighs_as_all(load: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.warehouse.reading.ITEMS_AT_MOST", 10)
    rows = [number(f"t{i}", actual=float(i)) for i in range(40)]
    found = read_all(load(rows, types=NUMBER_TYPES), source(kind="regression"))
    actuals = {engine: reading.numbers.actual.tolist() for engine, reading in found.items() if reading.numbers}
    assert len(actuals[ENGINES[0]]) == 10
    assert [actuals[engine] for engine in ENGINES] == [actuals[ENGINES[0]]] * len(ENGINES)
    assert all(r.numbers is not None and r.numbers.weight.sum() == 40 and r.numbers.items == 40 for r in found.values())


def test_a_source_of_numbers_without_deviations_is_refused(load: Loader) -> None:
    rows = [{name: value for name, value in number("a").items() if name != "deviation"}]
    for warehouse in load(rows, types=NUMBER_TYPES).values():
        with pytest.raises(RelationError, match="column deviation is missing"):
            warehouse.read("hours", source(kind="regression"), WEEK, now=NOW)


def test_scores_are_made_from_the_log_probabilities_of_tokens(load: Loader) -> None:
    rng = np.random.default_rng(5)
    rows = []
    for number_ in range(60):
        logs = np.round(-rng.exponential(0.4, rng.integers(1, 5)), 3).tolist()
        rows.append(
            {"item": f"t{number_}", "label": LABELS[number_ % 2], "token_logprobs": json.dumps(logs),
             "actual": float(rng.random() < 0.7), "resolved_at": INSIDE, "channel": ("web", "mail")[number_ % 2],
             "cluster": f"c{number_ // 3}"}
        )  # fmt: skip
    broken = [
        rows[0] | {"item": "null", "token_logprobs": None},
        rows[0] | {"item": "text", "token_logprobs": "high"},
        rows[0] | {"item": "positive", "token_logprobs": "[0.5]"},
        rows[0] | {"item": "undated", "resolved_at": None},
        rows[0] | {"resolved_at": INSIDE - timedelta(hours=1)},
    ]
    config = source(score={"from": "token_logprobs", "method": "mean_probability"}, segments=("channel",))
    digests = set()
    for engine, reading in read_all(load([*rows, *broken]), config).items():
        assert bad(reading) == {
            "score_missing": 1, "score_not_a_number": 2, "date_missing": 1, "duplicate": 1
        }, engine  # fmt: skip
        for label in LABELS[:2]:
            mine = [row for row in rows if row["label"] == label]
            scores = [float(np.exp(json.loads(row["token_logprobs"])).mean()) for row in mine]
            expected = counts_from_rows(scores, [row["actual"] for row in mine], automate_at=0.8)
            found = reading.labels[label]
            assert np.array_equal(found.cell, expected.cell)
            assert np.allclose(found.ws, expected.ws)
            assert np.allclose(found.wy, expected.wy)
            assert np.array_equal(found.automated, expected.automated)
        assert set(reading.segments) == {("channel", "web"), ("channel", "mail")}
        digests.add(tuple(counts.digest() for counts in reading.labels.values()))
    assert len(digests) == 1


def test_scores_are_made_from_votes_by_configuration(load: Loader) -> None:
    rng = np.random.default_rng(6)
    votes = [rng.integers(0, 2, int(rng.integers(2, 6))).tolist() for _ in range(40)]
    common = {"label": "billing", "resolved_at": INSIDE}
    rows = [
        common | {"item": f"t{k}", "votes": json.dumps(each), "actual": float(k % 3 == 0)}
        for k, each in enumerate(votes)
    ]
    warehouses = load(rows)
    for method, of in (("vote_share", np.mean), ("vote_consistency", lambda each: 1 - 4 * np.var(each))):
        config = source(score={"from": "votes", "method": method})
        expected = counts_from_rows([of(each) for each in votes], [row["actual"] for row in rows], automate_at=0.8)
        for engine, reading in read_all(warehouses, config).items():
            assert np.array_equal(reading.labels["billing"].by_cell().cell, expected.by_cell().cell), (engine, method)
            assert np.allclose(reading.labels["billing"].by_cell().wy, expected.by_cell().wy), (engine, method)


@pytest.mark.parametrize("on", ["resolved_at", "predicted_at"])
@pytest.mark.parametrize(
    ("odd", "reason"),
    [("infinity", "date_in_future"), ("-infinity", "date_malformed"), ("0044-03-15 BC", "date_malformed")],
)
def test_a_date_that_python_does_not_have_is_one_rejected_row_of_a_source_whose_scores_are_made(
    load: Loader, on: str, odd: str, reason: str
) -> None:
    common = {"label": "billing", "actual": 1.0, "votes": "[1, 1, 0]", "resolved_at": INSIDE, "predicted_at": INSIDE}
    rows = [common | {"item": f"t{number}"} for number in range(3)]
    config = source(score={"from": "votes", "method": "vote_share"}, window_on=on)
    for engine in (name for name in ENGINES if name in ("duckdb", "postgresql")):
        written = odd.replace("BC", "(BC)") if engine == "duckdb" else odd
        then = [f"UPDATE resolved_tickets SET resolved_at = '{written}' WHERE item = 't1'"]
        (reading,) = read_all(load(rows, then=then, engines=(engine,)), config).values()
        assert (reading.rows, bad(reading)) == (2, {reason: 1}), engine
        ((item, score),) = [(row["item"], row["score"]) for each in reading.quality for row in each.examples]
        assert (item, score is None) == ("t1", on == "resolved_at"), engine  # outside the window no score is made


def test_rows_without_a_usable_date_are_counted_in_the_warehouse_and_not_fetched(
    load: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = {"label": "billing", "actual": 1.0, "votes": "[1, 1, 0]"}
    dates = [INSIDE, None, INSIDE + timedelta(days=900)]
    rows = [
        common | {"item": f"t{turn}-{n}", "resolved_at": date} for n in range(40) for turn, date in enumerate(dates)
    ]
    fetched = []
    plain = scored._scored

    def noted(rows: Sequence[Sequence[Any]], *of: Any) -> dict[str, list[Any]]:
        fetched.append(len(rows))
        return plain(rows, *of)

    monkeypatch.setattr(scored, "_scored", noted)
    config = source(score={"from": "votes", "method": "vote_share"})
    for engine, warehouse in load(rows).items():
        fetched.clear()
        reading = warehouse.read("tickets", config, WEEK, now=NOW)
        assert (reading.rows, bad(reading)) == (40, {"date_missing": 40, "date_in_future": 40}), engine
        assert [len(each.examples) for each in reading.quality] == [20, 20], engine
        assert fetched == [40], engine


def test_judgments_of_several_annotators_make_the_share_who_said_yes(load: Loader) -> None:
    rng = np.random.default_rng(7)
    rows = []
    expected = []
    for k in range(30):
        score, said = round(float(rng.random()), 2), {}
        for turn in range(int(rng.integers(1, 6))):
            name, truth = f"ann{rng.integers(0, 3)}", [0.0, 1.0, None][int(rng.integers(0, 3))]
            rows.append(
                {"item": f"t{k}", "label": "billing", "score": score, "actual": truth, "annotator": name,
                 "resolved_at": INSIDE + timedelta(minutes=turn)}
            )  # fmt: skip
            said[name] = truth  # the latest of each
        known = [truth for truth in said.values() if truth is not None]
        expected.append((score, sum(known) / len(known) if known else None))
    rows += [{"item": "odd", "label": "billing", "score": 0.5, "actual": 2.0, "annotator": "x", "resolved_at": INSIDE}]
    held = [(score, share) for score, share in expected if share is not None]
    counts = counts_from_rows([score for score, _ in held], [share for _, share in held], automate_at=0.8).by_cell()
    for engine, reading in read_all(load(rows), source(agreement_by=("annotator",))).items():
        found = reading.labels["billing"].by_cell()
        assert (found.rows, found.positives) == pytest.approx((len(held), sum(share for _, share in held))), engine
        assert np.array_equal(found.cell, counts.cell), engine
        assert np.allclose(found.wsy, counts.wsy), engine
        assert bad(reading) == {"outcome_missing": len(expected) - len(held), "outcome_out_of_range": 1}, engine


def test_arrays_of_a_database_are_read_as_they_are(load: Loader) -> None:
    row = {"item": "a", "label": "billing", "token_logprobs": [-0.5, -0.25], "actual": 1.0, "resolved_at": INSIDE}
    config = source(score={"from": "token_logprobs", "method": "sequence_probability"})
    for types, engine in (("DOUBLE[]", "duckdb"), ("DOUBLE PRECISION[]", "postgresql")):
        reading = read_all(load([row], types={"token_logprobs": types}, engines=(engine,)), config)[engine]
        assert reading.labels["billing"].score.tolist() == pytest.approx([math.exp(-0.75)]), engine


# --- rejected rows of each kind


def rejected(reading: Reading) -> dict[tuple[str | None, str], int]:
    found = defaultdict(int)
    for cell in reading.rejected:
        found[cell.label, cell.reason] += cell.rows
    return dict(found)


@pytest.mark.parametrize("kind", ["multiclass", "top_k"])
def test_rows_whose_truth_is_coded_minus_one_are_rejected_with_the_other_rows_of_their_item(
    load: Loader, kind: str
) -> None:
    rows = items(60)
    wrong = [r for number, r in enumerate(rows) if r["actual"] == 1 and number % 2]
    for r in wrong:
        r["actual"] = -1.0
    for engine, reading in read_all(load(rows), source(kind=kind)).items():
        found = rejected(reading)
        assert sum(n for (_, reason), n in found.items() if reason == "outcome_out_of_range") == len(wrong), engine
        others = sum(n for (_, reason), n in found.items() if reason == "no_true_label")
        assert others == (3 * len(wrong) if kind == "multiclass" else 0), engine
        assert {label for label, _ in found} <= set(LABELS)


def test_numbers_that_are_rejected_are_counted_for_the_source(load: Loader) -> None:
    rows = [number(f"t{n}", actual=None if n % 2 else 2.5) for n in range(40)]
    for engine, reading in read_all(load(rows, types=NUMBER_TYPES), source(kind="regression")).items():
        assert rejected(reading) == {(None, "outcome_missing"): 20}, engine
        found = rejections(Read(reading.rejected, {}, reading.rows, labelled=False), {}, 0.02)
        assert found.of(None) is not None
        assert found.labels == ()


def test_rows_whose_score_cannot_be_made_are_rejected(load: Loader) -> None:
    rows = [
        {"item": f"t{n}", "label": "billing", "predicted": 1, "actual": 1,
         "token_logprobs": "[1, 2" if n % 3 == 0 else "[-0.1, -0.2]", "resolved_at": INSIDE}
        for n in range(30)
    ]  # fmt: skip
    config = source(
        score_is="confidence_in_prediction", score={"from": "token_logprobs", "method": "mean_probability"}
    )  # fmt: skip
    for engine, reading in read_all(load(rows), config).items():
        assert rejected(reading) == {("billing", "score_not_a_number"): 10}, engine
