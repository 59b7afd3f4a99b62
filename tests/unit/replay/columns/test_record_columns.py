"""Topic logs as Arrow, against the slow reader of batches: codecs, nulls, headers, time, control batches, ranges."""

import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import replay
from actors.replay.columns.record_columns import COLUMNS, SCHEMA
from fastpath.bytes.crc32c import crc32c
from fastpath.records import batch, compression
from fastpath.records.batch import Builder

GOLDEN = Path(__file__).parents[3] / "golden" / "apache-kafka-4.3.1" / "batches"
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def sealed(data: bytes, attributes: int | None = None, codec: int = 0) -> bytes:
    """A batch with other attributes, or compressed, and the CRC that belongs to it."""
    body = compression.compress(codec, data[61:]) if codec else data[61:]
    head = bytearray(data[:61])
    head[8:12] = (len(body) + 49).to_bytes(4, "big")
    head[21:23] = (codec if attributes is None else attributes | codec).to_bytes(2, "big")
    head[17:21] = crc32c(bytes(head[21:]) + body).to_bytes(4, "big")
    return bytes(head) + body


def rows(path: Path, columns: tuple[str, ...] = tuple(SCHEMA.names), **options: Any) -> list[dict[str, Any]]:
    found = []
    for split in replay.open(path, "log").splits():
        for one in replay.read(split, columns, **options):
            one.validate(full=True)
            found += one.to_pylist()
    return found


def slow(data: bytes, topic: str, partition: int) -> list[dict[str, Any]]:
    """What fastpath.records.batch.records reads, as rows."""
    found = []
    for header in batch.headers(data):
        for record in batch.records(data, header.position):
            headers = [{"key": key.decode(), "value": value} for key, value in record.headers]
            append = header.attributes >> 3 & 1
            found.append(
                {
                    "key": record.key, "value": record.value, "topic": topic, "partition": partition,
                    "offset": record.offset,
                    "timestamp": EPOCH + datetime.timedelta(milliseconds=record.timestamp), "timestampType": append,
                    "headers": headers or None,
                }
            )  # fmt: skip
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_that_kafka_wrote_with_every_codec(codec: str, tmp_path: Path) -> None:
    data = (GOLDEN / f"batch-{codec}.bin").read_bytes()
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(data)
    found = rows(path)
    assert found and found == slow(data, "t", 0)


