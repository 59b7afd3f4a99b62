"""Where the batches of a log file lie, and which of them are sound.

This file alone decides how a reader of whole files goes from batch to batch: by the headers, with each CRC checked over
all its bytes, without the GIL. After bytes that are no batch it goes on at the next place where header and CRC are both
right. fastpath/records/batch.pyx draws the batch.
"""

import numpy as np

from libc.stdlib cimport free, malloc
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from fastpath.records.batch cimport BatchHeader, read_header
from fastpath.records.header cimport CRC_FROM, HEADER_BYTES, LENGTH_AT, MAGIC_AT, SIZE_BYTES
from fastpath.records.faults cimport BAD_CRC, BAD_OFFSETS, CUT, FINE, Fault
from fastpath.bytes.crc32c cimport extend, second
from fastpath.bytes.endian cimport load_uint32
from fastpath.bytes.byte_builder cimport Growth, extend_by, own
from fastpath.bytes.open_buffer cimport opened, opened_writable

from fastpath.records.batch import HEADER_DTYPE

cdef enum:
    STEP = 4096         # bytes between two sums that are kept

NAMES = {
    CUT: "the bytes end inside the batch",
    BAD_CRC: "the batch's CRC does not match its bytes",
}
OTHER = "these bytes are no batch header"


cdef inline Fault look(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, bint crc, BatchHeader* out) noexcept nogil:
    cdef Fault fault = read_header(data, pos, end, out)
    if fault != FINE:
        return fault
    if out.base_offset < 0 or out.last_offset < 0:
        return BAD_OFFSETS
    if crc and extend(0, data + pos + CRC_FROM, out.size - CRC_FROM) != out.crc:
        return BAD_CRC
    return FINE


cdef inline Fault copied(
    const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, bint crc, BatchHeader* out, uint8_t* into, Py_ssize_t room, bint* full
) noexcept nogil:
    """Copy the batch at `pos` and look at the copy, so that what was checked cannot change. `full`: there is no room."""
    cdef Fault fault = look(data, pos, end, False, out)
    full[0] = fault == FINE and out.size > room
    if fault != FINE or full[0]:
        return fault
    memcpy(into, data + pos, out.size)
    fault = look(into, 0, out.size, crc, out)
    out.position = pos
    return fault


def scan(
    data, Py_ssize_t pos, Py_ssize_t end, bint crc=True, int64_t records_max=1 << 62, int64_t bytes_max=1 << 62, into=None
):
    """Headers of the batches in `[pos, end)` as an array of HEADER_DTYPE. Returns (headers, next position, fault or
    None).

    Stops after the batch that reaches `records_max` or `bytes_max`, at `end`, or at a batch that is not sound. In that
    case `fault` is a sentence, and the next position is that of the batch. Bytes that are zero up to the end count as
    the end, since a file may have been enlarged beforehand. `crc`: check CRCs. `into`: a writable buffer into which the
    batches are copied, one behind the other, before they are checked; the scan stops in front of one for which there is
    no room.
    """
    cdef uint8_t* room = NULL
    cdef Py_ssize_t size = 0, used = 0
    cdef bint full = False
    cdef BatchHeader h
    cdef Growth found
    cdef BatchHeader* place
    cdef Fault fault = FINE
    cdef const uint8_t* bytes_
    cdef int64_t records = 0, start = pos
    cdef bint memory = True
    found.data, found.size, found.room = NULL, 0, 0
    buffer = opened(data)
    if into is not None:
        copy = opened_writable(into)
        room, size = copy.data, copy.size
    if not 0 <= pos <= end <= buffer.size:
        raise ValueError(f"[{pos}, {end}) is not inside the {buffer.size} bytes given")
    bytes_ = buffer.data
    try:
        with nogil:
            while pos < end and records < records_max and pos - start < bytes_max:
                if room == NULL:
                    fault = look(bytes_, pos, end, crc, &h)
                else:
                    fault = copied(bytes_, pos, end, crc, &h, room + used, size - used, &full)
                    used += h.size if fault == FINE else 0
                if fault != FINE or full:
                    break
                place = <BatchHeader*>extend_by(&found, sizeof(BatchHeader))
                if place == NULL:
                    memory = False
                    break
                memcpy(place, &h, sizeof(BatchHeader))
                records += h.count
                pos += h.size
            if fault != FINE and zeros(bytes_, pos, end):
                fault, pos = FINE, end
        if not memory:
            raise MemoryError
        headers = np.frombuffer(own(&found), dtype=HEADER_DTYPE) if found.size else np.empty(0, dtype=HEADER_DTYPE)
        return headers, pos, None if fault == FINE else NAMES.get(fault, OTHER)
    finally:
        free(found.data)        # NULL once the headers have it


cdef bint zeros(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t at
    for at in range(pos, end):
        if data[at]:
            return False
    return True


cdef struct Sums:
    const uint8_t* data
    Py_ssize_t base
    uint32_t* marks         # CRC of [base, base + i * STEP)
    Py_ssize_t known        # how many of them are computed


cdef inline uint32_t sum_below(Sums* sums, Py_ssize_t pos) noexcept nogil:
    """The CRC of [base, pos)."""
    cdef Py_ssize_t at = (pos - sums.base) // STEP
    while sums.known <= at:
        sums.marks[sums.known] = extend(
            sums.marks[sums.known - 1], sums.data + sums.base + (sums.known - 1) * STEP, STEP
        )
        sums.known += 1
    return extend(sums.marks[at], sums.data + sums.base + at * STEP, (pos - sums.base) % STEP)


def resync(data, Py_ssize_t pos, Py_ssize_t end):
    cdef BatchHeader h
    cdef Sums sums
    cdef Py_ssize_t body
    buffer = opened(data)
    if not 0 <= pos <= end <= buffer.size:
        raise ValueError(f"[{pos}, {end}) is not inside the {buffer.size} bytes given")
    sums.data, sums.base, sums.known = buffer.data, pos, 1
    sums.marks = <uint32_t*>malloc(((end - pos) // STEP + 1) * sizeof(uint32_t))
    if sums.marks == NULL:
        raise MemoryError
    sums.marks[0] = 0
    try:
        with nogil:
            while pos < end:
                # The bytes may be anybody's, and each of them may begin what looks like a header of a long batch. So the CRC
                # of a candidate comes from those of two beginnings, and each byte is summed up a bounded number of times.
                if (
                    end - pos > MAGIC_AT and sums.data[pos + MAGIC_AT] == 2 and sums.data[pos] < 0x80
                    and load_uint32(sums.data + pos + LENGTH_AT) >= HEADER_BYTES - SIZE_BYTES
                    and look(sums.data, pos, end, False, &h) == FINE
                ):
                    body = pos + CRC_FROM
                    if second(sum_below(&sums, pos + h.size), sum_below(&sums, body), h.size - CRC_FROM) == h.crc:
                        break
                pos += 1
        return pos
    finally:
        free(sums.marks)
