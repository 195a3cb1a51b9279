"""What alerts.yaml may name is what there is: the names are kept apart, so that a stop does not wait for NumPy."""

from __future__ import annotations

import math
from typing import Any

from monitor.metrics import calibration, cost, names, registry, top_k


def test_the_names_and_needs_are_those_of_the_registry() -> None:
    assert dict(names.NEEDS) == {name: metric.needs for name, metric in registry.METRICS.items()}
    assert tuple(registry.METRICS)[: len(names.CONTRACT)] == names.CONTRACT
    assert set(names.ALIASES.values()) <= set(names.NEEDS)
    assert not set(names.ALIASES) & set(names.NEEDS)


def test_the_ranges_are_those_that_the_modules_of_metrics_say() -> None:
    nll = (0.0, -math.log(calibration.EPSILON))
    said: dict[str, Any] = {"nll": nll, "shortfall": (-1.0, 1.0)} | {f"nll_at_{rank}": nll for rank in top_k.RANKS}
    for module in registry._MODULES:
        said |= {each.name: (each.least, each.most) for each in getattr(module, "STATISTICS", ())}
        said |= getattr(module, "RANGES", {})
    said |= dict.fromkeys(cost.ON_GROUPS, (0.0, math.inf))  # a source may say what its mistakes cost
    assert {name: names.range_of(name) for name in said} == said
    assert set(names.RANGES) <= set(said) | {"mutual_information"}
