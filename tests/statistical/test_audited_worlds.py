"""What acts has no truth but for an audit of 40 items a label and week, in whole runs: only faults are seen."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from monitor.core.counts import Counts, counts_from_rows
from monitor.core.unresolved import UnresolvedRows
from monitor.core.windows import named
from monitor.inference.tables import truth_bias
from monitor.operations.audit import draw, plan
from monitor.operations.audited import doubts_about_acting
from monitor.run import run_window
from tests.fakes.world import CONFIG, World, make_world

pytestmark = pytest.mark.slow
CHECKS, FAULT, GOOD, BAD, WORLDS = 40, 0.15, 3, 6, 3
LABELS = tuple(f"topic {k:02d}" for k in range(20))
WRONG = frozenset(LABELS[::3])
WEEKS = tuple(f"2026-W{number:02d}" for number in range(20, 20 + GOOD + BAD))
LASTING = """\
    unresolved: true
    window_on: predicted_at
rules:
  - {id: lasting-overconfidence, metric: overconfidence, where: automated, condition: accumulated, threshold: 0.02,
     min_samples: 30, severity: critical, actions: [slack, disable_automation]}
automation: {when_not_evaluated: keep}
"""
AUDITED = CONFIG[: CONFIG.index("evaluation:")].replace("    segments: [channel]\n", "") + LASTING


@dataclass
class Found:
    """Of all worlds: the planned weeks and the week of the fault in which each wrong label was found, and the rest.

    ``held`` says of each label and week whether the interval of its overconfidence holds the true one; ``false`` counts
    breaches where nothing is wrong.
    """

    planned: list[float] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    held: list[bool] = field(default_factory=list)
    false: int = 0


def rows(rng: np.random.Generator) -> pd.DataFrame:
    """Items of each label and week; what acts (.8 or more) is right as often as scores say, or ``FAULT`` less often."""
    parts = []
    for number, week in enumerate(WEEKS):
        start = datetime.strptime(f"{week}-1", "%G-W%V-%u").replace(tzinfo=UTC)
        for label in LABELS:
            score = np.concatenate([rng.choice((0.82, 0.88, 0.94, 0.98), 250), rng.choice((0.1, 0.4, 0.7), 60)])
            chance = score - FAULT * ((score >= 0.8) & (number >= GOOD) & (label in WRONG))
            parts.append(
                pd.DataFrame(
                    {
                        "item": [f"{week}-{label}-{k}" for k in range(len(score))],
                        "label": label,
                        "score": score,
                        "predicted": (score >= 0.5).astype(int),
                        "truth": (rng.random(len(score)) < chance).astype(float),
                        "too_high": score - chance,
                        "predicted_at": [start + timedelta(seconds=float(s)) for s in rng.random(len(score)) * 604_000],
                        "week": week,
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


def warehouse_of(folder: Path, frame: pd.DataFrame) -> World:
    """People decided what does not act; nothing else has a truth."""
    acts = frame["score"] >= 0.8
    shown = frame.drop(columns=["truth", "too_high", "week"]).assign(
        actual=frame["truth"].mask(acts), resolved_at=frame["predicted_at"].mask(acts)
    )
    with closing(duckdb.connect(str(folder / "warehouse.duckdb"))) as connection:
        connection.register("shown", shown)
        connection.execute("CREATE TABLE tickets AS SELECT * FROM shown")
    return make_world(folder, config=AUDITED, warehouse_url=f"duckdb:///{folder / 'warehouse.duckdb'}")


def play(folder: Path, seed: int, found: Found) -> None:
    """Each week the sample is drawn, people say what is true of it, and the week is judged."""
    frame = rows(np.random.default_rng([20261129, seed]))
    truth = frame.set_index(["item", "label"])["truth"].to_dict()
    too_high = frame[frame["score"] >= 0.8].groupby(["week", "label"])["too_high"].mean()
    planned = {}
    first = {}
    with warehouse_of(folder, frame).opened() as monitor:
        for number, week in enumerate(WEEKS):
            window = named("weekly", week, UTC)
            drawn = draw(monitor, "tickets", window, FAULT, weeks=1, each=CHECKS)
            checked = [replace(one, outcome=truth[one.item, one.label]) for one in drawn]
            monitor.store.save_found(checked, monitor.clock())
            (evaluated,) = run_window(monitor, window).evaluated
            for each in evaluated.estimates:
                if each.subject.label and (each.metric, each.where) == ("overconfidence", "automated"):
                    true = too_high[week, each.subject.label]
                    found.held.append(each.interval.low <= true <= each.interval.high)
            for label in {v.subject.label for v in evaluated.verdicts if v.outcome == "breach"}:
                if number >= GOOD and label in WRONG:
                    first.setdefault(label, number - GOOD + 1)
                else:
                    found.false += 1
            if number == GOOD - 1:
                of = plan(monitor, "tickets", window, FAULT, weeks=1)
                planned = {each.label: each.rows / CHECKS for each in of if each.label in WRONG}
    found.planned += planned.values()
    found.seen += [first.get(label, len(WEEKS)) for label in planned]


def test_an_audit_shows_a_fault_when_its_plan_says_and_nothing_else(tmp_path: Path) -> None:
    found = Found()
    for seed in range(WORLDS):
        (folder := tmp_path / str(seed)).mkdir()
        play(folder, seed, found)
    of, weeks = len(found.seen), ceil(np.mean(found.planned))
    assert of == WORLDS * len(WRONG)
    assert weeks <= BAD
    in_time = sum(seen <= weeks for seen in found.seen)
    assert binom.cdf(in_time, of, 0.8) > 0.05, f"{in_time} of {of} within the {weeks} planned weeks"
    early = sum(seen <= weeks * 0.5 for seen in found.seen)
    assert binom.sf(early - 1, of, 0.8) > 0.05, f"{early} of {of} in half of the planned weeks: the plan asks too much"
    assert np.mean(found.held) >= 0.93
    assert found.false == 0


def test_truths_that_come_for_wrong_items_are_named_in_nine_of_ten_worlds() -> None:
    """Of wrong items 90% have a truth, of right ones 30%; 40 of each of three labels were checked in two weeks."""
    rng, named_biased = np.random.default_rng(12), 0
    for _ in range(200):
        right = rng.random((6, CHECKS)) < 0.9
        known = rng.random((6, CHECKS)) < np.where(right, 0.3, 0.9)
        counts = [
            (int((r & k).sum()), int(r.sum()), int((~r & k).sum()), int((~r).sum()))
            for r, k in zip(right, known, strict=True)
        ]
        named_biased += truth_bias(counts) is not None
    assert named_biased >= 180


@pytest.mark.parametrize(
    ("of_right", "of_wrong", "lowest", "least", "most"),
    [
        pytest.param(0.3, 0.9, 0.5, 180, 200, id="of wrong ones, people decide some"),
        pytest.param(0.3, 0.9, 0.8, 180, 200, id="of wrong ones, all act"),
        pytest.param(0.4, 0.4, 0.8, 180, 200, id="of two in five, all act"),
        pytest.param(0.4, 0.4, 0.5, 0, 10, id="as often of others"),
        pytest.param(0.9, 0.9, 0.8, 0, 0, id="of nearly all"),
    ],
)
def test_where_few_truths_come_of_what_acts_a_week_says_so_without_an_audit(
    of_right: float, of_wrong: float, lowest: float, least: int, most: int
) -> None:
    """Whether a truth comes depends on the outcome alone; scores from ``lowest`` on are right as often as they say."""
    rng, named_so = np.random.default_rng(31), 0
    for _ in range(200):
        score = rng.uniform(lowest, 1.0, 1_000)
        right = rng.random(1_000) < score
        known = rng.random(1_000) < np.where(right, of_right, of_wrong)
        of = [counts_of(score[part], right[part]) for part in (known, ~known)]
        week = named("weekly", "2026-W20", UTC)
        rows = UnresolvedRows("tickets", week, week.end, waiting={"a": of[1]}, resolved={"a": of[0]})
        named_so += any("whether these are a random part is not known" in doubt for doubt in doubts_about_acting(rows))
    assert least <= named_so <= most


def counts_of(score: np.ndarray, right: np.ndarray) -> Counts:
    return counts_from_rows(score, right.astype(float), predicted=score >= 0.5, automate_at=0.8)
