"""Each cell of the table of rights: what the page says is what `perform` decides."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.authorization.resources import Operation
from actors.authorization.rights import Node
from actors.node.api import table
from actors.node.api.perform import perform
from actors.node.api.security.api_rights import ON_CONTROLLERS
from actors.node.api.security.denied import denied
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Listener
from actors.wire import framing
from actors.wire.messages import message
from tests import rights_page
from tests.rights_page import SPEAKERS, Place, cell, places


def cells(where: str) -> dict[str, list[str]]:
    """API -> what each speaker may, on one listener."""
    (place,) = [one for one in places() if where in one.served]
    return {
        name: [cell(api, one, forwarded=place.forwarded) for one in SPEAKERS]
        for name, api in place.served[where].items()
    }


def test_the_page_is_current() -> None:
    """If not: python -m tests.rights_page, and look at what has changed."""
    assert rights_page.page() == rights_page.PAGE.read_text()


@pytest.mark.parametrize("place", list(places()), ids=lambda place: "".join(place.served))
def test_nobody_and_who_is_shut_out_may_nothing_that_needs_a_right(place: Place) -> None:
    at = {one.name: number for number, one in enumerate(SPEAKERS)}
    for letter, rows in place.served.items():
        for name, found in cells(letter).items():
            assert "OTHERS" not in found, name
            if rows[name].right.checked.name == "WHOLE" or rows[name].right.door:
                assert found[at["nobody"]] == found[at["shut out"]] == "no", (letter, name)
                assert found[at["super user"]] == found[at["user with the right"]] in ("yes", "each"), (letter, name)


def test_a_brokers_certificate_changes_no_quorum_and_no_rule() -> None:
    on_controllers = cells("Q")
    broker = {name: found[1] for name, found in on_controllers.items()}
    for name in ("AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch",
                 "CreateAcls", "DeleteAcls", "AlterClientQuotas", "UpdateFeatures", "UnregisterBroker"):  # fmt: skip
        assert broker[name] == "no", name
    assert broker["Envelope"] == "yes" and broker["BrokerHeartbeat"] == "own"
    controller = {name: found[0] for name, found in on_controllers.items()}
    assert controller["RemoveRaftVoter"] == controller["Vote"] == "own"
    assert controller["Envelope"] == controller["AlterIsr"] == controller["BrokerHeartbeat"] == "no"


def test_an_envelope_in_the_name_of_a_node_does_nothing() -> None:
    for name, found in cells("E").items():
        assert set(found[:4]) <= {"no", "each", "yes"}, name
        assert "own" not in found
    enveloped = cells("E")
    assert all(enveloped["RemoveRaftVoter"][number] == "no" for number in range(4))


def test_a_refusal_says_who_and_why() -> None:
    right = ON_CONTROLLERS["Envelope"]
    judge, lines = rights_page.authorizer(right)
    call: Any = SimpleNamespace(principal="User:rayft-node-1001", client_host="192.0.2.9", api_key=58, forwarded=False)
    api = rights_page.rows(Listener.CONTROLLER)["Envelope"]
    context: Any = SimpleNamespace(authorizer=judge, kind=lambda id: Node.CONTROLLER)
    request = message("EnvelopeRequest")()
    assert perform(context, api, request, call) == Done(denied(api, request))
    assert lines == ["User:rayft-node-1001 at 192.0.2.9 speaks as a node of another kind in Envelope: refused"]


def test_r631_033_a_controllers_endpoint_asks_for_cluster_action_whatever_else_somebody_may() -> None:
    """The three APIs of a login are free (A41). In an Envelope, and in the released family, an API's own right counts."""
    drafts, released = table.TABLE["drafts"][Listener.CONTROLLER], table.TABLE["released"][Listener.CONTROLLER]
    free, reached = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}, Done("reached")
    for api in drafts.values():
        judge, _ = rights_page.authorizer(api.right._replace(door=False))
        context: Any = SimpleNamespace(authorizer=judge, kind=lambda id: Node.BROKER)
        call: Any = SimpleNamespace(
            principal="User:alice", client_host="192.0.2.9", api_key=api.key, forwarded=False, refusals=None
        )
        name = f"v28:{api.name}" if framing.is_draft(api.name) else api.name
        request = message(f"{name}Request")()
        row = api._replace(handler=lambda *_: reached)
        alone = perform(context, row, request, call) == reached
        assert alone == (api.name in free or api.right.operation is Operation.CLUSTER_ACTION), api.name
        if not api.right.door or api.key not in released:
            continue
        elsewhere = (released[api.key], table.ENVELOPED.get(api.key, released[api.key]))
        for other in (one._replace(handler=lambda *_: reached) for one in elsewhere):
            assert perform(context, other, request, call) == reached, api.name
