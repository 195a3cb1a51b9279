"""YAML text to plain data, with the place of every key and value, and the problems of the YAML itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from monitor.config.problems import Problem, lines_of

Path = tuple[str | int, ...]
"""The keys and positions that lead to a value: ``("rules", 2, "metric")``."""

MERGE_KEY = "<<"

_LARGEST = 100_000  # values; nested aliases can expand to any number of them
_DEEPEST = 50
_MOST_TABS = 50
_TOO_LARGE = 10**15  # more than this file ever needs; larger numbers are not exact as floats
_SHOWN = 40
_REMARK_WITHIN = 30  # lines above a mistake in which a remark is looked for that explains it
_TAB = "a tab: YAML is indented with spaces only"
_OF_WORDS = (("positive",), ("negative",))
"""Keys of a source with values of the data, as written: ``yes`` and ``1`` are words there."""
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""What an escape in quotes can write and no database keeps: NUL, and half of a character."""
_PLAIN_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null")}


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a value: line and column from 1, and how many characters the caret underlines."""

    line: int
    column: int
    length: int


@dataclass(frozen=True, slots=True)
class Document:
    """The content of the file: plain data (dicts, tuples, strings, numbers) and the place of each part.

    A value that could not be read is None in ``data``; its path is in ``broken``, the reason in ``problems``.
    """

    file: str
    data: Any
    keys: Mapping[Path, Place] = field(default_factory=dict)
    values: Mapping[Path, Place] = field(default_factory=dict)
    written: Mapping[Path, str] = field(default_factory=dict)
    broken: frozenset[Path] = frozenset()
    problems: tuple[Problem, ...] = ()

    def get(self, *path: str | int) -> Any:
        """The value at ``path``; None if there is none, or if a part of the path is no mapping or list."""
        value = self.data
        for step in path:
            if isinstance(step, str) and isinstance(value, dict):
                value = value.get(step)
            elif isinstance(step, int) and isinstance(value, tuple):
                value = value[step] if step < len(value) else None
            else:
                return None
        return value

    def named(self, *path: str | int) -> Iterator[tuple[Path, Any]]:
        """Path and value of each entry of the mapping at ``path``; empty if it is not a mapping."""
        found = self.get(*path)
        yield from (((*path, key), value) for key, value in found.items()) if isinstance(found, dict) else ()

    def listed(self, *path: str | int) -> Iterator[tuple[Path, Any]]:
        """Path and value of each item of the list at ``path``; empty if it is not a list."""
        found = self.get(*path)
        yield from (((*path, index), value) for index, value in enumerate(found)) if isinstance(found, tuple) else ()

    def place(self, path: Path) -> Place:
        """The place of the value at ``path``, or of the nearest enclosing value if there is none."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, Place(1, 1, 1))

    def key_place(self, path: Path) -> Place:
        """The place of the key of ``path``, or of its value if that is an item of a list."""
        return self.keys.get(path) or self.place(path)

    def problem(self, id: str, path: Path, summary: str, remedy: str, *, at_key: bool = False) -> Problem:
        """A problem of the value (or the key) at ``path``."""
        at = self.key_place(path) if at_key else self.place(path)
        return Problem(id, summary, remedy, self.file, at.line, at.column, at.length)


class _Loader(yaml.SafeLoader):
    """The safe loader, but dates are text, and ``=`` and ``<<`` have no special meaning."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as the base class declares it
        first: [(tag, pattern) for tag, pattern in resolvers if tag in _PLAIN_TAGS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_document(text: str, file: str) -> Document:
    """Read the text as data with places. Never raises for its content: mistakes are in ``Document.problems``."""
    tabs: list[Problem] = []
    while True:
        try:
            root = yaml.compose(text, Loader=_Loader)
        except yaml.YAMLError as error:
            found, tab = _syntax_problem(error, text, file), _tab(error, text)
            if tab is None or len(tabs) >= _MOST_TABS:
                return Document(file, None, problems=tuple(tabs) or (found,))
            tabs.append(found)
            text = f"{text[:tab]} {text[tab + 1 :]}"  # a space for the tab keeps all places
        except RecursionError:
            deep = Problem("CAL001", "nested too deeply", "at most 50 levels", file, 1, 1, severity="fatal")
            return Document(file, None, problems=(deep,))
        else:
            return _convert(root, text, file, tabs)


def _tab(error: yaml.YAMLError, text: str) -> int | None:
    """The position of the tab that the error is about; None if it is about something else."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return mark.index if mark is not None and text[mark.index : mark.index + 1] == "\t" else None


