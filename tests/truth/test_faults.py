"""The faults that were once seen, each put back: the truth checker must find a false claim.

The numbers are the lines of "Seen" in the issue that asked for the checker. Four lines are about what the system does, not
about a sentence that it says of a stored fact, and have tests of their own: 12 (pooled windows)
tests/unit/alerting/test_incidents.py and test_comparisons.py; 15 (any baseline) tests/integration/test_baseline_checks.py; 16 (a
yes from the past) tests/integration/test_gate_past.py, test_archive.py, test_thresholds.py and
tests/properties/test_switch_machine.py; 17 (pages that were untrue) tests/unit/docs/test_configuration_docs.py.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from monitor.alerting import compose, incident_context, incidents, switch_line
from monitor.alerting.health import issues, watchdog
from monitor.alerting.health import message as of_monitor
from monitor.alerting.slack import incident_message, labels
from monitor.alerting.slack.labels import SwitchLine
from monitor.alerting.slack.links import Links
from monitor.automation import evidence
from monitor.automation.harm import TimeOn
from monitor.core import wording
from monitor.core.records import Delivery
from monitor.core.source_settings import SettingChange
from monitor.operations import collect as reading
from monitor.report import explanation
from tests.truth.checker import shows

SEEDS = range(12)
#: The seed whose history shows a fault soonest, where it is not the first: tried first, to be quick.
KNOWN = {
    "1-resolved_at_the_peak": 2, "2-forgotten_evidence": 3,
    "7-still_on": 7,
    "7-a_change_in_the_terminal_edits_nothing": 4, "7-resolved_beside_another_channel": 12,
    "14-healthy_with_nothing_judged": 9, "window_of_the_whole_label": 4,
    "buttons_that_nobody_answers_unsaid": 1, "settings_of_the_other_way_round": 1, "waiting_items_for_delays": 5,
    "rows_that_a_filter_leaves_out_are_gone": 13, "a_rule_by_each_of_its_incidents": 3,
    "a_restored_history_unsaid": 1004,
    "flows_that_fail_unsaid": 1000,
    "changes_are_messages_that_slack_refused": 1000, "only_the_last_reasons": 1000,
    "the_class_mix_of_the_other_way_round": 1000, "a_muted_rise_is_advised_to_be_muted": 1006,
}  # fmt: skip


def everywhere(patch: pytest.MonkeyPatch, old: Any, new: Any) -> None:
    """Replace a function wherever a module holds it."""
    for name, module in list(sys.modules.items()):
        if name.startswith("monitor") and module is not None:
            for key, value in list(vars(module).items()):
                if value is old:
                    patch.setattr(module, key, new)


def resolved_at_the_peak(patch: pytest.MonkeyPatch) -> None:
    """Above the limit, not confirmed, is a good window."""
    real = incidents._not_judged

    def not_judged(verdict: Any, incident: Any) -> Any:
        if verdict.outcome == "unconfirmed" and incident.state != "resolved":
            return incidents._after_ok(verdict, incident, verdict.window.end)
        return real(verdict, incident)

    patch.setattr(incidents, "_not_judged", not_judged)


def forgotten_evidence(patch: pytest.MonkeyPatch) -> None:
    """What another rule found is not known any more when a good window or a person comes."""
    everywhere(patch, evidence.breaches_of, lambda *_, **__: [])


def harm_that_never_happened(patch: pytest.MonkeyPatch) -> None:
    """Items count as wrong decisions of automation while it was off."""
    patch.setattr(incident_context, "time_on", lambda *_, **__: TimeOn(1.0))


def still_on(patch: pytest.MonkeyPatch) -> None:
    """An operator's enable is "automation is on": not who, why, until when."""
    patch.setattr(switch_line, "_on", lambda *_, **__: SwitchLine("Automation is on", "on"))


def resolved_beside_another_channel(patch: pytest.MonkeyPatch) -> None:
    """A message knows only the incidents of its own route."""
    patch.setattr(compose._Composer, "_open_elsewhere", lambda *_: {})


def a_rule_by_each_of_its_incidents(patch: pytest.MonkeyPatch) -> None:
    """A rule that was resolved and failed again is named under both."""

    def others(label: labels.LabelFindings, *, failing: bool) -> str:
        states = [now for now in labels.Now if failing or now != labels.Now.IN_BREACH]
        names = {now: [each.incident.rule for each in label.findings[1:] if each.now == now] for now in states}
        return " ".join(f"{labels._OTHERS[now]}: {', '.join(rules)}." for now, rules in names.items() if rules)

    patch.setattr(labels.LabelFindings, "others", others)


