"""Record batches (magic 2, KIP-98): the unit that is produced, replicated, stored and fetched. Never split.

    byte  0  int64   base offset        given by the leader: outside the CRC
          8  int32   length: bytes from byte 12 to the end
         12  int32   leader epoch       given by the leader: outside the CRC
         16  int8    magic (2)
         17  uint32  CRC-32C of everything from byte 21
         21  int16   attributes: bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
         23  int32   last offset delta
         27  int64   base timestamp        35  int64  max timestamp      (ms)
         43  int64   producer id           51  int16  producer epoch     53  int32  base sequence
         57  int32   record count
         61  records, compressed together when there is a codec

    record: varint size | int8 attributes | varlong timestamp delta | varint offset delta | varint key size (-1 null), key
            | varint value size (-1 null), value | varint header count | headers: varint size, name, varint size, value

This file alone decides what a sound batch is. Positions are bytes in the given buffer. Damaged bytes always raise
CorruptBatch with the position of the batch: no read leaves the buffer, and no size is believed before it is checked.
Batches are handled without a Python object for each record, except by `records` and `Builder`, which are for slow
paths.
"""

from collections import namedtuple

import numpy as np

from fastpath.records import compression
from fastpath.records.builder import Builder

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MIN

from fastpath.bytes.crc32c cimport extend
from fastpath.bytes.endian cimport store_int16, store_int32, store_int64, store_uint32
from fastpath.bytes.open_buffer cimport opened, opened_writable
from fastpath.records.faults cimport (
    BAD_COUNT, BAD_CRC, BAD_MAGIC, BAD_OFFSETS, BAD_RECORD, BAD_RECORD_OFFSET, BAD_SIZE, BAD_TIME, CLIENT_CODEC,
    CLIENT_CONTROL, CUT, FINE, NOT_CONTIGUOUS, NO_KEY, TOO_LONG, Fault,
)
from fastpath.records.header cimport (
    ATTRIBUTES_AT, CODEC, CONTROL, CRC_AT, CRC_FROM, EPOCH_AT,
    HEADER_BYTES, LOG_APPEND_TIME, MAX_TIMESTAMP_AT,
)

HEADER_SIZE = HEADER_BYTES
OUTPUT_BYTES_MAX = 100 * 1024 * 1024

cdef enum:
    NO_TIMESTAMP = -1
    GIL_BYTES = 64 * 1024       # releasing the GIL does not pay for shorter work

Header = namedtuple("Header", (
    "position", "size", "base_offset", "last_offset", "epoch", "magic", "crc", "attributes", "last_offset_delta",
    "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count",
))
Accepted = namedtuple("Accepted", ("next_offset", "max_timestamp", "max_timestamp_offset", "headers"))
Record = namedtuple("Record", ("offset", "timestamp", "key", "value", "headers"))

HEADER_DTYPE = np.dtype([
    ("position", "i8"), ("size", "i8"), ("base_offset", "i8"), ("last_offset", "i8"), ("base_timestamp", "i8"),
    ("max_timestamp", "i8"), ("producer_id", "i8"), ("epoch", "i4"), ("crc", "u4"), ("last_offset_delta", "i4"),
    ("base_sequence", "i4"), ("count", "i4"), ("attributes", "i2"), ("producer_epoch", "i2"), ("magic", "i1"),
], align=True)
assert HEADER_DTYPE.itemsize == sizeof(BatchHeader)

cdef dict REASONS = {
    CUT: "the bytes end inside the batch",
    BAD_SIZE: f"the batch's length is below {HEADER_BYTES} bytes or above 2 GiB",
    BAD_MAGIC: "the batch's magic is not 2",
    BAD_OFFSETS: "the batch's offsets are negative or beyond 63 bits",
    BAD_COUNT: "the batch's record count does not fit its offsets",
    BAD_CRC: "the batch's CRC does not match its bytes",
    NOT_CONTIGUOUS: "the batch's record count is not its last offset delta plus 1",
    CLIENT_CONTROL: "a client may not write a control batch",
    CLIENT_CODEC: "no compression codec has that number",
    BAD_RECORD: "a record's lengths make no sense",
    BAD_RECORD_OFFSET: "a record's offset delta is out of order",
    NO_KEY: "a record without a key",
    BAD_TIME: "a record's timestamp is too far from now",
    TOO_LONG: "bytes behind the last record",
}


