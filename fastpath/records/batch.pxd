"""The layout of record batches for C callers: header, records, and the possible faults.

Readers stay inside `[pos, end)` whatever the bytes say, and return a `Fault`. Nothing here needs the GIL.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from fastpath.bytes.endian cimport load_int16, load_int32, load_int64, load_uint32
from fastpath.bytes.varint cimport read_varint, read_varlong
from fastpath.records.faults cimport BAD_COUNT, BAD_MAGIC, BAD_OFFSETS, BAD_RECORD, BAD_SIZE, CUT, FINE, Fault
from fastpath.records.header cimport (
    ATTRIBUTES_AT, BASE_SEQUENCE_AT, BASE_TIMESTAMP_AT, COUNT_AT, CRC_AT, EPOCH_AT,
    HEADER_BYTES, LAST_OFFSET_DELTA_AT, LENGTH_AT, MAGIC_AT, MAX_TIMESTAMP_AT, PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT, SIZE_BYTES,
)

# Native integers, in an order that needs no padding but the last; numpy reads an array of these (HEADER_DTYPE).
cdef struct BatchHeader:
    int64_t position            # of the batch, in the buffer
    int64_t size                # whole batch, bytes
    int64_t base_offset
    int64_t last_offset         # base_offset + last_offset_delta
    int64_t base_timestamp      # ms since 1970
    int64_t max_timestamp
    int64_t producer_id
    int32_t epoch               # partition leader epoch
    uint32_t crc
    int32_t last_offset_delta
    int32_t base_sequence
    int32_t count               # records
    int16_t attributes
    int16_t producer_epoch
    int8_t magic

cdef struct RecordView:
    Py_ssize_t end              # behind the record
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_size            # -1: null
    int32_t value_size          # -1: null
    int32_t header_count
    Py_ssize_t key              # positions
    Py_ssize_t value
    Py_ssize_t headers


cdef inline Fault read_size(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, int64_t* size) noexcept nogil:
    """Reads only where the batch ends. CUT when it ends past `end`."""
    cdef int32_t length
    if end - pos < SIZE_BYTES:
        return CUT
    length = load_int32(data + pos + LENGTH_AT)
    if length < HEADER_BYTES - SIZE_BYTES or length > 0x7FFFFFFF - SIZE_BYTES:
        return BAD_SIZE
    size[0] = length + SIZE_BYTES
    return CUT if size[0] > end - pos else FINE


cdef inline Fault read_header(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, BatchHeader* out) noexcept nogil:
    """Reads the header of the whole batch at `pos`. Each number is checked on its own; the CRC is not. Any base offset
    is accepted."""
    cdef const uint8_t* p = data + pos
    cdef Fault fault
    if end - pos > MAGIC_AT and p[MAGIC_AT] != 2 and load_uint32(p + LENGTH_AT) >> 31 == 0:
        return BAD_MAGIC                # an older format has shorter headers, so its size must not count as wrong
    fault = read_size(data, pos, end, &out.size)
    if fault != FINE:
        return fault
    out.position = pos
    out.base_offset = load_int64(p)
    out.epoch = load_int32(p + EPOCH_AT)
    out.magic = 2
    out.crc = load_uint32(p + CRC_AT)
    out.attributes = load_int16(p + ATTRIBUTES_AT)
    out.last_offset_delta = load_int32(p + LAST_OFFSET_DELTA_AT)
    out.base_timestamp = load_int64(p + BASE_TIMESTAMP_AT)
    out.max_timestamp = load_int64(p + MAX_TIMESTAMP_AT)
    out.producer_id = load_int64(p + PRODUCER_ID_AT)
    out.producer_epoch = load_int16(p + PRODUCER_EPOCH_AT)
    out.base_sequence = load_int32(p + BASE_SEQUENCE_AT)
    out.count = load_int32(p + COUNT_AT)
    out.last_offset = <int64_t>(<uint64_t>out.base_offset + <uint64_t>out.last_offset_delta)
    if out.last_offset_delta < 0:
        return BAD_OFFSETS
    if out.count < 0 or out.count - 1 > out.last_offset_delta:
        return BAD_COUNT
    return FINE


cdef inline Fault read_record(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, RecordView* out) noexcept nogil:
    """Reads one record and checks all its lengths. On BAD_RECORD `out.end` is the position of the fault."""
    cdef int32_t size = 0, i
    cdef Py_ssize_t p
    out.end = pos
    p = read_varint(data, pos, end, &size)
    if p < 0 or size < 1 or size > end - p:
        return BAD_RECORD
    end = p + size
    p = read_varlong(data, p + 1, end, &out.timestamp_delta)        # one byte of attributes, unused
    if p < 0:
        return BAD_RECORD
    p = read_varint(data, p, end, &out.offset_delta)
    if p < 0:
        return BAD_RECORD
    p = read_bytes(data, p, end, &out.key, &out.key_size)
    if p < 0:
        return BAD_RECORD
    p = read_bytes(data, p, end, &out.value, &out.value_size)
    if p < 0:
        return BAD_RECORD
    p = read_varint(data, p, end, &out.header_count)
    if p < 0 or out.header_count < 0:
        return BAD_RECORD
    out.headers = p
    for i in range(out.header_count):
        p = skip_header(data, p, end)
        if p < 0:
            return BAD_RECORD
    if p != end:
        return BAD_RECORD
    out.end = end
    return FINE


cdef inline Py_ssize_t read_bytes(
    const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t* start, int32_t* size
) noexcept nogil:
    """Reads bytes after their length, -1 for null. Returns the position after them, or -1."""
    pos = read_varint(data, pos, end, size)
    start[0] = pos
    if pos < 0 or size[0] < -1 or size[0] > end - pos:
        return -1
    return pos + size[0] if size[0] > 0 else pos


cdef inline Py_ssize_t skip_header(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Reads a record header: a name, which may not be null, and bytes. Returns the position after it, or -1."""
    cdef Py_ssize_t start = 0
    cdef int32_t size = 0
    pos = read_bytes(data, pos, end, &start, &size)
    if pos < 0 or size < 0:
        return -1
    return read_bytes(data, pos, end, &start, &size)
