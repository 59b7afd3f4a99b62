"""Rot in a sealed segment: no reader gets a rotten byte, and the replica is fetched anew from a sound one."""

import errno

import pytest

from actors.broker.log.directories.checkpoints import RECOVERY_POINTS
from actors.broker.log.directories.directory import CLEAN_SHUTDOWN
from fastpath.records import batch as batches
from tests.simulator.one_topic import DIRECTORY, OneTopic

FILE = f"{DIRECTORY}/00000000000000000000.log"


def _value(number):
    return b"%d" % number * 60


def _written():
    """Twelve records, on every replica."""
    t = OneTopic()
    for number in range(12):
        t.produce(_value(number))
    t.world.run_for(3_000)
    return t


def _read_by(t, reader):
    """Have the leader's log read from its beginning: by a consumer, or by a replica that has lost its own."""
    if reader == "consumer":
        answer = t.fetch()
        assert answer is None or answer.error_code == 56, "KAFKA_STORAGE_ERROR, not a rotten byte"
        return
    follower = t.cluster.brokers[t.leader % 3 + 1]
    follower.kill()
    follower.disk.remove(DIRECTORY)
    t.world.run_for(500)
    follower.start()


@pytest.mark.parametrize("position", [3, 10, 14, 100, 120], ids=["offset", "length", "epoch", "attributes", "record"])
@pytest.mark.parametrize("reader", ["consumer", "replica"])
def test_rot_on_the_leader_moves_leadership_and_is_fetched_anew(position, reader):
    t = _written()
    world, brokers, leader = t.world, t.cluster.brokers, t.leader
    assert t.isr == {1, 2, 3}
    process, follower = brokers[leader], brokers[leader % 3 + 1]
    sound = bytes(follower.disk.files[FILE].data)
    process.disk.corrupt(FILE, position)
    _read_by(t, reader)
    assert world.run_until(lambda: process.stopped_with is not None, 20_000)
    assert process.stopped_with[0] == 1 and t.leader not in (leader, -1)
    process.start()
    assert world.run_until(lambda: t.isr == {1, 2, 3}, 30_000)
    world.run_for(2_000)
    assert bytes(process.disk.files[FILE].data) == sound
    found = t.fetch()
    assert found.error_code == 0 and batches.verify(found.records, 0).base_offset == 0


def test_a_damaged_leader_that_is_alone_lets_whole_followers_catch_up():
    """The followers have what the leader cannot read. What was written since they left lies after the damage."""
    t = OneTopic()
    world = t.world
    for number in range(12):
        t.produce(_value(number))
    world.run_for(3_000)
    leader = t.leader
    process = t.cluster.brokers[leader]
    followers = [other for id, other in t.cluster.brokers.items() if id != leader]
    for follower in followers:
        follower.kill()
    assert world.run_until(lambda: t.isr == {leader}, 30_000)
    world.run_for(1_000)
    t.produce(_value(12))
    process.disk.corrupt(FILE, 100)
    t.fetch()
    for follower in followers:
        follower.start()
    assert world.run_until(lambda: process.stopped_with is not None, 20_000)
    assert t.leader not in (leader, -1)


@pytest.mark.parametrize(("position", "mask"), [(8, 0x80), (9, 0x01), (16, 0x80), (23, 0x80)], ids=str)
def test_a_damaged_header_that_a_start_meets_costs_one_replica_and_not_the_broker(position, mask):
    """The damage lies below the recovery point, where nothing is checked, but the producers' state is read from
    there."""
    t = OneTopic([1, 2, 3], {"flush.messages": "1", "index.interval.bytes": "1"})
    for number in range(12):
        t.produce(_value(number), producer_id=77, producer_epoch=0, base_sequence=number)
    t.until(lambda: b"t 0 12" in t.file(3, RECOVERY_POINTS), 120_000)
    process, sound = t.cluster.brokers[3], t.file(3, FILE)
    process.kill()
    process.disk.corrupt(FILE, batches.headers(sound)[4].position + position, mask)
    process.start()
    t.until(lambda: process.stopped_with is not None)
    assert process.stopped_with[0] == 1 and "given up" in process.stopped_with[1]
    process.start()
    t.until(lambda: t.isr == {1, 2, 3})
    t.world.run_for(2_000)
    assert t.file(3, FILE) == sound and not t.partition(3).unreadable


def test_a_damaged_log_that_cannot_be_given_up_is_not_vouched_for_by_a_clean_stop():
    """The log has no other replica. The producers' state that is known ends at the damage."""
    t = OneTopic([1], {"flush.messages": "1", "index.interval.bytes": "1"})
    for number in range(12):
        t.produce(_value(number), producer_id=77, producer_epoch=0, base_sequence=number)
    t.until(lambda: b"t 0 12" in t.file(1, RECOVERY_POINTS), 120_000)
    process, sound = t.cluster.brokers[1], t.file(1, FILE)
    process.kill()
    process.disk.corrupt(FILE, batches.headers(sound)[4].position + 16)
    for start in range(3):
        process.start()
        t.until(lambda: t.cluster.ready() and t.leader == 1)
        t.world.run_for(1_000)
        assert t.partition(1).unreadable and t.log(1).log_end_offset == 12 + start
        t.produce(b"more", producer_id=78 + start, producer_epoch=0, base_sequence=0)
        t.stop(1)
        assert not process.disk.exists(CLEAN_SHUTDOWN)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("reader", ["consumer", "replica"])
