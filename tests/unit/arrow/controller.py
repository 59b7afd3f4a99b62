"""The leader of a quorum on a real socket, which serves a metadata log from memory by Apache Kafka's rules."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from actors.ports import Batch
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.client.listening import Listening

FETCH = message("FetchResponse")
SNAPSHOT = message("FetchSnapshotResponse")
QUORUM = message("DescribeQuorumResponse")
LEADER = 1001
IDLE_S = 0.01
"""How long a Fetch waits for which there is nothing."""


class Stored(NamedTuple):
    """A snapshot."""

    end_offset: int
    epoch: int
    data: bytes


class Controller(Listening):
    """`log`, `snapshots`, `start` and `high_watermark` may be changed while it runs."""

    def __init__(self, log: Sequence[Batch], name: str = "__cluster_metadata") -> None:
        super().__init__({"DescribeQuorum": self._describe, "Fetch": self._fetch, "FetchSnapshot": self._slice})
        self.log = list(log)
        self.name = name
        self.epoch = log[-1].epoch
        self.start = 0
        self.snapshots: list[Stored] = []
        self.high_watermark = log[-1].last_offset + 1
        self.fetches: list[tuple[int, int]] = []
        """The offset and epoch of each Fetch that was answered."""

    def delete(self, offset: int) -> None:
        """Let the log begin with the snapshot that ends at `offset`."""
        self.start = offset
        self.log = [one for one in self.log if one.last_offset >= offset]
        self.snapshots = [one for one in self.snapshots if one.end_offset >= offset]

    def _describe(self, server: Any, version: int, request: Any) -> Any:
        part = QUORUM.PartitionData(leader_id=LEADER, leader_epoch=self.epoch, high_watermark=self.high_watermark)
        at = QUORUM.Listener(name="CONTROLLER", host="127.0.0.1", port=self.server.port)
        topic = QUORUM.TopicData(topic_name="__cluster_metadata", partitions=[part])
        return QUORUM(topics=[topic], nodes=[QUORUM.Node(node_id=LEADER, listeners=[at])])

    def _end_of(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the newest epoch up to `epoch`."""
        held = [one for one in self.log if one.epoch <= epoch]
        if not held:
            oldest = self.snapshots[0]
            return oldest.epoch, oldest.end_offset
        return held[-1].epoch, held[-1].last_offset + 1

    def _fetch(self, server: Any, version: int, request: Any) -> Any:
        asked = request.topics[0].partitions[0]
        offset, epoch = asked.fetch_offset, asked.last_fetched_epoch
        part = FETCH.PartitionData(high_watermark=self.high_watermark, log_start_offset=self.start, records=b"")
        if asked.current_leader_epoch != self.epoch:
            part.error_code = ErrorCode.FENCED_LEADER_EPOCH
            part.current_leader = FETCH.LeaderIdAndEpoch(leader_id=LEADER, leader_epoch=self.epoch)
        else:
            self.fetches.append((offset, epoch))
            self._answer_fetch(part, offset, epoch, asked.high_watermark)
        ends = [FETCH.NodeEndpoint(node_id=LEADER, host="127.0.0.1", port=self.server.port)]
        topic = FETCH.FetchableTopicResponse(topic_id=bytes(15) + b"\x01", partitions=[part])
        return FETCH(responses=[topic], node_endpoints=ends)

    def _answer_fetch(self, part: Any, offset: int, epoch: int, known: int) -> None:
        oldest = self.snapshots[0] if self.snapshots else None
        below = oldest is not None and self.start == oldest.end_offset > 0 and (
            offset < self.start or (offset == self.start and epoch != oldest.epoch) or epoch < oldest.epoch
        )  # fmt: skip
        if self.snapshots and (offset == 0 or below):
            newest = self.snapshots[-1]
            part.snapshot_id = FETCH.SnapshotId(end_offset=newest.end_offset, epoch=newest.epoch)
            return
        ends = self._end_of(epoch) if offset else (epoch, offset)
        if (ends[0] != epoch or ends[1] < offset) and not (oldest and (offset, epoch) == oldest[:2]):
            part.diverging_epoch = FETCH.EpochEndOffset(epoch=ends[0], end_offset=ends[1])
            return
        part.records = b"".join(bytes(one.data) for one in self.log if one.last_offset >= offset)
        if not part.records and known >= self.high_watermark:
            time.sleep(IDLE_S)

    def _slice(self, server: Any, version: int, request: Any) -> Any:
        topic, asked = request.topics[0], request.topics[0].partitions[0]
        id = SNAPSHOT.SnapshotId(end_offset=asked.snapshot_id.end_offset, epoch=asked.snapshot_id.epoch)
        part = SNAPSHOT.PartitionSnapshot(snapshot_id=id, position=asked.position, unaligned_records=b"")
        found = [one for one in self.snapshots if one[:2] == (id.end_offset, id.epoch)]
        if topic.name != self.name:
            part.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif not found:
            part.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        else:
            part.size = len(found[0].data)
            part.unaligned_records = found[0].data[asked.position : asked.position + request.max_bytes]
        return SNAPSHOT(topics=[SNAPSHOT.TopicSnapshot(name=topic.name, partitions=[part])])
