"""Followed topics that are deleted and made again, and partitions that are new: known by their topic ids, whatever happens
between planning and reading."""

import json
import shutil
import warnings
from pathlib import Path
from random import Random

import pytest

from actors.replay.follow import DataLoss, Followed, Position, RecordsLost
from actors.replay.logs.files import NothingToRead
from actors.replay.read_options import narrowed, read_options
from actors.replay.source import Source
from fastpath.records.batch import Builder
from tests.seeds import first_are_quick

FIRST, SECOND, THIRD = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg", "AAAAAAAAAAAAAAA-_AAAAw"
NOW_MS = 1_700_000_000_000


def put(root: Path, number: int, first: int, last: int, tag: str, topic_id: str = "", topic: str = "orders") -> Path:
    """A segment with the offsets `[first, last)`, values `<tag><offset>`, in batches of ten."""
    folder = root / f"{topic}-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for base in range(first, last, 10):
        builder = Builder(base, 0, timestamp_ms=NOW_MS)
        for offset in range(base, min(base + 10, last)):
            builder.append(None, b"%s%d" % (tag.encode(), offset), NOW_MS)
        parts.append(bytes(builder.build()))
    (folder / f"{first:020}.log").write_bytes(b"".join(parts))
    if topic_id:
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    return folder


def followed(root: Path, **options: str) -> Followed:
    return Followed({"path": str(root), "topics": "orders", **options})


def stored(position: Position) -> Position:
    """The position as a checkpoint gives it back."""
    return json.loads(json.dumps(position))  # type: ignore[no-any-return]


def turn(root: Path, start: Position, **options: str) -> tuple[Position, list[str]]:
    """One turn, with a restart between each two steps; what it plans is planned twice."""
    end = stored(followed(root, **options).latest(stored(start), None, None))
    once = followed(root, **options).splits(start, end)
    again = followed(root, **options)
    assert again.splits(start, end) == once
    rows = [value.decode() for split in once for part in again.read(split, ("value",)) for value in part[0].to_pylist()]
    assert followed(root, **options).latest(end, None, None) == end, "what has nothing new begins no turn"
    return end, rows


def values(tag: str, first: int, last: int) -> list[str]:
    return [f"{tag}{offset}" for offset in range(first, last)]


@pytest.mark.parametrize("length", [1, 60, 100, 230])
def test_a_topic_that_was_made_again_is_read_from_its_first_record(length: int, tmp_path: Path) -> None:
    folder = put(tmp_path, 0, 0, 100, "old", FIRST)
    put(tmp_path, 0, 0, 10, "kept", THIRD, topic="clicks")
    start, rows = turn(tmp_path, followed(tmp_path, topics="orders,clicks").beginning(), topics="orders,clicks")
    assert len(rows) == 110 and start == {f"orders-0@{FIRST}": 100, f"clicks-0@{THIRD}": 10}
    shutil.rmtree(folder)
    put(tmp_path, 0, 0, length, "new", SECOND)
    with pytest.raises(
        DataLoss, match=f"orders-0: the topic was deleted .*was {FIRST} and is {SECOND}.* offset 100 on"
    ):
        followed(tmp_path).latest(start, None, None)
    with pytest.warns(RecordsLost, match="orders-0: the topic was deleted and made again .* from offset 100 on"):
        end, rows = turn(tmp_path, start, failOnDataLoss="false")
    assert rows == values("new", 0, length)
    put(tmp_path, 0, 0, length + 20, "new", SECOND)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        end, rows = turn(tmp_path, end)
    assert rows == values("new", length, length + 20)
    assert end[f"orders-0@{FIRST}"] == 100 and end[f"orders-0@{SECOND}"] == length + 20


