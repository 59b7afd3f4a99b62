"""Records of a topic log into columns in Arrow's layout, without a Python object for each record.

This file alone decides how keys, values and headers become Arrow buffers: 32-bit offsets, bytes end to end, validity bits
(least significant first). The records lie in one buffer, batch by batch, uncompressed (fastpath/records/batch.pyx draws
them). Only the requested columns are built.
"""

import numpy as np

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from fastpath.records.batch cimport BatchHeader, RecordView, read_bytes, read_record
from fastpath.records.header cimport LOG_APPEND_TIME
from fastpath.records.faults cimport BAD_RECORD_OFFSET, FINE, TOO_LONG, Fault
from fastpath.bytes.byte_builder cimport Growth, Rooms, extend_by, grow, own, push_int32
from fastpath.bytes.open_buffer cimport opened

from fastpath.records.batch import HEADER_DTYPE, CorruptBatch
from fastpath.records.record_stream import REASONS

KEY, VALUE, HEADERS, OFFSET, TIMESTAMP, TIMESTAMP_TYPE = 1, 2, 4, 8, 16, 32

cdef enum:
    WANT_KEY = 1
    WANT_VALUE = 2
    WANT_HEADERS = 4
    WANT_OFFSET = 8
    WANT_TIMESTAMP = 16
    WANT_TYPE = 32

cdef enum:                              # places of the columns' memory in Rooms
    OFFSETS = 0
    TIMES = 1
    TYPES = 2
    KEYS = 3                            # and two more
    VALUES = 6                          # and two more
    PLACES = 9

cdef int64_t LAST_MS = 9223372036854775     # the last millisecond that fits into microseconds

cdef struct Varied:                     # one column of bytes
    int32_t* offsets                    # rows + 1
    uint8_t* data
    uint8_t* valid                      # bits
    int64_t used                        # bytes of data
    int64_t nulls


cdef struct Named:                      # record headers: a list for each row
    Growth ends                         # int32: number of headers up to and including this row
    Growth names                        # bytes
    Growth name_ends                    # int32
    Growth values
    Growth value_ends                   # int32
    Growth absent                       # a byte for each header: 1 null


cdef inline void put(Varied* column, int64_t row, const uint8_t* data, int32_t size) noexcept nogil:
    if size < 0:
        column.nulls += 1
    else:
        memcpy(column.data + column.used, data, size)
        column.used += size
        column.valid[row >> 3] |= <uint8_t>(1 << (row & 7))
    column.offsets[row + 1] = <int32_t>column.used


