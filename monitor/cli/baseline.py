"""``calmon baseline pin|list|show``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from monitor.cli import common as cli
from monitor.cli.runs import status
from monitor.config.model import Config, Rule
from monitor.context import utc_now
from monitor.core import windows
from monitor.core.baseline import Baseline, PinRefusal
from monitor.core.counts import bin_counts
from monitor.core.records import Subject, Window
from monitor.core.wording import count_of, from_to, moment
from monitor.evaluation.baseline_checks import Concern
from monitor.metrics.calibration import ece
from monitor.operations.pin_baseline import Pinned, default_span, pin
from monitor.operations.propose_evaluation import PAIRS, round_pairs
from monitor.report.csv_table import Table
from monitor.report.words import measured

CONCERNS_SHOWN = 20
REFUSALS_SHOWN = 8
PINNED_SHOWN = 20
NO_BASELINE = "no baseline yet; `calmon baseline pin` makes one"
NO_SUCH_BASELINE = "no such baseline; `calmon baseline list` shows all"

baseline_app = typer.Typer(no_args_is_help=True, help="What labels looked like when they were trusted.")
cli.app.add_typer(baseline_app, name="baseline")


@baseline_app.command(
    "pin",
    epilog="Examples:  calmon baseline pin  ·  calmon baseline pin --from 2026-W20 --to 2026-W27 "
    "--reason 'after the retraining'  ·  calmon baseline pin --label billing",
)
def pin_command(
    first: Annotated[str | None, typer.Option("--from", help="The first week; default: `baseline.weeks` back.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="The last week, included.")] = None,
    label: cli.LabelOption = None,
    source: cli.SourceOption = None,
    min_pairs: Annotated[
        int | None, typer.Option(min=1, help="In place of baseline.min_pairs of alerts.yaml, for this baseline.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, for the history.")] = "pinned by hand",
    by: cli.ByOption = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Pin although something changed in these weeks.")] = False,
) -> None:
    """Freeze bin edges and cells of some weeks as a new version. Labels with too few pairs are refused.

    Prints rows, ECE and model versions. Where calibration or scores changed within the weeks, or rows were rejected,
    that is named and nothing is pinned (exit 1); --anyway pins all the same. What was otherwise before these weeks, or
    changed after them, is a note.
    A source that cannot be read is named, stops no other, and makes the exit code 1.
    """
    config = cli.configuration()
    start, end = span_of(config, first, last)
    names = cli.check_source(config, source)
    with cli.monitor() as opened, status() as say:
        actor = cli.who(by)
        found = pin(
            opened, start, end, by=actor, reason=reason, label=label, sources=names, min_pairs=min_pairs,
            anyway=anyway, progress=say,
        )  # fmt: skip
    _show_found(found)
    for line in _pinned(found.baselines):
        cli.say(line)
    problems = _refused(found.refusals)
    given = {"--from": start.name, "--to": end.name, "--label": label, "--source": source}
    if found.refusals:
        problems.append("take more weeks (--from), or lower baseline.min_pairs in alerts.yaml")
        problems.append(_smaller(found.refusals, given))
        if not any(_asks_a_baseline_of_labels(rule) for rule in config.rules):
            problems.append("no rule of alerts.yaml compares a label by itself with its baseline: this may stay so")
    problems += [f"not pinned, cannot be read: {unread}: {why}" for unread, why in found.unread.items()]
    problems += ["next: calmon check"] if found.unread else []
    for problem in problems:
        cli.warn(problem, style="red")
    inside = [concern for concern in found.concerns if concern.is_inside]
    for concern in inside[:CONCERNS_SHOWN]:
        cli.warn(f"warning: {concern}", style="yellow")
    if len(inside) > CONCERNS_SHOWN:
        cli.warn(f"and {len(inside) - CONCERNS_SHOWN} more warnings", style="yellow")
    if inside and not found.baselines:
        cli.warn("nothing was pinned: choose other weeks (--from, --to), or pin these with --anyway", style="red")
        cli.warn(f"next: {_command(given)} --anyway    # if these weeks are how it should be", style="red")
    around = [concern for concern in found.concerns if not concern.is_inside]
    if around:
        cli.warn(_note(around))
    if not (found.baselines or found.refusals or found.unread or found.concerns):
        about = "of label " + repr(label) + " " if label else ""
        raise cli.fail(
            f"no rows {about}in {start.name}..{end.name}: give weeks that have some (--from, --to)", then="calmon check"
        )
    if found.refusals or found.unread or (inside and not anyway):
        raise typer.Exit(cli.FAILED)


def _pinned(baselines: Sequence[Baseline]) -> list[str]:
    """A line for each baseline; of many labels, one line for each source."""
    lines = []
    for source in dict.fromkeys(each.source for each in baselines):
        group = [each for each in baselines if each.source == source]
        labels = [each for each in group if each.label is not None]
        if len(labels) > PINNED_SHOWN:
            least, most = min(each.counts.rows for each in labels), max(each.counts.rows for each in labels)
            first, last = labels[0].first_window, labels[0].last_window
            lines.append(
                f"pinned {len(labels)} labels of {source}: {from_to(least, most)} pairs each of {first}..{last}"
            )
            group = [each for each in group if each.label is None]
        lines += [
            f"pinned {Subject(b.source, b.label).name} version {b.version}: {count_of(b.counts.rows, 'pair')} of "
            f"{b.first_window}..{b.last_window}"
            for b in group
        ]
    return lines


def _asks_a_baseline_of_labels(rule: Rule) -> bool:
    """Whether the rule compares labels, segments or columns, each by itself, with the baseline."""
    return rule.scope != "source" and not rule.rolls and (rule.compares or rule.test is not None)


def _refused(refusals: Sequence[PinRefusal]) -> list[str]:
    """A line for each refusal; of many, one for each source."""
    if len(refusals) <= REFUSALS_SHOWN:
        return [f"refused {each}" for each in refusals]
    lines = []
    for source in dict.fromkeys(each.source for each in refusals):
        group = [each for each in refusals if each.source == source]
        least, most = min(each.rows for each in group), max(each.rows for each in group)
        needed = group[0].needed
        lines.append(
            f"refused {len(group)} of {source}: {from_to(least, most)} pairs each, at least {needed:,} are needed"
        )
    return lines


def _smaller(refusals: Sequence[PinRefusal], given: Mapping[str, str | None]) -> str:
    """The command that pins the refused labels."""
    usual = [each.rows for each in refusals if each.rows >= PAIRS[-1]]
    pairs = round_pairs(min(usual or [each.rows for each in refusals]))
    if len(refusals) == 1 and refusals[0].label is not None:  # what was pinned stays as it is
        given = {**given, "--label": refusals[0].label, "--source": refusals[0].source}
    return (
        f"next: {_command(given)} --min-pairs {pairs}    "
        "# fewer pairs show larger changes only; calmon check says which"
    )


def _note(found: Sequence[Concern]) -> str:
    """What differs before or after the weeks, in one line: rules report what comes after them."""
    more = f", and {len(found) - 1} more such changes" if len(found) > 1 else ""
    return f"note: {found[0]}{more}; this refuses nothing: rules report what changes after a baseline"


def _command(given: Mapping[str, str | None]) -> str:
    words = [f"{name} {shlex.quote(value)}" for name, value in given.items() if value is not None]
    return " ".join(["calmon baseline pin", *words])


def _show_found(found: Pinned) -> None:
    """Print what the weeks have: a line for each label, and the model versions of each source."""
    if found.summaries:
        rows = [(each.subject.name, f"{each.rows:,}", measured(each.ece)) for each in found.summaries]
        cli.print_table(("label", "rows", "ECE"), rows, title="What these weeks hold")
    for source, versions in found.versions.items():
        version_rows = ", ".join(f"{version} ({count_of(rows, 'row')})" for version, rows in versions.items())
        if version_rows:
            cli.say(f"{source}: model versions {version_rows}")


def span_of(config: Config, first: str | None, last: str | None) -> tuple[Window, Window]:
    """The first and the last week to pin; the defaults are ``baseline.weeks`` back, and the last ready week."""
    start, end = default_span(config, utc_now())
    if first is not None:
        start = cli.window_of(config, "weekly", first)
    if last is not None:
        end = cli.window_of(config, "weekly", last)
        if first is None:
            start = windows.up_to(end, config.baseline.weeks, config.zone)[0]
    windows.span(start, end, config.zone)  # raises where the first is later than the last
    return start, end


def _rows(baselines: Sequence[Baseline]) -> list[dict[str, Any]]:
    rows = Table.of(
        baselines, "source", "label", "version", "from=first_window", "to=last_window", "pairs=counts.rows",
        "pinned_at", "by=pinned_by", "reason", "digest",
    ).documents  # fmt: skip
    pinned = (each.pinned_at.isoformat(timespec="seconds") for each in baselines)
    return [row | {"pinned_at": at} for row, at in zip(rows, pinned, strict=True)]


@baseline_app.command("list", epilog="Example:  calmon baseline list --source tickets")
def list_command(
    source: cli.SourceOption = None, label: cli.LabelOption = None, json_output: cli.JsonFlag = False
) -> None:
    """Every version of every label, oldest first."""
    with cli.store() as store:
        of_source = store.baselines(source=source)
        if not of_source:
            cli.check_stored_source(store, source)
        found, is_any = [b for b in of_source if label in (None, b.label)], bool(store.pinned_sources())
    if json_output:
        cli.print_json(_rows(found))
        return
    rows = [
        (b.source, "(all)" if b.label is None else b.label, str(b.version), f"{b.first_window}..{b.last_window}",
         f"{b.counts.rows:,}", moment(b.pinned_at), b.pinned_by, b.reason)
        for b in found
    ]  # fmt: skip
    nothing = NO_SUCH_BASELINE if is_any else NO_BASELINE
    head = ("source", "label", "version", "weeks", "pairs", "pinned", "by", "reason")
    cli.print_table(head, rows, nothing=nothing)


@baseline_app.command("show", epilog="Example:  calmon baseline show --source tickets --label billing")
def show_command(
    source: Annotated[str | None, typer.Option(help="The source. Default: the only one that has a baseline.")] = None,
    label: cli.LabelOption = None,
    version: Annotated[int | None, typer.Option(help="Default: the newest.")] = None,
    json_output: cli.JsonFlag = False,
) -> None:
    """The bins of one baseline: edges, rows, mean score, hit rate."""
    with cli.store() as store:
        sources = [source] if source is not None else sorted(store.pinned_sources())
        if len(sources) > 1:
            raise cli.UsageError(f"there are baselines of {', '.join(sources)}: name one with --source")
        of_source = [b for name in sources for b in store.baselines(source=name)]
    found = [b for b in of_source if b.label == label and version in (None, b.version)]
    if not found:
        raise cli.fail(NO_SUCH_BASELINE if of_source else NO_BASELINE)
    baseline = found[-1]
    bins = bin_counts(baseline.counts, baseline.edges["all"])
    columns = (bins.n.tolist(), bins.score.tolist(), bins.rate.tolist())
    rows = [(*bins.range_of(place), *values) for place, values in enumerate(zip(*columns, strict=True))]
    if json_output:
        table = Table(("above", "to", "rows", "mean_score", "hit_rate"), rows)
        cli.print_json(_rows([baseline])[0] | {"ece_plug_in": ece(bins), "bins": table.documents})
        return
    head = ("scores above", "up to", "rows", "mean score", "hit rate")
    shown = [
        ("–" if place == 0 else f"{above:.4f}", f"{to:.4f}", f"{n:,}", f"{score:.4f}", f"{rate:.4f}")
        for place, (above, to, n, score, rate) in enumerate(rows)  # the first bin holds 0 itself
    ]
    cli.print_table(head, shown, title=f"{Subject(baseline.source, baseline.label).name} version {baseline.version}")
