"""``calmon init``: from a warehouse or a file to a first alerts.yaml."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from glob import glob
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor.cli import common as cli
from monitor.cli.checks import CheckResult, check_places, end_where_wrong, print_findings
from monitor.cli.demo import FOLDER
from monitor.config.environment import database_address
from monitor.config.load import parse_config
from monitor.config.model import BaselineConfig, Config, EvaluationConfig
from monitor.config.relation import is_files, is_select, literal
from monitor.config.settings import Settings, load_settings
from monitor.context import utc_now
from monitor.core.records import ScoreIs
from monitor.core.redaction import shown_address
from monitor.core.wording import clean, count_of
from monitor.evaluation.visible_changes import Typical, Visible, visible_changes
from monitor.operations.describe_source import data_in_words
from monitor.operations.open import open_monitor
from monitor.operations.pin_baseline import plan
from monitor.operations.propose_evaluation import (
    Acting,
    Weeks,
    acting_of,
    arrives_daily,
    aside_of,
    round_pairs,
    tuning_of,
    typical_of,
    usual_threshold,
    weeks_of,
)
from monitor.operations.propose_source import (
    EACH_LABEL,
    LABELS_GIVEN,
    NAMED,
    OURS,
    READ_BY_NAME,
    Proposal,
    Seen,
    Unclear,
    propose,
    read_by_name,
    with_truth,
)
from monitor.operations.read_text import ENGINES, reading_text
from monitor.operations.recognise_tables import Found, columns_of, joined_by, lacks_truth, recognised, truths_of
from monitor.operations.starter_files import starter_config, starter_environment
from monitor.report.words import listed
from monitor.warehouse.reader import RelationError, Warehouse, WarehouseFailed
from monitor.warehouse.survey import ColumnSample, Survey

_DATA = re.compile(r"\.(parquet|pq|(csv|tsv)(\.(gz|zst))?)$", re.IGNORECASE)
_JSON = re.compile(r"\.(json|jsonl|ndjson)(\.(gz|zst))?$", re.IGNORECASE)
_IN_MEMORY = "duckdb://"
_RENAME_IT = "give it another name there, or in a view or SELECT as relation"
SEVERAL_ROWS = 1.5
"""From this many rows per item on, several rows of an item are no corrections."""
TOO_SURE = 0.05
"""Beyond the threshold of .05: the fault of 10 points, of which init says how many weeks it takes to be seen."""
OF_ACTING = ("automated-overconfidence", "source-overconfidence")
SHOWN_LABELS = 8
GIVEN, EVERY = "confidence_in_prediction", "probability_of_label"


_Place = tuple[str, str | None]
"""The place of the data: the address of a warehouse, and the relation where it is known already."""


@cli.app.command(
    epilog="Examples:  calmon init  ·  calmon init exports/tickets.csv --yes  ·  "
    "calmon init postgresql://calmon@db/support --relation tickets --column item=ticket_id --yes"
)
def init(
    data: Annotated[
        str | None,
        typer.Argument(help="An address of a warehouse, or a CSV, Parquet, DuckDB or SQLite file, or a folder."),
    ] = None,
    relation: Annotated[str | None, typer.Option(help="The table, view, SELECT or files to read.")] = None,
    truth: Annotated[
        str | None, typer.Option(help="A second table (or files) with what came true, where predictions have none.")
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="The column that both have, or theirs=its; default: the one that both have.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="What the source is called; default: as the table.")] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="A column by name, ours=theirs: item=ticket_id. May be repeated.")
    ] = None,
    date_format: Annotated[str | None, typer.Option(help="How dates in files are written: %d.%m.%Y %H:%M.")] = None,
    timezone: Annotated[str, typer.Option(help="Where weeks begin, such as Europe/Berlin.")] = "UTC",
    score_is: Annotated[
        ScoreIs | None,
        typer.Option(help=f"What a score is of: {GIVEN} (of the label given), or {EVERY} (of any label)."),
    ] = None,
    automate_at: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="The score from which the classifier acts alone.")
    ] = None,
    must_be_right: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="The share of what acts alone that must be right, such as 0.95: a rule."),
    ] = None,
    channel: Annotated[str | None, typer.Option(help="Where alerts go: a Slack channel, such as #ml-alerts.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: take what is recognised, or fail.")] = False,
) -> None:
    """Look at your table or file, propose how to read it, and write alerts.yaml and .env. Never overwrites."""
    ask = not yes and somebody_answers()
    config_path = _free(Path(os.environ.get("CALMON_CONFIG") or "alerts.yaml"))
    address, there = _place(data, ask=ask)
    named = _named(column or [], date_format)
    with Warehouse.from_url(address, relations=[each for each in (relation, there, truth) if each]) as opened:
        found = _found(opened, relation or there, truth, on, named, ask=ask)
        name = source or _source_name(found.relation)
        table = _table_of(opened, name, found, named, score_is, ask=ask)
        _show_columns(table)  # before the questions that follow from them
        answers = _Answers(automate_at, must_be_right, channel)
        begun = _begun(opened, name, table, timezone, answers, ask=ask)
    _print_answers(table, begun)
    if begun.typical is not None:
        _print_sight(begun.config, begun.typical, begun.visible)
    settings = _write(config_path, begun.text, address)
    findings = [*check_places(settings, begun.config, None)]
    _show_findings(findings)
    end_where_wrong(findings)
    for command, why in _steps(settings, begun.weeks):
        cli.print_next(f"calmon {command}", why, settings)


def somebody_answers() -> bool:
    """Whether a person sits at a terminal; elsewhere every question takes its default, which is said."""
    return sys.stdin.isatty() and sys.stdout.isatty()


@dataclass(frozen=True, slots=True)
class _Answers:
    """From which score it acts, the share that must be right, the channel; None: not given."""

    automate_at: float | None
    must_be_right: float | None
    channel: str | None


@dataclass(frozen=True, slots=True)
class _Table:
    """What is read: the relation, its columns and their meaning, and a summary of all rows."""

    found: Found
    columns: Sequence[ColumnSample]
    proposal: Proposal
    survey: Survey | None

    @property
    def settings(self) -> dict[str, Any]:
        """The source as alerts.yaml has it, without its relation."""
        truth = {"relation": self.found.truth, "on": dict(self.found.on)}
        return {**self.proposal.settings, **({"truth": truth} if self.found.truth is not None else {})}

    @property
    def could_be_given(self) -> bool:
        """Whether rows may be labels that were given, or that were only scored: nothing in the table says it."""
        return self.proposal.shape == EACH_LABEL and self.survey is not None and not self.survey.has_predicted


@dataclass(frozen=True, slots=True)
class _Begun:
    """The file to write, with what it is made from. ``typical`` is None without rows of a week that is over."""

    text: str
    config: Config
    weeks: Weeks
    typical: Typical | None
    answers: _Answers
    visible: Sequence[Visible] = ()


def _free(path: Path) -> Path:
    if path.exists():
        if Path.cwd().name == FOLDER.name:
            raise cli.UsageError(
                "this is the folder of calmon demo, which has its own alerts.yaml: begin in another one, such as "
                "mkdir ../watch && cd ../watch, then calmon init there"
            )
        raise cli.UsageError(
            f"{path} is there, and init never overwrites: move it, or set CALMON_CONFIG to another path "
            "(`calmon docs own-data`: a second source)"
        )
    return path


def _place(data: str | None, *, ask: bool) -> _Place:
    known = os.environ.get("CALMON_WAREHOUSE_URL") or None
    if data is None and (known is None or ask):
        if not ask:
            raise cli.UsageError("where are the data? Give an address or a file: calmon init tickets.csv --yes")
        try:
            data = typer.prompt("Where are the data (an address, a file, or a folder)?", default=known)
        except typer.Abort:  # nobody is there to answer
            raise cli.UsageError("no answer: give an address or a file, such as calmon init tickets.csv") from None
    return _place_of(data or known or "")


def _place_of(text: str) -> _Place:
    """What an address, a file, a pattern or a folder stands for."""
    path = Path(text)
    if "://" in text:
        try:
            return database_address(text), None
        except ValueError as error:
            raise cli.UsageError(f"this address {error}") from None
    if path.is_dir():
        return _IN_MEMORY, _pattern_of(path)
    if not (path.is_file() or glob(text, recursive=True)):  # noqa: PTH207 - a pattern
        raise cli.UsageError(
            f"{text} is no file, no folder and no address (postgresql://..., duckdb:///..., sqlite:///...)"
        )
    if _DATA.search(text):
        return _IN_MEMORY, text
    if _JSON.search(text):
        return _IN_MEMORY, f"SELECT * FROM {literal(text)}"
    if "?" in text:
        raise cli.UsageError(f"{text} has a ?, after which an address has options: give the file a name without it")
    with path.open("rb") as stream:
        beginning = stream.read(12)
    if beginning.startswith(b"SQLite"):
        return f"sqlite:///{text}", None
    if beginning.endswith(b"DUCK"):
        return f"duckdb:///{text}", None
    raise cli.UsageError(f"{text} is no file of CSV, Parquet or JSON, and no database of DuckDB or SQLite")


def _pattern_of(folder: Path) -> str:
    """The pattern of the files of data that a folder has most of; those with another name are named."""
    relative = (each.relative_to(folder) for each in sorted(folder.rglob("*")))
    visible = [each for each in relative if not any(part.startswith(".") for part in each.parts)]
    endings = [(found[0] if (found := _DATA.search(each.name)) else "", each) for each in visible]
    of_data = Counter(ending for ending, _ in endings if ending)
    if not of_data:
        raise cli.UsageError(f"{folder} holds no .csv or .parquet file")
    ending, _ = of_data.most_common(1)[0]
    others = [str(each) for its, each in endings if its != ending and (folder / each).is_file()]
    if others:
        cli.say(f"note: only the files of {folder} that end in {ending} are read, not {listed(others, 3)}")
    deep = "**/" if any(len(each.parts) > 1 for its, each in endings if its == ending) else ""
    return f"{folder.as_posix()}/{deep}*{ending}"


def _named(columns: list[str], date_format: str | None) -> dict[str, str]:
    named = {} if date_format is None else {"date_format": date_format}
    for pair in columns:
        ours, is_pair, theirs = pair.partition("=")
        if not is_pair:
            raise cli.UsageError(f"--column {pair}: write ours=theirs, such as item=ticket_id")
        if ours.strip() not in {*NAMED, "predicted_label", "confidence"}:
            known = f"it is one of {', '.join(NAMED)} (others: `columns` in alerts.yaml, once it is written)"
            raise cli.UsageError(f"--column {pair}: init knows no {ours.strip()}; before the = {known}")
        named[ours.strip()] = theirs.strip()
    return named


def _found(
    warehouse: Warehouse, relation: str | None, truth: str | None, on: str | None, named: dict[str, str], *, ask: bool
) -> Found:
    """The table to read, and the table of truths where that is another one."""
    if relation is None:
        table = _table(warehouse, named, ask=ask)
        relation, truth = table.relation, truth or table.truth
    columns, files = warehouse.samples(relation), is_files(relation)
    if truth is None and lacks_truth(propose(columns, named, files=files)):
        beside = _beside(relation) if files else [each for each in warehouse.tables() if each != relation]
        seen = {relation: columns, **columns_of(warehouse, beside)}
        truth = _truth(truths_of(relation, seen, named, files=files), ask=ask)
    return Found(relation) if truth is None else Found(relation, truth, _keys(columns, warehouse.samples(truth), on))


def _table(warehouse: Warehouse, named: dict[str, str], *, ask: bool) -> Found:
    """The only table, or the only one that is recognised; else the one that a person chooses."""
    tables = warehouse.tables()
    if not tables:
        raise cli.UsageError("the warehouse has no table that can be read: grant SELECT, or give --relation")
    found = [Found(tables[0])] if len(tables) == 1 else recognised(warehouse, tables, named)
    usual = found[0] if len(found) == 1 else None
    if ask and len(tables) > 1:
        enter = "" if usual is None else f" (Enter: {usual})"
        chosen = _chosen(f"Which table?{enter}", tables, usual=None if usual is None else usual.relation)
        return usual if usual is not None and chosen == usual.relation else Found(chosen)
    if usual is None:
        raise cli.UsageError(f"which table? Give --relation with one of: {', '.join(tables)}")
    return usual


def _truth(found: Sequence[Found], *, ask: bool) -> str | None:
    """The table of truths of some predictions, where there is one; of several, a person says which."""
    if len(found) < 2:
        taken = found[0] if found and (not ask or _confirmed(f"Read {found[0]}?", default=True)) else None
        return None if taken is None else taken.truth
    if not ask:
        raise cli.UsageError(
            f"where is what came true? Give --truth with one of: {', '.join(str(f.truth) for f in found)}"
        )
    by_words = {str(each): each.truth for each in found}
    return by_words[_chosen(f"{found[0].relation} does not say what came true. Where is it?", list(by_words))]


def _beside(relation: str) -> list[str]:
    """The other files of data in the folder of a file."""
    path = Path(relation)
    there = sorted(path.parent.iterdir()) if path.is_file() else []
    return [each.as_posix() for each in there if _DATA.search(each.name) and each.name != path.name]


def _keys(predictions: Sequence[ColumnSample], truths: Sequence[ColumnSample], on: str | None) -> dict[str, str]:
    """The columns by which two tables are joined, theirs: its."""
    if on is not None:
        left, _, right = on.partition("=")
        return {left.strip(): (right or left).strip()}
    found = joined_by(predictions, truths)
    if found is None:
        its = [column.name for column in truths]
        shared = [column.name for column in predictions if column.name in its]
        raise cli.UsageError(
            f"by which column are the predictions and what came true joined? Give --on COLUMN, or --on theirs=its; "
            f"both have: {', '.join(shared) or 'none'}; the truth's are: {', '.join(its)}"
        )
    return found


def _chosen(question: str, choices: list[str], usual: str | None = None) -> str:
    """A person's choice, given by its number or its text, or the usual one."""
    for number, choice in enumerate(choices, 1):
        cli.say(f"  {number:>3}  {choice}")
    while True:
        answer = str(typer.prompt(question, default=usual, show_default=False)).strip()
        if answer.isdigit() and 1 <= int(answer) <= len(choices):
            return choices[int(answer) - 1]
        if answer in choices:
            return answer
        cli.say(f"write a number from 1 to {len(choices)}")


