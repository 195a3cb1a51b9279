"""What is told when an evaluation could not judge something: which sources, and what that did to automation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monitor.adapters import Monitor
from monitor.alerts.message import delivery_of, unjudged_message
from monitor.alerts.words import clean, count_of, moment
from monitor.automation.state import effective
from monitor.evaluation import Evaluated
from monitor.records import Delivery, SwitchEvent, Window
from monitor.rules.model import Route

ERROR_LENGTH, LABELS_NAMED = 300, 20
_READ = (
    "run `calmon check`: it names what is wrong with a source. Mend that, then run the same window again: "
    "it is judged as if nothing had happened."
)
_ENABLE = (
    "see why nothing could be judged (`calmon explain` of the label's verdicts); "
    "then `calmon automation enable`, or let good windows do it where `re_enable` says so."
)


def unjudged(monitor: Monitor, window: Window, parts: Sequence[Evaluated]) -> list[Delivery]:
    """One pending message a route: sources that could not be read, labels turned off since nothing could be judged.

    The same window run again with the same result gives the same message, so it comes once.
    """
    routes: dict[int, list[Evaluated]] = {}
    for part in parts:
        route = monitor.config.route_for(severity="critical", source=part.source, label=None, rule="")
        if route is not None:
            routes.setdefault(monitor.config.routes.index(route), []).append(part)
    made = [_message(monitor, window, mine, monitor.config.routes[i], len(parts)) for i, mine in sorted(routes.items())]
    return [each for each in made if each is not None]


def is_told(monitor: Monitor, window: Window, parts: Sequence[Evaluated]) -> bool:
    """Whether every source that could not be read stands in a stored message.

    It does not where the run might not act (an older window), or where no route takes what is critical.
    """
    routed = [
        monitor.config.route_for(severity="critical", source=part.source, label=None, rule="")
        for part in parts if part.problem is not None
    ]  # fmt: skip
    stored = {delivery.id for delivery in monitor.store.deliveries(files=False)}
    made = {delivery.id for delivery in unjudged(monitor, window, parts)}
    return bool(made) and None not in routed and made <= stored


def _message(
    monitor: Monitor, window: Window, parts: Sequence[Evaluated], route: Route, sources: int
) -> Delivery | None:
    failed = [part for part in parts if part.problem is not None]
    off = {part.source: labels for part in parts if (labels := turned_off(monitor, window, part.source))}
    if not failed and not off:
        return None
    lines = [_failed(monitor, part) for part in failed] + [_off(source, labels) for source, labels in off.items()]
    title = f"{len(failed)} of {count_of(sources, 'source')} could not be read" if failed else "automation turned off"
    payload = unjudged_message(
        lines, title=title, do_now=_READ if failed else _ENABLE, window=window, channel=route.channel,
        key=_key(failed, off), mention=route.mention,
        page=f"docs/runbook/{failed[0].problem.value}.md" if failed and failed[0].problem else "docs/switch.md",
        public_url=monitor.settings.public_url,
    )  # fmt: skip
    return delivery_of(payload, kind="monitor", now=monitor.clock())


def _key(failed: Sequence[Evaluated], off: Mapping[str, Sequence[SwitchEvent]]) -> str:
    what = [f"{part.source} {part.problem}" for part in failed]
    labels = [(source, sorted(str(event.label) for event in events)) for source, events in off.items()]
    return repr((sorted(what), sorted(labels)))


def turned_off(monitor: Monitor, window: Window, source: str) -> list[SwitchEvent]:
    """The labels that this window's evaluation turned off since none of their acting rules could be judged."""
    events = monitor.store.switch_events_of(f"{window.schedule}:{window.name}:")
    return [
        e for e in events if e.source == source and e.kind == "disabled" and e.reason.startswith("not evaluated: ")
    ]  # fmt: skip


def _failed(monitor: Monitor, part: Evaluated) -> str:
    reason = part.problem.value.replace("_", " ") if part.problem else ""
    told = f"{clean(part.source)} could not be read ({reason}): {clean(part.error, ERROR_LENGTH).rstrip('.')}"
    return f"{told}. {_meaning(monitor, part)}"


def _meaning(monitor: Monitor, part: Evaluated) -> str:
    """What that does to the labels that are on."""
    if monitor.config.automation.when_not_evaluated == "disable":
        return "What may not act unwatched has been turned off."
    now = monitor.clock()
    mine = [state for state in monitor.store.switches() if state.source == part.source]
    whole = next((state for state in mine if state.label is None), None)
    leases = [
        state.lease_until for state in mine
        if state.label is not None and state.lease_until and effective(state, now, whole=whole).allowed
    ]  # fmt: skip
    if not leases:
        return "Nothing of it acts alone now."
    return (
        f"{count_of(len(leases), 'label')} of it may act alone unwatched; the first lease ends {moment(min(leases))}."
    )


def _off(source: str, events: Sequence[SwitchEvent]) -> str:
    names = ["the whole source" if event.label is None else clean(event.label) for event in events]
    more = f" and {len(names) - LABELS_NAMED} more" if len(names) > LABELS_NAMED else ""
    why = ", ".join(sorted({event.reason.removeprefix("not evaluated: ").replace("_", " ") for event in events}))
    told = f"automation was turned off for {', '.join(names[:LABELS_NAMED])}{more}"
    return f"{clean(source)}: {told}, since nothing could be judged ({why})."
