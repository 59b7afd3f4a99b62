"""Many replicas that are taken away by one record are removed a few a turn, and nobody can tell."""

from typing import Any

import pytest

from actors.broker.log.directories.checkpoints import RECOVERY_POINTS, parse_offsets
from actors.metadata import ops
from actors.metadata.snapshot import encode
from actors.node.roles.broker.metadata import metadata_publisher
from actors.raft.messages import SnapshotId
from actors.wire.errors import ErrorCode
from fastpath.records.batch import records
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab, code, outcome
from tests.unit.node.roles.loading import load_into

A_TURN, MANY = 10, 35
NAMESAKE, THIRD = bytes(range(1, 17)), bytes(range(2, 18))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_publisher, "LEAVE_A_TURN", A_TURN)


def leaving(lab: Lab) -> int:
    replicas = lab.nodes[1].broker.replicas
    return len(list(replicas.still_leaving()))


def full(brokers: int = 1) -> Lab:
    """A topic with a record in each partition."""
    lab = Lab(brokers)
    lab.topic(list(range(1, brokers + 1)), partitions=MANY)
    lab.nodes[1].turn()
    written(lab, b"first")
    return lab


def written(lab: Lab, value: bytes) -> None:
    pending = [lab.produce(1, value, number=number) for number in range(MANY)]
    lab.settle()
    assert [code(one) for one in pending] == [ErrorCode.NONE] * MANY


def restarted(lab: Lab) -> None:
    lab.nodes[1].broker.shutdown()
    lab.settle()
    lab.start(1)
    lab.pass_ms(2_000)


def made(topic_id: bytes, partitions: int = MANY) -> tuple[Any, ...]:
    return ops.TopicSet("t", topic_id), ops.PartitionsSet(topic_id, range(partitions), [[1]] * MANY, [[1]] * MANY)


def values(lab: Lab) -> list[list[bytes | None]]:
    return [[one.value for one in records(outcome(lab.fetch(1, 0, number=n)).records)] for n in range(MANY)]


def kept(lab: Lab) -> list[int]:
    """Where each log ends, after a restart."""
    return [lab.partition(1, number).log.log_end_offset for number in range(MANY)]


def directories(lab: Lab) -> set[str]:
    return {path.split("/")[0] for path in lab.disks[1].files if "/" in path and not path.startswith("__")}


