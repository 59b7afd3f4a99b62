"""Every operation of the client against both kinds of broker."""

from typing import Any

import pytest

from actors.client.errors import ClientError
from actors.client.operations import cluster, configs, groups, offsets, topics
from actors.client.operations.configs import Kind, Op
from actors.client.operations.fetching import Failed, Fetched, Fetcher, OutOfRange
from actors.client.operations.producing import Placed, Producer
from actors.host.client.blocking import connect
from tests.integration.arrow.test_write import known_to_all, made
from tests.integration.client.batches import batch, committed, read_to
from tests.integration.conftest import until

pytestmark = pytest.mark.timeout(180)


def test_topics_are_made_grown_and_deleted(kafka: Any, name: str) -> None:
    with connect(kafka.bootstrap_servers) as client:
        told = client.run(topics.create([topics.NewTopic(name, 2, 3), topics.NewTopic("a/b", 1, 1)]))
        assert told[name] is None and "a/b" in str(told["a/b"])
        known_to_all(kafka, name)
        (found,) = client.run(topics.describe([name])).values()
        assert len(found.partitions) == 2 and found.partitions[1].replicas and len(found.partitions[1].isr) == 3
        assert name in client.run(topics.describe())
        assert "exists" in str(client.run(topics.create([topics.NewTopic(name, 2, 3)]))[name])
        grown = client.run(topics.add_partitions({name: 5, "nothing": 2}))
        assert grown[name] is None and grown["nothing"] is not None
        until(lambda: len(client.run(topics.led([name])).topics[name].partitions) == 5)
        assert client.run(topics.delete([name])) == {name: None}
        with pytest.raises(ClientError, match=f"topic {name} does not exist"):
            while True:  # one broker learns of it after the other
                client.run(topics.describe([name]))


