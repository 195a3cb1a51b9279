"""Estimates of rows whose truth is not known yet, and comparisons of rules on them. They are not measurements.

Each has ``detail["before_truth"]``. The calibration map is that of the label's own baseline, so there is no estimate
without a baseline or in the baseline's weeks. Once the newest judged windows refute it, the map is theirs
(:func:`present_map`). A rule on one alerts and never switches (the configuration refuses it).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.baseline import ROLLING, Baseline, Baselines, edges_of
from monitor.core.counts import Counts, pool
from monitor.core.records import WHERES, Comparison, Estimate, Subject, Where, Window
from monitor.core.unresolved import UnresolvedRows
from monitor.core.verdict_detail import VerdictDetail
from monitor.evaluation.comparisons import compared_by, gates
from monitor.evaluation.data import RuleInput
from monitor.evaluation.estimates import generator
from monitor.inference.before_truth import (
    CalibrationMap,
    Either,
    Expectation,
    Law,
    accuracy_law,
    at_told_share,
    calibration_map,
    ece_laws,
    expectation,
    overconfidence_law,
    together,
)
from monitor.inference.levels import change_p, interval_of
from monitor.inference.memory import kept_with

MARK: Final = "before_truth"
"""The key that marks the detail of an estimate or a verdict as made before the truth."""
ORDER = ("expected_accuracy", "expected_overconfidence", "expected_ece")


REFUTED = 0.01
"""The p-value below which newer windows refute the baseline's map."""
Dated = tuple[Window, Counts]


def present_map(baseline: Baseline, newest: Sequence[Dated], evaluation: EvaluationConfig) -> Baseline:
    """The reference with the present calibration map: the baseline, or the ``newest`` judged windows that refute it.

    They are the fewest, newest first, that have ``min_samples`` rows and another overconfidence than the baseline, in
    any population. The reference of windows has the version ROLLING.
    """
    for depth in range(1, len(newest) + 1):
        counts = pool([part for _, part in newest[:depth]])
        if counts.rows < evaluation.min_samples:
            continue
        p_values = [
            change_p("overconfidence", counts.where(where), baseline.counts.where(where), falls=falls)
            for where in WHERES
            for falls in (False, True)
        ]
        if not any(p is not None and p * len(p_values) < REFUTED for p in p_values):
            continue
        (last, _), (first, _) = newest[0], newest[depth - 1]
        return replace(
            baseline, version=ROLLING, counts=counts, edges=edges_of(counts, evaluation),
            first_window=first.name, last_window=last.name,
        )  # fmt: skip
    return baseline


def estimates_before_truth(
    source: str,
    rows: UnresolvedRows | None,
    baselines: Baselines,
    evaluation: EvaluationConfig,
    maps: Baselines,
) -> list[Estimate]:
    """Expected accuracy, overconfidence and ECE of the waiting rows of each label and of all labels together.

    ``maps`` are the references whose calibration maps hold at present, by label (:func:`present_map`).
    """
    if rows is None:
        return []
    expectations = [
        (Subject(source, label), where, found)
        for label in (*rows.labels, None)
        for baseline in [baselines.get(label)]
        if baseline is not None and not baseline.overlaps(rows.window)
        for where in WHERES
        for found in [_expected(rows, label, maps, where)]
        if found[0].rows
    ]
    laws = _laws(expectations, rows.window, evaluation)
    estimates = []
    for (subject, where, (found, *_)), by_name in zip(expectations, laws, strict=True):
        detail, hits = _marked(rows, subject.label, where, found, maps[subject.label]), found.mean(found.chance) or 0.0
        estimates += [
            Estimate(
                subject, rows.window, name, where, interval_of(law, evaluation.confidence),
                found.rows, hits * found.rows, detail,
            )
            for name, law in by_name.items()
            if law is not None
        ]  # fmt: skip
    return estimates


