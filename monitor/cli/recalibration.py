"""``calmon recalibrate``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from monitor.cli import common as cli
from monitor.config.counting import settings_of
from monitor.config.model import Config
from monitor.core import windows
from monitor.core.records import Subject
from monitor.core.wording import count_of
from monitor.history.store import Store
from monitor.operations.recalibrate import (
    RANKING,
    FittingRows,
    Recalibrated,
    from_windows,
    recalibrate,
    recalibrate_ranks,
    weeks_of_trouble,
)
from monitor.recalibration.gain import ScoreQuality
from monitor.recalibration.ranked_gain import RankedGain
from monitor.recalibration.score_map import ScoreMap, apply_one, as_sql
from monitor.report import words

MethodOption = Literal["auto", "temperature", "platt", "isotonic"]


@cli.app.command(
    "recalibrate",
    epilog="Examples:  calmon recalibrate --label billing  ·  calmon recalibrate --label billing --weeks 8 "
    "--out map.json  ·  calmon recalibrate --source tickets --method temperature --out map.json  ·  "
    "calmon recalibrate --label billing --sql score",
)
def recalibrate_command(
    label: Annotated[
        str | None, typer.Option("--label", help="The label; left out: one map for all labels of the source.")
    ] = None,
    source: cli.SourceOption = None,
    method: Annotated[MethodOption, typer.Option(help="auto: what helps most on rows not seen, if any does.")] = "auto",
    week: Annotated[str | None, typer.Option(help="The last week to fit on; default: the last ready one.")] = None,
    weeks: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=104,
            help="How many weeks, with the last one; default: those of its trouble (8 at most), or 1.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the map to this file; left out: only show.")] = None,
    sql: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Print the map as an SQL expression of this column, no tables.")
    ] = None,
    top_k: Annotated[
        bool, typer.Option("--top-k", help="One map for the k highest scores of items, read from the warehouse.")
    ] = False,
    json_output: cli.JsonFlag = False,
) -> None:
    """Map scores to scores that mean what they say, fitted on stored rows; shows what it is worth.

    ECE, Brier score and log loss are shown before, and after on rows that the map had not seen: of
    several weeks the newest, else halves. Where no method helps, nothing is written.
    """
    if sql is not None and json_output:
        raise cli.UsageError("--sql and --json: give one of them")
    if top_k:
        if label is not None or weeks is not None or sql is not None:
            raise cli.UsageError("--top-k is about all labels of one week: leave out --label, --weeks, --sql")
        _of_ranks(source, week, method, out, json_output=json_output)
        return
    with cli.store() as store:
        config = cli.configuration()
        material = rows_to_fit(store, config, source, label, week, weeks)
        found = recalibrate(material, None if method == "auto" else method, config.evaluation)
    automate_at = config.sources[material.subject.source].automate_from(label)
    if json_output:
        cli.print_json(_document(material, found))
    elif sql is None:
        _show(material, found, automate_at)
    elif found.score_map is None:
        raise cli.fail(f"there is no map to print: {found.choice.sentence}")
    else:
        scale = config.sources[material.subject.source].score_scale
        typer.echo(as_sql(found.score_map, sql, scale=scale))
    if out is not None and found.score_map is None:
        cli.warn(f"not written: {out} (there is no map to write)")
    elif out is not None and found.score_map is not None:
        cli.write(out, found.score_map.to_json() + "\n")
        cli.warn(f"written: {out}")


def _of_ranks(
    source: str | None, week: str | None, method: MethodOption, out: Path | None, *, json_output: bool
) -> None:
    """Fit one map on the rows of the largest k, print its table before and after by k, and write the file."""
    with cli.monitor(writes=False) as opened:
        ranking = [name for name, each in opened.config.sources.items() if each.kind in RANKING]
        names = cli.check_source(opened.config, source) or ranking
        window = cli.window_of(opened.config, "weekly", week)
        name = cli.source_with(opened.store, names, None, window)
        gain, score_map = recalibrate_ranks(opened, name, window, None if method == "auto" else method)
    if json_output:
        about = {"source": score_map.source, "week": window.name, "rows": score_map.rows, **asdict(gain)}
        cli.print_json(about | {"map": json.loads(score_map.to_json())})
    else:
        _show_ranks(gain, score_map)
    if out is not None:
        cli.write(out, score_map.to_json() + "\n")
        cli.warn(f"written: {out}")


def _show_ranks(gain: RankedGain, score_map: ScoreMap) -> None:
    title = f"{score_map.source}, {score_map.fitted_on}: {gain.method}, one map for all ranks"
    rows = [
        (f"{one.k}", which, *map(words.number, (one.ece, one.brier, one.nll, one.precision)))
        for both in zip(gain.before, gain.after, strict=True)
        for which, one in zip(("before", "after"), both, strict=True)
    ]
    cli.print_table(("k", "", "ECE@k", "Brier@k", "NLL@k", "P@k"), rows, title=title)
    cli.say("after: on rows that the map had not seen. It keeps the order of an item's labels, and so nDCG@k")


def rows_to_fit(
    store: Store,
    config: Config,
    source: str | None,
    label: str | None,
    week: str | None,
    weeks: int | None,
) -> FittingRows:
    """The stored rows of a label, or of all, in the weeks that options name; by default those of its trouble.

    Raises UsageError where the options do not name one source with scores.
    """
    with_scores = [name for name, each in config.sources.items() if each.kind != "regression"]
    names = cli.check_source(config, source) or with_scores or list(config.sources)
    last = cli.window_of(config, "weekly", week)
    subject = Subject(cli.source_with(store, names, label, last), label)
    if config.sources[subject.source].kind == "regression":
        raise cli.UsageError(f"{subject.source} has numbers (kind: regression), not scores: there is nothing to map")
    count = weeks or weeks_of_trouble(store, subject, last, config.zone)
    span = windows.up_to(last, count, config.zone)
    return from_windows(store, subject, span, settings_of(config.sources[subject.source]))


def _show(material: FittingRows, found: Recalibrated, automate_at: float) -> None:
    title = f"{material.subject.name}, {count_of(material.counts.rows, 'row')} of {material.fitted_on}"
    rows = [(*_line("as they are", next(iter(found.gains.values())).before), "")]
    for name, gain in found.gains.items():
        if gain.after is None:
            rows.append((name, "–", "–", "–", f"not offered: {gain.refused}"))
        else:
            rows.append((*_line(name, gain.after), "chosen" if name == found.choice.method else ""))
    cli.print_table(("scores", "ECE", "Brier", "log loss", ""), rows, title=title)
    cli.say(found.choice.sentence)
    if found.score_map is not None:
        now = f"a score of {automate_at:.2f} (automate_at) becomes {apply_one(found.score_map, automate_at):.4f}"
        cli.say(f"{now}: choose thresholds anew, on new scores")


def _line(name: str, quality: ScoreQuality) -> tuple[str, ...]:
    return name, words.measured(quality.ece), words.number(quality.brier), words.number(quality.nll)


def _document(material: FittingRows, found: Recalibrated) -> dict[str, Any]:
    methods = {}
    for name, gain in found.gains.items():
        after = None if gain.after is None else gain.after.plain()
        methods[name] = {"before": gain.before.plain(), "after": after, "refused": gain.refused}
    subject, choice = material.subject, {"choice": found.choice.method, "reason": found.choice.reason}
    rows = {"rows": material.counts.rows, "fitted_on": material.fitted_on}
    score_map = None if found.score_map is None else json.loads(found.score_map.to_json())
    return {"source": subject.source, "label": subject.label, **rows, "methods": methods, **choice, "map": score_map}
