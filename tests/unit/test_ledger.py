"""The ledger of memory: bounds by owner, principal and node, and that no owner keeps anything without it.

The second is shown by machine (`tests/left_behind.py`): every API is asked with every list of its requests long, and what
its handler leaves in the node's memory must be what the ledger says, whatever file it is kept in.
"""

import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from actors.broker.replication.fetch_sessions import Sessions
from actors.ledger import EVERYBODY, NODES, Ledger
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Listener
from actors.wire.messages import message
from tests.heavy_nodes import NO_AUTHORIZER, Nodes, Row, rows
from tests.left_behind import left_behind

pytestmark = pytest.mark.long

UNKNOWN_BYTES_MAX = 48_000
"""What is kept of a request with a thousand names of 200 characters that is in no owner: places in dicts that have grown,
remembered hashes, what the log of the node remembers of its last lines."""
IN_THE_LOG = {
    "AlterClientQuotas", "AlterConfigs", "AlterUserScramCredentials", "CreateAcls", "CreatePartitions", "CreateTopics",
    "IncrementalAlterConfigs", "RegisterBroker", "UpdateFeatures", "AddOffsetsToTxn", "AddPartitionsToTxn", "OffsetCommit",
    "TxnOffsetCommit", "Produce", "WriteTxnMarkers", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat",
    "StreamsGroupHeartbeat",
    "InitializeShareGroupState", "WriteShareGroupState", "DeleteShareGroupState", "ReadShareGroupState",
    "ControllerRegistration", "BrokerRegistration", "InitProducerId",
}  # fmt: skip
"""APIs whose requests end in a log, so that what they say is the state of the cluster, which its limits bound."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    found = Nodes(NO_AUTHORIZER)
    tracemalloc.start(1)
    yield found
    tracemalloc.stop()


def test_members_of_groups_may_have_all_that_peers_may_have(nodes: Nodes) -> None:
    """So an operator with large groups has one setting to raise."""
    ledger = nodes.broker.node.runtime.ledger  # type: ignore[union-attr]
    assert ledger.bytes_max == 512 << 20
    assert ledger.accounts["GroupMembers"].bytes_max == ledger.bytes_max


def test_each_bound_refuses_by_itself() -> None:
    ledger = Ledger(bytes_max=1_000, principal_bytes_max=600)
    first, second = ledger.account("First", 800), ledger.account("Second", 900)
    assert first.charge("User:a", 500) and not first.charge("User:a", 101), "a principal's bound counts over all owners"
    assert not second.charge("User:a", 101) and second.charge("User:a", 100)
    assert not first.charge("User:b", 301), "the owner's bound"
    assert first.charge("User:b", 300) and not second.charge("User:c", 101), "the node's"
    assert first.charge(NODES, 10_000) and second.charge("User:c", 100), "the cluster's own take no room of others"
    ledger.check()
    assert dict(ledger.kept()) == {"First": 10_800, "Second": 200} and dict(ledger.refused()) == {
        "First": 2,
        "Second": 2,
    }
    first.give_back("User:b", 300)
    assert not second.charge("User:a", 1) and second.charge(EVERYBODY, 300), "who is nobody in particular has no bound"
    assert ledger.largest(2) == [(NODES, 10_000), ("User:a", 600)]
    ledger.check()


def test_an_account_forgets_whom_it_keeps_nothing_for() -> None:
    ledger = Ledger()
    account = ledger.account("One", 10)
    for number in range(1_000):
        assert account.charge(f"User:{number}", 7)
        account.give_back(f"User:{number}", 7)
    assert not account.by_principal and not ledger.by_principal
    ledger.check()


def test_sessions_are_charged_to_whoever_fetches() -> None:
    ledger = Ledger(principal_bytes_max=20 * 512)
    sessions = Sessions(random.Random(1).randrange, 100, ledger.account("FetchSessions", 1 << 20))
    from tests.unit.broker.replication.test_fetch_sessions import wanted

    first = sessions.open(0, 0, -1, True, 0, principal="User:a").session
    second = sessions.open(0, 0, -1, True, 0, principal="User:a").session
    other = sessions.open(0, 0, -1, True, 0, principal="User:b").session
    assert first and second and other
    assert sessions.grew(first, len(first.want(wanted(15))))
    assert not sessions.grew(second, len(second.want(wanted(6)))), "both are of one principal"
    assert sessions.grew(other, len(other.want(wanted(20))))
    ledger.check()
    for one in (first, other):
        sessions.close(one)
    assert not ledger.by_principal


@pytest.mark.parametrize("row", [one for one in rows() if not one.enveloped], ids=str)
def test_nothing_is_kept_that_the_ledger_does_not_know(nodes: Nodes, row: Row) -> None:
    left = left_behind(nodes, row.listener, row.name, row.versions[-1], 0)
    nodes.broker.node.runtime.ledger.check()  # type: ignore[union-attr]
    assert row.name in IN_THE_LOG or left.unknown <= UNKNOWN_BYTES_MAX, f"{row}: {left}"


def hoards_requests(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant: the handler of DescribeGroups remembers what it was asked."""
    rows, kept = node.requests._served[Listener.CLIENT], []
    (row,) = [api for api in rows.values() if api.name == "DescribeGroups"]

    def keeps(context: Any, request: Any, call: Any) -> Any:
        kept.append(request)
        return Done(message("DescribeGroupsResponse")())

    monkeypatch.setitem(rows, row.key, row._replace(handler=keeps))


def grows_uncharged(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant: fetch sessions count nothing."""
    monkeypatch.setattr(Sessions, "grew", lambda self, session, entries: True)


@pytest.mark.parametrize(
    ("plant", "listener", "name", "version"),
    [(hoards_requests, Listener.CLIENT, "DescribeGroups", 5), (grows_uncharged, Listener.CLIENT, "Fetch", 17)],
)
def test_an_owner_that_says_nothing_is_found(
    nodes: Nodes, plant: Any, listener: Listener, name: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert left_behind(nodes, listener, name, version, 100).unknown <= UNKNOWN_BYTES_MAX
    plant(nodes.broker.node, monkeypatch)
    left = left_behind(nodes, listener, name, version, 101)
    assert left.unknown > UNKNOWN_BYTES_MAX, left