def _table_of(
    warehouse: Warehouse, name: str, found: Found, named: dict[str, str], score_is: str | None, *, ask: bool
) -> _Table:
    """How a table is read: from its first rows, then from what all rows show, then from what a score is of."""
    files, columns = is_files(found.relation), warehouse.samples(found.relation)
    if found.truth is not None:
        columns = with_truth(columns, warehouse.samples(found.truth))
    elif warehouse.engine in ENGINES and not files:
        select = _reading_text(warehouse.engine, found.relation, columns, named, ask=ask)
        if select is not None:
            cli.say("text is read as numbers and dates, by the SELECT that is relation in alerts.yaml")
            found, columns = replace(found, relation=select), warehouse.samples(select)
    numbers = is_files(found.relation, csv=False)
    read = partial(_proposal, columns, named, files=files, numbers=numbers, ask=ask)
    table = _Table(found, columns, read(Seen()), None)
    survey = _survey(warehouse, name, found.relation, table.settings)
    if survey is None:
        return table
    waiting = found.truth is None and 0 < survey.truths < survey.rows
    seen = Seen(repeated=survey.items * SEVERAL_ROWS < survey.rows, waiting=waiting)
    table = _Table(found, columns, read(seen), survey)
    if not table.could_be_given:
        return table
    of_what = score_is or _of_what(survey, ask=ask)
    return replace(table, proposal=read(replace(seen, given=of_what == GIVEN)))


