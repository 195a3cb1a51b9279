"""What contradicts itself between the labels that are predicted and those that are true. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping

from monitor.core.wording import and_more, clean, count_of
from monitor.warehouse.examination import Examination, Join

MISSING = frozenset(
    {"na", "n/a", "n.a.", "null", "none", "nan", "nil", "nat", "<na>", "#n/a", "missing", "undefined", "-"}
)
"""Words that programs write where a value is missing."""
SHOWN = 5
WRITTEN_OTHERWISE = 0.02
"""The share of ids without a truth that would have one in another writing, from which on that is said."""


def doubts_about_labels(found: Examination, *, files: bool, only_alike: bool = False) -> Iterator[str]:
    """Words for missing truths, names that people read as one, and, unless ``only_alike``, names on one side only.

    What is read from ``files`` has no view where it could be mended.

    >>> list(doubts_about_labels(Examination({"refund": 60}, {"refund ": 58, "NA": 2}), files=False))
    ["truths of 2 rows mean missing ('NA'): make them NULL in a view or SELECT, or these rows count as wrong", \
"the label 'refund' and the truth 'refund ' (58 rows) read alike: write them in one way in a view or SELECT"]
    """
    predicted, true = found.predicted, found.true
    mended = "in the file, or in a SELECT as relation" if files else "in a view or SELECT"
    if found.no_labels and not only_alike:
        names = ", ".join(map(clean, found.no_labels))
        yield f"by their names no labels, and so left out: {names}: name all labels under wide: {{labels}} if they are"
    missing = {name: n for name, n in true.items() if _plain(name) in MISSING and name not in predicted}
    if missing:
        rows, words = count_of(sum(missing.values()), "row"), _listed(missing)
        yield f"truths of {rows} mean missing ({words}): make them NULL {mended}, or these rows count as wrong"
    if not predicted:
        return
    alike = dict(_alike(predicted, {name: n for name, n in true.items() if name not in missing}))
    for name, label in alike.items():
        rows = count_of(true[name], "row")
        yield f"the label {label!r} and the truth {name!r} ({rows}) read alike: write them in one way {mended}"
    never_true = {name: n for name, n in predicted.items() if name not in {*true, *alike.values()}}
    never_predicted = {name: n for name, n in true.items() if name not in {*predicted, *alike, *missing}}
    if only_alike:
        return
    if never_true and true:
        yield f"{count_of(len(never_true), 'label')} predicted and never true: {_listed(never_true)}"
    if never_predicted:
        yield f"{count_of(len(never_predicted), 'label')} true and never predicted: {_listed(never_predicted)}"


def doubts_about_join(join: Join) -> Iterator[str]:
    """Words for predictions of which none has a truth, some have several, or some would have one.

    >>> list(doubts_about_join(Join(96, 2, 2, False, "item")))
    ['2 of 100 predictions meet several truths by item']
    >>> list(doubts_about_join(Join(96, 4, 0, False, "item", looked_at=96, otherwise={"007": "7"} | {"9": "9 "})))[0]
    "of 96 ids that meet no truth 2 would meet one if both were written alike, such as '007' and '7': write them alike"
    """
    if join.none == join.predictions > 0:
        mine, its = map(clean, join.examples)
        theirs = f"those of the truths like {its}" if its else "and no truth has one"
        yield f"no prediction has a truth by {join.on}: its ids are like {mine}, {theirs}"
    if join.otherwise and len(join.otherwise) >= WRITTEN_OTHERWISE * join.looked_at:
        mine, its = next(iter(join.otherwise.items()))
        would = f"of {join.looked_at} ids that meet no truth {len(join.otherwise)} would meet one if both were written"
        yield f"{would} alike, such as {mine!r} and {its!r}: write them alike"
    if join.several:
        yield f"{join.several:,} of {join.predictions:,} predictions meet several truths by {join.on}"


def _alike(predicted: Mapping[str, int], true: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """(truth, label) of names that people would read as one."""
    by_form = {_plain(name): name for name in sorted(predicted, key=lambda name: predicted[name])}
    for name in true:
        label = by_form.get(_plain(name))
        if label is not None and name not in predicted:
            yield name, label


def _plain(name: str) -> str:
    """The name as people read it: 03, 3,0 and 3 are one, and characters that nobody sees are left out."""
    visible = "".join(each for each in name if unicodedata.category(each) != "Cf")
    plain = " ".join(unicodedata.normalize("NFKC", visible).split()).casefold()
    try:
        return str(float(plain.replace(",", ".")))
    except ValueError:
        return plain


def _listed(names: Mapping[str, int]) -> str:
    most = sorted(names, key=lambda name: (-names[name], name))
    return and_more([repr(clean(name)) for name in most], SHOWN)
