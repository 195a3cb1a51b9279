"""Seeded stories: weeks and days of a monitor with labels that break, heal, flap and vanish, people, and outages.

A story is planned from its seed alone (:func:`plan`), then played (:func:`play`) on a real history with the real
stages of a run, the real commands, the real HTTP service and the real handler of buttons. Only the warehouse and the
judging are written by hand (:mod:`tests.truth.script`). After each step the ``observer`` is called, with what was done.
"""

from __future__ import annotations

import importlib
import io
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any, Literal
from zoneinfo import ZoneInfo

import click

from monitor import run
from monitor.alerting.health.issues import LISTENER_NOTE
from monitor.alerting.health.watchdog import watch_monitor
from monitor.alerting.slack.outbox import drain, worker_id
from monitor.config.counting import settings_of
from monitor.config.load import load_config
from monitor.context import Monitor
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import counts_from_rows
from monitor.core.records import Estimate, Note, Reason, RejectedRows, Subject, Window, part_not_read
from monitor.core.source_settings import as_detail
from monitor.core.windows import day, previous, week
from monitor.evaluation.evaluate import Evaluated, SourceData, WindowCounts
from monitor.history.readings import StoredReading
from monitor.history.store import Store
from monitor.operations import collect as collecting
from monitor.operations import incident_actions
from monitor.operations.change_switch import SwitchChange
from monitor.operations.slack_buttons import Buttons
from monitor.report.terminal import run_summary
from monitor.service.backend import Service
from monitor.service.problems import RequestRefused
from monitor.story.gather import Teller
from monitor.warehouse.reader import Reading
from tests.fakes.world import make_world
from tests.truth import rare, script
from tests.truth.clockwork import Channel, Clock, Whispers, clockwork
from tests.truth.mishaps import Mishaps, mishaps_of
from tests.truth.script import Mood, Numbers, Page, RuleSpec, Said
from tests.truth.texts import Part, Recorder, parts_of
from tests.truth.troubles import NOTED_EVERY, WHY, Edit, Told, Troubles, keys_of, troubles_of

FIRST = datetime(2026, 1, 5, tzinfo=UTC)
UTC_ZONE = ZoneInfo("UTC")
cli: Any = importlib.import_module("monitor.cli.common")
TEAM = "T1"
OPERATOR, STRANGER = ("U1", "dora"), ("U9", "guest")
PEOPLE = ("ana", "ben", "carol")
REASONS = ("looked at by hand", "the model was rolled back", "retrained", "wrong since noon", "audit of the queue")
PUBLIC = "https://calmon.example.com"
RARE = 1_000
"""From this seed on stories are rare ones: with what goes wrong with the monitor itself, and rules that few have."""


@dataclass(frozen=True)
class Setting:
    """What alerts.yaml says in one story."""

    when_not_evaluated: str
    initial: str
    re_enable: str
    dry_run: bool
    daily: bool
    pinned: bool
    linked: bool
    token: bool
    lease_days: int = 9
    in_channels: bool = False
    waiting: bool = False
    rare: bool = False

    @property
    def rules(self) -> tuple[RuleSpec, ...]:
        more = (script.DAYS,) if self.daily else (script.PARTS,) if self.in_channels else ()
        seldom = script.SELDOM if self.rare else ()
        return (*script.WEEKLY, *more, *(script.WAITING if self.waiting else ()), *seldom)

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        return {"tickets": script.SOURCES["tickets"]} if self.daily else dict(script.SOURCES)

    def yaml(self, edits: Sequence[Edit] = ()) -> str:
        """alerts.yaml, after these edits."""
        rules = "\n".join(f"  - {rule.yaml}" for rule in self.rules)
        parts = f", segments: [{script.COLUMN}]" if self.in_channels else ""
        mails = "" if self.daily else (
            f"  mails: {{{keys_of(edits, 'mails')}, score_is: probability_of_label, automate_at: 0.7{parts}}}\n"
        )  # fmt: skip
        waits = ", window_on: predicted_at, unresolved: true" if self.waiting else ""
        return f"""\
version: 1
timezone: UTC
sources:
  tickets: {{{keys_of(edits, "tickets")}, score_is: probability_of_label, automate_at: 0.8{waits},
    labels: {{phishing: {{critical: true, automate_at: 0.9}}}}{parts}}}
{mails}rules:
{rules}
automation: {{when_not_evaluated: {self.when_not_evaluated}, initial: {self.initial}, lease: {self.lease_days}d,
  re_enable: {self.re_enable}, dry_run: {str(self.dry_run).lower()}, operators: ["<@{OPERATOR[0]}>"]}}
routes:
  - {{match: {{severity: critical}}, channel: "#ml-oncall", mention: "<!subteam^S0123>", repeat: 24h}}
  - {{channel: "#ml-monitoring", repeat: 1w}}
"""


Kind = Literal[
    "run", "drain", "watch", "person", "slack", "look", "edit", "pin", "fail", "refuse", "token", "backup", "restore",
    "confirm",
]  # fmt: skip


