"""docs/ as a site: built without a warning, its pages ask no other machine, and the generated pages are whole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from monitor.alerting.health.issues import WatchReason
from tests import command_page

ROOT = Path(__file__).parents[3]
FETCHED = re.compile(r'<(?:link|script|img|iframe|source)\b[^>]*?\b(?:href|src)="((?:https?:)?//[^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make docs` builds it, in three seconds: a link, an anchor or a page that is missing is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)], cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def test_every_document_is_a_page_of_the_site(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if not (site / page / "index.html").is_file()] == []
    home = (site / "index.html").read_text("utf-8")
    assert [page for page in pages if f'href="{page.as_posix()}/"' not in home] == []  # in the navigation
    assert (site / "alerts.schema.json").is_file()


def test_the_page_on_commands_has_every_command_with_its_options(site: Path) -> None:
    page = (site / "commands" / "index.html").read_text("utf-8")
    for words in command_page.commands():
        command = command_page.command_of(words)
        if not command_page.is_group(command):
            assert f'id="calmon-{"-".join(words)}"' in page
            assert [
                o for each in command.params for o in each.opts if o != "--help" and f"<code>{o}</code>" not in page
            ] == []


def test_no_page_asks_another_machine_for_anything(site: Path) -> None:
    asked = {found for path in site.rglob("*.html") for found in FETCHED.findall(path.read_text("utf-8"))}
    assert asked == set()
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"url\(['\"]?(?:https?:)?//", styles) == []
    # the only script of the theme that is fetched elsewhere draws such diagrams
    assert not [path for path in site.rglob("*.html") if 'class="mermaid"' in path.read_text("utf-8")]


def test_no_fence_and_no_list_is_left_as_text(site: Path) -> None:
    for path in site.rglob("*.html"):
        prose = re.sub(r"<(pre|code)\b.*?</\1>", "", path.read_text("utf-8"), flags=re.DOTALL)
        assert "```" not in prose, path
        assert not re.search(r"<p>(?:[^<]*\n)- ", prose), path


def test_the_reference_names_every_reason_and_every_rule(site: Path) -> None:
    text = (site / "reference" / "index.html").read_text("utf-8")
    pages = [path for kind in ("rules", "runbook") for path in sorted((ROOT / "docs" / kind).glob("*.md"))]
    missing = [path.stem for path in pages if f"{path.parent.name}/{path.stem}/" not in text]
    assert set(missing) <= {reason.value for reason in WatchReason}
