"""Kafka's variable-length integers.

Seven bits a byte, lowest first, the high bit set on every byte but the last. `uvarint` is unsigned with 32 bits (1 to 5
bytes: KIP-482 lengths and tags); `varint` and `varlong` are zigzag-coded with 32 and 64 bits (record fields of magic 2).

This file alone decides how strict a reader is: a number that needs more bits than its type is refused, a number longer
than it has to be (`80 00` for 0) is read. The C faces are in varint.pxd.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize


class VarintError(ValueError):
    """A number that is cut, or longer than its type. `position`: where the number starts, in bytes."""

    def __init__(self, position, reason):
        super().__init__(f"{reason} at byte {position}")
        self.position = position
        self.reason = reason


cdef object _fault(Py_ssize_t pos, Py_ssize_t code):
    return VarintError(pos, "cut varint" if code == CUT else "overlong varint")


cdef int _check(const uint8_t[::1] data, Py_ssize_t pos) except -1:
    if pos < 0 or pos > data.shape[0]:
        raise VarintError(pos, "position outside the buffer for a varint")
    return 0


cdef const uint8_t* _start(const uint8_t[::1] data) noexcept:
    return &data[0] if data.shape[0] else NULL


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


def decode_uvarint(const uint8_t[::1] data, Py_ssize_t pos=0):
    cdef uint32_t value = 0
    _check(data, pos)
    cdef Py_ssize_t behind = read_uvarint(_start(data), pos, data.shape[0], &value)
    if behind < 0:
        raise _fault(pos, behind)
    return value, behind


def decode_varint(const uint8_t[::1] data, Py_ssize_t pos=0):
    cdef int32_t value = 0
    _check(data, pos)
    cdef Py_ssize_t behind = read_varint(_start(data), pos, data.shape[0], &value)
    if behind < 0:
        raise _fault(pos, behind)
    return value, behind


def decode_varlong(const uint8_t[::1] data, Py_ssize_t pos=0):
    cdef int64_t value = 0
    _check(data, pos)
    cdef Py_ssize_t behind = read_varlong(_start(data), pos, data.shape[0], &value)
    if behind < 0:
        raise _fault(pos, behind)
    return value, behind
