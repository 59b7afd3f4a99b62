"""Many partitions at once from an image's columns, as numpy arrays for tables.

This file alone decides how the columns (fastpath/image/columns.pxd) become numpy arrays: one entry for each requested
row, and lists as 32-bit offsets and values. The caller reads rare data (more than 32 replicas, reassignments, eligible
leaders) row by row.
"""

import numpy as np

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from fastpath.image.chains cimport Extent
from fastpath.image.columns cimport NOTE_RARE, Cells, Change, Columns
from fastpath.image.views cimport CHUNK, CHUNK_BITS, LIVE, MASK_BITS, RARE, Table, View


def rows_of(View view, list topics):
    """Rows of the partitions of some topics (rows of topics in use), by topic and number: int64, one dimension."""
    cdef const Extent* extents
    cdef bytes chain
    cdef Py_ssize_t i, count = 0, at = 0
    cdef int32_t row
    cdef int64_t[::1] room
    chains = [view.chains.get(topic) for topic in topics]
    for chain in chains:
        extents = <const Extent*><const char*>chain
        for i in range(len(chain) // <Py_ssize_t>sizeof(Extent)):
            count += extents[i].count
    rows = np.empty(count, dtype=np.int64)
    room = rows
    for chain in chains:
        extents = <const Extent*><const char*>chain
        for i in range(len(chain) // <Py_ssize_t>sizeof(Extent)):
            for row in range(extents[i].row, extents[i].row + extents[i].count):
                room[at] = row
                at += 1
    return rows


def partitions(View view, int64_t[::1] rows):
    """Columns of some partition rows as a dict: `topic` (row), `number`, `leader`, `leader_epoch`, `partition_epoch` int32,
    `replicas`, `isr`, `directories` (offsets int32, values int32; directories are numbers of view.directory_ids), and
    `rare`: indices of the rows whose ISR or rare fields the caller must read one by one."""
    cdef Py_ssize_t count = rows.shape[0], i, at, replicas_size = 0, directories_size = 0, rare_count = 0
    cdef Py_ssize_t replicas_at = 0, isr_at = 0, directories_at = 0
    cdef Table* table
    cdef const int32_t* values
    cdef int32_t j
    cdef uint32_t mask
    cdef int32_t[::1] topic, number, leader, leader_epoch, partition_epoch
    cdef int32_t[::1] replicas_offsets, replicas, isr_offsets, isr, directories_offsets, directories
    cdef int64_t[::1] rare
    for i in range(count):
        if rows[i] < 0 or rows[i] >= view.row_end:
            raise IndexError(rows[i])
    found = {name: np.empty(count, dtype=np.int32)
             for name in ("topic", "number", "leader", "leader_epoch", "partition_epoch")}
    topic, number, leader = found["topic"], found["number"], found["leader"]
    leader_epoch, partition_epoch = found["leader_epoch"], found["partition_epoch"]
    with nogil:
        for i in range(count):
            table, at = view.table[rows[i] >> CHUNK_BITS], rows[i] & (CHUNK - 1)
            replicas_size += view.lists.at(table.replicas[at])[0]
            directories_size += view.lists.at(table.directories[at])[0]
            rare_count += table.flags[at] & RARE != 0
    lists = {
        "replicas": (np.empty(count + 1, dtype=np.int32), np.empty(replicas_size, dtype=np.int32)),
        "isr": (np.empty(count + 1, dtype=np.int32), np.empty(replicas_size, dtype=np.int32)),
        "directories": (np.empty(count + 1, dtype=np.int32), np.empty(directories_size, dtype=np.int32)),
    }
    rare_rows = np.empty(rare_count, dtype=np.int64)
    replicas_offsets, replicas = lists["replicas"]
    isr_offsets, isr = lists["isr"]
    directories_offsets, directories = lists["directories"]
    rare = rare_rows
    rare_count = 0
    replicas_offsets[0] = isr_offsets[0] = directories_offsets[0] = 0
    with nogil:
        for i in range(count):
            table, at = view.table[rows[i] >> CHUNK_BITS], rows[i] & (CHUNK - 1)
            topic[i], number[i], leader[i] = table.topic[at], table.number[at], table.leader[at]
            leader_epoch[i], partition_epoch[i] = table.leader_epoch[at], table.partition_epoch[at]
            values, mask = view.lists.at(table.replicas[at]), table.isr[at]
            for j in range(values[0]):
                replicas[replicas_at] = values[1 + j]
                replicas_at += 1
                if j < MASK_BITS and mask >> j & 1:
                    isr[isr_at] = values[1 + j]
                    isr_at += 1
            values = view.lists.at(table.directories[at])
            for j in range(values[0]):
                directories[directories_at] = values[1 + j]
                directories_at += 1
            replicas_offsets[i + 1], isr_offsets[i + 1] = <int32_t>replicas_at, <int32_t>isr_at
            directories_offsets[i + 1] = <int32_t>directories_at
            if table.flags[at] & RARE:
                rare[rare_count] = i
                rare_count += 1
    lists["isr"] = lists["isr"][0], lists["isr"][1][:isr_at]
    return {**found, **lists, "rare": rare_rows}


def journal(Columns columns):
    """All writes to partitions since the last commit, oldest first, as a dict of arrays with one entry for each write:
    `row` int64 and `offset` int64; and under `old` and `new`, for before and after the write, `leader`, `leader_epoch`
    int32, `flags` uint8, and `isr` and `replicas` as (offsets, values). New rows are not in it, because their first
    write has nothing to undo."""
    cdef Py_ssize_t count = columns.changes_end - columns.changes_head, i, k
    cdef Change* changes = columns.changes + columns.changes_head
    cdef Cells now
    cdef Table* table
    cdef Py_ssize_t at
    cdef int32_t[::1] last = np.full(columns.row_end + 1, -1, dtype=np.int32)
    cdef int64_t[::1] row, offset
    rows, offsets = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    row, offset = rows, offsets
    after = np.empty((count, sizeof(Cells)), dtype=np.uint8)
    before = np.empty((count, sizeof(Cells)), dtype=np.uint8)
    cdef uint8_t[:, ::1] new = after, old = before
    cdef dict rare_then = {}, wide_before = {}, wide_after = {}
    notes = {}
    for _, kind, a, b in columns.notes:
        if kind == NOTE_RARE:
            notes.setdefault(a, []).append(b)
    for i in range(count - 1, -1, -1):
        row[i], offset[i] = changes[i].row, changes[i].offset
        if changes[i].rare or changes[i].cells.flags & RARE or changes[i].row in rare_then:
            rare = rare_then[row[i]] if row[i] in rare_then else columns.rare_at(row[i])
            wide_after[i] = 0 if rare is None else rare[1]
            if changes[i].rare:
                rare = notes[row[i]].pop()
            wide_before[i] = 0 if rare is None else rare[1]
            rare_then[row[i]] = rare
        k = last[changes[i].row]
        if k >= 0:
            now = changes[k].cells
        else:
            table, at = columns.table[changes[i].row >> CHUNK_BITS], changes[i].row & (CHUNK - 1)
            now.replicas, now.isr, now.leader = table.replicas[at], table.isr[at], table.leader[at]
            now.leader_epoch, now.partition_epoch = table.leader_epoch[at], table.partition_epoch[at]
            now.directories, now.flags = table.directories[at], table.flags[at]
        memcpy(&new[i, 0], &now, sizeof(Cells))
        memcpy(&old[i, 0], &changes[i].cells, sizeof(Cells))
        last[changes[i].row] = <int32_t>i
    return {
        "row": rows, "offset": offsets,
        "old": cells_of(columns, before, count, wide_before), "new": cells_of(columns, after, count, wide_after),
    }


cdef dict cells_of(Columns columns, object packed, Py_ssize_t count, dict wides):
    """`wides`: entry -> the bits of its ISR from the 33rd replica on."""
    cdef Cells* cells = NULL
    cdef Py_ssize_t i, total = 0, replicas_at = 0, isr_at = 0
    cdef const int32_t* values
    cdef int32_t j
    cdef uint8_t[:, ::1] view = packed
    cdef int32_t[::1] leader, leader_epoch, isr_offsets, isr, replicas_offsets, replicas
    cdef uint8_t[::1] flags
    found = {"leader": np.empty(count, dtype=np.int32), "leader_epoch": np.empty(count, dtype=np.int32),
             "flags": np.empty(count, dtype=np.uint8)}
    leader, leader_epoch, flags = found["leader"], found["leader_epoch"], found["flags"]
    for i in range(count):
        total += columns.lists.at((<Cells*>&view[i, 0]).replicas)[0]
    isr_arrays = np.empty(count + 1, dtype=np.int32), np.empty(total, dtype=np.int32)
    replicas_arrays = np.empty(count + 1, dtype=np.int32), np.empty(total, dtype=np.int32)
    isr_offsets, isr = isr_arrays
    replicas_offsets, replicas = replicas_arrays
    isr_offsets[0] = replicas_offsets[0] = 0
    for i in range(count):
        cells = <Cells*>&view[i, 0]
        leader[i], leader_epoch[i], flags[i] = cells.leader, cells.leader_epoch, cells.flags & LIVE
        values = columns.lists.at(cells.replicas)
        for j in range(values[0]):
            replicas[replicas_at] = values[1 + j]
            replicas_at += 1
            if cells.isr >> j & 1 if j < MASK_BITS else wides.get(i, 0) >> (j - MASK_BITS) & 1:
                isr[isr_at] = values[1 + j]
                isr_at += 1
        isr_offsets[i + 1], replicas_offsets[i + 1] = <int32_t>isr_at, <int32_t>replicas_at
    found["isr"] = isr_arrays[0], isr_arrays[1][:isr_at]
    found["replicas"] = replicas_arrays
    return found
