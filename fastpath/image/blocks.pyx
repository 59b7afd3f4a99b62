"""A block: the states, or changes, of many partitions as columns, on their way between records and an image.

This file alone decides how such a block lies in memory: one C struct for each partition, lists (replicas, ISR) in one
pool of int32, directory ids in one pool of uuids, and rare fields (removing, adding, recovery state, eligible leaders)
in a dictionary by the partition's index. A block names partitions by (topic id, number), never by a row of an image.

Rule: a block is filled by the code that makes it. Once it has been handed on, it never changes.
"""

from collections import namedtuple
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy

Extra = namedtuple("Extra", "removing adding recovery elr last_known_elr", defaults=((), (), 0, (), ()))
Extra.__doc__ = """The fields that few partitions have. In a change a field that is None stays as it is.

removing, adding: broker ids of a running reassignment. recovery: leader recovery state (0 recovered, 1 recovering).
elr, last_known_elr: eligible leader replicas (KIP-966).
"""

State = namedtuple(
    "State",
    "topic_id number replicas isr leader leader_epoch partition_epoch directories removing adding recovery elr last_known_elr",
    defaults=(None, None, -2, -1, -1, None, None, None, None, None, None),
)
State.__doc__ = """One partition of a block, as Python values; None, leader -2 and epoch -1: not given."""

NOTHING = Extra(None, None, None, None, None)


cdef void* grown(void* memory, Py_ssize_t* room, Py_ssize_t need, size_t size) except NULL:
    cdef Py_ssize_t wanted = room[0] * 2 if room[0] * 2 > need else need
    if wanted < 4:
        wanted = 4
    memory = realloc(memory, wanted * size)
    if memory == NULL:
        raise MemoryError
    room[0] = wanted
    return memory


