"""Replicas that are moved between the log directories of a broker: under load, through crashes, with disks that fail or are
full (KIP-113)."""

import errno
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from actors.broker.log.directories.directory import parse_name
from actors.ports import DiskFailed
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.simulator.cluster import DIRECTORIES
from tests.simulator.disk import VirtualDisk, VirtualFile
from tests.simulator.one_topic import DIRECTORY, SMALL, OneTopic
from tests.simulator.test_log_cleaner import COMPACT, change, write
from tests.simulator.test_log_cleaner import CONFIG as CLEANER

LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"
CONFIG = {
    "log.segment.delete.delay.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "replica.lag.time.max.ms": "1000",
}
SLOW = CONFIG | {LIMIT: "2000"}


def disks(t: OneTopic, broker: int) -> list[VirtualDisk]:
    return t.cluster.brokers[broker].disks


def held(disk: VirtualDisk) -> list[str]:
    """Directories of the partition, without what they begin with."""
    return [name[len(DIRECTORY) :][-7:] for name in disk.names("") if name.startswith(DIRECTORY)]


def home(t: OneTopic, broker: int) -> int:
    """The place of the directory that holds the replica."""
    return disks(t, broker).index(t.log(broker).disk)  # type: ignore[arg-type]


def ask(t: OneTopic, broker: int, place: int | str, topic: str = "t", number: int = 0) -> int:
    """Kafka's answer to a request for a move."""
    kind = message("AlterReplicaLogDirsRequest")
    path = place if isinstance(place, str) else DIRECTORIES[place]
    moved = kind.AlterReplicaLogDirTopic(name=topic, partitions=[number])
    request = kind(dirs=[kind.AlterReplicaLogDir(path=path, topics=[moved])])
    reply = t.client.call(f"b{broker}", "AlterReplicaLogDirs", 2, request)
    return int(reply.results[0].partitions[0].error_code)


def describe(t: OneTopic, broker: int) -> dict[str, list[tuple[int, int, bool]]]:
    """(size, lag, is future) of the partition by directory."""
    reply = t.client.call(f"b{broker}", "DescribeLogDirs", 4, message("DescribeLogDirsRequest")(topics=None))
    assert all(one.total_bytes >= one.usable_bytes > 0 for one in reply.results if not one.error_code)
    return {
        one.log_dir: [
            (partition.partition_size, partition.offset_lag, partition.is_future_key)
            for topic in one.topics
            if topic.name == "t"
            for partition in topic.partitions
        ]
        for one in reply.results
    }


def broker(t: OneTopic, id: int) -> Any:
    node = t.cluster.brokers[id].node
    assert node is not None and node.broker is not None
    return node.broker


def running(t: OneTopic, id: int) -> Any:
    """The move that is under way; None: none is."""
    return next(iter(broker(t, id).moves._running.values()), None)


def moved(t: OneTopic, id: int, place: int) -> bool:
    """Whether the replica is in that directory, and nothing of it anywhere else."""
    node = t.cluster.brokers[id].node
    if node is None or node.broker is None or node.broker.replicas.get("t", 0) is None:
        return False
    return home(t, id) == place and [held(disk) for disk in disks(t, id)] == [
        [""] if number == place else [] for number in range(len(disks(t, id)))
    ]


def filled(config: dict[str, str] = CONFIG, settings: dict[str, str] = SMALL, **more: Any) -> OneTopic:
    t = OneTopic([1, 2, 3], settings, config, directories=2, **more)
    for number in range(30):
        t.produce(b"%d" % number + bytes(60))
    return t


def whole(t: OneTopic, count: int) -> None:
    """Every record is there, on every replica."""
    assert list(t.read()) == list(range(t.log(t.leader).log_start_offset, count))
    t.until(lambda: all(t.log(one).log_end_offset == count for one in t.cluster.brokers))
    sound = {content(t, one) for one in t.cluster.brokers}
    assert len(sound) == 1


def content(t: OneTopic, id: int) -> bytes:
    log, parts = t.log(id), []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.cold_read(offset, 1 << 20)()
        parts.append(bytes(read.data))
        offset = read.next_offset
    return b"".join(parts)


