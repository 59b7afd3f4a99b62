"""ConsumerGroupHeartbeat as a value, and what is wrong with one whatever the group looks like (KIP-848).

This file alone decides which request is malformed: INVALID_REQUEST, or UNSUPPORTED_ASSIGNOR, with a sentence for the user.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from actors.broker.groups.classic_requests import JoinRequest
from actors.broker.groups.consumer.reconciliation import Owned
from actors.broker.groups.consumer.resting import RepeatedWords
from actors.broker.groups.consumer.state import AWAY, LEFT, ClassicMember, Held
from actors.broker.groups.refusals import RequestRefused, invalid
from actors.wire.errors import ErrorCode

MEMBER_ID_FROM = 1
"""The first version in which the client makes its member id."""
TEXT_CHARACTERS_MAX = 1024
"""The most characters of an id, a rack or a client's name: each is written to the log and kept in memory for each
member."""
TOPIC_CHARACTERS_MAX = 249
SUBSCRIPTION_CHARACTERS_MAX = 1 << 18
"""The most characters of the topics that one member names. It is one record of the log, so it is well below
max.message.bytes."""

Visible = Callable[[str], bool]
"""A function that says whether a client may know of a topic."""


def any_topic(topic: str) -> bool:
    """True for every topic, since a classic member names its topics."""
    return True


class ConsumerHeartbeat(NamedTuple):
    """One heartbeat of a member. `topics`, `regex`, `assignor`, `owned`: None: the same as before.
    `rebalance_timeout_ms`: -1: the same. `fresh_id`: the id that a member which brings none gets."""

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topics: Sequence[str] | None
    regex: str | None
    assignor: str | None
    owned: Owned | None
    client_id: str
    client_host: str
    fresh_id: str
    version: int
    join: JoinRequest | None = None
    """The JoinGroup request of a classic member for which this stands (`classic_members.py`)."""
    visible: Visible = any_topic
    """Whether the member's client may know of a topic that a regular expression finds."""

    @property
    def classic(self) -> ClassicMember | None:
        """The words of a classic member that are known besides."""
        return None if self.join is None else ClassicMember(self.join.session_timeout_ms, tuple(self.join.protocols))

    @property
    def leaves(self) -> bool:
        """Whether the member sends its last heartbeat, for now."""
        return self.epoch in (LEFT, AWAY)

    @property
    def said(self) -> RepeatedWords:
        """The words that a member repeats with each heartbeat."""
        return RepeatedWords(self.instance_id, self.client_id, self.client_host)

    @property
    def ordinary(self) -> bool:
        """Whether the member says no more than that it is there, in its epoch."""
        told = (self.topics, self.regex, self.assignor, self.owned, self.rack_id, self.join)
        return self.epoch > 0 and told == (None,) * len(told) and self.rebalance_timeout_ms == -1

    @property
    def full(self) -> bool:
        """Whether the member says all that there is to say: it has joined, or is not sure what the coordinator
        knows."""
        told = self.topics is not None or self.regex is not None
        return self.epoch == 0 or (self.rebalance_timeout_ms != -1 and told and self.owned is not None)


class ConsumerBeat(NamedTuple):
    """The answer to a heartbeat. `assigned`: None: nothing new."""

    error: ErrorCode
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assigned: Held | None = None


def check(request: ConsumerHeartbeat, assignors: Sequence[str]) -> None:
    """Check what is wrong with a heartbeat whatever the group looks like. `assignors`: those that this broker offers.
    Raises RequestRefused."""
    for text, name in (
        (request.group_id, "GroupId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
    ):
        if text == "":
            raise invalid(f"{name} can't be empty.")
    needs_id = request.version >= MEMBER_ID_FROM or request.epoch > 0 or request.epoch in (LEFT, AWAY)
    if needs_id and not request.member_id:
        raise invalid("MemberId can't be empty.")
    if request.epoch == 0:
        _check_first(request)
    elif request.epoch == AWAY and request.instance_id is None:
        raise invalid("InstanceId can't be null.")
    elif request.epoch < AWAY:
        raise invalid("MemberEpoch is invalid.")
    if request.assignor is not None and request.assignor not in assignors:
        raise RequestRefused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )
    for text, name in (
        (request.member_id, "MemberId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
        (request.client_id, "The client id"),
        (request.regex, "SubscribedTopicRegex"),
    ):
        if text is not None and len(text) > TEXT_CHARACTERS_MAX:
            raise invalid(f"{name} has more than {TEXT_CHARACTERS_MAX} characters.")
    if request.topics:
        _check_topics(request.topics)


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


def _check_first(request: ConsumerHeartbeat) -> None:
    if request.rebalance_timeout_ms == -1:
        raise invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.owned is None or request.owned:
        raise invalid("TopicPartitions must be empty when (re-)joining.")
    if request.topics is None and request.regex is None:
        raise invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
