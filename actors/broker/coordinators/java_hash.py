"""Java's String.hashCode, by which Apache Kafka places a group or a transactional id in the partitions of its topic.

Each request of a group or a transaction asks for it once or more, so those of short names are kept: `KEPT` of them.
"""

from functools import lru_cache

KEPT, KEPT_CHARACTERS = 4096, 255


def java_hash(text: str) -> int:
    """The hash of a text over UTF-16 code units, 32 bits, signed."""
    return _kept(text) if len(text) <= KEPT_CHARACTERS else _hash(text)


def _hash(text: str) -> int:
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(data), 2):
        value = (value * 31 + (data[index] << 8 | data[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


_kept = lru_cache(KEPT)(_hash)
