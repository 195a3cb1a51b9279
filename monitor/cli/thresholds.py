"""``calmon automation thresholds list|publish``: from which score labels act."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from monitor.cli import common as cli
from monitor.cli.automation import ReasonOption, automation_app
from monitor.context import utc_now
from monitor.operations.publish_thresholds import publish as publish_scores
from monitor.operations.publish_thresholds import words_of

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
    with cli.plain_errors():
        config = cli.configuration()
        with cli.store(writes=True) as store:
            done = publish_scores(store, config, utc_now(), actor=cli.who(by), anyway=True, reason=reason)
    if done is None:
        cli.say("nothing to do: these are the newest already")
        return
    for line in words_of(done.changes) or ["no score has changed; this rules revision is the newest now"]:
        cli.say(line)
