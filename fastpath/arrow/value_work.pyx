"""Rows of the columns that values fill: null ones, and those that are taken back.

This file alone decides what a null row is in a column of each kind, and how columns lose the rows of a value that was refused.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from fastpath.bytes.byte_builder cimport extend_by, push_int32

cdef bint nothing(Work* w, int column) noexcept nogil:
    """One more row, which is null; where a column has no nulls, it is empty and stands below a null."""
    cdef Column* c = &w.columns[column]
    cdef uint8_t* place
    cdef int32_t last
    cdef int i
    if not paid(w, 1):
        return False
    c.rows += 1
    if c.nullable and not push_byte(&c.valid, 0):
        return failed(w, W_MEMORY)
    if c.kind == K_FIXED or c.kind == K_BOOL:
        place = extend_by(&c.data, c.width)
        if place == NULL:
            return failed(w, W_MEMORY)
        memset(place, 0, c.width)
    elif c.kind == K_BYTES or c.kind == K_LIST:
        last = (<int32_t*>(c.offsets.data + c.offsets.size - 4))[0]
        if not push_int32(&c.offsets, last):
            return failed(w, W_MEMORY)
    elif c.kind == K_STRUCT:
        for i in range(c.count):
            if not nothing(w, w.column_kids[c.first + i]):
                return False
    return True


cdef void cut(Work* w, int column, int64_t rows) noexcept nogil:
    """Take back all rows but the first ones."""
    cdef Column* c = &w.columns[column]
    cdef int i
    c.rows = rows
    if c.nullable:
        c.valid.size = rows
    if c.kind == K_FIXED or c.kind == K_BOOL:
        c.data.size = rows * c.width
    elif c.kind == K_BYTES:
        c.offsets.size = (rows + 1) * 4
        c.data.size = (<int32_t*>c.offsets.data)[rows]
    elif c.kind == K_LIST:
        c.offsets.size = (rows + 1) * 4
        cut(w, w.column_kids[c.first], (<int32_t*>c.offsets.data)[rows])
    elif c.kind == K_STRUCT:
        for i in range(c.count):
            cut(w, w.column_kids[c.first + i], rows)
