"""`rayft.write` by address against both kinds of broker: foreign consumers read the rows, each of them once, and errors say
what was written."""

import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import rayft
from actors.arrow.writing import Writing
from actors.arrow.written import Span, WriteFailed
from actors.client.errors import ClientError
from actors.client.operations import configs, producing, topics
from actors.client.operations.configs import Kind, Op
from actors.client.operations.halves import halves
from actors.host.client.blocking import Kafka, connect
from bench.apache import libs
from fastpath.records.batch import header
from tests.integration.arrow.foreign import Row, consumed
from tests.integration.arrow.test_read import rows as read_rows
from tests.integration.conftest import until
from tests.reference import murmur2

pytestmark = pytest.mark.timeout(240)
COMMITTED = {"isolation.level": "read_committed"}
ALL = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
PARTITIONS = 3
SLOW = pytest.mark.slow
PROGRAM = Path(__file__).parent / "ConsumedRows.java"


def made(kafka: Any, name: str, partitions: int = PARTITIONS, **settings: str) -> str:
    """A topic that all brokers know. A broker that a test has killed may not be back yet."""
    given = {one.replace("_", "."): value for one, value in settings.items()}
    with connect(kafka.bootstrap_servers) as client:
        new = topics.NewTopic(name, partitions, 3, configs=given)
        until(lambda: client.run(topics.create([new])) == {name: None})
    known_to_all(kafka, name)
    return name


def known_to_all(kafka: Any, name: str) -> None:
    """Wait until every broker knows a topic: one learns of it after the other."""
    for server in kafka.bootstrap_servers.split(","):  # a client asks its bootstrap server first
        with connect(server) as client:
            client.run(topics.led([name]))


