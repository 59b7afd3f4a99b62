"""Share groups with Apache Kafka's own tools: kafka-console-share-consumer.sh and kafka-share-groups.sh (KIP-932)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from tests.integration.conftest import everywhere, until

CONFIG = {
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
RECORDS, PARTITIONS = 60, 3
GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
FORMATTERS = "org.apache.kafka.tools.consumer"


@pytest.mark.slow
def test_a_group_is_read_shown_moved_and_deleted(java: Any, tmp_path: Path) -> None:
    with rayft.Cluster(controllers=1, brokers=2, dir=tmp_path / "c", config=CONFIG) as cluster:
        servers = cluster.bootstrap_servers

        def tool(*arguments: str) -> str:
            return str(java.run(GROUPS, "--bootstrap-server", servers, *arguments))

        def read(count: int) -> list[str]:
            """So many records, as the console consumer of a new member prints them."""
            said = java.run(
                "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
                *("--bootstrap-server", servers, "--topic", "orders", "--group", "billing"),
                *("--max-messages", str(count), "--timeout-ms", "30000"),
            )
            return re.findall(r"^order-\d+$", said, re.MULTILINE)

        def lags() -> dict[int, tuple[str, str]]:
            found = re.findall(r"billing\s+orders\s+(\d)\s+(\S+)\s+(\S+)", tool("--describe", "--group", "billing"))
            return {int(number): (start, lag) for number, start, lag in found}

        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.create_topics([NewTopic("orders", PARTITIONS, 2)])["orders"].result(30)
        everywhere(cluster, "orders", PARTITIONS)
        java.run(
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", servers, "--alter", "--entity-type", "groups", "--entity-name", "billing"),
            *("--add-config", "share.auto.offset.reset=earliest"),
        )
        producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        for number in range(RECORDS):
            producer.produce("orders", f"order-{number}".encode(), partition=number % PARTITIONS)
        assert producer.flush(30) == 0
        assert sorted(read(RECORDS)) == sorted(f"order-{number}" for number in range(RECORDS))
        until(lambda: "Empty" in tool("--describe", "--group", "billing", "--state"))
        until(lambda: {lag for _, lag in lags().values()} == {"0"})
        assert re.search(r"billing\s+Empty", tool("--list", "--state"))
        moved = tool("--reset-offsets", "--group", "billing", "--topic", "orders", "--to-earliest", "--execute")
        assert len(re.findall(r"billing\s+orders\s+\d\s+0", moved)) == PARTITIONS
        assert set(lags().values()) == {("0", str(RECORDS // PARTITIONS))}
        assert len(set(read(RECORDS))) == RECORDS, "all of them come again"
        until(lambda: "Empty" in tool("--describe", "--group", "billing", "--state"))
        assert "Successful" in tool("--delete-offsets", "--group", "billing", "--topic", "orders")
        assert not lags()
        assert "successful" in tool("--delete", "--group", "billing")
        assert "billing" not in tool("--list").split()
        _check_records(java, servers)


def _check_records(java: Any, servers: str) -> None:
    """Apache Kafka's formatters read what is in the topics of both coordinators."""

    def rows(topic: str, formatter: str) -> list[dict[str, Any]]:
        said = java.run(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", servers, "--topic", topic, "--from-beginning"),
            *("--timeout-ms", "8000", "--formatter", formatter),
        )
        found, decoder, at = [], json.JSONDecoder(), said.find('{"key"')
        while at >= 0:  # they stand one behind the other on one line
            row, end = decoder.raw_decode(said, at)
            found.append(row)
            at = said.find('{"key"', end)
        return found

    state = rows("__share_group_state", f"{FORMATTERS}.group.share.ShareGroupStateMessageFormatter")
    assert {row["key"]["type"] for row in state} == {0, 1}
    batches = [batch for row in state if row["value"] for batch in row["value"]["data"]["stateBatches"]]
    assert any(batch["deliveryState"] == 2 for batch in batches)
    groups = rows("__consumer_offsets", f"{FORMATTERS}.ShareGroupMessageFormatter")
    assert {row["key"]["type"] for row in groups} == {10, 11, 12, 13, 14, 15}
