"""``calmon init``: from a warehouse or a file to a first alerts.yaml."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from glob import glob
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from monitor.cli import common as cli
from monitor.cli.checks import print_checks
from monitor.config.environment import database_address
from monitor.config.load import parse_config
from monitor.config.relation import is_files, is_select, literal
from monitor.config.settings import Settings, load_settings
from monitor.context import utc_now
from monitor.core.redaction import shown_address
from monitor.evaluation.visible_changes import visible_changes
from monitor.operations.open import open_monitor
from monitor.operations.pin_baseline import plan
from monitor.operations.propose_evaluation import Weeks, aside_of, round_pairs, tuning_of, typical_of, weeks_of
from monitor.operations.propose_source import (
    NAMED,
    OURS,
    READ_BY_NAME,
    Proposal,
    Unclear,
    propose,
    read_by_name,
    with_truth,
)
from monitor.operations.recognise_tables import Found, joined_by, lacks_truth, recognised, truths_elsewhere
from monitor.operations.starter_files import starter_config, starter_environment
from monitor.report.console import plain_table
from monitor.warehouse.reader import RelationError, Warehouse, WarehouseFailed
from monitor.warehouse.survey import Survey
from monitor.warehouse.tables import ColumnSample

_DATA = re.compile(r"\.(parquet|pq|(csv|tsv)(\.(gz|zst))?)$", re.IGNORECASE)
_JSON = re.compile(r"\.(json|jsonl|ndjson)(\.(gz|zst))?$", re.IGNORECASE)
_IN_MEMORY = "duckdb://"
_RENAME_IT = "give it another name there, or in a view or SELECT as relation"
SEVERAL_ROWS = 1.5
"""From this many rows per item on, several rows of an item are no corrections."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of the data: the address of a warehouse, and the relation where it is known already."""

    address: str
    relation: str | None = None


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
    must_be_right: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="The share of what acts alone that must be right, such as 0.95: a rule."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: take what is recognised, or fail.")] = False,
) -> None:
    """Look at your table or file, propose how to read it, and write alerts.yaml and .env. Never overwrites."""
    with cli.plain_errors():
        config_path = _free(Path(os.environ.get("CALMON_CONFIG") or "alerts.yaml"))
        place = _place(data, ask=not yes)
        named = _named(column or [], date_format)
        with Warehouse.from_url(
            place.address, relations=[each for each in (relation, place.relation, truth) if each]
        ) as opened:
            found = _found(opened, relation or place.relation, truth, on, named, ask=not yes)
            chosen, columns = found.relation, opened.samples(found.relation)
            joined: dict[str, Any] = {}
            if found.truth is not None:
                columns = with_truth(columns, opened.samples(found.truth))
                joined = {"truth": {"relation": found.truth, "on": dict(found.on)}}
            proposal = _proposal(columns, named, files=is_files(chosen), ask=not yes)
            name = source or _source_name(chosen)
            survey = _survey(opened, name, chosen, {**proposal.settings, **joined})
            if survey is not None and survey.items * SEVERAL_ROWS < survey.rows:
                proposal = _proposal(columns, named, files=is_files(chosen), ask=not yes, repeated=True)
            starter = partial(
                starter_config, name, chosen, {**proposal.settings, **joined}, timezone, must_be_right=must_be_right
            )
            text, weeks = _fitted(opened, name, starter, survey)
        _show(proposal, columns, text)
        if not yes and not typer.confirm(f"Write {config_path}?", default=True):
            raise typer.Exit(cli.FAILED)
        settings = _write(config_path, text, place.address)
        failed = print_checks(settings)
        if failed is not None:
            raise failed
        _next(settings, weeks, ask=not yes)


def _free(path: Path) -> Path:
    if path.exists():
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
            return _Place(database_address(text))
        except ValueError as error:
            raise cli.UsageError(f"this address {error}") from None
    if path.is_dir():
        return _Place(_IN_MEMORY, _pattern_of(path))
    if not (path.is_file() or glob(text, recursive=True)):  # noqa: PTH207 - a pattern
        raise cli.UsageError(
            f"{text} is no file, no folder and no address (postgresql://..., duckdb:///..., sqlite:///...)"
        )
    if _DATA.search(text):
        return _Place(_IN_MEMORY, text)
    if "?" in text:
        raise cli.UsageError(f"{text} has a ?, after which an address has options: give the file a name without it")
    with path.open("rb") as stream:
        beginning = stream.read(12)
    if beginning.startswith(b"SQLite"):
        return _Place(f"sqlite:///{text}")
    if beginning.endswith(b"DUCK"):
        return _Place(f"duckdb:///{text}")
    raise cli.UsageError(f"{text} is no file of CSV or Parquet, and no database of DuckDB or SQLite{_of_json(text)}")