def _reading_text(
    engine: str, relation: str, columns: Sequence[ColumnSample], named: dict[str, str], *, ask: bool
) -> str | None:
    """The SELECT by which what is text is read as numbers and dates; None where nothing is, or nothing can be said."""
    seen = Seen(waiting=True)  # then also the date of the prediction is known
    found = propose(columns, named, files=True, numbers=True, seen=seen)
    if isinstance(found, Unclear) and found.missing == "date_format":
        found = _proposal(columns, named, seen, files=True, ask=ask, numbers=True)
    return reading_text(relation, columns, found.settings, engine) if isinstance(found, Proposal) else None


def _of_what(survey: Survey, *, ask: bool) -> str:
    """What a score is of where nothing in the table says it: a label that was given has a score of one half or more."""
    usual = GIVEN if survey.least is not None and survey.least >= 0.5 else EVERY
    if not ask:
        return usual
    least = "no row" if survey.least is None else f"the least score is {survey.least:g}"
    rows = f"{survey.rows:,} rows of {survey.items:,} items and {survey.labels:,} labels, {least}"
    choices = {
        "of the label that was given: each row is a decision": GIVEN,
        "of each label, whether it was given or not: a low score is a no": EVERY,
    }
    words = list(choices)
    enter = list(choices.values()).index(usual)
    return choices[_chosen(f"What is the score of? ({rows}; Enter: {enter + 1})", words, usual=words[enter])]


