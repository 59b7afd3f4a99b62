class MappedFile:
    """The bytes that a file had when it was mapped, as a read-only buffer, read in order. A page that lies behind the
    file's end, because another process has truncated the file since, reads as zeros and is counted; it does not end the
    process."""

    def __init__(self, descriptor: int, size: int) -> None:
        """Map the first `size` bytes of an open file, whose descriptor the caller may close afterwards. Raises
        ValueError if `size` is not above 0, OSError if the file cannot be mapped."""
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def missing(self) -> int:
        """The number of pages that were missing so far and read as zeros."""
    def file_size(self) -> int:
        """The file's present size in bytes. Raises OSError."""
    def forget(self, begin: int, end: int) -> None:
        """Give the pages within `[begin, end)` back to the system. They can be read again; a page
        that was missing stays zeros."""
