"""The daily rule: on which days it could fire, what its verdicts are there, and what the switch does.

A year of twenty labels is 7,300 label-days. Most of them cannot have a breach: a breach needs an adjusted
p-value below the rate, and no p-value of the family is near it. Those days are found for all labels and
days together, and only the others are judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

from benchmarks.populations import Bools, Floats
from benchmarks.weeks import SOURCE, ByLabel, Open, Rows, Setting, judged, opened
from monitor.automation.state import effective
from monitor.automation.switch import after_run, operator_change
from monitor.config.model import Rule
from monitor.core.counts import CELLS, BinCounts
from monitor.core.records import SwitchState, Verdict
from monitor.core.windows import SETTLE
from monitor.evaluation.data import windows_needed
from monitor.inference.gaps import GapTables, exact_moments, hypothetical, moments, position_of, stack, tail
from monitor.operations.act import evidence_of

MARGIN = 1.5  # days with p-values up to this many times the limit are judged: rounding must not lose a breach
WORTH_A_LOOK = 0.25
ANSWERS_AFTER = timedelta(hours=3)  # until a person turns on a label again that was turned off wrongly


def in_bins(rows: Rows, edges: Sequence[int]) -> tuple[Floats, Floats, Floats]:
    """(rows, sums of scores, hits) by window and bin, each of shape (windows, bins)."""
    bin_of = np.minimum(np.searchsorted(edges, np.arange(CELLS + 1)), len(edges) - 1)
    windows, bins = len(rows.starts) - 1, len(edges)
    key = bin_of[rows.cells] + np.repeat(np.arange(windows) * bins, np.diff(rows.starts))
    sums = (np.bincount(key, weight, windows * bins) for weight in (None, rows.cells / CELLS, rows.outcomes))
    n, ws, wy = (total.reshape(windows, bins).astype(np.float64) for total in sums)
    return n, ws, wy


def _pooled(sums: Floats, windows: int) -> Floats:
    """The sums over ``windows`` windows up to each window: (W, bins) -> (W - windows + 1, bins)."""
    total = np.concatenate([np.zeros((1, sums.shape[1])), np.cumsum(sums, axis=0)])
    return np.asarray(total[windows:] - total[:-windows])


def level_p(tables: GapTables, threshold: float) -> Floats:
    """``ece_level_p`` (above) of many tables at once, shape (T,): exact below a quarter, approximate above.

    A p-value far from the rate decides nothing, so the exact moments of its bins are not computed.
    """
    error = np.full(len(tables.n), threshold)
    rate = hypothetical(tables, position_of(tables, error))
    p = tail(tables.plug_in, moments(tables, rate))
    near = np.flatnonzero(p < WORTH_A_LOOK)
    if near.size:
        some = tables.take(near)
        at, tie = exact_moments(some, rate[near])
        p[near] = tail(some.plug_in - tie, at)
    return p


def smallest_p(rule: Rule, setting: Setting, name: str, rows: Rows) -> Floats:
    """The smallest p-value that a run could compute on each day, however many days it pools; shape (days,)."""
    edges = setting.baselines[name].edges["all"]
    sums = in_bins(rows, edges)
    found = np.ones(len(rows.starts) - 1)
    for pooled in range(rule.for_windows, windows_needed(setting.config, setting.windows[0]) + 1, rule.for_windows):
        parts = [_pooled(each, pooled) for each in sums]
        tables = [
            BinCounts(np.asarray(edges, dtype=np.int64), n.astype(np.int64), n, ws, wy, n)
            for n, ws, wy in zip(*parts, strict=True)
        ]
        if tables:
            found[pooled - 1 :] = np.minimum(found[pooled - 1 :], level_p(stack(tables), rule.threshold))
    return found


def may_fire(rule: Rule, setting: Setting, rows: ByLabel) -> Bools:
    """The days on which the rule could fire for any label, shape (days,).

    Benjamini and Hochberg's adjusted p-values never fall when p-values rise, so the smallest ones decide.
    """
    if rule.metric != "ece" or rule.condition != "above" or rule.where != "all":
        raise ValueError(f"{rule.id}: only level rules on the ECE of all rows can be looked at in this way")
    p = np.sort([smallest_p(rule, setting, name, part) for name, part in rows.items()], axis=0)
    rules = setting.config.decision_rules("daily")
    adjusted = (p * len(p) / np.arange(1, len(p) + 1)[:, None]).min(axis=0) * rules
    return np.asarray(adjusted < MARGIN * setting.config.evaluation.false_discovery_rate)


def judged_days(setting: Setting, rows: ByLabel, rules: Sequence[Rule]) -> Iterator[tuple[int, list[Verdict]]]:
    """(day, verdicts) of the days on which a rule may fire or an incident may end."""
    possible = np.any([may_fire(rule, setting, rows) for rule in rules], axis=0)
    open_now: Open = {}
    for day in range(len(setting.windows)):
        if possible[day] or any(each.state != "resolved" for each in open_now.values()):
            verdicts = judged(setting, rows, day, rules)
            opened(verdicts, open_now)
            yield day, verdicts


def turned_off(
    setting: Setting, days: Iterable[tuple[int, list[Verdict]]], labels: Sequence[str]
) -> Iterator[tuple[int, str]]:
    """(day, label) of every time a switch goes off. All are on at first, and a person turns them on again.

    If ``re_enable`` is manual, a good day only renews the lease, so days without a breach need no verdict.
    """
    if setting.config.automation.re_enable != "manual":
        raise ValueError("good windows count here: every day must be judged")
    states = {name: _on(SwitchState(SOURCE, name), setting.windows[0].start, setting) for name in labels}
    for day, verdicts in days:
        now = setting.windows[day].end + SETTLE
        for name in labels:
            states[name] = _after(states[name], [v for v in verdicts if v.subject.label == name], now, setting)
            if states[name].state == "off":
                assert not effective(states[name], now, whole=None).allowed
                yield day, name
                states[name] = _on(states[name], now + ANSWERS_AFTER, setting)


def _after(state: SwitchState, verdicts: Sequence[Verdict], now: datetime, setting: Setting) -> SwitchState:
    """The switch of one label after the verdicts of one window."""
    if not verdicts:
        return state
    critical = setting.config.sources[SOURCE].is_critical(state.label)
    evidence = evidence_of(verdicts[0].window, verdicts, False)
    return after_run(state, evidence, setting.config.automation, critical=critical, now=now).after


def _on(state: SwitchState, now: datetime, setting: Setting) -> SwitchState:
    """The switch after a person turned it on, without a hold against runs."""
    change = operator_change(
        state, enable=True, by="simulation", reason="simulation", now=now,
        automation=setting.config.automation, key="simulation",
    )  # fmt: skip
    return replace(change.after, hold_until=None)
