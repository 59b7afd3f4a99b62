"""Kafka's hash of a key in plain Python: `fastpath.bytes.murmur2` must agree."""

MULTIPLIER, SEED = 0x5BD1E995, 0x9747B28C
WORD = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's 32 bit hash of a key, without a sign."""
    length = len(data)
    hash = (SEED ^ length) & WORD
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * MULTIPLIER & WORD
        k = (k ^ k >> 24) * MULTIPLIER & WORD
        hash = (hash * MULTIPLIER & WORD) ^ k
    if length & 3:
        hash = (hash ^ int.from_bytes(data[whole:], "little")) * MULTIPLIER & WORD
    hash = (hash ^ hash >> 13) * MULTIPLIER & WORD
    return hash ^ hash >> 15


def of_key(key: bytes, partitions: int) -> int:
    """The partition of a key, out of `partitions`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