@dataclass(frozen=True)
class Event:
    """One planned step. ``what`` and ``more`` depend on the kind."""

    at: datetime
    kind: Kind
    what: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A story before it is played."""

    seed: int
    setting: Setting
    moods: Mapping[tuple[str, str, str], Mood]  # (schedule+window, source, label)
    events: tuple[Event, ...]
    troubles: Troubles = field(default_factory=Troubles)

    @property
    def mishaps(self) -> Mishaps | None:
        """What goes wrong with the monitor itself; None where no scheduler is played."""
        return self.troubles.mishaps


@dataclass
class Step:
    """What has just happened: the planned event, and every text that came of it at once."""

    event: Event
    at: datetime
    printed: list[Printed] = field(default_factory=list)


@dataclass(frozen=True)
class Printed:
    """What a command or an edge answered: ``kind`` names which, ``text`` and ``parts`` are what people saw.

    ``parts`` are the lines and tables of a terminal, ``text`` is what was written as it is (JSON), or answered.
    """

    kind: str
    text: str
    args: tuple[str, ...] = ()
    code: int = 0
    parts: tuple[Part, ...] = ()

    @property
    def lines(self) -> list[str]:
        """Every line that is in no table."""
        return [
            *(line for line in self.text.split("\n") if line.strip()),
            *(p for p in self.parts if isinstance(p, str)),
        ]


def plan(seed: int) -> Plan:
    """The story of a seed: which settings, how each label does, and who does what when."""
    rng = Random(f"truth {seed}")
    setting = _setting(seed, rng)
    setting = replace(setting, token=True, rare=True) if seed >= RARE else setting
    weeks = rng.randint(4, 6) if setting.daily else rng.randint(6, 14)
    windows = [_week(number) for number in range(weeks)]
    moods = _moods(setting, windows, rng)
    events = [*_runs(setting, windows, rng), *_people(setting, windows, rng), *_rounds(windows, rng)]
    if setting.in_channels:
        events += _people_on_channels(setting, windows, Random(f"channels {seed}"))
    troubles = troubles_of(
        setting.labels, windows, pinned=setting.pinned, token=setting.token, waiting=setting.waiting,
        rng=Random(f"troubles {seed}"),
    )  # fmt: skip
    if seed >= RARE:
        troubles = _with_mishaps(troubles, mishaps_of(windows, Random(f"mishaps {seed}")))
    events += _of_troubles(troubles)
    events = sorted(events, key=lambda e: e.at)
    if troubles.mishaps is not None:
        events += (Event(*each) for each in rare.steps_of(troubles.mishaps))  # type: ignore[arg-type]
        events = sorted(rare.with_killed_runs(events, troubles.mishaps), key=lambda e: e.at)
    return Plan(seed, setting, moods, tuple(events), troubles)


def _with_mishaps(troubles: Troubles, mishaps: Mishaps) -> Troubles:
    """These troubles as well; where an older history is put back, a baseline that is pinned later would be lost."""
    pins = () if mishaps.put_back is not None else troubles.pins
    return replace(troubles, mishaps=mishaps, pins=pins)


def _of_troubles(troubles: Troubles) -> Iterator[Event]:
    """Edits and new baselines; and somebody looks and the watchdog comes round while something is wrong."""
    for edit in troubles.edits:
        yield Event(edit.at, "edit", edit.source)
    for pin in troubles.pins:
        again = {"schedule": "weekly", "unread": [], "version": "v3", "again": "the same"}
        yield Event(pin.at, "pin", pin.source, {"pin": pin})
        yield Event(pin.at + timedelta(hours=1), "run", pin.weeks[-1].name, again)
        yield Event(pin.at + timedelta(hours=2), "look")
    for gone in troubles.emptied:
        yield Event(gone.end - timedelta(days=1), "look")
    for start, end in troubles.away:
        yield Event(start + timedelta(hours=20), "watch")
        yield Event(start + timedelta(hours=21), "look")
        yield Event(end + timedelta(minutes=20), "watch")


def _setting(seed: int, rng: Random) -> Setting:
    return Setting(
        when_not_evaluated=rng.choice(("keep", "keep", "disable")), initial=rng.choice(("on_first_ok", "off")),
        re_enable=rng.choice(("manual", "manual", "{after: 2}")), dry_run=rng.random() < 0.08,
        daily=seed % 3 == 0, in_channels=seed % 3 == 1, waiting=seed % 6 == 5, pinned=rng.random() < 0.85, linked=rng.random() < 0.6, token=rng.random() < 0.9,
    )  # fmt: skip


def _week(number: int) -> Window:
    start = FIRST + timedelta(weeks=number)
    year, name, _ = start.isocalendar()
    return week(f"{year}-W{name:02d}", UTC_ZONE)


def _moods(setting: Setting, windows: list[Window], rng: Random) -> dict[tuple[str, str, str], Mood]:
    found: dict[tuple[str, str, str], Mood] = {}
    for source, labels in setting.labels.items():
        for label in labels:
            mood: Mood = "good"
            flaps = rng.random() < 0.2
            for window in windows:
                mood = _next(mood, rng, flaps=flaps)
                found[window.name, source, label] = mood
                for name in _days_of(window):
                    alike: Mood = mood if rng.random() < 0.75 else _next("good", rng, flaps=False)
                    found[name, source, label] = alike
    return found


def _next(mood: Mood, rng: Random, *, flaps: bool) -> Mood:
    stay = {"good": 0.72, "bad": 0.55, "unsure": 0.3, "few": 0.4, "gone": 0.6, "moved": 0.4, "rejected": 0.4}
    if rng.random() < (0.1 if flaps else stay.get(mood, 0.5)):
        return mood
    if mood != "good" and rng.random() < 0.6:
        return "good"
    moods: tuple[Mood, ...] = ("bad", "bad", "bad", "unsure", "unsure", "few", "gone", "moved", "rejected")
    return rng.choice(moods)


def _days_of(window: Window) -> list[str]:
    return [f"{window.start + timedelta(days=k):%Y-%m-%d}" for k in range(7)]


def _runs(setting: Setting, windows: list[Window], rng: Random) -> Iterator[Event]:
    """Runs in their time, late, twice, failed or never; a source that cannot be read; truths that come late."""
    for window in windows:
        at = window.end + timedelta(hours=6, minutes=rng.randint(5, 60))
        yield from _run_of("weekly", window.name, at, setting, rng)
    if not setting.daily:
        return
    silent = set()
    if rng.random() < 0.4:
        first = rng.randrange(7 * len(windows))
        silent = set(range(first, first + rng.randint(1, 4)))
    for number in range(7 * len(windows)):
        start = FIRST + timedelta(days=number)
        if number not in silent:
            at = start + timedelta(days=1, hours=6, minutes=rng.randint(61, 90))
            yield from _run_of("daily", f"{start:%Y-%m-%d}", at, setting, rng, seldom=0.25)


def _run_of(
    schedule: str, name: str, at: datetime, setting: Setting, rng: Random, seldom: float = 1.0
) -> Iterator[Event]:
    fate = rng.random() / seldom if seldom else 1.0
    given: dict[str, Any] = {"schedule": schedule, "unread": [], "version": "v3" if rng.random() < 0.8 else "v4"}
    if fate < 0.05:
        return  # the monitor was down
    if fate < 0.09:
        yield Event(at, "run", name, {**given, "fails": True})
        at += timedelta(hours=rng.randint(1, 30))
    elif fate < 0.16:
        yield Event(at, "run", name, {**given, "unread": [rng.choice(sorted(setting.labels))]})
        at += timedelta(hours=rng.randint(1, 20))
        if rng.random() < 0.4:
            return
    elif fate < 0.2:
        at += timedelta(days=rng.randint(1, 2), hours=rng.randint(0, 5))  # late
    elif fate < 0.23:
        given |= {"jump": rng.choice((-70, 45, 80))}  # minutes by which the clock is wrong during the run
    yield Event(at, "run", name, given)
    if rng.random() < 0.08 * seldom:
        yield Event(at + timedelta(hours=rng.randint(2, 50)), "run", name, {**given, "again": "late truths"})
    elif rng.random() < 0.05 * seldom:
        yield Event(at + timedelta(hours=rng.randint(1, 9)), "run", name, {**given, "again": "the same"})


def _people(setting: Setting, windows: list[Window], rng: Random) -> Iterator[Event]:
    """What people do, and on which way: a terminal, the HTTP service, buttons in Slack."""
    first, last = windows[0].end + timedelta(hours=7), windows[-1].end + timedelta(days=2)
    span = (last - first) / timedelta(minutes=1)
    if setting.initial == "off":
        yield Event(first + timedelta(minutes=rng.randint(1, 200)), "person", "go live", {"by": rng.choice(PEOPLE)})
    for _ in range(rng.randint(3, 9)):
        at = first + timedelta(minutes=rng.randint(0, int(span)))
        what = rng.choices(
            ("enable", "disable", "acknowledge", "silence", "resolve", "whole"), (4, 2, 3, 2, 2, 1)
        )[0]  # fmt: skip
        source = rng.choice(sorted(setting.labels))
        given = {
            "by": rng.choice(PEOPLE), "why": rng.choice(REASONS), "source": source, "pick": rng.random(),
            "label": rng.choice(setting.labels[source]), "way": rng.choice(("terminal", "http", "slack")),
            "hours": rng.choice((None, None, 6, 40, 100, 400)), "on": rng.random() < 0.5,
        }  # fmt: skip
        yield Event(at, "person", what, given)


def _people_on_channels(setting: Setting, windows: list[Window], rng: Random) -> Iterator[Event]:
    """A channel of a label is turned off and on in a terminal."""
    first, last = windows[0].end + timedelta(hours=7), windows[-1].end + timedelta(days=2)
    span = (last - first) / timedelta(minutes=1)
    for _ in range(rng.randint(3, 8)):
        source = rng.choice(sorted(setting.labels))
        given = {
            "by": rng.choice(PEOPLE), "why": rng.choice(REASONS), "source": source, "on": rng.random() < 0.6,
            "label": rng.choice(setting.labels[source]), "channel": rng.choice(script.CHANNELS),
            "hours": rng.choice((None, None, 40, 400)), "pick": rng.random(),
        }  # fmt: skip
        yield Event(first + timedelta(minutes=rng.randint(0, int(span))), "person", "channel", given)


def _rounds(windows: list[Window], rng: Random) -> Iterator[Event]:
    """Drains and the watchdog come round, Slack is down for a while, and somebody looks at everything."""
    at, end = windows[0].start + timedelta(hours=9, minutes=2), windows[-1].end + timedelta(days=12)
    while at < end:
        yield Event(at, "drain")
        if rng.random() < 0.5:
            yield Event(at + timedelta(minutes=1), "watch")
        at += timedelta(hours=rng.choice((25, 31, 55, 80)))
    if rng.random() < 0.3:
        began = windows[0].end + timedelta(hours=rng.randint(0, 24 * 7 * (len(windows) - 1)))
        yield Event(began, "slack", "down")
        yield Event(began + timedelta(hours=rng.randint(2, 60)), "slack", "up")
    for window in rng.sample(windows, k=min(2, len(windows))):
        yield Event(window.end + timedelta(hours=rng.randint(8, 160)), "look")
    yield Event(end, "look")


# --- played


@dataclass
class Story:
    """A story while it is played: the monitor, its clock, and what was written by hand so far."""

    plan: Plan
    monitor: Monitor
    clock: Clock
    folder: Path
    channel: Channel | None
    whispers: Whispers
    service: Service
    buttons: Buttons
    rng: Random
    said: dict[tuple[str, str, str, str | None, str], Said] = field(default_factory=dict)
    values: dict[tuple[str, str, str, str], Numbers] = field(default_factory=dict)
    told: Told = field(default_factory=Told)
    acted: list[str] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)
    presses: int = 0
    kept: tuple[Any, Any, Told] | None = None

    @property
    def setting(self) -> Setting:
        return self.plan.setting

    def printed(self, kind: str, *args: str) -> Printed:
        """Run a command as a person in a terminal does, with lines wide enough for whole tables."""
        out, err = io.StringIO(), io.StringIO()
        command = cli.program()
        cli.out.taken(), cli.err.taken()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = command.main(args=list(args), prog_name="calmon", standalone_mode=False) or 0
            except click.exceptions.Exit as exit:
                code = exit.exit_code
            except click.ClickException as error:
                error.show(err)
                code = error.exit_code
        parts = (*cli.out.taken(), *cli.err.taken())
        return Printed(kind, out.getvalue() + err.getvalue(), args, int(code), parts)


Observer = Callable[[Story, Step], None]


@cache
def _empty_history() -> Path:
    """A migrated history without a row, made once in a process."""
    folder = Path(mkdtemp(prefix="truth-"))
    with Store.from_url(f"sqlite:///{folder / 'history.sqlite'}"):
        pass
    return folder / "history.sqlite"


@contextmanager
def story(planned: Plan, folder: Path) -> Iterator[Story]:
    """The monitor of a plan, with its clock and Slack."""
    clock = Clock(FIRST)
    shutil.copy(_empty_history(), folder / "history.sqlite")
    world = make_world(folder, config=planned.setting.yaml(), warehouse_url=f"duckdb:///{folder / 'none.duckdb'}")
    more = {"public_url": PUBLIC} if planned.setting.linked else {}
    if planned.troubles.listens:
        more |= {"slack_bot_token": "xoxb-1", "slack_app_token": "xapp-1"}
    environment = world.environment | {f"CALMON_{k.upper()}": v for k, v in more.items()}
    channel = Channel() if planned.setting.token else None
    with clockwork(clock, channel), _environment(environment), _wide(), world.opened(clock, **more) as monitor:
        if planned.setting.pinned:
            monitor.store.save_baselines(_baselines(monitor, planned.setting.labels))
        whispers, service = Whispers(), Service(world.settings(**more), clock=clock)
        buttons = Buttons(
            monitor, whispers, TEAM, config=lambda: load_config(folder / "alerts.yaml"), deliver=lambda: run.deliver(monitor)
        )  # fmt: skip
        try:
            yield Story(
                planned, monitor, clock, folder, channel, whispers, service, buttons, Random(f"play {planned.seed}")
            )  # fmt: skip
        finally:
            service.close()


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("CALMON_")]:
        del os.environ[name]
    os.environ.update(wanted)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _wide() -> Iterator[None]:
    """Consoles of 1,000 columns, and no log lines."""
    before, disabled = (cli.out, cli.err), logging.root.manager.disable
    cli.out, cli.err = Recorder(), Recorder(stderr=True)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        cli.out, cli.err = before
        logging.disable(disabled)


FIRST_SPAN = (week("2025-W44", UTC_ZONE), week("2026-W01", UTC_ZONE))


def _baselines(
    monitor: Monitor, labels_of: Mapping[str, Sequence[str]], span: Sequence[Window] = FIRST_SPAN, version: int = 1
) -> list[Baseline]:
    """The baselines of these labels, of the weeks from the first to the last, under the present settings."""
    made = []
    for source, labels in labels_of.items():
        for label in (None, *labels):
            scores = [k / 20 for k in range(1, 20) for _ in range(60)]
            truths = [int(i % 60 < 60 * s) for i, s in enumerate(scores)]
            counts = counts_from_rows(scores, truths)
            edges, settings = edges_of(counts, monitor.config.evaluation), settings_of(monitor.config.sources[source])
            made.append(
                Baseline(
                    source, label, version, span[0].start, span[-1].end, span[0].name, span[-1].name, counts, edges,
                    monitor.clock() if version > 1 else FIRST, "ana", "first", settings=settings,
                )
            )  # fmt: skip
    return made


def play(planned: Plan, folder: Path, observer: Observer) -> Story:
    """Play a story to its end; ``observer`` sees each step when it is done."""
    with story(planned, folder) as told:
        for event in planned.events:
            told.clock.now = max(event.at, told.clock.now) if event.kind != "run" else event.at
            step = Step(event, told.clock.now)
            _listen(told)
            rare.note_looks(told)
            _DO[event.kind](told, event, step)
            observer(told, step)
        return told


# --- runs


def _run(told: Story, event: Event, step: Step) -> None:
    schedule, name = event.more["schedule"], event.what
    window = (week if schedule == "weekly" else day)(name, UTC_ZONE)
    right = told.clock.now
    told.clock.now = right + timedelta(minutes=event.more.get("jump", 0))
    step.at = told.clock.now
    try:
        with _written_by_hand(told, window, event):
            result = run.run_window(told.monitor, window)
        verdicts = [verdict for part in result.evaluated for verdict in part.verdicts]
        stories = Teller.of(told.monitor).of_window(result.diagnoses, verdicts)
        shown = tuple(parts_of(run_summary(result.evaluated, stories, result.actions)))
        step.printed.append(Printed("run", "", (schedule, name), parts=shown))
        step.printed.append(Printed("run json", json.dumps(result.document), (schedule, name)))
    except Down as error:
        told.acted.append(str(error))
    told.clock.now = max(right, told.clock.now)


class Down(Exception):
    """The run failed, as with a warehouse driver that breaks."""


@contextmanager
def _written_by_hand(told: Story, window: Window, event: Event) -> Iterator[None]:
    """The two stages that need a warehouse give what the script says."""
    before = run.STAGES, run.note_failure
    pages: list[Page] = []

    def read(monitor: Monitor, due: run.Run) -> run.Run:
        if event.more.get("fails") or event.more.get("killed"):
            raise Down("the driver broke")
        pages.extend(page(told, window, name, event) for name in due.sources)
        for each in pages:
            monitor.store.save_reading(window, _reading(each, monitor), monitor.clock())
            _note_reading(told, each)
            if each.problem is None:
                _read_again(told, window, each.source)
        return due

    def judge(_: Monitor, due: run.Run) -> run.Run:
        return replace(
            due,
            evaluated=tuple(_evaluated(each) for each in pages),
            collected=tuple(_collected(each) for each in pages),
        )

    run.STAGES = (run.begin, read, judge, run.act, run.heartbeat)
    if event.more.get("killed"):
        run.note_failure = lambda *_: None  # nobody is left to note it
    try:
        yield
    finally:
        run.STAGES, run.note_failure = before
        for each in pages:
            told.pages.append(each)
            told.told.estimates[each.window.schedule, each.window.name, each.source] = each.estimates
            for line in each.said:
                told.said[line.schedule, line.window, line.source, line.label, line.rule] = line


def _quality(page: Page) -> tuple[RejectedRows, ...]:
    failed = (part_not_read(page.source, part, Reason.RELATION_ERROR, WHY[part]) for part in sorted(page.unread))
    return (*(RejectedRows(page.source, reason, rows) for reason, rows in page.rejected.items()), *failed)


def _reading(page: Page, monitor: Monitor) -> StoredReading:
    state, quality = "ok" if page.problem is None else page.problem.value, _quality(page)
    return StoredReading(
        page.source, state=state, error=page.error or None, versions={page.version: page.rows} if page.rows else {},
        quality=quality, rows=page.rows, digest=f"{page.source}{page.window.name}{page.rows}",
        settings=settings_of(monitor.config.sources[page.source]),
    )  # fmt: skip


def _note_reading(told: Story, page: Page) -> None:
    """What the run has read by the plan, for the facts."""
    key = (page.window.schedule, page.window.name, page.source)
    told.told.readings[key] = [] if page.problem is not None else [page.rows]  # since it was judged last
    told.told.unread[key] = frozenset(page.unread)
    told.told.gone[key] = None
    told.told.read_at[key] = told.clock.now
    told.told.judged.append(key)


def _read_again(told: Story, window: Window, source: str) -> None:
    """The window before is read once more where its rows are others now, as truths come late: by the product's code."""
    monitor, past = told.monitor, previous(window, UTC_ZONE)
    kept = monitor.store.load_reading(past.schedule, past.start, source)
    key = (past.schedule, past.name, source)
    if kept is None or kept.state != "ok" or not told.told.readings.get(key):
        return
    troubles, before = told.plan.troubles, told.told.readings[key]
    share = troubles.share_left(source, past, told.clock.now)
    rows = int(before[0] * share)
    if rows == kept.rows and kept.settings == settings_of(monitor.config.sources[source]):
        return
    quality = tuple(q for q in kept.quality if q.reason in script.REJECTED) if share == 1 else ()
    versions = dict.fromkeys(kept.versions, rows) if rows else {}
    reading = Reading(source, past, {}, {}, 1.0, versions, quality, rows)
    baselines = collecting.references_of(monitor, source).baselines
    collecting.read(monitor, past, source, baselines, store=True, reading=reading, before=kept, judges=False)
    if rows != kept.rows and monitor.store.run_of(past, source) is not None:
        monitor.store.replace_estimates(past, source, _estimates_of(told, past, source, share))
    before.append(rows)
    most = max(before[:-1])
    edit = troubles.edit_of(source, told.clock.now)
    otherwise = edit is not None and edit.other_numbers and edit.at > told.told.read_at[key]
    told.told.gone[key] = most if 2 * rows < most and not otherwise else None
    told.told.read_at[key] = told.clock.now


