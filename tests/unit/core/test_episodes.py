"""When a trouble ends, goes on and comes back."""

from __future__ import annotations

import json
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from monitor.core.diagnoses import (
    Cost,
    Diagnosis,
    DiagnosisState,
    LabelProblem,
    LikelyCause,
    NextStep,
    Notes,
    NotTold,
    Since,
    as_json,
    from_json,
)
from monitor.core.episodes import episodes
from monitor.core.windows import week
from monitor.history.values import plain

UTC = ZoneInfo("UTC")
STATES = {
    "U": DiagnosisState.UNSAFE,
    "D": DiagnosisState.DEGRADED,
    "F": DiagnosisState.FINE,
    "C": DiagnosisState.CANNOT_TELL,
    "B": DiagnosisState.CANNOT_TELL,
}


def told(letters: str) -> list[Diagnosis]:
    """A diagnosis a letter and week: Unsafe, Degraded, Fine, Cannot tell, or cannot tell though Beyond its limit."""
    return [
        Diagnosis(
            "mail", "billing", week(f"2026-W{10 + at}", UTC), STATES[letter], notes=Notes(within_limits=letter != "B")
        )
        for at, letter in enumerate(letters)
    ]


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("FFCF", []),
        ("FUUF", [("2026-W11", "2026-W12", "2026-W13", False)]),
        ("FUDU", [("2026-W11", "2026-W13", None, False)]),
        ("UCCC", [("2026-W10", "2026-W10", None, False)]),
        ("UCCCC", [("2026-W10", "2026-W10", "2026-W14", False)]),
        ("UCCBC", [("2026-W10", "2026-W10", None, False)]),
        ("UCCBCCC", [("2026-W10", "2026-W10", None, False)]),
        ("UCCBCCCC", [("2026-W10", "2026-W10", "2026-W17", False)]),
        ("UCU", [("2026-W10", "2026-W12", None, False)]),
        ("UFFFFU", [("2026-W10", "2026-W10", "2026-W11", False), ("2026-W15", "2026-W15", None, True)]),
        ("UFFFFFU", [("2026-W10", "2026-W10", "2026-W11", False), ("2026-W16", "2026-W16", None, False)]),
    ],
)
def test_a_trouble_ends_when_it_is_fine_or_was_not_seen_for_four_weeks(
    letters: str, expected: list[tuple[str, str, str | None, bool]]
):
    assert [
        (run.first.window.name, run.last.window.name, run.ended and run.ended.window.name, run.back)
        for run in episodes(told(letters))
    ] == expected


def test_a_diagnosis_is_the_same_after_it_was_stored():
    (plainest,) = told("F")
    full = replace(
        plainest,
        state=DiagnosisState.UNSAFE,
        problem=LabelProblem.OVERCONFIDENT,
        since=Since("a", "b", "c", True),
        found="d",
        cost=Cost(10.0, 0.8, 0.9, 1.0, -1.0, 3.0, False),
        segment=("channel", "web"),
        cause=LikelyCause("mix", "channel=web", "2026-W10", 0.4),
        advice=NextStep("act_from_score", score=0.9, items=4.0),
        reason=NotTold.NO_ROWS,
        because=("v1", "v2"),
        notes=Notes(("a",), ("b",), (("c", "d"),), False, (("channel", "email"),), 3, "2026-W09", 12),
    )
    for diagnosis in (plainest, full):
        kept = json.loads(json.dumps(plain(as_json(diagnosis))))
        assert from_json(diagnosis.source, diagnosis.label, diagnosis.window, kept) == diagnosis
