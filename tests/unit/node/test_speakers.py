"""A principal that names nodes speaks for these alone."""

from typing import Any

import pytest

from actors.node.api.rights import NODES_ONLY
from actors.node.api.speakers import SPEAKERS, speaks_for, spoken_for
from actors.wire import framing
from actors.wire.messages import message
from tests.served import TABLE


@pytest.mark.parametrize(
    ("principal", "node", "may"),
    [
        ("User:rayft-node-1", 1, True),
        ("User:rayft-node-1", 2, False),
        ("User:rayft-node-1", 11, False),
        ("User:rayft-node-1-1001", 1001, True),
        ("User:rayft-node-1-1001", 1002, False),
        ("User:admin", 7, True),
        ("User:rayft-node-", 7, True),
        ("User:rayft-node-1x", 7, True),
        ("Group:rayft-node-1", 7, True),
    ],
)
def test_who_speaks_for_whom(principal: str, node: int, may: bool) -> None:
    assert speaks_for(principal, node) is may


def requests(name: str) -> Any:
    return message(f"{'v28:' if framing.is_draft(name) else ''}{name}Request")


def test_every_api_of_nodes_that_names_one_has_a_speaker() -> None:
    """An API that is new has to be looked at: for which node does it speak?"""
    without = {"Envelope", "WriteTxnMarkers"}
    without |= {api.name for api in TABLE.values() if "ShareGroupState" in api.name}
    nodes_only = {api.name for api in TABLE.values() if api.right is NODES_ONLY}
    assert nodes_only - without <= SPEAKERS.keys()


def test_the_speaker_of_each_request() -> None:
    vote = requests("Vote")
    partition = vote.PartitionData(partition_index=0, replica_id=1002)
    assert list(spoken_for("Vote", vote(topics=[vote.TopicData(topic_name="t", partitions=[partition])]))) == [1002]
    fetch = requests("Fetch")
    assert list(spoken_for("Fetch", fetch(replica_id=3))) == [3]
    assert list(spoken_for("Fetch", fetch(replica_state=fetch.ReplicaState(replica_id=4)))) == [4]
    assert list(spoken_for("Fetch", fetch(replica_id=-1))) == []
    for name, field in (("BrokerHeartbeat", "broker_id"), ("ControllerHeartbeat", "controller_id")):
        assert list(spoken_for(name, requests(name)(**{field: 5}))) == [5]