def header_of_the_first_week(patch: pytest.MonkeyPatch) -> None:
    """Header and link stay at the first window."""

    def first(found: Any, schedule: str | None = None) -> Any:
        seen = [each.verdict.window for each in found if schedule in (None, each.verdict.window.schedule)]
        opened = {each.incident.opened_window for each in found}
        named = [each for each in seen if each.name in opened]
        return min(named or seen, key=lambda window: window.end, default=None)

    everywhere(patch, labels.newest_window, first)


def a_change_in_the_terminal_edits_nothing(patch: pytest.MonkeyPatch) -> None:
    """A message goes on saying what a switch was."""
    everywhere(patch, compose.show_switches, lambda *_, **__: [])


def dead_links(patch: pytest.MonkeyPatch) -> None:
    """A page of the documents is linked as a file of the repository below the dashboard."""
    patch.setattr(Links, "page", lambda self, name: self.dashboard and f"{self.dashboard.rstrip('/')}/docs/{name}.md")


def reminders_without_ids(patch: pytest.MonkeyPatch) -> None:
    """A reminder names no id to acknowledge."""
    real = incident_message.repeat_message

    def without(*args: Any, **kwargs: Any) -> Any:
        return json.loads(re.sub(r": (?:`[0-9a-f]{8}`(?:, )?)+", "", json.dumps(real(*args, **kwargs))))

    everywhere(patch, real, without)


def what_is_on_stays_on(patch: pytest.MonkeyPatch) -> None:
    """A fixed sentence, whatever leases there are."""
    told = "Automation is on for 3 labels; without an evaluation it ends 2026-01-21 00:00 UTC."
    everywhere(patch, of_monitor.automation_now, lambda *_, **__: told)


def window_of_the_whole_label(patch: pytest.MonkeyPatch) -> None:
    """The window alone of a verdict on a segment is that of all rows of the label."""
    real = explanation._of_window_alone

    def whole(verdict: Any, stored: Any) -> Any:
        detail = {name: value for name, value in verdict.detail.items() if name != "segment"}
        return real(replace(verdict, detail=detail), stored)

    patch.setattr(explanation, "_of_window_alone", whole)


def rejected_rows_unsaid(patch: pytest.MonkeyPatch) -> None:
    """Health does not look at what could not be judged."""
    everywhere(patch, issues.findings, _without("rejected_rows", "nothing_judged"))


def buttons_that_nobody_answers_unsaid(patch: pytest.MonkeyPatch) -> None:
    """Health does not look at the listener."""
    everywhere(patch, issues.findings, _without("listener_silent"))


def settings_of_the_other_way_round(patch: pytest.MonkeyPatch) -> None:
    """What has changed since a baseline was pinned is named as if it had been so before."""
    patch.setattr(SettingChange, "__str__", lambda self: f"{self.name}: {self.now} then, {self.then} now")


def waiting_items_for_delays(patch: pytest.MonkeyPatch) -> None:
    """Whatever could not be read, the waiting items are named."""
    everywhere(patch, wording.missing_part, lambda _: "which items wait for their truth")


def rows_that_a_filter_leaves_out_are_gone(patch: pytest.MonkeyPatch) -> None:
    """Fewer rows under another filter are rows that are gone."""
    real = reading._gone
    patch.setattr(reading, "_gone", lambda now, before, _: real(now, replace(before, settings=None), {}))


def a_restored_history_unsaid(patch: pytest.MonkeyPatch) -> None:
    """Health does not look at whether the history is confirmed."""
    everywhere(patch, issues.findings, _without("history_restored"))


def flows_that_fail_unsaid(patch: pytest.MonkeyPatch) -> None:
    """Health does not look at the notes of the flows."""
    everywhere(patch, issues.findings, _without("flow_failed", "watchdog_silent", "runs_waiting"))


def changes_are_messages_that_slack_refused(patch: pytest.MonkeyPatch) -> None:
    """What was never tried, since its message was refused, counts as refused."""
    patch.setattr(Delivery, "ended_with_its_message", property(lambda _: False))


def only_the_last_reasons(patch: pytest.MonkeyPatch) -> None:
    """What a trouble was at its end is said of all its time."""
    patch.setattr(watchdog.WatchRound, "_reasons", lambda _, incident: list(incident.reasons))


