"""Damage at rest is found by reading it, mended from what others have, and nothing is lost by that."""

import errno
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from actors.broker.log.cleaning.replacing import name_all
from actors.broker.log.leader_epochs import EpochCache
from actors.broker.log.scrubbing import SegmentScrub
from actors.broker.log.segment import INDEX, SWAP
from actors.node.roles.broker.log import batch_restoration
from actors.node.roles.broker.log.batch_restoration import BatchRestoration
from actors.node.roles.broker.log.log_directories import LogDirectories
from actors.node.roles.broker.log.scrubber import Scrubber
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.simulator.disk import VirtualFile
from tests.simulator.one_topic import DIRECTORY, OneTopic
from tests.simulator.test_log_cleaner import CONFIG as CLEANER
from tests.simulator.test_log_cleaner import change, write

SCRUBBING = {"rayft.log.scrub.bytes.per.second": "1000000", "rayft.log.scrub.interval.ms": "1000"}
SETTINGS = {"internal.segment.bytes": "500", "flush.messages": "1", "index.interval.bytes": "100"}
FILE = f"{DIRECTORY}/00000000000000000000.log"


def _value(number):
    return b"%d" % number * 60


def _written(replicas=None, count=12, settings=SETTINGS, config=None, **more):
    t = OneTopic(replicas, settings, SCRUBBING | (config or {}), **more)
    for number in range(count):
        t.produce(_value(number))
    t.world.run_for(3_000)
    return t


def _scrubber(t, broker):
    return t.cluster.brokers[broker].node.broker.scrubber


def _files(t, broker):
    return {
        path: bytes(inode.data)
        for path, inode in t.cluster.brokers[broker].disk.files.items()
        if path.startswith(DIRECTORY)
    }


def _passed(t, broker):
    """Two whole readings from now on."""
    for _ in range(2):
        before = _scrubber(t, broker).completed_ms
        t.until(lambda before=before: _scrubber(t, broker).completed_ms > before)


@pytest.mark.parametrize("mine", ["leader", "follower"])
@pytest.mark.parametrize("position", [3, 7, 10, 14, 16, 18, 22, 24, 30, 58, 100, 120])
def test_a_damaged_batch_is_put_back_byte_for_byte(position, mine):
    t = _written()
    broker = t.leader if mine == "leader" else t.leader % 3 + 1
    process = t.cluster.brokers[broker]
    sound = _files(t, broker)
    second = batches.headers(sound[FILE])[1].position
    process.disk.corrupt(FILE, second + position, 0x10)
    _passed(t, broker)
    assert _files(t, broker) == sound
    scrubber = _scrubber(t, broker)
    assert (scrubber.faults_found, scrubber.faults_repaired, scrubber.damaged) == (1, 1, {})
    assert process.stopped_with is None and t.isr == {1, 2, 3} and not t.partition(broker).unreadable
    assert len(t.read()) == 12


@pytest.mark.parametrize("ending", [".index", ".timeindex"])
def test_a_damaged_index_is_built_again(ending):
    t = _written()
    broker = t.leader
    sound = _files(t, broker)
    paths = [path for path in sound if path.endswith(ending) and len(sound[path])][:-1]
    assert len(paths) > 1
    for path in paths:
        t.cluster.brokers[broker].disk.corrupt(path, len(sound[path]) - 3, 0x01)
    _passed(t, broker)
    assert _files(t, broker) == sound
    assert (_scrubber(t, broker).faults_found, _scrubber(t, broker).faults_repaired) == (len(paths), len(paths))
    assert len(t.read()) == 12


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_a_damaged_small_file_is_written_again(name):
    t = _written()
    broker, path = t.leader, f"{DIRECTORY}/{name}"
    sound = t.file(broker, path)
    t.cluster.brokers[broker].disk.corrupt(path, len(sound) - 2, 0x02)
    _passed(t, broker)
    assert t.file(broker, path) == sound
    assert (_scrubber(t, broker).faults_found, _scrubber(t, broker).faults_repaired) == (1, 1)


