"""What several files of integration tests begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.history.store import Store
from tests.fakes.slack import FakeSlack, running


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with running() as fake:
        yield fake


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.from_url(f"sqlite:///{tmp_path}/history.sqlite") as opened:
        yield opened
