"""Sources, rules and routes as they are written, and the keys that do not fit their kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from monitor.config.problems import Problem
from monitor.config.yaml_document import Document, Path

Found = Iterator[Problem]


@dataclass(frozen=True, slots=True)
class Written:
    """A source, a rule or a route as it is written, with the keys of a mapping in it as ``match.label``."""

    document: Document
    path: Path
    keys: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.keys.get(key)

    @property
    def name(self) -> str:
        """The name of a source."""
        return str(self.path[-1])

    def items(self, key: str) -> list[tuple[Path, str]]:
        """The texts of a list, with their paths."""
        return [(at, value) for at, value in self.document.listed(*self.at(key)) if isinstance(value, str)]

    def texts(self, key: str) -> list[str]:
        """The texts of a list."""
        return [text for _, text in self.items(key)]

    def at(self, key: str) -> Path:
        """The path of a key."""
        return (*self.path, *key.split("."))

    def problem(self, id: str, key: str, summary: str, remedy: str) -> Problem:
        """A problem of the value of ``key``."""
        return self.document.problem(id, self.at(key), summary, remedy)


def entries(document: Document, key: str) -> list[Written]:
    """The sources, rules or routes that are mappings."""
    every = (*document.named(key), *document.listed(key))
    return [Written(document, path, value | _inner(value)) for path, value in every if isinstance(value, dict)]


def _inner(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{key}.{name}": x for key, inner in keys.items() if isinstance(inner, dict) for name, x in inner.items()}


def repeated(document: Document, path: Path) -> Found:
    """A problem for each text that a list has once more."""
    seen: set[object] = set()
    for item, value in document.listed(*path):
        if isinstance(value, str) and value in seen:
            summary = f"{value!r} is written twice in {path[-1]}"
            yield document.problem("CAL003", item, summary, f"{value!r} once")
        seen.add(value if isinstance(value, str) else None)


class But:
    """All values except some."""

    def __init__(self, *values: object) -> None:
        self.values = values

    def __contains__(self, value: object) -> bool:
        return value not in self.values


GIVEN = But(None)
SEVERAL = But(None, 1)
NO = "no {key}"


class Misfit(NamedTuple):
    """What no source or rule of a kind may say: one of these values of the key, or of an item of its list.

    The caret is under the value; with a colon behind the key, under the key.
    """

    kind: str
    key: str
    values: Container[object]
    summary: str
    remedy: str
    id: str = "CAL024"


def misfits(entry: Written, kinds: Container[str], table: Sequence[Misfit], facts: Mapping[str, object]) -> Found:
    """The problems of an entry that is of these kinds; texts of the table name its keys, and ``facts``."""
    for misfit in table:
        key, at_key = misfit.key.removesuffix(":"), misfit.key.endswith(":")
        value, at = entry[key], entry.at(key)
        if misfit.kind not in kinds or value is None:
            continue
        told = defaultdict(lambda: None, {**entry.keys, **facts, "key": key.rpartition(".")[2]})
        summary, remedy = misfit.summary.format_map(told), misfit.remedy.format_map(told)
        in_list = isinstance(value, tuple) and not isinstance(misfit.values, But)
        for path, each in entry.document.listed(*at) if in_list else [(at, value)]:
            if each in misfit.values:
                yield entry.document.problem(misfit.id, path, summary, remedy, at_key=at_key)
