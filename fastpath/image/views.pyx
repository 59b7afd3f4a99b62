"""Partitions as columns, for reading: the live ones, or a generation that a thread may read while the owner goes on
writing.

This file alone decides how the state of a partition lies in memory (views.pxd draws it) and where it is found.

- A *row* is a partition's place. Rows lie in chunks of 4,096. A chunk is one block of memory with the columns one after
  another.
- A topic's partitions are a chain of row extents, ordered by number. There is one extent unless partitions were added
  later.
- The ISR is a bit mask over the replica list. Bits of the 33rd replica and beyond, and the rare fields, are in the
  chunk's dictionary.

Rows that were never used raise IndexError. A scan makes one pass over all partitions without the GIL.
"""

import numpy as np

from libc.stdlib cimport calloc, free

from fastpath.image.chains cimport Extent

from fastpath.image.blocks import Extra

cdef object USUAL = Extra()


cdef class Chunk:
    def __cinit__(self):
        cdef Py_ssize_t i
        self.columns = <Table*>calloc(1, sizeof(Table))
        if self.columns == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.columns)


cdef list extents_of(bytes chain):
    cdef const Extent* extents = <const Extent*><const char*>chain
    return [(extents[i].number, extents[i].row, extents[i].count) for i in range(len(chain) // <Py_ssize_t>sizeof(Extent))]


cdef class View:
    """The state to read: the live columns, or a pinned generation of them. Rows out of range raise IndexError."""

    def __dealloc__(self):
        free(self.table)

    cdef int check_row(self, Py_ssize_t row) except -1:
        if row < 0 or row >= self.row_end:
            raise IndexError(row)
        return 0

    cdef object rare_at(self, Py_ssize_t row):
        if not self.chunk_of(row).flags[row & (CHUNK - 1)] & RARE:
            return None
        return (<Chunk>self.chunks[row >> CHUNK_BITS]).rare[row & (CHUNK - 1)]

    cpdef Py_ssize_t partition(self, Py_ssize_t topic, int32_t number) except -2:
        """The row of a partition; -1 when the topic has no such number. Raises IndexError for a topic row that was
        never used."""
        return self.chains.row_of(topic, number)

    def partition_count(self, Py_ssize_t topic):
        """How many partitions a topic has."""
        chain = self.chains.get(topic)
        return 0 if chain is None else sum([e[2] for e in extents_of(chain)])

    def topic_partitions(self, Py_ssize_t topic):
        """A topic's partition rows in number order."""
        chain = self.chains.get(topic)
        rows = []
        if chain is not None:
            for _, row, count in extents_of(chain):
                rows.extend(range(row, row + count))
        return rows

    def topic_ranges(self, Py_ssize_t topic):
        """A topic's partition rows as a list of (first row, row behind the last)."""
        chain = self.chains.get(topic)
        return [] if chain is None else [(row, row + count) for _, row, count in extents_of(chain)]

    def topic_id(self, Py_ssize_t topic):
        """The topic id, 16 bytes; None for a topic row that is not in use."""
        return self.topic_ids.get(topic) if self.chains.has(topic) else None

    def is_partition(self, Py_ssize_t row):
        """Whether the row is a partition now (not deleted, not free)."""
        return 0 <= row < self.row_end and (self.chunk_of(row).flags[row & (CHUNK - 1)] & LIVE) != 0

    def leader(self, Py_ssize_t row):
        """Broker id, -1: none."""
        self.check_row(row)
        return self.leader_at(row)

    def leader_epoch(self, Py_ssize_t row):
        self.check_row(row)
        return self.leader_epoch_at(row)

    def partition_epoch(self, Py_ssize_t row):
        self.check_row(row)
        return self.chunk_of(row).partition_epoch[row & (CHUNK - 1)]

    def number(self, Py_ssize_t row):
        """The partition's number in its topic. Kept for a deleted row until the row is used again."""
        self.check_row(row)
        return self.chunk_of(row).number[row & (CHUNK - 1)]

    def topic_of(self, Py_ssize_t row):
        """The topic row. Kept for a deleted row until the row is used again."""
        self.check_row(row)
        return self.chunk_of(row).topic[row & (CHUNK - 1)]

    def replicas(self, Py_ssize_t row):
        """Broker ids in order of preference."""
        self.check_row(row)
        return self.lists.values(self.chunk_of(row).replicas[row & (CHUNK - 1)])

    def isr(self, Py_ssize_t row):
        """Broker ids in sync, in replica order."""
        cdef const int32_t* replicas
        cdef uint32_t mask
        self.check_row(row)
        replicas = self.lists.at(self.chunk_of(row).replicas[row & (CHUNK - 1)])
        mask = self.chunk_of(row).isr[row & (CHUNK - 1)]
        if replicas[0] > MASK_BITS:
            wide = mask | (self.rare_at(row)[1] << MASK_BITS)
            return tuple([replicas[1 + i] for i in range(replicas[0]) if wide >> i & 1])
        return tuple([replicas[1 + i] for i in range(replicas[0]) if mask >> i & 1])

    def isr_size(self, Py_ssize_t row):
        """How many replicas are in sync."""
        self.check_row(row)
        mask = self.chunk_of(row).isr[row & (CHUNK - 1)]
        rare = self.rare_at(row)
        return mask.bit_count() + (0 if rare is None else rare[1].bit_count())

    def extra(self, Py_ssize_t row):
        """The rare fields as an Extra."""
        self.check_row(row)
        rare = self.rare_at(row)
        return USUAL if rare is None or rare[0] is None else rare[0]

    def adding(self, Py_ssize_t row):
        """Replicas that a running reassignment brings in."""
        return self.extra(row).adding

    def removing(self, Py_ssize_t row):
        """Replicas that a running reassignment takes away."""
        return self.extra(row).removing

    def is_moving(self, Py_ssize_t row):
        """Whether a reassignment is running."""
        self.check_row(row)
        rare = self.rare_at(row)
        return rare is not None and rare[0] is not None and bool(rare[0].adding or rare[0].removing)

    def elr(self, Py_ssize_t row):
        """Eligible leader replicas (KIP-966)."""
        return self.extra(row).elr

    def last_known_elr(self, Py_ssize_t row):
        return self.extra(row).last_known_elr

    def recovery(self, Py_ssize_t row):
        """Leader recovery state: 0 recovered, 1 recovering."""
        return self.extra(row).recovery

    def directories(self, Py_ssize_t row):
        """Directory uuids in replica order; empty when none are known."""
        cdef const int32_t* numbers
        self.check_row(row)
        numbers = self.lists.at(self.chunk_of(row).directories[row & (CHUNK - 1)])
        return tuple([self.directory_ids.value(numbers[1 + i]) for i in range(numbers[0])])

    def rows_moved(self):
        """Rows of reassignments whose adding replicas are all in the ISR already, ascending (list of int). It visits
        each chunk and its rows with rare fields."""
        cdef Py_ssize_t chunk, row
        found = []
        for chunk in range((self.row_end + CHUNK - 1) >> CHUNK_BITS):
            rare = (<Chunk>self.chunks[chunk]).rare
            for at in sorted(rare) if rare else ():
                extra = rare[at][0]
                row = (chunk << CHUNK_BITS) + <Py_ssize_t>at
                if extra is not None and (extra.adding or extra.removing) and self.is_partition(row):
                    if set(extra.adding) <= set(self.isr(row)):
                        found.append(row)
        return found

    def rows_led_by(self, int32_t broker):
        """Rows whose leader is `broker`, ascending: int64. One pass over all partitions."""
        return self._scan(broker, 0)

    def rows_in_isr(self, int32_t broker):
        """Rows whose ISR holds `broker`, ascending: int64. One pass over all partitions."""
        return self._scan(broker, 1)

    def rows_of(self, int32_t broker):
        """Rows of which `broker` is a replica, ascending: int64. One pass over all partitions."""
        return self._scan(broker, 2)

    def _scan(self, int32_t broker, int what):
        cdef Py_ssize_t row, at, stop, found = 0, chunk
        cdef Table* columns
        cdef uint32_t* bits = self.bits_of(broker)
        cdef int64_t[::1] room
        rows = np.empty(max(self.row_end, 1), dtype=np.int64)
        room = rows
        with nogil:
            for chunk in range((self.row_end + CHUNK - 1) >> CHUNK_BITS):
                columns = self.table[chunk]
                row = chunk << CHUNK_BITS
                stop = CHUNK if self.row_end - row > CHUNK else self.row_end - row
                # The candidate is always written, and counted only if it qualifies: so there is no branch to
                # mispredict.
                if what == 0:
                    for at in range(stop):
                        room[found] = row + at
                        found += columns.leader[at] == broker and columns.flags[at] & LIVE != 0
                elif what == 1:
                    for at in range(stop):
                        room[found] = row + at
                        found += columns.isr[at] & bits[columns.replicas[at]] != 0
                else:
                    for at in range(stop):
                        room[found] = row + at
                        found += bits[columns.replicas[at]] != 0
        free(bits)
        rows = rows[:found].copy()
        wide = self._wide_rows(broker, what) if what else ()
        return rows if not len(wide) else np.union1d(rows, np.array(wide, dtype=np.int64))

    cdef uint32_t* bits_of(self, int32_t broker) except NULL:
        """For each list of the pool the ISR bit of `broker` in it; 0 if it is not among the list's first 32. The caller
        frees it."""
        cdef uint32_t number = 0
        cdef const int32_t* values
        cdef int32_t i
        cdef uint32_t* bits = <uint32_t*>calloc(self.lists.end, sizeof(uint32_t))
        if bits == NULL:
            raise MemoryError
        while number < self.lists.end:
            values = self.lists.at(number)
            if values[0] < 0:
                number = (number | 0xFFFF) + 1
                continue
            for i in range(values[0] if values[0] < MASK_BITS else MASK_BITS):
                if values[1 + i] == broker:
                    bits[number] = <uint32_t>1 << i
            number += 1 + <uint32_t>values[0]
        return bits

    def _wide_rows(self, int32_t broker, int what):
        """Rows with `broker` beyond the 32nd replica (in the ISR for what == 1)."""
        found = []
        for index, chunk in enumerate(self.chunks):
            for at, (_, high) in ((<Chunk>chunk).rare or {}).items():
                replicas = self.lists.values((<Chunk>chunk).columns.replicas[<Py_ssize_t>at])[MASK_BITS:]
                if broker in replicas and (what == 2 or high >> replicas.index(broker) & 1):
                    found.append((index << CHUNK_BITS) + at)
        return found

    def let_go(self, Py_ssize_t most):
        """Drop up to `most` chunks of a pinned generation, of which nothing is read any more. What only it has of them is
        freed. Returns whether chunks are left."""
        assert type(self) is View, "only a pinned generation is let go of"
        self.row_end = 0
        del self.chunks[max(0, <Py_ssize_t>len(self.chunks) - most):]
        return len(self.chunks) > 0

    def differing(self, View older):
        """(chunks, rare fields in them) that are not those of a view that was made earlier of the same columns."""
        cdef Py_ssize_t i, known = len(older.chunks), chunks = 0, rare = 0
        cdef Chunk chunk
        for i in range(len(self.chunks)):
            chunk = <Chunk>self.chunks[i]
            if i >= known or chunk is not older.chunks[i]:
                chunks += 1
                rare += 0 if chunk.rare is None else len(chunk.rare)
        return chunks, rare

    @property
    def chunk_count(self):
        """How many chunks there are."""
        return len(self.chunks)
