"""The acting stage: verdicts, already stored, become switch changes, incidents and messages.

The switch acts before Slack, so that a slow Slack never keeps automation on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from monitor.alerting import compose
from monitor.alerting.compose import Composed
from monitor.alerting.notices import messages_of
from monitor.automation.as_of import Key
from monitor.automation.evidence import with_verdict
from monitor.automation.label_evidence import known_of
from monitor.automation.switch import Evidence, after_run
from monitor.config.model import Config
from monitor.context import ActMode, Monitor, known_now
from monitor.core.diagnoses import Diagnosis
from monitor.core.records import (
    Action,
    ActionKind,
    Incident,
    IncidentReason,
    RuleEvidence,
    SwitchState,
    Verdict,
    Window,
)
from monitor.core.windows import are_same
from monitor.core.wording import clean
from monitor.evaluation.evaluate import Evaluated
from monitor.incidents.findings import decisions, gone, recalled_from
from monitor.incidents.life import retire

CONFLICT_RETRIES = 5
NO_ROUTE, NO_INCIDENT = "not sent: no route matches", "none, no incident is open"


def refusals_of(monitor: Monitor, window: Window, names: Sequence[str], mode: ActMode) -> Mapping[str, str]:
    """By source, why this run may not act on it; "" if it may.

    A window older than the newest evaluated one acts only with ``--act``.
    """
    refusals = {}
    for name in names:
        newest = monitor.store.newest_evaluated(window.schedule, name)
        old = newest is not None and window.start < newest and not are_same(window.schedule, window.start, newest)
        refusals[name] = "not done: backfill" if mode == "never" else ""
        if mode == "auto" and old:
            refusals[name] = "not done: a newer window has been evaluated (--act overrides)"
    return refusals


def actions_of(evaluated: Sequence[Evaluated], state_of: Callable[[ActionKind, str, str | None], str]) -> list[Action]:
    """Every action that verdicts ask for, once for each (kind, source, label), with its state."""
    asked = (
        (kind, v.subject.source, v.subject.label) for part in evaluated for v in part.verdicts for kind in v.actions
    )
    return [Action(*key, state_of(*key)) for key in dict.fromkeys(asked)]


def act(
    monitor: Monitor,
    window: Window,
    evaluated: Sequence[Evaluated],
    diagnoses: Sequence[Diagnosis],
    refusals: Mapping[str, str],
    *,
    requested: bool = False,
) -> list[Action]:
    """Change switches by the verdicts, then open, continue or resolve incidents by the diagnoses; returns the actions.

    A state of "" is that of the message of the incident, which is sent later.

    ``requested`` is ``--act``: the switch then takes an older window as evidence too. ``refusals`` are those of
    :func:`refusals_of`. A window that may not act changes no switch, but its outcomes are stored as evidence: they may
    be the last of a rule.
    """
    allowed = [part for part in evaluated if not refusals[part.source]]
    for part in evaluated:
        if refusals[part.source]:
            take_evidence(monitor, part, judges=False)
    states = {key: state for part in allowed for key, state in switch_source(monitor, window, part, requested).items()}
    names = {part.source for part in allowed}
    incidents = _incidents(monitor, allowed, [each for each in diagnoses if each.source in names])
    explained = {d.source: f"told with {clean(d.notes.explained_by[0])}" for d in diagnoses if d.notes.explained_by}

    def state_of(kind: ActionKind, source: str, label: str | None) -> str:
        if refusals[source] or kind != "slack":
            return refusals[source] or states.get((source, label), "nothing to change")
        return explained.get(source, "") if label is None and (source, label) not in incidents else ""

    return actions_of(evaluated, state_of)


def switch_source(monitor: Monitor, window: Window, part: Evaluated, requested: bool) -> dict[Key, str]:
    """Apply the acting rules' verdicts of one source, label by label; returns each result in words.

    Only a rule of ``scope: source`` changes the source's own switch. If a source cannot be read and none of its labels
    is known, each rule has one verdict, which is about no label.
    """
    by_label, known = _by_label(monitor, part), take_evidence(monitor, part)
    begun = monitor.store.run_of(window, part.source)
    again = begun is not None and begun["attempts"] > 1
    switches = {each.label: each for each in monitor.store.switches() if each.source == part.source}
    done = {}
    for label, verdicts in by_label.items():
        found = evidence_of(window, verdicts, requested, known[label])
        evidence = replace(found, again=again, zone=monitor.config.zone)
        before = switches.get(label, SwitchState(part.source, label))
        done[part.source, label] = _switch_label(monitor, evidence, before)
    return done


def _by_label(monitor: Monitor, part: Evaluated) -> dict[str | None, list[Verdict]]:
    """The verdicts of the acting rules by label; None is the source's own switch."""
    scopes = {rule.id: rule.scope for rule in monitor.config.rules if rule.acts}
    by_label: dict[str | None, list[Verdict]] = {}
    for verdict in part.verdicts:
        scope = scopes.get(verdict.rule)
        if scope is not None and (scope == "source") == (verdict.subject.label is None):
            by_label.setdefault(verdict.subject.label, []).append(verdict)
    return by_label


