"""``calmon check``: is the configuration right, and does everything answer?"""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
import yaml
from rich.text import Text

from monitor.alerting.apprise_sender import apprise_of
from monitor.alerting.slack.client import NOT_REACHED, sender_of
from monitor.cli import common as cli
from monitor.cli.automation import DRY_RUN
from monitor.config.checks import matches_nothing, never_fires
from monitor.config.counting import settings_of
from monitor.config.json_schema import schema_text
from monitor.config.load import load_config
from monitor.config.model import Config, Rule
from monitor.config.rule_sources import beside_wrong_truths, can_judge
from monitor.config.settings import Settings, variables
from monitor.config.unknown_variables import unknown_variables
from monitor.context import utc_now
from monitor.core.baseline import References, references_under
from monitor.core.records import receiver_name
from monitor.core.redaction import shown_address, without_secrets
from monitor.core.schedules import zone_of
from monitor.core.source_settings import in_words
from monitor.core.windows import last_ready
from monitor.core.wording import clean, count_of, printable
from monitor.evaluation.other_thresholds import at_present_threshold
from monitor.evaluation.rule_metrics import raised_rows
from monitor.evaluation.visible_changes import visible_changes
from monitor.history.errors import HistoryError, StoreMissing, WrongStoreAddress
from monitor.history.schema import creation_refused
from monitor.history.store import Store
from monitor.metrics.names import ACCUMULATES
from monitor.operations.describe_changes import legend_of, lines_of, remarks
from monitor.operations.describe_source import describe, not_judged, unseen_labels
from monitor.operations.open import open_warehouse
from monitor.operations.propose_evaluation import tuning_of, typical_of, weeks_of
from monitor.report.console import plain_table
from monitor.warehouse.reader import RelationError, Warehouse, WarehouseFailed
from monitor.warehouse.relation import WrongWarehouseAddress
from monitor.warehouse.survey import Survey

SCHEDULES = (Path("deployments/prefect.yaml"), Path("prefect.yaml"))  # of a checkout, and as `calmon serve` prints it
SHOWN_LABELS = 20
NO_ROUTES = "none: alerts are stored and shown, and sent nowhere (`calmon docs alerts`)"
PERCENTILE = "evaluation.interval: percentile, the textbook's, may never cover the truth: it is read as bootstrap"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check and its result: "wrong" is a mistake in a file or an address."""

    what: str
    state: Literal["ok", "note", "failed", "wrong"]
    text: str


@dataclass(frozen=True, slots=True)
class Volume:
    """What the rules of a source can show of its labels: the rules' ids, and a line for each label of ``weeks``."""

    source: str
    weeks: str
    rules: list[str]
    lines: list[list[str]]


@cli.app.command(epilog="Examples:  calmon check  ·  calmon check --labels  ·  calmon check --offline")
def check(
    offline: Annotated[bool, typer.Option("--offline", help="Only the configuration; reach nothing.")] = False,
    labels: Annotated[bool, typer.Option("--labels", help="What can be seen of every label, however many.")] = False,
    see: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Say how many rows and weeks such a change takes: .05.")
    ] = None,
    print_schema: Annotated[
        bool, typer.Option("--print-schema", help="Print the JSON Schema of alerts.yaml, for editors, and end.")
    ] = False,
) -> None:
    """Validate alerts.yaml, reach warehouse, store and Slack, show what would run, and what its rules can show."""
    if print_schema:
        sys.stdout.write(schema_text())
        return
    settings = cli.settings()
    config = load_config(settings.config)
    volumes: list[Volume] = []
    places = () if offline else check_places(settings, config, volumes, see)
    findings = [*check_files(settings, config), *places]
    print_findings(findings)
    _print_rules(config)
    for volume in volumes:
        print_volume(volume, every_label=labels)
    end_where_wrong(findings)


