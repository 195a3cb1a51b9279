"""The report as text: terminal tables, Markdown, exports, the light."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import pytest
from rich.console import Console, RenderableType

from monitor.config.model import AutomationConfig, Config, SourceConfig
from monitor.core.records import Action, Estimate, Interval, Reason, Subject, Verdict
from monitor.core.windows import week
from monitor.evaluation.label_state import State
from monitor.report import export
from monitor.report.conclusions import level
from monitor.report.console import plain_table
from monitor.report.data import ReportData
from monitor.report.markdown import escape, labels_markdown, summary_markdown, trend_markdown
from monitor.report.terminal import (
    history_rows,
    history_table,
    history_view,
    label_table,
    report_view,
    verdict_table,
)
from tests.fakes.report_data import HOSTILE, STORIES, Story, history, report_data, windows

SPANS = windows(26)
CONFIG = Config(
    version=1,
    sources={"tickets": SourceConfig(relation="t", score_is="probability_of_label")},
    rules=(),
    automation=AutomationConfig(when_not_evaluated="keep"),
)


def drawn(renderable: RenderableType, width: int = 200) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data()


def words_of(verdict: Verdict) -> str:
    return verdict.reason.replace("_", " ")


def past(story: Story = STORIES[1]) -> tuple[list[Estimate], list[Verdict]]:
    estimates, verdicts, _ = history(story, 101, SPANS)
    return estimates, verdicts


@pytest.mark.parametrize(
    ("ece", "auc", "mce", "wanted"),
    [
        (0.05, 0.80, 0.15, "green"),
        (0.0501, 0.80, 0.15, "amber"),
        (0.05, 0.7999, 0.15, "amber"),
        (0.05, 0.80, 0.1501, "amber"),
        (0.15, 0.75, 0.20, "amber"),
        (0.1501, 0.90, 0.10, "red"),
        (0.01, 0.7499, 0.10, "red"),
        (0.01, 0.90, 0.2001, "red"),
        (None, None, None, "grey"),
        (None, 0.5, None, "red"),
    ],
)
def test_the_level_follows_the_bands(ece: float | None, auc: float | None, mce: float | None, wanted: str) -> None:
    assert level(ece, auc, mce) == wanted


def test_what_was_not_evaluated_is_grey_however_bad_it_looks() -> None:
    assert level(0.4, 0.5, 0.9, evaluated=False) == "grey"


def test_a_history_row_keeps_gaps_and_knows_first_last_and_outcome() -> None:
    estimates, verdicts = past(Story("gap", gap=0.09, since=22, missing=(3,)))
    others, _ = past()
    row = next(
        r for r in history_rows([*estimates, *others], verdicts) if r.subject.label == "gap" and r.metric == "ece"
    )
    mine = [e for e in estimates if e.metric == "ece"]
    assert row.values[3] is None
    assert [v for v in row.values if v is not None] == [e.interval.value for e in mine]
    assert row.change == pytest.approx((mine[-1].interval.value or 0) - (mine[0].interval.value or 0))
    assert row.state.state is State.BREACH


def test_a_breach_of_any_rule_on_the_metric_wins_over_ok() -> None:
    estimates, verdicts = past()
    fine = [replace(v, rule="other", outcome="ok") for v in verdicts]
    rows = history_rows(estimates, [*verdicts, *fine])
    assert {r.metric: r.state.state for r in rows}["ece"] is State.BREACH


def test_a_metric_of_which_one_rule_was_not_evaluated_is_not_shown_as_ok() -> None:
    estimates, verdicts = past(STORIES[0])
    fine = [v for v in verdicts if v.metric == "ece" and v.outcome == "ok"]
    silent = [replace(v, rule="ece-level", outcome="not_evaluated", reason=Reason.TOO_FEW_ROWS) for v in fine]
    ece = [e for e in estimates if e.metric == "ece"]
    text = " ".join(drawn(history_table(ece, [*fine, *silent])).split())
    assert "not" in text.split()
    assert "(too few" in text
    assert " ok " not in text
    assert drawn(history_table(ece, fine)) != drawn(history_table(ece, [*fine, *silent]))


def test_labels_of_one_table_share_a_scale_over_the_windows_that_are_drawn() -> None:
    many = [e for story in (STORIES[0], STORIES[1]) for e in past(story)[0] if e.metric == "ece"]
    text = drawn(history_table(many, past()[1]))
    lines = {name: next(x for x in text.splitlines() if f"tickets/{name} " in x) for name in ("account", "billing")}
    assert "█" in lines["billing"]
    assert "█" not in lines["account"]
    before = [e for e in many if e.window.start < SPANS[22].start]
    alone = drawn(history_table([e for e in before if e.subject.label == "account"]))
    assert "█" in alone  # the scale is of what is drawn
    assert "one scale for all labels, 0 to " in text


def test_a_narrow_table_draws_the_newest_windows_and_its_title_first_and_change_are_of_those() -> None:
    estimates, verdicts = past()
    ece = [e for e in estimates if e.metric == "ece"]
    text = drawn(history_table(ece, verdicts), width=80)
    title = next(line for line in text.splitlines() if "ECE" in line)
    shown = int(re.findall(r"the newest (\d+) of 26 windows", title)[0])
    line = next(line for line in text.splitlines() if "tickets/billing" in line)
    assert len(re.findall(r"[▁▂▃▄▅▆▇█·]", line)) == shown < 26
    assert f"{SPANS[-shown].name} to 2026-W46" in title
    first = next(e for e in ece if e.window == SPANS[-shown]).interval.value
    assert first is not None
    assert f"{first:.3f}" in line


def test_windows_that_were_asked_for_are_all_drawn_however_narrow_the_terminal() -> None:
    estimates, verdicts = past()
    text = drawn(history_table([e for e in estimates if e.metric == "ece"], verdicts, requested=True), width=80)
    assert "2026-W21 to 2026-W46" in text
    assert len(re.findall(r"[▁▂▃▄▅▆▇█·]", text)) == 26


def test_windows_of_two_time_zones_are_two_series_and_said_to_be() -> None:
    estimates, verdicts = past()
    ece = [e for e in estimates if e.metric == "ece"]
    berlin = [replace(e, window=week(e.window.name, ZoneInfo("Europe/Berlin"))) for e in ece[20:]]
    text = drawn(history_view([*ece[:20], *berlin], verdicts))
    assert "2026-W41 to 2026-W46" in text
    assert "Windows of another time zone, 2026-W21 to 2026-W40: a series of its own" in text
    assert text.count("tickets/billing") == 2


def test_the_change_of_pooled_windows_says_so_beside_their_value(data: ReportData) -> None:
    report = next(r for r in data.subjects if r.subject.label == "billing")
    pooled = tuple(replace(v, windows=4, value=0.0613) if v.metric == "ece" else v for v in report.verdicts)
    shown = replace(data, subjects=(replace(report, verdicts=pooled),), verdicts=pooled)
    text = drawn(label_table(shown))
    assert [word for word in ("4 weeks", "pooled:", "0.061") if word not in text] == []
    assert "4 weeks pooled: 0.061" in labels_markdown(shown)
    assert "4 weeks pooled" in drawn(verdict_table(pooled))


def test_a_past_week_shows_the_switch_of_its_run_and_that_of_now_apart(data: ReportData) -> None:
    off = tuple(replace(line, state="off") for line in data.automation)
    now = replace(data, automation_now=off, generated_at=data.generated_at + timedelta(days=30))
    for text in (drawn(report_view(now)), summary_markdown(now)):
        told = " ".join(text.split())
        assert "automation off for 1 of 6 labels at the run (16 Nov 2026 06:30)" in told
        assert "Automation now (16 Dec 2026 06:30): off for 6 of 6 labels." in told


def test_no_label_is_ok_in_any_text_where_a_rule_was_not_evaluated(data: ReportData) -> None:
    report = data.subjects[0]
    some = (replace(report.verdicts[0], outcome="not_evaluated", reason=Reason.TOO_FEW_ROWS), *report.verdicts[1:])
    shown = replace(data, subjects=(replace(report, verdicts=some),), verdicts=some)
    for text in (drawn(report_view(shown)), summary_markdown(shown)):
        assert "within thresholds" not in text
        assert "0 of 1 label in breach; 1 with rules not evaluated" in " ".join(text.split())
        assert "too few rows" in text.replace("_", " ").replace("\\", "")


def test_segments_stay_out_of_the_history_table() -> None:
    estimates, _ = past()
    segment = replace(estimates[0], subject=Subject("tickets", "billing", ("channel", "web")))
    assert len(history_rows([segment, *estimates])) == len(history_rows(estimates)) == 4


def test_the_history_table_shows_trend_values_and_outcome() -> None:
    estimates, verdicts = past()
    text = drawn(history_table([e for e in estimates if e.metric == "ece"], verdicts))
    line = next(line for line in text.splitlines() if "billing" in line)
    assert "█" in line
    assert "warning" in line
    assert "breach" in text
    assert "2026-W21 to 2026-W46" in text


def test_the_history_table_of_an_empty_history_says_so() -> None:
    assert "Nothing in the history yet" in drawn(history_table([], []))


def test_the_label_table_has_one_line_a_label_with_its_state_first_and_the_level_apart(data: ReportData) -> None:
    text = drawn(label_table(data))
    line = next(line for line in text.splitlines() if "billing" in line)
    for words in ("critical breach: automated-overconfidence", "0.055", "+0.042", "▄", "off", "amber"):
        assert words in line
    assert text.index("billing") < text.index("account")


@pytest.mark.parametrize("width", [80, 110])
def test_no_word_of_the_tables_is_torn_at_80_columns(data: ReportData, width: int) -> None:
    calm = replace(data, subjects=tuple(r for r in data.subjects if r.subject.label != HOSTILE))
    text = drawn(report_view(calm), width=width)
    for word in ("automated-overconfidence", "tickets/billing", "ece-increase", "evaluated", "+0.042", "2,500", "acts"):
        assert word in text
    assert "cancellation" in text
    assert max(map(len, text.splitlines())) <= width
    estimates, verdicts = past()
    shown = drawn(history_table([e for e in estimates if e.metric == "ece"], verdicts), width=width)
    assert {"breach", "tickets/billing"} <= set(shown.split())


def test_names_are_never_markup_and_cannot_move_the_cursor(data: ReportData) -> None:
    text = drawn(label_table(data))
    assert "[red]" in text
    report = replace(data.subjects[0], subject=Subject("tickets", "a\x1b[2Jb\u202ec"))
    shown = drawn(report_view(replace(data, subjects=(report,), verdicts=report.verdicts)))
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_verdicts_are_listed_breaches_first_then_what_could_not_be_judged(data: ReportData) -> None:
    fine, breach = data.subjects[0].verdicts[0], data.breaches[0]
    silent = replace(fine, rule="silent", outcome="not_evaluated", reason=Reason.NO_BASELINE)
    text = drawn(verdict_table([fine, silent, breach]))
    assert text.index(words_of(breach)) < text.index("no baseline") < text.index("within threshold")


def test_a_report_of_a_window_that_was_never_evaluated_says_what_to_run(data: ReportData) -> None:
    empty = replace(data, subjects=(), verdicts=(), quality=(), noted=())
    assert "calmon run weekly --week 2026-W46" in drawn(report_view(empty))


def test_a_plain_table_folds_long_texts_and_loses_none_of_them() -> None:
    table = plain_table("rule", "why")
    table.add_row("automated-overconfidence", "x" * 90 + "end")
    shown = drawn(table, 40)
    assert "…" not in shown
    assert "".join(shown.split()).count("x") == 90
    assert "end" in shown


def test_the_markdown_summary_says_findings_labels_and_what_was_done(data: ReportData) -> None:
    text = summary_markdown(data, [Action("slack", "tickets", "billing", "sent")])
    assert text.startswith("# Calibration 2026-W46\n\n9 Nov 2026 to 15 Nov 2026 (UTC). **2 of 6 labels in breach")
    assert "- **ece-increase** (warning)" in text
    assert "Reason: `increased`" in text
    assert "- slack, tickets/billing: sent" in text
    assert "| tickets | duplicate | 41 |" in text


def test_every_line_of_a_markdown_table_has_the_same_number_of_cells(data: ReportData) -> None:
    for table in (labels_markdown(data), trend_markdown(data).partition("\n\n")[0]):
        cells = {line.replace("\\|", "").count("|") for line in table.splitlines()}
        assert len(cells) == 1
        assert len(table.splitlines()) == 2 + len(data.subjects)


def test_a_hostile_label_makes_neither_html_nor_links_nor_cells_in_markdown() -> None:
    assert escape("<img>|[a](b)\n# x") == "\\<img\\>\\|\\[a\\]\\(b\\) \\# x"
    assert "<img" not in summary_markdown(report_data()).replace("\\<img", "")


def whole_source() -> Estimate:
    estimates, _ = past()
    return replace(
        estimates[0],
        subject=Subject("tickets", None),
        interval=Interval(None, 0.0, float("nan"), 0.1),
        n=3,
        positives=1.0,
    )


def test_csv_has_the_stable_columns_and_every_digit() -> None:
    estimates, _ = past(Story(HOSTILE))
    rows = list(csv.DictReader(io.StringIO(export.history_csv([*estimates, whole_source()]))))
    assert tuple(rows[0]) == export.COLUMNS
    assert export.COLUMNS == (
        "window", "source", "label", "metric", "where", "value", "plug_in", "low", "high", "n", "positives",
        "start", "end",
    )  # fmt: skip
    assert [float(r["value"]) for r in rows[:-1]] == [e.interval.value for e in estimates]
    assert {r["label"] for r in rows} == {HOSTILE, ""}
    assert rows[-1]["value"] == ""


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_name_in_csv_is_no_formula_and_numbers_stay_numbers(first: str) -> None:
    name = f'{first}HYPERLINK("https://evil.example","x")'
    odd = replace(whole_source(), subject=Subject(name, name), interval=Interval(-0.5, -1.0, 0.0, -0.25))
    text = export.history_csv([odd])
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert (row["source"], row["label"]) == (f"'{name}", f"'{name}")
    assert (row["value"], row["low"]) == ("-0.5", "-1.0")
    assert json.loads(export.history_json([odd]))[0]["label"] == name


def test_json_has_null_where_nothing_is_known() -> None:
    (row,) = json.loads(export.history_json([whole_source()]))
    assert tuple(row) == export.COLUMNS
    assert (row["label"], row["value"], row["high"], row["plug_in"], row["n"]) == (None, None, None, 0.1, 3)


def test_an_empty_history_exports_its_header() -> None:
    assert export.history_csv([]) == ",".join(export.COLUMNS) + "\n"
    assert json.loads(export.history_json([])) == []


def test_parquet_reads_back_the_same_rows(tmp_path: Path) -> None:
    estimates = [*past()[0], whole_source()]
    path = tmp_path / "history.parquet"
    path.write_bytes(export.history_parquet(estimates))
    with duckdb.connect() as connection:
        relation = connection.read_parquet(str(path))
        rows = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
    assert rows == export.history_records(estimates)


def marks(text: str) -> list[str]:
    """Every letter, digit and sign of a table, sorted: what wrapping keeps and cutting loses."""
    return sorted(re.sub(r"[\s─…]", "", text))


@pytest.mark.parametrize("width", [34, 50, 60, 79])
def test_a_narrow_terminal_wraps_numbers_and_never_cuts_them(width: int, data: ReportData) -> None:
    table = verdict_table([v for report in data.by_attention for v in report.verdicts])
    assert marks(drawn(table, width)) == marks(drawn(table, 300))
    assert all(len(line) <= width for line in drawn(table, width).splitlines())


def test_the_numbers_of_labels_are_whole_on_sixty_columns(data: ReportData) -> None:
    values = {f"{value:.3f}" for report in data.by_attention if (value := report.value("ece")) is not None}
    assert values
    assert values <= set(re.findall(r"(?<![\d.+−])\d\.\d+", drawn(label_table(data), 60)))
