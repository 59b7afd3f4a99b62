"""Messages to bytes: runs a `Plan` over an object.

This file alone decides what is refused when a message is encoded, and when bytes are copied: `records` of at least
REFERENCE_SIZE bytes go into the list of parts by reference.
"""

from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int16_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from fastpath.bytes.endian cimport store_int16, store_int64, store_uint32
from fastpath.bytes.open_buffer cimport OpenBuffer, opened
from fastpath.messages.capi cimport *
from fastpath.messages.plan cimport *
from fastpath.messages.layout cimport at_default, at_defaults, slot_of

REFERENCE_SIZE = 4096
cdef Py_ssize_t reference_size = REFERENCE_SIZE

cdef enum:
    NO_LENGTH = -1      # in place of a code: what is written has no length in front


cdef struct Writer:
    PyObject* chunk          # bytes being filled
    unsigned char* data
    Py_ssize_t pos
    Py_ssize_t size
    Py_ssize_t before        # bytes in earlier parts
    PyObject* parts          # a list, or NULL: everything goes into one chunk
    Trail trail


cdef bint room(Writer* w, Py_ssize_t size) noexcept:
    """Make room for `size` more bytes."""
    cdef Py_ssize_t wanted
    if w.size - w.pos >= size:
        return True
    wanted = max(w.size * 2, w.pos + size)
    if _PyBytes_Resize(&w.chunk, wanted) < 0:
        w.size = 0
        return False
    w.data = <unsigned char*>PyBytes_AS_STRING(w.chunk)
    w.size = wanted
    return True


cdef bint new_chunk(Writer* w, Py_ssize_t size) noexcept:
    w.chunk = PyBytes_FromStringAndSize(NULL, size)
    w.pos = 0
    w.size = 0
    if w.chunk == NULL:
        return False
    w.data = <unsigned char*>PyBytes_AS_STRING(w.chunk)
    w.size = size
    return True


cdef bint end_chunk(Writer* w) noexcept:
    """Move the chunk to the parts, cut to the bytes that were written."""
    cdef int appended
    if _PyBytes_Resize(&w.chunk, w.pos) < 0:
        return False
    appended = PyList_Append(w.parts, w.chunk)
    w.before += w.pos
    Py_DECREF(w.chunk)
    w.chunk = NULL
    return appended == 0


cdef inline bint wrong(Writer* w, const char* reason) noexcept:
    PyErr_Clear()
    fail(&w.trail, reason, w.before + w.pos)
    return False


cdef inline int put_uvarint(unsigned char* p, uint32_t value) noexcept nogil:
    cdef int size = 0
    while value >= 0x80:
        p[size] = <unsigned char>(value | 0x80)
        value >>= 7
        size += 1
    p[size] = <unsigned char>value
    return size + 1


cdef bint write_length(Writer* w, int code, Py_ssize_t length) noexcept:
    """Write the length before a string, bytes, records or array, -1 for null. Makes room for short content too."""
    if length > 0x7FFFFFFE:
        return wrong(w, "longer than 2147483646")
    if not room(w, 5):
        return False
    if code >= COMPACT_STRING:
        w.pos += put_uvarint(w.data + w.pos, <uint32_t>(length + 1))
    elif code == STRING:
        store_int16(w.data + w.pos, <int16_t>length)
        w.pos += 2
    else:
        store_uint32(w.data + w.pos, <uint32_t>length)
        w.pos += 4
    return True


cdef bint write_integer(Writer* w, int code, PyObject* value) noexcept:
    cdef long long number = rayft_as_long_long(value)
    if number == -1 and PyErr_Occurred() != NULL:
        return wrong(w, "not an integer that fits")
    if not room(w, 8):
        return False
    if code == INT32:
        if number != <int>number:
            return wrong(w, "out of range for int32")
        store_uint32(w.data + w.pos, <uint32_t>number)
        w.pos += 4
    elif code == INT64:
        store_int64(w.data + w.pos, <int64_t>number)
        w.pos += 8
    elif code == INT16:
        if number != <short>number:
            return wrong(w, "out of range for int16")
        store_int16(w.data + w.pos, <int16_t>number)
        w.pos += 2
    elif code == INT8:
        if number != <signed char>number:
            return wrong(w, "out of range for int8")
        w.data[w.pos] = <unsigned char>number
        w.pos += 1
    elif code == UINT16:
        if number < 0 or number > 0xFFFF:
            return wrong(w, "out of range for uint16")
        store_int16(w.data + w.pos, <int16_t>number)
        w.pos += 2
    else:
        if number < 0 or number > 0xFFFFFFFF:
            return wrong(w, "out of range for uint32")
        store_uint32(w.data + w.pos, <uint32_t>number)
        w.pos += 4
    return True


