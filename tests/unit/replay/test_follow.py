"""A directory that is being written into, followed: each record once, in order, and nothing lost silently."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from actors.replay import follow
from actors.replay.follow import HIGH_WATERMARKS, DataLoss, Followed, Position, RecordsLost, high_watermarks, share
from actors.replay.logs.files import CorruptLog, Partition
from actors.replay.read_options import read_options, scan
from tests.unit.replay import metadata_logs
from tests.unit.replay.written import append, node


def values(followed: Followed, start: Position, end: Position) -> list[bytes]:
    return [
        value
        for split in followed.splits(start, end)
        for batch in scan(followed.options, split, ("value",))
        for value in batch.column(0).to_pylist()
    ]


def followed(path: Path, **options: str) -> Followed:
    return Followed({"path": str(path), "topics": "orders", **options})


def test_turns_see_each_record_once_in_order_and_new_partitions_too(tmp_path: Path) -> None:
    node(tmp_path, {"orders": 2}, 30)
    one = followed(tmp_path)
    start = one.beginning()
    assert start == {"orders-0": 0, "orders-1": 0}
    first = one.latest(start, None, None)
    seen = values(one, start, first)
    append(tmp_path, "orders", 1, 30, 55)
    append(tmp_path, "orders", 2, 0, 4)
    again = followed(tmp_path)  # a restart from the checkpoint
    second = again.latest(json.loads(json.dumps(first)), None, None)
    assert second == {"orders-0": 30, "orders-1": 55, "orders-2": [0, 4]}
    assert values(again, start, first) == seen, "what was seen before does not change"
    seen += values(again, first, second)
    for partition, count in ((0, 30), (1, 55), (2, 4)):
        own = [value for value in seen if value.startswith(b"%d:" % partition)]
        assert own == [b"%d:%d" % (partition, offset) for offset in range(count)]
    assert again.latest(second, None, None) == second


def test_a_torn_batch_at_the_end_waits(tmp_path: Path) -> None:
    path = append(tmp_path, "orders", 0, 0, 20)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    one = followed(tmp_path)
    assert one.now() == {"orders-0": 10}
    path.write_bytes(whole)
    assert one.now() == {"orders-0": 20}


@pytest.mark.parametrize("limit", [1, 7, 10, 1000])
def test_a_turn_takes_at_most_so_many_records(tmp_path: Path, limit: int) -> None:
    node(tmp_path, {"orders": 3}, 40)
    append(tmp_path, "orders", 0, 40, 100)
    one = followed(tmp_path)
    start, seen = one.beginning(), []
    while (end := one.latest(start, limit, None)) != start:
        turn = values(one, start, end)
        assert 0 < len(turn) <= limit
        seen += turn
        start = end
    assert len(seen) == len(set(seen)) == 180


def test_a_turn_takes_about_so_many_bytes(tmp_path: Path) -> None:
    node(tmp_path, {"orders": 2}, 200)
    size = (tmp_path / "orders-0" / f"{0:020}.log").stat().st_size
    one = followed(tmp_path)
    start, turns, seen = one.beginning(), 0, []
    while (end := one.latest(start, None, size // 4)) != start:
        seen += values(one, start, end)
        start, turns = end, turns + 1
    assert len(seen) == len(set(seen)) == 400
    assert 5 <= turns <= 9


def test_available_now_ends_where_it_began(tmp_path: Path) -> None:
    append(tmp_path, "orders", 0, 0, 20)
    one = followed(tmp_path)
    one.freeze()
    append(tmp_path, "orders", 0, 20, 40)
    append(tmp_path, "orders", 1, 0, 10)
    assert one.latest({}, None, None) == {"orders-0": [0, 20]}


def test_where_a_query_begins(tmp_path: Path) -> None:
    append(tmp_path, "orders", 0, 0, 20)
    assert followed(tmp_path, startingOffsets="latest").beginning() == {"orders-0": 20}
    assert followed(tmp_path, startingOffsets='{"orders-0": 7}').beginning() == {"orders-0": 7}
    for text in ("[1]", "newest", '{"orders-0": -1}', '{"orders-0": true}', '{"orders-0": "7"}'):
        with pytest.raises(ValueError, match="write earliest"):
            followed(tmp_path, startingOffsets=text)


def test_the_high_watermark_holds_back_what_a_failover_may_take(tmp_path: Path) -> None:
    node(tmp_path, {"orders": 2}, 20)
    one = followed(tmp_path, until="highWatermark")
    assert one.now() == {"orders-0": 0, "orders-1": 0}, "no checkpoint yet"
    (tmp_path / HIGH_WATERMARKS).write_text("0\n1\norders 0 15\n")
    assert one.now() == {"orders-0": 15, "orders-1": 0}
    for text in (b"0\n1\nnonsense\n", b"0\n1\norders\xff 0 15\n"):
        (tmp_path / HIGH_WATERMARKS).write_bytes(text)
        with pytest.raises(CorruptLog, match=HIGH_WATERMARKS):
            one.now()
    assert high_watermarks(tmp_path / "none") == {}


def test_records_that_went_before_they_were_read(tmp_path: Path) -> None:
    path = append(tmp_path, "orders", 0, 0, 20)
    append(tmp_path, "orders", 1, 0, 20)
    one, careless = followed(tmp_path), followed(tmp_path, failOnDataLoss="false")
    end = one.now()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataLoss, match="orders-0: the log ends at 10"):
        one.splits({}, end)
    with pytest.warns(RecordsLost, match=r"orders-0: the log ends at 10 .* \(10 offsets\)\.$"):
        assert values(careless, {}, end)[:10] == [b"0:%d" % offset for offset in range(10)]
    path.rename(path.with_name(f"{5:020}.log"))
    with pytest.raises(DataLoss, match="offsets 0 to 4 were deleted"):
        one.splits({"orders-0": 0}, {"orders-0": 10})
    path.with_name(f"{5:020}.log").unlink()
    with pytest.raises(DataLoss, match="orders-0: the log is gone, and offsets 0 to 19 were not read"):
        one.splits({}, end)
    with pytest.warns(RecordsLost, match="orders-0: the log is gone"):
        assert values(careless, {}, end) == [b"1:%d" % offset for offset in range(20)]


def test_records_that_went_between_cutting_and_reading(tmp_path: Path) -> None:
    path = append(tmp_path, "orders", 0, 0, 20)
    one, careless = followed(tmp_path), followed(tmp_path, failOnDataLoss="false")
    (split,) = one.splits({}, one.now())
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.warns(RecordsLost, match="truncated before offset 19"):
        assert sum(batch.num_rows for batch in careless.read(split, ("offset",))) == 10
    with pytest.raises(DataLoss, match="orders-0: the log was truncated before offset 19 was read"):
        list(one.read(split, ("offset",)))
    path.unlink()
    with pytest.warns(RecordsLost, match="offsets up to 19 were deleted"):
        assert list(careless.read(split, ("offset",))) == []
    with pytest.raises(DataLoss, match="orders-0: offsets up to 19 were deleted"):
        list(one.read(split, ("offset",)))
    append(tmp_path, "orders", 0, 0, 20)
    rows = one.read(split, ("offset",))
    first = next(rows).num_rows
    path.unlink()
    assert first + sum(batch.num_rows for batch in rows) == 20, "what is mapped stays"


def test_a_log_that_became_shorter_than_what_was_seen(tmp_path: Path) -> None:
    path = append(tmp_path, "orders", 0, 0, 20)
    append(tmp_path, "orders", 1, 0, 20)
    seen = followed(tmp_path).latest({}, None, None)
    path.unlink()
    append(tmp_path, "orders", 0, 0, 10)  # by a new leader, or of another topic of that name
    append(tmp_path, "orders", 1, 20, 30)
    one, careless = followed(tmp_path), followed(tmp_path, failOnDataLoss="false")
    with pytest.raises(DataLoss, match="orders-0: the log ends at 10, below 20"):
        one.latest(seen, None, None)
    with pytest.raises(DataLoss, match="orders-0: the log ends at 10, below 20"):
        one.splits(seen, {"orders-0": 10, "orders-1": 30})
    with pytest.warns(RecordsLost, match="orders-0: the log ends at 10, below 20"):
        end = careless.latest(seen, None, None)
        assert end == {"orders-0": [0, 20], "orders-1": 30}, "a position does not go back"
        assert values(careless, seen, end) == [b"1:%d" % offset for offset in range(20, 30)]
    held = followed(tmp_path, until="highWatermark")
    (tmp_path / HIGH_WATERMARKS).write_text("0\n2\norders 0 5\norders 1 5\n")
    assert held.latest({"orders-0": 10, "orders-1": 30}, None, None) == {"orders-0": 10, "orders-1": 30}, (
        "a high watermark that was written down late says nothing about the log"
    )


def test_a_file_that_vanishes_while_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path, "orders", 0, 0, 20)
    append(tmp_path, "orders", 1, 0, 20)
    one = followed(tmp_path)
    opened, stale = one.opened, one.opened()
    (tmp_path / "orders-0" / f"{0:020}.log").unlink()
    (tmp_path / "orders-0" / f"{20:020}.log").write_bytes(b"")
    seen: list[Any] = []

    def late() -> Any:
        seen.append(stale if not seen else opened())
        return seen[-1]

    monkeypatch.setattr(one, "opened", late)
    for look in (
        lambda: one.now() == one.beginning() | {"orders-1": 20} == {"orders-0": 20, "orders-1": 20},
        lambda: one.latest({"orders-1": 5}, None, 1) == {"orders-0": [20, 20], "orders-1": 10},
        lambda: [split.partition for split in one.splits({"orders-0": 20}, {"orders-0": 20, "orders-1": 20})] == [1],
    ):
        seen.clear()
        assert look() and len(seen) > 1
    seen.clear()
    with pytest.raises(DataLoss, match="offsets 0 to 19 were deleted"):
        one.splits({"orders-0": 0}, {"orders-0": 20, "orders-1": 20})


def test_damage_before_a_position_does_not_hold_a_turn_up(tmp_path: Path) -> None:
    path = append(tmp_path, "orders", 0, 0, 40)
    data = bytearray(path.read_bytes())
    data[16] = 7  # the magic of the first batch
    path.write_bytes(data)
    one = followed(tmp_path, damage="skip")
    start, turns = one.beginning(), 0
    while (end := one.latest(start, None, 1)) != start and turns < 10:
        start, turns = end, turns + 1
    assert (start, turns) == ({"orders-0": 40}, 3)


def test_a_last_segment_without_one_sound_batch(tmp_path: Path) -> None:
    path = append(tmp_path, "orders", 0, 0, 20)
    path.with_name(f"{20:020}.log").write_bytes(b"\1" * 100)
    assert followed(tmp_path).now() == {"orders-0": 20}


def test_the_work_of_a_turn_grows_with_the_logs_and_not_with_their_square(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node(tmp_path, {"orders": 40}, 1)
    one = followed(tmp_path)
    end, name = one.now(), follow._name
    named: list[Partition] = []

    def counted(log: Partition, table: str) -> str:
        named.append(log)
        return name(log, table)

    monkeypatch.setattr(follow, "_name", counted)
    assert len(one.splits({}, end)) == 40
    assert len(named) < 40 * 10


def test_a_turn_is_shared_in_proportion_and_a_log_with_little_is_not_forgotten() -> None:
    """However many records come to a large log meanwhile."""
    draw = random.Random(5)
    for _ in range(300):
        low = {name: draw.randint(0, 50) for name in "abcdef"[: draw.randint(1, 6)]}
        ahead = {name: one + draw.choice((1, 7, 300, 1 << 40)) for name, one in low.items()}
        most = draw.choice((1, 3, 10, 1000, 1 << 41))
        shares = {name: end - low[name] for name, end in share(low, ahead, most).items()}
        assert sum(shares.values()) == min(most, sum(ahead[name] - low[name] for name in low))
        assert all(0 <= shares[name] <= ahead[name] - low[name] for name in low)
    large, small = ("large", 0), ("small", 0)
    assert share({large: 0, small: 0}, {large: 1 << 40, small: 9}, 1000) == {large: 999, small: 1}


def test_topics_that_do_not_exist_yet(tmp_path: Path) -> None:
    append(tmp_path, "clicks", 0, 0, 5)
    one = followed(tmp_path)
    assert one.now() == {} and one.beginning() == {} and one.splits({}, {}) == []
    append(tmp_path, "orders", 0, 0, 5)
    assert one.latest({}, None, None) == {"orders-0": [0, 5]}
    both = Followed({"path": str(tmp_path), "topics": "orders,later"})
    assert both.now() == {"orders-0": 5}, "and one that does is followed"
    assert read_options({"path": str(tmp_path), "topics": "orders,later"}).schema() == both.opened().schema()
    append(tmp_path, "later", 0, 0, 5)
    assert both.now() == {"orders-0": 5, "later-0": 5}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"until": "never"}, "write files or highWatermark"),
        ({"startOffset": "5"}, "write startingOffsets"),
        ({"maxRecordsPerTrigger": "0"}, "above 0"),
        ({"maxFilesPerTrigger": "1"}, "no option 'maxFilesPerTrigger'"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, str], sentence: str) -> None:
    append(tmp_path, "orders", 0, 0, 5)
    with pytest.raises(ValueError, match=sentence):
        followed(tmp_path, **options)


def test_a_metadata_log_has_no_high_watermark_to_wait_for(tmp_path: Path) -> None:
    metadata_logs.write(tmp_path, metadata_logs.batches(metadata_logs.ops(), 4))
    with pytest.raises(ValueError, match="until=highWatermark: files do not say how far a metadata log is committed"):
        Followed({"path": str(tmp_path), "until": "highWatermark"})
    assert Followed({"path": str(tmp_path), "until": "files"}).now() == {"__kafka_metadata-0": 19}
