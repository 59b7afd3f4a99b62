"""A group of a hundred members of KIP-848 through all that may happen to it: Java's and librdkafka's, and franz-go's.

Members join, leave and are killed, its coordinator is killed, and its topic grows, while records are produced. A checker
looks at what every member told, and at the committed offsets all along (`tests/integration/hundred_members.py`). franz-go's
have a group of their own, so that what it shows is theirs.
"""

import contextlib
import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

import rayft
from tests.integration.answers.dialogue import Broker, Closed, Dialogue, request
from tests.integration.clients.crews import (
    SECONDS_MAX,
    Crews,
    await_,
    franz_go_members,
    java_members,
    rdkafka_members,
)
from tests.integration.conftest import CONFIG, everywhere
from tests.integration.hundred_members import Line, check_commits, check_owners, check_reads, owners

PARTITIONS, GROWN = 110, 120
EACH = 25
RECORDS_A_SECOND = 50
GROUP = {
    "group.consumer.min.session.timeout.ms": "20000",
    "group.consumer.session.timeout.ms": "20000",
    "group.consumer.min.heartbeat.interval.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "3000",
}


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


Command = Callable[[str, str, str], list[str]]
"""The command of a program, for servers, a topic and a group."""


@pytest.fixture(params=["librdkafka and Java", "franz-go"])
def programs(request: pytest.FixtureRequest) -> tuple[Command, Command]:
    """The programs of every other crew. A test is skipped only if its own are missing."""
    if request.param == "franz-go":
        members = functools.partial(franz_go_members, request.getfixturevalue("franz_go"))
        return members, members
    return rdkafka_members, functools.partial(java_members, request.getfixturevalue("java"))


def speakers(servers: str, group: str) -> list[int]:
    """What each member speaks: 1 is KIP-848. Members of the classic protocol may be in such a group too, and are 0."""
    dialogue = Dialogue(servers)
    at = dialogue.coordinator(group)
    (found,) = dialogue.raw("ConsumerGroupDescribe", 1, at, group_ids=[group]).groups
    dialogue.close()
    assert not found.error_code, found
    return [member.member_type for member in found.members]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_hundred_members_through_joins_leaves_kills_a_lost_coordinator_and_growth(
    programs: tuple[Command, Command], tmp_path: Path, name: str
) -> None:
    with rayft.Cluster(controllers=1, brokers=3, config={**CONFIG, **GROUP}) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result(60)
        everywhere(cluster, name, PARTITIONS)
        crews = Crews(tmp_path)
        commands = [program(servers, name, name) for program in programs]
        produced, watched = Produced(servers, name), Watched(servers, name)
        threads: list[Any] = [produced, watched]
        try:
            for thread in threads:
                thread.start()
            first, second, third, fourth = [crews.start(crew, EACH, commands[n % 2]) for n, crew in enumerate("abcd")]
            await_(lambda: crews.shared(100, PARTITIONS), "a hundred members share all partitions")
            assert speakers(servers, name) == [1] * 100
            first.leave(10)
            second.leave(10)
            await_(lambda: crews.shared(80, PARTITIONS), "those who stay have what the others had")
            third.kill()
            fourth.kill()
            for n, crew in enumerate("ef"):
                crews.start(crew, EACH, commands[n])
            await_(lambda: crews.shared(80, PARTITIONS), "others have what killed members had")
            coordinator = admin.describe_consumer_groups([name])[name].result(60).coordinator
            cluster.kill(coordinator.id)
            await_(lambda: grown(admin, name), "the topic grows")
            everywhere(cluster, name, GROWN)
            produced.partitions = GROWN
            await_(lambda: crews.shared(80, GROWN), "new partitions have owners, at another coordinator")
            await_(lambda: all(ends(admin, name).values()), "new partitions get records")
            produced.stopped = True
            produced.join(SECONDS_MAX)
            assert not produced.failed
            last = ends(admin, name)
            await_(lambda: len(crews.read()) == sum(last.values()), "every record is read")
            await_(lambda: bool(watched.seen) and watched.seen[-1] == last, "all that was read is committed")
            crews.end()
        finally:
            for thread in threads:
                thread.stopped = True
            for thread in threads:
                thread.join(SECONDS_MAX)
            crews.stop()
        told = crews.told()
        check_owners(told, crews.killed())
        check_reads(told, last, crews.killed())
        check_commits(watched.seen)
        assert sum(line.word == "left" for line in told) == 100
