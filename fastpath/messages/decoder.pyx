"""Bytes to messages: runs a `Plan` over a buffer.

This file alone decides what is refused when bytes are decoded. Decoded objects hold no cycles and are taken off the
garbage collector's lists. `records` are memoryviews of the buffer, never copies. Short names that were met lately are
shared. The caller may limit the *entries* of a message: elements of arrays at any depth and tagged fields, all counted
together. An array with more elements than are left is refused before any of its elements is made.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from fastpath.bytes.endian cimport load_int16, load_int32, load_int64, load_uint16, load_uint32
from fastpath.messages.capi cimport *
from fastpath.messages.plan cimport *
from fastpath.messages.layout cimport Layout, LayoutData, at_defaults, fresh, slot_of

from fastpath.messages.plan import TooManyEntries, WireError

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

cdef enum:
    CACHED_MAX = 64          # longest string, in bytes, that may be shared
    CACHE_SIZE = 2048
    SHARED_MAX = 128         # texts of one message that may take a place among those that are shared
    ENTRIES_UNLIMITED = -1

cdef const char* TOO_MANY = "too many entries"

cdef bytes ZERO_UUID = bytes(16)


cdef struct Reader:
    const unsigned char* data
    Py_ssize_t pos
    Py_ssize_t end
    PyObject* source         # the buffer given by the caller
    PyObject* view           # a memoryview of it, made at the first field of type records
    Py_ssize_t entries_left  # array elements and tagged fields that may still come
    int shared_left          # texts that may still take a place among those that are shared
    Trail trail


cdef inline bint has(Reader* r, Py_ssize_t size) noexcept:
    if r.end - r.pos < size:
        fail(&r.trail, "cut short", r.pos)
        return False
    return True


cdef inline bint spend(Reader* r, Py_ssize_t count, Py_ssize_t start) noexcept:
    """Count `count` entries. False if they are more than the rest of the limit."""
    if count > r.entries_left:
        fail(&r.trail, TOO_MANY, start)
        return False
    r.entries_left -= count
    return True


cdef bint read_uvarint(Reader* r, uint32_t* out) noexcept:
    cdef uint32_t value = 0
    cdef unsigned char byte
    cdef int shift = 0
    cdef Py_ssize_t start = r.pos
    while True:
        if r.pos >= r.end:
            fail(&r.trail, "cut short", start)
            return False
        byte = r.data[r.pos]
        r.pos += 1
        if shift == 28 and byte > 0x0F:
            fail(&r.trail, "variable-length number longer than 32 bits", start)
            return False
        value |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = value
            return True
        shift += 7


cdef bint read_length(Reader* r, int code, bint nullable, Py_ssize_t* out) noexcept:
    """Read the length before a string, bytes, records or array; -1 for null."""
    cdef uint32_t raw
    cdef Py_ssize_t start = r.pos
    cdef Py_ssize_t length
    if code >= COMPACT_STRING:
        if not read_uvarint(r, &raw):
            return False
        length = <Py_ssize_t>raw - 1
    elif code == STRING:
        if not has(r, 2):
            return False
        length = load_int16(r.data + r.pos)
        r.pos += 2
    else:
        if not has(r, 4):
            return False
        length = load_int32(r.data + r.pos)
        r.pos += 4
    if length < -1:
        fail(&r.trail, "negative length", start)
        return False
    if length == -1 and not nullable:
        fail(&r.trail, "null where a value is needed", start)
        return False
    out[0] = length
    return True


cdef PyObject* string_cache[CACHE_SIZE]


cdef PyObject* read_text(Reader* r, Py_ssize_t size) noexcept:
    """A str of `size` bytes. Short ASCII ones that were met lately are shared, since names of topics and hosts come
    often. The first few of a message are kept for that: those of a long one lie wherever it was read to, and would keep
    a hundred megabytes of Python's arenas from being given back, one of them in each."""
    cdef const char* start = <const char*>r.data + r.pos
    cdef uint64_t h = size
    cdef uint64_t word
    cdef Py_ssize_t i = 0
    cdef PyObject* text
    cdef PyObject** entry
    if size > CACHED_MAX:
        text = PyUnicode_DecodeUTF8(start, size, NULL)
    else:
        while i + 8 <= size:
            memcpy(&word, start + i, 8)
            h = (h ^ word) * <uint64_t>0x9E3779B97F4A7C15
            h ^= h >> 29
            i += 8
        if i < size:
            word = 0
            memcpy(&word, start + i, size - i)
            h = (h ^ word) * <uint64_t>0x9E3779B97F4A7C15
        h ^= h >> 32
        entry = &string_cache[h % CACHE_SIZE]
        text = entry[0]
        if text != NULL and PyUnicode_GET_LENGTH(text) == size and memcmp(PyUnicode_DATA(text), start, size) == 0:
            Py_INCREF(text)
        else:
            text = PyUnicode_DecodeUTF8(start, size, NULL)
            if text != NULL and r.shared_left > 0 and PyUnicode_IS_COMPACT_ASCII(text):
                r.shared_left -= 1
                Py_INCREF(text)
                Py_XDECREF(entry[0])
                entry[0] = text
    if text == NULL and not PyErr_ExceptionMatches(PyExc_MemoryError):
        text = read_odd_text(r, size)
    if text == NULL:
        return NULL
    r.pos += size
    return text


