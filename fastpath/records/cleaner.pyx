"""One pass over the batches of a log that keeps the last record of each key.

This file alone decides which records of a compacted log stay, and what becomes of their batches. Rules (KIP-58, KIP-98,
KIP-534):

1. A record stays if it is the last of its key as far as the offset map knows the log, or lies behind that. One without a
   key goes.
2. A tombstone (a record without a value) that is the last of its key stays until the delete horizon of its batch. The first
   pass that meets it sets the horizon, `delete_retention_ms` from now: bit 6 of the attributes, and the base timestamp
   holds it. So a reader that began before has that long to see it.
3. Data of an aborted transaction goes. A marker stays while data of its transaction was there in this pass; after that it
   gets a delete horizon too, and goes when that is over.
4. A batch that keeps all its records is copied byte for byte. Another one keeps base offset, last offset delta, sequence,
   producer, epoch and codec; count, largest timestamp, length and CRC are those of what is left. The base timestamp stays
   unless a horizon takes its place.
5. A batch that keeps none goes, save where the header tells what nothing else does: the last sequence of a producer that
   is active, and the last offset of what is cleaned. Such a batch is left without records.

Every CRC is checked; nothing is kept of bytes that are damaged. batch.pyx draws the batch.
"""

from bisect import bisect_right
from collections import namedtuple

from fastpath.records import compression
from fastpath.records.batch import CorruptBatch

from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from fastpath.bytes.byte_builder cimport Growth, extend_by, own
from fastpath.bytes.crc32c cimport extend
from fastpath.bytes.endian cimport load_int16, store_int16, store_int32, store_int64, store_uint32
from fastpath.bytes.varint cimport read_varint, read_varlong, size_varint, size_varlong, write_varint, write_varlong
from fastpath.bytes.open_buffer cimport opened
from fastpath.records.batch cimport BatchHeader, RecordView, read_header, read_record
from fastpath.records.faults cimport (
    BAD_COUNT, BAD_CRC, BAD_MAGIC, BAD_OFFSETS, BAD_RECORD, BAD_RECORD_OFFSET, BAD_SIZE, CUT, FINE, TOO_LONG, Fault,
)
from fastpath.records.header cimport (
    ATTRIBUTES_AT, BASE_TIMESTAMP_AT, CODEC, CONTROL, COUNT_AT, CRC_AT,
    CRC_FROM, HEADER_BYTES, LENGTH_AT, LOG_APPEND_TIME, MAX_TIMESTAMP_AT, SIZE_BYTES,
)
from fastpath.records.offset_map cimport OffsetMap, Slot

cdef enum:
    TRANSACTIONAL = 0x10
    DELETE_HORIZON = 0x40
    NO_TIMESTAMP = -1
    NO_MEMORY = -1              # beside the faults
    FULL = -2
    NOT_HERE = -3               # a batch of which the caller has to decide
    AHEAD = 32                  # keys whose slots are asked for before the first of them is looked at
    ABORT_MARKER = 0
    COMMIT_MARKER = 1

Aborted = namedtuple("Aborted", ("producer_id", "first_offset", "last_offset"))
LastBatch = namedtuple("LastBatch", ("producer_id", "producer_epoch", "last_offset"))

cdef dict REASONS = {
    BAD_SIZE: f"the batch's length is below {HEADER_BYTES} bytes or above 2 GiB",
    BAD_MAGIC: "the batch's magic is not 2",
    BAD_OFFSETS: "the batch's offsets are negative, beyond 63 bits, or not above those before it",
    BAD_COUNT: "the batch's record count does not fit its offsets",
    BAD_CRC: "the batch's CRC does not match its bytes",
    BAD_RECORD: "a record's lengths make no sense",
    BAD_RECORD_OFFSET: "a record's offset delta is out of order",
    TOO_LONG: "bytes behind the last record",
}


cdef struct Kept:
    Py_ssize_t start            # of a record that stays, in the batch's body
    Py_ssize_t end


cdef struct Ahead:
    RecordView record
    Slot hashed                 # of its key, if that was asked for
    Py_ssize_t start            # in the batch's body
    int64_t offset


cdef struct Outcome:
    int64_t bytes               # of what stays
    int64_t latest              # its largest timestamp
    int32_t count
    bint tombstone              # one of it has no value


