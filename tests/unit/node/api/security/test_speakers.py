"""A principal that names nodes speaks for these alone, and asks what nodes of its kind ask."""

from typing import Any

import pytest

from actors.authorization.resources import Operation
from actors.authorization.rights import Node
from actors.node.api.security.api_rights import ON_BROKERS, ON_CONTROLLERS
from actors.node.api.security.speakers import kind, may_be, named
from actors.node.api.table import ENVELOPED
from actors.wire import framing
from actors.wire.messages import message
from tests.served import EVERY


@pytest.mark.parametrize(
    ("principal", "ids"),
    [
        ("User:rayft-node-1", {1}),
        ("User:rayft-node-1-1001", {1, 1001}),
        ("User:admin", None),
        ("User:rayft-node-", None),
        ("User:rayft-node-1x", None),
        ("User:rayft-node-1 ", None),
        ("User:rayft-node-12345678901", None),
        ("Group:rayft-node-1", None),
    ],
)
def test_which_nodes_a_principal_names(principal: str, ids: set[int] | None) -> None:
    assert named(principal) == ids


@pytest.mark.parametrize(
    ("id", "late", "what"),
    [
        (1, False, Node.BROKER), (1, True, Node.BROKER), (1001, False, Node.CONTROLLER), (7, False, Node.NEWCOMER),
        (7, True, Node.NEWCOMER | Node.BROKER | Node.CONTROLLER), (5, False, Node.BROKER),
    ],
)  # fmt: skip
def test_what_an_id_is(id: int, late: bool, what: Node) -> None:
    """Broker 5 has got a vote too, under an older release: it stays a broker and no controller."""
    assert kind(id, (5, 1001), {1, 5}.__contains__, late=late) == what


@pytest.mark.parametrize(
    ("principal", "id", "may"),
    [
        ("User:rayft-node-1", 1, True), ("User:rayft-node-1", 2, False), ("User:rayft-node-1-1001", 1, True),
        ("User:rayft-node-1-1001", 1001, False), ("User:admin", 2, True), ("User:admin", 1001, True),
    ],
)  # fmt: skip
def test_who_may_be_a_broker(principal: str, id: int, may: bool) -> None:
    def of(id: int) -> Node:
        return Node.BROKER if id < 1000 else Node.CONTROLLER

    assert may_be(principal, id, Node.BROKER, of) is may


def requests(name: str) -> Any:
    return message(f"{'v28:' if framing.is_draft(name) else ''}{name}Request")


def test_every_api_of_nodes_that_names_one_has_a_speaker_and_says_which_nodes() -> None:
    """An API that is new has to be looked at: for which node does it speak, and which nodes ask it?"""
    without = {"Envelope", "WriteTxnMarkers"} | {api.name for api in EVERY.values() if "ShareGroupState" in api.name}
    for api in EVERY.values():
        if api.right.operation is Operation.CLUSTER_ACTION:
            assert api.right.nodes, api.name
            assert (api.right.speaks is None) == (api.name in without), api.name


def test_no_envelope_holds_what_nodes_ask() -> None:
    assert all(api.right.operation is not Operation.CLUSTER_ACTION for api in ENVELOPED.values())


def test_the_speaker_of_each_request() -> None:
    def spoken(name: str, request: Any) -> list[int]:
        right = (ON_CONTROLLERS if name in ON_CONTROLLERS else ON_BROKERS)[name]
        assert right.speaks is not None
        return list(right.speaks(request))

    vote = requests("Vote")
    partition = vote.PartitionData(partition_index=0, replica_id=1002)
    assert spoken("Vote", vote(topics=[vote.TopicData(topic_name="t", partitions=[partition])])) == [1002]
    fetch = requests("Fetch")
    assert spoken("Fetch", fetch(replica_id=3)) == [3]
    assert spoken("Fetch", fetch(replica_state=fetch.ReplicaState(replica_id=4))) == [4]
    assert spoken("Fetch", fetch(replica_id=-1)) == []
    fields = {
        "AddRaftVoter": "voter_id", "RemoveRaftVoter": "voter_id", "UpdateRaftVoter": "voter_id",
        "AllocateProducerIds": "broker_id", "AlterIsr": "broker_id", "AlterPartition": "broker_id",
        "BrokerHeartbeat": "broker_id", "ControlledShutdown": "broker_id", "ControllerHeartbeat": "controller_id",
        "FetchSnapshot": "replica_id", "LeaderAndIsr": "controller_id", "StopReplica": "controller_id",
        "UpdateMetadata": "controller_id",
    }  # fmt: skip
    for name, field in fields.items():
        assert spoken(name, requests(name)(**{field: 5})) == [5], name
