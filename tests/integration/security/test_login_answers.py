"""Logins answered step by step as by Apache Kafka.

Its answers are recorded in tests/golden/kafka-4.3.1/logins.json. `python -m tests.integration.security.test_login_answers`
records them again. Where rayft answers differently, KNOWN says why, and docs/clients.md repeats it.
"""

import json
import re
from pathlib import Path

from tests.integration.security.login_stories import answers
from tests.integration.security.nodes import SecureCluster
from tests.integration.security.questions import jaas
from tests.integration.security.test_authorization_answers import CONFIG

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden" / "kafka-4.3.1" / "logins.json"
AGAIN = "A peer that has logged in may always log in again, as the same user by the same mechanism"
KNOWN = {
    "versions twice": "ApiVersions may be asked again before SaslHandshake",
    "metadata behind the handshake": "What is asked in the middle of a first login closes the connection",
    "no handshake": "SaslAuthenticate without SaslHandshake is answered, and then the connection is closed",
    "handshake twice": "a second SaslHandshake begins the login anew",
    "handshake 0": "SaslHandshake 0, whose tokens have no header, is not served",
    "again as the same": AGAIN,
    "again as another": AGAIN,
    "again with a wrong password": AGAIN,
    "again by another mechanism": AGAIN,
    "metadata in the middle of the second login": AGAIN,
    "SCRAM of an unknown user": "An unknown user of SCRAM is told so only after its proof",
    "SCRAM with a token that nobody knows": "An unknown user of SCRAM is told so only after its proof",
}
"""Title of a story -> the reason for the different answers."""


def address(servers: str) -> tuple[str, int]:
    host, _, port = servers.split(",")[0].rpartition(":")
    return host, int(port)


def test_logins_are_answered_as_by_apache_kafka(tmp_path: Path) -> None:
    cluster = SecureCluster(tmp_path, CONFIG, nodes=1)
    try:
        ours = answers(address(cluster.bootstrap_servers))
    finally:
        cluster.stop()
    theirs = json.loads(GOLDEN.read_text())
    assert list(theirs) == list(ours), "other stories: record the answers anew"
    assert {title for title in theirs if theirs[title] != ours[title]} == set(KNOWN), ours


def test_every_known_difference_is_published() -> None:
    text = re.sub(r"\s+", " ", (ROOT / "docs" / "clients.md").read_text())
    assert not [reason for reason in KNOWN.values() if reason not in text]


def main() -> None:
    """Record Apache Kafka's answers."""
    from bench.apache import ApacheKafka

    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    config = CONFIG | {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.plaintext.plain.sasl.jaas.config": jaas(),
        "listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.plaintext.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.plaintext.scram-sha-512.sasl.jaas.config": scram,
    }
    config.pop("listener.name.broker.plain.sasl.jaas.config")
    with ApacheKafka(controllers=1, brokers=1, config=config, heap="512m") as kafka:
        found = answers(address(kafka.bootstrap_servers))
    rows = [f"{json.dumps(title)}: {json.dumps(told, separators=(',', ':'))}" for title, told in found.items()]
    GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
