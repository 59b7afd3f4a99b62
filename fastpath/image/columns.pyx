"""The live columns: every change of a partition, with undo, and with generations that other threads may read.

This file alone decides how a partition changes and how a change is undone. fastpath/image/views.pyx describes the
layout.

- Every write goes through `write`, which updates the counters and the undo log. `undo` uses it too, from the last write
  back.
- A chunk that a pinned generation can see is copied before it is written (fastpath/image/copy_on_write.pyx has the
  rule).
- Rows of a deleted topic are used again only after the deletion is committed.

Errors are ValueError with a sentence. A call that raises has changed nothing.
"""

from collections import deque

import numpy as np

from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from fastpath.image.arrivals cimport Arrivals
from fastpath.image.blocks cimport UNCHANGED, Row
from fastpath.image.broker_counts cimport Count, Counts
from fastpath.image.chains cimport Chains, Extent, find
from fastpath.image.interned_lists cimport Lists, Uuids
from fastpath.image.copy_on_write cimport PagedList
from fastpath.image.views cimport CHUNK, CHUNK_BITS, LIVE, MASK_BITS, RARE, Table, extents_of

from fastpath.image.blocks import Extra

cdef enum:
    KEPT_CHANGES = 1 << 14              # memory for undo that is never given back
    FEW = 64                            # up to this number rows are returned as a list, above as an array

cdef object USUAL = Extra()

cdef extern from *:
    int __builtin_popcount(unsigned int) noexcept nogil


cdef Chunk copied(Chunk chunk, long stamp):
    cdef Chunk copy = Chunk()
    memcpy(copy.columns, chunk.columns, sizeof(Table))
    copy.rare = None if chunk.rare is None else dict(chunk.rare)
    copy.stamp = stamp
    return copy


cdef inline void load(Table* columns, Py_ssize_t at, Cells* cells) noexcept nogil:
    cells.replicas = columns.replicas[at]
    cells.isr = columns.isr[at]
    cells.leader = columns.leader[at]
    cells.leader_epoch = columns.leader_epoch[at]
    cells.partition_epoch = columns.partition_epoch[at]
    cells.directories = columns.directories[at]
    cells.flags = columns.flags[at]


cdef bytes chain_of(list extents):
    """Extents in number order as bytes. Neighbours that continue each other are joined."""
    cdef Py_ssize_t used = 0
    cdef Extent* room = <Extent*>malloc((len(extents) + 1) * sizeof(Extent))
    if room == NULL:
        raise MemoryError
    for number, row, count in extents:
        if used and number - room[used - 1].number == room[used - 1].count == row - room[used - 1].row:
            room[used - 1].count += <int32_t>count
        else:
            room[used].number, room[used].row, room[used].count = number, row, count
            used += 1
    chain = (<char*>room)[:used * <Py_ssize_t>sizeof(Extent)]
    free(room)
    return chain


cdef int check_replicas(const int32_t* replicas, int32_t size) except -1:
    cdef int32_t i, j
    for i in range(size):
        if replicas[i] < 0:
            raise ValueError(f"{replicas[i]} is not a broker id")
        for j in range(i):
            if replicas[i] == replicas[j]:
                raise ValueError(f"broker {replicas[i]} is a replica twice")
    return 0