def _estimates_of(told: Story, window: Window, source: str, share: float) -> list[Estimate]:
    """The estimates of the rows that are left: the same values, from fewer rows."""
    found = told.told.estimates.get((window.schedule, window.name, source), [])
    return [replace(each, n=int(each.n * share)) for each in found if int(each.n * share)]


def _collected(page: Page) -> collecting.Collected:
    return collecting.Collected(SourceData(page.source, WindowCounts(page.window)), None)


def _evaluated(page: Page) -> Evaluated:
    return Evaluated(
        page.source,
        page.window,
        tuple(page.estimates),
        tuple(page.verdicts),
        (),
        _quality(page),
        page.problem,
        page.error,
    )


def page(told: Story, window: Window, source: str, event: Event) -> Page:
    """What a source gives in a window. The same again gives the same; late truths may give other outcomes."""
    salt = f"{told.plan.seed} {window.name} {source} {event.more.get('again') == 'late truths'}"
    rng = Random(salt)
    made = Page(source, window, version=event.more["version"])
    if source in event.more["unread"]:
        made.problem, made.error = rng.choice(
            ((Reason.RELATION_ERROR, "the relation has no column score"), (Reason.WAREHOUSE_FAILED, "no answer"))
        )
    if made.problem is None:
        made.unread = told.plan.troubles.unread.get((window.name, source), frozenset())
    empty = told.plan.troubles.is_empty(source, told.clock.now)
    rules = [rule for rule in told.setting.rules if rule.schedule == window.schedule and rule.source in (None, source)]
    for label in told.setting.labels[source]:
        mood = told.plan.moods[window.name, source, label]
        if event.more.get("again") == "late truths" and rng.random() < 0.4:
            mood = rng.choice(("good", "good", "bad", "unsure"))
        seen = numbers_or_none(told, window, source, label, mood, rng)
        mood, seen = ("gone", None) if empty else (mood, seen)
        for rule in rules:
            if rule in script.WAITING or rule in script.SELDOM:
                _add(told, made, rule, label, mood, seen, Random(f"{salt} {label} {rule.id}"), salt)
            elif rule.scope == "labels":
                _add(told, made, rule, label, mood, seen, rng, salt)
            elif rule.scope == "segments":
                _add_channels(told, made, rule, label, mood, seen, salt)
        if seen is not None and made.problem is None and mood != "rejected":
            made.estimates += script.estimates_of(window, Subject(source, label), seen)
            made.rows += seen.n
    _whole(told, made, rules, rng, salt)
    return made


