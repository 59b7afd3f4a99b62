"""Which settings a cluster that runs takes, and how it describes them, beside Apache Kafka: all 340 of a broker, and
those of topics, groups and subscriptions to metrics.

What Apache Kafka did is recorded in tests/golden/kafka-4.3.1/dynamic_settings.json. It is recorded again by `python -m
tests.integration.answers.test_dynamic_settings`. KNOWN says where rayft differs and why, and docs/clients.md repeats it.
"""

import json
import re
from pathlib import Path
from typing import Any

import rayft
from tests.integration.answers import dynamic_settings
from tests.integration.answers.test_answers import difference

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden" / "kafka-4.3.1" / "dynamic_settings.json"
CONFIG = {"offsets.topic.replication.factor": "1"}
KNOWN = {
    "log.cleaner.enable": "`log.cleaner.enable` can be changed while a broker runs",
    "max.connections.per.ip.overrides": "`max.connections.per.ip.overrides` is read at start",
    "sasl.enabled.mechanisms": "The defaults of SASL mechanisms do not name GSSAPI",
    "sasl.mechanism.inter.broker.protocol": "The defaults of SASL mechanisms do not name GSSAPI",
    "ssl.engine.factory.class": "A class of Java that is named is not looked for",
    "topic: min.insync.replicas": "Kafka lists min.insync.replicas, which KIP-966 made it write",
}
"""Setting -> the reason for the different answer."""


def test_settings_are_taken_and_described_as_by_apache_kafka() -> None:
    theirs: dict[str, Any] = json.loads(GOLDEN.read_text())
    with rayft.Cluster(controllers=1, brokers=1, config=CONFIG) as cluster:
        found = dynamic_settings.ask(cluster.bootstrap_servers, "rec", theirs["names"])
    ours = json.loads(json.dumps(found))
    assert list(theirs) == list(ours), "other questions: record the answers anew"
    lines = {name: difference(theirs[name], ours[name]) for name in theirs}
    wrong = [f"{name}{line}" for name in theirs if name not in KNOWN for line in lines[name]]
    assert not wrong, "\n".join(wrong)
    assert all(lines[name] for name in KNOWN), "a known difference is none any more"


def test_every_known_difference_is_published() -> None:
    text = re.sub(r"\s+", " ", (ROOT / "docs" / "clients.md").read_text())
    for reason in KNOWN.values():
        assert reason in text, f"docs/clients.md does not say: {reason}"


def main() -> None:
    """Record what Apache Kafka does."""
    from bench.apache import ApacheKafka

    with ApacheKafka(controllers=1, brokers=1, config=CONFIG, heap="512m") as kafka:
        found = dynamic_settings.ask(kafka.bootstrap_servers, "rec")
    rows = [f"{json.dumps(name)}: {json.dumps(answer, separators=(',', ':'))}" for name, answer in found.items()]
    GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
