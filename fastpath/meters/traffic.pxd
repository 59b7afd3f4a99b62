"""What came and went, for C callers."""

from libc.stdint cimport int64_t


cdef class Traffic:
    cdef readonly Traffic whole
    cdef public int64_t messages_in
    cdef public int64_t bytes_in
    cdef public int64_t bytes_out
    cdef public int64_t bytes_rejected
    cdef public int64_t produces
    cdef public int64_t failed_produces
    cdef public int64_t fetches
    cdef public int64_t failed_fetches
    cdef public int64_t replication_bytes_in
    cdef public int64_t replication_bytes_out
    cdef public int64_t reassignment_bytes_in
    cdef public int64_t reassignment_bytes_out
    cdef public int64_t unkeyed
    cdef public int64_t wrong_magic
    cdef public int64_t wrong_crc
    cdef public int64_t wrong_sequence
