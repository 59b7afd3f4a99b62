"""What the page of metrics tells of a node's requests and of the memory that it keeps for peers."""

from typing import Any

import pytest

from actors.node import metrics
from tests.unit.node.net.test_lanes import Lab

SOCKETS = "kafka.network:type=SocketServer,name="


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab()


def shown(lab: Lab) -> dict[str, float]:
    node = lab.node
    return {one.mbean: one.value for one in metrics.samples(node.runtime, node.requests, node.quorum, None, None)}


def test_each_counter_of_connections_is_shown_under_its_own_name(lab: Lab) -> None:
    lab.node.requests.failed_logins = 3
    lab.node.requests.expired = [5, 7]
    found = shown(lab)
    assert found[SOCKETS + "FailedAuthenticationCount"] == 3
    assert found[SOCKETS + "ExpiredConnectionsKilledCount"] == 5
    assert found[SOCKETS + "ControlPlaneExpiredConnectionsKilledCount"] == 7


def test_memory_kept_for_peers_is_shown_by_owner_and_by_principal(lab: Lab) -> None:
    ledger: Any = lab.node.runtime.ledger
    account = ledger.account("tests", 1 << 20)
    assert account.charge("User:alice", 100) and account.charge("User:b=b", 20)
    found = shown(lab)
    owners = dict(ledger.kept())
    assert owners["tests"] == 120 and owners == {
        name.partition(",owner=")[2]: value for name, value in found.items() if name.startswith(metrics.PEER_MEMORY)
    }
    assert not account.charge("User:alice", 1 << 20)
    found = shown(lab)
    refused = dict(ledger.refused())
    assert refused["tests"] == 1 and refused == {
        name.partition(",owner=")[2]: value for name, value in found.items() if name.startswith(metrics.PEER_REFUSED)
    }
    of = {
        name.partition(",principal=")[2]: v for name, v in found.items() if name.startswith(metrics.PEER_OF_PRINCIPAL)
    }
    assert of == {metrics.quote("User:alice"): 100, metrics.quote("User:b=b"): 20}
