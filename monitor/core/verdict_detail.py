"""The numbers and names behind a verdict that only some families of rules have, as they are stored. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypedDict, cast


class Together(TypedDict, total=False):
    """Several windows judged as one."""

    windows: int
    n: int
    value: float | None
    change: float | None
    p_value: float | None


class Group(TypedDict, total=False):
    """One of the windows that a rule for several windows needs, or the newest one alone."""

    windows: int
    n: int
    value: float | None
    beyond: bool
    too_few: bool


class ClassMixFacts(TypedDict, total=False):
    """Shares of true items in the window and in the baseline, and what another share explains of a change."""

    now: float
    then: float
    told: float
    p_value: float
    fit: float
    scores: float
    is_separable: bool
    expected_rise: float
    explains: bool
    evidence_at_shares: float


class MaturityFacts(TypedDict):
    """How many of the expected truths are known."""

    items: int
    known: int
    expected: float | None
    low: float | None
    high: float | None
    of_expected: float
    least: float


class WeeksBefore(TypedDict, total=False):
    """The weeks before the window, where these are the reference."""

    weeks: int
    first: str
    last: str
    rows: int


class WrongTruths(TypedDict, total=False):
    """The share of truths that is wrong, the threshold as stated, and value and limits as they would be without."""

    share: float
    stated: float
    without: list[float]


class VerdictDetail(TypedDict, total=False):
    """What a verdict has beside its numbers; keys that its rule has no use for are missing."""

    accepted: float  # the fall that the rule accepts
    accumulates: bool  # the rule is about lasting evidence
    adequate: bool  # the rows could have shown what matters
    at_score: float  # of a shift test: where scores differ most
    asks: int  # windows running that must be beyond
    average_run_length: int  # weeks of the family to one false alarm
    baseline_weeks: int  # weeks that the baseline holds
    before_truth: bool  # an estimate for rows without a truth
    beyond: bool  # the value is beyond the threshold
    bins: int  # of a shift test: that hold rows
    blocked: list[list[float]]  # score ranges (low, high)
    certainty: str  # "none": no significance is asked for
    checks: list[list[Any]]  # name and answer of each question, in order
    class_mix: ClassMixFacts
    column: str  # of a shift test
    comparable: float  # share of rows in scores that both windows have
    condition: str  # the rule's
    confidence: float  # of the limits
    design_effect: float  # by which dependent rows count less
    effective_rows: float  # independent rows that are worth as much
    evidence: float  # log evidence so far
    expected: float | None  # share of right rows by the map
    family: int  # p-values that were adjusted together
    groups: list[Group]  # each window that must be beyond by itself
    if_unchanged: float  # of a shift test: what PSI would be
    judged: str  # "plug_in": textbook values
    kept: float  # hit rate of the measured rows
    known: int  # rows of the window that have a truth
    known_at: str  # when truths were read
    labels: int  # judged together
    limit: dict[str, float] | None  # a KeptScores; None: no part of the scores is safe
    map: int  # version of the baseline's
    map_of: str  # windows of the present map
    maturity: MaturityFacts
    merged: list[str]  # of a shift test: labels that are too rare
    mix_of: str | None  # column whose mix has no baseline
    moved_by: float  # of a shift test: by how much its share moved
    moved_most: str  # of a shift test: the label
    moved_share: float  # share of rows in bins whose scores moved
    n_baseline: int  # rows
    needed: float  # log evidence that is enough
    newest_alone: Group  # of several windows together
    newest_p: float | None  # p-value of the newest window alone
    of: str  # which rows were measured
    of_rows: int  # how many these are
    out_of_reach: bool  # no truth can be beyond the threshold
    p_rate: float | None  # p-value of changed behaviour
    path: list[list[Any]]  # the last windows: name, rows, claimed, kept, evidence
    points: float  # of a shift test: mean distance of scores
    promised: float | None  # mean score of the measured rows
    rank: int | None  # of the p-value in its family
    rate: float  # false discovery rate
    rebinned: bool  # by edges of both windows
    reference: WeeksBefore
    refuted: bool  # the map of the baseline no longer holds
    rejected: dict[str, Any]  # a rejection, see rejection_records
    renamed: list[list[str]]  # settings: name, then, now
    rows_needed: int  # for a verdict
    rules: int  # decision rules of the schedule
    seen_at_most: float  # the largest detectable change that is adequate
    segment: list[str] | None  # column and value
    segment_evidence: float  # its own
    segment_p: float | None  # its own p-value
    segments: int  # all
    segments_found: list[list[str]]  # column and value of each
    segments_judged: int  # that could have shown what matters
    segments_named: list[list[Any]]  # column, value, rows, numbers
    segments_tested: int  # that have a p-value
    segments_within: list[list[str]]  # column and value of each that is fine
    settings: list[list[str]]  # name, then, now: changed since the baseline
    since: str  # window in which the evidence begins
    streak: bool  # all windows that are asked for are beyond
    sure: bool  # the evidence is enough
    suspected: bool  # the evidence grows
    textbook_baseline: float | None  # where textbook values are judged
    textbook_change: float | None  # where textbook values are judged
    times_judged: int  # factor of the p-value
    together: Together  # the pool of which the newest windows are judged alone
    truth_error: WrongTruths  # where the source states wrong truths
    turns_off: list[list[str]]  # column and value of segments
    v_at_equal_size: float  # of a shift test: where both sides are alike
    week_effect: float  # times the variance that rows explain
    windows_needed: int  # for adequate rows
    worst_gap: float  # hit rate minus mean score of the worst bin
    worst_n: int  # its rows
    worst_range: list[float]  # its scores


def kept_of(detail: VerdictDetail, names: Collection[str]) -> VerdictDetail:
    """Those of these facts that a detail has."""
    return cast(VerdictDetail, {name: fact for name, fact in detail.items() if name in names})