def _expected(rows: UnresolvedRows, label: str | None, baselines: Baselines, where: Where) -> list[Expectation]:
    """The expectation of a label by its map; of the source (None) by each label's map, else by the source's map.

    A second one is what it is if labels became more or less frequent, where scores say that they may have.
    """
    baseline, edges = baselines[label], baselines[label].edges[where]
    of = rows.waiting if label is None and rows.waiting else {label: rows.waiting_of(label)}
    maps = {each: _map_of(baselines.get(each, baseline)) for each in of}
    told = {each: at_told_share(maps[each], waiting) for each, waiting in of.items()}
    ways = [maps, {each: told[each] or maps[each] for each in of}] if any(told.values()) else [maps]
    return [
        together(
            [expectation(known[each], waiting.where(where), edges) for each, waiting in of.items()],
            baseline.counts.design_effect,
        )
        for known in ways
    ]


def _map_of(baseline: Baseline) -> CalibrationMap:
    counts = baseline.counts
    return kept_with(counts, ("calibration map",), lambda: calibration_map(counts))


def _laws(
    expectations: Sequence[tuple[Subject, Where, Sequence[Expectation]]], window: Window, evaluation: EvaluationConfig
) -> list[dict[str, Law | Either | None]]:
    every = [(subject, where, each) for subject, where, found in expectations for each in found]
    rngs = [generator(evaluation.seed, subject, f"expected_ece {where}", window.name) for subject, where, _ in every]
    eces = ece_laws([found for *_, found in every], rngs)
    laws = iter(
        dict(zip(ORDER, (accuracy_law(found), overconfidence_law(found), ece), strict=True))
        for (*_, found), ece in zip(every, eces, strict=True)
    )
    by_name = []
    for *_, found in expectations:
        ways = [next(laws) for _ in found]
        known = {name: tuple(law for way in ways if (law := way[name]) is not None) for name in ORDER}
        # where there are several, nobody knows which one holds
        by_name.append(
            {name: Either(some) if len(some) > 1 else some[0] if some else None for name, some in known.items()}
        )
    return by_name


def _marked(
    rows: UnresolvedRows, label: str | None, where: Where, found: Expectation, reference: Baseline
) -> VerdictDetail:
    """What an estimate before the truth was made from; "refuted" where the baseline's map no longer holds."""
    windows = f"{reference.first_window}..{reference.last_window}"
    refuted: VerdictDetail = {"refuted": True, "map_of": windows} if reference.version == ROLLING else {}
    return {
        MARK: True,
        "known": rows.resolved_of(label).where(where).rows,
        "known_at": rows.known_at.isoformat(),
        "promised": found.mean(found.score),
        "expected": found.mean(found.chance),
        "map": reference.version,
        **refuted,
    }


def compare_expected(
    rule: Rule,
    rule_input: RuleInput,
    rows: UnresolvedRows | None,
    maps: Baselines,
    evaluation: EvaluationConfig,
) -> Comparison:
    """The comparison of one rule on an estimate before the truth, in the window alone.

    ``maps`` are those of all labels: the source as a whole is estimated by the map of each.
    """
    subject, baseline = rule_input.subject, rule_input.baseline
    waiting = 0 if rows is None else rows.waiting_of(subject.label).where(rule.where).rows
    checks, problem = gates(rule, rule_input, has_rows=waiting > 0)
    version = None if baseline is None else baseline.version
    found = Comparison(
        subject,
        rule_input.window,
        n=waiting,
        problem=problem,
        checks=checks,
        baseline_version=version,
        data_digest=_digest(rows, subject.label, maps),
        detail={**rule_input.detail, MARK: True},
    )
    if problem is not None or rows is None or baseline is None:
        return found
    seen = _expected(rows, subject.label, maps, rule.where)
    law = _laws([(subject, rule.where, seen)], rows.window, evaluation)[0][rule.measure]
    detail = _marked(rows, subject.label, rule.where, seen[0], maps[subject.label])
    return compared_by(law, rule, found, evaluation, detail)


def _digest(rows: UnresolvedRows | None, label: str | None, baselines: Baselines) -> str:
    """A hash of the waiting rows and of the maps: what the estimate depends on."""
    if rows is None:
        return ""
    names = [label] if label is not None else [*rows.waiting, None]
    hashed = hashlib.sha256(" ".join(baselines[name].digest for name in names if name in baselines).encode())
    for waiting in (rows.waiting_of(name) for name in names):
        for values in (waiting.cell, waiting.predicted, waiting.automated, waiting.n):
            hashed.update(np.ascontiguousarray(values, dtype="<i8").tobytes())
    return hashed.hexdigest()[:16]
