"""``calmon``, killed with SIGKILL just before its n-th stored step.

A step is a commit that changes the history, or the moment when Slack has accepted a message and this is not stored yet.
With n = 0 nothing is killed, and the number of steps is printed to standard error at the end.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from slack_sdk import WebClient
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

from monitor.cli import main

WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")


def killed_at(fatal: int) -> None:
    """The entry point of ``calmon``, to be run in a process of its own."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    @event.listens_for(Engine, "before_cursor_execute")
    def note_write(connection: Connection, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.lstrip().upper().startswith(WRITES):
            connection.info["writes"] = True

    @event.listens_for(Engine, "commit")
    def before_commit(connection: Connection) -> None:
        if connection.info.pop("writes", False):
            step()

    plain_post = WebClient.chat_postMessage

    def post(client: WebClient, **arguments: Any) -> Any:
        answer = plain_post(client, **arguments)
        step()
        return answer

    WebClient.chat_postMessage = post  # type: ignore[method-assign, assignment]
    try:
        main()
    finally:
        if fatal == 0:
            print(f"steps={steps}", file=sys.stderr)