cdef bint write_text(Writer* w, int code, PyObject* value) noexcept:
    cdef Py_ssize_t size
    cdef const char* text
    if not PyUnicode_Check(value):
        return wrong(w, "not a str")
    text = PyUnicode_AsUTF8AndSize(value, &size)
    if text == NULL:
        return wrong(w, "a str that UTF-8 cannot hold")
    if size > STRING_MAX:
        return wrong(w, "string longer than 32767 bytes")
    if not room(w, size + 5) or not write_length(w, code, size):
        return False
    memcpy(w.data + w.pos, text, size)
    w.pos += size
    return True


cdef bint write_bytes(Writer* w, PyObject* value, const void* data, Py_ssize_t size, bint referable) noexcept:
    """Write the bytes of `value`, without a length. Large ones go by reference if there are parts."""
    if w.parts != NULL and referable and size >= reference_size:
        return refer(w, value, size)
    if not room(w, size):
        return False
    memcpy(w.data + w.pos, data, size)
    w.pos += size
    return True


cdef bint write_open(Writer* w, int code, PyObject* value) noexcept:
    """Write a buffer that is not `bytes`; code NO_LENGTH: without its length. A part has items of one byte."""
    cdef OpenBuffer buffer
    try:
        buffer = opened(<object>value)
    except (TypeError, ValueError, BufferError):    # ValueError: a memoryview or mmap that is closed
        return wrong(w, "not a contiguous buffer")
    if code != NO_LENGTH and not write_length(w, code, buffer.size):
        return False
    return write_bytes(w, value, buffer.data, buffer.size, buffer.view.itemsize == 1)


cdef bint write_raw(Writer* w, PyObject* value) noexcept:
    """Write the bytes of a buffer, without a length."""
    if PyBytes_Check(value):
        return write_bytes(w, value, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value), True)
    return write_open(w, NO_LENGTH, value)


cdef bint write_sized(Writer* w, int code, PyObject* value) noexcept:
    """Write the bytes of a buffer behind their length."""
    if PyBytes_Check(value):
        return write_length(w, code, PyBytes_GET_SIZE(value)) and write_raw(w, value)
    return write_open(w, code, value)


cdef bint refer(Writer* w, PyObject* value, Py_ssize_t size) noexcept:
    """Add a buffer to the parts by reference, and go on in a new chunk."""
    if w.pos:
        if not end_chunk(w) or not new_chunk(w, 256):
            return False
    if PyList_Append(w.parts, value) < 0:
        return False
    w.before += size
    return True


cdef Py_ssize_t size_of(Writer* w, PyObject* value) noexcept:
    """Size of a buffer in bytes. -1: the reason is in the trail."""
    if PyBytes_Check(value):
        return PyBytes_GET_SIZE(value)
    try:
        return opened(<object>value).size
    except (TypeError, ValueError, BufferError):
        wrong(w, "not a contiguous buffer")
        return -1


cdef bint write_buffer(Writer* w, int code, PyObject* value) noexcept:
    """Write bytes or records. Records may be a sequence of buffers that follow each other."""
    cdef Py_ssize_t total = 0, size, k
    if not (PyList_Check(value) or PyTuple_Check(value)):
        return write_sized(w, code, value)
    for k in range(PySequence_Fast_GET_SIZE(value)):
        size = size_of(w, PySequence_Fast_GET_ITEM(value, k))
        if size < 0:
            w.trail.item = k
            return False
        total += size
    if not write_length(w, code, total):
        return False
    for k in range(PySequence_Fast_GET_SIZE(value)):
        if not write_raw(w, PySequence_Fast_GET_ITEM(value, k)):
            w.trail.item = k
            return False
    return True


cdef bint write_uuid(Writer* w, PyObject* value) noexcept:
    if size_of(w, value) != 16:
        return wrong(w, "not a uuid of 16 bytes")
    return room(w, 16) and write_raw(w, value)