cdef struct Producer:
    int64_t id
    int64_t last_offset
    int32_t epoch


cdef inline int _look(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, BatchHeader* h) noexcept nogil:
    cdef Fault fault = read_header(data, pos, end, h)
    if fault == FINE and (h.base_offset < 0 or h.last_offset < 0):
        fault = BAD_OFFSETS
    if fault == FINE and extend(0, data + pos + CRC_FROM, h.size - CRC_FROM) != h.crc:
        fault = BAD_CRC
    return fault


cdef inline bint _plain(BatchHeader* h) noexcept nogil:
    """Neither compressed nor part of a transaction: nothing of Python is needed for it."""
    return not h.attributes & (CODEC | CONTROL | TRANSACTIONAL)


cdef object _body(data, BatchHeader* h, Py_ssize_t output_bytes_max):
    """The records of a batch, decompressed; bytes or a view."""
    body = memoryview(data).cast("B")[h.position + HEADER_BYTES:h.position + h.size]
    if not h.attributes & CODEC or h.count == 0:
        return body
    damage = None
    try:
        body = compression.decompress(h.attributes & CODEC, body, output_bytes_max)
    except compression.CompressionError as error:
        damage = str(error)
    if damage is not None:              # outside of the handler: an exception must not keep output alive
        raise CorruptBatch(h.position, f"{damage} (the batch of offset {h.base_offset})")
    return body


cdef object _error(int fault, Py_ssize_t pos, BatchHeader* h):
    if fault == NO_MEMORY:
        return MemoryError()
    if fault in (BAD_RECORD, BAD_RECORD_OFFSET, TOO_LONG, BAD_CRC):
        return CorruptBatch(pos, f"{REASONS[fault]} (the batch of offset {h.base_offset})")
    return CorruptBatch(pos, REASONS.get(fault, "these bytes are no batch"))


cdef class Transactions:
    cdef dict aborted           # producer id -> its aborted transactions, by first offset; no two of them overlap
    cdef dict begins            # producer id -> their first offsets
    cdef set met                # aborted transactions of which data was there
    cdef set committing         # producers of which data was there since their last marker
    cdef list _kept

    def __init__(self, aborted=()):
        self.aborted, self.begins, self.met, self.committing, self._kept = {}, {}, set(), set(), []
        for one in sorted(Aborted(*one) for one in aborted):
            self.aborted.setdefault(one.producer_id, []).append(one)
            self.begins.setdefault(one.producer_id, []).append(one.first_offset)

    def take_kept(self):
        kept, self._kept = self._kept, []
        return kept

    cdef object covering(self, int64_t producer_id, int64_t offset):
        begins = self.begins.get(producer_id)
        if begins is None:
            return None
        place = bisect_right(begins, offset) - 1
        if place < 0:
            return None
        one = self.aborted[producer_id][place]
        return one if offset <= one.last_offset else None

    cdef bint data_goes(self, BatchHeader* h):
        """A batch of data in a transaction: whether it was aborted."""
        one = self.covering(h.producer_id, h.base_offset)
        if one is None:
            self.committing.add(h.producer_id)
            return False
        self.met.add(one)
        return True

    cdef bint marker_may_go(self, BatchHeader* h, int kind):
        """A marker: whether nothing is left of its transaction."""
        if kind == ABORT_MARKER:
            one = self.covering(h.producer_id, h.base_offset)
            if one is None or one not in self.met:
                return True
            self.met.discard(one)
            self._kept.append(one)
            return False
        if kind == COMMIT_MARKER:
            if h.producer_id in self.committing:
                self.committing.discard(h.producer_id)
                return False
            return True
        return False


cdef int _marker_kind(const uint8_t* body, Py_ssize_t size) noexcept nogil:
    """0 abort, 1 commit, -1 anything else. Key: int16 version, int16 type."""
    cdef RecordView record
    if read_record(body, 0, size, &record) != FINE or record.key_size < 4:
        return -1
    return load_int16(body + record.key + 2)


