"""Hundreds of questions about rights, answered as Apache Kafka answers them with the same rules.

Apache Kafka's answers are recorded in tests/golden/kafka-4.3.1/authorization.json; `python -m
tests.integration.security.test_authorization_answers` records them again. Where rayft answers differently, KNOWN says
why, and docs/clients.md repeats it.
"""

import json
import re
from pathlib import Path

from tests.integration.answers.test_answers import difference
from tests.integration.security.nodes import SecureCluster
from tests.integration.security.questions import ADMIN, answers, jaas

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden" / "kafka-4.3.1" / "authorization.json"
KNOWN: dict[str, str] = {}
"""A part of a question's title -> the reason for the different answer."""
CONFIG = {
    "listener.name.broker.plain.sasl.jaas.config": jaas(),
    "listener.name.controller.plain.sasl.jaas.config": jaas(),
    "super.users": f"User:{ADMIN}",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


def test_rights_are_those_of_apache_kafka(tmp_path: Path) -> None:
    cluster = SecureCluster(tmp_path, CONFIG, nodes=1)
    try:
        ours = answers(cluster.bootstrap_servers)
    finally:
        cluster.stop()
    theirs = json.loads(GOLDEN.read_text())
    assert list(theirs) == list(ours), "other questions: record the answers anew"
    assert len(theirs) > 300
    lines = [
        f"{title}{line}"
        for title in theirs
        if not any(part in title for part in KNOWN)
        for line in difference(theirs[title], ours[title])
    ]
    assert not lines, "\n".join(lines)


def test_every_known_difference_is_published() -> None:
    text = re.sub(r"\s+", " ", (ROOT / "docs" / "clients.md").read_text())
    titles = json.loads(GOLDEN.read_text())
    for part, reason in KNOWN.items():
        assert any(part in title for title in titles) and reason in text, part


def main() -> None:
    """Record Apache Kafka's answers."""
    from bench.apache import ApacheKafka

    config = CONFIG | {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.plaintext.plain.sasl.jaas.config": jaas(),
    }
    config.pop("listener.name.broker.plain.sasl.jaas.config")
    with ApacheKafka(controllers=1, brokers=1, config=config, heap="512m") as kafka:
        found = answers(kafka.bootstrap_servers)
    rows = [f"{json.dumps(title)}: {json.dumps(answer, separators=(',', ':'))}" for title, answer in found.items()]
    GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