def _proposal(
    columns: Sequence[ColumnSample], named: dict[str, str], seen: Seen, *, files: bool, ask: bool, numbers: bool
) -> Proposal:
    """How to read the columns; what is unclear is asked for, or all of it is said, so that one command can answer it.

    That is the first, and what would be unclear after any answer to it.
    """
    given, unclear = dict(named), list[Unclear]()
    while isinstance(found := propose(columns, given, files=files, seen=seen, numbers=numbers), Unclear):
        if ask and found.candidates and found.missing not in given:
            named[found.missing] = given[found.missing] = _chosen(found.question, list(found.candidates))
            continue
        unclear.append(found)
        if not found.candidates or found.missing in given:
            break
        given[found.missing] = found.candidates[0]
    if isinstance(found, Unclear) or unclear:
        raise cli.UsageError(". ".join(map(_in_words, unclear)))
    return found


def _in_words(unclear: Unclear) -> str:
    if not unclear.candidates:
        return unclear.question
    options = {"date_format": "--date-format", "true_label": "--column true_label=NAME, or actual=NAME for yes and no"}
    option = options.get(unclear.missing, f"--column {unclear.missing}=NAME")
    hint = "; if another table says it: --truth TABLE" if unclear.missing == "true_label" else ""
    return f"{unclear.question} Give {option}; it could be: {', '.join(unclear.candidates)}{hint}"


