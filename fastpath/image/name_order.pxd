from libc.stdint cimport int32_t

from fastpath.image.copy_on_write cimport Generations

cdef enum:
    NAMES = 1024                        # names in a page at most


cdef class NamePage:
    cdef list names                     # ascending; Invariant: not empty
    cdef int32_t rows[NAMES]            # of the same names


cdef class NameOrder:
    cdef list pages                     # NamePage; Invariant: all names of a page are below those of the next
    cdef list stamps                    # generation in which each page was made; Invariant: len(stamps) == len(pages)
    cdef Generations generations        # None in a frozen order
    cdef readonly Py_ssize_t size

    cdef Py_ssize_t page_of(self, str name) noexcept
    cdef int begins(self, Py_ssize_t page, str name) noexcept
    cdef NamePage writable(self, Py_ssize_t page)
    cpdef object get(self, str name)
    cpdef int put(self, str name, object row) except -1
    cpdef NameOrder frozen(self)


cdef Py_ssize_t place_in(list names, str name) noexcept
