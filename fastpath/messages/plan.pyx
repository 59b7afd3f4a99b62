# cython: auto_pickle=False
"""Plans: the bytes of one version of a message, as operations that `decoder` and `encoder` run.

This file alone decides which wire forms there are and what a failure looks like. It knows no message: `actors.wire`
gives a `Layout` (the attributes of a class) and a `Plan` (the fields of one version, in order).

Rules of both directions:

1. No Python code runs between two fields.
2. Nothing is allocated for a claimed length: a count is first compared with the number of bytes left.
3. A failure leaves as one `WireError` that names message, field and byte position, however deep it happened.

Source: Kafka's protocol guide, KIP-482 (flexible versions, tagged fields).
"""

from libc.stdlib cimport calloc, free

from fastpath.messages.capi cimport *
from fastpath.messages.layout cimport Layout

FIXED = {"bool": BOOL, "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32,
         "int64": INT64, "float64": FLOAT64, "uuid": UUID, "struct": STRUCT}
PLAIN = {**FIXED, "string": STRING, "bytes": BYTES, "records": RECORDS, "array": ARRAY}
COMPACT = {**FIXED, "string": COMPACT_STRING, "bytes": COMPACT_BYTES, "records": COMPACT_RECORDS,
           "array": COMPACT_ARRAY}

LEAST = (1, 1, 2, 2, 4, 4, 8, 8, 16, 0, 2, 4, 4, 4, 1, 1, 1, 1)
"""Smallest size of each wire form in bytes, by its number. That of a struct depends on its fields."""


class WireError(ValueError):
    """Bytes that are not such a message, or a message that cannot be encoded.

    `path` names the field (`FetchResponse.responses[2].topic`), `position` the byte in the buffer (being read or being
    written), `reason` what is wrong there.
    """

    def __init__(self, path: str, reason: str, position: int) -> None:
        super().__init__(f"{path}: {reason} (at byte {position})")
        self.path = path
        self.reason = reason
        self.position = position

    def __reduce__(self):
        return type(self), (self.path, self.reason, self.position)


class TooManyEntries(WireError):
    """A message with more entries than its reader allows."""


cdef class Plan:
    """The bytes of one version of one struct.

    fields and tags: tuples (code, element code or -1, nullable, field index, tag or 0, child Plan or None), in the order
    of the wire; tags ascending.
    """

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
            # Kafka writes null as -1, but inside a tag as a variable-length 0.
            self.data.tags[i].absent = 0
        known = {step[3] for step in fields} | {step[3] for step in tags}
        for i in range(layout.data.count):
            if i not in known:
                self.data.absent[self.data.absent_count] = i
                self.data.absent_count += 1
        self.least = self.data.least
        self.hint = 64

    cdef Py_ssize_t fill(self, Op* op, tuple step) except -1:
        """Fill one operation. Returns its smallest size in bytes."""
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


cdef void note(Trail* trail, int field) noexcept:
    """Add the field, and the index in its array if there is one, to the path of a failure."""
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
