"""Members of KIP-848 that others have written: librdkafka's and Java's, unmodified, with `group.protocol=consumer`."""

import threading
import time
from collections import Counter
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.integration.conftest import everywhere, until

SECONDS = 60
TOOLS = "org.apache.kafka.tools."


class Member:
    """A consumer in a thread. `read` counts what it has read, `owned` is what it may read now."""

    def __init__(self, servers: str, topic: str, group: str, **settings: Any) -> None:
        self.read: Counter[bytes] = Counter()
        self.owned: set[int] = set()
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned |= {one.partition for one in partitions}
        consumer.incremental_assign(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {one.partition for one in partitions}
        consumer.incremental_unassign(partitions)

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.read[message.value()] += 1
        self._consumer.close()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(SECONDS)


def produce(servers: str, topic: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for value in values:
        producer.produce(topic, str(value).encode(), key=str(value).encode())
    assert producer.flush(SECONDS) == 0


def all_owned(members: list[Member], partitions: int) -> bool:
    owned = sorted(number for member in members for number in member.owned)
    assert len(owned) == len(set(owned)), "a partition has one owner"
    return owned == list(range(partitions)) and all(member.owned for member in members)


def test_librdkafkas_members_share_a_topic_that_grows_while_they_come_and_go(cluster: Any, name: str) -> None:
    servers = cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, 6, 3)])[name].result(SECONDS)
    everywhere(cluster, name, 6)
    members = [Member(servers, name, name)]
    try:
        produce(servers, name, range(200))
        until(lambda: all_owned(members, 6))
        members += [Member(servers, name, name) for _ in range(2)]
        until(lambda: all_owned(members, 6))
        admin.create_partitions([NewPartitions(name, 8)])[name].result(SECONDS)
        until(lambda: all_owned(members, 8))
        produce(servers, name, range(200, 400))
        gone = members.pop()
        gone.close()
        until(lambda: all_owned(members, 8))
        produce(servers, name, range(400, 600))
        every = [*members, gone]
        until(lambda: set().union(*(member.read for member in every)) == {str(n).encode() for n in range(600)})
        again = sum((member.read for member in every), Counter())
        assert max(again.values()) == 1, "who lets go of a partition has committed what it has read"
        listed = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}, request_timeout=SECONDS)
        listed = listed.result(SECONDS).valid
        assert [(one.group_id, one.state) for one in listed if one.group_id == name] == [
            (name, ConsumerGroupState.STABLE)
        ]
    finally:
        for member in members:
            member.close()
    until(lambda: admin.describe_consumer_groups([name])[name].result(SECONDS).state is ConsumerGroupState.EMPTY)


def test_a_static_member_of_librdkafka_comes_back_to_what_it_had(cluster: Any, name: str) -> None:
    servers = cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, 4, 3)])[name].result(SECONDS)
    everywhere(cluster, name, 4)
    members = [Member(servers, name, name, group_instance_id=id) for id in ("one", "two")]
    try:
        until(lambda: all_owned(members, 4))
        had = set(members[0].owned)
        members[0].close()
        time.sleep(2)
        assert members[1].owned == set(range(4)) - had, "nobody else gets its partitions while it is away"
        members[0] = Member(servers, name, name, group_instance_id="one")
        until(lambda: all_owned(members, 4))
        assert members[0].owned == had
    finally:
        for member in members:
            member.close()


def test_javas_console_consumer_and_group_tool(java: Any, cluster: Any, name: str) -> None:
    def tool(main: str, *arguments: str, **options: Any) -> str:
        return str(java.run(main, "--bootstrap-server", cluster.bootstrap_servers, *arguments, **options))

    tool(f"{TOOLS}TopicCommand", "--create", "--topic", name, "--partitions", "3", "--replication-factor", "3")
    everywhere(cluster, name, 3)
    tool(f"{TOOLS}ConsoleProducer", "--topic", name, stdin="".join(f"v{n}\n" for n in range(20)))
    member = ("--topic", name, "--group", name, "--from-beginning", "--command-property", "group.protocol=consumer")
    first = tool(f"{TOOLS}consumer.ConsoleConsumer", *member, "--max-messages", "8").split()
    then = tool(f"{TOOLS}consumer.ConsoleConsumer", *member, "--max-messages", "12").split()
    assert sorted(first + then) == sorted(f"v{n}" for n in range(20))
    groups = f"{TOOLS}consumer.group.ConsumerGroupCommand"
    assert [name, "Consumer"] in [line.split() for line in tool(groups, "--list", "--type").splitlines()]
    assert [name, "Empty"] in [line.split() for line in tool(groups, "--list", "--state").splitlines()]
    moved = ("--reset-offsets", "--group", name, "--topic", name, "--to-offset", "0", "--execute")
    assert name in tool(groups, *moved)
    assert "successful" in tool(groups, "--delete-offsets", "--group", name, "--topic", name).lower()
    assert "successful" in tool(groups, "--delete", "--group", name)
    entity = ("--entity-type", "groups", "--entity-name", name)
    tool("kafka.admin.ConfigCommand", "--alter", *entity, "--add-config", "consumer.heartbeat.interval.ms=6000")
    until(lambda: "heartbeat.interval.ms=6000" in tool("kafka.admin.ConfigCommand", "--describe", *entity))
