"""Record batches out of Arrow columns, without a Python object for each record: what a producer sends.

The layout is drawn in fastpath/records/batch.pyx. This file alone decides how rows become batches. Rules:

1. A record with a key goes to the partition that murmur2 says, as Java's producer chooses it; one without a key to the
   partition whose turn it is, until that partition's batch is closed (KIP-480); and each to the partition that a column of
   partitions names, if there is one and it is not null.
2. A batch is closed when the next record of its partition does not fit into it. A record that fits into none has one alone, up
   to the largest record that is allowed. Sizes are those before compression.
3. A column's offsets are checked where they are read, and a row that cannot be a record is a fault that names it. The rows in
   front of it have been taken then.
4. Another thread may write into the memory of a column. No size is believed twice: a row whose headers have others when they
   are written than when room was made for them is a fault.
"""

from typing import NamedTuple

import numpy as np

from fastpath.records import compression

from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from fastpath.arrow.array_views cimport FIXED, NULLS, bounds, is_valid, load_int64, look
from fastpath.bytes.byte_builder cimport grow, own
from fastpath.bytes.crc32c cimport extend
from fastpath.bytes.endian cimport store_int16, store_int32, store_int64, store_uint32
from fastpath.bytes.murmur2 cimport of_key
from fastpath.bytes.varint cimport size_varint, size_varlong, write_varint, write_varlong
from fastpath.records.header cimport (
    ATTRIBUTES_AT, BASE_SEQUENCE_AT, BASE_TIMESTAMP_AT, COUNT_AT, CRC_AT, CRC_FROM, EPOCH_AT, HEADER_BYTES,
    LAST_OFFSET_DELTA_AT, LENGTH_AT, MAGIC_AT, MAX_TIMESTAMP_AT, PRODUCER_EPOCH_AT, PRODUCER_ID_AT, SIZE_BYTES,
)

DAMAGED = "its offsets lead out of the array's bytes"
TOO_LARGE = "the record is too large"
PARTITION_OUTSIDE = "the topic has no such partition"
TIME_OUTSIDE = "its timestamp is before 1970, or beyond what a record can have"
NO_NAME = "a header has no key"
CHANGED = "its headers were changed while they were written"

cdef enum Fault:
    FINE = 0
    MEMORY
    OUT_OF_BUFFER
    LARGE_RECORD
    BAD_PARTITION
    BAD_TIME
    NAMELESS
    CHANGED_HEADERS

cdef dict REASONS = {
    OUT_OF_BUFFER: DAMAGED,
    LARGE_RECORD: TOO_LARGE,
    BAD_PARTITION: PARTITION_OUTSIDE,
    BAD_TIME: TIME_OUTSIDE,
    NAMELESS: NO_NAME,
    CHANGED_HEADERS: CHANGED,
}

cdef enum:
    BATCH_BYTES_MAX = 0x7FFFFFFF - 1024     # its length is an int32
    ROW_BYTES = 8                           # the number of a record's row

cdef int64_t MS_MAX = 9223372036854775      # the last time that fits into microseconds, in which records are read


class Closed(NamedTuple):
    partition: int
    data: object
    records: int
    rows: object


class BadRow(ValueError):
    def __init__(self, number, reason, value):
        super().__init__(f"row {number}: {reason} ({value})")
        self.number = number
        self.reason = reason
        self.value = value


# ---- columns

cdef class Columns:
    def __init__(
        self, int64_t rows, Array key=None, Array value=None, Array partition=None, Array timestamp=None,
        str unit="ms", headers=None,
    ):
        cdef Array one
        cdef Array nothing = Array("null", rows)
        cdef Array lists, pairs, names, contents
        lists, pairs, names, contents = headers or (nothing, nothing, nothing, nothing)
        if unit not in ("s", "ms", "us", "ns"):
            raise ValueError(f"no timestamp has the unit {unit}")
        self.times = 1000 if unit == "s" else 1
        self.parts = {"us": 1000, "ns": 1_000_000}.get(unit, 1)
        self.has_partitions = partition is not None
        key, value, partition, timestamp = [nothing if one is None else one for one in (key, value, partition, timestamp)]
        self.held = [key, value, partition, timestamp, lists, pairs, names, contents]
        for one in (key, value, partition, timestamp, lists):
            if one.view.rows < rows:
                raise ValueError(f"a column has {one.view.rows} rows, and {rows} are to be read")
        for one in (partition, timestamp):
            if one.view.form != NULLS and (one.view.form != FIXED or one.view.width != 8):
                raise ValueError("partitions and timestamps are numbers of 64 bits")
        if min(names.view.rows, contents.view.rows) < pairs.view.rows:
            raise ValueError("there are fewer names or contents of headers than headers")
        self.rows = rows
        self.key, self.value, self.partition, self.timestamp = key.view, value.view, partition.view, timestamp.view
        self.lists, self.pairs, self.names, self.contents = lists.view, pairs.view, names.view, contents.view


