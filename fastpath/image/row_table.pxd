from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint32_t


cdef struct Slot:
    PyObject* key                       # owned; NULL: the slot is free
    uint32_t hash                       # the low half of the key's
    int32_t row


cdef class RowTable:
    cdef Slot* slots
    cdef Py_ssize_t mask                # of the slots' number, a power of two
    cdef readonly Py_ssize_t size       # Invariant: at most FULL of the slots
    cdef Slot* larger                   # twice as many slots, into which the keys are being moved; NULL: they are not
    cdef Py_ssize_t moved               # the keys of so many slots are in there

    cdef Py_ssize_t place_of(self, object key, uint32_t hash) except -1
    cdef int grow(self) except -1
    cdef int move(self, Py_ssize_t most) except -1
    cdef void stay(self) noexcept
    cdef int take_out(self, Py_ssize_t place) except -1
    cpdef int32_t get(self, object key, int32_t otherwise=*) except? -2
    cpdef int put(self, object key, int32_t row) except -1
