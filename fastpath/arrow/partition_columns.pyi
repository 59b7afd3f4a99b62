from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastpath.image.columns import Columns
from fastpath.image.views import View

def rows_of(view: View, topics: list[int]) -> NDArray[np.int64]:
    """Rows of the partitions of some topics (rows of topics in use), by topic and number: int64, one dimension."""

def partitions(view: View, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Columns of some partition rows as a dict: `topic` (row), `number`, `leader`, `leader_epoch`, `partition_epoch` int32,
    `replicas`, `isr`, `directories` (offsets int32, values int32; directories are numbers of view.directory_ids), and
    `rare`: indices of the rows whose ISR or rare fields the caller must read one by one."""

def journal(columns: Columns) -> dict[str, Any]:
    """All writes to partitions since the last commit, oldest first, as a dict of arrays with one entry for each write:
    `row` int64 and `offset` int64; and under `old` and `new`, for before and after the write, `leader`, `leader_epoch`
    int32, `flags` uint8, and `isr` and `replicas` as (offsets, values). New rows are not in it, because their first
    write has nothing to undo."""