class CorruptBatch(ValueError):
    """Bytes that are not a sound batch. `position`: that of the batch in the given buffer; `reason`: a sentence."""

    def __init__(self, position, reason):
        super().__init__(f"{reason} (batch at byte {position})")
        self.position = position
        self.reason = reason
        self.of_records = False


class InvalidRecord(CorruptBatch):
    """The bytes arrived as they were sent (the CRC matches), but a client may not send such a batch."""


class InvalidRecords(InvalidRecord):
    """Some records of a sound batch are refused. `errors`: (index, sentence) of the first ones; `mistimed`: one has a
    time that is not accepted."""

    def __init__(self, reason, errors, mistimed):
        super().__init__(0, reason)
        self.errors = errors
        self.mistimed = mistimed


cdef object _error(Fault fault, Py_ssize_t position, Py_ssize_t inside=-1):
    kind = InvalidRecord if fault >= NOT_CONTIGUOUS else CorruptBatch
    error = kind(position, REASONS[fault] if inside < 0 else f"{REASONS[fault]}, at byte {inside}")
    error.of_records = fault == NO_KEY or fault == BAD_TIME
    return error


cdef Py_ssize_t _end(Py_ssize_t size, Py_ssize_t pos, object end) except -1:
    cdef Py_ssize_t stop = size if end is None else end
    if not 0 <= pos <= stop <= size:
        raise ValueError(f"[{pos}, {stop}) is not inside the {size} bytes given")
    return stop


cdef object _tuple(BatchHeader* h):
    return tuple.__new__(Header, (
        h.position, h.size, h.base_offset, h.last_offset, h.epoch, h.magic, h.crc, h.attributes, h.last_offset_delta,
        h.base_timestamp, h.max_timestamp, h.producer_id, h.producer_epoch, h.base_sequence, h.count,
    ))


# ---- reading headers

cdef inline Fault _stored(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, BatchHeader* out) noexcept nogil:
    """Checks of a batch in a log, whose base offset must be valid."""
    cdef Fault fault = read_header(data, pos, end, out)
    return BAD_OFFSETS if fault == FINE and (out.base_offset < 0 or out.last_offset < 0) else fault


cdef inline bint _crc_holds(const uint8_t* data, BatchHeader* h) noexcept nogil:
    return extend(0, data + h.position + CRC_FROM, h.size - CRC_FROM) == h.crc


def header(data, Py_ssize_t pos=0):
    cdef Py_buffer view
    cdef BatchHeader h
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)       # by hand: see open_buffer.pxd
    try:
        fault = _stored(<uint8_t*>view.buf, pos, _end(view.len, pos, None), &h)
        if fault != FINE:
            raise _error(fault, pos)
        return _tuple(&h)
    finally:
        PyBuffer_Release(&view)


def verify(data, Py_ssize_t pos=0):
    cdef Py_buffer view
    cdef BatchHeader h
    cdef Fault fault
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)       # by hand: see open_buffer.pxd
    try:
        fault = _stored(<uint8_t*>view.buf, pos, _end(view.len, pos, None), &h)
        if fault == FINE:
            if h.size < GIL_BYTES:
                fault = FINE if _crc_holds(<uint8_t*>view.buf, &h) else BAD_CRC
            else:
                with nogil:
                    fault = FINE if _crc_holds(<uint8_t*>view.buf, &h) else BAD_CRC
        if fault != FINE:
            raise _error(fault, pos)
        return _tuple(&h)
    finally:
        PyBuffer_Release(&view)


def headers(data, Py_ssize_t pos=0, end=None):
    cdef BatchHeader h
    cdef Py_ssize_t stop
    cdef list found = []
    buffer = opened(data)
    stop = _end(buffer.size, pos, end)
    while True:
        fault = _stored(buffer.data, pos, stop, &h)
        if fault == CUT:
            return found
        if fault != FINE:
            raise _error(fault, pos)
        found.append(_tuple(&h))
        pos += h.size


cdef Fault _scan(const uint8_t* data, Py_ssize_t* pos, Py_ssize_t end, BatchHeader* rows, Py_ssize_t* n) noexcept nogil:
    """Headers of whole batches into `rows` (NULL: only count them), until one is cut off (FINE) or wrong."""
    cdef BatchHeader h
    cdef Fault fault
    n[0] = 0
    while True:
        fault = _stored(data, pos[0], end, &h)
        if fault != FINE:
            return FINE if fault == CUT else fault
        if rows != NULL:
            rows[n[0]] = h
        n[0] += 1
        pos[0] += h.size