def _source_name(relation: str) -> str:
    """A name from the table or the file.

    >>> _source_name("exports/Tickets 2026.csv"), _source_name('marts."Tickets"'), _source_name("select 1")
    ('tickets_2026', 'tickets', 'tickets')
    >>> _source_name("SELECT * FROM 'data/mails.jsonl.gz'")
    'mails'
    """
    if is_select(relation):
        file = re.search(r"'((?:[^']|'')+\.\w+)'", relation)
        return "tickets" if file is None else _source_name(f"{file[1]}.csv")
    last = Path(relation).name.partition(".")[0] if is_files(relation) else relation.rpartition(".")[2]
    return re.sub(r"[^a-z0-9]+", "_", last.lower()).strip("_") or "tickets"


def _survey(warehouse: Warehouse, name: str, relation: str, settings: Mapping[str, Any]) -> Survey | None:
    """The relation as a whole; None where it cannot be read, which later checks report."""
    config = parse_config(starter_config(name, relation, settings, "UTC"))
    try:
        return warehouse.survey(name, config.sources[name])
    except (RelationError, WarehouseFailed):
        return None


def _begun(warehouse: Warehouse, name: str, table: _Table, timezone: str, answers: _Answers, *, ask: bool) -> _Begun:
    """alerts.yaml with rules and numbers that fit the present rows, and the weeks to pin and to judge."""
    starter = partial(starter_config, name, table.found.relation, timezone=timezone)
    first, now = parse_config(starter(settings=table.settings)), utc_now()
    weeks = Weeks((), ()) if table.survey is None else weeks_of(table.survey, now, first.zone)
    typical = typical_of(warehouse, name, first, weeks.every, now=now)
    answers = _asked(answers, typical, ask=ask)
    written = partial(
        starter,
        settings={**table.settings, "automate_at": answers.automate_at},
        must_be_right=answers.must_be_right,
        channel=answers.channel,
        daily=arrives_daily(table.survey, now, files=is_files(table.found.relation)),
    )
    config = parse_config(written())  # wrong arguments are refused before anything is written
    if typical is None:
        return _Begun(written(), config, weeks, None, answers)
    if answers.automate_at != first.sources[name].automate_at:
        typical = typical_of(warehouse, name, config, weeks.every, now=now) or typical
    tuning = tuning_of(name, config, typical, len(weeks.baseline))
    fitted = tuning.applied(config)
    visible = visible_changes(name, fitted, typical)
    aside = aside_of(fitted, visible, typical)
    text = written(tuning=tuning.beside(EvaluationConfig(), BaselineConfig()), aside=aside)
    return _Begun(text, parse_config(text), weeks, typical, answers, visible)