def drawn(draw: random.Random, rows: int) -> pa.Table:
    """Rows of every form, in chunks that do not fit together."""

    def texts(kind: pa.DataType, nulls: float) -> pa.ChunkedArray:
        values = [
            None if draw.random() < nulls else b"%x" % draw.getrandbits(draw.choice([4, 64, 900])) for _ in range(rows)
        ]
        cuts = sorted(draw.sample(range(rows), 3))
        return pa.chunked_array(
            [pa.array(values[a:b], pa.binary()).cast(kind) for a, b in zip([0, *cuts], [*cuts, rows], strict=True)]
        )

    kinds = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary_view(), pa.string_view())
    pairs = [("same", b"1"), ("same", None), ("other", b"\xff"), ("", b"")]
    headers = [
        draw.choice([None, [dict(zip(("key", "value"), one, strict=True)) for one in pairs[: draw.randint(0, 4)]]])
        for _ in range(rows)
    ]
    found = {
        "value": texts(draw.choice(kinds), 0.1),
        "key": texts(draw.choice(kinds), 0.3),
        "headers": pa.array(headers, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        "timestamp": pa.array(
            [1_700_000_000_000 + draw.randint(0, 10_000) for _ in range(rows)], pa.timestamp("ms", "UTC")
        ),
    }
    if draw.random() < 0.5:
        found["partition"] = pa.array([draw.randrange(PARTITIONS) for _ in range(rows)], pa.int64())
    return pa.table(found)


def rows_of(table: pa.Table) -> list[Row]:
    """The rows as they are given: (key, value, partition or None, time in ms, headers)."""

    def plain(value: Any) -> bytes | None:
        return value.encode() if isinstance(value, str) else value

    found = []
    for row in table.to_pylist():
        key = plain(row.get("key"))
        part = row.get("partition")
        if part is None and key is not None:
            part = murmur2.of_key(key, PARTITIONS)
        headers = [(one["key"], one["value"]) for one in row.get("headers") or []] or None
        found.append((key, plain(row["value"]), part, round(row["timestamp"].timestamp() * 1000), headers))
    return found


def consumed_by_java(kafka: Any, topic: str, isolation: str) -> list[Row]:
    """What Java's consumer reads, by partition and offset."""
    command = ["java", "-Xmx128m", "-cp", f"{libs()}/*", str(PROGRAM), kafka.bootstrap_servers, topic, isolation]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    def plain(text: str) -> bytes | None:
        return None if text == "-" else bytes.fromhex(text[1:])

    found: list[Row] = []
    for line in printed.splitlines():
        part, offset, time_ms, key, value, *headers = line.split(" ")
        pairs = [
            ((plain(name) or b"").decode(), plain(content))
            for name, content in zip(headers[::2], headers[1::2], strict=True)
        ]
        found.append((plain(key), plain(value), int(part), int(offset), int(time_ms), pairs or None))
    return sorted(found, key=lambda row: (row[2], row[3]))


def agree(given: list[Row], found: list[Row]) -> None:
    """Each row is there once, in its partition, and rows of a partition have kept their order."""
    places: dict[Row, list[int]] = {}
    for number, (key, value, part, time_ms, headers) in enumerate(given):
        assert part is None or 0 <= part < PARTITIONS
        places.setdefault((key, value, time_ms, repr(headers)), []).append(number)
    last = dict.fromkeys(range(PARTITIONS), -1)
    for key, value, part, _, time_ms, headers in found:
        numbers = [n for n in places[key, value, time_ms, repr(headers)] if given[n][2] in (None, part)]
        number = min(n for n in numbers if n > last[part])
        places[key, value, time_ms, repr(headers)].remove(number)
        last[part] = number
    assert not [numbers for numbers in places.values() if numbers]


@pytest.mark.parametrize(
    "codec", ["none", "lz4", "zstd", *(pytest.param(one, marks=SLOW) for one in ("gzip", "snappy"))]
)
@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transaction"])
def test_foreign_consumers_read_the_rows(kafka: Any, name: str, codec: str, transactional: bool) -> None:
    draw = random.Random(f"{codec}{transactional}")
    made(kafka, name)
    tables = [drawn(draw, draw.choice([5, 700])) for _ in range(3)]
    config = {"compression.type": codec, "batch.size": draw.choice([1000, 512_000])}
    count = 0
    for table in tables:
        id = f"{name}-id" if transactional else None
        written = rayft.write(kafka.bootstrap_servers, name, table, config=config, transactional_id=id)
        assert written.count == table.num_rows
        count += written.count
        for number, span in written.partitions.items():
            assert span.last - span.first + 1 == span.count, number
    found = consumed(kafka, name, "read_committed")
    assert len(found) == count
    given = [row for table in tables for row in rows_of(table)]
    agree(given, found)
    mine = rayft.read(kafka.bootstrap_servers, name, columns=ALL, config=COMMITTED).read_all()
    assert read_rows(mine) == found
    if libs() is not None and codec in ("none", "zstd"):
        assert consumed_by_java(kafka, name, "read_committed") == found


def test_a_topic_is_copied_as_it_is(kafka: Any, name: str) -> None:
    made(kafka, name)
    rayft.write(kafka.bootstrap_servers, name, drawn(random.Random(5), 2000))
    copy = made(kafka, f"{name}-copy")
    written = rayft.write(kafka.bootstrap_servers, copy, rayft.read(kafka.bootstrap_servers, name, columns=ALL))
    assert written.count == 2000
    assert consumed(kafka, copy) == consumed(kafka, name)


def test_whatever_has_arrows_stream_is_written(kafka: Any, name: str) -> None:
    made(kafka, name)
    relation = duckdb.sql("select 'k' || i as key, 'v' || i as value, now() as timestamp from range(1000) t(i)")
    batch = pa.record_batch({"value": pa.array(["a", "b"])})
    for data, count in ((relation, 1000), (batch, 2), (batch.to_pydict() and pa.table(batch.to_pydict()), 2)):
        assert rayft.write(kafka.bootstrap_servers, name, data).count == count
    assert rayft.write(kafka.bootstrap_servers, name, batch.slice(0, 0)).partitions == {}
    found = consumed(kafka, name)
    assert sorted(row[1] for row in found if row[0] is not None) == sorted(b"v%d" % n for n in range(1000))
    assert all(row[2] == murmur2.of_key(row[0], PARTITIONS) for row in found if row[0] is not None)
    assert len(found) == 1004


def plain(values: list[bytes], **more: Any) -> pa.Table:
    return pa.table({"value": pa.array(values, pa.binary()), **more})


@pytest.mark.parametrize("config", [{"acks": "1"}, {"acks": "0"}, {"enable.idempotence": "false"}], ids=str)
def test_weaker_ways_to_write(kafka: Any, name: str, config: dict[str, str]) -> None:
    made(kafka, name, 1)
    written = rayft.write(kafka.bootstrap_servers, name, plain([b"%d" % n for n in range(500)]), config=config)
    assert written.partitions == {0: Span(-1, -1, 500) if config.get("acks") == "0" else Span(0, 499, 500)}
    end = time.monotonic() + 30
    while (count := rayft.read(kafka.bootstrap_servers, name).read_all().num_rows) < 500:
        assert time.monotonic() < end
    assert count == 500


# ---- what does not fit, and what is told then


def many(count: int) -> list[bytes]:
    return [b"%06d" % n for n in range(count)]


def test_a_topic_that_is_not_there(kafka: Any) -> None:
    with pytest.raises(WriteFailed, match=r"topic no-such-topic does not exist; nothing was written to no-such-topic"):
        rayft.write(kafka.bootstrap_servers, "no-such-topic", plain([b""]))


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ([0] * 40_000 + [3], "row 40000: column 'partition' says 3, and topic .* has 3 partitions, from 0 on"),
        ([0] * 40_000 + [-1], "row 40000: column 'partition' says -1, and topic .* has 3 partitions, from 0 on"),
    ],
)
def test_a_bad_row_is_named_and_what_was_written_is_told(kafka: Any, name: str, column: list[Any], said: str) -> None:
    made(kafka, name)
    table = plain(many(40_001), partition=pa.array(column, pa.int32()))
    with pytest.raises(WriteFailed, match=said) as raised:
        rayft.write(kafka.bootstrap_servers, name, table, config={"batch.size": 2000})
    assert raised.value.row == 40_000 and raised.value.unknown == 0
    found = consumed(kafka, name)
    told = raised.value.written
    assert told.count == len(found) > 0
    assert told.partitions == {0: Span(0, len(found) - 1, len(found))}
    assert (
        f"{told.count} rows were written to {name} (partition 0: {told.count} at offsets 0 to {told.count - 1})"
        in str(raised.value)
    )
    assert [row[1] for row in found] == many(40_001)[: len(found)]


