"""Any moment of a history is what `replay.state` says of it, however it is reached."""

import datetime
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from actors import replay
from actors.metadata import snapshot
from actors.ports import Batch
from actors.replay.columns.as_of import milliseconds, time_of
from actors.replay.columns.as_of import replay as replayed
from fastpath.arrow.partition_moves import writes
from tests.unit.replay import metadata_logs
from tests.unit.replay.timeline import random_logs

PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
RANDOM = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
MOMENTS = 20


def written(tmp_path: Path, family: str, seed: int, steps: int = 150) -> tuple[Path, list[Batch]]:
    """A random log as a directory, and its batches."""
    made = random_logs.released(seed, steps) if family == "released" else random_logs.drafts(seed, steps)
    name = metadata_logs.RELEASED if family == "released" else metadata_logs.DRAFTS
    return metadata_logs.write(tmp_path / f"{family}-{seed}", made, name), made


def same(found: dict[str, pa.Table], wanted: dict[str, pa.Table], but: Sequence[str] = ()) -> None:
    for name, table in wanted.items():
        if name not in but:
            assert found[name].equals(table), f"{name}: {found[name].to_pylist()} is not {table.to_pylist()}"


@pytest.mark.long
@RANDOM
@given(
    st.integers(0, 1 << 20), st.sampled_from(["drafts", "released"]), st.sampled_from([1, 7, 60, 10_000]),
    st.sampled_from([0, 300_000, 64 << 20]),
)  # fmt: skip
def test_any_moment_is_as_replay_state_has_it(
    tmp_path_factory: pytest.TempPathFactory, seed: int, family: str, step: int, bytes_max: int
) -> None:
    """Pins at every batch and at none, kept and thinned; offsets in the order of chance, so that all ways are gone."""
    path, made = written(tmp_path_factory.mktemp("log"), family, seed)
    history = replay.History(path, step=step, pins_bytes_max=bytes_max)
    choose, end = random.Random(seed), made[-1].last_offset + 1
    moments: list[Any] = [None, 0, end, end + 5, *(choose.randint(0, end) for _ in range(MOMENTS))]
    moments += [time_of(choose.randint(0, history.now.time_ms + 1)) for _ in range(MOMENTS // 2)]
    for when in moments:
        same(history.state(when), replay.state(path, when))
    assert bytes_max or len(history.pins) <= 2 or history.pins_bytes <= 2 * bytes_max
    history.close()


@RANDOM
@given(st.integers(0, 1 << 20), st.sampled_from(["drafts", "released"]), st.sampled_from([1, 60, 10_000]))
def test_what_is_appended_is_as_if_it_had_been_there(
    tmp_path_factory: pytest.TempPathFactory, seed: int, family: str, step: int
) -> None:
    """The log comes in pieces of some batches; after each, now and some moment before it are as in the whole log."""
    tmp_path = tmp_path_factory.mktemp("log")
    path, made = written(tmp_path, family, seed)
    choose = random.Random(seed)
    first = choose.randint(1, len(made))
    begun = metadata_logs.write(tmp_path / "begun", made[:first], path.name)
    history = replay.History(begun, step=step)
    while first < len(made):
        more = made[first : first + choose.randint(1, 10)]
        first += len(more)
        assert history.append(b"".join(bytes(one.data) for one in more)) == sum(
            one.last_offset - one.base_offset + 1 for one in more
        )
        end = more[-1].last_offset + 1
        for when in (end, choose.randint(0, end)):
            same(history.state(when), replay.state(path, when))
        same(history.state(), replay.state(path, end))
    rows = [row for batch in history.changes(3) for row in batch.to_pylist()]
    assert rows == [row for batch in replay.changes(path, 3) for row in batch.to_pylist()]
    history.close()


@RANDOM
@given(st.integers(0, 1 << 20), st.integers(0, 3))
def test_a_directory_that_is_written_is_caught_up_with(
    tmp_path_factory: pytest.TempPathFactory, seed: int, segments: int
) -> None:
    """Batches come into the last segment, whole and torn, and into new ones."""
    tmp_path = tmp_path_factory.mktemp("log")
    path, made = written(tmp_path, "released", seed)
    choose = random.Random(seed)
    cuts = sorted(choose.sample(range(1, len(made)), min(segments, len(made) - 1)))
    folder = metadata_logs.write(tmp_path / "live", made[:1], path.name)
    file = next(folder.glob("*.log"))
    history = replay.History(folder, step=20)
    for number, batch in enumerate(made[1:], 1):
        if number in cuts:
            file = folder / f"{batch.base_offset:020}.log"
            file.write_bytes(b"")
        with file.open("ab") as out:
            out.write(bytes(batch.data)[:30])
        if choose.random() < 0.2:
            assert history.catch_up() == 0 or history.now.offset <= batch.base_offset
        with file.open("ab") as out:
            out.write(bytes(batch.data)[30:])
        if choose.random() < 0.3:
            history.catch_up()
            same(history.state(), replay.state(path, batch.last_offset + 1))
    history.catch_up()
    for when in (None, *(choose.randint(0, made[-1].last_offset) for _ in range(5))):
        same(history.state(when), replay.state(path, when))
    history.close()


def test_a_history_begins_at_the_oldest_checkpoint_that_reaches_the_log(tmp_path: Path) -> None:
    made = metadata_logs.batches(metadata_logs.ops(), 1)
    whole = metadata_logs.write(tmp_path / "whole", made)
    folder = metadata_logs.write(tmp_path / "cut", [one for one in made if one.base_offset >= 10])
    for end in (10, 15):
        at = replayed(whole, end)
        parts = snapshot.encode(at.image.pin(), 3, 2, at.quorum.timestamp_ms, None)
        (folder / f"{end:020}-{3:010}.checkpoint").write_bytes(b"".join(bytes(part) for part in parts))
    history = replay.History(folder, step=1)
    assert history.first.offset == 10 and history.now.offset == 19
    for end in range(10, 20):
        same(history.state(end), replay.state(whole, end), but=["controllers"])
    for when in (9, 0, time_of(history.first.time_ms - 1)):
        with pytest.raises(replay.NothingToRead, match="before offset 10"):
            history.at(when)
    same(history.state(time_of(history.first.time_ms)), replay.state(whole, 10), but=["controllers"])
    history.close()


def test_a_log_that_lacks_only_the_first_leader_is_whole(tmp_path: Path) -> None:
    """A log that begins at offset 1 lacks nothing, so a checkpoint beside it is not where the history begins."""
    made = metadata_logs.batches(metadata_logs.ops(), 1)
    folder = metadata_logs.write(tmp_path / "cut", made[1:])
    at = replayed(folder, 15)
    parts = snapshot.encode(at.image.pin(), 3, 2, at.quorum.timestamp_ms, None)
    (folder / f"{15:020}-{3:010}.checkpoint").write_bytes(b"".join(bytes(part) for part in parts))
    history = replay.History(folder, step=1)
    assert history.first.offset == 0
    for end in (0, 1, 8, 15, 17, None):
        same(history.state(end), replay.state(folder, end), but=["controllers"])
    found = [row for some in history.changes() for row in some.to_pylist()]
    whole = metadata_logs.write(tmp_path / "whole", made)
    assert found == [row for some in replay.changes(whole) for row in some.to_pylist()] != []
    assert history.piece(0, 8).image.next_offset == 8
    history.close()


def test_a_checkpoint_alone_is_a_history_of_one_moment(tmp_path: Path) -> None:
    whole = metadata_logs.write(tmp_path / "whole", metadata_logs.batches(metadata_logs.ops(), 1))
    at = replayed(whole, 15)
    parts = snapshot.encode(at.image.pin(), 3, 2, at.quorum.timestamp_ms, None)
    folder = tmp_path / "alone" / metadata_logs.DRAFTS
    folder.mkdir(parents=True)
    (folder / f"{15:020}-{3:010}.checkpoint").write_bytes(b"".join(bytes(part) for part in parts))
    history = replay.History(folder)
    assert [one.offset for one in history.pins] == [15] and history.marks() == []
    same(history.state(), replay.state(folder))
    history.close()


def test_a_transaction_that_stays_open_is_left_out_until_it_ends(tmp_path: Path) -> None:
    topic = (2, 0, "TopicRecord", {"name": "a", "topic_id": metadata_logs.TOPIC})
    level = (12, 0, "FeatureLevelRecord", {"name": "f", "feature_level": 1})
    found = [
        metadata_logs.released([level], 0),
        metadata_logs.released([(23, 0, "BeginTransactionRecord", {}), topic], 1, 2000),
    ]
    history = replay.History(metadata_logs.write(tmp_path, found, metadata_logs.RELEASED), step=1)
    assert history.now.offset == 3 and history.table("topics").num_rows == 0
    assert [one.offset for one in history.pins] == [0, 1] and [one.kind for one in history.marks()] == ["setting"]
    history.append(
        bytes(metadata_logs.released([(12, 0, "FeatureLevelRecord", {"name": "f", "feature_level": 2})], 3).data)
    )
    assert history.now.topics == [] and history.now.features == {"f": 1}
    late = time_of(10_000)
    assert history.at(late).features == history.at(6).features == {"f": 1}
    history.append(bytes(metadata_logs.released([(24, 0, "EndTransactionRecord", {})], 4).data))
    assert history.table("topics").num_rows == 1 and history.now.features == {"f": 2}
    assert history.at(late).features == {"f": 2}, "a time behind the end is what the end is now"
    assert history.at(4).features == {"f": 1} and history.now is history.at(None) is history.at(5)
    for offset in (5, 6):
        level = (12, 0, "FeatureLevelRecord", {"name": "f", "feature_level": offset})
        history.append(bytes(metadata_logs.released([level], offset, 20_000).data))
    assert history.at(6).features == {"f": 5}, "an offset that was behind the end has come"
    history.close()


@pytest.mark.parametrize("family", ["drafts", "released"])
def test_threads_read_while_the_log_grows(family: str, tmp_path: Path) -> None:
    """What a reader was given never changes, and each moment that it asks for is whole."""
    path, made = written(tmp_path, family, 11, steps=600)
    ends = [one.last_offset + 1 for one in made]
    wanted = {end: replay.state(path, end, ["partitions", "brokers", "configs"]) for end in ends[::10]}
    begun = metadata_logs.write(tmp_path / "begun", made[:1], path.name)
    history = replay.History(begun, step=25, pins_bytes_max=2_000_000)
    faults: list[str] = []
    done = threading.Event()

    def read(seed: int) -> None:
        choose = random.Random(seed)
        held: list[tuple[Any, pa.Table]] = []
        while not done.is_set():
            now = history.now
            held.append((now, replay.TABLES and history.table("partitions", now.offset)))
            known = [end for end in wanted if end <= now.offset]
            if known:
                end = choose.choice(known)
                for name, table in wanted[end].items():
                    if not history.table(name, end).equals(table):
                        faults.append(f"{name} at {end}")
            moment, table = choose.choice(held)
            from actors.replay.columns import tables

            if not tables.table("partitions", moment).equals(table):
                faults.append(f"the moment at {moment.offset} has changed")

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for one in threads:
        one.start()
    try:
        for batch in made[1:]:
            history.append(bytes(batch.data))
            time.sleep(0.002)  # so that readers come between two of them
    finally:
        done.set()
        for one in threads:
            one.join()
    assert faults == []
    history.close()


def test_bytes_that_do_not_follow_are_refused_and_change_nothing(tmp_path: Path) -> None:
    made = metadata_logs.batches(metadata_logs.ops(), 1)
    history = replay.History(metadata_logs.write(tmp_path, made[:5]))
    before = history.state()
    for wrong, why in (
        (bytes(made[6].data), "do not follow offset 4"),
        (bytes(made[4].data), "do not follow offset 4"),
        (bytes(made[5].data)[:-1], "begins no whole batch"),
        (bytes(made[5].data)[:-1] + b"\xff", "begins no whole batch"),
        (bytes(made[5].data) + bytes(made[7].data), "without a gap"),
    ):
        with pytest.raises(ValueError, match=why):
            history.append(wrong)
    assert history.append(b"") == 0
    same(history.state(), before)
    history.append(bytes(made[5].data))
    assert history.now.offset == made[5].last_offset + 1
    with pytest.raises(ValueError, match="appended"):
        history.catch_up()
    history.close()


def test_a_log_that_a_node_cut_off_is_noticed(tmp_path: Path) -> None:
    made = metadata_logs.batches(metadata_logs.ops(), 1)
    folder = metadata_logs.write(tmp_path, made)
    history = replay.History(folder)
    file = next(folder.glob("*.log"))
    file.write_bytes(b"".join(bytes(one.data) for one in made[:-1]))
    with pytest.raises(replay.FileTruncated):
        history.catch_up()
    history.close()


def test_a_log_of_which_records_were_deleted_before_they_were_read_is_told(tmp_path: Path) -> None:
    made = metadata_logs.batches(metadata_logs.ops(), 1)
    folder = metadata_logs.write(tmp_path, made[:5])
    history = replay.History(folder)
    next(folder.glob("*.log")).unlink()
    metadata_logs.write(tmp_path, made[8:])
    with pytest.raises(replay.NothingToRead, match="between offsets 5 and"):
        history.catch_up()
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    with pytest.raises(FileNotFoundError):
        history.catch_up()
    same(history.state(3), history.state(3))
    history.close()


def test_changes_from_a_pin_on_are_those_of_the_whole_log(tmp_path: Path) -> None:
    path, made = written(tmp_path, "released", 5, 400)
    history = replay.History(path, step=30)
    end = made[-1].last_offset + 1
    choose = random.Random(5)
    for _ in range(12):
        since, until = sorted(choose.choices(range(end + 1), k=2))
        for kinds in (["isr", "leader", "replicas"], ["config", "topic", "fencing"]):
            found = [row for batch in history.changes(since, until, kinds) for row in batch.to_pylist()]
            assert found == [row for batch in replay.changes(path, since, until, kinds) for row in batch.to_pylist()]
    time = time_of(history.now.time_ms // 2)
    assert milliseconds(time) == history.now.time_ms // 2
    found = [row for batch in history.changes(time) for row in batch.to_pylist()]
    assert found and found == [row for batch in replay.changes(path, time) for row in batch.to_pylist()]
    with pytest.raises(ValueError, match="'leaders'"):
        list(history.changes(kinds=["leaders"]))
    history.close()


def test_a_time_without_a_zone_is_utc(tmp_path: Path) -> None:
    history = replay.History(metadata_logs.write(tmp_path, metadata_logs.batches(metadata_logs.ops(), 1)), step=1)
    assert history.at(datetime.datetime(1970, 1, 1, 0, 0, 8)).offset == 14
    history.close()


def test_damage_is_told_once_and_left_out_each_time(tmp_path: Path) -> None:
    made = metadata_logs.batches(metadata_logs.ops(), 1)
    folder = metadata_logs.write(tmp_path, made)
    file = next(folder.glob("*.log"))
    data = bytearray(file.read_bytes())
    data[sum(len(one.data) for one in made[:8]) + 70] ^= 0xFF
    file.write_bytes(bytes(data))
    with pytest.raises(replay.CorruptLog, match=str(file)):
        replay.History(folder)
    told: list[replay.Damage] = []
    history = replay.History(folder, on_damage=told.append)
    count = len(told)
    assert count
    for end in (5, 15, 18):
        same(history.state(end), replay.state(folder, end, on_damage=lambda _: None))
    assert len(told) == count
    history.close()


def test_a_page_is_a_piece_of_all_rows_and_pins_remember_nothing(tmp_path: Path) -> None:
    """What a moment remembers, for a question that was asked, is not kept with its pin."""
    path, _ = written(tmp_path, "released", 3, 300)
    history = replay.History(path, step=10)
    for pin in history.pins:
        moment = history.at(pin.offset)
        assert moment.partition_total == len(moment.rows)
        for first in range(moment.partition_total + 2):
            for count in (0, 1, 3, 1_000):
                assert moment.page(first, count).tolist() == moment.rows[first : first + count].tolist()
    assert history.at(history.pins[3].offset) is history.at(history.pins[3].offset)
    assert all(set(vars(one)) == {"pin", "counters", "quorum", "offset", "time_ms"} for one in history.kept)
    history.close()


def test_behind_a_record_that_cannot_be_replayed_its_batch_is_skipped_however_a_moment_is_reached(
    tmp_path: Path,
) -> None:
    """Three records: a topic, a change of what does not exist, a topic. The second one is not skipped alone."""
    topics: list[metadata_logs.Record] = [
        (2, 0, "TopicRecord", {"name": name, "topic_id": name.encode() * 16}) for name in "ab"
    ]
    change = {"partition_id": 9, "topic_id": metadata_logs.TOPIC, "isr": [1]}
    abort: metadata_logs.Record = (25, 0, "AbortTransactionRecord", {})
    for number, wrong in enumerate([(5, 1, "PartitionChangeRecord", change), abort]):
        found = [
            metadata_logs.released([(12, 0, "FeatureLevelRecord", {"name": "f", "feature_level": 1})], 0),
            metadata_logs.released([topics[0], wrong, topics[1]], 1, 2_000),
            metadata_logs.released([(12, 0, "FeatureLevelRecord", {"name": "f", "feature_level": 2})], 4, 3_000),
        ]
        path = metadata_logs.write(tmp_path / str(number), found, metadata_logs.RELEASED)
        for step in (1, 10_000):
            with replay.History(path, on_damage=lambda _: None, step=step) as history:
                for end in (2, 3, 4, 5, None):
                    same(history.state(end), replay.state(path, end, on_damage=lambda _: None))
                told = [
                    (row["offset"], row["new"])
                    for batch in history.changes(kinds=["topic"])
                    for row in batch.to_pylist()
                ]
                assert [offset for offset, _ in told] == [1]
                assert [one.about for one in history.marks(["topic"])] == ["topic a made"]


def test_a_log_that_was_cut_into_a_file_before_the_last_one_is_noticed(tmp_path: Path) -> None:
    """The last file is gone, or another one is in its place; the log may have grown again. What is deleted at the beginning
    is no cut."""
    made = metadata_logs.batches(metadata_logs.ops(), 1)

    def begun(name: str) -> tuple[replay.History, Path]:
        for first, end in ((0, 4), (4, 8), (8, 9)):
            folder = metadata_logs.write(tmp_path / name, made[first:end])
        return replay.History(folder), folder

    for name, left, more in (("gone", 6, 0), ("grown", 5, 0), ("another", 6, 2)):
        history, folder = begun(name)
        *_, second, third = sorted(folder.glob("*.log"))
        third.unlink()
        second.write_bytes(b"".join(bytes(one.data) for one in made[4:left]))
        if more:
            metadata_logs.write(tmp_path / name, made[left : left + more])
        with pytest.raises(replay.FileTruncated):
            history.catch_up()
        history.close()
    history, folder = begun("empty")
    (folder / f"{history.now.offset:020}.log").write_bytes(b"")
    assert history.catch_up() == 0
    (*_, third, _) = sorted(folder.glob("*.log"))
    third.write_bytes(b"")
    with pytest.raises(replay.FileTruncated):
        history.catch_up()
    history.close()
    history, folder = begun("retention")
    metadata_logs.write(tmp_path / "retention", made[9:])
    for file in sorted(folder.glob("*.log"))[:-1]:
        file.unlink()
    assert history.catch_up() == sum(one.last_offset + 1 - one.base_offset for one in made[9:])
    same(history.state(), replay.state(metadata_logs.write(tmp_path / "whole", made)))
    history.close()


def test_a_record_that_cannot_be_replayed_ends_what_is_appended(tmp_path: Path) -> None:
    level: metadata_logs.Record = (12, 0, "FeatureLevelRecord", {"name": "f", "feature_level": 1})
    wrong: metadata_logs.Record = (9, 0, "RemoveTopicRecord", {"topic_id": metadata_logs.TOPIC})
    for number, bad in enumerate(([wrong, level], [level, wrong])):
        begun = metadata_logs.write(tmp_path / str(number), [metadata_logs.released([level])], metadata_logs.RELEASED)
        history = replay.History(begun)
        before = history.state()
        with pytest.raises(replay.CorruptLog):
            history.append(bytes(metadata_logs.released(bad, 1, 2_000).data))
        for offset in (1, 2, 3):
            with pytest.raises(ValueError, match="open the history anew"):
                history.append(bytes(metadata_logs.released([level], offset, 3_000).data))
        same(history.state(), before)
        history.close()


def test_bytes_that_cannot_be_mapped_or_written_whole_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = metadata_logs.batches(metadata_logs.ops(), 1)
    history = replay.History(metadata_logs.write(tmp_path, made[:5]), step=1)
    history.append(bytes(made[5].data))

    def full(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr("actors.replay.timeline.pieces.MappedFile", full)
        with pytest.raises(OSError, match="allocate"):
            history.append(bytes(made[6].data))
    for one in made[6:8]:
        history.append(bytes(one.data))
    whole = metadata_logs.write(tmp_path / "whole", made)
    for end in range(made[4].base_offset, made[7].last_offset + 2):
        same(history.state(end), replay.state(whole, end))
    assert history.at(made[7].base_offset).offset == made[7].base_offset
    history.close()


def test_a_piece_begins_at_its_pin_though_that_was_let_go(tmp_path: Path) -> None:
    made = metadata_logs.batches(metadata_logs.ops(), 1)
    history = replay.History(metadata_logs.write(tmp_path, made[:8]))
    pin, end = history.pins[-1].offset, made[8].last_offset + 1
    assert pin == made[8].base_offset
    history.append(bytes(made[8].data))
    assert [one.offset for one in history.pins] == [0, end]
    piece = history.piece(pin, end)
    assert {piece.image.topic_name(row) for row in piece.image.topics()} == {"orders"}
    row = piece.image.partition(piece.image.topic("orders"), 0)
    assert [offset for offset, *_ in writes(piece.image, row)] == [offset for offset in (11,) if offset >= pin]
    assert piece.time_ms(pin) == 8_000
    history.close()


def test_changes_since_the_first_day(tmp_path: Path) -> None:
    history = replay.History(metadata_logs.write(tmp_path, metadata_logs.batches(metadata_logs.ops(), 1)))
    first = history.changes(datetime.datetime.min)
    assert [one.to_pylist() for one in first] == [one.to_pylist() for one in history.changes()]
    history.close()
