"""The owner of memory that C code has filled: a buffer of bytes that frees the memory, or gives it back to be filled
again.

This file alone decides when such memory is freed: with the last numpy or Arrow array over it or, if it belongs to
Rooms, with them. Using memory again saves time: the kernel hands out new memory page by page, which takes a third as
long as decoding.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdlib cimport free, realloc
from libc.string cimport memset


cdef uint8_t* grow(Growth* g, size_t size) noexcept nogil:
    """Memory for `size` more bytes and one; NULL when there is no memory. The allocation doubles when it grows."""
    cdef size_t room = g.room * 2 if g.room * 2 > g.size + size else g.size + size + 1
    cdef uint8_t* data
    room = room if room > 4096 else 4096
    data = <uint8_t*>realloc(g.data, room)
    if data != NULL:
        g.data, g.room = data, room
    return data


cdef class Rooms:
    """Memory that is used again: each column of a chunk is built in the memory of the same column of an earlier
    chunk."""

    def __dealloc__(self):
        cdef int i
        for i in range(self.places):
            free(self.kept[i].data)
        free(self.kept)

    cdef int fit(self, int places) except -1:
        """Make at least `places` places."""
        cdef Growth* kept
        if places > self.places:
            kept = <Growth*>realloc(self.kept, places * sizeof(Growth))
            if kept == NULL:
                raise MemoryError
            memset(kept + self.places, 0, (places - self.places) * sizeof(Growth))
            self.kept, self.places = kept, places
        return 0

    cdef void take(self, int place, Growth* g) noexcept:
        """Give `g`, which has no memory, the memory that came back to its place."""
        g[0] = self.kept[place]
        g.size = 0
        memset(&self.kept[place], 0, sizeof(Growth))

    cdef void give(self, int place, Growth* g) noexcept:
        """Take back memory that is not read any more. Of two pieces the larger is kept."""
        if g.room > self.kept[place].room:
            g[0], self.kept[place] = self.kept[place], g[0]
        free(g.data)
        memset(g, 0, sizeof(Growth))


cdef class Owned:
    """A writable buffer over the bytes that were filled."""

    def __dealloc__(self):
        if self.rooms is not None:
            self.rooms.give(self.place, &self.memory)
        else:
            free(self.memory.data)

    def __len__(self):
        return self.memory.size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.memory.data, <Py_ssize_t>self.memory.size, 0, flags)


cdef Owned own(Growth* g, Rooms rooms=None, int place=0):
    """Take over the memory of `g`, which is empty afterwards. Memory that belongs to no Rooms is shrunk to the bytes
    that were filled."""
    cdef Owned owned = Owned.__new__(Owned)
    cdef uint8_t* less
    if rooms is None and g.room > g.size + 65536:
        less = <uint8_t*>realloc(g.data, g.size + 1)
        if less != NULL:
            g.data, g.room = less, g.size + 1
    owned.memory, owned.rooms, owned.place = g[0], rooms, place
    memset(g, 0, sizeof(Growth))
    return owned
