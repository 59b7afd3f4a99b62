"""The layout of record batches for C callers: header, records, and what can be wrong with them.

Readers stay inside `[pos, end)` whatever the bytes say, and return a `Fault`. Nothing here needs the GIL.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from fastpath.varint cimport read_varint, read_varlong

cdef enum:
    HEADER_BYTES = 61           # up to the first record
    SIZE_BYTES = 12             # base offset and batch length: what the batch length does not count
    CRC_FROM = 21               # the CRC covers from the attributes to the end
    CODEC = 0x07                # attributes: compression codec
    LOG_APPEND_TIME = 0x08      # attributes: every record has the time max_timestamp
    CONTROL = 0x20              # attributes: written by the cluster, not by a client

cdef enum Fault:
    FINE = 0
    CUT                         # the bytes end inside the batch
    BAD_SIZE                    # below HEADER_BYTES, or beyond 2 GiB
    BAD_MAGIC
    BAD_OFFSETS                 # negative, or past 63 bits
    BAD_COUNT                   # more records than offsets, or fewer than none
    BAD_CRC
    NOT_CONTIGUOUS              # from here on only clients can be wrong: count and offsets disagree
    CLIENT_CONTROL
    CLIENT_CODEC
    CLIENT_TIME
    BAD_RECORD                  # a record's bytes make no sense; the position says where
    BAD_RECORD_OFFSET
    NO_KEY
    BAD_TIME                    # a record's timestamp is outside of what the topic accepts
    TOO_LONG                    # bytes behind the last record

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


cdef inline uint32_t load32(const uint8_t* p) noexcept nogil:
    return <uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | p[3]


cdef inline int16_t load16(const uint8_t* p) noexcept nogil:
    return <int16_t>(<uint32_t>p[0] << 8 | p[1])


cdef inline int64_t load64(const uint8_t* p) noexcept nogil:
    return <int64_t>(<uint64_t>load32(p) << 32 | load32(p + 4))


cdef inline void store16(uint8_t* p, int16_t value) noexcept nogil:
    p[0] = <uint8_t>(<uint32_t>value >> 8)
    p[1] = <uint8_t>value


cdef inline void store32(uint8_t* p, uint32_t value) noexcept nogil:
    p[0] = <uint8_t>(value >> 24)
    p[1] = <uint8_t>(value >> 16)
    p[2] = <uint8_t>(value >> 8)
    p[3] = <uint8_t>value


cdef inline void store64(uint8_t* p, int64_t value) noexcept nogil:
    store32(p, <uint32_t>(<uint64_t>value >> 32))
    store32(p + 4, <uint32_t>value)


cdef inline Fault read_size(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, int64_t* size) noexcept nogil:
    """Only where the batch ends. CUT when it ends past `end`."""
    cdef int32_t length
    if end - pos < SIZE_BYTES:
        return CUT
    length = <int32_t>load32(data + pos + 8)
    if length < HEADER_BYTES - SIZE_BYTES or length > 0x7FFFFFFF - SIZE_BYTES:
        return BAD_SIZE
    size[0] = length + SIZE_BYTES
    return CUT if size[0] > end - pos else FINE


cdef inline Fault read_header(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, BatchHeader* out) noexcept nogil:
    """The header of the whole batch at `pos`, each number checked on its own; no CRC. The base offset may be anything."""
    cdef const uint8_t* p = data + pos
    cdef Fault fault
    if end - pos > 16 and p[16] != 2 and load32(p + 8) >> 31 == 0:
        return BAD_MAGIC                # an older format has shorter headers: not a wrong size
    fault = read_size(data, pos, end, &out.size)
    if fault != FINE:
        return fault
    out.position = pos
    out.base_offset = load64(p)
    out.epoch = <int32_t>load32(p + 12)
    out.magic = 2
    out.crc = load32(p + 17)
    out.attributes = load16(p + 21)
    out.last_offset_delta = <int32_t>load32(p + 23)
    out.base_timestamp = load64(p + 27)
    out.max_timestamp = load64(p + 35)
    out.producer_id = load64(p + 43)
    out.producer_epoch = load16(p + 51)
    out.base_sequence = <int32_t>load32(p + 53)
    out.count = <int32_t>load32(p + 57)
    out.last_offset = <int64_t>(<uint64_t>out.base_offset + <uint64_t>out.last_offset_delta)
    if out.last_offset_delta < 0:
        return BAD_OFFSETS
    if out.count < 0 or out.count - 1 > out.last_offset_delta:
        return BAD_COUNT
    return FINE


cdef inline Fault read_record(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, RecordView* out) noexcept nogil:
    """One record, with all its lengths checked. On BAD_RECORD `out.end` is the position of the trouble."""
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
    """Bytes with their length in front, -1 for null; the position behind them, or -1."""
    pos = read_varint(data, pos, end, size)
    start[0] = pos
    if pos < 0 or size[0] < -1 or size[0] > end - pos:
        return -1
    return pos + size[0] if size[0] > 0 else pos


cdef inline Py_ssize_t skip_header(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """A record header: a name, which may not be null, and bytes. The position behind it, or -1."""
    cdef Py_ssize_t start = 0
    cdef int32_t size = 0
    pos = read_bytes(data, pos, end, &start, &size)
    if pos < 0 or size < 0:
        return -1
    return read_bytes(data, pos, end, &start, &size)
