"""A score map that a router can load and apply: plain Python, a small JSON file, plain errors.

Written as JSON::

    {"format": "calmon-score-map", "version": 1, "method": "temperature", "temperature": 1.5,
     "source": "tickets", "label": "billing", "rows": 50000, "fitted_on": "2026-W40..2026-W46"}

``platt`` has ``slope`` and ``intercept`` instead of ``temperature``, ``isotonic`` has ``knots``: pairs of an old and a
new score, both rising. With ``label`` null the map is for all labels of the source.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from monitor.core.files import write_whole

FORMAT, VERSION = "calmon-score-map", 1
CLIP = 1e-6
"""Scores closer to 0 or 1 are moved to this distance, since 0 and 1 have no logit."""
MOST_KNOTS = 200

Method = Literal["temperature", "platt", "isotonic"]
METHODS: tuple[Method, ...] = ("temperature", "platt", "isotonic")
_OWN: Mapping[Method, tuple[str, ...]] = {
    "temperature": ("temperature",),
    "platt": ("slope", "intercept"),
    "isotonic": ("knots",),
}
_COMMON = ("format", "version", "method", "source", "label", "rows", "fitted_on")


class ScoreMapError(ValueError):
    """A map that cannot be used; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ScoreMap:
    """New score = expit(slope * logit(s) + intercept), or the line through ``knots``, by ``method``.

    A temperature is 1 / slope, with intercept 0. ``knots`` are (old, new) pairs of scores in [0, 1]: old ones rise, new
    ones never fall; beyond the first and last knot their new scores hold. It was fitted on ``rows`` rows from the
    windows ``fitted_on``. Raises :class:`ScoreMapError` for parameters that would reverse the order of scores.
    """

    method: Method
    slope: float = 1.0
    intercept: float = 0.0
    knots: tuple[tuple[float, float], ...] = ()
    source: str | None = None
    label: str | None = None
    rows: int = 0
    fitted_on: str = ""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ScoreMapError(f"the method must be one of {', '.join(METHODS)}, not {self.method!r}")
        if self.method == "isotonic":
            knots = self.knots
            if not 1 <= len(knots) <= MOST_KNOTS:
                raise ScoreMapError(f"an isotonic map has 1 to {MOST_KNOTS} knots, not {len(knots)}")
            if not all(0 <= number <= 1 for knot in knots for number in knot):
                raise ScoreMapError("every knot must be a pair of scores in [0, 1]")
            if any(later[0] <= earlier[0] or later[1] < earlier[1] for earlier, later in pairwise(knots)):
                raise ScoreMapError("old scores of the knots must rise, and new ones never fall")
        elif not (0 < self.slope < math.inf and math.isfinite(self.intercept)):
            raise ScoreMapError("the slope (1 / temperature) must be above 0 and the intercept a number")

    @property
    def temperature(self) -> float:
        """1 / slope: above 1 the scores were too extreme, below 1 too close to 0.5."""
        return 1 / self.slope

    def to_json(self) -> str:
        """The map as JSON; :func:`from_json` reads it back."""
        parameters: dict[Method, dict[str, Any]] = {
            "temperature": {"temperature": self.temperature},
            "platt": {"slope": self.slope, "intercept": self.intercept},
            "isotonic": {"knots": [list(knot) for knot in self.knots]},
        }
        about = {"source": self.source, "label": self.label, "rows": self.rows, "fitted_on": self.fitted_on}
        head = {"format": FORMAT, "version": VERSION, "method": self.method}
        return json.dumps({**head, **parameters[self.method], **about}, ensure_ascii=False)


def apply_one(score_map: ScoreMap, score: float) -> float:
    """The new score of one old score in [0, 1]; raises ValueError for another number.

    >>> round(apply_one(ScoreMap("temperature", slope=0.5), 0.9), 6)
    0.75
    >>> round(apply_one(ScoreMap("isotonic", knots=((0.2, 0.1), (0.6, 0.5))), 0.4), 6)
    0.3
    """
    if not 0 <= score <= 1:
        raise ValueError(f"a score must lie in [0, 1], not {score!r}")
    if score_map.method == "isotonic":
        return _between(score_map.knots, score)
    clipped = min(max(score, CLIP), 1 - CLIP)
    z = score_map.slope * math.log(clipped / (1 - clipped)) + score_map.intercept
    odds = math.exp(-min(abs(z), 700.0))
    return 1 / (1 + odds) if z >= 0 else odds / (1 + odds)


def _between(knots: tuple[tuple[float, float], ...], score: float) -> float:
    index = bisect_right(knots, score, key=lambda knot: knot[0])
    if index == 0 or index == len(knots):
        return knots[min(index, len(knots) - 1)][1]
    (x0, y0), (x1, y1) = knots[index - 1], knots[index]
    return min(y1, y0 + (y1 - y0) * ((score - x0) / (x1 - x0)))


def save(score_map: ScoreMap, path: Path) -> None:
    """Write the map as JSON."""
    write_whole(path, score_map.to_json() + "\n", folders=False)


def load(path: Path) -> ScoreMap:
    """The map in a file. Raises :class:`ScoreMapError`, which names the file and what is wrong."""
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScoreMapError(f"{path} cannot be read: {error.strerror}") from error
    except (ScoreMapError, UnicodeDecodeError) as error:
        raise ScoreMapError(f"{path} is no score map: {error}") from error


