"""What describing groups of the three newer kinds has in common."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.node.api import handlers
from actors.node.api.table import TABLE
from actors.node.runtime.calls import Call, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

handlers.load()


@pytest.mark.parametrize(
    ("key", "kind", "serves"),
    [
        (69, "Consumer", "serves_consumers"),
        (77, "Share", "serves_share_groups"),
        (89, "Streams", "serves_streams"),
    ],
)
def test_whether_the_cluster_has_such_groups_is_asked_for_each_of_them(key: int, kind: str, serves: str) -> None:
    """The answer to a long request is made in slices, and a feature may have another level in the next one."""
    levels = iter((True, False))
    groups = SimpleNamespace(**{serves: lambda: next(levels)}, machine=SimpleNamespace(find=lambda id: None))
    context: Any = SimpleNamespace(groups=groups, authorizer=SimpleNamespace(allowed=lambda *asked: True))
    request = message(f"{kind}GroupDescribeRequest")(group_ids=["a", "b"])
    call = Call(1, Listener.CLIENT, "L", key, 0, None, "h", "User:ANONYMOUS", memoryview(b""))
    answer: Any = TABLE["released"][Listener.CLIENT][key].handler(context, request, call)
    codes = [one.error_code for one in answer.reply.groups]
    assert codes == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION]
