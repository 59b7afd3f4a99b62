"""What bulk work costs the active controller: rayft and Apache Kafka in turn, asked by the same client over their own RPCs.

`python -m bench.controller [--sizes 10000 100000] [--kafka-max 100000] [--controllers 1] [--rounds 3] [--only rayft]
[--snapshots usual|never] [--heap 2g] [--out FILE.json] [--svg FILE.svg]`

Each round is a new cluster of one broker that runs and four that only register and send heartbeats (`fake_brokers.py`);
the replicas are on these. All partitions are brought through a circle: a broker is fenced, another one shuts down, the
last one is lost, comes back and leads all; the first comes back into the ISRs, and preferred replicas lead again. One
partition of ten is reassigned. The controller is killed: with one controller it starts again on its log, with three
another one takes over. At last all brokers are lost at once, and the controller is killed once more. A step is over when
the broker that runs tells clients so of the first and of the last topic. Meanwhile a probe asks the active controller for
ApiVersions every 5 ms: its longest wait is the longest pause of the controller. `grows`: the exponent with which a cost
grows with the number of partitions; 1 is proportional, 0 not at all.
"""

import argparse
import gc
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

import rayft
from actors.wire.messages import message
from bench import apache, chart, fake_brokers, frames
from bench.end_to_end import RESULTS, SETTLE_SECONDS, Side
from bench.metadata import FAKES, SIDES, Bench, Probe, exponent, highest

SPARE = 104
"""The broker that reassignments bring in."""
IN_SYNC = (FAKES[0], FAKES[2])
"""The brokers that come back into the ISRs; the one that was shut down stays away."""
AT_ONCE = 16
SINGLE, CONCURRENT, BATCH = 30, 160, 500
ISR_ENTRIES = 2_000
"""Partitions in a request of a leader that brings replicas back into ISRs."""
KAFKA_ELECTS_MAX = 10_000
"""Apache Kafka refuses to elect more leaders in one request than fit into a batch of records."""
REASSIGNED_PART = 10
"""Of so many topics one is reassigned."""
REASSIGNED_ENTRIES = 5_000
"""Partitions in a request for reassignments."""
SECONDS_MAX = 600
POLL_SECONDS = 0.002
PARTITION_EPOCH = 4
"""The partition epoch of all partitions when they have lost each replica and got the last one back."""
SNAPSHOTS: dict[str, dict[str, str]] = {
    "usual": {},
    "never": {"metadata.log.max.record.bytes.between.snapshots": str(1 << 40)},
}
"""Settings of controllers, by what a restart reads: the newest snapshot and the log behind it, or the log alone."""

UNITS = {
    "a topic, one at a time": "ms",
    f"a topic, {AT_ONCE} at a time": "ms",
    f"{BATCH} topics in a request": "ms",
    "all partitions made": "s",
    "a broker in all ISRs is fenced": "s",
    "a broker in all ISRs shuts down": "s",
    "the last broker is lost": "s",
    "the last broker comes back": "s",
    "replicas come back into all ISRs": "s",
    "preferred replicas are elected": "s",
    "one of ten partitions is reassigned": "s",
    "these reassignments are cancelled": "s",
    "the controller is killed, to the next topic": "s",
    "all brokers are lost at once": "s",
    "killed while nobody leads, to the next topic": "s",
    "memory of the active controller before that": "MB",
    "the most that it has had": "MB",
}
"""Unit by line, in the order of the table."""


RESTART_SECONDS = 5
"""How long a controller that was killed has to come back before the next step."""


class Sample(NamedTuple):
    """What was measured once. `pause_ms`: the longest pause of the active controller meanwhile; None: it was not asked."""

    line: str
    cost: float
    pause_ms: float | None = None