cdef PyObject* read_odd_text(Reader* r, Py_ssize_t size) noexcept:
    """A str of bytes that are not UTF-8: invalid bytes become U+FFFD, as in Java. The result is longer and must fit as
    well."""
    cdef Py_ssize_t longer = 0
    cdef PyObject* text
    PyErr_Clear()
    text = PyUnicode_DecodeUTF8(<const char*>r.data + r.pos, size, "replace")
    if text != NULL and PyUnicode_AsUTF8AndSize(text, &longer) != NULL and longer <= STRING_MAX:
        return text
    if text != NULL and longer > STRING_MAX:
        fail(&r.trail, "string longer than 32767 bytes", r.pos)
    Py_XDECREF(text)
    return NULL


cdef PyObject* read_view(Reader* r, Py_ssize_t size) noexcept:
    """A memoryview of the next `size` bytes."""
    cdef PyObject* start
    cdef PyObject* stop
    cdef PyObject* cut
    cdef PyObject* view = NULL
    if r.view == NULL:
        try:
            whole = memoryview(<object>r.source)
            if whole.ndim != 1 or whole.itemsize != 1:
                whole = whole.cast("B")
            Py_INCREF(<PyObject*>whole)
            r.view = <PyObject*>whole
        except Exception:
            fail(&r.trail, "records in a buffer without a flat view", r.pos)
            return NULL
    start = PyLong_FromSsize_t(r.pos)
    stop = PyLong_FromSsize_t(r.pos + size)
    if start != NULL and stop != NULL:
        cut = PySlice_New(start, stop, NULL)
        if cut != NULL:
            view = PyObject_GetItem(r.view, cut)
            Py_DECREF(cut)
    Py_XDECREF(start)
    Py_XDECREF(stop)
    if view != NULL:
        r.pos += size
    return view


cdef PyObject* read_array(Reader* r, Op* op, int code, bint nullable) noexcept:
    cdef Py_ssize_t count, k
    cdef Py_ssize_t start = r.pos
    cdef PyObject* array
    cdef PyObject* value
    if not read_length(r, code, nullable, &count):
        return NULL
    if count < 0:
        Py_INCREF(Py_None)
        return Py_None
    if count > (r.end - r.pos) // op.least:
        fail(&r.trail, "more elements than the bytes left can hold", start)
        return NULL
    if not spend(r, count, start):
        return NULL
    array = PyList_New(count)
    if array == NULL:
        return NULL
    if op.element == INT32:                 # replicas, nearly always; `least` is 4, so all the bytes are there
        for k in range(count):
            value = PyLong_FromLong(load_int32(r.data + r.pos))
            if value == NULL:
                Py_DECREF(array)
                return NULL
            PyList_SET_ITEM(array, k, value)
            r.pos += 4
        PyObject_GC_UnTrack(array)
        return array
    for k in range(count):
        value = read_value(r, op, op.element, False)
        if value == NULL:
            r.trail.item = k
            Py_DECREF(array)
            return NULL
        PyList_SET_ITEM(array, k, value)
    PyObject_GC_UnTrack(array)
    return array


