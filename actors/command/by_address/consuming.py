"""`rayft consume`, once it runs.

The end (`-e`) is where each partition ended when the command began. Positions come from batches, so it is reached where a
log ends in a transaction's marker or in records that compaction took away. Where a log was cut meanwhile, which an unclean
election does, it ends where the log ends then: records that are lost are told, and not waited for.

Each broker is asked by itself: one that is frozen keeps no other's records back (`host/client/reading.py`).

What is printed is flushed before a group's offsets are committed, so nothing is committed that was not printed.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from actors.client.errors import ClientError
from actors.client.operations import groups, topics
from actors.client.operations.fetching import Diverged, Failed, Fetched, Fetcher, OutOfRange
from actors.client.operations.group_offsets import places
from actors.client.operations.leaders import Part, existing
from actors.client.operations.records import records
from actors.client.tasks import Task
from actors.command.by_address.connection import connected, wrong
from actors.command.by_address.places import where
from actors.command.output import record_format
from actors.command.output.pipe import open_pipe
from actors.command.output.record_format import PrintedRecord
from actors.host.client.blocking import Kafka
from actors.host.client.reading import Reading
from actors.printable import expressed, unguarded
from actors.wire.errors import ErrorCode

STABLE_TRIES = 4
"""How often a group is asked for its offsets before it is said what is waited for."""
COMMIT_S = 1.0
"""The time between two commits of a group's offsets, s."""
Write = Callable[[PrintedRecord], None]


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code. Raises ClusterError."""
    start = where(options.start) if options.start is not None else None
    if options.count is not None and options.count < 1:
        wrong(f"-n {options.count} is no number of records: write 1 or more")
    write = _writer(options)
    typed = {"isolation.level": options.isolation_level}
    with connected(options, {"isolation.level": "read_committed"}, typed) as kafka:
        reader = _Reader(kafka, options, start, write)
        try:
            reader.read()
        except KeyboardInterrupt:
            pass
        finally:
            with suppress(BrokenPipeError):
                sys.stdout.flush()
                reader.commit()
    return 0


def _writer(options: argparse.Namespace) -> Write:
    """A function that prints a record. Ends the command for a format that means nothing."""
    if options.json:
        return lambda one: print(record_format.line(one))
    try:
        format = record_format.pieces(os.fsencode(options.format))
    except record_format.BadFormat as error:
        wrong(str(error))
    stream = unguarded(sys.stdout)
    if stream.isatty() or not hasattr(stream, "buffer"):
        return lambda one: stream.write(expressed(record_format.text(format, one), stream)) and None
    return lambda one: stream.buffer.write(record_format.raw(format, one)) and None


class _Reader:
    """A reader that prints a topic."""

    def __init__(
        self, kafka: Kafka, options: argparse.Namespace, start: places.PlaceInPartitions | None, write: Write
    ) -> None:
        """Learns where to begin and where the end is. Raises ClientError."""
        self._kafka = kafka
        self._write = write
        self._left = options.count
        self._group = options.group
        topic = options.topic
        kafka.run(topics.describe([topic], patiently=True))
        numbers = options.partition or sorted(kafka.metadata.topics[topic].partitions)
        for number in numbers:
            existing(kafka.metadata, (topic, number))
        parts: list[Part] = [(topic, number) for number in numbers]
        self._spans = kafka.run(places.spans(parts, kafka.config.isolation))
        self._epochs: dict[Part, int] = {}
        """The leader epoch of what was read last, by partition: a log that was cut behind it is told by it (KIP-320)."""
        positions = self._begin(start)
        self._ends = {part: span.latest for part, span in self._spans.items()} if options.exit else {}
        self._fetcher = Fetcher(kafka.config, {})
        self._reading = Reading(kafka, self._fetcher)
        self._looking: Task[dict[Part, places.Span]] | None = None
        """What finds out where logs end now; None: nothing does."""
        for part, offset in positions.items():
            self._fetcher.seek(*part, offset, self._epochs.get(part, -1))
        self._open = set(parts)
        self._shown: dict[Part, int] = {}
        """The offset behind what was printed, by partition."""
        self._committed: dict[Part, int] = {}
        self._commit_s = time.monotonic()
        for part in parts:
            self._leave_at_end(part, positions[part])

    def _begin(self, start: places.PlaceInPartitions | None) -> dict[Part, int]:
        if start is not None or self._group is None:
            place = start if start is not None else places.PlaceInPartitions(places.BEGINNING)
            found = self._kafka.run(places.offsets(place, self._spans))
            for part, offset in found.items():
                if place.kind == places.OFFSET and offset != place.number:
                    span = self._spans[part]
                    _note(f"{_named(part)} has offsets {span.earliest} to {span.latest}: it is read from {offset}")
            return found
        committed = places.whole(self._stable(self._group))
        self._epochs = {part: one.leader_epoch for part, one in committed.items()}
        return {
            part: committed[part].offset if part in committed else span.earliest for part, span in self._spans.items()
        }

    def _stable(self, group: str) -> dict[Part, Any]:
        """The offsets of the group, once no open transaction commits any, as Kafka's own consumers wait for (KIP-447): what
        is committed then would be printed twice. Raises ClientError."""
        said = False
        while True:
            try:
                return self._kafka.run(groups.committed(group, self._spans, stable=True, tries=STABLE_TRIES))
            except ClientError as error:
                if error.code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                    raise
            if not said:
                _note(f"group {group}: a transaction that commits offsets is open, and its end is waited for")
                said = True

    def read(self) -> None:
        """Print until the end, the count, or for ever. Raises ClientError, BrokenPipeError."""
        while self._open and self._left != 0:
            found = self._reading.next()
            if not found and self._ends:
                self._look_for_ends()
            for result in found:
                part = result.topic, result.partition
                if part not in self._open or self._left == 0:
                    continue
                if isinstance(result, Fetched):
                    self._print(part, result)
                elif isinstance(result, Failed):
                    raise result.error
                else:
                    self._go_on(part, result)
            sys.stdout.flush()
            open_pipe()
            if time.monotonic() - self._commit_s > COMMIT_S:
                self.commit()

    def _print(self, part: Part, found: Fetched) -> None:
        end = self._ends.get(part)
        self._epochs[part] = found.leader_epoch
        for record in records(found, self._kafka.config.check_crcs):
            if end is not None and record.offset >= end:
                break
            self._write(PrintedRecord(*part, record.offset, record.timestamp, record.key, record.value, record.headers))
            self._shown[part] = record.offset + 1
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    return
        self._shown[part] = found.next_offset if end is None else min(found.next_offset, end)
        self._leave_at_end(part, found.next_offset)

    def _leave_at_end(self, part: Part, position: int) -> None:
        if part in self._ends and position >= self._ends[part]:
            self._open.discard(part)
            self._fetcher.leave(*part)

    def _go_on(self, part: Part, result: OutOfRange | Diverged) -> None:
        """Say what is lost, and read on behind it."""
        if isinstance(result, Diverged):
            offset = result.end_offset
            self._lost(part, offset, result.offset)
        else:
            span = self._kafka.run(places.spans([part], self._kafka.config.isolation))[part]
            offset = min(max(result.offset, span.earliest), span.latest)
            _note(f"{_named(part)} has no offset {result.offset} any more: it is read from {offset}")
        self._fetcher.seek(*part, offset)
        self._leave_at_end(part, offset)

    def _look_for_ends(self) -> None:
        """With `-e`, note where these logs end now, if that is nearer than when the command began. A leader that does not
        answer is waited for beside the reading. Raises ClientError."""
        if self._looking is None:
            self._looking = self._kafka.start(places.spans(sorted(self._open), self._kafka.config.isolation))
        if not self._looking.done:
            return
        looking, self._looking = self._looking, None
        for part, span in looking.result().items():
            if part in self._open and span.latest < self._ends[part]:
                self._lost(part, span.latest, self._ends[part])
                self._ends[part] = span.latest
                self._leave_at_end(part, self._fetcher.position(*part))

    def _lost(self, part: Part, first: int, end: int) -> None:
        """Say that these offsets are gone, and do not commit what is behind them: other records will have them."""
        _note(f"{_named(part)}: offsets {first} to {end - 1} were lost with their leader")
        if part in self._shown:
            self._shown[part] = min(self._shown[part], first)
            self._epochs.pop(part, None)

    def commit(self) -> None:
        """Commit what was printed, if there is a group. Raises ClientError."""
        self._commit_s = time.monotonic()
        new = {part: offset for part, offset in self._shown.items() if self._committed.get(part) != offset}
        if self._group is None or not new:
            return
        offsets = {part: groups.Committed(offset, self._epochs.get(part, -1), "") for part, offset in new.items()}
        for error in self._kafka.run(groups.commit(self._group, offsets)).values():
            if error is not None:
                raise error
        self._committed |= new


def _named(part: Part) -> str:
    return f"{part[0]}/{part[1]}"


def _note(sentence: str) -> None:
    print(f"rayft: {sentence}", file=sys.stderr)
