# cython: language_level=3, auto_pickle=False
"""Runs plans: Kafka's messages between bytes and Python objects, both ways.

This file alone decides how a value of the Kafka protocol is laid out in bytes and what is refused. It knows no message:
a `Layout` (which attributes a class has) and a `Plan` (which fields one version has, in order) come from `actors.wire`.

Rules:

1. Attributes are read and written at their byte offset in the object, so the classes must have `__slots__` and are
   checked by identity. No Python code runs between two fields.
2. Nothing is allocated for a claimed length: a count is first compared with the bytes that are left.
3. A failure leaves as one `WireError` that names message, field and byte position, however deep it happened.
4. Decoded objects hold no cycles and are taken off the garbage collector's lists.
5. `records` are never copied on the way in (memoryview), and above `REFERENCE_SIZE` not on the way out either.

Source: Kafka's protocol guide, KIP-482 (flexible versions, tagged fields).
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memmove

cdef extern from "Python.h":
    int PyType_IS_GC(PyTypeObject*)
    void PyObject_GC_UnTrack(void*)
    PyTypeObject* Py_TYPE(PyObject*)
    void Py_INCREF(PyObject*)
    void Py_DECREF(PyObject*)
    void Py_XDECREF(PyObject*)
    PyObject* Py_None
    PyObject* Py_True
    PyObject* Py_False
    PyObject* PyErr_Occurred()
    void PyErr_Clear()
    int PyErr_ExceptionMatches(PyObject*)
    PyObject* PyExc_MemoryError
    PyObject* PyExc_TypeError
    void PyErr_SetString(PyObject*, const char*)
    PyObject* PyList_New(Py_ssize_t)
    void PyList_SET_ITEM(PyObject*, Py_ssize_t, PyObject*)
    int PyList_Append(PyObject*, PyObject*)
    PyObject* PyLong_FromLong(long)
    PyObject* PyLong_FromLongLong(long long)
    PyObject* PyLong_FromSsize_t(Py_ssize_t)
    long long PyLong_AsLongLong(PyObject*)
    PyObject* PyFloat_FromDouble(double)
    double PyFloat_AsDouble(PyObject*)
    PyObject* PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*)
    const char* PyUnicode_AsUTF8AndSize(PyObject*, Py_ssize_t*)
    int PyUnicode_Check(PyObject*)
    int PyUnicode_IS_COMPACT_ASCII(PyObject*)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject*)
    void* PyUnicode_DATA(PyObject*)
    PyObject* PyBytes_FromStringAndSize(const char*, Py_ssize_t)
    char* PyBytes_AS_STRING(PyObject*)
    Py_ssize_t PyBytes_GET_SIZE(PyObject*)
    int PyBytes_CheckExact(PyObject*)
    int PyBytes_Check(PyObject*)
    int _PyBytes_Resize(PyObject**, Py_ssize_t)
    PyObject* PySequence_Fast(PyObject*, const char*)
    Py_ssize_t PySequence_Fast_GET_SIZE(PyObject*)
    PyObject* PySequence_Fast_GET_ITEM(PyObject*, Py_ssize_t)
    int PyList_Check(PyObject*)
    int PyTuple_Check(PyObject*)
    PyObject* PySlice_New(PyObject*, PyObject*, PyObject*)
    PyObject* PyObject_GetItem(PyObject*, PyObject*)
    Py_ssize_t PyObject_Size(PyObject*)
    int PyObject_IsTrue(PyObject*)
    int PyObject_RichCompareBool(PyObject*, PyObject*, int)
    int Py_EQ
    PyObject* PyTuple_GET_ITEM(PyObject*, Py_ssize_t)
    Py_ssize_t PyTuple_GET_SIZE(PyObject*)
    Py_ssize_t PyVectorcall_NARGS(size_t)
    PyObject* _PyType_Lookup(PyTypeObject*, PyObject*)
    int PyUnicode_Compare(PyObject*, PyObject*)

cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        Py_ssize_t offset

cdef extern from "descrobject.h":
    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member

cdef extern from *:
    """
    static PyObject* rayft_alloc(PyTypeObject* type) { return type->tp_alloc(type, 0); }
    static void rayft_set_call(PyTypeObject* type, void* call) { type->tp_vectorcall = (vectorcallfunc)call; }
    """
    PyObject* rayft_alloc(PyTypeObject*)
    void rayft_set_call(PyTypeObject*, void*)


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

FIXED = {"bool": BOOL, "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32,
         "int64": INT64, "float64": FLOAT64, "uuid": UUID, "struct": STRUCT}
PLAIN = {**FIXED, "string": STRING, "bytes": BYTES, "records": RECORDS, "array": ARRAY}
COMPACT = {**FIXED, "string": COMPACT_STRING, "bytes": COMPACT_BYTES, "records": COMPACT_RECORDS,
           "array": COMPACT_ARRAY}

LEAST = (1, 1, 2, 2, 4, 4, 8, 8, 16, 0, 2, 4, 4, 4, 1, 1, 1, 1)
"""Smallest size of each wire form in bytes, by its number; a struct's comes from its fields."""

