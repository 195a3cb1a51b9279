"""``calmon status``: what is open, what waits and what comes next, in one screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

from monitor.alerting.health.issues import findings
from monitor.alerting.health.look import automation_line, observed
from monitor.alerting.health.message import reasons_of
from monitor.cli import common as cli
from monitor.context import Monitor
from monitor.core.records import SCHEDULES
from monitor.core.schedules import next_time, schedules
from monitor.core.windows import last_ready
from monitor.core.wording import clean, count_of
from monitor.story.gather import Teller
from monitor.story.incident import state_words

NOTHING: Mapping[str, str] = {"open": "nothing", "waits": "nothing", "next": "nothing: no rule has a schedule"}


@cli.app.command(epilog="Examples:  calmon status  ·  calmon status --json")
def status(json_output: cli.JsonFlag = False) -> None:
    """What is open, what waits for somebody, and what comes next: to begin a day with, and to hand over."""
    with cli.monitor(writes=False, reads=False) as opened, opened.store.one_moment():
        now = opened.clock()
        parts = {"open": [*_open(opened)], "waits": [*_waits(opened, now)], "next": [*_next(opened, now)]}
    if json_output:
        cli.print_json({"as_of": now, **parts})
        return
    for part, lines in parts.items():
        cli.out.print(part.capitalize(), style="bold")
        for line in lines or [NOTHING[part]]:
            cli.say(f"  {line}")
    cli.say(f"As of {cli.stated(now, opened.config.zone)}. In full: calmon health, calmon incidents list")


def _open(opened: Monitor) -> Iterator[str]:
    """A line for each incident: what is the matter, and who has it; the most severe first."""
    teller = Teller.of(opened)
    found = opened.store.unresolved_incidents(of_monitor=None)
    for incident in sorted(found, key=lambda each: (each.severity != "critical", each.opened_at)):
        if incident.is_of_monitor:
            words = f"Monitor: {reasons_of(incident)}"
        else:
            story = teller.of_incident(incident)
            words = clean(incident.label or incident.source) if story is None else story.sentence
        yield f"{incident.id[:8]} {incident.severity}: {words} ({state_words(incident)})"


def _waits(opened: Monitor, now: datetime) -> Iterator[str]:
    """What somebody, or the monitor itself, still has to do."""
    records = observed(opened.store, opened.config, now, has_buttons=opened.settings.has_buttons)
    for each in findings(records, now):
        yield f"{each.severity}: {each.text} Do now: {each.do_now}"
    unclaimed = [each for each in opened.store.unresolved_incidents(of_monitor=None) if each.state == "open"]
    if unclaimed:
        ids = " ".join(each.id[:8] for each in unclaimed)
        yield f"{count_of(len(unclaimed), 'incident')} nobody has taken: calmon incidents ack {ids}"
    states = Counter(each.state for each in records.deliveries)
    if unsent := states["pending"] + states["failed"] + states["sending"]:
        yield f"{count_of(unsent, 'message')} not sent yet"
    if opened.config.automation.dry_run:
        yield "the dry run: nothing is switched until `dry_run: true` is taken out of alerts.yaml"
    if records.switches:
        yield f"automation: {automation_line(records, now)}"


def _next(opened: Monitor, now: datetime) -> Iterator[str]:
    """For each schedule that has rules: whether its last window was judged, and when its next run is."""
    config, due = opened.config, schedules(opened.config.timezone)
    for schedule in SCHEDULES:
        if not config.rules_for(schedule):
            continue
        window, planned = last_ready(schedule, now, config.zone), due[f"calmon-{schedule}"]
        runs, read = opened.store.runs_of(window), opened.store.judged_windows(window.start)
        done = {name for name in config.sources if runs.get(name, {}).get("state") == "done"}
        unread = {name for name in done if opened.store.judged(schedule, window.start, name)} - {
            source for (of, source), starts in read.items() if of == schedule and window.start in starts
        }
        missing = set(config.sources) - done | unread
        option = "--week" if schedule == "weekly" else "--date"
        what = "was judged" if not missing else f"was not judged yet: calmon run {schedule} {option} {window.name}"
        following = next_time(planned["cron"], planned["timezone"], now)
        yield f"{schedule}: {window.name} {what}; next run {following:%A %Y-%m-%d %H:%M} ({planned['timezone']})"