def _pattern_of(folder: Path) -> str:
    """The pattern of the files of data that a folder has most of; those with another ending are named."""
    relative = (each.relative_to(folder) for each in sorted(folder.rglob("*")))
    visible = [each for each in relative if not any(part.startswith(".") for part in each.parts)]
    endings = [(found[0], each) for each in visible if (found := _DATA.search(each.name))]
    if not endings:
        raise cli.UsageError(f"{folder} holds no .csv or .parquet file")
    ending, _ = Counter(ending for ending, _ in endings).most_common(1)[0]
    others = [str(each) for its, each in endings if its != ending]
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        left = f"{', '.join(others[:3])}{more}"
        cli.out.print(Text(f"note: only the files of {folder} that end in {ending} are read, not {left}"))
    deep = "**/" if any(len(each.parts) > 1 for its, each in endings if its == ending) else ""
    return f"{folder.as_posix()}/{deep}*{ending}"


def _of_json(path: str) -> str:
    """What to write for a file of JSON; nothing for another."""
    by_select = f'calmon init {_IN_MEMORY} --relation "SELECT * FROM {literal(path)}"'
    return f"; what DuckDB reads of JSON is a SELECT: {by_select}" if _JSON.search(path) else ""


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
        found = _table(warehouse, named, ask=ask)
        if truth is None and found.truth is not None:
            return found
        relation = found.relation
    if truth is not None:
        return Found(relation, truth, _keys(warehouse.samples(relation), warehouse.samples(truth), on))
    if not lacks_truth(propose(warehouse.samples(relation), named, files=is_files(relation))):
        return Found(relation)
    return _with_truths(warehouse, relation, named, ask=ask) or Found(relation)


def _table(warehouse: Warehouse, named: dict[str, str], *, ask: bool) -> Found:
    """The only table, or the only one that is recognised; else the one that a person chooses."""
    tables = warehouse.tables()
    if not tables:
        raise cli.UsageError("the warehouse has no table that can be read: grant SELECT, or give --relation")
    if len(tables) == 1:
        return Found(tables[0])
    found = recognised(warehouse, tables, named)
    if ask:
        proposed = f" ({found[0]} is recognised)" if len(found) == 1 else ""
        return Found(_chosen(f"Which table?{proposed}", tables))
    if len(found) != 1:
        raise cli.UsageError(f"which table? Give --relation with one of: {', '.join(tables)}")
    return found[0]


def _with_truths(warehouse: Warehouse, relation: str, named: dict[str, str], *, ask: bool) -> Found | None:
    """The predictions with their table of truths, where there is one; of several, a person says which."""
    beside = _beside(relation) if is_files(relation) else warehouse.tables()
    found = truths_elsewhere(warehouse, relation, beside, named, files=is_files(relation))
    if not found:
        return None
    if not ask:
        if len(found) == 1:
            return found[0]
        raise cli.UsageError(f"where is what came true? Give --truth with one of: {_names(found)}")
    if len(found) == 1:
        return found[0] if _confirmed(f"Read {found[0]}?", default=True) else None
    chosen = _chosen(f"{relation} does not say what came true. Where is it?", [str(each) for each in found])
    return next(each for each in found if str(each) == chosen)


def _names(found: Sequence[Found]) -> str:
    return ", ".join(str(each.truth) for each in found)


def _beside(relation: str) -> list[str]:
    """The other files of data in the folder of a file."""
    path = Path(relation)
    return (
        [
            each.as_posix()
            for each in sorted(path.parent.iterdir())
            if _DATA.search(each.name) and each.name != path.name
        ]
        if path.is_file()
        else []
    )


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
            f"by which column are the two joined? Give --on COLUMN, or --on theirs=its; both have: "
            f"{', '.join(shared) or 'none'}; the truth's are: {', '.join(its)}"
        )
    return found


def _chosen(question: str, choices: list[str]) -> str:
    """A person's choice, given by its number or its text."""
    for number, choice in enumerate(choices, 1):
        cli.out.print(Text(f"  {number:>3}  {choice}"))
    while True:
        answer = str(typer.prompt(question)).strip()
        if answer.isdigit() and 1 <= int(answer) <= len(choices):
            return choices[int(answer) - 1]
        if answer in choices:
            return answer
        cli.out.print(Text(f"write a number from 1 to {len(choices)}"))


