"""What readers of values share: plans, columns that grow, and the bytes of a value as they are gone through."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from fastpath.bytes.byte_builder cimport Growth, extend_by, push_int32

cdef enum:
    PREFIX = 5
    PARTS_MAX = 1 << 26
    WIDE_MAX = 1 << 24
    OUT_MAX = 64 << 20
    PART_BYTES = 8

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


cdef bint nothing(Work* w, int column) noexcept nogil
cdef void cut(Work* w, int column, int64_t rows) noexcept nogil


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


cdef inline bint paid(Work* w, int64_t parts) noexcept nogil:
    """Pay for parts that have no bytes of their own."""
    w.left -= parts
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


cdef inline bint is_text(const uint8_t* at, int64_t size) noexcept nogil:
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


cdef inline bint put_fixed(Work* w, Column* c, const uint8_t* data) noexcept nogil:
    """One more value of fixed width, as it lies in memory."""
    cdef uint8_t* place = fixed(w, c)
    if place == NULL:
        return False
    memcpy(place, data, c.width)
    return True


cdef inline bint put_list(Work* w, Column* c) noexcept nogil:
    """One more list or map, of the items that were put behind those of the last one."""
    return valid(w, c) and (
        push_int32(&c.offsets, <int32_t>w.columns[w.column_kids[c.first]].rows) or failed(w, W_MEMORY)
    )