cdef inline int64_t number_at(const View* view, int64_t row) noexcept nogil:
    return load_int64(view.pieces[0].data + 8 * (view.first + row))


cdef int gather(Columns columns, int64_t row, int64_t now_ms, int32_t partitions, Cells* cells, int64_t* bad) noexcept nogil:
    """Look up all cells of a row. `bad`: what a fault is about."""
    cdef int64_t ms
    bad[0] = 0
    if not look(&columns.key, row, &cells.key, &cells.key_size) or not look(
        &columns.value, row, &cells.value, &cells.value_size
    ):
        return OUT_OF_BUFFER
    cells.partition = -1
    if columns.has_partitions and columns.partition.form != NULLS and is_valid(&columns.partition, row):
        bad[0] = number_at(&columns.partition, row)
        if not 0 <= bad[0] < partitions:
            return BAD_PARTITION
        cells.partition = <int32_t>bad[0]
    cells.ms = now_ms
    if columns.timestamp.form != NULLS and is_valid(&columns.timestamp, row):
        ms = bad[0] = number_at(&columns.timestamp, row)
        if ms < 0 or ms // columns.parts > MS_MAX // columns.times:
            return BAD_TIME
        cells.ms = ms // columns.parts * columns.times
    cells.headers_bytes = cells.headers_from = cells.header_count = 0
    if columns.lists.form != NULLS and is_valid(&columns.lists, row):
        return gather_headers(columns, row, cells)
    return FINE


cdef int gather_headers(Columns columns, int64_t row, Cells* cells) noexcept nogil:
    """Look up how many headers a row has, and how many bytes they take."""
    cdef int64_t at, end = 0, size = 0
    cdef const uint8_t* data = NULL
    bounds(&columns.lists, row, &cells.headers_from, &end)
    if not 0 <= cells.headers_from <= end <= columns.pairs.rows or end - cells.headers_from > BATCH_BYTES_MAX:
        return OUT_OF_BUFFER
    cells.header_count = <int32_t>(end - cells.headers_from)
    for at in range(cells.headers_from, end):
        if not is_valid(&columns.pairs, at):
            return NAMELESS
        if not look(&columns.names, at, &data, &size):
            return OUT_OF_BUFFER
        if size < 0:
            return NAMELESS
        cells.headers_bytes += sized(size)
        if not look(&columns.contents, at, &data, &size):
            return OUT_OF_BUFFER
        cells.headers_bytes += sized(size)
    return FINE


cdef inline int64_t sized(int64_t size) noexcept nogil:
    """The bytes of a value and its length; -1: null. A size beyond what a record can have is not cut."""
    return 1 if size < 0 else size_varlong(size) + size


# ---- batches

cdef inline int64_t record_size(Batch* batch, Cells* cells) noexcept nogil:
    """The size of a record as the next one of a batch, without its length."""
    cdef int64_t delta = cells.ms - batch.base_ms if batch.count else 0
    return (
        1 + size_varlong(delta) + size_varint(batch.count) + sized(cells.key_size) + sized(cells.value_size)
        + size_varint(cells.header_count) + cells.headers_bytes
    )


cdef uint8_t* more(Growth* g, int64_t size) noexcept nogil:
    """As `extend_by`, for what is mostly small: topics have thousands of partitions, and each has an open batch."""
    cdef size_t room = g.room * 2 if g.room * 2 > g.size + size else g.size + size + 1
    cdef uint8_t* data
    if g.size + size >= g.room:
        data = <uint8_t*>realloc(g.data, room)
        if data == NULL:
            return NULL
        g.data, g.room = data, room
    g.size += size
    return g.data + g.size - size


cdef void trim(Growth* g) noexcept nogil:
    """Give back memory that was not filled, where that is much of it."""
    cdef uint8_t* data
    if g.room - g.size > 64 + g.size // 8:
        data = <uint8_t*>realloc(g.data, g.size + 1)
        if data != NULL:
            g.data, g.room = data, g.size + 1


cdef inline Py_ssize_t put(uint8_t* out, Py_ssize_t pos, const uint8_t* data, int64_t size) noexcept nogil:
    pos = write_varint(out, pos, <int32_t>size)
    if size > 0:
        memcpy(out + pos, data, size)
        pos += size
    return pos


