"""``calmon label rename``."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli import common as cli
from monitor.core.records import Subject
from monitor.core.wording import clean
from monitor.operations.rename_label import Rename, rename_label
from monitor.story.gather import Teller
from monitor.story.incident import state_words

label_app = typer.Typer(no_args_is_help=True, help="Labels of the classifier that have another name now.")
cli.app.add_typer(label_app, name="label")


@label_app.callback()
def _group() -> None:
    # Typer makes no group of an application that has one command
    pass


@label_app.command(epilog="Example:  calmon label rename tickets Top-up Topup --reason 'new name in the taxonomy'")
def rename(
    source: Annotated[str, typer.Argument(help="The source of the label.")],
    old: Annotated[str, typer.Argument(help="The name it had.")],
    new: Annotated[str, typer.Argument(help="The name it has now.")],
    reason: Annotated[str, typer.Option(help="Why; stored with the change.")],
    by: cli.ByOption = None,
) -> None:
    """Hand a label's switch, baseline and open incident over to its new name, all or nothing; the old name is off.

    Refused where the new name is on already, and where alerts.yaml has other rules for it.
    """
    cli.check_reason(reason)
    with cli.monitor() as opened:
        cli.check_source(opened.config, source)
        changed = rename_label(opened, Rename(source, old, new, cli.who(by), reason))
        switch = Teller.of(opened).switch(source, new)
        pinned = opened.store.baselines(source, new)[-1:]
    lines = [f"{Subject(source, old).name} is called {clean(new)} now"]
    lines += [] if switch is None else [switch.words]
    if switch is not None and not switch.allowed and switch.enable_helps:
        lines[-1] += f" (`{switch.command}` opens it)"
    lines += [f"its baseline: version {each.version}, {each.first_window}..{each.last_window}" for each in pinned]
    lines += [
        f"incident {each.id[:8]} of {Subject(each.source, each.label).name}: {state_words(each)}" for each in changed
    ]
    for line in lines:
        cli.say(line)
