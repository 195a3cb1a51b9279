"""Publishes the scores from which labels act (``automate_at``), and notifies people when one is lowered."""

from __future__ import annotations

import logging
import platform
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from monitor.alerting.slack.blocks import SECTION, Payload, cut, escape, hashed, post_of
from monitor.alerting.slack.message import delivery_of
from monitor.config.model import Config
from monitor.core.process_environment import system_user
from monitor.core.records import Delivery, Subject
from monitor.history.store import Store
from monitor.history.thresholds import Publication, Publisher, ThresholdChange

LOWERED_SHOWN = 10
log = logging.getLogger(__name__)


def publish(
    store: Store, config: Config, now: datetime, *, actor: str | None = None, anyway: bool = False, reason: str = ""
) -> Publication | None:
    """Publish the scores of this alerts.yaml; the route of critical incidents is notified of a lower one.

    A lower score takes effect only with ``anyway``, which a person sets; otherwise it is refused and logged as a
    warning. The publisher is ``actor`` (None: the system user).
    """
    by, notices = Publisher(config.revision, platform.node(), actor or system_user()), partial(_notices, config, now)
    done = store.publish_thresholds(config.thresholds, now, by, anyway=anyway, reason=reason, notices=notices)
    if done is not None and done.kind == "refused":
        log.warning("%s", refusal(done))
    return done


def refusal(done: Publication) -> str:
    """A sentence about what was not published, and how to publish it."""
    scores = "; ".join(words_of(done.changes))
    return (
        f"automate_at was not lowered to what alerts.yaml here says, rules revision {done.by.revision} ({scores}): "
        "it may be an older copy. If it is the newer file, run `calmon automation thresholds publish --reason TEXT`; "
        "else copy the newer file here"
    )


def words_of(changes: Sequence[ThresholdChange]) -> list[str]:
    """One sentence a label, like "tickets/billing acts from 0.5 (was 0.8)"."""
    found = []
    for change in changes:
        name = change.source if change.label is None else Subject(change.source, change.label).name
        now = "acts at no score" if change.after is None else f"acts from {change.after:g}"
        found.append(f"{name} {now} (was {'none' if change.before is None else f'{change.before:g}'})")
    return found


def _notices(config: Config, now: datetime, done: Publication) -> list[Delivery]:
    if not done.lowered:
        return []
    route = config.route_for(severity="critical", source=done.lowered[0].source, label=None, rule="")
    route = route or next(iter(config.routes), None)
    if route is None:
        return []
    mentions = {route.channel: route.mention}
    payloads = (lowered_message(done, now, channel=to, mention=mentions.get(to)) for to in route.addresses)
    return [delivery_of(payload, kind="monitor", now=now) for payload in payloads]


def lowered_message(done: Publication, now: datetime, *, channel: str, mention: str | None) -> Payload:
    """The message that labels now act from lower scores: one sentence a label, and who published it."""
    top, lowered = "automate_at was lowered", words_of(done.lowered)
    rest = [f"and {len(lowered) - LOWERED_SHOWN} more"] if len(lowered) > LOWERED_SHOWN else []
    changes = cut(escape("\n".join(f"{each}." for each in [*lowered[:LOWERED_SHOWN], *rest])), SECTION - 200)
    by = f"{done.by.actor} on {done.by.host}"
    text = [
        changes,
        f"Published by {escape(by)}, rules revision {escape(done.by.revision)}.",
        "*Do now:* if nobody meant this, put the older alerts.yaml back and run "
        "`calmon automation thresholds publish --reason TEXT`.",
    ]
    id = hashed("thresholds", channel, done.by.revision, str(done.sequence))
    return post_of(
        channel, top, text, id, footer=f"{now:%Y-%m-%d %H:%M} UTC", push=f"{top}: {changes}", mention=mention
    )
