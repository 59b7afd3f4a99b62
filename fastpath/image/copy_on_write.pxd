cdef enum:
    PAGE_BITS = 12
    PAGE = 1 << PAGE_BITS


cdef class Generations:
    cdef readonly long current          # the stamp of everything that is made or copied now
    cdef readonly long pinned           # the newest generation that is still read; -1: none
    cdef list live                      # generations taken and not yet released


cdef class PagedList:
    cdef list pages                     # lists of PAGE values, the last one too
    cdef list stamps                    # generation in which each page was made; Invariant: len(stamps) == len(pages)
    cdef Generations generations        # None in a frozen list
    cdef readonly Py_ssize_t size

    cpdef object get(self, Py_ssize_t index)
    cpdef int put(self, Py_ssize_t index, object value) except -1
    cpdef Py_ssize_t append(self, object value) except -1
    cpdef PagedList frozen(self)
    cpdef PagedList thawed(self, Generations generations)


cdef class PagedMap:
    cdef list shards                    # dict or None
    cdef list stamps
    cdef Generations generations
    cdef readonly Py_ssize_t size

    cpdef object get(self, object key)
    cpdef int put(self, object key, object value) except -1
    cpdef PagedMap frozen(self)
    cpdef PagedMap thawed(self, Generations generations)
