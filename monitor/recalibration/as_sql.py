"""A score map as one SQL expression, for a view or a query, with LN, EXP and CASE, which all engines have."""

from __future__ import annotations

from itertools import pairwise

from monitor.recalibration.score_map import CLIP, ScoreMap


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
    score = score if scale == 1 else f"({score} / {_number(scale)})"
    return _between(score_map.knots, score) if score_map.method == "isotonic" else _logistic(score_map, score)


def _logistic(score_map: ScoreMap, score: str) -> str:
    least, most = _number(CLIP), _number(1 - CLIP)
    clipped = f"(CASE WHEN {score} < {least} THEN {least} WHEN {score} > {most} THEN {most} ELSE {score} END)"
    logit = f"{_number(score_map.slope)} * LN({clipped} / (1.0 - {clipped}))"
    shift = "" if score_map.intercept == 0 else f" + {_number(score_map.intercept)}"
    return f"1.0 / (1.0 + EXP(-({logit}{shift})))"


def _between(knots: tuple[tuple[float, float], ...], score: str) -> str:
    cases = [f"WHEN {score} <= {_number(knots[0][0])} THEN {_number(knots[0][1])}"]
    for (x0, y0), (x1, y1) in pairwise(knots):
        line = _number(y0)
        if y1 > y0:
            line += f" + ({score} - {_number(x0)}) * {_number((y1 - y0) / (x1 - x0))}"
        cases.append(f"WHEN {score} <= {_number(x1)} THEN {line}")
    cases.append(f"WHEN {score} > {_number(knots[-1][0])} THEN {_number(knots[-1][1])}")
    return f"CASE {' '.join(cases)} END"


def _number(value: float) -> str:
    """A number in a form that every SQL engine reads: with a point, and without a plus sign in its exponent."""
    text = f"{value:.15g}".replace("e+", "e")
    return text if any(sign in text for sign in ".e") else f"{text}.0"
