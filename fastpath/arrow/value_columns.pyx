"""Values in Avro's or Protobuf's encoding, or in JSON, to the buffers of typed Arrow columns (Avro 1.12; proto2 and proto3; RFC 8259).

    values, each a zero, four bytes of a schema id, and a body   ->   validity, offsets and data of each column of a tree

This file alone decides which plan reads a value, what a value may cost, and what becomes of one that is refused. How bodies are
read is in `avro_values.pyx`, `protobuf_values.pyx` and `json_values.pyx`. Rules:

1. No Python object is made for a value, and the loop holds no GIL. A schema is a plan: a flat array of nodes, which
   `actors/arrow/values/avro_plan.py`, `protobuf_plan.py` and `json_plan.py` make of the schema that a value was written with and of the one
   that is wanted. Values of several schemas fill the same columns in the order of their rows.
2. A value is read whole or not at all: columns are cut back to the rows that they had before it, which the rows and the
   offsets tell. It is then null, and its row and the reason are told.
3. What a value may cost follows from its bytes: items without bytes, nulls of wide structs, empty lists in them, defaults
   and names of enums are paid from what a byte may cost. That is as many parts as the plan has, since an honest item of one
   byte may leave all of them out, up to WIDE_MAX; beyond, as many as its encoding has a byte. Columns are given away when
   they have about OUT_MAX bytes. So no offset outgrows 32 bits.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memmove

from fastpath.arrow.avro_values cimport avro
from fastpath.arrow.json_values cimport whole_json
from fastpath.arrow.protobuf_values cimport file, name_of
from fastpath.arrow.value_work cimport *
from fastpath.bytes.byte_builder cimport Growth, Rooms, own, push_int32

import numpy as np

KINDS = {"null": K_NULL, "bool": K_BOOL, "fixed": K_FIXED, "bytes": K_BYTES, "list": K_LIST, "struct": K_STRUCT}
OPS = {
    "null": O_NULL, "boolean": O_BOOLEAN, "int": O_INT, "long": O_LONG, "float": O_FLOAT, "float wide": O_FLOAT_WIDE,
    "double": O_DOUBLE, "bytes": O_BYTES, "string": O_STRING, "fixed": O_FIXED, "fixed bytes": O_FIXED_BYTES,
    "enum": O_ENUM, "array": O_ARRAY, "map": O_MAP, "record": O_RECORD, "union": O_UNION,
    "branch": O_BRANCH, "default": O_DEFAULT, "decimal": O_DECIMAL, "decimal fixed": O_DECIMAL_FIXED,
    "refused": O_REFUSED, "skip varint": O_SKIP_VARINT, "skip bytes": O_SKIP_BYTES, "skip sized": O_SKIP_SIZED,
    "file": O_FILE, "message": O_MESSAGE, "repeated": O_REPEATED, "proto varint": P_VARINT, "proto zigzag": P_ZIGZAG,
    "proto bool": P_BOOL, "proto enum": P_ENUM, "proto fixed": P_FIXED, "proto string": P_STRING, "proto bytes": P_BYTES,
    "json object": J_OBJECT, "json array": J_ARRAY, "json map": J_MAP, "json string": J_STRING, "json long": J_LONG,
    "json double": J_DOUBLE, "json boolean": J_BOOLEAN, "json null": J_NULL, "json any": J_ANY,
    "skip array": O_SKIP_ARRAY, "skip map": O_SKIP_MAP, "skip record": O_SKIP_RECORD, "skip union": O_SKIP_UNION,
}
PLACES = {
    "int32": D_INT32, "int64": D_INT64, "float": D_FLOAT, "double": D_DOUBLE, "day ms": D_DAY_MS, "day us": D_DAY_US,
}
NO_ID, NO_SCHEMA = W_NO_ID, W_SCHEMA
REASONS = {
    W_NO_ID: "it does not begin with a schema id",
    W_SCHEMA: "its schema cannot be used",
    W_CUT: "it ends in the middle, or claims to be longer than it is",
    W_BEHIND: "bytes stand behind it",
    W_LONG: "it has a whole number of more than 64 bits",
    W_INT: "it has an int of more than 32 bits",
    W_UTF8: "it has a text that is not UTF-8",
    W_BRANCH: "it has a branch of a union that the schema has not",
    W_SYMBOL: "it has a symbol of an enum that the schema has not",
    W_BOOLEAN: "it has a boolean that is neither 0 nor 1",
    W_PARTS: "it claims more parts than its bytes may have",
    W_DECIMAL: "it has a decimal of more digits than its schema says",
    W_DAY: "it has a time of day outside of a day",
    W_WIRE: "it has a field without a number, or of a kind that is not read",
    W_MESSAGE: "it is another message of its schema than the one that is wanted",
    W_TWICE: "it has a message in several parts, which are not joined",
    W_JSON: "it is not JSON",
    W_TYPE: "it has a part of another type than its schema says",
    W_NAME: "it has an object with one name twice",
    W_NUMBER: "it has a number that no double can be",
    W_WHOLE: "it has a number that is not whole where its schema has integer",
    W_DEEP: "it is nested deeper than 512",
    W_REFUSED: "it has a branch of a union that does not fit the schema which it is read by",
}


cdef bint body(Work* w, const Node* root) noexcept nogil:
    """Read what stands behind the schema id, by the encoding that the plan is of."""
    if root.op == O_FILE:
        return file(w, root)
    if root.op >= J_OBJECT:
        return whole_json(w, root)
    return avro(w, root)


cdef class ValueColumns:
    """The columns of one schema while values fill them. The first is that of a value as a whole, and has nulls."""

    cdef Column* columns
    cdef int count
    cdef Plan* plans            # by id
    cdef int known
    cdef int64_t* found
    cdef int64_t places
    cdef Rooms rooms
    cdef object kept            # id -> what the pointers of a plan point into
    cdef object kids
    cdef Growth bad_rows, bad_whys, text
    cdef int64_t out
    cdef readonly int64_t missing

    def __cinit__(self, columns, kids):
        cdef int i
        self.count = len(columns)
        self.columns = <Column*>calloc(max(self.count, 1), sizeof(Column))
        if self.columns == NULL:
            raise MemoryError
        self.kids = np.asarray(kids, dtype=np.int32).tobytes()
        self.kept = {}
        self.rooms = Rooms()
        self.missing = -1
        self.rooms.fit(3 * self.count)
        for i in range(self.count):
            (self.columns[i].kind, self.columns[i].width, self.columns[i].nullable, self.columns[i].first,
             self.columns[i].count) = columns[i]
        for i in range(self.count):
            self.begin(i)

    cdef int begin(self, int i) except -1:
        """Give a column its memory, with nothing in it."""
        cdef Column* c = &self.columns[i]
        self.rooms.take(3 * i, &c.valid)
        self.rooms.take(3 * i + 1, &c.offsets)
        self.rooms.take(3 * i + 2, &c.data)
        c.rows = 0
        if (c.kind == K_BYTES or c.kind == K_LIST) and not push_int32(&c.offsets, 0):
            raise MemoryError
        return 0

    def __dealloc__(self):
        cdef int i
        if self.columns != NULL:
            for i in range(self.count):
                free(self.columns[i].valid.data)
                free(self.columns[i].offsets.data)
                free(self.columns[i].data.data)
        free(self.columns)
        free(self.plans)
        free(self.found)
        free(self.bad_rows.data)
        free(self.bad_whys.data)
        free(self.text.data)

    def add(self, uint32_t id, nodes, kids, table, bytes constants, int64_t parts_a_byte=16, int64_t places=0):
        cdef int64_t* found
        cdef Plan* more = <Plan*>realloc(self.plans, (self.known + 1) * sizeof(Plan))
        cdef const int32_t* name
        cdef int at = 0
        cdef int64_t i
        cdef bytes a, b, c
        if more == NULL:
            raise MemoryError
        self.plans = more
        if places > self.places:
            found = <int64_t*>realloc(self.found, places * sizeof(int64_t))
            if found == NULL:
                raise MemoryError
            self.found, self.places = found, places
        while at < self.known and more[at].id < id:
            at += 1
        if at < self.known and more[at].id == id:
            raise ValueError(f"schema {id} is known")
        a = np.asarray(nodes, dtype=np.int64).tobytes()
        b = np.asarray(kids, dtype=np.int32).tobytes()
        c = np.asarray(table, dtype=np.int32).tobytes()
        self.kept[id] = (a, b, c, constants)
        memmove(more + at + 1, more + at, (self.known - at) * sizeof(Plan))
        more[at].id = id
        more[at].nodes = <Node*>PyBytes_AS_STRING(a) if len(nodes) else NULL
        more[at].kids = <const int32_t*>PyBytes_AS_STRING(b)
        more[at].table = <const int32_t*>PyBytes_AS_STRING(c)
        more[at].constants = <const uint8_t*>PyBytes_AS_STRING(constants)
        more[at].parts_a_byte = parts_a_byte
        more[at].parts = 2 * self.count + len(constants) + len(nodes)
        for i in range(len(nodes)):
            if more[at].nodes[i].op == P_ENUM:  # one that is not there has the name of zero
                name = name_of(&more[at], &more[at].nodes[i], 0)
                more[at].parts += name[1] // PART_BYTES if name != NULL else 0
        self.known += 1

    def forget(self, uint32_t id):
        cdef int at = 0
        while at < self.known and self.plans[at].id != id:
            at += 1
        if at < self.known:
            self.known -= 1
            memmove(self.plans + at, self.plans + at + 1, (self.known - at) * sizeof(Plan))
            del self.kept[id]

    cdef const Plan* plan_of(self, uint32_t id) noexcept nogil:
        cdef int low = 0, high = self.known, middle
        while low < high:
            middle = (low + high) // 2
            if self.plans[middle].id < id:
                low = middle + 1
            else:
                high = middle
        return &self.plans[low] if low < self.known and self.plans[low].id == id else NULL

    def decode(self, const int32_t[::1] offsets, const uint8_t[::1] data, const uint8_t[::1] present, int64_t first,
               int64_t end, bint has_guids=False):
        cdef int64_t row = first, size, parts, rows
        cdef const uint8_t* start = &data[0] if data.shape[0] else NULL
        cdef const uint8_t* value
        cdef uint32_t id
        cdef const Plan* plan = NULL
        cdef bint is_done
        cdef Work w
        if end < first or first < 0 or end >= offsets.shape[0] or present is not None and end > present.shape[0]:
            raise ValueError("rows outside of the buffers")
        w.columns = self.columns
        w.found = self.found
        w.text = &self.text
        w.column_kids = <const int32_t*>PyBytes_AS_STRING(self.kids)
        w.why = W_NONE
        self.missing = -1
        with nogil:
            while row < end and self.out < OUT_MAX:
                rows = self.columns[0].rows
                w.left = 2 * self.count
                if present is not None and not present[row]:
                    self.out += self.count * PART_BYTES
                    if not nothing(&w, 0):
                        break
                    row += 1
                    continue
                if offsets[row] < 0 or offsets[row + 1] < offsets[row] or offsets[row + 1] > data.shape[0]:
                    break
                value = start + offsets[row]
                size = offsets[row + 1] - offsets[row]
                w.why = W_NONE
                is_done = False
                if size < PREFIX or value[0] != 0 or value[1] & 0x80 and not has_guids:
                    w.why = W_NO_ID
                else:
                    id = (<uint32_t>value[1] << 24) | (<uint32_t>value[2] << 16) | (<uint32_t>value[3] << 8) | value[4]
                    if plan == NULL or plan.id != id:
                        plan = self.plan_of(id)
                        if plan == NULL:
                            self.missing = id
                            break
                    if plan.nodes == NULL:
                        w.why = W_SCHEMA
                    else:
                        w.plan = plan
                        w.start = value
                        w.at, w.end = value + PREFIX, value + size
                        parts = max(plan.parts_a_byte * size, min(plan.parts * size, WIDE_MAX))
                        parts = min(parts, PARTS_MAX) + plan.parts
                        w.left = parts
                        is_done = body(&w, plan.nodes)
                        if is_done and w.at != w.end:
                            w.why = W_BEHIND
                            is_done = False
                        self.out += size + (parts - w.left) * PART_BYTES
                if not is_done:
                    if w.why == W_MEMORY:
                        break
                    cut(&w, 0, rows)
                    w.left = 2 * self.count
                    self.out += self.count * PART_BYTES
                    if not (push_int32(&self.bad_rows, <int32_t>row) and push_int32(&self.bad_whys, w.why)
                            and nothing(&w, 0)):
                        w.why = W_MEMORY
                        break
                row += 1
        if w.why == W_MEMORY:
            raise MemoryError
        return row

    def taken(self):
        cdef int i
        cdef Column* c
        found = []
        for i in range(self.count):
            c = &self.columns[i]
            rows = c.rows
            found.append((
                rows,
                own(&c.valid, self.rooms, 3 * i) if c.nullable else None,
                own(&c.offsets, self.rooms, 3 * i + 1) if c.kind == K_BYTES or c.kind == K_LIST else None,
                own(&c.data, self.rooms, 3 * i + 2) if c.kind != K_LIST and c.kind != K_STRUCT else None,
            ))
        for i in range(self.count):
            self.begin(i)
        bad = np.frombuffer(own(&self.bad_rows), dtype=np.int32), np.frombuffer(own(&self.bad_whys), dtype=np.int32)
        self.out = 0
        return found, *bad
