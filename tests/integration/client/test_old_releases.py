"""The client against Apache Kafka 2.8.2 and 3.9.1, which have ZooKeeper: low versions of every request."""

from typing import Any

import pytest

from actors.client.errors import ClientError
from actors.client.operations import cluster, configs, groups, offsets, topics
from actors.client.operations.configs import Kind, Op
from actors.client.operations.fetching import Fetcher
from actors.client.operations.producing import Producer
from actors.host.client.blocking import connect
from tests.integration.bridge.zookeeper_mode import COORDINATORS, RELEASES, ZooKeeper, ZooKeeperBrokers
from tests.integration.client.batches import batch, committed, read_to
from tests.integration.conftest import until

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]
ALONE = COORDINATORS | {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.ms": "-1",
}


@pytest.mark.parametrize("release", RELEASES)
def test_every_operation(release: str, name: str) -> None:
    with ZooKeeper() as zookeeper, ZooKeeperBrokers(zookeeper, release, brokers=2, config=ALONE) as kafka:
        with connect(kafka.bootstrap_servers) as client:
            assert client.run(topics.create([topics.NewTopic(name, 2, 2)])) == {name: None}
            parts = [(name, 0), (name, 1)]
            producer = Producer(client.config)
            client.run(producer.send([(part, batch(b"a", b"b")) for part in parts for _ in range(3)]))
            found = read_to(client, Fetcher(client.config, dict.fromkeys(parts, 0)), dict.fromkeys(parts, 6))
            assert found == {part: [b"a", b"b"] * 3 for part in parts}
            assert client.run(offsets.list_offsets({(name, 0): 1_700_000_000_000}))[name, 0].offset == 0
            assert client.run(offsets.epoch_ends({(name, 0): 0}))[name, 0].end_offset == 6
            until(lambda: client.run(groups.commit("g", {(name, 0): 3})) == {(name, 0): None})
            assert client.run(groups.committed("g"))[name, 0].offset == 3
            assert client.run(groups.describe("g")).type == "classic"
            assert "g" in client.run(groups.list_groups())[0]
            topic = Kind.TOPIC, name
            assert client.run(configs.alter({topic: {"retention.ms": (Op.SET, "88")}})) == {topic: None}
            assert client.run(configs.describe([topic]))[topic]["retention.ms"].value == "88"
            assert sorted(client.run(cluster.describe_cluster()).brokers) == [1, 2]
            assert sorted(client.run(cluster.describe_log_dirs())) == [1, 2]
            with pytest.raises(ClientError, match=r"DescribeQuorum|quorum"):
                client.run(cluster.describe_quorum())
            assert client.run(groups.delete(["g"])) == {"g": None}
            assert client.run(topics.add_partitions({name: 3})) == {name: None}
        transactional(kafka, name)
        with connect(kafka.bootstrap_servers) as client:
            assert client.run(topics.delete([name])) == {name: None}


def transactional(kafka: Any, name: str) -> None:
    """A transaction that is aborted, and one that is committed."""
    config = {"transactional.id": "t", "isolation.level": "read_committed"}
    with connect(kafka.bootstrap_servers, config) as client:
        producer = Producer(client.config)
        for value, ends in ((b"no", producer.abort), (b"yes", producer.commit)):
            client.run(producer.begin())
            client.run(producer.send([((name, 0), batch(value))]))
            client.run(ends())
        found = read_to(client, Fetcher(client.config, {(name, 0): 6}), {(name, 0): 10}, committed)
        assert found == {(name, 0): [b"yes"]}
