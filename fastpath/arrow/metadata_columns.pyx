"""Metadata records into typed columns: a schema's fields as Arrow buffers, without a Python object for each record.

This file alone decides how a plan of fields runs over records, and what it produces. For each column these are its
values (fixed width, or bytes with 32-bit offsets), one byte a row if the column has nulls, and offsets if the field is
a list. It does not know which messages there are: actors/replay makes a `Program` of plans.

    metadata record     (released: frame version 1 uvarint) type uvarint, version uvarint, flexible body
    control record      key: version int16, type int16; value: flexible body, whose first field is the version int16

Rules: a field that the version does not have is null. A tagged field that is absent has its default, which the plan
gives in wire form. Unknown tags are skipped. Every byte of a value must be explained. A record that breaks a rule ends
the run, and nothing is returned.
"""

import numpy as np

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from fastpath.bytes.endian cimport load_int16, load_int32, load_int64, load_uint16, load_uint32
from fastpath.records.batch cimport BatchHeader, RecordView, read_record
from fastpath.records.header cimport CONTROL, LOG_APPEND_TIME
from fastpath.records.faults cimport FINE
from fastpath.bytes.byte_builder cimport Growth, Rooms, extend_by, own, push_int32, push_int64
from fastpath.bytes.open_buffer cimport opened
from fastpath.bytes.varint cimport read_uvarint

from fastpath.records.batch import HEADER_DTYPE

cdef enum:
    SLOTS = 64                          # record types, control types from CONTROL_SLOT on
    FIRST_CONTROL = 48
    KNOWN = 16
    VERSIONS = 16

cdef enum Code:
    NULLS                               # not in this version
    BOOL
    INT8
    INT16
    UINT16
    INT32
    UINT32
    INT64
    FLOAT64
    UUID
    STRING
    BYTES
    HIDDEN                              # bytes that are secret: read as null
    ARRAY
    STRUCT

CONTROL_SLOT = FIRST_CONTROL
CODES = {"null": NULLS, "bool": BOOL, "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32,
         "int64": INT64, "float64": FLOAT64, "uuid": UUID, "string": STRING, "bytes": BYTES, "hidden": HIDDEN,
         "array": ARRAY, "struct": STRUCT}

cdef enum Wrong:
    RIGHT
    BAD_FRAME
    NO_KEY
    UNKNOWN_TYPE
    UNKNOWN_VERSION
    CUT_FIELD
    LEFT_OVER
    TOO_DEEP
    NO_MEMORY

REASONS = {
    BAD_FRAME: "the record's bytes make no sense",
    NO_KEY: "a metadata record has a null key and a value, a control record a key of 4 bytes",
    UNKNOWN_TYPE: "no record has type {type}",
    UNKNOWN_VERSION: "record type {type} has no version {version} that is known",
    CUT_FIELD: "a field of record type {type} version {version} ends outside the record",
    LEFT_OVER: "bytes left over behind record type {type} version {version}",
    TOO_DEEP: "more than 2 GiB in one column",
}


class BadRecord(ValueError):
    """A record that cannot be read. `batch`: index of its batch; `offset`: that of the record; `reason`: a sentence."""

    def __init__(self, batch, offset, reason):
        super().__init__(f"offset {offset}: {reason}")
        self.batch = batch
        self.offset = offset
        self.reason = reason


cdef struct Node:
    int code
    int column                          # -1: the field is not wanted
    bint nullable
    uint32_t tag                        # for NULLS: the width of a value, 0 if the column has offsets
    int element                         # of an array: node
    int child, children                 # of a struct: nodes in the order of the wire
    int tagged, tags                    # and its tagged fields
    const uint8_t* fallback             # the wire form of an absent tagged field's default
    Py_ssize_t fallback_size


cdef struct Known:                      # a uuid and its text; all zeros: none
    uint8_t raw[16]
    uint8_t text[22]


cdef struct Column:
    Growth data
    Growth offsets                      # of strings, bytes and lists: int32, rows + 1
    Growth valid                        # a byte a row, from the first null on
    int64_t rows
    int64_t nulls
    int absent                          # the field for which rows are still to be added (`skip`): its node + 1, 0: none
    int slot
    Known known[KNOWN]                  # uuids that were met before, by their first byte


