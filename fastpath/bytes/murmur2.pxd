"""Kafka's hash of a record's key, for C callers: MurmurHash2 with 32 bits and a seed of Kafka's own."""

from libc.stdint cimport uint8_t, uint32_t

cdef enum:
    MULTIPLIER = 0x5BD1E995
    SEED = 0x9747B28C


cdef inline uint32_t murmur2(const uint8_t* data, size_t size) noexcept nogil:
    """The hash of these bytes. Words are little-endian on every machine."""
    cdef uint32_t hash = <uint32_t>SEED ^ <uint32_t>size, word
    cdef const uint8_t* end = data + (size & ~<size_t>3)
    while data != end:
        word = data[0] | <uint32_t>data[1] << 8 | <uint32_t>data[2] << 16 | <uint32_t>data[3] << 24
        word *= <uint32_t>MULTIPLIER
        word = (word ^ word >> 24) * <uint32_t>MULTIPLIER
        hash = hash * <uint32_t>MULTIPLIER ^ word
        data += 4
    size &= 3
    if size:
        if size == 3:
            hash ^= <uint32_t>data[2] << 16
        if size >= 2:
            hash ^= <uint32_t>data[1] << 8
        hash = (hash ^ data[0]) * <uint32_t>MULTIPLIER
    hash = (hash ^ hash >> 13) * <uint32_t>MULTIPLIER
    return hash ^ hash >> 15


cdef inline int of_key(const uint8_t* key, size_t size, int partitions) noexcept nogil:
    """The partition of a key, out of `partitions`, as Java's producer chooses it."""
    return <int>((murmur2(key, size) & 0x7FFFFFFF) % <uint32_t>partitions)
