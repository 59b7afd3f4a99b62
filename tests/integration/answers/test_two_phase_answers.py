"""rayft's answers about two-phase commit (KIP-939) beside those of Apache Kafka 4.3.1, field by field.

Apache Kafka's are recorded in tests/golden/kafka-4.3.1/two_phase.json, with `unstable.api.versions.enable`: `python -m
tests.integration.answers.test_two_phase_answers` records them again. It refuses KeepPreparedTxn, which rayft serves; all
else is the same.
"""

import json
import uuid
from typing import Any

import rayft
from actors.wire.errors import ErrorCode
from tests.integration.answers.dialogue import Dialogue
from tests.integration.answers.test_answers import ROOT, difference
from tests.integration.answers.two_phase import CONFIG, story

GOLDEN = ROOT / "tests" / "golden" / "kafka-4.3.1" / "two_phase.json"
KEEP = ("keep [", "keep without two-phase [")


def play(bootstrap_servers: str) -> dict[str, Any]:
    """The answers of the story, by title."""
    dialogue, mark = Dialogue(bootstrap_servers), uuid.uuid4().hex[:10]
    try:
        story(dialogue, f"a-{mark}")
    finally:
        dialogue.close()
    found: dict[str, Any] = json.loads(json.dumps(dialogue.answers).replace(mark, "x"))
    return found


def test_answers_about_two_phase_commit_are_those_of_apache_kafka() -> None:
    theirs = json.loads(GOLDEN.read_text())
    with rayft.Cluster(controllers=1, brokers=1, config=CONFIG) as cluster:
        ours = play(cluster.bootstrap_servers)
    assert list(theirs) == list(ours), "other questions: record the answers anew"
    kept = [title for title in theirs if title.startswith(KEEP)]
    assert len(kept) == 2
    for title in kept:
        assert theirs[title]["error_code"] == ErrorCode.UNSUPPORTED_VERSION
        assert ours[title]["error_code"] == 0, title
    lines = [
        f"{title}{line}" for title in theirs if title not in kept for line in difference(theirs[title], ours[title])
    ]
    assert not lines, "\n".join(lines)


def main() -> None:
    """Record Apache Kafka's answers."""
    from bench.apache import ApacheKafka

    config = CONFIG | {"unstable.api.versions.enable": "true"}
    with ApacheKafka(controllers=0, brokers=1, config=config, heap="512m") as kafka:
        found = play(kafka.bootstrap_servers)
    rows = [f"{json.dumps(title)}: {json.dumps(answer, separators=(',', ':'))}" for title, answer in found.items()]
    GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
