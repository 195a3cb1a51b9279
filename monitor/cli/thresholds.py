"""``calmon automation thresholds list|publish`` and ``advise``: from which score labels act, and could act."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from monitor.cli import common as cli
from monitor.cli.automation import ReasonOption, automation_app
from monitor.cli.recalibration import rows_to_fit
from monitor.context import utc_now
from monitor.core.wording import count_of, percent
from monitor.evaluation.safe_scores import FromScore, KeptFrom, kept_from
from monitor.inference.selective import OperatingPoint
from monitor.operations.publish_thresholds import publish as publish_scores
from monitor.operations.publish_thresholds import words_of
from monitor.operations.recalibrate import FittingRows

thresholds_app = typer.Typer(no_args_is_help=True, help="The scores from which labels act, and who published them.")
automation_app.add_typer(thresholds_app, name="thresholds")


@thresholds_app.command(
    "list", epilog="Examples:  calmon automation thresholds list  ·  calmon automation thresholds list --last 5 --json"
)
def list_command(
    last: Annotated[int, typer.Option(min=1, help="Only so many, the newest.")] = 20, json_output: cli.JsonFlag = False
) -> None:
    """Who published which scores, raised some, or was refused a lower one that no person had confirmed."""
    with cli.store() as store:
        found = store.publications(last)
    if json_output:
        cli.print_json([asdict(each) for each in found])
        return
    rows = [
        (f"{each.at:%Y-%m-%d %H:%M}", each.kind, each.by.revision,
         f"{each.by.actor} on {each.by.host}" if each.by.host else each.by.actor, each.reason,
         "; ".join(words_of(each.changes)))
        for each in found
    ]  # fmt: skip
    head = ("at (UTC)", "what", "rules revision", "by", "why", "changes")
    cli.print_table(head, rows, nothing="nothing has been published yet")


@thresholds_app.command(
    epilog="Example:  calmon automation thresholds publish --reason '0.8 gives 99% right since the retraining'"
)
def publish(reason: ReasonOption, by: cli.ByOption = None) -> None:
    """Publish the scores of alerts.yaml. Only this command lowers any; lower ones are notified."""
    cli.check_reason(reason)
    config = cli.configuration()
    with cli.store(writes=True) as store:
        done = publish_scores(store, config, utc_now(), actor=cli.who(by), anyway=True, reason=reason)
    if done is None:
        cli.say("nothing to do: these are the newest already")
        return
    for line in words_of(done.changes) or ["no score has changed; this rules revision is the newest now"]:
        cli.say(line)


@automation_app.command(
    epilog="Examples:  calmon automation advise --label billing  ·  "
    "calmon automation advise --label billing --weeks 4 --must-be-right 0.95"
)
def advise(
    label: Annotated[str, typer.Option("--label", help="The label.")],
    source: cli.SourceOption = None,
    week: Annotated[str | None, typer.Option(help="The last week; default: the last ready one.")] = None,
    weeks: Annotated[
        int | None, typer.Option(min=1, max=104, help="How many weeks; default: those of its trouble, or 1.")
    ] = None,
    must_be_right: Annotated[
        float | None,
        typer.Option("--must-be-right", help="The share that must be right; default: what the rules of the label say."),
    ] = None,
    json_output: cli.JsonFlag = False,
) -> None:
    """From which score a label could act alone: what each would keep, and the lowest that is shown to be safe."""
    if must_be_right is not None and not 0 < must_be_right < 1:
        raise cli.UsageError("--must-be-right is a share between 0 and 1, like 0.95")
    with cli.store() as store:
        config = cli.configuration()
        rows = rows_to_fit(store, config, source, label, week, weeks)
    found = kept_from(rows.counts, config, rows.subject.source, label, must_be_right)
    if json_output:
        cli.print_json(kept_document(rows, found))
    else:
        print_kept(rows, found)


def kept_document(rows: FittingRows, found: KeptFrom) -> dict[str, Any]:
    """What each score would have kept of these rows, as JSON."""
    about = {"source": rows.subject.source, "label": rows.subject.label, "rows_of": rows.fitted_on}
    promise = {"floor": found.floor, "margin": found.margin, "automate_at": found.automate_at}
    scores = [asdict(each) for each in found.scores]
    return {**about, **promise, "safe_from": found.safe.threshold, "scores": scores}


def print_kept(rows: FittingRows, found: KeptFrom) -> None:
    """A table of what each score would have kept of these rows, and what follows."""
    title = f"{rows.subject.name}, {count_of(rows.counts.rows, 'row')} of {rows.fitted_on}"
    head = ("from score", "of what acts now", "right", "limits", "scores claim", "wrong", "")
    cli.print_table(head, [_step_line(each, found.automate_at, found.safe) for each in found.scores], title=title)
    plain = f"right as their scores say, less {100 * found.margin:g} points"
    promise = plain if found.floor is None else f"{percent(found.floor)} right"
    cli.say(_advice(found.safe, found.automate_at, promise))


def _step_line(step: FromScore, automate_at: float, point: OperatingPoint) -> tuple[str, ...]:
    marks = ["acts from here now"] * (step.score == automate_at)
    marks += ["lowest that is shown to be safe"] * (step.score == point.threshold)
    limits = f"{percent(step.low)} to {percent(step.high)}"
    shares = percent(step.share), percent(step.correct), limits, percent(step.claimed)
    return f"{step.score:g}", *shares, f"{step.wrong:,}", "; ".join(marks)


def _advice(point: OperatingPoint, automate_at: float, promise: str) -> str:
    """What the numbers say about ``automate_at``, in a sentence."""
    if point.threshold is None:
        why = "" if point.reason == "not_shown" else ": there are too few rows"
        return f"From no score on its items are shown to be {promise}{why}."
    shown = f"From {point.threshold:g} on its items are shown to be {promise}"
    if point.threshold == automate_at:
        return f"{shown}: it acts from there."
    what = "more of them could act alone" if point.threshold < automate_at else "not from lower scores"
    return f"{shown}; {what}. It acts from {automate_at:g} now (automate_at in alerts.yaml)."