def numbers_or_none(
    told: Story, window: Window, source: str, label: str, mood: Mood, rng: Random
) -> Numbers | None:  # fmt: skip
    if mood == "gone":
        return None
    seen = script.numbers_of(mood, rng, daily=window.schedule == "daily")
    told.values[window.schedule, window.name, source, label] = seen
    return seen


def _whole(told: Story, made: Page, rules: list[RuleSpec], rng: Random, salt: str) -> None:
    """The source as a whole: its own rule, and its estimates."""
    mine = [rule for rule in rules if rule.scope == "source"]
    mood: Mood = "gone" if not made.rows else "bad" if rng.random() < 0.06 else "good"
    seen = None if mood == "gone" else replace(script.numbers_of("good", rng), n=made.rows)
    if mood == "bad" and seen is not None:
        seen = replace(seen, ece=round(rng.uniform(0.11, 0.15), 4))
    for rule in mine:
        _add(told, made, rule, None, mood, seen, rng, salt)
    if seen is not None and made.problem is None:
        made.estimates += script.estimates_of(made.window, Subject(made.source, None), seen)


def _add(
    told: Story, made: Page, rule: RuleSpec, label: str | None, mood: Mood, seen: Numbers | None, rng: Random, salt: str
) -> None:
    window = made.window
    before = _before(told, window, made.source, label) if rule.asks > 1 else None
    why, known = _why_not(told, made, rule, mood, seen, salt)
    if why is not None:
        outcome, reason = "not_evaluated", why
    else:
        assert seen is not None
        outcome, reason = script.decided(rule, mood, seen, before, pinned=told.setting.pinned)
        if told.setting.rare:
            outcome, reason = script.mixed(rule, outcome, reason, Random(f"mix {salt} {label}"))
    if mood == "rejected" and made.problem is None:
        made.rejected["score_missing"] = made.rejected.get("score_missing", 0) + 120
    silent = outcome == "not_evaluated" and reason != Reason.TOO_FEW_ROWS
    value = None if silent or seen is None else seen.of(rule)
    line = Said(
        window.schedule, window.name, made.source, label, rule.id, outcome, reason, value
    )  # type: ignore[arg-type]  # fmt: skip
    made.said.append(line)
    measured = None if made.problem else seen
    _keep(told, made, rule, line, measured, before, rng, salt, known)


