"""`rayft produce`, once it runs.

What standard input has at a time is written before more is read: a line that was typed is sent at once, and a file goes in
large batches. Records of one partition keep their order. They are written with acks=all and once (idempotence) unless the
user's settings say otherwise, and in one transaction where those have a transactional.id. Ctrl-C ends the input where
that is waited for; while lines are written it ends the command as a failure, and the transaction is aborted.
"""

import argparse
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from typing import BinaryIO, NamedTuple

from actors.client.errors import ClientError
from actors.client.operations import topics
from actors.client.operations.leaders import existing
from actors.client.operations.producing import Placed, Producer
from actors.command.by_address.connection import connected, wrong
from actors.host.client.blocking import Kafka
from actors.host.cluster_error import ClusterError
from fastpath.bytes.murmur2 import partition_of
from fastpath.records.batch import Builder

READ_BYTES = 1 << 20
BATCH_BYTES = 1 << 19
"""The size at which a batch is closed, whatever it compresses to."""
RECORD_BYTES_MAX = 100
"""The most bytes that a record takes besides its key, value and headers, and a batch besides its records."""
TOGETHER_MAX = 4
"""The most batches of a partition that are sent at once."""
ABORT_S = 10.0
"""How long an abort may take, s; after that the transaction's own timeout ends it."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
END = b"\n"


class InputLine(NamedTuple):
    """One line of the input."""

    number: int
    key: bytes | None
    value: bytes


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code. Raises ClusterError."""
    headers = _headers(options.header)
    separator = None if options.key_separator is None else os.fsencode(options.key_separator)
    if separator == b"":
        wrong("-k needs a text, as in -k :")
    if sys.stdin is None:
        wrong("there is no standard input: write rayft produce TOPIC < FILE")
    with connected(options, typed={"compression.type": options.compression}) as kafka:
        target = _Target(kafka, options.topic, options.partition, headers)
        try:
            target.begin()
            for lines in _chunks(sys.stdin.buffer, separator, kafka.config.request_bytes_max):
                target.write(lines)
            target.end()
        except (ClientError, ClusterError) as error:
            raise ClusterError(f"{error}; {target.given_up()}") from None
        except KeyboardInterrupt:
            print(f"rayft: interrupted while lines were written; {target.given_up()}", file=sys.stderr)
            return 128 + signal.SIGINT
    print(target.said(), file=sys.stderr)
    return 0


def _headers(given: list[str]) -> list[tuple[bytes, bytes | None]]:
    found: list[tuple[bytes, bytes | None]] = []
    for one in given:
        name, equals, value = os.fsencode(one).partition(b"=")
        if not equals:
            wrong(f"{one!r} is no header: write NAME=VALUE")
        found.append((name, value))
    return found


def _chunks(file: BinaryIO, separator: bytes | None, bytes_max: int) -> Iterator[list[InputLine]]:
    """Yields whole lines, as many as are there at a time. A last line without an end counts, unless Ctrl-C has cut it.
    Of a line of more than `bytes_max` only the size is kept. Raises ClusterError."""
    begun: list[bytes] = []
    size = number = 0
    while True:
        try:
            data = file.read1(READ_BYTES)  # type: ignore[attr-defined]
        except KeyboardInterrupt:
            return  # half a line is no line
        whole, end, rest = data.rpartition(END)
        if data and not end:
            size += len(data)
            if size <= bytes_max:
                begun.append(data)
            else:
                begun.clear()
            continue
        if not data and not size:
            return
        if size > bytes_max:
            raise _too_long(number + 1, size + len(whole.partition(END)[0]), bytes_max)
        found: list[InputLine] = []
        for text in b"".join((*begun, whole)).split(END):
            number += 1
            key, value = None, text
            if separator is not None:
                key, between, value = text.partition(separator)
                if not between:
                    if found:
                        yield found
                    raise ClusterError(f"line {number} has no key: {os.fsdecode(separator)!r} is not in it")
            found.append(InputLine(number, key, value))
        yield found
        if not data:
            return
        begun, size = [rest], len(rest)


def _too_long(number: int, size: int, bytes_max: int) -> ClusterError:
    return ClusterError(f"line {number} has {size} bytes, and max.request.size is {bytes_max}")