def test_the_replicas_of_a_deleted_topic_go_in_turns_and_nobody_finds_them() -> None:
    lab = full()
    lab.commit(ops.TopicGone(TOPIC_ID, "t"))
    assert leaving(lab) == MANY - A_TURN
    assert list(lab.nodes[1].broker.replicas) == []
    assert code(lab.produce(1, b"late", number=MANY - 1)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for left in (MANY - 2 * A_TURN, MANY - 3 * A_TURN, 0):
        assert lab.nodes[1].broker.deadline_ms() == 0
        lab.nodes[1].turn()
        assert leaving(lab) == left
    assert lab.nodes[1].broker.deadline_ms() > 0
    lab.pass_ms(61_000, 5_000)
    assert not directories(lab)


def test_whoever_waits_for_a_partition_of_a_deleted_topic_is_told() -> None:
    lab = full(2)
    lab.dead.add(2)
    waiting = [lab.produce(1, b"second", number=number) for number in range(MANY)]
    assert not any(one.done for one in waiting)
    lab.commit(ops.TopicGone(TOPIC_ID, "t"))
    lab.settle()
    assert not {code(one) for one in waiting} & {ErrorCode.NONE}


@pytest.mark.parametrize("turns", range(4))
def test_a_topic_of_the_same_name_begins_while_the_old_one_goes(turns: int) -> None:
    lab = full()
    lab.commit(ops.TopicGone(TOPIC_ID, "t"))
    for _ in range(turns):
        lab.nodes[1].turn()
    lab.commit(*made(NAMESAKE))
    written(lab, b"second")
    assert values(lab) == [[b"second"]] * MANY
    lab.commit(ops.TopicGone(NAMESAKE, "t"), *made(THIRD))
    written(lab, b"third")
    lab.pass_ms(61_000, 5_000)
    assert values(lab) == [[b"third"]] * MANY and len(directories(lab)) == MANY
    restarted(lab)
    assert kept(lab) == [1] * MANY


def test_a_snapshot_tells_that_a_topic_was_made_again() -> None:
    lab = full(2)
    lab.cut = {1}
    lab.commit(ops.TopicGone(TOPIC_ID, "t"), *made(NAMESAKE))
    lab.settle()
    image = lab.broker(2).cache.image
    load_into(
        lab.broker(1), b"".join(encode(image.pin(), 1, 2, lab.now.wall_ms, None)), SnapshotId(image.next_offset, 1)
    )
    lab.seen[1], lab.cut = len(lab.log), set()
    written(lab, b"second")
    lab.pass_ms(61_000, 5_000)
    assert values(lab) == [[b"second"]] * MANY
    restarted(lab)
    assert kept(lab) == [1] * MANY


def test_replicas_that_are_moved_away_and_back_begin_anew() -> None:
    lab = full(2)
    numbers = range(MANY)
    away = [ops.PartitionsSet(TOPIC_ID, numbers, [[2]] * MANY, [[2]] * MANY)]
    lab.commit(*away)
    assert leaving(lab) == MANY - A_TURN
    lab.commit(ops.PartitionsSet(TOPIC_ID, numbers, [[2, 1]] * MANY, [[2]] * MANY))
    assert {partition.log.log_end_offset for partition in lab.nodes[1].broker.replicas} <= {0}
    lab.pass_ms(3_000)
    assert leaving(lab) == 0
    assert [lab.partition(1, number).log.log_end_offset for number in numbers] == [1] * MANY


def test_what_many_records_take_away_of_one_topic_is_found_at_once() -> None:
    """Each of many places of its own would be walked over for each replica."""
    lab = full(2)
    lab.commit(*[ops.PartitionsSet(TOPIC_ID, [number], [[2]], [[2]]) for number in range(MANY)])
    assert leaving(lab) == MANY - A_TURN
    (ids,) = lab.nodes[1].broker.replicas.leaving.values()
    assert [len(going) for going in ids.values()] == [MANY - A_TURN]
    lab.pass_ms(3_000)
    assert leaving(lab) == 0


@pytest.mark.parametrize("offline", [False, True])
def test_a_clean_stop_flushes_what_is_leaving_too(offline: bool) -> None:
    """It may be assigned again before its files are gone, and is then taken for whole. Where its directory is offline the
    stop asks nothing of it."""
    lab = full(2)
    written(lab, b"second")
    lab.commit(ops.PartitionsSet(TOPIC_ID, range(MANY), [[2]] * MANY, [[2]] * MANY))
    node = lab.nodes[1]
    going = {partition.log for partition in node.broker.replicas.still_leaving()}
    assert len(going) == MANY - A_TURN and max(log.recovery_point for log in going) < 2
    before, left = len(lab.later), list(node.broker.replicas.still_leaving())
    if offline:
        node.broker.logs.directories.failed = lambda disk: True
    node.broker.logs.begin_close()
    node.broker.logs.close(node.broker.replicas, 1, lambda _: None)
    lab.later[before]()
    assert ({log.recovery_point for log in going} == {2}) is not offline
    files = node.broker.logs.checkpoints.replacements(node.broker.replicas)
    points = [parse_offsets(content) for _, path, content in files if path == RECOVERY_POINTS]
    assert points == [{} if offline else {("t", one.number): 2 for one in left}]


def test_a_broker_that_stops_while_replicas_leave_has_none_of_them_when_it_is_back() -> None:
    lab = full()
    lab.commit(ops.TopicGone(TOPIC_ID, "t"), *made(NAMESAKE))
    written(lab, b"second")
    lab.commit(ops.TopicGone(NAMESAKE, "t"))
    assert leaving(lab)
    restarted(lab)
    lab.pass_ms(61_000, 5_000)
    assert list(lab.nodes[1].broker.replicas) == [] and not directories(lab)
