"""Values in Avro's or Protobuf's encoding, or in JSON, to the buffers of typed Arrow columns (Avro 1.12; proto2 and proto3; RFC 8259).

    values, each a zero, four bytes of a schema id, and a body   ->   validity, offsets and data of each column of a tree

This file alone decides how a body is read and when it is refused. Rules:

1. No Python object is made for a value, and the loop holds no GIL. A schema is a plan: a flat array of nodes, which
   `actors/arrow/values/avro_plan.py`, `protobuf_plan.py` and `json_plan.py` make of the schema that a value was written with and of the one
   that is wanted. Values of several schemas fill the same columns in the order of their rows.
2. A value is read whole or not at all: columns are cut back to the rows that they had before it, which the rows and the
   offsets tell. It is then null, and its row and the reason are told.
   A message of Protobuf is gone through first, to find where its fields stand, since they come in any order and the last one
   counts; then its columns are filled in their order. An object of JSON fills the column of a field when it comes, and those
   that did not come with null; a name that comes twice is refused, since readers differ in what it means.
3. What a value may cost follows from its bytes: items without bytes, nulls of wide structs, empty lists in them, defaults
   and names of enums are paid from what a byte may cost. That is as many parts as the plan has, since an honest item of one
   byte may leave all of them out, up to WIDE_MAX; beyond, as many as its encoding has a byte. Columns are given away when
   they have about OUT_MAX bytes. So no offset outgrows 32 bits.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

from fastpath.bytes.byte_builder cimport Growth, Rooms, extend_by, own, push_int32

import numpy as np

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, object overflow) except? -1.0

cdef enum:
    PREFIX = 5
    PARTS_MAX = 1 << 26
    WIDE_MAX = 1 << 24
    OUT_MAX = 64 << 20
    PART_BYTES = 8
    DEEP_MAX = 512      # how deep arrays and objects of JSON may be in one another
    DIGITS_MAX = 1100   # of a number of JSON: no double has more that count

cdef enum:  # how the values of a column lie
    K_NULL, K_BOOL, K_FIXED, K_BYTES, K_LIST, K_STRUCT

cdef enum:  # what a node does
    O_NULL, O_BOOLEAN, O_INT, O_LONG, O_FLOAT, O_FLOAT_WIDE, O_DOUBLE, O_BYTES, O_STRING, O_FIXED, O_FIXED_BYTES
    O_ENUM, O_ARRAY, O_MAP, O_RECORD, O_UNION, O_BRANCH, O_DEFAULT, O_DECIMAL, O_DECIMAL_FIXED, O_REFUSED
    O_SKIP_VARINT, O_SKIP_BYTES, O_SKIP_SIZED, O_SKIP_ARRAY, O_SKIP_MAP, O_SKIP_RECORD, O_SKIP_UNION
    O_FILE, O_MESSAGE, O_REPEATED, P_VARINT, P_ZIGZAG, P_BOOL, P_ENUM, P_FIXED, P_STRING, P_BYTES
    J_OBJECT, J_ARRAY, J_MAP, J_STRING, J_LONG, J_DOUBLE, J_BOOLEAN, J_NULL, J_ANY

cdef enum:  # where a whole number goes
    D_INT32, D_INT64, D_FLOAT, D_DOUBLE, D_DAY_MS, D_DAY_US

cdef enum:  # why a value is refused
    W_NONE, W_NO_ID, W_SCHEMA, W_CUT, W_BEHIND, W_LONG, W_INT, W_UTF8, W_BRANCH, W_SYMBOL, W_BOOLEAN, W_PARTS, W_DECIMAL
    W_DAY, W_REFUSED, W_WIRE, W_MESSAGE, W_TWICE, W_JSON, W_TYPE, W_NAME, W_NUMBER, W_WHOLE, W_DEEP, W_MEMORY

cdef enum:  # what is known of a field of a message: its first place in `table`, after that of its positions
    S_NUMBER, S_WIRE, S_PRESENCE, S_PACKED, S_ONEOF, SLOT

cdef enum:  # wire types
    VARINT, FIXED64, SIZED, FIXED32 = 5

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

cdef struct Node:
    int64_t op
    int64_t column      # which is filled; -1: none
    int64_t first       # of its children in `kids`
    int64_t count       # of its children
    int64_t size        # bytes of a fixed, symbols of an enum, where a number goes, bytes of a default
    int64_t at          # its first symbol in `table`; its first byte in `constants`

cdef struct Column:
    int kind
    int width           # bytes of a value
    bint nullable
    int first           # of its children in `column_kids`
    int count
    int64_t rows
    Growth valid        # a byte a row
    Growth offsets      # int32, one more than there are rows
    Growth data

cdef struct Plan:
    uint32_t id
    Node* nodes         # the first is the root; NULL: the schema cannot be used
    const int32_t* kids
    const int32_t* table
    const uint8_t* constants
    int64_t parts       # that each value has beside those of its bytes, and a byte may cost up to WIDE_MAX
    int64_t parts_a_byte

cdef struct Work:
    const Plan* plan
    Column* columns
    const int32_t* column_kids
    int64_t* found      # where fields of messages stand: two places each, from 1 on; 0: it is not there
    const uint8_t* start
    const uint8_t* at
    const uint8_t* end
    int64_t left        # parts that the value may still have
    Growth* text        # for texts of JSON with escapes
    int why


cdef inline bint failed(Work* w, int why) noexcept nogil:
    w.why = why
    return False


cdef inline bint push_byte(Growth* g, uint8_t value) noexcept nogil:
    cdef uint8_t* place = extend_by(g, 1)
    if place == NULL:
        return False
    place[0] = value
    return True


cdef inline bint valid(Work* w, Column* c) noexcept nogil:
    """One more row, which is not null."""
    c.rows += 1
    if c.nullable and not push_byte(&c.valid, 1):
        return failed(w, W_MEMORY)
    return True


cdef inline uint8_t* fixed(Work* w, Column* c) noexcept nogil:
    """The memory of one more value of fixed width; NULL: there is none."""
    cdef uint8_t* place
    if not valid(w, c):
        return NULL
    place = extend_by(&c.data, c.width)
    if place == NULL:
        w.why = W_MEMORY
    return place


cdef bint nothing(Work* w, int column) noexcept nogil:
    """One more row, which is null; where a column has no nulls, it is empty and stands below a null."""
    cdef Column* c = &w.columns[column]
    cdef uint8_t* place
    cdef int32_t last
    cdef int i
    w.left -= 1
    if w.left < 0:
        return failed(w, W_PARTS)
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


cdef inline bint paid(Work* w) noexcept nogil:
    """Pay for a part that has no bytes of its own."""
    w.left -= 1
    if w.left < 0:
        return failed(w, W_PARTS)
    return True


cdef inline bint plain(Work* w, uint64_t* out) noexcept nogil:
    """The next whole number without a sign, as in Protobuf: in at most ten bytes."""
    cdef const uint8_t* at = w.at
    cdef uint64_t found = 0, byte
    cdef int shift = 0
    while at < w.end:
        byte = at[0]
        at += 1
        if shift == 63 and byte > 1:
            return failed(w, W_LONG)
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            w.at = at
            out[0] = found
            return True
        shift += 7
    return failed(w, W_CUT)


cdef inline bint varint(Work* w, int64_t* out) noexcept nogil:
    """The next whole number of Avro: zigzag."""
    cdef uint64_t found
    if not plain(w, &found):
        return False
    out[0] = <int64_t>(found >> 1) ^ -<int64_t>(found & 1)
    return True


cdef inline bint sized(Work* w, const uint8_t** data, int64_t* size) noexcept nogil:
    """The next bytes that have their length in front."""
    if not varint(w, size):
        return False
    if size[0] < 0 or size[0] > w.end - w.at:
        return failed(w, W_CUT)
    data[0] = w.at
    w.at += size[0]
    return True


cdef bint is_text(const uint8_t* at, int64_t size) noexcept nogil:
    """Whether bytes are UTF-8."""
    cdef const uint8_t* end = at + size
    cdef uint64_t eight
    cdef uint8_t byte, low, high
    cdef int more
    while at < end:
        if end - at >= 8:
            memcpy(&eight, at, 8)
            if not eight & <uint64_t>0x8080808080808080:
                at += 8
                continue
        byte = at[0]
        at += 1
        if byte < 0x80:
            continue
        if byte < 0xC2 or byte > 0xF4:
            return False
        more = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
        if end - at < more:
            return False
        low = 0xA0 if byte == 0xE0 else 0x90 if byte == 0xF0 else 0x80
        high = 0x9F if byte == 0xED else 0x8F if byte == 0xF4 else 0xBF
        if at[0] < low or at[0] > high:
            return False
        if more > 1 and (at[1] & 0xC0) != 0x80 or more > 2 and (at[2] & 0xC0) != 0x80:
            return False
        at += more
    return True


cdef inline bint put_bytes(Work* w, Column* c, const uint8_t* data, int64_t size) noexcept nogil:
    """One more value of any length."""
    cdef uint8_t* place
    if not valid(w, c):
        return False
    place = extend_by(&c.data, size)
    if place == NULL:
        return failed(w, W_MEMORY)
    memcpy(place, data, size)
    if not push_int32(&c.offsets, <int32_t>c.data.size):
        return failed(w, W_MEMORY)
    return True


cdef inline bint put_number(Work* w, Column* c, int64_t number, int64_t where) noexcept nogil:
    """One more whole number, or what becomes of one."""
    cdef uint8_t* place
    cdef int64_t day = 86_400_000
    if where == D_DAY_US:
        day *= 1000
    if (where == D_DAY_MS or where == D_DAY_US) and (number < 0 or number >= day):
        return failed(w, W_DAY)
    place = fixed(w, c)
    if place == NULL:
        return False
    if where == D_INT64 or where == D_DAY_US:
        (<int64_t*>place)[0] = number
    elif where == D_INT32 or where == D_DAY_MS:
        (<int32_t*>place)[0] = <int32_t>number
    elif where == D_FLOAT:
        (<float*>place)[0] = <float>number
    else:
        (<double*>place)[0] = <double>number
    return True


cdef bint put_decimal(Work* w, Column* c, const uint8_t* data, int64_t size, const uint8_t* limit) noexcept nogil:
    """One more decimal of a number that is written from its highest byte on. `limit`: ten to the power of its digits, 32
    bytes from the lowest on."""
    cdef uint8_t number[32]
    cdef uint8_t positive[32]
    cdef uint8_t sign = 0xFF if size and data[0] & 0x80 else 0
    cdef int64_t i
    cdef int carry = 1
    cdef uint8_t* place
    memset(number, sign, 32)
    for i in range(size):
        if i < 32:
            number[i] = data[size - 1 - i]
        elif data[size - 1 - i] != sign:
            return failed(w, W_DECIMAL)
    if number[31] & 0x80 != sign & 0x80:
        return failed(w, W_DECIMAL)
    for i in range(32):
        positive[i] = number[i]
        if sign:
            carry += number[i] ^ 0xFF
            positive[i] = carry & 0xFF
            carry >>= 8
    i = 31
    while i >= 0 and positive[i] == limit[i]:
        i -= 1
    if i < 0 or positive[i] > limit[i]:
        return failed(w, W_DECIMAL)
    place = fixed(w, c)
    if place == NULL:
        return False
    memcpy(place, number, c.width)
    return True


cdef bint items(Work* w, const Node* node, bint keyed) noexcept nogil:
    """The items of an array or a map, up to their end."""
    cdef int64_t count, bytes_of
    cdef const uint8_t* name
    cdef const uint8_t* before
    cdef int64_t size
    cdef Column* keys = NULL
    cdef Column* entries = NULL
    cdef const Node* item = &w.plan.nodes[w.plan.kids[node.first]]
    cdef bint kept = node.column >= 0
    if keyed and kept:
        entries = &w.columns[w.column_kids[w.columns[node.column].first]]
        keys = &w.columns[w.column_kids[entries.first]]
    while True:
        if not varint(w, &count):
            return False
        if count == 0:
            return True
        if count < 0:
            if count == (<int64_t>1 << 63):
                return failed(w, W_PARTS)
            count = -count
            if not varint(w, &bytes_of):
                return False
        while count:
            count -= 1
            before = w.at
            if keyed:
                if not sized(w, &name, &size):
                    return False
                if kept:
                    if not is_text(name, size):
                        return failed(w, W_UTF8)
                    entries.rows += 1
                    if not put_bytes(w, keys, name, size):
                        return False
            if not read(w, item):
                return False
            if w.at == before:
                w.left -= 1
                if w.left < 0:
                    return failed(w, W_PARTS)


cdef bint read(Work* w, const Node* node) noexcept nogil:
    """Read one value into its column."""
    cdef const Plan* plan = w.plan
    cdef int64_t op = node.op, number, i
    cdef const uint8_t* data
    cdef const uint8_t* end
    cdef uint8_t* place
    cdef float narrow
    cdef Column* c = NULL
    if node.column >= 0:
        c = &w.columns[node.column]
    if op == O_LONG:
        return varint(w, &number) and put_number(w, c, number, node.size)
    elif op == O_INT:
        if not varint(w, &number):
            return False
        if number != <int32_t>number:
            return failed(w, W_INT)
        return put_number(w, c, number, node.size)
    elif op == O_STRING:
        if not sized(w, &data, &number):
            return False
        if not is_text(data, number):
            return failed(w, W_UTF8)
        return put_bytes(w, c, data, number)
    elif op == O_BYTES:
        return sized(w, &data, &number) and put_bytes(w, c, data, number)
    elif op == O_UNION:
        if not varint(w, &number):
            return False
        if number < 0 or number >= node.count:
            return failed(w, W_BRANCH)
        return read(w, &plan.nodes[plan.kids[node.first + number]])
    elif op == O_RECORD:
        if not valid(w, c) or not node.count and not paid(w):
            return False
        for i in range(node.count):
            if not read(w, &plan.nodes[plan.kids[node.first + i]]):
                return False
        return True
    elif op == O_NULL:
        return nothing(w, <int>node.column)
    elif op == O_BOOLEAN:
        if w.at == w.end:
            return failed(w, W_CUT)
        if w.at[0] > 1:
            return failed(w, W_BOOLEAN)
        place = fixed(w, c)
        if place == NULL:
            return False
        place[0] = w.at[0]
        w.at += 1
        return True
    elif op == O_DOUBLE or op == O_FLOAT or op == O_FIXED or op == O_FLOAT_WIDE:
        number = 4 if op == O_FLOAT_WIDE else c.width
        if w.end - w.at < number:
            return failed(w, W_CUT)
        place = fixed(w, c)
        if place == NULL:
            return False
        if op == O_FLOAT_WIDE:
            memcpy(&narrow, w.at, 4)
            (<double*>place)[0] = narrow
        else:
            memcpy(place, w.at, number)
        w.at += number
        return True
    elif op == O_FIXED_BYTES:
        if w.end - w.at < node.size:
            return failed(w, W_CUT)
        if not node.size and not paid(w):
            return False
        w.at += node.size
        return put_bytes(w, c, w.at - node.size, node.size)
    elif op == O_ENUM:
        if not varint(w, &number):
            return False
        if number < 0 or number >= node.size or plan.table[node.at + number] < 0:
            return failed(w, W_SYMBOL)
        return put_number(w, c, plan.table[node.at + number], D_INT32)
    elif op == O_ARRAY or op == O_MAP:
        if not items(w, node, op == O_MAP):
            return False
        if not valid(w, c):
            return False
        if not push_int32(&c.offsets, <int32_t>w.columns[w.column_kids[c.first]].rows):
            return failed(w, W_MEMORY)
        return True
    elif op == O_BRANCH:
        if not valid(w, c):
            return False
        for i in range(c.count):
            if i == node.size:
                if not read(w, &plan.nodes[plan.kids[node.first]]):
                    return False
            elif not nothing(w, w.column_kids[c.first + i]):
                return False
        return True
    elif op == O_DEFAULT:
        w.left -= 1 + node.size // PART_BYTES
        if w.left < 0:
            return failed(w, W_PARTS)
        data, end = w.at, w.end
        w.at, w.end = plan.constants + node.at, plan.constants + node.at + node.size
        if not read(w, &plan.nodes[plan.kids[node.first]]):
            return False
        w.at, w.end = data, end
        return True
    elif op == O_DECIMAL:
        return sized(w, &data, &number) and put_decimal(w, c, data, number, plan.constants + node.at)
    elif op == O_DECIMAL_FIXED:
        if w.end - w.at < node.size:
            return failed(w, W_CUT)
        w.at += node.size
        return put_decimal(w, c, w.at - node.size, node.size, plan.constants + node.at)
    elif op == O_SKIP_VARINT:
        return varint(w, &number)
    elif op == O_SKIP_BYTES:
        if w.end - w.at < node.size:
            return failed(w, W_CUT)
        w.at += node.size
        return node.size > 0 or paid(w)
    elif op == O_SKIP_SIZED:
        return sized(w, &data, &number)
    elif op == O_SKIP_ARRAY or op == O_SKIP_MAP:
        return items(w, node, op == O_SKIP_MAP)
    elif op == O_SKIP_RECORD:
        if not node.count and not paid(w):
            return False
        for i in range(node.count):
            if not read(w, &plan.nodes[plan.kids[node.first + i]]):
                return False
        return True
    elif op == O_SKIP_UNION:
        if not varint(w, &number):
            return False
        if number < 0 or number >= node.count:
            return failed(w, W_BRANCH)
        return read(w, &plan.nodes[plan.kids[node.first + number]])
    elif op == O_FILE:
        return file(w, node)
    elif op >= J_OBJECT:
        return whole_json(w, node)
    return failed(w, W_REFUSED)


# ---- JSON

cdef uint8_t[4] LEADS = [0, 0xC0, 0xE0, 0xF0]
"""What the first byte of a character of one to four bytes has beside its bits."""
cdef double[17] TENS = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16]


cdef inline bint space(Work* w) noexcept nogil:
    """Pass over white space. Returns whether something stands behind it."""
    while w.at < w.end and (w.at[0] == 32 or w.at[0] == 10 or w.at[0] == 13 or w.at[0] == 9):
        w.at += 1
    return w.at < w.end or failed(w, W_JSON)


cdef inline bint sign(Work* w, uint8_t wanted) noexcept nogil:
    """Pass over white space and one character."""
    if not space(w):
        return False
    if w.at[0] != wanted:
        return failed(w, W_JSON)
    w.at += 1
    return True


cdef inline int another(Work* w, uint8_t last) noexcept nogil:
    """Whether another item stands behind a comma (1), or the array or object is over (0); -1: neither."""
    cdef uint8_t found
    if not space(w):
        return -1
    found = w.at[0]
    w.at += 1
    if found == 44:
        return 1
    if found == last:
        return 0
    failed(w, W_JSON)
    return -1


cdef int32_t hexadecimal(Work* w) noexcept nogil:
    """The next four digits; -1: they are none."""
    cdef int32_t found = 0, digit
    cdef int i
    if w.end - w.at < 4:
        return -1
    for i in range(4):
        digit = w.at[i] | 0x20
        if 48 <= w.at[i] <= 57:
            digit = w.at[i] - 48
        elif 97 <= digit <= 102:
            digit -= 87
        else:
            return -1
        found = found << 4 | digit
    w.at += 4
    return found


cdef bint escaped(Work* w) noexcept nogil:
    """Take what stands behind a backslash into the text."""
    cdef int32_t code, low
    cdef int more, i
    cdef uint8_t kind
    cdef uint8_t* place
    if w.at >= w.end:
        return failed(w, W_JSON)
    kind = w.at[0]
    w.at += 1
    if kind != 117:
        code = (
            kind if kind == 34 or kind == 47 or kind == 92 else 8 if kind == 98 else 9 if kind == 116 else
            10 if kind == 110 else 12 if kind == 102 else 13 if kind == 114 else -1
        )
        if code < 0:
            return failed(w, W_JSON)
        return push_byte(w.text, <uint8_t>code) or failed(w, W_MEMORY)
    code = hexadecimal(w)
    if code < 0:
        return failed(w, W_JSON)
    if 0xD800 <= code < 0xE000:
        if code >= 0xDC00 or w.end - w.at < 6 or w.at[0] != 92 or w.at[1] != 117:
            return failed(w, W_UTF8)
        w.at += 2
        low = hexadecimal(w)
        if low < 0xDC00 or low > 0xDFFF:
            return failed(w, W_UTF8)
        code = 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00
    more = 0 if code < 0x80 else 1 if code < 0x800 else 2 if code < 0x10000 else 3
    place = extend_by(w.text, more + 1)
    if place == NULL:
        return failed(w, W_MEMORY)
    for i in range(more, 0, -1):
        place[i] = 0x80 | code & 0x3F
        code >>= 6
    place[0] = <uint8_t>(code | LEADS[more])
    return True


cdef bint quoted(Work* w, const uint8_t** data, int64_t* size) noexcept nogil:
    """The text whose first quote was passed. It may be in memory that the next one with escapes takes."""
    cdef const uint8_t* start = w.at
    cdef uint8_t* place
    cdef bint is_plain = True
    cdef uint8_t byte
    w.text.size = 0
    while True:
        if w.at >= w.end:
            return failed(w, W_JSON)
        byte = w.at[0]
        if byte < 32:
            return failed(w, W_JSON)
        if byte != 34 and byte != 92:
            w.at += 1
            continue
        if not (is_plain and byte == 34):
            size[0] = w.at - start
            if not is_text(start, size[0]):
                return failed(w, W_UTF8)
            place = extend_by(w.text, size[0])
            if place == NULL:
                return failed(w, W_MEMORY)
            memcpy(place, start, size[0])
        w.at += 1
        if byte == 34:
            break
        is_plain = False
        if not escaped(w):
            return False
        start = w.at
    if is_plain:
        data[0], size[0] = start, w.at - 1 - start
        return is_text(start, size[0]) or failed(w, W_UTF8)
    data[0], size[0] = w.text.data, w.text.size
    return True


cdef bint word(Work* w, const char* wanted, int64_t size) noexcept nogil:
    """Pass over true, false or null."""
    if w.end - w.at < size or memcmp(w.at, wanted, size) != 0:
        return failed(w, W_JSON)
    w.at += size
    return True


cdef bint number_ends(Work* w, bint* is_whole) noexcept nogil:
    """Pass over a number. `is_whole`: whether it has digits and a sign alone."""
    is_whole[0] = True
    if w.at < w.end and w.at[0] == 45:
        w.at += 1
    if w.at >= w.end or not 48 <= w.at[0] <= 57:
        return failed(w, W_JSON)
    if w.at[0] == 48:
        w.at += 1
    else:
        digits(w)
    if w.at < w.end and w.at[0] == 46:
        is_whole[0] = False
        w.at += 1
        if not digits(w):
            return failed(w, W_JSON)
    if w.at < w.end and (w.at[0] | 0x20) == 101:
        is_whole[0] = False
        w.at += 1
        if w.at < w.end and (w.at[0] == 43 or w.at[0] == 45):
            w.at += 1
        if not digits(w):
            return failed(w, W_JSON)
    return True


cdef inline bint digits(Work* w) noexcept nogil:
    """Pass over digits. Returns whether there are any."""
    cdef const uint8_t* start = w.at
    while w.at < w.end and 48 <= w.at[0] <= 57:
        w.at += 1
    return w.at > start


cdef bint as_double(Work* w, const uint8_t* start, double* out) noexcept nogil:
    """The number from `start` to where the value is: the double that is next to it."""
    cdef const uint8_t* at = start
    cdef int64_t size = w.at - start, found = 0, behind = 0
    cdef bint is_exact = size <= 16, is_negative = at[0] == 45
    cdef uint8_t* place
    if is_negative:
        at += 1
    while is_exact and at < w.at and at[0] != 101 and at[0] != 69:
        if at[0] == 46:
            behind = w.at - at - 1
        else:
            found = found * 10 + at[0] - 48
        at += 1
    if is_exact and at == w.at and behind <= 16:  # two doubles that are exact, of which the quotient is rounded once
        out[0] = <double>found / TENS[behind]
        if is_negative:
            out[0] = -out[0]
        return True
    if size > DIGITS_MAX:
        return failed(w, W_NUMBER)
    w.text.size = 0
    place = extend_by(w.text, size + 1)
    if place == NULL:
        return failed(w, W_MEMORY)
    memcpy(place, start, size)
    place[size] = 0
    with gil:
        out[0] = read_double(<const char*>place)
    if out[0] - out[0] != 0:
        return failed(w, W_NUMBER)
    return True


cdef double read_double(const char* text) noexcept:
    """The double of a number that is one."""
    try:
        return PyOS_string_to_double(text, NULL, OverflowError)
    except OverflowError:
        return float("inf")


cdef bint as_long(Work* w, const uint8_t* start, bint is_whole, int64_t* out) noexcept nogil:
    """The whole number from `start` to where the value is."""
    cdef const uint8_t* at = start
    cdef uint64_t found = 0, digit, limit = <uint64_t>1 << 63
    cdef bint is_negative = at[0] == 45
    cdef double number
    if not is_whole:
        if not as_double(w, start, &number):
            return False
        if number <= -9007199254740992.0 or number >= 9007199254740992.0 or number != <double><int64_t>number:
            return failed(w, W_WHOLE)
        out[0] = <int64_t>number
        return True
    if is_negative:
        at += 1
    else:
        limit -= 1
    while at < w.at:
        digit = at[0] - 48
        if found > (limit - digit) // 10:
            return failed(w, W_LONG)
        found = found * 10 + digit
        at += 1
    out[0] = <int64_t>(<uint64_t>0 - found) if is_negative else <int64_t>found
    return True


cdef bint pass_over(Work* w) noexcept nogil:
    """Pass over any value, which has to be JSON."""
    cdef uint8_t is_object[DEEP_MAX]
    cdef int depth = 0, more
    cdef bint is_whole
    cdef const uint8_t* data
    cdef int64_t size
    while True:
        if not space(w):
            return False
        if w.at[0] == 123 or w.at[0] == 91:
            if depth == DEEP_MAX:
                return failed(w, W_DEEP)
            is_object[depth] = w.at[0] == 123
            depth += 1
            w.at += 1
            if not space(w):
                return False
            if w.at[0] != (125 if is_object[depth - 1] else 93):
                if is_object[depth - 1] and not (sign(w, 34) and quoted(w, &data, &size) and sign(w, 58)):
                    return False
                continue
            w.at += 1
            depth -= 1
        elif w.at[0] == 34:
            w.at += 1
            if not quoted(w, &data, &size):
                return False
        elif w.at[0] == 116:
            if not word(w, b"true", 4):
                return False
        elif w.at[0] == 102:
            if not word(w, b"false", 5):
                return False
        elif w.at[0] == 110:
            if not word(w, b"null", 4):
                return False
        elif not number_ends(w, &is_whole):
            return False
        while True:
            if depth == 0:
                return True
            more = another(w, 125 if is_object[depth - 1] else 93)
            if more < 0:
                return False
            if more:
                if is_object[depth - 1] and not (sign(w, 34) and quoted(w, &data, &size) and sign(w, 58)):
                    return False
                break
            depth -= 1


cdef bint whole_json(Work* w, const Node* node) noexcept nogil:
    """A value as a whole, with the white space around it."""
    if not json(w, node):
        return False
    while w.at < w.end and (w.at[0] == 32 or w.at[0] == 10 or w.at[0] == 13 or w.at[0] == 9):
        w.at += 1
    return True


cdef bint json(Work* w, const Node* node) noexcept nogil:
    """One value of JSON into its column."""
    cdef Column* c = &w.columns[node.column]
    cdef int64_t op = node.op, number
    cdef const uint8_t* start
    cdef uint8_t* place
    cdef bint is_whole
    cdef double real
    if not space(w):
        return False
    start = w.at
    if start[0] == 110:
        return word(w, b"null", 4) and nothing(w, <int>node.column)
    if op == J_STRING:
        if start[0] != 34:
            return other(w)
        w.at += 1
        return quoted(w, &start, &number) and put_bytes(w, c, start, number)
    elif op == J_LONG or op == J_DOUBLE:
        if start[0] != 45 and not 48 <= start[0] <= 57:
            return other(w)
        if not number_ends(w, &is_whole):
            return False
        if op == J_LONG:
            return as_long(w, start, is_whole, &number) and put_number(w, c, number, D_INT64)
        if not as_double(w, start, &real):
            return False
        place = fixed(w, c)
        if place == NULL:
            return False
        memcpy(place, &real, 8)
        return True
    elif op == J_OBJECT:
        return object_(w, node) if start[0] == 123 else other(w)
    elif op == J_ARRAY or op == J_MAP:
        return listed(w, node) if start[0] == (91 if op == J_ARRAY else 123) else other(w)
    elif op == J_BOOLEAN:
        if start[0] != 116 and start[0] != 102:
            return other(w)
        if not (word(w, b"true", 4) if start[0] == 116 else word(w, b"false", 5)):
            return False
        place = fixed(w, c)
        if place == NULL:
            return False
        place[0] = start[0] == 116
        return True
    elif op == J_ANY:
        return pass_over(w) and put_bytes(w, c, start, w.at - start)
    return other(w)


cdef bint other(Work* w) noexcept nogil:
    """Say that a value is of another type, if it is one."""
    return pass_over(w) and failed(w, W_TYPE)


cdef int64_t named(const Plan* plan, const Node* node, int64_t guess, const uint8_t* name, int64_t size) noexcept nogil:
    """The place of a field of an object; -1: the schema has none of that name. In `table` are, for each field, where its name
    is in `constants` and how long; and behind those the fields in the order of their names."""
    cdef const int32_t* names = plan.table + node.at
    cdef const int32_t* sorted_ = names + 2 * node.count
    cdef int64_t low = 0, high = node.count, middle, i
    cdef int order
    if guess < node.count and names[2 * guess + 1] == size and not memcmp(plan.constants + names[2 * guess], name, size):
        return guess
    while low < high:
        middle = (low + high) // 2
        i = sorted_[middle]
        order = memcmp(plan.constants + names[2 * i], name, min(<int64_t>names[2 * i + 1], size))
        if order == 0 and names[2 * i + 1] == size:
            return i
        if order < 0 or order == 0 and names[2 * i + 1] < size:
            low = middle + 1
        else:
            high = middle
    return -1


cdef bint object_(Work* w, const Node* node) noexcept nogil:
    """An object whose fields are columns."""
    cdef int64_t* seen = w.found + node.size
    cdef const uint8_t* name
    cdef int64_t size, i, guess = 0
    cdef int more
    if not valid(w, &w.columns[node.column]):
        return False
    for i in range(node.count):
        seen[i] = 0
    w.at += 1
    if not space(w):
        return False
    more = w.at[0] != 125
    if not more:
        w.at += 1
    while more:
        if not (sign(w, 34) and quoted(w, &name, &size)):
            return False
        i = named(w.plan, node, guess, name, size)
        if not sign(w, 58):
            return False
        if i < 0:
            if not pass_over(w):
                return False
        else:
            if seen[i]:
                return failed(w, W_NAME)
            seen[i] = 1
            guess = i + 1
            if not json(w, &w.plan.nodes[w.plan.kids[node.first + i]]):
                return False
        more = another(w, 125)
        if more < 0:
            return False
    for i in range(node.count):
        if not seen[i] and not nothing(w, <int>w.plan.nodes[w.plan.kids[node.first + i]].column):
            return False
    return True


cdef bint listed(Work* w, const Node* node) noexcept nogil:
    """The items of an array, or of an object that is a map."""
    cdef Column* c = &w.columns[node.column]
    cdef bint is_map = node.op == J_MAP
    cdef Column* entries = NULL
    cdef const Node* item = &w.plan.nodes[w.plan.kids[node.first]]
    cdef uint8_t last = 125 if is_map else 93
    cdef const uint8_t* name
    cdef int64_t size
    cdef int more
    if is_map:
        entries = &w.columns[w.column_kids[c.first]]
    w.at += 1
    if not space(w):
        return False
    more = w.at[0] != last
    if not more:
        w.at += 1
    while more:
        if is_map:
            if not (sign(w, 34) and quoted(w, &name, &size)):
                return False
            entries.rows += 1
            if not put_bytes(w, &w.columns[w.column_kids[entries.first]], name, size) or not sign(w, 58):
                return False
        if not json(w, item):
            return False
        more = another(w, last)
        if more < 0:
            return False
    if not valid(w, c):
        return False
    return push_int32(&c.offsets, <int32_t>w.columns[w.column_kids[c.first]].rows) or failed(w, W_MEMORY)


# ---- Protobuf


cdef inline bint part(Work* w, const uint8_t** end) noexcept nogil:
    """The end of the next bytes that have their length in front."""
    cdef uint64_t size
    if not plain(w, &size):
        return False
    if size > <uint64_t>(w.end - w.at):
        return failed(w, W_CUT)
    end[0] = w.at + size
    return True


cdef bint skipped(Work* w, int wire) noexcept nogil:
    """Pass over what a field has."""
    cdef uint64_t number
    cdef const uint8_t* end
    if wire == VARINT:
        return plain(w, &number)
    if wire == SIZED:
        if not part(w, &end):
            return False
        w.at = end
        return True
    if wire != FIXED64 and wire != FIXED32:
        return failed(w, W_WIRE)
    if w.end - w.at < (8 if wire == FIXED64 else 4):
        return failed(w, W_CUT)
    w.at += 8 if wire == FIXED64 else 4
    return True


cdef bint file(Work* w, const Node* node) noexcept nogil:
    """A value as a whole: the place of its message in the file, then the message."""
    cdef int64_t count, place, i
    if not varint(w, &count):
        return False
    if count != node.size and not (count == 0 and node.size == 1 and w.plan.table[node.at] == 0):
        return failed(w, W_MESSAGE)
    for i in range(count):
        if not varint(w, &place):
            return False
        if place != w.plan.table[node.at + i]:
            return failed(w, W_MESSAGE)
    return message(w, &w.plan.nodes[w.plan.kids[node.first]])


cdef inline int64_t slot_of(const int32_t* slots, int64_t count, int64_t guess, uint64_t number) noexcept nogil:
    """The place of a field among those of a message, which are in the order of their numbers; -1: there is none."""
    cdef int64_t low = 0, high = count, middle
    if guess < count and <uint64_t>slots[guess * SLOT + S_NUMBER] == number:
        return guess
    while low < high:
        middle = (low + high) // 2
        if <uint64_t>slots[middle * SLOT + S_NUMBER] < number:
            low = middle + 1
        else:
            high = middle
    return low if low < count and <uint64_t>slots[low * SLOT + S_NUMBER] == number else -1


cdef inline bint fits(const int32_t* slot, int wire) noexcept nogil:
    """Whether a field has what its schema says; otherwise it counts as one that the schema does not know."""
    return wire == slot[S_WIRE] or wire == SIZED and slot[S_PACKED]


cdef bint message(Work* w, const Node* node) noexcept nogil:
    """A message, from where the value is to its end."""
    cdef const int32_t* slots = w.plan.table + node.at + 1
    cdef int64_t* found = w.found + w.plan.table[node.at]
    cdef int64_t i, j, guess = 0
    cdef uint64_t tag
    cdef int wire
    cdef const uint8_t* before
    cdef const uint8_t* end = w.end
    cdef const Node* kid
    if not valid(w, &w.columns[node.column]):
        return False
    for i in range(2 * node.count):
        found[i] = 0
    while w.at < end:
        before = w.at
        if not plain(w, &tag):
            return False
        wire = tag & 7
        if tag >> 3 == 0 or tag >> 32:
            return failed(w, W_WIRE)
        i = slot_of(slots, node.count, guess, tag >> 3)
        if i >= 0 and fits(slots + i * SLOT, wire):
            kid = &w.plan.nodes[w.plan.kids[node.first + i]]
            guess = i if kid.op == O_REPEATED else i + 1
            if slots[i * SLOT + S_ONEOF]:
                w.left -= node.count // PART_BYTES
                if w.left < 0:
                    return failed(w, W_PARTS)
                for j in range(node.count):
                    if j != i and slots[j * SLOT + S_ONEOF] == slots[i * SLOT + S_ONEOF]:
                        found[2 * j] = 0
            if found[2 * i] == 0:
                found[2 * i] = before - w.start + 1
            elif kid.op == O_MESSAGE:
                return failed(w, W_TWICE)
            found[2 * i + 1] = (before if kid.op == O_REPEATED else w.at) - w.start + 1
        if not skipped(w, wire):
            return False
    for i in range(node.count):
        kid = &w.plan.nodes[w.plan.kids[node.first + i]]
        w.end = end
        if kid.op == O_REPEATED:
            if not repeated(w, kid, slots + i * SLOT, found[2 * i], found[2 * i + 1]):
                return False
        elif found[2 * i]:
            w.at = w.start + found[2 * i + 1] - 1
            if not one(w, kid):
                return False
        elif not absent(w, kid, slots[i * SLOT + S_PRESENCE]):
            return False
    w.at = w.end = end
    return True


cdef bint absent(Work* w, const Node* node, bint has_presence) noexcept nogil:
    """A field that is not there: null, or its default."""
    if has_presence:
        return nothing(w, <int>node.column)
    w.left -= 1
    if w.left < 0:
        return failed(w, W_PARTS)
    if node.op == O_MESSAGE:
        w.at = w.end
        return message(w, node)
    if node.op == P_ENUM:
        return symbol(w, node, 0)
    return nothing(w, <int>node.column)


cdef bint repeated(Work* w, const Node* node, const int32_t* slot, int64_t first, int64_t last) noexcept nogil:
    """The values of a repeated field, or the entries of a map. `first`, `last`: where it stands."""
    cdef Column* c = &w.columns[node.column]
    cdef const Node* item = &w.plan.nodes[w.plan.kids[node.first]]
    cdef const uint8_t* stop = w.start + last - 1
    cdef const uint8_t* before
    cdef const uint8_t* inner
    cdef const uint8_t* end = w.end
    cdef uint64_t tag
    if first:
        w.at = w.start + first - 1
        w.left -= (last - first) // PART_BYTES
        if w.left < 0:
            return failed(w, W_PARTS)
        while True:
            before = w.at
            if not plain(w, &tag):
                return False
            if tag >> 3 != <uint64_t>slot[S_NUMBER] or not fits(slot, tag & 7):
                if not skipped(w, tag & 7):
                    return False
            elif tag & 7 == SIZED and slot[S_PACKED]:
                if not part(w, &inner):
                    return False
                w.end = inner
                while w.at < inner:
                    if not one(w, item):
                        return False
                w.end = end
            elif not one(w, item):
                return False
            if before >= stop:
                break
    elif not paid(w):
        return False
    if not valid(w, c):
        return False
    if not push_int32(&c.offsets, <int32_t>w.columns[w.column_kids[c.first]].rows):
        return failed(w, W_MEMORY)
    return True


cdef const int32_t* name_of(const Plan* plan, const Node* node, int32_t number) noexcept nogil:
    """Where the name of a number of an enum begins and how long it is; NULL: it has none."""
    cdef const int32_t* names = plan.table + node.at
    cdef int64_t low = 0, high = node.size, middle
    while low < high:
        middle = (low + high) // 2
        if names[3 * middle] < number:
            low = middle + 1
        else:
            high = middle
    return names + 3 * low + 1 if low < node.size and names[3 * low] == number else NULL


cdef bint symbol(Work* w, const Node* node, int32_t number) noexcept nogil:
    """The name of a number of an enum, or its digits where it has none."""
    cdef const int32_t* name = name_of(w.plan, node, number)
    cdef uint8_t digits[12]
    cdef int at = 12
    cdef int64_t left = number
    if name != NULL:
        w.left -= name[1] // PART_BYTES
        if w.left < 0:
            return failed(w, W_PARTS)
        return put_bytes(w, &w.columns[node.column], w.plan.constants + name[0], name[1])
    left = -left if left < 0 else left
    while left or at == 12:
        at -= 1
        digits[at] = <uint8_t>(48 + left % 10)
        left //= 10
    if number < 0:
        at -= 1
        digits[at] = 45
    return put_bytes(w, &w.columns[node.column], digits + at, 12 - at)


cdef bint one(Work* w, const Node* node) noexcept nogil:
    """One value of a field, behind its tag."""
    cdef int64_t op = node.op
    cdef Column* c = &w.columns[node.column]
    cdef uint64_t number
    cdef const uint8_t* data
    cdef const uint8_t* inner
    cdef const uint8_t* end = w.end
    cdef uint8_t* place
    if op == P_VARINT or op == P_ZIGZAG or op == P_BOOL:
        if not plain(w, &number):
            return False
        place = fixed(w, c)
        if place == NULL:
            return False
        if op == P_BOOL:
            place[0] = number != 0
            return True
        if c.width == 4:
            if op == P_ZIGZAG:
                number = ((number & <uint64_t>0xFFFFFFFF) >> 1) ^ (<uint64_t>0 - (number & 1))
            (<uint32_t*>place)[0] = <uint32_t>number
        else:
            if op == P_ZIGZAG:
                number = (number >> 1) ^ (<uint64_t>0 - (number & 1))
            (<uint64_t*>place)[0] = number
        return True
    elif op == P_STRING or op == P_BYTES:
        if not part(w, &inner):
            return False
        data = w.at
        w.at = inner
        if op == P_STRING and not is_text(data, inner - data):
            return failed(w, W_UTF8)
        return put_bytes(w, c, data, inner - data)
    elif op == P_FIXED:
        if w.end - w.at < c.width:
            return failed(w, W_CUT)
        place = fixed(w, c)
        if place == NULL:
            return False
        memcpy(place, w.at, c.width)
        w.at += c.width
        return True
    elif op == P_ENUM:
        return plain(w, &number) and symbol(w, node, <int32_t>number)
    elif op == O_MESSAGE:
        if not part(w, &inner):
            return False
        w.end = inner
        if not message(w, node):
            return False
        w.end = end
        return True
    return failed(w, W_REFUSED)


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
               int64_t end):
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
                if size < PREFIX or value[0] != 0:
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
                        is_done = read(&w, plan.nodes)
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