cdef bint put_headers(Columns columns, const Cells* cells, uint8_t* out, Py_ssize_t pos) noexcept nogil:
    """Write a row's headers into the room that was made for them. False: they are not what they were then."""
    cdef int64_t at, part = 0, left = cells.headers_bytes
    cdef const uint8_t* data = NULL
    for at in range(cells.headers_from, cells.headers_from + cells.header_count):
        if not look(&columns.names, at, &data, &part) or part < 0 or sized(part) > left:
            return False
        left -= sized(part)
        pos = put(out, pos, data, part)
        if not look(&columns.contents, at, &data, &part) or sized(part) > left:
            return False
        left -= sized(part)
        pos = put(out, pos, data, part)
    return left == 0


cdef void write_header(uint8_t* out, Batch* batch, int64_t size, int codec) noexcept nogil:
    """Fill in the header of a batch of `size` bytes in all, and its CRC."""
    store_int64(out, 0)
    store_int32(out + LENGTH_AT, <int32_t>(size - SIZE_BYTES))
    store_int32(out + EPOCH_AT, -1)
    out[MAGIC_AT] = 2
    store_int16(out + ATTRIBUTES_AT, codec)
    store_int32(out + LAST_OFFSET_DELTA_AT, batch.count - 1)
    store_int64(out + BASE_TIMESTAMP_AT, batch.base_ms)
    store_int64(out + MAX_TIMESTAMP_AT, batch.max_ms)
    store_int64(out + PRODUCER_ID_AT, -1)
    store_int16(out + PRODUCER_EPOCH_AT, -1)
    store_int32(out + BASE_SEQUENCE_AT, -1)
    store_int32(out + COUNT_AT, batch.count)
    store_uint32(out + CRC_AT, extend(0, out + CRC_FROM, size - CRC_FROM))