def _convert(root: yaml.Node | None, text: str, file: str, tabs: list[Problem]) -> Document:
    if root is None:
        empty = Problem("CAL010", "the file is empty", "version, sources, rules and automation", file, 1, 1)
        return Document(file, None, problems=(*tabs, empty))
    reader = _Reader(file, lines_of(text))
    data = reader.value(root, ())
    recovered = (replace(tab, severity="error") for tab in tabs)
    problems = (*recovered, *reader.problems)
    return Document(file, data, reader.keys, reader.values, reader.written, frozenset(reader.broken), problems)


class _Reader:
    """Walks the nodes once and notes data, places and problems."""

    def __init__(self, file: str, lines: list[str]) -> None:
        self.file = file
        self.lines = lines
        self.keys: dict[Path, Place] = {}
        self.values: dict[Path, Place] = {}
        self.written: dict[Path, str] = {}
        self.broken: set[Path] = set()
        self.problems: list[Problem] = []
        self._above: list[yaml.Node] = []
        self._scalars = yaml.constructor.SafeConstructor()

    def value(self, node: yaml.Node, path: Path) -> Any:
        """The node as plain data; None if it cannot be read."""
        if node in self._above:
            return self._refuse(node, path, "an alias of what it is part of", "the values themselves")
        if len(self._above) >= _DEEPEST or len(self.values) >= _LARGEST:
            return self._refuse(node, path, "nested too deeply, or too large", "fewer levels and fewer aliases")
        self.values[path] = self._place(node, path)
        self._above.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return tuple(self.value(item, (*path, index)) for index, item in enumerate(node.value))
            return self._scalar(node, path)
        finally:
            self._above.pop()

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = self._key(key, path)
            if name is not None:
                self.keys[(*path, name)] = self._place(key, ())
                found[name] = self.value(value, (*path, name))
        return found

    def _key(self, key: yaml.Node, path: Path) -> str | None:
        """The text of a key, as written: a label may be called ``no`` or ``404``."""
        if not isinstance(key, yaml.ScalarNode):
            self._note("CAL001", key, "a key must be one word, not a list or mapping", "key: value")
        elif key.value == MERGE_KEY and key.style is None:
            self.broken.add((*path, MERGE_KEY))
            self._note("CAL001", key, "merge keys (<<) are not read", "the keys themselves")
        elif _NO_TEXT.search(key.value):
            self._note("CAL001", key, f"{key.value!r} is no text", "the characters themselves")
        elif (*path, key.value) in self.keys:
            first = self.keys[(*path, key.value)].line
            summary = f"{key.value!r} is written twice (first on line {first})"
            self._note("CAL003", key, summary, f"{key.value!r} once; delete this one or the one on line {first}")
        else:
            return str(key.value)
        return None

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        text = self.written[path] = str(node.value)
        if _NO_TEXT.search(text):
            return self._refuse(node, path, f"{text[:_SHOWN]!r} is no text", "the characters themselves")
        if node.tag == "tag:yaml.org,2002:str":
            return text
        if node.tag not in _PLAIN_TAGS:
            return self._refuse(node, path, f"the tag {node.tag} is not read", "the value without a tag")
        try:
            found = self._scalars.construct_object(node)
        except (ValueError, KeyError, OverflowError, yaml.YAMLError):
            shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
            return self._refuse(node, path, f"{shown!r} cannot be read as {node.tag.rpartition(':')[2]}", f'"{shown}"')
        if isinstance(found, int) and abs(found) >= _TOO_LARGE:
            return self._refuse(node, path, "a number with too many digits", "a number of at most 15 digits")
        return found if found is None or path[2:-1] not in _OF_WORDS else text

    def _refuse(self, node: yaml.Node, path: Path, summary: str, remedy: str) -> None:
        self.broken.add(path)
        self._note("CAL001", node, summary, remedy)

    def _note(self, id: str, node: yaml.Node, summary: str, remedy: str) -> None:
        at = self._place(node, ())
        self.problems.append(Problem(id, summary, remedy, self.file, at.line, at.column, at.length))

    def _place(self, node: yaml.Node, path: Path) -> Place:
        start, end = node.start_mark, node.end_mark
        block = isinstance(node, yaml.CollectionNode) and not node.flow_style
        if (block or start.index == end.index) and path in self.keys:
            return self.keys[path]  # for a block or an empty value the caret is under its key
        if start.line == end.line:
            return Place(start.line + 1, start.column + 1, max(1, end.column - start.column))
        first = self.lines[start.line].rstrip()
        return Place(start.line + 1, start.column + 1, max(1, len(first) - start.column) if not block else 1)


