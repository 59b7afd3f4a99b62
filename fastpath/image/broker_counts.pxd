from libc.stdint cimport int32_t, int64_t, uint32_t


cdef struct Count:
    int32_t broker                      # -1: empty place
    int64_t replicas
    int64_t led
    int64_t in_isr
    int64_t alone                       # in an ISR without another member


cdef class Counts:
    cdef Count* places                  # open addressing; Invariant: at most half full
    cdef uint32_t mask
    cdef readonly uint32_t used         # places that are not empty
    cdef readonly int64_t partitions
    cdef readonly int64_t leaderless
    cdef readonly int64_t unpreferred   # led by another broker than the first of the replicas, or by none
    cdef readonly int64_t elections     # how often a partition got a leader; never falls
    cdef readonly int64_t unclean       # how often one that was not in the ISR

    cdef Count* of(self, int32_t broker) except NULL
    cdef Count* known(self, int32_t broker) noexcept
    cpdef Counts copy(self)
