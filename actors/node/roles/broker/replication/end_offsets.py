"""The ends of partitions, as their leaders tell them: what a share group still has before it is counted from there.

This file alone decides whom is asked: each leader once for all of its partitions, this broker like any other, and what an
answer that does not come means: LEADER_NOT_AVAILABLE for what has no leader, NETWORK_EXCEPTION for the rest.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from actors.node.net.channels import ChannelError, Channels
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.calls import Lane
from actors.node.runtime.runtime import Runtime
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ListOffsetsResponse

LATEST = -1
CONSUMER = -1
TIMEOUT_MS = 10_000
VERSION = 9
"""The version of ListOffsets in which leaders are asked: older than the newest, so that a leader of earlier software
answers too."""
Place = tuple[str, int]
"""The name of a partition: (topic, number)."""
Ends = Mapping[Place, int | ErrorCode]
"""The offset behind the last record that is committed, or why it is not known."""
CODES = {int(code): code for code in ErrorCode}


class EndOffsets:
    """The requests of one broker for the ends of partitions."""

    def __init__(self, runtime: Runtime, channels: Channels, cache: MetadataCache) -> None:
        self._channels = channels
        self._cache = cache
        self._listener = runtime.config.inter_broker_listener

    def ask(self, places: Iterable[Place], then: Callable[[Ends], None]) -> None:
        """Find the ends of partitions. `then` is called once, at once only where there is no leader to ask."""
        found: dict[Place, int | ErrorCode] = {}
        by_leader: dict[int, list[Place]] = {}
        for place in dict.fromkeys(places):
            leader = self._leader(place)
            if leader < 0:
                found[place] = ErrorCode.LEADER_NOT_AVAILABLE
            else:
                by_leader.setdefault(leader, []).append(place)
        left = len(by_leader)
        if not left:
            then(found)

        def answered(asked: list[Place], reply: "ListOffsetsResponse") -> None:
            nonlocal left
            found.update(_read(asked, reply))
            left -= 1
            if not left:
                then(found)

        for leader, asked in by_leader.items():
            self._ask(leader, asked, lambda reply, asked=asked: answered(asked, reply))  # type: ignore[misc]

    def _leader(self, place: Place) -> int:
        image = self._cache.image
        topic = image.topic(place[0])
        row = image.partition(topic, place[1]) if topic >= 0 else -1
        leader = image.leader(row) if row >= 0 else -1
        return leader if self._cache.endpoint(leader, self._listener) is not None else -1

    def _ask(self, leader: int, places: list[Place], then: Callable[[Any], None]) -> None:
        endpoint = self._cache.endpoint(leader, self._listener)
        assert endpoint is not None
        kind = message("ListOffsetsRequest")
        topics: dict[str, list[Any]] = {}
        for topic, number in places:
            topics.setdefault(topic, []).append(kind.ListOffsetsPartition(partition_index=number, timestamp=LATEST))
        request = kind(
            replica_id=CONSUMER,
            topics=[kind.ListOffsetsTopic(name=topic, partitions=parts) for topic, parts in topics.items()],
        )
        self._channels.peer(
            ("end offsets", leader),
            (endpoint.host, endpoint.port),
            "ListOffsets",
            request,
            then,
            TIMEOUT_MS,
            version=VERSION,
            lane=Lane.DATA,
        )


def _read(asked: Iterable[Place], reply: "ListOffsetsResponse | ChannelError") -> dict[Place, int | ErrorCode]:
    if isinstance(reply, ChannelError):
        return dict.fromkeys(asked, ErrorCode.NETWORK_EXCEPTION)
    told = {
        (topic.name, one.partition_index): (one.error_code, one.offset)
        for topic in reply.topics
        for one in topic.partitions
    }
    found: dict[Place, int | ErrorCode] = {}
    for place in asked:
        code, offset = told.get(place, (ErrorCode.UNKNOWN_SERVER_ERROR, -1))
        found[place] = CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR) if code else offset
    return found