class Circle(Bench):
    """A new cluster of one side, and the circle that its partitions are brought through. Invariant: partitions of the same
    number have the same history in all topics, but for topics that are reassigned."""

    def __init__(self, side: Side, per_topic: int, controllers: int) -> None:
        super().__init__(side, per_topic)
        self._controllers = controllers
        cluster_id, supported = fake_brokers.introduced(side.broker)
        ids = (*FAKES, SPARE)
        self._fakes = {id: fake_brokers.FakeBroker(side.name, id, cluster_id, supported) for id in ids}
        self._leader = side.leader()
        for id in ids:
            self._join(id)
        self._extra = 0

    def samples(self, partitions: int) -> Iterator[Sample]:
        """Make the partitions, and bring them through the circle."""
        first, second, last = FAKES
        begin = time.perf_counter()
        with self._probe() as probe:
            self.grow(partitions)
        yield Sample("all partitions made", time.perf_counter() - begin, probe.longest_ms)
        yield from self._few_topics()
        fakes = self._fakes
        yield self._until("a broker in all ISRs is fenced", fakes[first].lose, lambda one: first not in one.isr_nodes)
        yield self._until(
            "a broker in all ISRs shuts down", fakes[second].stop, lambda one: second not in one.isr_nodes
        )
        yield self._until("the last broker is lost", fakes[last].lose, lambda one: one.leader_id == -1)
        yield self._until("the last broker comes back", lambda: self._join(last), lambda one: one.leader_id == last)
        self._join(first)
        asked = self._isr_requests(last)
        yield self._until(
            "replicas come back into all ISRs", lambda: self._ask_all(asked), lambda one: len(one.isr_nodes) == 2
        )
        if self.side.name == SIDES[0] or partitions <= KAFKA_ELECTS_MAX:
            yield self._until(
                "preferred replicas are elected",
                self._elect,
                lambda one: one.replica_nodes[0] in (one.leader_id, second),
            )
        moved, cancelled = self._reassignments([last, first, SPARE]), self._reassignments(None)
        yield self._timed("one of ten partitions is reassigned", lambda: self._ask_all(moved))
        yield self._timed("these reassignments are cancelled", lambda: self._ask_all(cancelled))
        yield Sample("the controller is killed, to the next topic", self._killed())
        for id in (first, last, SPARE):
            self._beat(id)
        yield self._until("all brokers are lost at once", self._lose_all, lambda one: one.leader_id == -1)
        pid = self._pid()
        yield Sample("memory of the active controller before that", apache.resident_bytes(pid) / 1e6)
        yield Sample("the most that it has had", highest(pid) / 1e6)
        yield Sample("killed while nobody leads, to the next topic", self._killed())

    # ---- steps

    def _few_topics(self) -> Iterator[Sample]:
        made = [self._topic_frame() for _ in range(SINGLE)]
        with self._probe() as probe:
            times = frames.latencies(self.side.broker, made, frames.check_created)
        yield Sample("a topic, one at a time", statistics.median(times) * 1000, probe.longest_ms)
        made = [self._topic_frame() for _ in range(CONCURRENT)]
        with self._probe() as probe:
            rate = frames.rate(self.side.broker, made, AT_ONCE, frames.check_created)
        yield Sample(f"a topic, {AT_ONCE} at a time", 1000 / rate, probe.longest_ms)
        one = self._topic_frame(BATCH)
        with self._probe() as probe:
            (took,) = frames.latencies(self.side.broker, [one], frames.check_created)
        yield Sample(f"{BATCH} topics in a request", took * 1000, probe.longest_ms)

    def _until(self, line: str, act: Callable[[], Any], over: Callable[[Any], bool]) -> Sample:
        """Act, and wait until the broker that runs tells clients that it is over."""

        def acted() -> None:
            act()
            end = time.monotonic() + SECONDS_MAX
            while not all(over(one) for topic in self._looked_at() for one in topic.partitions):
                if time.monotonic() > end:
                    raise RuntimeError(f"{self.side.name}: {line}: not in {SECONDS_MAX} s")
                time.sleep(POLL_SECONDS)

        return self._timed(line, acted)

    def _timed(self, line: str, act: Callable[[], Any]) -> Sample:
        with self._probe() as probe:
            begin = time.perf_counter()
            act()
            took = time.perf_counter() - begin
        return Sample(line, took, probe.longest_ms)

    def _killed(self) -> float:
        """Seconds from kill -9 of the active controller to the next topic that is made."""
        cluster: Any = self.side.cluster
        start = cluster.start if self.side.name != SIDES[0] else cluster.start_node
        begin, killed = time.perf_counter(), self._leader
        self.side.kill(killed)
        if self._controllers == 1:
            start(killed)
        end = time.monotonic() + SECONDS_MAX
        asker = frames.Connection(self.side.broker, SECONDS_MAX)
        while True:
            try:
                frames.check_created(asker.exchange(self._topic_frame(brokers=[1])))
                break
            except (RuntimeError, OSError):
                if time.monotonic() > end:
                    raise
                time.sleep(POLL_SECONDS)
        took = time.perf_counter() - begin
        asker.close()
        self._leader = self.side.leader()
        if self._controllers > 1:
            start(killed)  # the next kill needs a majority too
            time.sleep(RESTART_SECONDS)
        return took

    def _lose_all(self) -> None:
        for id in IN_SYNC:
            self._fakes[id].lose()

    def _elect(self) -> None:
        request = message("ElectLeadersRequest")(election_type=0, topic_partitions=None, timeout_ms=SECONDS_MAX * 1000)
        code = self._asker.ask("ElectLeaders", 2, request).error_code
        if code:
            raise RuntimeError(f"{self.side.name}: ElectLeaders: error {code}")

    # ---- requests

    def _isr_requests(self, leader: int) -> list[tuple[str, int, Any]]:
        """The requests in which a leader of all partitions brings the other replicas back into the ISRs."""
        (topic,) = self._described([self.last])
        epochs = {one.partition_index: one.leader_epoch for one in topic.partitions}
        at_once = ISR_ENTRIES // self.per_topic
        parts = [range(begin, min(begin + at_once, self.topics)) for begin in range(0, self.topics, at_once)]
        if self.side.name == SIDES[0]:
            return [("AlterIsr", 0, self._alter_isr(leader, epochs, numbers)) for numbers in parts]
        ids = {one.name: one.topic_id for one in self._described(None)}
        return [("AlterPartition", 3, self._alter_partition(leader, epochs, numbers, ids)) for numbers in parts]

    def _alter_isr(self, leader: int, epochs: dict[int, int], numbers: range) -> Any:
        kind = message("AlterIsrRequest")
        partitions = [
            kind.PartitionData(
                partition_id=one,
                leader=leader,
                leader_epoch=epochs[one],
                isr=list(IN_SYNC),
                current_zk_version=PARTITION_EPOCH,
            )
            for one in range(self.per_topic)
        ]
        topics = [kind.TopicData(topic=f"topic-{number:07}", partitions=partitions) for number in numbers]
        return kind(broker_id=leader, broker_epoch=self._fakes[leader].epoch, topics=topics)

    def _alter_partition(self, leader: int, epochs: dict[int, int], numbers: range, ids: dict[str, bytes]) -> Any:
        kind = message("AlterPartitionRequest")
        members = [kind.BrokerState(broker_id=id, broker_epoch=self._fakes[id].epoch) for id in IN_SYNC]
        partitions = [
            kind.PartitionData(
                partition_index=one,
                leader_epoch=epochs[one],
                new_isr_with_epochs=members,
                partition_epoch=PARTITION_EPOCH,
            )
            for one in range(self.per_topic)
        ]
        topics = [kind.TopicData(topic_id=ids[f"topic-{number:07}"], partitions=partitions) for number in numbers]
        return kind(broker_id=leader, broker_epoch=self._fakes[leader].epoch, topics=topics)

    def _reassignments(self, replicas: list[int] | None) -> list[tuple[str, int, Any]]:
        """The requests that reassign every tenth topic; None: that cancel this."""
        kind = message("AlterPartitionReassignmentsRequest")
        numbers = range(0, self.topics, REASSIGNED_PART)
        at_once = REASSIGNED_ENTRIES // self.per_topic
        asked = []
        for begin in range(0, len(numbers), at_once):
            topics = [
                kind.ReassignableTopic(
                    name=f"topic-{number:07}",
                    partitions=[
                        kind.ReassignablePartition(partition_index=one, replicas=replicas)
                        for one in range(self.per_topic)
                    ],
                )
                for number in numbers[begin : begin + at_once]
            ]
            asked.append(("AlterPartitionReassignments", 0, kind(topics=topics, timeout_ms=SECONDS_MAX * 1000)))
        return asked

    def _ask_all(self, asked: list[tuple[str, int, Any]]) -> None:
        """Ask one after the other, as one client would: a leader at the controller, an operator at a broker."""
        connection = self._asker if asked[0][0] == "AlterPartitionReassignments" else self._to_controller()
        for name, version, request in asked:
            reply = connection.ask(name, version, request)
            rows = [
                one.error_code
                for topic in (reply.responses if name == "AlterPartitionReassignments" else reply.topics)
                for one in topic.partitions
            ]
            if wrong := {code for code in (reply.error_code, *rows) if code}:
                raise RuntimeError(f"{self.side.name}: {name}: errors {wrong}")

    def _topic_frame(self, count: int = 1, brokers: Sequence[int] = FAKES) -> bytes:
        """The frame that makes topics of one partition each, on these brokers."""
        kind = message("CreateTopicsRequest")
        spread = kind.CreatableReplicaAssignment(partition_index=0, broker_ids=list(brokers))
        topics = []
        for _ in range(count):
            self._extra += 1
            topics.append(
                kind.CreatableTopic(
                    name=f"extra-{self._extra:06}", num_partitions=-1, replication_factor=-1, assignments=[spread]
                )
            )
        return frames.frame("CreateTopics", 5, kind(topics=topics, timeout_ms=SECONDS_MAX * 1000))

    def _looked_at(self) -> list[Any]:
        return self._described(["topic-0000000", self.last])

    def _described(self, names: list[str] | None) -> list[Any]:
        kind = message("MetadataRequest")
        topics = None if names is None else [kind.MetadataRequestTopic(name=name) for name in names]
        request = kind(topics=topics, allow_auto_topic_creation=False)
        found: list[Any] = self._asker.ask("Metadata", 12, request).topics
        return found

    # ---- connections

    def _to_controller(self) -> frames.Connection:
        return frames.Connection(self.side.controllers[self._leader], SECONDS_MAX)

    def _probe(self) -> Probe:
        return Probe(self.side.controllers[self._leader])

    def _join(self, id: int) -> None:
        self._fakes[id].join(self._to_controller())

    def _beat(self, id: int) -> None:
        self._fakes[id].beat(self._to_controller())

    def _pid(self) -> int:
        return self.side.pids()[self._leader]


