"""The study of ``make simulate`` at a small scale: every part of it runs, and every part of it can fail."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.coverage import Cell, in_parts
from benchmarks.findings import tables
from benchmarks.plan import FULL, QUICK, Notebook, done, gathered, key_of, run
from benchmarks.populations import LABELS, POPULATIONS, Population
from benchmarks.power import (
    CHANGES,
    LASTING,
    STEP,
    _cusum,
    auc_of,
    charts_by,
    found_by,
    limits_of,
)
from benchmarks.quiet import WORLDS, keeping, kinds_of
from benchmarks.simulate import main
from benchmarks.tables import publish, write_between
from benchmarks.tally import Tally, together
from benchmarks.targets import Findings, held
from monitor.core.counts import CELLS

KINDS = ("bootstrap", "analytic", "mce")


@pytest.fixture(scope="module")
def findings() -> Findings:
    tasks = QUICK.tasks()
    return gathered(tasks, {key_of(task): result for task, result in run(tasks, {}, workers=1)})


def covered(cells: list[Tally], kind: str) -> float:
    return sum(cell.of(f"{kind} held") for cell in cells) / sum(cell.count for cell in cells)


# --- what is found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_cover_the_truth_over_all_populations_and_hardly_any_of_them_misses(
    findings: Findings, kind: str
) -> None:
    cells = findings["coverage"]
    assert len(cells) == len(POPULATIONS) * len(QUICK.sizes)
    assert covered(cells, kind) >= 0.94
    assert sum(cell.is_significantly_below(f"{kind} held", 0.93) for cell in cells) <= 1  # 1 of 100 by chance


@pytest.mark.slow
def test_the_textbook_interval_never_holds_the_truth_of_a_calibrated_label(findings: Findings) -> None:
    calibrated = [cell for cell in findings["coverage"] if str(cell.line[0]).endswith("calibrated")]
    assert len(calibrated) == 4 * len(QUICK.sizes)
    assert [cell.of("textbook held") for cell in calibrated] == [0.0] * len(calibrated)
    assert all(cell.is_significantly_below("textbook held", 0.93) for cell in calibrated)


@pytest.mark.slow
def test_the_point_is_nearer_to_the_truth_than_the_plug_in(findings: Findings) -> None:
    for cell in (cell for cell in findings["coverage"] if cell.line[1] == 200):
        off = {
            name: abs(cell.share(f"bootstrap {name}") - cell.share("bootstrap truth")) for name in ("plug-in", "point")
        }
        assert off["point"] < off["plug-in"] + 0.02, cell.line
    mean = [cell.share("bootstrap point") - cell.share("bootstrap truth") for cell in findings["coverage"]]
    assert abs(np.mean(mean)) < 0.005


@pytest.mark.slow
def test_clusters_are_covered_with_their_column_and_not_without(findings: Findings) -> None:
    known = [cell for cell in findings["dependent"] if cell.line[1] == "known"]
    unknown = {(cell.line[0], cell.line[2]): cell for cell in findings["dependent"] if cell.line[1] == "not known"}
    for kind in KINDS:
        assert covered(known, kind) >= 0.93, kind
        assert not any(cell.is_significantly_below(f"{kind} held", 0.93) for cell in known), kind
    for population in ("calibrated", "temperature 1.5", "verbal, temperature 1.5"):
        assert unknown["100% in fives", population].is_significantly_below("analytic held", 0.93)
        assert unknown["100% in fives", population].is_significantly_below("mce held", 0.93)
    assert unknown["30% in fives", "calibrated"].is_significantly_below("analytic held", 0.93)


@pytest.mark.slow
def test_what_gets_worse_is_found_and_hardly_anybody_else_is_blamed(findings: Findings) -> None:
    lines = findings["power"]
    assert len(lines) == len(QUICK.lines)
    assert sum(found_by(each, int(each.line[4])) * each.count for each in lines) >= 0.8 * sum(s.count for s in lines)
    assert sum(each.of("blamed") for each in lines) <= 1
    (fall,) = [each for each in lines if str(each.line[0]).startswith("precision")]
    assert fall.of("first by automated-overconfidence") == 1
    assert fall.of("first by ece-increase") == 0  # the average over all rows sleeps, which is the point


# --- what is planted


@pytest.mark.parametrize("label", LABELS[1:-1:4], ids=lambda label: label.name)
def test_a_change_is_as_large_as_it_says(label: Population) -> None:
    kinds = kinds_of(keeping(label))

    def moved(change: str, week: int = 1) -> float:
        return float(kinds.chance @ np.abs(CHANGES[change](kinds, week).worth - kinds.worth))

    assert moved("underconfident: ECE +.04") == pytest.approx(0.04, abs=1e-6)
    assert moved("ECE +.03: low scores too low, high ones too high") == pytest.approx(0.03, abs=1e-6)
    assert moved(".005 less each week", 4) == pytest.approx(moved(".005 less each week") * 4, rel=0.2)
    assert 0.03 < moved("-.05 at all scores") <= 0.05  # rates near 0 cannot fall as far
    acts = kinds.cell >= label.automate_at * CELLS
    assert moved("-.10 of what acts") == pytest.approx(0.10 * float(kinds.chance[acts].sum()))
    less = CHANGES["ROC AUC -.05, calibrated"](kinds, 1)
    assert auc_of(less, less.chance) == pytest.approx(auc_of(kinds, kinds.chance) - 0.05, abs=1e-6)
    assert float(less.chance @ less.worth) == pytest.approx(float(kinds.chance @ kinds.worth))
    assert (less.worth == kinds.worth).all()


def test_the_roc_auc_of_kinds_is_scikit_learns_of_many_rows() -> None:
    kinds = kinds_of(keeping(LABELS[3]))
    rng = np.random.default_rng(5)
    drawn = rng.choice(len(kinds.cell), 200_000, p=kinds.chance / kinds.chance.sum())
    true = rng.random(len(drawn)) < kinds.worth[drawn]
    assert auc_of(kinds, kinds.chance) == pytest.approx(roc_auc_score(true, kinds.cell[drawn]), abs=0.005)


def test_a_control_chart_rings_falsely_as_often_as_wanted() -> None:
    rng = np.random.default_rng(6)
    sums = Counter()
    runs = 2_000
    for chart in ("bands of the ECE", "CUSUM of the ECE", "CUSUM of the mean gap"):
        for path in rng.standard_normal((16 * runs, 20)):
            sums[f"{chart} False 20 {int(np.maximum.accumulate(_cusum(path))[-1] / STEP)}"] += 1
    tally = Tally("power", (next(iter(LASTING)), "as they come", 2000, 4, 20), 4 * runs, sums)
    years = 16 * runs * 20 / 52
    for chart, limit in limits_of([tally]).items():
        assert 0.002 < charts_by(tally, chart, limit, 20, changed=False) / years <= 0.01  # of one label
        assert charts_by(tally, chart, limit - 1, 20, changed=False) / years > 0.01
    assert _cusum(np.array([1.0, 1.0, -9.0, 2.0])).tolist() == [0.5, 1.0, 0.0, 1.5]


# --- how it is summed up


@pytest.mark.slow
def test_every_figure_that_must_hold_has_its_line(findings: Findings) -> None:
    found = held(findings)
    assert len(found) == 4 + 3 + 3 + 4 + len(WORLDS) - 1
    assert [each.found for each in found if not each.found] == []
    table = tables(findings)[0]
    assert [row[0] for row in table.rows] == [each.figure for each in found]


def test_a_figure_that_does_not_hold_is_said_to_be_not_reached() -> None:
    bad = {f"{kind} held": 880.0 for kind in KINDS} | {f"{kind} width": 130.0 for kind in KINDS}
    good = {name: total + 60 if name.endswith("held") else 110.0 for name, total in bad.items()}
    for sums, reached in ((bad, False), (good, True)):
        cells = [Tally("coverage", ("calibrated", 200), 1000, sums)]
        assert [each.reached for each in held({"coverage": cells})] == [reached] * 4
    seen = {"found in week 1": 880.0}
    (late,) = held({"power": [Tally("power", ("true ECE +.05", "as they come", 5000, 3, 1), 1000, seen)]})
    assert (late.found, late.reached) == ("0.880", False)
    rang = {"all incidents": 6.0}
    (loud,) = held({"quiet": [Tally("quiet", ("as they come", n), 50, sums) for n, sums in ((200, {}), (500, rang))]})
    assert (loud.found, loud.reached) == ("0.12", False)


def test_no_repetition_count_of_the_whole_study_is_below_what_was_asked_for() -> None:
    assert FULL.repetitions >= 1000
    assert (FULL.power, FULL.years, FULL.weeks) == (200, 50, 52)
    assert len(POPULATIONS) * len(FULL.sizes) == 60
    assert sum(task.cost for task in FULL.tasks()) > 0


# --- how it is done


def test_what_is_drawn_depends_neither_on_the_parts_of_the_work_nor_on_the_moment() -> None:
    cell = Cell("coverage", ("it", 200), POPULATIONS[2], 200, 0, 4, seed=1)
    whole, again = (cell.run()[0] for _ in range(2))
    (parts,) = together(
        tally for first, last in ((0, 1), (1, 4)) for tally in replace(cell, first=first, last=last).run()
    )
    assert whole == again
    assert (parts.count, parts.of("bootstrap held")) == (whole.count, whole.of("bootstrap held"))
    assert parts.sums == pytest.approx(whole.sums)
    assert replace(cell, seed=2).run()[0] != whole
    assert [(part.first, part.last) for part in in_parts(cell, 120)] == [(0, 50), (50, 100), (100, 120)]


def test_two_processes_find_what_one_finds() -> None:
    tasks = replace(QUICK, repetitions=2).tasks(["walls"])[:3]
    alone, two = ({result.key: result.tallies for _, result in run(tasks, {}, workers=n)} for n in (1, 2))
    assert alone == two
    assert len(alone) == 3


def test_an_interrupted_study_goes_on_and_finds_the_same(tmp_path: Path) -> None:
    tasks = replace(QUICK, repetitions=2).tasks(["walls"])[:4]
    book = Notebook(tmp_path / "var" / "notes.jsonl", "this study")
    book.begin()
    for task in tasks[:2]:
        book.add(done(task))
    with book.path.open("a", encoding="utf-8") as file:
        file.write('["cut off in the mid')
    before = book.resume()
    assert set(before) == {key_of(task) for task in tasks[:2]}
    after = dict(before)
    for _, result in run(tasks, before, workers=1):
        book.add(result)
        after[result.key] = result
    assert len(after) == 4
    assert gathered(tasks, after) == gathered(tasks, {key_of(task): done(task) for task in tasks})
    assert gathered(tasks, book.resume()) == gathered(tasks, after)


def test_results_of_another_study_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    Notebook(path, "one").begin()
    with pytest.raises(ValueError, match="another plan or at another commit: start without --resume"):
        Notebook(path, "another").resume()


# --- the command line and the docs


def test_a_look_is_not_written_into_the_docs(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["--quick", "--write-docs"])
    assert "takes the whole study" in capsys.readouterr().err


@pytest.mark.slow
def test_the_docs_get_the_tables_between_their_markers_and_nothing_else(
    findings: Findings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr("benchmarks.tables.ROOT", tmp_path)
    page.write_text(
        "before\n<!-- simulate:begin -->\nwhat stood here\n<!-- simulate:end -->\nafter\n", encoding="utf-8"
    )
    publish(tables(findings), "simulate", "simulate --parts power", ", seed 3", page=page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- simulate:begin -->\nMade by `python -m benchmarks.simulate --parts power --w")
    assert " at commit unknown, seed 3.\n\n**What must hold**" in text
    assert text.endswith("\n<!-- simulate:end -->\nafter\n")
    assert "what stood here" not in text
    assert all(table.markdown() in text for table in tables(findings))


def test_a_page_without_markers_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- simulate:end -->\n<!-- simulate:begin -->\n", encoding="utf-8")
    with pytest.raises(ValueError, match="each once"):
        write_between(page, "simulate", "tables")
    assert page.read_text(encoding="utf-8") == "<!-- simulate:end -->\n<!-- simulate:begin -->\n"