def the_class_mix_of_the_other_way_round(patch: pytest.MonkeyPatch) -> None:
    """The share of true items is that of the baseline, and that of the baseline the present one."""
    real = wording._mix_words

    def turned(verdict: Any) -> str:
        mix = dict(verdict.detail["class_mix"])
        mix["now"], mix["then"] = mix["then"], mix["now"]
        return real(replace(verdict, detail={**verdict.detail, "class_mix": mix}))

    everywhere(patch, real, turned)


def a_muted_rise_is_advised_to_be_muted(patch: pytest.MonkeyPatch) -> None:
    """The advice is that of a breach, whether the rule leaves such a rise out or not."""
    real = wording.advice
    everywhere(patch, real, lambda verdict: real(replace(verdict, outcome="breach")))


def healthy_with_nothing_judged(patch: pytest.MonkeyPatch) -> None:
    """Health is about runs only."""
    everywhere(
        patch,
        issues.findings,
        _without("nothing_judged", "scores_moved", "rejected_rows", "source_not_read", "data_stale"),
    )


def _without(*reasons: str) -> Callable[..., Any]:
    real = issues.findings
    return lambda *args, **kwargs: [f for f in real(*args, **kwargs) if f.reason.value not in reasons]


@dataclass(frozen=True)
class Fault:
    """How a fault is put back, and of which kinds the false claims are that show it."""

    put_back: Callable[[pytest.MonkeyPatch], None]
    kinds: frozenset[str]


def fault(put_back: Callable[[pytest.MonkeyPatch], None], *kinds: str) -> Fault:
    return Fault(put_back, frozenset(kinds))


FAULTS = {
    "1-resolved_at_the_peak": fault(
        resolved_at_the_peak, "within the limit", "outcome behind the news", "contract", "outcome behind it"
    ),
    "2-forgotten_evidence": fault(forgotten_evidence, "contract"),
    "6-harm_that_never_happened": fault(harm_that_never_happened, "harm by the time automation was on"),
    "7-still_on": fault(still_on, "enabled by whom"),
    "7-header_of_the_first_week": fault(header_of_the_first_week, "newest window", "linked week"),
    "7-a_change_in_the_terminal_edits_nothing": fault(
        a_change_in_the_terminal_edits_nothing, "message as shown", "message as shown: by whom"
    ),
    "7-resolved_beside_another_channel": fault(resolved_beside_another_channel, "headline", "resolved in part"),
    "a_rule_by_each_of_its_incidents": fault(a_rule_by_each_of_its_incidents, "other rule", "each other rule once"),
    "8-dead_links": fault(dead_links, "link"),
    "8-reminders_without_ids": fault(reminders_without_ids, "id in a reminder"),
    "9-what_is_on_stays_on": fault(what_is_on_stays_on, "labels that act alone"),
    "13-rejected_rows_unsaid": fault(rejected_rows_unsaid, "nothing to say of what could not be judged"),
    "14-healthy_with_nothing_judged": fault(healthy_with_nothing_judged, "anything judged", "newest reading"),
    "buttons_that_nobody_answers_unsaid": fault(buttons_that_nobody_answers_unsaid, "whether buttons are answered"),
    "settings_of_the_other_way_round": fault(settings_of_the_other_way_round, "what was edited since"),
    "waiting_items_for_delays": fault(waiting_items_for_delays, "part that a rule needs"),
    "rows_that_a_filter_leaves_out_are_gone": fault(
        rows_that_a_filter_leaves_out_are_gone, "contract", "rows that are gone"
    ),
    "a_restored_history_unsaid": fault(a_restored_history_unsaid, "what is wrong with the monitor"),
    "flows_that_fail_unsaid": fault(flows_that_fail_unsaid, "what is wrong with the monitor"),
    "changes_are_messages_that_slack_refused": fault(changes_are_messages_that_slack_refused, "messages"),
    "only_the_last_reasons": fault(only_the_last_reasons, "what it was"),
    "the_class_mix_of_the_other_way_round": fault(the_class_mix_of_the_other_way_round, "true items"),
    "a_muted_rise_is_advised_to_be_muted": fault(a_muted_rise_is_advised_to_be_muted, "advice"),
    "window_of_the_whole_label": fault(window_of_the_whole_label, "this window alone"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_is_put_back_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    FAULTS[name].put_back(monkeypatch)
    for seed in dict.fromkeys((KNOWN.get(name, SEEDS[0]), *SEEDS)):
        false = shows(seed, FAULTS[name].kinds)
        if false is not None:
            record_property("seed", seed)
            return
    pytest.fail(f"no false claim of {sorted(FAULTS[name].kinds)} in {len(SEEDS)} histories")
