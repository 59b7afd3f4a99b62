"""Apache Kafka's transactional clients and tools (transaction version 2), unmodified, on three brokers."""

import re
from typing import Any

from tests.integration.conftest import until
from tests.integration.transactions.test_confluent import create, producer, read

TOOLS = "org.apache.kafka.tools."


def transactions(java: Any, cluster: Any, *arguments: str) -> str:
    return str(java.run(f"{TOOLS}TransactionsCommand", "--bootstrap-server", cluster.bootstrap_servers, *arguments))


def copy(java: Any, cluster: Any, source: str, target: str, id: str, *more: str) -> str:
    return str(
        java.run(
            f"{TOOLS}TransactionalMessageCopier",
            *("--broker-list", cluster.bootstrap_servers, "--input-topic", source, "--output-topic", target),
            *("--transactional-id", id, "--consumer-group", f"{id}-g", "--transaction-size", "7"),
            *more,
        )
    )


def produce(java: Any, cluster: Any, topic: str, count: int) -> None:
    java.run(
        f"{TOOLS}VerifiableProducer",
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--max-messages", str(count)),
    )


def test_the_copier_copies_each_record_once_through_random_aborts(java: Any, cluster: Any, name: str) -> None:
    source, target = f"{name}-in", f"{name}-out"
    create(cluster, source, target)
    produce(java, cluster, source, 100)
    options = ("--input-partition", "-1", "--group-mode", "--enable-random-aborts", "--max-messages", "100")
    said = copy(java, cluster, source, target, name, *options)
    assert '"remaining":0' in said
    assert read(cluster, target) == sorted(str(number) for number in range(100))
    row = next(line for line in transactions(java, cluster, "list").splitlines() if line.startswith(name))
    assert row.split()[3] in ("CompleteCommit", "CompleteAbort")
    # Each of the fifteen or more ends has raised the epoch (KIP-890).
    described = transactions(java, cluster, "describe", "--transactional-id", name)
    assert int(re.split(r"\s+", described.splitlines()[1].strip())[3]) > 10


def test_the_tool_finds_and_ends_an_open_transaction(java: Any, cluster: Any, name: str) -> None:
    create(cluster, name)
    writer = producer(cluster, name)
    writer.begin_transaction()
    writer.produce(name, b"open", partition=0)
    assert writer.flush(30) == 0
    described = transactions(java, cluster, "describe", "--transactional-id", name)
    assert "Ongoing" in described and f"{name}-0" in described
    shown = transactions(java, cluster, "describe-producers", "--topic", name, "--partition", "0")
    producer_id, epoch = shown.splitlines()[1].split()[:2]
    assert producer_id in described
    assert name in transactions(java, cluster, "list", "--duration-filter", "1")
    assert name not in transactions(java, cluster, "list", "--duration-filter", "3600000")
    assert "Transactional" not in transactions(java, cluster, "find-hanging", "--topic", name, "--partition", "0")
    row = shown.splitlines()[1].split()
    transactions(
        java, cluster, "abort", "--topic", name, "--partition", "0",
        "--producer-id", producer_id, "--producer-epoch", epoch, "--coordinator-epoch", row[3],
    )  # fmt: skip
    until(lambda: "None" in transactions(java, cluster, "describe-producers", "--topic", name, "--partition", "0"))
    assert read(cluster, name) == []
