"""What ShareFetch and ShareAcknowledge have in common: who may ask, and where a partition's leader is (KIP-932)."""

from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.share.delivery.share_sessions import SessionOwner
from actors.broker.replication.admission import RequestRefused
from actors.metadata.features import SHARE_VERSION
from actors.node.api.contexts import BrokerContext
from actors.node.runtime.calls import Call
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ShareAcknowledgeRequest, ShareFetchRequest

MEMBER_ID_CHARACTERS_MAX = 36
NEVER_MS = 1 << 62


def admitted(
    context: BrokerContext, request: "ShareAcknowledgeRequest | ShareFetchRequest", call: Call
) -> SessionOwner:
    """The member that asks, if it may. Raises RequestRefused: UNSUPPORTED_VERSION, INVALID_REQUEST,
    GROUP_AUTHORIZATION_FAILED."""
    if context.cache.image.feature(SHARE_VERSION) < 1:
        raise RequestRefused(
            ErrorCode.UNSUPPORTED_VERSION, "share groups need share.version 1: kafka-features.sh upgrade"
        )
    group, member = request.group_id, request.member_id
    if group is None:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "a group id is needed")
    if not context.authorizer.allowed(call, Operation.READ, Resource.GROUP, group):
        raise RequestRefused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not member or len(member) > MEMBER_ID_CHARACTERS_MAX:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, f"a member id has 1 to {MEMBER_ID_CHARACTERS_MAX} characters")
    return SessionOwner(group, member)


def leader_of(context: BrokerContext, topic_id: bytes, number: int) -> tuple[int, int]:
    """(leader, leader epoch) of a partition, as far as it is known; -1 where it is not."""
    image = context.cache.image
    topic = image.topic_by_id(topic_id)
    row = image.partition(topic, number) if topic >= 0 else -1
    return (image.leader(row), image.leader_epoch(row)) if row >= 0 else (-1, -1)