def from_json(text: str) -> ScoreMap:
    """The map in a JSON text. Raises :class:`ScoreMapError`, which says what is wrong."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ScoreMapError(f"not JSON: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ScoreMapError(f'it has no "format": "{FORMAT}"; `calmon recalibrate --out FILE` writes one')
    if found.get("version") != VERSION:
        raise ScoreMapError(f"version {found.get('version')!r} is not known, only {VERSION}; fit the map again")
    return _from_fields(found)


def _from_fields(found: Mapping[str, Any]) -> ScoreMap:
    method = found.get("method")
    if method not in METHODS:
        raise ScoreMapError(f"the method must be one of {', '.join(METHODS)}, not {method!r}")
    expected = {*_COMMON, *_OWN[method]}
    if set(found) != expected:
        missing, unknown = sorted(expected - set(found)), sorted(set(found) - expected)
        raise ScoreMapError(f"keys missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'}")
    kept: dict[str, Any] = {key: _text(found, key, or_null=True) for key in ("source", "label")}
    kept |= {"rows": int(_number(found, "rows")), "fitted_on": _text(found, "fitted_on")}
    if method == "isotonic":
        knots = found["knots"]
        if not isinstance(knots, list) or not all(
            isinstance(knot, list) and len(knot) == 2 and all(map(_is_number, knot)) for knot in knots
        ):
            raise ScoreMapError("knots must be a list of pairs of numbers")
        return ScoreMap(method, knots=tuple((float(old), float(new)) for old, new in knots), **kept)
    if method == "platt":
        return ScoreMap(method, slope=_number(found, "slope"), intercept=_number(found, "intercept"), **kept)
    temperature = _number(found, "temperature")
    if temperature <= 0:
        raise ScoreMapError(f"the temperature must be above 0, not {temperature}")
    return ScoreMap(method, slope=1 / temperature, **kept)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _number(found: Mapping[str, Any], key: str) -> float:
    if not _is_number(found[key]):
        raise ScoreMapError(f"{key} must be a number, not {found[key]!r}")
    return float(found[key])


def _text(found: Mapping[str, Any], key: str, *, or_null: bool = False) -> str | None:
    if not (isinstance(found[key], str) or (or_null and found[key] is None)):
        raise ScoreMapError(f"{key} must be a text, not {found[key]!r}")
    return found[key]  # type: ignore[no-any-return]


def as_sql(score_map: ScoreMap, column: str, *, scale: float = 1) -> str:
    """SQL for the new score, in [0, 1], of the old one in ``column``; NULL stays NULL.

    ``column`` is a name or an expression as the engine reads it: a name with a blank in quotes. Old scores must be
    numbers from 0 to ``scale``: exclude all others before.

    >>> as_sql(ScoreMap("isotonic", knots=((0.2, 0.1), (0.6, 0.5))), "s")
    'CASE WHEN s <= 0.2 THEN 0.1 WHEN s <= 0.6 THEN 0.1 + (s - 0.2) * 1.0 WHEN s > 0.6 THEN 0.5 END'
    >>> as_sql(ScoreMap("isotonic", knots=((0.2, 0.1),)), "percent", scale=100)
    'CASE WHEN (percent / 100.0) <= 0.2 THEN 0.1 WHEN (percent / 100.0) > 0.2 THEN 0.1 END'
    >>> as_sql(ScoreMap("temperature", slope=0.5), "s").startswith("1.0 / (1.0 + EXP(-(0.5 * LN((CASE WHEN s < ")
    True
    """
    score = column if column.isidentifier() else f"({column})"
    score = score if scale == 1 else f"({score} / {_literal(scale)})"
    if score_map.method != "isotonic":
        return _logistic(score_map, score)
    knots = score_map.knots
    cases = [f"WHEN {score} <= {_literal(knots[0][0])} THEN {_literal(knots[0][1])}"]
    for (x0, y0), (x1, y1) in pairwise(knots):
        line = _literal(y0)
        if y1 > y0:
            line += f" + ({score} - {_literal(x0)}) * {_literal((y1 - y0) / (x1 - x0))}"
        cases.append(f"WHEN {score} <= {_literal(x1)} THEN {line}")
    cases.append(f"WHEN {score} > {_literal(knots[-1][0])} THEN {_literal(knots[-1][1])}")
    return f"CASE {' '.join(cases)} END"


def _logistic(score_map: ScoreMap, score: str) -> str:
    least, most = _literal(CLIP), _literal(1 - CLIP)
    clipped = f"(CASE WHEN {score} < {least} THEN {least} WHEN {score} > {most} THEN {most} ELSE {score} END)"
    logit = f"{_literal(score_map.slope)} * LN({clipped} / (1.0 - {clipped}))"
    shift = "" if score_map.intercept == 0 else f" + {_literal(score_map.intercept)}"
    return f"1.0 / (1.0 + EXP(-({logit}{shift})))"


def _literal(value: float) -> str:
    """A number in a form that every SQL engine reads: with a point, and without a plus sign in its exponent."""
    text = f"{value:.15g}".replace("e+", "e")
    return text if any(sign in text for sign in ".e") else f"{text}.0"
