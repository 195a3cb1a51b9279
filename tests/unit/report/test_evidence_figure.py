"""The figure of accumulated evidence: its line is the verdict's path, and the page has it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from monitor.core.records import Verdict
from monitor.report.figures.evidence import evidence_data, evidence_summary, evidence_svg
from tests.fakes.report_data import report_data

PATH = [["2026-W44", 20, 0.9, 0.95, 0.004], ["2026-W45", 19, 0.9, 0.7, 310.0], ["2026-W46", 21, 0.9, 0.71, 23_150.0]]


@pytest.fixture
def verdict() -> Verdict:
    known = next(v for report in report_data().subjects for v in report.verdicts)
    return replace(known, rule="lasting-overconfidence", detail={"path": PATH, "needed": 10_400.0})


def test_the_line_is_the_path_of_the_verdict(verdict: Verdict) -> None:
    (line,) = evidence_data([verdict, replace(verdict, detail={})])
    assert [(p.window, p.n, p.evidence) for p in line.points] == [(name, n, found) for name, n, _, _, found in PATH]
    assert evidence_summary(line) == (
        "Evidence of lasting-overconfidence from 2026-W44 to 2026-W46: from 0.004 to 23,150, 10,400 needed."
    )


def test_the_dashboard_s_line_grows_to_the_level_that_is_needed_and_names_every_window(verdict: Verdict) -> None:
    (line,) = evidence_data([verdict])
    drawn = str(evidence_svg(line))
    level = float(re.search(r'class="limit" d="M58 ([\d.]+)h', drawn)[1])
    heights = [
        float(y) for _, y in re.findall(r"([\d.]+) ([\d.]+)", re.search(r'class="value" d="M([^"]*)"', drawn)[1])
    ]
    assert heights == sorted(heights, reverse=True)
    assert heights[-1] < level < heights[-2]
    assert re.findall(r"<title>([^<]*)</title>", drawn) == [
        "2026-W44: evidence 0.004; 20 rows, scores claimed 0.900, 0.950 correct",
        "2026-W45: evidence 310; 19 rows, scores claimed 0.900, 0.700 correct",
        "2026-W46: evidence 23,150; 21 rows, scores claimed 0.900, 0.710 correct",
    ]
    assert drawn.count('class="breach"') == 1
