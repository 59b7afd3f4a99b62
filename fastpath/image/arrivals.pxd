from libc.stdint cimport int32_t, uint8_t

from fastpath.image.blocks cimport Block


cdef class Arrivals:
    cdef readonly list names            # str
    cdef readonly list topic_ids        # 16 bytes each; Invariant: as many as names
    cdef readonly list begins           # place in `block` of each topic's first partition
    cdef readonly Block block           # the partitions of all topics, in the order of the topics
    cdef const uint8_t* last_id         # that of the last topic; NULL: there is none

    cdef int add(self, str name, bytes topic_id) except -1
