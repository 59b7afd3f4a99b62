"""`rayft.Replay` beside a leader of bytes: the tables of the files that it has, changes one after the other, deleted
beginnings."""

import stat
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

import rayft
from actors import replay
from actors.arrow import metadata_copy
from actors.client.errors import ClientError, NotInTime
from actors.client.operations import tail, uncommitted
from actors.ports import Batch
from actors.replay import checkpoint
from actors.replay.follow import RecordsLost
from actors.replay.logs.chunks import ChunkReading, batches
from fastpath.records.scan import scan
from tests.unit.arrow.controller import Controller, Stored
from tests.unit.replay import metadata_logs

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"


def stored(directory: Path) -> list[Batch]:
    """The batches of a directory with one segment."""
    (segment,) = directory.glob("*.log")
    return [
        Batch(
            int(one["base_offset"]),
            int(one["last_offset"]),
            int(one["epoch"]),
            bytes(run.data[int(one["position"]) : int(one["position"] + one["size"])]),
        )
        for run in batches(segment, ChunkReading())
        for one in run.headers
    ]


def rows(found: Iterator[Any]) -> list[dict[str, Any]]:
    return [row for batch in found for row in batch.to_pylist()]


def same(one: Any, other: Any, but: str = "") -> None:
    assert {name: table.to_pylist() for name, table in one.items() if name != but} == {
        name: table.to_pylist() for name, table in other.items() if name != but
    }