def _proposal(
    columns: Sequence[ColumnSample], named: dict[str, str], *, files: bool, ask: bool, repeated: bool = False
) -> Proposal:
    while True:
        found = propose(columns, named, files=files, repeated=repeated)
        if isinstance(found, Proposal):
            return found
        if not ask or not found.candidates or found.missing in named:
            raise cli.UsageError(_in_words(found))
        named[found.missing] = _chosen(found.question, list(found.candidates))


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
    """
    if is_select(relation):
        return "tickets"
    last = Path(relation).name.partition(".")[0] if is_files(relation) else relation.rpartition(".")[2]
    return re.sub(r"[^a-z0-9]+", "_", last.lower()).strip("_") or "tickets"


def _survey(warehouse: Warehouse, name: str, relation: str, settings: Mapping[str, Any]) -> Survey | None:
    """The relation as a whole; None where it cannot be read, which later checks report."""
    config = parse_config(starter_config(name, relation, settings, "UTC"))
    try:
        return warehouse.survey(name, config.sources[name])
    except (RelationError, WarehouseFailed):
        return None


def _fitted(warehouse: Warehouse, name: str, starter: Callable[..., str], survey: Survey | None) -> tuple[str, Weeks]:
    """alerts.yaml with rules and numbers that fit the present rows, and the weeks to pin and to judge."""
    text = starter()
    config, now = parse_config(text), utc_now()  # wrong arguments are refused before anything is written
    if survey is None:
        return text, Weeks((), ())
    weeks = weeks_of(survey, now, config.zone)
    typical = typical_of(warehouse, name, config, weeks.every, now=now)
    if typical is None:
        return text, weeks
    tuning = tuning_of(name, config, typical, len(weeks.baseline))
    fitted = tuning.applied(config)
    aside = aside_of(fitted, visible_changes(name, fitted, typical), typical)
    return starter(tuning=tuning.sections, aside=aside), weeks


def _show(proposal: Proposal, columns: Sequence[ColumnSample], text: str) -> None:
    """The columns, what was recognised, and the source as it would be read."""
    by_name = read_by_name(columns)
    theirs = {**by_name, **{name: ours for ours, name in dict(proposal.settings.get("columns", {})).items()}}
    table = plain_table("column", "kind", "read as", "some values", title="What was found")
    for column in columns:
        same = column.name if column.name in OURS else ""
        some = ", ".join(dict.fromkeys(str(value) for value in column.values[:50]))[:60]
        table.add_row(*cli.cells(column.name, column.kind, theirs.get(column.name, same), some))
    cli.out.print(table)
    cli.out.print(Text(f"Recognised: {proposal.shape}"))
    for name, ours in by_name.items():
        line = f"{name} is read as {ours} for its name: {READ_BY_NAME[ours]}. If it means something else, {_RENAME_IT}"
        cli.out.print(Text(line))
    cli.out.print(Text(text.partition("sources:\n")[2].partition("\n\n")[0]))


def _write(path: Path, text: str, address: str) -> Settings:
    """Write alerts.yaml, and .env where there is none; returns the settings that they give."""
    cli.write(path, text)
    cli.out.print(Text(f"wrote {path}"))
    environment = Path(".env")
    sources = parse_config(text).sources.values()
    only_files = all(is_files(relation) for source in sources for relation in source.relations)  # which need no address
    if (os.environ.get("CALMON_WAREHOUSE_URL") or (_IN_MEMORY if only_files else None)) != address:
        if environment.exists():
            line = f".env is there and stays as it is: set CALMON_WAREHOUSE_URL={shown_address(address)} in it"
            cli.out.print(Text(line))
        else:
            cli.write(environment, starter_environment(address))
            environment.chmod(0o600)  # an address may hold a password
            cli.out.print(Text("wrote .env, which calmon reads in this folder"))
    return load_settings(_environment(path, address))


def _environment(path: Path, address: str) -> Mapping[str, str]:
    others = {name: value for name, value in os.environ.items() if name != "CALMON_WAREHOUSE_URL_FILE"}
    return {**others, "CALMON_CONFIG": str(path), "CALMON_WAREHOUSE_URL": address}


def _next(settings: Settings, weeks: Weeks, *, ask: bool) -> None:
    """Print what to do next; where a person answers, it can be done at once."""
    for words, why in _steps(weeks, _pin_words(settings, weeks) if weeks.baseline else []):
        cli.out.print(Text(f"next: calmon {' '.join(words)}    # {why}"))
        if ask and _confirmed("Do it now?"):
            environment = _environment(settings.config, settings.warehouse_url.get_secret_value())
            command = [sys.executable, "-m", "monitor", *words]
            subprocess.run(command, env=dict(environment), check=False)  # noqa: S603 - our own command


def _confirmed(question: str, *, default: bool = False) -> bool:
    """Whether a person says yes; False where nobody answers."""
    try:
        return typer.confirm(question, default=default)
    except typer.Abort:
        return False


def _pin_words(settings: Settings, weeks: Weeks) -> list[str]:
    """The options with which these weeks can be pinned: tried, since `baseline pin` refuses weeks that changed."""
    with open_monitor(settings, writes=False) as opened:
        found = plan(opened, weeks.baseline)
    few = [] if found.min_pairs is None else ["--min-pairs", str(round_pairs(found.min_pairs))]
    return ["--from", found.first.name, "--to", found.last.name, *few, *["--anyway"] * found.anyway]


def _steps(weeks: Weeks, pin_words: Sequence[str]) -> Iterator[tuple[list[str], str]]:
    """The next commands; without rows, check again.

    Pin the weeks before, backfill all weeks after them but the last, judge that one as the schedule would, report.
    """
    if not weeks.judged:
        yield ["check"], "again, once there are rows of a week that is over"
        return
    if pin_words:
        changed = "; something changed in them: look at it first" if "--anyway" in pin_words else ""
        yield ["baseline", "pin", *pin_words], f"keep how these weeks were, for rules on a change{changed}"
    *between, last = [week.name for week in weeks.judged]
    if between:
        yield ["backfill", "--from", between[0], "--to", between[-1]], "evaluate the weeks up to the last; never acts"
    yield ["run", "weekly", "--week", last], "judge the last week, as the weekly schedule would"
    yield ["report", "--week", last], "everything about it"
