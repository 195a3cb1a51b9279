"""The report as text: terminal tables, Markdown, exports, the light."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import pytest
from rich.console import Console, RenderableType

from monitor.core.records import TRUTHS_SCARCE, Estimate, Interval, RejectedRows, Subject
from monitor.core.windows import week
from monitor.report import export, terminal, words
from monitor.report.data import ReportData, level, only
from monitor.report.terminal import history_view, report_view
from tests.fakes.report_data import HOSTILE, STORIES, Story, history, report_data, windows

SPANS = windows(26)


def drawn(renderable: RenderableType, width: int = 200) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data()


def test_a_report_tells_the_stories_then_counts_then_the_estimates_of_all(data: ReportData):
    text = drawn(report_view(data), 100)
    assert text.index("billing must not act alone") < text.index("2026-W46: 6 labels: 2 must not act alone, 4 fine.")
    assert text.index("2026-W46: 6 labels") < text.index("Estimates")
    for report in data.subjects:
        assert f"{words.number(report.value('ece'))} " in text
    assert "(41 duplicate, " in text
    assert "Verdicts" not in text
    full = drawn(report_view(only(data, label="billing"), full=True), 140)
    assert {"Verdicts", "Reliability", "Risk", "Threshold", "Scores"} <= set(full.split())
    assert "refund" not in full


@pytest.mark.parametrize("width", [60, 80, 110])
def test_a_report_is_no_wider_than_the_terminal_and_its_numbers_are_whole(data: ReportData, width: int):
    calm = replace(data, subjects=tuple(r for r in data.subjects if r.subject.label != HOSTILE))
    text = drawn(report_view(calm), width=width)
    assert max(map(len, text.splitlines())) <= width
    values = {f"{value:.3f}" for report in calm.subjects if (value := report.value("ece")) is not None}
    assert values <= set(re.findall(r"\d\.\d+", text))


def test_names_are_never_markup_and_cannot_move_the_cursor(data: ReportData):
    assert "[red]" in drawn(report_view(data))
    report = replace(data.subjects[0], subject=Subject("tickets", "a\x1b[2Jb\u202ec"))
    shown = drawn(report_view(replace(data, subjects=(report,))))
    assert not {"\x1b", "\u202e"} & set(shown)


def test_a_window_without_results_is_said_to_have_none_and_never_to_be_fine(data: ReportData):
    text = drawn(report_view(replace(data, subjects=(), quality=(), noted=(), shifts=())))
    assert text.splitlines()[1:] == [
        "Nothing of this window is in the history.", "next: calmon run weekly --week 2026-W46",
    ]  # fmt: skip


def test_what_is_odd_about_labels_is_said_of_their_source():
    odd = [RejectedRows(source, TRUTHS_SCARCE, 0, ({"why": f"few of {source}"},)) for source in ("mail", "tickets")]
    assert list(words.labels_words("mail", odd)) == ["mail: few of mail."]


def test_the_light_is_one_of_numbers_alone(data: ReportData):
    assert level(0.02, 0.91, 0.16) == "amber"
    assert [level(0.16, 0.9, 0.1), level(0.1, 0.74, 0.1), level(0.1, 0.9, 0.21), level(0.04, 0.8, None)] == [
        "red", "red", "red", "amber",
    ]  # fmt: skip
    assert {report.level for report in data.subjects} <= {"green", "amber", "red"}


def past(story: Story = STORIES[1]) -> list[Estimate]:
    estimates, _, _ = history(story, 101, SPANS)
    return [estimate for estimate in estimates if estimate.metric == "ece"]


def test_a_line_of_the_history_keeps_gaps_and_knows_its_last_value_and_how_far_it_moved():
    mine = past(Story("gap", gap=0.09, since=22, missing=(3,)))
    line = next(line for line in drawn(history_view([*mine, *past()])).splitlines() if "gap" in line)
    trend, last, change = line.split()[1:4]
    assert [place for place, bar in enumerate(trend) if bar == "·"] == [3]
    assert len(trend) == 26
    first, newest = mine[0].interval.value, mine[-1].interval.value
    assert (last, change) == (words.number(newest), words.number(newest - first, sign=True))


def test_only_the_newest_windows_are_drawn_unless_others_were_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(terminal, "NEWEST", 10)
    assert "2026-W37 to 2026-W46, the newest 10 of 26 windows" in drawn(history_view(past()))
    assert drawn(history_view(past(), requested=True)).startswith("ECE, 2026-W21 to 2026-W46 ")


def test_windows_of_two_time_zones_are_two_series_and_said_to_be():
    ece = past()
    berlin = [replace(e, window=week(e.window.name, ZoneInfo("Europe/Berlin"))) for e in ece[20:]]
    text = drawn(history_view([*ece[:20], *berlin]))
    assert "2026-W41 to 2026-W46" in text
    assert "Windows of another time zone, 2026-W21 to 2026-W40: a series of its own" in text
    assert text.count("tickets/billing") == 2


def test_the_history_table_shows_the_trend_and_its_span():
    text = drawn(history_view(past()))
    line = next(line for line in text.splitlines() if "billing" in line)
    assert "█" in line
    assert "2026-W21 to 2026-W46" in text


def test_the_history_table_of_an_empty_history_says_so():
    assert "Nothing in the history yet" in drawn(history_view([]))


def whole_source() -> Estimate:
    return replace(
        past()[0],
        subject=Subject("tickets", None),
        interval=Interval(None, 0.0, float("nan"), 0.1),
        n=3,
        positives=1.0,
    )


COLUMNS = (
    "window", "source", "label", "metric", "where", "value", "plug_in", "low", "high", "n", "positives", "start", "end",
)  # fmt: skip


def test_csv_has_the_stable_columns_and_every_digit():
    estimates = past(Story(HOSTILE))
    rows = list(csv.DictReader(io.StringIO(export.history_csv([*estimates, whole_source()]))))
    assert tuple(rows[0]) == COLUMNS
    assert [float(r["value"]) for r in rows[:-1]] == [e.interval.value for e in estimates]
    assert {r["label"] for r in rows} == {HOSTILE, ""}
    assert rows[-1]["value"] == ""


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_name_in_csv_is_no_formula_and_numbers_stay_numbers(first: str):
    name = f'{first}HYPERLINK("https://evil.example","x")'
    odd = replace(whole_source(), subject=Subject(name, name), interval=Interval(-0.5, -1.0, 0.0, -0.25))
    text = export.history_csv([odd])
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert (row["source"], row["label"]) == (f"'{name}", f"'{name}")
    assert (row["value"], row["low"]) == ("-0.5", "-1.0")
    assert json.loads(export.history_json([odd]))[0]["label"] == name


def test_json_has_null_where_nothing_is_known():
    (row,) = json.loads(export.history_json([whole_source()]))
    assert tuple(row) == COLUMNS
    assert (row["label"], row["value"], row["high"], row["plug_in"], row["n"]) == (None, None, None, 0.1, 3)


def test_an_empty_history_exports_its_header():
    assert export.history_csv([]) == ",".join(COLUMNS) + "\n"
    assert json.loads(export.history_json([])) == []


def test_parquet_reads_back_the_same_rows(tmp_path: Path):
    estimates = [*past(), whole_source()]
    path = tmp_path / "history.parquet"
    path.write_bytes(export.history_parquet(estimates))
    with duckdb.connect() as connection:
        relation = connection.read_parquet(str(path))
        rows = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
    assert rows == export.history_records(estimates)
