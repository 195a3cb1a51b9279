"""What a change is put down to: planted causes, exact sums, and nothing where nothing is planted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from monitor.core.cause_words import cause_words, nothing, short_cause_line, split_words
from monitor.core.causes import Began, Causes, as_json, from_json
from monitor.core.counts import bin_counts, counts_from_rows, equal_frequency_edges, pool
from monitor.core.counts_by_segment import CountsBySegment
from monitor.core.records import Reason, Subject, Verdict
from monitor.core.windows import week
from monitor.evaluation.shift.causes import Metric, find_causes
from monitor.evaluation.shift.onset import Level, _misfits, onset
from monitor.metrics.calibration import ece
from monitor.warehouse.reading import COMBINED_VALUES

Key = tuple[str, ...]
USUAL: Mapping[Key, tuple[int, float]] = {  # rows and gap of each combination
    ("chat", "de"): (400, 0.0), ("chat", "en"): (600, 0.0), ("web", "de"): (400, 0.0), ("web", "en"): (600, 0.0),
}  # fmt: skip


def made(parts: Mapping[Key, tuple[int, float]], seed: int, columns: Key = ("channel", "language")) -> CountsBySegment:
    """Rows of each combination whose scores are too high by the gap."""
    rng = np.random.default_rng(seed)
    found = {}
    for key, (rows, gap) in parts.items():
        score = np.round(rng.beta(6, 1.8, rows), 2)
        found[key] = counts_from_rows(score, rng.random(rows) < np.clip(score - gap, 0, 1))
    return CountsBySegment(columns, found)


def baseline() -> CountsBySegment:
    return made({key: (rows * 8, gap) for key, (rows, gap) in USUAL.items()}, 1)


def causes(now: CountsBySegment, metric: Metric = "overconfidence", then: CountsBySegment | None = None) -> Causes:
    then = then or baseline()
    found = find_causes(now, then, metric=metric, edges=equal_frequency_edges(pool(then.parts.values()), 15))
    assert found is not None
    return found


def changed(**given: tuple[int, float]) -> CountsBySegment:
    return made({**USUAL, **{tuple(name.split("_")): told for name, told in given.items()}}, 2)


@pytest.mark.parametrize("metric", ["overconfidence", "ece"])
def test_mix_and_rate_of_every_column_add_up_to_the_change_exactly(metric: Metric) -> None:
    now, then = changed(chat_de=(900, 0.3), web_en=(200, 0.0)), baseline()
    found = causes(now, metric, then)
    edges = equal_frequency_edges(pool(then.parts.values()), 15)
    of: dict[int, float] = {}
    for place, spans in enumerate((now, then)):
        whole = pool(spans.parts.values())
        gap = float(whole.ws.sum() - whole.wy.sum()) / whole.rows
        of[place] = gap if metric == "overconfidence" else float(ece(bin_counts(whole, edges)) or 0.0)
    assert found.change.value == pytest.approx(of[0] - of[1], abs=1e-12)
    assert [split.column for split in found.splits] == ["channel", "language"]
    for split in found.splits:
        assert split.mix.value + split.rate.value == pytest.approx(found.change.value, abs=1e-12)
        assert split.mix.low <= split.mix.value <= split.mix.high


@pytest.mark.parametrize("metric", ["overconfidence", "ece"])
@pytest.mark.parametrize(
    ("now", "segment"),
    [
        (changed(chat_de=(400, 0.15), chat_en=(600, 0.15)), (("channel", "chat"),)),
        (changed(chat_en=(600, 0.15), web_en=(600, 0.15)), (("language", "en"),)),
        (changed(web_de=(400, 0.3)), (("channel", "web"), ("language", "de"))),
    ],
)
def test_the_segment_whose_calibration_changed_is_named_alone(
    metric: Metric, now: CountsBySegment, segment: tuple[tuple[str, str], ...]
) -> None:
    found = causes(now, metric).causes
    assert [(cause.kind, cause.segment) for cause in found] == [("rate", segment)]
    assert found[0].share > 0.7
    assert found[0].own > 5 * abs(found[0].elsewhere)


def test_a_segment_is_named_although_the_ece_of_few_rows_a_bin_hides_in_which_direction_each_is_off() -> None:
    # at 40 rows a bin a gap of .06 has the wrong sign now and then: signs of single bins named 22 of these 40 segments
    then, right = baseline(), 0
    for seed in range(20, 60):
        now = made({key: (rows // 2, 0.12 * (key[0] == "web")) for key, (rows, _) in USUAL.items()}, seed)
        right += [cause.segment for cause in causes(now, "ece", then).causes] == [(("channel", "web"),)]
    assert right >= 32


@pytest.mark.parametrize("metric", ["overconfidence", "ece"])
def test_more_traffic_of_what_was_always_overconfident_is_called_mix(metric: Metric) -> None:
    usual = {("chat", "de"): (800, 0.3), ("web", "de"): (7200, 0.0)}
    now = made({("chat", "de"): (800, 0.3), ("web", "de"): (1200, 0.0)}, 3)
    found = causes(now, metric, made(usual, 4))
    assert [(cause.kind, cause.segment) for cause in found.causes] == [("mix", (("channel", "chat"),))]
    assert found.causes[0].share > 0.5
    assert found.causes[0].traffic == pytest.approx((0.1, 0.4))


@pytest.mark.parametrize("gap", [0.0, 0.15])
def test_nothing_is_named_where_nothing_changed_or_all_changed_alike(gap: float) -> None:
    found = causes(made({key: (rows, gap) for key, (rows, _) in USUAL.items()}, 5))
    assert found.causes == ()
    expected = "has not changed significantly" if not gap else "none found in channel, language"
    assert expected in nothing(found)


def test_of_a_source_without_segments_it_is_said_that_there_was_no_column_to_look_in() -> None:
    found = causes(made({(): (2_000, 0.15)}, 5, ()), then=made({(): (16_000, 0.0)}, 1, ()))
    assert found.columns == ()
    began = replace(found, began=Began("2026-W47", "2026-W47", "2026-W47"))
    advice = "(name some under segments in alerts.yaml, of at most 40 values each)"
    assert nothing(began) == f"none found: no segment column to look in {advice}; it began in 2026-W47"
    verdict = Verdict(
        id="v", rule="automated-overconfidence", subject=Subject("tickets", "billing"),
        window=week("2026-W47", ZoneInfo("UTC")), metric="overconfidence", where="automated", outcome="breach",
        reason=Reason.ABOVE_THRESHOLD, severity="critical", threshold=0.05, detail={"causes": as_json(began)},
    )  # fmt: skip
    assert short_cause_line(verdict) == "Likely cause: none found (no segments to look in), since 2026-W47"
    assert COMBINED_VALUES == 40, "the number that the sentence names"


def test_a_value_that_is_new_and_has_all_rows_is_named_and_one_that_changed_nothing_is_not() -> None:
    columns = ("model_version",)
    then = made({("v1",): (16_000, 0.0)}, 6, columns)
    worse = causes(made({("v2",): (2_000, 0.1)}, 7, columns), then=then)
    assert [(cause.kind, cause.segment) for cause in worse.causes] == [("replaced", (("model_version", "v2"),))]
    assert worse.splits[0].mix.value == 0.0
    assert causes(made({("v2",): (2_000, 0.0)}, 8, columns), then=then).causes == ()


def test_without_rows_on_either_side_there_is_nothing_to_split() -> None:
    assert find_causes(CountsBySegment(("channel",)), baseline(), metric="ece") is None


def test_a_column_that_only_one_side_has_is_left_out() -> None:
    only = CountsBySegment(("channel",), {("chat",): next(iter(baseline().parts.values()))})
    assert causes(changed(), then=only).columns == ("channel",)


def test_a_column_of_very_many_values_is_left_out() -> None:
    many = {(channel, str(k)): (2, 0.0) for channel in ("a", "b") for k in range(1_000)}
    found = causes(made(many, 10), then=made(dict.fromkeys(many, (8, 0.0)), 11))
    assert found.columns == ("channel",)


def test_what_is_stored_is_read_back_and_said_in_words() -> None:
    found = causes(changed(chat_de=(400, 0.3), chat_en=(600, 0.3)))
    assert from_json(as_json(found)) == found
    began = Began("2026-W45", "2026-W44", "2026-W45", ("model version v4 arrived (2026-W45)",))
    words = cause_words(found.causes[0], Causes("overconfidence", found.change, began=began))
    assert words.startswith("channel = chat: overconfidence up by 30 points")
    assert words.endswith("% of the change, since 2026-W45 (between 2026-W44 and 2026-W45; in that time model version "
                          "v4 arrived (2026-W45))")  # fmt: skip
    version = replace(found.causes[0], kind="replaced", segment=(("model_version", "v9"),), arrived="2026-W45")
    same = Causes("overconfidence", found.change, causes=(version,), began=began)
    assert cause_words(version, same).startswith(
        "model_version = v9 arrived in 2026-W45, when it began: overconfidence "
    )
    assert cause_words(version, same).endswith("% of the change")
    later = replace(same, causes=(replace(version, arrived="2026-W46"),))
    words = cause_words(later.causes[0], later)
    assert words.startswith("model_version = v9 arrived in 2026-W46: overconfidence ")
    assert "% of the change, since 2026-W45 (between 2026-W44 and 2026-W45; in that time " in words
    unknown = replace(later, began=None)
    assert "when it began" not in cause_words(later.causes[0], unknown)
    assert split_words(found).startswith("Change of the overconfidence since the baseline: +1")


def levels(*values: float, variance: float = 1e-4) -> list[Level]:
    return [Level(f"W{place}", value, variance) for place, value in enumerate(values)]


def least_squares(values: np.ndarray, weights: np.ndarray, shape: np.ndarray) -> float:
    """The misfit of a level and a change of this shape, by another way than the code's."""
    root = np.sqrt(weights)
    design = np.stack([root, root * shape], axis=1)
    fitted, *_ = np.linalg.lstsq(design, root * values, rcond=None)
    return float(((root * values - design @ fitted) ** 2).sum())


