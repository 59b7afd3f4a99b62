"""Apache Kafka's own command line tools, unmodified. Each start costs seconds, so the tests are long."""

import json
import re
import time
from pathlib import Path
from typing import Any

from tests.integration.conftest import everywhere, until

ADMIN = "org.apache.kafka.tools."


def tool(java: Any, cluster: Any, main: str, *arguments: str, **options: Any) -> str:
    return str(java.run(main, "--bootstrap-server", cluster.bootstrap_servers, *arguments, **options))


def topics(java: Any, cluster: Any, *arguments: str) -> str:
    return tool(java, cluster, f"{ADMIN}TopicCommand", *arguments)


def create(java: Any, cluster: Any, topic: str) -> None:
    topics(java, cluster, "--create", "--topic", topic, "--partitions", "1", "--replication-factor", "3")
    everywhere(cluster, topic, 1)


def groups(java: Any, cluster: Any, *arguments: str) -> str:
    return tool(java, cluster, f"{ADMIN}consumer.group.ConsumerGroupCommand", *arguments)


def console(java: Any, cluster: Any, *arguments: str) -> str:
    return tool(java, cluster, f"{ADMIN}consumer.ConsoleConsumer", *arguments)


def produce(java: Any, cluster: Any, topic: str, lines: str, *arguments: str) -> None:
    tool(java, cluster, f"{ADMIN}ConsoleProducer", "--topic", topic, *arguments, stdin=lines)


def test_kafka_topics_creates_describes_alters_and_deletes(java: Any, cluster: Any, name: str) -> None:
    made = ("--partitions", "2", "--replication-factor", "3", "--config", "retention.ms=3600000")
    assert f"Created topic {name}." in topics(java, cluster, "--create", "--topic", name, *made)
    everywhere(cluster, name, 2)
    text = topics(java, cluster, "--describe", "--topic", name)
    assert "PartitionCount: 2" in text and "ReplicationFactor: 3" in text and "retention.ms=3600000" in text
    assert re.findall(r"Partition: (\d)\s+Leader: \d", text) == ["0", "1"]
    assert [sorted(isr.split(",")) for isr in re.findall(r"Isr: (\S+)", text)] == [["0", "1", "2"]] * 2
    topics(java, cluster, "--alter", "--topic", name, "--partitions", "4")
    until(lambda: topics(java, cluster, "--describe", "--topic", name).count("Leader:") == 4)
    topics(java, cluster, "--delete", "--topic", name)
    until(lambda: name not in topics(java, cluster, "--list").split())


def test_the_console_clients_and_the_group_tool(java: Any, cluster: Any, name: str) -> None:
    create(java, cluster, name)
    lines = "".join(f"k{n}:v{n}\n" for n in range(20))
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    produce(java, cluster, name, lines, "--compression-codec", "zstd", *keyed)
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")
    alone = ("--topic", name, "--partition", "0", "--offset", "5", "--max-messages", "2")
    assert console(java, cluster, *alone, *shown).split() == ["Offset:5", "k5", "v5", "Offset:6", "k6", "v6"]
    member = ("--topic", name, "--group", name, "--from-beginning")
    assert console(java, cluster, *member, "--max-messages", "8").split() == [f"v{n}" for n in range(8)]
    assert console(java, cluster, *member, "--max-messages", "12").split() == [f"v{n}" for n in range(8, 20)]
    assert name in groups(java, cluster, "--list").split()
    row = next(line for line in groups(java, cluster, "--describe", "--group", name).splitlines() if line[:2] == "t-")
    assert row.split()[1:6] == [name, "0", "20", "20", "0"] or row.split()[:6] == [name, name, "0", "20", "20", "0"]
    moved = ("--reset-offsets", "--group", name, "--topic", name, "--to-offset", "3", "--execute")
    assert re.search(rf"{name}\s+{name}\s+0\s+3\b", groups(java, cluster, *moved))
    assert "successful" in groups(java, cluster, "--delete-offsets", "--group", name, "--topic", name).lower()
    assert "successful" in groups(java, cluster, "--delete", "--group", name)


