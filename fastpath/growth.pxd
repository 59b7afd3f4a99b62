"""Memory that grows while it is filled, for C callers without the GIL, and handed to Python without a copy at the end."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport realloc

cdef struct Growth:
    uint8_t* data
    size_t size                 # bytes filled
    size_t room                 # bytes there are


cdef inline uint8_t* extend_by(Growth* g, size_t size) noexcept nogil:
    """`size` more bytes, to be filled by the caller; NULL when there is no memory."""
    cdef size_t room
    cdef uint8_t* data
    if g.size + size > g.room or g.data == NULL:
        room = g.room * 2 if g.room * 2 > g.size + size else g.size + size
        room = room if room > 4096 else 4096
        data = <uint8_t*>realloc(g.data, room)
        if data == NULL:
            return NULL
        g.data, g.room = data, room
    g.size += size
    return g.data + g.size - size


cdef inline bint push_int32(Growth* g, int32_t value) noexcept nogil:
    cdef int32_t* place = <int32_t*>extend_by(g, 4)
    if place == NULL:
        return False
    place[0] = value
    return True


cdef inline bint push_int64(Growth* g, int64_t value) noexcept nogil:
    cdef int64_t* place = <int64_t*>extend_by(g, 8)
    if place == NULL:
        return False
    place[0] = value
    return True


cdef class Owned:
    cdef Growth memory


cdef Owned own(Growth* g)
