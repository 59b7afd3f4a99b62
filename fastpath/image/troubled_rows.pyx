"""Which partitions are not as they should be, in one pass over all of them.

This file alone decides what a partition in trouble is: one without a leader, one whose ISR lacks a replica, one that is not led
by its preferred leader. The preferred leader is the first replica (KIP-460); a partition counts only while that replica is in
the ISR, since before it could not lead.

A slow twin is in tests/reference/troubled_rows.py.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint32_t

from fastpath.image.views cimport CHUNK, CHUNK_BITS, LIVE, MASK_BITS, RARE, Table, View

cdef extern from *:
    int __builtin_popcount(unsigned int) noexcept nogil


cdef inline bint is_short(View view, const Table* table, Py_ssize_t at, object rare):
    """Whether the ISR of a partition with more than 32 replicas lacks one."""
    cdef int32_t size = view.lists.at(table.replicas[at])[0]
    return __builtin_popcount(table.isr[at]) + (0 if rare is None else rare[1].bit_count()) < size


cdef inline bint is_led_elsewhere(int32_t leader, int32_t preferred, uint32_t isr) noexcept nogil:
    return leader >= 0 and leader != preferred and (isr & 1) != 0


def troubled(View view):
    """Rows of partitions, ascending: int64 arrays of those without a leader, of those whose ISR lacks a replica, and of those
    that are led by another replica than the preferred one, which is in the ISR."""
    cdef Py_ssize_t chunk, row, at, stop, leaderless = 0, short = 0, elsewhere = 0
    cdef const Table* table
    cdef const int32_t* replicas
    cdef int64_t[::1] without, lacking, moved
    cdef list wide = []
    found = [np.empty(max(view.row_end, 1), dtype=np.int64) for _ in range(3)]
    without, lacking, moved = found
    with nogil:
        for chunk in range((view.row_end + CHUNK - 1) >> CHUNK_BITS):
            table = view.table[chunk]
            row = chunk << CHUNK_BITS
            stop = CHUNK if view.row_end - row > CHUNK else view.row_end - row
            for at in range(stop):
                if not table.flags[at] & LIVE:
                    continue
                replicas = view.lists.at(table.replicas[at])
                without[leaderless] = row + at
                leaderless += table.leader[at] < 0
                lacking[short] = row + at
                if replicas[0] <= MASK_BITS:
                    short += __builtin_popcount(table.isr[at]) < replicas[0]
                else:
                    with gil:
                        short += is_short(view, table, at, view.rare_at(row + at))
                if replicas[0]:
                    moved[elsewhere] = row + at
                    elsewhere += is_led_elsewhere(table.leader[at], replicas[1], table.isr[at])
    return found[0][:leaderless].copy(), found[1][:short].copy(), found[2][:elsewhere].copy()


def missing(View view, int64_t[::1] rows):
    """The replicas that the ISRs of some partitions lack: (rows int64, brokers int32), in the order of `rows` and of each list
    of replicas. Replicas that a running reassignment adds are left out: they are not in sync yet. Raises IndexError."""
    cdef Py_ssize_t i, at, count = 0, total = 0
    cdef const Table* table
    cdef const int32_t* replicas
    cdef int32_t j
    cdef int64_t[::1] row
    cdef int32_t[::1] broker
    for i in range(rows.shape[0]):
        if rows[i] < 0 or rows[i] >= view.row_end:
            raise IndexError(rows[i])
        total += view.lists.at(view.table[rows[i] >> CHUNK_BITS].replicas[rows[i] & (CHUNK - 1)])[0]
    found = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int32)
    row, broker = found
    for i in range(rows.shape[0]):
        table, at = view.table[rows[i] >> CHUNK_BITS], rows[i] & (CHUNK - 1)
        replicas = view.lists.at(table.replicas[at])
        if table.flags[at] & RARE:
            absent = set(view.replicas(rows[i])) - set(view.isr(rows[i])) - set(view.adding(rows[i]))
            for j in range(replicas[0]):
                if replicas[1 + j] in absent:
                    row[count], broker[count] = rows[i], replicas[1 + j]
                    count += 1
            continue
        for j in range(replicas[0]):
            if not table.isr[at] >> j & 1:
                row[count], broker[count] = rows[i], replicas[1 + j]
                count += 1
    return found[0][:count].copy(), found[1][:count].copy()


def places(View view, int64_t[::1] rows):
    """(rows of topics, partition numbers, first replicas) of some partitions: three int32 arrays. A partition without replicas has
    the first replica -1. Raises IndexError."""
    cdef Py_ssize_t i, at
    cdef const Table* table
    cdef const int32_t* replicas
    cdef int32_t[::1] topic, number, first
    found = [np.empty(rows.shape[0], dtype=np.int32) for _ in range(3)]
    topic, number, first = found
    for i in range(rows.shape[0]):
        if rows[i] < 0 or rows[i] >= view.row_end:
            raise IndexError(rows[i])
        table, at = view.table[rows[i] >> CHUNK_BITS], rows[i] & (CHUNK - 1)
        replicas = view.lists.at(table.replicas[at])
        topic[i], number[i] = table.topic[at], table.number[at]
        first[i] = replicas[1] if replicas[0] else -1
    return tuple(found)
