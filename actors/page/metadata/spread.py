"""How the partitions of each topic are spread over the brokers: the rows of the heat map.

topic, partitions, missing, leaderless, and for each broker b: [led, in the ISR, not in the ISR]
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

BROKERS_MAX = 200
"""The most brokers that have a column."""
LEFT_OUT = b"brokers left out"
"""Where a table says how many brokers have no column: among its metadata, which is kept when it is filtered and sorted."""


def spread(partitions: pa.Table) -> tuple[list[int], pa.Table]:
    """(brokers, a row for each topic). `partitions`: the table of that name. The brokers are those that have replicas, the
    first BROKERS_MAX of them: `left_out` says how many there are more."""
    encoded = partitions["topic"].combine_chunks().dictionary_encode()
    topics = encoded.dictionary
    of = encoded.indices.to_numpy(zero_copy_only=False)
    replicas, isr = partitions["replicas"].combine_chunks(), partitions["isr"].combine_chunks()
    every = np.unique(np.asarray(replicas.flatten()))
    brokers = every[:BROKERS_MAX]
    assigned = _counts(_owner(replicas, of), replicas, topics, brokers)
    in_sync = _counts(_owner(isr, of), isr, topics, brokers)
    leaders = partitions["leader"].to_numpy(zero_copy_only=False)
    led = _matrix(of, leaders, len(topics), brokers)
    sizes = pc.list_value_length(replicas).to_numpy(zero_copy_only=False)
    present = pc.list_value_length(isr).to_numpy(zero_copy_only=False)
    count = len(topics)
    columns: dict[str, Any] = {
        "topic": topics,
        "partitions": np.bincount(of, minlength=count),
        "missing": np.bincount(of, weights=np.maximum(sizes - present, 0), minlength=count).astype(np.int64),
        "leaderless": np.bincount(of, weights=np.isnan(leaders.astype(float)), minlength=count).astype(np.int64),
    }
    for at, broker in enumerate(brokers.tolist()):
        cells = np.stack([led[:, at], in_sync[:, at], np.maximum(assigned[:, at] - in_sync[:, at], 0)], axis=1)
        columns[f"b{broker}"] = pa.FixedSizeListArray.from_arrays(pa.array(cells.ravel(), pa.int64()), 3)
    return brokers.tolist(), pa.table(columns, metadata={LEFT_OUT: str(len(every) - len(brokers))})


def left_out(table: pa.Table) -> int:
    """How many brokers have no column in a table that was made by `spread`."""
    return int(table.schema.metadata[LEFT_OUT])


def _owner(lists: pa.ListArray, of: NDArray[np.int64]) -> NDArray[np.int64]:
    """The topic of each value in some lists, one list for each partition."""
    found: NDArray[np.int64] = of[np.asarray(pc.list_parent_indices(lists))]
    return found


def _counts(
    of: NDArray[np.int64], lists: pa.ListArray, topics: pa.Array, brokers: NDArray[np.int64]
) -> NDArray[np.int64]:
    return _matrix(of, np.asarray(lists.flatten()), len(topics), brokers)


def _matrix(
    of: NDArray[np.int64], ids: NDArray[np.int64], topics: int, brokers: NDArray[np.int64]
) -> NDArray[np.int64]:
    """How often each broker id occurs with each topic."""
    known = np.isin(ids, brokers)
    at = np.searchsorted(brokers, ids[known].astype(np.int64))
    flat = np.bincount(of[known] * len(brokers) + at, minlength=topics * len(brokers))
    return flat.reshape(topics, len(brokers))