cdef int _ahead(
    OffsetMap offsets, const uint8_t* body, Py_ssize_t* pos, Py_ssize_t size, BatchHeader* h, int32_t count,
    int64_t from_offset, int64_t to_offset, Ahead* out, int32_t* got
) noexcept nogil:
    """The next records of a batch, `count` and AHEAD at most; in `out` are the `got` before them. Keys between the two
    offsets, both included, are hashed. What is wrong with a record comes back as a fault, and in `got` how many are fine."""
    cdef Ahead* one
    cdef int32_t before = out[got[0] - 1].record.offset_delta if got[0] else -1
    got[0] = 0
    while got[0] < min(count, <int32_t>AHEAD):
        one = out + got[0]
        if read_record(body, pos[0], size, &one.record) != FINE:
            return BAD_RECORD
        if one.record.offset_delta <= before or one.record.offset_delta > h.last_offset_delta:
            return BAD_RECORD_OFFSET
        before = one.record.offset_delta
        one.start = pos[0]
        one.offset = h.base_offset + before
        if one.record.key_size >= 0 and from_offset <= one.offset <= to_offset:
            offsets.hash(body + one.record.key, one.record.key_size, &one.hashed)
        pos[0] = one.record.end
        got[0] += 1
    return FINE


# ---- the map

cdef int _enter(
    OffsetMap offsets, const uint8_t* body, Py_ssize_t size, BatchHeader* h, int64_t start_offset
) noexcept nogil:
    cdef Ahead[AHEAD] ahead
    cdef Py_ssize_t pos = 0
    cdef int32_t i, got = 0, left = h.count
    cdef int fault = FINE
    while left > 0 and fault == FINE:
        fault = _ahead(offsets, body, &pos, size, h, left, start_offset, INT64_MAX, ahead, &got)
        for i in range(got):
            if ahead[i].record.key_size >= 0 and ahead[i].offset >= start_offset:
                if not offsets.put(&ahead[i].hashed, ahead[i].offset):
                    return FULL
        left -= got
    if fault != FINE:
        return fault
    return FINE if pos == size else TOO_LONG


cdef int _fill_plain(
    OffsetMap offsets, const uint8_t* data, Py_ssize_t* pos, Py_ssize_t end, int64_t start_offset, BatchHeader* h
) noexcept nogil:
    cdef int fault
    while pos[0] < end:
        fault = _look(data, pos[0], end, h)
        if fault != FINE:
            return fault
        if h.last_offset >= start_offset:
            if not _plain(h):
                return NOT_HERE
            fault = _enter(offsets, data + pos[0] + HEADER_BYTES, h.size - HEADER_BYTES, h, start_offset)
            if fault != FINE:
                return fault
            offsets.latest_offset = max(offsets.latest_offset, h.last_offset)
        pos[0] += h.size
    return FINE


def fill(
    OffsetMap offsets, data, Py_ssize_t pos, Py_ssize_t end, int64_t start_offset, Transactions transactions, *,
    Py_ssize_t output_bytes_max,
):
    cdef BatchHeader h
    cdef int fault
    buffer = opened(data)
    if not 0 <= pos <= end <= buffer.size:
        raise ValueError(f"[{pos}, {end}) is not inside the {buffer.size} bytes given")
    while True:
        with nogil:
            fault = _fill_plain(offsets, buffer.data, &pos, end, start_offset, &h)
        if fault == NOT_HERE:
            fault = FINE
            aborted = h.attributes & TRANSACTIONAL and not h.attributes & CONTROL and transactions.data_goes(&h)
            if not h.attributes & CONTROL and not aborted:
                body = _body(data, &h, output_bytes_max)
                inside = opened(body)
                with nogil:
                    fault = _enter(offsets, inside.data, inside.size, &h, start_offset)
            if fault == FINE:
                offsets.latest_offset = max(offsets.latest_offset, h.last_offset)
                pos += h.size
                continue
        if fault == FULL:
            return pos, True
        if fault == FINE or fault == CUT:
            return pos, False
        raise _error(fault, pos, &h)


# ---- the pass

