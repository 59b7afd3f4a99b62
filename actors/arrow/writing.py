"""`rayft.write`: the rows of Arrow data as records of a topic, each of them once.

    rayft.write("localhost:9092", "orders", table)                       -> Written: first and last offset by partition
    rayft.write("localhost:9092", "orders", reader, transactional_id="load-7")   all of it, or nothing

This file alone decides what is sent when. Rules:

1. Rows become record batches in Cython (`fastpath/arrow/columns_to_batches.pyx`); their columns are in `written_columns.py`.
   No Python object is made for a record.
2. Each leader has one `send` under way, with a few batches of each of its partitions; the next one begins when that is over,
   with what was made meanwhile. So batches are made while brokers write, and nobody waits for the slowest broker.
3. What is made and not acknowledged takes at most buffer.memory, whatever the size of the data: then no more rows are
   taken until a broker has answered. Where that memory is in batches that are not full, they are sent as they are.
4. A key's partition is that of the partitions that the topic had at the beginning. A topic that was deleted and made anew
   meanwhile is an error.
5. A failure or Ctrl-C ends it: the transaction, if there is one, is aborted, and what was written is told (`written.py`).
"""

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from actors.arrow import written_columns
from actors.arrow.written import BatchRefused, WriteFailed, Written, refused
from actors.client.errors import ClientError, RecordRefused
from actors.client.operations.halves import TOO_LARGE
from actors.client.operations.producing import IN_FLIGHT_MAX, PartlyWritten, Placed, Producer
from actors.client.operations.topics import describe
from actors.client.properties import CODECS
from actors.client.tasks import Task
from actors.host.client.blocking import Kafka, clock_ms, now_us, settings
from actors.wire.messages import ZERO_UUID
from fastpath.arrow import columns_to_batches
from fastpath.arrow.columns_to_batches import BadRow, Batches, Closed

LARGE = {"batch.size": 512_000, "max.request.size": 8 << 20}
"""What is sent at once, unless the config says otherwise."""
ROWS_MAX = 1 << 14
"""How many rows are taken before it is looked what the brokers have answered."""
LAST_ANSWERS_S = 10.0
"""How long the answers to what is under way are waited for after a failure, s."""
ABORT_S = 10.0
"""How long an abort may take, s; after that transaction.timeout.ms ends the transaction."""


def write(
    bootstrap: str | None,
    topic: str,
    data: Any,
    *,
    transactional_id: str | None = None,
    config: Mapping[str, Any] | str | None = None,
) -> Written:
    """Write the rows of a pyarrow Table, RecordBatch or RecordBatchReader, or of anything with `__arrow_c_stream__`, in
    their order within each partition. A reader is read once, and never more of it than buffer.memory is waiting.

    Columns: value, and key, headers, timestamp and partition where they are (`written_columns.py` has the types).
    `transactional_id`: write all rows in one transaction, which fences an earlier write with this id and has to be over
    within transaction.timeout.ms. `config`: a client's properties by Kafka's names, such as compression.type, or the path
    of a file with them. Raises ValueError for columns that do not fit, before anything is asked; ConfigError; and
    WriteFailed, a ClientError, which says what was written.
    """
    schema, batches = written_columns.batches(data)
    written_columns.check(schema)
    named = {} if transactional_id is None else {"transactional.id": transactional_id}
    with Kafka(settings(bootstrap, config, LARGE, named)) as kafka:
        writing = Writing(kafka, Producer(kafka.config), topic)
        try:
            writing.begin()
            for batch in batches:
                writing.add(batch)
            writing.finish()
            writing.commit()
        except BaseException as error:
            told = writing.give_up()
            if not isinstance(error, ClientError):
                error.add_note(f"rayft.write: {told}")
                raise
            row = error.row if isinstance(error, BatchRefused) else None
            raise WriteFailed(f"{error}; {told}", error.code, writing.written, writing.unknown, row) from None
        return writing.written


