"""From which score a label could act at a past time: later publications undone give what was published then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.automation.acting_scores import NOT_KNOWN, PublishedScores
from monitor.automation.as_of import by_switch, time_on
from monitor.core.records import SwitchEvent
from monitor.history.store import Store
from monitor.history.thresholds import Publication, Publisher, Thresholds

START = datetime(2026, 11, 9, tzinfo=UTC)
END = START + timedelta(days=7)
BY = Publisher("r", "host", "ada")
LABELS = ("billing", "phishing", "refund")


def hour(n: float) -> datetime:
    return START + timedelta(hours=n)


def published(*entries: tuple[datetime, Thresholds, bool]) -> PublishedScores:
    """What a history holds after these alerts.yaml were published, by a run or (True) by a person."""
    with Store.from_url("sqlite://") as store:
        for place, (at, wanted, anyway) in enumerate(entries):
            store.publish_thresholds(wanted, at, Publisher(str(place), "host", "ada"), anyway=anyway, reason="x")
        return PublishedScores(store.thresholds(), store.publications())


def score_at(found: PublishedScores, label: str, at: datetime) -> float | None:
    (score,) = [s for since, until, s in found.spans("tickets", label, START, END) if since <= at < until]
    return score


def test_a_lower_score_that_nobody_has_published_is_not_acted_from():
    found = published((START, {("tickets", None): 0.9}, False), (hour(10), {("tickets", None): 0.8}, False))
    assert [entry.kind for entry in found.publications] == ["refused", "published"]
    assert found.spans("tickets", "billing", START, END) == [(START, END, 0.9)]


def test_a_raised_score_counts_from_its_run_on_and_before_the_first_one_the_gate_is_closed():
    found = published((hour(5), {("tickets", None): 0.8}, False), (hour(30), {("tickets", None): 0.9}, False))
    assert found.spans("tickets", "billing", START, END) == [
        (START, hour(5), None), (hour(5), hour(30), 0.8), (hour(30), END, 0.9)
    ]  # fmt: skip
    assert NOT_KNOWN.spans("tickets", "billing", START, END) == []


@pytest.mark.parametrize("seed", range(12))
def test_undoing_publications_gives_what_was_published_at_every_time(seed: int):
    rng = np.random.default_rng(seed)
    entries: list[tuple[datetime, Thresholds, bool]] = []
    for place in range(6):
        keys = [("tickets", None), *(("tickets", label) for label in LABELS if rng.random() < 0.5)]
        if rng.random() < 0.2:
            keys = [("mail", None)]
        entries.append((hour(place * 20 - 15), {key: round(float(rng.random()), 6) for key in keys}, True))
    found = published(*entries)
    for at in (hour(n) for n in range(0, 160, 7)):
        wanted = next(wanted for since, wanted, _ in reversed(entries) if since <= at)
        for label in LABELS:
            assert score_at(found, label, at) == wanted.get(("tickets", label), wanted.get(("tickets", None)))


def test_time_without_a_published_score_is_off_and_scores_have_their_shares_of_the_time_on():
    on = SwitchEvent(
        "k", "tickets", "billing", hour(-1), "enabled", "off", "on", "ada", "fine", lease_until=END + timedelta(days=1)
    )
    found = published((hour(42), {("tickets", None): 0.8}, False), (hour(84), {("tickets", None): 0.9}, False))
    on_then = time_on(by_switch([on]), ("tickets", "billing"), START, END, found)
    assert on_then.share == pytest.approx(0.75)
    assert dict(on_then.scores) == pytest.approx({0.8: 0.25, 0.9: 0.5})
    assert time_on(by_switch([on]), ("tickets", "billing"), START, END).scores == ()


def test_an_entry_that_changed_nothing_of_a_source_is_left_out():
    other = Publication(2, "published", BY, hour(3), "", ())
    assert PublishedScores({("tickets", None): 0.7}, [other]).spans("tickets", "x", START, END) == [(START, END, 0.7)]
