"""Canary secrets in every setting, commands in many bad situations, and a search for canaries afterwards.

The parts of each canary are made-up words, so that half a secret is found as well, however it is encoded.
"""

from __future__ import annotations

import io
import logging
import os
import re
import signal
import sqlite3
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from monitor.cli import main
from tests.fakes.heartbeat import Calls
from tests.fakes.slack import FakeSlack

PASSWORD = "Kanari1@Zeisig2:Pirol3%Wachtel4/x"
QUERY_SECRET = "Gimpel5&Amsel6=Star7 q"
BOT_TOKEN = "xoxb-1234-Merle8"
APP_TOKEN = "xapp-1-A1-Elster9"
GATE_TOKEN = "calmon_Dohle10Dohle10Dohle10Dohle10Dohle10Dohle1"
HEARTBEAT = "ping/Uhu11-3f2a-Kauz12"
PARTS = (
    "kanari1", "zeisig2", "pirol3", "wachtel4", "gimpel5", "amsel6", "star7", "merle8", "elster9", "dohle10", "uhu11",
    "kauz12",
)  # fmt: skip
WORDS = re.compile(f"(?i){'|'.join(PARTS)}")

IN_USER = f"watcher:{quote(PASSWORD, safe='')}@"
IN_QUERY = f"password={quote(QUERY_SECRET, safe='')}"


@dataclass
class Trial:
    """One command in one situation, and where a canary was seen after it."""

    situation: str
    command: str
    code: int
    output: str
    seen: list[str] = field(default_factory=list)


@dataclass
class Aviary:
    """All places that receive a command's output (a heartbeat, a Slack, folders), and what was read already."""

    folder: Path
    heartbeat: Calls
    slack: FakeSlack
    read: dict[str, int] = field(default_factory=dict)

    def new(self, place: str, items: Sequence[object]) -> str:
        """The items that have arrived since the last call."""
        found = repr(list(items)[self.read.get(place, 0) :])
        self.read[place] = len(items)
        return found

    def written(self) -> str:
        """The pages that were written since the last call."""
        found = ""
        for path in self.folder.rglob("*"):
            if path.suffix in (".html", ".md", ".csv", ".json") and path.is_file():
                at = path.stat().st_mtime_ns
                found += path.read_text("utf-8", "replace") if self.read.get(str(path)) != at else ""
                self.read[str(path)] = at
        return found

    def places(self, environ: Mapping[str, str]) -> dict[str, str]:
        """By place, everything that a command may have left there."""
        calls = [body for _, body in self.heartbeat.made]
        slack = [{k: v for k, v in sent.items() if k != "token"} for _, sent in self.slack.calls]
        return {
            "heartbeat": self.new("heartbeat", calls), "slack": self.new("slack", slack),
            "history": stored(environ.get("CALMON_STORE_URL", "")),
            "files": self.written(),
        }  # fmt: skip


def stored(url: str) -> str:
    """Every value of every table of a history, as text; empty if it cannot be read."""
    if not url.startswith("sqlite:///"):
        return ""
    path = Path(url.removeprefix("sqlite:///").partition("?")[0])
    if not path.is_file():
        return ""
    connection = sqlite3.connect(path)
    try:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return "\n".join(repr(connection.execute(_texts(connection, table)).fetchall()) for table in tables)
    except sqlite3.DatabaseError:
        return ""
    finally:
        connection.close()


def _texts(connection: sqlite3.Connection, table: str) -> str:
    kinds = {row[1]: row[2] for row in connection.execute(f'PRAGMA table_info("{table}")')}
    texts = [name for name, kind in kinds.items() if kind.startswith(("TEXT", "VARCHAR", "CHAR", "JSON"))]
    return f'SELECT {", ".join(f"{chr(34)}{name}{chr(34)}" for name in texts) or "1"} FROM "{table}"'


@contextmanager
def own_edges() -> Iterator[None]:
    """Restore after the test what a process sets at its start."""
    factory, hook, in_threads = logging.getLogRecordFactory(), sys.excepthook, threading.excepthook
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        logging.setLogRecordFactory(factory)
        sys.excepthook, threading.excepthook = hook, in_threads


def called(words: Sequence[str], environ: Mapping[str, str]) -> tuple[int, str]:
    """``calmon`` as a terminal runs it, in this process: its exit code, and all it printed and logged."""
    output = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    handler = logging.StreamHandler(output)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    kept, streams, arguments = dict(os.environ), (sys.stdout, sys.stderr), sys.argv
    root = logging.getLogger()
    level = root.level
    for name in [name for name in os.environ if name.startswith("CALMON_")]:
        del os.environ[name]
    os.environ |= environ
    sys.stdout = sys.stderr = output
    sys.argv = ["calmon", *words]
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    code = 0
    try:
        main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
    except BaseException as error:  # noqa: BLE001 - printed as Python would
        import traceback

        output.write("".join(traceback.format_exception(error)))
        code = 1
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        sys.stdout, sys.stderr = streams
        sys.argv = arguments
        for name in set(os.environ) - set(kept):
            del os.environ[name]
        os.environ |= kept
    return code, output.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]


def parts_in(text: str) -> list[str]:
    """The parts of canaries in a text. A plain search comes first, since it is faster and usually finds none."""
    small = text.lower()
    return WORDS.findall(text) if any(part in small for part in PARTS) else []


def tried(situation: str, words: Sequence[str], environ: Mapping[str, str], aviary: Aviary) -> Trial:
    """Run the command once; returns every place where a canary is found now."""
    code, output = called(words, environ)
    trial = Trial(situation, " ".join(words), code, output)
    for place, text in ({"output": output} | aviary.places(environ)).items():
        found, key = parts_in(text), f"{situation} {place}"
        before = aviary.read.get(key, 0) if place == "history" else 0  # what an earlier command left counts once
        if len(found) > before:
            trial.seen.append(f"{place}: {found[-3:]}")
        aviary.read[key] = len(found)
    return trial
