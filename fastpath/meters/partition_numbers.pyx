# cython: auto_pickle=False
"""The numbers of partitions, read from what their logs keep, many in one call.

This file alone decides which attributes those are. A broker has thousands of partitions and one thread, which reads them in
slices: what a partition costs here is what a scrape costs.
"""

import numpy as np

from libc.stdint cimport int64_t

COLUMNS = (
    "size", "segments", "start", "end", "under_replicated", "under_min_isr", "at_min_isr", "replicas", "in_sync", "lag"
)
"""What stands in each column. `lag`: how many records a follower lacks of what its leader has committed; -1: no follower,
or its leader has not told it yet."""
WIDTH = len(COLUMNS)


def read(list partitions, Py_ssize_t first, Py_ssize_t end):
    """Read partitions[first:end]. Returns (int64[end - first, WIDTH], producer ids that their logs remember)."""
    cdef int64_t[:, ::1] out
    cdef Py_ssize_t i, row
    cdef int64_t size, segments, producers = 0, log_end, told
    table = np.empty((end - first, WIDTH), np.int64)
    out = table
    for i in range(first, end):
        row = i - first
        partition = partitions[i]
        log = partition.log
        size = segments = 0
        if not log.blank:  # asking for what a blank log does not have yet would make it
            for segment in <list>log.segments:
                size += <int64_t>segment.log.size
            segments = len(<list>log.segments)
            producers += len(<dict>log.producers.by_id)
        standing = <tuple>partition.standing
        log_end = log.log_end_offset
        out[row, 0] = size
        out[row, 1] = segments
        out[row, 2] = log.log_start_offset
        out[row, 3] = log_end
        out[row, 4] = standing[2]
        out[row, 5] = standing[3]
        out[row, 6] = standing[4]
        if standing[1]:
            out[row, 7] = len(partition.replicas)
            out[row, 8] = len(partition.isr.isr)
            out[row, 9] = -1
        else:
            out[row, 7] = out[row, 8] = 0
            told = partition.told_high_watermark
            out[row, 9] = max(0, told - log_end) if told >= 0 else -1
    return table, producers
