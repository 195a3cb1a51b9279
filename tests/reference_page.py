"""The page on rules and reasons: ``make docs`` puts it into the site (``docs/site_hooks.py``)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from monitor.config.load import parse_config
from monitor.config.model import Rule
from monitor.core.records import Reason

ROOT = Path(__file__).parents[1]
HEAD = """# Reference

Rules and reasons, each with its page. Made from `alerts.yaml` and the program.
What else has a name: [metrics](metrics.md), [keys and variables](configuration.md),
[problems of alerts.yaml](problems.md), [reasons of the gate](gate.md#reasons),
[reasons for rejecting a row](bad-rows.md), [health issues](watching.md#health-issues); commands: `calmon --help`.
For editors there is [alerts.schema.json](alerts.schema.json), for programs [openapi.json](openapi.json).
"""


def page() -> str:
    """The whole page."""
    parts = {
        "Rules": "Those of the shipped `alerts.yaml`; a # says that it is only proposed there. Overconfidence is\n"
        "mean score minus accuracy.\n\n" + table("rule", "fires when", "of", "severity", of_rules()),
        "Reasons of verdicts": pages(each.value for each in Reason),
    }
    return HEAD + "".join(f"\n## {title}\n\n{body}" for title, body in parts.items())


def table(*given: Any) -> str:
    """A table of Markdown: its headings, then its rows."""
    *headings, rows = given
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def pages(reasons: Iterable[str]) -> str:
    """Each reason with its page in the runbook."""
    return ", ".join(f"[`{reason}`](runbook/{reason}.md)" for reason in reasons) + ".\n"


def of_rules() -> list[list[str]]:
    text = (ROOT / "alerts.yaml").read_text("utf-8")
    shipped = {rule.id for rule in parse_config(text).rules}
    every = parse_config(re.sub(r"^  # (?=- \{id: )", "  ", text, flags=re.MULTILINE)).rules
    return [
        [f"[{rule.id}](rules/{rule.id}.md){'' if rule.id in shipped else ' #'}", fires(rule), of(rule), rule.severity]
        for rule in every
    ]


def fires(rule: Rule) -> str:
    name = rule.metric if rule.metric else f"{rule.test} of {rule.column}"
    streak = f", {rule.for_windows} windows in a row" if rule.for_windows > 1 else ""
    return f"{name} {rule.condition} {rule.threshold:g}{streak}"


def of(rule: Rule) -> str:
    only = "" if rule.match.label is None else f" of {rule.match.label}"
    whose = {"labels": "a label", "source": "a source", "segments": "parts of a label"}[rule.scope]
    return f"{rule.where} rows of {whose}{only}, {rule.schedule}"
