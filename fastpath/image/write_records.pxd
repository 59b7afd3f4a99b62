from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from fastpath.image.views cimport View


cdef struct Partition:                  # the fields of a partition's record; lists by reference
    int32_t number, leader, leader_epoch
    const uint8_t* topic_id
    const int32_t* replicas
    const int32_t* isr
    const int32_t* removing
    const int32_t* adding
    const int32_t* elr
    const int32_t* last_known_elr
    const uint8_t* directories
    int32_t replicas_size, isr_size, removing_size, adding_size
    int32_t elr_size, last_known_elr_size, directories_size   # -1: not given, no tag
    int8_t recovery                     # the tag is left out at `recovery_default`
    int8_t recovery_default


cdef struct Cut:                        # a finished batch
    Py_ssize_t start, end               # bytes
    int64_t base_offset, last_offset


cdef class Writer:
    cdef uint8_t* data
    cdef Py_ssize_t size, room
    cdef Py_ssize_t batch_at            # where the open batch starts; -1: none is open
    cdef int32_t count                  # records in it
    cdef int64_t base_offset            # of the open batch
    cdef readonly int64_t next_offset
    cdef int32_t epoch
    cdef int64_t timestamp_ms
    cdef Py_ssize_t bytes_max           # a batch that would grow beyond is cut
    cdef int32_t records_max
    cdef Py_ssize_t group_at            # where an atomic group starts; -1: none
    cdef int32_t group_count            # `count` and `next_offset` at its start
    cdef int64_t group_offset
    cdef Cut* cuts
    cdef Py_ssize_t cuts_count, cuts_room
    cdef Py_ssize_t exports             # buffers handed out; while there are any, the memory must not move

    cdef int reserve(self, Py_ssize_t size) except -1 nogil
    cdef int open_batch(self) except -1 nogil
    cdef int close_batch(self) except -1 nogil
    cdef uint8_t* open_record(self, Py_ssize_t value_size) except NULL nogil
    cdef int close_record(self) except -1 nogil
    cdef int move_group(self) except -1 nogil
    cdef int put_value(self, const uint8_t* value, Py_ssize_t size) except -1 nogil
    cdef int put_partition(self, const Partition* partition) except -1 nogil
    cdef int put_change(self, const Partition* partition) except -1 nogil
    cdef int put_row(self, View view, const uint8_t* topic_id, Py_ssize_t row) except -1 nogil
    cdef int _rare(self, Partition* p, object extra, int32_t* room, bint whole) except -1
    cdef int _put_rare_row(self, View view, const uint8_t* topic_id, Py_ssize_t row) except -1