class _Target:
    """A topic that lines are written to."""

    def __init__(
        self, kafka: Kafka, topic: str, partition: int | None, headers: list[tuple[bytes, bytes | None]]
    ) -> None:
        """Looks for the topic. Raises ClientError if the topic or the partition does not exist."""
        self._kafka = kafka
        self._topic = topic
        self._headers = headers
        self._headers_bytes = sum(len(name) + len(value or b"") + 10 for name, value in headers)
        found = kafka.run(topics.describe([topic], patiently=True))[topic]
        if partition is not None:
            existing(kafka.metadata, (topic, partition))
        self._only = partition
        self._count = len(found.partitions)
        self._turns = cycle(sorted(found.partitions))
        self._producer = Producer(kafka.config)
        self.transactional = kafka.config.transactional_id
        self.written = 0

    def begin(self) -> None:
        """Begin a transaction, where there is to be one."""
        if self.transactional is not None:
            self._kafka.run(self._producer.begin())

    def end(self) -> None:
        """Commit the transaction, if there is one, after all lines were given."""
        if self.transactional is not None:
            self._kafka.run(self._producer.commit())

    def given_up(self) -> str:
        """Abort the transaction, if there is one, so that it hides nothing behind it from readers. Returns what became of
        the records, as the end of a sentence."""
        if self.transactional is None:
            return self.said()
        with suppress(ClientError):
            self._kafka.run(self._producer.abort(), ABORT_S)
        if self._producer.maybe_committed:
            return "it is not known whether its transaction is committed"
        return "its transaction is not committed"

    def said(self) -> str:
        """How many records are known to be written, as a sentence."""
        return f"{self.written} {'record was' if self.written == 1 else 'records were'} written to {self._topic}"

    def write(self, lines: list[InputLine]) -> None:
        """Write some lines, and count those that are written. Raises ClientError, ClusterError."""
        batches = self._batches(lines)
        error: Exception | None = None
        for data, counts in self._requests(batches):
            for placed, count in zip(self._kafka.run(self._producer.send(data), self._time_s()), counts, strict=True):
                if isinstance(placed, Placed):
                    self.written += count
                else:
                    error = error or placed
            if error is not None:
                raise error

    def _time_s(self) -> float:
        return self._kafka.config.delivery_timeout_ms / 1000

    def _requests(
        self, batches: list[tuple[int, Builder]]
    ) -> Iterator[tuple[list[tuple[tuple[str, int], bytearray]], list[int]]]:
        """The batches that are sent at once: few of a partition (`Producer` numbers them), and those of all partitions
        together, or each of a thousand partitions would be waited for."""
        some: list[tuple[int, Builder]] = []
        counts: Counter[int] = Counter()
        for part, one in batches:
            if counts[part] == TOGETHER_MAX:
                yield self._request(some)
                some, counts = [], Counter()
            some.append((part, one))
            counts[part] += 1
        yield self._request(some)

    def _request(self, batches: list[tuple[int, Builder]]) -> tuple[list[tuple[tuple[str, int], bytearray]], list[int]]:
        return [((self._topic, part), one.build()) for part, one in batches], [one.count for _, one in batches]

    def _batches(self, lines: list[InputLine]) -> list[tuple[int, Builder]]:
        now_ms, largest = int(time.time() * 1000), min(BATCH_BYTES, self._kafka.config.request_bytes_max)
        closed: list[tuple[int, Builder]] = []
        current: dict[int, Builder] = {}
        keyless = next(self._turns)
        for line in lines:
            size = len(line.key or b"") + len(line.value) + self._headers_bytes + RECORD_BYTES_MAX
            if size > self._kafka.config.request_bytes_max:
                raise _too_long(line.number, len(line.value), self._kafka.config.request_bytes_max)
            part = self._only if self._only is not None else keyless
            if self._only is None and line.key is not None:
                part = partition_of(line.key, self._count)
            assert part is not None
            builder = current.get(part)
            if builder is not None and builder.size + size > largest:
                closed.append((part, current.pop(part)))
                builder = None
                if self._only is None and line.key is None:
                    part = keyless = next(self._turns)
                    builder = current.get(part)
            if builder is None:
                codec = CODECS.index(self._kafka.config.compression)
                builder = current[part] = Builder(attributes=codec, timestamp_ms=now_ms)
            builder.append(line.key, line.value, now_ms, self._headers)
        return closed + list(current.items())