def _asked(answers: _Answers, typical: Typical | None, *, ask: bool) -> _Answers:
    """The answers, with those of a person, or the usual ones, for what no option gives."""
    acting = acting_of(typical)
    at, floor, channel = answers.automate_at, answers.must_be_right, answers.channel
    if at is None:
        at = usual_threshold(acting)
        if ask:
            for each in acting:
                cli.say(f"  from {_score(each.at):4} on: {_acts(each)}")
            at = _number("From which score does the classifier act alone?", at) or 0.0
    if floor is None and ask:
        right = _today(acting_of(typical, at=[at]))
        floor = _number(f"Which share of that must be right ({right}; Enter: no rule on it)?", None)
    if channel is None and ask:
        channel = typer.prompt("Which Slack channel gets alerts (Enter: none yet)?", default="", show_default=False)
    return _Answers(at, floor, channel or None)


def _today(acting: Sequence[Acting], unknown: str = "") -> str:
    """How much of what acts alone from a score is right now."""
    return f"today {acting[0].right:.1%}" if acting else unknown or "no row acts today"


def _number(question: str, usual: float | None) -> float | None:
    """A share that a person writes as .95, 0,95, 95 or 95%; the usual one where nothing is written."""
    while True:
        shown = "" if usual is None else _score(usual)
        answer = str(typer.prompt(question, default=shown, show_default=bool(shown))).strip()
        try:
            number = float(answer.rstrip("% ").replace(",", ".")) if answer else usual
        except ValueError:
            number = -1.0
        number = number / 100 if number is not None and number > 1 else number
        if number is None or 0 <= number <= 1:
            return number
        cli.say("write a share, such as .95 or 95%")


def _score(at: float) -> str:
    """A score or share as it is written here: .8"""
    return f"{at:g}".removeprefix("0")


def _acts(acting: Acting) -> str:
    return f"{acting.weekly:,.0f} rows a week ({acting.share:.0%}), of which {acting.right:.1%} are right"


