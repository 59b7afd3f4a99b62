"""The records of one batch, checked while they are decompressed: piece by piece, and none is kept.

This file alone decides whether decompressed records match the batch's header. A piece may end anywhere: inside a
length, a key or a value. Records that lie whole in a piece are read by `read_record`. A record that a piece cuts is
read byte by byte, and the bytes of its key and value are skipped. No size is believed: the only memory used is that of
the piece.
"""

from collections import namedtuple

from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from fastpath.bytes.open_buffer cimport opened
from fastpath.records.batch cimport RecordView, read_record
from fastpath.records.faults cimport BAD_RECORD, BAD_RECORD_OFFSET, BAD_TIME, FINE, NO_KEY, TOO_LONG, Fault

cdef enum:
    GIL_BYTES = 16 * 1024       # releasing the GIL does not pay for shorter pieces
    KEPT_MAX = 100              # record errors that are listed one by one
    NO_TIMESTAMP = -1

cdef enum State:
    SIZE, ATTRIBUTES, TIME, OFFSET, KEY_SIZE, KEY, VALUE_SIZE, VALUE, HEADER_COUNT, NAME_SIZE, NAME, CONTENT_SIZE, CONTENT

Found = namedtuple("Found", ("offset_delta", "timestamp"))


cdef class Walk:
    cdef readonly int32_t index                 # records read
    cdef readonly int64_t latest                # largest timestamp of a record from `from_delta` on; -1: none
    cdef readonly int32_t latest_delta
    cdef readonly Py_ssize_t errors             # records with a key that is missing or a time that is not accepted
    cdef readonly bint mistimed                 # one of them has a time that is not accepted
    cdef readonly object found
    cdef int32_t count, last_delta, before, from_delta
    cdef int64_t base_timestamp, append_time, oldest, newest, from_ms
    cdef bint strict, keyed, has_append_time, hit
    cdef int32_t hit_delta
    cdef int64_t hit_ms
    cdef int32_t[KEPT_MAX] kept
    cdef uint8_t[KEPT_MAX] kept_keyless
    # a record that a piece has cut
    cdef State state
    cdef int shift
    cdef uint64_t number
    cdef int64_t left, skip                     # bytes left of the record, of the key, value, name or content
    cdef int64_t delta_ms
    cdef int32_t delta, key_size, headers
    cdef Fault fault

    def __init__(
        self, int32_t count, int32_t last_offset_delta, int64_t base_timestamp, *, bint strict, bint keyed=False,
        int64_t oldest_ms=INT64_MIN, int64_t newest_ms=(1 << 63) - 1, append_time_ms=None, int64_t from_ms=(1 << 63) - 1,
        int32_t from_delta=0,
    ):
        self.count = count
        self.last_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.strict = strict
        self.keyed = keyed
        self.oldest = oldest_ms
        self.newest = newest_ms
        self.has_append_time = append_time_ms is not None
        self.append_time = append_time_ms if append_time_ms is not None else 0
        self.from_ms = from_ms
        self.from_delta = from_delta
        self.before = -1
        self.latest = -1
        self.latest_delta = -1
        self.state = SIZE
        self.fault = FINE

    @property
    def whole(self):
        return self.fault == FINE and self.index == self.count and self.state == SIZE and self.shift == 0

    @property
    def kept_errors(self):
        return [
            (self.kept[i], bool(self.kept_keyless[i])) for i in range(min(self.errors, <Py_ssize_t>KEPT_MAX))
        ]

    def feed(self, piece):
        """Read one piece. Returns a sentence when the records are invalid, else None. `found` is set once the search
        has a match."""
        if self.fault != FINE:
            return REASONS[self.fault]
        buffer = opened(piece)
        if buffer.size < GIL_BYTES:
            self.fault = _feed(self, buffer.data, buffer.size)
        else:
            with nogil:
                self.fault = _feed(self, buffer.data, buffer.size)
        if self.hit and self.found is None:
            self.found = Found(self.hit_delta, self.hit_ms)
        return None if self.fault == FINE else REASONS[self.fault]


REASONS = {
    BAD_RECORD: "a record's lengths make no sense",
    BAD_RECORD_OFFSET: "a record's offset delta is out of order",
    TOO_LONG: "bytes behind the last record",
}


cdef inline Fault _record(Walk w, int32_t delta, int64_t delta_ms, int32_t key_size) noexcept nogil:
    """One record has been read to its end."""
    cdef int64_t time = <int64_t>(<uint64_t>w.base_timestamp + <uint64_t>delta_ms)
    cdef bint keyless, late
    if w.strict:
        if delta != w.index:
            return BAD_RECORD_OFFSET
    elif delta <= w.before or delta > w.last_delta:
        return BAD_RECORD_OFFSET
    w.before = delta
    if w.has_append_time:
        time = w.append_time
    if delta >= w.from_delta:
        if time > w.latest:
            w.latest = time
            w.latest_delta = delta
        if time >= w.from_ms and not w.hit:
            w.hit = True
            w.hit_delta = delta
            w.hit_ms = time
    keyless = w.keyed and key_size < 0
    late = time != NO_TIMESTAMP and not w.oldest <= time <= w.newest
    if keyless or late:
        if w.errors < KEPT_MAX:
            w.kept[w.errors] = w.index
            w.kept_keyless[w.errors] = keyless
        w.mistimed = w.mistimed or not keyless
        w.errors += 1
    w.index += 1
    return FINE


