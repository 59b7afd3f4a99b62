"""Mistakes of what is between replicas and clients: reads from followers, codecs of topics, replication throttles."""

from collections.abc import Generator, Sequence
from typing import Any

from actors.broker.replication.partition import Partition
from actors.broker.replication.replication_throttle import ReplicationThrottle
from actors.node.api.handlers import offset_for_leader_epoch
from actors.node.roles.broker.replication import delayed_fetch
from fastpath.records import recompression
from tests.simulator.planted.registry import Patch, instead, mistake

NEVER_MS = 1 << 62


@mistake("racked")
def followers_show_what_is_not_committed() -> Sequence[Patch]:
    """A consumer reads from a follower what its leader may lose again."""
    look = delayed_fetch.look

    def generous(replicas: Any, entry: Any, reader: Any, bytes_max: int, **more: Any) -> Any:
        partition = entry.partition
        if reader.replica >= 0 or partition.leads:
            return look(replicas, entry, reader, bytes_max, **more)
        known, partition.high_watermark = partition.high_watermark, partition.log.log_end_offset
        try:
            return look(replicas, entry, reader, bytes_max, **more)
        finally:
            partition.high_watermark = known

    return [instead(delayed_fetch, "look", generous)]


@mistake("racked")
def recompressed_batch_without_its_producer() -> Sequence[Patch]:
    """What a producer sends again, since it has heard nothing, is there twice."""
    sealed = recompression._sealed

    def forgetful(data: Any, *rest: Any) -> bytearray:
        head = bytearray(memoryview(data)[: recompression.HEADER_SIZE])
        head[43:57] = b"\xff" * 14
        return sealed(head, *rest)

    return [instead(recompression, "_sealed", forgetful)]


@mistake("racked")
def recompressed_batch_with_its_old_checksum() -> Sequence[Patch]:
    """Readers refuse a recompressed batch as damaged."""
    sealed = recompression._sealed

    def lazy(data: Any, *rest: Any) -> bytearray:
        made = sealed(data, *rest)
        made[17:21] = memoryview(data)[17:21]
        return made

    return [instead(recompression, "_sealed", lazy)]


@mistake("racked")
def last_bytes_of_a_codec_not_written() -> Sequence[Patch]:
    """What the compressor still holds is left out."""

    def hasty(self: Any, data: Any, rules: Any) -> Generator[int, None, int]:
        latest = yield from recompression.inspect(data, rules, self._take)
        self.batch = recompression._sealed(data, self._target.codec, self._parts, self._size, latest)
        return latest

    return [instead(recompression.Recompression, "steps", hasty)]


@mistake("racked")
def what_was_counted_is_never_forgotten() -> Sequence[Patch]:
    """The rate is that of all time over one window: once over it, always over it."""

    def total(self: ReplicationThrottle, now_ms: int) -> float:
        return float(self._total())

    return [
        instead(ReplicationThrottle, "_forget", lambda self, now_ms: None),
        instead(ReplicationThrottle, "rate", total),
    ]


@mistake("stating")
def batches_of_an_epoch_that_the_consumer_does_not_know() -> Sequence[Patch]:
    """A consumer with an earlier epoch of the same leadership is served: behind a batch of the present one it may take the
    log for truncated, and throw away what it has fetched."""
    check = Partition.check_epoch

    def lenient(partition: Partition, epoch: int, *, leader_only: bool) -> None:
        led = partition.leader == partition.cluster.me and 0 <= epoch < partition.leader_epoch
        check(partition, -1 if led else epoch, leader_only=leader_only)

    return [instead(Partition, "check_epoch", lenient)]


@mistake("stating")
def an_epoch_is_said_to_end_with_its_last_batch() -> Sequence[Patch]:
    """A consumer that has read the whole of it finds itself behind its end, and begins again where it is told."""
    end = offset_for_leader_epoch._end

    def early(*given: Any) -> Any:
        answer = end(*given)
        answer.end_offset -= answer.end_offset > 0
        return answer

    return [instead(offset_for_leader_epoch, "_end", early)]
