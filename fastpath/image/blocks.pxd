from libc.stdint cimport int32_t, int64_t, uint8_t

cdef enum:
    UNCHANGED = -2                      # leader of a change that does not name one
    ABSENT = -1                         # size of a list that is not given


cdef struct Row:                        # one partition of a block
    int32_t topic                       # index into the block's topic ids
    int32_t number
    int32_t leader                      # -1: none; UNCHANGED
    int32_t leader_epoch                # counts leaderships; -1: not given
    int32_t partition_epoch             # counts changes of any kind; -1: not given
    int32_t replicas_at, replicas_size  # place in `values`; size ABSENT: not given
    int32_t isr_at, isr_size
    int32_t directories_at, directories_size   # place in `uuids`, counted in uuids


cdef class Block:
    cdef Row* rows
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t rows_room
    cdef int32_t* values
    cdef Py_ssize_t values_count, values_room
    cdef uint8_t* uuids
    cdef Py_ssize_t uuids_count, uuids_room
    cdef uint8_t* topics                # 16 bytes each
    cdef readonly Py_ssize_t topics_count
    cdef Py_ssize_t topics_room
    cdef dict extras                    # row index -> Extra, only for rows where it is not the default; or None

    cdef Row* add(self, const uint8_t* topic_id) except NULL
    cdef int32_t* add_values(self, Py_ssize_t size) except NULL
    cdef uint8_t* add_uuids(self, Py_ssize_t size) except NULL
