"""Makes docs/pictures/dashboard-*.png of the demo's pages: ``python -m tests.write_screenshots`` (a minute)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from tests.browser.conftest import CHROMIUM, PATIENCE_MS
from tests.fakes.service import Place, running

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
COLOURS = 256
"""A page has few: a picture with a palette takes a third of the bytes."""


@dataclass(frozen=True)
class Screenshot:
    """A part of a page: what the window shows once ``at`` is at its top."""

    name: str
    address: str
    size: tuple[int, int] = (1280, 960)
    at: str | None = None


SCREENSHOTS = (
    Screenshot("overview-light", ""),
    Screenshot("label-light", "label/tickets/billing"),
    Screenshot("automation-light", "automation", (1280, 900), at="#work"),
    Screenshot("compare-light", "compare?a=version:2.0&b=version:2.2&label=billing"),
)


def taken(browser: Browser, base: str, wanted: Screenshot, to: Path) -> None:
    """Open the page in the wanted size, and write its picture."""
    width, height = wanted.size
    page = browser.new_page(viewport={"width": width, "height": height})
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{base}/{wanted.address}", wait_until="networkidle")
    if wanted.at is not None:
        page.locator(wanted.at).evaluate("each => each.scrollIntoView()")
    path = to / f"dashboard-{wanted.name}.png"
    page.screenshot(path=path)
    page.close()
    Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)


def main() -> None:
    """Run the demo in a folder of its own, and take all pictures of its pages."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        shutil.copy(ROOT / "alerts.yaml", folder)
        place = Place(folder, f"sqlite:///{folder / 'history.sqlite'}", {})
        warehouse = {"CALMON_WAREHOUSE_URL": f"duckdb:///{folder / 'warehouse.duckdb'}"}
        environment = {**os.environ, **place.environment, **warehouse, "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-m", "monitor", "demo"], check=True, cwd=folder, env=environment)
        with running(place, **warehouse) as service, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE_MS)
            for wanted in SCREENSHOTS:
                taken(browser, service.url, wanted, PICTURES)
            browser.close()


if __name__ == "__main__":
    main()
