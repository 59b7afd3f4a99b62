"""Metadata records in bulk: into batches without a Python object for each record, and the record frames for other
callers.

This file alone decides how batches of metadata are filled, and how PartitionRecord and IsrChangeRecord of the drafts
(KIP-631, types 2 and 4, version 0, flexible) lie in bytes:

    type uvarint, version uvarint
    PartitionRecord   number int32, topic id, replicas, isr, removing, adding []int32, leader, leader epoch int32, tags
    IsrChangeRecord   number int32, topic id, isr []int32, leader, leader epoch int32, tags
    tags              count, then ascending (tag, size, body): recovery int8, eligible and last known leaders []int32,
                      directories []uuid (0, 1, 2, 3 in a PartitionRecord; 5, 6, 7, 8 in an IsrChangeRecord)

Arrays are compact: count + 1 as uvarint. fastpath/records/batch.pyx draws the batch.

Rules: what walks over many partitions does so without the GIL; it takes the GIL back for a row with rare fields only. The
one epoch of these records is both epochs of a partition (A33), so a partition whose two epochs differ cannot be written.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from fastpath.records.batch cimport RecordView, read_record
from fastpath.records.header cimport (
    ATTRIBUTES_AT, BASE_SEQUENCE_AT, BASE_TIMESTAMP_AT, COUNT_AT, CRC_AT, CRC_FROM,
    EPOCH_AT, HEADER_BYTES, LAST_OFFSET_DELTA_AT, LENGTH_AT, MAX_TIMESTAMP_AT, PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT, SIZE_BYTES,
)
from fastpath.records.faults cimport FINE
from fastpath.image.blocks cimport UNCHANGED, Block, Row
from fastpath.image.chains cimport Extent
from fastpath.image.views cimport CHUNK, RARE, Table, View
from fastpath.bytes.crc32c cimport extend
from fastpath.bytes.endian cimport store_int16, store_int32, store_int64, store_uint32
from fastpath.bytes.varint cimport size_uvarlong, size_varint, write_uvarlong, write_varint

from fastpath.image.blocks import NOTHING

cdef enum:
    SCRATCH = 4096                      # longest list

cdef str ONE_EPOCH = "its leader epoch and partition epoch differ, and this record has one number for both"


cdef inline Py_ssize_t list_bytes(int32_t size) noexcept nogil:
    return size_uvarlong(<uint32_t>size + 1) + 4 * <Py_ssize_t>size


cdef inline uint8_t* store_list(uint8_t* out, const int32_t* values, int32_t size) noexcept nogil:
    cdef int32_t i
    out += write_uvarlong(out, 0, <uint32_t>size + 1)
    for i in range(size):
        store_int32(out, values[i])
        out += 4
    return out


cdef inline Py_ssize_t tag_bytes(Py_ssize_t body) noexcept nogil:
    return 1 + size_uvarlong(<size_t>body) + body


cdef inline uint8_t* store_tag(uint8_t* out, int tag, Py_ssize_t body) noexcept nogil:
    out[0] = <uint8_t>tag
    return out + 1 + write_uvarlong(out + 1, 0, <size_t>body)


cdef inline Py_ssize_t tags_bytes(const Partition* p) noexcept nogil:
    cdef Py_ssize_t size = 1
    if p.recovery != p.recovery_default:
        size += tag_bytes(1)
    if p.elr_size >= 0:
        size += tag_bytes(list_bytes(p.elr_size))
    if p.last_known_elr_size >= 0:
        size += tag_bytes(list_bytes(p.last_known_elr_size))
    if p.directories_size >= 0:
        size += tag_bytes(size_uvarlong(<uint32_t>p.directories_size + 1) + 16 * <Py_ssize_t>p.directories_size)
    return size


cdef inline uint8_t* store_tags(uint8_t* out, const Partition* p, int first) noexcept nogil:
    cdef Py_ssize_t body
    out[0] = <uint8_t>(
        (p.recovery != p.recovery_default) + (p.elr_size >= 0) + (p.last_known_elr_size >= 0) + (p.directories_size >= 0)
    )
    out += 1
    if p.recovery != p.recovery_default:
        out = store_tag(out, first, 1)
        out[0] = <uint8_t>p.recovery
        out += 1
    if p.elr_size >= 0:
        out = store_list(store_tag(out, first + 1, list_bytes(p.elr_size)), p.elr, p.elr_size)
    if p.last_known_elr_size >= 0:
        out = store_tag(out, first + 2, list_bytes(p.last_known_elr_size))
        out = store_list(out, p.last_known_elr, p.last_known_elr_size)
    if p.directories_size >= 0:
        body = size_uvarlong(<uint32_t>p.directories_size + 1) + 16 * <Py_ssize_t>p.directories_size
        out = store_tag(out, first + 3, body)
        out += write_uvarlong(out, 0, <uint32_t>p.directories_size + 1)
        memcpy(out, p.directories, 16 * p.directories_size)
        out += 16 * p.directories_size
    return out


cdef class Writer:
    """Batches of metadata records, one after the other in one block of memory, with offsets counted from `base_offset`.

    A batch ends when the next record would take it past `bytes_max` bytes or `records_max` records, and at `cut()`.
    Records between `begin()` and `end()` stay in one batch, however large that becomes.
    """

    def __init__(
        self, int64_t base_offset, int32_t epoch, int64_t timestamp_ms, Py_ssize_t bytes_max=1 << 20,
        int32_t records_max=0x7FFFFFFF,
    ):
        self.next_offset = base_offset
        self.epoch = epoch
        self.timestamp_ms = timestamp_ms
        self.bytes_max = bytes_max
        self.records_max = records_max
        self.batch_at = self.group_at = -1

    def __dealloc__(self):
        free(self.data)
        free(self.cuts)

    cdef int reserve(self, Py_ssize_t size) except -1 nogil:
        cdef Py_ssize_t room
        cdef uint8_t* data
        if self.size + size > self.room:
            room = self.room * 2 if self.room * 2 > self.size + size else self.size + size + 4096
            data = NULL if self.exports else <uint8_t*>realloc(self.data, room)
            if data == NULL:
                with gil:
                    raise MemoryError("no room, or a buffer of it is in use")
            self.data = data
            self.room = room
        return 0

    cdef int open_batch(self) except -1 nogil:
        self.reserve(HEADER_BYTES)
        self.batch_at = self.size
        self.base_offset = self.next_offset
        self.count = 0
        self.size += HEADER_BYTES
        return 0

    cdef int close_batch(self) except -1 nogil:
        """Fill in the header of the open batch."""
        cdef uint8_t* out = self.data + self.batch_at
        cdef Py_ssize_t size = self.size - self.batch_at, room
        cdef Cut* cuts
        if self.batch_at < 0:
            return 0
        store_int64(out, self.base_offset)
        store_int32(out + LENGTH_AT, <int32_t>(size - SIZE_BYTES))
        store_int32(out + EPOCH_AT, self.epoch)
        out[16] = 2
        store_int16(out + ATTRIBUTES_AT, 0)
        store_int32(out + LAST_OFFSET_DELTA_AT, <int32_t>(self.count - 1))
        store_int64(out + BASE_TIMESTAMP_AT, self.timestamp_ms)
        store_int64(out + MAX_TIMESTAMP_AT, self.timestamp_ms)
        store_int64(out + PRODUCER_ID_AT, -1)
        store_int16(out + PRODUCER_EPOCH_AT, -1)
        store_int32(out + BASE_SEQUENCE_AT, -1)
        store_int32(out + COUNT_AT, self.count)
        store_uint32(out + CRC_AT, extend(0, out + CRC_FROM, size - CRC_FROM))
        if self.cuts_count == self.cuts_room:
            room = self.cuts_room * 2 + 4
            cuts = <Cut*>realloc(self.cuts, room * sizeof(Cut))
            if cuts == NULL:
                with gil:
                    raise MemoryError
            self.cuts = cuts
            self.cuts_room = room
        self.cuts[self.cuts_count].start = self.batch_at
        self.cuts[self.cuts_count].end = self.size
        self.cuts[self.cuts_count].base_offset = self.base_offset
        self.cuts[self.cuts_count].last_offset = self.next_offset - 1
        self.cuts_count += 1
        self.batch_at = -1
        return 0

    cdef uint8_t* open_record(self, Py_ssize_t value_size) except NULL nogil:
        """Write the frame of a record: null key, no headers, the batch's time. Returns the place of its value."""
        cdef Py_ssize_t size, whole
        cdef uint8_t* out
        # 12: record attributes, time delta 0, null key, no headers, and the lengths at their longest
        if self.batch_at >= 0 and (
            self.size - self.batch_at + value_size + 19 > self.bytes_max or self.count >= self.records_max
        ):
            if self.group_at < 0:
                self.close_batch()
            elif self.group_count > 0:
                self.move_group()
        if self.batch_at < 0:
            self.open_batch()
        size = 4 + size_varint(self.count) + size_varint(<int32_t>value_size) + value_size
        whole = size_varint(<int32_t>size) + size
        self.reserve(whole)
        out = self.data + self.size
        self.size += whole
        out += write_varint(out, 0, <int32_t>size)
        out[0] = 0
        out[1] = 0
        out += write_varint(out, 2, self.count)
        out[0] = 1
        out += 1
        return out + write_varint(out, 0, <int32_t>value_size)

    cdef int close_record(self) except -1 nogil:
        self.data[self.size - 1] = 0
        self.count += 1
        self.next_offset += 1
        return 0

    cdef int move_group(self) except -1 nogil:
        """End the batch before the open group, and start the next batch with the group."""
        cdef Py_ssize_t size = self.size - self.group_at, at = 0
        cdef RecordView record
        cdef uint8_t* copy = <uint8_t*>malloc(size + 1)
        if copy == NULL:
            with gil:
                raise MemoryError
        memcpy(copy, self.data + self.group_at, size)
        self.size = self.group_at
        self.count = self.group_count
        self.next_offset = self.group_offset
        self.close_batch()
        self.open_batch()
        self.group_at = self.size
        self.group_count = 0
        while at < size and read_record(copy, at, size, &record) == FINE:
            self.put_value(copy + record.value, record.value_size)
            at = record.end
        free(copy)
        return 0

    cdef int put_value(self, const uint8_t* value, Py_ssize_t size) except -1 nogil:
        cdef uint8_t* out = self.open_record(size)
        memcpy(out, value, size)
        return self.close_record()

    cdef int put_partition(self, const Partition* p) except -1 nogil:
        """A PartitionRecord of the drafts."""
        cdef uint8_t* out = self.open_record(
            2 + 4 + 16 + list_bytes(p.replicas_size) + list_bytes(p.isr_size) + list_bytes(p.removing_size)
            + list_bytes(p.adding_size) + 8 + tags_bytes(p)
        )
        out[0], out[1] = 2, 0
        store_int32(out + 2, p.number)
        memcpy(out + 6, p.topic_id, 16)
        out = store_list(out + 22, p.replicas, p.replicas_size)
        out = store_list(out, p.isr, p.isr_size)
        out = store_list(out, p.removing, p.removing_size)
        out = store_list(out, p.adding, p.adding_size)
        store_int32(out, p.leader)
        store_int32(out + 4, p.leader_epoch)
        store_tags(out + 8, p, 0)
        return self.close_record()

    cdef int put_change(self, const Partition* p) except -1 nogil:
        """An IsrChangeRecord of the drafts."""
        cdef uint8_t* out = self.open_record(2 + 4 + 16 + list_bytes(p.isr_size) + 8 + tags_bytes(p))
        out[0], out[1] = 4, 0
        store_int32(out + 2, p.number)
        memcpy(out + 6, p.topic_id, 16)
        out = store_list(out + 22, p.isr, p.isr_size)
        store_int32(out, p.leader)
        store_int32(out + 4, p.leader_epoch)
        store_tags(out + 8, p, 5)
        return self.close_record()

    # ---- for Python

    def add(self, bytes value):
        """Add one record with this value."""
        self.put_value(<const uint8_t*><const char*>value, len(value))

    def add_partitions(self, Block block):
        """A PartitionRecord for each row. Raises ValueError when a row is not whole, or its two epochs differ."""
        self._add_block(block, True)

    def add_changes(self, Block block):
        """An IsrChangeRecord for each row. Raises ValueError for a change that this record cannot say, such as two epochs
        that differ."""
        self._add_block(block, False)

    def _add_block(self, Block block, bint whole):
        cdef Py_ssize_t i
        cdef Row* row
        cdef Partition p
        cdef int32_t rare[4 * SCRATCH]
        for i in range(block.count):
            row = &block.rows[i]
            if (row.replicas_size >= 0) != whole or row.isr_size < 0 or row.leader == UNCHANGED or row.leader_epoch < 0:
                raise ValueError(f"{block.state(i)} is not {'a whole partition' if whole else 'an ISR change'}")
            if row.partition_epoch != row.leader_epoch:
                raise ValueError(f"{block.state(i)}: {ONE_EPOCH}")
            if block.extras is not None and i in block.extras and not whole:
                extra = block.extras[i]
                if extra.removing is not None or extra.adding is not None:
                    raise ValueError("an ISR change has no removing or adding replicas")
        with nogil:
            for i in range(block.count):
                row = &block.rows[i]
                p.number = row.number
                p.topic_id = block.topics + 16 * row.topic
                p.replicas, p.replicas_size = block.values + row.replicas_at, row.replicas_size
                p.isr, p.isr_size = block.values + row.isr_at, row.isr_size
                p.leader, p.leader_epoch = row.leader, row.leader_epoch
                p.directories = block.uuids + 16 * row.directories_at
                p.directories_size = row.directories_size
                p.recovery = p.recovery_default = 0 if whole else -1
                p.elr_size = p.last_known_elr_size = -1
                p.removing_size = p.adding_size = 0
                if whole and p.directories_size == 0:
                    p.directories_size = -1
                if block.extras is not None:
                    with gil:
                        self._rare(&p, block.extras.get(i, NOTHING), rare, whole)
                if whole:
                    self.put_partition(&p)
                else:
                    self.put_change(&p)

    cdef int _rare(self, Partition* p, object extra, int32_t* room, bint whole) except -1:
        """Copy the rare fields of an Extra into `p`. Lists are kept in `room`. In a whole record an empty list gets no
        tag."""
        if extra.recovery is not None:
            p.recovery = extra.recovery
        p.removing, p.removing_size = room, into(extra.removing or (), room)
        p.adding, p.adding_size = room + SCRATCH, into(extra.adding or (), room + SCRATCH)
        if extra.elr or (extra.elr is not None and not whole):
            p.elr, p.elr_size = room + 2 * SCRATCH, into(extra.elr, room + 2 * SCRATCH)
        if extra.last_known_elr or (extra.last_known_elr is not None and not whole):
            p.last_known_elr = room + 3 * SCRATCH
            p.last_known_elr_size = into(extra.last_known_elr, room + 3 * SCRATCH)
        return 0

    def add_topic(self, View view, bytes topic_record, Py_ssize_t topic):
        """A topic's record, then a PartitionRecord for each of its partitions as `view` has them, by number. Raises
        ValueError for a partition whose two epochs differ."""
        cdef bytes chain = view.chains.get(topic), topic_id = view.topic_ids.get(topic)
        cdef const Extent* extents = <const Extent*><const char*>chain
        cdef Py_ssize_t extent_count = len(chain) // <Py_ssize_t>sizeof(Extent), e, row
        cdef const uint8_t* id_ = <const uint8_t*><const char*>topic_id
        self.put_value(<const uint8_t*><const char*>topic_record, len(topic_record))
        with nogil:
            for e in range(extent_count):
                for row in range(extents[e].row, extents[e].row + extents[e].count):
                    self.put_row(view, id_, row)

    cdef int put_row(self, View view, const uint8_t* topic_id, Py_ssize_t row) except -1 nogil:
        cdef Table* columns = view.chunk_of(row)
        cdef Py_ssize_t at = row & (CHUNK - 1)
        cdef const int32_t* values = view.lists.at(columns.replicas[at])
        cdef int32_t isr[32]
        cdef uint8_t directories[16 * 32]
        cdef int32_t i
        cdef Partition p
        if columns.partition_epoch[at] != columns.leader_epoch[at]:
            with gil:
                raise ValueError(f"partition {columns.number[at]}: {ONE_EPOCH}")
        if columns.flags[at] & RARE or values[0] > 32:
            with gil:
                return self._put_rare_row(view, topic_id, row)
        p.number = columns.number[at]
        p.topic_id = topic_id
        p.leader, p.leader_epoch = columns.leader[at], columns.leader_epoch[at]
        p.replicas, p.replicas_size = values + 1, values[0]
        p.isr = isr
        p.isr_size = 0
        for i in range(values[0]):
            if columns.isr[at] >> i & 1:
                isr[p.isr_size] = values[1 + i]
                p.isr_size += 1
        values = view.lists.at(columns.directories[at])
        p.directories = directories
        p.directories_size = values[0] if values[0] else -1
        for i in range(values[0]):
            memcpy(directories + 16 * i, view.directory_ids.at(values[1 + i]), 16)
        p.removing_size = p.adding_size = 0
        p.recovery = p.recovery_default = 0
        p.elr_size = p.last_known_elr_size = -1
        return self.put_partition(&p)

    cdef int _put_rare_row(self, View view, const uint8_t* topic_id, Py_ssize_t row) except -1:
        cdef Block block = Block()
        block.append(
            (<const char*>topic_id)[:16], view.number(row), view.replicas(row), view.isr(row), view.leader(row),
            view.leader_epoch(row), view.partition_epoch(row), view.directories(row) or None, view.extra(row),
        )
        self.add_partitions(block)
        return 0

    def begin(self):
        """Begin an atomic group: its records stay in one batch, until `end`."""
        if self.group_at >= 0:
            raise ValueError("an atomic group is open already")
        self.group_at = self.size
        self.group_count = 0 if self.batch_at < 0 else self.count
        self.group_offset = self.next_offset

    def end(self):
        """End the atomic group."""
        self.group_at = -1

    def abandon(self):
        """Drop the records since `begin`."""
        if self.group_at < 0:
            raise ValueError("no atomic group is open")
        self.size = self.group_at
        self.next_offset = self.group_offset
        if self.batch_at >= 0:
            self.count = self.group_count
            if self.count == 0:
                self.size = self.batch_at
                self.batch_at = -1
        self.group_at = -1

    def cut(self):
        """End the open batch."""
        with nogil:
            self.close_batch()

    @property
    def bytes_written(self):
        """Bytes so far, with those of the open batch."""
        return self.size

    def batches(self):
        """End the open batch. Returns (base offset, last offset, bytes) of every batch."""
        self.cut()
        return [
            (self.cuts[i].base_offset, self.cuts[i].last_offset, (<char*>self.data)[self.cuts[i].start:self.cuts[i].end])
            for i in range(self.cuts_count)
        ]

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        """All batches so far, without a copy. While a buffer of them exists, no record can be added."""
        self.cut()
        PyBuffer_FillInfo(buffer, self, self.data, self.size, 1, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self.exports -= 1


cdef int32_t into(object values, int32_t* room) except -1:
    cdef int32_t i = 0
    if len(values) > SCRATCH:
        raise ValueError(f"a list of {len(values)} broker ids")
    for value in values:
        room[i] = value
        i += 1
    return i