cdef class Batches:
    def __init__(
        self, int32_t partitions, int64_t batch_bytes, int64_t record_bytes_max, int codec=0, turns=None,
    ):
        cdef int32_t i
        chosen = list(range(partitions) if turns is None else turns)
        if not chosen or not all(0 <= one < partitions for one in chosen):
            raise ValueError("records without a key need a partition to go to")
        if self.open_ != NULL:
            raise ValueError("the batches are there already")
        self.open_ = <Batch*>calloc(partitions, sizeof(Batch))
        self.turns = <int32_t*>malloc(len(chosen) * sizeof(int32_t))
        if self.open_ == NULL or self.turns == NULL:
            raise MemoryError
        self.partitions, self.turn_count, self.codec = partitions, len(chosen), codec
        self.record_bytes_max = min(record_bytes_max, <int64_t>BATCH_BYTES_MAX)
        self.batch_bytes = batch_bytes
        for i in range(partitions):
            self.open_[i].partition = i
        for i in range(self.turn_count):
            self.turns[i] = chosen[i]

    def __dealloc__(self):
        cdef int i
        for i in range(self.partitions):
            free(self.open_[i].memory.data)
            free(self.open_[i].rows.data)
        for i in range(self.done_count):
            free(self.done[i].memory.data)
            free(self.done[i].rows.data)
        free(self.open_)
        free(self.done)
        free(self.turns)

    @property
    def batch_bytes(self):
        return self.batch_bytes_max

    @batch_bytes.setter
    def batch_bytes(self, int64_t value):
        self.batch_bytes_max = max(<int64_t>HEADER_BYTES, min(value, <int64_t>BATCH_BYTES_MAX))

    def fill(self, Columns columns, int64_t first, int64_t end, int64_t number, int64_t now_ms, int64_t bytes_max):
        cdef int64_t row = first
        cdef int fault = FINE
        cdef Cells cells
        if not 0 <= first <= end <= columns.rows:
            raise ValueError(f"rows {first} to {end} are not among the {columns.rows} of the columns")
        with nogil:
            while row < end and self.open_bytes + self.closed_bytes < bytes_max:
                fault = gather(columns, row, now_ms, self.partitions, &cells, &self.bad_value)
                if fault == FINE:
                    fault = self._add(columns, row, number + row, &cells)
                if fault != FINE:
                    break
                row += 1
        if fault == MEMORY:
            raise MemoryError
        if fault != FINE:
            raise BadRow(number + row, REASONS[fault], self.bad_value)
        return row

    def close(self):
        cdef int32_t partition
        for partition in range(self.partitions):
            if self.open_[partition].count and not self._close(partition, False):
                raise MemoryError

    def taken(self):
        cdef list found = []
        cdef int i
        try:
            for i in range(self.done_count):
                found.append(self._given(&self.done[i]))
        finally:
            for i in range(self.done_count):        # nothing but the lost memory of a MemoryError is left there
                free(self.done[i].memory.data)
                free(self.done[i].rows.data)
            self.done_count = 0
            self.closed_bytes = 0
        return found

    cdef object _given(self, Batch* batch):
        """A batch as Python has it, compressed and with a header."""
        rows = np.frombuffer(own(&batch.rows), dtype=np.int64)
        data = own(&batch.memory)
        cdef uint8_t[::1] out
        if self.codec:
            body = compression.compress(self.codec, memoryview(data)[HEADER_BYTES:])
            data = bytearray(HEADER_BYTES + len(body))
            memoryview(data)[HEADER_BYTES:] = body
        out = data
        with nogil:
            write_header(&out[0], batch, out.shape[0], self.codec)
        return Closed(batch.partition, memoryview(data), batch.count, rows)

    # ---- one row

    cdef int _add(self, Columns columns, int64_t row, int64_t number, Cells* cells) noexcept nogil:
        """Add a row to the batch of its partition. That batch, if it has no room for it, is closed before."""
        cdef Batch* batch
        cdef int64_t size
        cdef bint is_free = False
        if cells.partition < 0:
            is_free = cells.key_size < 0
            cells.partition = (
                self.turns[self.turn] if is_free
                else of_key(cells.key, cells.key_size, self.partitions)
            )
        while True:
            batch = &self.open_[cells.partition]
            size = record_size(batch, cells)
            self.bad_value = size + size_varlong(size) + HEADER_BYTES
            if batch.count == 0:
                if self.bad_value > self.record_bytes_max:
                    return LARGE_RECORD
                break
            if <int64_t>batch.memory.size + self.bad_value - HEADER_BYTES <= self.batch_bytes_max:
                break
            if not self._close(cells.partition, True):
                return MEMORY
            if is_free:
                cells.partition = self.turns[self.turn]
        return self._put(batch, columns, cells, number, size)

    cdef int _put(self, Batch* batch, Columns columns, Cells* cells, int64_t number, int64_t size) noexcept nogil:
        """Write a record at the end of a batch. `size`: of the record, without its length."""
        cdef int64_t whole = size_varlong(size) + size
        cdef uint8_t* out
        cdef uint8_t* place
        cdef Py_ssize_t pos
        if batch.count == 0 and not self._begin(batch, cells.ms):
            return MEMORY
        place, out = more(&batch.rows, ROW_BYTES), more(&batch.memory, whole)
        if place == NULL or out == NULL:
            return MEMORY
        memcpy(place, &number, ROW_BYTES)
        pos = write_varint(out, 0, <int32_t>size)
        out[pos] = 0                    # attributes of the record: none are defined
        pos = write_varlong(out, pos + 1, cells.ms - batch.base_ms)
        pos = write_varint(out, pos, batch.count)
        pos = put(out, pos, cells.key, cells.key_size)
        pos = put(out, pos, cells.value, cells.value_size)
        pos = write_varint(out, pos, cells.header_count)
        if cells.header_count and not put_headers(columns, cells, out, pos):
            batch.rows.size -= ROW_BYTES
            batch.memory.size = batch.memory.size - whole if batch.count else 0
            return CHANGED_HEADERS
        batch.count += 1
        batch.max_ms = max(batch.max_ms, cells.ms)
        self.open_bytes += whole + ROW_BYTES
        return FINE

    cdef bint _begin(self, Batch* batch, int64_t ms) noexcept nogil:
        """Begin a batch. One that is likely to be full gets all its memory now. False: there is none."""
        if batch.is_next_large and grow(&batch.memory, self.batch_bytes_max) == NULL:
            return False
        batch.base_ms = batch.max_ms = ms
        return more(&batch.memory, HEADER_BYTES) != NULL

    cdef bint _close(self, int32_t partition, bint is_full) noexcept nogil:
        """Close the batch of a partition. If it has the turn, the next partition gets it. False: there is no memory."""
        cdef Batch* batch = &self.open_[partition]
        cdef Batch* closed
        if self.done_count == self.done_room:
            closed = <Batch*>realloc(self.done, (self.done_room * 2 + 16) * sizeof(Batch))
            if closed == NULL:
                return False
            self.done, self.done_room = closed, self.done_room * 2 + 16
        trim(&batch.memory)
        trim(&batch.rows)
        self.done[self.done_count] = batch[0]
        self.done_count += 1
        self.open_bytes -= <int64_t>(batch.memory.size - HEADER_BYTES + batch.rows.size)
        self.closed_bytes += batch.memory.size + batch.rows.size
        memset(batch, 0, sizeof(Batch))
        batch.partition, batch.is_next_large = partition, is_full
        if self.turns[self.turn] == partition:
            self.turn = (self.turn + 1) % self.turn_count
        return True
