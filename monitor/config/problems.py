"""The problems of alerts.yaml, and how they are printed: place, id, line, caret, fix."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

LONGEST = 400
"""The most characters of a line, a summary or a remedy that are printed."""
ProblemSeverity = Literal["error", "fatal"]

PROBLEMS = tuple(f"CAL{number:03d}" for number in range(1, 34))
"""Every id; ``docs/problems.md`` has a title and a section for each."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in alerts.yaml.

    ``line`` and ``column`` count from 1 and are those of the value at fault; ``length`` is what the
    caret underlines, in characters. ``line`` is 0 where the file as a whole cannot be read.
    ``severity`` is ``fatal`` if the rest of the file could not be checked because of the problem.
    """

    id: str
    summary: str
    remedy: str
    file: str = "alerts.yaml"
    line: int = 0
    column: int = 0
    length: int = 1
    severity: ProblemSeverity = "error"


class ConfigProblems(Exception):
    """alerts.yaml has problems, so nothing runs. ``str()`` prints all of them, in line order."""

    def __init__(self, problems: tuple[Problem, ...], text: str = "") -> None:
        super().__init__(problems, text)
        self.problems = problems
        self.text = text

    def __str__(self) -> str:
        count = f"{len(self.problems)} problem{'s' if len(self.problems) != 1 else ''}"
        ending = f"{count}; nothing was run. Each id is explained in docs/problems.md."
        if any(problem.severity == "fatal" for problem in self.problems):
            ending = f"{count}; the rest of the file could not be checked. Each id is explained in docs/problems.md."
        return "\n\n".join([*(render(problem, self.text) for problem in self.problems), ending])


def render(problem: Problem, source_text: str) -> str:
    r"""The problem as printed text.

    >>> found = Problem("CAL012", "unknown metric 'ecee'", "metric: ece", line=1, column=9, length=4)
    >>> print(render(found, "metric: ecee\n"))
    alerts.yaml:1:9 CAL012 unknown metric 'ecee'
        1 | metric: ecee
          |         ^^^^
          fix: metric: ece
    """
    summary, remedy = _short(problem.summary), _short(problem.remedy)
    if problem.line == 0:
        return f"{problem.file} {problem.id} {summary}\n      what to do: {remedy}"
    head = f"{problem.file}:{problem.line}:{problem.column} {problem.id} {summary}"
    return "\n".join([head, *_excerpt(problem, source_text), f"      fix: {remedy}"])


def _short(text: str) -> str:
    """A text that may hold a value of any length, without its middle."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"


def lines_of(text: str) -> list[str]:
    """The lines as YAML counts them: more line breaks than the usual ones, but fewer than Python's."""
    return re.split("\r\n|[\n\r\x85\u2028\u2029]", text)


def _excerpt(problem: Problem, source_text: str) -> list[str]:
    lines = lines_of(source_text)
    written = lines[problem.line - 1] if problem.line <= len(lines) else ""
    # without control characters, which a terminal would execute
    line = "".join(c if c == "\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in written)
    before, under = line[: problem.column - 1], line[problem.column - 1 :][: problem.length]
    if len(line) > LONGEST:  # what is before the problem gives way first
        before, under = before[-LONGEST // 4 :], under[: LONGEST // 2]
        line = (before + line[problem.column - 1 :])[:LONGEST]
    caret = "^" * max(1, sum(map(_width, under)))
    blank = "".join(c if c == "\t" else " " * _width(c) for c in before)
    return [f"{problem.line:5} | {line}".rstrip(), f"      | {blank}{caret}"]


def _width(character: str) -> int:
    """The number of columns that a character takes on a terminal."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant; None if none is similar.

    >>> closest("ecee", ["ece", "mce"]), closest("F1", ["ece", "mce"])
    ('ece', None)
    """
    by_folded = {name.casefold().replace("-", "_"): name for name in reversed(list(known))}
    found = difflib.get_close_matches(word.casefold().replace("-", "_"), list(by_folded), n=1, cutoff=0.65)
    return by_folded[found[0]] if found else None


def meant(word: str, known: Iterable[str], form: str = "{}") -> str:
    """The remedy for an unknown word: the similar one, written out, else all known words.

    >>> meant("ecee", ["ece", "mce"], "metric: {}")
    'metric: ece (known: ece, mce)'
    >>> meant("f1", ["ece", "mce"], "metric: {}")
    'metric: one of ece, mce'
    """
    choices = list(known)
    near = closest(word, choices)
    if near is None:
        return form.format(f"one of {', '.join(choices)}")
    others = f" (known: {', '.join(choices)})" if len(choices) > 1 else ""
    return form.format(near) + others
