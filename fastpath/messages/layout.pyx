# cython: auto_pickle=False
"""Message objects: which attributes a class has, where they lie, and their defaults.

This file alone decides how messages are made and compared. Attributes are read and written at their byte offset in the
object. So the classes must have `__slots__`, and code that uses an offset must have checked the class by identity.
"""

from cpython.object cimport PyObject, PyTypeObject
from libc.stdlib cimport calloc, free

from fastpath.messages.capi cimport *

cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        Py_ssize_t offset

cdef extern from "descrobject.h":
    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member

cdef extern from *:
    """
    static void rayft_set_call(PyTypeObject* type, void* call) { type->tp_vectorcall = (vectorcallfunc)call; }
    """
    void rayft_set_call(PyTypeObject*, void*)


cdef class Layout:
    """The attributes of one message class.

    names: attribute names, in the order of `cls.__slots__`.
    defaults: one for each name; the type `list` stands for a new list, a Layout for a new struct with its own defaults.
    children: one for each name; the Layout of the struct type, or None.
    """

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
    """`cls(name=value, ...)`: a message with the given fields and the schema's defaults; an unknown name is a
    TypeError.

    It is a vectorcall, so no dictionary is made for the keywords: replies of many thousand objects are built this way.
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
    """The base of all message classes: equality and a short repr. Construction by keyword comes with the Layout.

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