@pytest.fixture(params=["drafts", "released"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A metadata log of either family."""
    if request.param == "released":
        return GOLDEN
    return metadata_logs.write(tmp_path, metadata_logs.batches(metadata_logs.ops(), 2))


def test_the_tables_are_those_of_the_files(directory: Path) -> None:
    log = stored(directory)
    with Controller(log) as leader, rayft.Replay(leader.address) as by_address:
        same(by_address.state(), replay.state(directory))
        end = log[-1].last_offset + 1
        for offset in {*range(0, end, max(end // 20, 1)), 1, end, end + 5}:
            same(by_address.state(offset), replay.state(directory, offset))
        assert rows(by_address.changes()) == rows(replay.changes(directory))
        kinds = ["topic", "config"]
        assert rows(by_address.changes(5, 14, kinds)) == rows(replay.changes(directory, 5, 14, kinds))


def test_a_log_without_its_first_record_lacks_nothing(directory: Path) -> None:
    """A leader with a snapshot gives out nothing at offset 0."""
    log = stored(directory)
    with Controller(log) as leader, rayft.Replay(leader.address) as by_address:
        leader.snapshots = [Stored(log[-1].last_offset + 1, log[-1].epoch, b"never asked for")]
        for offset in (4, 9, log[-1].last_offset):
            same(
                by_address.state(offset), replay.state(directory, offset), "controllers" if directory == GOLDEN else ""
            )
        assert rows(by_address.changes()) == rows(replay.changes(directory))
        assert (1, log[-1].epoch) in leader.fetches and "FetchSnapshot" not in leader.asked


def snapshot(directory: Path, offset: int) -> Stored:
    made = checkpoint.compact(directory, offset)
    return Stored(made.end_offset, made.epoch, b"".join(bytes(part) for part in made.parts))


def test_a_log_that_begins_with_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "SLICE_BYTES", 100)
    log = metadata_logs.batches(metadata_logs.ops(), 2)
    directory = metadata_logs.write(tmp_path, log)
    edges = [one.last_offset + 1 for one in log]
    with Controller(log, "__kafka_metadata") as leader, rayft.Replay(leader.address) as by_address:
        leader.snapshots = [snapshot(directory, edges[2]), snapshot(directory, edges[4])]
        leader.delete(edges[2])
        for offset in range(edges[2], edges[-1] + 1):
            same(by_address.state(offset), replay.state(directory, offset))
        asked = leader.asked.count("FetchSnapshot")
        assert asked > len(leader.snapshots[0].data) / 100
        with pytest.raises(replay.NothingToRead, match="ask for a later moment"):
            by_address.state(edges[2] - 1)
        wanted = [row for row in rows(replay.changes(directory)) if row["offset"] >= edges[2]]
        assert rows(by_address.changes()) == wanted


def test_what_was_copied_is_not_asked_for_again_and_what_is_new_is(tmp_path: Path) -> None:
    log = metadata_logs.batches(metadata_logs.ops(), 2)
    directory = metadata_logs.write(tmp_path, log)
    with Controller(log[:3]) as leader, rayft.Replay(leader.address) as by_address:
        by_address.state()
        leader.log, leader.high_watermark = log, log[-1].last_offset + 1
        same(by_address.state(), replay.state(directory))
        assert leader.fetches[0] == (0, 0) and {offset for offset, _ in leader.fetches[1:]} >= {log[3].base_offset}
        same(by_address.state(5), replay.state(directory, 5))
        assert leader.fetches.count((0, 0)) == 1


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("begun", [False, True])
def test_after_a_copy_that_failed_nothing_is_missing(
    begun: bool, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = metadata_logs.batches(metadata_logs.ops(), 2)
    directory = metadata_logs.write(tmp_path, log)
    with Controller(log[:3], "__kafka_metadata") as leader, rayft.Replay(leader.address) as by_address:
        if begun:
            by_address.state()
        leader.log, leader.high_watermark = log, log[-1].last_offset + 1

        def fail(*_: Any) -> None:
            raise error

        with monkeypatch.context() as patch, pytest.raises(type(error)):
            patch.setattr(metadata_copy.Copy, "take", fail)
            by_address.state()
        same(by_address.state(), replay.state(directory))


@pytest.mark.parametrize("whole", [False, True])
def test_a_copy_that_the_cluster_has_overtaken_is_begun_anew(tmp_path: Path, whole: bool) -> None:
    log = metadata_logs.batches(metadata_logs.ops(), 2)
    directory = metadata_logs.write(tmp_path, log)
    edges = [one.last_offset + 1 for one in log]
    with Controller(log[:3], "__kafka_metadata") as leader, rayft.Replay(leader.address) as by_address:
        rows(by_address.changes()) if whole else by_address.state()
        leader.log, leader.high_watermark = log, edges[-1]
        leader.snapshots = [snapshot(directory, edges[3]), snapshot(directory, edges[5])]
        leader.delete(edges[3])
        same(by_address.state(), replay.state(directory))
        same(by_address.state(edges[3]), replay.state(directory, edges[3]))  # its newest snapshot is later


def test_what_is_not_committed_is_not_shown(directory: Path) -> None:
    log = stored(directory)
    mark = log[len(log) // 2].base_offset
    with Controller(log) as leader, rayft.Replay(leader.address) as by_address:
        leader.high_watermark = mark
        same(by_address.state(), replay.state(directory, mark))
        same(by_address.state(mark + 5), replay.state(directory, mark))


class Following:
    """The rows of `follow`, which come in a thread of their own."""

    def __init__(self, log: "rayft.Replay", since: int | None) -> None:
        self.rows: list[dict[str, Any]] = []
        self._stop = False
        self._thread = threading.Thread(target=self._run, args=(log.follow(since),), daemon=True)
        self._thread.start()

    def _run(self, found: Iterator[Any]) -> None:
        for batch in found:
            self.rows += batch.to_pylist()
            if self._stop:
                return

    def until_answered(self, leader: Controller, more: int = 4) -> None:
        """Wait until so many further requests were answered."""
        count = len(leader.fetches) + more
        self.until(lambda: len(leader.fetches) >= count)

    def until_told(self, count: int) -> None:
        """Wait for so many rows."""
        self.until(lambda: len(self.rows) >= count)

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + 10
        while not holds():
            assert time.monotonic() < end and self._thread.is_alive(), self.rows
            time.sleep(0.005)

    def end(self) -> None:
        """Let it end with the next change."""
        self._stop = True


@pytest.mark.parametrize("since", [None, 0, 6])
def test_changes_come_as_they_are_committed_each_once(directory: Path, since: int | None) -> None:
    log = stored(directory)
    first = len(log) // 3
    begin, end = log[first].base_offset, (log[-1].last_offset + 1, log[-1].epoch)
    wanted = [row for row in rows(replay.changes(directory)) if row["offset"] >= (begin if since is None else since)]
    assert len(wanted) >= 8
    with Controller(log) as leader, rayft.Replay(leader.address) as by_address:
        leader.high_watermark = begin
        following = Following(by_address, since)
        following.until(lambda: leader.fetches.count(end) > 3)
        for one in log[first:]:
            due = [row for row in wanted if row["offset"] < leader.high_watermark]
            following.until_told(len(due))
            assert following.rows == due
            following.end() if one.last_offset >= wanted[-1]["offset"] else None
            leader.high_watermark = one.last_offset + 1
        following.until_told(len(wanted))
        assert following.rows == wanted


def test_only_the_wanted_kinds_are_followed(directory: Path) -> None:
    log = stored(directory)
    with Controller(log) as leader, rayft.Replay(leader.address) as by_address:
        found = next(by_address.follow(0, ["topic"])).to_pylist()
        assert {row["kind"] for row in found} == {"topic"}
        with pytest.raises(ValueError, match="there is no kind of change 'leaders'"):
            next(by_address.follow(0, ["leaders"]))


@pytest.mark.parametrize("edge", ["EndTransactionRecord", "AbortTransactionRecord"])
@pytest.mark.parametrize("open_before", [False, True])
def test_changes_of_a_transaction_come_when_it_has_ended(edge: str, open_before: bool) -> None:
    def feature(level: int) -> Any:
        return (12, 0, "FeatureLevelRecord", {"name": "f", "feature_level": level})

    topic = (2, 0, "TopicRecord", {"name": "a", "topic_id": metadata_logs.TOPIC})
    code = {"EndTransactionRecord": 24, "AbortTransactionRecord": 25}[edge]
    log = [
        metadata_logs.released([feature(1)], 0),
        metadata_logs.released([(23, 0, "BeginTransactionRecord", {}), topic], 1, 2000),
        metadata_logs.released([feature(2)], 3, 3000),
        metadata_logs.released([(code, 0, edge, {})], 4, 4000),
        metadata_logs.released([feature(3)], 5, 5000),
    ]
    with Controller(log) as leader, rayft.Replay(leader.address) as by_address:
        leader.high_watermark = 3 if open_before else 1
        following = Following(by_address, None if open_before else 0)
        following.until(lambda: leader.fetches.count((6, 1)) > 3)
        first = [] if open_before else [(0, 1, None)]
        ended = [(2, 2, None), (3, 3, "1"), (5, 5, "2")]
        for mark, due in ((4, []), (5, ended[:2] if code == 24 else [])):
            leader.high_watermark = mark
            following.until_answered(leader)
            assert [(row["offset"], row["timestamp"].second, row["old"]) for row in following.rows] == first + due
        following.end()
        leader.high_watermark = 6
        wanted = first + (ended if code == 24 else [(5, 5, "1")])
        following.until_told(len(wanted))
        assert [(row["offset"], row["timestamp"].second, row["old"]) for row in following.rows] == wanted


def test_records_that_were_deleted_before_they_were_followed_are_told(tmp_path: Path) -> None:
    log = metadata_logs.batches(metadata_logs.ops(), 1)
    directory = metadata_logs.write(tmp_path, log)
    with Controller(log[:4], "__kafka_metadata") as leader, rayft.Replay(leader.address) as by_address:
        following = by_address.follow(0)
        next(following)
        leader.log, leader.high_watermark = log, log[-1].last_offset + 1
        leader.snapshots = [snapshot(directory, 12)]
        leader.delete(12)
        leader.epoch += 1  # which ends the Fetch that is under way
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = next(following).to_pylist()
        assert [(one.category, str(one.message)) for one in told] == [
            (
                RecordsLost,
                "offsets 4 to 11 of the metadata log were deleted before they were read: their changes are left out",
            )
        ]
        while found[-1]["offset"] < log[-1].last_offset:
            found += next(following).to_pylist()
        assert found == [row for row in rows(replay.changes(directory)) if row["offset"] >= 12]


def test_a_snapshot_that_is_cut_or_damaged_is_an_error(tmp_path: Path) -> None:
    log = metadata_logs.batches(metadata_logs.ops(), 2)
    directory = metadata_logs.write(tmp_path, log)
    whole = snapshot(directory, 11)
    for data in (whole.data[:-40], whole.data[:80] + b"?" + whole.data[81:], b"?"):
        with Controller(log, "__kafka_metadata") as leader, rayft.Replay(leader.address) as by_address:
            leader.snapshots = [whole._replace(data=data)]
            leader.delete(11)
            with pytest.raises((replay.CorruptLog, replay.FamilyUnknown)):
                by_address.state()


def test_a_leader_that_commits_nothing_is_not_waited_for_without_an_end() -> None:
    log = stored(GOLDEN)
    config = {"default.api.timeout.ms": 300, "request.timeout.ms": 300, "fetch.max.wait.ms": 10}
    with Controller(log) as leader, rayft.Replay(leader.address, config) as by_address:
        leader.high_watermark = -1
        with pytest.raises(
            NotInTime, match=r"^nothing of the metadata log was committed within default.api.timeout.ms=300"
        ):
            by_address.state()


def test_the_copy_is_its_owners_alone_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Controller(stored(GOLDEN)) as leader:
        with rayft.Replay(leader.address) as by_address:
            by_address.state()
            (room,) = tmp_path.iterdir()
            (file,) = room.glob("*.log")
            assert stat.S_IMODE(room.stat().st_mode) == 0o700 and stat.S_IMODE(file.stat().st_mode) == 0o600
        assert not list(tmp_path.iterdir())
        following = by_address.follow(0)
        next(following)
        following.close()
        assert not list(tmp_path.iterdir())


def test_a_copy_takes_a_snapshot_in_the_place_of_what_it_has() -> None:
    with metadata_copy.Copy() as copy:
        id = tail.OffsetAndEpoch(10, 2)
        copy.take(tail.Slice(id, 0, memoryview(b"abc"), 5))
        copy.take(tail.Slice(id, 0, memoryview(b"ab"), 3))
        assert [one.name for one in copy.path.iterdir()] == ["00000000000000000010-0000000002.checkpoint.unfinished"]
        copy.take(tail.Slice(id, 2, memoryview(b"c"), 3))
        assert (copy.path / "00000000000000000010-0000000002.checkpoint").read_bytes() == b"abc" and copy.begin == 10
        copy.take(tail.Slice(tail.OffsetAndEpoch(12, 2), 0, memoryview(b"x"), 1))
        assert [one.name for one in copy.path.iterdir()] == ["00000000000000000012-0000000002.checkpoint"]


@pytest.mark.parametrize("size", [10, 1 << 20])
def test_a_full_disk_is_told_with_its_place(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_copy.Copy, "_open", lambda *_: FileIO("/dev/full", "wb"))
    data = memoryview(next(iter(stored(GOLDEN))).data)
    metadata = uncommitted.Batches(data, scan(data, 0, len(data))[0])._replace(records=memoryview(bytes(size)))
    with metadata_copy.Copy() as copy, pytest.raises(OSError, match=f"No space left on device.*{copy.path}"):
        copy.take(metadata)


def test_an_address_at_which_nobody_answers_is_an_error() -> None:
    with rayft.Replay("127.0.0.1:1", {"default.api.timeout.ms": 200, "request.timeout.ms": 200}) as log:
        with pytest.raises(ClientError, match="nothing listens there"):
            log.state()
        with pytest.raises(ClientError, match="nothing listens there"):
            next(log.follow())
