"""Where zstd frames end (RFC 8878), without decompressing them.

The streaming decoder does not say whether its last frame was complete. This file finds that out: it goes from frame to
frame and from block to block by their lengths alone.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from fastpath.bytes.open_buffer cimport opened

cdef enum:
    SKIPPABLE = 0x184D2A5       # the magic without its last four bits
    RLE = 1                     # a kind of block; kinds 0 and 2 hold as many bytes as they say
    RESERVED = 3


cdef inline uint32_t _load(const uint8_t* p, int size) noexcept nogil:
    cdef uint32_t value = 0
    cdef int i
    for i in range(size):
        value |= <uint32_t>p[i] << 8 * i
    return value


cdef Py_ssize_t _frame(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, int64_t* window) noexcept nogil:
    """The position after the frame at `pos`; -1 when it is cut off or is no frame."""
    cdef uint32_t head
    cdef uint8_t flags
    cdef int kind, size
    if end - pos < 8:
        return -1
    head = _load(data + pos, 4)
    if head >> 4 == SKIPPABLE:
        pos += 8 + <Py_ssize_t>_load(data + pos + 4, 4)
        return pos if pos <= end else -1
    if head != <uint32_t>0xFD2FB528:
        return -1
    flags = data[pos + 4]
    pos += 5
    if not flags & 0x20:                            # not a single segment: a window descriptor
        window[0] = max(window[0], (<int64_t>1 << (10 + (data[pos] >> 3))) // 8 * (8 + (data[pos] & 7)))
        pos += 1
    pos += (1 << (flags & 3)) >> 1                  # dictionary id: 0, 1, 2 or 4 bytes
    size = 1 << (flags >> 6)                        # content size: 2, 4 or 8 bytes; else 1 in a single segment, or none
    pos += size if size > 1 else 1 if flags & 0x20 else 0
    while end - pos >= 3:
        head = _load(data + pos, 3)
        kind = head >> 1 & 3
        if kind == RESERVED:
            return -1
        pos += 3 + (1 if kind == RLE else <Py_ssize_t>(head >> 3))
        if pos > end:
            return -1
        if head & 1:
            pos += 4 if flags & 4 else 0            # checksum
            return pos if pos <= end else -1
    return -1


def ends(data):
    """(whether `data` is whole frames and nothing else, largest window that a frame asks for in bytes)."""
    cdef Py_ssize_t pos = 0
    cdef int64_t window = 0
    buffer = opened(data)
    with nogil:
        while 0 <= pos < buffer.size:
            pos = _frame(buffer.data, pos, buffer.size, &window)
    return pos == buffer.size and pos > 0, window