def check_files(settings: Settings, config: Config) -> Iterator[CheckResult]:
    """What can be said of alerts.yaml and the environment alone."""
    yield CheckResult("configuration", "ok", f"{settings.config}, rules revision {config.revision}")
    yield from _notes("environment", unknown_variables(os.environ, variables()))
    yield from check_schedules(config, SCHEDULES)
    yield from _notes("automation", [DRY_RUN] * config.automation.dry_run)
    yield from _notes("routes", [NO_ROUTES] * (not config.routes))
    yield from _notes("interval", [PERCENTILE] * (config.evaluation.interval == "percentile"))
    for name, source in config.sources.items():  # the thresholds that give way by the wrong truths that it states
        moved = ((rule, beside_wrong_truths(rule, source)) for rule in config.rules if can_judge(rule, source))
        changed = [f"{rule.id} {to.threshold:g}" for rule, to in moved if to is not rule]
        if changed and source.truth_error:
            text = f"truths wrong in {source.truth_error:.4g} are allowed for: {', '.join(changed)}"
            yield CheckResult(f"source {name}", "note", text)
    for rule in config.rules:  # what it does not do as written: it has no effect, or needs more rows
        texts = never_fires(rule), clean(matches_nothing(rule, config), 200), raised_rows(rule, config.evaluation)
        yield from _notes(f"rule {rule.id}", texts)


def _notes(what: str, texts: Iterable[str]) -> Iterator[CheckResult]:
    return (CheckResult(what, "note", text) for text in texts if text)


def check_places(
    settings: Settings, config: Config, volumes: list[Volume] | None, see: float | None = None
) -> Iterator[CheckResult]:
    """What warehouse, store and Slack say; what rules can show is added to ``volumes``, unless it is None."""
    yield from check_warehouse(settings, config, volumes, see)
    yield check_store(settings)
    yield from check_baselines(settings, config)
    yield check_slack(settings)
    yield from check_apprise(settings, config)


def end_where_wrong(findings: Sequence[CheckResult]) -> None:
    """Say on standard error what to correct. Raises typer.Exit where anything is wrong."""
    wrong = [each for each in findings if each.state in ("failed", "wrong")]
    if wrong:
        names = ", ".join(each.what for each in wrong)
        cli.warn(f"next: correct what failed ({names}, above), then: calmon check")
        raise typer.Exit(cli.USAGE if any(each.state == "wrong" for each in wrong) else cli.FAILED)


def check_schedules(config: Config, paths: Sequence[Path]) -> Iterator[CheckResult]:
    """Whether each schedule of the deployments is in its time zone: most in the one of alerts.yaml."""
    there = [path for path in paths if path.is_file()]
    if not there:
        names = " and no ".join(map(str, paths))
        yield CheckResult("schedules", "note", f"no {names} here: nothing to compare the time zone with")
    for path in there:
        wrong = [*_wrong_zones(config, path)]
        yield from (CheckResult("schedules", "wrong", text) for text in wrong)
        if not wrong:
            yield CheckResult("schedules", "ok", f"{path} and alerts.yaml agree on {config.timezone}")


def _wrong_zones(config: Config, path: Path) -> Iterator[str]:
    deployments = (yaml.safe_load(path.read_text("utf-8")) or {}).get("deployments") or []
    scheduled = [(d, s) for d in deployments for s in d.get("schedules") or [] if "timezone" in s]
    hourly = [(d, s) for d, s in scheduled if zone_of(str(s.get("cron")), "") == "UTC"]
    wrong = sorted({s["timezone"] for d, s in scheduled if (d, s) not in hourly} - {config.timezone})
    if wrong:
        yield f"{path} runs in {', '.join(wrong)} but alerts.yaml says {config.timezone}: make them the same"
    if silent := sorted({str(d.get("name")) for d, s in hourly if s["timezone"] != "UTC"}):
        yield f"{path}: {', '.join(silent)} would be silent in the hour that clocks repeat: write timezone: UTC there"


