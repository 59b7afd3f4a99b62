"""Memory for frames and reads, lent and taken back."""

from libc.stdint cimport uint8_t

cdef enum:
    SHELF_FIRST = 16            # the smallest block: 2 ** 16 bytes
    SHELVES = 16                # up to 2 ** 31 bytes
    SMALL = 32 * 1024           # smaller requests get no block

cdef struct Spare:
    Spare* next                 # written into the free block itself


cdef class Pool:
    cdef readonly Py_ssize_t bytes_kept_max
    cdef readonly Py_ssize_t bytes_kept     # of spare blocks
    cdef readonly Py_ssize_t bytes_lent     # of blocks of which a view exists
    cdef Spare* _shelves[SHELVES]           # spare blocks by size

    cdef uint8_t* _take(self, int shelf) except NULL
    cdef void _give(self, uint8_t* data, int shelf) noexcept


cdef class Block:
    cdef Pool _pool
    cdef uint8_t* _data         # 2 ** (SHELF_FIRST + _shelf) bytes
    cdef Py_ssize_t _size       # of them in use
    cdef int _shelf
    cdef object __weakref__     # so that a ledger can ask whether a view of it is left