def test_what_is_written_is_read_and_offsets_are_told(kafka: Any, name: str) -> None:
    with connect(kafka.bootstrap_servers) as client:
        client.run(topics.create([topics.NewTopic(name, 3, 3)]))
        producer = Producer(client.config)
        given = [((name, n % 3), batch(b"%d" % n, b"-", timestamp_ms=1_000_000 + n)) for n in range(30)]
        placed = client.run(producer.send(given))
        assert placed == [Placed(n // 3 * 2, -1) for n in range(30)]
        parts = [(name, n) for n in range(3)]
        ends = client.run(offsets.list_offsets(parts))
        assert [ends[part].offset for part in parts] == [20] * 3
        found = read_to(client, Fetcher(client.config, dict.fromkeys(parts, 0)), dict.fromkeys(parts, 20))
        assert found == {(name, p): [one for n in range(p, 30, 3) for one in (b"%d" % n, b"-")] for p in range(3)}
        assert client.run(offsets.list_offsets({(name, 1): 1_000_007}))[name, 1] == (4, 1_000_007, 0)
        assert client.run(offsets.list_offsets({(name, 1): 9_000_000}))[name, 1].offset == -1
        assert client.run(offsets.list_offsets([(name, 2)], offsets.MAX_TIMESTAMP))[name, 2].timestamp == 1_000_029
        assert client.run(offsets.epoch_ends({(name, 0): 0}))[name, 0].end_offset == 20
        assert "no partition 7" in str(client.run(offsets.list_offsets([(name, 7)]))[name, 7])


def test_a_position_inside_a_batch_and_one_that_is_not_there(kafka: Any, name: str) -> None:
    with connect(kafka.bootstrap_servers) as client:
        client.run(topics.create([topics.NewTopic(name, 1, 3)]))
        client.run(Producer(client.config).send([((name, 0), batch(b"a", b"b", b"c"))]))
        fetcher = Fetcher(client.config, {(name, 0): 1})
        assert read_to(client, fetcher, {(name, 0): 3}) == {(name, 0): [b"b", b"c"]}
        fetcher.seek(name, 0, 99)
        assert client.run(fetcher.fetch()) == [OutOfRange(name, 0, 99)]
        assert client.run(fetcher.fetch()) == []
        fetcher.seek(name, 0, 2)
        assert read_to(client, fetcher, {(name, 0): 3}) == {(name, 0): [b"c"]}


def test_a_transaction_is_read_whole_or_not_at_all(kafka: Any, name: str) -> None:
    config = {"transactional.id": name, "isolation.level": "read_committed"}
    with connect(kafka.bootstrap_servers, config) as client:
        client.run(topics.create([topics.NewTopic(name, 2, 3)]))
        producer = Producer(client.config)
        with pytest.raises(ClientError, match="no transaction is open"):
            client.run(producer.send([((name, 0), batch(b"x"))]))
        for number, ends in enumerate((producer.commit, producer.abort, producer.commit)):
            client.run(producer.begin())
            client.run(producer.send([((name, n), batch(b"%d" % number)) for n in range(2)]))
            client.run(producer.send_offsets(f"{name}-group", {(name, 0): number}))
            client.run(ends())
        parts = [(name, 0), (name, 1)]
        stable = client.run(groups.committed(f"{name}-group", [(name, 0)], stable=True))
        assert stable[name, 0].offset == 2
        found = read_to(client, Fetcher(client.config, dict.fromkeys(parts, 0)), dict.fromkeys(parts, 6), committed)
        assert found == {part: [b"0", b"2"] for part in parts}
        client.run(producer.begin())
        client.run(producer.send([((name, 0), batch(b"open"))]))
        last_stable = client.run(offsets.list_offsets([(name, 0)], isolation=1))[name, 0].offset
        assert (last_stable, client.run(offsets.list_offsets([(name, 0)]))[name, 0].offset) == (6, 7)
        newer = Producer(client.config)
        client.run(newer.begin())
        for step in (producer.commit, producer.begin):
            with pytest.raises(ClientError, match=r"in use by a newer producer|abort it"):
                client.run(step())
        client.run(newer.abort())


def test_groups_have_offsets(kafka: Any, name: str) -> None:
    made(kafka, name, 2)  # a coordinator asks its own metadata whether the topic exists
    with connect(kafka.bootstrap_servers) as client:
        done = client.run(groups.commit(name, {(name, 0): 5, (name, 1): groups.Committed(3, 0, "why")}))
        assert done == {(name, 0): None, (name, 1): None}
        assert client.run(groups.committed(name)) == {
            (name, 0): groups.Committed(5, -1, ""), (name, 1): groups.Committed(3, 0, "why")
        }  # fmt: skip
        listed, failed = client.run(groups.list_groups())
        assert not failed and listed[name].state == "Empty"
        assert client.run(groups.describe(name)).state == "Empty"
        assert client.run(groups.delete_offsets(name, [(name, 0)])) == {(name, 0): None}
        assert list(client.run(groups.committed(name))) == [(name, 1)]
        deleted = client.run(groups.delete([name, "nothing"]))
        assert deleted[name] is None and deleted["nothing"] is not None
        with pytest.raises(ClientError, match=f"group {name}: .*not found"):
            client.run(groups.describe(name))


def test_configurations_and_the_cluster(kafka: Any, name: str) -> None:
    made(kafka, name, 1, retention_ms="77")
    with connect(kafka.bootstrap_servers) as client:
        topic, broker = (Kind.TOPIC, name), (Kind.BROKER, "2")
        found = client.run(configs.describe([topic, broker, (Kind.TOPIC, "nothing")], synonyms=True))
        assert found[topic]["retention.ms"].value == "77" and found[topic]["retention.ms"].source == "topic"
        assert found[broker]["broker.id"].value in ("2", "-1") and isinstance(found[Kind.TOPIC, "nothing"], ClientError)
        assert client.run(configs.alter({topic: {"retention.ms": (Op.SET, "88")}})) == {topic: None}
        wrong = client.run(configs.alter({topic: {"retention.mx": (Op.SET, "88")}}))
        assert "retention.mx" in str(wrong[topic])
        told = client.run(cluster.describe_cluster())
        assert sorted(told.brokers) == [1, 2, 3] and told.id
        quorum = client.run(cluster.describe_quorum())
        assert len(quorum.voters) == 1 and quorum.leader == quorum.voters[0].id

        def has_three_logs() -> bool:
            dirs = client.run(cluster.describe_log_dirs())
            return sorted(dirs) == [1, 2, 3] and all((name, 0) in one.sizes for (one,) in dirs.values())

        until(has_three_logs)


def test_a_topic_that_is_made_anew_is_another_topic(kafka: Any, name: str) -> None:
    with connect(kafka.bootstrap_servers) as client:
        client.run(topics.create([topics.NewTopic(name, 1, 3)]))
        client.run(Producer(client.config).send([((name, 0), batch(b"old", b"old"))]))
        fetcher = Fetcher(client.config, {(name, 0): 0})
        read_to(client, fetcher, {(name, 0): 2})
        with connect(kafka.bootstrap_servers) as other:
            other.run(topics.delete([name]))
            while other.run(topics.create([topics.NewTopic(name, 1, 3)]))[name] is not None:
                pass
            other.run(Producer(other.config).send([((name, 0), batch(b"new", b"new", b"new"))]))
        told: list[Any] = []
        while not told:
            told = client.run(fetcher.fetch())
        assert isinstance(told[0], Failed) and "deleted and made anew" in str(told[0].error), told
        again = Fetcher(client.config, {(name, 0): 0})
        assert read_to(client, again, {(name, 0): 3}) == {(name, 0): [b"new"] * 3}


def test_many_partitions(kafka: Any, name: str) -> None:
    with connect(kafka.bootstrap_servers) as client:
        client.run(topics.create([topics.NewTopic(name, 300, 1)]))
        producer = Producer(client.config)
        for round in range(2):
            placed = client.run(producer.send([((name, n), batch(b"%d" % n)) for n in range(300)]))
            assert placed == [Placed(round, -1)] * 300
        parts = {(name, n): 2 for n in range(300)}
        found = read_to(client, Fetcher(client.config, dict.fromkeys(parts, 0)), parts)
        assert found == {(name, n): [b"%d" % n] * 2 for n in range(300)}


def test_records_lie_in_the_frame(kafka: Any, name: str) -> None:
    with connect(kafka.bootstrap_servers) as client:
        client.run(topics.create([topics.NewTopic(name, 1, 1)]))
        large = batch(bytes(600_000))
        client.run(Producer(client.config).send([((name, 0), large)]))
        (one,) = client.run(Fetcher(client.config, {(name, 0): 0}).fetch())
        assert isinstance(one, Fetched) and type(one.records) is memoryview
        assert len(one.records) == len(large) and one.records.obj is not None
