"""How many random items of what acts alone people must check, and which: automation makes its own truth scarce."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from monitor.automation.state import allowed_of_each
from monitor.config.model import Config, Rule
from monitor.config.rule_sources import beside_wrong_truths
from monitor.context import Monitor
from monitor.core.audits import SHEET, AuditedItem, sheet_row
from monitor.core.promises import Promise, promise_of
from monitor.core.records import Refused, Window
from monitor.core.wording import clean
from monitor.inference.sequential import evidence_needed, would_be_seen

_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """What a label needs: ``rows`` checked items in all, by ``checks`` a week seen after ``weeks``.

    Of ``acted`` items of the newest week ``truths`` have a truth; these need not be a random part. ``claimed`` is their
    mean score. No more can be checked than act.
    """

    label: str
    acted: int
    truths: int
    claimed: float
    rows: int
    checks: int
    weeks: float


def rule_of(config: Config, source: str) -> Rule:
    """The rule whose evidence adds up over weeks, by which checks are planned. Raises :class:`Refused`."""
    for rule in config.rules:
        asked = (rule.metric, rule.where, rule.scope) == ("overconfidence", "automated", "labels")
        if rule.accumulates and asked and rule.match.source in (None, source):
            return beside_wrong_truths(rule, config.sources[source])
    raise Refused(
        f"no rule of {clean(source)} adds up evidence: a plan needs one like lasting-overconfidence "
        "(metric: overconfidence, where: automated, condition: accumulated)"
    )


def rows_to_see(claimed: float, fall: float, margin: float, needed: float) -> int | None:
    """The checked items after which overconfidence of ``fall`` is seen in 80% of cases; None where it never is.

    ``claimed`` is the mean score of what acts, ``margin`` the threshold of the rule, ``needed`` the log evidence at
    which it is in breach (:func:`~monitor.inference.sequential.would_be_seen`).

    >>> rows_to_see(0.9, 0.05, 0.02, 9.0) < 4_500, rows_to_see(0.9, 0.01, 0.02, 9.0)
    (True, None)
    """
    if fall <= margin:
        return None
    tried = np.unique(np.geomspace(1, _MOST, 2_000).astype(np.int64))
    totals = [Promise(int(n), float(n), claimed, claimed) for n in tried]
    seen = would_be_seen(totals, fall, margin, [needed] * len(totals))
    return int(tried[int(np.argmax(seen))]) if seen.any() else None


def plan(
    monitor: Monitor, source: str, window: Window, fall: float, *, weeks: float, total: int | None = None
) -> list[LabelPlan]:
    """What each label of a source needs so that a ``fall`` is seen within ``weeks``, or with ``total`` checks a week.

    A label whose automation is off now needs none. Of a given total all labels see a fall after the same time, which
    is the shortest for the slowest of them. Raises :class:`Refused` and reading errors.
    """
    config = monitor.config
    reading = monitor.store.load_reading(window.schedule, window.start, source)
    allowed = allowed_of_each(monitor.store.switches(), monitor.clock())
    off = {
        state.label
        for state, now in allowed
        if state.source == source
        # a source's own switch only forbids, and forbids nothing when its time is over
        and (state.state == "off" or (state.label is not None and state.state == "on" and not now.allowed))
    }
    acting = {
        label: promise
        for label, counts in ({} if reading is None else reading.labels).items()
        if label is not None and (promise := promise_of(counts.where("automated"))) is not None
    }
    if acting and (None in off or off >= acting.keys()):
        raise Refused(f"automation of all labels of {clean(source)} is off: nothing acts that could be checked")
    if not acting:
        raise Refused(
            f"nothing is known of what acts alone in {clean(source)} {window.name}: "
            f"`calmon run weekly --week {window.name}` reads it"
        )
    rule = rule_of(config, source)
    needed = evidence_needed([-math.inf] * len(acting), rule.average_run_length)
    acting = {label: promise for label, promise in acting.items() if label not in off}  # what is off is judged too
    rows = {label: rows_to_see(each.promised, fall, rule.threshold, needed) for label, each in acting.items()}
    known = {label: count for label, count in rows.items() if count is not None}
    if len(known) < len(rows):
        raise Refused(
            f"{rule.id} allows {100 * rule.threshold:g} points: a fall of {100 * fall:g} is never seen; "
            "plan for a larger one with --fall"
        )
    settings = config.sources[source]
    waits = monitor.warehouse.unresolved(source, settings, window) if settings.unresolved else None
    acted = {label: max(of.rows, waits.acting(label) if waits else 0) for label, of in acting.items()}
    span = weeks if total is None else weeks_for(total, known, acted)
    checks = {label: max(1, min(math.ceil(count / span - 1e-9), acted[label])) for label, count in known.items()}
    return [
        LabelPlan(label, acted[label], of.rows, of.promised, known[label], checks[label], known[label] / checks[label])
        for label, of in sorted(acting.items())
    ]


def weeks_for(total: float, rows: Mapping[str, int], acted: Mapping[str, int]) -> float:
    """After how many weeks ``total`` checks a week have looked at ``rows`` of each label, but at most all that acted.

    >>> weeks_for(100, {"a": 300, "b": 100}, {"a": 500, "b": 500})
    4.0
    >>> weeks_for(100, {"a": 300, "b": 100}, {"a": 20, "b": 90})
    1.25
    """
    left, most = dict(rows), total
    while left:
        span = max(sum(left.values()) / most, 1.0) if most > 0 else math.inf
        whole = {label for label, count in left.items() if count / span > acted[label]}
        if not whole:
            return span
        most -= sum(acted[label] for label in whole)
        left = {label: count for label, count in left.items() if label not in whole}
    return 1.0


def draw(
    monitor: Monitor, source: str, window: Window, fall: float, *, weeks: float, total: int | None = None,
    each: int | None = None, seed: str = "audit",
) -> list[AuditedItem]:  # fmt: skip
    """The items of the window to check, which the history keeps with how many each stands for.

    Of each label as many as :func:`plan` says, or ``each``. Another ``seed`` draws other items. Raises
    :class:`Refused` and reading errors.
    """
    config = monitor.config
    planned = plan(monitor, source, window, fall, weeks=weeks, total=total) if each is None else []
    most = max((label.checks for label in planned), default=0) if each is None else each
    words = f"{seed} {window.name}"
    try:
        found = monitor.warehouse.drawn(
            source, config.sources[source], window, seed=words, each=most, now=monitor.clock()
        )
    except ValueError as error:
        raise Refused(
            f"{error}; `unresolved: true` with `predicted_at` at the source says which items act without a truth"
        ) from error
    if each is None:  # in the order of the draw
        found = [item for of in planned for item in [one for one in found if one.label == of.label][: of.checks]]
    monitor.store.keep_drawn(found)
    return found


def sheet_of(items: Iterable[AuditedItem], window: Window) -> str:
    """The CSV file in which people write the truth of drawn items: ids and scores, no text."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(SHEET)
    writer.writerows(sheet_row(item, window) for item in items)
    return text.getvalue()
