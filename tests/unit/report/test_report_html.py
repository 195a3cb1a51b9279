"""The page: self-contained, escaped, the same for the same data, with its numbers in it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest

from monitor.core.records import Interval, Reason, RejectedRows, Subject, SwitchState
from monitor.report.data import ReportData, ReportNote, SegmentLine, headline, switch_line
from monitor.report.figures.panels import point_words
from monitor.report.html import html_report, threshold_note, trend_summary
from tests.fakes.report_data import HOSTILE, NOW, STORIES, Story, report_data

UNKNOWN = Interval(None, None, None, None)


class Page(HTMLParser):
    """What a parser that knows no more than HTML sees."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self._inside: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            attributes, seen = self.scripts[-1]
            self.scripts[-1] = (attributes, seen + data)
        elif self._inside != "style":
            self.text += data


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data()


@pytest.fixture(scope="module")
def page(data: ReportData) -> Page:
    return Page(html_report(data))


def test_the_same_data_give_the_same_page_to_the_byte(data: ReportData) -> None:
    assert html_report(data) == html_report(report_data())


def test_every_figure_says_in_words_what_it_shows(page: Page) -> None:
    labels = [a["aria-label"] for tag, a in page.tags if tag == "svg"]
    assert all(labels)
    assert len(labels) == len(STORIES) * 8
    assert any("breach in 2026-W43, 2026-W44, 2026-W45, 2026-W46" in (label or "") for label in labels)


def test_a_hostile_label_is_text_and_nothing_else(page: Page) -> None:
    assert HOSTILE in page.text
    assert not [a for tag, a in page.tags if tag == "img"]
    assert not page.scripts
    assert not [name for _, a in page.tags for name in a if name.startswith("on")]


def test_the_figures_have_the_numbers_of_the_history(data: ReportData, page: Page) -> None:
    for report in data.subjects:
        for trend in report.trends:
            assert all(point_words(point) in page.text for point in trend.points if point.value is not None)
        assert report.reliability is not None
        assert all(f"{point.n:,} row" in page.text for point in report.reliability.points)


def test_no_script_may_run(page: Page) -> None:
    policies = [str(a["content"]) for tag, a in page.tags if tag == "meta" and "Policy" in str(a.get("http-equiv"))]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'; script-src 'none'")


def test_hostile_notes_sources_and_reasons_are_text(data: ReportData) -> None:
    bad = '<script>alert("x")</script>'
    line = switch_line(SwitchState(bad, bad, "off", reason=bad, actor=bad), NOW)
    hostile = replace(data, noted=(ReportNote(bad),), quality=(RejectedRows(bad, bad, 1),), automation=(line,))
    seen = Page(html_report(hostile))
    assert not seen.scripts
    assert seen.text.count(bad) >= 6


def test_the_page_names_no_address_to_load_from(page: Page) -> None:
    loading = [(tag, a[k]) for tag, a in page.tags for k in ("src", "href", "srcset", "data", "action") if k in a]
    assert {value for tag, value in loading if tag == "link"} == {"data:,"}
    assert all((value or "").startswith("#") for tag, value in loading if tag == "a")
    assert {tag for tag, _ in loading} <= {"a", "link"}


def test_the_table_on_top_has_what_needs_somebody_first(data: ReportData, page: Page) -> None:
    assert [report.subject.label for report in data.by_attention][:2] == ["billing", "refund"]
    assert page.text.index("billing") < page.text.index("account")
    assert (
        "2 of 6 labels in breach; 4 ok; automation off for 1 of 6 labels at the run (16 Nov 2026 06:30)." in page.text
    )


def test_breaches_are_reported_in_words_with_reason_and_advice(page: Page) -> None:
    assert "billing calibration got worse: ECE" in page.text
    assert "Find out what changed since the baseline" in page.text
    assert "critical breach: automated-overconfidence (above_threshold)" in page.text


def test_rows_set_aside_shifts_and_switches_are_shown(page: Page) -> None:
    for words in ("score out of range", "KS distance", "<0.0001", "25 Nov 2026 00:00", "v7 (2,310 rows)"):
        assert words in page.text


