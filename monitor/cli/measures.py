"""``calmon stability``, ``calmon dependencies``, ``calmon cheapest-threshold``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from monitor.cli import common as cli
from monitor.cli.recalibration import counts_of_weeks
from monitor.core.wording import count_of
from monitor.metrics.cost import Costs, cheapest_threshold
from monitor.metrics.cost_matrix import CheapestFallback
from monitor.metrics.names import CONTRACT, NEEDS, metric_named
from monitor.operations.ask_warehouse import NothingToAsk, cheapest_of_classes, dependencies_of
from monitor.operations.recalibrate import NothingToFit
from monitor.operations.stability import Stability, stability
from monitor.report.console import plain_table
from monitor.report.document import plain
from monitor.report.words import interval, number, share

LabelOption = Annotated[str | None, typer.Option("--label", help="The label; left out: all labels of the source.")]
WeekOption = Annotated[str | None, typer.Option(help="The last week; default: the last ready one.")]
WeeksOption = Annotated[int, typer.Option(min=1, max=104, help="How many weeks, the last one included.")]
ReadWeek = Annotated[str | None, typer.Option(help="An ISO week; default: the last ready one.")]


@cli.app.command(
    "stability",
    epilog="Examples:  calmon stability --label billing  ·  calmon stability --label billing --metric f1 --folds 10  "
    "·  calmon stability --source tickets --weeks 4 --json",
)
def stability_command(
    label: LabelOption = None,
    source: cli.SourceOption = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="A metric of counts; may be repeated. Default: the main ones.")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, max=100, help="Into how many parts the rows are shared.")] = 5,
    week: WeekOption = None,
    weeks: WeeksOption = 1,
    json_output: cli.JsonFlag = False,
) -> None:
    """How much numbers vary between random parts of the rows (k-fold).

    Each metric of all rows beside its mean, standard deviation and range over the parts, which have fewer rows each.
    From the history; the same rows give the same parts.
    """
    names = list(dict.fromkeys(map(metric_named, metric or CONTRACT)))
    for name in names:
        if NEEDS.get(name) not in ("counts", "bins"):
            known = ", ".join(each for each, needs in NEEDS.items() if needs in ("counts", "bins"))
            raise cli.fail(f"{name!r} is no metric of counts; choose one of: {known}", cli.USAGE)
    with cli.store() as store:
        config = cli.configuration()
        try:
            rows, span = counts_of_weeks(store, config, source, label, week, weeks)
        except NothingToFit as error:
            raise cli.fail(str(error)) from error
    found = stability(rows.subject, rows.counts, span[-1], folds, names, config.evaluation)
    about = {"source": rows.subject.source, "label": label, "weeks": rows.fitted_on, "rows": rows.counts.rows}
    if json_output:
        typer.echo(json.dumps(plain(about | {"folds": folds, "metrics": [_stability(one) for one in found]}), indent=1))
        return
    (title,) = cli.cells(f"{rows.subject.name}, {count_of(rows.counts.rows, 'row')} of {rows.fitted_on}, {folds} parts")
    table = plain_table("metric", "all rows", "interval", "mean of parts", "sd", "least", "largest", title=title)
    for one in found:
        values = (one.mean, one.deviation, min(one.known, default=None), max(one.known, default=None))
        limits = interval(one.whole.low, one.whole.high)
        table.add_row(one.metric, number(one.whole.value), limits, *(number(value) for value in values))
    cli.out.print(table)


def _stability(one: Stability) -> dict[str, Any]:
    return asdict(one) | {"mean": one.mean, "deviation": one.deviation}


@cli.app.command(
    "dependencies",
    epilog="Examples:  calmon dependencies --source tickets  ·  calmon dependencies --source mails --most 10  ·  "
    "calmon dependencies --week 2026-W46 --json",
)
def dependencies_command(
    source: cli.SourceOption = None,
    week: ReadWeek = None,
    most: Annotated[int, typer.Option(min=2, max=200, help="So many labels, the most frequent ones.")] = 12,
    json_output: cli.JsonFlag = False,
) -> None:
    """Which labels come together: P(a | b) of truth and of prediction for pairs of labels.

    Read from the warehouse, of the items on which both labels were scored; stores nothing.
    """
    with cli.monitor(writes=False) as opened:
        cli.check_source(opened.config, source)
        window = cli.window_of(opened.config, "weekly", week)
        try:
            name, found = dependencies_of(opened, source, window, most)
        except NothingToAsk as error:
            raise cli.UsageError(str(error)) from error
    labels = found.labels
    if json_output:
        tables = {key: getattr(found, key).tolist() for key in ("truth", "predicted", "gap", "n", "given")}
        document = {"source": name, "week": window.name, "labels": list(labels), **tables}
        typer.echo(json.dumps(plain(document), indent=1, ensure_ascii=False))
        return
    (title,) = cli.cells(f"{name}, {window.name}: P(a | b), truth and prediction, the largest differences first")
    table = plain_table("a", "b", "items", "truth", "predicted", "difference", title=title)
    pairs = [(a, b) for a in range(len(labels)) for b in range(len(labels)) if a != b]
    known = [pair for pair in pairs if found.truth[pair] == found.truth[pair]]
    for pair in sorted(known, key=lambda pair: -abs(plain(float(found.gap[pair])) or 0.0)):
        shares = share(plain(float(found.truth[pair]))), share(plain(float(found.predicted[pair])))
        gap = number(plain(float(found.gap[pair])), sign=True)
        table.add_row(*cli.cells(labels[pair[0]], labels[pair[1]]), f"{found.n[pair]:,}", *shares, gap)
    cli.out.print(table)


@cli.app.command(
    "cheapest-threshold",
    epilog="Examples:  calmon cheapest-threshold --label phishing --false-negative 20  ·  "
    "calmon cheapest-threshold --source mails --costs costs.yaml --review 0.5  ·  "
    "calmon cheapest-threshold --label billing --weeks 4 --json",
)
def cheapest_threshold_command(
    label: LabelOption = None,
    source: cli.SourceOption = None,
    false_negative: Annotated[
        float | None, typer.Option(min=0, help="What a miss costs; default: that of alerts.yaml, else 5.")
    ] = None,
    false_positive: Annotated[
        float | None, typer.Option(min=0, help="What a false alarm costs; default: that of alerts.yaml, else 1.")
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option("--costs", help="Of a multiclass source: a YAML file, {true label: {decision: cost}}."),
    ] = None,
    review: Annotated[float | None, typer.Option(min=0, help="With --costs: what a person's decision costs.")] = None,
    week: WeekOption = None,
    weeks: WeeksOption = 1,
    json_output: cli.JsonFlag = False,
) -> None:
    """The threshold that costs least, beside what the decisions cost now.

    Of one label from the history, by what a miss and a false alarm cost. With --costs, of the K labels of a multiclass
    source from the warehouse: act on the highest score from the threshold on, decide otherwise below it. A cost that
    the file leaves out is 1 (0 for the right label). Chosen on the rows it is measured on: check it on another week.
    """
    if costs is not None:
        if label is not None or false_negative is not None or false_positive is not None or weeks != 1:
            raise cli.fail("--costs is about all labels of one week: leave out --label, --weeks and the two costs", 2)
        return _of_classes(source, costs, review, week, json_output=json_output)
    with cli.store() as store:
        config = cli.configuration()
        try:
            rows, _ = counts_of_weeks(store, config, source, label, week, weeks)
        except NothingToFit as error:
            raise cli.fail(str(error)) from error
    configured = config.sources[rows.subject.source].costs_of(label)
    usual = Costs() if configured is None else Costs(configured.false_negative, configured.false_positive)
    options = (false_negative, usual.false_negative), (false_positive, usual.false_positive)
    given = [default if cost is None else cost for cost, default in options]
    found = cheapest_threshold(rows.counts, Costs(*given))
    if found is None:
        raise cli.fail(f"{rows.subject.name} has no rows in {rows.fitted_on}")
    about = {"source": rows.subject.source, "label": label, "weeks": rows.fitted_on, "rows": rows.counts.rows}
    costed = {"false_negative": given[0], "false_positive": given[1]}
    if json_output:
        typer.echo(json.dumps(plain({**about, **costed, **asdict(found)}), indent=1))
        return None
    (title,) = cli.cells(
        f"{rows.subject.name}, {count_of(rows.counts.rows, 'row')} of {rows.fitted_on}; a miss costs {given[0]:g}, "
        f"a false alarm {given[1]:g}"
    )
    table = plain_table("decision", "threshold", "cost of a row", title=title)
    table.add_row("as it was", "", number(found.present_cost))
    table.add_row("cheapest", _threshold(found.threshold), number(found.cost))
    table.add_row("cheapest, if scores were calibrated", _threshold(found.by_scores), "")
    cli.out.print(table)
    return None


def _threshold(value: float | None) -> str:
    return "–" if value is None else "never predict" if value > 1 else f"{value:.4f}"


def _of_classes(source: str | None, path: Path, review: float | None, week: str | None, *, json_output: bool) -> None:
    with cli.plain_errors():
        matrix = _read_costs(path)
    with cli.monitor(writes=False) as opened:
        cli.check_source(opened.config, source)
        window = cli.window_of(opened.config, "weekly", week)
        try:
            name, found = cheapest_of_classes(opened, source, window, matrix, review)
        except (NothingToAsk, ValueError) as error:
            raise cli.UsageError(str(error)) from error
    if json_output:
        typer.echo(json.dumps({"source": name, "week": window.name, **plain(asdict(found))}, indent=1))
        return
    (title,) = cli.cells(f"{name}, {window.name}: cost of an item")
    table = plain_table("decision", "cost", title=title)
    for words, cost in (
        ("the label with the highest score, always", found.present),
        ("the label of least expected cost under the scores", found.by_scores),
        ("at random by the scores (expected misclassification cost)", found.expected),
    ):
        table.add_row(words, number(cost))
    table.add_row(*cli.cells(_cheapest(found)), number(found.cost))
    cli.out.print(table)


def _cheapest(found: CheapestFallback) -> str:
    below = "a person" if found.fallback is None else found.fallback
    if found.threshold > 1:
        return f"cheapest: always {below}"
    return f"cheapest: the highest score's label from {found.threshold:.4f} ({share(found.acting)}), below it {below}"


def _read_costs(path: Path) -> dict[str, dict[str, float]]:
    """The costs of a file. Raises UsageError for a file of another form."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
        return {str(true): {str(k): float(cost) for k, cost in row.items()} for true, row in found.items()}
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError, TypeError, ValueError) as error:
        form = "{true label: {decision: cost}}, such as {phishing: {other: 20}}"
        raise cli.UsageError(f"{path} is no cost matrix: write {form}") from error