def _keep(
    told: Story, made: Page, rule: RuleSpec, line: Said, seen: Numbers | None, before: float | None, rng: Random,
    salt: str, known: dict[str, Any], more: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """The verdict of a line, and what the plan says of the settings by which it was compared."""
    troubles, now, source = told.plan.troubles, told.clock.now, made.source
    pin, edit = troubles.pin_of(source, now), troubles.unlike_baseline(source, now)
    changed_rows = troubles.edit_of(source, now)
    verdict = script.verdict_of(
        rule, line, made.window, seen, before, rng, salt if changed_rows is None else f"{salt} {changed_rows.words} {pin}",
        revision=told.monitor.config.revision, pinned=told.setting.pinned, more=more, known_of=known,
        version=1 if pin is None else 2,
    )  # fmt: skip
    made.verdicts.append(verdict)
    told.told.changed[verdict.id] = None if edit is None else edit.words


def _why_not(
    told: Story, made: Page, rule: RuleSpec, mood: Mood, seen: Numbers | None, salt: str
) -> tuple[Reason | None, dict[str, Any]]:
    """Why the plan lets a rule judge nothing, in the order of the contract; and what its verdict keeps of it."""
    troubles, now = told.plan.troubles, told.clock.now
    waits_for = "unresolved_failed" if rule.is_estimate else "delays_failed" if rule.mature else None
    young = script.too_young(seen, rule.mature, Random(f"young {salt}")) if rule.mature and seen is not None else None
    in_baseline = told.setting.pinned and troubles.is_in_baseline(made.source, made.window, now)
    compares = told.setting.pinned and rule.needs_baseline
    reasons: tuple[tuple[bool, Reason | None, dict[str, Any]], ...] = (
        (made.problem is not None, made.problem, {}),
        (mood == "rejected", Reason.REJECTED_ROWS, {}),
        (waits_for in made.unread, Reason.UNRESOLVED_FAILED, {}),
        (young is not None, Reason.NOT_MATURE, {"maturity": young}),
        (seen is None or mood == "gone", Reason.NO_ROWS, {}),
        (in_baseline, Reason.IN_BASELINE, {}),
        (compares, *(_other_settings(told, made.source, now) if compares else (None, {}))),
    )
    return next(((reason, known) for holds, reason, known in reasons if holds), (None, {}))


def _other_settings(told: Story, source: str, now: datetime) -> tuple[Reason | None, dict[str, Any]]:
    """Whether the plan has edited the source since its baseline was pinned; what is kept of it is what the product finds."""
    edit, found = told.plan.troubles.unlike_baseline(source, now), collecting.references_of(told.monitor, source)
    refused, renamed = found.refused.get(None, ()), found.renamed.get(None, ())
    planned = (edit is not None and edit.other_numbers, edit is not None and not edit.other_numbers)
    if (bool(refused), bool(renamed)) != planned:
        told.told.against.append(f"{source} is compared with {found.baselines.keys()}, and its settings are: {edit}")
    if edit is not None and edit.other_numbers:
        return Reason.SETTINGS_CHANGED, {"settings": as_detail(refused)}
    return None, {"renamed": as_detail(renamed)} if renamed else {}


def _add_channels(
    told: Story, made: Page, rule: RuleSpec, label: str, mood: Mood, seen: Numbers | None, salt: str
) -> None:
    """What the rule on channels says of a label: the numbers are those of one channel."""
    rng, window = Random(f"{salt} {label} channels"), made.window
    found = [] if seen is None else script.channels_of(mood, seen, rng)
    outcome, reason = ("not_evaluated", Reason.NO_ROWS) if seen is None else script.decided_in_channels(mood, found)
    why, known = _why_not(told, made, rule, mood, seen, salt)
    if why is not None:
        outcome, reason = "not_evaluated", why
    silent = seen is None or (outcome == "not_evaluated" and reason != Reason.TOO_FEW_ROWS)
    line = Said(
        window.schedule, window.name, made.source, label, rule.id, outcome, reason, None if silent else found[0].overconfidence
    )  # type: ignore[arg-type]  # fmt: skip
    made.said.append(line)
    measured = None
    if seen is not None and made.problem is None:
        measured = replace(seen, overconfidence=found[0].overconfidence, automated=found[0].rows)
    _keep(told, made, rule, line, measured, None, rng, salt, known, script.in_channels(found) if found else None)


def _before(told: Story, window: Window, source: str, label: str | None) -> float | None:
    day_before = f"{window.start - timedelta(days=1):%Y-%m-%d}"
    found = told.values.get((window.schedule, day_before, source, label or ""))
    return None if found is None else found.ece


# --- what comes round


def _drain(told: Story, event: Event, step: Step) -> None:
    if rare.begin_drain(told):
        incident_actions.due_repeats(told.monitor)
        _send(told, due_only=True)


def _send(told: Story, *, due_only: bool) -> None:
    drain(
        told.monitor.store, told.monitor.sender, now=told.clock, worker=worker_id(), due_only=due_only
    )  # fmt: skip


def _watch(told: Story, event: Event, step: Step) -> None:
    if rare.begin_watch(told):
        watch_monitor(told.monitor)
        _drain(told, event, step)


def _listen(told: Story) -> None:
    """The listener notes that it is connected, as it does every five minutes while it is."""
    last = told.plan.troubles.listened(told.clock.now)
    if last is not None:
        at = last - NOTED_EVERY / 2 if last == told.clock.now else last
        told.monitor.store.put_note(Note(LISTENER_NOTE, at))


def _edit(told: Story, event: Event, step: Step) -> None:
    """Somebody edits alerts.yaml: another column, another scale, another relation."""
    edits = [edit for edit in told.plan.troubles.edits if edit.at <= event.at]
    (told.folder / "alerts.yaml").write_text(told.setting.yaml(edits), "utf-8")
    told.monitor = replace(told.monitor, config=load_config(told.folder / "alerts.yaml"))


def _pin(told: Story, event: Event, step: Step) -> None:
    """Somebody pins the baseline of a source again."""
    pin = event.more["pin"]
    labels = {pin.source: told.setting.labels[pin.source]}
    told.monitor.store.save_baselines(_baselines(told.monitor, labels, pin.weeks, version=2))


def _slack(told: Story, event: Event, step: Step) -> None:
    if told.channel is not None:
        told.channel.down = event.what == "down"


def _look(told: Story, event: Event, step: Step) -> None:
    """Somebody looks at everything: the observer reads, nothing happens."""


# --- people


def _person(told: Story, event: Event, step: Step) -> None:
    _ACTS[event.what](told, event, step)


def _go_live(told: Story, event: Event, step: Step) -> None:
    args = ["automation", "enable", "--all", "--reason", "go live", "--by", event.more["by"]]
    step.printed.append(told.printed("enable", *args))


def _switch(told: Story, event: Event, step: Step) -> None:
    given, enable = event.more, event.what == "enable"
    until = None if given["hours"] is None else told.clock.now + timedelta(hours=given["hours"])
    if given["way"] == "slack":
        incident = _incident_of(told, given["source"], given["label"])
        if incident is not None:
            _press(told, step, "automation_on" if enable else "automation_off", incident, given["why"])
        return
    if given["way"] == "http":
        _by_http(told, step, given, given["label"], until, enable=enable)
        return
    args = ["automation", event.what, "--source", given["source"], "--label", given["label"]]
    args += ["--reason", given["why"], "--by", given["by"]]
    args += [] if until is None else ["--until", f"{until:%Y-%m-%dT%H:%M}"]
    step.printed.append(told.printed(event.what, *args))


def _switch_channel(told: Story, event: Event, step: Step) -> None:
    """A person turns one channel of a label off or on; or one that is off, which is more to the point."""
    given, enable = event.more, event.more["on"]
    source, label, channel = given["source"], given["label"], given["channel"]
    off = [(s.source, s.label, e.value) for s in told.monitor.store.switches() for e in s.segments if e.off_from]
    if enable and off and given["pick"] < 0.8:
        source, label, channel = off[int(given["pick"] * len(off))]
    word = "enable" if enable else "disable"
    args = ["automation", word, "--source", source, "--label", str(label), "--segment", f"{script.COLUMN}={channel}"]
    args += ["--reason", given["why"], "--by", given["by"]]
    if enable and given["hours"] is not None:
        args += ["--until", f"{told.clock.now + timedelta(hours=given['hours']):%Y-%m-%dT%H:%M}"]
    step.printed.append(told.printed(word, *args))


def _by_http(
    told: Story, step: Step, given: Mapping[str, Any], label: str | None, until: datetime | None, *, enable: bool
) -> None:
    wanted = SwitchChange(given["source"], label, enable, f"token {given['by']}", given["why"], until, None)
    try:
        stored = told.service.change(wanted)
    except RequestRefused as refused:
        told.acted.append(str(refused))
        return
    step.printed.append(Printed("http change", json.dumps(_plain(stored))))


def _plain(stored: Any) -> dict[str, Any]:
    names = list(stored.__slots__) if hasattr(stored, "__slots__") else list(vars(stored))
    return {name: str(getattr(stored, name)) for name in names}


def _whole_source(told: Story, event: Event, step: Step) -> None:
    """The source's own switch."""
    given = event.more
    if given["way"] == "http":
        _by_http(told, step, given, None, None, enable=given["on"])
        return
    word = "enable" if given["on"] else "disable"
    args = ("automation", word, "--source", given["source"], "--reason", given["why"], "--by", given["by"])
    step.printed.append(told.printed(word, *args))


def _incident_of(told: Story, source: str, label: str) -> str | None:
    found = [i for i in told.monitor.store.incidents() if (i.source, i.label) == (source, label)]
    return max(found, key=lambda i: i.opened_at).id if found else None


def _about_incident(told: Story, event: Event, step: Step) -> None:
    given = event.more
    known = told.monitor.store.incidents()
    if not known:
        return
    open_ones = [i for i in known if i.state != "resolved"] or known
    one = open_ones[int(given["pick"] * len(open_ones))]
    if given["way"] == "slack" and event.what != "resolve":
        action = "incident_ack" if event.what == "acknowledge" else "incident_silence_day"
        _press(told, step, action, one.id, given["why"])
        return
    more = {
        "acknowledge": ["ack", one.id], "resolve": ["resolve", one.id, "--reason", given["why"]],
        "silence": ["silence", one.id, "--for", f"{given['hours'] or 30}h"],
    }[event.what]  # fmt: skip
    step.printed.append(told.printed(event.what, "incidents", *more, "--by", given["by"]))


def _press(told: Story, step: Step, action: str, incident: str, why: str) -> None:
    """A button, and the modal where it opens one."""
    user, name = OPERATOR if told.rng.random() < 0.85 else STRANGER
    told.presses += 1
    who = {"id": user, "username": name, "team_id": TEAM}
    stamp = f"{told.clock.now.timestamp() + told.presses / 1000:.6f}"
    element = {"type": "button", "action_id": action, "value": incident, "action_ts": stamp}
    payload = {
        "type": "block_actions", "team": {"id": TEAM}, "trigger_id": f"t{told.presses}", "user": who,
        "channel": {"id": "C001"}, "actions": [element],
    }  # fmt: skip
    views = len(told.whispers.views)
    answers = [told.buttons.handle(payload)]
    if len(told.whispers.views) > views:
        view = dict(told.whispers.views[-1]) | {"id": f"V{told.presses}"}
        view["state"] = {"values": {"reason": {"reason": {"type": "plain_text_input", "value": why}}}}
        answers.append(
            told.buttons.handle({"type": "view_submission", "team": {"id": TEAM}, "view": view, "user": who})
        )
    step.printed += [Printed("press", answer, (action, incident, user)) for answer in answers]


_DO: Mapping[str, Callable[[Story, Event, Step], None]] = {
    "run": _run, "drain": _drain, "watch": _watch, "person": _person, "slack": _slack, "look": _look,
    "edit": _edit, "pin": _pin, **rare.PLAYED,
}  # fmt: skip
_ACTS: Mapping[str, Callable[[Story, Event, Step], None]] = {
    "go live": _go_live, "enable": _switch, "disable": _switch, "whole": _whole_source,
    "channel": _switch_channel, "acknowledge": _about_incident, "silence": _about_incident, "resolve": _about_incident,
}  # fmt: skip


def configuration(told: Story) -> Any:
    return load_config(told.folder / "alerts.yaml")