def test_a_damaged_snapshot_of_producers_goes_and_the_newest_is_made_again():
    t = OneTopic(None, SETTINGS, SCRUBBING)
    for number in range(12):
        t.produce(_value(number), producer_id=77, producer_epoch=0, base_sequence=number)
    t.world.run_for(3_000)
    broker, log = t.leader, t.log(t.leader)
    offsets = list(log.snapshots.offsets)
    assert len(offsets) > 2
    for offset in (offsets[0], offsets[-1]):
        t.cluster.brokers[broker].disk.corrupt(f"{DIRECTORY}/{offset:020d}.snapshot", 9, 0x02)
    _passed(t, broker)
    assert log.snapshots.offsets == [*offsets[1:-1], log.log_end_offset]
    assert (_scrubber(t, broker).faults_found, _scrubber(t, broker).faults_repaired) == (2, 2)
    before = log.producers
    t.cluster.brokers[broker].kill()
    t.until(lambda: broker not in t.isr)
    t.cluster.brokers[broker].start()
    t.until(lambda: t.isr == {1, 2, 3})
    assert t.log(broker).producers.equals(before)


def test_a_batch_that_is_damaged_at_the_leader_too_comes_from_the_third_replica():
    t = _written()
    leader, one = t.leader, t.leader % 3 + 1
    sound = {broker: _files(t, broker) for broker in (1, 2, 3)}
    for broker in (leader, one):
        t.cluster.brokers[broker].disk.corrupt(FILE, 100)
    for broker in (leader, one):
        _passed(t, broker)
    assert {broker: _files(t, broker) for broker in (1, 2, 3)} == sound
    assert t.isr == {1, 2, 3}, "who is asked for what is damaged there too does not give up its replica"
    assert not any(process.stopped_with for process in t.cluster.brokers.values())


def test_what_no_replica_has_is_told_and_stays_as_it_is():
    t = _written()
    t.world.keep_log = True
    for broker in (1, 2, 3):
        t.cluster.brokers[broker].disk.corrupt(FILE, 100)
    rotten = {broker: _files(t, broker) for broker in (1, 2, 3)}
    for broker in (1, 2, 3):
        _passed(t, broker)
        assert list(_scrubber(t, broker).damaged) == [f"b{broker}:data/{FILE}"]
        assert _scrubber(t, broker).faults_repaired == 0
        told = [
            line for line in t.world.lines if f"b{broker}:data/{FILE} stays damaged at byte 0, offsets 0 to 0" in line
        ]
        assert told and all("no other replica of t-0 could give them" in line for line in told)
    assert {broker: _files(t, broker) for broker in (1, 2, 3)} == rotten


def test_the_only_replica_is_never_given_up():
    t = _written([1])
    t.cluster.brokers[1].disk.corrupt(FILE, 100)
    rotten = _files(t, 1)
    _passed(t, 1)
    assert _files(t, 1) == rotten and t.cluster.brokers[1].stopped_with is None
    assert t.fetch(9).error_code == 0, "what is sound is served"


def _other_history():
    """The leader's second batch is damaged, and of the two replicas that are asked the first one has another leader's there:
    its checksum is right, and only its epoch tells."""
    t = _written()
    broker = t.leader
    sound = _files(t, broker)
    head = batches.headers(sound[FILE])[1]
    asked = next(iter(_scrubber(t, broker)._restoration._sources(t.partition(broker))))
    t.until(lambda: _scrubber(t, asked)._steps is None)
    _scrubber(t, asked)._next_ms = 1 << 62  # else it mends itself first
    t.cluster.brokers[broker].disk.corrupt(FILE, head.position + 80)
    t.cluster.brokers[asked].disk.corrupt(FILE, head.position + 15, 0x40)
    t.world.run_for(20_000)
    assert t.file(broker, FILE) == sound[FILE]
    return t


def test_a_batch_of_another_history_is_not_taken():
    _other_history()


def _late():
    """What was cut, deleted or moved while its reading was under way is left alone."""
    t = OneTopic(None, SETTINGS, SCRUBBING | {"rayft.log.scrub.bytes.per.second": "300"})
    for number in range(12):
        t.produce(_value(number))
    t.world.run_for(2_000)
    assert any(_scrubber(t, broker)._steps is not None for broker in (1, 2, 3))
    return t


def test_a_topic_that_is_deleted_while_it_is_read_is_no_fault():
    t = _late()
    t.drop()
    t.world.run_for(30_000)
    assert [_scrubber(t, broker).faults_found for broker in (1, 2, 3)] == [0, 0, 0]


def test_records_that_are_deleted_while_they_are_read_are_no_fault():
    t = _late()
    t.delete_records(9)
    t.world.run_for(60_000)
    assert [_scrubber(t, broker).faults_found for broker in (1, 2, 3)] == [0, 0, 0]
    assert sorted(t.read()) == [9, 10, 11]


