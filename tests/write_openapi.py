"""Writes docs/openapi.json from the HTTP service: ``python -m tests.write_openapi``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from monitor.service.access import Guard
from monitor.service.app import application
from monitor.service.backend import Service

PAGE = Path(__file__).parents[1] / "docs" / "openapi.json"


def page() -> str:
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def document() -> dict[str, Any]:
    return application(cast("Service", None), Guard(None, local=True)).openapi()


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
