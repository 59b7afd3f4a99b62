"""Where the partitions of each topic lie: extents in number order, each a run of partition numbers in a run of rows.

Nearly every topic is made at once and keeps one extent. So that one lies in the page, 12 bytes; an object for each topic would
take 56. Whoever asks for a chain gets its bytes, made in this moment or the ones that a topic with several extents has.

A page that a pinned generation can see is copied before it is written (fastpath/image/copy_on_write.pyx has the rule).
"""

cimport cython
from libc.string cimport memcpy

from fastpath.image.copy_on_write cimport PAGE_BITS

cdef Extent NOTHING = Extent(0, 0, NONE)


@cython.final
cdef class ChainPage:
    """The chains of 4,096 topic rows."""


@cython.final
cdef class Chains(Pages):
    """Chains by topic row. Only the owner writes."""

    cdef object copied(self, object page):
        cdef ChainPage old = <ChainPage>page, copy = ChainPage.__new__(ChainPage)
        memcpy(copy.first, old.first, sizeof(copy.first))
        copy.longer = None if old.longer is None else dict(old.longer)
        return copy

    cdef Extent* extent_of(self, Py_ssize_t index) except NULL:
        """The one extent of a topic row, or what its count says instead. Raises IndexError."""
        if index < 0 or index >= self.size:
            raise IndexError(index)
        return &(<ChainPage>self.pages[index >> PAGE_BITS]).first[index & (PAGE - 1)]

    cpdef object get(self, Py_ssize_t index):
        cdef Extent* extent = self.extent_of(index)
        if extent.count > 0:
            return (<char*>extent)[:sizeof(Extent)]
        if extent.count == LONGER:
            return (<ChainPage>self.pages[index >> PAGE_BITS]).longer[index & (PAGE - 1)]
        return b"" if extent.count == EMPTY else None

    cdef bint has(self, Py_ssize_t index) except -1:
        """Whether the topic row is in use. Raises IndexError."""
        return self.extent_of(index).count != NONE

    cdef Py_ssize_t row_of(self, Py_ssize_t index, int32_t number) except -2:
        """The row of a partition; -1: the topic has no such number. Raises IndexError."""
        cdef Extent* extent = self.extent_of(index)
        if extent.count == LONGER:
            return find(self.get(index), number)
        if extent.number <= number and number - extent.number < extent.count:
            return extent.row + (number - extent.number)
        return -1

    cpdef int put(self, Py_ssize_t index, bytes chain) except -1:
        cdef Py_ssize_t place = index & (PAGE - 1)
        cdef ChainPage page
        if index < 0 or index >= self.size:
            raise IndexError(index)
        if chain is not None and len(chain) % sizeof(Extent):
            raise ValueError(f"a chain of {len(chain)} bytes; an extent has {sizeof(Extent)}")
        page = <ChainPage>self.writable(index >> PAGE_BITS)
        if page.first[place].count == LONGER:
            del page.longer[place]
        page.first[place] = NOTHING
        if chain is None:
            return 0
        if len(chain) == sizeof(Extent):
            memcpy(&page.first[place], <const char*>chain, sizeof(Extent))
            assert page.first[place].count > 0, "an extent has partitions"
        elif len(chain) == 0:
            page.first[place].count = EMPTY
        else:
            if page.longer is None:
                page.longer = {}
            page.longer[place] = chain
            page.first[place].count = LONGER
        return 0

    cpdef Py_ssize_t append(self, bytes chain) except -1:
        cdef Py_ssize_t index = self.size, place
        cdef ChainPage page
        if index & (PAGE - 1) == 0:
            page = ChainPage.__new__(ChainPage)
            for place in range(PAGE):
                page.first[place] = NOTHING
            self.insert(index >> PAGE_BITS, page)
        self.size = index + 1
        self.put(index, chain)
        return index
