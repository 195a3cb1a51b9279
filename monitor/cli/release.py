"""``calmon release``: a new model version is noted, compared with the weeks before, and pinned once there are rows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from monitor.cli import common as cli
from monitor.cli.runs import status
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.records import Annotation, Window
from monitor.core.wording import clean
from monitor.operations.annotate import NewAnnotation, annotate
from monitor.operations.pin_baseline import Pinned, PinSummary, pin
from monitor.report.words import measured


@cli.app.command(
    epilog="Examples:  calmon release 2.3 --source tickets  ·  "
    "calmon release 2.3 --source tickets --at 2026-11-16T09:00"
)
def release(
    version: Annotated[str, typer.Argument(help="The model version, or what else was released.")],
    source: Annotated[str, typer.Option(help="The source whose scores are new.")],
    at: Annotated[
        str | None, typer.Option(help="When, like 2026-11-16T09:00; default: now, or as noted before.")
    ] = None,
    by: cli.ByOption = None,
) -> None:
    """Note a release once, compare the weeks since it with those before, and say what pins them.

    Give it again as truths come: it pins nothing itself.
    """
    with cli.monitor() as opened, status() as say:
        cli.check_source(opened.config, source)
        noted = _noted(opened, source, version, cli.moment(at, opened.config), cli.who(by))
        before, since = _weeks(opened, noted.at)
        look = partial(pin, opened, by="", reason="", sources=[source], min_pairs=1, only_look=True, progress=say)
        found = [look(weeks[0], weeks[-1]) for weeks in (before, since) if weeks]
        least, when = opened.config.baseline.min_pairs, cli.stated(noted.at, opened.config.zone)
    cli.say(f"release {clean(version)} of {source}: noted at {when}")
    again = shlex.join(["calmon", "release", version, "--source", source])
    unread = [why for each in found for why in each.unread.values()]
    if unread:
        raise cli.fail(f"{source} cannot be read: {unread[0]}", then="calmon check")
    if not since:
        cli.say(f"no whole week has ended since; give it again then: {again}")
        return
    _show(found[0], found[1])
    span = ["--source", source, "--from", since[0].name, "--to", since[-1].name, "--reason", f"release {version}"]
    differences = found[1].concerns or ["no change of calibration or scores can be seen"]
    for line in (*map(str, differences), _next(found[1], least, span, again)):
        cli.say(line)


def _noted(opened: Monitor, source: str, version: str, at: datetime | None, by: str) -> Annotation:
    """The annotation of a release; it is made once. Raises UsageError for another time than it was noted with."""
    text = f"release {version}"
    stored = next((each for each in opened.store.annotations(source, None) if each.text == text), None)
    if stored is not None and at in (None, stored.at):
        return stored
    if stored is not None:
        undo = f"calmon annotations remove {stored.id} --reason 'wrong time'"
        raise cli.UsageError(f"it is noted at {cli.stated(stored.at, opened.config.zone)}; if that is wrong: {undo}")
    return annotate(opened.store, NewAnnotation(source, None, at or opened.clock(), text, by), opened.clock)[0]


def _weeks(opened: Monitor, at: datetime) -> tuple[list[Window], list[Window]]:
    """As many whole weeks before and since a moment as a baseline has, oldest first; since it those that are ready."""
    zone, many = opened.config.zone, opened.config.baseline.weeks
    of_release = windows.containing("weekly", at, zone)
    first = of_release if of_release.start == at else windows.following(of_release, zone)
    last = windows.last_ready("weekly", opened.clock(), zone)
    since = windows.span(first, last, zone)[:many] if first.start <= last.start else []
    return windows.before(of_release, many, zone)[::-1], since


def _show(before: Pinned, since: Pinned) -> None:
    earlier: Mapping[str, PinSummary] = {each.subject.name: each for each in before.summaries}
    rows = []
    for each in since.summaries:
        old = earlier.get(each.subject.name)
        was = ("–", "–") if old is None else (f"{old.rows:,}", measured(old.ece))
        rows.append((each.subject.name, *was, f"{each.rows:,}", measured(each.ece)))
    if rows:
        cli.print_table(("label", "rows before", "ECE before", "rows since", "ECE since"), rows)


def _next(since: Pinned, least: int, pin_words: Sequence[str], again: str) -> str:
    """What comes next: more weeks, or the command that pins these."""
    few = [each for each in since.summaries if each.rows < least]
    if few or not since.summaries:
        which = ", ".join(f"{clean(each.subject.name)} {each.rows:,}" for each in few) or "none"
        return f"a baseline wants {least:,} rows of each label ({which}); give it again after the next week: {again}"
    return f"next: {shlex.join(['calmon', 'baseline', 'pin', *pin_words])}    # if this is how it should be"
