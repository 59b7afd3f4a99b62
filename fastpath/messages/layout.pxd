"""Message objects for C callers: attributes at byte offsets, without a dictionary."""

from cpython.object cimport PyObject, PyTypeObject

cdef enum:
    VALUE = 0
    FRESH_LIST = 1
    FRESH_STRUCT = 2

cdef struct LayoutData:
    PyTypeObject* type
    bint collected           # the type takes part in garbage collection
    int count
    Py_ssize_t* slots        # byte offset of each attribute in the object
    PyObject** names
    PyObject** defaults
    char* kinds              # VALUE, FRESH_LIST, FRESH_STRUCT
    LayoutData** children    # of struct and array-of-struct fields, else NULL


cdef class Layout:
    cdef LayoutData data
    cdef readonly object cls
    cdef readonly tuple names
    cdef readonly tuple defaults
    cdef readonly tuple children


cdef inline PyObject** slot_of(PyObject* message, Py_ssize_t offset) noexcept:
    return <PyObject**>(<char*>message + offset)


cdef PyObject* fresh(LayoutData* layout, int i) noexcept
cdef bint at_defaults(LayoutData* layout, PyObject* message) noexcept
cdef bint at_default(LayoutData* layout, int i, PyObject* value) noexcept
