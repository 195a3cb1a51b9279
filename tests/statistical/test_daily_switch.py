"""The daily rule (ECE above .08 on two days running) and the switch: off in days where it must, never where not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.populations import LABELS, Population, with_ece
from benchmarks.weeks import DAYS, SOURCE, Rows, Setting, by_day, drawn, judged, setting, shipped
from monitor.automation.state import effective
from monitor.automation.switch import after_run, operator_change
from monitor.core.records import SwitchState
from monitor.core.windows import SETTLE
from monitor.operations.act import evidence_of

pytestmark = pytest.mark.slow
DAILY = shipped().rules_for("daily")
WRONG = tuple(LABELS[at].name for at in (4, 8, 12, 15, 18))  # of different curves and numbers of positives


def turned_off(
    before: Sequence[Population], after: Sequence[Population], a_day: int, weeks: tuple[int, int], seed: int
) -> Iterator[tuple[int, str]]:
    """(day, label) where a switch goes off: all are on at first, with baselines of ``before``, for ``weeks`` each."""
    rng, n = np.random.default_rng(seed), DAYS * a_day
    days = by_day(setting(before, n, sum(weeks), rng))
    first, then = (drawn(labels, count, n, rng) for labels, count in zip((before, after), weeks, strict=True))
    rows = {name: one_after_the_other(part, then[name]).in_days() for name, part in first.items()}
    states = {label.name: switched_on(label.name, days) for label in before}
    for day, window in enumerate(days.windows):
        verdicts, now = judged(days.data(rows, day), days.config, DAILY), window.end + SETTLE
        for name in [name for name, state in states.items() if state.state == "on"]:
            of_label = [verdict for verdict in verdicts if verdict.subject.label == name]
            critical = days.config.sources[SOURCE].is_critical(name)
            evidence = evidence_of(window, of_label, False)
            states[name] = after_run(
                states[name], evidence, days.config.automation, critical=critical, now=now
            ).after  # fmt: skip
            if states[name].state == "off":
                assert not effective(states[name], now, whole=None).allowed
                yield day, name


def one_after_the_other(first: Rows, then: Rows) -> Rows:
    return Rows(
        then.population,
        np.concatenate([first.cells, then.cells]),
        np.concatenate([first.outcomes, then.outcomes]),
        np.concatenate([first.starts, then.starts[1:] + first.starts[-1]]),
    )


def switched_on(name: str, days: Setting) -> SwitchState:
    """A switch that a person turned on, without a hold against runs."""
    change = operator_change(
        SwitchState(SOURCE, name), enable=True, by="ann", reason="test", now=days.windows[0].start,
        automation=days.config.automation, key="test",
    )  # fmt: skip
    return replace(change.after, hold_until=None)


@pytest.mark.parametrize("a_day", [70, 700])
def test_no_label_is_turned_off_whose_true_error_is_below_the_threshold(a_day: int) -> None:
    below = [with_ece(label, 0.06) for label in LABELS]
    assert list(turned_off(below, below, a_day, (0, 8), seed=20260104)) == []


def test_labels_far_above_it_are_off_on_the_second_day_and_no_other_label_is() -> None:
    for seed in range(4):
        after = [with_ece(label, 0.16) if label.name in WRONG else label for label in LABELS]
        off = list(turned_off(LABELS, after, 700, (1, 1), seed))
        assert {name for _, name in off} == set(WRONG)
        assert {day - DAYS for day, _ in off} == {1}  # two days are asked for