def test_a_turn_that_was_planned_before_its_topic_was_made_again(tmp_path: Path) -> None:
    folder = put(tmp_path, 0, 0, 50, "old", FIRST)
    one = followed(tmp_path, failOnDataLoss="false")
    start = one.beginning()
    end = one.latest(start, None, None)
    planned = one.splits(start, end)
    shutil.rmtree(folder)
    put(tmp_path, 0, 0, 80, "new", SECOND)
    with pytest.raises(DataLoss, match="orders-0: the log is gone, and offsets 0 to 49 were not read"):
        followed(tmp_path).splits(start, end)
    with pytest.warns(RecordsLost, match="offsets 0 to 49 were not read"):
        assert followed(tmp_path, failOnDataLoss="false").splits(start, end) == []
    with pytest.raises(DataLoss, match="offsets up to 49 were deleted"):
        list(followed(tmp_path).read(planned[0], ("value",)))
    with pytest.warns(RecordsLost, match="offsets up to 49 were deleted"):
        assert list(one.read(planned[0], ("value",))) == [], "records of the new topic are not the old one's"
    with pytest.warns(RecordsLost):
        assert turn(tmp_path, end, failOnDataLoss="false")[1] == values("new", 0, 80)


def test_a_topic_that_is_made_again_while_its_log_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(tmp_path, 0, 0, 50, "old", FIRST)
    one = followed(tmp_path, failOnDataLoss="false")
    start: Position = {f"orders-0@{FIRST}": 20}
    opened, looks = one.opened, list[Source]()

    def late() -> Source:
        looks.append(opened())
        return looks[-1]

    def remade(found: Source) -> dict[tuple[str, int], int]:
        if len(looks) == 1:
            shutil.rmtree(folder)
            put(tmp_path, 0, 0, 80, "new", SECOND)
        return {("orders", 0): 80}

    monkeypatch.setattr(Source, "ends", remade)
    monkeypatch.setattr(one, "opened", late)
    with pytest.warns(RecordsLost, match="deleted and made again"):
        end = one.latest(start, None, None)
    assert len(looks) == 2 and end == {f"orders-0@{FIRST}": 20, f"orders-0@{SECOND}": [0, 80]}


def test_a_new_partition_has_a_beginning_before_anything_of_it_is_planned(tmp_path: Path) -> None:
    put(tmp_path, 0, 0, 5, "a", FIRST)
    start, _ = turn(tmp_path, followed(tmp_path).beginning())
    put(tmp_path, 1, 0, 50, "b", FIRST)
    put(tmp_path, 1, 50, 100, "b", FIRST)
    end = stored(followed(tmp_path).latest(start, None, None))
    assert end == {f"orders-0@{FIRST}": 5, f"orders-1@{FIRST}": [0, 100]}
    (tmp_path / "orders-1" / f"{0:020}.log").unlink()  # by retention, and the query starts again
    with pytest.raises(DataLoss, match=r"orders-1: offsets 0 to 49 were deleted before they were read \(50 of them\)"):
        followed(tmp_path).splits(start, end)
    careless = followed(tmp_path, failOnDataLoss="false")
    with pytest.warns(RecordsLost, match="orders-1: offsets 0 to 49"):
        rows = [
            row for one in careless.splits(start, end) for part in careless.read(one, ("offset",)) for row in part[0]
        ]
    assert len(rows) == 50
    put(tmp_path, 1, 100, 110, "b", FIRST)
    after, rows = turn(tmp_path, end)
    assert after[f"orders-1@{FIRST}"] == 110 and rows == values("b", 100, 110)


def test_a_new_partition_whose_first_turn_is_small(tmp_path: Path) -> None:
    put(tmp_path, 3, 20, 100, "b", FIRST)  # its beginning is gone already: nobody has promised that
    position: Position = {}
    seen: list[int] = []
    while (end := stored(followed(tmp_path).latest(position, 7, None))) != position:
        one = followed(tmp_path)
        seen += [
            row.as_py() for cut in one.splits(position, end) for part in one.read(cut, ("offset",)) for row in part[0]
        ]
        position = end
    assert seen == list(range(20, 100))


