"""Splits a batch of metadata records: bulk records into blocks, the others into (type, version, bytes).

This file alone decides how PartitionRecord and its change record are read, in the drafts' layout
(fastpath/image/write_records.pyx draws it) and in released Kafka's:

    frame version 1, type, version uvarint
    PartitionRecord 3        as the drafts' up to the leader epoch, then partition epoch int32, directories []uuid (v1+),
                             tags 0 recovery, 1 eligible, 2 last known leaders (v2+)
    PartitionChangeRecord 5  number int32, topic id, tags: 0 isr, 1 leader, 2 replicas, 3 removing, 4 adding, 5 recovery,
                             6 eligible, 7 last known leaders, 8 directories

Rules: every byte of a value is accounted for; unknown tags are skipped, unknown versions are errors (R631-055, 057, 068).
Records next to each other become one block: PartitionRecords of one topic, change records of any. LeaderEpoch of the drafts
is the partition epoch too (A33): here it becomes both, so no reader of a block derives one epoch from the other.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from fastpath.bytes.endian cimport load_int32
from fastpath.records.batch cimport BatchHeader, RecordView, read_header, read_record
from fastpath.records.header cimport CODEC, CONTROL, HEADER_BYTES
from fastpath.records.faults cimport FINE
from fastpath.image.arrivals cimport Arrivals
from fastpath.image.blocks cimport ABSENT, Block, Row
from fastpath.bytes.varint cimport read_uvarint

from fastpath.image.blocks import Extra

cdef enum:
    TOPIC = 1                           # the type of a TopicRecord of the drafts


cdef enum:
    TAG_ISR, TAG_LEADER, TAG_REPLICAS, TAG_REMOVING, TAG_ADDING, TAG_RECOVERY, TAG_ELR, TAG_LAST_KNOWN_ELR, TAG_DIRECTORIES


class CorruptRecord(ValueError):
    """A metadata record that cannot be read. `offset`: that of the record; `reason`: a sentence."""

    def __init__(self, offset, reason):
        super().__init__(f"offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


cdef class Cursor:
    """A position in a record value. Reading past the end raises ValueError."""
    cdef const uint8_t* data
    cdef Py_ssize_t pos, end

    cdef int need(self, Py_ssize_t size) except -1:
        if size > self.end - self.pos:
            raise ValueError(f"cut: {size} bytes wanted, {self.end - self.pos} left")
        return 0

    cdef uint32_t uvarint(self) except? 0xFFFFFFFF:
        cdef uint32_t value = 0
        cdef Py_ssize_t pos = read_uvarint(self.data, self.pos, self.end, &value)
        if pos < 0:
            raise ValueError("a number that is cut or too long")
        self.pos = pos
        return value

    cdef int32_t int32(self) except? -77:
        self.need(4)
        self.pos += 4
        return load_int32(self.data + self.pos - 4)

    cdef const uint8_t* uuid(self) except NULL:
        self.need(16)
        self.pos += 16
        return self.data + self.pos - 16

    cdef int32_t list_size(self, int width, bint nullable) except -2:
        """The number of entries in the compact array that follows; ABSENT for null."""
        cdef uint32_t size = self.uvarint()
        if size == 0:
            if nullable:
                return ABSENT
            raise ValueError("a list that is null")
        size -= 1
        if size > (self.end - self.pos) // width:
            raise ValueError(f"a list of {size} entries in {self.end - self.pos} bytes")
        return <int32_t>size

    cdef int32_t int32s(self, Block block, bint nullable=False) except -2:
        """Read a list of int32 and append it to the block's values. Returns its size."""
        cdef int32_t size = self.list_size(4, nullable), i
        cdef int32_t* out
        if size <= 0:
            return size
        out = block.add_values(size)
        for i in range(size):
            out[i] = load_int32(self.data + self.pos + 4 * i)
        self.pos += 4 * size
        return size

    cdef tuple ids(self, bint nullable=False):
        """Read a list of int32 as a tuple; None for null."""
        cdef int32_t size = self.list_size(4, nullable)
        if size < 0:
            return None
        return tuple([self.int32() for _ in range(size)])

    cdef int32_t uuids(self, Block block, bint nullable=False) except -2:
        """Read a list of uuids and append it to the block's uuids. Returns its size."""
        cdef int32_t size = self.list_size(16, nullable)
        if size <= 0:
            return size
        memcpy(block.add_uuids(size), self.data + self.pos, 16 * size)
        self.pos += 16 * size
        return size


