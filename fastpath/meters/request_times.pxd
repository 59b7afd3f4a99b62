"""The times of requests, for C callers."""

from libc.stdint cimport int64_t

from fastpath.meters.spread cimport Spread

cdef enum:
    VERSIONS = 64
    CODES = 256


cdef class RequestTimes:
    cdef readonly Spread total
    cdef readonly Spread queue
    cdef readonly Spread local
    cdef readonly Spread remote
    cdef readonly Spread response_queue
    cdef readonly Spread send
    cdef readonly Spread size
    cdef readonly RequestTimes consumer
    cdef readonly RequestTimes follower
    cdef public int64_t waiting      # requests that wait for data, others, or a time
    cdef int64_t versions[VERSIONS]
    cdef int64_t codes[CODES]        # by error code + 1: -1 is the first

    cdef void note(self, Timing timing, int64_t sent_ns) noexcept
    cdef void join(self, RequestTimes part, int64_t at_ns) noexcept


cdef class Door:
    cdef public int64_t opened
    cdef public int64_t closed
    cdef public int64_t expired
    cdef public int64_t logins
    cdef public int64_t failed_logins
    cdef readonly int64_t requests
    cdef readonly int64_t bytes_in
    cdef readonly int64_t responses
    cdef readonly int64_t bytes_out


cdef class Timing:
    cdef public object connection    # the one that it came on
    cdef public object parts         # the buffers of the answer; None: not known
    cdef public int64_t arrived_ns
    cdef public int64_t began_ns
    cdef public int64_t local_ns
    cdef public int64_t answered_ns
    cdef public int64_t left_ns
    cdef readonly int size
    cdef readonly int version
    cdef readonly RequestTimes meter
    cdef readonly Door door
