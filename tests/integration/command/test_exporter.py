"""`rayft metrics` on both kinds of cluster: what it shows of groups is what a client has committed, under kafka_exporter's
names; a cluster that is away has no page."""

from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.command.conftest import Two
from tests.integration.command.test_watching import ended, line, running
from tests.integration.command.typed import typed
from tests.integration.conftest import until

pytestmark = pytest.mark.timeout(300)


def page(url: str) -> dict[str, float]:
    """The numbers of a page by name and labels; empty: there is none now."""
    with suppress(HTTPError), urlopen(url, timeout=60) as answer:
        lines = [one for one in answer.read().decode().splitlines() if not one.startswith("#")]
        return {name: float(text) for name, _, text in (one.rpartition(" ") for one in lines)}
    return {}


def test_the_lag_of_groups_and_a_cluster_that_goes_away(two: Two, name: str) -> None:
    assert typed(two.servers, "topic", "create", name, "-p", "2", "-r", "2").code == 0
    producer = Producer({"bootstrap.servers": two.servers})
    for number in range(10):
        producer.produce(name, b"x", partition=number % 2)
    assert producer.flush(30) == 0
    group = f"g-{name}"
    consumer = Consumer({"bootstrap.servers": two.servers, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(name, 0, 2), TopicPartition(name, 1, 5)], asynchronous=False)
    consumer.close()

    def labels(number: int) -> str:
        return f'{{consumergroup="{group}",topic="{name}",partition="{number}"}}'

    whole = f'{{consumergroup="{group}",topic="{name}"}}'
    with running("metrics", "-b", two.servers, "--listen", "127.0.0.1:0") as process:
        told = line(process)
        url = next(word for word in told.split() if word.startswith("http://"))
        found = page(url)
        assert found["kafka_brokers"] == 2
        assert found[f'kafka_topic_partitions{{topic="{name}"}}'] == 2
        assert found["kafka_consumergroup_current_offset" + labels(0)] == 2
        assert found["kafka_consumergroup_lag" + labels(0)] == 3
        assert found["kafka_consumergroup_lag" + labels(1)] == 0
        assert found["kafka_consumergroup_lag_sum" + whole] == 3
        assert found["kafka_consumergroup_current_offset_sum" + whole] == 7
        assert found[f'kafka_consumergroup_members{{consumergroup="{group}"}}'] == 0
        part = f'{{topic="{name}",partition="1"}}'
        assert found["kafka_topic_partition_current_offset" + part] == 5
        assert found["kafka_topic_partition_oldest_offset" + part] == 0
        assert (
            found["kafka_topic_partition_replicas" + part] == found["kafka_topic_partition_in_sync_replica" + part] == 2
        )
        assert found["kafka_topic_partition_under_replicated_partition" + part] == 0
        assert not any(name.startswith("process_") for name in found), "they would be taken for a node's"
        assert {value for key, value in found.items() if key.startswith("rayft_exporter_unanswered")} == {0}
        producer.produce(name, b"x", partition=0)
        assert producer.flush(30) == 0
        until(lambda: page(url).get("kafka_consumergroup_lag" + labels(0)) == 4)
        two.end()
        until(lambda: page(url).get("kafka_topic_partition_under_replicated_partition" + part) == 1)
        ended(process)


def test_a_page_is_printed_once_and_only_what_was_asked_for(two: Two, name: str) -> None:
    assert typed(two.servers, "topic", "create", name, "-p", "1", "-r", "1").code == 0
    done = typed(two.servers, "metrics", "--topic", name, "--group", "none of this name")
    lines = [one for one in done.text.splitlines() if not one.startswith("#")]
    assert done.code == 0 and f'kafka_topic_partitions{{topic="{name}"}} 1' in lines
    assert not [one for one in lines if "topic=" in one and name not in one]
    assert not [one for one in lines if "consumergroup" in one]


def test_wrong_words_are_one_sentence() -> None:
    done = typed("127.0.0.1:1", "metrics", "--listen", "9308")
    assert done.code == 2 and "--listen=9308 is no address: write host:port" in done.err, done


def test_a_cluster_that_does_not_answer_has_no_page(tmp_path: Path) -> None:
    import rayft

    with rayft.Cluster(1, 1, tmp_path / "c", combined=True) as cluster:
        servers = cluster.bootstrap_servers
        with running("metrics", "-b", servers, "--listen", "127.0.0.1:0") as process:
            url = next(word for word in line(process).split() if word.startswith("http://"))
            assert page(url)["kafka_brokers"] == 1
            cluster.freeze(cluster.broker_ids[0])
            with pytest.raises(HTTPError) as refused:
                urlopen(url, timeout=60)
            assert refused.value.code == 503
            cluster.thaw(cluster.broker_ids[0])
            until(lambda: page(url).get("kafka_brokers") == 1)
