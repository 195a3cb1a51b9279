"""A year of the channel: twenty labels judged every week and every day, five of them worse for some weeks.

Rows are drawn from populations whose truth is known, judged by the shipped rules, and acted on by the code of a run.
The messages in the history are counted and shown. ``python -m benchmarks.channel`` writes docs/channel.md.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from benchmarks.checkout import ROOT
from benchmarks.days import judged_days
from benchmarks.populations import LABELS, Population, less_precise, raised
from benchmarks.weeks import SOURCE, ByLabel, Rows, Setting, by_day, drawn, judged, rules_of, setting, shipped
from monitor.config.settings import load_settings
from monitor.context import Monitor
from monitor.core.records import Delivery, Estimate, Subject, Verdict, Window
from monitor.core.windows import SETTLE
from monitor.core.wording import clean, count_of
from monitor.evaluation.estimates import Sample, estimate
from monitor.evaluation.evaluate import Evaluated
from monitor.history.store import Store
from monitor.operations import act, incident_actions
from monitor.operations.open import open_warehouse

SEED, WEEKS, ROWS = 20260101, 52, 2_000
ANSWERS_AFTER = timedelta(hours=2)  # until somebody acknowledges a new incident
WORDS_A_MINUTE = 250
_MARKS = {
    "red_circle": "critical", "large_yellow_circle": "warning", "large_blue_circle": "info", "eyes": "acknowledged",
    "mute": "silenced", "white_check_mark": "resolved", "large_green_circle": "green",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault of one label and its weeks, counted from 0: from ``first`` on, ``until`` (exclusive)."""

    label: str
    first: int
    until: int
    what: str
    becomes: Population


def _of(name: str) -> Population:
    return next(each for each in LABELS if each.name == name)


TROUBLES = (
    Trouble("label 20", 6, 10, "precision above .8 falls to .59", less_precise(_of("label 20"), 0.59, 0.8)),
    Trouble("label 05", 14, 18, "ECE rises by .08", raised(_of("label 05"), 0.08)),
    Trouble("label 09", 23, 25, "ECE rises by .15", raised(_of("label 09"), 0.15)),
    Trouble("label 12", 31, 34, "ECE rises by .06", raised(_of("label 12"), 0.06)),
    Trouble("label 16", 41, 46, "precision above .8 falls to .65", less_precise(_of("label 16"), 0.65, 0.8)),
)


@dataclass(frozen=True, slots=True)
class Year:
    """All messages of the year, by time, and the planted troubles."""

    deliveries: tuple[Delivery, ...]
    troubles: tuple[Trouble, ...]
    windows: Sequence[Window]

    @property
    def roots(self) -> list[Delivery]:
        """The messages of the channel itself."""
        return [each for each in self.deliveries if each.operation == "post" and each.kind == "incidents"]

    def thread(self, root: str) -> list[Delivery]:
        """The replies to one message, except its numbers."""
        replies = [each for each in self.deliveries if each.operation == "reply" and each.root == root]
        return [each for each in replies if each.payload["metadata"]["event_payload"].get("change") != "numbers"]

    def last_edit(self, root: Delivery) -> Delivery:
        """The message in its last state."""
        edits = [each for each in self.deliveries if each.operation == "edit" and each.root == root.id]
        return max(edits, key=lambda each: each.sequence, default=root)


def played(
    troubles: Sequence[Trouble] = TROUBLES,
    *,
    labels: Sequence[Population] = LABELS,
    weeks: int = WEEKS,
    n: int = ROWS,
    seed: int = SEED,
) -> Year:
    """Play a year of ``labels`` with ``n`` rows a label-week on an empty history."""
    rng = np.random.default_rng((seed, n))
    year = setting(labels, n, weeks, rng)
    rows = planted(drawn(labels, weeks, n, rng), troubles, weeks, n, rng)
    with _monitor(year) as (monitor, clock):
        for window, verdicts, estimates in _evaluations(year, rows):
            clock.now = window.end + SETTLE
            _act(monitor, window, verdicts, estimates)
            clock.now += ANSWERS_AFTER
            for incident in monitor.store.incidents("open"):
                incident_actions.acknowledge(monitor, incident.id, "on-call")
        found = sorted(monitor.store.deliveries(), key=lambda d: (d.created_at, d.operation != "post", d.sequence))
    return Year(tuple(found), tuple(troubles), year.windows)


