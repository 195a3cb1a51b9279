"""What a report carries: the same numbers as tables in the terminal, as Markdown and as JSON."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console, RenderableType
from sklearn.metrics import brier_score_loss, roc_auc_score

from monitor.automation.harm import TimeOn
from monitor.config.model import EvaluationConfig
from monitor.core.counts import Counts, bin_counts, counts_from_rows, equal_width_edges
from monitor.core.records import Estimate, Interval, Reason, Subject, Verdict
from monitor.inference.selective import excess_errors, threshold_for
from monitor.metrics.calibration import gap_matrix
from monitor.metrics.registry import METRICS
from monitor.metrics.selective import risk_coverage
from monitor.recalibration.gain import Gain, ScoreQuality, gains
from monitor.report import elements, words
from monitor.report.conclusions import level_after
from monitor.report.data import ReportData, ReportNote, SubjectReport, only
from monitor.report.detail import Detail, LabelContext, detail_of
from monitor.report.document import report_document
from monitor.report.terminal import element_view, report_view
from tests.fakes.report_data import HOSTILE, report_data, windows

WEEK = windows(1)[0]
BILLING = Subject("tickets", "billing")
KNOWN = LabelContext(0.8, evaluated=True)


def drawn(*shown: RenderableType, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(*shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def estimate(metric: str, value: float, *, n: int = 20_000) -> Estimate:
    return Estimate(BILLING, WEEK, metric, "all", Interval(value, value - 0.01, value + 0.01, value), n, n / 2)


def sample(rows: int = 20_000, *, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    score = np.round(rng.beta(4, 1.2, rows), 4)
    return score, (rng.random(rows) < np.clip(score + 0.04, 0, 1)).astype(int)


def verdict(outcome: str) -> Verdict:
    return Verdict(
        "v", "ece-increase", BILLING, WEEK, "ece", "all", outcome, Reason.WITHIN_THRESHOLD, "warning", 0.02  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data()


def detail(
    counts: Counts | None = None, *estimates: Estimate, known: LabelContext = KNOWN, target: float = 0.95
) -> Detail:
    return detail_of(counts, estimates, known, target)


def test_the_parts_of_a_label_are_those_of_the_functions_on_its_rows() -> None:
    counts = counts_from_rows(*sample(), automate_at=0.8)
    found = detail(counts, estimate("ece", 0.04), estimate("roc_auc", 0.9), estimate("mce", 0.1))
    point = threshold_for(counts, 0.95)
    assert point.threshold is not None
    assert found.operating == point
    assert found.excess == excess_errors(counts)
    assert found.risk_coverage is not None
    assert found.risk_coverage.chosen is not None
    assert found.risk_coverage.chosen.threshold == point.threshold
    curve = risk_coverage(counts)
    assert curve is not None
    place = curve.threshold.tolist().index(point.threshold)
    assert (found.risk_coverage.chosen.x, found.risk_coverage.chosen.y) == (curve.coverage[place], curve.risk[place])
    assert found.roc is not None
    assert found.roc.area == pytest.approx(roc_auc_score(sample()[1], sample()[0]), abs=1e-4)


def test_a_threshold_that_was_found_is_named_and_shown_with_what_it_leaves_to_people() -> None:
    counts = counts_from_rows(*sample(), automate_at=0.8)
    found = detail(counts, estimate("ece", 0.04), estimate("roc_auc", 0.9), estimate("mce", 0.1))
    assert [one.reason for one in found.conclusion.bands] == ["well_calibrated", "threshold_known"]
    assert found.operating is not None
    assert found.operating.threshold is not None
    (row,) = elements.thresholds([(SubjectReport(BILLING, ()), found)], 0.95).rows
    assert row[1] == f"{found.operating.threshold:.4f}"
    assert row[3] == words.share(1 - (found.operating.coverage or 0))
    assert elements.threshold_text(found, 0.95).startswith(f"95% accuracy from {found.operating.threshold:.4f}, ")


def test_a_target_that_cannot_be_shown_is_said_by_its_reason_and_not_advised() -> None:
    counts = counts_from_rows([0.9] * 2_000, [1, 0] * 1_000)
    found = detail(counts, estimate("ece", 0.04), estimate("roc_auc", 0.9), estimate("mce", 0.1), target=0.9)
    (row,) = elements.thresholds([(SubjectReport(BILLING, ()), found)], 0.9).rows
    assert row[1:5] == ("not shown", "–", "–", "–")
    assert elements.threshold_text(found, 0.9) == "90% accuracy: not shown"
    assert "threshold_known" not in [one.reason for one in found.conclusion.bands]


def test_errors_beyond_the_promised_are_reported_in_a_sentence() -> None:
    counts = counts_from_rows([0.95] * 400, [0] * 58 + [1] * 342, automate_at=0.8)
    found = detail(counts, estimate("share_to_people", 0.25))
    assert elements.detail_text(found).startswith(
        "About 38 more wrong than scores claimed (25 to 53): 58 of 400 automated were wrong"
    )
    assert elements.detail_text(found).endswith("25% of the rows lie below 0.80.")
    none = detail(counts_from_rows([0.6] * 50, [1] * 50, automate_at=0.8), estimate("share_to_people", 1.0))
    assert elements.detail_text(none) == ""


def test_harm_is_what_automation_did_and_would_have_been_where_it_was_off() -> None:
    counts = counts_from_rows([0.95] * 400, [0] * 58 + [1] * 342, automate_at=0.8)
    off = detail(counts, estimate("share_to_people", 0.25), known=replace(KNOWN, on=TimeOn(0.0)))
    assert elements.detail_text(off).startswith(
        "Automation was off the whole week: about 38 more would have been wrong than scores claimed (25 to 53); 58"
    )
    half = detail(counts, estimate("share_to_people", 0.25), known=replace(KNOWN, on=TimeOn(0.5)))
    assert "an estimated 19 of them while automation was on (50% of the week)" in elements.detail_text(half)


def test_two_high_days_are_a_band_and_never_advice_beside_a_verdict_that_is_ok() -> None:
    counts = counts_from_rows(*sample(), automate_at=0.8)
    known = replace(KNOWN, days=(0.09, 0.1), mce_rise=0.06, verdicts=(verdict("ok"),))
    found = detail(counts, estimate("ece", 0.04), known=known).conclusion
    assert {"ece_high_two_days", "mce_rose"} <= {one.reason for one in found.bands}
    assert [(one.reason, one.basis) for one in found.advice] == [("all_ok", ("ok: its rule was evaluated",))]


def test_a_label_without_a_rule_has_a_level_and_no_advice() -> None:
    found = detail(None, estimate("ece", 0.3), known=KNOWN)
    (row,) = elements.advice([(SubjectReport(BILLING, ()), found)]).rows
    assert row[1:] == ("no_rule", "no rule: nothing is advised", "–")
    (row,) = elements.levels([(SubjectReport(BILLING, ()), found)]).rows
    assert row[1] == "red: red_ece"


def test_what_recalibration_is_worth_is_reported_before_and_after_with_the_choice() -> None:
    rng = np.random.default_rng(5)
    score = np.round(rng.beta(2, 2, 20_000), 4)
    counts = counts_from_rows(score, rng.random(20_000) < score**2)
    stored = gains([(BILLING, counts)], WEEK, EvaluationConfig(), [np.random.default_rng(1)])
    found = detail(counts, estimate("ece", 0.16), estimate("roc_auc", 0.85), *stored)
    assert [e.metric for e in found.estimates] == ["ece", "roc_auc"]
    (row,) = elements.recalibration([(SubjectReport(BILLING, ()), found)]).rows
    before, after = row[1], [cell for cell in row[2:] if isinstance(cell, tuple)]
    assert isinstance(before, Interval)
    assert before.value == pytest.approx(0.2, abs=0.02)  # E[s] - E[s^2] of Beta(2, 2) = 1/2 - 3/10
    ((chosen, mark),) = after
    assert mark == "chosen"
    assert (chosen.value or 0) < 0.02
    assert found.conclusion.recalibration is not None
    assert found.conclusion.recalibration.method is not None


def test_every_metric_of_a_label_is_in_its_table_in_the_order_of_the_registry() -> None:
    names = [name for name, metric in METRICS.items() if metric.needs == "counts"]
    shuffled = [estimate(name, 0.5) for name in reversed(names)]
    found = detail(None, *shuffled)
    told = [row[0] for row in elements.metrics(found.estimates).rows]
    assert told == [words.metric_name(name) for name in names]
    assert len(set(told)) == len(told)


def test_every_metric_has_a_name_of_its_own() -> None:
    names = [words.metric_name(name) for name in METRICS]
    assert len(set(names)) == len(names)
    assert not [name for name in names if "_" in name]


def test_the_bins_are_listed_with_their_rows_and_the_sign_of_the_gap(data: ReportData) -> None:
    report = next(r for r in data.subjects if r.subject.label == "billing")
    assert report.reliability is not None
    rows = elements.bins(report.reliability.points).rows
    assert [row[1] for row in rows] == [f"{p.n:,}" for p in report.reliability.points]
    signs = ["−" if p.rate < p.score else "+" for p in report.reliability.points]
    assert [str(row[-1])[0] for row in rows] == signs


def test_the_matrix_of_gaps_has_a_line_of_points_and_a_line_of_rows_a_label() -> None:
    counts = counts_from_rows([0.2] * 1_000 + [0.9] * 400, [0] * 800 + [1] * 200 + [1] * 300 + [0] * 100)
    matrix = gap_matrix({BILLING.name: bin_counts(counts, (5_000, 9_500, 10_000))})
    (row,) = elements.gaps([(SubjectReport(BILLING, ()), detail(counts))], matrix).rows
    assert row == (BILLING, "  0 −15\n 1k 400")


def test_risk_is_reported_by_tenths_of_coverage_with_the_chosen_threshold_among_them() -> None:
    counts = counts_from_rows(*sample(), automate_at=0.8)
    found = detail(counts)
    rows = elements.risk_coverage(found).rows
    chosen = [row for row in rows if row[3] == "chosen"]
    assert found.operating is not None
    assert [row[0] for row in chosen] == [f"{found.operating.threshold:.4f}"]
    assert len(rows) in (10, 11)
    assert rows[-1][1] == "100%"


def test_nothing_is_torn_or_cut_at_80_columns(data: ReportData) -> None:
    calm = replace(data, subjects=tuple(r for r in data.subjects if r.subject.label != HOSTILE))
    for element in (*elements.of_all(calm), *(e for r in calm.subjects for e in elements.of_one(r))):
        text = drawn(*element_view(element))
        assert max(map(len, text.splitlines())) <= 80, element.title
        shown = set(text.split()) | set(text.replace("/", " ").split())
        for row in element.rows:
            for cell in row:
                if isinstance(cell, Interval):
                    wanted = words.measured(cell).replace("(", "").replace(")", "").split()
                else:
                    wanted = (cell.label or "" if isinstance(cell, Subject) else cell).split()
                assert set(wanted) <= shown, (element.title, cell)


def test_the_terminal_shows_every_element_and_for_one_label_its_own_too(data: ReportData) -> None:
    text = drawn(report_view(data), width=140)
    for element in elements.of_all(data):
        assert element.title in text
    assert "All metrics" not in text
    alone = drawn(report_view(only(data, label="billing"), full=True), width=140)
    for element in elements.of_one(only(data, label="billing").subjects[0]):
        assert element.title in alone
    assert "tickets/account" not in alone


def test_the_json_document_has_the_numbers_in_full_and_none_that_is_not_finite(data: ReportData) -> None:
    document = report_document(data, [estimate("ece", float("nan"))])
    text = json.dumps(document, allow_nan=False)
    assert json.loads(text) == document
    assert document["estimates"][0]["value"] is None
    by_label = {one["label"]: one for one in document["labels"]}
    report = next(r for r in data.subjects if r.subject.label == "billing")
    assert report.detail is not None
    assert report.detail.excess is not None
    assert by_label["billing"]["excess_errors"]["excess"] == report.detail.excess.excess
    assert by_label["billing"]["because"] == list(report.detail.conclusion.reasons)
    assert by_label["billing"]["threshold"]["reason"] == "not_shown"
    assert [one["docs"].startswith("docs/conclusions.md#") for one in by_label["billing"]["advice"]]


def test_only_one_label_or_source_can_be_asked_for(data: ReportData) -> None:
    matrix = gap_matrix(
        {r.subject.name: bin_counts(counts_from_rows([0.5], [1]), (10_000,)) for r in data.subjects}
    )  # fmt: skip
    found = only(replace(data, gaps=matrix), label="billing")
    assert [r.subject.label for r in found.subjects] == ["billing"]
    assert {v.subject.label for v in found.verdicts} == {"billing"}
    assert [line.label for line in found.automation] == ["billing"]
    assert found.gaps is not None
    assert found.gaps.labels == ("tickets/billing",)
    assert found.quality == data.quality
    assert only(data, source="post").subjects == ()
    assert only(data, source="tickets").subjects == data.subjects


def test_the_report_of_one_source_has_its_notes_and_those_of_no_other(data: ReportData) -> None:
    noted = (ReportNote("of the report"), ReportNote("of tickets", "tickets"), ReportNote("of mail", "mail"))
    found = only(replace(data, noted=noted), source="tickets")
    assert found.notes == ("of the report", "of tickets")
    assert only(replace(data, noted=noted), label="billing").notes == ("of the report", "of tickets", "of mail")


def test_a_report_without_counts_still_says_its_numbers() -> None:
    found = detail(None, estimate("brier", brier_score_loss([0, 1], [0.2, 0.9])))
    assert found.interval("brier") is not None
    assert (found.operating, found.excess, found.risk_coverage, found.roc, found.boxes.named) == (None,) * 4 + ((),)
    report = SubjectReport(BILLING, (), detail=found)
    assert [e.title for e in elements.of_one(report)] == ["All metrics"]


def test_score_ranges_are_the_same_tenths_for_every_label() -> None:
    rng = np.random.default_rng(3)
    score = rng.random(500)
    hit = rng.random(500) < score * 0.8
    matrix = gap_matrix({"tickets/billing": bin_counts(counts_from_rows(score, hit), equal_width_edges(10))})
    element = elements.ranges([(SubjectReport(BILLING, ()), detail(counts_from_rows(score, hit)))], matrix)
    assert element.head == ("label", *(f"to {k / 10:.1f}" for k in range(1, 11)))
    (row,) = element.rows
    cell = np.floor(score * 10_000 + 0.5)
    inside = (cell > 2_000) & (cell <= 3_000)
    assert row[3] == f"{words.points(float(hit[inside].mean() - score[inside].mean()))} ({inside.sum()})"
    nothing = gap_matrix({"tickets/billing": bin_counts(counts_from_rows([0.95], [1]), equal_width_edges(10))})
    alone = [(SubjectReport(BILLING, ()), detail(counts_from_rows([0.95], [1])))]
    assert elements.ranges(alone, nothing).rows[0][1] == "–"
    lines = str(elements.ranges_in_lines(alone, nothing).rows[0][1]).split("\n")
    assert [line.split()[-1] for line in lines] == [words.points(0.05), "1"]


def test_the_level_after_recalibration_has_the_ece_and_mce_of_rows_not_seen() -> None:
    def quality(ece: float, mce: float | None) -> ScoreQuality:
        return ScoreQuality(Interval(ece, 0.0, 1.0, ece), 0.1, 0.3, mce)

    gain = Gain("platt", quality(0.2, 0.3), quality(0.02, 0.1), 5_000)
    assert level_after(gain, 0.9) == "green"
    assert level_after(gain, 0.7) == "red", "no map changes the order"
    assert level_after(replace(gain, after=quality(0.02, 0.25)), 0.9) == "red"
    assert level_after(replace(gain, after=quality(0.02, None)), 0.9) == "grey"
    assert level_after(replace(gain, after=None), 0.9) == "grey"
