"""A snapshot is loaded a slice a turn, and anything may happen between two of them: until it is whole a role shows what it
showed before, and what ends meanwhile leaves nothing of it."""

import errno
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from actors.metadata import snapshot as snapshots
from actors.node.quorum.replay import Replay
from actors.node.quorum.replica import QuorumReplica
from actors.ports import Batch, DiskFull
from actors.raft import Role as RaftRole
from actors.raft import SnapshotId
from tests.unit.node.quorum.quorum_cluster import Cluster, Recorder, Replica
from tests.unit.node.quorum.test_replica import Refused, grow, snapshot, values


class Slow(Recorder):
    """A role whose snapshots are loaded to their end only when `go` says so."""

    go = True

    def _slices(self, *given: Any) -> Iterator[None]:
        yield from super()._slices(*given)
        while not self.go:
            yield


def slow(node: Replica) -> Slow:
    """The role of a node that has just begun, which loads from now on."""
    role = node.role = Slow()
    role.go = False
    node.quorum.attach([role])
    return role


def restarted(node: Replica, monkeypatch: pytest.MonkeyPatch) -> Slow:
    """A node ends and begins again with a role that loads until it is let go."""
    made: list[Slow] = []
    node.kill()
    whole = node._made

    def with_slow() -> Any:
        found = whole()
        made.append(slow(node))
        return found

    monkeypatch.setattr(node, "_made", with_slow)
    node.start()
    return made[0]


