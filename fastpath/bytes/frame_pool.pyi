class Pool:
    """Lends writable buffers, which come back when the last view of them is gone."""

    bytes_kept_max: int
    """The bound on spare bytes. Blocks beyond it are freed."""
    bytes_kept: int
    """How many spare bytes there are now. Invariant: at most `bytes_kept_max`."""
    bytes_lent: int
    """Bytes of blocks of which a view exists: each a power of two, 64 KiB at least. Requests below 32 KiB get no block
    and are not counted."""

    def __init__(self, bytes_kept_max: int) -> None: ...
    def keep(self, bytes_kept_max: int) -> None:
        """Set another bound on spare bytes, from now on. Blocks beyond it are freed, the largest first."""
    def take(self, size: int) -> memoryview:
        """A view of `size` writable bytes with any content. The memory is free again when the last view or slice of it
        is gone. Raises ValueError below 0 or above 2 GiB, MemoryError when there is no memory."""
