"""Drift of the feature columns: two distances and a test of missing values, and Evidently's page on the same samples.

Evidently drops missing values before it compares (a column that lost a third of its values shows "no
drift"), raises for a whole report because of one empty column or one that it cannot draw, and picks its tests by
sample size, so that its numbers are p-values one week and distances the next. So columns that it cannot use are
left out and named, missing values are tested here, and the two methods are fixed distances, where
more is always more drift. The distances are those of Evidently's page, computed by SciPy without it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # submodules are loaded at first use, and most commands never use them

from monitor.core.files import write_whole
from monitor.core.records import ShiftResult, Subject, Window, part_left_out
from monitor.core.redaction import without_secrets
from monitor.evaluation.shift.counts_tests import Effect, shift_result
from monitor.evaluation.shift.feature_tests import Kind, chi_square, column_tests, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

MIN_ROWS = 100  # with few rows a distance is mostly noise
MOST_CATEGORIES = 200  # more distinct values than that is free text or an id, not a category
DRIFT_THRESHOLD = 0.1
LARGEST = 1e150  # the sum of the squares of a million such numbers is no double
METHODS: Mapping[str, str] = {"numerical": "wasserstein", "categorical": "jensenshannon"}
EVIDENTLY_BINS = 10  # of the small histograms of its table
MISSING = "missing"
NAMED_CATEGORIES = 5
_FEW_ROWS = Effect(None, None, {"reason": f"fewer than {MIN_ROWS} rows"})


@dataclass(frozen=True, slots=True)
class _Column:
    """One feature, prepared: its kind and its values now and then; ``problem`` where it must be left out."""

    name: str
    now: pd.Series[Any]
    then: pd.Series[Any]
    kind: Kind = "categorical"
    problem: str | None = None


def feature_drift(
    source: str, window: Window, current: pd.DataFrame, reference: pd.DataFrame, *, html: Path | None = None
) -> list[ShiftResult]:
    """How far every feature column moved from the reference sample, as results of the source as a whole.

    Several results a column, in the order of the columns of ``current``:

    - ``missing``: the change of the share of missing values, in [-1, 1]; the p-value is that of a
      chi-square test of the two shares; ``empty``: 1 where no value is left, else 0;
    - ``ks`` and ``wasserstein`` (numbers) or ``chi_square`` (the rest), ``psi`` and ``jensen_shannon``: what a rule's
      ``test`` and ``column`` name;
    - ``new_categories`` (not of numbers): the share of values that the reference does not have; ``constant``: where
      only one value is left, the share of the reference's that are gone;
    - ``evidently:wasserstein`` for numbers, in standard deviations of the reference, or
      ``evidently:jensenshannon`` for the rest, a distance of at most sqrt(ln 2) = .83. ``detail`` holds
      drifted, method and threshold or, where ``statistic`` is None, why the column was left out.

    The same samples always give the same results. Evidently's page is written to ``html``, whole or
    not at all, unless no column could be compared. Columns that it cannot draw are not on it. Where it cannot be
    made, one more result (``page``, column ``*``) says why in ``detail``.
    """
    names = [name for name in current.columns if name in reference.columns]
    columns = [_prepared(str(name), current[name], reference[name]) for name in names]
    usable = [column for column in columns if column.problem is None]
    drawn = [column for column in usable if _can_be_drawn(column)] if html is not None else []
    results = []
    if html is not None and drawn:
        try:
            _write_page(drawn, html)
        except Exception as error:  # noqa: BLE001 - a run that has to act does not end for a page
            why = without_secrets(f"{type(error).__name__}: {error}")
            results.append(part_left_out(source, window, "page", why))
    for column in columns:
        sizes = int(column.now.notna().sum()), int(column.then.notna().sum())
        tests = [] if column.problem else column_tests(column.now, column.then, column.kind)
        usual = [*tests, *_of_values(column)] if tests else []
        drift = Effect(None, None, {"reason": column.problem}) if column.problem else _as_evidently(column, dict(tests))
        results += _missing(source, window, column)
        for name, effect in (*usual, (f"evidently:{METHODS[column.kind]}", drift)):
            results.append(shift_result(Subject(source, None), window, name, column.name, effect=effect, rows=sizes))
    return results


def _prepared(name: str, now: pd.Series[Any], then: pd.Series[Any]) -> _Column:
    import pandas as pd  # noqa: PLC0415 - nothing else of this room needs it

    kind = _kind(pd.concat([now, then], ignore_index=True))
    if kind == "numerical":
        # infinite numbers, and those whose squares no sum of doubles holds, count as missing
        known = (each.astype("Float64") if each.dtype == object else each for each in (now, then))
        now, then = (each.where(each.abs() < LARGEST) for each in (each.astype(float) for each in known))
    else:
        present = (values.astype(object).where(values.notna(), None) for values in (now, then))
        now, then = (values.map(str, na_action="ignore") for values in present)
    left, problem = min(now.notna().sum(), then.notna().sum()), None
    if left == 0:
        problem = "no value at all"
    elif left < MIN_ROWS:
        problem = f"fewer than {MIN_ROWS} values"
    elif kind == "categorical" and len(values_of(now, then)) > MOST_CATEGORIES:
        problem = f"more than {MOST_CATEGORIES} distinct values"
    return _Column(name, now, then, kind, problem)


def _kind(values: pd.Series[Any]) -> Kind:
    from pandas.api import types  # noqa: PLC0415 - nothing else of this room needs it

    if types.is_bool_dtype(values.dtype):
        return "categorical"
    if types.is_numeric_dtype(values.dtype):
        return "numerical"
    present = values.dropna()
    if types.infer_dtype(present) == "string":  # the usual case, without a look at each value
        return "categorical"
    numbers = present.map(lambda value: isinstance(value, int | float | Decimal) and not isinstance(value, bool))
    return "numerical" if len(present) and bool(numbers.all()) else "categorical"


def _missing(source: str, window: Window, column: _Column) -> list[ShiftResult]:
    """The change of the share of missing values; and 1 where no value is left, else 0.

    The p-value of the latter is the chance of that at the reference's share of missing values.
    """
    now, then = column.now.isna(), column.then.isna()
    sizes, missing, empty = (len(now), len(then)), _FEW_ROWS, _FEW_ROWS
    if min(sizes) >= MIN_ROWS:
        share, before = float(now.mean()), float(then.mean())
        table = np.array([[side.sum(), (~side).sum()] for side in (now, then)], dtype=float)
        missing = Effect(share - before, chi_square(table).p_value, {"share": share, "share_baseline": before})
        emptied, usual = bool(now.all() and not then.all()), (int(then.sum()) + 1) / (len(then) + 1)
        empty = Effect(float(emptied), float(usual ** len(now)) if emptied else 1.0)
    return [
        shift_result(Subject(source, None), window, test, column.name, effect=effect, rows=sizes)
        for test, effect in ((MISSING, missing), ("empty", empty))
    ]


def _of_values(column: _Column) -> list[tuple[str, Effect]]:
    """For categories, the values that the reference does not have; for every column, whether only one value is left."""
    now, then = column.now.dropna(), column.then.dropna()
    only, effect = now.iloc[0], Effect(0.0, 1.0)
    if (now == only).all():  # the share of the reference's values that are gone
        same = float((then == only).mean())
        effect = Effect(1 - same, float(same ** len(now)), {"value": str(only)})
    if column.kind == "numerical":
        return [("constant", effect)]
    known = then.value_counts()
    new = now[~now.isin(known.index)]
    # by Good and Turing, an unseen category has the probability of those that the reference has once
    unseen = (int((known == 1).sum()) + 1) / (len(then) + 1)
    p_value = float(scipy.stats.binom.sf(len(new) - 1, len(now), unseen))
    named = {"new": sorted(new.unique())[:NAMED_CATEGORIES]} if len(new) else {}
    return [("new_categories", Effect(len(new) / len(now), p_value, named)), ("constant", effect)]


def _as_evidently(column: _Column, tests: Mapping[str, Effect]) -> Effect:
    """Evidently's drift of the column: its methods ``wasserstein`` and ``jensenshannon`` are distances tested here."""
    value = tests["wasserstein" if column.kind == "numerical" else "jensen_shannon"].statistic
    if value is None or not np.isfinite(value):
        return Effect(None, None, {"reason": "no finite distance"})
    method, drifted = METHODS[column.kind], bool(value >= DRIFT_THRESHOLD)
    return Effect(value, None, {"drifted": drifted, "method": method, "threshold": DRIFT_THRESHOLD})


