"""The program as a person gets it: a wheel, built from an sdist of this checkout, in an environment outside of it.

Its dependencies are not installed again, which would take a minute: a .pth file names the folder with those of the
tests. The checkout is not found that way, since .pth files in such a folder are not read. Its processes can connect
only to this machine, and note other attempts in a file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = ("monitor", "flows", "docs", "deployments")
BUILD = """
import sys
from setuptools import build_meta
target, *kinds = sys.argv[1:]
for kind in kinds:
    getattr(build_meta, f"build_{kind}")(target)
"""

#: Python runs this before anything else. Addresses of this machine and Unix sockets are allowed.
OFFLINE = """
import socket, sys
from pathlib import Path

def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        address = arguments[1] if event == "socket.connect" else arguments[:1]
        host = address[0] if isinstance(address, tuple) else None
        if host not in (None, "", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::"):
            with Path(sys.prefix, "wanted.txt").open("a") as stream:
                stream.write(f"{host} {sys.argv}\\n")
            raise OSError(f"no network in this test: {host}")

sys.addaudithook(watch)
"""


@dataclass(frozen=True)
class Installed:
    """A wheel that is installed: its own file, that of the checkout, and the environment."""

    wheel: Path
    wheel_of_checkout: Path
    folder: Path

    @property
    def wanted(self) -> str:
        """The other machines that its processes tried to reach."""
        noted = self.folder / "wanted.txt"
        return noted.read_text("utf-8") if noted.exists() else ""

    @property
    def calmon(self) -> str:
        return str(self.folder / "bin" / "calmon")

    @property
    def environment(self) -> dict[str, str]:
        """The environment of this process, without variables that lead to the checkout or to a configuration."""
        ours = ("CALMON_", "PREFECT_", "PYTHONPATH", "VIRTUAL_ENV", "COLUMNS")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return kept | {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "DO_NOT_TRACK": "1"}

    def run(
        self, folder: Path, *words: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """``calmon WORDS`` in that folder."""
        return subprocess.run(
            [self.calmon, *words], cwd=folder, env=self.environment | (environment or {}), capture_output=True,
            text=True, timeout=1500, check=False,
        )  # fmt: skip


def build(source: Path, target: Path, *kinds: str) -> list[Path]:
    """Build the wheel or the sdist of a source tree, in which build files remain."""
    target.mkdir(exist_ok=True)
    known = set(target.iterdir())
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BUILD, str(target), *kinds], cwd=source, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return sorted(set(target.iterdir()) - known)


def copy_checkout(target: Path) -> Path:
    """Copy the sources to build from, since a build leaves folders in its tree."""
    target.mkdir()
    for path in ROOT.iterdir():
        if path.name in OURS:
            shutil.copytree(path, target / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.is_file():
            shutil.copy(path, target)
    return target


def contents(wheel: Path) -> dict[str, int]:
    """The files of a wheel with their checksums, without the RECORD file."""
    with zipfile.ZipFile(wheel) as opened:
        return {each.filename: each.CRC for each in opened.infolist() if not each.filename.endswith("/RECORD")}


def install(folder: Path) -> Installed:
    """Build both, install the wheel of the sdist; ``folder`` is empty."""
    checkout = copy_checkout(folder / "checkout")
    direct, sdist = sorted(build(checkout, folder / "direct", "sdist", "wheel"), key=lambda path: path.suffix != ".whl")
    (folder / "sdist").mkdir()  # Python's own way to unpack it without a warning begins with 3.11.4
    subprocess.run(["tar", "-xzf", str(sdist), "-C", str(folder / "sdist")], check=True, timeout=60)
    (unpacked,) = (folder / "sdist").iterdir()
    (wheel,) = build(unpacked, folder / "wheel", "wheel")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--no-compile", str(wheel)], check=True, capture_output=True, timeout=600)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    (packages / "sitecustomize.py").write_text(OFFLINE, "utf-8")
    return Installed(wheel, direct, folder / "venv")
