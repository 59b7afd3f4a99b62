"""Which indexes of sealed segments stay in memory: those read last, up to a number of bytes.

A dropped index is read from its files when it is needed, so this only trades memory for time. To drop one may mean to write
it first. Where that fails the disk of that segment has failed, and not that of the log that is being read. Where there is no
room for it, it stays, and counts, until there is some; those of other disks go meanwhile.
"""

from collections import OrderedDict

from actors.broker.log.segment import Segment
from actors.ports import Disk, DiskFailed, DiskFull

INDEX_BYTES_MAX = 64 << 20
WITHOUT_ROOM_MAX = 4
"""How many indexes that find no room on the disk are tried before the others wait for the next time."""


class IndexCache:
    """The cache of all logs of a broker. Invariant: `held_bytes` is the sum of the sizes in `segments`."""

    __slots__ = ("begun", "bytes_max", "failing", "held_bytes", "segments")

    def __init__(self, bytes_max: int = INDEX_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self.begun = 0
        """How many of the logs that share this cache have ceased to be blank."""
        self.failing: dict[Disk, DiskFailed] = {}
        """Disks on which an index could not be written; the node that shares this cache takes them from here."""
        self.segments: OrderedDict[Segment, int] = OrderedDict()
        """Sealed segments with an index in memory and its size, the one read longest ago first."""

    def touch(self, segment: Segment) -> None:
        """Note that a sealed segment's index was read. It is now the last to be dropped."""
        if segment in self.segments:
            self.segments.move_to_end(segment)
            return
        index = segment.index
        assert index is not None
        size = index.offsets.size_bytes + index.times.size_bytes
        self.segments[segment] = size
        self.held_bytes += size
        stay: list[tuple[Segment, int]] = []
        while self.held_bytes > self.bytes_max and len(self.segments) > 1 and len(stay) < WITHOUT_ROOM_MAX:
            oldest, size = self.segments.popitem(last=False)
            self.held_bytes -= size
            try:
                oldest.drop_index()
            except DiskFull:
                stay.append((oldest, size))
            except DiskFailed as error:
                self.failing[oldest.disk] = error
        for oldest, size in stay:  # behind the others: in front they would be tried each time, and nothing behind them
            self.segments[oldest] = size
            self.held_bytes += size

    def forget(self, segment: Segment) -> None:
        """Forget the index of a segment that is gone, or takes appends again."""
        self.held_bytes -= self.segments.pop(segment, 0)