def test_a_cleaned_segment_that_gets_its_name_while_it_is_read_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the log under the name that it was written with, and has its own once another cleaning begins."""
    t = _written()
    broker = t.leader
    log = t.log(broker)
    segment = log.segments[0]
    segment.rename(SWAP)
    segment.placed = True
    load, named = SegmentScrub._load_indexes, list[str]()

    def late(self: SegmentScrub) -> int:
        if segment.suffix == SWAP and self.path(INDEX) == segment.path(INDEX):
            named.append(self.path(INDEX))
            name_all(log)
        return load(self)

    monkeypatch.setattr(SegmentScrub, "_load_indexes", late)
    before = t.file(broker, f"{FILE}{SWAP}")
    t.until(lambda: bool(named))
    _passed(t, broker)
    assert [_scrubber(t, one).faults_found for one in (1, 2, 3)] == [0, 0, 0]
    assert t.file(broker, FILE) == before


@pytest.mark.parametrize("what", ["log", "index"])
def test_a_segment_is_read_though_others_leave_the_log_sooner_than_it_is_read(what: str) -> None:
    """One leaves the log every three seconds, and to read one takes four."""
    slow = {"rayft.log.scrub.bytes.per.second": "100", "log.retention.check.interval.ms": "500"}
    t = _written([1, 2], count=60, config=slow)
    t.world.run_for(27_000)
    scrubber, log = _scrubber(t, 1), t.log(1)
    reading = next(iter(scrubber._readings.values()))
    assert reading.at is not None
    at = reading.at[2]
    damaged = next(one for one in log.segments if one.base_offset > at + 4)
    path = damaged.path(".log" if what == "log" else INDEX)
    sound = t.file(1, path)
    t.cluster.brokers[1].disk.corrupt(path, len(sound) - 3)
    while damaged in log.segments[2:] and not scrubber.faults_repaired:
        t.world.run_for(3_000)
        t.delete_records(log.segments[1].base_offset)
    assert (scrubber.faults_found, scrubber.faults_repaired) == (1, 1)
    assert t.file(1, path) == sound and damaged in log.segments


@pytest.mark.parametrize("seed", range(4))
def test_the_leader_goes_while_a_follower_mends(seed):
    t = _written(seed=seed + 1)
    leader = t.leader
    broker = leader % 3 + 1
    sound = _files(t, broker)
    path = t.cluster.brokers[broker].disk
    for number in (0, 3, 7):
        head = batches.headers(sound[FILE])[min(number, 2)]
        path.corrupt(FILE, head.position + 50 + number)
    t.until(lambda: _scrubber(t, broker).faults_found > 0)
    t.world.run_for(seed)
    t.cluster.brokers[leader].kill()
    t.until(lambda: t.leader not in (leader, -1))
    t.world.run_for(60_000)
    assert _files(t, broker)[FILE] == sound[FILE]
    t.cluster.brokers[leader].start()
    t.until(lambda: t.isr == {1, 2, 3})
    assert len(t.read()) == 12


def test_a_reading_goes_on_where_it_was_after_a_restart():
    slow = {"rayft.log.scrub.bytes.per.second": "20", "rayft.log.scrub.interval.ms": "5000"}
    t = OneTopic(None, SETTINGS, SCRUBBING | slow)
    for number in range(12):
        t.produce(_value(number))
    broker = t.leader

    def at():
        return t.file(broker, "scrub-checkpoint").decode().splitlines()[2:]

    t.until(lambda: len(at()) == 2 and int(at()[1].split()[2]) >= 3, 600_000)
    before = at()
    t.stop(broker)
    t.cluster.brokers[broker].start()
    t.until(lambda: t.isr == {1, 2, 3})
    t.until(lambda: _scrubber(t, broker)._steps is not None)
    t.world.run_for(1_000)
    (reading,) = _scrubber(t, broker)._readings.values()
    began, (topic, number, offset) = before[0].split()[0], before[1].split()
    assert reading.began_ms == int(began)
    assert reading.at is not None and reading.at[:2] == (topic, int(number)) and reading.at[2] >= int(offset) > 0


def _checked_away(monkeypatch):
    """A reading that believes what it reads."""
    monkeypatch.setattr(SegmentScrub, "_piece", lambda self: setattr(self, "_position", self._size) or self._size)


def _history_believed(monkeypatch):
    """Any sound batch of that offset is taken."""
    monkeypatch.setattr(EpochCache, "epoch_at", _any_epoch(EpochCache.epoch_at))


def _any_epoch(epoch_at):
    def planted(self, offset):
        frame = sys._getframe(1)
        return frame.f_locals["header"].epoch if frame.f_code.co_name == "_first" else epoch_at(self, offset)

    return planted


def _removed_first(monkeypatch):
    """The segment goes before anything is asked for."""
    restore = BatchRestoration.restore

    def planted(self, partition, log, segment, faults):
        segment.log.truncate(faults[0].position)
        return restore(self, partition, log, segment, faults)

    monkeypatch.setattr(BatchRestoration, "restore", planted)


def _first_only(monkeypatch):
    """Have the scrubber read the first segment of each log only."""
    segment = Scrubber._segment
    monkeypatch.setattr(
        Scrubber, "_segment", staticmethod(lambda log, offset: None if offset else segment(log, offset))
    )


def _mended_in_memory(monkeypatch):
    """Have the scrubber not write what it puts back."""
    monkeypatch.setattr(BatchRestoration, "_put_back", lambda self, log, segment, position, stored, data: iter(()))


def _at_the_end():
    t = _written()
    broker = t.leader
    sound = _files(t, broker)
    path = sorted(path for path in sound if path.endswith(".log"))[-2]
    t.cluster.brokers[broker].disk.corrupt(path, len(sound[path]) - 3)
    _passed(t, broker)
    assert _files(t, broker) == sound


@pytest.mark.parametrize(
    ("plant", "story"),
    [
        (_checked_away, _at_the_end),
        (_history_believed, _other_history),
        (_removed_first, _at_the_end),
        (_removed_first, test_what_no_replica_has_is_told_and_stays_as_it_is),
        (_first_only, _at_the_end),
        (_mended_in_memory, _at_the_end),
    ],
)
def test_a_planted_mistake_is_found(plant, story, monkeypatch):
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        story()


def test_damage_in_the_last_sealed_segment_is_found():
    _at_the_end()


class _Counted:
    """The replicas of a broker, and how often all of them were gone through."""

    def __init__(self, replicas: Any) -> None:
        self._replicas = replicas
        self.times = 0

    def written(self) -> tuple[Any, ...]:
        self.times += 1
        return self._replicas.written()  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._replicas, name)


def test_partitions_without_records_take_a_turn_each_and_are_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    t = _written(config={"rayft.log.scrub.interval.ms": "600000"}, count=1)
    kind = message("CreateTopicsRequest")
    topic = kind.CreatableTopic(name="empty", num_partitions=90, replication_factor=3)
    assert t.client.call("b1", "CreateTopics", 7, kind(topics=[topic])).topics[0].error_code == 0
    t.world.run_for(2_000)
    looked, turns = [0], list[int]()
    one, go_on = Scrubber._one, Scrubber._go_on

    def counted(self: Any, *args: Any) -> Any:
        looked[0] += 1
        return one(self, *args)

    def measured(self: Any, result: Any) -> None:
        looked[0] = 0
        go_on(self, result)
        turns.append(looked[0])

    monkeypatch.setattr(Scrubber, "_one", counted)
    monkeypatch.setattr(Scrubber, "_go_on", measured)
    scrubber = _scrubber(t, 1)
    for partition in scrubber._replicas:
        assert partition.log.segments or partition.topic == "empty"  # looked at, it is not blank any more
    scrubber._replicas = replicas = _Counted(scrubber._replicas)
    before = scrubber.completed_ms
    for reading in scrubber._readings.values():
        reading.began_ms = 0
    scrubber._next_ms = 0
    t.until(lambda: scrubber.completed_ms > before)
    assert sum(turns) >= 91 and max(turns) == 1
    assert replicas.times <= 3


def test_a_reading_that_is_turned_off_and_on_again_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    t = _written()
    kind = message("CreateTopicsRequest")
    behind = kind.CreatableTopic(name="u", num_partitions=1, replication_factor=3)
    assert t.client.call("b1", "CreateTopics", 7, kind(topics=[behind])).topics[0].error_code == 0
    t.world.run_for(3_000)
    off, read, told = [False], [], []
    one, rate, scrub, completed = Scrubber._one, Scrubber._rate, Scrubber._scrub, Scrubber._told

    def on_again(self: Any, reading: Any, partition: Any) -> Iterator[Any]:
        done = yield from one(self, reading, partition)
        off[0] = False
        return done

    def turned_off_once(self: Any, partition: Any, log: Any, segment: Any, rebuild: bool) -> Iterator[Any]:
        if partition.topic == "t" and self is mine:
            off[0] = not read
            read.append(segment.base_offset)
        return (yield from scrub(self, partition, log, segment, rebuild))

    def noted(self: Any, *args: Any) -> None:
        if self is mine:
            told.append(list(read))
        completed(self, *args)

    mine = _scrubber(t, 1)
    _passed(t, 1)
    monkeypatch.setattr(Scrubber, "_one", on_again)
    monkeypatch.setattr(Scrubber, "_rate", lambda self: 0 if off[0] and self is mine else rate(self))
    monkeypatch.setattr(Scrubber, "_scrub", turned_off_once)
    monkeypatch.setattr(Scrubber, "_told", noted)
    t.until(lambda: told and read)
    partition = next(one for one in mine._replicas if one.topic == "t")
    t.until(lambda: any(told))
    sealed = {segment.base_offset for segment in partition.log.segments[:-1]}
    assert set(next(filter(None, told))) == sealed


def test_sound_bytes_stay_where_another_replica_was_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other replica was down while the topic was compacted, so its log has no gaps, and its batches are other ones."""
    t = OneTopic(None, {"cleanup.policy": "delete", "internal.segment.bytes": "1000"}, SCRUBBING | CLEANER)
    broker = t.leader % 3 + 1
    kind = message("ProduceRequest")
    for batch in range(6):
        builder = batches.Builder(timestamp_ms=1_600_000_000_000)
        for number in range(8):
            builder.append(b"%d" % (10 * batch + number if number < 5 else 0), bytes(30))
        partition = kind.PartitionProduceData(index=0, records=builder.build())
        data = kind.TopicProduceData(name="t", partition_data=[partition])
        assert t.call("Produce", 12, kind(acks=-1, timeout_ms=3000, topic_data=[data])) is not None
    write(t, 20)
    t.world.run_for(3_000)
    t.cluster.brokers[broker].kill()
    t.until(lambda: broker not in t.isr and t.leader > 0)
    change(t, 2, "t", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    t.until(lambda: all(t.log(one).cleaned_offset > 20 for one in t.isr))
    change(t, 2, "t", cleanup_policy="delete")
    t.cluster.brokers[broker].start()
    t.until(lambda: t.isr == {1, 2, 3})
    log, disk = t.log(broker), t.cluster.brokers[broker].disk
    assert not log.sparse
    sound = t.file(broker, FILE)
    head = batches.headers(sound)[0]
    wrote = list[tuple[int, int]]()
    overwrite = VirtualFile.overwrite

    def noted(file: VirtualFile, position: int, data: Any) -> None:
        if file.disk is disk and file.path == FILE:
            wrote.append((position, position + len(data)))
        overwrite(file, position, data)

    monkeypatch.setattr(VirtualFile, "overwrite", noted)
    disk.corrupt(FILE, head.position + 70)
    scrubber = _scrubber(t, broker)
    t.until(lambda: scrubber.faults_found > 0)
    t.world.run_for(5_000)
    assert wrote == [], "what is given is not what was there"


def test_a_log_that_was_cut_while_others_were_asked_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    t = _written()
    broker = t.leader % 3 + 1
    log, disk = t.log(broker), t.cluster.brokers[broker].disk
    asks, wrote = BatchRestoration._ask, list[str]()

    def cut(self: Any, partition: Any, asked: Any, offset: int) -> Any:
        found = yield from asks(self, partition, asked, offset)
        if asked is log:
            log.generation += 1
        return found

    overwrite = VirtualFile.overwrite

    def noted(file: VirtualFile, position: int, data: Any) -> None:
        wrote.append(file.path)
        overwrite(file, position, data)

    monkeypatch.setattr(BatchRestoration, "_ask", cut)
    monkeypatch.setattr(VirtualFile, "overwrite", noted)
    disk.corrupt(FILE, 100)
    t.until(lambda: _scrubber(t, broker).faults_found > 0)
    t.world.run_for(3_000)
    assert FILE not in wrote


def test_a_longer_batch_does_not_go_over_sound_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that another replica has compressed otherwise, say."""
    t = _written()
    broker = t.leader
    builder = batches.Builder(timestamp_ms=1_600_000_000_000)
    builder.append(None, bytes(300))
    longer = memoryview(builder.build())
    head = batches.headers(longer)[0]
    monkeypatch.setattr(batch_restoration, "_first", lambda log, reply, offset: (head, longer) if not offset else None)
    wrote, overwrite = list[str](), VirtualFile.overwrite

    def noted(file: VirtualFile, position: int, data: Any) -> None:
        wrote.append(file.path)
        overwrite(file, position, data)

    monkeypatch.setattr(VirtualFile, "overwrite", noted)
    t.cluster.brokers[broker].disk.corrupt(FILE, 100)
    t.until(lambda: _scrubber(t, broker).faults_found > 0)
    t.world.run_for(1_000)
    assert FILE not in wrote, "the replica is given up instead"


def test_the_name_of_a_partition_that_has_gone_meanwhile_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic may have been created anew, in a directory of the partition's name."""
    t = _written()
    broker, path = t.leader, f"{DIRECTORY}/partition.metadata"

    def gone(self: Any, partition: Any) -> Iterator[Any]:
        partition.removed = True
        yield from ()

    monkeypatch.setattr(Scrubber, "_flushed", gone)
    disk = t.cluster.brokers[broker].disk
    disk.corrupt(f"{DIRECTORY}/leader-epoch-checkpoint", 2, 0x02)
    disk.corrupt(path, len(t.file(broker, path)) - 2, 0x02)
    rotten = t.file(broker, path)
    t.until(lambda: _scrubber(t, broker).faults_found > 0)
    t.world.run_for(3_000)
    assert t.file(broker, path) == rotten


def test_a_replica_whose_file_the_device_has_failed_once_while_it_was_mended_is_fetched_anew() -> None:
    """The file fails from then on, and the first directory stays: nobody would read its damage again."""
    t = _written()
    broker = t.leader % 3 + 1
    process, sound = t.cluster.brokers[broker], _files(t, broker)
    process.disk.corrupt(FILE, batches.headers(sound[FILE])[1].position + 100, 0x10)
    failed = []

    def once(operation: str, path: str) -> int:
        if operation != "overwrite" or failed:
            return 0
        failed.append(path)
        return errno.EIO

    process.disk.fault = once
    t.until(lambda: bool(failed))
    assert _files(t, broker) != sound
    t.until(lambda: process.stopped_with is not None)
    assert "fetch it from its leader" in process.stopped_with[1]
    process.start()
    t.until(lambda: t.isr == {1, 2, 3})
    t.world.run_for(3_000)
    assert _files(t, broker)[FILE] == sound[FILE]


def test_the_only_replica_is_not_given_up_for_a_file_that_fails() -> None:
    """Nobody could give it back, and all that is in other files would be unreadable too."""
    t = _written(replicas=[1])
    process, tries = t.cluster.brokers[1], []

    def failing(operation: str, path: str) -> int:
        if operation != "read" or path != FILE:
            return 0
        tries.append(path)
        return errno.EIO

    process.disk.fault = failing
    t.until(lambda: bool(tries))
    _passed(t, 1)
    assert process.stopped_with is None and not t.partition(1).unreadable
    answer = t.fetch(11)
    assert answer.error_code == 0 and [one.base_offset for one in batches.headers(answer.records)] == [11]


@pytest.mark.parametrize("name", ["00000000000000000000.log", "00000000000000000000.index", "leader-epoch-checkpoint"])
@pytest.mark.parametrize("directory", [0, 1])
def test_a_sync_of_what_was_mended_that_fails_is_final(
    name: str, directory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What of the log is on the disk is unknown then: its directory goes offline, or the broker stops where it has no
    other, or needs this one for more."""
    monkeypatch.setattr(LogDirectories, "place", lambda self, topic_id, number: list(self.paths())[directory][1])
    t = _written(directories=2)
    process = t.cluster.brokers[t.leader]
    disk = process.disks[directory]
    disk.corrupt(f"{DIRECTORY}/{name}", len(disk.files[f"{DIRECTORY}/{name}"].data) - 3, 0x02)
    disk.sync_fails = lambda path: path.startswith(DIRECTORY)
    t.until(lambda: disk.failed_syncs > 0)
    t.world.run_for(50)
    if directory:
        assert process.stopped_with is None
        assert process.node.broker.logs.directories.failed(disk)
    else:
        assert process.stopped_with is not None and "cannot be made durable" in process.stopped_with[1]
