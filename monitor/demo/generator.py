"""The generator of the demo: 26 weeks of tickets and e-mails in a DuckDB file, the same for the same seed.

The truth is in ``population.py``; this module draws rows from it and writes them. Random numbers depend on
(seed, source, week number) and never on the date, so that the demo of next month is this month's,
moved in time: what was verified once is valid for every ``end``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.core.records import Window
from monitor.demo.population import (
    ARRIVED,
    DELAY_MEDIAN,
    DELAY_RANGE,
    DELAY_SIGMA,
    PREDICTED_FROM,
    SECOND_LABEL,
    SOURCES,
    WEEKS,
    SourceSpec,
    model_version,
    rounded,
    true_probability,
)

SEED = 20260101
REPLIES = 0.08  # share of items that answer an earlier one of the week
SAME_FATE = 0.5  # share of replies that have the same outcomes as the first item
LANGUAGES = ("en", "de", "es", "fr")
LANGUAGE_SHARES = (0.62, 0.16, 0.12, 0.10)
LANGUAGE_SHARES_LATE = (0.49, 0.14, 0.28, 0.09)  # a new market: other traffic, and nothing wrong with the scores
NEW_MARKET_WEEK = 24
DUPLICATES = 5  # rows that were delivered twice, for each source and week
FAR_FUTURE = datetime(2999, 12, 31, tzinfo=UTC)

Progress = Callable[[int, int], None]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rng = np.random.Generator

_COLUMNS = """
    item VARCHAR, label VARCHAR, score DOUBLE, actual SMALLINT, predicted SMALLINT, resolved_at TIMESTAMPTZ,
    predicted_at TIMESTAMPTZ, model_version VARCHAR, cluster VARCHAR, channel VARCHAR, language VARCHAR,
    body_length INTEGER