def check_warehouse(
    settings: Settings, config: Config, volumes: list[Volume] | None, see: float | None = None
) -> Iterator[CheckResult]:
    """Every relation with its problems; what rules can show of its labels is added to ``volumes``."""
    try:
        with open_warehouse(settings, config) as warehouse:
            warehouse.ping()
            seen: dict[str, frozenset[str]] = {}
            for name in config.sources:
                yield from _check_source(warehouse, name, config, volumes, seen, see)
            yield from (CheckResult(who, "note", text) for who, text in unseen_labels(config, seen))
            yield from _check_role(warehouse)
    except WrongWarehouseAddress as error:
        yield CheckResult("warehouse", "wrong", str(error))
    except (WarehouseFailed, RelationError) as error:
        yield CheckResult("warehouse", "failed", str(error))


def _check_source(
    warehouse: Warehouse,
    name: str,
    config: Config,
    volumes: list[Volume] | None,
    seen: dict[str, frozenset[str]],
    see: float | None,
) -> Iterator[CheckResult]:
    """Whether a relation can be read, what its data look like, and where they contradict the configuration.

    The labels of the last ready week are added to ``seen``.
    """
    source, now, who = config.sources[name], utc_now(), f"source {name}"
    problems = "\n".join(f"{p.message}: {p.remedy}" for p in warehouse.check(name, source))
    if problems:
        yield CheckResult(who, "failed", without_secrets(problems))
        return
    can_be_read = f"{without_secrets(source.relation)} can be read"
    window = last_ready("weekly", now, config.zone)
    try:
        reading = warehouse.read(name, source, window, now=now, whole=False)
        found = describe(warehouse, name, source, reading)
        advice = () if volumes is None else _volume(warehouse, name, config, found.survey, volumes, see)
    except (WarehouseFailed, RelationError) as error:
        yield CheckResult(who, "ok", can_be_read)
        yield CheckResult(who, "failed", str(error))
        return
    if reading.labels:  # an empty week says nothing of labels, nor does a source of numbers
        seen[name] = frozenset(reading.labels) | {cell.label for cell in reading.rejected if cell.label is not None}
    unfit = not_judged(reading, source, config.evaluation.max_rejected)
    yield CheckResult(who, "ok", f"{can_be_read}: {found.data}")
    yield CheckResult(f"{name}, {window.name}", "ok", found.window)
    if unfit:
        yield CheckResult(f"{name}, {window.name}", "note", f"as far as can be said without a baseline, {unfit}")
    yield from _notes(who, found.doubts)
    yield from _notes(f"volume of {name}", advice)


def _volume(
    warehouse: Warehouse, name: str, config: Config, survey: Survey, volumes: list[Volume], see: float | None
) -> Sequence[str]:
    """Add what rules can show of each label; returns what to change where small changes cannot be seen."""
    now = utc_now()
    weeks = weeks_of(survey, now, config.zone)
    typical = typical_of(warehouse, name, config, weeks.every, now=now)
    if typical is None:
        return ()
    found = visible_changes(name, config, typical)
    shown = found if see is None else visible_changes(name, config, typical, see)
    volumes.append(Volume(name, typical.window.name, *lines_of(shown, typical, config, with_rows=see is not None)))
    tuning = tuning_of(name, config, typical, len(weeks.baseline))
    return tuple(remarks(name, config, found, typical, tuning))


def _check_role(warehouse: Warehouse) -> list[CheckResult]:
    """A warning where the role of the warehouse may do more than read; [] for an engine without roles."""
    more = warehouse.beyond_select()
    if more is None:
        return []
    if not more:
        return [CheckResult("warehouse role", "ok", "may do nothing but SELECT")]
    could = f"the role {'; '.join(more)}. A relation could use that"
    text = f"{could}: `calmon docs warehouse-roles` has a role that only reads"
    return [CheckResult("warehouse role", "note", text)]


