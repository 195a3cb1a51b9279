"""Writes docs/reference.md, every name on one page, from program and pages: ``python -m tests.write_reference``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer
from pydantic import SecretStr

from monitor.alerting.health.issues import WatchReason
from monitor.automation.state import GateReason
from monitor.cli import app
from monitor.config.load import parse_config
from monitor.config.model import Rule
from monitor.config.problems import PROBLEMS
from monitor.config.settings import Settings, variable
from monitor.core.records import Reason, RejectReason
from monitor.metrics.registry import METRICS
from tests.write_commands import commands

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = DOCS / "reference.md"
HEAD = """# Reference

Every name that the program knows, on one page; each leads to what is said of it. Made by
`python -m tests.write_reference`; a test fails when it is out of date. The keys of alerts.yaml are in
[configuration.md](configuration.md#the-file), and for editors in [alerts.schema.json](alerts.schema.json), which
`calmon check --print-schema` prints too; the HTTP service in [openapi.json](openapi.json).
"""


def page() -> str:
    """The whole page."""
    parts = {
        "Commands": table("command", "what it does", of_commands()),
        "Settings": table("variable", "meaning", "default", of_settings()),
        "Rules": "Those of the shipped `alerts.yaml`; a # says that it is only proposed there. Overconfidence is\n"
        "mean score minus accuracy.\n\n" + table("rule", "fires when", "of", "severity", of_rules()),
        "Metrics": table("metric", "title", "better", "of", of_metrics()),
        "Reasons of verdicts": table("reason", "what it means", of_pages(Reason)),
        "Health issues of the monitor itself": table("reason", "what it means", of_pages(WatchReason)),
        "Reasons of the gate": "What a router is answered: [gate.md](gate.md).\n\n" + in_a_row(GateReason),
        "Reasons for setting a row aside": "[bad-rows.md](bad-rows.md).\n\n" + in_a_row(RejectReason),
        "Problems of alerts.yaml": table("id", "problem", of_problems()),
        "Pages": "Beside those of each rule and each reason.\n\n" + table("page", "title", of_documents()),
    }
    return HEAD + "".join(f"\n## {title}\n\n{body}" for title, body in parts.items())


def table(*given: Any) -> str:
    """A table of Markdown: its headings, then its rows."""
    *headings, rows = given
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def in_a_row(names: Iterable[Any]) -> str:
    return ", ".join(f"`{name.value}`" for name in names) + ".\n"


def of_commands() -> list[list[str]]:
    """Commands that do something, not their groups."""
    found, every = [], typer.main.get_command(app)
    for words in commands():
        command: Any = every
        for word in words:
            command = command.get_command(None, word)
        if not hasattr(command, "list_commands"):
            name = " ".join(("calmon", *words))
            said = " ".join(str(command.help).split("\n\n")[0].split())
            found.append([f"[`{name}`](commands.md#{name.replace(' ', '-')})", said])
    return found


def of_settings() -> list[list[str]]:
    meanings = dict(re.findall(r"^\| `(CALMON_\w+)` \| (.*?) \|", (DOCS / "configuration.md").read_text("utf-8"), re.M))
    found = []
    for name, field in Settings.model_fields.items():
        default = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
        shown = "" if default is None else f"`{default}`"
        found.append([f"[`{variable(name)}`](configuration.md#environment)", meanings[variable(name)], shown])
    return found


def of_rules() -> list[list[str]]:
    text = (ROOT / "alerts.yaml").read_text("utf-8")
    shipped = {rule.id for rule in parse_config(text).rules}
    every = parse_config(re.sub(r"^  # (?=- \{id: )", "  ", text, flags=re.MULTILINE)).rules
    return [
        [f"[{rule.id}](rules/{rule.id}.md){'' if rule.id in shipped else ' #'}", fires(rule), of(rule), rule.severity]
        for rule in every
    ]


def fires(rule: Rule) -> str:
    name = f"[{rule.metric}](metrics.md#{rule.metric})" if rule.metric else f"{rule.test} of {rule.column}"
    streak = f", {rule.for_windows} windows in a row" if rule.for_windows > 1 else ""
    return f"{name} {rule.condition} {rule.threshold:g}{streak}"


def of(rule: Rule) -> str:
    only = "" if rule.match.label is None else f" of {rule.match.label}"
    whose = {"labels": "a label", "source": "a source", "segments": "parts of a label"}[rule.scope]
    return f"{rule.where} rows of {whose}{only}, {rule.schedule}"


def of_metrics() -> list[list[str]]:
    return [
        [f"[`{name}`](metrics.md#{name})", metric.title, metric.direction, metric.needs]
        for name, metric in METRICS.items()
    ]


def of_pages(reasons: Iterable[Any]) -> list[list[str]]:
    return [[f"[`{reason.value}`](runbook/{reason.value}.md)", first_sentence(reason.value)] for reason in reasons]


def first_sentence(reason: str) -> str:
    """What a page of the runbook says first under its first heading, links as they are seen from here."""
    text = (DOCS / "runbook" / f"{reason}.md").read_text("utf-8").partition("## What it means\n")[2].strip()
    sentence = re.split(r"(?<=[.:])\s(?=[A-Z]|\n|$)", " ".join(text.split("\n\n")[0].split()))[0].rstrip(":")
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence)


def of_problems() -> list[list[str]]:
    return [[f"[{id}](problems.md#{slug(f'{id} {title}')})", title] for id, title in PROBLEMS.items()]


def of_documents() -> list[list[str]]:
    """The pages in docs/ itself, by their first headings."""
    found = {path.name: path.read_text("utf-8").partition("\n")[0].lstrip("# ") for path in sorted(DOCS.glob("*.md"))}
    return [[f"[{name}]({name})", title] for name, title in found.items() if name != PAGE.name]


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
