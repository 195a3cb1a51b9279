"""Drift of feature samples: Evidently's distances, missing values, and what is left out."""

import re
import warnings
from pathlib import Path
from typing import cast
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
from scipy import stats

from monitor.core import windows
from monitor.core.records import ShiftResult, Subject
from monitor.evaluation.shift.drift_report import feature_drift
from monitor.history.tables import shifts

WINDOW = windows.week("2026-W46", ZoneInfo("UTC"))


def sample(seed: int, n: int, spanish: float = 0.1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "language": rng.choice(["en", "es"], n, p=[1 - spanish, spanish]),
            "body_length": rng.lognormal(5, 1, n),
        }
    )


def found(current: pd.DataFrame, reference: pd.DataFrame, html: Path | None = None) -> dict[str, ShiftResult]:
    results = feature_drift("mail", WINDOW, current, reference, html=html)
    assert {r.subject for r in results} == {Subject("mail", None)}
    return {f"{r.test} {r.column}": r for r in results}


def test_missing_values_that_appear_are_found_though_the_rest_has_not_moved():
    current, reference = sample(1, 2_000), sample(2, 2_000)
    current.loc[current.index[:600], "body_length"] = np.nan
    results = found(current, reference)
    missing = results["missing body_length"]
    assert missing.statistic == pytest.approx(0.3)
    table = [[600, 1_400], [0, 2_000]]
    assert missing.p_value == pytest.approx(stats.chi2_contingency(table, correction=False).pvalue, rel=1e-9)
    assert results["evidently:wasserstein body_length"].detail["drifted"] is False
    assert results["evidently:wasserstein body_length"].n == 1_400
    assert (results["missing language"].statistic, results["missing language"].p_value) == (0.0, 1.0)


def test_a_column_that_cannot_be_compared_is_named_and_the_others_go_on():
    current, reference = sample(1, 500), sample(2, 500)
    current["empty"], reference["empty"] = None, None
    current["vanished"], reference["vanished"] = np.nan, 1.0
    current["few"], reference["few"] = [1.0] * 20 + [np.nan] * 480, 1.0
    current["subject"], reference["subject"] = [f"a{k}" for k in range(500)], [f"b{k}" for k in range(500)]
    results = found(current, reference)
    reasons = {name: r.detail["reason"] for name, r in results.items() if r.statistic is None}
    assert reasons == {
        "evidently:jensenshannon empty": "no value at all",
        "evidently:wasserstein vanished": "no value at all",
        "evidently:wasserstein few": "fewer than 100 values",
        "evidently:jensenshannon subject": "more than 200 distinct values",
    }
    assert results["missing vanished"].statistic == pytest.approx(1.0)
    assert (results["empty vanished"].statistic, results["empty vanished"].p_value) == (1.0, 0.0)
    assert {results[f"empty {name}"].statistic for name in ("empty", "few", "subject", "language")} == {0.0}
    assert results["evidently:jensenshannon language"].statistic is not None


def test_small_samples_are_not_tested():
    results = found(sample(1, 1), sample(2, 2_000))
    assert {name: (r.statistic, r.p_value) for name, r in results.items()} == dict.fromkeys(results, (None, None))
    assert results["missing language"].detail["reason"] == "fewer than 100 rows"


def test_samples_without_rows_or_without_columns_give_no_number(tmp_path: Path):
    page = tmp_path / "drift.html"
    assert all(r.statistic is None for r in found(sample(1, 500).head(0), sample(2, 500), page).values())
    assert feature_drift("mail", WINDOW, pd.DataFrame(), pd.DataFrame(), html=page) == []
    assert not page.exists()


@pytest.mark.parametrize(
    ("now", "then"),
    [
        (np.full(500, 1234567890123456789), np.full(500, 1234567890123456789)),
        (np.full(500, 1234567890123456789), np.arange(500) * 10**15),
        (1_762_732_800_000_000_000 + np.arange(500), 1_762_732_800_000_000_000 + np.arange(500)),
    ],
    ids=["a constant id", "an id that became constant", "nanoseconds of one moment"],
)
def test_numbers_that_evidently_cannot_draw_are_compared_and_the_page_has_the_others(
    tmp_path: Path, now: np.ndarray, then: np.ndarray
):
    current, reference = sample(1, 500).assign(tenant=now), sample(2, 500).assign(tenant=then)
    page = tmp_path / "drift.html"
    results = found(current, reference, page)
    spread = max(np.std(then.astype(float)), 0.001)
    moved = stats.wasserstein_distance(now.astype(float), then.astype(float)) / spread
    assert results["evidently:wasserstein tenant"].statistic == pytest.approx(moved)
    assert results["constant tenant"].statistic == float((then != now[0]).all())
    text = page.read_text(encoding="utf-8")
    assert "body_length" in text
    assert "tenant" not in text
    only = tmp_path / "only.html"
    feature_drift("mail", WINDOW, current[["tenant"]], reference[["tenant"]], html=only)
    assert not only.exists()