"""


def write_demo(path: Path, end: Window, *, seed: int = SEED, progress: Progress | None = None) -> Mapping[str, int]:
    """Write the tables ``tickets`` and ``mail`` for the 26 weeks of which ``end`` is the last; returns their rows.

    ``end`` is a weekly window in UTC. A file already at ``path`` is replaced, once the new one is
    whole. ``progress`` is called with (steps done, steps in all). Raises ValueError where ``end`` is not a week.
    """
    if end.schedule != "weekly":
        raise ValueError(f"{end.name} is not a week; the demo ends with a whole week")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    draft.unlink(missing_ok=True)
    try:
        rows = _write(draft, end, seed, progress or (lambda _done, _total: None))
        path.with_name(f"{path.name}.wal").unlink(missing_ok=True)  # of the file that is replaced
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return rows


def _write(draft: Path, end: Window, seed: int, progress: Progress) -> Mapping[str, int]:
    """Write the file; returns the rows of each table, with malformed and duplicate ones."""
    start = end.end - timedelta(weeks=WEEKS)
    # week 0 only gives those of its items that were resolved in week 1
    steps = [(source, week) for source in SOURCES for week in range(WEEKS + 1)]
    with duckdb.connect(str(draft)) as connection:
        for source in SOURCES:
            connection.execute(f"CREATE TABLE {source} ({_COLUMNS})")
        for done, (source, week) in enumerate(steps):
            progress(done, len(steps))
            rng = np.random.default_rng([seed, list(SOURCES).index(source), week])
            found = _rows(source, week, start, rng)
            # without rows that were resolved before the first week, or are not resolved yet
            good = found[(found["resolved_at"] >= start) & (found["resolved_at"] < end.end)]
            odd = [] if week == 0 else [_malformed(good, source, week, rng), _delivered_twice(good, rng)]
            _insert(connection, source, pd.concat([good, *odd], ignore_index=True))
        rows = {source: len(connection.table(source)) for source in SOURCES}
    progress(len(steps), len(steps))
    return rows


def _insert(connection: duckdb.DuckDBPyConnection, source: str, frame: pd.DataFrame) -> None:
    spec = SOURCES[source]
    names = {"label": tuple(spec.labels), "channel": tuple(spec.channels), "language": LANGUAGES}
    named = {key: pd.Categorical.from_codes(frame[key].to_numpy(np.int64), pd.Index(names[key])) for key in names}
    connection.register("week_rows", frame.assign(**named))
    connection.execute(f"""
        INSERT INTO {source}
        SELECT printf('{spec.prefix}%07d', item), label,
               CASE WHEN not_a_number THEN 'nan'::DOUBLE ELSE score END,
               actual, predicted, resolved_at, predicted_at, model_version,
               printf('{spec.prefix}-thread-%07d', thread), channel, language, body_length
        FROM week_rows
    """)
    connection.unregister("week_rows")


def _rows(source: str, week: int, start: datetime, rng: Rng) -> pd.DataFrame:
    """The rows of the items predicted in one week: one for each item and label, as numbers and codes."""
    spec = SOURCES[source]
    n, labels = spec.items, len(spec.labels)
    # keep this order: each draws from the generator
    hour = np.sort(np.interp(rng.random(n), ARRIVED, np.arange(len(ARRIVED))))
    root, fate = _threads(n, rng)
    channel = rng.choice(len(spec.channels), n, p=list(spec.channels.values()))
    scores = _scores(spec, _candidates(spec, n, rng)[fate], rng)
    luck = rng.random(scores.shape)[fate]
    delay = np.clip(DELAY_MEDIAN * np.exp(DELAY_SIGMA * rng.standard_normal(n)), *DELAY_RANGE)
    language = rng.choice(len(LANGUAGES), n, p=LANGUAGE_SHARES_LATE if week >= NEW_MARKET_WEEK else LANGUAGE_SHARES)
    length = _body_lengths(spec, channel, rng)
    actual = luck < _true_probabilities(source, week, scores, channel)

    first = week * n * 2  # the second half of a week's numbers is for its malformed rows
    began = pd.Timestamp(start) + pd.Timedelta(weeks=week - 1)
    predicted_at = began + pd.to_timedelta((hour * 3600).round(), unit="s")
    resolved_at = began + pd.to_timedelta(((hour + delay) * 3600).round(), unit="s")
    score = scores.ravel()
    return pd.DataFrame(
        {
            "item": np.repeat(first + np.arange(n), labels),
            "label": np.tile(np.arange(labels), n),
            "score": score,
            "not_a_number": False,  # DuckDB reads a NaN of pandas as NULL
            "actual": pd.array(actual.ravel().astype(np.int64), dtype="Int64"),
            "predicted": (score >= PREDICTED_FROM).astype(np.int64),
            "resolved_at": resolved_at.repeat(labels),
            "predicted_at": predicted_at.repeat(labels),
            "model_version": pd.Categorical([model_version(week)] * len(score)),
            "thread": np.repeat(first + root, labels),
            "channel": np.repeat(channel, labels),
            "language": np.repeat(language, labels),
            "body_length": pd.array(np.repeat(length, labels), dtype="Float64"),
        }
    )


def _threads(n: int, rng: Rng) -> tuple[Ints, Ints]:
    """For each item the first item of its thread, and the item whose outcomes it shares (itself for most)."""
    position = np.arange(n)
    answers = rng.random(n) < REPLIES
    root = np.where(answers, np.maximum(position - rng.integers(1, 200, n), 0), position)
    while (root[root] != root).any():
        root = root[root]
    return root, np.where(rng.random(n) < SAME_FATE, root, position)


def _candidates(spec: SourceSpec, n: int, rng: Rng) -> npt.NDArray[np.bool_]:
    """Which labels an item is a candidate of, shape (n, labels): one, and sometimes a second one."""
    shares = np.array([label.first for label in spec.labels.values()])
    first = rng.choice(len(shares), n, p=shares)
    weights = np.where(np.arange(len(shares)) == first[:, None], 0.0, shares)
    edges = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    second = np.minimum((rng.random((n, 1)) > edges).sum(axis=1), len(shares) - 1)
    chosen = np.zeros((n, len(shares)), dtype=bool)
    chosen[np.arange(n), first] = True
    two = np.flatnonzero(rng.random(n) < SECOND_LABEL)
    chosen[two, second[two]] = True
    return chosen


def _scores(spec: SourceSpec, candidate: npt.NDArray[np.bool_], rng: Rng) -> Floats:
    score = np.empty(candidate.shape)
    for column, label in enumerate(spec.labels.values()):
        found, other = (rng.beta(*shape, len(candidate)) for shape in (label.candidates, label.others))
        score[:, column] = rounded(np.where(candidate[:, column], found, other), label.decimals)
    return score


def _true_probabilities(source: str, week: int, score: Floats, channel: Ints) -> Floats:
    spec = SOURCES[source]
    probability = np.empty(score.shape)
    for code, name in enumerate(spec.channels):
        in_channel = channel == code
        for column, label in enumerate(spec.labels):
            probability[in_channel, column] = true_probability(source, label, week, score[in_channel, column], name)
    return probability


def _body_lengths(spec: SourceSpec, channel: Ints, rng: Rng) -> Floats:
    """Characters of the text; a phone call has none."""
    length = np.round(np.clip(rng.lognormal(6.0, 0.8, len(channel)), 10, 50_000))
    phone = list(spec.channels).index("phone") if "phone" in spec.channels else -1
    return np.where(channel == phone, np.nan, length)


_MALFORMED: tuple[Mapping[str, Any], ...] = (
    {"score": None},
    {"not_a_number": True},
    {"score": 1.7},
    {"score": -0.1},
    {"actual": None},
    {"resolved_at": None},
    {"resolved_at": FAR_FUTURE},
)


def _malformed(rows: pd.DataFrame, source: str, week: int, rng: Rng) -> pd.DataFrame:
    """Additional items, one for each way in which a row can be malformed."""
    spec = SOURCES[source]
    bad = rows.iloc[rng.choice(len(rows), len(_MALFORMED), replace=False)].reset_index(drop=True)
    bad["item"] = bad["thread"] = week * spec.items * 2 + spec.items + np.arange(len(bad))
    for position, wrong in enumerate(_MALFORMED):
        for column, value in wrong.items():
            bad.loc[position, column] = value
    return bad


def _delivered_twice(rows: pd.DataFrame, rng: Rng) -> pd.DataFrame:
    """Some rows again, with a resolution a little before the final one."""
    again = rows.iloc[rng.choice(len(rows), DUPLICATES, replace=False)]
    return again.assign(resolved_at=again["resolved_at"] - pd.Timedelta(minutes=5))
