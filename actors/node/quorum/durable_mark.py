"""The durable mark: up to where the metadata log was once durable, kept on the disk beside it.

A voter that has told others that it holds a record may never lose it in silence: the record may be committed because of
it. So recovery has to tell two things apart. *Torn*: appended, never known to be durable, and a power cut kept some of its
pages and not others, in any order. *Damaged*: durable once, and no longer what it was. The first is cut. The second
stops the start.

This file alone decides what the mark says and when it is written. The reasoning:

1. The mark M is at most the durable offset and at most the high watermark. What lies below it was covered by a finished
   fdatasync. It is committed too, so no truncation ever goes below it and the mark never has to go back.
2. Below M nothing may be missing. A batch there that is not sound, or a log that ends there, is damage.
3. The mark lags, so that no commit waits for it: it is written at most every `MARK_MS`, by the threads that write
   partitions, not by those of the quorum. Between M and the log's end, what was acknowledged and what was not cannot be told
   apart by offsets. But a power cut takes nothing that a finished fdatasync has covered. If a page is missing at offset X,
   no fdatasync that covers X has finished, so neither X nor anything above it was ever acknowledged: cutting at X loses
   nothing. That holds for sound batches behind the missing page too.
4. A missing page reads as zeros from where the durable part of the file ended, or from where the page begins, to its end.
   `MetadataLog` cuts before sound batches only if it finds such zeros. An unsound batch without them is damage, also
   above the mark. What remains is rot that looks like a missing page, in what was written in the last second or so before
   the process ended. It is cut, and reported.
5. The log of an observer needs the mark no less: rule 2 keeps its start from serving a log with a hole.
"""

from actors.node.quorum.files import DURABLE, durable, read_durable
from actors.ports import Disk

MARK_MS = 1000
"""The least time in ms between two writes of the mark."""


class DurableMark:
    """The mark of one directory. Invariant: `offset` is not above what the file will say once `write` is done."""

    __slots__ = ("_directory", "_disk", "_writing", "due_ms", "offset")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._writing = -1
        """The mark that is on its way to the disk; -1: none."""
        self.offset = 0
        """The offset below which everything was durable and committed; 0: no mark was read or written yet."""
        self.due_ms = 0
        """The monotonic time before which the mark is not written again."""

    def recover(self) -> str | None:
        """Read the file of the mark. Returns a sentence if the file cannot be used: then only rule 4 tells torn from
        damaged. Raises DiskFailed."""
        path = f"{self._directory}/{DURABLE}"
        if not self._disk.exists(path):
            return None
        file = self._disk.open(path)
        try:
            self.offset = read_durable(bytes(file.read_cold(0, file.size)))
        except ValueError as error:
            return f"{path} is not used: {error}"
        finally:
            file.close()
        return None

    def behind(self, safe_offset: int) -> bool:
        """Whether a mark at `safe_offset` would say more, and none is being written."""
        return self._writing < 0 and safe_offset > self.offset

    def write(self, safe_offset: int, now_ms: int) -> tuple[Disk, str, bytes]:
        """The file with a mark at `safe_offset`, as (disk, path, content); call `written` when it is written."""
        assert self._writing < 0 and safe_offset > self.offset, (self._writing, safe_offset, self.offset)
        self._writing = safe_offset
        self.due_ms = now_ms + MARK_MS
        return self._disk, f"{self._directory}/{DURABLE}", durable(safe_offset)

    def written(self, done: bool) -> None:
        """Note that the mark is on the disk, or (`done` false) found no room there."""
        if done:
            self.offset = self._writing
        self._writing = -1
