"""The observer of a story: reads messages, health and explanations as of their time and holds its claims against the facts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.truth import explained, messages, monitoring
from tests.truth.claims import FalseClaim, Reader
from tests.truth.facts import Facts, Row, contradictions
from tests.truth.histories import Step, Story, plan, play
from tests.truth.messages import Living
from tests.truth.texts import Message, Part, message_of


@dataclass
class Found:
    """What reading one or many stories gave."""

    histories: int = 0
    texts: Counter[str] = field(default_factory=Counter)
    claims: Counter[str] = field(default_factory=Counter)
    false: list[FalseClaim] = field(default_factory=list)
    reasons: set[str] = field(default_factory=set)

    def add(self, other: Found) -> None:
        """Put another one's counts to these."""
        self.histories += other.histories
        self.texts += other.texts
        self.claims += other.claims
        self.false += other.false
        self.reasons |= other.reasons

    def by_kind(self) -> Counter[str]:
        """How many texts of each kind were read."""
        kinds: Counter[str] = Counter()
        for what, many in self.texts.items():
            kinds[what] += many
        return kinds

    @property
    def summary(self) -> str:
        return (
            f"{self.histories} histories, {self.texts.total():,} texts read, {self.claims.total():,} claims checked, "
            f"{len(self.false)} false"
        )


@dataclass
class Checker:
    """Checks one story, step by step."""

    seed: int
    until: frozenset[str] = frozenset()
    found: Found = field(default_factory=lambda: Found(histories=1))
    _read: int = 0
    _memory: dict[str, Row] = field(default_factory=dict)
    _shown: dict[str, Message] = field(default_factory=dict)
    _states: dict[str, str] = field(default_factory=dict)

    def __call__(self, told: Story, step: Step) -> None:
        """After a step: the facts agree with the contract, and every new text is true."""
        self._step(told, step)
        if self.until and self.of(self.until) is not None:
            raise Enough

    def of(self, kinds: Collection[str]) -> FalseClaim | None:
        """The first false claim of one of these kinds."""
        return next((each for each in self.found.false if each.kind in kinds), None)

    def _step(self, told: Story, step: Step) -> None:
        if step.event.kind == "restore":
            self._forget(told)
        facts = self._facts(told)
        if step.event.kind in ("run", "person", "watch", "confirm"):
            for broken in contradictions(facts, dry_run=told.setting.dry_run):
                self._keep(Reader(facts, self._origin(told, f"facts: {broken.about}")), "facts", broken.what)
        self._messages(told, facts)
        if step.event.kind in ("drain", "watch"):
            self._stale(told, facts)
        if step.event.kind == "look":
            self._look(told)
            self.found.reasons |= facts.reasons
        self._states = {d["id"]: d["state"] for d in facts.deliveries}

    def _forget(self, told: Story) -> None:
        """An older history was put back: what was read of the newer one is no fact of it."""
        self._memory.clear()
        self._read = max((d["row"] for d in self._facts(told).new_deliveries(0)), default=0)

    def _facts(self, told: Story) -> Facts:
        rules = {rule.id: rule for rule in told.setting.rules}
        return Facts(
            told.folder / "history.sqlite",
            told.clock.now,
            rules,
            told.said,
            self._memory,
            told.plan.troubles,
            told.told,
            self._states,
        )

    def _origin(self, told: Story, what: str) -> str:
        return f"seed {self.seed}, {told.clock.now:%Y-%m-%d %H:%M}, {what}"

    def _keep(self, reader: Reader, kind: str, broken: str | None = None) -> None:
        if broken is not None:
            reader.check(False, "contract", reader.origin, broken)
        self.found.texts[kind] += 1
        self.found.claims += reader.claims
        self.found.false += reader.false

    # --- messages

    def _messages(self, told: Story, facts: Facts) -> None:
        """Every message, edit and reply that was composed since; of edits of one message only the newest."""
        new = facts.new_deliveries(self._read)
        self._read = max([self._read, *(d["row"] for d in new)])
        edits = {d["root"]: d["id"] for d in sorted(new, key=lambda d: d["sequence"]) if d["operation"] == "edit"}
        for delivery in new:
            if delivery["operation"] == "edit" and edits[delivery["root"]] != delivery["id"]:
                continue
            if delivery["operation"] == "post" and delivery["id"] in edits:
                continue  # edited at once
            self._message(told, facts, delivery)

    def _message(self, told: Story, facts: Facts, delivery: Row) -> None:
        payload, operation = delivery["payload"], delivery["operation"]
        change = payload.get("metadata", {}).get("event_payload", {}).get("change") or operation
        reader = self._reader(told, facts, f"{delivery['kind']} {change} {delivery['id'][:8]}")
        reader.made_at = delivery["created_at"]
        root = delivery["root"] or delivery["id"]
        if operation != "post" and any(d["id"] == root and d["state"] == "not_sent" for d in facts.deliveries):
            return  # nobody sees a change of what was never sent
        members = [i for i in facts.incidents.values() if i["root"] == root]
        if delivery["kind"] == "monitor" or any(i["rule"].startswith("monitor:") for i in members):
            monitoring.check_message(reader, message_of(payload), members, change)
            return
        if operation == "file":
            messages.PICTURE.read(reader, payload["alt"])
            return
        message = message_of(payload)
        living = Living(facts, messages.labels_of(facts, members), told.setting.dry_run)
        self._of_incidents(reader, facts, message, living, delivery, change)

    def _of_incidents(
        self, reader: Reader, facts: Facts, message: Message, living: Living, delivery: Row, change: str
    ) -> None:
        if change in ("post", "edit"):
            messages.check_living(reader, message, living)
            self._shown[delivery["root"] or delivery["id"]] = message
        elif change in ("news", "call"):
            window = next(
                (line for kind, lines in message.blocks for line in lines if kind == "section" and line[:2] == "20"), ""
            )
            messages.check_news(reader, message, living, window)
        elif change == "numbers":
            messages.check_numbers(reader, message, living)
        elif change == "repeat":
            messages.check_repeat(reader, message, living)
        elif change == "ended":
            messages.check_ended(reader, message, living)
        else:
            reader.unknown(f"kind of message: {change}")

    def _stale(self, told: Story, facts: Facts) -> None:
        """What a message in its channel says of a switch is so still, whoever changed it meanwhile."""
        unsent = {d["id"] for d in facts.deliveries if d["state"] in ("not_sent", "dead")}
        for root, message in self._shown.items():
            if root in unsent:
                continue
            members = [i for i in facts.incidents.values() if i["root"] == root]
            if all(i["state"] == "resolved" for i in members):
                continue
            reader = self._reader(told, facts, f"message {root[:8]} as it is shown")
            messages.check_shown(
                reader, message, Living(facts, messages.labels_of(facts, members), told.setting.dry_run)
            )

    # --- somebody looks at everything

    def _look(self, told: Story) -> None:
        facts = self._facts(told)
        reader, parts = self._asked(told, facts, "health")
        monitoring.check_health(reader, parts)
        rng = Random(f"{self.seed} {told.clock.now.replace(microsecond=0)}")
        pooled = sorted(id for id, row in facts.verdicts.items() if row["windows"] > 1)
        asked = rng.sample(sorted(facts.verdicts), k=min(2, len(facts.verdicts)))
        for id in [*asked, *rng.sample(pooled, k=min(1, len(pooled)))]:
            reader, parts = self._asked(told, facts, "explain", id)
            explained.check_explain(reader, parts, facts.verdicts[id])

    def _asked(self, told: Story, facts: Facts, *args: str) -> tuple[Reader, list[Part]]:
        """A reader of this command's output, and its parts. The reader's findings are kept when it is done."""
        return self._reader(told, facts, " ".join(args)), list(told.printed("look", *args).parts)

    def _reader(self, told: Story, facts: Facts, what: str) -> Reader:
        """A reader whose claims are counted here as they are made."""
        reader = Reader(facts, self._origin(told, what))
        reader.claims, reader.false = self.found.claims, self.found.false
        self.found.texts[_kind(what)] += 1
        return reader


