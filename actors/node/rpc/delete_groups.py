"""DeleteGroups (42), versions 0 to 2.

Errors, each group its own: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE (it is being deleted,
or that could not be written), GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actors.node.registry import Answer, Call, Listener, Subject, rpc
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node


@rpc(42, "DeleteGroups", range(0, 3), listeners=(Listener.CLIENT,), writes=Subject.GROUPS)
def delete_groups(node: "Node", request: Any, call: Call) -> Answer:
    """Remove empty groups and their offsets; answer once that is committed."""
    assert node.broker is not None
    groups = node.broker.groups
    names = dict.fromkeys(request.groups_names)
    codes: dict[str, ErrorCode] = {}

    def start(then: Callable[[ErrorCode], None]) -> None:
        if not names:
            then(ErrorCode.NONE)
        for name in names:
            groups.machine.delete(name, lambda error, name=name: finish(name, error, then))  # type: ignore[misc]

    def finish(name: str, error: ErrorCode, then: Callable[[ErrorCode], None]) -> None:
        codes[name] = error
        if len(codes) == len(names):
            then(ErrorCode.NONE)

    def reply(_: ErrorCode) -> Any:
        Response = message("DeleteGroupsResponse")
        return Response(
            results=[Response.DeletableGroupResult(group_id=name, error_code=codes[name]) for name in codes]
        )

    return groups.commit(start, reply)
