"""The nodes of a cluster, out of what brokers tell of them."""

from typing import Any

import pytest

from actors.client.errors import ClientError
from actors.client.metadata import Broker, Partition, Topic
from actors.client.operations.cluster import Cluster, Quorum, Replica
from actors.command.by_address import nodes
from actors.command.output import screen

NOW_MS = 1_000_000
CLUSTER = Cluster("id", 1, {1: Broker(1, "a", 91), 2: Broker(2, "b", 92)})


def replica(id: int, end: int, ago_ms: int = 0) -> Replica:
    return Replica(id, bytes(16), end, NOW_MS - ago_ms, NOW_MS - ago_ms)


QUORUM = Quorum(
    101, 7, 100, [replica(101, 100), replica(102, 90, 500), replica(103, 20, 60_000)],
    [replica(1, 100), replica(2, 98), replica(3, 40), replica(104, 99)],
    {101: [("CONTROLLER", "c", 93)]},
)  # fmt: skip
PARTS = (
    Partition(0, 1, 0, (1, 3), (1,), ()),
    Partition(1, -1, 0, (4,), (), ()),
    Partition(2, 2, 0, (2,), (2,), ()),
)
TOPICS = {"t": Topic("t", bytes(16), False, {one.number: one for one in PARTS}, 0)}


def test_the_state_of_each_node() -> None:
    found = nodes.described(CLUSTER, TOPICS, QUORUM)
    assert [(one["id"], one["state"], one["lag"], one["host"], one["port"]) for one in found["controllers"]] == [
        (101, "leader", 0, "c", 93), (102, "follower", 10, None, None), (103, "down", 80, None, None),
        (104, "observer", 1, None, None),
    ]  # fmt: skip
    assert [(one["id"], one["state"], one["lag"], one["host"]) for one in found["brokers"]] == [
        (1, "active", 0, "a"), (2, "active", 2, "b"), (3, "fenced", 60, None), (4, "down", None, None)
    ]  # fmt: skip
    assert (found["topics"], found["partitions"], found["under_replicated_partitions"], found["offline_partitions"]) == (
        1, 3, 2, 1
    )  # fmt: skip
    assert not screen.healthy(found)
    assert screen.line(found).startswith(
        "controller 101 leads, epoch 7 · 2 of 4 brokers active · 3 partitions, 2 under"
    )


class NotAllowed:
    """A client that may not ask for the quorum; and later one that reaches nobody."""

    def __init__(self) -> None:
        self.asked = 0
        self.lost = False

    def run(self, steps: Any, timeout_s: float) -> Any:
        steps.close()
        if self.lost:
            raise ClientError("no broker answers")
        self.asked += 1
        if self.asked % 3 == 0:
            raise ClientError("the quorum: not allowed")
        return CLUSTER if self.asked % 3 == 1 else {}


def test_a_quorum_that_is_not_told_is_no_fault_and_nobody_there_is() -> None:
    kafka: Any = NotAllowed()
    found = nodes.state(kafka)
    assert screen.healthy(found) and found["controllers"] == []
    assert screen.line(found).startswith(
        "the quorum of controllers is not known: the quorum: not allowed · 2 of 2 brokers"
    )
    kafka.lost = True
    later = nodes.again(kafka, found)
    assert not screen.healthy(later) and later["brokers"] == found["brokers"]
    assert screen.line(later).startswith("no broker answers: no broker answers · before that · 2 of 2 brokers active")
    kafka.lost = False
    assert "no_answer" not in nodes.again(kafka, later)
    kafka.lost = True
    with pytest.raises(ClientError):
        nodes.state(kafka)
