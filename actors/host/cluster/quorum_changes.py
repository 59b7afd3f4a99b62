"""The voters of a running quorum, asked and changed from outside (KIP-853): what `rayft up --add-controller` and `rayft
down --node N --remove` say to the active controller.

This file alone decides which of its answers mean that a change is asked for again. Rules:

1. It uses Kafka's own requests: DescribeQuorum, RemoveRaftVoter, AddRaftVoter; CreateAcls and DeleteAcls where the cluster
   is secure, for nodes that run know their super users from their start.
2. No answer, another leader, and a change that the leader cannot make yet (REQUEST_TIMED_OUT) are asked again until the
   time is over. Any other error ends it, with the controller's own sentence.
3. What is so already is no error: an answer may have been lost after the change was made.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from actors.authorization.resources import CLUSTER_NAME, WILDCARD, Operation, Permission, Resource
from actors.host.cluster import probe
from actors.host.cluster.access import Access
from actors.host.cluster_error import ClusterError
from actors.host.work.system_random import uuid_text
from actors.wire.errors import ErrorCode, text
from actors.wire.messages import Message, message

AGAIN = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT})
PAUSE_S = 0.02
ASK_TIMEOUT_S = 5.0
"""The time for one answer: longer than a controller waits for the commit of a change."""

Answer = TypeVar("Answer")
Controllers = Mapping[int, Access]
"""The controllers that can be asked, by id."""


class MetadataReplica(NamedTuple):
    """A replica of the metadata: an id and the directory that it keeps."""

    id: int
    directory_id: bytes

    def __str__(self) -> str:
        return f"{self.id} with the directory {uuid_text(self.directory_id)}"


class Members(NamedTuple):
    """The quorum, as its leader describes it."""

    leader_id: int
    high_watermark: int
    voters: dict[int, MetadataReplica]
    """The voters by id."""
    observers: dict[MetadataReplica, int]
    """The log end offset of each replica that follows without a vote."""


def members(controllers: Controllers, timeout_s: float) -> Members:
    """The members of the quorum, as soon as its leader has answered. Raises ClusterError."""
    return _until(timeout_s, lambda: _described(controllers), "no controller leads")


def wait_for_observer(controllers: Controllers, key: MetadataReplica, timeout_s: float) -> None:
    """Wait until a replica has all that is committed. Raises ClusterError."""

    def follows() -> bool:
        found = _described(controllers)
        end = found.observers.get(key, -1)
        if key not in found.voters.values() and end < found.high_watermark:
            raise _Again(f"it has the log up to {end} of {found.high_watermark}" if end >= 0 else "it does not fetch")
        return True

    _until(timeout_s, follows, f"controller {key.id} does not follow the quorum")


def add(controllers: Controllers, key: MetadataReplica, endpoint: tuple[str, str, int], timeout_s: float) -> None:
    """Give a replica that follows a vote. `endpoint`: listener, host and port at which others reach it. Raises
    ClusterError."""
    cls = message("AddRaftVoterRequest")
    listener = cls.Listener(name=endpoint[0], host=endpoint[1], port=endpoint[2])
    request = cls(cluster_id=None, voter_id=key.id, voter_directory_id=key.directory_id, listeners=[listener])
    _change(
        controllers, "AddRaftVoter", request, 1, lambda found: found.voters.get(key.id) == key, timeout_s,
        f"controller {key.id} gets no vote",
    )  # fmt: skip


def remove(controllers: Controllers, key: MetadataReplica, timeout_s: float) -> None:
    """Take a voter's vote. Raises ClusterError."""
    cls = message("RemoveRaftVoterRequest")
    request = cls(cluster_id=None, voter_id=key.id, voter_directory_id=key.directory_id)
    _change(
        controllers, "RemoveRaftVoter", request, 0, lambda found: found.voters.get(key.id) != key, timeout_s,
        f"controller {key.id} keeps its vote",
    )  # fmt: skip


def let_in(controllers: Controllers, principal: str, timeout_s: float) -> None:
    """Give a principal the right to be a node, also if it had been shut out. Raises ClusterError."""
    otherwise = f"{principal} is not let in"
    _no_rule(controllers, principal, Operation.ALL, Permission.DENY, timeout_s, otherwise)
    _rule(controllers, principal, Operation.CLUSTER_ACTION, Permission.ALLOW, timeout_s, otherwise)


