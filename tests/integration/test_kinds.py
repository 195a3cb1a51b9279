"""Every registered metric, from a source of each kind that can give it: an estimate, and a rule by its name."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn import metrics as sk
from typer.testing import CliRunner

from monitor.cli import app
from monitor.core.counts import ProbabilityRows
from monitor.core.records import WHERES, Estimate, Interval, Verdict
from monitor.core.windows import week
from monitor.metrics.names import ECES, EXPECTED, OF_OTHER_LABELS, can_give
from monitor.metrics.registry import CONTRACT, GIVES, METRICS, WHOLE, range_of
from monitor.report.collect import collect_report
from monitor.report.html import html_report
from monitor.report.words import metric_name
from monitor.run import Run, run_window
from tests.fakes.in_process import in_process
from tests.fakes.world import World, make_world

pytestmark = pytest.mark.slow

WEEK = "2026-W46"
START = datetime(2026, 11, 9, tzinfo=UTC)
NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)
LABELS = ("access", "billing", "other", "phishing")
ITEMS = 500
KINDS = tuple(GIVES)
RELATIONS = {
    "regression": "hours",
    "single_label": (
        "select item, label as predicted_label, score as confidence, resolved_at, "
        "case when actual = 1 then label else 'none' end as true_label from tickets"
    ),
}
# where a metric of every value is worth a rule of its own
# estimates before the truth are of rows that these sources do not have: tests/integration/test_before_truth.py
PAIRS = [(kind, name) for kind in KINDS for name in METRICS if can_give(kind, name) and name not in EXPECTED]


@cache
def scored() -> pd.DataFrame:
    """Items of which one label is true, with probabilities that are a little too sure."""
    rng = np.random.default_rng(11)
    logits = rng.normal(0, 1.5, (ITEMS, len(LABELS)))
    true = np.array([rng.choice(len(LABELS), p=np.exp(row) / np.exp(row).sum()) for row in logits])
    told = np.exp(1.3 * logits)
    probability = np.round(told / told.sum(axis=1, keepdims=True), 4)
    when = [START + timedelta(seconds=float(s)) for s in rng.random(ITEMS) * 600_000]
    return pd.DataFrame(
        {
            "item": np.repeat([f"t{i}" for i in range(ITEMS)], len(LABELS)),
            "label": np.tile(LABELS, ITEMS),
            "score": probability.ravel(),
            "actual": (np.arange(len(LABELS))[None, :] == true[:, None]).astype(int).ravel(),
            "resolved_at": np.repeat(np.array(when, dtype=object), len(LABELS)),
        }
    )


@cache
def hours() -> pd.DataFrame:
    """Predicted hours with their standard deviations, which are a little too small."""
    rng = np.random.default_rng(12)
    predicted, deviation = rng.uniform(2, 30, ITEMS), rng.uniform(1, 4, ITEMS)
    return pd.DataFrame(
        {
            "item": [f"t{i}" for i in range(ITEMS)],
            "predicted": predicted,
            "deviation": deviation,
            "actual": predicted + rng.normal(0, 1.2 * deviation),
            "resolved_at": [START + timedelta(seconds=float(s)) for s in rng.random(ITEMS) * 600_000],
        }
    )


def config() -> str:
    sources = "\n".join(
        f'  {kind}: {{relation: "{RELATIONS.get(kind, "tickets")}", kind: {kind}'
        f"{'' if kind in ('regression', 'single_label') else ', score_is: probability_of_label'}}}"
        for kind in KINDS
    )
    rules = "\n".join(
        f"  - {{id: {kind.replace('_', '')}-{name.replace('_', '-')}, metric: {name}, threshold: {threshold(name)}, "
        f"match: {{source: {kind}}}, min_samples: {125 if name in ECES else 50}}}"
        for kind, name in PAIRS
    )
    return (
        f"version: 1\nsources:\n{sources}\nevaluation: {{resamples: 200}}\nrules:\n{rules}\n"
        "automation: {when_not_evaluated: keep}\n"
    )


def threshold(name: str) -> float:
    low, high = range_of(name)
    return 0.25 if np.isinf(high) or np.isinf(low) else round(low + 0.9 * (high - low), 4)


def write_duckdb(path: Path) -> str:
    with duckdb.connect(str(path)) as connection:
        for name, frame in (("tickets", scored()), ("hours", hours())):
            connection.register("frame", frame)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")
    return f"duckdb:///{path}"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, Run]:
    """A weekly run over a source of each kind, with one rule for every metric that it can give."""
    folder = tmp_path_factory.mktemp("kinds")
    world = make_world(folder, config=config(), warehouse_url=write_duckdb(folder / "warehouse.duckdb"))
    with world.opened(clock=lambda: NOW) as monitor:
        result = run_window(monitor, week(WEEK, monitor.config.zone))
        kept = monitor.store.estimates(schedule="weekly")
        assert len(kept) == sum(len(part.estimates) for part in result.evaluated)
    return world, result


@pytest.fixture(scope="module")
def run(judged: tuple[World, Run]) -> Run:
    return judged[1]


def estimates(run: Run, kind: str, metric: str) -> list[Estimate]:
    return [e for part in run.evaluated if part.source == kind for e in part.estimates if e.metric == metric]


def verdicts(run: Run, kind: str, metric: str) -> list[Verdict]:
    return [v for part in run.evaluated if part.source == kind for v in part.verdicts if v.metric == metric]


@pytest.mark.parametrize("kind", KINDS)
def test_every_metric_has_an_estimate_with_its_interval_and_a_verdict_by_its_name(
    judged: tuple[World, Run], kind: str
) -> None:
    result = judged[1]
    for name in (name for asked, name in PAIRS if asked == kind):
        assert_sound(result, kind, name)


def assert_sound(run: Run, kind: str, name: str) -> None:
    """The metric has an estimate within its range for each label, and a verdict with the value of the estimate."""
    found = [e for e in estimates(run, kind, name) if e.where == "all"]
    whole = METRICS[name].needs in WHOLE
    assert [e.subject.label for e in found] == ([None] if whole else [*LABELS, None]), name
    low, high = range_of(name)
    for e in found:
        assert low - 1e-9 <= e.interval.low <= e.interval.value <= e.interval.high <= high + 1e-9, name
    judged = verdicts(run, kind, name)
    assert [v.subject.label for v in judged] == ([None] if whole else list(LABELS)), name
    for verdict in judged:
        assert verdict.outcome in ("ok", "unconfirmed", "breach") or verdict.reason == "too_few_rows", name
        shown = next(e for e in found if e.subject == verdict.subject)
        assert verdict.value == pytest.approx(shown.interval.value, abs=1e-12), name
        assert verdict.p_value is not None


def test_what_needs_labels_that_were_not_given_is_no_number_of_single_labels(
    judged: tuple[World, Run],
) -> None:
    world, result = judged
    missed = estimates(result, "single_label", "false_negative_rate")
    assert {(e.subject.label, e.where) for e in missed} == {(label, w) for label in [*LABELS, None] for w in WHERES}
    assert {e.interval for e in missed} == {Interval(None, None, None, None)}
    assert not [name for name in OF_OTHER_LABELS - set(CONTRACT) if estimates(result, "single_label", name)]
    with world.opened(clock=lambda: NOW) as monitor:
        data = collect_report(monitor.store, monitor.config, week(WEEK, monitor.config.zone), monitor.clock())
    single = [each for each in data.subjects if each.subject.source == "single_label"]
    assert {each.value("false_negative_rate") for each in single} == {None}


def test_every_metric_is_in_the_report_and_in_the_history_by_its_name(
    judged: tuple[World, Run],
) -> None:
    world, _ = judged
    with world.opened(clock=lambda: NOW) as monitor:
        data = collect_report(monitor.store, monitor.config, week(WEEK, monitor.config.zone), monitor.clock())
        stored = {e.metric for e in monitor.store.estimates(schedule="weekly") if e.where == "all"}
    page = unescape(html_report(data))
    assert METRICS.keys() - EXPECTED <= stored
    assert [name for name in METRICS.keys() - EXPECTED if metric_name(name) not in page] == []
    for name in {METRICS[name].needs: name for name in sorted(METRICS.keys() - EXPECTED)}.values():
        found = CliRunner(env=world.environment).invoke(app, ["history", "--metric", name, "--format", "csv"])
        assert found.exit_code == 0, found.stderr
        assert f",{name},all," in found.stdout, name
    assert_classes_are_shown(world.environment, page)


def test_of_numbers_no_page_says_from_which_score_they_act(
    judged: tuple[World, Run],
) -> None:
    world, _ = judged
    with in_process(world.settings(), clock=lambda: NOW) as asked:
        for kind, acts in (("regression", False), ("multiclass", True)):
            page = asked.get(f"/label/{kind}/?week={WEEK}").text
            assert ("acts from " in page) == acts, kind


def test_the_page_and_the_report_of_numbers_show_what_they_have(
    judged: tuple[World, Run],
) -> None:
    world, _ = judged
    with in_process(world.settings(), clock=lambda: NOW) as asked:
        page = asked.get(f"/label/regression/?week={WEEK}").text
        trend = asked.get(f"/label/regression/?week={WEEK}&csv=trend").text
    assert "has a number of this label" not in page
    drawn = list(dict.fromkeys(line.split(",")[2] for line in trend.splitlines()[1:]))
    assert drawn[:3] == ["rmse", "r_squared", "interval_coverage"]
    told = CliRunner(env={**world.environment, "COLUMNS": "160"}).invoke(app, ["report", "--week", WEEK]).stdout
    (table,) = re.findall(r"\nEstimates +\n(.+?)\n *\nDebiased", told, re.DOTALL)
    assert "RMSE" in table
    assert re.search(r"regression .+? +[\d,]+ +", table)


def assert_classes_are_shown(environment: dict[str, str], page: str) -> None:
    """The K x K tables of the multiclass source are in the page, in the terminal and in the JSON document."""
    asked = ["report", "--week", WEEK, "--source", "multiclass", "--label", "*"]
    told = CliRunner(env={**environment, "COLUMNS": "160"}).invoke(app, asked).stdout
    titles = ("Classes", "Confusion matrix", "Confusion matrix of the scores (CM*)", "Its certain part (V)")
    for title in (*titles, "Its uncertain part (U)", "Certainty by measure"):
        assert title in told, title
        assert title in page, title
    (source,) = json.loads(CliRunner(env=environment).invoke(app, [*asked, "--json"]).stdout)["labels"]
    frame = scored()
    probability = frame["score"].to_numpy().reshape(ITEMS, len(LABELS))
    true = frame["actual"].to_numpy().reshape(ITEMS, len(LABELS)).argmax(axis=1)
    found = source["classes"]
    assert found["labels"] == list(LABELS)
    assert np.allclose(found["confusion"], sk.confusion_matrix(true, probability.argmax(axis=1)))
    assert np.allclose(found["probabilistic"], np.eye(len(LABELS))[true].T @ probability)
    assert np.allclose(np.add(found["certain"], found["uncertain"]), found["probabilistic"])
    assert [one["support"] for one in found["classes"]] == np.bincount(true).tolist()
    assert len(found["certainty"]) == 10


def test_both_kinds_of_rows_give_what_scikit_learn_gives(run: Run) -> None:
    frame = scored()
    probability = frame["score"].to_numpy().reshape(ITEMS, len(LABELS))
    true = frame["actual"].to_numpy().reshape(ITEMS, len(LABELS)).argmax(axis=1)
    numbers = hours()
    expected = {
        ("multiclass", "top1_accuracy"): sk.accuracy_score(true, probability.argmax(axis=1)),
        ("multiclass", "macro_f1"): sk.f1_score(true, probability.argmax(axis=1), average="macro"),
        ("multiclass", "precision_at_1"): sk.accuracy_score(true, probability.argmax(axis=1)),
        ("top_k", "precision_at_3"): sk.top_k_accuracy_score(true, probability, k=3) / 3,
        ("regression", "mse"): sk.mean_squared_error(numbers["actual"], numbers["predicted"]),
        ("regression", "r_squared"): sk.r2_score(numbers["actual"], numbers["predicted"]),
    }
    found = {key: estimates(run, *key)[0].interval.value for key in expected}
    assert found == pytest.approx(expected)


def test_beside_a_debiased_value_of_whole_rows_is_the_textbook_one(run: Run) -> None:
    counts = scored()["label"][scored()["actual"] == 1].value_counts()
    (found,) = estimates(run, "multiclass", "class_entropy")
    assert found.interval.plug_in == pytest.approx(stats.entropy(counts), abs=1e-12)
    assert found.interval.value != found.interval.plug_in
    (verdict,) = verdicts(run, "multiclass", "class_entropy")
    assert (verdict.value, verdict.plug_in) == (found.interval.value, found.interval.plug_in)


def test_the_document_holds_the_metrics_of_the_contract_and_of_rules_only(tmp_path: Path) -> None:
    text = (
        "version: 1\nsources:\n  tickets: {relation: tickets, kind: multiclass, score_is: probability_of_label}\n"
        "  hours: {relation: hours, kind: regression}\nrules:\n  - {id: a, metric: ece, threshold: 0.2}\n"
        "  - {id: b, metric: kappa, condition: below, threshold: 0.1}\n  - {id: c, metric: rmse, threshold: 10}\n"
        "automation: {when_not_evaluated: keep}\n"
    )
    world = make_world(tmp_path, config=text, warehouse_url=write_duckdb(tmp_path / "warehouse.duckdb"))
    with world.opened(clock=lambda: NOW) as monitor:
        result = run_window(monitor, week(WEEK, monitor.config.zone))
        kept = {e.metric for e in monitor.store.estimates(schedule="weekly")}
        again = run_window(monitor, week(WEEK, monitor.config.zone))
    assert {e["metric"] for e in result.document["estimates"]} == {*CONTRACT, "kappa", "rmse"}
    assert kept == {name for name, metric in METRICS.items() if metric.needs in GIVES["multiclass"] | {"regression"}}
    assert {v.rule: {x.subject.source for x in all_of(result) if x.rule == v.rule} for v in all_of(result)} == {
        "a": {"tickets"}, "b": {"tickets"}, "c": {"hours"}
    }  # fmt: skip
    assert without_run(result) == without_run(again)


def all_of(result: Run) -> list[Verdict]:
    return [v for part in result.evaluated for v in part.verdicts]


def without_run(result: Run) -> dict[str, Any]:
    return {name: value for name, value in result.document.items() if name not in ("run", "actions")}


def test_a_wrong_decision_costs_what_the_source_and_the_label_say(tmp_path: Path) -> None:
    text = (
        "version: 1\nsources:\n  tickets:\n    relation: tickets\n    score_is: probability_of_label\n"
        "    costs: {false_negative: 2, false_positive: 1}\n"
        "    labels: {phishing: {costs: {false_negative: 30, false_positive: 1}}}\n"
        "rules:\n  - {id: dear, metric: misclassification_cost, threshold: 1, min_samples: 50}\n"
        "automation: {when_not_evaluated: keep}\n"
    )
    world = make_world(tmp_path, config=text, warehouse_url=write_duckdb(tmp_path / "warehouse.duckdb"))
    with world.opened(clock=lambda: NOW) as monitor:
        result = run_window(monitor, week(WEEK, monitor.config.zone))
    frame = scored()
    found = {v.subject.label: v for v in all_of(result)}
    shown = {e.subject.label: e.interval for e in estimates(result, "tickets", "misclassification_cost")}
    for label in LABELS:
        mine = frame[frame["label"] == label]
        told = mine["score"] >= 0.5
        missed, alarmed = ((mine["actual"] == 1) & ~told).mean(), ((mine["actual"] == 0) & told).mean()
        expected = (30 if label == "phishing" else 2) * missed + alarmed
        assert found[label].value == pytest.approx(expected)
        assert (shown[label].value, shown[label].low) == pytest.approx((expected, found[label].low))
    assert {label for label, verdict in found.items() if verdict.outcome == "breach"} == {"phishing"}


def test_too_many_items_do_not_change_what_counts_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.warehouse.reading.ITEMS_AT_MOST", 120)
    text = (
        "version: 1\nsources: {tickets: {relation: tickets, kind: multiclass, score_is: probability_of_label}}\n"
        "rules: [{id: a, metric: top1_accuracy, condition: below, threshold: 0.2, min_samples: 200}]\n"
        "automation: {when_not_evaluated: keep}\n"
    )
    world = make_world(tmp_path, config=text, warehouse_url=write_duckdb(tmp_path / "warehouse.duckdb"))
    with world.opened(clock=lambda: NOW) as monitor:
        reading = monitor.warehouse.read(
            "tickets", monitor.config.sources["tickets"], week(WEEK, monitor.config.zone), now=NOW
        )
        (verdict,) = all_of(run_window(monitor, week(WEEK, monitor.config.zone)))
    assert isinstance(reading.whole, ProbabilityRows)
    assert len(reading.whole.weight) <= 120
    assert reading.rows == ITEMS * len(LABELS)
    assert (verdict.outcome, verdict.n) == ("ok", ITEMS)


def test_late_truths_change_the_week_before_in_metrics_of_whole_rows_too(tmp_path: Path) -> None:
    text = (
        "version: 1\nsources:\n  tickets: {relation: tickets, kind: multiclass, score_is: probability_of_label}\n"
        "  hours: {relation: hours, kind: regression}\nrules: [{id: a, metric: rmse, threshold: 10}]\n"
        "automation: {when_not_evaluated: keep}\n"
    )
    url = write_duckdb(tmp_path / "warehouse.duckdb")
    world = make_world(tmp_path, config=text, warehouse_url=url)
    seen = []
    with duckdb.connect(str(tmp_path / "warehouse.duckdb")) as connection:
        connection.execute("CREATE TABLE late AS SELECT * FROM tickets WHERE item < 't2'")
        connection.execute("DELETE FROM tickets WHERE item < 't2'")
    for late in (None, "INSERT INTO tickets SELECT * FROM late", "UPDATE hours SET actual = actual + 5"):
        with world.opened(clock=lambda: NOW) as monitor:
            if late is None:
                run_window(monitor, week(WEEK, monitor.config.zone))
        if late is not None:
            with duckdb.connect(str(tmp_path / "warehouse.duckdb")) as connection:
                connection.execute(late)
            with world.opened(clock=lambda: NOW + timedelta(days=7)) as monitor:
                run_window(monitor, week("2026-W47", monitor.config.zone))
        with world.opened(clock=lambda: NOW) as monitor:
            kept = monitor.store.estimates(schedule="weekly", window_start=week(WEEK, monitor.config.zone).start)
            seen.append({e.metric: (e.interval.value, e.n) for e in kept if e.subject.label is None})
    first, more, later = seen
    assert set(first) == set(more) == set(later)
    assert first["kappa"][1] < more["kappa"][1] == later["kappa"][1] == ITEMS
    assert first["rmse"] == more["rmse"]
    assert later["rmse"][0] > more["rmse"][0] + 1