def heard_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes listen while they load, as they do where it is not the first snapshot of the process."""
    monkeypatch.setattr(QuorumReplica, "loads", False)


def grown(brokers: int = 0) -> tuple[Cluster, Replica]:
    cluster = Cluster(brokers=brokers)
    cluster.start()
    leader = cluster.elect()
    grow(cluster, leader, 2)
    for node in cluster.nodes.values():
        if node is not leader:
            snapshot(node)
    cluster.run(50)
    return cluster, leader


class Turns:
    """A replay of snapshots alone, without a node."""

    def __init__(self, *batches: Batch) -> None:
        self.role = Recorder()
        self.data: dict[SnapshotId, Any] = {}
        log = SimpleNamespace(read=lambda start, size: [one for one in batches if one.base_offset >= start])
        checkpoints = SimpleNamespace(load=lambda snapshot: self.data[snapshot])
        runtime: Any = SimpleNamespace(waiting=SimpleNamespace(committed=lambda offset: None))
        self.replay = Replay(runtime, SimpleNamespace(log=log, checkpoints=checkpoints))  # type: ignore[arg-type]
        self.replay.roles = [self.role]

    def written(self, end: int, batches: int) -> SnapshotId:
        """A snapshot of so many batches, on the disk."""
        cluster = Cluster()
        one = cluster.first_checkpoint
        found = SnapshotId(end, 1)
        self.data[found] = b"".join([one] * (batches // 2))
        return found

    def turn(self, high_watermark: int) -> None:
        self.replay.begin_turn()
        for _ in range(3):  # a turn asks so often
            self.replay.run(high_watermark)


def test_a_turn_has_one_slice_and_a_batch_is_seen_only_behind_the_last() -> None:
    turns = Turns()
    turns.replay.load(turns.written(50, 6))
    for _ in range(5):
        turns.turn(60)
        assert turns.replay.behind and turns.replay.applied == 0 and not turns.role.events
    turns.turn(60)
    assert turns.role.events == ["load 50-1"] and turns.replay.applied == turns.role.next_offset == 50
    assert turns.replay.loads == 1 and not turns.replay.behind


def test_a_newer_snapshot_begins_anew_and_nothing_of_the_older_one_is_taken_over() -> None:
    turns = Turns()
    turns.replay.load(turns.written(50, 6))
    for _ in range(4):
        turns.turn(50)
    newer = turns.written(90, 4)
    turns.replay.load(newer)
    for _ in range(4):
        assert not turns.role.events
        turns.turn(90)
    assert turns.role.events == ["load 90-1"] and turns.replay.applied == 90 and turns.replay.loads == 1


def test_what_was_not_read_for_want_of_a_descriptor_is_read_from_the_beginning() -> None:
    turns = Turns()
    id = turns.written(50, 4)
    whole = turns.data[id]
    refused = [2]

    class Short:
        size = len(whole)

        def read_cold(self, position: int, size: int) -> memoryview:
            if position and refused[0]:
                refused[0] -= 1
                raise DiskFull(errno.EMFILE, "no descriptor")
            return memoryview(whole)[position : position + len(whole) // 2]

    turns.data[id] = Short()
    turns.replay.load(id)
    for _ in range(2):
        turns.turn(0)
        with pytest.raises(DiskFull):
            turns.turn(0)
        assert turns.replay.loading == id and not turns.role.events
    for _ in range(4):
        turns.turn(50)
    assert turns.role.events == ["load 50-1"] and len(turns.role.begun) == 3


def test_a_node_that_begins_is_heard_when_it_has_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, leader = grown()
    node = next(node for node in cluster.nodes.values() if node is not leader)
    role = restarted(node, monkeypatch)
    cluster.run(500)
    assert role.begun and not role.events and not node.listening
    role.go = True
    assert cluster.run(100, lambda: bool(node.listening)) and role.events
    assert cluster.run(2000, cluster.settled)


def test_a_node_that_is_elected_while_it_loads_leads_when_it_has_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    heard_at_once(monkeypatch)
    cluster, _ = grown()
    roles = [restarted(node, monkeypatch) for node in cluster.nodes.values()]
    cluster.run(5000, lambda: any(node.quorum.raft.role is RaftRole.LEADER for node in cluster.nodes.values()))
    elected = [node for node in cluster.nodes.values() if node.quorum.raft.role is RaftRole.LEADER]
    assert len(elected) == 1
    cluster.run(300)
    assert not any(role.active or role.events for role in roles)
    for role in roles:
        role.go = True
    assert cluster.run(2000, cluster.settled)
    active = cluster.leader()
    assert active is elected[0]
    assert [one.split()[0] for one in active.role.events] == ["load", "gained"]
    cluster.append("later")
    assert cluster.run(1000, cluster.settled)


def test_a_node_that_resigns_while_it_loads_shows_nothing_of_its_reign(monkeypatch: pytest.MonkeyPatch) -> None:
    heard_at_once(monkeypatch)
    cluster, _ = grown()
    roles = [restarted(node, monkeypatch) for node in cluster.nodes.values()]
    cluster.run(5000, lambda: any(node.quorum.raft.role is RaftRole.LEADER for node in cluster.nodes.values()))
    first = next(node for node in cluster.nodes.values() if node.quorum.raft.role is RaftRole.LEADER)
    first.input(first.quorum.resign)
    others = [node for node in cluster.nodes.values() if node is not first]
    assert cluster.run(5000, lambda: any(node.quorum.raft.role is RaftRole.LEADER for node in others))
    assert first.role.events == ["lost"]
    for role in roles:
        role.go = True
    assert cluster.run(2000, cluster.settled)
    assert first.role.events[:2] == ["lost", first.role.events[1]] and first.role.events[1].startswith("load")


def test_a_node_that_is_stopped_while_it_loads_ends_at_once_and_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, leader = grown(brokers=1)
    node = next(node for node in cluster.nodes.values() if node is not leader and node.id < 100)
    role = restarted(node, monkeypatch)
    cluster.run(50)
    assert role.begun and not role.events
    node.input(node.node.shutdown)
    assert cluster.run(1000, lambda: not node.alive)
    assert node.stopped_with is not None and node.stopped_with[0] == 0 and not role.events
    node.start()
    node.role.go = True  # type: ignore[attr-defined]
    cluster.append("last")
    assert cluster.run(2000, cluster.settled)


def test_a_snapshot_that_rots_while_it_is_loaded_ends_the_node_and_what_it_knew_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshots, "PIECE_BYTES", 300)
    cluster, leader = grown(brokers=1)
    broker = cluster.nodes[101]
    assert cluster.run(1000, cluster.settled)
    known = values(broker)
    for node in (cluster.nodes[id] for id in (1, 2, 3)):
        cluster.world.block(broker.name, node.name)
    for round_ in range(3):
        for number in range(30):
            cluster.append(f"{round_}.{number}", size=300)
        end = leader.quorum.raft.log_end_offset
        assert cluster.run(200, lambda end=end: leader.role.next_offset == end)
        snapshot(leader)
        cluster.run(20)
    role, loading = broker.role, type(broker.role).loading

    def rotten(self: Recorder, data: Any, id: SnapshotId) -> Iterator[None]:
        slices = loading(self, data, id)
        next(slices)
        path = cluster.path(f"{id.end_offset:020}-{id.epoch:010}.checkpoint")
        inode = broker.disk.open(path)
        inode.overwrite(inode.size - 40, b"rot!")
        return slices

    monkeypatch.setattr(Recorder, "loading", rotten)
    cluster.world.heal()
    assert cluster.run(20_000, lambda: not broker.alive)
    assert broker.stopped_with is not None and broker.stopped_with[0] == 1
    assert "cannot be loaded" in broker.stopped_with[1] and ".checkpoint" in broker.stopped_with[1]
    assert values(broker) == known and not any(one.startswith("load") for one in role.events)


@pytest.mark.parametrize("controls", [False, True])
def test_a_broker_waits_for_a_descriptor_to_load_and_a_controller_lets_others_do_it(controls: bool) -> None:
    cluster = Cluster(controllers=3, brokers=1)
    cluster.start()
    leader = cluster.elect()
    cluster.append("before")
    assert cluster.run(1000, cluster.settled)
    node = next(node for id, node in cluster.nodes.items() if (id == 101) is not controls and node is not leader)
    node.kill()
    grow(cluster, leader, 3)
    refused = Refused("read", ".checkpoint", errno.EMFILE)
    node.start()
    node.disk.fault = refused.fault
    if controls:
        assert cluster.run(20_000, lambda: not node.alive)
        assert node.stopped is not None and "cannot be loaded" in node.stopped and len(refused.paths) == 1
        return
    assert cluster.run(20_000, lambda: len(refused.paths) == 1)
    cluster.run(200)
    assert len(refused.paths) == 1 and node.quorum.deadline_ms() > cluster.time_ms, "it does not spin"
    assert sum("is not loaded until there is a descriptor" in line for line in node.lines) == 1
    cluster.append("last")
    assert cluster.run(20_000, lambda: len(refused.paths) > 2 and cluster.settled()), "the fault ends by itself"
    assert values(node)[-1] == "last" and node.role.begun[-1] == node.role.begun[0]