def _can_be_drawn(column: _Column) -> bool:
    """Whether Evidently can draw the column: it raises for the whole page where a histogram has no bins.

    That is so of numbers that differ by less than doubles of their size can, such as a constant id of 18 digits.
    """
    if column.kind == "categorical":
        return True
    now, then = (side.dropna().to_numpy() for side in (column.now, column.then))
    try:
        for values, bins in ((now, EVIDENTLY_BINS), (then, EVIDENTLY_BINS), (np.concatenate([now, then]), "doane")):
            np.histogram_bin_edges(values, bins)
    except ValueError:
        return False
    return True


def _write_page(columns: Sequence[_Column], path: Path) -> None:
    """Evidently's page about these columns.

    Evidently is imported here: that takes 3 s and 285 MB, which only a run that keeps the page should pay.
    """
    with _without_warnings():
        import pandas as pd  # noqa: PLC0415 - see above
        from evidently import DataDefinition, Dataset, Report  # noqa: PLC0415 - see above
        from evidently.presets import DataDriftPreset  # noqa: PLC0415 - see above

        by_kind = {kind: [c.name for c in columns if c.kind == kind] for kind in METHODS}
        definition = DataDefinition(numerical_columns=by_kind["numerical"], categorical_columns=by_kind["categorical"])
        current, reference = (
            Dataset.from_pandas(pd.DataFrame({c.name: getattr(c, side) for c in columns}), definition)
            for side in ("now", "then")
        )
        preset = DataDriftPreset(
            num_method=METHODS["numerical"], cat_method=METHODS["categorical"], threshold=DRIFT_THRESHOLD
        )
        snapshot = Report([preset]).run(current, reference)  # the current sample comes first
        write_whole(path, snapshot.get_html_str(as_iframe=False))


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Suppresses the warnings of Evidently and its imports: nobody here can act on them.

    They are deprecations in its own code (numpy.core, litestar) and empty histogram bins.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
