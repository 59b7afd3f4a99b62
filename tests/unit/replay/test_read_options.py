"""What is read: options, comparisons, and exactly the rows that they leave."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from actors.replay.logs.files import NothingToRead
from actors.replay.read_options import ReadOptions, materialized, narrowed, read_options, scan
from tests.unit.replay import metadata_logs
from tests.unit.replay.written import NOW_MS, node

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-4.3.1" / "__cluster_metadata-0" / "00000000000000000000.log"
BEGIN = datetime.fromtimestamp(NOW_MS / 1000, UTC)


def rows(options: ReadOptions, *columns: str) -> list[tuple[object, ...]]:
    found = []
    for split in options.splits(options.open()):
        for batch in scan(options, split, columns):
            assert tuple(batch.schema.names) == columns
            found += list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return found


def after(options: ReadOptions, *comparisons: tuple[str, str, object]) -> ReadOptions:
    for comparison in comparisons:
        fewer = narrowed(options, *comparison)
        assert fewer is not None
        options = fewer
    return options


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(node(tmp_path, {"orders": 3, "clicks": 1}, 100))


def test_options_choose_topics_partitions_and_offsets(path: str) -> None:
    options = read_options(
        {"path": path, "topics": "orders", "PARTITIONS": "0, 2", "startOffset": "95", "endoffset": "98"}
    )
    assert rows(options, "partition", "offset") == [(p, o) for p in (0, 2) for o in (95, 96, 97)]


@pytest.mark.parametrize(
    ("comparisons", "expected"),
    [
        ([("offset", "=", 7)], {7}),
        ([("offset", "<", 3)], {0, 1, 2}),
        ([("offset", "<=", 3)], {0, 1, 2, 3}),
        ([("offset", ">", 97)], {98, 99}),
        ([("offset", ">=", 97), ("offset", ">", 96), ("offset", "<", 99), ("offset", "<", 1000)], {97, 98}),
        ([("offset", "<", -5)], set()),
        ([("offset", ">", -5), ("offset", "<", 1)], {0}),
        ([("timestamp", "=", BEGIN + timedelta(milliseconds=41))], {41}),
        ([("timestamp", ">", BEGIN + timedelta(milliseconds=97))], {98, 99}),
        ([("timestamp", ">=", BEGIN), ("timestamp", "<", BEGIN + timedelta(milliseconds=2))], {0, 1}),
        ([("timestamp", "<=", BEGIN), ("offset", "<", 50)], {0}),
    ],
)
def test_comparisons_leave_exactly_their_rows(
    path: str, comparisons: list[tuple[str, str, object]], expected: set[int]
) -> None:
    options = after(read_options({"path": path, "topics": "clicks"}), *comparisons)
    assert {offset for (offset,) in rows(options, "offset")} == expected
    assert {value for (value,) in rows(options, "value")} == {b"0:%d" % offset for offset in expected}


def test_comparisons_of_topics_meet_and_need_not_exist(path: str) -> None:
    options = read_options({"path": path, "endOffset": "1"})
    assert rows(after(options, ("topic", "in", ["orders", "none"])), "partition") == [(0,), (1,), (2,)]
    assert rows(
        after(options, ("topic", "=", "orders"), ("partition", "in", [1, 2]), ("partition", "=", 2)), "topic"
    ) == [("orders",)]
    assert rows(after(options, ("topic", "=", "orders"), ("topic", "=", "clicks")), "topic") == []
    assert rows(after(options, ("topic", "=", "nobody")), "topic") == []


def test_what_cannot_be_said_exactly_is_left_to_the_asker(path: str) -> None:
    options = read_options({"path": path})
    for comparison in (("value", "=", b"x"), ("topic", "<", "b"), ("offset", "in", [1, 2]), ("timestampType", "=", 0)):
        assert narrowed(options, *comparison) is None


def test_types_of_metadata_records() -> None:
    options = read_options({"path": str(GOLDEN), "types": "TopicRecord,RemoveTopicRecord"})
    every = rows(read_options({"path": str(GOLDEN)}), "offset", "type")
    assert rows(options, "offset") == [
        (offset,) for offset, kind in every if kind in ("TopicRecord", "RemoveTopicRecord")
    ]
    assert rows(after(options, ("type", "=", "TopicRecord")), "offset") == [
        (o,) for o, kind in every if kind == "TopicRecord"
    ]


def test_every_topic_that_is_named_must_be_there(path: str) -> None:
    for topics, missing in (("orders,ordres", "ordres"), ("nobody", "nobody"), ("x,orders,y", "x or y")):
        with pytest.raises(NothingToRead, match=f"holds no log of {missing}\\.$"):
            read_options({"path": path, "topics": topics}).open()
    assert rows(read_options({"path": path, "topics": "orders,clicks", "endOffset": "1"}), "topic") == [
        ("clicks",), *[("orders",)] * 3
    ]  # fmt: skip


def test_null_equals_nothing(path: str) -> None:
    options = read_options({"path": str(GOLDEN)})
    some = rows(after(options, ("type", "=", "TopicRecord")), "offset")
    assert some and rows(after(options, ("type", "in", ("TopicRecord", None))), "offset") == some
    assert rows(after(options, ("type", "=", None)), "offset") == []
    assert {row for row in rows(after(read_options({"path": path}), ("partition", "in", (None, 2))), "partition")} == {
        (2,)
    }
    for column in ("offset", "timestamp"):
        assert narrowed(options, column, "<", None) is None, "whoever asks sees to it"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "give the path"),
        ({"path": "x", "pth": "y"}, "no option 'pth'.*splitBytes"),
        ({"path": "x", "verify": "maybe"}, "write true or false"),
        ({"path": "x", "damage": "ignore"}, "write fatal or skip"),
        ({"path": "x", "startOffset": "-1"}, "offsets are 0 to 9223372036854775807"),
        ({"path": "x", "endOffset": "9223372036854775808"}, "offsets are 0 to 9223372036854775807"),
        ({"path": "x", "splitBytes": "0"}, "above 0"),
        ({"path": "x", "startTime": "noon"}, "option startTime='noon'"),
        ({"path": "x", "asof": "7"}, "asof does nothing for a log: it is about topics, partitions, "),
        ({"path": "x", "table": "changes", "asOf": "7"}, "asOf does nothing for changes"),
        ({"path": "x", "table": "log", "types": "TopicRecord"}, "types does nothing for log: it is about records$"),
        ({"path": "x", "table": "records", "topics": "orders"}, "topics does nothing for records"),
        ({"path": "x", "table": "partitions", "topics": "orders"}, "topics does nothing for partitions"),
        ({"path": "x", "table": "brokers", "endTime": "2026-11-21"}, "endTime does nothing for brokers"),
        ({"path": "x", "kinds": "isr"}, "kinds does nothing for a log: it is about changes$"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_options(options)


def test_times_without_a_zone_are_utc(path: str) -> None:
    text = (BEGIN + timedelta(milliseconds=98)).replace(tzinfo=None).isoformat()
    assert rows(read_options({"path": path, "topics": "clicks", "startTime": text}), "offset") == [(98,), (99,)]


def test_bounds_of_changes_are_those_of_every_table(tmp_path: Path) -> None:
    path = metadata_logs.write(tmp_path, metadata_logs.batches(metadata_logs.ops(), 1))

    def found(**bounds: str) -> list[tuple[int, float]]:
        options = read_options({"path": str(path), "table": "changes", **bounds})
        batches = materialized(options, ("offset", "timestamp"))
        return [(row["offset"], row["timestamp"].timestamp()) for batch in batches for row in batch.to_pylist()]

    every = found()
    assert {time for _, time in every} >= {7, 8, 9, 11}
    eight, eleven = "1970-01-01T00:00:08", "1970-01-01T00:00:11"
    assert found(endTime=eight) == [one for one in every if one[1] < 8], "ends are exclusive"
    assert found(startTime=eight, endTime=eleven) == [one for one in every if 8 <= one[1] < 11]
    assert found(startOffset="3", startTime=eight) == [one for one in every if one[0] >= 3 and one[1] >= 8]
    assert found(endOffset="12", endTime=eight) == [one for one in every if one[0] < 12 and one[1] < 8]


def test_damage_is_skipped_and_said(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(path) / "clicks-0" / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    whole = rows(read_options({"path": path, "topics": "clicks", "damage": "skip"}), "offset")
    assert len(whole) == 90 and str(file) in capsys.readouterr().out
    with pytest.raises(ValueError, match="CRC"):
        rows(read_options({"path": path, "topics": "clicks"}), "offset")