def planted(
    rows: ByLabel, troubles: Iterable[Trouble], weeks: int, n: int, rng: np.random.Generator
) -> dict[str, Rows]:
    """The rows, with those of the troubled weeks drawn from the population that the label becomes."""
    found = dict(rows)
    for trouble in troubles:
        before = found[trouble.label]
        during = drawn([trouble.becomes], trouble.until - trouble.first, n, rng)[trouble.becomes.name]
        found[trouble.label] = before.first(trouble.first).then(during).then(_from(before, trouble.until))
    return found


def _from(rows: Rows, window: int) -> Rows:
    start = rows.starts[window]
    return Rows(rows.population, rows.cells[start:], rows.outcomes[start:], rows.starts[window:] - start)


class _Clock:
    now: datetime

    def __call__(self) -> datetime:
        return self.now


@contextmanager
def _monitor(year: Setting) -> Iterator[tuple[Monitor, _Clock]]:
    """A monitor on an empty history. Nothing is read from its warehouse, and nothing is sent."""
    clock = _Clock()
    clock.now = year.windows[0].start
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings({"CALMON_WAREHOUSE_URL": f"duckdb:///{folder}/unused.duckdb"})
        with (
            open_warehouse(settings, shipped()) as warehouse,
            Store.from_url(f"sqlite:///{folder}/history.sqlite") as store,
        ):
            store.save_baselines(list(year.baselines.values()))
            yield Monitor(shipped(), settings, warehouse, store, None, clock), clock


def _evaluations(year: Setting, rows: ByLabel) -> Iterator[tuple[Window, list[Verdict], list[Estimate]]]:
    """Every week, and every day that can have a breach or end one, in the order of judging."""
    days, daily = by_day(year), {name: part.in_days() for name, part in rows.items()}
    rules = rules_of(year.config, "weekly")
    found: list[tuple[Window, Setting, Mapping[str, Rows], list[Verdict]]] = [
        (days.windows[day], days, daily, v) for day, v in judged_days(days, daily, rules_of(year.config, "daily"))
    ]
    found += [(window, year, rows, judged(year, rows, i, rules)) for i, window in enumerate(year.windows)]
    for window, of, counted, verdicts in sorted(found, key=lambda each: (each[0].end, each[0].schedule)):
        yield window, verdicts, list(_estimates(of, counted, window, verdicts))


def _estimates(year: Setting, rows: ByLabel, window: Window, verdicts: Sequence[Verdict]) -> Iterator[Estimate]:
    """The estimates of the labels in breach, in the analytic form: no message shows the others."""
    analytic = year.config.evaluation.model_copy(update={"interval": "analytic"})
    index = list(year.windows).index(window)
    for label in sorted({str(v.subject.label) for v in verdicts if v.outcome == "breach"}):
        sample = Sample(Subject(SOURCE, label), rows[label].counts(index), year.baselines[label].edges)
        yield from estimate([sample], window, analytic)


def _act(monitor: Monitor, window: Window, verdicts: Sequence[Verdict], estimates: Sequence[Estimate]) -> None:
    monitor.store.save_evaluation(window, [SOURCE], estimates, verdicts, (), monitor.clock())
    part = Evaluated(SOURCE, window, tuple(estimates), tuple(verdicts), (), ())
    act.act(monitor, window, [part], {SOURCE: ""})