def _kind(what: str) -> str:
    """The kind of a text: its first two words, without ids and weeks."""
    words = [word for word in what.split()[:2] if not re.fullmatch(r"[0-9a-f]{8,}|\d{4}-W\d\d|--\w+", word)]
    return " ".join(words)


class Enough(Exception):
    """A story has shown what was looked for."""


def check_seed(seed: int) -> Found:
    """Play one story and read all of it."""
    checker = Checker(seed)
    with TemporaryDirectory(prefix="truth-") as folder:
        play(plan(seed), Path(folder), checker)
    return checker.found


def shows(seed: int, kinds: Collection[str]) -> FalseClaim | None:
    """The first false claim of one of these kinds that a story shows; the story ends there."""
    checker = Checker(seed, until=frozenset(kinds))
    try:
        with TemporaryDirectory(prefix="truth-") as folder:
            play(plan(seed), Path(folder), checker)
    except Enough:
        pass
    return checker.of(kinds)


def check_seeds(seeds: Iterable[int]) -> Found:
    """Many stories."""
    whole = Found()
    for seed in seeds:
        whole.add(check_seed(seed))
    return whole


def told(found: Found, most: int = 40) -> str:
    """The summary with the first false claims, for people."""
    return "\n".join([found.summary, *(str(each) for each in found.false[:most])])


__all__ = ["Checker", "Found", "check_seed", "check_seeds", "told"]