def columns(data, Py_ssize_t pos=0, end=None, fields=Header._fields):
    cdef Py_ssize_t stop, at = pos, n = 0
    cdef Fault fault
    cdef uint8_t[::1] raw
    buffer = opened(data)
    stop = _end(buffer.size, pos, end)
    with nogil:
        fault = _scan(buffer.data, &at, stop, NULL, &n)
    if fault != FINE:
        raise _error(fault, at)
    rows = np.empty(n, dtype=HEADER_DTYPE)
    if n:
        raw = rows.view(np.uint8)
        with nogil:
            _scan(buffer.data, &pos, stop, <BatchHeader*>&raw[0], &n)
    return {name: np.ascontiguousarray(rows[name]) for name in fields}


# ---- taking batches in

cdef struct Rules:
    bint client
    bint keyed
    bint append_time            # the log decides the time of each record
    int64_t oldest              # ms: the first timestamp that is accepted
    uint64_t span               # from it to the last one


cdef struct Trouble:
    Py_ssize_t batch            # position of the batch
    Py_ssize_t inside           # position of a record, -1: the batch as a whole
    bint mistimed               # a batch's largest timestamp is not that of its records


cdef inline int64_t _time(BatchHeader* h, RecordView* record) noexcept nogil:
    return <int64_t>(<uint64_t>h.base_timestamp + <uint64_t>record.timestamp_delta)


cdef Fault _check_records(const uint8_t* data, BatchHeader* h, const Rules* rules, Trouble* trouble) noexcept nogil:
    """Check uncompressed records: nested lengths, offsets 0, 1, 2, ..., no bytes left over, keys, times."""
    cdef RecordView record
    cdef Py_ssize_t pos = h.position + HEADER_BYTES, end = h.position + h.size
    cdef int64_t latest = -1, time
    cdef int32_t i
    cdef bint untimely, stamped = h.attributes & LOG_APPEND_TIME != 0
    cdef int64_t newest = <int64_t>(<uint64_t>rules.oldest + rules.span)
    for i in range(h.count):
        trouble.inside = pos
        if read_record(data, pos, end, &record) != FINE:
            return BAD_RECORD
        if record.offset_delta != i:
            return BAD_RECORD_OFFSET
        if rules.keyed and record.key_size < 0:
            return NO_KEY
        time = _time(h, &record)
        untimely = time > newest if stamped else <uint64_t>time - <uint64_t>rules.oldest > rules.span
        if untimely and time != NO_TIMESTAMP:
            return BAD_TIME
        latest = max(latest, time)
        pos = record.end
    trouble.inside = pos
    if stamped or latest != h.max_timestamp:
        trouble.mistimed = True
    if pos != end:
        return TOO_LONG
    if stamped and not _stamp_is_legal(h, rules):
        return BAD_TIME
    return FINE


cdef inline bint _stamp_is_legal(BatchHeader* h, const Rules* rules) noexcept nogil:
    """Whether the one time that a batch claims for all of its records is accepted where they keep their own times."""
    return (
        not rules.append_time
        and h.max_timestamp != NO_TIMESTAMP
        and <uint64_t>h.max_timestamp - <uint64_t>rules.oldest <= rules.span
    )


cdef Fault _check_claims(BatchHeader* h) noexcept nogil:
    if h.attributes & CONTROL:
        return CLIENT_CONTROL
    if (h.attributes & CODEC) > 4:
        return CLIENT_CODEC
    if h.count < 1 or h.count - 1 != h.last_offset_delta:
        return NOT_CONTIGUOUS
    return FINE


cdef Fault _client_header(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, BatchHeader* h) noexcept nogil:
    """Reads a header that came from a client. Numbers that make no sense are its own mistake if the CRC holds."""
    cdef Fault fault = read_header(data, pos, end, h)
    if fault == BAD_OFFSETS or fault == BAD_COUNT:
        return NOT_CONTIGUOUS if _crc_holds(data, h) else BAD_CRC
    return fault


