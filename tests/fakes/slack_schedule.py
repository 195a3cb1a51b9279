"""Random, seeded schedules for the outbox: deliveries, faults and workers, and the promises that must hold.

A schedule is a few evaluations (a message, edits of it, replies, a file) and a list of rounds. In each round
something is composed, faults are scripted, and one or two workers drain; a worker may die before or after a call.
:func:`broken` says which promise the channel breaks at the end.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from monitor.core.records import Delivery, Operation
from monitor.history.store import Store
from tests.fakes.slack import TOKEN, UPLOAD, Answer, FakeSlack, Fault, InProcessClient, Work

START = datetime(2026, 11, 16, 6, 5, tzinfo=UTC)
CHANNEL = "ml-oncall"
METHODS = (
    "chat.postMessage", "chat.postMessage", "chat.update", "chat.update", "conversations.history",
    "conversations.replies", "conversations.list", "files.getUploadURLExternal", UPLOAD,
    "files.completeUploadExternal",
)  # fmt: skip
PNG = base64.b64encode(b"\x89PNG a picture").decode()
REPEAT = "(possible repeat)"


class Killed(BaseException):
    """The worker was killed: nothing of it runs any more."""


@dataclass
class Clock:
    """The clock of the workers and of Slack, which a test moves."""

    now: datetime = START

    def __call__(self) -> datetime:
        return self.now

    def seconds(self) -> float:
        return self.now.timestamp()

    def move(self, span: timedelta) -> None:
        self.now += span

    def sleep(self, seconds: float) -> None:
        self.move(timedelta(seconds=seconds))


@dataclass(frozen=True)
class Round:
    """What happens next: composed deliveries, faults by method, a lasting condition, who drains, who is killed.

    ``lasting``: outage | revoked | archived | healed | "" (as before). ``kill`` is the call at which the first worker
    dies, and whether after the call; None: it is not killed.
    """

    composed: Sequence[Delivery]
    faults: Sequence[tuple[str, Fault]]
    lasting: str
    waits: timedelta
    workers: int
    due_only: bool
    kill: tuple[int, bool] | None


@dataclass(frozen=True)
class Schedule:
    seed: int
    searchable: bool
    rounds: Sequence[Round] = field(default_factory=list)


def composed(
    id: str, operation: Operation, at: datetime, root: str | None = None, sequence: int = 0, text: str = ""
) -> Delivery:
    """A delivery as an evaluation composes it."""
    if operation == "file":
        payload = {"filename": "billing.png", "title": "billing", "alt": "a picture", "png": PNG}
    else:
        payload = {
            "text": text or id, "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": text or id}}],
            "metadata": {"event_type": "calmon_delivery", "event_payload": {"delivery_id": id}},
        }  # fmt: skip
    return Delivery(
        id, "incidents", f"#{CHANNEL}", payload | {"channel": f"#{CHANNEL}"}, created_at=at, next_attempt_at=at,
        operation=operation, root=root, sequence=sequence,
    )  # fmt: skip


def evaluations(rng: Random) -> list[list[Delivery]]:
    """What is composed, round by round: one to three messages and what follows them."""
    rounds = [[] for _ in range(4)]
    for number in range(rng.randint(1, 3)):
        root, first = f"e{number}-root", rng.randrange(3)
        rounds[first].append(composed(root, "post", START))
        if rng.random() < 0.5:
            rounds[first].append(composed(f"e{number}-file", "file", START, root))
        for sequence in range(1, rng.randint(0, 3) + 1):
            later = rng.randrange(first, 4)
            rounds[later].append(composed(f"e{number}-edit{sequence}", "edit", START, root, sequence))
        for reply in range(rng.randint(0, 2)):
            rounds[rng.randrange(first, 4)].append(composed(f"e{number}-reply{reply}", "reply", START, root))
    return rounds


def fault(rng: Random) -> Fault:
    return rng.choice([
        Fault.rate_limited(rng.choice([1, 2, 600])), Fault.server_error(), Fault.server_error(accept=True),
        Fault.reset(), Fault.reset(accept=True), Fault.reset(accept=True), Fault.hang(accept=True), Fault.hang(),
        Fault.slack_error("internal_error"),
    ])  # fmt: skip


def schedule(seed: int, *, kills: float = 0.3) -> Schedule:
    """The schedule of a seed: always the same."""
    rng = Random(seed)  # noqa: S311 - repeatable, not secret
    rounds = [
        Round(
            composed=news,
            faults=[(rng.choice(METHODS), fault(rng)) for _ in range(rng.randint(0, 3))],
            lasting=rng.choice(["", "", "", "outage", "revoked", "archived", "healed", "healed"]),
            waits=timedelta(minutes=rng.choice([0, 1, 6, 40])),
            workers=rng.choice([1, 1, 2]),
            due_only=rng.random() < 0.3,
            kill=(rng.randint(1, 4), rng.random() < 0.6) if rng.random() < kills else None,
        )
        for news in evaluations(rng)
    ]
    return Schedule(seed, searchable=rng.random() < 0.8, rounds=rounds)


def set_lasting(slack: FakeSlack, lasting: str) -> None:
    """Put the workspace into a condition that lasts."""
    if not lasting:
        return
    slack.heal()
    slack.tokens = set() if lasting == "revoked" else {TOKEN}
    slack.archived = {CHANNEL} if lasting == "archived" else set()
    if lasting == "outage":
        for method in set(METHODS):
            slack.fail_always(method, Fault.reset())


class DyingClient(InProcessClient):
    """A client in whose calls its process may be killed: before Slack hears of it, or after Slack has done it."""

    def __init__(
        self, slack: FakeSlack, kill: tuple[int, bool] | None, during: Callable[[Work], None] | None = None
    ) -> None:
        super().__init__(slack, during=during)
        self._left, self._after = kill or (0, False)

    def _through(self, method: str, work: Work) -> tuple[int, dict[str, str], Answer]:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Killed
        try:
            return super()._through(method, work)
        finally:
            if self._left == 0 and self._after:
                raise Killed


def broken(store: Store, slack: FakeSlack, given: Schedule) -> list[str]:
    """The broken promises among: nothing lost, sent once, newest content, repeats only if marked and unsearchable."""
    stored = {d.id: d for d in store.deliveries()}
    expected = [d for round in given.rounds for d in round.composed]
    found = [f"{d.id} is not stored" for d in expected if d.id not in stored]
    for delivery in stored.values():
        found += _broken_end(delivery, expected)
        if delivery.state == "sent" and delivery.operation != "edit":
            found += _broken_copies(delivery, stored.get(delivery.root or ""), slack, given)
        if delivery.state == "sent" and delivery.operation == "post":
            found += _broken_content(delivery, expected, slack)
    return found


def _broken_end(delivery: Delivery, expected: Sequence[Delivery]) -> Iterator[str]:
    newest = max((d.sequence for d in expected if d.root == delivery.root and d.operation == "edit"), default=0)
    outdated = delivery.operation == "edit" and delivery.sequence < newest
    if delivery.state != "sent" and not (outdated and delivery.state == "superseded"):
        yield f"{delivery.id} ends as {delivery.state}: {delivery.error}"


def _broken_copies(delivery: Delivery, root: Delivery | None, slack: FakeSlack, given: Schedule) -> Iterator[str]:
    copies = [m for m in slack.shown(CHANNEL) if _is_copy(m, delivery)]
    plain = [m for m in copies if not _is_marked(m, slack)]
    if not copies or len(plain) > 1 or (given.searchable and len(copies) > 1):
        yield f"{delivery.id} is shown {len(plain)} times and {len(copies) - len(plain)} times marked"
    thread = None if root is None else root.external_id
    if any(m.get("thread_ts") != thread for m in copies):
        yield f"{delivery.id} stands in another thread"


def _is_copy(message: Answer, delivery: Delivery) -> bool:
    payload = (message.get("metadata") or {}).get("event_payload") or {}
    return payload.get("delivery_id") == delivery.id or any(delivery.id in f["name"] for f in message.get("files", ()))


def _is_marked(message: Answer, slack: FakeSlack) -> bool:
    titles = [f["title"] for f in message.get("files", ())]
    return any(text.startswith(REPEAT) for text in (slack.first_texts[message["ts"]], *titles))


def _broken_content(root: Delivery, expected: Sequence[Delivery], slack: FakeSlack) -> Iterator[str]:
    edits = [d for d in expected if d.root == root.id and d.operation == "edit"]
    newest = max(edits, key=lambda d: d.sequence, default=root)
    shown = slack.message(slack.channels[CHANNEL], root.external_id or "")
    text = "nothing" if shown is None else shown["text"].removeprefix(REPEAT).strip()
    if text != newest.payload["text"]:
        yield f"{root.id} shows {text!r} instead of {newest.payload['text']!r}"