def _show_columns(table: _Table) -> None:
    """What is read, and as what."""
    settings, by_name = table.proposal.settings, read_by_name(table.columns)
    words = "" if table.survey is None else f": {data_in_words(table.survey)}"
    cli.say(f"{clean(table.found.relation, 60)}{words}; {table.proposal.shape}")
    read_as = [*by_name.items(), *((column, ours) for ours, column in dict(settings.get("columns", {})).items())]
    wide = re.escape(dict(settings.get("wide", {})).get("score", "")).replace(r"\{label\}", ".+")
    rows, unread = [], []
    for column in table.columns:
        ours = [name for theirs, name in read_as if theirs == column.name]
        ours += [column.name] if not ours and column.name in OURS else []
        ours += ["score"] if wide and re.fullmatch(wide, column.name) else []
        ours += ["latest_by"] if column.name == settings.get("latest_by") else []
        some = ", ".join(dict.fromkeys(str(value) for value in column.values[:50]))[:48]
        if ours:
            rows.append((column.name, ", ".join(ours), some))
        else:
            unread.append(column.name)
    if unread:
        rows.append((listed(unread, 5), "(not read)", ""))
    cli.print_table(("column", "read as", "some values"), rows)
    for name, its in by_name.items():
        cli.say(f"{name} is read as {its} for its name: {READ_BY_NAME[its]}. If it means something else, {_RENAME_IT}")
    if settings.get("unresolved"):
        waiting = table.survey.rows - table.survey.truths if table.survey is not None else 0
        words = "row has no truth: it waits" if waiting == 1 else "rows have no truth: they wait"
        cli.say(f"{waiting:,} {words} for it, not judged until then (unresolved: true)")


def _print_answers(table: _Table, begun: _Begun) -> None:
    answers, at = begun.answers, begun.answers.automate_at or 0.0
    acting = acting_of(begun.typical, at=[at])
    unknown = "" if table.survey is not None else "not known: the data cannot be read yet"
    today, floor, channel = _today(acting, unknown), answers.must_be_right, answers.channel
    beyond = "; below it already, so this is an alert at once" if floor and acting and acting[0].right < floor else ""
    sent = "" if os.environ.get("CALMON_SLACK_BOT_TOKEN") else "; stored, not sent, until CALMON_SLACK_BOT_TOKEN is set"
    given, several = table.proposal.settings.get("kind") == "single_label", table.proposal.shape == LABELS_GIVEN
    other = f"--score-is {EVERY if several else GIVEN}" if several or table.could_be_given else ""
    right = f"{floor:.1%} ({today}){beyond}" if floor else f"no rule on it ({today})"
    rows = (
        ("the score is of", "the label that was given" if given else "each label, given or not", other),
        ("acts alone from", f"{_score(at)}: {_acts(acting[0]) if acting else unknown or 'no row'}", "--automate-at .9"),
        ("must be right", right, "--must-be-right .9"),
        ("alerts go to", f"{channel}{sent}" if channel else "nobody: stored and shown only", '--channel "#ml-alerts"'),
    )
    cli.print_table(("answered", "", "another answer"), rows)


def _print_sight(config: Config, typical: Typical, visible: Sequence[Visible]) -> None:
    """Of each label what acts alone, and what can be seen of it: at the soonest, and in how many weeks 10 points."""
    (name,) = config.sources
    rules = [rule for rule in config.rules if rule.id in OF_ACTING]
    at_once = {each.subject.label: each for each in visible if each.rule.id in OF_ACTING}
    later = {each.subject.label: each for each in visible_changes(name, config, typical, TOO_SURE, rules)}
    labels = sorted(typical.labels, key=lambda each: (each is None, -typical.labels[each].rows))
    skipped = set(labels[SHOWN_LABELS - 3 : -3] if len(labels) > SHOWN_LABELS + 1 else ())
    rows = []
    for label in (each for each in labels if each not in skipped):
        acting = acting_of(typical, label, [config.sources[name].automate_at])
        acts = (f"{acting[0].weekly:,.0f}", f"{acting[0].right:.1%}") if acting else ("0", "")
        volume = f"{typical.labels[label].rows / typical.weeks:,.0f}"
        called = "(all labels)" if label is None else label
        rows.append((called, volume, *acts, _points(at_once.get(label)), _weeks(later.get(label))))
    if skipped:
        rows.insert(SHOWN_LABELS - 3, (f"… {len(skipped)} more", "", "", "", "", ""))
    cli.print_table(("label", "rows a week", "act alone", "right", "seen: too sure by", "by 10 points: in"), rows)


