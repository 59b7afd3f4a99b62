"""What one turn of a broker costs at most while it takes many replicas at once, in processor time and without sockets.

`python -m bench.broker_turns [--replicas 750000] [--brokers 1]`

Brokers run as their tests run them (`tests/unit/node/roles/broker/lab.py`), on disks in memory. The metadata that assigns
the replicas is there when the first turn begins, as for a broker whose controller has just made the topics. What a replica
takes in memory includes its share of the metadata. `idle` is what a minute without requests costs then.
"""

import argparse
import gc
import os
import statistics
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from actors.host.work.garbage import set_aside
from actors.metadata import ops
from actors.metadata.batches import BatchWriter
from actors.metadata.dialects import dialect
from actors.ports import Now
from bench import apache
from tests.unit.node.roles.broker.lab import Lab

PER_TOPIC = 5_000
IDLE_MS = 60_000


def assigned(lab: Lab, replicas: int) -> None:
    """Commit the topics; no broker has seen them yet."""
    brokers = len(lab.nodes)
    for number in range(replicas // PER_TOPIC):
        topic_id = number.to_bytes(16, "big")
        lists = [[(first + place) % brokers + 1 for place in range(brokers)] for first in range(PER_TOPIC)]
        writer = BatchWriter(lab.next_offset, 1, lab.now.wall_ms)
        changes = (ops.TopicSet(f"t{number}", topic_id), ops.PartitionsSet(topic_id, range(PER_TOPIC), lists, lists))
        dialect(2).encode(changes, writer)
        for batch in writer.finish():
            lab.log.append(batch)
            lab.next_offset = batch.last_offset + 1


def turn(lab: Lab, node: Any) -> float:
    """One turn of a broker with what it replays in it; ms of processor time."""
    begin = time.thread_time()
    broker = node.broker
    while lab.seen[node.id] < len(lab.log):
        broker.replay(lab.log[lab.seen[node.id]])
        lab.seen[node.id] += 1
        if broker.full:
            break
    broker.committed(lab.next_offset)
    node.turn()
    return (time.thread_time() - begin) * 1000


def taken(lab: Lab) -> list[float]:
    """Let all brokers take what is assigned; ms of each turn."""
    turns = []
    while any(lab.seen[node.id] < len(lab.log) or node.arrives for node in lab.nodes.values()):
        turns += [turn(lab, node) for node in lab.nodes.values()]
        if len(lab.nodes) > 1:
            lab.turn()
        else:
            later, lab.later = lab.later, []
            for job in later:
                job()
    return turns


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.broker_turns", description=__doc__.split("\n")[0])
    parser.add_argument("--replicas", type=int, default=750_000)
    parser.add_argument("--brokers", type=int, default=1, help="each has a replica of each partition")
    given = parser.parse_args(arguments)
    lab = Lab(given.brokers)
    assigned(lab, given.replicas)
    set_aside()
    before = apache.resident_bytes(os.getpid())
    turns = taken(lab)
    grown = (apache.resident_bytes(os.getpid()) - before) / given.replicas / given.brokers
    begin = time.thread_time()
    for _ in range(IDLE_MS // 500):
        lab.now = Now(lab.now.mono_ms + 500, lab.now.wall_ms + 500)
        lab.turn()
    idle = (time.thread_time() - begin) / given.brokers / (IDLE_MS / 1000)
    gc.collect()
    table = Table(title=f"A broker takes {given.replicas:,} replicas, {given.brokers} brokers")
    for heading in (
        "turns",
        "median, ms",
        "longest, ms",
        "all, s",
        "a replica, us",
        "a replica, bytes",
        "idle, % of a core",
    ):
        table.add_column(heading, justify="right")
    table.add_row(
        f"{len(turns):,}",
        f"{statistics.median(turns):.2f}",
        f"{max(turns):.1f}",
        f"{sum(turns) / 1000:.2f}",
        f"{sum(turns) * 1000 / given.replicas / given.brokers:.1f}",
        f"{grown:,.0f}",
        f"{100 * idle:.2f}",
    )
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