def check_store(settings: Settings) -> CheckResult:
    """Whether the history answers, with its address; a history that does not exist yet is no error."""
    address = shown_address(settings.store_url.get_secret_value())
    try:
        with Store.from_url(settings.store_url.get_secret_value(), create=False) as store:
            store.ping()
            missing = store.only_reads()
        if missing is not None:
            return CheckResult("store", "note", f"the history can be read but not written: {address}: {missing}")
        return CheckResult("store", "ok", f"the history can be read: {address}")
    except StoreMissing:
        refused = creation_refused(settings.store_url.get_secret_value())
        if refused is not None:
            return CheckResult("store", "failed", f"{address}: {refused}")
        return CheckResult("store", "note", f"{address} does not exist yet; the first command that writes creates it")
    except WrongStoreAddress as error:
        return CheckResult("store", "wrong", str(error))
    except HistoryError as error:
        return CheckResult("store", "failed", str(error))


def check_baselines(settings: Settings, config: Config) -> Iterator[CheckResult]:
    """Notes on baselines that were pinned under other settings of their source, or of a source that is gone."""
    try:
        with Store.from_url(settings.store_url.get_secret_value(), create=False) as store:
            newest = {name: store.latest_baselines(name) for name in config.sources}
            known = {switch.source for switch in store.switches()} | set(store.pinned_sources())
    except (WrongStoreAddress, HistoryError):
        return  # check_store says so
    for name in sorted(known - set(config.sources)):
        yield CheckResult(f"source {name}", "note", _gone(name))
    for name, source in config.sources.items():
        references = references_under(newest[name], settings_of(source))
        compared = at_present_threshold(references, source, config.evaluation)
        yield from _notes(f"source {name}", _about_baselines(name, compared))


def _gone(source: str) -> str:
    """What a name means that the history has and alerts.yaml has not: a source that was renamed, or is not watched."""
    return (
        "alerts.yaml has no source of this name any more. Under another name it is a new source: without baselines and "
        f"switches, so that what was turned off here is not off there; `calmon automation status --source "
        f"{shlex.quote(source)}` shows these"
    )


def _about_baselines(source: str, found: References) -> Iterator[str]:
    """What is not compared with a source's baselines since its settings have changed, and what is all the same."""
    again = f"calmon baseline pin --source {shlex.quote(source)}"
    pinned = len(found.baselines) + len(found.refused)
    for changes, count in Counter(found.refused.values()).items():
        yield (
            f"{count} of {pinned} baselines were pinned under other settings ({clean(in_words(changes))}), so "
            f"nothing is compared with them: {again}"
        )
    for changes, count in Counter(found.renamed.values()).items():
        yield (
            f"{count} of {pinned} baselines were pinned under other names ({clean(in_words(changes))}), and are "
            f"compared with as if the rows were the same; if they are not: {again}"
        )
    if found.not_cut:
        yield (
            "the baseline of all labels together is of another automate_at and cannot be cut at the present one, so "
            f"its automated rows are not compared: {again}"
        )


def check_slack(settings: Settings) -> CheckResult:
    """Whether Slack knows the token."""
    sender = sender_of(settings)
    if sender is None:
        return CheckResult("Slack", "note", "no token: messages are stored, not sent (set CALMON_SLACK_BOT_TOKEN)")
    answer = sender.check()
    if not answer.ok:
        problem = answer.problem or "no answer"
        how = ": check the network of this machine, and CALMON_SLACK_API_URL if it is set"
        return CheckResult("Slack", "failed", problem + (how if problem.startswith(NOT_REACHED) else ""))
    return CheckResult("Slack", "ok", f"{answer.user} of {answer.team}")


def check_apprise(settings: Settings, config: Config) -> Iterator[CheckResult]:
    """Whether every receiver beside Slack that a route names has an address that Apprise understands."""
    sender = apprise_of(settings)
    named = dict.fromkeys(route.apprise for route in config.routes if route.apprise is not None)
    missing = [name for name in named if sender is None or name not in sender.names]
    if missing:
        yield CheckResult("Apprise", "failed", f"a route names {', '.join(missing)}, which CALMON_APPRISE has not")
    elif sender is not None:
        answer = sender.check()
        yield CheckResult("Apprise", "ok" if answer.ok else "failed", answer.problem or answer.user)


