"""The heat map of labels over windows: absolute bands tied to the rules' thresholds, as letters and as a drawing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from markupsafe import Markup

from monitor.config.model import Rule
from monitor.report.figures.svg import figure, number

HEIGHT = 14
WIDEST, WHOLE = 22.0, 468.0
"""The greatest width of a cell, and the width of all cells of a row, in pixels."""
MISSING = "."
#: Letter -> its meaning. Digits are bands; a and b are the first two bands where a rule was not evaluated.
LETTERS: Mapping[str, str] = {
    "0": "under half of the threshold",
    "1": "half of the threshold to the threshold",
    "2": "beyond the threshold, not confirmed",
    "3": "breach, up to twice the threshold",
    "4": "breach, twice the threshold and more",
    "a": "under half of the threshold; a rule was not evaluated",
    "b": "half of the threshold to the threshold; a rule was not evaluated",
    "?": "not evaluated",
    MISSING: "no verdict",
}
_BANDS = {"0": "b0", "1": "b1", "2": "b2", "3": "b3", "4": "b4", "a": "b0", "b": "b1", "?": "bn", MISSING: ""}
_HATCHED = frozenset("ab?")


def share_of(rule: Rule) -> tuple[float, float, float] | None:
    """(a, b, c): a * value + b * baseline + c is the share of the way to a rule's threshold (1: at it).

    For a rule with ``below``, the way begins at 1, the best value of a share. None where the way has no length.

    >>> share_of(Rule(id="a", metric="ece", threshold=0.04)), share_of(Rule(id="a", metric="roc_auc", condition="below",
    ...     threshold=0.75))
    ((25.0, 0.0, 0.0), (-4.0, 0.0, 4.0))
    """
    length = 1 - rule.threshold if rule.condition == "below" else rule.threshold
    if length <= 0:
        return None
    each = 1 / length
    return {
        "above": (each, 0.0, 0.0),
        "accumulated": (each, 0.0, 0.0),
        "below": (-each, 0.0, each),
        "increase": (each, -each, 0.0),
        "decrease": (-each, each, 0.0),
    }[rule.condition]


def letter(worst: int, least: int, share: float | None) -> str:
    """The letter of one label in one window by the ranks of its worst and least outcome (0: not evaluated).

    ``share`` is the share of the way to the threshold (:func:`share_of`).

    >>> letter(3, 0, 2.4), letter(1, 0, 0.4), letter(1, 1, 0.7), letter(0, 0, None), letter(2, 1, 1.2)
    ('4', 'a', '1', '?', '2')
    """
    if worst == 0:
        return "?"
    if worst >= 2:
        return "2" if worst == 2 else "4" if share is not None and share >= 2 else "3"
    band = share is not None and share >= 0.5
    return ("ab" if least == 0 else "01")[band]


def cell_width(count: int) -> float:
    """The width of a cell with which all windows fit into a row, in pixels."""
    return min(WIDEST, max(WHOLE / max(count, 1), 2.0))


def heat_row(letters: str, off: Iterable[tuple[float, float]], label: str) -> Markup:
    """One label's row; ``off`` are spans, in cells from the left, with automation off: they are striped."""
    width = cell_width(len(letters))
    paths: dict[str, str] = {}
    place = 0
    for band, run in groupby(letters, key=lambda each: _BANDS[each]):
        many = len(list(run))
        if band:
            paths[band] = paths.get(band, "") + _run(place, many, width)
        place += many
    parts = [f'<path class="cells {band}" d="{path}"/>' for band, path in sorted(paths.items())]
    hatched = "".join(
        f"M{number(k * width)} {HEIGHT}l{number(width)}-{HEIGHT}" for k, each in enumerate(letters) if each in _HATCHED
    )
    parts += [f'<path class="hatch" d="{hatched}"/>'] if hatched else []
    stripes = "".join(
        f"M{number(a * width)} {y}h{number((b - a) * width)}" for a, b in off for y in (3, 7, 11) if b - a > 0.05
    )
    parts += [f'<path class="stripe" d="{stripes}"/>'] if stripes else []
    return figure(len(letters) * width, HEIGHT, parts, label, data_cells=letters)


def _run(place: int, many: int, width: float) -> str:
    return f"M{number(place * width)} 7h{number(many * width)}"


def in_words(letters: str, names: Sequence[str]) -> str:
    """A row in a sentence, for those who cannot see it: how many windows are in which band, and the newest.

    >>> in_words("00?", ["W1", "W2", "W3"])
    '2 under half of the threshold; 1 not evaluated; newest (W3): not evaluated'
    """
    if not letters:
        return "no window"
    counts = "; ".join(f"{letters.count(each)} {meaning}" for each, meaning in LETTERS.items() if each in letters)
    return f"{counts}; newest ({names[-1]}): {LETTERS[letters[-1]]}"
