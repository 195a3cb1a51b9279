"""docs/metrics.md has every metric of the registry in one full section, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from monitor.metrics.registry import METRICS, Metric

DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"
PARTS = ("Formula", "Limits", "Reference")


def sections() -> list[tuple[str, str]]:
    """Each metric with its section; those of a family share one, whose heading names them all."""
    parts = re.split(r"^## (.+)$", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    headed = zip(parts[1::2], parts[2::2], strict=True)
    return [(name, text) for heading, text in headed for name in heading.split(", ")]


def test_the_sections_are_those_of_the_registry_s_metrics() -> None:
    assert sorted(name for name, _ in sections()) == sorted(METRICS)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_section_says_title_direction_and_every_part(metric: Metric) -> None:
    text = dict(sections())[metric.name]
    assert f"{metric.title}:" in text
    side = "neither" if metric.direction == "none" else metric.direction
    assert f"{side.capitalize()} is better." in text
    assert [part for part in PARTS if f"**{part}.**" not in text] == []


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_the_bands_of_a_section_are_those_of_the_registry(metric: Metric) -> None:
    (said,) = re.findall(r"\*\*Bands\.\*\* (.*?) \*\*", dict(sections())[metric.name], re.DOTALL) or [""]
    same = re.match(r"As \[(\w+)\]", said)
    if same:
        assert metric.bands == METRICS[same[1]].bands
        return
    assert bool(said) == bool(metric.bands)
    for band in metric.bands:
        assert band.reading in said
