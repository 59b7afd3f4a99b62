"""Arrow arrays whose rows C code reads: the buffers are held, and their sizes are checked once.

This file alone decides how Arrow's layouts are read: validity bits (least significant first), offsets of 32 and 64 bits, views
with short values inside, values of one width; each with the place of row 0, so that a slice of an array costs nothing. An array
may come from anywhere, and its offsets are part of the data: `look` checks those of a row when it reads it.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdlib cimport calloc, free


cdef dict FORMS = {"null": NULLS, "small": SMALL, "large": LARGE, "view": VIEWS, "fixed": FIXED}
cdef int64_t ROWS_MAX = <int64_t>1 << 40     # so that no product of a row and a width overflows

cdef class Array:
    def __init__(
        self, str form_name, int64_t rows, int64_t first=0, valid=None, places=None, pieces=(), int64_t width=0,
    ):
        cdef Piece bits, offsets
        cdef int64_t i, end = first + rows
        cdef int form = FORMS[form_name]
        if not (0 <= first <= ROWS_MAX and 0 <= rows <= ROWS_MAX and 0 <= width <= 0x7FFFFFFF):
            raise ValueError("an array with so many rows, or of such a width, cannot be")
        if self.held != NULL:
            raise ValueError("the array has its buffers already")
        self.held = <Py_buffer*>calloc(2 + len(pieces), sizeof(Py_buffer))
        self.view.pieces = <Piece*>calloc(len(pieces) + 1, sizeof(Piece))
        if self.held == NULL or self.view.pieces == NULL:
            raise MemoryError
        self.view.form, self.view.rows, self.view.first, self.view.width = form, rows, first, width
        bits, offsets = self.hold(valid), self.hold(places)
        for i in range(len(pieces)):
            self.view.pieces[i] = self.hold(pieces[i])
        self.view.piece_count = len(pieces)
        self.view.valid, self.view.places = bits.data, offsets.data
        if rows == 0 or form == NULLS:
            return
        if bits.data != NULL and bits.size < (end + 7) // 8:
            raise ValueError("an array has fewer validity bits than rows")
        if form != FIXED and offsets.size < _places_bytes(form, end):
            raise ValueError("an array has fewer offsets than rows")
        if form == FIXED and self.view.pieces[0].size < end * width:
            raise ValueError("an array has fewer values than rows")

    def __dealloc__(self):
        cdef int i
        for i in range(self.held_count):
            PyBuffer_Release(&self.held[i])
        free(self.held)
        free(self.view.pieces)

    cdef Piece hold(self, object buffer) except *:
        """Keep a buffer until this object ends."""
        cdef Piece piece
        piece.data, piece.size = NULL, 0
        if buffer is None:
            return piece
        PyObject_GetBuffer(buffer, &self.held[self.held_count], PyBUF_SIMPLE)
        piece.data = <const uint8_t*>self.held[self.held_count].buf
        piece.size = self.held[self.held_count].len
        self.held_count += 1
        return piece

    def __len__(self):
        return self.view.rows

    def bytes_at(self, int64_t row):
        cdef const uint8_t* data = NULL
        cdef int64_t size = 0
        if not 0 <= row < self.view.rows:
            raise IndexError(row)
        if not look(&self.view, row, &data, &size):
            raise ValueError(f"row {row} lies outside of the buffers")
        return None if size < 0 else PyBytes_FromStringAndSize(<const char*>data, size)


cdef int64_t _places_bytes(int form, int64_t end) noexcept:
    """The bytes that places up to row `end` take."""
    return VIEW_BYTES * end if form == VIEWS else (end + 1) * (4 if form == SMALL else 8)