cdef class Rare:
    """The rare fields of one record, collected for an Extra; None: not given."""
    cdef object removing, adding, recovery, elr, last_known_elr
    cdef bint given

    cdef void clear(self) noexcept:
        self.removing = self.adding = self.recovery = self.elr = self.last_known_elr = None
        self.given = False

    cdef int tag(self, Cursor value, int what) except -1:
        if what == TAG_RECOVERY:
            value.need(1)
            value.pos += 1
            self.recovery = <int8_t>value.data[value.pos - 1]
        elif what == TAG_REMOVING:
            self.removing = value.ids(True)
        elif what == TAG_ADDING:
            self.adding = value.ids(True)
        elif what == TAG_ELR:
            self.elr = value.ids(True)
        else:
            self.last_known_elr = value.ids(True)
        self.given = True
        return 0


cdef int read_tags(Cursor value, Block block, Row* row, Rare rare, bint whole, bint released) except -1:
    """Read the tag section. `whole` records number their tags from 0: recovery, eligible, last known, directories."""
    cdef uint32_t count = value.uvarint(), i, tag, size
    cdef Py_ssize_t end, after
    cdef int what
    cdef int32_t listed
    for i in range(count):
        tag = value.uvarint()
        size = value.uvarint()
        value.need(size)
        after = value.pos + size
        end = value.end
        value.end = after
        what = <int>tag + TAG_RECOVERY if whole else <int>tag
        if tag > 8 or what > TAG_DIRECTORIES or (whole and released and what == TAG_DIRECTORIES) or (
            not whole and not released and what < TAG_RECOVERY
        ):
            value.pos = after
        elif what == TAG_DIRECTORIES:
            row.directories_size = value.uuids(block, True)
            row.directories_at = <int32_t>(block.uuids_count - max(row.directories_size, 0))
        elif what == TAG_LEADER:
            row.leader = value.int32()
        elif what == TAG_ISR or what == TAG_REPLICAS:
            listed = value.int32s(block, True)
            if what == TAG_ISR:
                row.isr_size, row.isr_at = listed, <int32_t>(block.values_count - max(listed, 0))
            else:
                row.replicas_size, row.replicas_at = listed, <int32_t>(block.values_count - max(listed, 0))
        else:
            rare.tag(value, what)
        if value.pos != after:
            raise ValueError(f"{after - value.pos} bytes left over in tag {tag}")
        value.end = end
    return 0


cdef inline int read_one_epoch(Cursor value, Row* row) except -1:
    """LeaderEpoch of the drafts: both epochs of a row (A33)."""
    row.leader_epoch = row.partition_epoch = value.int32()
    return 0


cdef int read_partition(Cursor value, Block block, Rare rare, int version, bint released) except -1:
    cdef int32_t number = value.int32()
    cdef const uint8_t* topic_id = value.uuid()
    cdef Row* row = block.add(topic_id)
    rare.clear()
    row.number = number
    row.replicas_size = value.int32s(block)
    row.replicas_at = <int32_t>(block.values_count - row.replicas_size)
    row.isr_size = value.int32s(block)
    row.isr_at = <int32_t>(block.values_count - row.isr_size)
    rare.removing = value.ids()
    rare.adding = value.ids()
    rare.given = bool(rare.removing or rare.adding)
    row.leader = value.int32()
    if not released:
        read_one_epoch(value, row)
    else:
        row.leader_epoch = value.int32()
        row.partition_epoch = value.int32()
        if version >= 1:
            row.directories_size = value.uuids(block)
            row.directories_at = <int32_t>(block.uuids_count - row.directories_size)
    read_tags(value, block, row, rare, True, released)
    if rare.given:
        block.set_extra(
            block.count - 1,
            Extra(rare.removing, rare.adding, rare.recovery or 0, rare.elr or (), rare.last_known_elr or ()),
        )
    return 0


cdef int read_change(Cursor value, Block block, Rare rare, bint released) except -1:
    cdef int32_t number = value.int32()
    cdef const uint8_t* topic_id = value.uuid()
    cdef Row* row = block.add(topic_id)
    rare.clear()
    row.number = number
    if not released:
        row.isr_size = value.int32s(block)
        row.isr_at = <int32_t>(block.values_count - row.isr_size)
        row.leader = value.int32()
        read_one_epoch(value, row)
    read_tags(value, block, row, rare, False, released)
    if rare.given:
        block.set_extra(block.count - 1, Extra(rare.removing, rare.adding, rare.recovery, rare.elr, rare.last_known_elr))
    return 0


cdef tuple usual_topic(const uint8_t* data, Py_ssize_t pos, Py_ssize_t end):
    """(name, topic id, deleting) of the body of a TopicRecord of the drafts, version 0, from `pos` to `end`; None as in
    `topic_fields`."""
    cdef uint32_t size = 0
    pos = read_uvarint(data, pos, end, &size)
    if pos < 0 or size == 0 or size > 0x8000 or end - pos != <Py_ssize_t>size - 1 + 18 or data[end - 1] or data[end - 2] > 1:
        return None
    try:
        name = (<const char*>data)[pos:pos + size - 1].decode("utf-8")
    except UnicodeDecodeError:
        return None
    pos += size - 1
    return name, (<const char*>data)[pos:pos + 16], data[pos + 16] != 0