cdef struct Rows:                       # the columns that every record of a slot has
    Growth offset, time, epoch, version


cdef const char* ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


cdef class Program:
    """Plans by slot and version. A plan is a tuple (code, column, nullable, tag, fallback, element, children, tagged).

    `plans`: {(slot, version): plan of code STRUCT}; `columns`: how many columns they name; `released`: records have a frame.
    """
    cdef Node* nodes
    cdef int count, room
    cdef int roots[SLOTS][VERSIONS]
    cdef readonly int columns
    cdef readonly bint released
    cdef list kept                      # the bytes to which fallbacks point

    def __cinit__(self, dict plans, int columns, bint released):
        self.columns, self.released = columns, released
        self.kept = []
        self.room = sum([weight(plan) for plan in plans.values()])
        self.nodes = <Node*>calloc(self.room + 1, sizeof(Node))
        if self.nodes == NULL:
            raise MemoryError
        memset(self.roots, 0xFF, sizeof(self.roots))
        for (slot, version), plan in plans.items():
            if not (0 <= slot < SLOTS and 0 <= version < VERSIONS):
                raise ValueError(f"no place for record type {slot} version {version}")
            self.roots[slot][version] = self.count
            self.count += 1
            self.fill(self.roots[slot][version], plan)

    def __dealloc__(self):
        free(self.nodes)

    cdef int fill(self, int at, tuple plan) except -1:
        code, column, nullable, tag, fallback, element, children, tagged = plan
        cdef Node* node = &self.nodes[at]
        cdef int i, first
        node.code, node.column, node.nullable, node.tag = code, column, nullable, tag
        if fallback is not None:
            self.kept.append(fallback)
            node.fallback, node.fallback_size = <const uint8_t*><const char*>(<bytes>fallback), len(fallback)
        if element is not None:
            node.element = self.count
            self.count += 1
            self.fill(node.element, element)
        node.children, node.tags = len(children), len(tagged)
        first = self.count
        self.count += node.children + node.tags
        node.child, node.tagged = first, first + node.children
        for i, child in enumerate((*children, *tagged)):
            self.fill(first + i, child)
        return 0


cdef int weight(tuple plan):
    return 1 + (weight(plan[5]) if plan[5] is not None else 0) + sum([weight(child) for child in (*plan[6], *plan[7])])


cdef bint note_validity(Column* column, bint null) noexcept nogil:
    """Note the validity of one more row, if the column has nulls."""
    cdef uint8_t* place = extend_by(&column.valid, <size_t>(column.rows + 1) - column.valid.size)
    if place == NULL:
        return False
    memset(place, 1, <size_t>(column.valid.data + column.valid.size - place))
    if null:
        column.valid.data[column.rows] = 0
        column.nulls += 1
    return True


cdef inline bint close_row(Column* column, bint null) noexcept nogil:
    if (null or column.nulls) and not note_validity(column, null):
        return False
    column.rows += 1
    return True


cdef inline bint close_varied(Column* column, bint null, int64_t end) noexcept nogil:
    """Add a row to a column with offsets. Its values now end at `end`."""
    if column.rows == 0 and not push_int32(&column.offsets, 0):
        return False
    return push_int32(&column.offsets, <int32_t>end) and close_row(column, null)


cdef inline bint put_bytes(Column* column, const uint8_t* data, int64_t size) noexcept nogil:
    cdef uint8_t* place = extend_by(&column.data, <size_t>size)
    if place == NULL:
        return False
    memcpy(place, data, <size_t>size)
    return close_varied(column, False, <int64_t>column.data.size)


cdef inline bint put_int32(Column* column, const uint8_t* data) noexcept nogil:
    cdef uint8_t* place = extend_by(&column.data, 4)
    if place == NULL:
        return False
    (<int32_t*>place)[0] = load_int32(data)
    return close_row(column, False)


cdef inline bint put_int32s(Column* column, Column* element, const uint8_t* data, uint32_t count) noexcept nogil:
    """Add a list of uuids: `column` holds the lists, `element` their elements."""
    cdef uint32_t i
    cdef int32_t* places = <int32_t*>extend_by(&element.data, 4 * <size_t>count)
    if places == NULL:
        return False
    for i in range(count):
        places[i] = load_int32(data + 4 * i)
    element.rows += count
    return close_varied(column, False, element.rows)


