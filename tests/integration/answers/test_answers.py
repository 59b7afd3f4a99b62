"""rayft's answers to almost two thousand requests beside Apache Kafka's, field by field.

Apache Kafka's answers are recorded in tests/golden/kafka-4.3.1/answers.json, so that no Java is needed. `python -m
tests.integration.answers.test_answers [STORY...]` records them again from a cluster. Where rayft answers differently, on
purpose or because it does not do yet what Kafka does, KNOWN says why, and docs/clients.md repeats it.
"""

import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.integration.answers.dialogue import Dialogue
from tests.integration.answers.stories import STORIES

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests" / "golden" / "kafka-4.3.1" / "answers.json"
KNOWN: dict[str, str] = {
    "a setting twice": "Kafka takes the last value of a setting that a new topic names twice; rayft refuses it",
    "strange operation": "Kafka answers UNKNOWN_SERVER_ERROR, rayft INVALID_REQUEST",
    "an unknown broker [IncrementalAlterConfigs": "any broker accepts settings for any broker",
    "all brokers [DescribeConfigs": "Kafka lists min.insync.replicas, which KIP-966 made it write",
    "produce: a partition twice": "Produce with two batches for the same partition: Kafka appends one, rayft both",
    "features: unknown": "rayft gives a result for each feature beside the reason for the whole",
    "of a broker [DescribeCluster": "the answer repeats the kind of endpoints of the request, with the same error",
    "strange endpoints": "the answer repeats the kind of endpoints of the request, with the same error",
    "join: unknown member": "the refusal repeats the member id",
    "no id, no name [Metadata v1": "A topic with neither name nor id in Metadata: Kafka answers UNKNOWN_SERVER_ERROR",
    "no partitions [AddPartitionsToTxn": "A topic without partitions in AddPartitionsToTxn",
    "twice [AddPartitionsToTxn": "a partition that is named twice is answered once",
    "no partitions, False": "A topic without partitions in AddPartitionsToTxn",
    "batched: twice": "a partition that is named twice is answered once",
    "unknown partition, True": "A partition that does not exist is in no transaction",
    "unknown topic, True": "A partition that does not exist is in no transaction",
    "batched: own topic": "Kafka lets a broker add partitions of `__transaction_state` to a transaction",
    "meanwhile deleted meanwhile": "Until its transaction ends a pending offset that was deleted counts as unstable",
    "meanwhile group deleted meanwhile": "Until its transaction ends a pending offset that was deleted counts as unstable",
    "add offsets: no group": "AddOffsetsToTxn without a group id",
    "marker: an older epoch [WriteTxnMarkers": "a marker without a producer id or epoch",
    "marker: no producer [WriteTxnMarkers": "a marker without a producer id or epoch",
    "marker: nowhere [WriteTxnMarkers": "a marker for no partition",
    "cursor gone": "if the cursor names a deleted topic, the answer begins at the next topic",
}
"""A part of a request's title -> the reason for the different answer."""


def play(bootstrap_servers: str, name: str) -> dict[str, Any]:
    """The answers of one story, by title."""
    dialogue = Dialogue(bootstrap_servers)
    mark = uuid.uuid4().hex[:10]
    try:
        STORIES[name](dialogue, f"a-{mark}")
    finally:
        dialogue.close()
    found: dict[str, Any] = json.loads(json.dumps(dialogue.answers).replace(mark, "x"))
    return found


def difference(theirs: Any, ours: Any, path: str = "") -> list[str]:
    """Every place where two answers differ."""
    if theirs == ours:
        return []
    if isinstance(theirs, dict) and isinstance(ours, dict):
        keys = sorted(set(theirs) | set(ours))
        return [line for key in keys for line in difference(theirs.get(key), ours.get(key), f"{path}.{key}")]
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = enumerate(zip(theirs, ours, strict=True))
        return [line for n, (one, two) in pairs for line in difference(one, two, f"{path}[{n}]")]
    return [f"{path}: Apache Kafka {theirs!r}, rayft {ours!r}"]


@pytest.mark.parametrize("name", STORIES)
def test_answers_are_those_of_apache_kafka(cluster: Any, name: str) -> None:
    theirs, ours = json.loads(GOLDEN.read_text())[name], play(cluster.bootstrap_servers, name)
    assert list(theirs) == list(ours), "other questions: record the answers anew"
    lines = [
        f"{title}{line}"
        for title in theirs
        if not any(part in title for part in KNOWN)
        for line in difference(theirs[title], ours[title])
    ]
    assert not lines, "\n".join(lines)


def test_every_known_difference_is_one_and_is_published() -> None:
    titles = [title for story in json.loads(GOLDEN.read_text()).values() for title in story]
    text = re.sub(r"\s+", " ", (ROOT / "docs" / "clients.md").read_text())
    for part, reason in KNOWN.items():
        assert any(part in title for title in titles), f"no question is titled {part!r}"
        assert reason in text, f"docs/clients.md does not say: {reason}"


def main() -> None:
    """Record Apache Kafka's answers: those of the stories that are named, else all."""
    from bench.apache import ApacheKafka

    config = {
        "group.initial.rebalance.delay.ms": "0",
        "default.replication.factor": "3",
        "offsets.topic.num.partitions": "10",
    }
    with ApacheKafka(controllers=1, brokers=3, config=config, heap="512m") as kafka:
        wanted = sys.argv[1:] or list(STORIES)
        found = json.loads(GOLDEN.read_text()) if sys.argv[1:] else {}
        found |= {name: play(kafka.bootstrap_servers, name) for name in wanted}
    rows = [f'{json.dumps(name)}: {{\n' + ",\n".join(
        f"{json.dumps(title)}: {json.dumps(answer, separators=(',', ':'))}" for title, answer in story.items()
    ) + "\n}" for name, story in found.items()]  # fmt: skip
    GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
