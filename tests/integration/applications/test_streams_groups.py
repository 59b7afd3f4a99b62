"""Kafka Streams with group.protocol=streams (KIP-1071), and kafka-streams-groups.sh beside it."""

import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from tests.integration.applications.programs import PATIENCE_SECONDS, Program, Reader, compiled, properties
from tests.integration.applications.test_streams import INPUT, OUTPUT, PARTITIONS, Input
from tests.integration.conftest import everywhere, until

GROUP = "words-and-pairs"
CONFIG = {
    "default.replication.factor": "1",
    "group.streams.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


@pytest.mark.slow
def test_a_program_is_described_reset_and_deleted(java: Any, tmp_path: Path) -> None:
    (tmp_path / "classes").mkdir()
    path = compiled(Path(__file__).with_name("WordsAndPairs.java"), tmp_path / "classes")
    with rayft.Cluster(controllers=1, brokers=1, dir=tmp_path / "c", config=CONFIG) as cluster:
        servers = cluster.bootstrap_servers

        def tool(*arguments: str) -> str:
            main = "org.apache.kafka.tools.streams.StreamsGroupCommand"
            return str(java.run(main, "--bootstrap-server", servers, *arguments))

        def described(*arguments: str) -> str:
            return tool("--describe", "--group", GROUP, *arguments)

        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        for future in admin.create_topics([NewTopic(one, PARTITIONS, 1) for one in (*INPUT, *OUTPUT)]).values():
            future.result(30)
        for one in (*INPUT, *OUTPUT):
            everywhere(cluster, one, PARTITIONS)
        settings = properties(
            tmp_path / "streams.properties",
            {
                "application.id": GROUP,
                "group.protocol": "streams",
                "bootstrap.servers": servers,
                "processing.guarantee": "exactly_once_v2",
                "state.dir": tmp_path / "state",
                "num.stream.threads": 2,
                "commit.interval.ms": 100,
                "statestore.cache.max.bytes": 0,
                "auto.offset.reset": "earliest",
            },
        )
        source = Input(servers, 1, 100)
        with (
            Program(path, "WordsAndPairs", str(settings), log=tmp_path / "streams.log") as streams,
            Reader(servers, OUTPUT) as reader,
        ):
            source.start()
            wrote = reader.until(lambda: bool(reader.read["counts"] and reader.read["pairs"]), PATIENCE_SECONDS)
            assert wrote, streams.said()[-4000:]
            until(lambda: re.search(rf"{GROUP}\s+Stable", tool("--list", "--state")) is not None)
            assert re.search(rf"{GROUP}\s+\S+ \(1\)\s+Stable\s+2", described("--state"))
            members = re.findall(r"ACTIVE: (.*)", described("--members"))
            tasks = sorted(task for member in members for task in re.findall(r"(\d):\[([\d, ]+)\]", member))
            assert [number for one, numbers in tasks for number in numbers.split(",")] == ["0", "1"] * 3
            assert {"lines", "left", "right", f"{GROUP}-counted-repartition"} <= set(described().split())
            assert "is not EMPTY" in java.run(
                "org.apache.kafka.tools.streams.StreamsGroupCommand",
                *("--bootstrap-server", servers, "--delete", "--group", GROUP),
            )
            source.finish()
        until(lambda: "Empty" in described("--state"))
        moved = tool("--reset-offsets", "--group", GROUP, "--all-input-topics", "--to-earliest", "--execute")
        assert re.search(rf"{GROUP}\s+lines\s+0\s+0\b", moved)
        assert "Successful" in tool("--delete-offsets", "--group", GROUP, "--input-topic", "lines")
        assert "successful" in tool("--delete", "--group", GROUP)
        assert GROUP not in tool("--list").split()
