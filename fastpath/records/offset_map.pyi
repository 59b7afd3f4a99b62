SLOT_BYTES: int
"""The memory of a key, whatever its length."""

def siphash(key: bytes, data: bytes) -> bytes:
    """SipHash-2-4 with 128 bits. `key` is 16 bytes; else it raises ValueError."""

class OffsetMap:
    """The last offset of each key, in memory that is stated beforehand."""

    slot_count: int
    capacity: int
    """How many keys the map takes."""
    count: int
    """How many keys are in the map."""
    latest_offset: int
    """The largest offset that was put or passed; -1: none."""
    def __init__(self, memory_bytes: int, load_factor: float, seed: bytes, keys_max: int = ...) -> None:
        """`keys_max`: no more keys than this can come, so no more memory is needed. `seed`: 16 bytes that no client
        knows. Raises ValueError when there is not room for one key, MemoryError."""
    def add(self, key: bytes, offset: int) -> bool:
        """Note that the key was written at `offset`. False: there is no room for another key."""
    def offset(self, key: bytes) -> int:
        """The offset at which the key was written last; -1: it is not in the map."""
    @property
    def memory_bytes(self) -> int:
        """The bytes that the table takes."""
