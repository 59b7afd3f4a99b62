"""What is answered to a request that is denied as a whole: every API has an answer that can be encoded, and that says so."""

from typing import Any

import pytest

from actors.authorization.rights import Checked
from actors.node.api.security.denied import CODE, denied
from actors.node.runtime.calls import Api
from actors.wire import framing
from actors.wire.messages import message
from tests.served import TABLE

APIS = sorted(
    {api for api in TABLE.values() if api.right.checked is Checked.WHOLE or api.right.door},
    key=lambda api: (api.key, api.name),
)


@pytest.mark.parametrize("api", APIS, ids=[api.name for api in APIS])
def test_every_api_that_can_be_denied_has_an_answer(api: Api) -> None:
    name = f"v28:{api.name}" if framing.is_draft(api.name) else api.name
    reply = denied(api, message(f"{name}Request")())
    assert getattr(reply, "error_code", CODE) == CODE, "it has one, or each part of the request has"


@pytest.mark.parametrize("api", [api for api in APIS if "ShareGroupState" in api.name], ids=lambda api: api.name)
def test_share_partitions_are_denied_one_by_one(api: Api) -> None:
    kind: Any = message(f"{api.name}Request")
    topic = next(
        getattr(kind, name) for name in dir(kind) if name.endswith("StateData") or name == "ReadStateSummaryData"
    )
    asked = kind(group_id="g", topics=[topic(topic_id=b"\1" * 16, partitions=[kind.PartitionData(partition=3)])])
    for version in api.versions:
        data = b"".join(framing.encode_response(api.name, version, 7, denied(api, asked)))[4:]
        (result,) = framing.decode_response(api.name, version, data).results
        assert result.topic_id == b"\1" * 16
        assert [(one.partition, one.error_code) for one in result.partitions] == [(3, CODE)]
