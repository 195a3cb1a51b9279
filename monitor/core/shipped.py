"""Files beside the code that ship with the program: the rules of the demo and the schedules."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parents[1]
#: In a wheel ``setup.py`` has copied them into the package; in a checkout they are where people edit them.
_PLACES = (_HERE / "shipped", _HERE.parent)

RULES_FILE = "alerts.yaml"
SCHEDULES_FILE = "deployments/prefect.yaml"
LOGGING_FILE = "deployments/logging.yml"


def shipped(name: str) -> Path:
    """The path of a shipped file.

    Raises FileNotFoundError if this installation has no such file.
    """
    for place in _PLACES:
        if (place / name).is_file():
            return place / name
    raise FileNotFoundError(f"{name} is not part of this installation: install calibration-monitor again")