cdef class Cleaner:
    cdef OffsetMap offsets
    cdef Transactions transactions
    cdef Producer* producers    # by id, rising
    cdef Py_ssize_t producer_count
    cdef int64_t now_ms, horizon_ms, output_bytes_max
    cdef Growth out, kept
    cdef int64_t last_offset    # of what is cleaned
    cdef int64_t before         # last offset of the batch before
    cdef readonly int64_t records_read, records_kept, keyless, bytes_read, bytes_written, tombstones, max_timestamp

    def __cinit__(self):
        self.producers = NULL
        self.out.data = self.kept.data = NULL
        self.out.size = self.kept.size = self.out.room = self.kept.room = 0

    def __init__(
        self, OffsetMap offsets, Transactions transactions, last_batches=(), *, int64_t now_ms,
        int64_t delete_retention_ms, Py_ssize_t output_bytes_max,
    ):
        cdef Py_ssize_t i
        if self.producers != NULL:
            raise ValueError("the pass has begun already")
        rows = sorted(LastBatch(*one) for one in last_batches)
        self.offsets, self.transactions = offsets, transactions
        self.now_ms = now_ms
        self.horizon_ms = now_ms + min(delete_retention_ms, (1 << 62) - now_ms)
        self.output_bytes_max = output_bytes_max
        self.max_timestamp = self.before = -1
        self.producers = <Producer*>malloc(max(1, len(rows)) * sizeof(Producer))
        if self.producers == NULL:
            raise MemoryError
        for i, one in enumerate(rows):
            self.producers[i].id, self.producers[i].epoch, self.producers[i].last_offset = one
        self.producer_count = len(rows)

    def __dealloc__(self):
        free(self.producers)
        free(self.out.data)
        free(self.kept.data)

    def clean(self, data, Py_ssize_t pos, Py_ssize_t end, int64_t last_offset):
        cdef BatchHeader h
        cdef int fault
        cdef Py_ssize_t begin = pos
        self.last_offset = last_offset
        self.out.size = 0
        buffer = opened(data)
        if not 0 <= pos <= end <= buffer.size:
            raise ValueError(f"[{pos}, {end}) is not inside the {buffer.size} bytes given")
        while True:
            with nogil:
                fault = self._plain_batches(buffer.data, &pos, end, &h)
            if fault == NOT_HERE:
                fault = self._special(data, buffer.data, &h)
                if fault == FINE:
                    self.before = h.last_offset
                    pos += h.size
                    continue
            if fault != FINE and fault != CUT:
                raise _error(fault, pos, &h)
            break
        self.bytes_read += pos - begin
        self.bytes_written += self.out.size
        if not self.out.size:
            return memoryview(b""), pos
        return memoryview(own(&self.out)), pos

    cdef int _plain_batches(self, const uint8_t* data, Py_ssize_t* pos, Py_ssize_t end, BatchHeader* h) noexcept nogil:
        cdef Outcome found
        cdef int fault
        cdef const uint8_t* body
        while pos[0] < end:
            fault = _look(data, pos[0], end, h)
            if fault != FINE:
                return fault
            if h.base_offset <= self.before:        # no checksum covers it
                return BAD_OFFSETS
            if not _plain(h):
                return NOT_HERE
            body = data + pos[0] + HEADER_BYTES
            fault = self._sift(body, h.size - HEADER_BYTES, h, False, &found)
            if fault == FINE:
                fault = self._settle(data, h, body, &found, False)
            if fault != FINE:
                return fault
            self.before = h.last_offset
            pos[0] += h.size
        return FINE

    cdef int _special(self, data, const uint8_t* raw, BatchHeader* h) except? -9:
        """A batch that is compressed, or of a transaction."""
        cdef Outcome found
        cdef int fault
        cdef bint goes = False, empty_transaction = False
        body = _body(data, h, self.output_bytes_max)
        inside = opened(body)
        if h.attributes & CONTROL:
            empty_transaction = h.count == 0 or self.transactions.marker_may_go(
                h, _marker_kind(inside.data, inside.size))
            goes = empty_transaction and h.attributes & DELETE_HORIZON and h.base_timestamp <= self.now_ms
        elif h.attributes & TRANSACTIONAL:
            goes = self.transactions.data_goes(h)
        with nogil:
            fault = self._sift(inside.data, inside.size, h, goes, &found)
        if fault != FINE:
            return fault
        if not h.attributes & CODEC or not self._changes(h, &found, empty_transaction) or not found.count:
            return self._settle(raw, h, inside.data, &found, empty_transaction)
        return self._recompress(raw, h, inside.data, &found, empty_transaction)

    cdef int _recompress(
        self, const uint8_t* raw, BatchHeader* h, const uint8_t* body, Outcome* found, bint empty_transaction
    ) except? -9:
        cdef size_t begin = self.out.size, place
        cdef int fault
        cdef bytes packed
        with nogil:
            fault = self._write(raw, h, body, found, empty_transaction)
        if fault != FINE:
            return fault
        place = begin + HEADER_BYTES
        packed = compression.compress(
            h.attributes & CODEC, (<const char*>self.out.data + place)[:self.out.size - place])
        self.out.size = place
        if extend_by(&self.out, len(packed)) == NULL:
            return NO_MEMORY
        memcpy(self.out.data + place, <const char*>packed, len(packed))
        with nogil:
            self._seal(begin)
        return FINE

    cdef int _sift(
        self, const uint8_t* body, Py_ssize_t size, BatchHeader* h, bint goes, Outcome* found
    ) noexcept nogil:
        """Which records of a batch stay: into `kept`, and what they amount to. `goes`: none."""
        cdef Ahead[AHEAD] ahead
        cdef Py_ssize_t pos = 0
        cdef int32_t i, got = 0, left = h.count
        cdef int64_t latest = -1 if goes or h.attributes & CONTROL else self.offsets.latest_offset
        cdef int fault = FINE
        found.bytes, found.latest, found.count, found.tombstone = 0, NO_TIMESTAMP, 0, False
        self.kept.size = 0
        self.records_read += h.count
        while left > 0 and fault == FINE:
            fault = _ahead(self.offsets, body, &pos, size, h, left, 0, latest, ahead, &got)
            for i in range(got):
                if not goes and self._stays(h, ahead + i) and not self._keep(h, ahead + i, found):
                    return NO_MEMORY
            left -= got
        if fault != FINE:
            return fault
        if h.attributes & LOG_APPEND_TIME:
            found.latest = h.max_timestamp
        self.records_kept += found.count
        return FINE if pos == size else TOO_LONG

    cdef inline bint _stays(self, BatchHeader* h, Ahead* one) noexcept nogil:
        """A record of a batch that does not go as a whole."""
        if h.attributes & CONTROL or one.offset > self.offsets.latest_offset:
            return True
        if one.record.key_size < 0:
            self.keyless += 1
            return False
        if one.offset < self.offsets.get(&one.hashed):
            return False
        if one.record.value_size < 0 and h.attributes & DELETE_HORIZON and self.now_ms >= h.base_timestamp:
            self.tombstones += 1
            return False
        return True

    cdef inline bint _keep(self, BatchHeader* h, Ahead* one, Outcome* found) noexcept nogil:
        """Note it; False: there is no memory."""
        cdef int64_t time = <int64_t>(<uint64_t>h.base_timestamp + <uint64_t>one.record.timestamp_delta)
        cdef Kept* place = <Kept*>extend_by(&self.kept, sizeof(Kept))
        if place == NULL:
            return False
        place.start, place.end = one.start, one.record.end
        found.bytes += one.record.end - one.start
        found.latest = time if found.count == 0 else max(found.latest, time)
        found.count += 1
        if one.record.value_size < 0:
            found.tombstone = True
        return True

    cdef inline bint _gets_horizon(self, BatchHeader* h, Outcome* found, bint empty_transaction) noexcept nogil:
        return (found.tombstone or empty_transaction) and not h.attributes & DELETE_HORIZON

    cdef bint _changes(self, BatchHeader* h, Outcome* found, bint empty_transaction) noexcept nogil:
        return found.count != h.count or self._gets_horizon(h, found, empty_transaction)

    cdef int _settle(
        self, const uint8_t* data, BatchHeader* h, const uint8_t* body, Outcome* found, bint empty_transaction
    ) noexcept nogil:
        """What is written of a batch whose records need no codec."""
        cdef uint8_t* place
        cdef size_t begin = self.out.size
        cdef int fault
        if found.count == 0:
            if not self._tells_more(h):
                return FINE
            place = extend_by(&self.out, HEADER_BYTES)
            if place == NULL:
                return NO_MEMORY
            memcpy(place, data + h.position, HEADER_BYTES)
            store_int16(place + ATTRIBUTES_AT, h.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL))
            store_int64(place + BASE_TIMESTAMP_AT, NO_TIMESTAMP)
            store_int32(place + COUNT_AT, 0)
            self._seal(begin)
            return FINE
        self.max_timestamp = max(self.max_timestamp, found.latest)
        if not self._changes(h, found, empty_transaction):
            place = extend_by(&self.out, h.size)
            if place == NULL:
                return NO_MEMORY
            memcpy(place, data + h.position, h.size)
            return FINE
        fault = self._write(data, h, body, found, empty_transaction)
        if fault == FINE:
            self._seal(begin)
        return fault

    cdef bint _tells_more(self, BatchHeader* h) noexcept nogil:
        """Whether the header of an empty batch says what nothing else does."""
        cdef Py_ssize_t low = 0, high = self.producer_count, middle
        if h.last_offset == self.last_offset:
            return True
        if h.producer_id < 0:
            return False
        while low < high:
            middle = (low + high) >> 1
            if self.producers[middle].id < h.producer_id:
                low = middle + 1
            else:
                high = middle
        if low == self.producer_count or self.producers[low].id != h.producer_id:
            return False
        if self.producers[low].last_offset >= 0:
            return self.producers[low].last_offset == h.last_offset
        return h.attributes & CONTROL and self.producers[low].epoch == h.producer_epoch

    cdef int _write(
        self, const uint8_t* data, BatchHeader* h, const uint8_t* body, Outcome* found, bint empty_transaction
    ) noexcept nogil:
        """Header and records of what stays, not compressed; length and CRC are still to be set."""
        cdef size_t begin = self.out.size
        cdef uint8_t* place = extend_by(&self.out, HEADER_BYTES + found.bytes)
        cdef Kept* kept = <Kept*>self.kept.data
        cdef Py_ssize_t at
        cdef int32_t i
        cdef int16_t attributes = h.attributes
        cdef int fault
        if place == NULL:
            return NO_MEMORY
        memcpy(place, data + h.position, HEADER_BYTES)
        store_int64(place + MAX_TIMESTAMP_AT, found.latest)
        store_int32(place + COUNT_AT, found.count)
        if self._gets_horizon(h, found, empty_transaction):
            store_int16(place + ATTRIBUTES_AT, attributes | DELETE_HORIZON)
            store_int64(place + BASE_TIMESTAMP_AT, self.horizon_ms)
            self.out.size = begin + HEADER_BYTES
            for i in range(found.count):
                fault = self._retimed(body, &kept[i], h.base_timestamp)
                if fault != FINE:
                    return fault
            return FINE
        at = HEADER_BYTES
        for i in range(found.count):
            memcpy(place + at, body + kept[i].start, kept[i].end - kept[i].start)
            at += kept[i].end - kept[i].start
        return FINE

    cdef int _retimed(self, const uint8_t* body, Kept* kept, int64_t base_timestamp) noexcept nogil:
        """One record with its time told from the horizon on."""
        cdef int64_t delta = 0
        cdef uint64_t time
        cdef int32_t number = 0
        cdef Py_ssize_t attributes, rest, at, size
        cdef uint8_t* place
        # _sift has read the same numbers; a client may have written them longer than need be.
        attributes = read_varint(body, kept.start, kept.end, &number)
        rest = read_varlong(body, attributes + 1, kept.end, &delta)
        time = <uint64_t>base_timestamp + <uint64_t>delta
        delta = <int64_t>(time - <uint64_t>self.horizon_ms)
        size = 1 + size_varlong(delta) + kept.end - rest
        place = extend_by(&self.out, size + size_varint(<int32_t>size))
        if place == NULL:
            return NO_MEMORY
        at = write_varint(place, 0, <int32_t>size)
        place[at] = body[attributes]
        at = write_varlong(place, at + 1, delta)
        memcpy(place + at, body + rest, kept.end - rest)
        return FINE

    cdef void _seal(self, size_t begin) noexcept nogil:
        """Length and CRC of the batch that begins there and ends where everything does."""
        cdef uint8_t* place = self.out.data + begin
        cdef Py_ssize_t size = self.out.size - begin
        store_int32(place + LENGTH_AT, <int32_t>(size - SIZE_BYTES))
        store_uint32(place + CRC_AT, extend(0, place + CRC_FROM, size - CRC_FROM))