def page(year: Year, command: str) -> str:
    """The text of docs/channel.md."""
    shown = "\n\n".join(_thread(year, root, number) for number, root in enumerate(year.roots, start=1))
    words = sum(any(letter.isalnum() for letter in word) for word in shown.split())
    rows = "\n".join(_row(year, trouble) for trouble in year.troubles)
    replies = sum(len(year.thread(root.id)) for root in year.roots)
    messages, planted_ones = count_of(len(year.roots), "message"), count_of(len(year.troubles), "trouble")
    false = sum(not _is_planted(year, root) for root in year.roots)
    return f"""# A year of the channel

What people would have read in a year of weekly and daily runs of the shipped rules over {len(LABELS)} labels, with
{ROWS:,} made-up rows a label and week. Five labels were made worse for some weeks; nothing else changed. Somebody
acknowledges what is new after {ANSWERS_AFTER.seconds // 3600} hours. `{command}` writes this page (seed {SEED}).

{messages} in the channel for {planted_ones}, {false} of them about nothing that was planted, with {replies} replies
in their threads: {words:,} words, {words / WORDS_A_MINUTE:.1f} minutes at {WORDS_A_MINUTE} words a minute.

| label | fault | weeks | first reported |
| --- | --- | --- | --- |
{rows}

A message is shown as its notification, a reply by what is new in it. What they say in full is in
[alerts.md](alerts.md); sixteen weeks with every edit are in `tests/cases/story/channel.txt`.

## The channel

{shown}
"""


def _is_planted(year: Year, root: Delivery) -> bool:
    """Whether a message came while its label, or a week pooled with the judged one, was in trouble."""
    late = timedelta(weeks=shipped().evaluation.pool_weeks)
    return any(
        is_about(root, each.label)
        and year.windows[each.first].start < root.created_at < year.windows[each.until - 1].end + late
        for each in year.troubles
    )


def _row(year: Year, trouble: Trouble) -> str:
    first, last = year.windows[trouble.first], year.windows[trouble.until - 1]
    about = [root for root in year.roots if is_about(root, trouble.label) and root.created_at > first.start]
    when = f"{about[0].created_at:%Y-%m-%d}" if about else "never"
    return f"| {trouble.label} | {trouble.what} | {first.name} to {last.name} | {when} |"


def is_about(delivery: Delivery, label: str) -> bool:
    """Whether a message is about a label."""
    return f"{label} " in delivery.payload["text"]


def _thread(year: Year, root: Delivery, number: int) -> str:
    """One message with its replies and its last state."""
    end = str(year.last_edit(root).payload["blocks"][0]["text"]["text"]).removeprefix(":large_green_circle: ")
    lines = [f"**{number}. {root.created_at:%a %Y-%m-%d %H:%M}** {plain(root.payload['text'])}", ""]
    lines += [f"- {reply.created_at:%m-%d}: {short(reply)}" for reply in year.thread(root.id)]
    return "\n".join([*lines, f"- In the end: {plain(end)}"])


def plain(text: str) -> str:
    """A message's text for Markdown: one line, with Slack's emoji for severity and state as words.

    >>> plain(":eyes: *mail/billing*")
    '(acknowledged) mail/billing'
    """
    line = clean(re.sub(r"[*`]", "", text.replace("\n", " · ")), 2_000)
    return re.sub(r":(\w+):", lambda m: f"({_MARKS.get(m[1], m[1])})", line)


def short(reply: Delivery) -> str:
    """What is new in a reply: for each label, the rules by what happened to them."""
    texts = [str(block["text"]["text"]) for block in reply.payload["blocks"] if block["type"] == "section"]
    found: dict[str, dict[str, list[str]]] = {}
    name = ""
    for line in "\n".join(texts).split("\n"):
        if label := re.match(r":\w+: \*(.+)\*$", line):
            name = label[1].partition("/")[2]
        if rule_line := re.match(r"• ([a-z0-9-]+): (.+?)\. ", line):
            found.setdefault(name, {}).setdefault(rule_line[2], []).append(rule_line[1])
    return "; ".join(
        f"{label} " + ", ".join(f"{what} ({', '.join(rules)})" for what, rules in by_news.items())
        for label, by_news in found.items()
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the year and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "channel.md")
    given = parser.parse_args(arguments)
    given.output.write_text(page(played(), "python -m benchmarks.channel"), "utf-8")


if __name__ == "__main__":
    main()
