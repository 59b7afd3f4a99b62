"""How long a node's loop is held while a snapshot of the metadata is loaded, in processor time and without sockets.

`python -m bench.snapshot_turns [--partitions 1000000] [--per-topic 10] [--replicas 50000]`

Whole nodes in the simulator's world (`tests/simulator/world.py`), on disks in memory. A controller starts from a snapshot; a
broker and a controller that does not vote begin with nothing and are sent it; they are cut off while the log grows, and are
sent another one while they serve. At last a broker that hosts many replicas compares them with a snapshot. The pause is the
longest turn of a node's loop: a client that asks waits for it.
"""

import argparse
import random
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from actors.host.work.garbage import set_aside
from actors.metadata import batches
from actors.metadata.dialects import FORMAT
from actors.metadata.image import Image
from actors.metadata.ops import ConfigSet, FeatureSet, PartitionsSet, TopicSet
from actors.metadata.snapshot import encode
from actors.node.node import Node
from actors.node.runtime.storage import Storage
from actors.raft import SnapshotId
from actors.settings.node_config import node_config
from bench.broker_turns import assigned, taken
from tests.simulator.world import Process, World
from tests.unit.node.roles.broker.lab import Lab

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
HOST = "127.0.0.1"
LOG = "__kafka_metadata-0"
SETTINGS = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "internal.metadata.log.segment.bytes": "65536",
    "metadata.log.max.record.bytes.between.snapshots": str(1 << 40),
    "log.dirs": "memory",
}
BROKERS = 12


