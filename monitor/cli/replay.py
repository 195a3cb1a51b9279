"""``calmon replay``: what another rules file would have found in the past year."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from monitor.cli import common as cli
from monitor.cli.runs import bar
from monitor.cli.thresholds import kept_document, print_kept
from monitor.config.counting import settings_of
from monitor.config.load import load_config
from monitor.config.model import Config
from monitor.core.records import Refused, Subject
from monitor.core.wording import count_of, percent
from monitor.evaluation.safe_scores import KeptFrom, kept_from
from monitor.history.readings import COUNTS_REMOVED
from monitor.history.store import Store
from monitor.operations.recalibrate import FittingRows, from_windows
from monitor.operations.replay import model
from monitor.operations.replay import replay as replaying
from monitor.operations.replay.document import document, where_of
from monitor.operations.replay.model import NEVER_READ, LeftOut, Missing, Opened, Pair, Replay, Seen, Side
from monitor.operations.replay.plan import plan_of
from monitor.operations.replay.results import only_of
from monitor.report.console import plain_table
from monitor.report.figures.scale import Scale, sparkline

_LEVELS: dict[Seen, float] = {"ok": 0.0, "unconfirmed": 1.0, "info": 2.0, "warning": 3.0, "critical": 4.0}
"""The height of a week's mark; "not_evaluated" has none, and is a dot."""
_WORDS: dict[model.Switched, str] = {"off": "off", "blocked": "scores blocked", "segments": "segments off", "": "-"}
_LEGEND = "Worst of each week: · not judged  ▁ ok  ▃ beyond the limit, not confirmed  ▅ info  ▇ warning  █ critical"
_SUMMARY = (
    "rules revision", "incidents", "automation turned off for", "scores blocked for", "label-weeks not judged",
)  # fmt: skip
_WHY = {
    LeftOut.NEEDS_WHOLE_ROWS: "its metric needs whole rows, which are not kept",
    LeftOut.COLUMN_NOT_WATCHED: "no test of its column was stored",
    LeftOut.SEGMENTS_NOT_KEPT: "the counts of its segments were not kept",
}


@cli.app.command(
    epilog="Examples:  calmon replay --rules new.yaml --weeks 52  ·  "
    "calmon replay --rules new.yaml --label billing  ·  calmon replay --rules new.yaml --to 2026-W46 --json"
)
def replay(
    rules: Annotated[Path, typer.Option(help="The rules file to try; the present one is CALMON_CONFIG.")],
    weeks: Annotated[int, typer.Option(min=1, max=520, help="How many weeks, with their days.")] = 52,
    last: Annotated[
        str | None, typer.Option("--to", help="The last week, like 2026-W46; default: the last ready one.")
    ] = None,
    source: cli.SourceOption = None,
    label: cli.LabelOption = None,
    json_output: cli.JsonFlag = False,
) -> None:
    """Which incidents a rules file would have opened, beside the present one. Changes and sends nothing.

    Judged from the counts in the history; the warehouse, Slack and the switch are not asked. Every rule is judged on
    its whole family of labels, also where only one source or label is shown. How: docs/replay.md.
    """
    if not rules.is_file():
        raise cli.UsageError(f"--rules {rules}: there is no such file")
    present, proposed = cli.configuration(), load_config(rules)
    end = cli.window_of(present, "weekly", last)
    if source is not None and source not in proposed.sources:
        cli.check_source(present, source)
    plan = plan_of(present, proposed, end, weeks, sources=None if source is None else [source])
    with cli.existing_store() as store, bar(plan.total, "replay") as advance:
        found = replaying.replay(store, plan, advance)
        judged = sorted({subject.label for subject in found.subjects if subject.label is not None})
        if label is not None and label not in judged:
            known = ", ".join(judged) or "none"
            raise cli.UsageError(f"no label {label!r} was judged in these weeks; judged were: {known}")
        shown = found if label is None else only_of(found, label)
        kept = [] if label is None else list(_kept(store, proposed, shown, label))
    if json_output:
        more = {} if label is None else {"kept": [kept_document(*each) for each in kept]}
        cli.print_json(document(shown) | more)
    else:
        _show(shown)
        for each in kept:
            print_kept(*each)
    if not found.subjects:
        raise cli.fail("the history holds nothing of these weeks; `calmon backfill` reads and keeps them")


