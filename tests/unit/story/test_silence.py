"""What is said of a silence: until when, by whom, and that a worse trouble ends it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from monitor.core.records import Incident
from monitor.story.incident import silence_words, state_words
from monitor.story.label import people_words

FRIDAY = datetime(2026, 12, 4, 8, tzinfo=UTC)
SILENT = Incident(
    id="1", kind="label", source="tickets", label="billing", severity="warning", state="silenced", opened_at=FRIDAY,
    opened_window="2026-W47", window="2026-W48", window_end=FRIDAY, seen_until=FRIDAY, reason="miscalibrated",
    last="opened", silenced_until=FRIDAY, silenced_by="ann",
)  # fmt: skip


def test_it_says_that_a_worse_trouble_ends_it():
    words = "silenced until Fri 2026-12-04 08:00 UTC, or until it becomes more severe, by ann"
    assert (silence_words(SILENT), state_words(SILENT), people_words(SILENT)) == (words, words, words)


def test_nothing_is_more_severe_than_critical():
    assert silence_words(replace(SILENT, severity="critical")) == "silenced until Fri 2026-12-04 08:00 UTC, by ann"


def test_without_a_silence_there_is_nothing_to_say():
    assert silence_words(replace(SILENT, state="open")) == ""
