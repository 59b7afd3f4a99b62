"""Memory that grows while C code fills it without the GIL, and that Python then gets without a copy."""

from libc.stdint cimport int32_t, int64_t, uint8_t

cdef struct Growth:
    uint8_t* data
    size_t size                 # bytes filled
    size_t room                 # bytes allocated


cdef uint8_t* grow(Growth* g, size_t size) noexcept nogil


cdef inline uint8_t* extend_by(Growth* g, size_t size) noexcept nogil:
    """Memory for `size` more bytes, which the caller must fill; NULL when there is no memory."""
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
    cdef Growth* kept           # by place; empty where no memory has been given back
    cdef int places

    cdef int fit(self, int places) except -1
    cdef void take(self, int place, Growth* g) noexcept
    cdef void give(self, int place, Growth* g) noexcept


cdef class Owned:
    cdef Growth memory
    cdef Rooms rooms            # the memory goes back there, to `place`; None: it is freed
    cdef int place


cdef Owned own(Growth* g, Rooms rooms=*, int place=*)
