from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from fastpath.image.chains cimport Chains
from fastpath.image.interned_lists cimport Lists, Uuids
from fastpath.image.copy_on_write cimport PagedList

cdef enum:
    CHUNK_BITS = 12
    CHUNK = 1 << CHUNK_BITS             # rows in a chunk
    LIVE = 1                            # flag: the row is a partition
    RARE = 2                            # flag: the chunk's `rare` has something about it
    MASK_BITS = 32                      # replicas whose ISR bit fits the column


cdef struct Table:                   # one chunk: 33 bytes a row
    int32_t topic[CHUNK]
    int32_t number[CHUNK]
    uint32_t replicas[CHUNK]
    uint32_t isr[CHUNK]
    int32_t leader[CHUNK]
    int32_t leader_epoch[CHUNK]
    int32_t partition_epoch[CHUNK]
    uint32_t directories[CHUNK]
    uint8_t flags[CHUNK]


cdef class Chunk:
    cdef Table* columns
    cdef dict rare                      # place -> (Extra or None, ISR bits of replicas 32, 33, ...); every row with more has one
    cdef long stamp                     # generation in which it was made


cdef list extents_of(bytes chain)


cdef class View:
    cdef list chunks                    # Chunk
    cdef Table** table               # the same as C pointers
    cdef readonly Py_ssize_t row_end    # rows 0 .. row_end-1 were used once
    cdef readonly Lists lists           # replica lists, directory lists
    cdef readonly Uuids directory_ids   # number -> uuid
    cdef readonly Chains chains         # topic row -> extents as bytes, ordered by number; None: no such topic
    cdef readonly PagedList topic_ids   # topic row -> 16 bytes

    cdef inline Table* chunk_of(self, Py_ssize_t row) noexcept nogil:
        return self.table[row >> CHUNK_BITS]

    cdef inline int32_t leader_at(self, Py_ssize_t row) noexcept nogil:
        return self.table[row >> CHUNK_BITS].leader[row & (CHUNK - 1)]

    cdef inline int32_t leader_epoch_at(self, Py_ssize_t row) noexcept nogil:
        return self.table[row >> CHUNK_BITS].leader_epoch[row & (CHUNK - 1)]

    cdef object rare_at(self, Py_ssize_t row)
    cdef int check_row(self, Py_ssize_t row) except -1
    cdef uint32_t* bits_of(self, int32_t broker) except NULL
    cpdef Py_ssize_t partition(self, Py_ssize_t topic, int32_t number) except -2
