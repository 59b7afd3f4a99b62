"""Building a record batch, one record at a time: for groups, metadata, markers and tools.

The layout is drawn in batch.pyx. This file alone decides how records become bytes: offset deltas 0, 1, 2, ..., the first
record's time as the base timestamp, the CRC at the end. `batch.Builder` is this class.
"""

from fastpath.records import compression

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from fastpath.records.header cimport (
    ATTRIBUTES_AT, BASE_SEQUENCE_AT, BASE_TIMESTAMP_AT, CODEC, COUNT_AT, CRC_AT,
    CRC_FROM, EPOCH_AT, HEADER_BYTES, LAST_OFFSET_DELTA_AT, LENGTH_AT, MAX_TIMESTAMP_AT,
    PRODUCER_EPOCH_AT, PRODUCER_ID_AT, SIZE_BYTES,
)
from fastpath.bytes.crc32c cimport extend
from fastpath.bytes.endian cimport store_int16, store_int32, store_int64, store_uint32
from fastpath.bytes.varint cimport size_varint, size_varlong, write_varint, write_varlong

cdef enum:
    BATCH_BYTES_MAX = 0x7FFFFFFF - SIZE_BYTES


cdef inline Py_ssize_t _size(bytes data) noexcept:
    return 1 if data is None else size_varint(<int32_t>PyBytes_GET_SIZE(data)) + PyBytes_GET_SIZE(data)


cdef inline Py_ssize_t _put(uint8_t* out, Py_ssize_t pos, bytes data) noexcept:
    if data is None:
        return write_varint(out, pos, -1)
    pos = write_varint(out, pos, <int32_t>PyBytes_GET_SIZE(data))
    memcpy(out + pos, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return pos + PyBytes_GET_SIZE(data)


cdef class Builder:
    def __init__(
        self, int64_t base_offset=0, int32_t epoch=-1, int16_t attributes=0, int64_t producer_id=-1,
        int16_t producer_epoch=-1, int32_t base_sequence=-1, int64_t timestamp_ms=0,
    ):
        self._data = bytearray(HEADER_BYTES)
        self.count = 0
        self._base_offset = base_offset
        self._epoch = epoch
        self._attributes = attributes
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._base_sequence = base_sequence
        self._timestamp_ms = timestamp_ms

    @property
    def size(self):
        return len(self._open())

    cdef bytearray _open(self):
        if self._data is None:
            raise ValueError("the batch is built already")
        return self._data

    def append(self, bytes key, bytes value, timestamp_ms=None, headers=()):
        cdef bytearray data = self._open()
        cdef int64_t timestamp = self._timestamp_ms if timestamp_ms is None else timestamp_ms
        cdef int64_t base = timestamp if self.count == 0 else self._base_timestamp
        cdef int64_t delta = <int64_t>(<uint64_t>timestamp - <uint64_t>base)
        cdef Py_ssize_t at = PyByteArray_GET_SIZE(data), size, whole
        cdef uint8_t* out
        cdef bytes name, content
        cdef list pairs = [_pair(pair) for pair in headers] if headers else []
        size = 1 + size_varlong(delta) + size_varint(self.count) + _size(key) + _size(value) + size_varint(
            <int32_t>len(pairs))
        for name, content in pairs:
            size += _size(name) + _size(content)
        whole = size + 5
        if at + whole > BATCH_BYTES_MAX:
            raise OverflowError(f"a batch of {at} bytes has no room for a record of {size}")
        whole = size_varint(<int32_t>size) + size
        PyByteArray_Resize(data, at + whole)
        out = <uint8_t*>PyByteArray_AS_STRING(data)
        at = write_varint(out, at, <int32_t>size)
        out[at] = 0                     # record attributes: none are defined
        at = write_varlong(out, at + 1, delta)
        at = write_varint(out, at, self.count)
        at = _put(out, at, key)
        at = _put(out, at, value)
        at = write_varint(out, at, <int32_t>len(pairs))
        for name, content in pairs:
            at = _put(out, at, name)
            at = _put(out, at, content)
        self._max_timestamp = timestamp if self.count == 0 else max(self._max_timestamp, timestamp)
        self._base_timestamp = base
        self.count += 1

    def build(self):
        cdef bytearray data = self._open()
        cdef uint8_t* out
        cdef Py_ssize_t size
        if self.count == 0:
            raise ValueError("a batch needs a record")
        if self._attributes & CODEC:
            data[HEADER_BYTES:] = compression.compress(self._attributes & CODEC, bytes(data[HEADER_BYTES:]))
        out = <uint8_t*>PyByteArray_AS_STRING(data)
        size = PyByteArray_GET_SIZE(data)
        store_int64(out, self._base_offset)
        store_int32(out + LENGTH_AT, <int32_t>(size - SIZE_BYTES))
        store_int32(out + EPOCH_AT, self._epoch)
        out[16] = 2
        store_int16(out + ATTRIBUTES_AT, self._attributes)
        store_int32(out + LAST_OFFSET_DELTA_AT, <int32_t>(self.count - 1))
        store_int64(out + BASE_TIMESTAMP_AT, self._base_timestamp)
        store_int64(out + MAX_TIMESTAMP_AT, self._max_timestamp)
        store_int64(out + PRODUCER_ID_AT, self._producer_id)
        store_int16(out + PRODUCER_EPOCH_AT, self._producer_epoch)
        store_int32(out + BASE_SEQUENCE_AT, self._base_sequence)
        store_int32(out + COUNT_AT, self.count)
        store_uint32(out + CRC_AT, extend(0, out + CRC_FROM, size - CRC_FROM))
        self._data = None
        return data


cdef tuple _pair(object pair):
    cdef bytes name, content
    name, content = pair
    if name is None:
        raise TypeError("a record header needs a name")
    return name, content