cdef enum:
    DEPTH = 16
    STRING_MAX = 0x7FFF
    CACHED_MAX = 64
    CACHE_SIZE = 2048

REFERENCE_SIZE = 4096
cdef Py_ssize_t reference_size = REFERENCE_SIZE

cdef bytes ZERO_UUID = bytes(16)


class WireError(ValueError):
    """Bytes that are not such a message, or a message that cannot become bytes.

    `path` names the field (`FetchResponse.responses[2].topic`), `position` the byte in the buffer (being read or being
    written), `reason` what is wrong there.
    """

    def __init__(self, path: str, reason: str, position: int) -> None:
        super().__init__(f"{path}: {reason} (at byte {position})")
        self.path = path
        self.reason = reason
        self.position = position

    def __reduce__(self):
        return WireError, (self.path, self.reason, self.position)


# ---- layouts: which attributes a class has ------------------------------------------------------------------------

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
    """The attributes of one message class.

    names: attribute names, in the order of `cls.__slots__`.
    defaults: one a name; the type `list` stands for a new list, a Layout for a new struct with its own defaults.
    children: one a name; the Layout of the struct type, or None.
    """

    cdef LayoutData data
    cdef readonly object cls
    cdef readonly tuple names
    cdef readonly tuple defaults
    cdef readonly tuple children

    def __cinit__(self, cls, tuple names, tuple defaults, tuple children):
        cdef int count = len(names)
        self.cls, self.names, self.defaults, self.children = cls, names, defaults, children
        self.data.type = <PyTypeObject*><PyObject*>cls
        self.data.collected = PyType_IS_GC(self.data.type)
        self.data.count = count
        self.data.slots = <Py_ssize_t*>calloc(count + 1, sizeof(Py_ssize_t))
        self.data.names = <PyObject**>calloc(count + 1, sizeof(PyObject*))
        self.data.defaults = <PyObject**>calloc(count + 1, sizeof(PyObject*))
        self.data.kinds = <char*>calloc(count + 1, 1)
        self.data.children = <LayoutData**>calloc(count + 1, sizeof(LayoutData*))
        if not (self.data.slots and self.data.names and self.data.defaults and self.data.kinds and self.data.children):
            raise MemoryError
        for i in range(count):
            descriptor = cls.__dict__[names[i]]
            default = defaults[i]
            self.data.slots[i] = (<PyMemberDescrObject*><PyObject*>descriptor).d_member.offset
            self.data.names[i] = <PyObject*>names[i]
            self.data.defaults[i] = <PyObject*>default
            if children[i] is not None:
                self.data.children[i] = &(<Layout?>children[i]).data
            if default is list:
                self.data.kinds[i] = FRESH_LIST
            elif isinstance(default, Layout):
                self.data.kinds[i] = FRESH_STRUCT
        rayft_set_call(self.data.type, <void*>construct)

    def __dealloc__(self):
        free(self.data.slots)
        free(self.data.names)
        free(self.data.defaults)
        free(self.data.kinds)
        free(self.data.children)


