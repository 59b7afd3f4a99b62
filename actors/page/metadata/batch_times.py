"""When the batches of a metadata log were written: what turns a time into an offset, and shows how much happened when.

This file alone decides how that is known: from the headers of batches, which are looked at once. Their records are not read.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from actors.replay.logs.files import Partition, mapped
from fastpath.records.scan import resync, scan

PARTS_MAX = 2_000
"""How many pieces the columns may come in before they are joined, which takes longer the longer the log is."""

Numbers = NDArray[np.int64]


class BatchTimes:
    """The headers of a log that grows, as columns."""

    def __init__(self, first: int) -> None:
        """`first`: the first offset that counts."""
        self._first = first
        self._places: dict[Path, int] = {}
        """How far each file was looked at, bytes."""
        self._parts: list[tuple[Numbers, Numbers, Numbers]] = []

    def look(self, log: Partition) -> None:
        """Look at what is new in a log's files. Raises OSError."""
        for segment in log.segments:
            data = mapped(segment.path)
            position = self._places.get(segment.path, 0)
            while position < len(data):
                headers, after, fault = scan(data, position, len(data), False)
                chosen = headers[headers["last_offset"] >= max(self._first, self.end)]
                if len(chosen):
                    if len(self._parts) >= PARTS_MAX:
                        self._join()
                    self._parts.append(
                        tuple(chosen[name].astype(np.int64) for name in ("base_offset", "max_timestamp", "count"))  # type: ignore[arg-type]
                    )
                position = after
                if fault is not None:
                    behind = resync(data, after + 1, len(data))
                    if behind >= len(data):
                        break  # a batch that is being written, or damage to the end
                    position = behind
            self._places[segment.path] = position

    @property
    def end(self) -> int:
        """The first offset of the last batch and one more: batches from there on are new."""
        return int(self._parts[-1][0][-1]) + 1 if self._parts else 0

    @property
    def columns(self) -> tuple[Numbers, Numbers, Numbers]:
        """(first offset, time in ms, records) of each batch, by offset."""
        if not self._parts:
            empty = np.zeros(0, dtype=np.int64)
            return empty, empty, empty
        if len(self._parts) > 1:
            self._join()
        return self._parts[0]

    @property
    def begun_ms(self) -> int | None:
        """The time of the first batch; None: there is none. It takes no look at the others, as it is asked all the time."""
        return int(self._parts[0][1][0]) if self._parts else None

    def _join(self) -> None:
        whole = [np.concatenate([part[at] for part in self._parts]) for at in range(3)]
        self._parts[:] = [(whole[0], whole[1], whole[2])]
