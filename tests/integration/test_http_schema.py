"""Schemathesis tries the real service against its own description, with thousands of right and wrong requests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from monitor.history.store import Store
from tests.fakes.service import make_place, running

CASES = Path(__file__).parents[1] / "cases" / "http"
SECONDS = 300  # about half a minute on a machine of one's own


def test_schemathesis_finds_no_500_and_no_undocumented_answer(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    report = tmp_path / "report.json"
    with running(place, "--no-access-log") as service:
        environment = os.environ | {
            "CALMON_TEST_TOKEN": place.tokens["boss"], "SCHEMATHESIS_HOOKS": "future", "PYTHONPATH": str(CASES),
        }  # fmt: skip
        words = [f"--config-file={CASES / 'schemathesis.toml'}", "run", f"{service.url}/openapi.json"]
        found = subprocess.run(
            [str(Path(sys.executable).with_name("st")), *words, "--report-json-path", str(report)],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        output = service.output()
    assert found.returncode == 0, found.stdout + found.stderr
    tried = re.search(r"Tested: (\d+)", found.stdout)
    cases = re.search(r"(\d+) generated", found.stdout)
    assert int(tried[1]) == 11
    assert int(cases[1]) > 200
    assert json.loads(report.read_text("utf-8"))
    assert "Traceback" not in output
    assert not any(token in output for token in place.tokens.values())
    with Store.from_url(place.store_url) as store:
        assert any(event.actor == "api:boss" for event in store.switch_events())  # it got through to the switch
