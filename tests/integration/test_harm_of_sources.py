"""The harm that a message about a source as a whole counts is that of its labels' switches, not of its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from monitor.alerting.incident_context import IncidentContext, excess_errors
from monitor.automation.harm import Harm
from monitor.core.records import Incident
from monitor.core.windows import week
from monitor.run import run_window
from tests.fakes.world import CONFIG, WEEKS, make_world

WHOLE = """\
  - {id: source-shortfall, metric: shortfall, where: automated, condition: above, threshold: 0.02, min_samples: 30,
     scope: source, severity: warning, actions: [slack]}
automation:"""


def test_a_source_whose_labels_were_on_is_not_said_to_have_been_off(tmp_path: Path) -> None:
    world = make_world(tmp_path, config=CONFIG.replace("automation:", WHOLE))
    for name in WEEKS[9:11]:
        with world.opened(lambda: week(name, monitor.config.zone).end + timedelta(hours=7)) as monitor:  # noqa: B023
            run_window(monitor, week(name, monitor.config.zone))
    with world.opened(lambda: week(WEEKS[11], monitor.config.zone).start + timedelta(hours=8)) as monitor:
        (about,) = [each for each in monitor.store.incidents() if each.rule == "source-shortfall"]
        assert about.label is None
        harm = harm_of(IncidentContext(monitor), about)
        assert harm is not None
        assert 0.9 < harm.on.share < 1  # on from the run of the week before, seven hours into the week
        assert harm.done > 0.9 * harm.excess > 0
        assert "automation was off" not in harm.sentence
        of_label = next(each for each in monitor.store.incidents() if each.rule == "automated-shortfall")
        other = harm_of(IncidentContext(monitor), of_label)
        assert other is not None
        assert other.on.share == harm.on.share


def harm_of(context: IncidentContext, incident: Incident) -> Harm | None:
    return context.finding(context.brief(incident)).harm


def test_small_labels_have_no_harm_of_their_own_that_is_stored(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    with world.opened(lambda: week(WEEKS[11], monitor.config.zone).start + timedelta(hours=8)) as monitor:
        run_window(monitor, week(WEEKS[10], monitor.config.zone))
        (incident,) = [each for each in monitor.store.incidents() if each.rule == "automated-shortfall"]
        verdict = monitor.store.verdict(incident.last_verdict)
        estimates = monitor.store.estimates(source=verdict.subject.source, label=verdict.subject.label)
        assert excess_errors(verdict, estimates) is not None
        of_small = replace(verdict, detail={**verdict.detail, "small_labels": 12})
        assert excess_errors(of_small, estimates) is None