@pytest.mark.parametrize("id", [1, 2])
def test_a_leader_and_a_follower_are_moved(id: int) -> None:
    t = filled()
    assert t.leader == 1
    there = 1 - home(t, id)
    assert ask(t, id, there) == 0
    t.until(lambda: moved(t, id, there))
    assert t.produce(b"after") == 30
    whole(t, 31)
    path, other = DIRECTORIES[there], DIRECTORIES[1 - there]
    assert describe(t, id) == {path: [(t.log(id).size, 0, False)], other: []}
    t.world.run_for(1_000)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "topic-id-checkpoint"):
        lines = [bytes(disk.files[name].data).decode().split("\n") for disk in disks(t, id)]
        assert [sum(line.startswith("t 0 ") for line in one) for one in lines] == [there == 0, there == 1], name
    t.stop(id)
    t.cluster.brokers[id].start()
    t.until(lambda: t.isr == {1, 2, 3})
    assert moved(t, id, there)
    whole(t, 31)


def test_the_future_replica_is_described_while_it_is_filled() -> None:
    t = filled(SLOW)
    there = 1 - home(t, 1)
    assert ask(t, 1, there) == 0
    t.world.run_for(500)
    ((size, lag, future),) = describe(t, 1)[DIRECTORIES[there]]
    assert future and 0 < lag < 30 and size > 0
    assert describe(t, 1)[DIRECTORIES[1 - there]] == [(t.log(1).size, 0, False)]
    t.until(lambda: moved(t, 1, there))
    whole(t, 30)


def test_bytes_a_second_are_kept_to_and_may_be_changed() -> None:
    t = filled(SLOW)
    size, begun = t.log(1).size, t.world.time_us
    there = 1 - home(t, 1)
    assert ask(t, 1, there) == 0
    t.until(lambda: home(t, 1) == there)
    assert size / 2000 * 0.7 < (t.world.time_us - begun) / 1e6 < size / 2000 * 1.5 + 1
    change(t, 4, "1", **{LIMIT.replace(".", "_"): "1"})
    assert ask(t, 1, 1 - there) == 0
    t.world.run_for(20_000)
    change(t, 4, "1", **{LIMIT.replace(".", "_"): "0"})
    t.world.run_for(20_000)
    assert home(t, 1) == there, "none at all, and the broker goes on"
    change(t, 4, "1", **{LIMIT.replace(".", "_"): "1000000000"})
    t.until(lambda: moved(t, 1, 1 - there), 5_000)


@pytest.mark.parametrize("flushed", [False, True])
def test_it_arrives_although_records_come_all_the_time(flushed: bool) -> None:
    """The move also arrives with flush.messages=1: every append asks for a flush, of which no more may be promised than
    was copied."""
    t = filled(settings=SMALL | ({"flush.messages": "1"} if flushed else {}))
    there = 1 - home(t, 1)
    acknowledged: list[int] = []

    def send() -> None:
        kind = message("ProduceRequest")
        builder = batches.Builder(timestamp_ms=1_600_000_000_000)
        builder.append(None, bytes(50))
        partition = kind.PartitionProduceData(index=0, records=builder.build())
        data = kind.TopicProduceData(name="t", partition_data=[partition])
        request = kind(acks=-1, timeout_ms=3000, topic_data=[data])

        def answered(reply: Any) -> None:
            answer = reply.responses[0].partition_responses[0]
            assert answer.error_code == 0
            acknowledged.append(answer.base_offset)
            if len(acknowledged) < 300:
                send()

        t.client.ask("b1", "Produce", 12, request, answered)

    for _ in range(5):
        send()
    assert ask(t, 1, there) == 0
    t.until(lambda: home(t, 1) == there)
    assert len(acknowledged) < 300
    t.until(lambda: len(acknowledged) >= 300)
    t.until(lambda: moved(t, 1, there))
    assert set(t.read()) >= set(acknowledged)