def topic_fields(bytes body):
    """(name, topic id, deleting) of the body of a TopicRecord of the drafts, version 0, as it is usually; None: it is for the
    general decoder, since it has tags or is damaged."""
    return usual_topic(<const uint8_t*><const char*>body, 0, len(body))


def expand(data, Py_ssize_t pos=0, bint released=False, bint together=False):
    """The records of the batches from `pos` to the end of `data` (no CRC check): a list of (offset, type, version, thing).

    `thing` is a Block for records of partitions and their changes (offset is that of its first row), else the bytes of
    the body. `together`: topics of the drafts that are not hidden, with what follows of their own partitions, are Arrivals
    (offset and type are those of the first topic). Several batches are read as if they were one: each must begin where the one before ends. Raises
    CorruptRecord.
    """
    cdef const uint8_t[::1] view = data
    cdef const uint8_t* bytes_ = &view[0] if view.shape[0] else NULL
    cdef BatchHeader header
    cdef RecordView record
    cdef Cursor value = Cursor()
    cdef Rare rare = Rare()
    cdef Block block = None
    cdef Arrivals arrivals = None
    cdef tuple topic
    cdef Py_ssize_t at, end
    cdef uint32_t type_, version, block_type = 0
    cdef uint32_t set_type = 3 if released else 2, change_type = 5 if released else 4, newest = 2 if released else 0
    cdef int64_t offset = -1, next_offset = -1
    cdef int32_t i
    cdef bint here
    found = []
    while pos < view.shape[0] or next_offset < 0:
        if read_header(bytes_, pos, view.shape[0], &header) != FINE:
            raise CorruptRecord(next_offset, f"no whole batch at position {pos}")
        if header.attributes & (CODEC | CONTROL):
            raise CorruptRecord(header.base_offset, "not a plain batch of metadata: compressed, or of control records")
        if next_offset >= 0 and header.base_offset != next_offset:
            raise CorruptRecord(header.base_offset, f"a batch that does not begin at offset {next_offset}")
        at, end = pos + HEADER_BYTES, pos + header.size
        pos, next_offset = end, header.last_offset + 1
        try:
            for i in range(header.count):
                offset = header.base_offset + i
                if read_record(bytes_, at, end, &record) != FINE:
                    raise ValueError(f"the batch is damaged at position {record.end}")
                if record.offset_delta != i:
                    raise ValueError(f"a record with offset delta {record.offset_delta} at place {i}")
                at = record.end
                if record.key_size >= 0 or record.value_size < 0:
                    raise ValueError("a metadata record has a null key and a value")
                value.data, value.pos, value.end = bytes_, record.value, record.value + record.value_size
                if released and value.uvarint() != 1:
                    raise ValueError("the frame version is not 1")
                type_ = value.uvarint()
                version = value.uvarint()
                if together and type_ == TOPIC and version == 0:
                    topic = usual_topic(bytes_, value.pos, value.end)
                    if topic is not None and not topic[2]:
                        if arrivals is None:
                            arrivals = Arrivals()
                            found.append((offset, type_, version, arrivals))
                        arrivals.add(<str>topic[0], <bytes>topic[1])
                        block = None
                        continue
                if arrivals is not None:
                    if type_ == set_type and version <= newest and value.end - value.pos >= 20 and memcmp(
                        arrivals.last_id, bytes_ + value.pos + 4, 16
                    ) == 0:
                        read_partition(value, arrivals.block, rare, <int>version, released)
                        if value.pos != value.end:
                            raise ValueError(f"{value.end - value.pos} bytes left over behind record type {type_}")
                        continue
                    arrivals = None
                if type_ != set_type and type_ != change_type:
                    block = None
                    found.append((offset, type_, version, (<const char*>bytes_)[value.pos:value.end]))
                    continue
                if version > newest:
                    raise ValueError(f"record type {type_} has no version {version}")
                here = block is not None and block_type == type_ and (
                    type_ == change_type or (
                        value.end - value.pos >= 20 and memcmp(block.topics, bytes_ + value.pos + 4, 16) == 0
                    )
                )
                if not here:
                    block, block_type = Block(), type_
                    found.append((offset, type_, version, block))
                if type_ == set_type:
                    read_partition(value, block, rare, <int>version, released)
                else:
                    read_change(value, block, rare, released)
                if value.pos != value.end:
                    raise ValueError(f"{value.end - value.pos} bytes left over behind record type {type_}")
            if at != end:
                raise ValueError(f"{end - at} bytes left over in the batch")
        except ValueError as error:
            raise CorruptRecord(offset, str(error)) from None
        if header.count != header.last_offset_delta + 1:
            block, arrivals = None, None    # an offset has no record, but what is together must have consecutive offsets
    return found