cdef Py_ssize_t _plain(Walk w, const uint8_t* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Pass the records that lie whole in a piece, up to one of which `_record` has something to tell; the position then."""
    cdef RecordView record
    cdef int32_t index = w.index, before = w.before, latest_delta = w.latest_delta, delta
    cdef int64_t latest = w.latest, time
    # What stays is read once: a store through `w` could change it as far as the compiler knows.
    cdef int32_t count = w.count, last_delta = w.last_delta, from_delta = w.from_delta
    cdef int64_t base_timestamp = w.base_timestamp, append_time = w.append_time
    cdef int64_t oldest = w.oldest, newest = w.newest, from_ms = w.from_ms
    cdef bint strict = w.strict, keyed = w.keyed, has_append_time = w.has_append_time
    while pos < end and index < count and read_record(data, pos, end, &record) == FINE:
        delta = record.offset_delta
        time = append_time
        if not has_append_time:
            time = <int64_t>(<uint64_t>base_timestamp + <uint64_t>record.timestamp_delta)
        if (delta != index) if strict else (delta <= before or delta > last_delta):
            break
        if keyed and record.key_size < 0:
            break
        if time != NO_TIMESTAMP and not oldest <= time <= newest:
            break
        if delta >= from_delta:
            if time >= from_ms:
                break
            if time > latest:
                latest = time
                latest_delta = delta
        before = delta
        index += 1
        pos = record.end
    w.index, w.before, w.latest, w.latest_delta = index, before, latest, latest_delta
    return pos


cdef Fault _feed(Walk w, const uint8_t* data, Py_ssize_t end) noexcept nogil:
    cdef RecordView record
    cdef Py_ssize_t pos = 0
    cdef Fault fault = FINE
    while pos < end and fault == FINE:
        if w.state == SIZE and w.shift == 0:
            if w.hit:
                return FINE                         # the rest is not looked at
            pos = _plain(w, data, pos, end)
            if pos >= end:
                return FINE
            if w.index >= w.count:
                return TOO_LONG
            if read_record(data, pos, end, &record) == FINE:
                fault = _record(w, record.offset_delta, record.timestamp_delta, record.key_size)
                pos = record.end
                continue
        fault = _step(w, data, &pos, end)           # the piece cuts this record, or it is wrong
    return fault


cdef Fault _step(Walk w, const uint8_t* data, Py_ssize_t* pos, Py_ssize_t end) noexcept nogil:
    """Read on inside one record: one byte of a number, or as much as the piece has of a key, value, name or content."""
    cdef int64_t size
    cdef uint8_t byte
    if w.state == ATTRIBUTES:
        pos[0] += 1
        w.left -= 1
        w.state = TIME
        return FINE
    if w.state == KEY or w.state == VALUE or w.state == NAME or w.state == CONTENT:
        size = min(w.skip, <int64_t>(end - pos[0]))
        pos[0] += size
        w.skip -= size
        w.left -= size
        return FINE if w.skip else _passed(w)
    if w.state != SIZE:
        if w.left < 1:
            return BAD_RECORD
        w.left -= 1
    byte = data[pos[0]]
    pos[0] += 1
    if w.shift == (63 if w.state == TIME else 28) and byte > (1 if w.state == TIME else 0x0F):
        return BAD_RECORD
    w.number |= <uint64_t>(byte & 0x7F) << w.shift
    if byte >= 0x80:
        w.shift += 7
        return FINE
    size = <int64_t>((w.number >> 1) ^ (0 - (w.number & 1)))
    w.number = 0
    w.shift = 0
    return _number(w, size)


cdef Fault _number(Walk w, int64_t value) noexcept nogil:
    """A number of the record has been read: decide what comes next."""
    if w.state == SIZE:
        w.left = value
        w.state = ATTRIBUTES
        return FINE if value >= 1 else BAD_RECORD
    if w.state == TIME:
        w.delta_ms = value
        w.state = OFFSET
        return FINE
    if w.state == OFFSET:
        w.delta = <int32_t>value
        w.state = KEY_SIZE
        return FINE
    if w.state == HEADER_COUNT:
        w.headers = <int32_t>value
        return _next_header(w) if value >= 0 else BAD_RECORD
    if value > w.left or value < (0 if w.state == NAME_SIZE else -1):
        return BAD_RECORD
    if w.state == KEY_SIZE:
        w.key_size = <int32_t>value
        w.state = KEY
    elif w.state == VALUE_SIZE:
        w.state = VALUE
    elif w.state == NAME_SIZE:
        w.state = NAME
    else:
        w.state = CONTENT
    w.skip = max(value, <int64_t>0)
    return FINE if w.skip else _passed(w)


cdef Fault _passed(Walk w) noexcept nogil:
    """A key, value, name or content has been skipped: decide what comes next."""
    if w.state == KEY:
        w.state = VALUE_SIZE
    elif w.state == VALUE:
        w.state = HEADER_COUNT
    elif w.state == NAME:
        w.state = CONTENT_SIZE
    else:
        w.headers -= 1
        return _next_header(w)
    return FINE


cdef Fault _next_header(Walk w) noexcept nogil:
    if w.headers:
        w.state = NAME_SIZE
        return FINE
    if w.left:
        return BAD_RECORD
    w.state = SIZE
    return _record(w, w.delta, w.delta_ms, w.key_size)
