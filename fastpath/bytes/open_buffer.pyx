"""The closing of buffers that C code has opened: see open_buffer.pxd."""

cimport cython
from cpython.buffer cimport PyBuffer_Release


@cython.final
@cython.freelist(16)
cdef class OpenBuffer:
    """Made by `opened` and `opened_writable` only. Objects of this kind are used again, so one costs no allocation."""

    def __dealloc__(self):
        PyBuffer_Release(&self.view)    # a buffer that could not be opened has no object, and nothing happens
