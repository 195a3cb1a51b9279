"""What a statement says that counts all there is to count at once, by division."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.records import WHERES, RejectedCell
from monitor.warehouse.count_statements import (
    OF_CLUSTERS,
    OF_EXAMPLES,
    OF_REJECTED,
    OF_SEGMENTS,
    OF_VERSIONS,
    place_and_truth,
)
from monitor.warehouse.dialects import Arrays
from monitor.warehouse.shown_rows import EXAMPLES, unpacked

Shown = Mapping[str, Sequence[Mapping[str, str | None]]]
"""Some rejected rows by reason, each as texts by name."""


@dataclass(frozen=True, slots=True)
class CountedAtOnce:
    """The result of a statement: its columns, and ``division`` as numbers, one a row."""

    columns: Arrays
    division: npt.NDArray[np.int64]

    @classmethod
    def of(cls, columns: Arrays) -> CountedAtOnce:
        """The result in these columns."""
        return cls(columns, np.asarray(columns["division"], dtype=np.int64))

    def crowded(self, segments: Sequence[str], limit: int) -> list[str]:
        """The ``segments``, in the order in which they were asked for, that have more values than ``limit``."""
        counted = self._of(OF_SEGMENTS, ("key", "n"))
        numbers = {int(place): int(n) for place, n in zip(*(column.tolist() for column in counted), strict=True)}
        for place in range(1, len(segments) + 1):
            if place not in numbers:  # its values are counted here
                numbers[place] = len(set(self.columns["value"][self.division == place].tolist()))
        return [name for place, name in enumerate(segments, start=1) if numbers[place] > limit]

    def groups(self, kept: Sequence[int]) -> Arrays:
        """The groups of all rows, by version, and of the segments whose divisions are ``kept``, numbered anew."""
        names = [name for name in self.columns if not name.startswith(("hits", *(f"{where}_" for where in WHERES)))]
        chosen = np.isin(self.division, [0, OF_VERSIONS, *kept])
        groups = {name: self.columns[name][chosen] for name in names}
        number = self.division[chosen]
        return {**groups, "division": np.where(number > 0, np.searchsorted([0, *kept], number), number)}

    def clusters(self, names: Sequence[str]) -> Arrays:
        """The sums within clusters by label: columns of their own, or rows with the place of one of ``names``."""
        if f"{WHERES[0]}_r" in self.columns:
            return {name: column[self.division == OF_CLUSTERS] for name, column in self.columns.items()}
        labels, places, values = self._of(OF_CLUSTERS, ("label", "key", "hits"))
        each = list(dict.fromkeys(labels.tolist()))
        at = {label: row for row, label in enumerate(each)}
        sums = np.full((len(names), len(each)), np.nan)
        for label, place, value in zip(labels.tolist(), places.tolist(), values.tolist(), strict=True):
            sums[int(place), at[label]] = np.nan if value is None else value
        return {"label": np.array(each, dtype=object), **dict(zip(names, sums, strict=True))}

    def rejected(self) -> Iterator[RejectedCell]:
        """The rejected rows."""
        columns = (column.tolist() for column in self._of(OF_REJECTED, ("label", "value", "key", "n", "hits")))
        for label, reason, key, n, hits in zip(*columns, strict=True):
            place, truth = place_and_truth(int(key))
            known = 0.0 if hits is None or math.isnan(hits) else float(hits)
            yield RejectedCell(label or None, str(reason), place, truth, int(n), known)

    def shown(self) -> Shown:
        """Some rejected rows by reason."""
        found: dict[str, list[Mapping[str, str | None]]] = {}
        columns = (column.tolist() for column in self._of(OF_EXAMPLES, ("value", "label", "n")))
        for reason, text, n in sorted(
            zip(*columns, strict=True), key=lambda row: row[1].encode("utf-8", "surrogatepass")
        ):
            rows = found.setdefault(str(reason), [])
            rows += [unpacked(str(text))] * min(int(n), EXAMPLES - len(rows))
        return found

    def _of(self, division: int, names: Iterable[str]) -> list[npt.NDArray[np.generic]]:
        chosen = self.division == division
        return [self.columns[name][chosen] for name in names]
