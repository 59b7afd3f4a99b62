"""What one turn of a coordinator costs at most in bulk work, in processor time, on simulated disks and links.

`python -m bench.coordinator_turns [--members 2000] [--partitions 50] [--megabytes 10] [--topics 1000] [--offsets 100000]`

One broker leads everything. Its turns have the budget that a real node's have, measured by this thread's processor time, so
that the figures say what the work costs and nothing of other programs on the machine:

- **rebalance**: all members of a group of the classic protocol join again, and the leader hands out the assignment;
- **loading**: a restarted broker, whose logs are open, loads all partitions of `__consumer_offsets`, each with so many
  megabytes of commits;
- **topics that go**: topics with committed offsets are deleted.
"""

import argparse
import statistics
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from actors.broker.coordinators.coordination import partition_of
from actors.host.work.garbage import set_aside
from actors.node.node import Node
from actors.wire.messages import message
from tests.simulator.cluster import Client, Cluster
from tests.simulator.world import Lines, Process, SeededRandom, World

GROUP = "group"
A_COMMIT = 1_000
"""Offsets in one OffsetCommit."""
OFFSET_BYTES = 100
"""About what one committed offset takes in the log."""
WAIT_MS = 600_000


class Timed(Node):
    """A node whose turns are measured."""

    turns: list[float]

    def turn(self, *arguments: Any) -> Any:
        """One turn; its processor time in ms is noted."""
        begin = time.thread_time()
        effects = super().turn(*arguments)
        self.turns.append((time.thread_time() - begin) * 1000)
        return effects


class Broker:
    """A cluster of one controller and one broker."""

    def __init__(self, partitions: int) -> None:
        self.world = World(1)
        config = {"offsets.topic.num.partitions": str(partitions), "offsets.topic.replication.factor": "1"}
        self.cluster = Cluster(self.world, 1, 1, config=config)
        self.process: Process = self.cluster.brokers[1]
        self.turns: list[float] = []
        self.process._made = self._made  # type: ignore[method-assign]
        self.cluster.start()
        assert self.world.run_until(self.cluster.ready, WAIT_MS)
        self.client = Client(self.world, "client")

    def _made(self) -> Node:
        process = self.process
        node = Timed(
            process.config,
            process._storage(process.disk),
            SeededRandom(self.world.random),
            Lines(self.world, process.name),
            time.thread_time_ns,
        )
        node.turns = self.turns
        return node

    def call(self, name: str, version: int, request: Any) -> Any:
        """Ask, and wait for the answer."""
        return self.client.call("b1", name, version, request, WAIT_MS)

    def create(self, topics: int, partitions: int) -> None:
        """Make topics t0, t1 and so on."""
        kind = message("CreateTopicsRequest")
        for number in range(topics):
            topic = kind.CreatableTopic(name=f"t{number}", num_partitions=partitions, replication_factor=1)
            reply = self.call("CreateTopics", 7, kind(topics=[topic], timeout_ms=WAIT_MS))
            assert reply.topics[0].error_code == 0, reply
        self.world.run_for(1_000)

    def coordinate(self) -> None:
        """Wait until the groups have a coordinator."""
        kind = message("FindCoordinatorRequest")
        while self.call("FindCoordinator", 4, kind(coordinator_keys=[GROUP])).coordinators[0].error_code:
            self.world.run_for(200)
        self.world.run_for(2_000)

    def commit(self, group: str, topics: range, partitions: range, offset: int) -> None:
        """Commit offsets for a group that has no members."""
        kind = message("OffsetCommitRequest")
        entry = kind.OffsetCommitRequestPartition
        entries = [entry(partition_index=number, committed_offset=offset) for number in partitions]
        asked = [kind.OffsetCommitRequestTopic(name=f"t{number}", partitions=entries) for number in topics]
        reply = self.call("OffsetCommit", 8, kind(group_id=group, generation_id_or_member_epoch=-1, topics=asked))
        assert not any(one.error_code for topic in reply.topics for one in topic.partitions), reply

    def opened(self) -> bool:
        """Whether the logs are open, which a broker does at once when it starts, before it serves."""
        node: Any = self.process.node
        return bool(node.broker.logs.in_use)

    def measured(self) -> list[float]:
        """The turns since the last time, in ms."""
        turns, self.turns[:] = list(self.turns), []
        set_aside()
        return turns


def rebalanced(members: int) -> list[float]:
    """The turns in which all members of a group join again, since one more has come."""
    broker = Broker(1)
    broker.coordinate()
    crowd = [Client(broker.world, f"member{number}") for number in range(members + 1)]
    first = _joined(broker, crowd[:-1], [""] * members)
    joined = _joined(broker, crowd[:-1], [one.member_id for one in first])
    _synced(broker, crowd[:-1], joined)
    broker.measured()
    again = _joined(broker, crowd, [*(one.member_id for one in joined), ""])
    assert {one.generation_id for one in again} == {joined[0].generation_id + 1}, "all have joined anew"
    _synced(broker, crowd, again)
    return broker.measured()