cdef class Encoded:
    """An array that is encoded already, in place of a list: how many elements it has, and buffers that are their bytes, one
    after the other. `codes`: (error code, how often the elements and their parts have it). The caller answers for the
    version."""

    def __init__(self, Py_ssize_t count, list parts, list codes):
        self.count, self.parts, self.codes = count, parts, codes

    def __len__(self):
        return self.count


cdef bint write_encoded(Writer* w, int code, PyObject* value) noexcept:
    cdef Encoded array = <Encoded><object>value
    if not write_length(w, code, array.count):
        return False
    for part in array.parts:
        if not write_raw(w, <PyObject*>part):
            return False
    return True


cdef bint write_array(Writer* w, Op* op, int code, PyObject* value) noexcept:
    cdef PyObject* array
    cdef PyObject* item
    cdef Py_ssize_t count, k
    cdef bint done
    cdef bint integers = INT8 <= op.element <= INT64
    if Py_TYPE(value) == <PyTypeObject*>Encoded:
        return write_encoded(w, code, value)
    if PyUnicode_Check(value) or PyBytes_Check(value):
        return wrong(w, "not a list")
    array = PySequence_Fast(value, "not a list")
    if array == NULL:
        return wrong(w, "not a list")
    count = PySequence_Fast_GET_SIZE(array)
    done = write_length(w, code, count)
    for k in range(count):
        if not done:
            break
        item = PySequence_Fast_GET_ITEM(array, k)
        if integers and item != Py_None:
            done = write_integer(w, op.element, item)
        else:
            done = write_value(w, op, op.element, False, item)
        if not done:
            w.trail.item = k
    Py_DECREF(array)
    return done


cdef bint write_value(Writer* w, Op* op, int code, bint nullable, PyObject* value) noexcept:
    """Write one value. False: the reason is in the trail, or a Python error is set."""
    cdef uint64_t raw
    cdef double number
    cdef int truth
    if value == NULL:
        return wrong(w, "not set")
    if value == Py_None:
        if not nullable:
            return wrong(w, "null where a value is needed")
        if code != STRUCT:
            return write_length(w, code, -1)
        if not room(w, 1):
            return False
        w.data[w.pos] = op.absent
        w.pos += 1
        return True
    if INT8 <= code <= INT64:
        return write_integer(w, code, value)
    if code == STRUCT:
        if nullable:
            if not room(w, 1):
                return False
            w.data[w.pos] = 1
            w.pos += 1
        return write_struct(w, op.child, value)
    if code == STRING or code == COMPACT_STRING:
        return write_text(w, code, value)
    if code == ARRAY or code == COMPACT_ARRAY:
        return write_array(w, op, code, value)
    if code >= STRING:
        return write_buffer(w, code, value)
    if code == UUID:
        return write_uuid(w, value)
    if not room(w, 8):
        return False
    if code == BOOL:
        truth = PyObject_IsTrue(value)
        if truth < 0:
            return wrong(w, "not a bool")
        w.data[w.pos] = truth
        w.pos += 1
        return True
    # FLOAT64
    number = PyFloat_AsDouble(value)
    if number == -1.0 and PyErr_Occurred() != NULL:
        return wrong(w, "not a float")
    memcpy(&raw, &number, 8)
    store_int64(w.data + w.pos, <int64_t>raw)
    w.pos += 8
    return True


cdef bint write_tag(Writer* w, Op* op, PyObject* value) noexcept:
    """Write number, size and value of one tagged field. The size is known only afterwards, and mostly takes one
    byte."""
    cdef Py_ssize_t start
    cdef Py_ssize_t size
    cdef unsigned char digits[5]
    cdef int width
    cdef PyObject* parts = w.parts
    if not room(w, 6):
        return False
    w.pos += put_uvarint(w.data + w.pos, op.tag) + 1
    start = w.pos
    w.parts = NULL
    if not write_value(w, op, op.code, op.nullable, value) or not room(w, 5):
        w.parts = parts
        note(&w.trail, op.field)
        return False
    w.parts = parts
    size = w.pos - start
    width = put_uvarint(digits, <uint32_t>size)
    if width > 1:
        memmove(w.data + start + width - 1, w.data + start, size)
        w.pos += width - 1
    memcpy(w.data + start - 1, digits, width)
    return True