class Row:
    """One line of the table: turns of one node while it loads."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.turns: list[float] = []
        self.start = 0.0
        """What the start took before the first turn."""


class Timed(Process):
    """A node whose turns are timed. `row`: where they are noted; None: nowhere."""

    row: Row | None = None

    def _made(self) -> Node:
        node = super()._made()
        turn, recover = node.turn, node.quorum.recover

        def recovered() -> None:
            begin = time.thread_time()
            recover()
            if self.row is not None:
                self.row.start = (time.thread_time() - begin) * 1000

        def timed(*given: Any) -> Any:
            begin = time.thread_time()
            try:
                return turn(*given)
            finally:
                if self.row is not None:
                    self.row.turns.append((time.thread_time() - begin) * 1000)

        node.quorum.recover = recovered  # type: ignore[method-assign]
        node.turn = timed  # type: ignore[method-assign]
        return node


def filled(partitions: int, per_topic: int) -> Image:
    """Metadata of topics with three replicas a partition, in the order in which they are made."""
    image, random_bytes = Image(), random.Random(47).randbytes
    image.replay(0, FeatureSet(FORMAT, 2))
    numbers = range(per_topic)
    for number in range(partitions // per_topic):
        topic_id = random_bytes(16)
        replicas = [[(number + one + place) % BROKERS + 1000 for place in range(3)] for one in numbers]
        image.replay(image.next_offset, TopicSet(f"topic-{number:07}-of-a-cluster", topic_id))
        leaders, none = [one[0] for one in replicas], [0] * per_topic
        made = PartitionsSet(
            topic_id, numbers, replicas, replicas, leader=leaders, leader_epoch=none, partition_epoch=none
        )
        image.replay(image.next_offset, made)
        image.commit(image.next_offset)
    return image


class Bench:
    """The world: controller 1, which votes; controller 2, which does not; broker 101."""

    def __init__(self, partitions: int, per_topic: int) -> None:
        self.world = World(47)
        connect = {"controller.connect": f"1@{HOST}:9001"}
        self.nodes = {id: self._node(id, connect | self._listener(id)) for id in (1, 2, 101)}
        image = filled(partitions, per_topic)
        voters = batches.Voters((batches.Voter(1, bytes([1]) * 16, (("CONTROLLER", HOST, 9001),)),))
        whole = b"".join(map(bytes, encode(image.pin(), 1, 2, 5, voters)))
        self.size = len(whole)
        name = f"{image.next_offset:020}-{1:010}.checkpoint"
        self.nodes[1].disk.replace(f"{LOG}/{name}", whole)

    @staticmethod
    def _listener(id: int) -> dict[str, str]:
        if id > 100:
            return {"process.roles": "broker", "broker.id": str(id), "listeners": f"PLAINTEXT://{HOST}:{9000 + id}"}
        return {
            "process.roles": "controller", "controller.id": str(id), "controller.listeners": "CONTROLLER",
            "listeners": f"CONTROLLER://{HOST}:{9000 + id}",
        }  # fmt: skip

    def _node(self, id: int, settings: dict[str, str]) -> Timed:
        config = node_config(SETTINGS | settings)
        made = Timed(
            self.world,
            f"n{id}",
            config,
            lambda disk: Storage(CLUSTER_ID, "drafts", 2, [disk], [bytes([id]) * 16], ["memory"]),
        )
        self.world.add(made)
        return made

    def run(self, row: str, id: int, until: Any, first: Any = lambda: None) -> Row:
        """Let the world go on until a node has loaded what it is to load."""
        node = self.nodes[id]
        set_aside()
        node.row = found = Row(row)
        first()
        assert self.world.run_until(until, 600_000), row
        self.world.run_for(100)
        node.row = None
        return found

    def loads(self, id: int) -> int:
        """How many snapshots the node of that id has loaded."""
        node = self.nodes[id].node
        return 0 if node is None else node.quorum.snapshots_loaded

    def grow(self) -> None:
        """The log of the controller grows, and begins at a snapshot that the others have not got."""
        role: Any = self.nodes[1].node.controller  # type: ignore[union-attr]
        store = role._quorum.store
        for number in range(4):
            self.nodes[1].input(
                lambda number=number: role._write([ConfigSet(4, "", "log.retention.ms", str(number + 9))], False)
            )
            self.world.run_for(100)
            self.nodes[1].input(role.snapshot)
            end = role.image.next_offset
            assert self.world.run_until(lambda end=end: store.checkpoints.latest.end_offset >= end, 60_000)
            self.world.run_for(100)


def measured(partitions: int, per_topic: int) -> tuple[list[Row], int]:
    """All lines, and the size of the snapshot."""
    bench = Bench(partitions, per_topic)
    one, two, broker = (bench.nodes[id] for id in (1, 2, 101))
    rows = [bench.run("a controller starts", 1, lambda: one.node.controller.active, one.start)]  # type: ignore[union-attr]
    rows.append(bench.run("a broker without metadata", 101, lambda: bench.loads(101) == 1, broker.start))
    rows.append(bench.run("a controller without metadata", 2, lambda: bench.loads(2) == 1, two.start))
    for node in (two, broker):
        bench.world.block("n1", node.name)
    bench.grow()
    rows.append(bench.run("a broker that was cut off", 101, lambda: bench.loads(101) == 2, bench.world.heal))
    bench.world.run_until(lambda: bench.loads(2) == 2, 600_000)
    broker.kill()
    rows.append(bench.run("a broker starts", 101, lambda: bench.loads(101) == 1, broker.start))
    for node in (two, broker):
        bench.world.block("n1", node.name)
    bench.grow()
    rows.append(bench.run("a controller that was cut off", 2, lambda: bench.loads(2) == 3, bench.world.heal))
    return rows, bench.size


def compared(replicas: int) -> Row:
    """A broker that hosts so many replicas takes a snapshot over and compares them with it."""
    lab, row = Lab(1), Row(f"a broker with {replicas:,} replicas")
    assigned(lab, replicas)
    taken(lab)
    broker = lab.broker(1)
    image = broker.cache.image
    whole, end = b"".join(map(bytes, encode(image.pin(), 1, 2, 5, None))), image.next_offset
    del image
    for _ in broker.loading(whole, SnapshotId(end, 1)):
        pass
    set_aside()

    def turn(act: Any) -> None:
        begin = time.thread_time()
        act()
        row.turns.append((time.thread_time() - begin) * 1000)

    turn(broker.loaded)
    while broker.applier.compares:
        turn(lab.nodes[1].turn)
    return row


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.snapshot_turns", description=__doc__.split("\n")[0])
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--per-topic", type=int, default=10)
    parser.add_argument("--replicas", type=int, default=50_000)
    given = parser.parse_args(arguments)
    rows, size = measured(given.partitions, given.per_topic)
    rows.append(compared(given.replicas))
    table = Table(title=f"{given.partitions:,} partitions, a snapshot of {size / (1 << 20):.0f} MB")
    for heading in ("", "before the loop, ms", "turns", "longest, ms", "next, ms", "all, ms"):
        table.add_column(heading, justify="right" if heading else "left")
    for row in rows:
        longest = sorted(row.turns)[-2:]
        table.add_row(
            row.name,
            f"{row.start:.0f}",
            f"{len(row.turns):,}",
            f"{longest[1]:.1f}",
            f"{longest[0]:.1f}",
            f"{row.start + sum(row.turns):,.0f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
