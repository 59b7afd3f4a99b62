"""A small table of broker ids, each with a number, for loops that ask for thousands of ids without the GIL."""

from libc.stdint cimport int32_t, uint32_t
from libc.stdlib cimport calloc, free


cdef struct Marks:
    int32_t* keys
    int32_t* values                     # 0: no such id
    uint32_t mask


cdef inline int make_marks(Marks* marks, Py_ssize_t count) except -1:
    """Room for so many ids. `free_marks` gives it back."""
    cdef uint32_t room = 8
    while room < 2 * count:
        room *= 2
    marks.keys = <int32_t*>calloc(room, sizeof(int32_t))
    marks.values = <int32_t*>calloc(room, sizeof(int32_t))
    marks.mask = room - 1
    if marks.keys == NULL or marks.values == NULL:
        free_marks(marks)
        raise MemoryError
    return 0


cdef inline void free_marks(Marks* marks) noexcept nogil:
    free(marks.keys)
    free(marks.values)
    marks.keys = marks.values = NULL


cdef inline uint32_t place_of(const Marks* marks, int32_t id) noexcept nogil:
    cdef uint32_t at = (<uint32_t>id * <uint32_t>2654435769) & marks.mask
    while marks.values[at] != 0 and marks.keys[at] != id:
        at = (at + 1) & marks.mask
    return at


cdef inline void put_mark(Marks* marks, int32_t id, int32_t value) noexcept nogil:
    cdef uint32_t at = place_of(marks, id)
    marks.keys[at] = id
    marks.values[at] = value


cdef inline int32_t mark_of(const Marks* marks, int32_t id) noexcept nogil:
    """The number of an id; 0: it has none."""
    return marks.values[place_of(marks, id)]
