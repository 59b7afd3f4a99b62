from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastpath.image.columns import Columns
from fastpath.image.views import View

def rows_of(view: View, topics: list[int]) -> NDArray[np.int64]:
    """Rows of the partitions of some topics (rows of topics in use), topic by topic and by number."""

def partitions(view: View, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Columns of some partition rows as a dict: `topic` (row), `number`, `leader`, `leader_epoch`, `partition_epoch` int32,
    `replicas`, `isr`, `directories` (offsets int32, values int32; directories are numbers of view.directory_ids), and
    `rare`: indices of the rows whose ISR or rare fields must be asked for."""

def journal(columns: Columns) -> dict[str, Any]:
    """What was written to partitions since the last commit, oldest first, as a dict of arrays with one entry a write:
    `row` int64, `offset` int64, and before and after the write `leader`, `leader_epoch` int32, `flags` uint8, `isr` and
    `replicas`: (offsets, values), under `old` and `new`. New rows are not in it: their first write has nothing to undo."""
