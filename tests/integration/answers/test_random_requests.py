"""Random requests of every kind and version: each is answered or its connection is closed, and no handler fails."""

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rayft
from actors.node.api import handlers as rpc
from actors.node.runtime.calls import Listener
from actors.wire.errors import WireError
from actors.wire.messages import message
from tests.integration.answers.dialogue import Broker, Closed, request
from tests.served import TABLE
from tests.unit.wire.generator import NOTHING, random_message

NUMBERS = {
    "int8": (-128, -1, 0, 1, 2, 4, 127),
    "int16": (-(1 << 15), -1, 0, 1, 2, 3, (1 << 15) - 1),
    "int32": (-(1 << 31), -2, -1, 0, 1, 2, 3, 1000, (1 << 31) - 1),
    "int64": (-(1 << 63), -2, -1, 0, 1, 5, 1_700_000_000_000, (1 << 63) - 1),
}
NAMES = (
    "",
    "there",
    "none",
    "a/b",
    "..",
    "__consumer_offsets",
    "__cluster_metadata",
    "retention.ms",
    "1",
    "x" * 300,
    "ß",
)
PATIENCE_SECONDS = 2.0
TRIES = 4


def pick(field: Any, rng: random.Random) -> Any:
    """Values that are sometimes valid; waiting times are short."""
    if field.attribute in ("timeout_ms", "max_wait_ms"):
        return rng.choice((-1, 0, 10))
    if field.type in NUMBERS:
        return rng.choice(NUMBERS[field.type])
    return rng.choice(NAMES) if field.type == "string" else NOTHING


@pytest.fixture(scope="module")
def small() -> Iterator["rayft.Cluster"]:
    """One controller and one broker for this test alone."""
    config = {"offsets.topic.num.partitions": "2", "auto.create.topics.enable": "false"}
    with rayft.Cluster(controllers=1, brokers=1, config=config) as running:
        host, _, port = running.bootstrap_servers.partition(":")
        Broker((host, int(port))).ask(
            "CreateTopics",
            5,
            request(
                "CreateTopics",
                topics=[{"name": "there", "num_partitions": 2, "replication_factor": 1}],
                timeout_ms=20_000,
            ),
        )
        yield running


def test_no_request_breaks_a_node(small: Any) -> None:
    rpc.load()
    host, _, port = small.bootstrap_servers.partition(":")
    pids = dict(small.pids)
    broker = Broker((host, int(port)), PATIENCE_SECONDS)
    rng = random.Random(7)
    for (kind, _), api in sorted(TABLE.items(), key=lambda row: (row[0][1], row[0][0].value)):
        if kind is not Listener.CLIENT or api.name == "UnregisterBroker":
            continue
        for version in api.versions:
            for _ in range(TRIES):
                body = random_message(message(f"{api.name}Request"), version, rng, pick)
                with contextlib.suppress(Closed, WireError):
                    broker.ask(api.name, version, body, silent=api.name == "Produce" and body.acks == 0)
    broker.close()
    logs = {path.name: path.read_text() for path in Path(small.dir).glob("*.log")}
    broken = [line for text in logs.values() for line in text.splitlines() if " failed: " in line or " ends: " in line]
    assert not broken, "\n".join(broken)
    assert dict(small.pids) == pids, "a node was started anew"
