"""The offset at which each key of a log was written last, for the compaction of that log.

This file alone decides how keys share a stated memory: open addressing with linear steps, 24 bytes a key, at most
`load_factor` of the slots in use. A key is known by a hash of 128 bits and not kept itself. The hash is SipHash-2-4 under
a seed that no client knows: two keys that a client could choose to have one hash would be one key here, and the older
one's value would be lost.

The table is larger than any cache, so nearly every key waits for memory. A caller with many keys hashes some of them
first, which asks for their slots, and looks at the slots afterwards: the waits overlap.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <sys/mman.h>
    #define ASK_FOR(place) __builtin_prefetch(place, 1)
    static inline uint64_t share_of(uint64_t number, uint64_t slots) {
        return (uint64_t)(((unsigned __int128)number * slots) >> 64);
    }
    static void in_large_pages(void* start, size_t bytes) {
    #ifdef MADV_HUGEPAGE
        size_t page = (size_t)2 << 20, first = ((size_t)start + page - 1) & -page, end = ((size_t)start + bytes) & -page;
        if (end > first) madvise((void*)first, end - first, MADV_HUGEPAGE);
    #endif
    }
    """
    void ASK_FOR(const void* place) noexcept nogil
    uint64_t share_of(uint64_t number, uint64_t slots) noexcept nogil
    void in_large_pages(void* start, size_t bytes) noexcept nogil

SLOT_BYTES = sizeof(Slot)


cdef inline uint64_t _turn(uint64_t x, int bits) noexcept nogil:
    return x << bits | x >> (64 - bits)


cdef inline void _round(uint64_t* v) noexcept nogil:
    v[0] += v[1]
    v[2] += v[3]
    v[1] = _turn(v[1], 13) ^ v[0]
    v[3] = _turn(v[3], 16) ^ v[2]
    v[0] = _turn(v[0], 32)
    v[2] += v[1]
    v[0] += v[3]
    v[1] = _turn(v[1], 17) ^ v[2]
    v[3] = _turn(v[3], 21) ^ v[0]
    v[2] = _turn(v[2], 32)


cdef void _hash(uint64_t k0, uint64_t k1, const uint8_t* data, Py_ssize_t size, Slot* out) noexcept nogil:
    cdef uint64_t[4] v
    cdef uint64_t word, last = <uint64_t>(size & 0xFF) << 56
    cdef Py_ssize_t i, whole = size & ~<Py_ssize_t>7
    v[0] = k0 ^ 0x736F6D6570736575ULL
    v[1] = k1 ^ 0x646F72616E646F6DULL ^ 0xEE
    v[2] = k0 ^ 0x6C7967656E657261ULL
    v[3] = k1 ^ 0x7465646279746573ULL
    for i in range(0, whole, 8):
        memcpy(&word, data + i, 8)          # little-endian machines only, as everywhere here
        v[3] ^= word
        _round(v)
        _round(v)
        v[0] ^= word
    for i in range(whole, size):
        last |= <uint64_t>data[i] << (8 * (i - whole))
    v[3] ^= last
    _round(v)
    _round(v)
    v[0] ^= last
    v[2] ^= 0xEE
    for i in range(4):
        _round(v)
    out.low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    for i in range(4):
        _round(v)
    out.high = v[0] ^ v[1] ^ v[2] ^ v[3]


cdef tuple _halves(bytes seed):
    if len(seed) != 16:
        raise ValueError(f"a seed has 16 bytes, not {len(seed)}")
    return int.from_bytes(seed[:8], "little"), int.from_bytes(seed[8:], "little")


def siphash(bytes key, bytes data):
    cdef Slot out
    cdef uint64_t low, high
    low, high = _halves(key)
    _hash(low, high, data, len(data), &out)
    return int(out.low).to_bytes(8, "little") + int(out.high).to_bytes(8, "little")


cdef class OffsetMap:
    def __cinit__(self):
        self.slots = NULL

    def __init__(self, Py_ssize_t memory_bytes, double load_factor, bytes seed, Py_ssize_t keys_max=1 << 56):
        cdef Py_ssize_t wanted
        if self.slots != NULL:
            raise ValueError("the map has its memory already")
        if not 0 < load_factor <= 1:
            raise ValueError(f"a load factor of {load_factor} is not above 0 and at most 1")
        self.seed_low, self.seed_high = _halves(seed)
        self.slot_count = memory_bytes // <Py_ssize_t>sizeof(Slot)
        wanted = <Py_ssize_t>min(<double>(1 << 60), keys_max / load_factor) + 2
        self.slot_count = min(self.slot_count, wanted)
        # One slot stays empty, so that every search ends.
        self.capacity = min(<Py_ssize_t>(self.slot_count * load_factor), self.slot_count - 1)
        if self.capacity < 1:
            raise ValueError(f"{memory_bytes} bytes have no room for a key")
        self.slots = <Slot*>calloc(self.slot_count, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError
        in_large_pages(self.slots, self.slot_count * sizeof(Slot))     # the way to a slot is found faster
        self.count = 0
        self.latest_offset = -1

    def __dealloc__(self):
        free(self.slots)

    def __len__(self):
        return self.count

    @property
    def memory_bytes(self):
        return self.slot_count * sizeof(Slot)

    def add(self, bytes key, int64_t offset):
        cdef Slot hashed
        self.hash(key, len(key), &hashed)
        return self.put(&hashed, offset)

    def offset(self, bytes key):
        cdef Slot hashed
        self.hash(key, len(key), &hashed)
        return self.get(&hashed)

    cdef void hash(self, const uint8_t* key, Py_ssize_t size, Slot* out) noexcept nogil:
        """The key's hash; `place` is where its search begins."""
        cdef Slot* slot
        _hash(self.seed_low, self.seed_high, key, size, out)
        # The upper half of a product: as even as a remainder, without a division.
        out.place = <int64_t>share_of(out.low, <uint64_t>self.slot_count)
        slot = self.slots + out.place
        ASK_FOR(slot)
        ASK_FOR(&slot.place)            # a slot may lie across two lines

    cdef Slot* find(self, const Slot* hashed) noexcept nogil:
        """The slot of a key, or the empty one where it belongs."""
        cdef Py_ssize_t at = hashed.place
        cdef Slot* slot
        while True:
            slot = self.slots + at
            if slot.place == 0 or (slot.low == hashed.low and slot.high == hashed.high):
                return slot
            at += 1
            if at == self.slot_count:
                at = 0

    cdef bint put(self, const Slot* hashed, int64_t offset) noexcept nogil:
        cdef Slot* slot = self.find(hashed)
        if slot.place == 0:
            if self.count >= self.capacity:
                return False
            self.count += 1
            slot.low = hashed.low
            slot.high = hashed.high
        slot.place = max(slot.place, offset + 1)
        self.latest_offset = max(self.latest_offset, offset)
        return True

    cdef int64_t get(self, const Slot* hashed) noexcept nogil:
        return self.find(hashed).place - 1
