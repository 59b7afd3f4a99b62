class Pool:
    """Writable buffers that come back by themselves."""

    bytes_kept_max: int
    """Spare blocks above this go back to the allocator."""
    bytes_kept: int
    """Spare bytes now. Invariant: at most `bytes_kept_max`."""
    bytes_lent: int
    """Bytes of blocks that somebody holds a view of: each a power of two, 64 KiB at least. What is below 32 KiB is no
    block and not counted."""

    def __init__(self, bytes_kept_max: int) -> None: ...
    def take(self, size: int) -> memoryview:
        """`size` writable bytes with any content; free again when the last view or slice of them is gone.

        ValueError below 0 or above 2 GiB, MemoryError when there is no memory.
        """
