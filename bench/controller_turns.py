"""What one turn of the active controller costs at most in bulk work, in processor time and without sockets or disks.

`python -m bench.controller_turns [--partitions 500000]`

The role runs as its tests run it (`tests/unit/node/roles/controller/test_role.py`); everything is committed at once. So the
figures say what the decisions, the records and the image cost, and nothing of other programs on the machine.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from actors.broker.replication.alter_isr_requests import ENTRIES_MAX
from actors.controller.partitions.reassignments import alter_partition_reassignments
from actors.controller.partitions.topics import create_topics
from actors.controller.portions import REASSIGNED
from actors.host.work.garbage import set_aside
from actors.node.runtime.answers import Sliced
from actors.node.runtime.calls import Listener
from actors.wire.limits import entries_max
from actors.wire.messages import decode_exact, encode, message
from tests.served import TABLE
from tests.unit.node.roles.controller.test_role import Host, call, joined, topic

PER_TOPIC = 5_000
MOVED = 100_000
"""Partitions that one request moves."""
TROUBLED = 50_000
"""Partitions that are moved, or have no leader, when another controller takes over."""
LONGEST = 24_900
"""Partitions of the longest AlterIsr that is taken: each counts once, and its one member."""
ALTER_ISR = TABLE[Listener.CONTROLLER, 56].handler


class Row:
    """One line of the table: turns in which bulk work went on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.turns: list[float] = []

    def run(self, act: Callable[[], Any]) -> None:
        """Do something that is one turn."""
        begin = time.thread_time()
        act()
        self.turns.append((time.thread_time() - begin) * 1000)

    def drain(self, host: Any) -> None:
        """Turn until no bulk work is left."""
        while host.controller._pending():
            self.run(host.turn)


