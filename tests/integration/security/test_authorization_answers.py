"""Hundreds of questions about rights, answered as Apache Kafka answers them with the same rules.

Apache Kafka's answers are recorded in tests/golden/kafka-4.3.1/authorization.json. `python -m
tests.integration.security.test_authorization_answers` records them again. Where rayft answers differently, KNOWN says
why, and docs/clients.md repeats it.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from actors.authorization.rights import Checked
from actors.node.runtime.calls import Listener
from tests.integration.answers.test_answers import difference
from tests.integration.security.nodes import SecureCluster
from tests.integration.security.questions import ADMIN, answers, jaas
from tests.served import TABLE

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden" / "kafka-4.3.1" / "authorization.json"
KNOWN = {
    "DescribeUserScramCredentials": "the error stands for the whole request; Kafka adds a result without a name for each",
}
"""A part of a question's title -> the reason for the different answer."""
DOOR = "a controller of the drafts asks for CLUSTER_ACTION first, whatever else somebody may do"
"""Why those who lack it get other answers at a controller than Apache Kafka's."""
COME_IN = ("node at a controller", "owner at a controller")
"""Who has CLUSTER_ACTION."""


def stays_outside(title: str) -> bool:
    """Whether a question is asked at a controller by somebody who may not come there."""
    return " at a controller: " in title and not title.startswith(COME_IN) and "ApiVersions" not in title


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
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


def test_rights_are_those_of_apache_kafka(tmp_path: Path) -> None:
    cluster = SecureCluster(tmp_path, CONFIG, nodes=1)
    try:
        ours = answers(cluster.bootstrap_servers, cluster.bootstrap_controllers)
    finally:
        cluster.stop()
    theirs = json.loads(GOLDEN.read_text())
    assert list(theirs) == list(ours), "other questions: record the answers anew"
    assert len(theirs) > 300
    lines = [
        f"{title}{line}"
        for title in theirs
        if not any(part in title for part in KNOWN) and not stays_outside(title)
        for line in difference(theirs[title], ours[title])
    ]
    assert not lines, "\n".join(lines)
    outside = {title: error_codes(answer) for title, answer in ours.items() if stays_outside(title)}
    assert len(outside) > 100
    assert {title: codes for title, codes in outside.items() if codes != {31}} == {}


def error_codes(answer: Any) -> set[int]:
    """Every error code in an answer, at whatever depth."""
    parts = answer.values() if isinstance(answer, dict) else answer if isinstance(answer, list) else ()
    found = set[int]().union(*(error_codes(part) for part in parts))
    return found | ({answer["error_code"]} if isinstance(answer, dict) and answer.get("error_code") else set())


def test_every_known_difference_is_published() -> None:
    text = re.sub(r"\s+", " ", (ROOT / "docs" / "clients.md").read_text())
    titles = json.loads(GOLDEN.read_text())
    assert DOOR in text
    for part, reason in KNOWN.items():
        assert any(part in title for title in titles) and reason in text, part


@pytest.mark.parametrize("listener", [Listener.CLIENT, Listener.CONTROLLER])
def test_every_api_that_needs_a_right_is_allowed_to_some_and_denied_to_others(listener: Listener) -> None:
    """An API that is new has to be asked for."""
    theirs = json.loads(GOLDEN.read_text())
    by_api: dict[str, set[str]] = {}
    for title, answer in theirs.items():
        who, _, api = title.rpartition(": ")
        if who.endswith(" at a controller") == (listener is Listener.CONTROLLER):
            told = json.dumps(answer).replace(who.partition(" ")[0], "x")
            by_api.setdefault(api.partition(" ")[0], set()).add(told)
    needed = {
        api.name for (place, _), api in TABLE.items() if place is listener and api.right.checked is not Checked.OPEN
    }
    needed -= TOKENS
    if listener is Listener.CONTROLLER:
        needed -= OF_DRAFTS
        assert len({json.dumps(answer) for title, answer in theirs.items() if title.startswith("an envelope of")}) > 1
    assert not {api for api in needed if len(by_api.get(api, ())) < 2}


OF_DRAFTS = {"AlterIsr", "BrokerHeartbeat", "ControllerHeartbeat", "Envelope"}
"""APIs whose numbers are another's in released Kafka, and Envelope, which is asked apart. See `test_refused.py`."""
TOKENS = {f"{verb}DelegationToken" for verb in ("Create", "Describe", "Expire", "Renew")}
"""They are asked in `test_token_answers.py`."""


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
        found = answers(kafka.bootstrap_servers, kafka.bootstrap_controllers)
    rows = [f"{json.dumps(title)}: {json.dumps(answer, separators=(',', ':'))}" for title, answer in found.items()]
    GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
