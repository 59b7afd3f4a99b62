"""Kafka's variable-length integers.

Seven bits a byte, lowest first, the high bit set on every byte but the last. `uvarint` is unsigned with 32 bits (1 to 5
bytes: KIP-482 lengths and tags); `varint` and `varlong` are zigzag-coded with 32 and 64 bits (record fields of magic 2).

This file alone decides how strict a reader is: a number that needs more bits than its type is refused, and a number
that is longer than necessary (`80 00` for 0) is read. The functions for C callers are in varint.pxd.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize


class VarintError(ValueError):
    """A number whose bytes end too early, or that is longer than its type. `position`: where the number starts, in
    bytes."""

    def __init__(self, position, reason):
        super().__init__(f"{reason} at byte {position}")
        self.position = position
        self.reason = reason


cdef object _fault(Py_ssize_t pos, Py_ssize_t code):
    return VarintError(pos, "cut varint" if code == CUT else "overlong varint")


def encode_uvarint(value):
    if not 0 <= value <= 0xFFFFFFFF:
        raise OverflowError(f"{value} is not an unsigned 32-bit integer")
    cdef uint8_t out[VARLONG_MAX]
    return PyBytes_FromStringAndSize(<char*>out, write_uvarlong(out, 0, value))


def encode_varint(value):
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise OverflowError(f"{value} is not a 32-bit integer")
    cdef uint8_t out[VARLONG_MAX]
    return PyBytes_FromStringAndSize(<char*>out, write_varint(out, 0, value))


def encode_varlong(value):
    if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise OverflowError(f"{value} is not a 64-bit integer")
    cdef uint8_t out[VARLONG_MAX]
    return PyBytes_FromStringAndSize(<char*>out, write_varlong(out, 0, value))


def decode_uvarint(data, Py_ssize_t pos=0):
    cdef Py_buffer view
    cdef uint32_t value = 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    cdef Py_ssize_t behind = CUT if pos < 0 else read_uvarint(<const uint8_t*>view.buf, pos, view.len, &value)
    PyBuffer_Release(&view)
    if behind < 0:
        raise _fault(pos, behind)
    return value, behind


def decode_varint(data, Py_ssize_t pos=0):
    cdef Py_buffer view
    cdef int32_t value = 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    cdef Py_ssize_t behind = CUT if pos < 0 else read_varint(<const uint8_t*>view.buf, pos, view.len, &value)
    PyBuffer_Release(&view)
    if behind < 0:
        raise _fault(pos, behind)
    return value, behind


def decode_varlong(data, Py_ssize_t pos=0):
    cdef Py_buffer view
    cdef int64_t value = 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    cdef Py_ssize_t behind = CUT if pos < 0 else read_varlong(<const uint8_t*>view.buf, pos, view.len, &value)
    PyBuffer_Release(&view)
    if behind < 0:
        raise _fault(pos, behind)
    return value, behind
