"""The sparse indexes of one log segment, and the walks over batch headers that go with them.

Files, as Apache Kafka writes them (big-endian, no header, offsets relative to the segment's base offset):

    .index      | relative offset int32 | position int32 |            8 bytes an entry
    .timeindex  | timestamp int64 | relative offset int32 |           12 bytes an entry

An offset entry names the *last* offset of a batch and the position where that batch begins. A time entry says that no
record up to that offset has a later timestamp. Offsets rise strictly; timestamps rise strictly, their offsets never
fall. An entry is due once more than `interval_bytes` have been appended since the last one.

The walks read the heads of record batches up to the largest timestamp; header.pxd says where its fields are.

Memory holds the bytes of the file, so writing an index is a slice and reading one is a copy. This file opens no files
and makes no policy: the caller reads, writes, and decides what a fault means.
"""

from collections import namedtuple

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from fastpath.bytes.crc32c cimport extend
from fastpath.bytes.endian cimport load_int32, load_int64, load_uint32, store_int32, store_int64
from fastpath.records.faults cimport BAD_CRC, BAD_MAGIC, BAD_OFFSETS, BAD_SIZE, CUT, FINE, STALE, Fault
from fastpath.records.header cimport (
    CRC_AT, CRC_FROM, HEADER_BYTES, LAST_OFFSET_DELTA_AT, LENGTH_AT, MAGIC_AT,
    MAX_TIMESTAMP_AT, SIZE_BYTES,
)

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12

cdef enum:
    OFFSET_ENTRY = 8
    TIME_ENTRY = 12

cdef dict FAULTS = {
    FINE: None, CUT: "torn", BAD_SIZE: "length", BAD_MAGIC: "magic", BAD_CRC: "crc", BAD_OFFSETS: "offset", STALE: "stale",
}

Span = namedtuple("Span", "start stop next_offset needed")
Scanned = namedtuple("Scanned", "stop next_offset needed fault")


class CorruptIndex(ValueError):
    """The bytes of an index file break its rules. The file must be built again from the log."""


cdef class Entries:
    """Fixed-width entries in a growing block of memory, byte for byte as in the file."""

    def __cinit__(self):
        self.bytes = NULL
        self.size = 0
        self.capacity = 0

    def __dealloc__(self):
        free(self.bytes)

    def __len__(self):
        return self.size // self.width

    @property
    def size_bytes(self):
        return self.size

    def data(self, Py_ssize_t start=0):
        """The bytes of the file from byte `start` on; `start` is a multiple of the entry's size."""
        if start < 0 or start > self.size or start % self.width:
            raise ValueError(f"byte {start} is no entry boundary of {self.size} bytes")
        return PyBytes_FromStringAndSize(<char*>self.bytes + start, self.size - start)

    cdef int grow(self) except -1:
        cdef Py_ssize_t capacity
        cdef void* bytes
        if self.size + self.width > self.capacity:
            capacity = max(8 * self.width, 2 * self.capacity)
            bytes = realloc(self.bytes, capacity)
            if bytes == NULL:
                raise MemoryError()
            self.bytes = <uint8_t*>bytes
            self.capacity = capacity
        return 0

    cdef int load(self, data) except -1:
        cdef const uint8_t[::1] view = data
        cdef Py_ssize_t size = view.shape[0]
        cdef void* bytes
        if size % self.width:
            raise CorruptIndex(f"{size} bytes are no whole number of {self.width}-byte entries")
        if size:
            bytes = realloc(self.bytes, size)
            if bytes == NULL:
                raise MemoryError()
            self.bytes = <uint8_t*>bytes
            self.capacity = size
            memcpy(self.bytes, &view[0], size)
        self.size = size
        return 0