def test_kafka_configs_alters_topics_and_brokers(java: Any, cluster: Any, name: str) -> None:
    def configs(*arguments: str) -> str:
        return tool(java, cluster, "kafka.admin.ConfigCommand", *arguments)

    create(java, cluster, name)
    topic = ("--entity-type", "topics", "--entity-name", name)
    configs("--alter", *topic, "--add-config", "retention.ms=7200000,cleanup.policy=[delete,compact]")
    until(lambda: "retention.ms=7200000" in (text := configs("--describe", *topic)) and "delete,compact" in text)
    configs("--alter", *topic, "--delete-config", "retention.ms")
    until(lambda: "retention.ms=7200000" not in configs("--describe", *topic))
    text = configs("--describe", "--all", "--entity-type", "brokers", "--entity-name", "0")
    assert "log.retention.hours=168" in text and "broker.id=0" in text.replace("node.id", "broker.id")


def test_offsets_by_time_records_deleted_quorum_and_versions(
    java: Any, cluster: Any, name: str, tmp_path: Path
) -> None:
    create(java, cluster, name)
    before = int(time.time() * 1000)
    produce(java, cluster, name, "".join(f"{n}\n" for n in range(10)))

    def offset(when: str) -> str:
        return tool(java, cluster, f"{ADMIN}GetOffsetShell", "--topic", name, "--time", when).strip()

    assert offset(str(before)) == f"{name}:0:0" and offset("latest") == f"{name}:0:10"
    below = tmp_path / "below.json"
    below.write_text(json.dumps({"partitions": [{"topic": name, "partition": 0, "offset": 4}], "version": 1}))
    assert "low_watermark: 4" in tool(java, cluster, f"{ADMIN}DeleteRecordsCommand", "--offset-json-file", str(below))
    assert offset("earliest") == f"{name}:0:4"
    status = tool(java, cluster, f"{ADMIN}MetadataQuorumCommand", "describe", "--status")
    assert cluster.cluster_id in status and re.search(r"LeaderId:\s+10\d\d", status)
    versions = tool(java, cluster, f"{ADMIN}BrokerApiVersionsCommand")
    assert versions.count("(id: ") == 3 and "UNSUPPORTED" in versions and "Produce(0): 0 to 13" in versions


def test_kafka_dump_log_reads_the_segments_of_a_running_broker(java: Any, cluster: Any, name: str) -> None:
    create(java, cluster, name)
    produce(java, cluster, name, "one\ntwo\n", "--sync")
    logs = sorted(Path(cluster.dir).glob(f"**/{name}-0/*.log"))
    assert len(logs) == 3
    text = java.run(f"{ADMIN}DumpLogSegments", "--print-data-log", "--files", ",".join(map(str, logs)))
    assert text.count("payload: one") == 3 and text.count("payload: two") == 3 and "isvalid: false" not in text


def test_kafka_transactions_describes_producers_and_writes_markers(java: Any, cluster: Any, name: str) -> None:
    """What it needs of a partition (KIP-664). A console consumer that reads committed records passes over the marker."""

    def transactions(*arguments: str) -> str:
        return tool(java, cluster, f"{ADMIN}TransactionsCommand", *arguments)

    create(java, cluster, name)
    produce(java, cluster, name, "one\ntwo\n", "--sync")
    partition = ("--topic", name, "--partition", "0")
    header, row = transactions("describe-producers", *partition).strip().splitlines()
    assert header.split()[:2] == ["ProducerId", "ProducerEpoch"]
    producer, epoch, coordinator_epoch, sequence, _, began = row.split()
    assert (epoch, coordinator_epoch, sequence, began) == ("0", "-1", "1", "None")
    marker = ("--producer-id", producer, "--producer-epoch", "0", "--coordinator-epoch", "3")
    transactions("abort", *partition, *marker)
    assert transactions("describe-producers", *partition).strip().splitlines()[1].split()[:3] == [producer, "0", "3"]
    produce(java, cluster, name, "three\n", "--sync")
    committed = ("--isolation-level", "read_committed", "--from-beginning", "--max-messages", "3")
    assert console(java, cluster, "--topic", name, *committed).split() == ["one", "two", "three"]
    shown = ("--formatter-property", "print.offset=true", "--partition", "0", "--offset", "2", "--max-messages", "1")
    assert console(java, cluster, "--topic", name, *shown).split() == ["Offset:3", "three"]
