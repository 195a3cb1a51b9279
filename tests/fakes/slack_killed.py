"""A process that drains the outbox and is killed (SIGKILL) at a chosen call: before it, or after Slack's answer."""

from __future__ import annotations

import os
import signal
from datetime import datetime
from typing import Any

from slack_sdk import WebClient

from monitor.alerting.slack.client import SlackSender
from monitor.alerting.slack.outbox import drain, worker_id
from monitor.history.store import Store
from tests.fakes.slack import TOKEN


def drain_and_die(store_url: str, slack_url: str, now: datetime, at: int, after: bool) -> None:
    """Drain; die at the ``at``-th call of the Web API. Returns where there are not so many."""
    plain, left = WebClient.api_call, at

    def api_call(client: WebClient, api_method: str, **arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0 and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = plain(client, api_method, **arguments)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    WebClient.api_call = api_call  # type: ignore[method-assign]
    with Store.from_url(store_url) as store:
        drain(store, SlackSender(TOKEN, slack_url), now=lambda: now, worker=worker_id(), sleep=lambda _: None)
