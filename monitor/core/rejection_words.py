"""Sentences about rejected rows: the finding, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.core.records import RejectReason
from monitor.core.rejection_records import Rejection, RejectionCause, Rejections, Why
from monitor.core.wording import and_more

NAMED_LABELS = 5

_CAUSES: Mapping[RejectionCause, str] = {
    RejectionCause.SCORE_IN_PERCENT: ": most of their scores are between 1 and 100, as percentages are",
    RejectionCause.TRUTH_MINUS_ONE: ": most of their truths (`actual`) are -1",
    RejectionCause.TRUTH_MISSING: ": most of their truths (`actual`) are NULL",
    RejectionCause.SCORE_MISSING: ": most of their scores are NULL",
    RejectionCause.LABEL_MISSING: ": most of them have no label",
}
_CONSTANT: Mapping[RejectionCause, str] = {
    RejectionCause.ITEM_CONSTANT: "every row has the same item",
    RejectionCause.SCORE_CONSTANT: "every score is the same",
    RejectionCause.TRUTH_CONSTANT: "every truth (`actual`) is the same",
}
_REMEDIES: Mapping[RejectionCause, str] = {
    RejectionCause.SCORE_IN_PERCENT: ("Write `score / 100` in the view or file, then run the same window again."),
    RejectionCause.TRUTH_MINUS_ONE: (
        "Find out what -1 means. Where it is a wrong answer, make it 0 in the view or file; where nobody "
        "knows the truth, leave the row out until somebody does. Then run the same window again."
    ),
    RejectionCause.TRUTH_MISSING: (
        "If they wait for their truth, write `unresolved: true` at the source, and as predicted_at under `columns` the "
        "date of the prediction (`calmon docs shapes`); if not, fix the join that loses it. "
        "Then run the same window again."
    ),
    RejectionCause.SCORE_MISSING: (
        "Find out whether the classifier failed on these items; rows that were never scored do not "
        "belong in the view or file. Then run the same window again."
    ),
    RejectionCause.LABEL_MISSING: ("Fix the column `label` of the view or file, then run the same window again."),
    RejectionCause.ITEM_CONSTANT: (
        "Check which column `item` is mapped to: of rows with one item and label only the latest "
        "counts. Then run the same window again."
    ),
    RejectionCause.SCORE_CONSTANT: (
        "Check that the view or file has the score of each item, and that the classifier still gives one; a "
        "default often replaces it after a failure. Then run the same window again."
    ),
    RejectionCause.TRUTH_CONSTANT: (
        "Check the join that gives the truth. If the truths are right, the classifier is wrong in "
        "all of these rows: turn automation off. Else fix the view or file, and run the same window again."
    ),
}
_LINES = RejectReason.LINE_UNREADABLE.value
_QUOTE = (
    "Let the program that writes the file quote the values that have a separator or a quote in them; `calmon check` "
    "names the lines. Then run the same window again."
)
_OTHER = (
    "`calmon report` names the reasons with their rows, `calmon docs bad-rows` says what to do for each. Then run "
    "the same window again."
)


def fact(rejection: Rejection) -> str:
    """The finding, without a full stop.

    >>> fact(Rejection(Why.SHARE, RejectionCause.TRUTH_MISSING, 50, 100, "outcome_missing"))
    '50 of 100 rows (50.0%) were rejected: most of their truths (`actual`) are NULL'
    """
    if rejection.why is Why.CONSTANT:
        return _CONSTANT[rejection.cause]
    lost = f"{rejection.rejected:,} of {rejection.rows:,} rows"
    if rejection.why is Why.LABEL_UNREADABLE:
        return f"{lost} have no label that can be read{_cause(rejection) if rejection.reason == _LINES else ''}"
    if rejection.local is None or rejection.part is None:
        return f"{lost} ({rejection.share:.1%}) were rejected{_cause(rejection)}"
    low, high = rejection.part
    scores = rejection.why is Why.BY_SCORE
    part = f"scores {low:.1f} to {high:.1f}" if scores else f"outcome {low:.0f}"
    on = "score" if scores else "outcome"
    found = f"{rejection.local:.1%} of the rows with {part} were rejected ({lost} in all)"
    return f"rejection depends on the {on}: {found}{_cause(rejection)}"


def remedy(rejection: Rejection) -> str:
    """What to do, in full sentences."""
    if rejection.reason == _LINES:
        return _QUOTE
    return _REMEDIES.get(rejection.cause, _OTHER)


def concerned(found: Rejections) -> str:
    """Which subjects are not judged: "all labels", or the names of some."""
    if found.everywhere is not None:
        return "all labels"
    names = [*found.labels, *(["the source as a whole"] if None in found.subjects else [])]
    return and_more(names, NAMED_LABELS)


def sentence(found: Rejections) -> str:
    """Cause, subjects and remedy of one source in one window; "" without a finding."""
    gravest = found.gravest
    if gravest is None:
        return ""
    return f"not judged: {concerned(found)}: {fact(gravest)}. {remedy(gravest)}"


def _cause(rejection: Rejection) -> str:
    if rejection.reason == _LINES:
        return ": most of them are lines of a file that cannot be divided into its columns"
    reason = (rejection.reason or "").replace("_", " ")
    return _CAUSES.get(rejection.cause, f": most often for {reason}" if reason else "")
