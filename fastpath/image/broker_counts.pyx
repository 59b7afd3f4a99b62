"""How many partitions each broker replicates, leads and is in sync for, and how many there are and lack a leader.

This file alone decides where a broker's three counters lie, and keeps those of all partitions. Every write of a partition updates them, so reading them
costs one probe, whatever the number of partitions.
"""

from libc.stdlib cimport free, malloc
from libc.string cimport memcpy


cdef Count* empty(uint32_t size) except NULL:
    cdef uint32_t i
    cdef Count* places = <Count*>malloc(size * sizeof(Count))
    if places == NULL:
        raise MemoryError
    for i in range(size):
        places[i].broker = -1
        places[i].replicas = places[i].led = places[i].in_isr = places[i].alone = 0
    return places


cdef class Counts:
    """Counters by broker id (>= 0)."""

    def __init__(self):
        self.mask = 63
        self.used = 0
        self.places = empty(64)

    def __dealloc__(self):
        free(self.places)

    cdef Count* of(self, int32_t broker) except NULL:
        """The counters of a broker, made if it has none. Valid until the next call. Raises ValueError for a negative
        id."""
        cdef uint32_t at = (<uint32_t>broker * 2654435769U >> 7) & self.mask
        cdef Count* old
        cdef uint32_t i, size
        while self.places[at].broker != broker:
            if self.places[at].broker == -1:
                break
            at = (at + 1) & self.mask
        if self.places[at].broker == broker and broker >= 0:
            return &self.places[at]
        if broker < 0:
            raise ValueError(f"{broker} is not a broker id")
        if 2 * (self.used + 1) <= self.mask:
            self.places[at].broker = broker
            self.used += 1
            return &self.places[at]
        old = self.places
        size = self.mask + 1
        self.places = empty(2 * size)
        self.mask = 2 * size - 1
        self.used = 0
        for i in range(size):
            if old[i].broker >= 0:
                self.of(old[i].broker)[0] = old[i]
        free(old)
        return self.of(broker)

    def get(self, int32_t broker):
        """(replicas, led, in ISR) of one broker; zeros for a broker that has no counters, which gets none by this."""
        cdef Count* count = self.known(broker)
        if count == NULL:
            return 0, 0, 0
        return count.replicas, count.led, count.in_isr

    def alone(self, int32_t broker):
        """Of how many partitions a broker is the whole ISR."""
        cdef Count* count = self.known(broker)
        return 0 if count == NULL else count.alone

    cdef Count* known(self, int32_t broker) noexcept:
        """The counters of a broker; NULL: it has none."""
        cdef uint32_t at = (<uint32_t>broker * 2654435769U >> 7) & self.mask
        while broker >= 0 and self.places[at].broker != -1:
            if self.places[at].broker == broker:
                return &self.places[at]
            at = (at + 1) & self.mask
        return NULL

    def all(self):
        """Broker -> (replicas, led, in ISR), for the brokers whose counters are not all zero."""
        cdef Count* place
        found = {}
        for i in range(self.mask + 1):
            place = &self.places[i]
            if place.broker >= 0 and (place.replicas or place.led or place.in_isr):
                found[place.broker] = (place.replicas, place.led, place.in_isr)
        return found

    cpdef Counts copy(self):
        """The counters as they are now, to keep or to write on."""
        cdef Counts copy = Counts.__new__(Counts)
        copy.places = empty(self.mask + 1)
        memcpy(copy.places, self.places, (self.mask + 1) * sizeof(Count))
        copy.mask = self.mask
        copy.used = self.used
        copy.partitions, copy.leaderless, copy.unpreferred = self.partitions, self.leaderless, self.unpreferred
        copy.elections, copy.unclean = self.elections, self.unclean
        return copy