cdef inline PyObject** slot_of(PyObject* message, Py_ssize_t offset) noexcept:
    return <PyObject**>(<char*>message + offset)


cdef PyObject* fresh(LayoutData* layout, int i) noexcept:
    """A new reference to the default of field `i`. NULL only without memory."""
    cdef PyObject* value
    if layout.kinds[i] == FRESH_LIST:
        return PyList_New(0)
    if layout.kinds[i] == FRESH_STRUCT:
        return fresh_struct(layout.children[i])
    value = layout.defaults[i]
    Py_INCREF(value)
    return value


cdef PyObject* fresh_struct(LayoutData* layout) noexcept:
    cdef PyObject* message = rayft_alloc(layout.type)
    cdef PyObject* value
    cdef int i
    if message == NULL:
        return NULL
    for i in range(layout.count):
        value = fresh(layout, i)
        if value == NULL:
            Py_DECREF(message)
            return NULL
        slot_of(message, layout.slots[i])[0] = value
    return message


cdef bint at_defaults(LayoutData* layout, PyObject* message) noexcept:
    """Whether every field of a struct has its default."""
    cdef int i
    if message == Py_None or Py_TYPE(message) != layout.type:
        return False
    for i in range(layout.count):
        if not at_default(layout, i, slot_of(message, layout.slots[i])[0]):
            return False
    return True


cdef bint at_default(LayoutData* layout, int i, PyObject* value) noexcept:
    cdef Py_ssize_t size
    cdef int same
    if value == NULL or value == layout.defaults[i]:
        return True
    if layout.kinds[i] == FRESH_STRUCT:
        return at_defaults(layout.children[i], value)
    if value == Py_None:
        return False
    if layout.kinds[i] == FRESH_LIST:
        size = PyObject_Size(value)
        if size < 0:
            PyErr_Clear()
        return size == 0
    if layout.defaults[i] == Py_None:
        return False
    same = PyObject_RichCompareBool(value, layout.defaults[i], Py_EQ)
    if same < 0:
        PyErr_Clear()
    return same == 1


cdef str LAYOUT = "__layout__"


cdef int place_of(LayoutData* layout, PyObject* name, int after) noexcept:
    """Index of a field by name, -1 for an unknown one. Names are interned and mostly come in the schema's order."""
    cdef int i
    for i in range(after, layout.count):
        if layout.names[i] == name:
            return i
    for i in range(layout.count):
        if layout.names[i] == name or PyUnicode_Compare(layout.names[i], name) == 0:
            return i
    return -1


cdef PyObject* construct(PyObject* cls, PyObject** values, size_t flags, PyObject* keywords) noexcept:
    """`cls(name=value, ...)`: a message with the fields given and the schema's defaults; an unknown name is a TypeError.

    A vectorcall, so that no dictionary is made for the keywords: answers of many thousand objects are built this way.
    """
    cdef LayoutData* layout = &(<Layout>_PyType_Lookup(<PyTypeObject*>cls, <PyObject*>LAYOUT)).data
    cdef PyObject* message
    cdef PyObject** slot
    cdef Py_ssize_t k
    cdef int i = 0
    if PyVectorcall_NARGS(flags):
        return refuse(cls, "takes no positional arguments")
    message = rayft_alloc(layout.type)
    if message == NULL:
        return NULL
    if keywords != NULL:
        for k in range(PyTuple_GET_SIZE(keywords)):
            i = place_of(layout, PyTuple_GET_ITEM(keywords, k), i)
            if i < 0:
                Py_DECREF(message)
                return refuse(cls, f"has no field {<object>PyTuple_GET_ITEM(keywords, k)}")
            Py_INCREF(values[k])
            slot_of(message, layout.slots[i])[0] = values[k]
    for i in range(layout.count):
        slot = slot_of(message, layout.slots[i])
        if slot[0] == NULL:
            slot[0] = fresh(layout, i)
            if slot[0] == NULL:
                Py_DECREF(message)
                return NULL
    return message


cdef PyObject* refuse(PyObject* cls, str why) noexcept:
    PyErr_SetString(PyExc_TypeError, f"{(<object>cls).__name__} {why}".encode())
    return NULL


