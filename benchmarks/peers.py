"""Other libraries that measure calibration. They have no intervals, so each is run in a plain bootstrap of rows.

None of them is needed to run or test this project. A library that is not installed gets a line that says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Errors = tuple[float, ...]  # ECE, and MCE if the library has it
Measure = Callable[[Floats, npt.NDArray[np.int64]], Errors]

BINS = 15


@dataclass(frozen=True, slots=True)
class Peer:
    """A library: ``measure()`` imports it and returns the function from (scores, outcomes) to its errors.

    ``frequent``: it has equal-frequency bins, so that its plug-in ECE is comparable with ours.
    """

    name: str
    package: str
    what: str
    measure: Callable[[], Measure]
    frequent: bool

    @property
    def installed(self) -> bool:
        """Whether it is installed."""
        return find_spec(self.package) is not None

    @property
    def version(self) -> str:
        """Its installed version."""
        return version(self.package)


def _netcal() -> Measure:
    from netcal.metrics import ECE, MCE  # noqa: PLC0415 - loads torch

    measures = [metric(BINS, equal_intervals=False) for metric in (ECE, MCE)]
    return lambda score, outcome: tuple(float(metric.measure(score, outcome)) for metric in measures)


def _torchmetrics() -> Measure:
    import torch  # noqa: PLC0415 - 750 MB
    from torchmetrics.functional.classification import binary_calibration_error  # noqa: PLC0415

    def measure(score: Floats, outcome: npt.NDArray[np.int64]) -> Errors:
        given = torch.from_numpy(score), torch.from_numpy(outcome)
        return tuple(
            float(binary_calibration_error(*given, n_bins=BINS, norm=norm, validate_args=False))
            for norm in ("l1", "max")
        )

    return measure


def _relplot() -> Measure:
    from relplot.metrics import smECE  # noqa: PLC0415 - loads matplotlib and seaborn

    return lambda score, outcome: (float(smECE(score, outcome)),)


PEERS = (
    Peer("netcal", "netcal", "ECE and MCE, bins of equal row numbers", _netcal, True),
    Peer("torchmetrics", "torchmetrics", "ECE and MCE, bins of equal width, unchecked arguments", _torchmetrics, False),
    Peer("relplot", "relplot", "smoothed ECE, no MCE", _relplot, False),
)
