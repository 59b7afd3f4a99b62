"""Values in Avro's encoding to columns (Avro 1.12).

This file alone decides how Avro's bytes are read. Both schemas are in the plan, which
`actors/arrow/values/avro_plan.py` makes: what the writer had and the reader has not is passed over, and what the reader has
beyond is filled with its default, which is read as a value of its own.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from fastpath.arrow.value_work cimport *
from fastpath.bytes.byte_builder cimport push_int32

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
    return put_fixed(w, c, number)


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
            if not avro(w, item):
                return False
            if w.at == before:
                if not paid(w, 1):
                    return False


cdef bint avro(Work* w, const Node* node) noexcept nogil:
    """Read one value into its column."""
    cdef const Plan* plan = w.plan
    cdef int64_t op = node.op, number, i
    cdef const uint8_t* data
    cdef const uint8_t* end
    cdef uint8_t* place
    cdef float narrow
    cdef double wide
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
        return avro(w, &plan.nodes[plan.kids[node.first + number]])
    elif op == O_RECORD:
        if not valid(w, c) or not node.count and not paid(w, 1):
            return False
        for i in range(node.count):
            if not avro(w, &plan.nodes[plan.kids[node.first + i]]):
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
    elif op == O_DOUBLE or op == O_FLOAT or op == O_FIXED:
        if w.end - w.at < c.width:
            return failed(w, W_CUT)
        w.at += c.width
        return put_fixed(w, c, w.at - c.width)
    elif op == O_FLOAT_WIDE:
        if w.end - w.at < 4:
            return failed(w, W_CUT)
        memcpy(&narrow, w.at, 4)
        w.at += 4
        wide = narrow
        return put_fixed(w, c, <const uint8_t*>&wide)
    elif op == O_FIXED_BYTES:
        if w.end - w.at < node.size:
            return failed(w, W_CUT)
        if not node.size and not paid(w, 1):
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
        return items(w, node, op == O_MAP) and put_list(w, c)
    elif op == O_BRANCH:
        if not valid(w, c):
            return False
        for i in range(c.count):
            if i == node.size:
                if not avro(w, &plan.nodes[plan.kids[node.first]]):
                    return False
            elif not nothing(w, w.column_kids[c.first + i]):
                return False
        return True
    elif op == O_DEFAULT:
        if not paid(w, 1 + node.size // PART_BYTES):
            return False
        data, end = w.at, w.end
        w.at, w.end = plan.constants + node.at, plan.constants + node.at + node.size
        if not avro(w, &plan.nodes[plan.kids[node.first]]):
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
        return node.size > 0 or paid(w, 1)
    elif op == O_SKIP_SIZED:
        return sized(w, &data, &number)
    elif op == O_SKIP_ARRAY or op == O_SKIP_MAP:
        return items(w, node, op == O_SKIP_MAP)
    elif op == O_SKIP_RECORD:
        if not node.count and not paid(w, 1):
            return False
        for i in range(node.count):
            if not avro(w, &plan.nodes[plan.kids[node.first + i]]):
                return False
        return True
    elif op == O_SKIP_UNION:
        if not varint(w, &number):
            return False
        if number < 0 or number >= node.count:
            return failed(w, W_BRANCH)
        return avro(w, &plan.nodes[plan.kids[node.first + number]])
    return failed(w, W_REFUSED)