cdef class OffsetIndex(Entries):
    """Offset to position: sparse, strictly rising in both."""

    def __init__(self, int64_t base_offset):
        self.base_offset = base_offset
        self.width = OFFSET_ENTRY

    @staticmethod
    def parse(int64_t base_offset, data, int64_t log_size):
        """An index from the bytes of its file. Raises CorruptIndex unless entries rise and stay below `log_size`."""
        cdef OffsetIndex index = OffsetIndex(base_offset)
        cdef Py_ssize_t entry
        cdef int64_t offset = base_offset - 1, position = -1
        index.load(data)
        for entry in range(index.size // OFFSET_ENTRY):
            if index.offset_at(entry) <= offset or index.position_at(entry) <= position:
                raise CorruptIndex(f"offset index entry {entry} does not rise")
            offset = index.offset_at(entry)
            position = index.position_at(entry)
        if position >= log_size:
            raise CorruptIndex(f"offset index points to byte {position} of a log of {log_size} bytes")
        return index

    def append(self, int64_t offset, int64_t position):
        """Add an entry. Raises ValueError unless offset and position rise and fit 32 bits."""
        self.add(offset, position)

    def lookup(self, int64_t offset):
        """(offset, position) of the last entry at or below `offset`; (base offset, 0) when there is none."""
        cdef Py_ssize_t entry = self.floor(offset)
        if entry < 0:
            return self.base_offset, 0
        return self.offset_at(entry), self.position_at(entry)

    def entry(self, Py_ssize_t entry):
        """(offset, position) of an entry, counted from 0."""
        if entry < 0 or entry * OFFSET_ENTRY >= self.size:
            raise IndexError(entry)
        return self.offset_at(entry), self.position_at(entry)

    def truncate(self, int64_t offset):
        """Drop every entry at or above `offset`."""
        self.size = (self.floor(offset - 1) + 1) * OFFSET_ENTRY

    cdef int64_t offset_at(self, Py_ssize_t entry) noexcept nogil:
        return self.base_offset + load_int32(self.bytes + entry * OFFSET_ENTRY)

    cdef int64_t position_at(self, Py_ssize_t entry) noexcept nogil:
        return load_int32(self.bytes + entry * OFFSET_ENTRY + 4)

    cdef Py_ssize_t floor(self, int64_t offset) noexcept nogil:
        cdef Py_ssize_t low = 0, high = self.size // OFFSET_ENTRY, middle
        while low < high:
            middle = (low + high) >> 1
            if self.offset_at(middle) <= offset:
                low = middle + 1
            else:
                high = middle
        return low - 1

    cdef int add(self, int64_t offset, int64_t position) except -1:
        cdef Py_ssize_t count = self.size // OFFSET_ENTRY
        cdef int64_t relative = offset - self.base_offset
        if relative < 0 or relative > INT32_MAX or position < 0 or position > INT32_MAX:
            raise ValueError(f"offset {offset} at byte {position} does not fit the segment of {self.base_offset}")
        if count and (offset <= self.offset_at(count - 1) or position <= self.position_at(count - 1)):
            raise ValueError(f"offset {offset} at byte {position} does not rise above the last index entry")
        self.grow()
        store_int32(self.bytes + self.size, <int32_t>relative)
        store_int32(self.bytes + self.size + 4, <int32_t>position)
        self.size += OFFSET_ENTRY
        return 0


cdef class TimeIndex(Entries):
    """Timestamp to offset: sparse, timestamps strictly rising."""

    def __init__(self, int64_t base_offset):
        self.base_offset = base_offset
        self.width = TIME_ENTRY

    @staticmethod
    def parse(int64_t base_offset, data):
        """An index from the bytes of its file. Raises CorruptIndex unless timestamps rise and offsets do not fall."""
        cdef TimeIndex index = TimeIndex(base_offset)
        cdef Py_ssize_t entry
        index.load(data)
        for entry in range(index.size // TIME_ENTRY):
            if index.offset_at(entry) < base_offset or index.timestamp_at(entry) < 0:
                raise CorruptIndex(f"time index entry {entry} lies before the segment or before 1970")
            if entry and (
                index.timestamp_at(entry) <= index.timestamp_at(entry - 1)
                or index.offset_at(entry) < index.offset_at(entry - 1)
            ):
                raise CorruptIndex(f"time index entry {entry} does not rise")
        return index

    def append(self, int64_t timestamp, int64_t offset):
        """Add an entry if its timestamp is later than the last one. Returns whether it was. Raises ValueError if
        offsets fall."""
        cdef Py_ssize_t size = self.size
        self.add(timestamp, offset)
        return self.size > size

    def lookup(self, int64_t timestamp):
        """(timestamp, offset) of the last entry at or before `timestamp`; (-1, base offset) when there is none."""
        cdef Py_ssize_t entry = self.floor(timestamp)
        if entry < 0:
            return -1, self.base_offset
        return self.timestamp_at(entry), self.offset_at(entry)

    def entry(self, Py_ssize_t entry):
        """(timestamp, offset) of an entry, counted from 0."""
        if entry < 0 or entry * TIME_ENTRY >= self.size:
            raise IndexError(entry)
        return self.timestamp_at(entry), self.offset_at(entry)

    def truncate(self, int64_t offset):
        """Drop every entry at or above `offset`."""
        cdef Py_ssize_t count = self.size // TIME_ENTRY
        while count and self.offset_at(count - 1) >= offset:
            count -= 1
        self.size = count * TIME_ENTRY

    cdef int64_t timestamp_at(self, Py_ssize_t entry) noexcept nogil:
        return load_int64(self.bytes + entry * TIME_ENTRY)

    cdef int64_t offset_at(self, Py_ssize_t entry) noexcept nogil:
        return self.base_offset + load_int32(self.bytes + entry * TIME_ENTRY + 8)

    cdef Py_ssize_t floor(self, int64_t timestamp) noexcept nogil:
        cdef Py_ssize_t low = 0, high = self.size // TIME_ENTRY, middle
        while low < high:
            middle = (low + high) >> 1
            if self.timestamp_at(middle) <= timestamp:
                low = middle + 1
            else:
                high = middle
        return low - 1

    cdef int add(self, int64_t timestamp, int64_t offset) except -1:
        cdef Py_ssize_t count = self.size // TIME_ENTRY
        cdef int64_t relative = offset - self.base_offset
        if relative < 0 or relative > INT32_MAX:
            raise ValueError(f"offset {offset} does not fit a segment that begins at {self.base_offset}")
        if count:
            if offset < self.offset_at(count - 1):
                raise ValueError(f"offset {offset} lies before the last time index entry")
            if timestamp <= self.timestamp_at(count - 1):
                return 0
        elif timestamp < 0:
            return 0
        self.grow()
        store_int64(self.bytes + self.size, timestamp)
        store_int32(self.bytes + self.size + 8, <int32_t>relative)
        self.size += TIME_ENTRY
        return 0


cdef class SegmentIndex:
    """Both indexes of a segment and the running state that decides when an entry is due."""

    def __init__(self, int64_t base_offset, int64_t interval_bytes=4096, offsets=None, times=None):
        """`offsets` and `times` are parsed indexes to continue; empty ones otherwise."""
        self.offsets = OffsetIndex(base_offset) if offsets is None else offsets
        self.times = TimeIndex(base_offset) if times is None else times
        self.interval_bytes = interval_bytes
        self.unindexed_bytes = 0
        self.reset_times()

    cdef int reset_times(self) except -1:
        """Forget timestamps that are not in the time index: after a load or a truncation, before the tail is scanned
        again."""
        cdef Py_ssize_t count = self.times.size // TIME_ENTRY
        self.max_timestamp = self.times.timestamp_at(count - 1) if count else -1
        self.max_timestamp_offset = self.times.offset_at(count - 1) if count else self.times.base_offset
        return 0

    cdef int note(self, const uint8_t* batch, int64_t size, int64_t position) except -1:
        """Count one batch of `size` bytes whose header is sound and that begins at `position` of the file."""
        cdef int64_t last_offset = load_int64(batch) + load_int32(batch + LAST_OFFSET_DELTA_AT)
        cdef int64_t timestamp = load_int64(batch + MAX_TIMESTAMP_AT)
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        if self.unindexed_bytes > self.interval_bytes:
            self.offsets.add(last_offset, position)
            self.times.add(self.max_timestamp, self.max_timestamp_offset)
            self.unindexed_bytes = 0
        self.unindexed_bytes += size
        return 0

    def append(self, data, int64_t position):
        """Count whole, sound batches just written at `position` of the file. Returns the last offset.

        One pass over the headers. Raises ValueError if an offset or position leaves the segment's 32 bits, or if `data`
        is not whole batches.
        """
        cdef const uint8_t[::1] view = data
        cdef Py_ssize_t pos = 0, end = view.shape[0]
        cdef int64_t size, last_offset = -1
        while pos < end:
            if end - pos < HEADER_BYTES:
                raise ValueError("the last batch is cut")
            size = <int64_t>load_int32(&view[pos + LENGTH_AT]) + SIZE_BYTES
            if size < HEADER_BYTES or size > end - pos:
                raise ValueError("a batch does not end where the next begins")
            self.note(&view[pos], size, position + pos)
            last_offset = load_int64(&view[pos]) + load_int32(&view[pos + LAST_OFFSET_DELTA_AT])
            pos += size
        return last_offset

    def scan(
        self, data, int64_t position, int64_t file_size, int64_t next_offset,
        int64_t check_from=0, int64_t upper_offset=INT64_MAX,
    ):
        """Walk batches read from `position` of a file of `file_size` bytes. Returns Scanned(stop, next_offset, needed,
        fault).

        stop: the number of bytes of `data` that are whole and sound. needed: the bytes that the next batch needs from
        there, if `data` ends inside it (0: none left). fault: None, or why the batch at `stop` is refused: "torn" (the
        file ends inside it), "length", "magic", "offset" (below `next_offset`, or too far for the segment), "crc"
        (checked only for batches that reach `check_from` or beyond), "stale" (reaches `upper_offset`, where another
        segment begins). Each sound batch enters the indexes.
        """
        cdef const uint8_t[::1] view = data
        cdef Py_ssize_t pos = 0, end = view.shape[0]
        cdef int64_t size, base_offset, needed = 0
        cdef const uint8_t* batch
        cdef Fault fault = FINE
        cdef uint32_t crc
        cdef int64_t first_offset = self.offsets.base_offset
        while pos < end or position + pos < file_size:
            if file_size - position - pos < HEADER_BYTES:
                fault = CUT
                break
            if end - pos < HEADER_BYTES:
                needed = HEADER_BYTES
                break
            batch = &view[pos]
            size = <int64_t>load_int32(batch + LENGTH_AT) + SIZE_BYTES
            if size < HEADER_BYTES:
                fault = BAD_SIZE
                break
            if batch[MAGIC_AT] != 2:
                fault = BAD_MAGIC
                break
            if size > file_size - position - pos:
                fault = CUT
                break
            if size > end - pos:
                needed = size
                break
            base_offset = load_int64(batch)
            if (
                base_offset < next_offset
                or load_int32(batch + LAST_OFFSET_DELTA_AT) < 0
                or base_offset - first_offset > INT32_MAX - load_int32(batch + LAST_OFFSET_DELTA_AT)    # avoids a sum above 63 bits
            ):
                fault = BAD_OFFSETS
                break
            if base_offset + load_int32(batch + LAST_OFFSET_DELTA_AT) >= upper_offset:
                fault = STALE
                break
            if base_offset + load_int32(batch + LAST_OFFSET_DELTA_AT) >= check_from:
                with nogil:
                    crc = extend(0, batch + CRC_FROM, <size_t>(size - CRC_FROM))
                if crc != load_uint32(batch + CRC_AT):
                    fault = BAD_CRC
                    break
            self.note(batch, size, position + pos)
            next_offset = base_offset + load_int32(batch + LAST_OFFSET_DELTA_AT) + 1
            pos += size
        return Scanned(pos, next_offset, needed, FAULTS[fault])

    def seal(self):
        """Enter the largest timestamp, because the segment takes no more appends or is closed."""
        self.times.add(self.max_timestamp, self.max_timestamp_offset)

    def truncate(self, int64_t offset):
        """Drop entries at or above `offset`. The caller scans again from the last offset entry left."""
        self.offsets.truncate(offset)
        self.times.truncate(offset)
        self.unindexed_bytes = 0
        self.reset_times()


def span(data, int64_t first_offset, int64_t upper_offset, int64_t bytes_max, bint at_least_one=True):
    """Which whole batches of `data` answer a read. Returns Span(start, stop, next_offset, needed).

    Skips batches that end before `first_offset`. Then takes batches while they end below `upper_offset`, lie whole in
    `data` and together fit into `bytes_max` (with `at_least_one` the first may exceed it). next_offset: the offset
    after the last batch taken, else `first_offset`. needed: bytes from `start` that the next batch needs, if nothing
    was taken only because `data` ends inside it; 0 otherwise. A length below that of a header is treated as the end of
    `data`.
    """
    cdef const uint8_t[::1] view = data
    cdef Py_ssize_t pos = 0, end = view.shape[0], start = -1
    cdef int64_t size, last_offset, next_offset = first_offset, needed = 0
    cdef bint taken = False
    with nogil:
        while pos < end:
            if end - pos < HEADER_BYTES:
                needed = HEADER_BYTES
                break
            size = <int64_t>load_int32(&view[pos + LENGTH_AT]) + SIZE_BYTES
            if size < HEADER_BYTES:
                break
            last_offset = load_int64(&view[pos]) + load_int32(&view[pos + LAST_OFFSET_DELTA_AT])
            if last_offset < first_offset:
                if size > end - pos:
                    # The batch is not wanted, so only its end matters: the caller continues there.
                    pos += size
                    needed = HEADER_BYTES
                    break
                pos += size
                continue
            if last_offset >= upper_offset:
                break
            if start < 0:
                start = pos
            if pos + size - start > bytes_max and (taken or not at_least_one):
                break
            if size > end - pos:
                needed = size
                break
            taken = True
            next_offset = last_offset + 1
            pos += size
    if taken:
        return Span(start, pos, next_offset, 0)
    return Span(pos, pos, next_offset, needed)
