"""Pools of values that repeat: lists of int32 (replicas, directories) and uuids, each kept once and named by a number.

This file alone decides how a list lies in memory. A list is its length followed by its values, inside a slab of 65,536
int32. Its number is its position (slab * 65536 + place). A list never crosses the end of a slab: -1 in place of a
length says that the rest of the slab is unused. Number 0 is the empty list.

Rules: nothing is changed or moved once it is written, so any thread can read a frozen copy (its own table of slabs, the
same slabs). Lists are never freed: the pool grows with the number of *different* lists only.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy


cdef class Slab:
    """65,536 int32, freed with the object."""

    def __cinit__(self):
        self.values = <int32_t*>malloc(SLAB * sizeof(int32_t))
        if self.values == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.values)


cdef inline uint32_t hash_of(const int32_t* values, Py_ssize_t size) noexcept nogil:
    cdef uint64_t h = 0x9E3779B97F4A7C15ULL + <uint64_t>size
    cdef Py_ssize_t i
    for i in range(size):
        h = (h ^ <uint32_t>values[i]) * 0xFF51AFD7ED558CCDULL
        h ^= h >> 32
    return <uint32_t>h


cdef class Lists:
    """The pool of int32 lists."""

    def __init__(self):
        self.slabs = []
        self.end = 0
        self.mask = 63
        self.buckets = <uint32_t*>calloc(64, sizeof(uint32_t))
        if self.buckets == NULL:
            raise MemoryError
        self._add_slab()
        self.table[0][0] = 0
        self.end = 1
        self.count = 1

    def __dealloc__(self):
        free(self.buckets)
        free(self.table)

    def _add_slab(self):
        cdef int32_t** table
        cdef Slab slab = Slab()
        table = <int32_t**>realloc(self.table, (len(self.slabs) + 1) * sizeof(int32_t*))
        if table == NULL:
            raise MemoryError
        self.table = table
        table[len(self.slabs)] = slab.values
        self.slabs.append(slab)

    cdef uint32_t intern(self, const int32_t* values, Py_ssize_t size) except? 0xFFFFFFFF:
        """The number of the list with these values, which is added if it is new. Raises ValueError above LIST_MAX
        values."""
        cdef uint32_t bucket, number
        cdef const int32_t* known
        cdef int32_t* place
        if size == 0:
            return 0
        if size > LIST_MAX:
            raise ValueError(f"a list of {size} values; at most {LIST_MAX} are possible")
        bucket = hash_of(values, size) & self.mask
        while self.buckets[bucket] != 0:
            number = self.buckets[bucket]
            known = self.at(number)
            if known[0] == size and memcmp(known + 1, values, size * sizeof(int32_t)) == 0:
                return number
            bucket = (bucket + 1) & self.mask
        if (self.end & (SLAB - 1)) == 0 or (self.end & (SLAB - 1)) + size + 1 > SLAB:
            if self.end & (SLAB - 1):
                self.table[self.end >> SLAB_BITS][self.end & (SLAB - 1)] = -1
                self.end = (self.end | (SLAB - 1)) + 1
            self._add_slab()
        number = self.end
        place = self.table[number >> SLAB_BITS] + (number & (SLAB - 1))
        place[0] = <int32_t>size
        memcpy(place + 1, values, size * sizeof(int32_t))
        self.end = number + 1 + <uint32_t>size
        self.count += 1
        self.buckets[bucket] = number
        if self.count * 2 > self.mask:
            self._grow()
        return number

    cdef int _grow(self) except -1:
        return self._index(self.mask * 2 + 1)

    cdef int _index(self, uint32_t mask) except -1:
        """Put every list into new buckets: a power of two, less one."""
        cdef uint32_t* buckets = <uint32_t*>calloc(<size_t>mask + 1, sizeof(uint32_t))
        cdef uint32_t number = 1, bucket
        cdef const int32_t* known
        if buckets == NULL:
            raise MemoryError
        with nogil:
            while number < self.end:
                known = self.at(number)
                if known[0] < 0:
                    number = (number | (SLAB - 1)) + 1
                    continue
                bucket = hash_of(known + 1, known[0]) & mask
                while buckets[bucket] != 0:
                    bucket = (bucket + 1) & mask
                buckets[bucket] = number
                number += 1 + <uint32_t>known[0]
        free(self.buckets)
        self.buckets = buckets
        self.mask = mask
        return 0

    cpdef Lists frozen(self):
        """All lists known now, for another thread."""
        cdef Lists copy = Lists.__new__(Lists)
        copy.slabs = list(self.slabs)
        copy.table = <int32_t**>malloc(len(copy.slabs) * sizeof(int32_t*))
        if copy.table == NULL:
            raise MemoryError
        memcpy(copy.table, self.table, len(copy.slabs) * sizeof(int32_t*))
        copy.end = self.end
        copy.count = self.count
        return copy

    cpdef Lists thawed(self):
        """A pool that can grow, with the lists of this frozen one under the same numbers. It shares all slabs but the
        last, into which the pool that was frozen may still write."""
        cdef Lists copy = self.frozen()
        cdef Slab last = Slab()
        cdef uint32_t mask = 63
        memcpy(last.values, (<Slab>copy.slabs[len(copy.slabs) - 1]).values, SLAB * sizeof(int32_t))
        copy.slabs[len(copy.slabs) - 1] = last
        copy.table[len(copy.slabs) - 1] = last.values
        while mask < 2 * copy.count:
            mask = 2 * mask + 1
        copy._index(mask)
        return copy

    def number(self, values):
        """The number of the list of these ints, which is added if it is new. Raises ValueError above LIST_MAX
        values."""
        cdef int32_t room[LIST_MAX]
        cdef Py_ssize_t i, size = len(values)
        if size > LIST_MAX:
            raise ValueError(f"a list of {size} values; at most {LIST_MAX} are possible")
        for i in range(size):
            room[i] = values[i]
        return self.intern(room, size)

    def values(self, uint32_t number):
        """The list as a tuple."""
        cdef const int32_t* known
        if number >= self.end:
            raise IndexError(number)
        known = self.at(number)
        return tuple([known[i + 1] for i in range(known[0])])


cdef inline uint32_t hash_of_uuid(const uint8_t* value) noexcept nogil:
    cdef uint64_t low, high
    memcpy(&low, value, 8)
    memcpy(&high, value + 8, 8)
    low = (low ^ (high * 0x9E3779B97F4A7C15ULL)) * 0xFF51AFD7ED558CCDULL
    return <uint32_t>(low ^ (low >> 32))


cdef class Uuids:
    """The pool of uuids: 0, 1, 2, ... in the order in which they were first seen."""

    def __init__(self):
        self.mask = 63
        self.buckets = <uint32_t*>calloc(64, sizeof(uint32_t))
        self.room = 32
        self.data = <uint8_t*>malloc(self.room * 16)
        if self.buckets == NULL or self.data == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.buckets)
        free(self.data)

    def __len__(self):
        return self.count

    cdef int32_t intern(self, const uint8_t* value) except -1:
        cdef uint32_t bucket = hash_of_uuid(value) & self.mask
        while self.buckets[bucket] != 0:
            if memcmp(self.at(self.buckets[bucket] - 1), value, 16) == 0:
                return self.buckets[bucket] - 1
            bucket = (bucket + 1) & self.mask
        if self.count == self.room:
            self._grow()
            return self.intern(value)
        memcpy(self.data + 16 * self.count, value, 16)
        self.count += 1
        self.buckets[bucket] = <uint32_t>self.count
        return <int32_t>(self.count - 1)

    cdef int _grow(self) except -1:
        cdef uint8_t* data = <uint8_t*>realloc(self.data, self.room * 32)
        if data == NULL:
            raise MemoryError
        self.data = data
        self._index(self.mask * 2 + 1)
        self.room *= 2
        return 0

    cdef int _index(self, uint32_t mask) except -1:
        """Put every uuid into new buckets: a power of two, less one."""
        cdef uint32_t* buckets = <uint32_t*>calloc(<size_t>mask + 1, sizeof(uint32_t))
        cdef uint32_t bucket
        cdef Py_ssize_t i
        if buckets == NULL:
            raise MemoryError
        for i in range(self.count):
            bucket = hash_of_uuid(self.at(<int32_t>i)) & mask
            while buckets[bucket] != 0:
                bucket = (bucket + 1) & mask
            buckets[bucket] = <uint32_t>i + 1
        free(self.buckets)
        self.buckets = buckets
        self.mask = mask
        return 0

    cpdef Uuids frozen(self):
        """All uuids known now, for another thread."""
        cdef Uuids copy = Uuids.__new__(Uuids)
        copy.data = <uint8_t*>malloc(self.room * 16)
        if copy.data == NULL:
            raise MemoryError
        memcpy(copy.data, self.data, self.count * 16)
        copy.count = copy.room = self.count
        return copy

    cpdef Uuids thawed(self):
        """A pool that can grow, with the uuids of this frozen one under the same numbers."""
        cdef Uuids copy = self.frozen()
        cdef uint32_t mask = 63
        copy.room = max(copy.room, 32)
        copy.data = <uint8_t*>realloc(copy.data, copy.room * 16)
        if copy.data == NULL:
            raise MemoryError
        while mask < 2 * copy.count:
            mask = 2 * mask + 1
        copy._index(mask)
        return copy

    def number(self, bytes value):
        """The number of a uuid of 16 bytes, which is added if it is new."""
        if len(value) != 16:
            raise ValueError(f"a uuid has 16 bytes, not {len(value)}")
        return self.intern(<const uint8_t*><char*>value)

    def value(self, Py_ssize_t number):
        """The uuid with this number. Raises IndexError."""
        if number < 0 or number >= self.count:
            raise IndexError(number)
        return (<const char*>self.at(<int32_t>number))[:16]