def shut_out(controllers: Controllers, principal: str, timeout_s: float) -> None:
    """Take the right to be a node from a principal, whether a rule or `super.users` of nodes that run gave it. Raises
    ClusterError."""
    otherwise = f"{principal} keeps its rights"
    _rule(controllers, principal, Operation.ALL, Permission.DENY, timeout_s, otherwise)
    _no_rule(controllers, principal, Operation.CLUSTER_ACTION, Permission.ALLOW, timeout_s, otherwise)


def _rule(
    controllers: Controllers,
    principal: str,
    operation: Operation,
    permission: Permission,
    timeout_s: float,
    otherwise: str,
) -> None:
    cls = message("CreateAclsRequest")
    rule = cls.AclCreation(
        resource_type=Resource.CLUSTER, resource_name=CLUSTER_NAME, principal=principal, host=WILDCARD,
        operation=operation, permission_type=permission,
    )  # fmt: skip
    _rules(controllers, "CreateAcls", cls(creations=[rule]), "results", timeout_s, otherwise)


def _no_rule(
    controllers: Controllers,
    principal: str,
    operation: Operation,
    permission: Permission,
    timeout_s: float,
    otherwise: str,
) -> None:
    cls = message("DeleteAclsRequest")
    rule = cls.DeleteAclsFilter(
        resource_type_filter=Resource.CLUSTER, resource_name_filter=CLUSTER_NAME, principal_filter=principal,
        host_filter=WILDCARD, operation=operation, permission_type=permission,
    )  # fmt: skip
    _rules(controllers, "DeleteAcls", cls(filters=[rule]), "filter_results", timeout_s, otherwise)


class _Again(Exception):
    """An order to ask again; the message says why."""


def _until(timeout_s: float, ask: Callable[[], Answer], otherwise: str) -> Answer:
    until_s = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except (_Again, probe.NoAnswer) as error:
            if time.monotonic() > until_s:
                raise ClusterError(f"{otherwise} after {timeout_s:.0f} s: {error}") from None
        time.sleep(PAUSE_S)


def _change(
    controllers: Controllers,
    name: str,
    request: Message,
    version: int,
    is_so: Callable[[Members], bool],
    timeout_s: float,
    otherwise: str,
) -> None:
    def asked() -> None:
        found = _described(controllers)
        if is_so(found):
            return
        reply = probe.ask(controllers[found.leader_id], name, request, version, ASK_TIMEOUT_S)
        if not reply.error_code:
            return
        said = reply.error_message or text(reply.error_code)
        if reply.error_code in AGAIN:
            raise _Again(said)
        raise ClusterError(f"{otherwise}: controller {found.leader_id} answers error {reply.error_code}, {said}")

    _until(timeout_s, asked, otherwise)


def _rules(
    controllers: Controllers, name: str, request: Message, results: str, timeout_s: float, otherwise: str
) -> None:
    def asked() -> None:
        leader_id = _described(controllers).leader_id
        (result,) = getattr(probe.ask(controllers[leader_id], name, request, 3, ASK_TIMEOUT_S), results)
        if result.error_code:
            raise _Again(result.error_message or text(result.error_code))

    _until(timeout_s, asked, otherwise)


def _described(controllers: Controllers) -> Members:
    """The quorum, as one of these controllers describes it. Raises NoAnswer if none of them leads."""
    cls = message("DescribeQuorumRequest")
    topic = cls.TopicData(topic_name=probe.TOPIC, partitions=[cls.PartitionData(partition_index=0)])
    last = probe.NoAnswer("no controller is there to be asked")
    for id, access in controllers.items():
        try:
            reply = probe.ask(access, "DescribeQuorum", cls(topics=[topic]), 2)
        except probe.NoAnswer as error:
            last = error
            continue
        parts = [part for one in reply.topics for part in one.partitions]
        if reply.error_code or not parts or parts[0].error_code or parts[0].leader_id not in controllers:
            last = probe.NoAnswer(f"controller {id} does not lead")
            continue
        (part,) = parts
        return Members(
            part.leader_id,
            part.high_watermark,
            {one.replica_id: _key(one) for one in part.current_voters},
            {_key(one): one.log_end_offset for one in part.observers},
        )
    raise last


def _key(one: Any) -> MetadataReplica:
    return MetadataReplica(one.replica_id, bytes(one.replica_directory_id))
