"""The bytes of a metadata log that a history is made of: the files of a directory, and what was appended.

This file alone decides where the bytes of a log are found again, after they were read once. Rules:

1. A piece is a file that is mapped. It can be read although a node deletes the file. One that grows is mapped anew, so a
   reader that holds the pieces of a moment ago sees them as they were.
2. Batches that are appended go into a temporary file without a name, and not into memory.
3. A node may cut off what no majority has. A last batch that is not in its place any more is noticed when the file is
   looked at again: FileTruncated.
"""

import tempfile
from pathlib import Path
from typing import IO, NamedTuple

from actors.replay.columns.as_of import LogPiece
from actors.replay.logs.files import FileTruncated, Headers, NothingToRead, Partition, mapped, still_there
from fastpath.bytes.mapped_file import MappedFile
from fastpath.records.scan import scan

APPENDED = Path("the records that were appended")
"""What errors call the temporary file."""


class LogPlace(NamedTuple):
    """Where the next batch begins."""

    piece: int
    """The number of its piece."""
    position: int


class LogPieces:
    """The pieces of a log, in order. One thread changes them; any thread reads `since`."""

    def __init__(self, pieces: list[LogPiece]) -> None:
        """`pieces`: the files, each from where the log is read on."""
        self._all: tuple[LogPiece, ...] = tuple(pieces)
        self.last = LogPlace(0, 0)
        """The place behind the last batch that was read."""
        self._spool: IO[bytes] | None = None
        self._last_read: tuple[Path, Headers] | None = None
        """The header of that batch, and its file."""

    def __len__(self) -> int:
        return len(self._all)

    def since(self, place: LogPlace) -> list[LogPiece]:
        """All bytes from a place on, as they are now."""
        pieces = self._all  # once: another thread may put more in its place
        path, data, _ = pieces[place.piece] if place.piece < len(pieces) else (APPENDED, memoryview(b""), 0)
        return [(path, data, place.position), *pieces[place.piece + 1 :]]

    def behind(self, path: Path, headers: Headers) -> LogPlace:
        """Note that batches were read in a piece. Returns the place behind them."""
        self._last_read = path, headers[-1:]
        number = next(at for at, piece in enumerate(self._all) if piece[0] == path)
        self.last = LogPlace(number, int(headers[-1]["position"] + headers[-1]["size"]))
        return self.last

    def append(self, records: memoryview) -> int:
        """Add bytes to the temporary file. Returns their position in it. Raises OSError, and has then added nothing."""
        if self._spool is None:
            self._spool = tempfile.TemporaryFile(prefix="rayft-history-", buffering=0)  # noqa: SIM115 closed by close
        at = self._spool.seek(0, 2)
        try:
            written = 0
            while written < len(records):
                written += self._spool.write(records[written:])
            data = memoryview(MappedFile(self._spool.fileno(), at + len(records)))
        except BaseException:  # Ctrl-C too: bytes that nobody has taken must not lie between two batches
            self._spool.truncate(at)
            raise
        if self._all and self._all[-1][0] is APPENDED:
            self._all = (*self._all[:-1], (APPENDED, data, self._all[-1][2]))
        else:
            self._all = (*self._all, (APPENDED, data, at))
        return at

    def look(self, log: Partition, end: int) -> None:
        """Map the files of a directory that is listed anew, behind offset `end`. Raises ValueError if batches were
        appended, FileTruncated, FileNotFoundError, and NothingToRead if records were deleted before they were read."""
        if self._spool is not None:
            raise ValueError("a history that batches were appended to does not look into its directory any more")
        known = {path: at for at, (path, _, _) in enumerate(self._all)}
        found = list(self._all)
        self._refuse_cut(log)
        for segment in log.segments:
            at = known.get(segment.path)
            if at is None and not 0 <= segment.next_offset <= end:
                found.append((segment.path, mapped(segment.path), 0))
            elif at is not None and at >= self.last.piece:
                data = mapped(segment.path)
                self._refuse_another(segment.path, data)
                found[at] = (segment.path, data, found[at][2])
        begin = log.segments[0].base_offset if log.segments else max(one.end_offset for one in log.checkpoints)
        if begin > end:  # a snapshot that came instead of the log has nothing behind it at first
            raise NothingToRead(
                f"{log.directory} holds nothing between offsets {end} and {begin} any more: these records were deleted "
                f"before they were read. Open the history anew."
            )
        self._all = tuple(found)

    def _refuse_cut(self, log: Partition) -> None:
        """Raise FileTruncated if the file of the last batch that was read is gone, and not because the log begins behind
        it."""
        if self._last_read is None:
            return
        path, before = self._last_read
        begins_before = log.segments and log.segments[0].base_offset <= int(before[0]["base_offset"])
        if begins_before and all(one.path != path for one in log.segments):
            raise FileTruncated(path)

    def _refuse_another(self, path: Path, data: memoryview) -> None:
        """Raise FileTruncated if the last batch that was read is not in its place."""
        if self._last_read is None or self._last_read[0] != path:
            return
        before = self._last_read[1]
        position, size = int(before[0]["position"]), int(before[0]["size"])
        if position + size > still_there(data):
            raise FileTruncated(path)
        now, _, _ = scan(data, position, position + size, True, records_max=1)
        if len(now) != 1 or any(now[0][name] != before[0][name] for name in ("base_offset", "crc")):
            raise FileTruncated(path)

    def close(self) -> None:
        """Give the temporary file back. What is mapped stays readable for those that hold it."""
        if self._spool is not None:
            self._spool.close()
        self._spool = None
