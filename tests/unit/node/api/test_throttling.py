"""Where an answer says how long its client has to wait."""

import pytest

from actors.node.runtime.calls import Api, Listener
from actors.wire import framing
from actors.wire.messages import message
from tests.served import TABLE

CLIENTS = sorted((api for (listener, _), api in TABLE.items() if listener is Listener.CLIENT), key=lambda api: api.key)
WITHOUT = {"SaslHandshake", "SaslAuthenticate", "DescribeQuorum", "WriteTxnMarkers"}
WITHOUT |= {api.name for api in CLIENTS if "ShareGroupState" in api.name}


@pytest.mark.parametrize("api", CLIENTS, ids=[api.name for api in CLIENTS])
def test_every_version_of_an_answer_takes_a_throttle_time_or_leaves_it_out(api: Api) -> None:
    reply = message(f"{api.name}Response")()
    assert hasattr(reply, "throttle_time_ms") is (api.name not in WITHOUT)
    if api.name in WITHOUT:
        return
    reply.throttle_time_ms = 1234
    for version in api.versions:
        data = b"".join(framing.encode_response(api.name, version, 7, reply))[4:]
        told = framing.decode_response(api.name, version, data).throttle_time_ms
        place = framing.throttle_time_place(api.name, version, data)
        if place:
            assert told == int.from_bytes(data[place : place + 4], "big") == 1234
        else:
            assert told in (0, 1234), "it is somewhere else, or this version has none"


@pytest.mark.parametrize(
    "name", ["CreateTopics", "DeleteTopics", "CreatePartitions", "AlterClientQuotas", "ElectLeaders"]
)
def test_an_answer_that_is_passed_on_has_it_in_front(name: str) -> None:
    api = next(one for one in CLIENTS if one.name == name)
    for version in api.versions:
        data = b"".join(framing.encode_response(name, version, 7, message(f"{name}Response")()))[4:]
        assert framing.throttle_time_place(name, version, data) in (4, 5)
