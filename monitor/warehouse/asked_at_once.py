"""Several statements as one, whose rows of the window are read by one scan.

Where a row is counted by the other rows of its item, or only the latest of repeated rows counts, each thing that is
counted takes a statement of its own. Where one statement can ask all of it by one scan
(:attr:`~monitor.warehouse.dialects.Dialect.asks_at_once`), they are written over rows that are kept
(``Statements.over_kept_rows``), and their results are put below each other (:func:`asked_at_once`). All have the same
columns then: two texts, and :data:`NUMBERS` numbers in double precision. A result of more numbers has one row for each
of them, with its place and its value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from monitor.warehouse.dialects import Arrays, Dialect, Expression
from monitor.warehouse.row_levels import EMPTY, ONE, ZERO, RowLevels, whole_number

TEXTS, NUMBERS = 2, 11


@dataclass(frozen=True, slots=True)
class Question:
    """A statement, and which of its columns are ``texts``. The others are numbers, or NULL."""

    statement: sa.Select[Any] | sa.CompoundSelect[Any]
    texts: tuple[str, ...] = ()
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Raises ValueError for more texts than a result has."""
        if len(self.texts) > TEXTS:
            raise ValueError(f"a result has {TEXTS} texts, not {len(self.texts)}")
        names = (column.name for column in self.statement.selected_columns)
        object.__setattr__(self, "names", tuple(name for name in names if name not in self.texts))

    @property
    def by_places(self) -> bool:
        """Whether each row becomes one row for each of its numbers. No two rows may have the same texts."""
        return len(self.names) > NUMBERS


def asked_at_once(questions: Sequence[Question], dialect: Dialect) -> sa.CompoundSelect[Any]:
    """The results of all questions below each other; ``part`` is the place of the question."""
    return sa.union_all(*(_aligned(part, each, dialect) for part, each in enumerate(questions)))


def _aligned(part: int, question: Question, dialect: Dialect) -> sa.Select[Any]:
    rows = question.statement.cte(f"calmon_part_{part}")  # a subquery would be one level too many for SQLite's parser
    nothing = [EMPTY] * (TEXTS - len(question.texts))
    if not question.by_places:
        texts = [dialect.text(text) for text in (*(rows.c[name] for name in question.texts), *nothing)]
        return _select(part, texts, [rows.c[name] for name in question.names]).select_from(rows)
    one = ONE.label("one")  # every row with every place, by a condition that all engines know
    numbered = sa.select(rows, one).subquery(f"row_{part}")
    each = (sa.select(whole_number(place).label("place"), one) for place in range(len(question.names)))
    at = sa.union_all(*each).subquery(f"places_{part}")
    cases = ((at.c.place == whole_number(place), _number(numbered.c[n])) for place, n in enumerate(question.names))
    texts = [dialect.text(text) for text in (*(numbered.c[name] for name in question.texts), *nothing)]
    joined = numbered.join(at, numbered.c.one == at.c.one)
    return _select(part, texts, [at.c.place, sa.case(*cases)]).select_from(joined)


def _select(part: int, texts: Sequence[Expression], numbers: Sequence[Expression]) -> sa.Select[Any]:
    """The columns that all results have; 0 where a result has no more numbers."""
    columns = [whole_number(part).label("part")]
    columns += [text.label(f"text_{place}") for place, text in enumerate(texts)]
    filled = [*map(_number, numbers), *[_number(ZERO)] * (NUMBERS - len(numbers))]
    return sa.select(*columns, *(number.label(f"number_{place}") for place, number in enumerate(filled)))


def _number(value: Expression) -> Expression:
    return sa.cast(value, sa.Double)


def answers(questions: Sequence[Question], found: Arrays) -> Iterator[Arrays]:
    """The result of each question, from the ``found`` columns of :func:`asked_at_once`.

    A text that is NULL is None, a number NaN.
    """
    part = np.asarray(found["part"], dtype=np.int64)
    for place, question in enumerate(questions):
        rows = np.flatnonzero(part == place)
        texts = {name: _texts(found[f"text_{at}"][rows]) for at, name in enumerate(question.texts)}
        numbers = (_numbers(found[f"number_{at}"][rows]) for at in range(NUMBERS))
        if question.by_places:
            yield _put_together(question, texts, next(numbers), next(numbers))
        else:
            yield texts | dict(zip(question.names, numbers, strict=False))


def _put_together(
    question: Question, texts: Arrays, place: npt.NDArray[np.float64], value: npt.NDArray[np.float64]
) -> Arrays:
    """The rows of a question, of which each number is a row. Raises AssertionError if two have the same texts."""
    keys = list(zip(*(column.tolist() for column in texts.values()), strict=True)) or [()] * len(place)
    at = {key: row for row, key in enumerate(dict.fromkeys(keys))}
    numbers = np.full((len(question.names), len(at)), np.nan)
    if len(place) != numbers.size:
        raise AssertionError(f"{len(place)} numbers are not {len(question.names)} of each of {len(at)} rows")
    numbers[place.astype(np.int64), [at[key] for key in keys]] = value
    columns = zip(*at, strict=True) if at else ((),) * len(texts)
    named = {name: np.array(column, dtype=object) for name, column in zip(texts, columns, strict=False)}
    return named | dict(zip(question.names, numbers, strict=True))


class Answers:
    """What was asked before it is needed, by statement."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[object, Arrays]] = {}

    def ask(
        self, connection: sa.Connection, kept: RowLevels, questions: Sequence[Question], known_as: Sequence[Question]
    ) -> None:
        """Ask all ``questions`` at once, which are of the statements ``kept``. They answer those of ``known_as``."""
        key = ("asked at once", *(id(each.statement) for each in questions))
        statement = kept.levels.get(key)  # built once, as its parts are
        if statement is None:
            statement = kept.levels[key] = asked_at_once(questions, kept.dialect)
        found = answers(questions, kept.arrays(connection, statement))
        for question, columns in zip(known_as, found, strict=True):
            self._found[id(question.statement)] = (question.statement, columns)  # kept, so that no other has its id

    def of(self, statement: object) -> Arrays | None:
        """The answer to a statement, once; None if it was not asked."""
        _, columns = self._found.pop(id(statement), (None, None))
        return columns


def _texts(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.array(column.tolist(), dtype=object) if np.ma.isMaskedArray(column) else column  # masked: None


def _numbers(column: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    if np.ma.isMaskedArray(column):
        return np.asarray(np.ma.filled(column.astype(np.float64), np.nan))
    return np.asarray(column, dtype=np.float64)
