"""What a window that is read again says of its reading before: rows that are gone, parts that could not be read."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from monitor.core.records import DELAYS_FAILED, ROWS_GONE, Reason, part_not_read, rows_before, rows_gone
from monitor.core.source_settings import Settings
from monitor.core.windows import week
from monitor.history.readings import LastRead, StoredReading
from monitor.operations.collect import _with_notes_of
from monitor.warehouse.reader import Reading

SETTINGS = {"relation": "tickets", "score_is": "probability_of_label"}
SELECT = {"relation": "query 0123456789abcdef"}
FAILED = part_not_read("tickets", DELAYS_FAILED, Reason.RELATION_ERROR, "no column predicted_at")


def read(rows: int, *quality: object) -> Reading:
    return Reading("tickets", week("2026-W46", ZoneInfo("UTC")), {}, {}, 1.0, {}, quality, rows)  # type: ignore[arg-type]


def noted(reading: Reading, before: StoredReading, now: Settings = SETTINGS) -> list[str]:
    return [each.reason for each in _with_notes_of(reading, before, now, judges=False).quality]


@pytest.mark.parametrize(
    ("then", "now", "gone"),
    [
        (SETTINGS, SETTINGS, [ROWS_GONE]),
        (None, SETTINGS, [ROWS_GONE]),
        (SETTINGS, SETTINGS | {"relation": "tickets_v2"}, [ROWS_GONE]),
        (SETTINGS, SETTINGS | SELECT, []),
    ],
    ids=["as before", "not known how before", "a table of another name", "a filter"],
)
def test_rows_are_not_gone_where_a_filter_leaves_them_out(
    then: Settings | None, now: Settings, gone: list[str]
) -> None:
    assert noted(read(200), StoredReading("tickets", rows=620, settings=then), now) == gone
    assert noted(read(400), StoredReading("tickets", rows=620, settings=then), now) == []


def test_rows_that_were_gone_already_are_still_said_to_be() -> None:
    before = StoredReading("tickets", rows=30, quality=(rows_gone("tickets", 620, 30),), settings=SETTINGS)
    assert noted(read(30), before) == [ROWS_GONE]
    assert noted(read(500), before) == []


def test_rows_are_compared_with_the_last_reading_that_did_not_fail_or_reject_them_if_its_settings_fit() -> None:
    failed = StoredReading("tickets", "relation_error", "no column", last_read=LastRead(620, SETTINGS))
    assert noted(read(200), failed) == [ROWS_GONE]
    assert noted(read(400), failed) == []
    assert noted(read(200), failed, SETTINGS | SELECT) == []
    few = StoredReading("tickets", rows=1, settings=SETTINGS, last_read=LastRead(620, SETTINGS))
    assert noted(read(0), few) == [ROWS_GONE]
    (note,) = _with_notes_of(read(0), few, SETTINGS, judges=True).quality
    assert rows_before([note]) == 620


def test_a_part_that_could_not_be_read_when_the_window_was_judged_stays_noted_once() -> None:
    before = StoredReading("tickets", rows=620, quality=(FAILED,), settings=SETTINGS)
    assert noted(read(640), before) == [DELAYS_FAILED]
    assert noted(read(640, FAILED), before) == [DELAYS_FAILED]
    assert _with_notes_of(read(640), before, SETTINGS, judges=True).quality == ()