cdef bint put_headers(Named* named, const uint8_t* data, RecordView* record) noexcept nogil:
    """Add a record's headers. False when there is no memory. read_record has checked the record."""
    cdef Py_ssize_t pos = record.headers, start = 0
    cdef int32_t size = 0, i
    cdef uint8_t* place
    for i in range(record.header_count):
        pos = read_bytes(data, pos, record.end, &start, &size)
        place = extend_by(&named.names, size)
        if place == NULL:
            return False
        memcpy(place, data + start, size)
        pos = read_bytes(data, pos, record.end, &start, &size)
        place = extend_by(&named.absent, 1)
        if place == NULL:
            return False
        place[0] = size < 0
        if size > 0:
            place = extend_by(&named.values, size)
            if place == NULL:
                return False
            memcpy(place, data + start, size)
        if not push_int32(&named.name_ends, <int32_t>named.names.size):
            return False
        if not push_int32(&named.value_ends, <int32_t>named.values.size):
            return False
    return push_int32(&named.ends, <int32_t>(named.name_ends.size // 4) - 1)


cdef struct Columns:                    # what is filled. It owns nothing but what `named` has: arrays own the rest
    int want
    int64_t row                         # the next one
    int64_t* offsets
    int64_t* times
    int32_t* types
    Varied key, value
    Named named


cdef bint put_record(
    Columns* columns, const uint8_t* data, const BatchHeader* h, RecordView* record, bint append_time
) noexcept nogil:
    """Fill one row. False when there is no memory."""
    cdef int want = columns.want
    cdef int64_t row = columns.row, time
    if want & WANT_OFFSET:
        columns.offsets[row] = h.base_offset + record.offset_delta
    if want & WANT_TIMESTAMP:
        time = h.max_timestamp
        if not append_time:
            time = <int64_t>(<uint64_t>h.base_timestamp + <uint64_t>record.timestamp_delta)
        columns.times[row] = max(-LAST_MS, min(time, LAST_MS)) * 1000
    if want & WANT_TYPE:
        columns.types[row] = append_time
    if want & WANT_KEY:
        put(&columns.key, row, data + record.key, record.key_size)
    if want & WANT_VALUE:
        put(&columns.value, row, data + record.value, record.value_size)
    if want & WANT_HEADERS and not put_headers(&columns.named, data, record):
        return False
    columns.row = row + 1
    return True


cdef Fault put_batch(
    Columns* columns, const uint8_t* data, Py_ssize_t at, Py_ssize_t end, const BatchHeader* h, bint* memory
) noexcept nogil:
    """Fill the rows of one batch, whose records lie in [at, end). `memory`: False when there is none."""
    cdef RecordView record
    cdef Fault fault
    cdef int32_t i, before = -1
    cdef bint append_time = h.attributes & LOG_APPEND_TIME != 0
    for i in range(h.count):
        fault = read_record(data, at, end, &record)
        if fault != FINE:
            return fault
        if record.offset_delta <= before or record.offset_delta > h.last_offset_delta:
            return BAD_RECORD_OFFSET
        before = record.offset_delta
        at = record.end
        memory[0] = put_record(columns, data, h, &record, append_time)
        if not memory[0]:
            return FINE
    return FINE if at == end else TOO_LONG


cdef int64_t rows_of(
    const BatchHeader* h, Py_ssize_t batches, int64_t[::1] starts, int64_t[::1] ends, Py_ssize_t size, int64_t* room
) except -1:
    """The number of records of all batches; `room`: the bytes that their keys and values need at most. Raises
    CorruptBatch for a count that cannot be true, so that no memory is taken for it."""
    cdef int64_t rows = 0
    cdef Py_ssize_t batch
    room[0] = 0
    for batch in range(batches):
        if not 0 <= starts[batch] <= ends[batch] <= size:
            raise ValueError("a batch outside the buffer")
        if h[batch].count > (ends[batch] - starts[batch]) // 7 + 1:     # the shortest record has 7 bytes
            raise CorruptBatch(batch, "more records than the batch has bytes for")
        rows += h[batch].count
        room[0] += ends[batch] - starts[batch]
    if room[0] > 0x7FFFFFFF:
        raise ValueError("more bytes than 32-bit offsets reach")
    return rows


cdef Varied varied(tuple arrays):
    """An empty column of bytes in the memory of (offsets, data, validity), which must outlive it."""
    cdef Varied column
    cdef int32_t[::1] offsets
    cdef uint8_t[::1] data, valid
    offsets, data, valid = arrays
    column.offsets, column.data, column.valid = &offsets[0], &data[0], &valid[0]
    column.used = column.nulls = 0
    return column


def unpack(data, headers, int64_t[::1] starts, int64_t[::1] ends, int want=63, Rooms rooms=None):
    """Columns of the records of some batches, as a dict of numpy arrays.

    `headers`: HEADER_DTYPE, one for each batch; `starts`, `ends`: where its records lie in `data`, uncompressed.
    `want`: a sum of KEY ... TIMESTAMP_TYPE. Returns the wanted ones of: `offset` int64; `timestamp` int64, microseconds
    (a time beyond the last possible one becomes that one); `timestamp_type` int32 (0 create time, 1 append time);
    `key`, `value`: (offsets int32, data uint8, validity bits uint8, nulls); `headers`: (offsets, name offsets, name
    data, value offsets, value data, absent bytes). Their memory, except that of headers, belongs to `rooms` and goes
    back there. Raises CorruptBatch (`position`: index of the batch) for invalid records, even if the CRC is right.
    """
    cdef BatchHeader* h
    cdef Columns columns
    cdef Fault fault = FINE
    cdef Py_ssize_t batch = 0, batches = len(headers)
    cdef int64_t rows, room = 0
    cdef bint memory = True
    cdef int64_t[::1] offset_column, timestamp_column
    cdef int32_t[::1] type_column
    cdef const uint8_t[::1] raw = headers.view(np.uint8).reshape(-1) if batches else np.zeros(1, dtype=np.uint8)
    if headers.dtype != HEADER_DTYPE or starts.shape[0] != batches or ends.shape[0] != batches:
        raise ValueError("one header, start and end a batch")
    h = <BatchHeader*>&raw[0]
    buffer = opened(data)
    rows = rows_of(h, batches, starts, ends, buffer.size, &room)
    if rooms is not None:
        rooms.fit(PLACES)
    # These arrays own the memory that is filled, and give it back to `rooms` when they go. What is not wanted is an array
    # of no item, or of one that is not used.
    offset_column = offset_array = array_for(rooms, OFFSETS, rows if want & WANT_OFFSET else 0, np.int64)
    timestamp_column = timestamp_array = array_for(rooms, TIMES, rows if want & WANT_TIMESTAMP else 0, np.int64)
    type_column = type_array = array_for(rooms, TYPES, rows if want & WANT_TYPE else 0, np.int32)
    key_columns = columns_for(rooms, KEYS, rows, room, want & WANT_KEY)
    value_columns = columns_for(rooms, VALUES, rows, room, want & WANT_VALUE)
    columns.want, columns.row = want, 0
    columns.offsets = &offset_column[0] if offset_column.shape[0] else NULL
    columns.times = &timestamp_column[0] if timestamp_column.shape[0] else NULL
    columns.types = &type_column[0] if type_column.shape[0] else NULL
    columns.key, columns.value = varied(key_columns), varied(value_columns)
    empty(&columns.named)
    with nogil:
        if want & WANT_HEADERS:
            memory = begin_headers(&columns.named)
        while batch < batches and memory:
            fault = put_batch(&columns, buffer.data, starts[batch], ends[batch], &h[batch], &memory)
            if fault != FINE:
                break
            batch += 1
    if fault != FINE or not memory:
        release(&columns.named)
        if not memory:
            raise MemoryError
        raise CorruptBatch(batch, REASONS[fault])
    found = {}
    if want & WANT_OFFSET:
        found["offset"] = offset_array
    if want & WANT_TIMESTAMP:
        found["timestamp"] = timestamp_array
    if want & WANT_TYPE:
        found["timestamp_type"] = type_array
    if want & WANT_KEY:
        found["key"] = filled(key_columns, &columns.key)
    if want & WANT_VALUE:
        found["value"] = filled(value_columns, &columns.value)
    if want & WANT_HEADERS:
        found["headers"] = taken(&columns.named)
    return found


cdef tuple filled(tuple arrays, Varied* column):
    """(offsets, data, validity, nulls) of a column of bytes: of the data what was filled."""
    return arrays[0], arrays[1][:column.used], arrays[2], column.nulls


cdef tuple columns_for(Rooms rooms, int place, int64_t rows, int64_t room, bint wanted):
    """(offsets, data, validity) with memory for the largest possible content: pages that are never touched cost
    nothing."""
    if not wanted:
        return np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.uint8), np.zeros(1, dtype=np.uint8)
    offsets = array_for(rooms, place, rows + 1, np.int32)
    offsets[0] = 0
    valid = array_for(rooms, place + 2, (rows + 8) // 8, np.uint8)
    valid[:] = 0
    return offsets, array_for(rooms, place + 1, room + 1, np.uint8), valid


cdef object array_for(Rooms rooms, int place, int64_t count, object dtype):
    """An uninitialized array over the memory of a place."""
    cdef Growth memory
    cdef size_t size = count * dtype().itemsize
    if count == 0:
        return np.empty(0, dtype=dtype)
    memset(&memory, 0, sizeof(Growth))
    if rooms is not None:
        rooms.take(place, &memory)
    if memory.room <= size and grow(&memory, size) == NULL:
        own(&memory, rooms, place)
        raise MemoryError
    memory.size = size
    return np.frombuffer(own(&memory, rooms, place), dtype=dtype)


cdef void empty(Named* named) noexcept:
    cdef Growth none
    none.data, none.size, none.room = NULL, 0, 0
    named.ends = named.names = named.name_ends = named.values = named.value_ends = named.absent = none


cdef bint begin_headers(Named* named) noexcept nogil:
    """Each list of ends begins with 0. False when there is no memory."""
    return push_int32(&named.ends, 0) and push_int32(&named.name_ends, 0) and push_int32(&named.value_ends, 0)


cdef void release(Named* named):
    """Free what `named` owns: the arrays that are made of it go at once."""
    taken(named)


cdef tuple taken(Named* named):
    """The arrays of headers, which own from now on what `named` has owned."""
    return (
        array(&named.ends, np.int32), array(&named.name_ends, np.int32), array(&named.names, np.uint8),
        array(&named.value_ends, np.int32), array(&named.values, np.uint8), array(&named.absent, np.uint8),
    )


cdef object array(Growth* g, object dtype):
    return np.frombuffer(own(g), dtype=dtype) if g.size else np.empty(0, dtype=dtype)
