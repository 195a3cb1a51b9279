"""A short year of the channel: what is planted is told once, in one place, and ends green."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.channel import TROUBLES, Year, is_about, page, plain, played, short
from benchmarks.populations import LABELS

TROUBLE = replace(TROUBLES[0], first=2, until=4)  # precision above .8 of "label 20" falls


@pytest.fixture(scope="module")
def year() -> Year:
    few = [each for each in LABELS if each.name in ("label 02", "label 03", TROUBLE.label)]
    return played([TROUBLE], labels=few, weeks=7, n=4_000)


def test_what_goes_wrong_is_reported_in_one_message_of_its_label_and_ends_green(year: Year) -> None:
    (root,) = year.roots
    assert is_about(root, TROUBLE.label)
    assert year.windows[2].start < root.created_at < year.windows[4].end
    last = year.last_edit(root).payload
    assert plain(last["blocks"][0]["text"]["text"]).startswith("(green) ")
    assert last["text"].startswith(f"{TROUBLE.label} resolved")


def test_days_that_only_go_on_make_no_replies(year: Year) -> None:
    (root,) = year.roots
    replies = year.thread(root.id)
    assert 0 < len(replies) <= 2 * (7 - TROUBLE.first)
    assert all(short(reply) for reply in replies)
    assert len({reply.created_at for reply in replies}) == len(replies)


def test_the_page_names_the_trouble_and_when_it_was_reported(year: Year) -> None:
    (root,) = year.roots
    written = page(year, "a command")
    assert f"| {TROUBLE.label} | {TROUBLE.what} | 2026-W03 to 2026-W04 | {root.created_at:%Y-%m-%d} |" in written
    assert "1 message in the channel for 1 trouble" in written
