"""What has happened to partitions since the last commit, a bit a kind.

This file alone decides what counts as a move of a partition: another leader, a smaller or a larger ISR, another list of
replicas or another running reassignment. The first state of a partition is none, nor is its end. A write that changes the
replicas is a REPLICAS move, whatever becomes of the ISR.

A twin that goes through Python objects is in tests/reference/partition_moves.py.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc

from fastpath.image.columns cimport NOTE_NEW_ROWS, NOTE_RARE, Cells, Change, Columns
from fastpath.image.views cimport CHUNK, CHUNK_BITS, LIVE, Table

cdef extern from *:
    int __builtin_popcount(unsigned int) noexcept nogil

cdef enum:
    LEADER_BIT = 1
    SMALLER_BIT = 2
    LARGER_BIT = 4
    REPLICAS_BIT = 8

LEADER, SMALLER, LARGER, REPLICAS = LEADER_BIT, SMALLER_BIT, LARGER_BIT, REPLICAS_BIT


cdef inline uint8_t moved(const Cells* old, const Cells* new) noexcept nogil:
    """What has changed between two states, as far as the columns tell."""
    cdef int before, after
    cdef uint8_t found = 0
    if not (old.flags & LIVE and new.flags & LIVE):
        return 0
    if old.leader != new.leader:
        found = LEADER_BIT
    if old.replicas != new.replicas:
        return found | REPLICAS_BIT
    before, after = __builtin_popcount(old.isr), __builtin_popcount(new.isr)
    if after < before:
        found |= SMALLER_BIT
    elif after > before:
        found |= LARGER_BIT
    return found


cdef uint8_t moved_rarely(const Cells* old, const Cells* new, object before, object after):
    """The same where the rare fields of both states count: running reassignments, and the ISR's bits from the 33rd replica
    on."""
    cdef uint8_t found = moved(old, new)
    cdef Py_ssize_t grown = __builtin_popcount(new.isr) - __builtin_popcount(old.isr)
    (extra, high), (then, higher) = before or (None, 0), after or (None, 0)
    if found & REPLICAS_BIT or not (old.flags & LIVE and new.flags & LIVE):
        return found
    if ((extra.adding, extra.removing) if extra else ((), ())) != ((then.adding, then.removing) if then else ((), ())):
        return found & LEADER_BIT | REPLICAS_BIT
    grown += higher.bit_count() - high.bit_count()
    return found & LEADER_BIT | (LARGER_BIT if grown > 0 else SMALLER_BIT if grown < 0 else 0)


cdef class Moves:
    """Reads moves out of columns, with room that is used again."""

    cdef int32_t* last                  # row -> its earliest write that was looked at; Invariant: -1 between two calls
    cdef Py_ssize_t room

    def __dealloc__(self):
        free(self.last)

    cdef int _make_room(self, Py_ssize_t rows) except -1:
        cdef int32_t* last
        cdef Py_ssize_t row
        if rows > self.room:
            last = <int32_t*>realloc(self.last, 2 * rows * sizeof(int32_t))
            if last == NULL:
                raise MemoryError
            self.last = last
            for row in range(self.room, 2 * rows):
                last[row] = -1
            self.room = 2 * rows
        return 0

    def of(self, Columns columns):
        """The writes since the last commit that are moves, oldest first: offsets int64, and bits uint8 (LEADER, SMALLER,
        LARGER, REPLICAS)."""
        cdef Py_ssize_t count = columns.changes_end - columns.changes_head, i
        cdef Change* changes = columns.changes + columns.changes_head
        cdef Cells now
        cdef Table* table
        cdef int32_t row
        cdef Py_ssize_t at
        cdef int64_t[::1] offset
        cdef uint8_t[::1] kind
        cdef dict notes = {}, rare_then = {}
        offsets, kinds = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.uint8)
        offset, kind = offsets, kinds
        self._make_room(columns.row_end)
        for _, what, a, b in columns.notes:
            if what == NOTE_RARE:
                notes.setdefault(a, []).append(b)
        for i in range(count - 1, -1, -1):
            row = changes[i].row
            if self.last[row] >= 0:
                now = changes[self.last[row]].cells
            else:
                table, at = columns.table[row >> CHUNK_BITS], row & (CHUNK - 1)
                now.replicas, now.isr, now.leader, now.flags = (
                    table.replicas[at], table.isr[at], table.leader[at], table.flags[at]
                )
            offset[i], kind[i] = changes[i].offset, moved(&changes[i].cells, &now)
            if changes[i].rare:
                new = rare_then[row] if row in rare_then else columns.rare_at(row)
                rare_then[row] = notes[row].pop()
                kind[i] = moved_rarely(&changes[i].cells, &now, rare_then[row], new)
            self.last[row] = <int32_t>i
        for i in range(count):
            self.last[changes[i].row] = -1
        chosen = np.flatnonzero(kinds)
        return offsets[chosen], kinds[chosen]


def writes(Columns columns, Py_ssize_t row):
    """The writes to one partition since the last commit, oldest first, as (offset, leader before, ISR before, leader after, ISR
    after): leaders are -1 for none, ISRs tuples in the order of the replicas. Raises IndexError."""
    cdef Change* changes = columns.changes
    cdef Py_ssize_t i
    cdef Cells now
    cdef Table* table
    columns.check_row(row)
    notes = [b for _, what, a, b in columns.notes if what == NOTE_RARE and a == row]
    table, i = columns.table[row >> CHUNK_BITS], row & (CHUNK - 1)
    now.replicas, now.isr, now.leader, now.flags = table.replicas[i], table.isr[i], table.leader[i], table.flags[i]
    rare = columns.rare_at(row)
    isr = columns._isr_of(&now, 0 if rare is None else rare[1])
    found = []
    for i in range(columns.changes_end - 1, columns.changes_head - 1, -1):
        if changes[i].row != row:
            continue
        if changes[i].rare:
            rare = notes.pop()
        before = columns._isr_of(&changes[i].cells, 0 if rare is None else rare[1])
        if changes[i].cells.flags & now.flags & LIVE:
            found.append((changes[i].offset, changes[i].cells.leader, tuple(before), now.leader, tuple(isr)))
        now, isr = changes[i].cells, before
    found.reverse()
    return found


def made(Columns columns, Py_ssize_t row):
    """The offset of the record with which a partition was made since the last commit, if the records that made it and its
    neighbours were in the order of their numbers, as controllers write them. -1: it was made before."""
    for offset, what, taken, _ in columns.notes:
        if what == NOTE_NEW_ROWS:
            for _, first, count in taken:
                if first <= row < first + count:
                    return offset + row - first
                offset += count
    return -1