def test_the_misfit_of_each_first_and_complete_window_is_that_of_least_squares() -> None:
    rng = np.random.default_rng(4)
    values, weights = rng.normal(size=7), rng.uniform(0.5, 4.0, 7)
    found = _misfits(values, weights)
    for first in range(1, 7):
        for complete in range(1, 7):
            if complete < first:
                assert found[first - 1, complete - 1] == np.inf
                continue
            shape = [min(max((at - first + 1) / (complete - first + 1), 0.0), 1.0) for at in range(7)]
            expected = least_squares(values, weights, np.array(shape))
            assert found[first - 1, complete - 1] == pytest.approx(expected, abs=1e-9)


def test_a_clear_slope_is_said_to_have_grown_from_its_first_window_on() -> None:
    base = Level("baseline", 0.0, 1e-6)
    slow = onset(base, levels(0.0, 0.01, 0.0, 0.04, 0.09, 0.14, 0.18, 0.23, 0.28, 0.32))
    assert slow is not None
    assert (slow.window, slow.gradual, slow.earliest) == ("W3", True, "")
    assert slow.low <= "W3" <= slow.high
    half = onset(base, levels(0.0, 0.01, 0.0, 0.1, 0.2, 0.2, 0.21, 0.2))  # at once, in the middle of a window
    assert half is not None
    assert not half.gradual


