"""ShareGroupHeartbeat as a value, and what is wrong with one whatever the group looks like (KIP-932).

This file alone decides which request is malformed: INVALID_REQUEST, with a sentence for the user.
"""

from collections.abc import Sequence
from typing import NamedTuple

from actors.broker.groups.refusals import invalid
from actors.broker.groups.share.state import LEFT, Target
from actors.wire.errors import ErrorCode

MEMBER_ID_CHARACTERS_MAX = 36
"""The most characters of a member id, as in Apache Kafka: a UUID as people write it."""
TEXT_CHARACTERS_MAX = 1024
"""The most characters of a rack or a client's name: each is written to the log and kept in memory for each member."""
TOPIC_CHARACTERS_MAX = 249
SUBSCRIPTION_CHARACTERS_MAX = 1 << 18
"""The most characters of the topics that one member names. It is one record of the log, so it is well below
max.message.bytes."""


class ShareHeartbeat(NamedTuple):
    """One heartbeat of a member. `topics` None: the same as before."""

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None
    topics: Sequence[str] | None
    client_id: str
    client_host: str

    @property
    def leaves(self) -> bool:
        """Whether the member sends its last heartbeat."""
        return self.epoch == LEFT


class ShareBeat(NamedTuple):
    """The answer to a heartbeat. `assigned`: None: nothing new."""

    error: ErrorCode
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assigned: Target | None = None


def check(request: ShareHeartbeat) -> None:
    """Check what is wrong with a heartbeat whatever the group looks like. Raises RequestRefused."""
    if not request.member_id or len(request.member_id) > MEMBER_ID_CHARACTERS_MAX:
        raise invalid("Invalid member id in the request.")
    for text, name in ((request.group_id, "GroupId"), (request.rack_id, "RackId")):
        if text == "":
            raise invalid(f"{name} can't be empty.")
    if request.epoch == 0 and not request.topics:
        raise invalid("SubscribedTopicNames must be set in first request.")
    if request.epoch < LEFT:
        raise invalid("MemberEpoch is invalid.")
    for text, name in ((request.rack_id, "RackId"), (request.client_id, "The client id")):
        if text is not None and len(text) > TEXT_CHARACTERS_MAX:
            raise invalid(f"{name} has more than {TEXT_CHARACTERS_MAX} characters.")
    _check_topics(request.topics or ())


def _check_topics(topics: Sequence[str]) -> None:
    left = SUBSCRIPTION_CHARACTERS_MAX
    for topic in topics:
        left -= len(topic)
        if len(topic) > TOPIC_CHARACTERS_MAX:
            raise invalid(
                f"SubscribedTopicNames has a name of more than {TOPIC_CHARACTERS_MAX} characters, which no topic has."
            )
    if left < 0:
        raise invalid(f"SubscribedTopicNames has more than {SUBSCRIPTION_CHARACTERS_MAX} characters together.")
