"""Variables of the environment that are named like calmon's and that nothing reads: most are misspelt."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from monitor.config.environment import PREFIX
from monitor.core.wording import clean

_NOT_OURS = re.compile(r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$")
"""What Kubernetes sets in every container for a service named calmon, or calmon-something."""
_OF_TESTS = f"{PREFIX}TEST_"
_ALIKE = 0.75
"""From which likeness of difflib on another name is probably meant: "DATABSE_URL" is as like "GATE_URL" as 0.74."""


def unknown_variables(environ: Mapping[str, str], known: Iterable[str]) -> list[str]:
    """A sentence for each variable that is set and not known, without its value; an empty one counts as not set.

    >>> unknown_variables({"CALMON_STORE_ULR": "x", "CALMON_PORT_80_TCP": "x", "CALMON_X": ""}, ["CALMON_STORE_URL"])
    ['CALMON_STORE_ULR is set, but nothing reads it: is CALMON_STORE_URL meant?']
    """
    names = set(known)
    ours = (name for name in sorted(environ) if name.startswith(PREFIX) and not _is_of_others(name))
    return [
        f"{clean(name, length=80)} is set, but nothing reads it: {_remedy(name, names)}"
        for name in ours
        if name not in names and environ[name].strip()
    ]


def _is_of_others(name: str) -> bool:
    return name.startswith(_OF_TESTS) or _NOT_OURS.search(name) is not None


def _remedy(name: str, known: Collection[str]) -> str:
    if name.removesuffix("_FILE") in known:
        return f"is {name.removesuffix('_FILE')} meant?"
    from difflib import get_close_matches  # noqa: PLC0415 - nearly no command needs it

    of_rest = {each.removeprefix(PREFIX): each for each in sorted(known)}
    near = get_close_matches(name.removeprefix(PREFIX), of_rest, 1, _ALIKE)
    return f"is {of_rest[near[0]]} meant?" if near else "docs/configuration.md lists what is read"