def take_evidence(
    monitor: Monitor, part: Evaluated, *, judges: bool = True
) -> dict[str | None, tuple[RuleEvidence, ...]]:
    """Add the verdicts of a source to the stored evidence on each label, before any switch changes; returns it.

    A rule that is no longer in alerts.yaml does not count, although its row stays. Without ``judges`` (a backfill, or
    an older window, which may change no switch) only outcomes are added, since they may be the last evaluated ones of a
    rule: ``judged_until``, which limits leases, does not change. Raises RuntimeError where others keep changing it.
    """
    source, by_label = part.source, _by_label(monitor, part)
    for _ in range(CONFLICT_RETRIES):
        stored = {(each.label, each.rule): each for each in monitor.store.evidence(source)}
        states = {each.label: each for each in monitor.store.switches() if each.source == source}
        before = {
            label: known_of(monitor.config, states.get(label, SwitchState(source, label)), stored, monitor.clock())
            for label in by_label
        }
        after = {label: _with_verdicts(known, by_label[label], judges) for label, known in before.items()}
        changed = [
            new
            for label, known in after.items()
            for old, new in zip(before[label], known, strict=True)
            if new != old or (judges and not new.version)
        ]
        if monitor.store.save_evidence(source, changed) == "applied":
            saved = set(map(id, changed))
            return {
                label: tuple(replace(e, version=e.version + 1) if id(e) in saved else e for e in known)
                for label, known in after.items()
            }
    raise RuntimeError(f"the evidence of {source} kept changing under {CONFLICT_RETRIES} tries; run again")


def _with_verdicts(known: Sequence[RuleEvidence], verdicts: Sequence[Verdict], judges: bool) -> list[RuleEvidence]:
    by_rule = {verdict.rule: verdict for verdict in verdicts}
    judged = [with_verdict(each, by_rule[each.rule]) if each.rule in by_rule else each for each in known]
    return judged if judges else [replace(n, judged_until=o.judged_until) for n, o in zip(judged, known, strict=True)]


def evidence_of(
    window: Window, verdicts: Sequence[Verdict], requested: bool, known: Sequence[RuleEvidence] = ()
) -> Evidence:
    """The evidence that is given to the switch of one label."""
    digest = hashlib.sha256(" ".join(sorted(v.id for v in verdicts)).encode()).hexdigest()[:12]
    return Evidence(
        window.end, window.schedule, tuple(verdicts), f"{window.schedule}:{window.name}:{digest}", requested, known
    )