cdef class Message:
    """What all message classes descend from: equality, a short repr; construction by keyword comes with the Layout.

    A subclass sets `__layout__` and is final. Equal: same class, equal fields. Not hashable.
    """

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        cdef Layout layout = type(self).__layout__
        for name in layout.names:
            if getattr(self, name) != getattr(other, name):
                return False
        return True

    __hash__ = None

    def __repr__(self):
        cdef Layout layout = type(self).__layout__
        cdef PyObject* value
        shown = []
        for i in range(layout.data.count):
            value = slot_of(<PyObject*>self, layout.data.slots[i])[0]
            if not at_default(&layout.data, i, value):
                held = <object>value
                shown.append(f"{layout.names[i]}={bytes(held) if isinstance(held, memoryview) else held!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


# ---- plans: which fields one version has --------------------------------------------------------------------------

cdef struct Op:
    int code                 # wire form
    int element              # wire form of an array's elements
    bint nullable
    int field                # index in the layout
    uint32_t tag
    unsigned char absent     # the byte that says null in front of a nullable struct
    Py_ssize_t slot
    Py_ssize_t least         # smallest size of one element of an array
    PlanData* child          # of struct and array-of-struct fields

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
    """How one version of one struct lies in bytes.

    fields and tags: tuples (code, element code or -1, nullable, field index, tag or 0, child Plan or None), in the order
    of the wire; tags ascending.
    """

    cdef PlanData data
    cdef readonly Layout layout
    cdef readonly object fields
    cdef readonly object tags
    cdef readonly Py_ssize_t least
    cdef Py_ssize_t hint     # size of the last message encoded

    def __cinit__(self, Layout layout, bint flexible, tuple fields, tuple tags):
        cdef int i
        self.layout, self.fields, self.tags = layout, fields, tags
        self.data.layout = &layout.data
        self.data.flexible = flexible
        self.data.count = len(fields)
        self.data.tag_count = len(tags)
        self.data.ops = <Op*>calloc(len(fields) + 1, sizeof(Op))
        self.data.tags = <Op*>calloc(len(tags) + 1, sizeof(Op))
        self.data.absent = <int*>calloc(layout.data.count + 1, sizeof(int))
        if not (self.data.ops and self.data.tags and self.data.absent):
            raise MemoryError
        if len(tags) > 64:
            raise ValueError("more than 64 tagged fields in a struct")
        self.data.least = 1 if flexible else 0
        for i in range(self.data.count):
            self.data.least += self.fill(&self.data.ops[i], fields[i])
        for i in range(self.data.tag_count):
            self.fill(&self.data.tags[i], tags[i])
            # Kafka says null by -1, but inside a tag by a variable-length 0.
            self.data.tags[i].absent = 0
        known = {step[3] for step in fields} | {step[3] for step in tags}
        for i in range(layout.data.count):
            if i not in known:
                self.data.absent[self.data.absent_count] = i
                self.data.absent_count += 1
        self.least = self.data.least
        self.hint = 64

    cdef Py_ssize_t fill(self, Op* op, tuple step) except -1:
        """Fill one operation; its smallest size in bytes."""
        cdef Plan child = step[5]
        op.code, op.element, op.nullable, op.field, op.tag = step[0], step[1], step[2], step[3], step[4]
        op.absent = 0xFF
        op.slot = self.layout.data.slots[op.field]
        if child is not None:
            op.child = &child.data
        if op.element >= 0:
            op.least = max(1, child.data.least if op.element == STRUCT else <Py_ssize_t>LEAST[op.element])
        if op.code == STRUCT:
            return 1 if op.nullable else child.data.least
        return LEAST[op.code]

    def __dealloc__(self):
        free(self.data.ops)
        free(self.data.tags)
        free(self.data.absent)


cdef struct Trail:
    # Where a failure happened, innermost first; filled while it travels outwards.
    const char* reason
    Py_ssize_t position
    int depth
    Py_ssize_t item
    int fields[DEPTH]
    Py_ssize_t items[DEPTH]


cdef inline void fail(Trail* trail, const char* reason, Py_ssize_t position) noexcept:
    trail.reason = reason
    trail.position = position


cdef void note(Trail* trail, int field) noexcept:
    """Add the field, and the item of its array where there is one, to the way from the failure outwards."""
    if trail.depth < DEPTH:
        trail.fields[trail.depth] = field
        trail.items[trail.depth] = trail.item
        trail.depth += 1
    trail.item = -1


cdef int raise_failure(Trail* trail, Layout layout) except -1:
    if trail.reason == NULL:  # a Python error (no memory) is already set
        if PyErr_Occurred() != NULL:
            return -1
        raise MemoryError
    PyErr_Clear()
    path = [layout.cls.__name__]
    step = layout
    for i in range(trail.depth - 1, -1, -1):
        name = step.names[trail.fields[i]]
        path.append(name if trail.items[i] < 0 else f"{name}[{trail.items[i]}]")
        step = step.children[trail.fields[i]]
        if step is None:
            break
    raise WireError(".".join(path), trail.reason.decode(), trail.position)


# ---- reading ------------------------------------------------------------------------------------------------------

cdef struct Reader:
    const unsigned char* data
    Py_ssize_t pos
    Py_ssize_t end
    PyObject* source         # the buffer that was given
    PyObject* view           # a memoryview of it, made when records are met
    Trail trail


cdef inline bint has(Reader* r, Py_ssize_t size) noexcept:
    if r.end - r.pos < size:
        fail(&r.trail, "cut short", r.pos)
        return False
    return True


cdef inline uint32_t be16(const unsigned char* p) noexcept nogil:
    return (<uint32_t>p[0] << 8) | p[1]


cdef inline uint32_t be32(const unsigned char* p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]


cdef inline uint64_t be64(const unsigned char* p) noexcept nogil:
    return (<uint64_t>be32(p) << 32) | be32(p + 4)


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
    """The length in front of a string, bytes, records or array; -1 for null."""
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
        length = <short>be16(r.data + r.pos)
        r.pos += 2
    else:
        if not has(r, 4):
            return False
        length = <int>be32(r.data + r.pos)
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
    """A str of `size` bytes. Short ASCII ones met lately are shared: names of topics and hosts come again and again."""
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
            if text != NULL and PyUnicode_IS_COMPACT_ASCII(text):
                Py_INCREF(text)
                Py_XDECREF(entry[0])
                entry[0] = text
    if text == NULL:
        if not PyErr_ExceptionMatches(PyExc_MemoryError):
            fail(&r.trail, "not UTF-8", r.pos)
        return NULL
    r.pos += size
    return text


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
    array = PyList_New(count)
    if array == NULL:
        return NULL
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
    """A new reference, or NULL with the trail's reason (or a Python error) set."""
    cdef const unsigned char* p = r.data + r.pos
    cdef Py_ssize_t size
    cdef uint64_t raw
    cdef double number
    cdef PyObject* value
    if code == INT32:
        if not has(r, 4):
            return NULL
        r.pos += 4
        return PyLong_FromLong(<int>be32(p))
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
        return PyLong_FromLongLong(<int64_t>be64(p))
    if code == INT16:
        if not has(r, 2):
            return NULL
        r.pos += 2
        return PyLong_FromLong(<short>be16(p))
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
        return PyLong_FromLong(be16(p))
    if code == UINT32:
        if not has(r, 4):
            return NULL
        r.pos += 4
        return PyLong_FromLongLong(be32(p))
    # FLOAT64
    if not has(r, 8):
        return NULL
    r.pos += 8
    raw = be64(p)
    memcpy(&number, &raw, 8)
    return PyFloat_FromDouble(number)


cdef bint read_tag(Reader* r, PlanData* plan, PyObject* message, uint32_t tag, Py_ssize_t size) noexcept:
    """One tagged field of `size` bytes into its attribute; skipped when the version has no such tag."""
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
        # Absent and "all at their defaults" are one thing on the wire; None says it without an object.
        Py_DECREF(value)
        Py_INCREF(Py_None)
        value = Py_None
    slot = slot_of(message, op.slot)
    Py_XDECREF(slot[0])
    slot[0] = value
    return True


cdef bint read_tags(Reader* r, PlanData* plan, PyObject* message) noexcept:
    cdef uint32_t count, tag, size
    if not read_uvarint(r, &count):
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


def decode(Plan plan not None, data, Py_ssize_t pos=0):
    """(message, position after it). `data`: any contiguous buffer, read from byte `pos`. Raises WireError."""
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
        r.trail.reason = NULL
        r.trail.depth = 0
        r.trail.item = -1
        message = read_struct(&r, &plan.data)
        Py_XDECREF(r.view)
        if message == NULL:
            raise_failure(&r.trail, plan.layout)
        decoded = <object>message
        Py_DECREF(message)
        return decoded, r.pos
    finally:
        PyBuffer_Release(&buffer)


# ---- writing ------------------------------------------------------------------------------------------------------

cdef struct Writer:
    PyObject* chunk          # bytes being filled
    unsigned char* data
    Py_ssize_t pos
    Py_ssize_t size
    Py_ssize_t before        # bytes in parts
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
    """Move the chunk, cut to what is in it, to the parts."""
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


cdef inline void put16(unsigned char* p, uint32_t value) noexcept nogil:
    p[0] = <unsigned char>(value >> 8)
    p[1] = <unsigned char>value


cdef inline void put32(unsigned char* p, uint32_t value) noexcept nogil:
    p[0] = <unsigned char>(value >> 24)
    p[1] = <unsigned char>(value >> 16)
    p[2] = <unsigned char>(value >> 8)
    p[3] = <unsigned char>value


cdef inline void put64(unsigned char* p, uint64_t value) noexcept nogil:
    put32(p, <uint32_t>(value >> 32))
    put32(p + 4, <uint32_t>value)


cdef inline int put_uvarint(unsigned char* p, uint32_t value) noexcept nogil:
    cdef int size = 0
    while value >= 0x80:
        p[size] = <unsigned char>(value | 0x80)
        value >>= 7
        size += 1
    p[size] = <unsigned char>value
    return size + 1


cdef bint write_length(Writer* w, int code, Py_ssize_t length) noexcept:
    """The length in front of a string, bytes, records or array, -1 for null; makes room for the content too, if short."""
    if length > 0x7FFFFFFE:
        return wrong(w, "longer than 2147483646")
    if not room(w, 5):
        return False
    if code >= COMPACT_STRING:
        w.pos += put_uvarint(w.data + w.pos, <uint32_t>(length + 1))
    elif code == STRING:
        put16(w.data + w.pos, <uint32_t>length)
        w.pos += 2
    else:
        put32(w.data + w.pos, <uint32_t>length)
        w.pos += 4
    return True


cdef bint write_integer(Writer* w, int code, PyObject* value) noexcept:
    cdef long long number = PyLong_AsLongLong(value)
    if number == -1 and PyErr_Occurred() != NULL:
        return wrong(w, "not an integer that fits")
    if not room(w, 8):
        return False
    if code == INT32:
        if number != <int>number:
            return wrong(w, "out of range for int32")
        put32(w.data + w.pos, <uint32_t>number)
        w.pos += 4
    elif code == INT64:
        put64(w.data + w.pos, <uint64_t>number)
        w.pos += 8
    elif code == INT16:
        if number != <short>number:
            return wrong(w, "out of range for int16")
        put16(w.data + w.pos, <uint32_t>number)
        w.pos += 2
    elif code == INT8:
        if number != <signed char>number:
            return wrong(w, "out of range for int8")
        w.data[w.pos] = <unsigned char>number
        w.pos += 1
    elif code == UINT16:
        if number < 0 or number > 0xFFFF:
            return wrong(w, "out of range for uint16")
        put16(w.data + w.pos, <uint32_t>number)
        w.pos += 2
    else:
        if number < 0 or number > 0xFFFFFFFF:
            return wrong(w, "out of range for uint32")
        put32(w.data + w.pos, <uint32_t>number)
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


cdef bint write_raw(Writer* w, PyObject* value) noexcept:
    """The bytes of a buffer, without a length. Large ones go by reference when there are parts."""
    cdef Py_buffer buffer
    cdef bint done
    if PyBytes_Check(value):
        if w.parts != NULL and PyBytes_GET_SIZE(value) >= reference_size:
            return refer(w, value, PyBytes_GET_SIZE(value))
        if not room(w, PyBytes_GET_SIZE(value)):
            return False
        memcpy(w.data + w.pos, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
        w.pos += PyBytes_GET_SIZE(value)
        return True
    try:
        PyObject_GetBuffer(<object>value, &buffer, PyBUF_SIMPLE)
    except (TypeError, BufferError):
        return wrong(w, "not a contiguous buffer")
    if w.parts != NULL and buffer.len >= reference_size and buffer.itemsize == 1:
        done = refer(w, value, buffer.len)
    else:
        done = room(w, buffer.len)
        if done:
            memcpy(w.data + w.pos, buffer.buf, buffer.len)
            w.pos += buffer.len
    PyBuffer_Release(&buffer)
    return done


cdef bint refer(Writer* w, PyObject* value, Py_ssize_t size) noexcept:
    """Add a buffer to the parts as it is, and go on in a new chunk."""
    if w.pos:
        if not end_chunk(w) or not new_chunk(w, 256):
            return False
    if PyList_Append(w.parts, value) < 0:
        return False
    w.before += size
    return True


cdef Py_ssize_t size_of(Writer* w, PyObject* value) noexcept:
    """Size of a buffer in bytes; -1 with the reason set."""
    cdef Py_buffer buffer
    if PyBytes_Check(value):
        return PyBytes_GET_SIZE(value)
    try:
        PyObject_GetBuffer(<object>value, &buffer, PyBUF_SIMPLE)
    except (TypeError, BufferError):
        wrong(w, "not a contiguous buffer")
        return -1
    PyBuffer_Release(&buffer)
    return buffer.len


cdef bint write_buffer(Writer* w, int code, PyObject* value) noexcept:
    """bytes and records. Records may be a sequence of buffers that follow each other."""
    cdef Py_ssize_t total = 0, size, k
    if not (PyList_Check(value) or PyTuple_Check(value)):
        size = size_of(w, value)
        return size >= 0 and write_length(w, code, size) and write_raw(w, value)
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


cdef bint write_array(Writer* w, Op* op, int code, PyObject* value) noexcept:
    cdef PyObject* array
    cdef Py_ssize_t count, k
    cdef bint done
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
        done = write_value(w, op, op.element, False, PySequence_Fast_GET_ITEM(array, k))
        if not done:
            w.trail.item = k
    Py_DECREF(array)
    return done


cdef bint write_value(Writer* w, Op* op, int code, bint nullable, PyObject* value) noexcept:
    """False with the trail's reason (or a Python error) set."""
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
    put64(w.data + w.pos, raw)
    w.pos += 8
    return True


cdef bint write_tag(Writer* w, Op* op, PyObject* value) noexcept:
    """Number, size and value of one tagged field. The size is known only afterwards; it mostly takes one byte."""
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
    cdef Op* op
    cdef int i
    if Py_TYPE(message) != plan.layout.type:
        return wrong(w, "an object of another class")
    for i in range(plan.count):
        op = &plan.ops[i]
        if not write_value(w, op, op.code, op.nullable, slot_of(message, op.slot)[0]):
            note(&w.trail, op.field)
            return False
    return not plan.flexible or write_tags(w, plan, message)


cdef bint write_all(Writer* w, Plan plan, PyObject* message, const unsigned char* prefix, Py_ssize_t prefix_size,
                    bint framed) noexcept:
    """Length (when framed), prefix, message. The first chunk keeps room for the length, filled in at the end."""
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
            # The first part is a chunk of our own that nobody else has seen yet.
            first = PySequence_Fast_GET_ITEM(w.parts, 0)
            put32(<unsigned char*>PyBytes_AS_STRING(first), <uint32_t>(total - 4))
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

    `records` of at least REFERENCE_SIZE bytes are in the list as they were given. `framed`: with the length of all that
    follows in front. Raises WireError.
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