def _points(visible: Visible | None) -> str:
    if visible is None or visible.windows is None or visible.detectable is None or visible.out_of_reach:
        return "never"
    return f"{100 * (visible.rule.threshold + visible.detectable):.0f} points, in {count_of(visible.windows, 'week')}"


def _weeks(visible: Visible | None) -> str:
    return "over a year" if visible is None or visible.windows is None else count_of(visible.windows, "week")


def _show_findings(findings: Sequence[CheckResult]) -> None:
    """What is wrong, and what contradicts the data; `calmon check` has the rest."""
    wrong = [each for each in findings if each.state in ("failed", "wrong")]
    if wrong:
        print_findings(wrong)
    for each in findings:
        about_data = each.what not in ("store", "Slack", "warehouse role")
        if each.state == "note" and about_data:
            cli.say(f"note: {each.text}")


def _write(path: Path, text: str, address: str) -> Settings:
    """Write alerts.yaml, and .env where there is none; returns the settings that they give."""
    cli.write(path, text)
    cli.say(f"wrote {path}")
    environment = Path(".env")
    sources = parse_config(text).sources.values()
    only_files = all(is_files(relation) for source in sources for relation in source.relations)  # which need no address
    if (os.environ.get("CALMON_WAREHOUSE_URL") or (_IN_MEMORY if only_files else None)) != address:
        if environment.exists():
            line = f".env is there and stays as it is: set CALMON_WAREHOUSE_URL={shown_address(address)} in it"
            cli.say(line)
        else:
            cli.write(environment, starter_environment(address))
            environment.chmod(0o600)  # an address may hold a password
            cli.say("wrote .env, which calmon reads in this folder")
    return load_settings(_environment(path, address))


def _environment(path: Path, address: str) -> Mapping[str, str]:
    others = {name: value for name, value in os.environ.items() if name != "CALMON_WAREHOUSE_URL_FILE"}
    return {**others, "CALMON_CONFIG": str(path), "CALMON_WAREHOUSE_URL": address}


def _confirmed(question: str, *, default: bool = False) -> bool:
    """Whether a person says yes; False where nobody answers."""
    try:
        return typer.confirm(question, default=default)
    except typer.Abort:
        return False


def _steps(settings: Settings, weeks: Weeks) -> Iterator[tuple[str, str]]:
    """The next commands, each with what it is for; without rows, check again.

    Pin the weeks before, backfill all weeks after them but the last, judge that one as the schedule would. The options
    with which the weeks can be pinned are tried, since `baseline pin` refuses weeks that changed.
    """
    if not weeks.judged:
        yield "check", "again, once there are rows of a week that is over"
        return
    if weeks.baseline:
        with open_monitor(settings, writes=False) as opened:
            found = plan(opened, weeks.baseline)
        few = "" if found.min_pairs is None else f" --min-pairs {round_pairs(found.min_pairs)}"
        pin = f"baseline pin --from {found.first.name} --to {found.last.name}{few}{' --anyway' * found.anyway}"
        changed = "; something changed in them: look at it first" if found.anyway else ""
        yield pin, f"keep how these weeks were, for rules on a change{changed}"
    *between, last = [week.name for week in weeks.judged]
    if between:
        yield f"backfill --from {between[0]} --to {between[-1]}", "evaluate the weeks up to the last; never acts"
    yield f"run weekly --week {last}", "judge the last week, as the weekly schedule would"
