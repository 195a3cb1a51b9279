"""Truths that come late: how far each window's are known, and which past windows are to be read and judged again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from monitor.config.model import Config
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.maturity import Maturity
from monitor.core.records import Reason, Schedule, Subject, Window
from monitor.history.restatements import Key
from monitor.inference.delays import delay_curve, maturity_of
from monitor.warehouse.reader import Warehouse

WATCHED: Mapping[Schedule, int] = {"weekly": 26, "daily": 56}
"""Windows before of which delays are asked for: the curve is made of them."""
RESTATED: Mapping[Schedule, int] = {"weekly": 13, "daily": 28}
"""Of these the newest, which are judged again where truths came."""

ByWindow = Mapping[Window, Mapping[str | None, Maturity]]


def known_truths(config: Config, warehouse: Warehouse, window: Window, name: str, now: datetime) -> ByWindow:
    """How far the truths of a window, and of those before that may be judged again, are known ``now``, by label.

    Nothing for a source whose windows hold what was resolved in them. Raises as ``Warehouse.read`` does.
    """
    source = config.sources[name]
    if not source.matures:
        return {}
    span = (*reversed(windows.before(window, WATCHED[window.schedule], config.zone)), window)
    found: dict[Window, dict[str | None, Maturity]] = {each: {} for each in span[-1 - RESTATED[window.schedule] :]}
    confidence = config.evaluation.confidence
    for label, delays in warehouse.delays(name, source, span, now=now).items():
        curve = delay_curve(delays, now)
        for own in delays[-len(found) :]:
            if own.items:
                about = Subject(name, label)
                found[own.window][label] = maturity_of(about, own, curve, now, confidence=confidence)
    return found


def to_restate(monitor: Monitor, window: Window, name: str, known: ByWindow) -> list[Window]:
    """The windows before that were judged with other truths, or of which rules wait no longer; oldest first."""
    past = [each for each in known if each.start < window.start]
    if not past:
        return []
    before = monitor.store.maturities(window.schedule, name, since=past[0].start, until=past[-1].start)
    return [
        each
        for each in past
        if _is_restated(each, known[each], before) or _wait_no_longer(monitor, each, name, known[each])
    ]


ByLabel = Mapping[str | None, Maturity]


def _is_restated(window: Window, known: ByLabel, before: Mapping[Key, Maturity]) -> bool:
    """Whether the window was judged with other items or truths, or as not final; one that never was is left alone."""
    then = {label: found for (start, label), found in before.items() if start == window.start}
    return bool(then) and any(label not in then or not then[label].says_the_same(m) for label, m in known.items())


def _wait_no_longer(monitor: Monitor, window: Window, name: str, known: ByLabel) -> bool:
    """Whether a rule waited for truths when the window was judged last, and there are enough by now."""
    asks = {rule.id: rule.mature for rule in monitor.config.rules}
    waiting = monitor.store.not_judged(window.schedule, window.start, Reason.NOT_MATURE)
    mine = [row for row in waiting if row["source"] == name and row["label"] in known]
    return any(known[row["label"]].of_expected >= (asks.get(row["rule"]) or 0.0) for row in mine)
