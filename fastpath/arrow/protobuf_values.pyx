"""Values in Protobuf's encoding to columns (proto2 and proto3).

This file alone decides how Protobuf's bytes are read. A message is gone through first, to find where its fields stand, since they
come in any order and the last one counts; then its columns are filled in their order.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from fastpath.arrow.value_work cimport *
from fastpath.bytes.byte_builder cimport push_int32

cdef enum:  # what is known of a field of a message: its first place in `table`, after that of its positions
    S_NUMBER, S_WIRE, S_PRESENCE, S_PACKED, S_ONEOF, SLOT

cdef enum:  # wire types
    VARINT, FIXED64, SIZED, FIXED32 = 5


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
                if not paid(w, node.count // PART_BYTES):
                    return False
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
    if not paid(w, 1):
        return False
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
        if not paid(w, (last - first) // PART_BYTES):
            return False
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
    elif not paid(w, 1):
        return False
    return put_list(w, c)


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
        if not paid(w, name[1] // PART_BYTES):
            return False
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
        w.at += c.width
        return put_fixed(w, c, w.at - c.width)
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