def filled(brokers: range, partitions: int, factor: int) -> Any:
    """A controller with topics of 5,000 partitions on these brokers."""
    host: Any = Host()
    host.lead()
    joined(host, *brokers)
    for number in range(partitions // PER_TOPIC):
        host.controller.submit(create_topics, topic(f"t{number}", PER_TOPIC, factor), call(19))
        host.turn()
    host.quorum.log.clear()
    return host


def lost(host: Any, *brokers: int) -> None:
    """The listeners of brokers refuse."""
    for broker in brokers:
        host.controller.broker_link_lost(broker)
        host.channels.probes.pop()[1](True)


def move_all(host: Any, brokers: range, row: Row) -> None:
    """One request gives each partition another first replica, in the portions in which it is cut."""
    image, kind = host.controller.image, message("AlterPartitionReassignmentsRequest")
    topics = []
    for topic_row in image.topics():
        entries = []
        for number, partition in enumerate(image.topic_partitions(topic_row)):
            replicas = image.replicas(partition)
            spare = next(broker for broker in brokers if broker not in replicas)
            entries.append(kind.ReassignablePartition(partition_index=number, replicas=[spare, *replicas[1:]]))
        topics.append(kind.ReassignableTopic(name=image.topic_name(topic_row), partitions=entries))
    answer: Any = None
    set_aside()

    def begin() -> None:
        nonlocal answer
        answer = host.controller.submit(alter_partition_reassignments, kind(topics=topics), call(45), REASSIGNED)

    def go_on() -> None:
        nonlocal answer
        answer = answer.again()
        host.turn()

    row.run(begin)
    while isinstance(answer, Sliced):
        row.run(go_on)


def asks(host: Any, leader: int, isr: tuple[int, ...], row: Row, decode: Row, most: int = 0) -> None:
    """A leader asks for this ISR of all partitions that it leads, in requests as long as a broker's (`most` 0), or in one
    request of at most so many partitions. A turn: a request is decoded, decided in part, or its answer encoded."""
    image = host.controller.image
    kind = message("AlterIsrRequest")
    led = [int(one) for one in image.rows_led_by(leader).data]
    a_request = most or ENTRIES_MAX // (2 + 2 * len(isr))
    set_aside()
    for begin in range(0, min(most or len(led), len(led)), a_request):
        topics: dict[int, Any] = {}
        for one in led[begin : begin + a_request]:
            topic_row = image.topic_of(one)
            if topic_row not in topics:
                topics[topic_row] = kind.TopicData(
                    topic=image.topic_name(topic_row), topic_id=image.topic_id(topic_row), partitions=[]
                )
            entry = kind.PartitionData(
                partition_id=image.number(one),
                leader=leader,
                leader_epoch=image.leader_epoch(one),
                isr=list(isr),
                current_zk_version=image.partition_epoch(one),
                isr_broker_epochs=[] if most else [image.broker(member).epoch for member in isr],
            )
            topics[topic_row].partitions.append(entry)
        frame = encode(kind(broker_id=leader, broker_epoch=image.broker(leader).epoch, topics=list(topics.values())), 0)
        one_request(host, kind, frame, row, decode)


def one_request(host: Any, kind: Any, frame: bytes, row: Row, decode: Row) -> None:
    """The turns of one AlterIsr, which is granted as a whole."""
    request: Any = None
    answer: Any = None

    def decoded() -> None:
        nonlocal request
        request = decode_exact(kind, 0, frame, 0, entries_max("AlterIsr"))

    def begin() -> None:
        nonlocal answer
        answer = ALTER_ISR(host.context, request, call(56))
        host.turn()

    def go_on() -> None:
        nonlocal answer
        answer = answer.again()
        host.turn()

    decode.run(decoded)
    row.run(begin)
    while isinstance(answer, Sliced):
        row.run(go_on)
    assert not any(one.error_code for topic in answer.reply.topics for one in topic.partitions)
    decode.run(lambda: encode(answer.reply, 0))


def taken_over(host: Any, row: Row) -> None:
    """Another controller takes over, with the same image."""
    host.controller.lost()
    row.run(lambda: host.lead(epoch=2))
    row.drain(host)


def measure(partitions: int) -> list[Row]:
    """All lines."""
    rows = []

    def line(name: str) -> Row:
        rows.append(Row(name))
        return rows[-1]

    host = filled(range(1, 4), partitions, 3)
    for name, gone in (("a broker in all ISRs is fenced", 1), ("another one", 2), ("the last one", 3)):
        lost(host, gone)
        line(name).drain(host)
    joined(host, 3)
    line("the last one comes back").drain(host)
    host = filled(range(1, 4), partitions, 3)
    lost(host, 1, 2, 3)
    line("all brokers are lost at once").drain(host)
    joined(host, 1, 2, 3)
    taken_over(host, line("takeover as they come back, hardly any has a leader"))

    host = filled(range(1, 4), partitions, 3)
    shrink, decode = line("a leader of a third shrinks all ISRs"), line("  its requests decoded, answers encoded")
    asks(host, 1, (1, 2), shrink, decode)
    asks(host, 1, (1, 2, 3), line("and expands them"), decode)
    asks(host, 1, (1,), line("the longest AlterIsr that is taken"), decode, most=LONGEST)

    brokers = range(1, 8)
    move_all(filled(brokers, MOVED, 3), brokers, line(f"{MOVED:,} partitions are reassigned"))
    host = filled(range(1, 151), TROUBLED, 2)
    image, kind = host.controller.image, message("AlterPartitionReassignmentsRequest")
    for name in [image.topic_name(row) for row in image.topics()]:
        first = [image.replicas(row)[0] for row in image.topic_partitions(image.topic(name))]
        moved = [
            kind.ReassignablePartition(partition_index=number, replicas=[(broker + 70) % 150 + 1, broker])
            for number, broker in enumerate(first)
        ]
        request = kind(topics=[kind.ReassignableTopic(name=name, partitions=moved)])
        host.controller._run(alter_partition_reassignments, request)
        host.turn()
    taken_over(host, line(f"takeover, 150 brokers and {TROUBLED:,} reassignments"))

    host = filled(range(1, 101), TROUBLED, 2)
    joined(host, *range(101, 151))
    host.controller.submit(create_topics, topic("more", 1_000, 1), call(19))
    host.turn()
    lost(host, *range(1, 101))
    line("100 brokers are lost at once").drain(host)
    taken_over(host, line(f"takeover, {TROUBLED:,} partitions without a leader"))
    return rows


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.controller_turns", description=__doc__.split("\n")[0])
    parser.add_argument("--partitions", type=int, default=500_000)
    given = parser.parse_args(arguments)
    table = Table(title=f"Turns of the controller, {given.partitions:,} partitions")
    for heading in ("", "turns", "longest, ms", "all, ms"):
        table.add_column(heading, justify="right" if heading else "left")
    for row in measure(given.partitions):
        table.add_row(row.name, f"{len(row.turns):,}", f"{max(row.turns):.2f}", f"{sum(row.turns):.1f}")
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
