from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from fastpath.block cimport Block, Row
from fastpath.counts cimport Count, Counts
from fastpath.lists cimport Lists, Uuids
from fastpath.pages cimport Generations, PagedList

cdef enum:
    CHUNK_BITS = 12
    CHUNK = 1 << CHUNK_BITS             # rows in a chunk
    LIVE = 1                            # flag: the row is a partition
    RARE = 2                            # flag: the chunk's `rare` has something about it
    MASK_BITS = 32                      # replicas whose ISR bit fits the column


cdef struct Cells:                      # what can change of one partition
    uint32_t replicas                   # number of a list in the pool
    uint32_t isr                        # bit i: replica i is in sync
    int32_t leader
    int32_t leader_epoch
    int32_t partition_epoch
    uint32_t directories                # number of a list of directory numbers; 0: none are known
    uint8_t flags


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


cdef struct Extent:                     # partitions number .. number+count-1 are rows row .. row+count-1
    int32_t number
    int32_t row
    int32_t count


cdef class Chunk:
    cdef Table* columns
    cdef dict rare                      # place -> (Extra or None, ISR bits of replicas 32, 33, ...); every row with more has one
    cdef long stamp                     # generation in which it was made


cdef struct Change:                     # undo: the cells of `row` before `offset`
    int64_t offset
    int32_t row
    bint rare                           # a NOTE_RARE of this write holds the rare fields
    Cells cells


cdef class View:
    cdef list chunks                    # Chunk
    cdef Table** table               # the same as C pointers
    cdef readonly Py_ssize_t row_end    # rows 0 .. row_end-1 were used once
    cdef readonly Lists lists           # replica lists, directory lists
    cdef readonly Uuids directory_ids   # number -> uuid
    cdef readonly PagedList chains      # topic row -> extents as bytes, ordered by number; None: no such topic
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


cdef class Columns(View):
    cdef readonly Generations generations
    cdef readonly Counts counters
    cdef Change* changes                # Invariant: ascending by offset; [changes_head, changes_end) are live
    cdef Py_ssize_t changes_head, changes_end, changes_room
    cdef object notes                   # deque of (offset, kind, a, b): undo of what is not a cell
    cdef list free_rows                 # (first row, count)
    cdef list free_topics               # topic rows

    cdef Table* writable(self, Py_ssize_t row) except NULL
    cdef Chunk writable_chunk(self, Py_ssize_t row)
    cdef int count_cells(self, const Cells* cells, object rare, int sign) except -1
    cdef int write(self, Py_ssize_t row, const Cells* cells, object rare, int64_t offset) except -1
    cdef int put_cells(self, Py_ssize_t row, const Cells* cells) except -1
    cdef int set_rare(self, Py_ssize_t row, object rare) except -1
    cdef list _isr_of(self, const Cells* cells, object wide)
    cdef object merge(self, Block block, Py_ssize_t index, const Cells* old, object old_rare, Cells* new)
