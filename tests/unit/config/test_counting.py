"""Which settings of a source decide what its counts mean, and which change only names."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.config.counting import settings_of
from monitor.config.model import SourceConfig
from monitor.core.source_settings import changes, in_words, other_evidence, other_numbers

PLAIN = {"relation": "tickets", "score_is": "probability_of_label"}


def changed(**more: Any) -> tuple[list[str], list[str]]:
    """The names of what differs from a plain source, and of what of it makes numbers incomparable."""
    found = changes(settings_of(SourceConfig(**PLAIN)), settings_of(SourceConfig(**{**PLAIN, **more})))
    return [each.name for each in found], [each.name for each in other_numbers(found)]


@pytest.mark.parametrize(
    "more",
    [
        {"score_is": "confidence_in_prediction"}, {"score_scale": 100}, {"positive": ("yes",)}, {"negative": ("no",)},
        {"kind": "multiclass"}, {"latest_by": ("at",)}, {"agreement_by": ("who",)},
        {"score": {"from": "votes", "method": "vote_share"}}, {"wide": {"score": "p_{label}"}},
    ],
    ids=lambda more: next(iter(more)),
)  # fmt: skip
def test_numbers_are_others_under_another(more: dict[str, Any]) -> None:
    names = [*more]
    assert changed(**more) == (names, names)


def test_of_a_wide_table_only_what_is_set_is_stored() -> None:
    stored = dict(settings_of(SourceConfig(**PLAIN, wide={"score": "p_{label}", "labels": ("billing",)})))
    assert stored["wide"] == '{"score": "p_{label}"}'


@pytest.mark.parametrize("column", ["score", "actual", "label", "predicted", "weight", "true_label"])
def test_numbers_are_others_of_another_column(column: str) -> None:
    assert changed(columns={column: "other"}) == ([f"columns.{column}"], [f"columns.{column}"])


@pytest.mark.parametrize(
    "more",
    [{"relation": "tickets_v2"}, {"columns": {"item": "id"}}, {"columns": {"resolved_at": "closed_at"}},
     {"window_on": "predicted_at"}],
    ids=str,
)  # fmt: skip
def test_another_name_or_week_is_only_reported(more: dict[str, Any]) -> None:
    names, others = changed(**more)
    assert (len(names), others) == (1, [])


@pytest.mark.parametrize(("column", "begins"), [("cluster", True), ("actual", True), ("item", False)])
def test_evidence_begins_again_where_rows_are_of_other_clusters(column: str, begins: bool) -> None:
    now = settings_of(SourceConfig(**PLAIN, columns={column: "other"}))
    assert bool(other_evidence(changes(settings_of(SourceConfig(**PLAIN)), now))) is begins


@pytest.mark.parametrize(
    "more",
    [{"segments": ("channel",)}, {"features": ("channel",)}, {"automate_at": 0.5}, {"columns": {"score": "score"}},
     {"labels": {"billing": {"critical": True}}}, {"costs": {}}, {"unresolved": True},
     {"segments": ("channel",), "columns": {"channel": "via"}}, {"columns": {"model_version": "model"}}],
    ids=str,
)  # fmt: skip
def test_what_changes_no_number_is_no_difference(more: dict[str, Any]) -> None:
    assert changed(**more) == ([], [])


def test_a_select_is_compared_by_its_text_and_may_be_laid_out_anew() -> None:
    def under(relation: str) -> dict[str, str]:
        return settings_of(SourceConfig(**{**PLAIN, "relation": relation}))

    one, other = under("SELECT *\n  FROM tickets;"), under("SELECT * FROM tickets")
    assert one == other
    filtered = changes(one, under("SELECT * FROM tickets WHERE channel = 'web'"))
    assert (in_words(filtered), other_numbers(filtered)) == ("relation: another SELECT", filtered)
    named = changes(under("tickets"), one)
    assert (in_words(named), other_numbers(named)) == ("relation: tickets then, a SELECT now", named)


def test_another_label_of_a_wide_table_leaves_the_others_as_they_are() -> None:
    one, other = (
        settings_of(SourceConfig(**PLAIN, wide={"score": "p_{label}", "labels": labels}))
        for labels in (["a"], ["a", "b"])
    )
    assert changes(one, other) == ()
