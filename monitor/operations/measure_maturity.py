"""Late truths: how complete the truths of each window are, and which past windows to read and judge again."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.context import Monitor
from monitor.core import windows
from monitor.core.maturity import Maturity
from monitor.core.records import DELAYS_FAILED, Reason, Schedule, Subject, Window, parts_not_read
from monitor.history.truth_rows import Key
from monitor.inference.delays import delay_curve, maturity_of

WATCHED: Mapping[Schedule, int] = {"weekly": 26, "daily": 56}
"""Number of past windows from whose delays the delay curve is made."""
RESTATED: Mapping[Schedule, int] = {"weekly": 13, "daily": 28}
"""Number of past windows, the newest, that are judged again when truths arrive."""

ByWindow = Mapping[Window, Mapping[str | None, Maturity]]


def known_truths(monitor: Monitor, window: Window, name: str) -> ByWindow:
    """By window and label, how complete truths are now: of this window, and of those that may be judged again.

    {} for a source whose windows hold the rows resolved in them. Raises what ``Warehouse.read`` raises.
    """
    config, now = monitor.config, monitor.clock()
    source = config.sources[name]
    if not source.matures:
        return {}
    span = windows.up_to(window, 1 + WATCHED[window.schedule], config.zone)
    found: dict[Window, dict[str | None, Maturity]] = {each: {} for each in span[-1 - RESTATED[window.schedule] :]}
    confidence = config.evaluation.confidence
    for label, delays in monitor.warehouse.delays(name, source, span, now=now).items():
        curve = delay_curve(delays, now)
        for delays_of_window in delays[-len(found) :]:
            if delays_of_window.items:
                about = Subject(name, label)
                found[delays_of_window.window][label] = maturity_of(
                    about, delays_of_window, curve, now, confidence=confidence
                )
    return found


def to_restate(monitor: Monitor, window: Window, name: str, known: ByWindow) -> list[Window]:
    """The earlier windows to restate, oldest first.

    Their truths have changed, a waiting rule now has enough of them, people have checked more of their items, or when
    truths came could not be read then.
    """
    checked = monitor.store.newly_decided(name) if window.schedule == "weekly" else []
    span = [] if not (known or checked) else windows.before(window, RESTATED[window.schedule], monitor.config.zone)
    past = list(reversed(span))
    if not past:
        return []
    before = monitor.store.maturities(window.schedule, name, since=past[0].start, until=past[-1].start)
    return [
        each
        for each in past
        if each.start in checked
        or _is_restated(each, known.get(each, {}), before)
        or _wait_no_longer(monitor, each, name, known.get(each, {}))
        or DELAYS_FAILED in parts_not_read(monitor.store.quality(each.schedule, each.start, name))
    ]


ByLabel = Mapping[str | None, Maturity]


def _is_restated(window: Window, known: ByLabel, before: Mapping[Key, Maturity]) -> bool:
    """Whether the window was judged with other items or truths, or as not final; False if it was never judged."""
    then = {label: found for (start, label), found in before.items() if start == window.start}
    return bool(then) and any(label not in then or not then[label].says_the_same(m) for label, m in known.items())


def _wait_no_longer(monitor: Monitor, window: Window, name: str, known: ByLabel) -> bool:
    """Whether a rule waited for truths when the window was last judged, and there are enough now."""
    least = {rule.id: rule.mature for rule in monitor.config.rules}
    waiting = monitor.store.not_judged(window.schedule, window.start, name, Reason.NOT_MATURE)
    waiting_rows = [row for row in waiting if row["label"] in known]
    return any(known[row["label"]].of_expected >= (least.get(row["rule"]) or 0.0) for row in waiting_rows)