cdef class Block:
    """Partition rows in the order of their records."""

    def __dealloc__(self):
        free(self.rows)
        free(self.values)
        free(self.uuids)
        free(self.topics)

    def __len__(self):
        return self.count

    cdef Row* add(self, const uint8_t* topic_id) except NULL:
        """Add a last row with nothing given but its topic."""
        cdef Row* row
        if self.topics_count == 0 or memcmp(self.topics + 16 * (self.topics_count - 1), topic_id, 16) != 0:
            if self.topics_count == self.topics_room:
                self.topics = <uint8_t*>grown(self.topics, &self.topics_room, self.topics_count + 1, 16)
            memcpy(self.topics + 16 * self.topics_count, topic_id, 16)
            self.topics_count += 1
        if self.count == self.rows_room:
            self.rows = <Row*>grown(self.rows, &self.rows_room, self.count + 1, sizeof(Row))
        row = &self.rows[self.count]
        self.count += 1
        row.topic = <int32_t>(self.topics_count - 1)
        row.number = -1
        row.leader = UNCHANGED
        row.leader_epoch = row.partition_epoch = -1
        row.replicas_at = row.isr_at = row.directories_at = 0
        row.replicas_size = row.isr_size = row.directories_size = ABSENT
        return row

    cdef int32_t* add_values(self, Py_ssize_t size) except NULL:
        """Add memory for a list. Its place is then `values_count - size`."""
        if self.values_count + size > self.values_room or self.values == NULL:
            self.values = <int32_t*>grown(self.values, &self.values_room, self.values_count + size, sizeof(int32_t))
        self.values_count += size
        return self.values + self.values_count - size

    cdef uint8_t* add_uuids(self, Py_ssize_t size) except NULL:
        """Add memory for uuids. Their place is then `uuids_count - size`."""
        if self.uuids_count + size > self.uuids_room or self.uuids == NULL:
            self.uuids = <uint8_t*>grown(self.uuids, &self.uuids_room, self.uuids_count + size, 16)
        self.uuids_count += size
        return self.uuids + 16 * (self.uuids_count - size)

    def append(
        self,
        bytes topic_id,
        int32_t number,
        replicas=None,
        isr=None,
        int32_t leader=UNCHANGED,
        int32_t leader_epoch=-1,
        int32_t partition_epoch=-1,
        directories=None,
        extra=None,
    ):
        """Add one partition. Omitted arguments are not given. `extra`: an Extra, None when none of its fields is
        given."""
        cdef Row* row
        cdef int32_t* values
        cdef uint8_t* uuids
        cdef Py_ssize_t i, size
        cdef Py_ssize_t replicas_size = ABSENT if replicas is None else len(replicas)
        cdef Py_ssize_t isr_size = ABSENT if isr is None else len(isr)
        if len(topic_id) != 16:
            raise ValueError(f"a topic id has 16 bytes, not {len(topic_id)}")
        if replicas is not None:
            values = self.add_values(replicas_size)
            for i in range(replicas_size):
                values[i] = replicas[i]
        if isr is not None:
            values = self.add_values(isr_size)
            i = 0
            for broker in isr:
                values[i] = broker
                i += 1
        size = ABSENT
        if directories is not None:
            size = len(directories)
            uuids = self.add_uuids(size)
            for i in range(size):
                directory = <bytes?>directories[i]
                if len(directory) != 16:
                    raise ValueError(f"a directory id has 16 bytes, not {len(directory)}")
                memcpy(uuids + 16 * i, <const char*><bytes>directory, 16)
        row = self.add(<const uint8_t*><char*>topic_id)
        row.number = number
        row.leader = leader
        row.leader_epoch = leader_epoch
        row.partition_epoch = partition_epoch
        row.replicas_size = <int32_t>replicas_size
        row.isr_size = <int32_t>isr_size
        row.directories_size = <int32_t>size
        row.isr_at = <int32_t>(self.values_count - (isr_size if isr_size > 0 else 0))
        row.replicas_at = <int32_t>(row.isr_at - (replicas_size if replicas_size > 0 else 0))
        row.directories_at = <int32_t>(self.uuids_count - (size if size > 0 else 0))
        if extra is not None:
            self.set_extra(self.count - 1, extra)

    def extend(self, Block other):
        """Add the partitions of another block."""
        cdef Row* row
        cdef Row* added
        cdef Py_ssize_t i, values = self.values_count, uuids = self.uuids_count
        if other is self:
            raise ValueError("a block is not added to itself")
        if other.values_count:
            memcpy(self.add_values(other.values_count), other.values, other.values_count * sizeof(int32_t))
        if other.uuids_count:
            memcpy(self.add_uuids(other.uuids_count), other.uuids, 16 * other.uuids_count)
        for i in range(other.count):
            row = &other.rows[i]
            added = self.add(other.topics + 16 * row.topic)
            added.number, added.leader = row.number, row.leader
            added.leader_epoch, added.partition_epoch = row.leader_epoch, row.partition_epoch
            added.replicas_at, added.replicas_size = <int32_t>(row.replicas_at + values), row.replicas_size
            added.isr_at, added.isr_size = <int32_t>(row.isr_at + values), row.isr_size
            added.directories_at, added.directories_size = <int32_t>(row.directories_at + uuids), row.directories_size
            if other.extras is not None and i in other.extras:
                self.set_extra(self.count - 1, other.extras[i])

    def set_extra(self, Py_ssize_t index, extra):
        """Set the rare fields of a row that was just added."""
        if self.extras is None:
            self.extras = {}
        self.extras[index] = extra

    def topic_ids(self):
        """The topic ids, 16 bytes each, in order of first use; neighbours differ."""
        return [(<const char*>self.topics)[16 * i:16 * i + 16] for i in range(self.topics_count)]

    def extra(self, Py_ssize_t index):
        """The rare fields of a row, or None."""
        return None if self.extras is None else self.extras.get(index)

    def state(self, Py_ssize_t index):
        """One row as a State. Raises IndexError."""
        cdef Row* row
        if index < 0 or index >= self.count:
            raise IndexError(index)
        row = &self.rows[index]
        replicas = isr = directories = None
        if row.replicas_size >= 0:
            replicas = tuple([self.values[row.replicas_at + i] for i in range(row.replicas_size)])
        if row.isr_size >= 0:
            isr = tuple([self.values[row.isr_at + i] for i in range(row.isr_size)])
        if row.directories_size >= 0:
            directories = tuple(
                [(<const char*>self.uuids + 16 * (row.directories_at + i))[:16] for i in range(row.directories_size)]
            )
        extra = self.extra(index) or NOTHING
        topic_id = (<const char*>self.topics + 16 * row.topic)[:16]
        return State(
            topic_id, row.number, replicas, isr, row.leader, row.leader_epoch, row.partition_epoch, directories, *extra
        )

    def part(self, Py_ssize_t begin, Py_ssize_t end):
        """The rows from `begin` up to `end` as a block of their own."""
        return _rebuilt([self.state(index) for index in range(begin, end)])

    def __iter__(self):
        for index in range(self.count):
            yield self.state(index)

    def __eq__(self, other):
        return isinstance(other, Block) and len(self) == len(other) and all(a == b for a, b in zip(self, other))

    def __hash__(self):
        return hash((self.count, self.topics_count))

    def __repr__(self):
        return f"Block({list(self)!r})"

    def __reduce__(self):
        return _rebuilt, (list(self),)


def _rebuilt(states):
    block = Block()
    for s in states:
        extra = Extra(*s[8:])
        block.append(*s[:8], extra=None if extra == NOTHING else extra)
    return block