def test_checkpoints_of_earlier_versions_are_read(tmp_path: Path) -> None:
    put(tmp_path, 0, 0, 100, "a", FIRST)
    old: Position = {"orders-0": 30}
    assert len(followed(tmp_path).splits(old, {"orders-0": 60})) == 1, "planned before, to be read again"
    end, rows = turn(tmp_path, old)
    assert end == {f"orders-0@{FIRST}": 100} and rows == values("a", 30, 100)
    assert turn(tmp_path, {}, failOnDataLoss="false")[1] == values("a", 0, 100)


def test_a_log_whose_id_cannot_be_read_for_a_while(tmp_path: Path) -> None:
    folder = put(tmp_path, 0, 0, 20, "a", FIRST)
    start, _ = turn(tmp_path, followed(tmp_path).beginning())
    (folder / "partition.metadata").unlink()
    put(tmp_path, 0, 20, 40, "a")
    middle, rows = turn(tmp_path, start)
    assert middle == {f"orders-0@{FIRST}": 40} and rows == values("a", 20, 40)
    put(tmp_path, 0, 40, 60, "a", FIRST)
    assert turn(tmp_path, middle)[1] == values("a", 40, 60)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ('{"order-0": 17, "orders-0": 5, "orders-1": 5}', r"order-0 fits no partition .* \(orders-0, orders-1\)"),
        ('{"orders": 5}', "orders fits no partition that is followed, and orders-0, orders-1 has no offset"),
        ('{"orders-0": 5}', "orders-1 has no offset"),
        ('{"orders-0": 5, "orders-1": 5, "orders-2": 0}', "orders-2 fits no partition"),
        ("{}", "orders-0, orders-1 has no offset"),
        (f'{{"orders-0@{SECOND}": 5, "orders-1": 5}}', f"orders-0@{SECOND} fits no partition"),
        (f'{{"orders-0@{FIRST}": 5, "orders-0": 6, "orders-1": 5}}', "a partition has two offsets"),
        ('{"orders-0": 5, "orders-1": 1e3}', "write earliest, latest or JSON"),
        ('{"orders-0": 5, "orders-1": 9223372036854775808}', "write earliest, latest or JSON"),
    ],
)
def test_starting_offsets_that_fit_nothing_are_refused(given: str, sentence: str, tmp_path: Path) -> None:
    put(tmp_path, 0, 0, 20, "a", FIRST)
    put(tmp_path, 1, 0, 20, "a", FIRST)
    put(tmp_path, 0, 0, 20, "a", FIRST, topic="clicks")
    with pytest.raises(ValueError, match=sentence):
        followed(tmp_path, startingOffsets=given).beginning()


def test_starting_offsets_that_name_each_partition(tmp_path: Path) -> None:
    put(tmp_path, 0, 0, 20, "a", FIRST)
    put(tmp_path, 1, 0, 20, "b", FIRST)
    for name in ("orders-0", f"orders-0@{FIRST}"):
        start = followed(tmp_path, startingOffsets=json.dumps({name: 17, "orders-1": 20})).beginning()
        assert start == {f"orders-0@{FIRST}": 17, f"orders-1@{FIRST}": 20}
        assert turn(tmp_path, start)[1] == values("a", 17, 20)
    with pytest.raises(ValueError, match=r"orders-0 fits no partition .*\(none yet\)"):
        Followed({"path": str(tmp_path), "topics": "later", "startingOffsets": '{"orders-0": 1}'}).beginning()