STEPS: dict[str, Callable[[OneTopic, int], bool]] = {
    "begun": lambda t, id: True,
    "half filled": lambda t, id: running(t, id) is not None and running(t, id).move.future.log_end_offset > 10,
    "settling": lambda t, id: bool(broker(t, id).logs.futures.held),
    "taken": lambda t, id: home(t, id) != t.from_ and "" in held(disks(t, id)[t.from_]),  # type: ignore[attr-defined]
    "old one renamed": lambda t, id: any(one == "-delete" for one in held(disks(t, id)[t.from_])),  # type: ignore[attr-defined]
    "old one gone": lambda t, id: moved(t, id, 1 - t.from_),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("id", [1, 2])
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step(step: str, id: int, power: bool) -> None:
    """The next process goes on with the move or has it behind it, and nothing is lost."""
    t = filled(SLOW, SMALL | {"flush.messages": "1"})
    t.from_ = home(t, id)  # type: ignore[attr-defined]
    there = 1 - home(t, id)
    process, hit = t.cluster.brokers[id], []

    def turned(one: Any) -> None:
        if one is process and not hit and STEPS[step](t, id):
            hit.append(True)
            t.world.after(0, process.crash if power else process.kill)

    assert ask(t, id, there) == 0
    t.world.turned.append(turned)
    t.until(lambda: not process.alive)
    t.world.run_for(2_000)
    process.start()
    t.until(lambda: t.isr == {1, 2, 3})
    if step in ("begun",) and power:  # nothing of it was on the disk
        assert home(t, id) in (0, 1)
    else:
        t.until(lambda: moved(t, id, there))
    whole(t, 30)
    t.world.run_for(3_000)
    assert sum(len(held(disk)) for disk in disks(t, id)) == 1


@pytest.mark.parametrize("seed", range(12))
def test_crashes_at_any_time_with_a_single_replica(seed: int) -> None:
    """What the only replica has acknowledged is there, however often its broker dies; with power cuts if it was flushed."""
    choose = Random(seed)
    flushed = bool(choose.randrange(2))
    settings = SMALL | ({"flush.messages": "1"} if flushed else {})
    t = OneTopic([1], settings, CONFIG | {LIMIT: "20000"}, directories=2, seed=seed)
    process, acknowledged = t.cluster.brokers[1], []
    for _ in range(8):
        for _ in range(choose.randint(0, 12)):
            acknowledged.append(t.produce(bytes(choose.randint(10, 80)), leader=1))
        answer = ask(t, 1, choose.randrange(2))
        assert answer == 0
        for _ in range(choose.randint(0, 6)):
            t.world.run_for(choose.choice((1, 3, 20, 200)))
            acknowledged.append(t.produce(bytes(choose.randint(10, 80)), leader=1))
        t.world.run_for(choose.choice((0, 1, 2, 5, 700)))
        if flushed and choose.randrange(2):
            process.crash()
        elif choose.randrange(5):
            process.kill()
        else:
            t.stop(1)
        process.start()
        t.until(lambda: t.cluster.ready() and t.leader == 1)
        assert process.stopped_with is None
    assert set(t.read()) == set(acknowledged)
    t.world.run_for(5_000)
    assert sorted(one for disk in disks(t, 1) for one in held(disk)) == [""]


def test_a_request_for_where_it_is_ends_the_move_and_one_for_elsewhere_replaces_it() -> None:
    t = OneTopic([1, 2, 3], SMALL, SLOW, directories=3)
    for number in range(30):
        t.produce(b"%d" % number + bytes(60))
    first = home(t, 1)
    second, third = (first + 1) % 3, (first + 2) % 3
    assert ask(t, 1, second) == 0
    t.until(lambda: held(disks(t, 1)[second]) == ["-future"])
    assert ask(t, 1, second) == 0 and ask(t, 1, first) == 0
    t.world.run_for(1_000)
    assert moved(t, 1, first) and running(t, 1) is None
    assert ask(t, 1, second) == 0
    t.until(lambda: held(disks(t, 1)[second]) == ["-future"])
    assert ask(t, 1, third) == 0
    t.until(lambda: moved(t, 1, third))
    whole(t, 30)


def test_answers() -> None:
    t = filled()
    assert ask(t, 1, "nowhere") == ErrorCode.LOG_DIR_NOT_FOUND
    assert ask(t, 1, "nowhere", "t" * 249) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert ask(t, 1, 0, "missing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(t, 1, 0, number=5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    there = home(t, 1)
    assert ask(t, 1, there) == 0 and not broker(t, 1).logs.futures.by_partition
    disks(t, 1)[1].fail(reads=True)
    t.world.run_for(3_000)
    assert ask(t, 1, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    if there == 0:
        assert ask(t, 1, 0) == 0


def test_no_move_begins_while_a_directory_is_offline() -> None:
    """The replica's future log may be in the one that is."""
    t = OneTopic([1, 2, 3], SMALL, CONFIG, directories=3)
    t.produce(b"x")
    if home(t, 1) == 2:
        assert ask(t, 1, 0) == 0
        t.until(lambda: moved(t, 1, 0))
    disks(t, 1)[2].fail(reads=True)
    t.until(lambda: broker(t, 1).logs.directories.offline_count == 1)
    assert ask(t, 1, 1 - home(t, 1)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert ask(t, 1, home(t, 1)) == 0


@pytest.mark.parametrize("place", [0, 1])
def test_a_replica_that_is_not_here_yet_begins_where_it_was_asked_for(place: int) -> None:
    t = OneTopic([1, 2], SMALL, CONFIG, directories=2)
    t.produce(b"x")
    assert ask(t, 3, place) == ErrorCode.REPLICA_NOT_AVAILABLE
    t.move([1, 3])
    t.until(lambda: moved(t, 3, place))


@pytest.mark.parametrize("how", ["topic deleted", "reassigned away"])
def test_the_future_log_goes_with_its_replica(how: str) -> None:
    t = OneTopic([1, 2], SMALL, SLOW, directories=2)
    for _ in range(30):
        t.produce(bytes(60))
    assert ask(t, 2, 1 - home(t, 2)) == 0
    t.until(lambda: running(t, 2).move.future.log_end_offset > 5)
    if how == "topic deleted":
        t.drop()
    else:
        t.move([1, 3])
    t.world.run_for(2_000)
    assert [held(disk) for disk in disks(t, 2)] == [[], []]
    assert not broker(t, 2).logs.futures.by_partition and running(t, 2) is None and not t.world.errors
    assert sum(broker(t, 2).logs.directories._counts) == len(list(broker(t, 2).replicas))


@pytest.mark.parametrize("gone", [False, True])
def test_the_target_fails_and_the_replica_is_served_on(gone: bool) -> None:
    t = filled(SLOW)
    if home(t, 1) == 1:
        change(t, 4, "", **{LIMIT.replace(".", "_"): "1000000000"})
        assert ask(t, 1, 0) == 0
        t.until(lambda: moved(t, 1, 0))
        change(t, 4, "", **{LIMIT.replace(".", "_"): "2000"})
    assert ask(t, 1, 1) == 0
    t.until(lambda: running(t, 1).move.future.log_end_offset > 5)
    disks(t, 1)[1].fail(reads=not gone, gone=gone)
    t.until(lambda: broker(t, 1).logs.directories.offline_count == 1)
    assert t.produce(b"after", leader=1) == 30
    t.world.run_for(1_000)
    assert home(t, 1) == 0 and running(t, 1) is None and not broker(t, 1).logs.futures.by_partition
    disks(t, 1)[1].work()
    t.stop(1)
    t.cluster.brokers[1].start()
    t.until(lambda: t.isr == {1, 2, 3})
    t.until(lambda: moved(t, 1, 1))  # it is filled on
    whole(t, 31)


ASKED = {"append": ("take_room", 1), "open": ("open", 8), "rename": ("rename", 1), "sync": ("_may_fail", 4)}
"""What a disk is asked during a move, and how often at least."""


@pytest.mark.parametrize(("step", "number"), [(step, n) for step, (_, most) in ASKED.items() for n in range(most)])
def test_the_target_is_gone_at_every_step(step: str, number: int) -> None:
    t = filled()
    target = 1
    if home(t, 1) == 1:
        assert ask(t, 1, 0) == 0
        t.until(lambda: moved(t, 1, 0))
    disk, left = disks(t, 1)[target], [number]
    name = ASKED[step][0]
    before = getattr(disk, name)

    def gone(*arguments: Any, **more: Any) -> Any:
        if left[0]:
            left[0] -= 1
            return before(*arguments, **more)
        setattr(disk, name, before)
        disk.fail(reads=False, gone=True)
        if step == "append":
            raise DiskFailed(errno.ENOENT, "append failed", arguments[0].path)
        return before(*arguments, **more)

    setattr(disk, name, gone)
    ask(t, 1, target)
    t.until(lambda: broker(t, 1).logs.directories.offline_count == 1)
    assert t.produce(b"after", leader=1) >= 0
    t.world.run_for(1_000)
    assert home(t, 1) == 0 and running(t, 1) is None and not broker(t, 1).logs.futures.by_partition
    assert all("is offline with 0 partitions" in error for error in t.world.errors)


@pytest.mark.parametrize("gone", [False, True])
def test_the_source_fails_and_the_move_goes_on_after_the_repair(gone: bool) -> None:
    t = filled(SLOW)
    if home(t, 2) == 0:
        change(t, 4, "", **{LIMIT.replace(".", "_"): "1000000000"})
        assert ask(t, 2, 1) == 0
        t.until(lambda: moved(t, 2, 1))
        change(t, 4, "", **{LIMIT.replace(".", "_"): "2000"})
    assert ask(t, 2, 0) == 0
    t.until(lambda: running(t, 2).move.future.log_end_offset > 5)
    disks(t, 2)[1].fail(reads=not gone, gone=gone)
    t.until(lambda: t.isr == {1, 3})
    t.produce(b"after")
    t.world.run_for(1_000)
    assert broker(t, 2).replicas.get("t", 0) is None and running(t, 2) is None
    disks(t, 2)[1].work()
    t.stop(2)
    t.cluster.brokers[2].start()
    t.until(lambda: t.isr == {1, 2, 3})
    t.until(lambda: moved(t, 2, 0))
    whole(t, 31)


def test_a_replica_that_is_lost_begins_with_what_was_copied() -> None:
    """The disk that it was on was replaced: it is out of the ISR first, and then need not fetch everything."""
    t = filled(SLOW)
    if home(t, 2) == 0:
        change(t, 4, "", **{LIMIT.replace(".", "_"): "1000000000"})
        assert ask(t, 2, 1) == 0
        t.until(lambda: moved(t, 2, 1))
        change(t, 4, "", **{LIMIT.replace(".", "_"): "2000"})
    assert ask(t, 2, 0) == 0
    t.until(lambda: running(t, 2).move.future.log_end_offset > 5)
    t.world.run_for(1_000)
    process = t.cluster.brokers[2]
    process.kill()
    process.more[0] = VirtualDisk()
    process.more[0].id = b"another directory"[:16]
    process.start()
    t.until(lambda: t.isr == {1, 2, 3} and moved(t, 2, 0))
    whole(t, 30)


def test_without_room_it_waits_and_the_replica_is_served() -> None:
    t = filled()
    there = 1 - home(t, 1)
    disks(t, 1)[there].room = 1_500
    assert ask(t, 1, there) == 0
    t.world.run_for(5_000)
    assert home(t, 1) != there and running(t, 1).told
    t.produce(b"meanwhile")
    disks(t, 1)[there].room = None
    t.until(lambda: moved(t, 1, there))
    whole(t, 31)


def test_a_copy_that_finds_no_room_is_made_again() -> None:
    """The copy may have to make an index anew, to find what is to be read."""
    t = filled()
    here = home(t, 1)
    disk, came = disks(t, 1)[here], list[str]()
    disk.cold = lambda path, position, size: True
    read_cold = VirtualFile.read_cold

    def lacks(file: VirtualFile, position: int, size: int) -> memoryview:
        if file.disk is disk and file.path.endswith(".log") and not came:
            came.append(file.path)
            raise disk.error(errno.ENOSPC, "no room", file.path)
        return read_cold(file, position, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VirtualFile, "read_cold", lacks)
        assert ask(t, 1, 1 - here) == 0
        t.until(lambda: moved(t, 1, 1 - here), 60_000)
    assert came
    whole(t, 30)


def test_a_log_that_is_moved_is_not_cleaned() -> None:
    t = OneTopic([1, 2, 3], COMPACT, CLEANER | {LIMIT: "1500"}, directories=2)
    change(t, 4, "", log_cleaner_enable="false")
    write(t, 60)
    there = 1 - home(t, 1)
    assert ask(t, 1, there) == 0
    change(t, 4, "", log_cleaner_enable="true")
    t.until(lambda: t.log(2).cleaned_offset > 0)
    assert home(t, 1) != there and t.log(1).cleaned_offset == 0
    t.until(lambda: home(t, 1) == there and t.log(1).cleaned_offset > 0)
    t.until(lambda: [held(disk) for disk in disks(t, 1)].count([""]) == 1)


def kept_files(disk: VirtualDisk) -> dict[str, bytes]:
    """The files of the partition."""
    return {path: bytes(inode.data) for path, inode in disk.files.items() if path.startswith(f"{DIRECTORY}/")}


def back(t: OneTopic, place: int, kept: dict[str, bytes]) -> None:
    """Broker 1 is killed, and starts with these files in a directory."""
    t.cluster.brokers[1].kill()
    for path, data in kept.items():
        disks(t, 1)[place].replace(path, data)
    t.cluster.brokers[1].start()


def moved_away(t: OneTopic) -> tuple[int, dict[str, bytes]]:
    """Move the replica of broker 1. Returns the place of the directory that held it, and the files as they were there."""
    old = home(t, 1)
    t.world.run_for(500)
    kept = kept_files(disks(t, 1)[old])
    assert ask(t, 1, 1 - old) == 0
    t.until(lambda: moved(t, 1, 1 - old))
    return old, kept


def test_a_copy_that_no_move_has_left_is_set_aside() -> None:
    """The old directory is back with what was on it long before the move, or before the replica began anew."""
    t = filled()
    old, kept = moved_away(t)
    back(t, old, kept)
    t.until(lambda: broker(t, 1).replicas.get("t", 0) is not None and home(t, 1) == 1 - old)
    whole(t, 30)
    (stray,) = {path.partition("/")[0] for path in disks(t, 1)[old].files if path.startswith(DIRECTORY)}
    assert stray.endswith("-stray")
    assert all(disks(t, 1)[old].files[path.replace(DIRECTORY, stray)].data == data for path, data in kept.items())


def test_a_copy_is_refused_whose_instance_an_earlier_version_counted_in_its_directory() -> None:
    t = filled()
    old, kept = moved_away(t)
    process, identity = t.cluster.brokers[1], f"{DIRECTORY}/partition.metadata"
    kept[identity] = kept[identity].partition(b"\ninstance")[0]
    back(t, old, kept)
    assert process.stopped_with is not None and "take the copy away that is out of date" in process.stopped_with[1]
    assert held(disks(t, 1)[0]) == held(disks(t, 1)[1]) == [""]


def test_a_log_that_begins_before_its_broker_is_registered_counts_as_later_than_one_that_is_away() -> None:
    """The other directory is empty at that start, and at the next one it is back with what was in it."""
    t = filled()
    process = t.cluster.brokers[2]
    if home(t, 2) == 0:
        assert ask(t, 2, 1) == 0
        t.until(lambda: moved(t, 2, 1))
    t.world.run_for(2_000)
    t.stop(2)
    away, process.more[0] = process.more[0], VirtualDisk()
    process.more[0].id = b"an empty disk..."
    process.start()
    t.until(lambda: t.isr == {1, 2, 3})
    assert home(t, 2) == 0
    t.stop(1)
    t.stop(3)
    t.produce(b"only here")
    process.kill()
    process.more[0] = away
    process.start()
    t.world.run_for(10_000)
    assert t.leader == 2 and home(t, 2) == 0
    assert list(t.read()) == list(range(31))


def test_what_a_power_cut_brings_back_of_the_move_before_the_last_goes() -> None:
    """The name that the log had before the first of two moves is back, as the sync of its directory never came."""
    t = OneTopic([1, 2, 3], SMALL, CONFIG, directories=3)
    for number in range(30):
        t.produce(b"%d" % number + bytes(60))
    first = home(t, 1)
    second, third = [place for place in range(3) if place != first]
    assert ask(t, 1, second) == 0
    t.until(lambda: home(t, 1) == second)
    kept = {
        f"{DIRECTORY}/{path.partition('/')[2]}": bytes(inode.data)
        for path, inode in disks(t, 1)[first].files.items()
        if path.startswith(DIRECTORY)
    }
    assert f"{DIRECTORY}/leaving" in kept
    t.until(lambda: moved(t, 1, second))
    assert ask(t, 1, third) == 0
    t.until(lambda: moved(t, 1, third))
    back(t, first, kept)
    t.until(lambda: moved(t, 1, third))
    whole(t, 30)


def test_names_of_future_logs_are_those_of_apache_kafka() -> None:
    t = filled(SLOW)
    assert ask(t, 1, 1 - home(t, 1)) == 0
    t.world.run_for(300)
    names = [name for name in disks(t, 1)[1 - home(t, 1)].names("") if name.startswith("t-")]
    assert [parse_name(name) for name in names] == [("t", 0, "future")]
