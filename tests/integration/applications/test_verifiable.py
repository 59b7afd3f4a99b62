"""VerifiableProducer and VerifiableConsumer of Apache Kafka's tools, while brokers and a consumer are killed with -9: what
was acknowledged is there once, and is consumed."""

import json
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from tests.integration.applications.programs import Program, Reader, classes
from tests.integration.applications.test_streams import CONFIG
from tests.integration.conftest import everywhere

TOOLS = "org.apache.kafka.tools.Verifiable"
A_SECOND = 400
LOST = {"NetworkException", "NotLeaderOrFollowerException", "TimeoutException"}


def events(program: Program, name: str) -> list[dict[str, Any]]:
    """What it has told so far, a JSON object a line. After a kill the last line may be cut."""
    found = []
    for line in program.said().splitlines():
        if f'"name":"{name}"' in line:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found


def values(program: Program, name: str) -> list[str]:
    return [str(one["value"]) for one in events(program, name)]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_what_is_acknowledged_is_there_once_and_consumed(tmp_path: Path, rounds: int) -> None:
    path, choose = classes(), random.Random(rounds)
    with rayft.Cluster(controllers=1, brokers=3, dir=tmp_path / "c", config=CONFIG) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.create_topics([NewTopic("numbers", 3, 3)])["numbers"].result(30)
        everywhere(cluster, "numbers", 3)
        where = ("--bootstrap-server", servers, "--topic", "numbers")
        writing = ("--acks", "-1", "--throughput", str(A_SECOND), "--max-messages", "-1")
        reading = ("--group-id", "group", "--reset-policy", "earliest", "--session-timeout", "6000", "--verbose")
        producer = Program(path, f"{TOOLS}Producer", *where, *writing, log=tmp_path / "producer.log")
        consumer = Program(path, f"{TOOLS}Consumer", *where, *reading, log=tmp_path / "consumer.log")
        with producer, consumer, Reader(servers, ["numbers"]) as reader:
            for _ in range(rounds):
                seen = len(values(consumer, "record_data"))
                consumer.until(lambda seen=seen: len(values(consumer, "record_data")) > seen + A_SECOND)
                victim = choose.choice(cluster.broker_ids)
                cluster.kill(victim)
                consumer.kill()
                cluster.wait_ready(victim)
                consumer.start()
            seen = len(values(consumer, "record_data"))
            consumer.until(lambda: len(values(consumer, "record_data")) > seen + A_SECOND)
            assert producer.end(signal.SIGTERM) in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
            sent = set(values(producer, "producer_send_success"))
            # It does not retry, so it is told of what a killed leader had in hand, and of nothing else.
            assert {one["exception"].rpartition(".")[2] for one in events(producer, "producer_send_error")} <= LOST
            consumer.until(lambda: sent <= set(values(consumer, "record_data")))
            time.sleep(1)
            assert consumer.end(signal.SIGTERM) in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
            assert events(consumer, "shutdown_complete")
            reader.quiet()
            there = Counter(value.decode() for _, _, _, value in reader.read["numbers"] if value is not None)
            assert set(there.values()) == {1} and sent <= set(there)
            # What it has committed is the end of each partition.
            commits = [one for one in events(consumer, "offsets_committed") if one["success"]]
            committed = {one["partition"]: one["offset"] for commit in commits for one in commit["offsets"]}
            ends: dict[int, int] = {}  # a partition that the producer never chose has none, and is not committed
            for partition, offset, _, _ in reader.read["numbers"]:
                ends[partition] = max(ends.get(partition, 0), offset + 1)
            assert committed == ends
