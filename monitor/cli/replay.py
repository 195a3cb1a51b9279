"""``calmon replay``: what another rules file would have said of the past year."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from monitor.cli import common as cli
from monitor.cli.runs import bar
from monitor.config.load import load_config
from monitor.core.records import Subject
from monitor.history.store import Store
from monitor.operations.replay import replay as replaying
from monitor.operations.replay.model import (
    NEVER_READ,
    LeftOut,
    Missing,
    Opened,
    Pair,
    Replay,
    Seen,
    Side,
    Switched,
    Timeline,
)
from monitor.operations.replay.plan import ReplayRefused, plan_of
from monitor.operations.replay.results import only_of
from monitor.report.console import plain_table
from monitor.report.figures.scale import Scale
from monitor.report.figures.sparkline import sparkline

SHOWN_DIFFERENCES = 10
_LEVELS: dict[Seen, float] = {"ok": 0.0, "unconfirmed": 1.0, "info": 2.0, "warning": 3.0, "critical": 4.0}
_WORDS: dict[Switched, str] = {"off": "off", "blocked": "scores blocked", "": "-"}
_LEGEND = "Worst of each week: · not evaluated  ▁ ok  ▃ beyond the limit, not confirmed  ▅ info  ▇ warning  █ critical"
_WHY = {
    LeftOut.NEEDS_WHOLE_ROWS: "its metric needs whole rows, which are not kept",
    LeftOut.COLUMN_NOT_WATCHED: "no test of its column was stored",
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
    with cli.plain_errors():
        present, proposed = cli.configuration(), load_config(rules)
        end = cli.window_of(present, "weekly", last)
        if source is not None and source not in proposed.sources:
            cli.check_source(present, source)
        try:
            plan = plan_of(present, proposed, end, weeks, sources=None if source is None else [source])
        except ReplayRefused as error:
            raise cli.UsageError(str(error)) from error
        with (
            Store.from_url(cli.settings().store_url.get_secret_value(), create=False) as store,
            bar(plan.total, "replay") as advance,
        ):
            found = replaying.replay(store, plan, advance)
        shown = _of_label(found, label)
    if json_output:
        typer.echo(json.dumps(document(shown), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        _show(shown)
    if not found.subjects:
        raise cli.fail("the history holds nothing of these weeks; `calmon backfill` reads and keeps them")


def _of_label(found: Replay, label: str | None) -> Replay:
    if label is None:
        return found
    known = sorted({subject.label for subject in found.subjects if subject.label is not None})
    if label not in known:
        raise cli.UsageError(f"no label {label!r} was judged in these weeks; judged were: {', '.join(known) or 'none'}")
    return only_of(found, label)


# --- for programs


def document(found: Replay) -> dict[str, Any]:
    """The replay as one JSON document: the same for the same history and files."""
    agreement = found.agreement
    return {
        "from": found.weeks[0].name, "to": found.weeks[-1].name, "weeks": len(found.weeks),
        "present": _side(found.present), "proposed": _side(found.proposed),
        "incidents": [_pair(pair) for pair in found.pairs],
        "timelines": [_timelines(found, subject) for subject in found.subjects],
        "missing": [
            {"schedule": m.schedule, "source": m.source, "from": m.first, "to": m.last, "windows": m.windows,
             "reason": m.reason}
            for m in found.missing
        ],
        "omitted": [
            {"in": o.side, "rule": o.rule, "source": o.source, "reason": o.reason, "windows": o.windows}
            for o in found.omitted
        ],
        "as_given": {
            "compared": agreement.compared, "same": agreement.compared - len(agreement.differences),
            "differences": [
                {"rule": d.rule, **_about(d.subject), "window": d.window, "given": d.given,
                 "replayed": d.replayed or None, "cause": d.cause}
                for d in agreement.differences
            ],
        },
    }  # fmt: skip


def _about(subject: Subject) -> dict[str, str | None]:
    return {"source": subject.source, "label": subject.label}


def _side(side: Side) -> dict[str, Any]:
    return {
        "revision": side.revision, "incidents": len(side.incidents),
        "switched_off": [_about(subject) for subject in side.switched("off")],
        "blocked": [_about(subject) for subject in side.switched("blocked")],
        "label_weeks": side.weeks, "label_weeks_not_evaluated": side.weeks_not_evaluated,
    }  # fmt: skip


def _pair(pair: Pair) -> dict[str, Any]:
    incident = pair.either.incident
    return {
        "in": _where(pair), "rule": incident.rule, "source": incident.source, "label": incident.label,
        "present": pair.present and _opened(pair.present), "proposed": pair.proposed and _opened(pair.proposed),
    }  # fmt: skip


def _opened(opened: Opened) -> dict[str, Any]:
    incident = opened.incident
    return {
        "opened": incident.opened_window, "resolved": incident.resolved_window, "breaches": incident.breaches,
        "severity": incident.severity, "reason": incident.reason, "reopened": incident.reopened,
        "automation": opened.switch or None,
    }  # fmt: skip


def _timelines(found: Replay, subject: Subject) -> dict[str, Any]:
    rows = (side.timelines.get(subject) for side in (found.present, found.proposed))
    present, proposed = (None if row is None else list(row) for row in rows)
    return {**_about(subject), "present": present, "proposed": proposed}


def _where(pair: Pair) -> str:
    if pair.present is None:
        return "proposed"
    return "present" if pair.proposed is None else "both"


# --- for people


def _show(found: Replay) -> None:
    cli.out.print(_summary_table(found))
    cli.out.print(_incidents_table(found.pairs) if found.pairs else "Neither file would have opened an incident.\n")
    cli.out.print(_timelines_table(found))
    cli.out.print(_LEGEND)
    for line in notes(found):
        cli.out.print(line, markup=False, highlight=False, soft_wrap=True)


def _summary_table(found: Replay) -> Table:
    span = f"{found.weeks[0].name} to {found.weeks[-1].name}, {len(found.weeks)} weeks"
    table = plain_table("", "present", "proposed", title=f"What would have come of it: {span}")
    rows: tuple[tuple[str, Callable[[Side], str]], ...] = (
        ("rules revision", lambda side: side.revision),
        ("incidents", lambda side: str(len(side.incidents))),
        ("automation turned off for", lambda side: _names(side.switched("off"))),
        ("scores blocked for", lambda side: _names(side.switched("blocked"))),
        ("label-weeks not evaluated", lambda side: f"{side.weeks_not_evaluated:,} of {side.weeks:,}"),
    )
    for name, of in rows:
        table.add_row(*cli.cells(name, of(found.present), of(found.proposed)))
    return table


def _names(subjects: Sequence[Subject]) -> str:
    return ", ".join(subject.name for subject in subjects) or "-"


def _incidents_table(pairs: Sequence[Pair]) -> Table:
    columns = ("in", "severity", "rule", "label", "opened", "resolved", "breaches", "automation")
    table = plain_table(*columns, title="Incidents (one → other: present → proposed)")
    for pair in pairs:
        incident = pair.either.incident
        rows = [_row(opened) for opened in (pair.present, pair.proposed) if opened is not None]
        severity, *rest = (" → ".join(dict.fromkeys(values)) for values in zip(*rows, strict=True))
        name = Subject(incident.source, incident.label).name
        style = "" if _where(pair) == "both" else "bold"
        table.add_row(*cli.cells(_where(pair), severity, incident.rule, name, *rest), style=style)
    return table


def _row(opened: Opened) -> tuple[str, ...]:
    incident = opened.incident
    return (
        incident.severity, incident.opened_window, incident.resolved_window or "still open", str(incident.breaches),
        _WORDS[opened.switch],
    )  # fmt: skip


def _timelines_table(found: Replay) -> Table:
    table = plain_table("label", "by", f"{found.weeks[0].name} to {found.weeks[-1].name}", title="Week by week")
    for subject in found.subjects:
        present, proposed = (side.timelines.get(subject) for side in (found.present, found.proposed))
        rows = [("both", present)] if present == proposed else [("present", present), ("proposed", proposed)]
        for place, (by, row) in enumerate(rows):
            table.add_row(*cli.cells("" if place else subject.name, by), Text(_bars(row), no_wrap=True))
    return table


def _bars(row: Timeline | None) -> str:
    if row is None:
        return "not judged"
    return sparkline([None if seen is None else _LEVELS[seen] for seen in row], Scale(0.0, 4.0))


def notes(found: Replay) -> Iterator[str]:
    """What a person must know beside the tables: what is missing, what was left out, what comes out otherwise."""
    for missing in found.missing:
        yield _missing_words(missing)
    for each in found.omitted:
        yield f"not replayed ({each.side}): {each.rule} on {each.source}, {each.windows} windows: {_WHY[each.reason]}"
    agreement = found.agreement
    if agreement.compared:
        same = agreement.compared - len(agreement.differences)
        yield f"verdicts that the present file gave in runs: {same:,} of {agreement.compared:,} come out the same"
    for other in agreement.differences[:SHOWN_DIFFERENCES]:
        yield (
            f"  {other.window} {other.subject.name} {other.rule}: given {other.given}, "
            f"now {other.replayed or 'not judged'} ({other.cause.value})"
        )
    if len(agreement.differences) > SHOWN_DIFFERENCES:
        yield f"  and {len(agreement.differences) - SHOWN_DIFFERENCES:,} more: see them all with --json"


def _missing_words(missing: Missing) -> str:
    span = missing.first if missing.windows == 1 else f"{missing.first} to {missing.last}"
    what = f"missing: {missing.schedule} {missing.source} {span} ({missing.windows:,} windows)"
    if missing.reason != NEVER_READ:
        return f"{what}: could not be read then ({missing.reason})"
    daily = " --daily" if missing.schedule == "daily" else ""
    return f"{what}: never read; to read them: calmon backfill --from {missing.first} --to {missing.last}{daily}"
