"""Which heartbeat of a consumer group is malformed, whatever the group looks like, and what a heartbeat says (KIP-848)."""

from typing import Any

import pytest

from actors.broker.groups.consumer.requests import (
    MEMBER_ID_FROM,
    SUBSCRIPTION_CHARACTERS_MAX,
    TEXT_CHARACTERS_MAX,
    TOPIC_CHARACTERS_MAX,
    ConsumerHeartbeat,
    check,
)  # fmt: skip
from actors.broker.groups.refusals import RequestRefused
from actors.wire.errors import ErrorCode

FIRST: dict[str, Any] = dict(
    group_id="g", member_id="m", epoch=0, instance_id=None, rack_id=None, rebalance_timeout_ms=5000, topics=["t"],
    regex=None, assignor=None, owned=(), client_id="c", client_host="/1", fresh_id="new", version=1,
)  # fmt: skip
"""The first heartbeat of a member."""
LATER = FIRST | {"epoch": 3, "rebalance_timeout_ms": -1, "topics": None, "owned": None}
"""One of the others, which says nothing new."""


def beat(base: dict[str, Any] = FIRST, **more: Any) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(**(base | more))


def refusal(request: ConsumerHeartbeat) -> tuple[ErrorCode, str | None]:
    with pytest.raises(RequestRefused) as refused:
        check(request, ["uniform", "range"])
    return refused.value.code, refused.value.text


@pytest.mark.parametrize(
    "request_",
    [
        beat(),
        beat(topics=None, regex="t.*"),
        beat(topics=[]),
        beat(assignor="range"),
        beat(version=MEMBER_ID_FROM - 1, member_id=""),
        beat(LATER),
        beat(LATER, owned=()),
        beat(LATER, epoch=-1),
        beat(LATER, epoch=-2, instance_id="i"),
        beat(topics=["t" * TOPIC_CHARACTERS_MAX], client_id="c" * TEXT_CHARACTERS_MAX),
    ],
)
def test_what_makes_sense_is_taken(request_: ConsumerHeartbeat) -> None:
    check(request_, ["uniform", "range"])


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (beat(group_id=""), "GroupId can't be empty."),
        (beat(instance_id=""), "InstanceId can't be empty."),
        (beat(rack_id=""), "RackId can't be empty."),
        (beat(member_id=""), "MemberId can't be empty."),
        (beat(LATER, member_id="", version=0), "MemberId can't be empty."),
        (beat(LATER, member_id="", version=0, epoch=-1), "MemberId can't be empty."),
        (beat(rebalance_timeout_ms=-1), "RebalanceTimeoutMs must be provided in first request."),
        (beat(owned=None), "TopicPartitions must be empty when (re-)joining."),
        (beat(owned=((bytes(16), (0,)),)), "TopicPartitions must be empty when (re-)joining."),
        (beat(topics=None), "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."),
        (beat(LATER, epoch=-2), "InstanceId can't be null."),
        (beat(LATER, epoch=-3), "MemberEpoch is invalid."),
        (beat(LATER, rack_id="r" * (TEXT_CHARACTERS_MAX + 1)), "RackId has more than 1024 characters."),
        (beat(regex="r" * (TEXT_CHARACTERS_MAX + 1)), "SubscribedTopicRegex has more than 1024 characters."),
        (beat(topics=["t" * (TOPIC_CHARACTERS_MAX + 1)]),
         "SubscribedTopicNames has a name of more than 249 characters, which no topic has."),
        (beat(topics=["t" * 200] * (SUBSCRIPTION_CHARACTERS_MAX // 200 + 1)),
         "SubscribedTopicNames has more than 262144 characters together."),
    ],
)  # fmt: skip
def test_what_makes_none_is_refused_in_a_sentence(request_: ConsumerHeartbeat, said: str) -> None:
    assert refusal(request_) == (ErrorCode.INVALID_REQUEST, said)


def test_an_assignor_that_this_broker_does_not_have_is_refused_with_those_it_has() -> None:
    code, said = refusal(beat(LATER, assignor="mine"))
    assert code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert said == "ServerAssignor mine is not supported. Supported assignors: uniform, range."


def test_an_ordinary_heartbeat_says_only_that_its_member_is_there() -> None:
    assert beat(LATER).ordinary
    news: list[dict[str, Any]] = [
        {"topics": []}, {"regex": "x"}, {"assignor": "range"}, {"owned": ()}, {"rack_id": "r"},
        {"rebalance_timeout_ms": 0}, {"epoch": 0}, {"epoch": -1},
    ]  # fmt: skip
    assert not [one for one in news if beat(LATER, **one).ordinary]


def test_a_full_heartbeat_says_all_that_there_is_to_say() -> None:
    assert beat().full and beat(LATER, rebalance_timeout_ms=1, topics=[], owned=()).full
    assert beat(LATER, rebalance_timeout_ms=1, regex="x", owned=()).full
    for missing in ({"owned": None}, {"topics": None}, {"rebalance_timeout_ms": -1}):
        assert not beat(LATER, **({"rebalance_timeout_ms": 1, "topics": [], "owned": ()} | missing)).full


def test_a_member_leaves_with_its_last_epochs() -> None:
    assert [beat(LATER, epoch=epoch).leaves for epoch in (-2, -1, 0, 1)] == [True, True, False, False]
