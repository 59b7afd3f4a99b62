"""Arrow arrays for C callers: row by row, where a value's bytes lie."""

from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

cdef enum Form:
    NULLS = 0                   # no buffers: every row is null
    SMALL = 1                   # 32-bit offsets: binary, string, list
    LARGE = 2                   # 64-bit offsets
    VIEWS = 3                   # 16 bytes a row, with short values inside (binary_view)
    FIXED = 4                   # every value has the same number of bytes

cdef enum:
    VIEW_BYTES = 16
    INSIDE_MAX = 12             # the longest value inside a view

cdef struct Piece:              # one buffer
    const uint8_t* data         # NULL: there is none
    int64_t size


cdef struct View:
    int form
    int64_t rows
    int64_t first               # the place of row 0 in the buffers
    int64_t width               # of a value, bytes, where the form is FIXED
    const uint8_t* valid        # bits; NULL: no row is null
    const uint8_t* places       # offsets or views
    Piece* pieces               # the values' bytes; several where the form is VIEWS
    int64_t piece_count


cdef inline bint is_valid(const View* view, int64_t row) noexcept nogil:
    cdef int64_t at = view.first + row
    return view.valid == NULL or view.valid[at >> 3] >> (at & 7) & 1


cdef inline int32_t load_int32(const uint8_t* data) noexcept nogil:
    """A number as the machine keeps it, at any address."""
    cdef int32_t value
    memcpy(&value, data, 4)
    return value


cdef inline int64_t load_int64(const uint8_t* data) noexcept nogil:
    cdef int64_t value
    memcpy(&value, data, 8)
    return value


cdef inline void bounds(const View* view, int64_t row, int64_t* start, int64_t* end) noexcept nogil:
    """The two offsets of a row, as they stand in the buffer; the form is SMALL or LARGE."""
    cdef int64_t at = view.first + row
    if view.form == SMALL:
        start[0] = load_int32(view.places + 4 * at)
        end[0] = load_int32(view.places + 4 * at + 4)
    else:
        start[0] = load_int64(view.places + 8 * at)
        end[0] = load_int64(view.places + 8 * at + 8)


cdef inline bint look_inside(const View* view, int64_t at, const uint8_t** data, int64_t* size) noexcept nogil:
    """`look` for the form VIEWS."""
    cdef const uint8_t* place = view.places + VIEW_BYTES * at
    cdef int64_t piece, start
    size[0] = load_int32(place)
    if 0 <= size[0] <= INSIDE_MAX:
        data[0] = place + 4
        return True
    piece, start = load_int32(place + 8), load_int32(place + 12)
    if size[0] < 0 or start < 0 or not 0 <= piece < view.piece_count or start + size[0] > view.pieces[piece].size:
        return False
    data[0] = view.pieces[piece].data + start
    return True


cdef inline bint look(const View* view, int64_t row, const uint8_t** data, int64_t* size) noexcept nogil:
    """The bytes of a row, which must be one of the view's; size -1: it is null. False: they lie outside of the buffer."""
    cdef int64_t start = 0, end = 0
    if view.form == NULLS or not is_valid(view, row):
        size[0] = -1
        return True
    if view.form == VIEWS:
        return look_inside(view, view.first + row, data, size)
    if view.form == FIXED:
        data[0] = view.pieces[0].data + (view.first + row) * view.width
        size[0] = view.width
        return True
    bounds(view, row, &start, &end)
    if not 0 <= start <= end <= view.pieces[0].size:
        return False
    data[0] = view.pieces[0].data + start
    size[0] = end - start
    return True


cdef class Array:
    cdef View view
    cdef Py_buffer* held                # of all buffers, one after the other
    cdef int held_count

    cdef Piece hold(self, object buffer) except *