cdef class Columns(View):
    """The live columns. Only the owner's thread writes."""

    def __init__(self):
        self.generations = Generations()
        self.chunks = []
        self.lists = Lists()
        self.directory_ids = Uuids()
        self.chains = Chains(self.generations)
        self.topic_ids = PagedList(self.generations)
        self.counters = Counts()
        self.notes = deque()
        self.free_rows = []
        self.free_topics = []

    def __dealloc__(self):
        free(self.changes)

    def counts(self, int32_t broker):
        """(replicas, led, in ISR) of a broker, O(1)."""
        return self.counters.get(broker)

    def view(self):
        """The columns as they are now. Take a generation before, and release it when the view is not used any more."""
        cdef View copy = View.__new__(View)
        copy.chunks = list(self.chunks)
        copy.table = <Table**>malloc((len(self.chunks) + 1) * sizeof(void*))
        if copy.table == NULL:
            raise MemoryError
        memcpy(copy.table, self.table, len(self.chunks) * sizeof(void*))
        copy.row_end = self.row_end
        copy.lists = self.lists.frozen()
        copy.directory_ids = self.directory_ids.frozen()
        copy.chains = self.chains.frozen()
        copy.topic_ids = self.topic_ids.frozen()
        return copy

    def thaw(self, View view, Counts counts):
        """Begin, instead of empty, with the state of a view and the counters that belong to it. Chunks are shared until they
        are written. The rows that are free in it are not used again."""
        cdef Chunk chunk
        cdef long newest = 0
        assert self.row_end == 0, "only new columns are thawed into"
        for chunk in view.chunks:
            newest = max(newest, chunk.stamp)
        self.generations.current = newest
        self.generations.take()
        self.chunks = list(view.chunks)
        self.table = <Table**>realloc(self.table, (len(self.chunks) + 1) * sizeof(void*))
        if self.table == NULL:
            raise MemoryError
        memcpy(self.table, view.table, len(self.chunks) * sizeof(void*))
        self.row_end = view.row_end
        self.lists = view.lists.thawed()
        self.directory_ids = view.directory_ids.thawed()
        self.chains = view.chains.thawed(self.generations)
        self.topic_ids = view.topic_ids.thawed(self.generations)
        self.counters = counts.copy()

    # ---- writing one row

    cdef Chunk writable_chunk(self, Py_ssize_t row):
        cdef Chunk chunk = <Chunk>self.chunks[row >> CHUNK_BITS]
        if chunk.stamp <= self.generations.pinned:
            chunk = copied(chunk, self.generations.current)
            self.chunks[row >> CHUNK_BITS] = chunk
            self.table[row >> CHUNK_BITS] = chunk.columns
        return chunk

    cdef Table* writable(self, Py_ssize_t row) except NULL:
        return self.writable_chunk(row).columns

    cdef int count_cells(self, const Cells* cells, object rare, int sign) except -1:
        cdef const int32_t* replicas = self.lists.at(cells.replicas)
        cdef int32_t i
        cdef Count* count
        cdef bint alone = cells.isr & (cells.isr - 1) == 0
        if replicas[0] > MASK_BITS and rare is not None:
            alone = __builtin_popcount(cells.isr) + rare[1].bit_count() == 1
        for i in range(replicas[0]):
            count = self.counters.of(replicas[1 + i])
            count.replicas += sign
            if i < MASK_BITS:
                if cells.isr >> i & 1:
                    count.in_isr += sign
                    count.alone += sign * alone
            elif rare is not None and rare[1] >> (i - MASK_BITS) & 1:
                count.in_isr += sign
                count.alone += sign * alone
        self.counters.partitions += sign
        if cells.leader >= 0:
            self.counters.of(cells.leader).led += sign
        else:
            self.counters.leaderless += sign
        if replicas[0] and replicas[1] != cells.leader:
            self.counters.unpreferred += sign
        return 0

    cdef int count_election(self, const Cells* old, object old_rare, int32_t leader) except -1:
        """Count that a partition gets another leader. One that is in no list of replicas that was counted is new."""
        cdef const int32_t* replicas = self.lists.at(old.replicas)
        cdef int32_t i
        self.counters.elections += 1
        for i in range(replicas[0]):
            if replicas[1 + i] == leader:
                if i < MASK_BITS:
                    self.counters.unclean += not old.isr >> i & 1
                elif old_rare is not None:
                    self.counters.unclean += not old_rare[1] >> (i - MASK_BITS) & 1
                return 0
        return 0

    cdef int put_cells(self, Py_ssize_t row, const Cells* cells) except -1:
        cdef Table* columns = self.writable(row)
        cdef Py_ssize_t at = row & (CHUNK - 1)
        columns.replicas[at] = cells.replicas
        columns.isr[at] = cells.isr
        columns.leader[at] = cells.leader
        columns.leader_epoch[at] = cells.leader_epoch
        columns.partition_epoch[at] = cells.partition_epoch
        columns.directories[at] = cells.directories
        columns.flags[at] = cells.flags
        return 0

    cdef int set_rare(self, Py_ssize_t row, object rare) except -1:
        cdef Chunk chunk = self.writable_chunk(row)
        if rare is None:
            if chunk.rare is not None:
                chunk.rare.pop(row & (CHUNK - 1), None)
        else:
            if chunk.rare is None:
                chunk.rare = {}
            chunk.rare[row & (CHUNK - 1)] = rare
        return 0

    cdef int write(self, Py_ssize_t row, const Cells* cells, object rare, int64_t offset) except -1:
        """Change a row; every change goes through here. offset -1: do not log (the row was not a partition, or this is
        an undo)."""
        cdef Cells old
        cdef Change* change
        old_rare = self.rare_at(row)
        load(self.chunk_of(row), row & (CHUNK - 1), &old)
        if offset >= 0:
            if self.changes_end == self.changes_room:
                self._make_room()
            change = &self.changes[self.changes_end]
            change.offset = offset
            change.row = <int32_t>row
            change.cells = old
            change.rare = old_rare is not rare
            self.changes_end += 1
            if old_rare is not rare:
                self.notes.append((offset, NOTE_RARE, row, old_rare))
        if (
            old.replicas != cells.replicas or old.isr != cells.isr or old.leader != cells.leader
            or (old.flags ^ cells.flags) & LIVE or old_rare is not rare
        ):
            if old.flags & LIVE:
                self.count_cells(&old, old_rare, -1)
                if offset >= 0 and cells.flags & LIVE and cells.leader >= 0 and cells.leader != old.leader:
                    self.count_election(&old, old_rare, cells.leader)
            if cells.flags & LIVE:
                self.count_cells(cells, rare, 1)
        if old_rare is not rare:
            self.set_rare(row, rare)
        self.put_cells(row, cells)
        return 0

    def _make_room(self):
        cdef Py_ssize_t live = self.changes_end - self.changes_head, room
        cdef Change* changes
        if self.changes_head > 0 and live <= self.changes_room // 2:
            memcpy(self.changes, self.changes + self.changes_head, live * sizeof(Change))
        else:
            room = 256 if self.changes_room == 0 else 2 * self.changes_room
            changes = <Change*>malloc(room * sizeof(Change))
            if changes == NULL:
                raise MemoryError
            if live:
                memcpy(changes, self.changes + self.changes_head, live * sizeof(Change))
            free(self.changes)
            self.changes = changes
            self.changes_room = room
        self.changes_head = 0
        self.changes_end = live

    cdef object merge(self, Block block, Py_ssize_t index, const Cells* old, object old_rare, Cells* new):
        """Compute the cells of a row after a block's row is applied: fills `new`, returns its rare fields. Raises
        ValueError."""
        cdef Row* row = &block.rows[index]
        cdef const int32_t* replicas
        cdef const int32_t* isr
        cdef int32_t room[4096]
        cdef int32_t i, j
        cdef uint32_t mask
        new[0] = old[0]
        new.flags = LIVE
        wide = 0 if old_rare is None else old_rare[1]
        kept_isr = None
        if row.replicas_size >= 0:
            if row.isr_size < 0:
                kept_isr = self._isr_of(old, wide)
            check_replicas(block.values + row.replicas_at, row.replicas_size)
            new.replicas = self.lists.intern(block.values + row.replicas_at, row.replicas_size)
            if new.replicas != old.replicas and row.directories_size < 0:
                new.directories = 0
        replicas = self.lists.at(new.replicas)
        if row.isr_size >= 0 or kept_isr is not None:
            if kept_isr is None:
                isr = block.values + row.isr_at
                j = row.isr_size
            else:
                isr = room
                j = 0
                for broker in kept_isr:
                    room[j] = broker
                    j += 1
            mask, wide = 0, 0
            while j > 0:
                j -= 1
                for i in range(replicas[0]):
                    if replicas[1 + i] == isr[j]:
                        if i < MASK_BITS:
                            mask |= <uint32_t>1 << i
                        else:
                            wide |= <object>1 << (i - MASK_BITS)
                        break
                else:
                    raise ValueError(f"broker {isr[j]} is in the ISR but no replica of partition {row.number}")
            new.isr = mask
        if row.directories_size >= 0:
            if row.directories_size > 4096:
                raise ValueError(f"{row.directories_size} directories for partition {row.number}")
            for i in range(row.directories_size):
                room[i] = self.directory_ids.intern(block.uuids + 16 * (row.directories_at + i))
            new.directories = self.lists.intern(room, row.directories_size)
            if row.directories_size not in (0, replicas[0]):
                raise ValueError(f"{row.directories_size} directories for {replicas[0]} replicas of partition {row.number}")
        if row.leader != UNCHANGED:
            new.leader = row.leader
        if row.leader_epoch >= 0:
            new.leader_epoch = row.leader_epoch
        elif row.leader != UNCHANGED:
            new.leader_epoch = old.leader_epoch + 1
        new.partition_epoch = row.partition_epoch if row.partition_epoch >= 0 else old.partition_epoch + 1
        if new.leader < -1:
            raise ValueError(f"{new.leader} is not a leader for partition {row.number}")
        if new.leader >= 0 and (row.leader != UNCHANGED or row.isr_size >= 0 or row.replicas_size >= 0):
            for i in range(replicas[0]):
                if replicas[1 + i] == new.leader and (
                    new.isr >> i & 1 if i < MASK_BITS else wide >> (i - MASK_BITS) & 1
                ):
                    break
            else:
                raise ValueError(f"the leader {new.leader} of partition {row.number} is not in its ISR")
        if block.extras is None and old_rare is None and replicas[0] <= MASK_BITS:
            return None
        extra = USUAL if old_rare is None or old_rare[0] is None else old_rare[0]
        given = block.extra(index)
        if given is not None:
            extra = Extra(*[a if b is None else b for a, b in zip(extra, given)])
        if extra == USUAL and replicas[0] <= MASK_BITS:
            return None
        new.flags = LIVE | RARE
        rare = (None if extra == USUAL else extra, wide)
        return old_rare if rare == old_rare else rare

    cdef list _isr_of(self, const Cells* cells, object wide):
        cdef const int32_t* replicas = self.lists.at(cells.replicas)
        bits = cells.isr | (wide << MASK_BITS)
        return [replicas[1 + i] for i in range(replicas[0]) if bits >> i & 1]

    # ---- replay

    def add_topic(self, int64_t offset, bytes topic_id):
        """Add a topic without partitions. Returns its row."""
        cdef Py_ssize_t topic
        if len(topic_id) != 16:
            raise ValueError(f"a topic id has 16 bytes, not {len(topic_id)}")
        if self.free_topics:
            topic = self.free_topics.pop()
            self.chains.put(topic, b"")
            self.topic_ids.put(topic, topic_id)
        else:
            topic = self.chains.append(b"")
            self.topic_ids.append(topic_id)
        self.notes.append((offset, NOTE_NEW_TOPIC, topic, None))
        return topic

    def put_arrivals(self, Arrivals arrivals):
        """Add new topics with their partitions, which are committed: nothing is noted that would undo them. Returns the row of
        the first topic; -1: something about them is not as nearly always, and nothing was done."""
        cdef Block block = arrivals.block
        cdef Py_ssize_t topics = len(arrivals.names), count = block.count, first = self.row_end, i, at, row, begin, end
        cdef Py_ssize_t topic = self.topic_ids.size
        cdef Cells* cells
        cdef Table* columns
        cdef Extent extent
        if self.free_rows or self.free_topics or block.extras is not None or self.chains.size != topic:
            return -1
        cells = <Cells*>malloc((count + 1) * sizeof(Cells))
        if cells == NULL:
            raise MemoryError
        try:
            for i in range(topics):
                begin = arrivals.begins[i]
                end = arrivals.begins[i + 1] if i + 1 < topics else count
                for at in range(begin, end):
                    if block.rows[at].number < 0 or block.rows[at].number - block.rows[begin].number != at - begin:
                        return -1
                    if not self._usual(block, &block.rows[at], &cells[at]):
                        return -1
            self._allocate(count)
            for i in range(topics):
                begin = arrivals.begins[i]
                end = arrivals.begins[i + 1] if i + 1 < topics else count
                extent.number, extent.row = block.rows[begin].number if end > begin else 0, <int32_t>(first + begin)
                extent.count = <int32_t>(end - begin)
                self.chains.append((<char*>&extent)[:sizeof(Extent)] if end > begin else b"")
                self.topic_ids.append(arrivals.topic_ids[i])
                for at in range(begin, end):
                    row = first + at
                    columns = self.writable(row)
                    columns.topic[row & (CHUNK - 1)] = <int32_t>(topic + i)
                    columns.number[row & (CHUNK - 1)] = block.rows[at].number
                    self.count_cells(&cells[at], None, 1)
                    self.put_cells(row, &cells[at])
        finally:
            free(cells)
        return topic

    cdef bint _usual(self, Block block, const Row* row, Cells* cells) except -1:
        """Fill the cells of a whole new partition without rare fields; False: it is judged by `merge`."""
        cdef const int32_t* replicas = block.values + row.replicas_at
        cdef const int32_t* isr = block.values + row.isr_at
        cdef int32_t size = row.replicas_size, i, j
        cdef int32_t directories[MASK_BITS]
        cdef uint32_t mask = 0
        if size <= 0 or size > MASK_BITS or row.isr_size < 0 or row.leader < -1:
            return False
        if row.directories_size > 0 and row.directories_size != size:
            return False
        if row.leader_epoch < 0 or row.partition_epoch < 0:
            return False
        for i in range(size):
            if replicas[i] < 0:
                return False
            for j in range(i):
                if replicas[i] == replicas[j]:
                    return False
        for j in range(row.isr_size):
            for i in range(size):
                if replicas[i] == isr[j]:
                    mask |= <uint32_t>1 << i
                    break
            else:
                return False
        if row.leader >= 0:
            for i in range(size):
                if replicas[i] == row.leader:
                    if not mask >> i & 1:
                        return False
                    break
            else:
                return False
        cells.replicas = self.lists.intern(replicas, size)
        cells.isr = mask
        cells.leader, cells.leader_epoch, cells.partition_epoch = row.leader, row.leader_epoch, row.partition_epoch
        cells.directories = 0
        if row.directories_size > 0:
            for i in range(size):
                directories[i] = self.directory_ids.intern(block.uuids + 16 * (row.directories_at + i))
            cells.directories = self.lists.intern(directories, size)
        cells.flags = LIVE
        return True

    def remove_topic(self, int64_t offset, Py_ssize_t topic):
        """Delete a topic and its partitions. Returns the partitions' rows, which are free after commit."""
        cdef Cells none
        cdef Py_ssize_t row
        memset(&none, 0, sizeof(Cells))
        none.leader = -1
        chain = self.chains.get(topic)
        rows = self.topic_partitions(topic)
        for row in rows:
            self.write(row, &none, None, offset)
        self.chains.put(topic, None)
        self.notes.append((offset, NOTE_CHAIN, topic, chain))
        self.notes.append((offset, NOTE_GONE_ROWS, extents_of(chain), None))
        self.notes.append((offset, NOTE_GONE_TOPIC, topic, None))
        return rows

    def put(self, int64_t offset, Py_ssize_t topic, Block block):
        """Create partitions of one topic, or replace them as a whole. Row i of the block is the record at offset + i.

        Every row gives replicas, isr, leader and both epochs. Returns the rows (list, or int64 array when many).
        """
        try:
            return self._put(offset, topic, block)
        except BaseException:
            self.undo(offset)
            raise

    def _put(self, int64_t offset, Py_ssize_t topic, Block block):
        cdef Cells old, new, none
        cdef Py_ssize_t i, row
        cdef bytes chain = self.chains.get(topic)
        cdef bint sorted_ = True
        cdef int64_t[::1] room
        cdef bint fresh = len(chain) == 0 and not self.free_rows and block.count > 0
        missing = []
        memset(&none, 0, sizeof(Cells))
        none.leader = none.leader_epoch = none.partition_epoch = -1
        for i in range(block.count):
            if block.rows[i].number < 0:
                raise ValueError(f"{block.rows[i].number} is not a partition number")
            if block.rows[i].replicas_size < 0 or block.rows[i].isr_size < 0:
                raise ValueError(f"partition {block.rows[i].number} is not given as a whole")
            if block.rows[i].leader_epoch < 0 or block.rows[i].partition_epoch < 0:
                raise ValueError(f"partition {block.rows[i].number} is not given as a whole")
            fresh = fresh and block.rows[i].number - block.rows[0].number == i
        if fresh:
            return self._put_fresh(offset, topic, block, &none)
        rows = np.empty(block.count, dtype=np.int64)
        room = rows
        for i in range(block.count):
            if find(chain, block.rows[i].number) < 0:
                sorted_ = sorted_ and (not missing or <int32_t>missing[len(missing) - 1] < block.rows[i].number)
                missing.append(block.rows[i].number)
        if missing:
            chain = self._extend(offset, topic, chain, missing if sorted_ else sorted(set(missing)))
        for i in range(block.count):
            row = find(chain, block.rows[i].number)
            load(self.chunk_of(row), row & (CHUNK - 1), &old)
            rare = self.merge(block, i, &none, None, &new)
            self.write(row, &new, rare, offset + i if old.flags & LIVE else -1)
            room[i] = row
        return rows.tolist() if block.count <= FEW else rows

    cdef object _put_fresh(self, int64_t offset, Py_ssize_t topic, Block block, const Cells* none):
        """`_put` of a topic's first partitions, whose numbers follow each other, behind the last row: as nearly all come."""
        cdef Cells new
        cdef Table* columns
        cdef Extent extent
        cdef Py_ssize_t i, first = self.row_end, row
        self._allocate(block.count)
        self.notes.append((offset, NOTE_NEW_ROWS, [(0, first, block.count)], None))
        self.notes.append((offset, NOTE_CHAIN, topic, b""))
        for i in range(block.count):
            row = first + i
            columns = self.writable(row)
            columns.topic[row & (CHUNK - 1)] = <int32_t>topic
            columns.number[row & (CHUNK - 1)] = block.rows[i].number
        extent.number, extent.row, extent.count = block.rows[0].number, <int32_t>first, <int32_t>block.count
        self.chains.put(topic, (<char*>&extent)[:sizeof(Extent)])
        for i in range(block.count):
            rare = self.merge(block, i, none, None, &new)
            self.write(first + i, &new, rare, -1)
        return list(range(first, first + block.count)) if block.count <= FEW else np.arange(first, first + block.count)

    def _extend(self, int64_t offset, Py_ssize_t topic, bytes chain, list numbers):
        """Allocate rows for new partition numbers (ascending). Returns the new chain."""
        cdef Table* columns
        cdef Py_ssize_t row, begin = 0, start = 0, number
        taken = []
        extents = []
        at = 0
        for first, count in self._allocate(len(numbers)):
            taken.append((0, first, count))
            for row in range(first, first + count):
                columns = self.writable(row)
                number = numbers[at]
                columns.topic[row & (CHUNK - 1)] = <int32_t>topic
                columns.number[row & (CHUNK - 1)] = number
                if row == first or number != begin + row - start:
                    if row != first:
                        extents.append((begin, start, row - start))
                    begin, start = number, row
                at += 1
            extents.append((begin, start, first + count - start))
        self.notes.append((offset, NOTE_NEW_ROWS, taken, None))
        self.notes.append((offset, NOTE_CHAIN, topic, chain))
        if chain and extents[0][0] > max(extents_of(chain))[0]:
            chain = chain_of(extents_of(chain) + extents)
        else:
            chain = chain_of(sorted(extents_of(chain) + extents))
        self.chains.put(topic, chain)
        return chain

    def _allocate(self, Py_ssize_t count):
        """(first row, count) of free pieces, with `count` rows together."""
        cdef Chunk chunk
        cdef Table** table
        pieces = []
        while count and self.free_rows:
            first, size = self.free_rows.pop()
            if size > count:
                self.free_rows.append((first + count, size - count))
                size = count
            pieces.append((first, size))
            count -= size
        if count:
            pieces.append((self.row_end, count))
            while len(self.chunks) << CHUNK_BITS < self.row_end + count:
                chunk = Chunk()
                chunk.stamp = self.generations.current
                table = <Table**>realloc(self.table, (len(self.chunks) + 1) * sizeof(void*))
                if table == NULL:
                    raise MemoryError
                self.table = table
                table[len(self.chunks)] = chunk.columns
                self.chunks.append(chunk)
            self.row_end += count
        return pieces

    def apply(self, int64_t offset, list topics, Block block, bint one_record=False):
        """Change partitions. `topics` holds the topic row of each of the block's topic ids. Row i of the block is the record at
        offset + i; with `one_record` all rows are the one at `offset`. Returns the partitions' rows.

        Given lists and the leader replace what was. An epoch that is given is absolute. The two are independent: where the
        leader epoch is not given it rises by one if a leader is named, where the partition epoch is not given it rises by one.
        """
        cdef Cells old, new
        cdef Py_ssize_t i, row
        cdef int32_t last = -1
        cdef bytes chain = None
        cdef int64_t[::1] room
        rows = np.empty(block.count, dtype=np.int64)
        room = rows
        try:
            for i in range(block.count):
                if block.rows[i].topic != last:
                    last = block.rows[i].topic
                    chain = self.chains.get(topics[last])
                row = find(chain, block.rows[i].number)
                if row < 0:
                    raise ValueError(f"a change of partition {block.rows[i].number}, which does not exist")
                load(self.chunk_of(row), row & (CHUNK - 1), &old)
                rare = self.merge(block, i, &old, self.rare_at(row), &new)
                self.write(row, &new, rare, offset if one_record else offset + i)
                room[i] = row
        except BaseException:
            self.undo(offset)
            raise
        return rows.tolist() if block.count <= FEW else rows

    def remove_broker(self, int64_t offset, int32_t broker):
        """Remove a broker from every ISR that has another member, and from every leadership. Returns the changed rows
        (int64).

        Each changed row: both epochs + 1; leader -1 where it was the broker (A32).
        """
        cdef Cells cells
        cdef Py_ssize_t row, at, changed = 0
        cdef int64_t[::1] rows
        cdef uint32_t* bits
        _, led, in_isr = self.counters.get(broker)
        if led == 0 and in_isr == self.counters.alone(broker):
            return np.empty(0, dtype=np.int64)
        found = self.rows_in_isr(broker)
        rows = found
        bits = self.bits_of(broker)
        for at in range(rows.shape[0]):
            row = rows[at]
            load(self.chunk_of(row), row & (CHUNK - 1), &cells)
            rare = self.rare_at(row)
            wide = 0 if rare is None else rare[1]
            if self.lists.at(cells.replicas)[0] > MASK_BITS:
                replicas = self.lists.values(cells.replicas)
                left = (cells.isr | (wide << MASK_BITS)) & ~(1 << replicas.index(broker))
                if left:
                    cells.isr = left & 0xFFFFFFFF
                    rare = (rare[0], left >> MASK_BITS)
                elif cells.leader != broker:
                    continue
            elif cells.isr != bits[cells.replicas]:
                cells.isr &= ~bits[cells.replicas]
            elif cells.leader != broker:
                continue
            if cells.leader == broker:
                cells.leader = -1
            cells.leader_epoch += 1
            cells.partition_epoch += 1
            self.write(row, &cells, rare, offset)
            rows[changed] = row
            changed += 1
        free(bits)
        return found[:changed]

    def check(self):
        """Assert the invariants: every live row is in one chain, the counters match the rows, leaders are in sync."""
        cdef Cells cells
        cdef Py_ssize_t row, at
        counted = {}
        alone = {}
        placed = set()
        lone = unpreferred = 0
        for topic in range(len(self.chains)):
            numbers = [self.number(row) for row in self.topic_partitions(topic)]
            assert numbers == sorted(set(numbers)), f"topic row {topic} has numbers {numbers}"
            for row in self.topic_partitions(topic):
                assert row not in placed and self.topic_of(row) == topic and self.partition(topic, self.number(row)) == row
                placed.add(row)
        for row in range(self.row_end):
            at = row & (CHUNK - 1)
            load(self.chunk_of(row), at, &cells)
            rare = (<Chunk>self.chunks[row >> CHUNK_BITS]).rare
            assert self.is_partition(row) == (row in placed), f"row {row}"
            assert bool(cells.flags & RARE) == (rare is not None and at in rare), f"row {row}"
            assert (len(self.replicas(row)) > MASK_BITS) <= bool(cells.flags & RARE), f"row {row}"
            assert cells.leader in (-1, *self.isr(row)), f"row {row} is led by {cells.leader} and has ISR {self.isr(row)}"
            if cells.flags & LIVE:
                lone += cells.leader < 0
                unpreferred += cells.leader != next(iter(self.replicas(row)), cells.leader)
            for broker in self.replicas(row):
                of = counted.setdefault(broker, [0, 0, 0])
                of[0] += 1
                of[1] += cells.leader == broker
                of[2] += broker in self.isr(row)
                alone[broker] = alone.get(broker, 0) + (self.isr(row) == (broker,))
        assert self.counters.all() == {broker: tuple(of) for broker, of in counted.items()}
        assert all(self.counters.alone(broker) == count for broker, count in alone.items()), alone
        of_all = self.counters.partitions, self.counters.leaderless, self.counters.unpreferred
        assert of_all == (len(placed), lone, unpreferred), (of_all, len(placed), lone, unpreferred)
        offsets = [self.changes[i].offset for i in range(self.changes_head, self.changes_end)]
        assert offsets == sorted(offsets)
        free_rows = [row for first, count in self.free_rows for row in range(first, first + count)]
        assert len(free_rows) == len(set(free_rows)) and not placed & set(free_rows)

    # ---- commit and undo

    def commit(self, int64_t offset):
        """Drop what would undo changes below `offset`."""
        while self.changes_head < self.changes_end and self.changes[self.changes_head].offset < offset:
            self.changes_head += 1
        if self.changes_head == self.changes_end:
            self.changes_head = self.changes_end = 0
            if self.changes_room > KEPT_CHANGES:
                free(self.changes)
                self.changes = NULL
                self.changes_room = 0
        while self.notes and self.notes[0][0] < offset:
            _, kind, a, _ = self.notes.popleft()
            if kind == NOTE_GONE_ROWS:
                self.free_rows.extend([(row, count) for _, row, count in a])
            elif kind == NOTE_GONE_TOPIC:
                self.free_topics.append(a)

    def undo(self, int64_t offset):
        """Restore the state before the record at `offset`, which must not be committed."""
        cdef Change change
        cdef Cells none
        cdef Py_ssize_t row
        memset(&none, 0, sizeof(Cells))
        none.leader = -1
        notes = []
        rare_notes = {}
        while self.notes and self.notes[len(self.notes) - 1][0] >= offset:
            notes.append(self.notes.pop())
        for _, kind, a, b in reversed(notes):
            if kind == NOTE_RARE:
                rare_notes.setdefault(a, []).append(b)
        while self.changes_end > self.changes_head and self.changes[self.changes_end - 1].offset >= offset:
            self.changes_end -= 1
            change = self.changes[self.changes_end]
            row = change.row
            rare = rare_notes[row].pop() if change.rare else self.rare_at(row)
            self.write(row, &change.cells, rare, -1)
        for _, kind, a, b in notes:
            if kind == NOTE_CHAIN:
                self.chains.put(a, b)
            elif kind == NOTE_NEW_ROWS:
                for _, first, count in a:
                    for row in range(first, first + count):
                        self.write(row, &none, None, -1)
                    self.free_rows.append((first, count))
            elif kind == NOTE_NEW_TOPIC:
                self.chains.put(a, None)
                self.free_topics.append(a)
