"""Values in JSON to columns (RFC 8259).

This file alone decides which texts are JSON and which of them fit a column. An object fills the column of a field when it comes,
and those that did not come with null. A name that comes twice is refused, since readers differ in what it means.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from fastpath.arrow.value_work cimport *
from fastpath.bytes.byte_builder cimport extend_by, push_int32

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, object overflow) except? -1.0

cdef enum:
    DEEP_MAX = 512      # how deep arrays and objects of JSON may be in one another

cdef uint8_t[4] LEADS = [0, 0xC0, 0xE0, 0xF0]
"""What the first byte of a character of one to four bytes has beside its bits."""
cdef double[17] TENS = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16]


cdef inline bint space(Work* w) noexcept nogil:
    """Pass over white space. Returns whether something stands behind it."""
    while w.at < w.end and (w.at[0] == c' ' or w.at[0] == c'\n' or w.at[0] == c'\r' or w.at[0] == c'\t'):
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
    if found == c',':
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
        if c'0' <= w.at[i] <= c'9':
            digit = w.at[i] - c'0'
        elif c'a' <= digit <= c'f':
            digit -= c'a' - 10
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
    if kind != c'u':
        code = (
            kind if kind == c'"' or kind == c'/' or kind == c'\\' else c'\b' if kind == c'b' else c'\t' if kind == c't' else
            c'\n' if kind == c'n' else c'\f' if kind == c'f' else c'\r' if kind == c'r' else -1
        )
        if code < 0:
            return failed(w, W_JSON)
        return push_byte(w.text, <uint8_t>code) or failed(w, W_MEMORY)
    code = hexadecimal(w)
    if code < 0:
        return failed(w, W_JSON)
    if 0xD800 <= code < 0xE000:
        if code >= 0xDC00 or w.end - w.at < 6 or w.at[0] != c'\\' or w.at[1] != c'u':
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
        if byte < c' ':
            return failed(w, W_JSON)
        if byte != c'"' and byte != c'\\':
            w.at += 1
            continue
        if not (is_plain and byte == c'"'):
            size[0] = w.at - start
            if not is_text(start, size[0]):
                return failed(w, W_UTF8)
            place = extend_by(w.text, size[0])
            if place == NULL:
                return failed(w, W_MEMORY)
            memcpy(place, start, size[0])
        w.at += 1
        if byte == c'"':
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
    if w.at < w.end and w.at[0] == c'-':
        w.at += 1
    if w.at >= w.end or not c'0' <= w.at[0] <= c'9':
        return failed(w, W_JSON)
    if w.at[0] == c'0':
        w.at += 1
    else:
        digits(w)
    if w.at < w.end and w.at[0] == c'.':
        is_whole[0] = False
        w.at += 1
        if not digits(w):
            return failed(w, W_JSON)
    if w.at < w.end and (w.at[0] | 0x20) == c'e':
        is_whole[0] = False
        w.at += 1
        if w.at < w.end and (w.at[0] == c'+' or w.at[0] == c'-'):
            w.at += 1
        if not digits(w):
            return failed(w, W_JSON)
    return True


cdef inline bint digits(Work* w) noexcept nogil:
    """Pass over digits. Returns whether there are any."""
    cdef const uint8_t* start = w.at
    while w.at < w.end and c'0' <= w.at[0] <= c'9':
        w.at += 1
    return w.at > start


cdef bint as_double(Work* w, const uint8_t* start, double* out) noexcept nogil:
    """The number from `start` to where the value is: the double that is next to it."""
    cdef const uint8_t* at = start
    cdef int64_t size = w.at - start, found = 0, behind = 0
    cdef bint is_exact = size <= 16, is_negative = at[0] == c'-'
    cdef uint8_t* place
    if is_negative:
        at += 1
    while is_exact and at < w.at and at[0] != c'e' and at[0] != c'E':
        if at[0] == c'.':
            behind = w.at - at - 1
        else:
            found = found * 10 + at[0] - c'0'
        at += 1
    if is_exact and at == w.at and behind <= 16:  # two doubles that are exact, of which the quotient is rounded once
        out[0] = <double>found / TENS[behind]
        if is_negative:
            out[0] = -out[0]
        return True
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


cdef int64_t kept_digits(Work* w, const uint8_t* at) noexcept nogil:
    """How many digits of a number stand in front of its point, where its exponent puts that."""
    cdef int64_t before = 0, power = 0
    cdef bint is_negative
    while at < w.at and c'0' <= at[0] <= c'9':
        before += 1
        at += 1
    while at < w.at and (at[0] == c'.' or c'0' <= at[0] <= c'9'):
        at += 1
    if at == w.at:
        return before
    at += 1
    is_negative = at[0] == c'-'
    if is_negative or at[0] == c'+':
        at += 1
    while at < w.at:
        power = min(power * 10 + at[0] - c'0', <int64_t>1 << 40)
        at += 1
    return before - power if is_negative else before + power


cdef bint of_fraction(Work* w, const uint8_t* at, int64_t* out) noexcept nogil:
    """The whole number that is written with a point or an exponent: exactly."""
    cdef int64_t kept, number = 0
    cdef bint is_negative = at[0] == c'-'
    cdef uint64_t found = 0, digit, limit = (<uint64_t>1 << 63) - (not is_negative)
    if is_negative:
        at += 1
    kept = kept_digits(w, at)
    while at < w.at and (at[0] == c'.' or c'0' <= at[0] <= c'9'):
        if at[0] != c'.':
            digit = at[0] - c'0'
            if number < kept:
                if found > (limit - digit) // 10:
                    return failed(w, W_LONG)
                found = found * 10 + digit
            elif digit:
                return failed(w, W_WHOLE)
            number += 1
        at += 1
    while number < kept and found:
        if found > limit // 10:
            return failed(w, W_LONG)
        found *= 10
        number += 1
    out[0] = <int64_t>(<uint64_t>0 - found) if is_negative else <int64_t>found
    return True


cdef bint as_long(Work* w, const uint8_t* start, int64_t* out) noexcept nogil:
    """The whole number from `start` to where the value is, which has digits and a sign alone."""
    cdef const uint8_t* at = start
    cdef uint64_t found = 0, digit, limit = <uint64_t>1 << 63
    cdef bint is_negative = at[0] == c'-'
    if is_negative:
        at += 1
    else:
        limit -= 1
    while at < w.at:
        digit = at[0] - c'0'
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
        if w.at[0] == c'{' or w.at[0] == c'[':
            if depth == DEEP_MAX:
                return failed(w, W_DEEP)
            is_object[depth] = w.at[0] == c'{'
            depth += 1
            w.at += 1
            if not space(w):
                return False
            if w.at[0] != (c'}' if is_object[depth - 1] else c']'):
                if is_object[depth - 1] and not (sign(w, c'"') and quoted(w, &data, &size) and sign(w, c':')):
                    return False
                continue
            w.at += 1
            depth -= 1
        elif w.at[0] == c'"':
            w.at += 1
            if not quoted(w, &data, &size):
                return False
        elif w.at[0] == c't':
            if not word(w, b"true", 4):
                return False
        elif w.at[0] == c'f':
            if not word(w, b"false", 5):
                return False
        elif w.at[0] == c'n':
            if not word(w, b"null", 4):
                return False
        elif not number_ends(w, &is_whole):
            return False
        while True:
            if depth == 0:
                return True
            more = another(w, c'}' if is_object[depth - 1] else c']')
            if more < 0:
                return False
            if more:
                if is_object[depth - 1] and not (sign(w, c'"') and quoted(w, &data, &size) and sign(w, c':')):
                    return False
                break
            depth -= 1


cdef bint whole_json(Work* w, const Node* node) noexcept nogil:
    """A value as a whole, with the white space around it."""
    if not json(w, node):
        return False
    while w.at < w.end and (w.at[0] == c' ' or w.at[0] == c'\n' or w.at[0] == c'\r' or w.at[0] == c'\t'):
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
    if start[0] == c'n':
        return word(w, b"null", 4) and nothing(w, <int>node.column)
    if op == J_STRING:
        if start[0] != c'"':
            return other(w)
        w.at += 1
        return quoted(w, &start, &number) and put_bytes(w, c, start, number)
    elif op == J_LONG or op == J_DOUBLE:
        if start[0] != c'-' and not c'0' <= start[0] <= c'9':
            return other(w)
        if not number_ends(w, &is_whole):
            return False
        if op == J_LONG:
            if not (as_long(w, start, &number) if is_whole else of_fraction(w, start, &number)):
                return False
            return put_number(w, c, number, D_INT64)
        if not as_double(w, start, &real):
            return False
        return put_fixed(w, c, <const uint8_t*>&real)
    elif op == J_OBJECT:
        return object_(w, node) if start[0] == c'{' else other(w)
    elif op == J_ARRAY or op == J_MAP:
        return listed(w, node) if start[0] == (c'[' if op == J_ARRAY else c'{') else other(w)
    elif op == J_BOOLEAN:
        if start[0] != c't' and start[0] != c'f':
            return other(w)
        if not (word(w, b"true", 4) if start[0] == c't' else word(w, b"false", 5)):
            return False
        place = fixed(w, c)
        if place == NULL:
            return False
        place[0] = start[0] == c't'
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
    more = w.at[0] != c'}'
    if not more:
        w.at += 1
    while more:
        if not (sign(w, c'"') and quoted(w, &name, &size)):
            return False
        i = named(w.plan, node, guess, name, size)
        if not sign(w, c':'):
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
        more = another(w, c'}')
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
    cdef uint8_t last = c'}' if is_map else c']'
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
            if not (sign(w, c'"') and quoted(w, &name, &size)):
                return False
            entries.rows += 1
            if not put_bytes(w, &w.columns[w.column_kids[entries.first]], name, size) or not sign(w, c':'):
                return False
        if not json(w, item):
            return False
        more = another(w, last)
        if more < 0:
            return False
    return put_list(w, c)
