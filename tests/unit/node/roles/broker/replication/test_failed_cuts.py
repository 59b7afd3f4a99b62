"""A follower's cut that the disk does not let happen, or only in part: what is committed here never lies behind the log."""

import errno
import weakref

import pytest

from actors.broker.log.log import Unsettled
from actors.broker.log.truncation import _preparation
from actors.broker.replication import partition as partitions
from actors.broker.replication.admission import RequestRefused
from actors.broker.replication.partition import Assignment, Cluster, Partition
from actors.ports import DiskFailed, DiskFull
from actors.wire.errors import ErrorCode
from fastpath.records import batch
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log import logs
from tests.unit.broker.log.logs import build, flush, put, reopen, sync
from tests.unit.node.roles.broker.lab import Lab, code


def replica() -> Partition:
    log = logs.new(segment_bytes=400)
    for number in range(16):
        put(log, build(), epoch=number // 6)
    flush(log)
    return Partition("topic", bytes(range(16)), 0, log, Cluster(1, 30_000), log.settings, 16)


@pytest.mark.parametrize("how", ["cut", "restart"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("step", range(1, 14))
def test_the_high_watermark_is_at_most_the_end_of_a_log_that_was_cut_in_part(how: str, number: int, step: int) -> None:
    partition, steps = replica(), 0
    disk = partition.log.disk
    assert isinstance(disk, VirtualDisk)

    def fault(operation: str, path: str) -> int:
        nonlocal steps
        renamed = operation == "rename" and not path.endswith(".snapshot")  # for that there may be no room
        steps += renamed
        return number if renamed and steps == step else 0

    disk.fault = fault
    failed = False
    try:
        if how == "cut":
            partition.truncate_for(0, 3)
        else:
            partition.restart(100, 1_000)
    except (DiskFull, DiskFailed):
        failed = True
    disk.fault = None
    assert failed == (steps >= step)
    assert partition.high_watermark <= partition.log.log_end_offset
    assert failed or partition.high_watermark == (100 if how == "restart" else 3)


def fetched(offset: int = 3) -> bytes:
    """A batch of a later leader, for the end of a log that was cut there."""
    data = build()
    batch.accept(data, 0, len(data), offset, 9, now_ms=1_000)
    return bytes(data)


def test_a_leader_takes_nothing_behind_a_cut_that_is_not_durable() -> None:
    """It was cut as a follower a moment ago. What clients send is refused so that they send it again, in its order."""
    partition = replica()
    log = partition.log
    partition.truncate_for(0, 3)
    wanted = log.flush()
    partition.apply(Assignment((1,), (1,), 1, 9, 1), 0)
    end, size = log.log_end_offset, log.size
    batches = [build(producer_id=7, producer_epoch=0, base_sequence=number) for number in range(3)]
    for data in batches:
        with pytest.raises(RequestRefused) as refused:
            partition.append(bytearray(data), 1_000, client=True)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR and "send it again" in str(refused.value)
    assert (log.log_end_offset, log.size) == (end, size)
    sync(log, wanted)
    log.flushed(wanted)
    for data in batches:
        partition.append(bytearray(data), 1_000, client=True)
    assert log.log_end_offset == end + 3


def test_what_is_refused_until_a_cut_is_durable_is_kept_nowhere() -> None:
    """The flush may take long on a slow disk, and clients send again and again meanwhile."""

    class Batch(bytearray):
        """One that can be looked for."""

    partition = replica()
    partition.truncate_for(0, 3)
    sent = []
    for number in range(50):
        data = Batch(build(producer_id=number))
        sent.append(weakref.ref(data))
        with pytest.raises(RequestRefused):
            partition.append(data, 1_000, client=True)
        del data
    assert sum(one() is not None for one in sent) <= 1


def test_a_flush_that_began_before_the_cut_lets_nothing_in() -> None:
    partition = replica()
    log = partition.log
    before = log.flush()
    partition.truncate_for(0, 3)
    log.flushed(before)
    with pytest.raises(Unsettled):
        log.append_fetched(fetched(), 1_000)
    flush(log)
    assert log.append_fetched(fetched(), 1_000) is not None


def test_what_a_start_has_cut_is_durable_before_anything_comes_behind_it() -> None:
    log = replica().log
    put(log, build())
    disk, path = log.disk, log.segments[-1].log.path
    assert isinstance(disk, VirtualDisk)
    disk.files[path].data[-1] ^= 1
    found = reopen(log)
    assert found.cuts and found.log.shortened
    with pytest.raises(Unsettled):
        found.log.append_fetched(fetched(16), 1_000)
    flush(found.log)
    assert found.log.append_fetched(fetched(16), 1_000) is not None


@pytest.mark.parametrize("prepared", [False, True])
def test_a_log_is_cut_once_where_the_leaders_first_offset_has_rotted(
    prepared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The follower ends inside that batch again as soon as it has fetched what is in front: without a pause it cut its log,
    flushed that, and fetched."""
    if prepared:
        monkeypatch.setattr(partitions, "prepare_cut", _preparation)
    lab = Lab(2, {"replica.fetch.max.bytes": "10", "replica.fetch.response.max.bytes": "10"})
    lab.topic([1, 2])
    lab.dead.add(2)
    lab.change([1], 1)
    for _ in range(4):
        assert code(lab.produce(1, *[b"value"] * 5, acks=1)) is ErrorCode.NONE
    path = "t-0/00000000000000000000.log"
    rotted = batch.headers(bytes(lab.disks[1].files[path].data))[1].position + 7
    lab.disks[1].corrupt(path, rotted, 1)  # it says 4, and was 5
    lab.partition(1).log.hints.clear()
    lab.start(2)
    lab.fetches = 0
    lab.pass_ms(5_000, 100)
    lines = lab.nodes[2].log.lines
    assert sum("cut t-0 from 5 to 0" in line for line in lines) == 1 and lab.partition(2).log.log_end_offset == 5
    assert any("t-0 expects 5, the leader sent 4" in line for line in lines), "the operator learns of it"
    assert lab.fetches < 20
    lab.disks[1].corrupt(path, rotted, 1)
    lab.pass_ms(2_000, 100)
    assert lab.partition(2).log.log_end_offset == 20