def test_partitions_that_no_topic_has_are_refused(tmp_path: Path) -> None:
    put(tmp_path, 0, 0, 20, "a", FIRST)
    put(tmp_path, 1, 0, 20, "b", FIRST)
    for given in ("99", "1,99"):
        with pytest.raises(NothingToRead, match="there is no partition 99, only 0 to 1"):
            read_options({"path": str(tmp_path), "partitions": given}).planned()
        with pytest.raises(NothingToRead, match="there is no partition 99, only 0 to 1"):
            followed(tmp_path, partitions=given).beginning()
    assert followed(tmp_path, partitions="1").beginning() == {f"orders-1@{FIRST}": 0}
    fewer = narrowed(read_options({"path": str(tmp_path), "partitions": "0"}), "partition", "in", (0, 99))
    assert fewer is not None and {split.partition for split in fewer.planned()} == {0}, (
        "a comparison asks, and names none"
    )
    none = narrowed(fewer, "partition", "=", 1)
    assert none is not None and none.planned() == []
    none = narrowed(read_options({"path": str(tmp_path)}), "partition", "=", 99)
    assert none is not None and none.planned() == []
    with pytest.raises(ValueError, match="write true or false"):
        followed(tmp_path, failOnDataLoss="flase")


class Writer:
    """A node's topic `orders`, at random: appends, retention, new partitions, and the topic made again."""

    def __init__(self, root: Path, choose: Random) -> None:
        self.root, self.choose, self.made = root, choose, 0
        self.logs: dict[int, tuple[int, int]] = {}
        """partition -> first offset, end"""

    def append(self) -> None:
        number, more = self.choose.randrange(4), self.choose.randint(1, 40)
        first, end = self.logs.get(number, (0, 0))
        put(self.root, number, end, end + more, f"{self.made}/{number}/", f"AAAAAAAAAAAAAAAAAAA{self.made:02}A")
        self.logs[number] = first, end + more

    def retention(self) -> None:
        for number, (_, end) in self.logs.items():
            segments = sorted((self.root / f"orders-{number}").glob("*.log"))
            if len(segments) > 1 and self.choose.random() < 0.5:
                segments[0].unlink()
                self.logs[number] = int(segments[1].stem), end

    def again(self) -> None:
        for number in self.logs:
            shutil.rmtree(self.root / f"orders-{number}")
        self.logs, self.made = {}, self.made + 1
        for _ in range(3):
            self.append()

    def any(self) -> None:
        self.choose.choice((self.append, self.append, self.append, self.retention, self.again))()


@pytest.mark.parametrize("seed", first_are_quick(range(60)))
def test_whatever_happens_each_record_is_seen_once_or_told(seed: int, tmp_path: Path) -> None:
    """Each record has its own value. The query starts again between every two steps, and plans each turn twice."""
    choose = Random(seed)
    writer = Writer(tmp_path, choose)
    writer.append()
    position, seen = followed(tmp_path).beginning(), list[str]()

    def one_turn(limit: int | None, meanwhile: int) -> None:
        nonlocal position
        end = stored(followed(tmp_path, failOnDataLoss="false").latest(position, limit, None))
        for _ in range(meanwhile):
            writer.any()
        one = followed(tmp_path, failOnDataLoss="false")
        cut = followed(tmp_path, failOnDataLoss="false").splits(position, end)
        assert one.splits(position, end) == cut
        seen.extend(v.decode() for s in cut for part in one.read(s, ("value",)) for v in part[0].to_pylist())
        position = end

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(20):
            for _ in range(choose.randrange(4)):
                writer.any()
            one_turn(choose.choice((None, 5, 30)), choose.choice((0, 0, 1)))
        before = position
        one_turn(None, 0)
    assert len(seen) == len(set(seen)), "a record was shown twice"
    told = " ".join(str(one.message) for one in caught)
    for number, (first, end) in writer.logs.items():
        own = [int(value.rsplit("/", 1)[1]) for value in seen if value.startswith(f"{writer.made}/{number}/")]
        assert own == list(range(own[0], own[0] + len(own))) or f"orders-{number}: offsets" in told
        assert set(range(first, end)) <= set(own), "what is there now is all shown"
        assert set(range(end)) == set(own) or f"orders-{number}: " in told or writer.made or first, "nobody was told"
    if writer.made:
        assert "deleted and made again" in told and any("@" in name for name in before)