cdef Fault _check(
    const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, const Rules* rules, Trouble* trouble
) noexcept nogil:
    cdef BatchHeader h
    cdef Fault fault
    trouble.mistimed = False
    while pos < end:
        trouble.batch = pos
        trouble.inside = -1
        fault = _client_header(data, pos, end, &h) if rules.client else read_header(data, pos, end, &h)
        if fault == FINE and not _crc_holds(data, &h):
            fault = BAD_CRC
        if fault == FINE and rules.client:
            fault = _check_claims(&h)
            if fault == FINE and not h.attributes & CODEC:
                fault = _check_records(data, &h, rules, trouble)
        if fault != FINE:
            return fault
        pos += h.size
    return FINE


cdef void _retime(uint8_t* data, BatchHeader* h) noexcept nogil:
    """Write the largest timestamp of checked records, by which searches and retention go. They keep their own times."""
    cdef RecordView record
    cdef Py_ssize_t pos = h.position + HEADER_BYTES
    cdef int64_t latest = -1
    cdef int32_t i
    for i in range(h.count):
        if read_record(data, pos, h.position + h.size, &record) != FINE:
            return                      # cannot happen: _check has read the same bytes
        latest = max(latest, _time(h, &record))
        pos = record.end
    store_int16(data + h.position + ATTRIBUTES_AT, h.attributes & ~LOG_APPEND_TIME)
    store_int64(data + h.position + MAX_TIMESTAMP_AT, latest)
    _seal(data, h)


cdef inline void _seal(uint8_t* data, BatchHeader* h) noexcept nogil:
    store_uint32(data + h.position + CRC_AT, extend(0, data + h.position + CRC_FROM, h.size - CRC_FROM))


cdef void _stamp(
    uint8_t* data, Py_ssize_t pos, Py_ssize_t end, int64_t base_offset, int32_t epoch, bint append_time, int64_t now_ms,
    bint mistimed,
) noexcept nogil:
    """Give checked batches their offsets and epoch and, if the log decides the time, their timestamp."""
    cdef BatchHeader h
    while pos < end:
        if read_header(data, pos, end, &h) != FINE:
            return                      # cannot happen: _check has read the same bytes
        store_int64(data + pos, base_offset)
        store_int32(data + pos + EPOCH_AT, epoch)
        if append_time:
            store_int16(data + pos + ATTRIBUTES_AT, h.attributes | LOG_APPEND_TIME)
            store_int64(data + pos + MAX_TIMESTAMP_AT, now_ms)
            _seal(data, &h)
        elif mistimed and not h.attributes & CODEC:
            _retime(data, &h)
        base_offset += <int64_t>h.last_offset_delta + 1
        pos += h.size


cdef object _accepted(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, int64_t base_offset):
    cdef BatchHeader h
    cdef int64_t max_timestamp = -1, max_timestamp_offset = -1
    cdef list found = []
    while pos < end:
        if read_header(data, pos, end, &h) != FINE:
            break                       # cannot happen: _check has read the same bytes
        if h.max_timestamp > max_timestamp:
            max_timestamp = h.max_timestamp
            max_timestamp_offset = h.last_offset
        found.append(_tuple(&h))
        base_offset = h.last_offset + 1
        pos += h.size
    return tuple.__new__(Accepted, (base_offset, max_timestamp, max_timestamp_offset, found))


def accept(
    data, Py_ssize_t pos, Py_ssize_t end, int64_t base_offset, int32_t epoch,
    *, int64_t now_ms=0, bint append_time=False, bint client=True, bint keyed=False,
    int64_t oldest_ms=INT64_MIN, int64_t newest_ms=(1 << 63) - 1,
):
    cdef Trouble trouble
    cdef Fault fault
    cdef Rules rules
    rules.client, rules.keyed, rules.append_time, rules.oldest = client, keyed, append_time, oldest_ms
    rules.span = <uint64_t>newest_ms - <uint64_t>oldest_ms
    buffer = opened_writable(data)
    _end(buffer.size, pos, end)
    if end - pos < GIL_BYTES:
        fault = _check(buffer.data, pos, end, &rules, &trouble)
        if fault == FINE:
            _stamp(buffer.data, pos, end, base_offset, epoch, append_time, now_ms, trouble.mistimed)
    else:
        with nogil:
            fault = _check(buffer.data, pos, end, &rules, &trouble)
            if fault == FINE:
                _stamp(buffer.data, pos, end, base_offset, epoch, append_time, now_ms, trouble.mistimed)
    if fault != FINE:
        raise _error(fault, trouble.batch, trouble.inside)
    return _accepted(buffer.data, pos, end, base_offset)


