"""Internal topics of Kafka Streams applications, which this broker has made for the members of streams groups (KIP-1071).

This file alone decides when the controller is asked for one. Rules:

1. A topic is in one request at a time. It is made in the name of the member that asks first, whose quota is charged.
2. One that could not be made is not asked for again until twice the heartbeat interval of its group is over: each member
   asks with each heartbeat. Meanwhile members are told why.
3. So many failures are kept; beyond that the oldest is forgotten.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from actors.broker.groups.streams.answers import NewTopic
from actors.node.net.channels import ChannelError, Channels
from actors.node.net.envelopes import ask_in_the_name_of
from actors.node.runtime.calls import Call
from actors.node.runtime.runtime import Runtime
from actors.wire.errors import ErrorCode, text
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import CreateTopicsResponse

TIMEOUT_MS = 30_000
FAILURES_MAX = 1_000
REASON_CHARACTERS_MAX = 500


class StreamsTopics:
    """Internal topics of streams groups that the controller was asked for."""

    def __init__(self, runtime: Runtime, channels: Channels) -> None:
        self._runtime = runtime
        self._channels = channels
        self.creating: dict[str, None] = {}
        """Topics that the controller was asked to make, until it has answered."""
        self._failed: dict[str, tuple[str, int]] = {}
        """Why a topic was not made, and until when it is not asked for, by name."""

    def create(self, topics: Iterable[NewTopic], pause_ms: int, call: Call) -> dict[str, str]:
        """Have topics made that are not on their way already, in the name of the member that asks with `call`. Returns
        why some could not be made lately, by name; `pause_ms`: how long such a reason counts."""
        topics = list(topics)
        now_ms = self._runtime.now.mono_ms
        known = {one.name: self._failed[one.name] for one in topics if one.name in self._failed}
        failed = {name: why for name, (why, until_ms) in known.items() if until_ms > now_ms}
        wanted = [one for one in topics if one.name not in self.creating and one.name not in failed]
        if wanted:
            self._ask(wanted, pause_ms, call)
        return failed

    def _ask(self, wanted: list[NewTopic], pause_ms: int, call: Call) -> None:
        kind = message("CreateTopicsRequest")
        names = [one.name for one in wanted]
        self.creating.update(dict.fromkeys(names))
        request = kind(
            topics=[
                kind.CreatableTopic(
                    name=one.name,
                    num_partitions=one.partitions,
                    replication_factor=one.replicas,
                    configs=[kind.CreatableTopicConfig(name=key, value=value) for key, value in one.settings],
                )
                for one in wanted
            ],
            timeout_ms=TIMEOUT_MS,
        )

        def answered(reply: "CreateTopicsResponse | ChannelError") -> None:
            for name in names:
                self.creating.pop(name, None)
            if isinstance(reply, ChannelError):
                reasons = dict.fromkeys(names, str(reply))
            else:
                reasons = {
                    topic.name: topic.error_message or text(topic.error_code)
                    for topic in reply.topics
                    if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
                }
            for name, why in reasons.items():
                self._fail(name, why, pause_ms)

        ask_in_the_name_of(call, self._channels, "CreateTopics", request, answered, TIMEOUT_MS)

    def _fail(self, name: str, why: str, pause_ms: int) -> None:
        self._runtime.log.warning(f"internal topic {name} of a streams group is not made: {why}")
        self._failed.pop(name, None)
        if len(self._failed) >= FAILURES_MAX:
            del self._failed[next(iter(self._failed))]
        self._failed[name] = why[:REASON_CHARACTERS_MAX], self._runtime.now.mono_ms + pause_ms
