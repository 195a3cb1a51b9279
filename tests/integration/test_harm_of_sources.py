"""The harm that a message about a source as a whole counts is that of its labels' switches, not of its own."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.alerting.incident_context import IncidentContext, excess_errors
from monitor.automation.harm import Harm
from monitor.core.records import Incident
from monitor.core.windows import week
from monitor.report.collect import collect_report
from monitor.run import run_window
from tests.fakes.in_process import in_process
from tests.fakes.world import CONFIG, WEEKS, make_world

WHOLE = """\
  - {id: source-overconfidence, metric: overconfidence, where: automated, condition: above, threshold: 0.02,
     min_samples: 30, scope: source, severity: warning, actions: [slack]}
automation:"""


def test_a_source_whose_labels_were_on_is_not_said_to_have_been_off(tmp_path: Path) -> None:
    world = make_world(tmp_path, config=CONFIG.replace("automation:", WHOLE))
    for name in WEEKS[9:11]:
        with world.opened(lambda: week(name, monitor.config.zone).end + timedelta(hours=7)) as monitor:  # noqa: B023
            run_window(monitor, week(name, monitor.config.zone))
    with world.opened(lambda: week(WEEKS[11], monitor.config.zone).start + timedelta(hours=8)) as monitor:
        (about,) = [each for each in monitor.store.incidents() if each.rule == "source-overconfidence"]
        assert about.label is None
        harm = harm_of(IncidentContext(monitor), about)
        assert harm is not None
        assert 0.9 < harm.on.share < 1  # on from the run of the week before, seven hours into the week
        assert harm.done > 0.9 * harm.excess > 0
        assert "automation was off" not in harm.sentence
        of_label = next(each for each in monitor.store.incidents() if each.rule == "automated-overconfidence")
        other = harm_of(IncidentContext(monitor), of_label)
        assert other is not None
        assert other.on.share == harm.on.share


def test_the_whole_has_what_its_labels_had_while_on_in_the_report_the_message_and_the_tile(tmp_path: Path) -> None:
    """A run turned "slipping" off, which has nearly all errors of the source; the other labels stayed on."""
    world = make_world(tmp_path, config=CONFIG.replace("automation:", WHOLE))
    clock = [datetime(2026, 9, 2, tzinfo=UTC)]
    with world.opened(lambda: clock[0]) as monitor:
        for name in WEEKS[9:12]:
            window = week(name, monitor.config.zone)
            clock[0] = window.end + timedelta(hours=7)
            run_window(monitor, window)
        subjects = collect_report(monitor.store, monitor.config, window, clock[0]).subjects
        harms = {each.subject.label: each.detail.harm for each in subjects if each.detail and each.detail.harm}
        (about,) = [each for each in monitor.store.incidents() if each.rule == "source-overconfidence"]
        in_message = harm_of(IncidentContext(monitor), about)
    whole = harms.pop(None)
    assert 0 < harms["slipping"].on.share < 0.1 < harms["steady"].on.share
    made = sum(harm.done for harm in harms.values())
    assert abs(made) < 0.3 * whole.excess
    assert whole.done == pytest.approx(made)
    assert in_message is not None
    assert in_message.done == pytest.approx(made)
    assert in_message.short == whole.short
    with in_process(world.settings(), clock=lambda: clock[0]) as asked:
        page = asked.get("/").text
        rows = csv.DictReader(io.StringIO(asked.get("/automation?csv=weeks").text))
        (row,) = [each for each in rows if each["span"] == WEEKS[11]]
    assert float(row["extra_errors"]) == pytest.approx(made)
    sign = "" if round(made) <= 0 else "+"
    tile = page.split("Extra errors while on", 1)[1][:300]
    assert re.search(rf">{re.escape(f'{sign}{made:,.0f}'.replace('-', '−'))}<", tile), tile


def harm_of(context: IncidentContext, incident: Incident) -> Harm | None:
    return context.finding(context.brief(incident)).harm


def test_small_labels_have_no_harm_of_their_own_that_is_stored(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    with world.opened(lambda: week(WEEKS[11], monitor.config.zone).start + timedelta(hours=8)) as monitor:
        run_window(monitor, week(WEEKS[10], monitor.config.zone))
        (incident,) = [each for each in monitor.store.incidents() if each.rule == "automated-overconfidence"]
        verdict = monitor.store.verdict(incident.last_verdict)
        estimates = monitor.store.estimates(source=verdict.subject.source, label=verdict.subject.label)
        assert excess_errors(verdict, estimates) is not None
        of_small = replace(verdict, detail={**verdict.detail, "small_labels": 12})
        assert excess_errors(of_small, estimates) is None