def claimed(data):
    cdef BatchHeader h
    cdef Fault fault
    buffer = opened(data)
    with nogil:
        fault = _client_header(buffer.data, 0, buffer.size, &h)
        if fault == FINE and h.size != buffer.size:
            fault = TOO_LONG
        if fault == FINE and not _crc_holds(buffer.data, &h):
            fault = BAD_CRC
        if fault == FINE:
            fault = _check_claims(&h)
    if fault != FINE:
        raise _error(fault, 0)
    return _tuple(&h)


def retime(data, Py_ssize_t pos, int64_t max_timestamp):
    cdef BatchHeader h
    cdef Fault fault
    buffer = opened_writable(data)
    fault = read_header(buffer.data, pos, _end(buffer.size, pos, None), &h)
    if fault != FINE:
        raise _error(fault, pos)
    if h.max_timestamp != max_timestamp or h.attributes & LOG_APPEND_TIME:
        store_int16(buffer.data + pos + ATTRIBUTES_AT, h.attributes & ~LOG_APPEND_TIME)
        store_int64(buffer.data + pos + MAX_TIMESTAMP_AT, max_timestamp)
        with nogil:
            _seal(buffer.data, &h)


def patch(data, Py_ssize_t pos, int64_t base_offset, int32_t epoch):
    cdef BatchHeader h
    buffer = opened_writable(data)
    fault = read_header(buffer.data, pos, _end(buffer.size, pos, None), &h)
    if fault != FINE:
        raise _error(fault, pos)
    store_int64(buffer.data + pos, base_offset)
    store_int32(buffer.data + pos + EPOCH_AT, epoch)


# ---- record by record: slow paths

def records(data, Py_ssize_t pos=0, *, Py_ssize_t output_bytes_max=OUTPUT_BYTES_MAX):
    head = header(data, pos)
    body = memoryview(data).cast("B")[pos + HEADER_BYTES:pos + head.size]
    if head.attributes & CODEC:
        damage = None
        try:
            body = compression.decompress(head.attributes & CODEC, body, output_bytes_max)
        except compression.CompressionError as error:
            damage = str(error)
        if damage is not None:          # raised outside of the handler: an exception must not keep output alive
            raise CorruptBatch(pos, damage)
    return _records(body, head, pos)


def _records(const uint8_t[::1] body, head, Py_ssize_t position):
    cdef const uint8_t* data = &body[0] if body.shape[0] else NULL
    cdef Py_ssize_t pos = 0, end = body.shape[0]
    cdef int64_t base_offset = head.base_offset, base_timestamp = head.base_timestamp
    cdef int32_t i, count = head.count, last_offset_delta = head.last_offset_delta, before = -1
    cdef RecordView record
    append_time = head.max_timestamp if head.attributes & LOG_APPEND_TIME else None
    for i in range(count):
        if read_record(data, pos, end, &record) != FINE:
            raise CorruptBatch(position, f"{REASONS[BAD_RECORD]}, at byte {pos} of the records")
        if record.offset_delta <= before or record.offset_delta > last_offset_delta:
            raise CorruptBatch(position, f"{REASONS[BAD_RECORD_OFFSET]}, at byte {pos} of the records")
        before = record.offset_delta
        pos = record.end
        yield tuple.__new__(Record, (
            base_offset + record.offset_delta,
            <int64_t>(<uint64_t>base_timestamp + <uint64_t>record.timestamp_delta) if append_time is None
            else append_time,
            _bytes(data, record.key, record.key_size),
            _bytes(data, record.value, record.value_size),
            _headers(data, &record) if record.header_count else (),
        ))
    if pos != end:
        raise CorruptBatch(position, f"{REASONS[TOO_LONG]}, at byte {pos} of the records")


cdef object _bytes(const uint8_t* data, Py_ssize_t start, int32_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char*>data + start, size)


cdef tuple _headers(const uint8_t* data, RecordView* record):
    cdef Py_ssize_t pos = record.headers, start = 0
    cdef int32_t size = 0, i
    cdef list found = []
    for i in range(record.header_count):        # read_record has checked every length
        pos = read_bytes(data, pos, record.end, &start, &size)
        name = _bytes(data, start, size)
        pos = read_bytes(data, pos, record.end, &start, &size)
        found.append((name, _bytes(data, start, size)))
    return tuple(found)
