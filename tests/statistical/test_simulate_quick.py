"""The quick simulation: intervals cover, calm weeks are quiet where the textbook's rule is not, a rise is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.coverage import Cell, Kind, cover
from benchmarks.plan import QUICK, Findings, run_here
from benchmarks.populations import POPULATIONS
from benchmarks.simulate import section, tables
from benchmarks.tables import write_between
from benchmarks.weeks import TEXTBOOK, rules_of, shipped

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def findings() -> Findings:
    return run_here(QUICK)


@pytest.mark.parametrize("kind", ["bootstrap", "analytic", "mce"])
def test_no_population_is_covered_surely_less_than_93_times_in_100(findings: Findings, kind: Kind) -> None:
    assert len(findings.coverage) == len(POPULATIONS) * len(QUICK.sizes)
    assert [(part.population, part.n, part.share(kind)) for part in findings.coverage if part.too_low(kind)] == []


@pytest.mark.parametrize("kind", ["bootstrap", "analytic", "mce"])
def test_all_populations_together_are_covered_93_times_in_100(findings: Findings, kind: Kind) -> None:
    held = sum(part.held[kind] for part in findings.coverage)
    assert held / sum(part.repetitions for part in findings.coverage) >= 0.93


def test_the_textbook_interval_never_holds_the_truth_of_a_calibrated_label(findings: Findings) -> None:
    calibrated = [part for part in findings.coverage if part.population == "calibrated"]
    assert [part.held["textbook"] for part in calibrated] == [0, 0]
    assert all(part.too_low("textbook") for part in calibrated)


def test_unchanged_labels_are_quiet_where_the_textbook_rule_rings(findings: Findings) -> None:
    few_rows, more_rows = findings.calm
    rules = [rule.id for rule in rules_of(shipped())]
    assert len(rules) >= 5
    assert sum(part.breaches[rule] for part in findings.calm for rule in rules) <= 1
    assert few_rows.breaches[TEXTBOOK] >= few_rows.label_weeks / 4
    assert few_rows.breaches[TEXTBOOK] > more_rows.breaches[TEXTBOOK]


def test_the_ece_rule_was_awake_while_it_was_quiet(findings: Findings) -> None:
    evaluated = findings.calm[1]
    assert evaluated.not_evaluated["ece-increase"] < evaluated.label_weeks / 10


def test_a_rise_of_five_points_on_three_labels_is_found_and_no_other_label_is_blamed(findings: Findings) -> None:
    assert findings.risen.planted_weeks == 3 * QUICK.risen
    assert findings.risen.found["ece-increase"] >= 0.8 * findings.risen.planted_weeks
    assert findings.risen.breaches["ece-increase"] <= 1


def test_what_is_drawn_depends_neither_on_the_parts_of_the_work_nor_on_the_moment() -> None:
    population = POPULATIONS[2]
    whole, again = (cover(Cell(population, 200, 0, 4, seed=1)) for _ in range(2))
    parts = cover(Cell(population, 200, 0, 1, seed=1)) + cover(Cell(population, 200, 1, 4, seed=1))
    assert whole == again
    assert (parts.held, parts.repetitions) == (whole.held, whole.repetitions)
    assert parts.width == pytest.approx(whole.width)
    assert cover(Cell(population, 200, 0, 4, seed=2)) != whole


def test_the_docs_get_the_tables_between_their_markers_and_nothing_else(findings: Findings, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- simulate:begin -->\nold\n<!-- simulate:end -->\nafter\n", encoding="utf-8")
    write_between(page, "simulate", section(findings, "2026-11-17", "0123abc", "python -m benchmarks.simulate"))
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- simulate:begin -->\nMade by `python -m benchmarks.simulate` on 2026-11-17")
    assert text.endswith("\n<!-- simulate:end -->\nafter\n")
    assert "old" not in text
    assert all(table.markdown() in text for table in tables(findings))
    assert "at commit 0123abc: 40 repetitions" in text


def test_a_page_without_markers_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- simulate:end -->\n<!-- simulate:begin -->\n", encoding="utf-8")
    with pytest.raises(ValueError, match="each once"):
        write_between(page, "simulate", "tables")
    assert page.read_text(encoding="utf-8") == "<!-- simulate:end -->\n<!-- simulate:begin -->\n"
