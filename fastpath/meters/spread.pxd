"""How values are spread, for C callers."""

from libc.stdint cimport int64_t, uint32_t

cdef enum:
    STEPS = 16               # buckets for each power of two: a quantile is off by 1/32 at most
    POWERS = 38
    BUCKETS = STEPS * POWERS


cdef class Spread:
    cdef readonly int64_t count
    cdef readonly int64_t total
    cdef int shift           # values are rounded to 1 << shift
    cdef int64_t window_ns
    cdef int64_t since_ns
    cdef int now             # which of the two windows is being filled
    cdef uint32_t buckets[2][BUCKETS]

    cdef void note(self, int64_t value, int64_t at_ns) noexcept
    cdef void join(self, Spread other, int64_t at_ns) noexcept
