"""Memory that grows while it is filled, for C callers without the GIL, and handed to Python without a copy at the end."""

from libc.stdint cimport int32_t, int64_t, uint8_t

cdef struct Growth:
    uint8_t* data
    size_t size                 # bytes filled
    size_t room                 # bytes there are


cdef uint8_t* grow(Growth* g, size_t size) noexcept nogil


cdef inline uint8_t* extend_by(Growth* g, size_t size) noexcept nogil:
    """`size` more bytes, to be filled by the caller; NULL when there is no memory."""
    if g.size + size >= g.room and grow(g, size) == NULL:
        return NULL
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


cdef class Rooms:
    cdef Growth* kept           # by place; empty where nothing has come back
    cdef int places

    cdef int fit(self, int places) except -1
    cdef void take(self, int place, Growth* g) noexcept
    cdef void give(self, int place, Growth* g) noexcept


cdef class Owned:
    cdef Growth memory
    cdef Rooms rooms            # where it goes back to, at `place`; None: nowhere
    cdef int place


cdef Owned own(Growth* g, Rooms rooms=*, int place=*)