def print_findings(findings: Sequence[CheckResult]) -> None:
    """Print a line for each check, with its result."""
    table = plain_table("checked", "", "", title="What was checked")
    colours = {"ok": "green", "note": "yellow", "failed": "red", "wrong": "red"}
    for f in findings:
        table.add_row(*cli.cells(f.what), Text(f.state, style=colours[f.state]), Text(printable(f.text)))
    cli.out.print(table)


def print_volume(volume: Volume, *, every_label: bool = False) -> None:
    """Print a line for each label; of many, the largest and the smallest ones, and all labels together."""
    title = f"What the rules can show of {volume.source} at the volume of {volume.weeks}"
    lines, omitted = volume.lines, 0
    if len(lines) - 1 > SHOWN_LABELS and not every_label:
        half = SHOWN_LABELS // 2
        omitted = len(lines) - 1 - 2 * half
        lines = [*lines[:half], ["…", *([""] * (len(lines[0]) - 1))], *lines[-half - 1 :]]
    cli.print_table(("label", "rows a week", *volume.rules), lines, title=title)
    more = f"; {count_of(omitted, 'label')} between these: calmon check --labels" if omitted else ""
    cli.out.print(Text(f"{legend_of(volume.lines)}{more}"))


def _print_rules(config: Config) -> None:
    goes = ["goes to"] if config.routes else []
    rows = [
        (rule.id, rule.schedule, asks(rule), rule.severity, ", ".join(rule.actions),
         *(destination(rule, config) for _ in goes))
        for rule in config.rules
    ]  # fmt: skip
    cli.print_table(("rule", "runs", "asks", "severity", "does", *goes), rows, title="What would run")


def asks(rule: Rule) -> str:
    """A rule in a few words, like "overconfidence of automated rows above 0.05".

    >>> asks(Rule(id="x", metric="ece", condition="increase", threshold=0.02))
    'ece increase 0.02'
    >>> asks(Rule(id="x", metric="ece", threshold=0.05, scope="source"))
    'ece above 0.05, all labels together'
    """
    parts = "all columns" if "all" in rule.segments else ", ".join(rule.segments)
    scope = {"source": ", all labels together", "segments": f", in segments of {parts}"}.get(rule.scope, "")
    rows = "" if rule.where == "all" else f" of {rule.where} rows"
    lasting = f" for {rule.for_windows} windows" if rule.for_windows > 1 else ""
    condition = "lasting " * (rule.evidence == "accumulated") + rule.condition
    if rule.condition == "accumulated":
        condition += f" {ACCUMULATES.get(rule.measure, 'above')}"
    textbook = "textbook " if rule.value == "plug_in" else ""
    plain = ", not tested" if rule.is_plain else ""
    text = f"{textbook}{rule.measure}{rows} {condition} {rule.threshold:g}{lasting}{plain}{scope}"
    return text + (f" ({rule.match.words})" if rule.match.words else "")


def destination(rule: Rule, config: Config) -> str:
    """Where a breach of this rule is told, source by source where that differs."""
    if "slack" not in rule.actions:
        return "nowhere: the rule has no slack action"
    channels = {}
    for source in config.sources:
        if rule.match.source in (None, source):
            route = config.route_for(severity=rule.severity, source=source, label=rule.match.label, rule=rule.id)
            told = map(receiver_name, route.addresses) if route else ["nowhere: no route matches"]
            channels[source] = " and ".join(told)
    if len(set(channels.values())) == 1:
        return next(iter(channels.values()))
    return ", ".join(f"{source}: {channel}" for source, channel in channels.items()) or "no source matches"
