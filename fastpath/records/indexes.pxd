"""The indexes of one log segment, for C callers. Layouts are drawn in indexes.pyx."""

from libc.stdint cimport int64_t, uint8_t


cdef class Entries:
    cdef uint8_t* bytes         # the entries exactly as in the file
    cdef Py_ssize_t size        # bytes in use; a multiple of `width`
    cdef Py_ssize_t capacity    # bytes allocated
    cdef Py_ssize_t width       # bytes of one entry
    cdef readonly int64_t base_offset
    cdef int grow(self) except -1
    cdef int load(self, data) except -1


cdef class OffsetIndex(Entries):
    cdef int64_t offset_at(self, Py_ssize_t entry) noexcept nogil
    cdef int64_t position_at(self, Py_ssize_t entry) noexcept nogil
    cdef Py_ssize_t floor(self, int64_t offset) noexcept nogil
    cdef int add(self, int64_t offset, int64_t position) except -1


cdef class TimeIndex(Entries):
    cdef int64_t timestamp_at(self, Py_ssize_t entry) noexcept nogil
    cdef int64_t offset_at(self, Py_ssize_t entry) noexcept nogil
    cdef Py_ssize_t floor(self, int64_t timestamp) noexcept nogil
    cdef int add(self, int64_t timestamp, int64_t offset) except -1


cdef class SegmentIndex:
    cdef readonly OffsetIndex offsets
    cdef readonly TimeIndex times
    cdef public int64_t interval_bytes
    cdef readonly int64_t unindexed_bytes
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t max_timestamp_offset
    cdef int note(self, const uint8_t* batch, int64_t size, int64_t position) except -1
    cdef int reset_times(self) except -1
