"""Every reason a verdict can have is explained on a page of its own, always under the same headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from monitor.alerting.health.issues import WatchReason
from monitor.core.records import Reason

RUNBOOK = Path(__file__).parents[3] / "docs" / "runbook"
HEADINGS = ["What to do"]


@pytest.mark.parametrize("reason", [*Reason, *WatchReason])
def test_every_reason_has_its_page_with_the_same_headings(reason: Reason | WatchReason):
    text = (RUNBOOK / f"{reason.value}.md").read_text()
    assert text.startswith(f"# {reason.value}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    meaning, todo = text.removeprefix(f"# {reason.value}\n").split("\n## What to do\n")
    assert len(meaning.strip()) > 60
    assert len(todo.strip()) > 40


def test_no_page_is_left_of_a_reason_that_is_gone():
    assert {page.stem for page in RUNBOOK.glob("*.md")} == {reason.value for reason in (*Reason, *WatchReason)}


def test_the_links_between_the_pages_lead_somewhere():
    pages = [*RUNBOOK.glob("*.md"), RUNBOOK.parent / "switch.md"]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text())]
    assert len(links) >= 3
    assert [link for page, link in links if not (page.parent / link).exists()] == []
