"""A rule on the mix of labels compares label by label: with the labels' baselines, or with their weeks before."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from monitor.core.records import Verdict
from monitor.core.windows import week
from monitor.operations.pin_baseline import pin
from monitor.report.explanation import explain, lines
from monitor.run import run_window
from tests.fakes.world import BASELINE, CONFIG, WEEKS, make_world

RULES = """\
  - {id: mix, test: chi_square, threshold: 0.1, severity: info, actions: []}
  - {id: true-mix, test: chi_square, column: actual, threshold: 0.1, severity: info, actions: []}
  - {id: step, test: chi_square, threshold: 0.1, reference: previous_weeks, severity: info, actions: []}
automation:"""


ByPairs = Callable[[int], dict[str, Verdict]]


@pytest.fixture(scope="module")
def verdicts_of_mix(tmp_path_factory: pytest.TempPathFactory) -> ByPairs:
    """By the fewest pairs that a baseline needs: a week judged after another one."""
    return cache(lambda min_pairs: _judged(tmp_path_factory.mktemp("mix"), min_pairs))


def _judged(folder: Path, min_pairs: int) -> dict[str, Verdict]:
    config = CONFIG.replace("automation:", RULES).replace("min_pairs: 3000", f"min_pairs: {min_pairs}")
    with make_world(folder, config=config).opened() as monitor:
        first, last = (week(name, monitor.config.zone) for name in BASELINE)
        pin(monitor, first, last, by="ana", reason="good weeks")
        labels = {each.label for each in monitor.store.baselines()}
        assert None in labels
        assert (len(labels) > 1) == (min_pairs == 3000)
        run_window(monitor, week(WEEKS[8], monitor.config.zone))
        run = run_window(monitor, week(WEEKS[9], monitor.config.zone))
        found = [v for part in run.evaluated for v in part.verdicts]
        return {v.rule: v for v in found if v.rule in ("mix", "true-mix", "step")}


@pytest.mark.parametrize("rule", ["mix", "true-mix"])
def test_where_no_label_has_a_baseline_that_of_the_source_as_a_whole_is_none_for_the_mix(
    verdicts_of_mix: ByPairs, rule: str
) -> None:
    found = verdicts_of_mix(5000)[rule]
    assert (found.outcome, found.reason, found.baseline_version) == ("not_evaluated", "no_baseline", None)
    said = "\n".join(lines(explain(found, "r")))
    assert said.startswith("tickets (all labels) was not judged: no baseline was pinned for any of its labels.")
    assert "calmon docs no_baseline" in said  # names the command that pins one
    assert "more rows" not in said


def test_with_baselines_of_the_labels_the_mix_is_judged(verdicts_of_mix: ByPairs) -> None:
    found = verdicts_of_mix(3000)
    assert {rule: (v.outcome, v.baseline_version) for rule, v in found.items() if rule != "step"} == {
        "mix": ("ok", 1), "true-mix": ("ok", 1),
    }  # fmt: skip


def test_against_the_weeks_before_the_mix_is_that_of_the_labels_in_them(
    verdicts_of_mix: ByPairs,
) -> None:
    found = verdicts_of_mix(5000)["step"]
    assert (found.outcome, found.reason) == ("ok", "within_threshold")
    assert found.value is not None
