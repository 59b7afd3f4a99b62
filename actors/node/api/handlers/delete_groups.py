"""DeleteGroups (42), versions 0 to 2.

Errors, each group its own: GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
COORDINATOR_NOT_AVAILABLE (it is being deleted, or that could not be written), GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import ENTRIES_A_SLICE, SliceCount, Steps, in_slices, joined
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DeleteGroupsRequest


@rpc(42, "DeleteGroups", range(0, 3), listeners=(Listener.CLIENT,), writes=Subject.GROUPS)
@in_slices
def delete_groups(context: BrokerContext, request: "DeleteGroupsRequest", call: Call) -> Steps:
    """Remove empty groups and their offsets; answer once that is committed. Many are removed in portions, a slice each."""
    names = list(dict.fromkeys(request.groups_names))
    deleted: list[Answer] = []
    for first in range(0, len(names), ENTRIES_A_SLICE):
        if first:
            yield
        portion = names[first : first + ENTRIES_A_SLICE]
        may = [one for one in portion if context.authorizer.allowed(call, Operation.DELETE, Resource.GROUP, one)]
        denied = [(name, ErrorCode.GROUP_AUTHORIZATION_FAILED) for name in sorted(set(portion) - set(may))]
        deleted += [Done(denied), _delete(context, may)] if may else [Done(denied)]
    return joined(deleted, _reply)


def _reply(results: list[list[tuple[str, ErrorCode]]]) -> Generator[None, None, Any]:
    kind = message("DeleteGroupsResponse")
    reply, pace = kind(), SliceCount()
    for codes in results:
        for name, code in codes:
            reply.results.append(kind.DeletableGroupResult(group_id=name, error_code=code))
            if pace.over():
                yield
    return reply


def _delete(context: BrokerContext, names: list[str]) -> Answer:
    """Remove some groups; the reply is a list of (name, error), in the order in which they were decided."""
    groups = context.groups
    codes: dict[str, ErrorCode] = {}

    def start(then: Callable[[ErrorCode], None]) -> None:
        for name in names:
            groups.machine.delete(name, lambda error, name=name: finish(name, error, then))  # type: ignore[misc]

    def finish(name: str, error: ErrorCode, then: Callable[[ErrorCode], None]) -> None:
        codes[name] = error
        if len(codes) == len(names):
            then(ErrorCode.NONE)

    return groups.commit(start, lambda _: list(codes.items()))