def _switch_label(monitor: Monitor, evidence: Evidence, before: SwitchState) -> str:
    source, label = before.source, before.label
    settings, automation = monitor.config.sources[source], monitor.config.automation
    critical = settings.any_critical if label is None else settings.is_critical(label)
    dry = "dry run: " if automation.dry_run else ""
    for _ in range(CONFLICT_RETRIES):
        decision = after_run(before, evidence, automation, critical=critical, now=monitor.clock())
        if decision.event is None:
            return dry + decision.reason
        done = monitor.store.apply_switch(
            before, decision.after, decision.event, once=decision.once, evidence=evidence.known
        )
        if done != "conflict":
            return dry + decision.reason
        before = monitor.store.switch(source, label)
        evidence = replace(evidence, known=known_now(monitor.store, monitor.config, source, label, monitor.clock()))
    raise RuntimeError(f"the switch of {source}/{label} kept changing under {CONFLICT_RETRIES} tries; run again")


def _incidents(monitor: Monitor, parts: Sequence[Evaluated], diagnoses: Sequence[Diagnosis]) -> dict[Key, Incident]:
    """The open incident of each label of these sources, after what the diagnoses change.

    Decisions, their events and their messages are stored in one transaction. Raises Contended after too many tries.
    """
    if not parts:
        return {}
    verdicts = {verdict.id: verdict for part in parts for verdict in part.verdicts}
    others = {id for each in diagnoses for id in each.because} - set(verdicts)
    since = recalled_from(min(part.window.end for part in parts))
    read, config = {part.source for part in parts if not part.problem}, monitor.config
    why = "alerts.yaml has no rule for it any more; whether it is good again is not known"
    known: list[Incident] = []

    def make() -> Composed:
        now, known[:] = monitor.clock(), monitor.store.unresolved_incidents(since=since)
        lost = {each.source for each in known if each.source not in config.sources}
        watched = {
            (part.source, label)
            for part in parts
            for label in {v.subject.label for v in part.verdicts} | {i.label for i in known if i.source == part.source}
            if _is_watched(config, part.source, label)
        }
        made = [retire(each, why, now) for each in gone(known, watched, read | lost)]
        over = {each.incident.id for each in made if each.incident is not None}
        rests_on = verdicts | monitor.store.verdicts_by_id(sorted(others))
        for source in (part.source for part in parts):
            of_source = [each for each in diagnoses if each.source == source]
            left = [each for each in known if each.source == source and each.id not in over]
            made += decisions(of_source, rests_on, left, now)
        return compose.compose(monitor, made)

    made = compose.stored(monitor, make)
    now = {each.id: each for each in (*known, *made.incidents)}
    return {(i.source, label): i for i in now.values() if i.is_open for label in i.labels or (i.label,)}


def _is_watched(config: Config, source: str, label: str | None) -> bool:
    """Whether any rule of alerts.yaml is about a label, or (None) about the source as a whole."""
    settings = config.sources[source]
    critical = settings.any_critical if label is None else settings.is_critical(label)
    return any(rule.applies_to(source, label, critical=critical) for rule in config.rules)


def settled(monitor: Monitor, actions: Sequence[Action]) -> list[Action]:
    """The actions with their results; where a state is "", that of the message of the incident."""
    # read now: a message that waited for a token or a route is posted as another one
    since, asked = recalled_from(monitor.clock()), any(not each.state for each in actions)
    known = sorted(monitor.store.unresolved_incidents(since=since), key=lambda i: i.is_open) if asked else []
    newest_of = {(i.source, label): i for i in known for label in i.labels or (i.label,)}
    ids = {key: messages_of(monitor.config, each) for key, each in newest_of.items() if each.is_open}
    posts = monitor.store.delivery_roots({each for found in ids.values() for each in found})

    def state_of(each: Action) -> str:
        if each.state:
            return each.state
        incident, found = newest_of.get((each.source, each.label)), ids.get((each.source, each.label))
        if found is not None:
            return next((compose.delivery_words(posts[id]) for id in found if id in posts), NO_ROUTE)
        if incident is not None and incident.last == IncidentReason.RESOLVED_BY_HAND:
            return f"none, resolved by {clean(incident.resolved_by or '')}; new rows bring it back"
        return NO_INCIDENT

    return [replace(each, state=state_of(each)) for each in actions]
