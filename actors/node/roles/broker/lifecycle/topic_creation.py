"""Topics that this broker asks the controller to create: its own internal ones, and those that a client names first.

Each is made by CreateTopics to the active controller, and a name is in one request at a time; an error is told in the
log, and whoever needs the topic asks again. What a client names first is made in its name: it is charged to the quota of
that client (`controller_mutation_rate`), as with Apache Kafka. This file alone decides what such a topic looks like.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from actors.metadata.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from actors.node.net.channels import ChannelError, Channels
from actors.node.net.envelopes import ask_in_the_name_of
from actors.node.roles.broker.metadata_cache import TOPICS_KEY, MetadataCache
from actors.node.runtime.calls import Call
from actors.node.runtime.runtime import Runtime
from actors.wire.errors import ErrorCode, text
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import CreateTopicsRequest, CreateTopicsResponse

TIMEOUT_MS = 30_000
SAID_MAX = 3
"""The most topics of a request about which the log says why they are not made."""


class _Internal(NamedTuple):
    """The names of the settings of one internal topic."""

    partitions: str
    factor: str
    segment_bytes: str
    min_isr: str = ""
    """The name of the setting for min.insync.replicas; empty: the topic has no min.insync.replicas of its own."""


INTERNAL = {
    OFFSETS_TOPIC: _Internal(
        "offsets.topic.num.partitions", "offsets.topic.replication.factor", "offsets.topic.segment.bytes"
    ),
    TRANSACTIONS_TOPIC: _Internal(
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
        "transaction.state.log.min.isr",
    ),
    SHARE_STATE_TOPIC: _Internal(
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.segment.bytes",
        "share.coordinator.state.topic.min.isr",
    ),
}
"""The internal topics of coordinators, with the names of their settings."""
FILLED_IN = ""
FIXED = {
    OFFSETS_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer"},
    TRANSACTIONS_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": FILLED_IN,
        "unclean.leader.election.enable": "false",
    },
    SHARE_STATE_TOPIC: {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": FILLED_IN,
        "retention.ms": "-1",
    },
}
"""The settings of internal topics that no setting of the node decides. The share coordinator itself deletes what is not
needed any more."""


class TopicCreation:
    """Topics that this broker has asked the controller for."""

    def __init__(self, runtime: Runtime, channels: Channels, cache: MetadataCache) -> None:
        self._runtime = runtime
        self._channels = channels
        self._cache = cache
        self.creating: dict[str, None] = {}
        """Topics that the controller was asked to make, until it has answered."""

    def create(self, names: Iterable[str], call: Call | None = None) -> None:
        """Ask the controller to make topics that it was not asked for already. `call`: the request of a client that has
        named them; None: the broker needs them."""
        creating, runtime = self.creating, self._runtime
        wanted = [name for name in dict.fromkeys(names) if name not in creating]
        if not wanted:
            return
        creating.update(dict.fromkeys(wanted))
        request = message("CreateTopicsRequest")(topics=[self._topic(name) for name in wanted], timeout_ms=TIMEOUT_MS)

        def answered(reply: "CreateTopicsResponse | ChannelError") -> None:
            for name in wanted:
                creating.pop(name, None)
            if isinstance(reply, ChannelError):
                say(f"topics {', '.join(wanted[:SAID_MAX])} are not made: {reply}")
            else:
                refused = [
                    topic
                    for topic in reply.topics
                    if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
                ]
                for topic in refused[:SAID_MAX]:
                    say(f"topic {topic.name} is not made: {topic.error_message or text(topic.error_code)}")
                if len(refused) > SAID_MAX:
                    say(f"{len(refused) - SAID_MAX} more topics of that request are not made")
            runtime.waiting.signal(TOPICS_KEY)

        def say(sentence: str) -> None:
            if call is None:
                runtime.log.warning(sentence)
            else:
                runtime.peer_lines.of_principal(runtime.log.warning, call.principal, sentence)

        if call is None:
            self._channels.controller("CreateTopics", request, answered, purpose="forwarding")
        else:
            ask_in_the_name_of(call, self._channels, "CreateTopics", request, answered, TIMEOUT_MS)

    def _topic(self, name: str) -> "CreateTopicsRequest.CreatableTopic":
        """A topic as this broker's settings want it. What they do not say (-1) the controller's own settings decide."""
        kind = message("CreateTopicsRequest")
        value, given = self._runtime.config.value, self._runtime.config.given
        internal = INTERNAL.get(name)
        if internal is None:
            return kind.CreatableTopic(
                name=name,
                num_partitions=value("num.partitions") if "num.partitions" in given else -1,
                replication_factor=(
                    value("default.replication.factor") if "default.replication.factor" in given else -1
                ),
            )
        factor = value(internal.factor)
        if internal.factor not in given:  # no fenced broker is given a replica
            factor = max(1, min(factor, len(self._cache.image.unfenced_brokers())))
        settings = FIXED[name] | {"segment.bytes": str(value(internal.segment_bytes))}
        if internal.min_isr:
            least = value(internal.min_isr)
            settings["min.insync.replicas"] = str(least if internal.min_isr in given else min(least, factor))
        return kind.CreatableTopic(
            name=name,
            num_partitions=value(internal.partitions),
            replication_factor=factor,
            configs=[kind.CreatableTopicConfig(name=key, value=text) for key, text in settings.items()],
        )
