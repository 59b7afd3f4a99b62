"""The error codes of a message, for C callers."""

from libc.stdint cimport int64_t


cdef int count(object message, int64_t* codes, int size) except -1
