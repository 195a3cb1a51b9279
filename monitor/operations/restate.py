"""Windows that were judged again because truths came late: what is stored, and what they may change.

A rule with ``mature`` acts on such a window as on a new one, unless it has judged a newer window of the label. Any
other rule has acted on the window before. What people are told follows from the diagnosis of the newest window, which
takes the new verdicts into account.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from monitor.context import Monitor
from monitor.core.diagnoses import Diagnosis, DiagnosisState
from monitor.core.records import Reason, Window
from monitor.evaluation.evaluate import Evaluated
from monitor.operations import act as acting
from monitor.operations.collect import Collected
from monitor.operations.diagnose import diagnoses_of

_NOT_YET = (Reason.NOT_MATURE, Reason.UNRESOLVED_FAILED)


def record(monitor: Monitor, window: Window, evaluated: Sequence[Evaluated]) -> None:
    """Store estimates and verdicts of a window, before anything acts on them; former verdicts stay readable.

    How many truths they are based on is stored apart. If a run ends before that, the next one restates the window.
    """
    monitor.store.save_evaluation(
        window,
        [part.source for part in evaluated],
        [e for part in evaluated for e in part.estimates],
        [v for part in evaluated for v in part.verdicts],
        [s for part in evaluated for s in part.shifts],
        monitor.clock(),
        unread=[part.source for part in evaluated if part.problem and not part.estimates],
    )


def diagnose(monitor: Monitor, part: Evaluated, source: Collected) -> None:
    """Diagnose the restated windows of a source again, oldest first: each goes on from those before it."""
    for past, collected in zip(part.restated, source.restated, strict=True):
        diagnoses = with_known_troubles(monitor, past.window, diagnoses_of(monitor, past, collected.data.current))
        monitor.store.save_diagnoses(past.window, [past.source], diagnoses, monitor.clock())


def with_known_troubles(monitor: Monitor, window: Window, diagnoses: Sequence[Diagnosis]) -> list[Diagnosis]:
    """The diagnoses of a window, where a trouble that was found in it before stays if it cannot be judged again.

    Else it would read as over.
    """
    known = {(each.source, each.label): each for each in monitor.store.diagnoses(window) if each.is_trouble}
    return [
        known.get((each.source, each.label), each) if each.state is DiagnosisState.CANNOT_TELL else each
        for each in diagnoses
    ]


def act(monitor: Monitor, evaluated: Sequence[Evaluated], refusals: Mapping[str, str]) -> None:
    """Let restated windows change evidence, switches, oldest first, if the run may act.

    Then store how many truths each is based on, so that later runs do not restate it again. ``refusals`` are those of
    ``act.refusals_of``.
    """
    waiting_rules = {rule.id for rule in monitor.config.rules if rule.mature is not None}
    for past in (past for part in evaluated if not refusals[part.source] for past in part.restated):
        later = monitor.store.judged_after(past.window.schedule, past.source, past.window.start)
        acts = [
            v
            for v in past.verdicts
            if v.rule in waiting_rules and v.reason not in _NOT_YET and (v.rule, v.subject.label) not in later
        ]
        ids = {verdict.id for verdict in acts}
        corrections = [v for v in past.verdicts if v.id not in ids]
        acting.take_evidence(monitor, replace(past, verdicts=tuple(corrections)), judges=False)
        acting.switch_source(monitor, past.window, replace(past, verdicts=tuple(acts)), requested=False)
        monitor.store.save_maturities(past.maturity, monitor.clock())