def test_a_report_without_a_single_label_says_so_and_draws_nothing() -> None:
    data = report_data([])
    seen = Page(html_report(replace(data, subjects=(), verdicts=(), automation=(), shifts=(), quality=(), noted=())))
    assert "No label was read in this window." in seen.text
    assert not [tag for tag, _ in seen.tags if tag == "svg"]


def test_a_label_that_could_not_be_judged_says_so_with_its_reason_and_rules(data: ReportData) -> None:
    report = data.subjects[0]
    silent = replace(
        report,
        verdicts=tuple(replace(v, outcome="not_evaluated", reason=Reason.TOO_FEW_ROWS) for v in report.verdicts),
    )
    seen = Page(html_report(replace(data, subjects=(silent,))))
    assert silent.state.state == "not_evaluated"
    rules = "automated-overconfidence, mce-blocks-scores, auc-floor, ece-increase"
    assert f"not evaluated: too_few_rows ({rules})" in seen.text
    assert "with rules not evaluated" in seen.text


def test_segments_of_a_breached_label_are_open_and_their_names_are_text(data: ReportData) -> None:
    line = SegmentLine("channel", HOSTILE, 634, Interval(0.19, 0.16, 0.23, 0.2), UNKNOWN, UNKNOWN)
    breached = next(report for report in data.subjects if report.breaches)
    text = html_report(replace(data, subjects=(replace(breached, segments=(line,)),)))
    assert "<details open><summary>By segment</summary>" in text
    page = Page(text)
    assert f"channel = {HOSTILE}" in page.text
    assert ("img", {"src": "x", "onerror": "alert(1)"}) not in page.tags
    fine = next(report for report in data.subjects if not report.breaches)
    assert "<details><summary>By segment" in html_report(replace(data, subjects=(replace(fine, segments=(line,)),)))


def test_a_figure_without_a_legend_names_its_thresholds(data: ReportData, page: Page) -> None:
    assert "mce-blocks-scores 0.200" in page.text
    trend = data.subjects[0].trend("mce")
    assert trend is not None
    assert threshold_note(replace(trend, thresholds=())) == ""


def test_a_finding_says_how_many_windows_were_pooled_and_how_to_ask_why(data: ReportData) -> None:
    breached = next(report for report in data.subjects if report.breaches)
    pooled = replace(breached.breaches[0], windows=3, id="0123456789abcdef")
    page = Page(html_report(replace(data, subjects=(replace(breached, verdicts=(pooled,)),))))
    assert "(3 weeks pooled)" in page.text
    assert "calmon explain 0123456789ab" in page.text


def test_no_empty_figure_is_drawn(data: ReportData) -> None:
    report = data.subjects[0]
    trends = tuple(replace(t, points=tuple(replace(p, value=None) for p in t.points)) for t in report.trends)
    bare = replace(report, trends=trends, reliability=None, detail=None)
    seen = Page(html_report(replace(data, subjects=(bare,))))
    assert not [tag for tag, _ in seen.tags if tag == "svg"]
    assert "Nothing to draw: no estimates in the history." in seen.text


def test_a_label_says_what_to_do_with_its_reason_and_what_acting_alone_cost(data: ReportData, page: Page) -> None:
    for report in data.subjects:
        assert report.detail is not None
        assert report.detail.harm is not None
        assert report.detail.harm.sentence[1:] in page.text
        for one in report.detail.conclusion.advice:
            because = f"{one.reason.replace('_', ' ')}; {', '.join(one.basis)}"
            assert f"{one.sentence[:1].upper()}{one.sentence[1:]} ({because})" in page.text
    assert "95% accuracy: not shown" in page.text


def test_one_window_alone_makes_a_page() -> None:
    assert "2026-W46" in Page(html_report(report_data(weeks=1))).text


def test_a_lease_that_has_ended_shows_as_off() -> None:
    state = SwitchState("tickets", "billing", "on", lease_until=datetime(2026, 11, 16, tzinfo=UTC))
    assert switch_line(state, datetime(2026, 11, 15, tzinfo=UTC)).words == "on"
    ended = switch_line(replace(state, actor="ana", reason="start"), datetime(2026, 11, 16, tzinfo=UTC))
    assert (ended.words, ended.reason, ended.changed_at) == ("off (lease ended)", "", state.lease_until)


