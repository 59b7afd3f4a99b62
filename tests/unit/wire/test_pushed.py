"""What controllers push and brokers ask of them, and the answers, as Apache Kafka 2.8.2 and 3.9.1 write them, in both
directions (KIP-291). What 2.8 calls AlterIsr 0 is version 0 of AlterPartition."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from actors.wire import framing
from actors.wire.messages import decode_exact, encode, message, requests

GOLDEN = Path(__file__).parents[2] / "golden"
NEWEST = {
    "kafka-2.8.2": {"LeaderAndIsr": 5, "UpdateMetadata": 7, "StopReplica": 3, "ControlledShutdown": 3},
    "kafka-3.9.1": {"LeaderAndIsr": 7, "UpdateMetadata": 8, "StopReplica": 4, "ControlledShutdown": 3},
}
LINES = {folder: (GOLDEN / folder / "pushed.txt").read_text().splitlines() for folder in NEWEST}


ASKED = {folder: (GOLDEN / folder / "asked.txt").read_text().splitlines() for folder in NEWEST}
OF_2_8 = {
    "AlterIsrRequest": "AlterPartitionRequest",
    "AlterIsrResponse": "AlterPartitionResponse",
    '"name":': '"topicName":',
    "currentIsrVersion": "partitionEpoch",
}


def built(kind: type[Any], fields: dict[str, Any]) -> Any:
    """The message that Kafka's JSON describes."""
    described = {one.name.lower(): one for one in kind.__struct__.fields}  # type: ignore[attr-defined]
    given = {}
    for name, value in fields.items():
        one = described["partitionepoch" if name == "zkVersion" and "zkversion" not in described else name.lower()]
        if one.type == "struct":
            child = kind.__layout__.children[kind.__struct__.fields.index(one)].cls  # type: ignore[attr-defined]
            value = [built(child, item) for item in value]
        elif one.type == "uuid":
            value = base64.urlsafe_b64decode(value + "==")
        given[one.attribute] = value
    return kind(**given)


@pytest.mark.parametrize("folder", list(NEWEST))
def test_every_version_that_a_release_speaks_is_there(folder: str) -> None:
    seen = {tuple(line.split(" ", 2)[:2]) for line in LINES[folder]}
    assert seen == {
        (f"{api}{side}", str(version))
        for api, newest in NEWEST[folder].items()
        for version in range(newest + 1)
        for side in ("Request", "Response")
    }
    for api, newest in NEWEST["kafka-3.9.1"].items():
        assert framing.rpc(api).versions == range(newest + 1)
        assert (
            requests(api).key
            == {"LeaderAndIsr": 4, "StopReplica": 5, "UpdateMetadata": 6, "ControlledShutdown": 7}[api]
        )


def test_every_version_of_an_isr_change_is_there() -> None:
    for side in ("Request", "Response"):
        seen = [line.split(" ")[1] for line in ASKED["kafka-3.9.1"] if line.startswith(f"AlterPartition{side} ")]
        assert seen == [str(version) for version in requests("AlterPartition").versions]
        assert sum(line.startswith(f"AlterIsr{side} 0 ") for line in ASKED["kafka-2.8.2"]) == 1
    assert requests("AlterPartition").key == requests("AlterIsr").key == 56


@pytest.mark.parametrize("line", [line for lines in (*LINES.values(), *ASKED.values()) for line in lines])
def test_the_bytes_are_kafkas(line: str) -> None:
    if line.startswith("AlterIsr"):
        for theirs, ours in OF_2_8.items():
            line = line.replace(theirs, ours)
    name, version, described, wanted = line.split(" ")
    kind = message(name)
    value = built(kind, json.loads(described))
    assert encode(value, int(version)).hex() == wanted
    assert decode_exact(kind, int(version), bytes.fromhex(wanted)) == value