cdef PyObject* read_value(Reader* r, Op* op, int code, bint nullable) noexcept:
    """A new reference. NULL: the reason is in the trail, or a Python error is set."""
    cdef const unsigned char* p = r.data + r.pos
    cdef Py_ssize_t size
    cdef uint64_t raw
    cdef double number
    cdef PyObject* value
    if code == INT32:
        if not has(r, 4):
            return NULL
        r.pos += 4
        return PyLong_FromLong(load_int32(p))
    if code == STRUCT:
        if nullable:
            if not has(r, 1):
                return NULL
            r.pos += 1
            if p[0] == op.absent or (p[0] >= 0x80 and op.absent):
                Py_INCREF(Py_None)
                return Py_None
        return read_struct(r, op.child)
    if code == INT64:
        if not has(r, 8):
            return NULL
        r.pos += 8
        return PyLong_FromLongLong(load_int64(p))
    if code == INT16:
        if not has(r, 2):
            return NULL
        r.pos += 2
        return PyLong_FromLong(load_int16(p))
    if code == ARRAY or code == COMPACT_ARRAY:
        return read_array(r, op, code, nullable)
    if code >= STRING:
        if not read_length(r, code, nullable, &size):
            return NULL
        if size < 0:
            Py_INCREF(Py_None)
            return Py_None
        if not has(r, size):
            return NULL
        if code == STRING or code == COMPACT_STRING:
            if size > STRING_MAX:
                fail(&r.trail, "string longer than 32767 bytes", r.pos)
                return NULL
            return read_text(r, size)
        if code == RECORDS or code == COMPACT_RECORDS:
            return read_view(r, size)
        value = PyBytes_FromStringAndSize(<const char*>r.data + r.pos, size)
        r.pos += size
        return value
    if code == BOOL:
        if not has(r, 1):
            return NULL
        r.pos += 1
        value = Py_True if p[0] else Py_False
        Py_INCREF(value)
        return value
    if code == INT8:
        if not has(r, 1):
            return NULL
        r.pos += 1
        return PyLong_FromLong(<signed char>p[0])
    if code == UUID:
        if not has(r, 16):
            return NULL
        r.pos += 16
        if memcmp(p, PyBytes_AS_STRING(<PyObject*>ZERO_UUID), 16) == 0:
            Py_INCREF(<PyObject*>ZERO_UUID)
            return <PyObject*>ZERO_UUID
        return PyBytes_FromStringAndSize(<const char*>p, 16)
    if code == UINT16:
        if not has(r, 2):
            return NULL
        r.pos += 2
        return PyLong_FromLong(load_uint16(p))
    if code == UINT32:
        if not has(r, 4):
            return NULL
        r.pos += 4
        return PyLong_FromLongLong(load_uint32(p))
    # FLOAT64
    if not has(r, 8):
        return NULL
    r.pos += 8
    raw = <uint64_t>load_int64(p)
    memcpy(&number, &raw, 8)
    return PyFloat_FromDouble(number)


cdef bint read_tag(Reader* r, PlanData* plan, PyObject* message, uint32_t tag, Py_ssize_t size) noexcept:
    """Read one tagged field of `size` bytes into its attribute. It is skipped if the version has no such tag."""
    cdef Py_ssize_t end = r.pos + size
    cdef Py_ssize_t outer = r.end
    cdef Op* op
    cdef PyObject* value
    cdef PyObject** slot
    cdef int i
    for i in range(plan.tag_count):
        op = &plan.tags[i]
        if op.tag == tag:
            break
    else:
        r.pos = end
        return True
    r.end = end
    value = read_value(r, op, op.code, op.nullable)
    r.end = outer
    if value == NULL:
        note(&r.trail, op.field)
        return False
    if r.pos != end:
        Py_DECREF(value)
        fail(&r.trail, "tagged field shorter than its size", r.pos)
        note(&r.trail, op.field)
        return False
    if op.code == STRUCT and not op.nullable and at_defaults(op.child.layout, value):
        # "Absent" and "all at their defaults" are the same on the wire. None stands for both without an object.
        Py_DECREF(value)
        Py_INCREF(Py_None)
        value = Py_None
    slot = slot_of(message, op.slot)
    Py_XDECREF(slot[0])
    slot[0] = value
    return True


