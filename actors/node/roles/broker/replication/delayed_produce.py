"""What of a Produce is appended and not acknowledged yet (Apache Kafka's `DelayedProduce`).

This file alone decides what a produced batch waits for, and when its request is answered. With acks=all, and for a repeated
batch whatever acks says, it is the high watermark over the maximal ISR; with acks=1 and flush.messages=1 this broker's disk.
After the lease nothing is acknowledged any more (R631-161).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from actors.broker.log.log import Appended
from actors.broker.replication.partition import Partition
from actors.node.roles.broker.availability import Availability
from actors.node.runtime.answers import Answer, Close, Parked
from actors.wire.errors import ErrorCode

NONE = ErrorCode.NONE
"""A module name, because every batch uses it and the look-up of an enum member costs more."""


class Awaited(NamedTuple):
    """A partition whose data is appended and not yet committed, or not yet on the disk where that is waited for."""

    topic: bytes | str
    """The topic as the request names it."""
    partition: Partition
    leader_epoch: int
    required_offset: int
    flushed: bool = False
    """Whether the batch waits for this broker's disk alone: acks=1 with flush.messages=1."""

    def verdict(self) -> ErrorCode | None:
        """The error or NONE with which it ended; None: it has not ended yet."""
        judge = self.partition.flushed_verdict if self.flushed else self.partition.verdict
        return judge(self.required_offset, self.leader_epoch)


def awaited(topic: bytes | str, partition: Partition, appended: Appended, acks: int) -> Awaited | None:
    """The partition that a batch which was just appended waits for; None: it waits for nothing."""
    if acks == -1 or appended.duplicate:
        required = appended.last_offset + 1
        if partition.verdict(required, partition.leader_epoch) is not NONE:
            return Awaited(topic, partition, partition.leader_epoch, required)
    elif acks == 1 and partition.settings.flush_messages == 1:
        return Awaited(topic, partition, partition.leader_epoch, appended.last_offset + 1, True)
    return None


class DelayedProduce:
    """A Produce request with partitions that are not committed yet."""

    __slots__ = ("_availability", "_deadline_ms", "_failed", "_respond", "_waiting")

    def __init__(
        self,
        availability: Availability,
        waiting: list[tuple[Awaited, Any]],
        deadline_ms: int,
        respond: Callable[[list[tuple[Any, ErrorCode]]], Answer],
    ) -> None:
        """A request that waits. `waiting`: each partition with what the response has for it; `respond` is given that
        back with the error of those that failed."""
        self._availability = availability
        self._waiting = waiting
        self._deadline_ms = deadline_ms
        self._respond = respond
        self._failed: list[tuple[Any, ErrorCode]] = []

    def again(self, expired: bool) -> Answer:
        """Answer when every partition has its verdict."""
        if not self._availability.serving:
            return Close("this broker is fenced")
        waiting = []
        for one, data in self._waiting:
            partition = one.partition
            verdict = self._availability.absent(one.topic, partition.number) if partition.removed else one.verdict()
            if verdict is None and expired:
                verdict = ErrorCode.REQUEST_TIMED_OUT
            if verdict is None:
                waiting.append((one, data))
            elif verdict is not NONE:
                self._failed.append((data, verdict))
        self._waiting = waiting
        if not waiting:
            return self._respond(self._failed)
        # Many may wait for one partition: each is asked when the high watermark has come to its batch.
        return Parked(
            [one.partition.committed for one, _ in waiting],
            self._deadline_ms,
            self.again,
            [0 if one.flushed else one.required_offset for one, _ in waiting],
        )
