from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from fastpath.image.blocks cimport Block, Row
from fastpath.image.broker_counts cimport Counts
from fastpath.image.copy_on_write cimport Generations
from fastpath.image.views cimport Chunk, Table, View


cdef struct Cells:                      # the fields of one partition that can change
    uint32_t replicas                   # number of a list in the pool
    uint32_t isr                        # bit i: replica i is in sync
    int32_t leader
    int32_t leader_epoch
    int32_t partition_epoch
    uint32_t directories                # number of a list of directory numbers; 0: none are known
    uint8_t flags


cdef struct Change:                     # for undo: the cells of `row` before `offset`
    int64_t offset
    int32_t row
    bint rare                           # a NOTE_RARE of this write holds the rare fields
    Cells cells


cdef enum:                              # kinds of notes
    NOTE_CHAIN, NOTE_RARE, NOTE_NEW_ROWS, NOTE_GONE_ROWS, NOTE_NEW_TOPIC, NOTE_GONE_TOPIC


cdef class Columns(View):
    cdef readonly Generations generations
    cdef readonly Counts counters
    cdef Change* changes                # Invariant: ascending by offset; [changes_head, changes_end) are live
    cdef Py_ssize_t changes_head, changes_end, changes_room
    cdef object notes                   # deque of (offset, kind, a, b): undo of everything but cells
    cdef list free_rows                 # (first row, count)
    cdef list free_topics               # topic rows

    cdef Table* writable(self, Py_ssize_t row) except NULL
    cdef Chunk writable_chunk(self, Py_ssize_t row)
    cdef int count_cells(self, const Cells* cells, object rare, int sign) except -1
    cdef int count_election(self, const Cells* old, object old_rare, int32_t leader) except -1
    cdef int write(self, Py_ssize_t row, const Cells* cells, object rare, int64_t offset) except -1
    cdef int put_cells(self, Py_ssize_t row, const Cells* cells) except -1
    cdef int set_rare(self, Py_ssize_t row, object rare) except -1
    cdef object _put_fresh(self, int64_t offset, Py_ssize_t topic, Block block, const Cells* none)
    cdef bint _usual(self, Block block, const Row* row, Cells* cells) except -1
    cdef list _isr_of(self, const Cells* cells, object wide)
    cdef object merge(self, Block block, Py_ssize_t index, const Cells* old, object old_rare, Cells* new)
