"""Topics that this broker asks the controller to create: its own internal ones, and those that a client names first.

Each is made by CreateTopics to the active controller, and a name is in one request at a time; an error is told in the
log, and whoever needs the topic asks again. This file alone decides what such a topic looks like.
"""

from collections.abc import Iterable
from typing import Any

from actors.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from actors.node.net.channels import ChannelError, Channels
from actors.node.roles.broker.metadata_cache import TOPICS_KEY, MetadataCache
from actors.node.runtime.runtime import Runtime
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

TIMEOUT_MS = 30_000
INTERNAL = {OFFSETS_TOPIC: "offsets.topic", TRANSACTIONS_TOPIC: "transaction.state.log"}
"""Topic of a coordinator -> how the names of its settings begin."""


class TopicCreation:
    """Topics on their way into being."""

    def __init__(self, runtime: Runtime, channels: Channels, cache: MetadataCache) -> None:
        self._runtime = runtime
        self._channels = channels
        self._cache = cache
        self.creating: dict[str, None] = {}
        """Topics that the controller was asked to make, until it has answered."""

    def create(self, names: Iterable[str]) -> None:
        """Ask the controller to make topics that it was not asked for already."""
        creating, runtime = self.creating, self._runtime
        wanted = [name for name in dict.fromkeys(names) if name not in creating]
        if not wanted:
            return
        creating.update(dict.fromkeys(wanted))
        request = message("CreateTopicsRequest")(topics=[self._topic(name) for name in wanted], timeout_ms=TIMEOUT_MS)

        def answered(reply: Any) -> None:
            for name in wanted:
                creating.pop(name, None)
            if isinstance(reply, ChannelError):
                runtime.log.warning(f"topics {', '.join(wanted)} are not made: {reply}")
            else:
                for topic in reply.topics:
                    if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                        runtime.log.warning(
                            f"topic {topic.name} is not made: {topic.error_message or topic.error_code}"
                        )
            runtime.waiting.signal(TOPICS_KEY)

        self._channels.controller("CreateTopics", request, answered, purpose="forwarding")

    def _topic(self, name: str) -> Any:
        """A topic as this broker's settings want it. What they do not say (-1) the controller's own settings decide."""
        kind = message("CreateTopicsRequest")
        value, given = self._runtime.config.value, self._runtime.config.given
        prefix = INTERNAL.get(name)
        if prefix is None:
            return kind.CreatableTopic(
                name=name,
                num_partitions=value("num.partitions") if "num.partitions" in given else -1,
                replication_factor=(
                    value("default.replication.factor") if "default.replication.factor" in given else -1
                ),
            )
        factor = value(f"{prefix}.replication.factor")
        if f"{prefix}.replication.factor" not in given:
            factor = max(1, min(factor, len(self._cache.image.brokers())))
        settings = {"cleanup.policy": "compact"}
        if name == TRANSACTIONS_TOPIC:
            isr = value(f"{prefix}.min.isr")
            if f"{prefix}.min.isr" not in given:
                isr = min(isr, factor)
            settings["compression.type"] = "uncompressed"
            settings["min.insync.replicas"] = str(isr)
            settings["unclean.leader.election.enable"] = "false"
        else:
            settings["compression.type"] = "producer"
        settings["segment.bytes"] = str(value(f"{prefix}.segment.bytes"))
        return kind.CreatableTopic(
            name=name,
            num_partitions=value(f"{prefix}.num.partitions"),
            replication_factor=factor,
            configs=[kind.CreatableTopicConfig(name=key, value=text) for key, text in settings.items()],
        )
