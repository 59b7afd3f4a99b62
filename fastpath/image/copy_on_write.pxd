cdef enum:
    PAGE_BITS = 12
    PAGE = 1 << PAGE_BITS               # values in a page of a list


cdef class Generations:
    cdef readonly long current          # the stamp of everything that is made or copied now
    cdef readonly long pinned           # the newest generation that is still read; -1: none
    cdef list live                      # generations taken and not yet released


cdef class Pages:
    cdef list pages
    cdef list stamps                    # generation in which each page was made; Invariant: len(stamps) == len(pages)
    cdef Generations generations        # None in a frozen copy
    cdef readonly Py_ssize_t size       # of what is in the pages

    cdef object copied(self, object page)
    cdef object writable(self, Py_ssize_t number)
    cdef int insert(self, Py_ssize_t number, object page) except -1
    cpdef object frozen(self)
    cpdef object thawed(self, Generations generations)


cdef class PagedList(Pages):            # pages: lists of PAGE values, the last one too
    cpdef object get(self, Py_ssize_t index)
    cpdef int put(self, Py_ssize_t index, object value) except -1
    cpdef Py_ssize_t append(self, object value) except -1


cdef class PagedMap(Pages):             # pages: dictionaries, or None
    cpdef object get(self, object key)
    cpdef int put(self, object key, object value) except -1
