"""franz-go, unmodified, with its defaults: every codec, and groups of both protocols whose members come and go.

`test_hundred_members.py` has its members in a group of a hundred.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, ConsumerGroupType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.integration.clients.crews import Crews, franz_go_members
from tests.integration.conftest import everywhere, until
from tests.integration.hundred_members import check_owners, check_reads

pytestmark = pytest.mark.timeout(900)  # the first test may wait until Go has compiled its own library
SECONDS = 60
PARTITIONS = 6
RECORDS = 300


class FranzGo:
    """Runs the program against the cluster."""

    def __init__(self, program: Path, servers: str) -> None:
        self._program = program
        self._servers = servers

    def run(self, command: str, *arguments: object) -> str:
        """Run a command until it ends. Returns what it tells."""
        done = subprocess.run(
            [self._program, command, self._servers, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert not done.returncode, done.stderr
        return done.stdout


@pytest.fixture
def franz(franz_go: Path, cluster: Any) -> FranzGo:
    return FranzGo(franz_go, cluster.bootstrap_servers)


@pytest.fixture
def admin(cluster: Any) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def create(cluster: Any, admin: AdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(SECONDS)
    everywhere(cluster, topic, PARTITIONS)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read_back(franz: FranzGo, cluster: Any, admin: AdminClient, name: str, codec: str) -> None:
    create(cluster, admin, name)
    franz.run("produce", name, RECORDS, codec)
    assert sorted(franz.run("consume", name, RECORDS).splitlines()) == sorted(f"k{n} v{n}" for n in range(RECORDS))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_share_a_topic_while_they_come_and_go(
    franz: FranzGo, franz_go: Path, cluster: Any, admin: AdminClient, tmp_path: Path, name: str, protocol: str
) -> None:
    create(cluster, admin, name)
    crews = Crews(tmp_path)
    command = franz_go_members(franz_go, cluster.bootstrap_servers, name, name, protocol)
    try:
        first = crews.start("a", 2, command)
        until(lambda: crews.shared(2, PARTITIONS))
        franz.run("produce", name, RECORDS, "snappy")
        crews.start("b", 1, command)
        until(lambda: crews.shared(3, PARTITIONS))
        first.leave(1)
        until(lambda: crews.shared(2, PARTITIONS))
        franz.run("produce", name, RECORDS, "snappy")
        until(lambda: len(crews.read()) == 2 * RECORDS)
        kind = ConsumerGroupType.CONSUMER if protocol == "consumer" else ConsumerGroupType.CLASSIC
        listed = admin.list_consumer_groups(types={kind}, request_timeout=SECONDS).result(SECONDS).valid
        assert name in [one.group_id for one in listed]
        crews.end()
    finally:
        crews.stop()
    asked = {TopicPartition(name, n): OffsetSpec.latest() for n in range(PARTITIONS)}
    ends = {place.partition: found.result(SECONDS).offset for place, found in admin.list_offsets(asked).items()}
    told = crews.told()
    check_owners(told, {})
    check_reads(told, ends, {})
    assert sum(line.word == "read" for line in told) == sum(ends.values()), "who lets go has committed what it has read"
    wanted = ConsumerGroupTopicPartitions(name)
    committed = admin.list_consumer_group_offsets([wanted])[name].result(SECONDS).topic_partitions
    assert {one.partition: one.offset for one in committed} == ends
