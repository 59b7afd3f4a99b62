"""The state of a batch under construction."""

from libc.stdint cimport int16_t, int32_t, int64_t


cdef class Builder:
    cdef bytearray _data                # header (filled in by build) and records; None once built
    cdef readonly int32_t count         # records so far
    cdef int64_t _base_offset           # the following are fields of the header
    cdef int32_t _epoch
    cdef int16_t _attributes
    cdef int64_t _producer_id
    cdef int16_t _producer_epoch
    cdef int32_t _base_sequence
    cdef int64_t _timestamp_ms          # for records without their own
    cdef int64_t _base_timestamp        # of the first record
    cdef int64_t _max_timestamp

    cdef bytearray _open(self)
