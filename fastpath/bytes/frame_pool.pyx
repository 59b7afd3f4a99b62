"""Buffers for large frames and reads, used again when no view of them exists any more.

With several large blocks at once, the allocator gives their pages back to the kernel and gets them again, zeroed, a
moment later: filling eight fresh frames of 100 KB took 12 to 14 times as long as filling eight old ones (measured in a
new process; bench/test_hotpath.py). So large blocks are kept here. This file alone decides when a block is free: when
the last view of it is gone, wherever and for however long it was held. No caller gives a block back by hand, so none
can do so too early.

Sizes of blocks are powers of two, 64 KiB at least. Requests below half of that are left to the allocator. The spare
bytes are bounded by `bytes_kept_max`; the caller must bound the bytes that are lent.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc


@cython.final
@cython.freelist(16)
@cython.no_gc                   # it refers to the pool alone, which refers to nothing: no cycle, and _pool exists to the end
cdef class Block:
    def __dealloc__(self):
        if self._data != NULL:
            self._pool._give(self._data, self._shelf)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self._data, self._size, False, flags)


cdef class Pool:
    def __cinit__(self, Py_ssize_t bytes_kept_max):
        self.bytes_kept_max = bytes_kept_max

    def __dealloc__(self):
        cdef Spare* spare
        for shelf in range(SHELVES):
            while self._shelves[shelf] != NULL:
                spare = self._shelves[shelf]
                self._shelves[shelf] = spare.next
                PyMem_RawFree(spare)

    def keep(self, Py_ssize_t bytes_kept_max):
        cdef Spare* spare
        cdef int shelf
        self.bytes_kept_max = bytes_kept_max
        for shelf in range(SHELVES - 1, -1, -1):
            while self.bytes_kept > bytes_kept_max and self._shelves[shelf] != NULL:
                spare = self._shelves[shelf]
                self._shelves[shelf] = spare.next
                self.bytes_kept -= <Py_ssize_t>1 << (SHELF_FIRST + shelf)
                PyMem_RawFree(spare)

    def take(self, Py_ssize_t size):
        cdef Block block
        cdef int shelf = 0
        if not 0 <= size <= <Py_ssize_t>1 << (SHELF_FIRST + SHELVES - 1):
            raise ValueError(f"no buffer of {size} bytes; 0 to 2 GiB are possible")
        if size < SMALL:
            return memoryview(bytearray(size))
        block = Block.__new__(Block)
        while (<Py_ssize_t>1 << (SHELF_FIRST + shelf)) < size:
            shelf += 1
        block._pool = self
        block._size = size
        block._shelf = shelf
        block._data = self._take(shelf)
        return memoryview(block)

    cdef uint8_t* _take(self, int shelf) except NULL:
        cdef Py_ssize_t room = <Py_ssize_t>1 << (SHELF_FIRST + shelf)
        cdef Spare* spare = self._shelves[shelf]
        if spare != NULL:
            self._shelves[shelf] = spare.next
            self.bytes_kept -= room
        else:
            spare = <Spare*>PyMem_RawMalloc(room)
            if spare == NULL:
                raise MemoryError
        self.bytes_lent += room
        return <uint8_t*>spare

    cdef void _give(self, uint8_t* data, int shelf) noexcept:
        cdef Py_ssize_t room = <Py_ssize_t>1 << (SHELF_FIRST + shelf)
        cdef Spare* spare = <Spare*>data
        self.bytes_lent -= room
        if self.bytes_kept + room > self.bytes_kept_max:
            PyMem_RawFree(data)
            return
        spare.next = self._shelves[shelf]
        self._shelves[shelf] = spare
        self.bytes_kept += room
