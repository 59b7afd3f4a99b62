"""What the page may have done to the nodes of a cluster, and what it is told."""

import json
import os
from typing import Any, cast

import pytest

from actors.command.by_address.page_faults import DEEDS, LINE_BYTES_MAX, PageFaults
from actors.host.cluster_error import ClusterError


class Nodes:
    """A node that serves, one that is frozen, a combined one that is down, and one that is cut off."""

    broker_ids = (1, 2, 3, 4)

    def __init__(self) -> None:
        self.states = {(1,): "serves", (2,): "frozen", (3, 1003): "down", (4,): "cut"}
        self.done: list[tuple[str, int]] = []

    def __getattr__(self, name: str) -> Any:
        def do(node: int, **how: Any) -> None:
            self.done.append((name, node))
            if name == "restart":
                raise ClusterError("it did not come back")

        return do


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


def asked(nodes: Nodes, *lines: bytes) -> list[dict[str, Any]]:
    """The answers over the socket."""
    faults = PageFaults(cast(Any, nodes))
    try:
        with os.fdopen(os.dup(faults.given.fileno()), "r+b", buffering=0) as stream:
            found = []
            for line in lines:
                stream.write(line + b"\n")
                found.append(json.loads(stream.readline()))
            return found
    finally:
        faults.close()


def test_the_nodes_and_what_may_be_done_to_each(nodes: Nodes) -> None:
    (told,) = asked(nodes, b'{"do": "nodes", "number": 7}')
    assert told.pop("number") == 7
    assert [(one["ids"], one["roles"], one["state"], one["deeds"]) for one in told["nodes"]] == [
        ([1], ["broker"], "serves", ["kill", "freeze", "cut", "restart"]),
        ([2], ["broker"], "frozen", ["kill", "thaw"]),
        ([3, 1003], ["broker", "controller"], "down", ["start"]),
        ([4], ["broker"], "cut", ["kill", "reconnect"]),
    ]


def test_a_deed_is_for_nodes_in_some_states_alone(nodes: Nodes) -> None:
    told = asked(nodes, *(json.dumps({"do": do, "node": 2}).encode() for do in DEEDS))
    assert nodes.done == [("kill", 2), ("thaw", 2)]
    assert ["said" in one for one in told] == [True, False, True, False, False, False, False]
    assert told[1]["error"] == "node 2 is frozen: freeze is for one that is running or starting"
    (told,) = asked(nodes, b'{"do": "freeze", "node": 4}')
    assert told["error"] == "node 4 is cut off: freeze is for one that is running or starting"
    assert asked(nodes, b'{"do": "start", "node": 1003}')[0]["said"] == "Node 3 and 1003 is being started."


def test_what_does_not_succeed_is_told(nodes: Nodes) -> None:
    (told,) = asked(nodes, b'{"do": "restart", "node": 1}')
    assert told == {"error": "node 1: restart did not succeed: it did not come back"}


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b"3", b'{"do": []}', b'{"do": "kill"}', b'{"do": "kill", "node": true}', b'{"do": "stop", "node": 1}',
     b'{"do": "kill", "node": [1]}', b'{"do": "kill", "node": 9}', b'{"do": "__class__", "node": 1}', b"\xff"],
)  # fmt: skip
def test_what_makes_no_sense_does_nothing(nodes: Nodes, line: bytes) -> None:
    assert "error" in asked(nodes, line)[0] and nodes.done == []


def test_a_line_without_an_end_is_no_question(nodes: Nodes) -> None:
    faults = PageFaults(cast(Any, nodes))
    try:
        with os.fdopen(os.dup(faults.given.fileno()), "r+b", buffering=0) as stream:
            stream.write(b"x" * (LINE_BYTES_MAX + 1))
            assert "error" in json.loads(stream.readline())
    finally:
        faults.close()