@contextmanager
def running(name: str, controllers: int, config: dict[str, str], heap: str) -> Iterator[Side]:
    """A new cluster of one broker."""
    config = fake_brokers.LONG_LEASES[name] | config
    if name == SIDES[0]:
        with rayft.Cluster(controllers=controllers, brokers=1, config=config) as cluster:
            yield Side(name, cluster)
    else:
        with apache.ApacheKafka(controllers, 1, config, heap=heap) as kafka:
            yield Side(name, kafka)


Found = dict[str, dict[str, dict[int, list[Sample]]]]
"""Samples by line, side and size."""


def measure(given: argparse.Namespace) -> Found:
    """All rounds, in turn."""
    found: Found = {}
    console = Console(stderr=True)
    for size in given.sizes:
        for turn in range(given.rounds):
            sides = [
                side for side in SIDES if given.only in (None, side) and (side == SIDES[0] or size <= given.kafka_max)
            ]
            for side in sides if turn % 2 == 0 else reversed(sides):
                with running(side, given.controllers, SNAPSHOTS[given.snapshots], given.heap) as cluster:
                    circle = Circle(cluster, given.per_topic, given.controllers)
                    for sample in circle.samples(size):
                        found.setdefault(sample.line, {}).setdefault(side, {}).setdefault(size, []).append(sample)
                        pause = "" if sample.pause_ms is None else f", pause {sample.pause_ms:.1f} ms"
                        console.print(f"{side} {size:,}: {sample.line}: {sample.cost:.3f} {UNITS[sample.line]}{pause}")
                        gc.collect()
                        time.sleep(SETTLE_SECONDS)
    return found