def test_numbers_whose_squares_are_infinite_count_as_missing(tmp_path: Path):
    reference = sample(2, 500)
    current = sample(1, 500)
    current.loc[current.index[:200], "body_length"] = [1.7e308, -1e200] * 100
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        results = found(current, reference, tmp_path / "drift.html")
    assert results["missing body_length"].statistic == pytest.approx(0.4)
    theirs = stats.wasserstein_distance(current["body_length"][200:], reference["body_length"])
    expected = theirs / np.std(reference["body_length"])
    assert results["evidently:wasserstein body_length"].statistic == pytest.approx(expected, rel=1e-9)


def test_the_page_is_whole_replaces_the_one_before_and_asks_no_other_host_for_anything(tmp_path: Path):
    page = tmp_path / "weekly" / "drift-mail.html"
    page.parent.mkdir()
    page.write_text("the old one")
    found(sample(1, 500), sample(2, 500), page)
    text = page.read_text(encoding="utf-8")
    assert "body_length" in text
    assert [p.name for p in page.parent.iterdir()] == ["drift-mail.html"]
    assert re.findall(r"<(?:script|img|iframe)[^>]*\bsrc\s*=\s*[\"']?(?:https?:)?//", text) == []
    assert re.findall(r"<link[^>]*\bhref\s*=\s*[\"']?(?:https?:)?//", text) == []


@pytest.mark.parametrize("seed", range(3))
def test_the_distances_are_those_of_evidently(seed: int):
    rng = np.random.default_rng(seed)
    current, reference = (
        pd.DataFrame({
            "language": rng.choice(["en", "es", "fr", "it"][: 2 + seed], rows),
            "body_length": np.where(rng.random(rows) < 0.1, np.nan, rng.lognormal(5 + moved, 1, rows)),
            "attachments": rng.poisson(1 + moved, rows), "always": 1.0,
            "urgent": np.where(rng.random(rows) < 0.2, None, rng.random(rows) < 0.3 + moved),
        })
        for rows, moved in ((700, 0.1 * seed), (1_300, 0.0))
    )  # fmt: skip
    results = found(current, reference)
    ours = {r.column: r.statistic for name, r in results.items() if name.startswith("evidently:")}
    numbers, texts = ["body_length", "attachments", "always"], ["language", "urgent"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own deprecations
        from evidently import DataDefinition, Dataset, Report
        from evidently.presets import DataDriftPreset

        definition = DataDefinition(numerical_columns=numbers, categorical_columns=texts)
        now, then = (
            Dataset.from_pandas(frame.assign(urgent=frame["urgent"].map(str, na_action="ignore")), definition)
            for frame in (current, reference)
        )
        report = Report([DataDriftPreset(num_method="wasserstein", cat_method="jensenshannon")]).run(now, then)
    theirs = {m["config"]["column"]: m["value"] for m in report.dict()["metrics"] if "column" in m["config"]}
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_names_fit_the_history():
    width = cast("sa.String", shifts.c.test.type).length
    assert all(len(r.test) <= width for r in feature_drift("mail", WINDOW, sample(1, 200), sample(2, 200)))


def test_categories_that_the_reference_does_not_have_are_found_and_named():
    current, reference = sample(1, 2_000), sample(2, 2_000)
    assert (found(current, reference)["new_categories language"].statistic) == 0.0
    assert found(current, reference)["new_categories language"].p_value == 1.0
    current.loc[current.index[:40], "language"] = "fr"
    result = found(current, reference)["new_categories language"]
    assert result.statistic == pytest.approx(0.02)
    assert result.p_value < 1e-30
    assert result.detail == {"new": ["fr"]}
    assert "new_categories body_length" not in found(current, reference)


@pytest.mark.parametrize(("column", "value", "gone"), [("language", "en", 0.1), ("body_length", 0.0, 1.0)])
def test_a_column_in_which_only_one_value_is_left_is_found(column: str, value: object, gone: float):
    current, reference = sample(1, 500), sample(2, 2_000)
    assert found(current, reference)[f"constant {column}"].statistic == 0.0
    current[column] = value
    result = found(current, reference)[f"constant {column}"]
    assert result.statistic == pytest.approx(gone, abs=0.02)
    assert (result.p_value if result.p_value is not None else 1.0) < 1e-15
    assert result.detail == {"value": str(value)}


def test_a_column_without_any_value_is_missing_as_a_whole():
    current, reference = sample(1, 500), sample(2, 500)
    current["language"] = None
    results = found(current, reference)
    assert results["missing language"].statistic == 1.0
    assert results["evidently:jensenshannon language"].detail == {"reason": "no value at all"}
    assert "constant language" not in results