def _kept(store: Store, config: Config, found: Replay, label: str) -> Iterator[tuple[FittingRows, KeptFrom]]:
    """What each score would have kept in the weeks of each incident of the label that turns it off or limits it."""
    for opened in (pair.proposed or pair.present for pair in found.pairs):
        if opened is None or opened.switch not in ("off", "blocked"):
            continue
        span = [w for w in found.weeks if w.end > opened.start and (opened.end is None or w.start < opened.end)]
        source = opened.incident.source
        try:
            rows = from_windows(store, Subject(source, label), span, settings_of(config.sources[source]))
        except Refused as error:
            cli.warn(f"what each score would have kept is not known: {error}")
        else:
            yield rows, kept_from(rows.counts, config, source, label)


# --- for people


def _show(found: Replay) -> None:
    _print_summary(found)
    cli.out.print(_incidents_table(found.pairs) if found.pairs else "Neither file would have opened an incident.\n")
    cli.out.print(_timelines_table(found))
    cli.out.print(_LEGEND)
    for line in notes(found):
        cli.say(line)


def _print_summary(found: Replay) -> None:
    span = f"{found.weeks[0].name} to {found.weeks[-1].name}, {count_of(len(found.weeks), 'week')}"
    rows = zip(_SUMMARY, _summary(found.present), _summary(found.proposed), strict=True)
    cli.print_table(("", "present", "proposed"), rows, title=f"What would have come of it: {span}")


def _summary(side: Side) -> tuple[str, ...]:
    off, blocked = (", ".join(subject.name for subject in side.switched(how)) or "-" for how in ("off", "blocked"))
    not_judged = f"{side.weeks_not_evaluated:,} of {side.weeks:,}"
    return side.revision, str(len(side.incidents)), off, blocked, not_judged


def _incidents_table(pairs: Sequence[Pair]) -> Table:
    columns = ("in", "severity", "label", "rules", "opened", "resolved", "automation")
    table = plain_table(*columns, title="Incidents (one → other: present → proposed)")
    for pair in pairs:
        incident, rows = pair.either.incident, []
        for opened in filter(None, (pair.present, pair.proposed)):
            one = opened.incident
            span = one.opened_window, one.resolved_window or "still open"
            rows.append((one.severity, ", ".join(one.rules), *span, _switched(opened)))
        severity, rules, *rest = (" → ".join(dict.fromkeys(values)) for values in zip(*rows, strict=True))
        name = Subject(incident.source, incident.label).name
        style = "" if where_of(pair) == "both" else "bold"
        table.add_row(*cli.cells(where_of(pair), severity, name, rules, *rest), style=style)
    return table


def _switched(opened: Opened) -> str:
    kept = opened.limit if opened.switch == "blocked" else None
    safe = kept and f": {percent(kept.share)} acts on, from {kept.score:g}, {percent(kept.correct)} right"
    return f"{_WORDS[opened.switch]}{safe or ''}"


def _timelines_table(found: Replay) -> Table:
    table = plain_table("label", "by", f"{found.weeks[0].name} to {found.weeks[-1].name}", title="Week by week")
    for subject in found.subjects:
        present, proposed = (side.timelines.get(subject) for side in (found.present, found.proposed))
        rows = [("both", present)] if present == proposed else [("present", present), ("proposed", proposed)]
        for place, (by, row) in enumerate(rows):
            levels = [None if seen is None else _LEVELS.get(seen) for seen in row or ()]
            bars = "not judged" if row is None else sparkline(levels, Scale(0.0, 4.0))
            table.add_row(*cli.cells("" if place else subject.name, by), Text(bars, no_wrap=True))
    return table


def notes(found: Replay) -> Iterator[str]:
    """Notes to the tables: what is missing, and what was left out."""
    for missing in found.missing:
        yield _missing_words(missing)
    for each in found.omitted:
        what = f"{each.rule} on {each.source}, {count_of(each.windows, 'window')}"
        yield f"not replayed ({each.side}): {what}: {_WHY[each.reason]}"


def _missing_words(missing: Missing) -> str:
    span = missing.first if missing.windows == 1 else f"{missing.first} to {missing.last}"
    what = f"missing: {missing.schedule} {missing.source} {span} ({count_of(missing.windows, 'window')})"
    if missing.reason == COUNTS_REMOVED:
        return f"{what}: counts removed since they are old (calmon db prune)"
    if missing.reason != NEVER_READ:
        return f"{what}: could not be read then ({missing.reason})"
    daily = " --daily" if missing.schedule == "daily" else ""
    command = f"calmon backfill --from {missing.first} --to {missing.last}{daily}"
    return f"{what}: never read; if the warehouse has rows of them: {command}"
