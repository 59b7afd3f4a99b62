"""Topics of a Metadata answer and of a DescribeTopicPartitions answer, out of the columns: no Python object is made for a
partition, nor for a topic.

This file alone decides how these topics lie in bytes (RPC 3, versions 0 to 13, and RPC 75, version 0):

    topic       error int16, name, topic id (10+), internal bool (1+), partitions, operations int32 (8+), tags (9+)
    partition   error int16, number int32, leader int32, leader epoch int32 (7+), replicas, isr, offline (5+) []int32,
                tags (9+); in RPC 75 eligible and last known leaders stand before the offline replicas

Lengths are compact from version 9 on, and in RPC 75. The rules of the content: a leader that is not alive is no leader
(LEADER_NOT_AVAILABLE), nor is one that the asking listener does not reach; a replica that is not alive is offline.

A topic may be begun in one slice of work and finished in another, if its view is a pinned one. What a slice may write is
counted in partitions; a topic counts as four, a name that is passed over as one.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from fastpath.bytes.byte_builder cimport Growth, extend_by
from fastpath.bytes.endian cimport load_int16, store_int16, store_int32
from fastpath.bytes.varint cimport write_uvarlong
from fastpath.image.chains cimport Extent
from fastpath.image.name_order cimport NameOrder, NamePage, place_in
from fastpath.image.views cimport CHUNK, MASK_BITS, RARE, Table, View

cdef extern from "Python.h":
    int PyUnicode_Compare(object, object) except? -1
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*) except NULL

cdef enum:
    LEADER_NOT_AVAILABLE = 5
    ALIVE = 1
    REACHABLE = 2
    TOPIC_COST = 4

COMPACT_FROM = 9
DESCRIBED = -1
"""In place of a version of Metadata: the answer is one to DescribeTopicPartitions, version 0."""


cdef class Known:
    """What is known of brokers, by id: a small table without objects."""

    cdef int32_t* ids                   # -1: an empty place
    cdef uint8_t* flags
    cdef uint32_t mask

    def __init__(self, alive, reachable):
        brokers = {int(id): ALIVE for id in alive}
        for id in reachable:
            if id in brokers:
                brokers[id] |= REACHABLE
        self.mask = 15
        while self.mask < 2 * len(brokers):
            self.mask = 2 * self.mask + 1
        self.ids = <int32_t*>calloc(self.mask + 1, sizeof(int32_t))
        self.flags = <uint8_t*>calloc(self.mask + 1, 1)
        if self.ids == NULL or self.flags == NULL:
            raise MemoryError
        for place in range(self.mask + 1):
            self.ids[<uint32_t>place] = -1
        for id, flags in brokers.items():
            place = self.place(id)
            self.ids[<uint32_t>place], self.flags[<uint32_t>place] = id, flags

    def __dealloc__(self):
        free(self.ids)
        free(self.flags)

    cdef inline uint32_t place(self, int32_t id) noexcept nogil:
        cdef uint32_t place = (<uint32_t>id * 0x9E3779B1U) & self.mask
        while self.ids[place] != id and self.ids[place] != -1:
            place = (place + 1) & self.mask
        return place

    cdef inline uint8_t of(self, int32_t id) noexcept nogil:
        return 0 if id < 0 else self.flags[self.place(id)]


cdef inline uint8_t* store_size(uint8_t* p, bint compact, int32_t size) noexcept nogil:
    """The length of an array."""
    if compact:
        return p + write_uvarlong(p, 0, <uint32_t>size + 1)
    store_int32(p, size)
    return p + 4


cdef class TopicAnswers:
    """The topics of one answer, while they are written. `left`: how many partitions of the topic that was begun last are
    still to be written; `count`: how many topics there are, that one included; `looked`: what all this has cost, counted in
    partitions."""

    cdef Growth out
    cdef Known known
    cdef View view                      # that of the topic that was begun last
    cdef bytes chain                    # its extents
    cdef Py_ssize_t extent, at          # the next partition of it
    cdef object internal
    cdef int version
    cdef int no_listener
    cdef int64_t sound, leaderless, unreachable     # parts that say so
    cdef dict refused                   # error code -> topics that were put
    cdef int32_t operations
    cdef bint compact, described
    cdef readonly Py_ssize_t count, left, looked

    def __init__(self, int version, alive, reachable, internal, int no_listener):
        """`version`: of Metadata, or DESCRIBED. `alive`, `reachable`: ids of brokers. `internal`: names of internal topics.
        `no_listener`: the error code where a leader is not reachable."""
        self.known = Known(alive, reachable)
        self.internal = frozenset(internal)
        self.described = version == DESCRIBED
        self.version = 13 if self.described else version
        self.compact = self.version >= COMPACT_FROM
        self.no_listener = no_listener
        self.refused = {}

    def __dealloc__(self):
        free(self.out.data)

    @property
    def size(self):
        """How many bytes wait to be taken."""
        return self.out.size

    @property
    def codes(self):
        """(error code, how often topics and partitions have it), 0 among them."""
        return [(0, self.sound), (LEADER_NOT_AVAILABLE, self.leaderless), (self.no_listener, self.unreachable),
                *self.refused.items()]

    def take(self):
        """The bytes that were written since the last call."""
        taken = (<char*>self.out.data)[:self.out.size] if self.out.size else b""
        self.out.size = 0
        return taken

    def put(self, bytes topic):
        """Add a topic that is encoded already, such as one that is denied."""
        assert self.left == 0, "the topic before it is whole"
        memcpy(self.room(len(topic)), <char*>topic, len(topic))
        self.count += 1
        if len(topic) >= 2:
            code = load_int16(<const uint8_t*><char*>topic)
            self.refused[code] = self.refused.get(code, 0) + 1

    def begin(self, View view, str name, Py_ssize_t row, int32_t operations, int32_t first=0, Py_ssize_t most=-1):
        """Begin a topic that exists, with its partitions from number `first` on, `most` of them unless that is -1. Returns
        the number of the partition behind them; -1: there is none."""
        return self.begin_topic(view, name, row, operations, first, most)

    cdef Py_ssize_t begin_topic(
        self, View view, str name, Py_ssize_t row, int32_t operations, int32_t first, Py_ssize_t most
    ) except -2:
        cdef const Extent* extents
        cdef Py_ssize_t i, found = 0, name_bytes, skipped, following = -1
        cdef const char* text
        cdef uint8_t* p
        cdef bytes topic_id
        assert self.left == 0, "the topic before it is whole"
        self.view, self.chain = view, view.chains.get(row)
        self.operations = operations
        self.extent = self.at = 0
        extents = <const Extent*><const char*>self.chain
        for i in range(len(self.chain) // <Py_ssize_t>sizeof(Extent)):
            if <Py_ssize_t>extents[i].number + extents[i].count <= first:
                self.extent, self.at = i + 1, 0
                continue
            skipped = max(first - extents[i].number, 0)
            if found == 0:
                self.extent, self.at = i, skipped
            if most >= 0 and found + extents[i].count - skipped > most:
                following = extents[i].number + skipped + most - found
                found = most
                break
            found += extents[i].count - skipped
        self.left = found
        text = PyUnicode_AsUTF8AndSize(name, &name_bytes)
        p = self.room(2 + 5 + name_bytes + 16 + 1 + 5)
        store_int16(p, 0)
        p += 2
        if self.compact:
            p += write_uvarlong(p, 0, <uint32_t>name_bytes + 1)
        else:
            store_int16(p, <short>name_bytes)
            p += 2
        memcpy(p, text, name_bytes)
        p += name_bytes
        if self.version >= 10:
            topic_id = view.topic_ids.get(row)
            memcpy(p, <const char*>topic_id, 16)
            p += 16
        if self.version >= 1:
            p[0] = name in self.internal
            p += 1
        p = store_size(p, self.compact, <int32_t>found)
        self.out.size = p - self.out.data
        self.count += 1
        self.sound += 1
        self.looked += TOPIC_COST
        if found == 0:
            self.end_topic()
        return following

    def go_on(self, Py_ssize_t most):
        """Write up to `most` partitions of the topic that was begun. Returns how many it has written."""
        cdef const Extent* extents
        cdef Py_ssize_t written = 0
        if self.left == 0:
            return 0
        extents = <const Extent*><const char*>self.chain
        while self.left and written < most:
            if self.at == extents[self.extent].count:
                self.extent, self.at = self.extent + 1, 0
            self.write_partition(extents[self.extent].row + self.at)
            self.at += 1
            self.left -= 1
            written += 1
            if self.left == 0:
                self.end_topic()
        self.looked += written
        return written

    def along(
        self, View view, NameOrder order, str first, str until, Py_ssize_t most,
        operations, literal=None, tuple whoever=(), ruled=None, judge=None,
    ):
        """Write the topics from the name `first` on that are below `until` (None: all), until about `most` partitions were
        written or passed over. Returns the name to go on with, once `left` is 0; None: there is no other.

        `operations`: what stands in each topic; None: those topics are hidden. Where `literal` has something about a name:
        if it has one of `whoever`, `judge(name)` says the same of that one, else `ruled` does.
        """
        cdef NamePage page
        cdef Py_ssize_t index, at
        if not order.pages:
            return None
        index = order.page_of(first)
        at = place_in((<NamePage>order.pages[index]).names, first)
        while True:
            while at == len((<NamePage>order.pages[index]).names):
                index, at = index + 1, 0
                if index == len(order.pages):
                    return None
            page = <NamePage>order.pages[index]
            name = page.names[at]
            if until is not None and PyUnicode_Compare(name, until) >= 0:
                return None
            if most <= 0 or self.left:
                return name
            shown = operations
            if literal is not None:
                grants = (<dict>literal).get(name)
                if grants is not None:
                    shown = ruled
                    for one in whoever:
                        if one in <dict>grants:
                            shown = judge(name)
                            break
            if shown is None:
                most -= 1
                self.looked += 1
            else:
                self.begin_topic(view, name, page.rows[at], shown, 0, -1)
                most -= TOPIC_COST
                if self.left:
                    most -= self.go_on(most if most > 1 else 1)
            at += 1

    cdef uint8_t* room(self, Py_ssize_t size) except NULL:
        """Room for `size` bytes, which count as written until the caller says where they end."""
        cdef uint8_t* p = extend_by(&self.out, size)
        if p == NULL:
            raise MemoryError
        return p

    cdef int end_topic(self) except -1:
        cdef uint8_t* p = self.room(5)
        if self.version >= 8:
            store_int32(p, self.operations)
            p += 4
        if self.compact:
            p[0] = 0
            p += 1
        self.out.size = p - self.out.data
        self.view = None
        self.chain = None
        return 0

    cdef int write_partition(self, Py_ssize_t row) except -1:
        cdef Table* columns = self.view.chunk_of(row)
        cdef Py_ssize_t at = row & (CHUNK - 1)
        cdef const int32_t* replicas = self.view.lists.at(columns.replicas[at])
        cdef int32_t size = replicas[0], i, count, leader = columns.leader[at]
        cdef uint32_t mask = columns.isr[at]
        cdef uint8_t flags = self.known.of(leader)
        cdef int error = 0
        cdef uint8_t* p
        rare = None
        eligible = last_known = ()
        if columns.flags[at] & RARE:
            rare = self.view.rare_at(row)
            if self.described and rare[0] is not None:
                eligible, last_known = rare[0].elr, rare[0].last_known_elr
        if not flags & ALIVE:
            leader, error = -1, LEADER_NOT_AVAILABLE
            self.leaderless += 1
        elif not flags & REACHABLE:
            leader, error = -1, self.no_listener
            self.unreachable += 1
        else:
            self.sound += 1
        p = self.room(14 + 25 + 4 * (3 * <Py_ssize_t>size + len(eligible) + len(last_known)) + 1)
        store_int16(p, <short>error)
        store_int32(p + 2, columns.number[at])
        store_int32(p + 6, leader)
        p += 10
        if self.version >= 7:
            store_int32(p, columns.leader_epoch[at])
            p += 4
        p = store_size(p, self.compact, size)
        for i in range(size):
            store_int32(p, replicas[1 + i])
            p += 4
        if size > MASK_BITS:
            p = self.store_wide(p, replicas, mask, rare[1])
        else:
            p = store_size(p, self.compact, mask_size(mask))
            for i in range(size):
                if mask >> i & 1:
                    store_int32(p, replicas[1 + i])
                    p += 4
        if self.described:
            p = self.store_list(p, eligible)
            p = self.store_list(p, last_known)
        if self.version >= 5:
            count = 0
            for i in range(size):
                count += not self.known.of(replicas[1 + i]) & ALIVE
            p = store_size(p, self.compact, count)
            if count:
                for i in range(size):
                    if not self.known.of(replicas[1 + i]) & ALIVE:
                        store_int32(p, replicas[1 + i])
                        p += 4
        if self.compact:
            p[0] = 0
            p += 1
        self.out.size = p - self.out.data
        return 0

    cdef uint8_t* store_list(self, uint8_t* p, tuple values) except NULL:
        p = store_size(p, self.compact, <int32_t>len(values))
        for value in values:
            store_int32(p, value)
            p += 4
        return p

    cdef uint8_t* store_wide(self, uint8_t* p, const int32_t* replicas, uint32_t mask, high) except NULL:
        """The ISR of a partition with more than 32 replicas."""
        cdef int32_t i
        bits = mask | high << MASK_BITS
        p = store_size(p, self.compact, bits.bit_count())
        for i in range(replicas[0]):
            if bits >> i & 1:
                store_int32(p, replicas[1 + i])
                p += 4
        return p


cdef inline int32_t mask_size(uint32_t mask) noexcept nogil:
    cdef int32_t size = 0
    while mask:
        mask &= mask - 1
        size += 1
    return size
