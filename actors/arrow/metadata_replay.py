"""`rayft.Replay`: the metadata log of a running cluster by address, as the tables that `rayft.replay` makes of files.

    with rayft.Replay("localhost:9092") as log:
        log.state(tables=["partitions"])                 -> {name: pyarrow.Table}, as it is now
        log.state(as_of=1998182), log.changes(since=...) -> as rayft.replay.state and changes of a directory
        for batch in log.follow(): ...                   -> the changes as pyarrow.RecordBatch, as they are committed

It reads as an observer without an id, which leaves no trace in the cluster, and needs the right CLUSTER_ACTION at the
controllers (`actors/client/operations/tail.py`). Rules:

1. What `state` and `changes` read is copied into a temporary directory (`metadata_copy.py`), which grows with the log and
   is begun anew only for an offset or a time before its beginning, and after it could not be filled: what the leader has
   given then may not be in it.
2. `follow` has a connection of its own. It holds one image, and the copy that it was made of only until it is made.
3. If the leader deletes records before they were followed, a warning, RecordsLost, says which, and the changes go on from
   its snapshot.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from actors.arrow.metadata_copy import Copy
from actors.client.errors import NotInTime
from actors.client.operations.tail import NEWEST, Slice, Tail
from actors.client.operations.uncommitted import Batches
from actors.host.client.blocking import Kafka, settings
from actors.replay import follow as following
from actors.replay.columns import as_of as moments
from actors.replay.columns import history
from actors.replay.columns import tables as made
from actors.replay.columns.as_of import AsOf
from actors.replay.columns.history import KINDS, Gathering
from actors.replay.logs import files
from actors.replay.logs.chunks import BatchRun, ChunkReading
from actors.replay.logs.copies import metadata_log

LOG = Path("the metadata log")
"""What errors call the log where no file is meant."""


class Replay:
    """The metadata log of a running cluster. One thread may use it at a time."""

    def __init__(self, bootstrap: str | None = None, config: Mapping[str, Any] | str | None = None) -> None:
        """A reader that has asked nothing yet. `bootstrap`: addresses of brokers or of controllers. `config`: a client's
        properties by Kafka's names, or the path of a file with them. Raises ConfigError, OSError."""
        self._config = settings(bootstrap, config)
        self._kafka: Kafka | None = None
        self._copy: Copy | None = None
        self._tail = Tail(self._config)
        self._from = NEWEST
        """The offset for which the copy was begun: it reaches as far back, or as far as the cluster's log does."""

    def __enter__(self) -> "Replay":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connections and remove the copy."""
        if self._copy is not None:
            self._copy.close()
        if self._kafka is not None:
            self._kafka.close()
        self._copy = self._kafka = None

    def state(self, as_of: AsOf = None, tables: Sequence[str] | None = None) -> dict[str, pa.Table]:
        """The metadata as of an offset (exclusive), a time (inclusive), or now: one Arrow table for each name, all of them
        or the given ones. Raises ClientError, NothingToRead for a moment of which the cluster has no records any more."""
        return made.state(self._filled(needed(as_of)), as_of, tables)

    def changes(self, since: AsOf = None, until: AsOf = None, kinds: Sequence[str] = KINDS) -> Iterator[pa.RecordBatch]:
        """Changes of these kinds from `since` on (offset or time, inclusive) to `until` (as `as_of`) or what is committed
        now. Raises as `state`."""
        yield from history.changes(self._filled(needed(since, 0)), since, until, kinds)

    def follow(self, since: AsOf = None, kinds: Sequence[str] = KINDS) -> Iterator[pa.RecordBatch]:
        """Changes of these kinds as they are committed, without an end; `since`: first those from there on. Raises
        ClientError, also when no controller leads for default.api.timeout.ms."""
        with Kafka(self._config) as kafka:
            yield from follow(kafka, since, kinds)

    def _filled(self, begin: int) -> Path:
        """The directory of the copy, with all that is committed now."""
        if self._kafka is None:
            self._kafka = Kafka(self._config)
        if self._copy is not None:
            before = self._copy.begin
            self._fill(self._copy)
            if self._copy.begin != before:  # the cluster has deleted what was to come next: a snapshot has come instead
                self._from = NEWEST
            if begin >= min(self._copy.begin, self._from):
                return self._copy.path
            self._copy.close()
        self._copy, self._tail, self._from = Copy(), Tail(self._config, begin), begin
        self._fill(self._copy)
        return self._copy.path

    def _fill(self, copy: Copy) -> None:
        assert self._kafka is not None
        try:
            copy.fill(self._kafka, self._tail)
        except BaseException:
            copy.close()
            self._copy = None
            raise


def needed(moment: AsOf, otherwise: int = NEWEST) -> int:
    """The offset from which on a copy has to reach for a moment; of a time nothing is known before. `otherwise`: for no
    moment."""
    return otherwise if moment is None else moment if isinstance(moment, int) else 0


class Watch:
    """What somebody who follows is told on the way."""

    def answered(self) -> None:
        """Note that a controller has answered, with changes or without."""

    def silent(self, error: NotInTime) -> None:
        """Note that no controller has led for default.api.timeout.ms. The reading goes on if this returns."""
        raise error


def follow(
    kafka: Kafka,
    since: AsOf = None,
    kinds: Sequence[str] = KINDS,
    family: str | None = None,
    watch: Watch | None = None,
) -> Iterator[pa.RecordBatch]:
    """`Replay.follow` with a client, which stays open. `family`: of the records, if not found by itself. Raises ValueError
    for a kind that does not exist."""
    history.known(kinds)
    watch = watch or Watch()
    tail = Tail(kafka.config, needed(since))
    with Copy() as copy:
        copy.fill(kafka, tail)
        found = _Followed(copy.path, family, since, kinds)
        yield from found.history()
    with _Snapshots() as snapshots:
        while True:
            try:
                events = kafka.run(tail.fetch())
            except NotInTime as error:
                watch.silent(error)
                continue
            watch.answered()
            for event in events:
                if isinstance(event, Batches):
                    yield from found.more(event)
                elif (path := snapshots.take(event)) is not None:
                    found = found.behind(path)
                    snapshots.close()


class _Followed:
    """An image that is kept up to date, and the changes on the way."""

    def __init__(self, path: Path, family: str | None, since: AsOf, kinds: Sequence[str]) -> None:
        """`path`: the directory of a copy."""
        log = metadata_log(path)
        self._family = files.family(log, family)
        self._since = since
        self._kinds = kinds
        self._found = moments.Replay(log, self._family, ChunkReading()).open()
        self._gathering = Gathering(self._found, since, kinds)

    def history(self) -> Iterator[pa.RecordBatch]:
        """Read the copy. The changes from `since` on, if it is given."""
        for met in self._found.batches():
            self._gathering.take(met)
            if self._since is None:
                self._gathering.skip()
            elif self._gathering.records >= history.RECORDS_MAX:
                yield from self._gathering.told()
        yield from self._gathering.told()

    def more(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """The changes of further batches."""
        run = BatchRun(batches.records, 0, batches.headers, len(batches.records))
        for met in self._found.more(LOG, run, self._found.image.next_offset):
            self._gathering.take(met)
        yield from self._gathering.told()

    def behind(self, path: Path) -> "_Followed":
        """What is followed from a snapshot on, that has records which were not followed."""
        anew = _Followed(path, self._family, None, self._kinds)
        for _ in anew.history():
            pass
        missing = f"offsets {self._found.image.next_offset} to {anew._found.image.next_offset - 1}"
        warnings.warn(
            f"{missing} of the metadata log were deleted before they were read: their changes are left out",
            following.RecordsLost,
            stacklevel=3,
        )
        return anew


class _Snapshots:
    """The room for snapshots that come while a log is followed."""

    def __init__(self) -> None:
        self._copy: Copy | None = None

    def __enter__(self) -> "_Snapshots":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files."""
        if self._copy is not None:
            self._copy.close()
        self._copy = None

    def take(self, piece: Slice) -> Path | None:
        """Take a slice. Returns the directory once the snapshot is whole."""
        if self._copy is None:
            self._copy = Copy()
        self._copy.take(piece)
        return self._copy.path if piece.is_last else None
