from libc.stdint cimport int32_t

from fastpath.image.copy_on_write cimport Pages

cdef enum:
    NAMES = 1024                        # names in a page at most


cdef class NamePage:
    cdef list names                     # ascending; Invariant: not empty
    cdef int32_t rows[NAMES]            # of the same names


cdef class NameOrder(Pages):            # pages: NamePage; Invariant: all names of a page are below those of the next
    cdef Py_ssize_t page_of(self, str name) noexcept
    cdef int begins(self, Py_ssize_t page, str name) noexcept
    cpdef object get(self, str name)
    cpdef int put(self, str name, object row) except -1


cdef Py_ssize_t place_in(list names, str name) noexcept
