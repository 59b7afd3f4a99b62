"""The state of the record batches that are filled from Arrow columns."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from fastpath.arrow.array_views cimport Array, View
from fastpath.bytes.byte_builder cimport Growth


cdef struct Batch:              # of one partition, while it is filled, and until it is given away
    Growth memory               # room for the header, and the records
    Growth rows                 # int64: the number of each record's row
    int64_t base_ms             # of the first record
    int64_t max_ms
    int32_t count               # records
    int32_t partition
    bint is_next_large          # whether the batch before was closed for want of room


cdef struct Cells:              # one row
    const uint8_t* key
    int64_t key_size            # -1: null
    const uint8_t* value
    int64_t value_size
    int64_t ms                  # its time
    int32_t partition           # -1: it is to be chosen
    int64_t headers_from        # the place of its first header among all
    int32_t header_count
    int64_t headers_bytes


cdef class Columns:
    cdef readonly int64_t rows
    cdef list held              # the arrays, whose memory the views read
    cdef View key, value
    cdef View partition, timestamp      # int64
    cdef View lists             # of headers
    cdef View pairs             # what the lists hold: (name, content)
    cdef View names, contents
    cdef bint has_partitions
    cdef int64_t times          # ms in the timestamps' unit, where that is a second; else 1
    cdef int64_t parts          # their units in a ms, where that has several; else 1


cdef class Batches:
    cdef Batch* open_           # by partition
    cdef Batch* done            # those that are closed
    cdef int done_count, done_room
    cdef readonly int32_t partitions
    cdef readonly int64_t open_bytes    # of records in batches that are open
    cdef readonly int64_t closed_bytes  # of batches that were closed and are not taken
    cdef int64_t batch_bytes_max
    cdef int64_t record_bytes_max
    cdef int codec
    cdef int32_t* turns         # the partitions that records without a key go to, in turn
    cdef int32_t turn_count, turn
    cdef int64_t bad_value      # what the last fault is about

    cdef int _add(self, Columns columns, int64_t row, int64_t number, Cells* cells) noexcept nogil
    cdef int _put(self, Batch* batch, Columns columns, Cells* cells, int64_t number, int64_t size) noexcept nogil
    cdef object _given(self, Batch* batch)
    cdef bint _begin(self, Batch* batch, int64_t ms) noexcept nogil
    cdef bint _close(self, int32_t partition, bint is_full) noexcept nogil