def test_a_record_that_is_larger_than_a_request(kafka: Any, name: str) -> None:
    made(kafka, name, 1)
    with pytest.raises(
        WriteFailed, match=r"row 2: its record takes 50072 bytes, and max.request.size is 40000"
    ) as raised:
        rayft.write(
            kafka.bootstrap_servers, name, plain([b"a", b"b", b"x" * 50_000]), config={"max.request.size": 40_000}
        )
    assert raised.value.row == 2


@pytest.mark.parametrize(
    ("codec", "transactional"),
    [
        pytest.param("none", False, id="none-plain"),
        pytest.param("lz4", True, id="lz4-transaction"),
        pytest.param("none", True, id="none-transaction", marks=SLOW),
        pytest.param("lz4", False, id="lz4-plain", marks=SLOW),
    ],
)
def test_batches_that_are_too_large_for_the_topic_are_divided(
    kafka: Any, name: str, codec: str, transactional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def counted(data: memoryview) -> tuple[bytearray, bytearray]:
        sizes.append(header(data).count)
        return halves(data)

    monkeypatch.setattr(producing, "halves", counted)
    made(kafka, name, 2, max_message_bytes="3000")
    draw = random.Random(3)
    values = [draw.randbytes(draw.randint(1, 300)) for _ in range(20_000)]
    keys = pa.array([b"%d" % (n % 50) for n in range(20_000)])
    config = {"compression.type": codec, "batch.size": 100_000, "buffer.memory": 300_000}  # of 3.2 MB
    written = rayft.write(
        kafka.bootstrap_servers, name, plain(values, key=keys), config=config,
        transactional_id=f"{name}-id" if transactional else None,
    )  # fmt: skip
    found = consumed(kafka, name, "read_committed", 2)
    for part in range(2):
        expected = [values[n] for n in range(20_000) if murmur2.of_key(b"%d" % (n % 50), 2) == part]
        assert [row[1] for row in found if row[2] == part] == expected
        assert written.partitions[part] == Span(0, len(expected) - 1, len(expected))
    assert 0 < sum(size > 400 for size in sizes) < 16, "smaller batches are made once some were too large"


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transaction"])
def test_a_record_that_is_too_large_for_the_topic(kafka: Any, name: str, transactional: bool) -> None:
    made(kafka, name, 1, max_message_bytes="3000")
    values = [*many(700), b"x" * 4000, *many(50)]
    with pytest.raises(
        WriteFailed, match=r"row 700: its record is larger than the topic takes, see max.message.bytes"
    ) as raised:
        rayft.write(
            kafka.bootstrap_servers, name, plain(values), transactional_id=f"{name}-id" if transactional else None
        )
    assert raised.value.row == 700
    found = consumed(kafka, name, "read_committed", 1)
    if transactional:
        assert not found and "is aborted: readers of committed records see none of its rows" in str(raised.value)
    else:
        assert [row[1] for row in found] == values[: len(found)]
        assert raised.value.written.count == len(found) <= 700


def test_a_time_that_the_topic_does_not_take_is_told_with_its_row(kafka: Any, name: str) -> None:
    made(kafka, name, 1, message_timestamp_before_max_ms="3600000")
    now_ms = int(time.time() * 1000)
    times = pa.array([now_ms, now_ms, now_ms - 86_400_000, now_ms], pa.timestamp("ms"))
    with pytest.raises(WriteFailed, match=r"row 2: .*INVALID_TIMESTAMP"):
        rayft.write(kafka.bootstrap_servers, name, plain(many(4), timestamp=times))


def test_columns_that_do_not_fit_are_told_before_anything_is_asked(kafka: Any) -> None:
    with pytest.raises(ValueError, match="column 'value' is of type int64, and has to be binary or string"):
        rayft.write("127.0.0.1:1", "t", pa.table({"value": [1]}))


# ---- transactions


def slow(*, stops: BaseException, rows: int = 3000) -> pa.RecordBatchReader:
    """A reader that fails after some batches."""

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(10):
            yield from plain(many(rows)).to_batches()
        raise stops

    return pa.RecordBatchReader.from_batches(pa.schema([("value", pa.binary())]), batches())


@pytest.mark.parametrize("stops", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transaction"])
def test_a_source_that_fails(kafka: Any, name: str, stops: type[BaseException], transactional: bool) -> None:
    made(kafka, name, 1)
    id = f"{name}-id" if transactional else None
    with pytest.raises(stops) as raised:
        rayft.write(
            kafka.bootstrap_servers,
            name,
            slow(stops=stops("the source is gone")),
            transactional_id=id,
            config={"batch.size": 10_000},
        )
    (note,) = raised.value.__notes__
    found = consumed(kafka, name, "read_committed", 1)
    if transactional:
        assert note == f"rayft.write: transaction {id} is aborted: readers of committed records see none of its rows"
        assert not found
        rayft.write(kafka.bootstrap_servers, name, plain(many(10)), transactional_id=id)
        assert [row[1] for row in consumed(kafka, name, "read_committed", 1)] == many(10)
    else:
        assert f"rayft.write: {len(found)} rows were written to {name}" in note


INTERRUPTED = """
import itertools, sys, pyarrow as pa, rayft
schema = pa.schema([("value", pa.binary())])
batch = pa.record_batch({"value": pa.array([b"x" * 100] * 1000)})
def batches():
    for n in itertools.count():
        if n == 50: print("writes", flush=True)
        yield batch
try:
    rayft.write(sys.argv[1], sys.argv[2], pa.RecordBatchReader.from_batches(schema, batches()), transactional_id=sys.argv[2])
except KeyboardInterrupt as error:
    print(*error.__notes__, flush=True)
"""


def test_ctrl_c_aborts_the_transaction(kafka: Any, name: str) -> None:
    made(kafka, name)
    command = [sys.executable, "-c", INTERRUPTED, kafka.bootstrap_servers, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writes\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        said = process.stdout.readline()
    assert "is aborted" in said and process.returncode == 0
    table = rayft.read(kafka.bootstrap_servers, name, config=COMMITTED).read_all()  # ends: nothing is left open
    assert table.num_rows == 0
    assert rayft.read(kafka.bootstrap_servers, name).read_all().num_rows > 0


class Interrupted:
    """Ctrl-C in the middle of `Kafka.start`, when what is under way has just been given to the system."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_due = False
        start, carry_out, starting = Kafka.start, Kafka._carry_out, []

        def started(kafka: Kafka, *arguments: Any) -> Any:
            starting.append(1)
            try:
                return start(kafka, *arguments)
            finally:
                starting.pop()

        def carried_out(kafka: Kafka, effects: Any) -> None:
            carry_out(kafka, effects)
            if starting and effects.sends and self.is_due:
                self.is_due = False
                raise KeyboardInterrupt

        monkeypatch.setattr(Kafka, "start", started)
        monkeypatch.setattr(Kafka, "_carry_out", carried_out)


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transaction"])
def test_ctrl_c_while_a_request_is_sent(
    kafka: Any, name: str, transactional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has just been sent is told, and a transaction is aborted in a way that fences it."""
    made(kafka, name, 1)
    interrupted, id = Interrupted(monkeypatch), f"{name}-id" if transactional else None
    epochs = []

    def batches() -> Iterator[pa.RecordBatch]:
        for n in range(100):
            interrupted.is_due = interrupted.is_due or n == 10
            time.sleep(0.02)
            yield from plain(many(100)).to_batches()

    def introduced(producer: producing.Producer) -> Any:
        yield from introduce(producer)
        epochs.append(producer._epoch)

    introduce = producing.Producer._introduce
    monkeypatch.setattr(producing.Producer, "_introduce", introduced)
    reader = pa.RecordBatchReader.from_batches(pa.schema([("value", pa.binary())]), batches())
    with pytest.raises(KeyboardInterrupt) as raised:
        rayft.write(kafka.bootstrap_servers, name, reader, transactional_id=id, config={"batch.size": 1000})
    (note,) = raised.value.__notes__
    if transactional:
        assert "is aborted" in note and len(epochs) == 2 and epochs[1] > epochs[0]
        assert rayft.read(kafka.bootstrap_servers, name, config=COMMITTED).read_all().num_rows == 0
    else:
        told = re.search(r"(\d+) rows were written to .*, and (\d+) more that were under way may have been", note)
        assert told is not None, note
        assert int(told[1]) <= len(consumed(kafka, name, partitions=1)) <= int(told[1]) + int(told[2])


def test_ctrl_c_behind_the_commit_does_not_call_for_another_write(
    kafka: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(kafka, name, 1)
    commit = Writing.commit

    def committed(writing: Writing) -> None:
        commit(writing)
        raise KeyboardInterrupt

    monkeypatch.setattr(Writing, "commit", committed)
    with pytest.raises(KeyboardInterrupt) as raised:
        rayft.write(kafka.bootstrap_servers, name, plain(many(10)), transactional_id=f"{name}-id")
    assert raised.value.__notes__ == [f"rayft.write: transaction {name}-id is committed, with all rows"]
    assert [row[1] for row in consumed(kafka, name, "read_committed", 1)] == many(10)


@pytest.mark.parametrize("at", ["between", "behind"])
def test_a_source_may_take_longer_than_a_send(kafka: Any, name: str, at: str) -> None:
    """Nobody reads answers while the source is asked: that time is not the brokers'."""
    made(kafka, name, 1)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from plain(many(3000)).to_batches()
        time.sleep(4)
        if at == "between":
            yield from plain(many(3000)).to_batches()

    reader = pa.RecordBatchReader.from_batches(pa.schema([("value", pa.binary())]), batches())
    config = {"delivery.timeout.ms": 3000, "request.timeout.ms": 2000, "linger.ms": 0, "batch.size": 2000}
    written = rayft.write(kafka.bootstrap_servers, name, reader, config=config)
    expected = many(3000) * (2 if at == "between" else 1)
    assert written.count == len(expected)
    assert [row[1] for row in consumed(kafka, name, partitions=1)] == expected


def test_a_newer_write_fences_an_older_one(kafka: Any, name: str) -> None:
    made(kafka, name, 1)

    def batches() -> Iterator[pa.RecordBatch]:
        for n in range(20):
            if n == 10:
                rayft.write(kafka.bootstrap_servers, name, plain([b"newer"]), transactional_id=name)
            yield from plain(many(3000)).to_batches()

    reader = pa.RecordBatchReader.from_batches(pa.schema([("value", pa.binary())]), batches())
    with pytest.raises(WriteFailed, match="is in use by a newer producer"):
        rayft.write(kafka.bootstrap_servers, name, reader, transactional_id=name, config={"batch.size": 10_000})
    assert [row[1] for row in consumed(kafka, name, "read_committed", 1)] == [b"newer"]


# ---- much data, and clusters in motion

STREAMED = """
import sys, pyarrow as pa, rayft, actors.arrow.writing, os
def of(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
schema = pa.schema([("value", pa.binary())])
def batches():
    for n in range(300):
        yield pa.record_batch({"value": pa.array([os.urandom(8) + b"x" * 1000] * 1000)})
before = of("VmRSS")
config = {"buffer.memory": 8 << 20, "compression.type": sys.argv[3]}
written = rayft.write(sys.argv[1], sys.argv[2], pa.RecordBatchReader.from_batches(schema, batches()), config=config)
print(written.count, (of("VmHWM") - before) >> 10)
"""


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_stream_of_any_size_takes_little_memory(kafka: Any, name: str, codec: str) -> None:
    made(kafka, name, 6, retention_bytes="1000000")
    command = [sys.executable, "-c", STREAMED, kafka.bootstrap_servers, name, codec]
    said = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True).stdout.split()
    assert int(said[0]) == 300_000
    assert int(said[1]) < 96, "MiB above the start, of 300 that were written"


def test_many_partitions_and_little_room(kafka: Any, name: str) -> None:
    """All memory is in batches that are not full: they are sent as they are."""
    made(kafka, name, 100)
    keys = pa.array([b"%d" % n for n in range(20_000)])
    config = {"buffer.memory": 100_000, "batch.size": 50_000}
    written = rayft.write(kafka.bootstrap_servers, name, plain(many(20_000), key=keys), config=config)
    assert written.count == 20_000 and len(written.partitions) == 100
    found = consumed(kafka, name, partitions=100)
    assert sorted(row[1] for row in found) == many(20_000)
    config = {"buffer.memory": 0}
    assert rayft.write(kafka.bootstrap_servers, name, plain(many(50)), config=config).count == 50


def test_nothing_is_lost_and_nothing_twice_over_kills(kafka: Any, name: str) -> None:
    made(kafka, name)
    with connect(kafka.bootstrap_servers) as client:
        client.run(topics.describe([name]))
        first = client.metadata.leader(name, 0)
    count, went = 60_000, threading.Event()

    def killed() -> None:
        went.wait()
        kafka.kill(first)
        if not isinstance(kafka, rayft.Cluster):
            kafka.start(first)

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, count, 500):
            if start == count // 4:
                went.set()
            time.sleep(0.02)
            some = [b"%d" % n for n in range(start, start + 500)]
            yield pa.record_batch({"value": pa.array(some), "partition": pa.array([n % 3 for n in range(500)])})

    killer = threading.Thread(target=killed)
    killer.start()
    schema = pa.schema([("value", pa.binary()), ("partition", pa.int64())])
    try:
        reader = pa.RecordBatchReader.from_batches(schema, batches())
        written = rayft.write(kafka.bootstrap_servers, name, reader, config={"batch.size": 3000})
    finally:
        went.set()
        killer.join()
    assert written.count == count
    found = consumed(kafka, name)
    for part in range(3):
        expected = [b"%d" % (start + n) for start in range(0, count, 500) for n in range(500) if n % 3 == part]
        assert [row[1] for row in found if row[2] == part] == expected


def test_a_topic_that_is_made_anew_meanwhile(kafka: Any, name: str) -> None:
    made(kafka, name, 1)

    def batches() -> Iterator[pa.RecordBatch]:
        for n in range(200):
            if n == 50:
                with connect(kafka.bootstrap_servers) as client:
                    client.run(topics.delete([name]))
                    while client.run(topics.create([topics.NewTopic(name, 1, 3)]))[name] is not None:
                        time.sleep(0.1)
            yield from plain(many(100)).to_batches()

    reader = pa.RecordBatchReader.from_batches(pa.schema([("value", pa.binary())]), batches())
    with pytest.raises(ClientError, match=r"was deleted and made anew while it was written|does not exist"):
        rayft.write(kafka.bootstrap_servers, name, reader, config={"batch.size": 1000})


def test_a_limit_that_is_lowered_meanwhile(kafka: Any, name: str) -> None:
    """Batches that are under way when the topic takes smaller ones only are divided, in order."""
    made(kafka, name, 1)

    def batches() -> Iterator[pa.RecordBatch]:
        for n in range(40):
            if n == 10:
                with connect(kafka.bootstrap_servers) as client:
                    changes = {(Kind.TOPIC, name): {"max.message.bytes": (Op.SET, "2000")}}
                    client.run(configs.alter(changes))
            yield from plain([b"%d-%d" % (n, m) for m in range(1000)]).to_batches()

    reader = pa.RecordBatchReader.from_batches(pa.schema([("value", pa.binary())]), batches())
    rayft.write(kafka.bootstrap_servers, name, reader, config={"batch.size": 20_000})
    assert [row[1] for row in consumed(kafka, name, partitions=1)] == [
        b"%d-%d" % (n, m) for n in range(40) for m in range(1000)
    ]
