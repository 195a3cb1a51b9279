"""docs/metrics.md has one full section for every metric of the registry, and none for another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from monitor.metrics.registry import METRICS, Metric

DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"
PARTS = ("Formula", "Reading", "Bands", "Limits", "Reference")


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_sections_are_the_registry_s_metrics_in_its_order() -> None:
    assert list(sections()) == list(METRICS)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_section_says_title_direction_and_every_part(metric: Metric) -> None:
    text = sections()[metric.name]
    assert f"{metric.title}:" in text
    side = "neither" if metric.direction == "none" else metric.direction
    assert f"{side.capitalize()} is better." in text
    assert [part for part in PARTS if f"- **{part}.**" not in text] == []


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_the_bands_of_a_section_are_those_of_the_registry(metric: Metric) -> None:
    said = re.search(r"- \*\*Bands\.\*\* (.*?)\n- ", sections()[metric.name], re.DOTALL)
    assert said is not None
    assert said[1].startswith("None") == (not metric.bands)
    for band in metric.bands:
        assert band.reading in said[1]