cdef inline bint put_uuid(Column* column, const uint8_t* data) noexcept nogil:
    """Write 16 bytes as 22 characters of base64 for URLs, as Kafka does. The same few uuids are met again and again."""
    cdef Known* known
    cdef uint8_t* out = extend_by(&column.data, 22)
    cdef int i
    cdef uint32_t three
    if out == NULL:
        return False
    known = &column.known[data[0] & (KNOWN - 1)]
    if known.text[0] == 0 or memcmp(known.raw, data, 16) != 0:
        memcpy(known.raw, data, 16)
        for i in range(5):
            three = <uint32_t>data[3 * i] << 16 | <uint32_t>data[3 * i + 1] << 8 | data[3 * i + 2]
            known.text[4 * i] = ALPHABET[three >> 18]
            known.text[4 * i + 1] = ALPHABET[three >> 12 & 63]
            known.text[4 * i + 2] = ALPHABET[three >> 6 & 63]
            known.text[4 * i + 3] = ALPHABET[three & 63]
        known.text[20] = ALPHABET[data[15] >> 2]
        known.text[21] = ALPHABET[(data[15] & 3) << 4]
    memcpy(out, known.text, 22)
    return close_varied(column, False, <int64_t>column.data.size)


cdef inline bint put_uuids(Column* column, Column* element, const uint8_t* data, uint32_t count) noexcept nogil:
    cdef uint32_t i
    for i in range(count):
        if not put_uuid(element, data + 16 * i):
            return False
    return close_varied(column, False, element.rows)


cdef inline bint put_fixed(Column* column, const void* value, int width) noexcept nogil:
    cdef uint8_t* place = extend_by(&column.data, width)
    if place == NULL:
        return False
    memcpy(place, value, width)
    return close_row(column, False)


cdef bint put_null(Node* node, Column* column) noexcept nogil:
    """Add a null to a column of any kind."""
    cdef uint8_t* place
    cdef int width = <int>node.tag      # the width of the column in versions that have the field; 0: it has offsets
    if width:
        place = extend_by(&column.data, width)
        if place == NULL:
            return False
        memset(place, 0, width)
        return close_row(column, True)
    return close_varied(column, True, load_last(column))


cdef inline int64_t load_last(Column* column) noexcept nogil:
    return 0 if column.rows == 0 else (<int32_t*>(column.offsets.data + column.offsets.size - 4))[0]


cdef inline bint skip(Node* nodes, int at, Column* columns, int slot, int64_t rows) noexcept nogil:
    """Skip an absent field of the record itself. Its rows are added when it has a value again (`catch_up`)."""
    cdef Column* column
    if nodes[at].column < 0:
        return True
    column = &columns[nodes[at].column]
    if column.absent != at + 1:
        if column.absent and not catch_up(nodes, column, rows):
            return False
        column.absent = at + 1
        column.slot = slot
    return True


cdef bint catch_up(Node* nodes, Column* column, int64_t rows) noexcept nogil:
    """Add the rows that a column has skipped. They are all alike."""
    cdef Node* node = &nodes[column.absent - 1]
    cdef int64_t count = rows - column.rows, i
    cdef int width = 0
    cdef bint null = node.code == NULLS or node.code == HIDDEN
    cdef uint8_t* place
    cdef int32_t last
    if count <= 0:
        return True
    if node.code == NULLS:
        width = <int>node.tag
    elif node.code == ARRAY or node.code == STRING or node.code == BYTES:
        null = node.fallback[0] == 0
    elif node.code != HIDDEN:
        for i in range(count):
            if read_value(nodes, column.absent - 1, column - node.column, node.fallback, 0, node.fallback_size) < 0:
                return False
        return True
    if width:
        place = extend_by(&column.data, width * <size_t>count)
        if place == NULL:
            return False
        memset(place, 0, width * <size_t>count)
    else:
        if column.rows == 0 and not push_int32(&column.offsets, 0):
            return False
        last = <int32_t>((<int32_t*>(column.offsets.data + column.offsets.size - 4))[0])
        place = extend_by(&column.offsets, 4 * <size_t>count)
        if place == NULL:
            return False
        for i in range(count):
            (<int32_t*>place)[i] = last
    if null:
        place = extend_by(&column.valid, <size_t>rows - column.valid.size)
        if place == NULL:
            return False
        memset(place, 1, <size_t>(column.valid.data + column.valid.size - place))
        memset(column.valid.data + column.rows, 0, <size_t>count)
        column.nulls += count
    elif column.nulls:
        place = extend_by(&column.valid, <size_t>count)
        if place == NULL:
            return False
        memset(place, 1, <size_t>count)
    column.rows = rows
    return True


