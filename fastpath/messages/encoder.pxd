"""Arrays that are encoded already, for C callers."""

cdef class Encoded:
    cdef readonly Py_ssize_t count
    cdef readonly list parts
    cdef readonly list codes
