"""The map of a compaction for C callers: where each key was written last."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef struct Slot:
    uint64_t low                # of the key's hash
    uint64_t high
    int64_t place               # offset + 1; 0: empty


cdef class OffsetMap:
    cdef Slot* slots
    cdef readonly Py_ssize_t slot_count
    cdef readonly Py_ssize_t capacity
    cdef readonly Py_ssize_t count
    cdef readonly int64_t latest_offset
    cdef uint64_t seed_low, seed_high

    # A key's hash, and then what is to be done with it: between the two its slot comes from memory.
    cdef void hash(self, const uint8_t* key, Py_ssize_t size, Slot* out) noexcept nogil
    cdef bint put(self, const Slot* hashed, int64_t offset) noexcept nogil
    cdef int64_t get(self, const Slot* hashed) noexcept nogil
    cdef Slot* find(self, const Slot* hashed) noexcept nogil
