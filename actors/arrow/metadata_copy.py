"""A copy of a running cluster's metadata log, as files of a temporary directory that only its owner can read.

`actors/replay` reads the copy as it reads the directory of a controller, so both give the same tables. Rules:

1. The directory has at most one snapshot with which it begins, and the log behind it, as segments of `segment_bytes`. All of
   it was committed. A file named quorum-state names the leader, as a controller's does.
2. A snapshot that begins takes the place of what was there: the leader has deleted the log in between.
3. What comes goes to the file at once: of a snapshot not more than a slice is in memory, whatever its size. Where temporary
   files lie in memory (tmpfs), TMPDIR names a better place. What a process that was killed has left goes with the next copy.
4. An error of the system, as of a full disk, names the directory. What was to be taken may be taken again then. The file may
   end with a part of it, which is written over: it is not cut off, as somebody may be reading it.
5. A copy that grows for long is kept within a bound by two steps: a newer snapshot is kept beside the log (`mark`), and
   later what is not needed behind that is deleted (`cut`). Whoever has the files mapped still reads them.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from itertools import pairwise
from types import TracebackType

from actors.arrow.copy_rooms import Room, remove_left
from actors.client.errors import NotInTime
from actors.client.operations.tail import Event, Slice, Tail
from actors.host.client.blocking import Kafka, now_us
from actors.replay.logs.files import QUORUM_STATE

UNFINISHED, MARKING = ".unfinished", ".marking"
"""The end of the name of a snapshot that is not whole yet: with which the copy begins anew, and a newer one beside it."""


class Copy:
    """A copy that grows: `take` what a tail gives, or `fill` it from one."""

    def __init__(self, on_progress: Callable[[int], None] = lambda _: None, segment_bytes: int | None = None) -> None:
        """A copy of nothing yet. `on_progress` is called with the number of bytes written since the last call.
        `segment_bytes`: from which length on a segment is followed by another one; None: there is one."""
        self._on_progress = on_progress
        self._segment_bytes = segment_bytes
        self._room = Room()
        self.path = self._room.path
        """The directory, as `replay` takes it."""
        self.begin = 0
        """The offset from which on the state is known: the end of the snapshot, or 0."""
        self._log: FileIO | None = None
        self._snapshot: FileIO | None = None
        self._log_bytes = 0
        """How many bytes of the segment that grows were taken."""
        self.marked: int | None = None
        """The end of the newer snapshot that is kept beside the log; None: there is none."""

    def __enter__(self) -> "Copy":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files."""
        self._end()
        self._room.close()

    def fill(self, kafka: Kafka, tail: Tail) -> None:
        """Take all that is committed now. Raises ClientError, also when nothing comes for default.api.timeout.ms, and
        OSError."""
        remove_left()
        tail.first_high_watermark = -1
        since_us = now_us()
        while not tail.is_caught_up:
            asked_before = tail.first_high_watermark >= 0
            for event in kafka.run(tail.fetch(None if asked_before else 0)):
                self.take(event)
                since_us = now_us()
            if now_us() - since_us > kafka.config.api_timeout_ms * 1000:
                raise NotInTime(
                    f"nothing of the metadata log was committed within default.api.timeout.ms="
                    f"{kafka.config.api_timeout_ms}: its leader cannot reach a majority of the controllers"
                )
        leader = tail.quorum.leader
        if leader is not None:
            state = {"leaderId": leader.id, "leaderEpoch": leader.epoch}
            (self.path / QUORUM_STATE).write_text(json.dumps(state))

    def take(self, event: Event) -> None:
        """Write what the tail has given. Raises OSError: it may be called again with the same."""
        with self._named():
            if isinstance(event, Slice):
                self._take_slice(event)
            else:
                if self._segment_bytes is not None and self._log_bytes >= self._segment_bytes:
                    self._end()
                if self._log is None:
                    self._log, self._log_bytes = self._open(f"{int(event.headers[0]['base_offset']):020}.log"), 0
                _write(self._log, self._log_bytes, event.records)
                self._log_bytes += len(event.records)
        self._on_progress(len(event.data if isinstance(event, Slice) else event.records))

    @property
    def bytes(self) -> int:
        """What the files take."""
        return sum(one.stat().st_size for one in self.path.iterdir())

    def mark(self, piece: Slice) -> None:
        """Write a piece of a newer snapshot, which is kept beside the log. Raises OSError: it may be called again with the
        same."""
        name = f"{piece.id.offset:020}-{piece.id.epoch:010}.checkpoint"
        with self._named():
            if piece.position == 0:
                self.forget_mark()
            with (self.path / (name + MARKING)).open("r+b" if piece.position else "wb", buffering=0) as file:
                _write(file, piece.position, piece.data)
            if piece.is_last:
                (self.path / (name + MARKING)).rename(self.path / name)
                self.marked = piece.id.offset

    def forget_mark(self) -> None:
        """Delete a newer snapshot that is not whole."""
        for one in self.path.glob("*" + MARKING):
            one.unlink()

    def cut(self) -> None:
        """Delete what is in front of the newer snapshot and not needed behind it. Raises OSError."""
        assert self.marked is not None, "there is a newer snapshot"
        with self._named():
            bases = sorted((int(one.stem), one) for one in self.path.glob("*.log"))
            for (_, old), (after, _) in pairwise(bases):
                if after <= self.marked:
                    old.unlink()
            for checkpoint in self.path.glob("*.checkpoint"):
                if int(checkpoint.stem.partition("-")[0]) < self.marked:
                    checkpoint.unlink()
            self.begin, self.marked = self.marked, None

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Let an OSError name the directory: whoever reads it has never heard of it."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None

    def _take_slice(self, piece: Slice) -> None:
        name = f"{piece.id.offset:020}-{piece.id.epoch:010}.checkpoint"
        if piece.position == 0:
            self._end()
            self.marked = None
            for old in self.path.iterdir():
                old.unlink()
            self._snapshot = self._open(name + UNFINISHED)
        assert self._snapshot is not None, "a snapshot begins at position 0"
        _write(self._snapshot, piece.position, piece.data)
        if piece.is_last:
            (self.path / (name + UNFINISHED)).rename(self.path / name)
            self._end()
            self.begin = piece.id.offset

    def _open(self, name: str) -> FileIO:
        return FileIO(os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")

    def _end(self) -> None:
        for file in (self._log, self._snapshot):
            if file is not None:
                with suppress(OSError):  # what could not be written was told when it was tried
                    file.close()
        self._log = self._snapshot = None
        self._log_bytes = 0


def _write(file: FileIO, position: int, data: memoryview) -> None:
    file.seek(position)
    while len(data):
        data = data[file.write(data) :]
