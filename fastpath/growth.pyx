"""The owner of memory that C code has filled: a buffer of bytes that frees it.

This file alone decides when such memory is freed: with the last numpy or Arrow array over it.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdlib cimport free


cdef class Owned:
    """A buffer of the bytes that were filled. Writable."""

    def __dealloc__(self):
        free(self.memory.data)

    def __len__(self):
        return self.memory.size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.memory.data, <Py_ssize_t>self.memory.size, 0, flags)


cdef Owned own(Growth* g):
    """Take the memory of `g`, which is empty afterwards."""
    cdef Owned owned = Owned.__new__(Owned)
    cdef uint8_t* less
    if g.room > g.size + 65536:
        less = <uint8_t*>realloc(g.data, g.size + 1)
        if less != NULL:
            g.data = less
    owned.memory = g[0]
    g.data, g.size, g.room = NULL, 0, 0
    return owned