cdef bint read_tags(Reader* r, PlanData* plan, PyObject* message) noexcept:
    cdef uint32_t count, tag, size
    cdef Py_ssize_t start = r.pos
    if not read_uvarint(r, &count) or not spend(r, count, start):
        return False
    while count:
        count -= 1
        if not read_uvarint(r, &tag) or not read_uvarint(r, &size) or not has(r, size):
            return False
        if not read_tag(r, plan, message, tag, size):
            return False
    return True


cdef PyObject* read_struct(Reader* r, PlanData* plan) noexcept:
    cdef LayoutData* layout = plan.layout
    cdef PyObject* message = rayft_alloc(layout.type)
    cdef PyObject* value
    cdef PyObject** slot
    cdef Op* op
    cdef int i
    if message == NULL:
        return NULL
    for i in range(plan.count):
        op = &plan.ops[i]
        value = read_value(r, op, op.code, op.nullable)
        if value == NULL:
            note(&r.trail, op.field)
            Py_DECREF(message)
            return NULL
        slot_of(message, op.slot)[0] = value
    if plan.flexible:
        if r.pos < r.end and r.data[r.pos] == 0:
            r.pos += 1
        elif not read_tags(r, plan, message):
            Py_DECREF(message)
            return NULL
    for i in range(plan.tag_count):
        slot = slot_of(message, plan.tags[i].slot)
        if slot[0] == NULL:
            slot[0] = fresh(layout, plan.tags[i].field)
    for i in range(plan.absent_count):
        slot_of(message, layout.slots[plan.absent[i]])[0] = fresh(layout, plan.absent[i])
    if layout.collected:
        PyObject_GC_UnTrack(message)
    return message


def decode(Plan plan not None, data, Py_ssize_t pos=0, Py_ssize_t entries_max=ENTRIES_UNLIMITED):
    """(message, position after it). `data`: any contiguous buffer, read from byte `pos`. `entries_max`: the number of
    array elements and tagged fields that it may have, counted together; -1: any number. Raises WireError."""
    cdef Py_ssize_t end, entries
    message = read_message(plan, data, pos, entries_max, &end, &entries)
    return message, end


def decode_counted(Plan plan not None, data, Py_ssize_t pos=0, Py_ssize_t entries_max=ENTRIES_UNLIMITED):
    """(message, position after it, its number of entries), as `decode`. Raises WireError."""
    cdef Py_ssize_t end, entries
    message = read_message(plan, data, pos, entries_max, &end, &entries)
    return message, end, entries


cdef object read_message(
    Plan plan, object data, Py_ssize_t pos, Py_ssize_t entries_max, Py_ssize_t* end, Py_ssize_t* entries
):
    cdef Py_buffer buffer
    cdef Reader r
    cdef PyObject* message
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        if pos < 0 or pos > buffer.len:
            raise WireError(plan.layout.cls.__name__, "position outside the buffer", pos)
        r.data = <const unsigned char*>buffer.buf
        r.pos = pos
        r.end = buffer.len
        r.source = <PyObject*>data
        r.view = NULL
        entries[0] = PY_SSIZE_T_MAX if entries_max < 0 else entries_max
        r.entries_left = entries[0]
        r.shared_left = SHARED_MAX
        r.trail.reason = NULL
        r.trail.depth = 0
        r.trail.item = -1
        message = read_struct(&r, &plan.data)
        Py_XDECREF(r.view)
        if message == NULL:
            refuse(&r.trail, plan.layout, entries_max)
        decoded = <object>message
        Py_DECREF(message)
        end[0] = r.pos
        entries[0] -= r.entries_left
        return decoded
    finally:
        PyBuffer_Release(&buffer)


cdef int refuse(Trail* trail, Layout layout, Py_ssize_t entries_max) except -1:
    """Raise the failure. If there were too many entries, the error names the limit."""
    try:
        raise_failure(trail, layout)
    except WireError as error:
        if trail.reason != TOO_MANY:
            raise
        raise TooManyEntries(
            error.path, f"more than {entries_max} entries (array elements and tagged fields)", error.position
        ) from None
