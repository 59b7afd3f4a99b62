"""Plans for C callers: one operation for each field, and the trail that a failure leaves."""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t

from fastpath.messages.layout cimport Layout, LayoutData

# Wire forms. The compact forms belong to flexible versions.
cdef enum:
    BOOL = 0
    INT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    UINT32 = 5
    INT64 = 6
    FLOAT64 = 7
    UUID = 8
    STRUCT = 9
    STRING = 10
    BYTES = 11
    RECORDS = 12
    ARRAY = 13
    COMPACT_STRING = 14
    COMPACT_BYTES = 15
    COMPACT_RECORDS = 16
    COMPACT_ARRAY = 17

cdef enum:
    DEPTH = 16               # levels that the path of a failure shows
    STRING_MAX = 0x7FFF      # bytes of a string, as in Apache Kafka

cdef struct Op:
    int code                 # wire form
    int element              # wire form of an array's elements
    bint nullable
    int field                # index in the layout
    uint32_t tag
    unsigned char absent     # the byte that stands for null before a nullable struct
    Py_ssize_t slot
    Py_ssize_t least         # smallest size of one element of an array
    PlanData* child          # the plan of struct and array-of-struct fields

cdef struct PlanData:
    LayoutData* layout
    bint flexible
    int count
    int tag_count
    int absent_count
    Op* ops                  # fields in the order of the wire
    Op* tags                 # tagged fields by number
    int* absent              # fields that this version does not have
    Py_ssize_t least         # smallest size of the struct


cdef class Plan:
    cdef PlanData data
    cdef readonly Layout layout
    cdef readonly object fields
    cdef readonly object tags
    cdef readonly Py_ssize_t least
    cdef Py_ssize_t hint     # size of the last message encoded
    cdef Py_ssize_t fill(self, Op* op, tuple step) except -1


cdef struct Trail:
    # Where a failure happened, innermost first; filled on the way out.
    const char* reason
    Py_ssize_t position
    int depth
    Py_ssize_t item
    int fields[DEPTH]
    Py_ssize_t items[DEPTH]


cdef inline void fail(Trail* trail, const char* reason, Py_ssize_t position) noexcept:
    trail.reason = reason
    trail.position = position


cdef void note(Trail* trail, int field) noexcept
cdef int raise_failure(Trail* trail, Layout layout) except -1