# A part of PyYAML's message, its meaning, and what to write.
_SYNTAX = (
    ("'\\t'", _TAB, "spaces in place of the tab"),
    (
        "mapping values are not allowed",
        "a ':' where none is allowed",
        "the value in quotes if it holds ': '; else indent this line like the one above",
    ),
    ("could not find expected ':'", "a key without its ':'", "key: value, with a space after the ':'"),
    ("while scanning a quoted scalar", "a quote that is never closed", "the closing quote"),
    ("expected ',' or '}'", "a '{' whose '}' or ',' is missing", "{key: value, key: value}"),
    ("expected ',' or ']'", "a '[' whose ']' or ',' is missing", "[value, value]"),
    (
        "expected <block end>",
        "a line indented differently from its neighbours",
        "all entries of one list or mapping, beginning in the same column",
    ),
    ("found undefined alias", "an alias (*name) of an anchor (&name) that is not there", "the value itself"),
    ("expected a single document", "a second document after '---'", "one document; delete the '---'"),
    ("cannot start any token", "a character that cannot begin a value", 'the value in quotes: "…"'),
    ("special characters are not allowed", "a control character", "the line without it"),
)


def _syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    message = " ".join(str(error).split())
    line, column = _where(error, text)
    remark = _remark_in_braces(error, text)
    if remark is not None:
        at, word = remark
        summary = "not YAML: a remark begins at this '#', so the brace before it is never closed"
        return Problem("CAL001", summary, f'"{word}", in quotes', file, *at, len(word), severity="fatal")
    for part, summary, remedy in _SYNTAX:
        if part in message:
            return Problem("CAL001", f"not YAML: {summary}", remedy, file, line, column, severity="fatal")
    detail = str(getattr(error, "problem", None) or message)
    return Problem(
        "CAL001", f"not YAML: {detail}", "the YAML syntax on this line", file, line, column, severity="fatal"
    )


def _remark_in_braces(error: yaml.YAMLError, text: str) -> tuple[tuple[int, int], str] | None:
    """Place and text of a name such as ``#ml-oncall`` that has no quotes in braces, in the lines up to the error.

    YAML takes it and the rest of its line for a remark, and finds the brace open in a later line.
    """
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    last = text.count("\n") if mark is None else mark.line
    numbered = list(enumerate(lines_of(text)[: last + 1], 1))[-_REMARK_WITHIN:]
    for number, line in reversed(numbered):
        at = _remark(line)
        if at is not None:
            return (number, at + 1), re.split(r"[\s,}\]]", line[at:], maxsplit=1)[0]
    return None


def _remark(line: str) -> int | None:
    """Where a remark without a space after its # takes away the end of what is open in its line.

    >>> _remark("  - {channel: #ml, repeat: 1w}"), _remark('  - {channel: "#ml"}  #why'), _remark("#- {a: 1}")
    (14, None, None)
    """
    quote, opened = "", 0
    for at, letter in enumerate(line):
        if quote or letter in "\"'":
            quote = "" if letter == quote else quote or letter
        elif letter == "#" and line[:at][-1:] in ("", " ", "\t"):
            name, rest = line[at + 1 : at + 2], line[at:]
            return at if opened > 0 and name.isalnum() and ("}" in rest or "]" in rest) else None
        opened += (letter in "{[") - (letter in "}]") if not quote else 0
    return None


def _where(error: yaml.YAMLError, text: str) -> tuple[int, int]:
    """Line and column of a syntax error; for an unclosed quote or bracket, those of its opening."""
    if isinstance(error, yaml.MarkedYAMLError):
        opened = "quoted scalar" in (error.context or "") or "flow" in (error.context or "")
        mark = error.context_mark if opened and error.context_mark else error.problem_mark or error.context_mark
        if mark is not None:
            return mark.line + 1, mark.column + 1
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position]
        return before.count("\n") + 1, error.position - before.rfind("\n")
    return 1, 1
