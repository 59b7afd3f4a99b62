from typing_extensions import Buffer

def hashed(data: Buffer) -> int:
    """Kafka's 32 bit hash of a key, without a sign."""

def partition_of(key: Buffer, partitions: int) -> int:
    """The partition of a key, out of `partitions`. Raises ValueError if there is none to choose from."""
