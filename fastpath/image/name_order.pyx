"""Names in order, each with a row: kept in order while names come and go, and readable as an earlier generation had them.

This file alone decides how names that come one by one stay sorted. They lie in pages of at most 1,024; a page that is full
is divided, one that is empty is dropped. So a new name costs two binary searches and the moving of a page's pointers,
however many names there are, and names that come in order fill their pages. The order is that of code points, as of `sorted`.

A page that a pinned generation can see is copied before it is written (fastpath/image/copy_on_write.pyx has the rule).
"""

cimport cython
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.string cimport memcmp, memcpy, memmove

cdef extern from "Python.h":
    PyObject* PyList_GET_ITEM(object, Py_ssize_t)   # borrowed
    int PyUnicode_Compare(PyObject*, PyObject*)
    int PyUnicode_IS_COMPACT_ASCII(PyObject*)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject*)
    void* PyUnicode_DATA(PyObject*)


cdef inline int compared(PyObject* one, PyObject* other) noexcept:
    """The order of two texts: below 0, 0, above 0. Nearly all names are ASCII."""
    cdef Py_ssize_t size, other_size
    cdef int found
    if PyUnicode_IS_COMPACT_ASCII(one) and PyUnicode_IS_COMPACT_ASCII(other):
        size, other_size = PyUnicode_GET_LENGTH(one), PyUnicode_GET_LENGTH(other)
        found = memcmp(PyUnicode_DATA(one), PyUnicode_DATA(other), size if size < other_size else other_size)
        return found if found else (size > other_size) - (size < other_size)
    return PyUnicode_Compare(one, other)


cdef class NamePage:
    """A run of names."""

    def __init__(self, list names):
        self.names = names


cdef Py_ssize_t place_in(list names, str name) noexcept:
    """The place of the first name that is not below `name`."""
    cdef Py_ssize_t low = 0, high = PyList_GET_SIZE(names), middle
    while low < high:
        middle = (low + high) // 2
        if compared(PyList_GET_ITEM(names, middle), <PyObject*>name) < 0:
            low = middle + 1
        else:
            high = middle
    return low


cdef class NameOrder(Pages):
    """Names and their rows. Only the owner writes."""

    cdef object copied(self, object page):
        cdef NamePage old = <NamePage>page, copy = NamePage(list(old.names))
        memcpy(copy.rows, old.rows, sizeof(copy.rows))
        return copy

    cdef Py_ssize_t page_of(self, str name) noexcept:
        """The last page that begins at or below `name`; the first one if all begin above it."""
        cdef Py_ssize_t low = 0, high = len(self.pages), middle
        if high and self.begins(high - 1, name) <= 0:
            return high - 1
        while high - low > 1:
            middle = (low + high) // 2
            if self.begins(middle, name) <= 0:
                low = middle
            else:
                high = middle
        return low

    cdef inline int begins(self, Py_ssize_t page, str name) noexcept:
        """The order of the first name of a page and of another name."""
        return compared(
            PyList_GET_ITEM((<NamePage>PyList_GET_ITEM(self.pages, page)).names, 0), <PyObject*>name
        )

    cpdef object get(self, str name):
        """The row of a name, or None."""
        cdef NamePage page
        cdef Py_ssize_t at
        if not self.pages:
            return None
        page = <NamePage>self.pages[self.page_of(name)]
        at = place_in(page.names, name)
        if at < len(page.names) and page.names[at] == name:
            return page.rows[at]
        return None

    cpdef int put(self, str name, object row) except -1:
        """Give a name a row, a number from 0 to 2^31 - 1; None takes the name out. Taking out one that is not there does
        nothing."""
        cdef NamePage page, right
        cdef Py_ssize_t index, at, half
        cdef int32_t value = -1 if row is None else row
        if not self.pages:
            if row is None:
                return 0
            page = NamePage([name])
            page.rows[0] = value
            self.insert(0, page)
            self.size = 1
            return 0
        index = self.page_of(name)
        page = <NamePage>self.pages[index]
        at = place_in(page.names, name)
        if at < len(page.names) and compared(PyList_GET_ITEM(page.names, at), <PyObject*>name) == 0:
            page = <NamePage>self.writable(index)
            if row is not None:
                page.rows[at] = value
                return 0
            del page.names[at]
            memmove(page.rows + at, page.rows + at + 1, (len(page.names) - at) * sizeof(int32_t))
            self.size -= 1
            if not page.names:
                del self.pages[index], self.stamps[index]
            return 0
        if row is None:
            return 0
        if len(page.names) == NAMES:
            # Behind the last name of all a page begins, so that names that come in order leave no page half empty.
            half = NAMES if at == NAMES and index == len(self.pages) - 1 else NAMES // 2
            right = NamePage(page.names[half:])
            memcpy(right.rows, page.rows + half, (NAMES - half) * sizeof(int32_t))
            if half < NAMES:
                page = <NamePage>self.writable(index)
                del page.names[half:]
            self.insert(index + 1, right)
            if at >= half:
                index, at = index + 1, at - half
        page = <NamePage>self.writable(index)
        memmove(page.rows + at + 1, page.rows + at, (len(page.names) - at) * sizeof(int32_t))
        page.rows[at] = value
        page.names.insert(at, name)
        self.size += 1
        return 0

    def following(self, str first, Py_ssize_t most, bint behind=False):
        """Up to `most` pairs (name, row) from the name `first` on, or `behind` it, in order. They cost by what is returned."""
        cdef NamePage page
        cdef Py_ssize_t index, at
        found = []
        if not self.pages:
            return found
        index = self.page_of(first)
        at = place_in((<NamePage>self.pages[index]).names, first)
        while index < len(self.pages) and len(found) < most:
            page = <NamePage>self.pages[index]
            while at < len(page.names) and len(found) < most:
                if not (behind and not found and page.names[at] == first):
                    found.append((page.names[at], page.rows[at]))
                at += 1
            index, at = index + 1, 0
        return found

    def check(self):
        """Assert the invariants."""
        cdef NamePage page
        names = []
        assert len(self.stamps) == len(self.pages)
        for page in self.pages:
            assert 0 < len(page.names) <= NAMES
            names.extend(page.names)
        assert names == sorted(set(names)) and len(names) == self.size
