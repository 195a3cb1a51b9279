"""The documents that messages link to: in a checkout and in an installed program, as safe pages."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from monitor.core import documents
from monitor.report.document_page import document_html, index_html

ROOT = Path(__file__).parents[3]


def test_every_document_of_the_checkout_is_a_page() -> None:
    assert documents.folder() == ROOT / "docs"
    found = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert documents.pages() == found
    assert {"runbook/above_threshold", "rules/automated-overconfidence", "alerts"} <= found


@pytest.mark.parametrize("name", ["../README", "/etc/passwd", "runbook/../../README", "nothing", ""])
def test_nothing_but_a_document_is_read(name: str) -> None:
    assert documents.text_of(name) is None
    assert documents.picture_of(f"{name}.png") is None


@pytest.mark.parametrize("name", sorted(documents.pages()))
def test_every_link_of_a_page_leads_to_a_page_or_elsewhere(name: str) -> None:
    text = documents.text_of(name)
    assert text is not None
    page = document_html(name, text, documents.pages())
    folder = PurePosixPath("/docs") / PurePosixPath(name).parent
    for target in re.findall(r'<a href="([^"#]+)', page):
        if not re.match(r"https?:", target) and target not in ("./", "../", "../../", ".././"):
            where = Path(f"{folder}/{target}").as_posix()
            found = PurePosixPath(str((Path("/") / where).resolve())).relative_to("/docs").as_posix()
            assert found in documents.pages(), target
    for target in re.findall(r'<img src="([^"]+)"', page):
        assert (ROOT / "docs" / PurePosixPath(name).parent / target).is_file()


def test_a_page_lets_no_markup_of_its_own_through() -> None:
    page = document_html(
        "a", "# <img src=x onerror=alert(1)>\n\n<script>alert(1)</script> [x](javascript:alert(1))", {"a"}
    )
    assert "<script" not in page
    assert "<img" not in page
    assert "javascript:" not in re.findall(r'href="([^"]*)"', page)
    assert 'href="runbook/increased"' in index_html(documents.titles())


def test_a_built_program_carries_the_documents_that_its_messages_link_to(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("calmon_setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "monitor" / "core").mkdir(parents=True)
    for name in ("__init__.py", "core/__init__.py", "core/documents.py"):
        shutil.copy(ROOT / "monitor" / name, tmp_path / "monitor" / name)
    module.copy_files(tmp_path / "monitor")
    asked = "import monitor.core.documents as d; print(d.folder(), len(d.pages()), len(d.text_of('runbook/increased')))"
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip
    where, pages, length = done.stdout.split()
    assert Path(where) == tmp_path / "monitor" / "docs"
    assert int(pages) == len(documents.pages())
    assert int(length) > 100