cdef inline bint there(Node* nodes, int at, Column* columns, int64_t rows) noexcept nogil:
    """Before a field of the record itself is read, add the rows that its column has skipped."""
    cdef Column* column
    if nodes[at].column < 0:
        return True
    column = &columns[nodes[at].column]
    return column.absent == 0 or column.rows == rows or catch_up(nodes, column, rows)


cdef Py_ssize_t read_value(Node* nodes, int at, Column* columns, const uint8_t* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    """Read one field. Returns the position after it; -1: it does not fit, -2: no memory, -3: a column is full."""
    cdef Node* node = &nodes[at]
    cdef Column* column = &columns[node.column] if node.column >= 0 else NULL
    cdef uint32_t size = 0, i
    cdef int64_t wide
    cdef int32_t narrow
    cdef int16_t small
    cdef int code = node.code, width
    cdef bint fine = True
    if code == STRUCT:
        return read_struct(nodes, at, columns, data, pos, end, -1, -1)
    if code == INT32:
        if end - pos < 4:
            return -1
        if column != NULL:
            fine = put_int32(column, data + pos)
        return pos + 4 if fine else -2
    if code == UUID:
        if end - pos < 16:
            return -1
        if column != NULL:
            fine = put_uuid(column, data + pos)
        return pos + 16 if fine else -2
    if code == NULLS:
        if column != NULL:
            fine = put_null(node, column)
        return pos if fine else -2
    if code == ARRAY:
        pos = read_uvarint(data, pos, end, &size)
        if pos < 0 or (size == 0 and not node.nullable) or <Py_ssize_t>size - 1 > end - pos:
            return -1
        if size and nodes[node.element].code == INT32:
            if <Py_ssize_t>(size - 1) > (end - pos) // 4:
                return -1
            if column != NULL:
                fine = put_int32s(column, &columns[nodes[node.element].column], data + pos, size - 1)
            return pos + 4 * <Py_ssize_t>(size - 1) if fine else -2
        if size and nodes[node.element].code == UUID:
            if <Py_ssize_t>(size - 1) > (end - pos) // 16:
                return -1
            if column != NULL:
                fine = put_uuids(column, &columns[nodes[node.element].column], data + pos, size - 1)
            return pos + 16 * <Py_ssize_t>(size - 1) if fine else -2
        for i in range(1, size):
            pos = read_value(nodes, node.element, columns, data, pos, end)
            if pos < 0:
                return pos
        if column != NULL:
            wide = load_last(column) + (size - 1 if size else 0)
            fine = close_varied(column, size == 0, wide)
        return pos if fine else -2
    if code == STRING or code == BYTES or code == HIDDEN:
        pos = read_uvarint(data, pos, end, &size)
        if pos < 0 or (size == 0 and not node.nullable) or <Py_ssize_t>size - 1 > end - pos:
            return -1
        if column != NULL:
            if size == 0 or code == HIDDEN:
                fine = close_varied(column, True, <int64_t>column.data.size)
            elif column.data.size + size > 0x7FFFFFFF:
                return -3
            else:
                fine = put_bytes(column, data + pos, <int64_t>size - 1)
        return pos + (<Py_ssize_t>size - 1 if size else 0) if fine else -2
    width = 1 if code == BOOL or code == INT8 else 2 if code == INT16 or code == UINT16 else 4 if code == UINT32 else 8
    if end - pos < width:
        return -1
    if column != NULL:
        if width == 1:
            fine = put_fixed(column, data + pos, 1)
        elif code == INT16:
            small = load_int16(data + pos)
            fine = put_fixed(column, &small, 2)
        elif code == UINT16:
            narrow = load_uint16(data + pos)
            fine = put_fixed(column, &narrow, 4)
        elif code == UINT32:
            wide = load_uint32(data + pos)
            fine = put_fixed(column, &wide, 8)
        else:                           # INT64, and the bits of a FLOAT64
            wide = load_int64(data + pos)
            fine = put_fixed(column, &wide, 8)
    return pos + width if fine else -2


cdef Py_ssize_t read_struct(
    Node* nodes, int at, Column* columns, const uint8_t* data, Py_ssize_t pos, Py_ssize_t end, int slot, int64_t rows,
) noexcept nogil:
    """Read a struct. `rows`: the number of earlier rows of the slot if it is a record itself, else -1."""
    cdef Node* node = &nodes[at]
    cdef Node* child
    cdef Column* column
    cdef uint32_t count = 0, tag = 0, size = 0, i
    cdef uint64_t seen = 0
    cdef int j
    cdef Py_ssize_t after
    for j in range(node.child, node.child + node.children):
        child = &nodes[j]
        if child.column < 0:
            pos = read_value(nodes, j, columns, data, pos, end)
            if pos < 0:
                return pos
            continue
        column = &columns[child.column]
        if rows >= 0:
            if child.code == NULLS:
                if not skip(nodes, j, columns, slot, rows):
                    return -2
                continue
            if not there(nodes, j, columns, rows):
                return -2
        if child.code == INT32:         # most fields are int32: read without a call
            if end - pos < 4:
                return -1
            if not put_int32(column, data + pos):
                return -2
            pos += 4
        elif child.code == UUID:
            if end - pos < 16:
                return -1
            if not put_uuid(column, data + pos):
                return -2
            pos += 16
        elif child.code == ARRAY and nodes[child.element].code == INT32 and pos < end and 0 < data[pos] < 0x80:
            size = data[pos] - 1
            pos += 1
            if end - pos < 4 * <Py_ssize_t>size:
                return -1
            if not put_int32s(column, &columns[nodes[child.element].column], data + pos, size):
                return -2
            pos += 4 * <Py_ssize_t>size
        else:
            pos = read_value(nodes, j, columns, data, pos, end)
            if pos < 0:
                return pos
    pos = read_uvarint(data, pos, end, &count)
    if pos < 0:
        return -1
    for i in range(count):
        pos = read_uvarint(data, pos, end, &tag)
        if pos >= 0:
            pos = read_uvarint(data, pos, end, &size)
        if pos < 0 or <Py_ssize_t>size > end - pos:
            return -1
        after = pos + <Py_ssize_t>size
        for j in range(node.tags):
            if nodes[node.tagged + j].tag == tag and nodes[node.tagged + j].code != NULLS:
                if seen >> j & 1:
                    return -1
                seen |= <uint64_t>1 << j
                if rows >= 0 and not there(nodes, node.tagged + j, columns, rows):
                    return -2
                pos = read_value(nodes, node.tagged + j, columns, data, pos, after)
                if pos != after:
                    return pos if pos < -1 else -1
                break
        pos = after
    for j in range(node.tags):
        if seen >> j & 1:
            continue
        if rows >= 0 and nodes[node.tagged + j].code != STRUCT:
            if not skip(nodes, node.tagged + j, columns, slot, rows):
                return -2
        else:
            after = read_value(
                nodes, node.tagged + j, columns, nodes[node.tagged + j].fallback, 0, nodes[node.tagged + j].fallback_size
            )
            if after < 0:
                return after
    return pos


cdef Growth* growth_at(Column* columns, Rows* rows, int place) noexcept:
    """The memory with that place in Rooms: four places for each slot, then three for each column."""
    cdef Column* column
    cdef Rows* slot
    cdef int part
    if place < 4 * SLOTS:
        slot = &rows[place // 4]
        part = place % 4
        return &slot.offset if part == 0 else &slot.time if part == 1 else &slot.epoch if part == 2 else &slot.version
    column = &columns[(place - 4 * SLOTS) // 3]
    part = (place - 4 * SLOTS) % 3
    return &column.data if part == 0 else &column.offsets if part == 1 else &column.valid


cdef struct Place:                      # how far the records of a batch are read, for the error of the next one
    int64_t offset
    uint32_t type
    uint32_t version
    bint control


cdef Wrong read_head(
    const uint8_t* data, const RecordView* record, bint released, Place* place, Py_ssize_t* fields
) noexcept nogil:
    """The type and version of a record, and where its fields begin."""
    cdef Py_ssize_t pos = record.value, stop = pos + record.value_size
    cdef uint32_t frame
    fields[0] = pos
    if place.control:
        if record.key_size != 4 or record.value_size < 2:
            return NO_KEY
        place.type = FIRST_CONTROL + <uint32_t>load_int16(data + record.key + 2)
        place.version = <uint32_t>load_int16(data + pos)
        return RIGHT
    if record.key_size >= 0 or record.value_size < 0:
        return NO_KEY
    if released:
        pos = read_uvarint(data, pos, stop, &frame)
        if pos < 0 or frame != 1:
            return BAD_FRAME
    pos = read_uvarint(data, pos, stop, &place.type)
    if pos >= 0:
        pos = read_uvarint(data, pos, stop, &place.version)
    fields[0] = pos
    return BAD_FRAME if pos < 0 else RIGHT


cdef Wrong add_record(
    Program program, Column* columns, Rows* rows, const uint8_t* data, const BatchHeader* h, const RecordView* record,
    Place* place
) noexcept nogil:
    """Append one record to the columns of its type. What is wrong leaves columns of unequal length."""
    cdef Py_ssize_t pos = 0, stop = record.value + record.value_size
    cdef int64_t time
    cdef int root
    cdef Wrong wrong = read_head(data, record, program.released, place, &pos)
    if wrong != RIGHT:
        return wrong
    if place.type >= SLOTS or (place.type >= FIRST_CONTROL) != place.control:
        return UNKNOWN_TYPE
    root = program.roots[place.type][place.version] if place.version < VERSIONS else -1
    if root < 0:
        return UNKNOWN_VERSION
    rows += place.type
    pos = read_struct(
        program.nodes, root, columns, data, pos, stop, <int>place.type, <int64_t>(rows.offset.size // 8)
    )
    if pos != stop:
        return NO_MEMORY if pos == -2 else CUT_FIELD if pos == -1 else TOO_DEEP if pos == -3 else LEFT_OVER
    time = h.max_timestamp if h.attributes & LOG_APPEND_TIME else h.base_timestamp + record.timestamp_delta
    if not (
        push_int64(&rows.offset, place.offset)
        and push_int64(&rows.time, time * 1000)
        and push_int32(&rows.epoch, h.epoch)
        and push_int32(&rows.version, <int32_t>place.version)
    ):
        return NO_MEMORY
    return RIGHT


cdef Wrong add_batch(
    Program program, Column* columns, Rows* rows, const uint8_t* data, Py_ssize_t at, Py_ssize_t end, const BatchHeader* h,
    Place* place
) noexcept nogil:
    """Append the records of one batch, which lie in [at, end)."""
    cdef RecordView record
    cdef Wrong wrong
    cdef int32_t i
    place.control, place.offset = h.attributes & CONTROL != 0, h.base_offset
    for i in range(h.count):
        if read_record(data, at, end, &record) != FINE:
            place.offset += i > 0           # the record after the last one that was read
            return BAD_FRAME
        at = record.end
        place.offset = h.base_offset + record.offset_delta
        wrong = add_record(program, columns, rows, data, h, &record, place)
        if wrong != RIGHT:
            return wrong
    return RIGHT if at == end else BAD_FRAME


cdef Wrong fill_up(Program program, Column* columns, Rows* rows) noexcept nogil:
    """Add the rows that are still to be added to columns whose field was absent from the last records."""
    cdef int i
    for i in range(program.columns):
        if columns[i].absent:
            if not catch_up(program.nodes, &columns[i], <int64_t>(rows[columns[i].slot].offset.size // 8)):
                return NO_MEMORY
    return RIGHT


cdef int refuse(Wrong wrong, Py_ssize_t batch, Place* place) except -1:
    """Raise the error of a record."""
    if wrong == NO_MEMORY:
        raise MemoryError
    shown = f"{<int64_t>place.type - FIRST_CONTROL} (control)" if place.control else f"{place.type}"
    raise BadRecord(batch, place.offset, REASONS[wrong].format(type=shown, version=place.version))


def decode(Program program, data, headers, int64_t[::1] starts, int64_t[::1] ends, Rooms rooms=None):
    """Typed columns of the records of some batches.

    `data`, `headers`, `starts` and `ends`: as for fastpath.arrow.batches_to_columns.unpack. Returns two dictionaries: {slot:
    (offset int64, timestamp int64 in microseconds, epoch int32, version int16)} and {column: (rows, nulls, data,
    offsets or None, validity bytes or None)}. They hold only slots and columns that have rows. A control record of type
    n is in slot CONTROL_SLOT + n. The memory belongs to `rooms` and goes back there. Raises BadRecord.
    """
    cdef BatchHeader* h
    cdef Column* columns
    cdef Rows rows[SLOTS]
    cdef Place place
    cdef Wrong wrong = RIGHT
    cdef Py_ssize_t batch = 0, batches = len(headers)
    cdef int room, places = 4 * SLOTS + 3 * program.columns
    cdef const uint8_t[::1] raw = headers.view(np.uint8).reshape(-1) if batches else np.zeros(1, dtype=np.uint8)
    if headers.dtype != HEADER_DTYPE or starts.shape[0] != batches or ends.shape[0] != batches:
        raise ValueError("one header, start and end a batch")
    buffer = opened(data)
    for batch in range(batches):
        if not 0 <= starts[batch] <= ends[batch] <= buffer.size:
            raise ValueError("a batch outside the buffer")
    h = <BatchHeader*>&raw[0]
    memset(rows, 0, sizeof(rows))
    memset(&place, 0, sizeof(place))
    if rooms is None:
        rooms = Rooms()
    rooms.fit(places)
    columns = <Column*>calloc(program.columns + 1, sizeof(Column))
    if columns == NULL:
        raise MemoryError
    # Each growing part of a column takes its memory out of `rooms` here. `taken` and `taken_rows` make arrays of it, which
    # give it back when they go; what nothing was made of goes back at the end.
    try:
        for room in range(places):
            rooms.take(room, growth_at(columns, rows, room))
        with nogil:
            for batch in range(batches):
                wrong = add_batch(program, columns, rows, buffer.data, starts[batch], ends[batch], &h[batch], &place)
                if wrong != RIGHT:
                    break
            if wrong == RIGHT:
                wrong = fill_up(program, columns, rows)
        if wrong != RIGHT:
            refuse(wrong, batch, &place)
        return (
            {slot: taken_rows(&rows[slot], rooms, 4 * slot) for slot in range(SLOTS) if rows[slot].offset.size},
            {column: taken(&columns[column], rooms, 4 * SLOTS + 3 * column)
             for column in range(program.columns) if columns[column].rows},
        )
    finally:
        for room in range(places):
            rooms.give(room, growth_at(columns, rows, room))
        free(columns)


cdef tuple taken_rows(Rows* rows, Rooms rooms, int place):
    return (
        np.frombuffer(own(&rows.offset, rooms, place), dtype=np.int64),
        np.frombuffer(own(&rows.time, rooms, place + 1), dtype=np.int64),
        np.frombuffer(own(&rows.epoch, rooms, place + 2), dtype=np.int32),
        np.frombuffer(own(&rows.version, rooms, place + 3), dtype=np.int32).astype(np.int16),
    )


cdef tuple taken(Column* column, Rooms rooms, int place):
    cdef object data = np.empty(0, dtype=np.uint8), offsets = None, valid = None
    if column.data.size:
        data = np.frombuffer(own(&column.data, rooms, place), dtype=np.uint8)
    if column.offsets.size:
        offsets = np.frombuffer(own(&column.offsets, rooms, place + 1), dtype=np.int32)
    if column.nulls:
        valid = np.frombuffer(own(&column.valid, rooms, place + 2), dtype=np.uint8)
    return column.rows, column.nulls, data, offsets, valid