@pytest.mark.parametrize("growth", [1, 3, 6, 12])
def test_the_stated_span_holds_the_first_window_of_a_change_at_once_and_of_a_slow_one(growth: int) -> None:
    rng, held, gradual = np.random.default_rng(growth), 0, 0
    for _ in range(300):
        first, size = int(rng.integers(0, 12)), rng.uniform(4.0, 12.0)
        shares = np.clip((np.arange(first + growth + 2) - first + 1) / growth, 0.0, 1.0)
        series = [
            Level(f"{at:02}", value, 1.0) for at, value in enumerate(size * shares + rng.normal(size=len(shares)))
        ]
        found = onset(Level("baseline", rng.normal(0.0, 0.3), 0.09), series)
        assert found is not None
        held += (found.earliest or found.low) <= f"{first:02}" <= found.high
        gradual += found.gradual
    assert held >= 0.95 * 300
    assert growth > 1 or gradual <= 0.02 * 300


@pytest.mark.parametrize(
    ("began", "long", "short"),
    [
        (Began("2026-W37", "2026-W37", "2026-W37"), "it began in 2026-W37", ", since 2026-W37"),
        (
            Began("2026-W37", "2026-W37", "2026-W37", ("v2 arrived",), earliest="2026-W33"),
            "it began in 2026-W37, when v2 arrived (or from 2026-W33 on, if it grew little by little)",
            ", since about 2026-W37",
        ),
        (
            Began("2026-W30", "2026-W28", "2026-W31", ("v2 arrived",), gradual=True),
            "it began in 2026-W30, little by little (between 2026-W28 and 2026-W31; in that time v2 arrived)",
            ", slowly since 2026-W30",
        ),
    ],
)
def test_when_it_began_is_said_with_all_that_the_data_allow(began: Began, long: str, short: str) -> None:
    found = replace(causes(made({key: (rows, 0.15) for key, (rows, _) in USUAL.items()}, 5)), began=began)
    assert found.causes == ()
    assert nothing(found).endswith(f"; {long}")
    assert from_json(as_json(found)) == found
    verdict = Verdict(
        id="v", rule="automated-overconfidence", subject=Subject("tickets", "billing"),
        window=week("2026-W40", ZoneInfo("UTC")), metric="overconfidence", where="automated", outcome="breach",
        reason=Reason.ABOVE_THRESHOLD, severity="critical", threshold=0.05, detail={"causes": as_json(found)},
    )  # fmt: skip
    assert short_cause_line(verdict).endswith(short)


def test_a_verdict_of_an_older_version_has_no_growing_onset() -> None:
    stored = as_json(causes(made({key: (rows, 0.15) for key, (rows, _) in USUAL.items()}, 5)))
    stored["began"] = {"window": "2026-W37", "low": "2026-W36", "high": "2026-W37", "events": []}
    assert from_json(stored).began == Began("2026-W37", "2026-W36", "2026-W37")


def test_the_onset_is_the_window_of_the_step_with_those_that_fit_as_well() -> None:
    base = Level("baseline", 0.0, 1e-6)
    clear = onset(base, levels(0.0, 0.01, -0.01, 0.1, 0.11, 0.1))
    assert clear == Began("W3", "W3", "W3")
    slow = onset(base, levels(0.0, 0.02, 0.04, 0.06, 0.08, 0.1))
    assert slow is not None
    assert slow.low < slow.high
    assert (slow.window, slow.gradual) == ("W1", True)
    assert onset(None, levels(0.1)) is None
    assert onset(base, []) is None
    assert onset(None, levels(0.0, 0.0, 0.2, 0.2)) == Began("W2", "W2", "W2")
