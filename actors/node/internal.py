"""What the broker's own machines ask of the cluster: appends that wait for their commit, and topics made on demand.

Internal appends go through the same partition as a client's, without a client's limits. Topics are made by CreateTopics
to the active controller, one request a name at a time.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from actors.broker.partition import Partition, Refused
from actors.controller.names import OFFSETS_TOPIC
from actors.node.channels import ChannelError
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node

TOPICS_KEY = ("topics changed",)
LEADERS_KEY = ("leaders changed",)
"""Waiting key: metadata about topics has changed."""


def append_internal(node: "Node", topic: str, number: int, data: bytearray, then: Callable[[ErrorCode], None]) -> None:
    """Append one batch as acks=all; `then` gets NONE when it is committed, else why not. Of one partition in order."""
    role = node.broker
    assert role is not None
    partition = role.replicas.get(topic, number)
    try:
        if partition is None:
            raise Refused(role.absent(topic, number))
        partition.admit(-1)
        appended = role.append(partition, data, client=False)
    except Refused as refused:
        then(refused.code)
        return
    role.grown(partition)
    role.signal()
    deadline_ms = node.now.mono_ms + node.config.value("offsets.commit.timeout.ms")
    _wait(node, partition, appended.last_offset + 1, partition.leader_epoch, deadline_ms, then)


def _wait(
    node: "Node",
    partition: Partition,
    required_offset: int,
    leader_epoch: int,
    deadline_ms: int,
    then: Callable[[ErrorCode], None],
) -> None:
    def again(expired: bool) -> None:
        verdict = partition.verdict(required_offset, leader_epoch)
        if verdict is None and expired:
            verdict = ErrorCode.REQUEST_TIMED_OUT
        if verdict is None:
            node.waiting.park([partition.committed], deadline_ms, again)
        else:
            then(verdict)

    if node.waiting.waits(partition.committed):
        # Older appends are told first, also where an ISR that shrank in this turn has committed all of them at once.
        node.waiting.park([partition.committed], deadline_ms, again)
    else:
        again(False)


def create_topics(node: "Node", creating: dict[str, None], names: Iterable[str]) -> None:
    """Ask the controller to make topics. `creating`: names that are asked for already."""
    wanted = [name for name in dict.fromkeys(names) if name not in creating]
    if not wanted:
        return
    creating.update(dict.fromkeys(wanted))
    request = message("CreateTopicsRequest")(topics=[_topic(node, name) for name in wanted], timeout_ms=30_000)

    def answered(reply: Any) -> None:
        for name in wanted:
            creating.pop(name, None)
        if isinstance(reply, ChannelError):
            node.log.warning(f"topics {', '.join(wanted)} are not made: {reply}")
        else:
            for topic in reply.topics:
                if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    node.log.warning(f"topic {topic.name} is not made: {topic.error_message or topic.error_code}")
        node.waiting.signal(TOPICS_KEY)

    node.channels.controller("CreateTopics", request, answered, purpose="forwarding")


def _topic(node: "Node", name: str) -> Any:
    """A topic as this broker's settings want it. What they do not say (-1) the controller's own settings decide."""
    kind = message("CreateTopicsRequest")
    value, given = node.config.value, node.config.given
    if name != OFFSETS_TOPIC:
        return kind.CreatableTopic(
            name=name,
            num_partitions=value("num.partitions") if "num.partitions" in given else -1,
            replication_factor=value("default.replication.factor") if "default.replication.factor" in given else -1,
        )
    assert node.broker is not None
    factor = value("offsets.topic.replication.factor")
    if "offsets.topic.replication.factor" not in given:
        factor = max(1, min(factor, len(node.broker.image.brokers())))
    settings = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(value("offsets.topic.segment.bytes")),
    }
    return kind.CreatableTopic(
        name=name,
        num_partitions=value("offsets.topic.num.partitions"),
        replication_factor=factor,
        configs=[kind.CreatableTopicConfig(name=key, value=text) for key, text in settings.items()],
    )
