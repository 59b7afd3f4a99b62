# cython: auto_pickle=False
"""The error codes that an answer has, counted: a field of the name `error_code`, at any depth.

This file alone decides which fields those are. What a message class has is looked up once; parts without such a field are
not walked. Of an array that is encoded already (fastpath/messages/encoder.pyx) its own counts are taken.
"""

from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int64_t

from fastpath.messages.capi cimport *
from fastpath.messages.encoder cimport Encoded
from fastpath.messages.layout cimport Layout, LayoutData, slot_of

NAME = "error_code"
cdef enum:
    PARTS_MAX = 8            # fields of one message class that hold parts with error codes: no class has more than three
cdef dict places = {}
cdef dict by_type = {}

cdef extern from "Python.h":
    PyObject* PyList_GET_ITEM(PyObject*, Py_ssize_t)


cdef class Places:
    """Where the error codes of a message class are; `own`: the byte offset of its own, -1: it has none."""

    cdef Layout layout
    cdef Py_ssize_t own
    cdef int count
    cdef Py_ssize_t offsets[PARTS_MAX]
    cdef list parts

    def __init__(self, Layout layout):
        self.layout = layout
        self.own = -1
        self.parts = []
        for i in range(layout.data.count):
            if layout.names[i] == NAME:
                self.own = layout.data.slots[i]
            elif layout.children[i] is not None:
                part = found(layout.children[i])
                if (part.own >= 0 or part.count) and self.count < PARTS_MAX:
                    self.offsets[self.count] = layout.data.slots[i]
                    self.parts.append(part)
                    self.count += 1


cdef Places found(Layout layout):
    cdef Places known = places.get(layout)
    if known is None:
        known = places[layout] = Places(layout)
    return known


cdef int walk(Places known, PyObject* message, int64_t* codes, int size) except -1:
    cdef LayoutData* layout = &known.layout.data
    cdef PyObject* value
    cdef long long code
    cdef Py_ssize_t i, j
    cdef Places part
    if Py_TYPE(message) != layout.type:
        return 0
    if known.own >= 0:
        value = slot_of(message, known.own)[0]
        if value != NULL:
            code = rayft_as_long_long(value)
            if code == -1 and PyErr_Occurred() != NULL:
                PyErr_Clear()
            elif -1 <= code < size - 1:
                codes[code + 1] += 1
    for i in range(known.count):
        part = <Places>PyList_GET_ITEM(<PyObject*>known.parts, i)
        value = slot_of(message, known.offsets[i])[0]
        if value == NULL:
            continue
        if PyList_Check(value):
            for j in range(PySequence_Fast_GET_SIZE(value)):
                walk(part, PySequence_Fast_GET_ITEM(value, j), codes, size)
        elif Py_TYPE(value) == <PyTypeObject*>Encoded:
            for code, times in (<Encoded><object>value).codes:
                if -1 <= code < size - 1:
                    codes[code + 1] += <int64_t>times
        else:
            walk(part, value, codes, size)
    return 0


cdef int count(object message, int64_t* codes, int size) except -1:
    """Add what `message` says to `codes`, which has `size` places, by code + 1; other codes are passed over."""
    kind = type(message)
    cdef Places known = by_type.get(kind)
    if known is None:
        known = by_type[kind] = found(kind.__layout__)
    return walk(known, <PyObject*>message, codes, size)
