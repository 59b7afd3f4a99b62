"""The header of a request as nearly every client writes it: whole, a client id in ASCII, no tags.

This file alone decides which headers are read here. Whatever else a header may be, also a wrong one, is None: then
`actors.wire.framing` reads it, and says what is wrong. So nothing is accepted here that is not accepted there.

Source: Kafka's protocol guide, request headers 1 and 2 (KIP-482).
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int16_t, int32_t, uint8_t

from fastpath.bytes.endian cimport load_int16, load_int32

cdef enum:
    FIXED_BYTES = 10            # key, version, correlation id, length of the client id
    NO_CLIENT = -1


cdef inline bint is_ascii(const uint8_t* data, Py_ssize_t size) noexcept:
    cdef Py_ssize_t i
    cdef uint8_t seen = 0
    for i in range(size):
        seen |= data[i]
    return seen < 0x80


def plain_request_header(frame, dict flexible_from not None):
    """(API key, version, correlation id, client id or None, position of the message), or None: see above.

    `frame`: any contiguous buffer, the request without its length. `flexible_from`: by key, the first version with header 2.
    """
    cdef Py_buffer view
    cdef const uint8_t* data
    cdef Py_ssize_t position, size
    cdef int16_t key, version
    cdef int32_t correlation
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        data = <const uint8_t*>view.buf
        if view.len < FIXED_BYTES:
            return None
        key, version, correlation = load_int16(data), load_int16(data + 2), load_int32(data + 4)
        size, position = load_int16(data + 8), FIXED_BYTES
        client = None
        if size >= 0:
            if size > view.len - position or not is_ascii(data + position, size):
                return None
            client = PyUnicode_DecodeASCII(<const char*>data + position, size, NULL)
            position += size
        elif size != NO_CLIENT:
            return None
        first = flexible_from.get(key)
        if first is not None and version >= <int>first:
            if position >= view.len or data[position] != 0:
                return None
            position += 1
        return key, version, correlation, client, position
    finally:
        PyBuffer_Release(&view)
