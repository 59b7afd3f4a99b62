from typing import NamedTuple

from typing_extensions import Buffer

OFFSET_ENTRY_SIZE: int
TIME_ENTRY_SIZE: int

class CorruptIndex(ValueError): ...

class Span(NamedTuple):
    start: int
    stop: int
    next_offset: int
    needed: int

class Scanned(NamedTuple):
    stop: int
    next_offset: int
    needed: int
    fault: str | None

class Entries:
    base_offset: int
    @property
    def size_bytes(self) -> int: ...
    def __len__(self) -> int: ...
    def data(self, start: int = 0) -> bytes: ...

class OffsetIndex(Entries):
    def __init__(self, base_offset: int) -> None: ...
    @staticmethod
    def parse(base_offset: int, data: Buffer, log_size: int) -> OffsetIndex: ...
    def append(self, offset: int, position: int) -> None: ...
    def lookup(self, offset: int) -> tuple[int, int]: ...
    def entry(self, entry: int) -> tuple[int, int]: ...
    def truncate(self, offset: int) -> None: ...

class TimeIndex(Entries):
    def __init__(self, base_offset: int) -> None: ...
    @staticmethod
    def parse(base_offset: int, data: Buffer) -> TimeIndex: ...
    def append(self, timestamp: int, offset: int) -> bool: ...
    def lookup(self, timestamp: int) -> tuple[int, int]: ...
    def entry(self, entry: int) -> tuple[int, int]: ...
    def truncate(self, offset: int) -> None: ...

class SegmentIndex:
    offsets: OffsetIndex
    times: TimeIndex
    interval_bytes: int
    unindexed_bytes: int
    max_timestamp: int
    max_timestamp_offset: int
    def __init__(
        self,
        base_offset: int,
        interval_bytes: int = 4096,
        offsets: OffsetIndex | None = None,
        times: TimeIndex | None = None,
    ) -> None: ...
    def append(self, data: Buffer, position: int) -> int: ...
    def scan(
        self,
        data: Buffer,
        position: int,
        file_size: int,
        next_offset: int,
        check_from: int = 0,
        upper_offset: int = ...,
    ) -> Scanned: ...
    def seal(self) -> None: ...
    def truncate(self, offset: int) -> None: ...

def span(data: Buffer, first_offset: int, upper_offset: int, bytes_max: int, at_least_one: bool = True) -> Span: ...
