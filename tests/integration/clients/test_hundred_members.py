"""A group of a hundred members of KIP-848, Java's and librdkafka's, through all that may happen to it.

Members join, leave and are killed, its coordinator is killed, and its topic grows, while records are produced. A checker
looks at what every member told, and at the committed offsets all along (`tests/integration/hundred_members.py`).
"""

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

import rayft
from tests.integration.answers.dialogue import Broker, Closed, request
from tests.integration.conftest import CONFIG, Java, everywhere
from tests.integration.hundred_members import Line, check_commits, check_owners, check_reads, lines, owners

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).parent.parent / "ConsumerMembers.java"
PARTITIONS, GROWN = 110, 120
EACH = 25
SECONDS_MAX = 180
RECORDS_A_SECOND = 50
GROUP = {
    "group.consumer.min.session.timeout.ms": "20000",
    "group.consumer.session.timeout.ms": "20000",
    "group.consumer.min.heartbeat.interval.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "3000",
}


class Crew:
    """Members in one process."""

    def __init__(self, name: str, out: Path, command: list[str]) -> None:
        self.name = name
        self.out = out
        self.killed_at: int | None = None
        with out.open("w") as file, out.with_suffix(".errors").open("w") as errors:
            self.process = subprocess.Popen(
                [*command, str(EACH), name], stdin=subprocess.PIPE, stdout=file, stderr=errors, text=True, cwd=ROOT
            )

    def leave(self, count: int) -> None:
        """So many of its members leave."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """kill -9 of all its members."""
        self.process.kill()
        self.process.wait()
        self.killed_at = time.monotonic_ns()

    def end(self) -> None:
        """All its members leave, and the process ends."""
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait(SECONDS_MAX)


class Group:
    """All crews, and what they have told."""

    def __init__(self, java: Java, folder: Path, servers: str, name: str) -> None:
        self.crews: list[Crew] = []
        self._folder = folder
        self._given = [servers, name, name]
        self._programs = {
            "java": ["java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-cp", f"{java.libs}/*", str(PROGRAM)],
            "rdkafka": [sys.executable, "-m", "tests.integration.hundred_members"],
        }

    def start(self, program: str, name: str) -> Crew:
        """Twenty-five members more."""
        crew = Crew(name, self._folder / f"{name}.txt", [*self._programs[program], *self._given])
        self.crews.append(crew)
        return crew

    def told(self) -> list[Line]:
        """By all members so far."""
        return [line for crew in self.crews for line in lines(crew.out)]

    def killed(self) -> dict[str, int]:
        """Members that were killed, and when."""
        return {
            f"{crew.name}-{n}": crew.killed_at for crew in self.crews if crew.killed_at is not None for n in range(EACH)
        }

    def shared(self, members: int, partitions: int) -> bool:
        """Whether so many members have all partitions."""
        found = owners(self.told(), self.killed())
        return len(found) == partitions and len(set(found.values())) == members


def await_(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds, with few looks: the members need the processor."""
    end = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < end, f"it does not come that {what}"
        time.sleep(1)


class Produced(threading.Thread):
    """Records come all the time, evenly over the partitions that there are."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__()
        self.partitions = PARTITIONS
        self.stopped = False
        self.failed: list[str] = []
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "linger.ms": 20,
                "enable.idempotence": True,
                "topic.metadata.refresh.interval.ms": 2000,  # nothing else tells it of new partitions
                "log_level": 0,
            }
        )

    def run(self) -> None:
        """Until it is stopped."""
        number = 0
        while not self.stopped:
            for _ in range(RECORDS_A_SECOND // 5):
                number += 1
                with contextlib.suppress(KafkaException):  # it does not know a new partition yet
                    self._producer.produce(
                        self._topic,
                        str(number).encode(),
                        partition=number % self.partitions,
                        on_delivery=lambda error, _: self.failed.append(str(error)) if error else None,
                    )
            self._producer.poll(0)
            time.sleep(0.2)
        assert self._producer.flush(SECONDS_MAX) == 0


class Watched(threading.Thread):
    """The group's committed offsets, looked at all the time, at whichever broker answers for the group."""

    def __init__(self, servers: str, group: str) -> None:
        super().__init__()
        self.stopped = False
        self.seen: list[dict[int, int]] = []
        addresses = [server.rsplit(":", 1) for server in servers.split(",")]
        self._brokers = [Broker((host, int(port)), 10) for host, port in addresses]
        self._request = request("OffsetFetch", groups=[{"group_id": group, "topics": None}])

    def run(self) -> None:
        """Until it is stopped. While there is no coordinator there is nothing to see."""
        while not self.stopped:
            for broker in self._brokers:
                with contextlib.suppress(Closed):
                    self._take(broker.ask("OffsetFetch", 8, self._request).groups[0])
            time.sleep(0.5)
        for broker in self._brokers:
            broker.close()

    def _take(self, group: Any) -> None:
        if not group.error_code and group.topics:
            parts = group.topics[0].partitions
            self.seen.append({one.partition_index: one.committed_offset for one in parts if not one.error_code})