class Writing:
    """The writing of one topic by a producer. In a transaction: begin, add, finish, and commit or give_up."""

    def __init__(self, kafka: Kafka, producer: Producer, topic: str) -> None:
        self.written = Written(topic)
        self.unknown = 0
        """The number of rows that were under way when it was given up."""
        self._kafka = kafka
        self._producer = producer
        self._topic = topic
        self._id = b""
        self._batches: Batches | None = None
        self._rows = 0
        """The number of the next row."""
        self._waiting: dict[int, deque[Closed]] = {}
        """The batches that were made and are not sent, by partition."""
        self._sends: dict[int, tuple[Task[Any], list[Closed]]] = {}
        """What is under way, by the leader to which it was sent first."""
        self._starting: list[Closed] = []
        """What is being sent now, and not yet among those."""
        self._left_us = now_us()
        """The time when the source of the rows was asked last."""
        self._held_bytes = 0
        """The size of all these batches."""
        self._divided = 0
        """How many batches were too large for the topic when that was looked at last."""
        self._has_begun = False

    @property
    def held_bytes(self) -> int:
        """The size of what was taken and is not acknowledged."""
        return self._held_bytes + (self._batches.open_bytes if self._batches is not None else 0)

    def begin(self) -> None:
        """Look for the topic, and begin a transaction if the config has a transactional.id and none is open. Raises
        ClientError."""
        kafka, config = self._kafka, self._kafka.config
        found = kafka.run(describe([self._topic], patiently=True))[self._topic]
        self._id = found.id
        numbers = sorted(found.partitions)
        if numbers != list(range(len(numbers))):
            raise ClientError(f"topic {self._topic} lacks partitions: its metadata has only {numbers}")
        led = [number for number in numbers if found.partitions[number].leader >= 0] or numbers
        start = clock_ms() % len(led)  # else small writes would all go to the first partition
        codec = CODECS.index(config.compression)
        largest = config.request_bytes_max
        self._batches = Batches(
            len(numbers), min(config.batch_bytes, largest), largest, codec, led[start:] + led[:start]
        )  # fmt: skip
        if config.transactional_id is None:
            kafka.run(self._producer.introduce())
        elif not self._producer.in_transaction:
            kafka.run(self._producer.begin())
        self._has_begun = True
        self._left_us = now_us()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch whose schema was checked, and send what is ready. Raises ClientError."""
        self._resume()
        columns, row = written_columns.columns(batch), 0
        assert self._batches is not None, "begin comes first"
        while row < columns.rows:
            end = min(row + ROWS_MAX, columns.rows)
            room = max(1, self._kafka.config.buffer_bytes - self._held_bytes)
            try:
                row = self._batches.fill(columns, row, end, self._rows, clock_ms(), room)
            except BadRow as error:
                raise self._unfit(error) from None
            self._send(last=False)
        self._rows += columns.rows
        self._left_us = now_us()

    def finish(self) -> None:
        """Send what is left, and wait until all of it is acknowledged. Raises ClientError."""
        self._resume()
        assert self._batches is not None, "begin comes first"
        self._batches.close()
        self._send(last=True)

    def commit(self) -> None:
        """Commit the transaction, if there is one. Raises ClientError."""
        if self._kafka.config.transactional_id is not None:
            self._kafka.run(self._producer.commit())

    def give_up(self) -> str:
        """Send nothing more, and abort the transaction, if there is one. Returns what became of the rows, as a sentence."""
        self._waiting = {}
        if self._kafka.config.transactional_id is None:
            self._drain()
        self.cancel()
        if self._kafka.config.transactional_id is not None and self._has_begun:
            return self._aborted()
        more = f", and {self.unknown} more that were under way may have been" if self.unknown else ""
        return f"{self.written}{more}"

    def cancel(self) -> None:
        """Send nothing more, and wait for nothing. Whoever shares the transaction aborts it."""
        self._waiting = {}
        under_way = {id(one): one.records for one in self._starting}
        for task, batches in self._sends.values():
            self._kafka.client.cancel(task)
            under_way |= {id(one): one.records for one in batches}
        self.unknown = sum(under_way.values())
        self._sends = {}

    def _resume(self) -> None:
        """Go on after the source of the rows has had its time, which what is under way does not pay for: nobody has read
        the answers meanwhile."""
        away_us = now_us() - self._left_us
        for task, _ in self._sends.values():
            task.deadline_us += away_us

    def _drain(self) -> None:
        """Wait a while for the answers to what is under way, so that it is known what was written."""
        until_us = now_us() + int(LAST_ANSWERS_S * 1e6)
        while any(not task.done for task, _ in self._sends.values()) and now_us() < until_us:
            self._kafka.step((until_us - now_us()) / 1e6)
        for leader, (task, _) in list(self._sends.items()):
            if task.done and task.error is None:
                self._note(leader)

    def _aborted(self) -> str:
        """Abort the transaction. Returns what became of it."""
        config, done = self._kafka.config, False
        if not self._producer.in_transaction:  # Ctrl-C came behind the answer to the commit
            return f"transaction {config.transactional_id} is committed, with all rows"
        with suppress(ClientError):
            self._kafka.run(self._producer.abort(), ABORT_S)
            done = True
        if self._producer.maybe_committed:
            return (
                f"it is not known whether transaction {config.transactional_id} is committed, with all rows, or aborted"
            )
        if done:
            return (
                f"transaction {config.transactional_id} is aborted: readers of committed records see none of its rows"
            )
        return (
            f"transaction {config.transactional_id} is not committed: it ends by transaction.timeout.ms="
            f"{config.transaction_timeout_ms}, or by the next write with this id"
        )

    # ---- what is sent when

    def _send(self, last: bool) -> None:
        """Send what can be sent. Waits as long as too much is held or, at the end, until all is acknowledged."""
        self._take()
        while True:
            self._start()
            self._kafka.step(0)
            self._settle()
            if not self._sends and not self._waiting:
                return
            if not last and not self._is_full():
                return
            if self._sends:
                self._kafka.wait(*(task for task, _ in self._sends.values()))
                self._settle()

    def _take(self) -> None:
        """Take the batches that are full; if much memory is in batches that are not, all of them."""
        assert self._batches is not None
        if self._batches.open_bytes * 2 >= self._kafka.config.buffer_bytes:
            self._batches.close()
        for one in self._batches.taken():
            self._waiting.setdefault(one.partition, deque()).append(one)
            self._held_bytes += _size(one)

    def _is_full(self) -> bool:
        assert self._batches is not None
        return self._held_bytes + self._batches.open_bytes >= self._kafka.config.buffer_bytes

    def _start(self) -> None:
        """Begin a send to each leader that has none under way."""
        busy = {one.partition for _, batches in self._sends.values() for one in batches}
        ready: dict[int, list[int]] = {}
        for number in self._waiting:
            if number not in busy:
                ready.setdefault(self._kafka.metadata.leader(self._topic, number), []).append(number)
        for leader, numbers in ready.items():
            if leader not in self._sends:
                self._starting = some = [one for number in numbers for one in self._some(number)]
                data = [((self._topic, one.partition), one.data) for one in some]
                timeout_s = self._kafka.config.delivery_timeout_ms / 1000
                self._sends[leader] = self._kafka.start(self._producer.send(data), timeout_s), some
                self._starting = []

    def _some(self, number: int) -> list[Closed]:
        """The next batches of a partition, as many as may be under way."""
        queue = self._waiting[number]
        found = [queue.popleft() for _ in range(min(len(queue), self._kafka.config.in_flight_max, IN_FLIGHT_MAX))]
        if not queue:
            del self._waiting[number]
        return found

    def _settle(self) -> None:
        """Take in what has come of the sends that are over. Raises ClientError for the first batch that was not
        written."""
        failed: ClientError | None = None
        for leader in [leader for leader, (task, _) in self._sends.items() if task.done]:
            error = self._note(leader)
            failed = failed or error
        if failed is not None:
            raise failed
        self._look()

    def _note(self, leader: int) -> ClientError | None:
        """Note what was written by a send that is over. Returns the error of the first batch that was not. Raises
        ClientError if nothing is known of any of them."""
        task, batches = self._sends[leader]
        found: list[Placed | ClientError] = task.result()
        del self._sends[leader]
        failed: ClientError | None = None
        for one, placed in zip(batches, found, strict=True):
            self._held_bytes -= _size(one)
            if isinstance(placed, Placed):
                self.written.add(one.partition, one.records, placed)
                continue
            if isinstance(placed, PartlyWritten):
                for piece in placed.pieces:
                    self.written.add(one.partition, piece.records, piece.placed)
            failed = failed or self._refused(one, placed)
        return failed

    def _look(self) -> None:
        """Look whether the topic is the same one, and whether its batches are to be smaller."""
        known = self._kafka.metadata.topics.get(self._topic)
        if known is not None and known.id != self._id and ZERO_UUID not in (known.id, self._id):
            raise ClientError(f"topic {self._topic} was deleted and made anew while it was written")
        if self._producer.divided > self._divided:
            assert self._batches is not None
            self._divided = self._producer.divided
            self._batches.batch_bytes //= 2

    # ---- errors

    def _refused(self, batch: Closed, error: ClientError) -> ClientError:
        error = error.error if isinstance(error, PartlyWritten) else error
        record = error.record if isinstance(error, RecordRefused) else None
        if error.code in TOO_LARGE:
            error = ClientError(
                f"its record is larger than the topic takes, see max.message.bytes: {error}", error.code
            )
        return refused(batch, error, record)

    def _unfit(self, error: BadRow) -> ClientError:
        said = {
            columns_to_batches.TOO_LARGE: f"its record takes {error.value} bytes, and max.request.size is "
            f"{self._kafka.config.request_bytes_max}",
            columns_to_batches.PARTITION_OUTSIDE: f"column 'partition' says {error.value}, and topic {self._topic} has "
            f"{self._batches.partitions if self._batches is not None else 0} partitions, from 0 on",
            columns_to_batches.TIME_OUTSIDE: f"column 'timestamp' has {error.value}, which is before 1970 or beyond what a "
            f"record can have",
            columns_to_batches.NO_NAME: "column 'headers' has a header without a key",
        }  # fmt: skip
        return BatchRefused(f"row {error.number}: {said.get(error.reason, error.reason)}", 0, error.number)


def _size(batch: Closed) -> int:
    """The bytes that a batch takes here."""
    return len(batch.data) + batch.rows.nbytes
