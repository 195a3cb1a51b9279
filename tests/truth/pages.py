"""What the pages show outside of their evidence: numbers and dates are those of the stories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.truth import messages

if TYPE_CHECKING:
    from tests.truth.checker import Checker
    from tests.truth.histories import Told
    from tests.truth.rows import Rows


def check(checker: Checker, rows: Rows, told: Told) -> None:
    """Somebody looks: the terminal, the overview, and the page of every label."""
    messages.terminal(checker, rows, told)