def grown(admin: AdminClient, topic: str) -> bool:
    """Whether the topic has got its new partitions. While a broker is away, three replicas have no place."""
    try:
        admin.create_partitions([NewPartitions(topic, GROWN)])[topic].result(60)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
            raise
        return False
    return True


def ends(admin: AdminClient, topic: str) -> dict[int, int]:
    """The end of every partition."""
    asked = {TopicPartition(topic, n): OffsetSpec.latest() for n in range(GROWN)}
    return {place.partition: found.result(60).offset for place, found in admin.list_offsets(asked).items()}


def line(text: str) -> Line:
    word, at, member, partition, offset = text.split()
    return Line(word, int(at), member, int(partition), int(offset))


HANDED_OVER = ("own 1 a 0 -1", "read 2 a 0 0", "let 3 a 0 -1", "own 4 b 0 -1", "read 5 b 0 1", "left 6 a -1 -1")


def test_the_checker_takes_what_is_right() -> None:
    told = [line(text) for text in HANDED_OVER]
    check_owners(told, {})
    check_reads(told, {0: 2}, {})
    check_commits([{0: 1}, {0: 1, 1: 5}, {0: 2}])
    assert owners(told, ()) == {0: "b"}
    assert owners(told, ("b",)) == {}


@pytest.mark.parametrize(
    ("change", "killed"),
    [
        (("let 3 a 0 -1", "let 5 a 0 -1"), {}),  # it lets go when another has it
        (("let 3 a 0 -1", "left 3 a -1 -1"), {}),  # it never lets go
        (("let 3 a 0 -1", "left 3 a -1 -1"), {"a": 5}),  # it was killed when another had it
        (("read 5 b 0 1", "read 5 c 0 1"), {}),  # somebody reads who does not have it
        (("read 5 b 0 1", "read 5 b 0 2"), {}),  # an offset is passed over
    ],
)
def test_the_checker_finds_each_mistake(change: tuple[str, str], killed: dict[str, int]) -> None:
    told = [line(text.replace(*change)) for text in HANDED_OVER]
    with pytest.raises(AssertionError):
        check_owners(told, killed)
        check_reads(told, {0: 2}, killed)


def test_the_checker_finds_an_offset_that_goes_back() -> None:
    with pytest.raises(AssertionError, match="back to 1 from 2"):
        check_commits([{0: 2}, {1: 4}, {0: 1}])


@pytest.mark.slow
def test_a_hundred_members_through_joins_leaves_kills_a_lost_coordinator_and_growth(
    java: Java, tmp_path: Path, name: str
) -> None:
    with rayft.Cluster(controllers=1, brokers=3, config={**CONFIG, **GROUP}) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result(60)
        everywhere(cluster, name, PARTITIONS)
        group = Group(java, tmp_path, servers, name)
        produced, watched = Produced(servers, name), Watched(servers, name)
        threads: list[Any] = [produced, watched]
        try:
            for thread in threads:
                thread.start()
            for program, crew in (("rdkafka", "a"), ("java", "b"), ("rdkafka", "c"), ("java", "d")):
                group.start(program, crew)
            await_(lambda: group.shared(100, PARTITIONS), "a hundred members share all partitions")
            group.crews[0].leave(10)
            group.crews[1].leave(10)
            await_(lambda: group.shared(80, PARTITIONS), "those who stay have what the others had")
            group.crews[2].kill()
            group.crews[3].kill()
            group.start("rdkafka", "e")
            group.start("java", "f")
            await_(lambda: group.shared(80, PARTITIONS), "others have what killed members had")
            coordinator = admin.describe_consumer_groups([name])[name].result(60).coordinator
            cluster.kill(coordinator.id)
            await_(lambda: grown(admin, name), "the topic grows")
            everywhere(cluster, name, GROWN)
            produced.partitions = GROWN
            await_(lambda: group.shared(80, GROWN), "new partitions have owners, at another coordinator")
            await_(lambda: all(ends(admin, name).values()), "new partitions get records")
            produced.stopped = True
            produced.join(SECONDS_MAX)
            assert not produced.failed
            last = ends(admin, name)

            def all_read() -> bool:
                read = {(line.partition, line.offset) for line in group.told() if line.word == "read"}
                return len(read) == sum(last.values())

            await_(all_read, "every record is read")
            await_(lambda: bool(watched.seen) and watched.seen[-1] == last, "all that was read is committed")
            for crew in group.crews:
                crew.end()
        finally:
            for thread in threads:
                thread.stopped = True
            for thread in threads:
                thread.join(SECONDS_MAX)
            for crew in group.crews:
                crew.process.kill()
                crew.process.wait()
        told = group.told()
        check_owners(told, group.killed())
        check_reads(told, last, group.killed())
        check_commits(watched.seen)
        assert sum(line.word == "left" for line in told) == 100