cdef bint write_tags(Writer* w, PlanData* plan, PyObject* message) noexcept:
    cdef uint64_t wanted = 0
    cdef int count = 0
    cdef int i
    cdef Op* op
    cdef PyObject* value
    for i in range(plan.tag_count):
        op = &plan.tags[i]
        value = slot_of(message, op.slot)[0]
        if op.code == STRUCT and not op.nullable and value != NULL and at_defaults(op.child.layout, value):
            continue
        if not at_default(plan.layout, op.field, value):
            wanted |= <uint64_t>1 << i
            count += 1
    if not room(w, 5):
        return False
    w.pos += put_uvarint(w.data + w.pos, count)
    for i in range(plan.tag_count):
        if wanted >> i & 1 and not write_tag(w, &plan.tags[i], slot_of(message, plan.tags[i].slot)[0]):
            return False
    return True


cdef bint write_struct(Writer* w, PlanData* plan, PyObject* message) noexcept:
    """Write a struct. It may be given as bytes, which are the same struct, encoded already."""
    cdef Op* op
    cdef int i
    if Py_TYPE(message) != plan.layout.type:
        if PyBytes_Check(message):
            return write_raw(w, message)
        return wrong(w, "an object of another class")
    for i in range(plan.count):
        op = &plan.ops[i]
        if not write_value(w, op, op.code, op.nullable, slot_of(message, op.slot)[0]):
            note(&w.trail, op.field)
            return False
    return not plan.flexible or write_tags(w, plan, message)


cdef bint write_all(Writer* w, Plan plan, PyObject* message, const unsigned char* prefix, Py_ssize_t prefix_size,
                    bint framed) noexcept:
    """Length (if framed), prefix, message. The first chunk keeps room for the length, which is written at the end."""
    cdef PyObject* first
    cdef Py_ssize_t start = 4 if framed else 0
    cdef Py_ssize_t total
    if not new_chunk(w, start + prefix_size + plan.hint):
        return False
    w.pos = start
    memcpy(w.data + w.pos, prefix, prefix_size)
    w.pos += prefix_size
    if not write_struct(w, &plan.data, message):
        return False
    total = w.before + w.pos
    plan.hint = min(total, 65536)
    if w.parts != NULL:
        if (w.pos or w.before == 0) and not end_chunk(w):
            return False
        if framed:
            if total - 4 > 0x7FFFFFFF:
                return wrong(w, "longer than 2147483647 bytes")
            # The first part is a chunk made here, to which no other reference exists yet.
            first = PySequence_Fast_GET_ITEM(w.parts, 0)
            store_uint32(<unsigned char*>PyBytes_AS_STRING(first), <uint32_t>(total - 4))
        return True
    return _PyBytes_Resize(&w.chunk, w.pos) == 0


cdef int start_writer(Writer* w) except -1:
    w.chunk = NULL
    w.pos = 0
    w.size = 0
    w.before = 0
    w.parts = NULL
    w.trail.reason = NULL
    w.trail.depth = 0
    w.trail.item = -1
    return 0


def encode(Plan plan not None, message, bytes prefix=b""):
    """bytes: `prefix`, then the message. Raises WireError."""
    cdef Writer w
    start_writer(&w)
    if not write_all(&w, plan, <PyObject*>message, prefix, len(prefix), False):
        Py_XDECREF(w.chunk)
        raise_failure(&w.trail, plan.layout)
    encoded = <object>w.chunk
    Py_DECREF(w.chunk)
    return encoded


def encode_parts(Plan plan not None, message, bytes prefix=b"", bint framed=False):
    """List of buffers whose concatenation is [int32 length,] `prefix`, the message.

    `records` of at least REFERENCE_SIZE bytes are in the list by reference. `framed`: the length of everything that
    follows comes first. Raises WireError.
    """
    cdef Writer w
    parts = []
    start_writer(&w)
    w.parts = <PyObject*>parts
    if not write_all(&w, plan, <PyObject*>message, prefix, len(prefix), framed):
        Py_XDECREF(w.chunk)
        raise_failure(&w.trail, plan.layout)
    Py_XDECREF(w.chunk)
    return parts
