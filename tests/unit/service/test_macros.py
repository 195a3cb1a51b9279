"""What the templates of the pages share."""

from __future__ import annotations

import pytest

from monitor.service.pages.base import environment


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Nothing to do.", "Nothing to do."),
        ("run `calmon db upgrade` once", "run <code>calmon db upgrade</code> once"),
        ("`calmon check`, then `calmon run`", "<code>calmon check</code>, then <code>calmon run</code>"),
        ("of `<b>`", "of <code>&lt;b&gt;</code>"),
        ("the label a`b: `calmon check`", "the label a<code>b: </code>calmon check`"),
        ("", ""),
    ],
)
def test_what_is_between_backticks_is_code(text: str, shown: str) -> None:
    macros = environment().get_template("macros.html.j2").make_module()
    assert macros.with_code(text) == shown  # type: ignore[attr-defined]  # a macro of the template