TEXTS = st.none() | st.binary(max_size=30)
RECORDS = st.lists(
    st.tuples(TEXTS, TEXTS, st.integers(0, 10**12), st.lists(st.tuples(st.text(max_size=5), TEXTS), max_size=3)),
    min_size=1,
    max_size=12,
)
BATCHES = st.lists(st.tuples(RECORDS, st.sampled_from(range(5)), st.booleans()), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(BATCHES, st.integers(0, 80), st.integers(0, 80), st.integers(100, 2000))
def test_any_log_equals_the_slow_reader(
    tmp_path_factory: pytest.TempPathFactory, batches: list[Any], low: int, high: int, chunk_bytes: int
) -> None:
    data, offset = b"", 0
    for records, codec, append_time in batches:
        builder = Builder(offset, 1, timestamp_ms=records[0][2])
        for key, value, time, headers in records:
            builder.append(key, value, time, [(name.encode(), content) for name, content in headers])
        offset += len(records) + 2  # compaction leaves gaps
        data += sealed(bytes(builder.build()), 8 if append_time else 0, codec)
    path = tmp_path_factory.mktemp("log") / "some.topic-12" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(data)
    expected = slow(data, "some.topic", 12)
    assert rows(path, chunk_bytes=chunk_bytes) == expected
    key = ("some.topic", 12)
    ranged = [
        row
        for split in replay.open(path).splits(1, {key: low}, {key: high})
        for one in replay.read(split, ("offset", "value"))
        for row in one.to_pylist()
    ]
    assert ranged == [
        {name: row[name] for name in ("offset", "value")} for row in expected if low <= row["offset"] < high
    ]


@pytest.mark.parametrize("attributes", [0, 8])
@pytest.mark.parametrize(
    ("time_ms", "expected_us"),
    [
        (-1, -1000),
        (1_700_000_000_000_000, 1_700_000_000_000_000_000),
        (1_700_000_000_000_000_000, 9_223_372_036_854_775_000),  # nanoseconds, by a producer that is wrong
        (1 << 62, 9_223_372_036_854_775_000),
        (-(1 << 62), -9_223_372_036_854_775_000),
    ],
)
def test_times_that_microseconds_do_not_reach_are_the_last_that_they_do(
    tmp_path: Path, time_ms: int, expected_us: int, attributes: int
) -> None:
    builder = Builder(0, 1, timestamp_ms=time_ms)
    builder.append(None, b"v", time_ms)
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(sealed(bytes(builder.build()), attributes))
    (split,) = replay.open(path, "log").splits()
    (one,) = replay.read(split)
    assert one["timestamp"].cast("int64").to_pylist() == [expected_us]


def test_a_headers_name_that_is_no_utf8_is_read_as_clients_in_java_do(tmp_path: Path) -> None:
    builder = Builder(0, 1)
    builder.append(None, b"v", headers=[(b"caf\xe9", b"\xff"), (b"ok", None)])
    builder.append(None, b"w", headers=[("\u00e9".encode(), b"")])
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(bytes(builder.build()))
    assert [row["headers"] for row in rows(path)] == [
        [{"key": "caf\ufffd", "value": b"\xff"}, {"key": "ok", "value": None}],
        [{"key": "\u00e9", "value": b""}],
    ]


def test_markers_of_transactions_are_no_records(tmp_path: Path) -> None:
    builder = Builder(0, 1, producer_id=7, producer_epoch=0)
    builder.append(b"\0\0\0\1", b"\0\0\0\0\0\0")
    marker = sealed(bytes(builder.build()), 0x30)
    builder = Builder(1, 1)
    builder.append(None, b"data")
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(marker + builder.build())
    assert [row["offset"] for row in rows(path)] == [1]


def test_a_record_that_makes_no_sense_costs_its_batch_only(tmp_path: Path) -> None:
    parts = []
    for at in range(3):
        builder = Builder(at * 2, 1)
        builder.append(None, b"one")
        builder.append(None, b"two")
        parts.append(bytes(builder.build()))
    broken = bytearray(parts[1])
    broken[61] = 0x7E  # the first record's size, now behind the batch's end
    parts[1] = sealed(bytes(broken), 0)
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(b"".join(parts))
    with pytest.raises(replay.CorruptLog, match=f"byte {len(parts[0])}:"):
        rows(path)
    told: list[replay.Damage] = []
    assert [row["offset"] for row in rows(path, on_damage=told.append)] == [0, 1, 4, 5]
    assert [(one.position, one.end) for one in told] == [(len(parts[0]), len(parts[0]) * 2)]


def test_compressed_bytes_that_cannot_be_opened_are_damage(tmp_path: Path) -> None:
    builder = Builder(0, 1)
    builder.append(None, b"x" * 100)
    data = bytearray(sealed(bytes(builder.build()), None, 4))
    data[61:] = bytes(len(data) - 61)
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(data)
    told: list[replay.Damage] = []
    assert rows(path, on_damage=told.append) == []
    assert [(one.position, one.end) for one in told] == [(0, len(data))]


def test_headers_come_only_when_asked_for() -> None:
    assert "headers" not in COLUMNS and set(SCHEMA.names) - set(COLUMNS) == {"headers"}


def test_a_long_name_in_millions_of_rows_is_cut_into_batches(tmp_path: Path) -> None:
    name, count = "n" * 240, 600_000
    builder = Builder(7, 3)
    for _ in range(count):
        builder.append(None, b"", 1_000)
    folder = tmp_path / f"{name}-0"
    folder.mkdir()
    (folder / f"{7:020}.log").write_bytes(sealed(bytes(builder.build()), None, 4))
    split = replay.open(tmp_path, "log").splits()[0]._replace(first_offset=10, end_offset=count)
    found = list(replay.read(split))
    assert len(found) == 3 and all(one.column("topic").nbytes < 80 << 20 for one in found)
    assert [at for one in found for at in one.column("offset").to_numpy()] == list(range(10, count))
    for one in found:
        one.validate(full=True)
        assert set(one.column("topic").unique().to_pylist()) == {name}
