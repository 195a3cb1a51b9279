"""The subjects that one configuration does not judge because of rejected rows."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.config.model import Config
from monitor.core.baseline import Baseline
from monitor.core.records import RejectReason
from monitor.core.rejection import Read, rejections
from monitor.core.rejection_records import Rejections
from monitor.history.readings import StoredReading


def rejected_in(kept: StoredReading, config: Config, baselines: Mapping[str | None, Baseline]) -> Rejections:
    """The subjects of a stored reading that this configuration does not judge because of rejected rows."""
    repeated = sum(each.rows for each in kept.quality if each.reason == RejectReason.DUPLICATE)
    labelled = config.sources[kept.source].kind != "regression"
    read = Read(kept.cells, kept.labels, kept.rows, repeated, labelled)
    return rejections(read, baselines, config.evaluation.max_rejected)
