"""``calmon incidents list|show|ack|silence|resolve|note|test``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from monitor.alerting.compose import delivery_words
from monitor.alerting.notices import messages_of
from monitor.alerting.slack.message import delivery_of, trial_message
from monitor.cli import common as cli
from monitor.config.durations import next_morning, parse_duration
from monitor.config.model import Config, Route
from monitor.context import Monitor
from monitor.core.records import Delivery, Incident, Severity, receiver_name
from monitor.core.wording import moment
from monitor.operations import incident_actions
from monitor.report.csv_table import Table
from monitor.story.gather import Teller
from monitor.story.incident import event_words, state_words
from monitor.story.label import LabelStory, story_lines

incidents_app = typer.Typer(
    no_args_is_help=True, help="Troubles of labels, sources and the monitor, from first to resolved."
)
cli.app.add_typer(incidents_app, name="incidents")

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The incident's id, or how it begins.")]


@incidents_app.command("list", epilog="Example:  calmon incidents list --all --json")
def list_command(
    every: Annotated[bool, typer.Option("--all", help="Resolved ones too.")] = False, json_output: cli.JsonFlag = False
) -> None:
    """Incidents that are not resolved, the newest first."""
    with cli.store() as store:
        if every:
            known = [*store.incidents(), *store.incidents(of_monitor=True)]
        else:
            known = [*store.unresolved_incidents(), *store.unresolved_incidents(of_monitor=True)]
    found = sorted(known, key=lambda i: i.opened_at, reverse=True)
    if json_output:
        cli.print_json(_rows(found))
        return
    rows = [(i.id[:8], i.severity, i.name, i.reasons_words, i.opened_window, i.window, state_words(i)) for i in found]
    head = ("id", "severity", "label", "what", "opened in", "newest", "state")
    cli.print_table(head, rows, nothing="no incident is open")


@incidents_app.command(
    "show", epilog="Examples:  calmon incidents show 4f1c9a02  ·  calmon incidents show 4f1c9a02 --json"
)
def show_command(id: IdArgument, json_output: cli.JsonFlag = False) -> None:
    """One incident: what is the matter, and everything that happened to it, each with its reason."""
    with cli.monitor() as opened:
        store = opened.store
        incident = store.incident(id)
        story = None if incident.is_of_monitor else Teller.of(opened).of_incident(incident)
        events = store.incident_events(incident.id)
        posts = store.delivery_roots(messages_of(opened.config, incident)).values()
    message = ", ".join(dict.fromkeys(map(delivery_words, posts))) or "no route took it"
    if json_output:
        told = Table.of(events, "at", "kind", "reason", "actor", "window", "why=detail.why").documents
        cli.print_json(_rows([incident])[0] | {"message": message, "events": told})
        return
    cli.out.print(*cli.cells(*_shown(incident, story, message)), sep="\n")
    rows = [(moment(e.at), e.kind.replace("_", " "), e.window, e.actor, event_words(e)) for e in events]
    cli.print_table(("when", "what", "window", "by", "why"), rows)


def _shown(incident: Incident, story: LabelStory | None, message: str) -> tuple[str, ...]:
    top = f"{incident.id}: {incident.name} ({incident.severity}), {state_words(incident)}"
    opened = f"opened {moment(incident.opened_at)}"
    if story is None:
        return top, incident.reasons_words, opened, f"message: {message}; calmon health"
    labels = [f"labels: {', '.join(incident.labels)}"] if incident.labels else []
    hint = f"; calmon explain {story.evidence[0][:8]}" if story.evidence else ""
    return top, *story_lines(story), *labels, opened, f"message: {message}{hint}"


@incidents_app.command(
    "ack", epilog="Examples:  calmon incidents ack 4f1c9a02 --by ana  ·  calmon incidents ack 4f1c9a02 7dbc73d8"
)
def ack_command(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of incidents, or how they begin.")],
    by: cli.ByOption = None,
) -> None:
    """You have them: nobody is called for them any more, unless they become more severe."""
    with cli.monitor() as opened:
        known = [opened.store.incident(id).id for id in ids]  # a wrong id acknowledges nothing
        _print_results(opened, [incident_actions.acknowledge(opened, id, cli.who(by)) for id in known])


@incidents_app.command(
    "silence",
    epilog="Examples:  calmon incidents silence 4f1c9a02 --for 1d  ·  calmon incidents silence 4f1c9a02 --until friday",
)
def silence_command(
    id: IdArgument,
    length: Annotated[str | None, typer.Option("--for", help="How long, like 12h, 1d or 1w.")] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Until when: friday or tomorrow (8 in the morning), 2026-11-23, 2026-11-23T08:00."),
    ] = None,
    by: cli.ByOption = None,
) -> None:
    """Quiet for a while: neither replies nor reminders. It ends by itself, and at once if it becomes more severe."""
    with cli.monitor() as opened:
        _print_results(opened, [incident_actions.silence(opened, id, _end(opened, length, until), cli.who(by))])


def _end(opened: Monitor, length: str | None, until: str | None) -> datetime:
    named = next_morning(until or "", opened.clock().astimezone(opened.config.zone))
    end = named or cli.moment(until, opened.config)
    if (end is None) == (length is None):
        raise cli.UsageError("say how long: either --for 1d or --until friday")
    if end is not None:
        return end
    span = parse_duration(length or "")
    if span is None:
        raise cli.UsageError(f"{length!r} is not a length of time; write it like 12h, 1d or 1w")
    try:
        return opened.clock() + span
    except OverflowError:
        raise cli.UsageError(f"{length!r} is longer than there are dates; write it like 12h, 1d or 1w") from None


@incidents_app.command(
    "resolve", epilog='Example:  calmon incidents resolve 4f1c9a02 --reason "the label is retired" --by ana'
)
def resolve_command(
    id: IdArgument, reason: Annotated[str, typer.Option(help="Why; stored and shown.")], by: cli.ByOption = None
) -> None:
    """End it by hand. A trouble in one of the next windows brings it back all the same."""
    with cli.monitor() as opened:
        _print_results(opened, [incident_actions.resolve(opened, id, cli.who(by), reason)])


@incidents_app.command("note", epilog='Example:  calmon incidents note 4f1c9a02 "the vendor is on it" --by ana')
def note_command(
    id: IdArgument, text: Annotated[str, typer.Argument(help="What others should know.")], by: cli.ByOption = None
) -> None:
    """Add a note; it is kept with the incident, and shown in the thread of its message."""
    with cli.monitor() as opened:
        _print_results(opened, [incident_actions.note(opened, id, cli.who(by), text)])


def _print_results(opened: Monitor, all_done: Sequence[incident_actions.Outcome]) -> None:
    """Print the results; their edits go out at once, where Slack can be reached."""
    refused = [done.words for done in all_done if done.refused]
    if len(refused) < len(all_done):
        _deliver(opened)
    for done in all_done:
        if not done.refused:
            cli.out.print(cli.cells(done.words)[0])
    if refused:
        raise cli.UsageError("; ".join(refused))


def _deliver(opened: Monitor) -> None:
    """Send what is waiting."""
    from monitor.run import deliver  # noqa: PLC0415 - brings SciPy: not before a list of incidents

    deliver(opened)


@incidents_app.command(
    "test", epilog="Examples:  calmon incidents test  ·  calmon incidents test --severity critical --by ana"
)
def trial_command(
    severity: Annotated[
        Severity | None, typer.Option(help="Only the route that a critical, warning or info incident takes.")
    ] = None,
    mention: Annotated[
        bool, typer.Option("--mention", help="Really mention those whom the route mentions; else it only names them.")
    ] = False,
    by: cli.ByOption = None,
) -> None:
    """Send a message that says it is a test to every route; it mentions people only with --mention."""
    with cli.monitor() as opened:
        sent: list[Delivery] = []
        shown: list[tuple[str, Severity]] = []
        for level, route in _routes(opened.config, severity):
            for to in route.addresses:
                named = route.mention if to == route.channel else None
                payload = trial_message(to, level, cli.who(by), opened.clock(), named, calls=mention)
                sent.append(delivery_of(payload, kind="test", now=opened.clock()))
                shown.append((receiver_name(to), level))
        for each in sent:
            opened.store.add_delivery(each)
        _deliver(opened)
        now = opened.store.delivery_roots([one.id for one in sent])
    ended = [now[one.id] for one in sent]
    results = (one.state if one.error is None else f"{one.state}: {one.error}" for one in ended)
    rows = [(*about, result) for about, result in zip(shown, results, strict=True)]
    cli.print_table(("receiver", "as", "result"), rows)
    if any(one.state != "sent" for one in ended):
        raise typer.Exit(cli.FAILED)


def _routes(config: Config, severity: Severity | None) -> list[tuple[Severity, Route]]:
    """The routes to try, each as an incident of a severity it takes."""
    if severity is not None:
        taken = config.route_for(severity=severity, source="", label=None, rule="")
        found = [] if taken is None else [(severity, taken)]
    else:
        found = [(route.match.severity or "info", route) for route in config.routes]
    if not found:
        raise cli.UsageError('no route of alerts.yaml takes it; add one, like {channel: "#ml-monitoring"}')
    return found


def _rows(incidents: Sequence[Incident]) -> list[dict[str, Any]]:
    rows = Table.of(
        incidents, "id", "kind", "source", "label", "severity", "state", "opened_window", "opened_at", "window",
        "reason=reasons", "rules", "labels", "resolved_window", "resolved_by", "acknowledged_by", "acknowledged_at",
        "silenced_by", "silenced_until", "reopened",
    ).documents  # fmt: skip
    return [row | {"reason": ", ".join(row["reason"])} for row in rows]
