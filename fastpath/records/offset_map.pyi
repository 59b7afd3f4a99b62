SLOT_BYTES: int
"""Memory of a key, whatever its length."""

def siphash(key: bytes, data: bytes) -> bytes:
    """SipHash-2-4 with 128 bits. `key`: 16 bytes; else ValueError."""

class OffsetMap:
    """Key -> last offset, in memory that is stated beforehand."""

    slot_count: int
    capacity: int
    """Keys that it takes."""
    count: int
    """Keys in it."""
    latest_offset: int
    """Largest offset that was put or passed; -1: none."""
    def __init__(self, memory_bytes: int, load_factor: float, seed: bytes, keys_max: int = ...) -> None:
        """`keys_max`: no more keys than this can come, so no more memory is needed. `seed`: 16 bytes that no client knows.

        Raises ValueError when there is not room for one key, MemoryError.
        """
    def add(self, key: bytes, offset: int) -> bool:
        """The key was written at `offset`; False: there is no room for another key."""
    def offset(self, key: bytes) -> int:
        """Where the key was written last; -1: it is not in the map."""
    @property
    def memory_bytes(self) -> int:
        """What the table takes."""
