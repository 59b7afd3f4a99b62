from libc.stdint cimport int32_t

from fastpath.image.copy_on_write cimport PAGE, Pages


cdef struct Extent:                     # partitions number .. number+count-1 are rows row .. row+count-1
    int32_t number
    int32_t row
    int32_t count


cdef enum:                              # instead of the count of the one extent
    EMPTY = 0                           # a topic without partitions
    NONE = -1                           # no topic
    LONGER = -2                         # the extents are in `longer`


cdef inline Py_ssize_t find(bytes chain, int32_t number) noexcept:
    """The row of a partition number in a chain, or -1."""
    cdef const Extent* extents = <const Extent*><const char*>chain
    cdef Py_ssize_t low = 0, high = len(chain) // sizeof(Extent), middle
    while high - low > 1:
        middle = (low + high) // 2
        if extents[middle].number <= number:
            low = middle
        else:
            high = middle
    if low < high and extents[low].number <= number and number - extents[low].number < extents[low].count:
        return extents[low].row + (number - extents[low].number)
    return -1


cdef class ChainPage:
    cdef Extent first[PAGE]
    cdef dict longer                    # place -> bytes of two extents and more; None: there are none


cdef class Chains(Pages):               # pages: ChainPage
    cdef Extent* extent_of(self, Py_ssize_t index) except NULL
    cpdef object get(self, Py_ssize_t index)
    cdef bint has(self, Py_ssize_t index) except -1
    cdef Py_ssize_t row_of(self, Py_ssize_t index, int32_t number) except -2
    cpdef int put(self, Py_ssize_t index, bytes chain) except -1
    cpdef Py_ssize_t append(self, bytes chain) except -1