def medians(samples: dict[int, list[Sample]], pauses: bool) -> dict[int, float]:
    """Median cost, or pause, by size."""
    found = {}
    for size, of in samples.items():
        values = [one.pause_ms if pauses else one.cost for one in of]
        known = [value for value in values if value is not None]
        if known:
            found[size] = statistics.median(known)
    return found


def table(found: Found, sizes: list[int], pauses: bool) -> Table:
    """Costs, or pauses, as a table."""
    shown = Table(title="Longest pause of the active controller, ms" if pauses else "Bulk work of the controller")
    for heading in ("", "", *(f"{size:,}" for size in sizes), "grows"):
        shown.add_column(heading, justify="left" if not heading else "right")
    for line, unit in UNITS.items():
        named = line if pauses else f"{line}, {unit}"
        for side in SIDES:
            costs = medians(found.get(line, {}).get(side, {}), pauses)
            if costs:
                fitted = exponent(costs)
                cells = [f"{costs[size]:.3g}" if size in costs else "" for size in sizes]
                shown.add_row(named, side, *cells, "" if fitted is None else f"{fitted:.2f}")
                named = ""
    return shown


def main(arguments: list[str]) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.controller", description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--kafka-max", type=int, default=100_000)
    parser.add_argument("--controllers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=SIDES)
    parser.add_argument("--snapshots", choices=SNAPSHOTS, default="usual")
    parser.add_argument("--per-topic", type=int, default=10)
    parser.add_argument("--heap", default="2g", help="of Apache Kafka's nodes")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args(arguments)
    if given.only != SIDES[0] and apache.libs() is None:
        sys.exit(apache.MISSING)
    given.sizes = sorted(given.sizes)
    found = measure(given)
    for pauses in (False, True):
        Console(width=160).print(table(found, given.sizes, pauses))
    out = given.out or RESULTS / f"controller-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(
        json.dumps(
            {
                "machine": platform.platform(),
                "cpus": os.cpu_count(),
                "python": platform.python_version(),
                "kafka": apache.version() if apache.libs() else None,
                "controllers": given.controllers,
                "snapshots": given.snapshots,
                "per_topic": given.per_topic,
                "rounds": given.rounds,
                "lines": {
                    line: {
                        side: {
                            "unit": UNITS[line],
                            "medians": medians(samples, False),
                            "exponent": exponent(medians(samples, False)),
                            "longest pause, ms": medians(samples, True),
                        }
                        for side, samples in sides.items()
                    }
                    for line, sides in found.items()
                },
            },
            indent=1,
        )
    )
    if given.svg is not None:
        rows = [
            (f"{line}, {unit}: {side} {size:,}", costs[size])
            for line, unit in UNITS.items()
            for side in SIDES
            if unit == "s"
            for costs in [medians(found.get(line, {}).get(side, {}), False)]
            for size in costs
        ]
        given.svg.write_text(chart.bars("Seconds of bulk work", rows))
    print(out)


if __name__ == "__main__":
    main(sys.argv[1:])
