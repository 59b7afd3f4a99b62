"""Kafka's variable-length integers, for C callers: readers, writers and sizes that inline across modules.

A reader takes the buffer, a position and the end, writes the value through `out` and returns the position behind it,
or CUT (the bytes end inside the number) or LONG (more bits than the type holds). Writers need room for
`UVARINT_MAX` or `VARLONG_MAX` bytes and return the position behind what they wrote.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    CUT = -1            # the number does not end before the end of the buffer
    LONG = -2           # the number has more than 32 (64) bits
    UVARINT_MAX = 5     # bytes
    VARLONG_MAX = 10    # bytes


cdef inline Py_ssize_t read_long_uvarlong(
    const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, uint64_t* out
) noexcept nogil:
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while pos < end:
        byte = data[pos]
        pos += 1
        if shift == 63 and byte > 1:
            return LONG
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = value
            return pos
        shift += 7
    return CUT


cdef inline Py_ssize_t read_uvarlong(
    const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, uint64_t* out
) noexcept nogil:
    if pos < end and data[pos] < 0x80:      # nearly always one byte
        out[0] = data[pos]
        return pos + 1
    return read_long_uvarlong(data, pos, end, out)


cdef inline Py_ssize_t read_long_uvarint(
    const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, uint32_t* out
) noexcept nogil:
    cdef uint32_t value
    cdef int shift = 14
    cdef uint8_t byte
    if end - pos > 1 and data[pos + 1] < 0x80:
        out[0] = (data[pos] & 0x7F) | <uint32_t>data[pos + 1] << 7
        return pos + 2
    if end - pos < 2:
        return CUT
    value = (data[pos] & 0x7F) | <uint32_t>(data[pos + 1] & 0x7F) << 7
    pos += 2
    while pos < end:
        byte = data[pos]
        pos += 1
        if shift == 28 and byte > 0x0F:
            return LONG
        value |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = value
            return pos
        shift += 7
    return CUT


cdef inline Py_ssize_t read_uvarint(
    const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, uint32_t* out
) noexcept nogil:
    if pos < end and data[pos] < 0x80:      # nearly always one byte
        out[0] = data[pos]
        return pos + 1
    return read_long_uvarint(data, pos, end, out)


cdef inline Py_ssize_t read_varint(
    const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, int32_t* out
) noexcept nogil:
    cdef uint32_t raw = 0
    pos = read_uvarint(data, pos, end, &raw)
    out[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
    return pos


cdef inline Py_ssize_t read_varlong(
    const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, int64_t* out
) noexcept nogil:
    cdef uint64_t raw = 0
    pos = read_uvarlong(data, pos, end, &raw)
    out[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
    return pos


cdef inline uint32_t zigzag(int32_t value) noexcept nogil:
    return (<uint32_t>value << 1) ^ <uint32_t>(value >> 31)


cdef inline uint64_t zigzag_long(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline Py_ssize_t write_uvarlong(uint8_t* data, Py_ssize_t pos, uint64_t value) noexcept nogil:
    while value >= 0x80:
        data[pos] = <uint8_t>(value & 0x7F) | 0x80
        pos += 1
        value >>= 7
    data[pos] = <uint8_t>value
    return pos + 1


cdef inline Py_ssize_t write_varint(uint8_t* data, Py_ssize_t pos, int32_t value) noexcept nogil:
    return write_uvarlong(data, pos, zigzag(value))


cdef inline Py_ssize_t write_varlong(uint8_t* data, Py_ssize_t pos, int64_t value) noexcept nogil:
    return write_uvarlong(data, pos, zigzag_long(value))


cdef inline int size_uvarlong(uint64_t value) noexcept nogil:
    cdef int size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


cdef inline int size_varint(int32_t value) noexcept nogil:
    return size_uvarlong(zigzag(value))


cdef inline int size_varlong(int64_t value) noexcept nogil:
    return size_uvarlong(zigzag_long(value))
