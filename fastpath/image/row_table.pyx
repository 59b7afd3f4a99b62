"""Rows by name or by id, in 16 bytes a slot.

A cluster of a million partitions may have a hundred thousand topics, and each is in two tables of an image. A dictionary of
Python takes 25 to 50 bytes for one, and has an object for each row.

This file alone decides where a key lies: at the place that its hash says, or at the next free one behind it. At most four of
five slots are taken. What is taken out leaves no mark: what lies behind it, and may lie there, moves up.

Rule: nobody walks over a table. The order would be another one in each process, as the hashes of names are, and the same
records must lead to the same decisions everywhere.
"""

cimport cython
from cpython.object cimport Py_EQ, PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdlib cimport calloc, free

cdef extern from "Python.h":
    int PyObject_RichCompareBool(PyObject*, PyObject*, int) except -1

cdef enum:
    SLOTS_FIRST = 8                     # a power of two
    FULL_PARTS = 4                      # of PARTS that may be taken
    PARTS = 5


@cython.final
@cython.no_gc
cdef class RowTable:
    """Rows of keys. The collector of cycles need not look at them: a key is a text or bytes."""

    def __cinit__(self):
        self.slots = <Slot*>calloc(SLOTS_FIRST, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError
        self.mask = SLOTS_FIRST - 1

    def __dealloc__(self):
        cdef Py_ssize_t place
        if self.slots != NULL:
            for place in range(self.mask + 1):
                Py_XDECREF(self.slots[place].key)
            free(self.slots)
        free(self.larger)

    def __len__(self):
        return self.size

    def __contains__(self, object key):
        return self.slots[self.place_of(key, <uint32_t>hash(key))].key != NULL

    cdef Py_ssize_t place_of(self, object key, uint32_t hash) except -1:
        """The place of a key, or the free one where it belongs. Raises what a comparison of keys raises."""
        cdef Py_ssize_t place = hash & self.mask
        cdef Slot* slot = &self.slots[place]
        while slot.key != NULL:
            if slot.hash == hash and (
                slot.key == <PyObject*>key or PyObject_RichCompareBool(slot.key, <PyObject*>key, Py_EQ)
            ):
                break
            place = (place + 1) & self.mask
            slot = &self.slots[place]
        return place

    cdef int grow(self) except -1:
        """Twice as many slots. Raises MemoryError: nothing has changed."""
        return self.move(self.mask + 1)

    cdef int move(self, Py_ssize_t most) except -1:
        """Move the keys of the next slots, at most so many, into twice as many slots. Raises MemoryError: nothing has
        changed."""
        cdef Py_ssize_t place, to, mask = 2 * self.mask + 1, end = min(self.moved + most, self.mask + 1)
        cdef Slot* larger = self.larger
        if larger == NULL:
            larger = self.larger = <Slot*>calloc(mask + 1, sizeof(Slot))
            if larger == NULL:
                raise MemoryError
        for place in range(self.moved, end):
            if self.slots[place].key != NULL:
                to = self.slots[place].hash & mask
                while larger[to].key != NULL:
                    to = (to + 1) & mask
                larger[to] = self.slots[place]
        self.moved = end
        if end > self.mask:
            free(self.slots)
            self.slots, self.mask, self.larger, self.moved = larger, mask, NULL, 0
        return 0

    cdef void stay(self) noexcept:
        """Give up a move that is under way, since a slot changes."""
        free(self.larger)
        self.larger, self.moved = NULL, 0

    cdef int take_out(self, Py_ssize_t place) except -1:
        """Free a slot. One behind it moves up unless its own place lies between the two."""
        cdef PyObject* gone = self.slots[place].key
        cdef Py_ssize_t behind = place, mask = self.mask
        while True:
            behind = (behind + 1) & mask
            if self.slots[behind].key == NULL:
                break
            if ((behind - <Py_ssize_t>self.slots[behind].hash) & mask) >= ((behind - place) & mask):
                self.slots[place] = self.slots[behind]
                place = behind
        self.slots[place].key = NULL
        self.size -= 1
        Py_XDECREF(gone)
        return 0

    def make_room(self, Py_ssize_t more, Py_ssize_t most):
        """Get as many slots as `more` keys will need, by looking at `most` slots at once: a table of a million keys takes tens
        of milliseconds. Returns whether there was work to do; then it is called again before anything is put."""
        if self.larger == NULL and (self.size + more) * PARTS <= (self.mask + 1) * FULL_PARTS:
            return False
        self.move(most)
        return True

    cpdef int32_t get(self, object key, int32_t otherwise=-1) except? -2:
        cdef Slot* slot = &self.slots[self.place_of(key, <uint32_t>hash(key))]
        return slot.row if slot.key != NULL else otherwise

    cpdef int put(self, object key, int32_t row) except -1:
        cdef uint32_t low = <uint32_t>hash(key)
        cdef Py_ssize_t place
        if row < -1:
            raise ValueError(f"row {row} of {key!r}; a row is 0 or more, and -1 takes the key out")
        if self.larger != NULL:
            self.stay()
        place = self.place_of(key, low)
        if row < 0:
            return self.take_out(place) if self.slots[place].key != NULL else 0
        if self.slots[place].key == NULL:
            if (self.size + 1) * PARTS > (self.mask + 1) * FULL_PARTS:
                self.grow()
                place = self.place_of(key, low)
            Py_INCREF(key)
            self.slots[place].key, self.slots[place].hash = <PyObject*>key, low
            self.size += 1
        self.slots[place].row = row
        return 0

    def has_any(self, object keys):
        for key in keys:
            if self.slots[self.place_of(key, <uint32_t>hash(key))].key != NULL:
                return True
        return False
