"""The documents that ship with the program: the folder ``docs/`` of a checkout, or its copy in an installed wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_HERE = Path(__file__).parents[1]
#: In a wheel ``setup.py`` has copied docs/ into the package; in a checkout it is beside it. One source of truth.
_PLACES = (_HERE / "docs", _HERE.parent / "docs")


OTHERS = "Method"
#: Heading -> its documents in order, as on the site (mkdocs.yml); documents of no group are of the method.
GROUPS: dict[str, tuple[str, ...]] = {
    "Start": ("tutorial", "own-data", "shapes", "demo"),
    "Run": ("operations", "watching", "http", "engines", "warehouse-roles", "scale"),
    "Decide": ("switch", "gate", "replay", "recalibration", "confidence"),
    "Rules": (),
    "Read": ("alerts", "dashboard", "diagnosis", "report", "explain", "examples", "annotations", "history"),
    "Reference": ("configuration", "problems", "metrics", "bad-rows", "glossary"),
    OTHERS: ("statistics",),
    "Runbook": (),
    "Development": ("architecture",),
}
FOLDERS = {"rules": "Rules", "runbook": "Runbook"}


@cache
def folder() -> Path | None:
    """The folder of the documents; None if they are not installed."""
    return next((place for place in _PLACES if (place / "runbook").is_dir()), None)


@cache
def pages() -> frozenset[str]:
    """Every document by its name without suffix, such as ``runbook/above_threshold``."""
    place = folder()
    if place is None:
        return frozenset()
    return frozenset(path.relative_to(place).with_suffix("").as_posix() for path in place.rglob("*.md"))


@cache
def titles() -> dict[str, str]:
    """Every document with its title: its first heading, else its name."""
    found = {}
    for name in sorted(pages()):
        first = next((line for line in (text_of(name) or "").splitlines() if line.startswith("# ")), f"# {name}")
        found[name] = first.removeprefix("# ").replace("`", "")
    return found


def text_of(name: str) -> str | None:
    """The Markdown of a document; None if there is none of that name."""
    place = folder()
    if place is None or name not in pages():  # only listed names, so that no path leads out of the folder
        return None
    return (place / f"{name}.md").read_text("utf-8")


def picture_of(name: str) -> bytes | None:
    """The path of a picture, given its path in the documents' folder; None if there is none."""
    place = folder()
    known = {} if place is None else {p.relative_to(place).as_posix(): p for p in place.rglob("*.png")}
    return known[name].read_bytes() if name in known else None
