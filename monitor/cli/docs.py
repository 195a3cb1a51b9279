"""``calmon docs``: the documents, which ship with the program."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

import typer
from rich.markdown import Markdown

from monitor.cli import common as cli
from monitor.core import documents

NameArgument = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="A document, like switch or run_missing, or words of its title.")
]


@cli.app.command("docs", epilog="Examples:  calmon docs  ·  calmon docs run_missing  ·  calmon docs recalibration")
def docs_command(name: NameArgument = None) -> None:
    """The documents: a list of them, or one. Messages name the one to read."""
    titles = documents.titles()
    found = documents_named(name, titles)
    if name is not None and len(found) == 1:
        text = documents.text_of(found[0]) or ""
        if cli.out.is_terminal:
            cli.out.print(Markdown(text))
        else:
            typer.echo(text)
        return
    if not found:
        near = get_close_matches(name or "", [each.rpartition("/")[2] for each in titles], n=1)
        meant = f"; did you mean {near[0]}?" if near else ":"
        raise cli.UsageError(f"no document is called {name}{meant} `calmon docs` lists them")
    cli.print_table(("document", "title"), [(each, titles[each]) for each in found])


def documents_named(name: str | None, titles: dict[str, str]) -> list[str]:
    """The document of that name, else those with these words in their titles; all of them for None.

    >>> documents_named("run_missing", {"runbook/run_missing": "run_missing", "switch": "The switch"})
    ['runbook/run_missing']
    """
    if name is None:
        return list(titles)
    path = name.removeprefix("docs/").removesuffix(".md")
    called = [each for each in titles if path in (each, each.rpartition("/")[2])]
    return called or [each for each, title in titles.items() if name.lower() in title.lower()]
