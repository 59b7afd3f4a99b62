from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

cdef enum:
    SLAB_BITS = 16
    SLAB = 1 << SLAB_BITS
    LIST_MAX = 4096                     # longest list


cdef class Slab:
    cdef int32_t* values


cdef class Lists:
    cdef list slabs                     # Slab: keeps the memory below alive
    cdef int32_t** table                # its own array, so that a frozen copy survives growth
    cdef readonly uint32_t end          # first position never used
    cdef readonly uint32_t count        # lists in it
    cdef uint32_t* buckets              # open addressing over list numbers; NULL in a frozen copy
    cdef uint32_t mask

    cdef uint32_t intern(self, const int32_t* values, Py_ssize_t size) except? 0xFFFFFFFF
    cdef int _grow(self) except -1
    cpdef Lists frozen(self)
    cpdef Lists thawed(self)
    cdef int _index(self, uint32_t mask) except -1

    cdef inline const int32_t* at(self, uint32_t number) noexcept nogil:
        """The list: its length, then its values."""
        return self.table[number >> SLAB_BITS] + (number & (SLAB - 1))


cdef class Uuids:
    cdef uint8_t* data                  # 16 bytes each
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t room
    cdef uint32_t* buckets              # number + 1; 0: empty
    cdef uint32_t mask

    cdef int32_t intern(self, const uint8_t* value) except -1
    cdef int _grow(self) except -1
    cpdef Uuids frozen(self)
    cpdef Uuids thawed(self)
    cdef int _index(self, uint32_t mask) except -1

    cdef inline const uint8_t* at(self, int32_t number) noexcept nogil:
        return self.data + 16 * <Py_ssize_t>number
