"""The page of an Apache Kafka by its address: health, history, records and a change that is told."""

import pytest
from confluent_kafka import Producer

from actors.client.operations import topics
from actors.host.client.blocking import connect
from bench import apache
from tests.integration.page.opened import page, until


@pytest.mark.slow
def test_the_page_of_apache_kafka() -> None:
    if apache.libs() is None:
        pytest.skip("Apache Kafka's jars are not there: `make kafka` fetches them where it can")
    config = {"default.replication.factor": "1"}
    with apache.ApacheKafka(brokers=1, controllers=1, config=config, heap="320m") as kafka:
        with connect(kafka.bootstrap_servers) as client:
            client.run(topics.create([topics.NewTopic("orders", 3, 1)]))
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        for at in range(90):
            producer.produce("orders", f"v-{at}", partition=at % 3)
        assert producer.flush(30) == 0
        with page("-b", kafka.bootstrap_servers) as opened:
            now = until(lambda: (one := opened.get("/now"))["quorum"]["source"] == "quorum" and one, 60)
            assert now["sentence"].startswith("Well: controller 3001 leads, 1 broker active, 3 partitions")
            assert opened.get("")["notes"] == [] and now["findings"] == []
            assert [row[4:] for row in opened.get("/topics/orders")["rows"]] == [[0, 30]] * 3
            with opened.events() as told, connect(kafka.bootstrap_servers) as client:
                before = next(told)["extent"]["touched"]
                client.run(topics.create([topics.NewTopic("later", 1, 1)]))
                assert next(one for one in told if one["extent"]["touched"] > before)["well"]
            (row,) = opened.rows("topics", where="topic = later")
            (change,) = [one for one in opened.rows("changes", q="later") if one["kind"] == "topic"]
            assert change["new"] == row["topic_id"]
            assert opened.rows("topics", where="topic = later", at=change["offset"]) == []