def test_a_segment_that_somebody_has_removed_is_fetched_anew(cached, reader):
    """The segment is removed as an operator may do when the disk is full. Nothing had opened it since the start."""
    t = _written()
    leader = t.leader
    process, sound = t.cluster.brokers[leader], t.file(leader, FILE)

    def removed(path, position, size):
        if path == FILE:
            raise FileNotFoundError(errno.ENOENT, "somebody has removed it", path)
        return False

    process.disk.unreadable = removed
    process.disk.cold = removed if cached else (lambda path, position, size: path == FILE)
    _read_by(t, reader)
    t.until(lambda: process.stopped_with is not None)
    assert process.stopped_with[0] == 1 and t.leader not in (leader, -1)
    process.disk.cold = process.disk.unreadable = None
    process.start()
    t.until(lambda: t.isr == {1, 2, 3})
    t.world.run_for(2_000)
    assert t.file(leader, FILE) == sound


@pytest.mark.parametrize("reader", ["consumer", "replica"])
def test_a_leader_whose_only_directory_fails_in_reads_leads_no_more(reader):
    """The error comes at once, and not from a job: the file was opened before. A follower that needs these bytes would
    never be in sync, though another member has them."""
    t = _written()
    leader = t.leader
    process = t.cluster.brokers[leader]
    process.disk.fault = lambda operation, path: errno.EIO if operation == "read" and path == FILE else 0
    _read_by(t, reader)
    t.until(lambda: process.stopped_with is not None)
    assert process.stopped_with[0] == 1 and t.leader not in (leader, -1)
    process.disk.fault = None
    process.start()
    t.until(lambda: t.isr == {1, 2, 3})
    assert len(t.read()) == 12


def _flip_offset(process, number, bit):
    """Let a bit of the first offset of a batch rot, counted from the first one."""
    head = batches.headers(bytes(process.disk.files[FILE].data))[number]
    process.disk.corrupt(FILE, head.position + 7 - bit // 8, 1 << bit % 8)


@pytest.mark.parametrize("bit", [0, 5, 40])
def test_a_broker_alone_loses_nothing_where_a_batchs_first_offset_rots_before_a_kill(bit):
    """No checksum covers it, and what is behind it would be cut: the batches beside it say what it was."""
    t = OneTopic([1], {"internal.segment.bytes": "100000"})
    for number in range(12):
        t.produce(_value(number))
    process = t.cluster.brokers[1]
    process.kill()
    _flip_offset(process, 7, bit)
    process.start()
    t.until(lambda: t.leader == 1)
    t.world.run_for(500)
    assert t.read() == {number: _value(number) for number in range(12)}
    assert t.produce(b"more") == 12


@pytest.mark.parametrize("bit", [0, 1])
def test_a_follower_whose_last_batchs_first_offset_rots_before_a_kill_takes_the_leaders_word(bit):
    """It ends inside a batch of the leader's, and what it is sent does not continue its log."""
    t = OneTopic([1, 2, 3], {"internal.segment.bytes": "100000"})
    for number in range(5):
        t.produce(_value(number))
    process = t.cluster.brokers[t.leader % 3 + 1]
    process.kill()
    _flip_offset(process, 4, bit)
    t.until(lambda: len(t.isr) == 2)
    t.produce(*(b"several of one batch" for _ in range(4)))
    process.start()
    t.until(lambda: t.isr == {1, 2, 3}, 30_000)
    t.world.run_for(500)
    assert bytes(process.disk.files[FILE].data) == t.file(t.leader, FILE)


def test_a_follower_in_the_isr_throws_nothing_away_where_the_leaders_first_offset_rots():
    """It cannot tell whose has rotted, and may be the only one that has what was acknowledged."""
    t = OneTopic([1, 2], {"internal.segment.bytes": "100000", "min.insync.replicas": "1"})
    t.produce(_value(0), b"two of one batch")
    process, follower = t.cluster.brokers[t.leader], t.cluster.brokers[3 - t.leader]
    before, sent, t.world.keep_log = bytes(follower.disk.files[FILE].data), [], True

    def rots(operation, path):
        heads = batches.headers(bytes(process.disk.files[FILE].data))
        if operation == "read" and path == FILE and heads[-1].base_offset == 2:
            process.disk.corrupt(FILE, heads[-1].position + 7, 3)  # it says 1, inside what the follower has
            sent.append(path)
        return 0

    process.disk.fault = rots
    t.send(*(b"several" for _ in range(4)), acks=1)
    t.world.run_for(300)
    assert sent and t.isr == {1, 2}
    assert any("expects 2, the leader sent 1" in line for line in t.world.lines), (
        "what it is sent does not continue its log"
    )
    assert bytes(follower.disk.files[FILE].data) == before and t.log(3 - t.leader).log_end_offset == 2