def _joined(broker: Broker, crowd: list[Client], ids: list[str]) -> list[Any]:
    """All join, the last one before the others."""
    kind = message("JoinGroupRequest")
    answers: dict[int, Any] = {}
    for number in reversed(range(len(crowd))):
        metadata = b"\0\3" + f"subscription of {number}".encode().ljust(120, b".")
        request = kind(
            group_id=GROUP,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id=ids[number],
            protocol_type="consumer",
            protocols=[kind.JoinGroupRequestProtocol(name=name, metadata=metadata) for name in ("range", "sticky")],
        )
        version = 9 if any(ids) == bool(ids[number]) else 3  # 3: nobody is told an id first
        then = lambda reply, number=number: answers.update({number: reply})  # noqa: E731
        crowd[number].ask("b1", "JoinGroup", version, request, then)
        if version == 3:
            broker.world.run_for(100)
    assert broker.world.run_until(lambda: len(answers) == len(crowd), WAIT_MS)
    return [answers[number] for number in range(len(crowd))]


def _synced(broker: Broker, crowd: list[Client], joined: list[Any]) -> None:
    kind = message("SyncGroupRequest")
    told: list[Any] = []
    for client, own in zip(crowd, joined, strict=True):
        given = [
            kind.SyncGroupRequestAssignment(member_id=one.member_id, assignment=b"assignment".ljust(80, b"."))
            for one in own.members
        ]
        request = kind(
            group_id=GROUP,
            generation_id=own.generation_id,
            member_id=own.member_id,
            protocol_type="consumer",
            protocol_name=own.protocol_name,
            assignments=given,
        )
        client.ask("b1", "SyncGroup", 5, request, told.append)
    assert broker.world.run_until(lambda: len(told) == len(crowd), WAIT_MS)
    assert not any(one.error_code for one in told)


def loaded(partitions: int, megabytes: int) -> list[float]:
    """The turns of a broker that starts and loads what groups have committed."""
    broker = Broker(partitions)
    broker.create(1, A_COMMIT)
    broker.coordinate()
    groups: dict[int, str] = {}
    number = 0
    while len(groups) < partitions:
        groups.setdefault(partition_of(f"g{number}", partitions), f"g{number}")
        number += 1
    for offset in range(megabytes * 1_000_000 // (A_COMMIT * OFFSET_BYTES)):
        for group in groups.values():
            broker.commit(group, range(1), range(A_COMMIT), offset)
    broker.process.kill()
    broker.process.start()
    assert broker.world.run_until(broker.opened, WAIT_MS)
    broker.measured()
    assert broker.world.run_until(broker.cluster.ready, WAIT_MS)
    broker.client = Client(broker.world, "another")
    kind = message("OffsetFetchRequest")
    for group in groups.values():
        asked = kind.OffsetFetchRequestGroup(group_id=group, topics=None)
        while broker.call("OffsetFetch", 9, kind(groups=[asked])).groups[0].error_code:
            broker.world.run_for(50)
    return broker.measured()


def forgotten(topics: int, offsets: int) -> list[float]:
    """The turns of a broker while topics go that have committed offsets."""
    broker = Broker(1)
    partitions = offsets // topics
    broker.create(topics, partitions)
    broker.coordinate()
    at_once = max(1, A_COMMIT // partitions)
    for first in range(0, topics, at_once):
        broker.commit(GROUP, range(first, min(first + at_once, topics)), range(partitions), 5)
    broker.measured()
    kind = message("DeleteTopicsRequest")
    gone = [kind.DeleteTopicState(name=f"t{number}") for number in range(topics)]
    reply = broker.call("DeleteTopics", 6, kind(topics=gone, timeout_ms=WAIT_MS))
    assert not any(one.error_code for one in reply.responses)
    broker.world.run_for(120_000)
    return broker.measured()


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.coordinator_turns", description=__doc__.split("\n")[0])
    parser.add_argument("--members", type=int, default=2_000)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--megabytes", type=int, default=10)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--offsets", type=int, default=100_000)
    given = parser.parse_args(arguments)
    table = Table(title="Turns of a coordinator, ms of processor time")
    for heading in ("", "turns", "median", "99th percentile", "longest", "all, s"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, turns in (
        (f"{given.members:,} members of a classic group join again", rebalanced(given.members)),
        (
            f"{given.partitions} partitions of {given.megabytes} MB are loaded",
            loaded(given.partitions, given.megabytes),
        ),
        (f"{given.topics:,} topics with {given.offsets:,} offsets go", forgotten(given.topics, given.offsets)),
    ):
        table.add_row(
            name,
            f"{len(turns):,}",
            f"{statistics.median(turns):.2f}",
            f"{statistics.quantiles(turns, n=100)[98]:.1f}",
            f"{max(turns):.1f}",
            f"{sum(turns) / 1000:.2f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