def test_blocked_scores_are_said_beside_on() -> None:
    state = SwitchState("tickets", "billing", "on", blocked=((0.8, 0.85),), lease_until=NOW + timedelta(days=1))
    assert switch_line(state, NOW).words == "on but 0.80 to 0.85"


def test_a_label_whose_source_is_off_shows_as_off() -> None:
    state = SwitchState("tickets", "billing", "on", lease_until=NOW + timedelta(days=1))
    whole = SwitchState("tickets", None, "off", changed_at=NOW, actor="ana", reason="rolled back")
    off = switch_line(replace(state, actor="weekly run", reason="first good window"), NOW, whole)
    assert (off.words, off.actor, off.reason) == ("off (the whole source is off)", "ana", "rolled back")
    assert switch_line(state, NOW, SwitchState("tickets", None)).words == "on"


def test_the_headline_counts_labels_and_says_what_the_source_as_a_whole_is_in() -> None:
    whole = report_data([Story(None), Story("a")])
    assert whole.subjects[0].subject == Subject("tickets", None)
    assert headline(whole).startswith(
        "0 of 1 label in breach; 1 ok; tickets as a whole: ok: all 4 rules were evaluated"
    )
    bare = replace(whole, subjects=(replace(whole.subjects[0], verdicts=()), whole.subjects[1]))
    assert "tickets as a whole: no rule, level " in headline(bare)
    breach = replace(whole.subjects[0].verdicts[0], outcome="breach", reason=Reason.INCREASED)
    hit = replace(whole, subjects=(replace(whole.subjects[0], verdicts=(breach,)), whole.subjects[1]))
    assert "tickets as a whole: warning breach: ece-increase (increased)" in headline(hit)


def test_a_past_week_shows_the_switch_of_its_run_and_that_of_now_apart(data: ReportData) -> None:
    later = NOW + timedelta(days=30)
    off = tuple(replace(line, state="off", reason="rebuilt") for line in data.automation)
    subjects = tuple(replace(r, switch_now=line) for r, line in zip(data.subjects, off, strict=True))
    seen = Page(html_report(replace(data, subjects=subjects, automation_now=off, generated_at=later)))
    assert "automation off for 1 of 6 labels at the run (16 Nov 2026 06:30)" in seen.text
    assert "Automation now (16 Dec 2026 06:30): off for 6 of 6 labels." in seen.text
    assert "At the run (16 Nov 2026 06:30)" in seen.text
    assert "Now (16 Dec 2026 06:30)" in seen.text


def test_a_change_of_pooled_windows_is_beside_the_value_of_the_same_span(data: ReportData) -> None:
    report = data.subjects[0]
    pooled = tuple(replace(v, windows=4, value=0.0613) if v.metric == "ece" else v for v in report.verdicts)
    found = replace(report, verdicts=pooled).change
    assert (found.windows, found.value) == (4, 0.0613)
    seen = Page(html_report(replace(data, subjects=(replace(report, verdicts=pooled),))))
    assert "4 weeks pooled: 0.061" in seen.text


def test_a_label_in_critical_breach_has_that_as_its_state_whatever_its_level(data: ReportData) -> None:
    billing = next(report for report in data.subjects if report.subject.label == "billing")
    assert (billing.state.state, billing.state.severity) == ("breach", "critical")
    text = html_report(replace(data, subjects=(billing,)))
    assert '<span class="state breach critical">' in text
    assert text.index('<th scope="col">State</th>') < text.index('<th scope="col">Level</th>')


def test_a_trend_in_words_names_first_last_and_baseline(data: ReportData) -> None:
    trend = data.subjects[0].trend("roc_auc")
    assert trend is not None
    assert trend_summary(trend).startswith("ROC AUC over 26 windows from 2026-W21 to 2026-W46: from 0.9")
    assert trend_summary(trend).endswith("no breach.")
