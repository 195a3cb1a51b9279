"""What MkDocs does beside its own work, so that the documents stay as GitHub shows them.

README.md, CONTRIBUTING.md and CHANGELOG.md become pages, and so do the help of all
commands and the list of rules and reasons; a fence such as
"```csv long form" is one of csv; a list may follow a line of text without an empty line between.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tests.command_page import page as commands
from tests.reference_page import page as reference

ROOT = Path(__file__).parents[1]
#: A page of the site -> its file in the root of the project.
OF_THE_ROOT = {"index.md": "README.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
COMMANDS, REFERENCE = "commands.md", "reference.md"
FOR_OTHERS = "Method"
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(`{3,}|~{3,})")
ITEM = re.compile(r"^(?:[-*]|\d+\.) ")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the navigation: every page has a place."""
    pages = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
    named: set[str] = set(OF_THE_ROOT)
    nav = [_filled(entry, pages, named) for entry in config.nav or ()]
    for entry in nav:
        if FOR_OTHERS in entry:
            entry[FOR_OTHERS] += [page for page in pages if page not in named]
    config.nav = nav
    return config


def _filled(entry: Any, pages: list[str], named: set[str]) -> Any:
    if isinstance(entry, dict):
        return {title: _filled(inner, pages, named) for title, inner in entry.items()}
    if isinstance(entry, list):
        return [_filled(each, pages, named) for each in entry]
    if entry.endswith("*"):
        found = [page for page in pages if page.startswith(entry[:-1])]
        named.update(found)
        return found
    named.add(entry)
    return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are kept in the root of the project, and those that the program's own texts make."""
    files.append(File.generated(config, COMMANDS, content=commands()))
    files.append(File.generated(config, REFERENCE, content=reference()))
    for page, file in OF_THE_ROOT.items():
        text = (ROOT / file).read_text("utf-8")
        files.append(File.generated(config, page, content=LINK.sub(_from_the_root, text)))
    return files


def _from_the_root(link: re.Match[str]) -> str:
    """A link of a file in the root, as one of a page in docs/; what is no page loses its link."""
    target, anchor = link[1], link[2] or ""
    if "://" in target or not target:
        return link[0]
    if target in OF_THE_ROOT.values():
        return f"]({next(page for page, file in OF_THE_ROOT.items() if file == target)}{anchor})"
    if target.startswith("docs/") and (ROOT / target).is_file():
        return f"]({target.removeprefix('docs/')}{anchor})"
    return "]"


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """The text as Python-Markdown reads it; a link out of docs/ leads to the page that is made of that file."""
    up = "../" * page.file.src_uri.count("/")
    for name, file in OF_THE_ROOT.items():
        markdown = markdown.replace(f"]({up}../{file})", f"]({up}{name})")
    return "\n".join(_lines(markdown.split("\n")))


def _lines(lines: list[str]) -> list[str]:
    """The lines with one word a fence, and an empty line before a list."""
    found: list[str] = []
    fence = ""
    for line in lines:
        opened = FENCE.match(line)
        if opened and not fence:
            fence, line = opened[1], " ".join(line.split()[:1])  # noqa: PLW2901 - the one that is kept
        elif opened and line.strip() == fence:
            fence = ""
        elif not fence and ITEM.match(line) and found and found[-1].strip() and not _of_a_list(found[-1]):
            found.append("")
        found.append(line)
    return found


def _of_a_list(line: str) -> bool:
    return bool(ITEM.match(line)) or line.startswith("  ")
