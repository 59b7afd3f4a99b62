"""The tail of the metadata log, from the leader of the quorum: its snapshot where the log does not begin at 0, then batches
as they are committed.

The reader is an observer without an id: the leader keeps nothing of it, and DescribeQuorum does not name it. Rules:

1. What is given out is committed, and comes once and in order. Batches above the high watermark are held back
   (`uncommitted.py`); if a new leader does not have them, they are dropped.
2. Where the reading begins is decided by `needed`: with the newest snapshot if that ends at or below this offset, else with
   everything that the leader has, its oldest snapshot and the log behind it.
3. A snapshot comes in slices of SLICE_BYTES. It begins anew, with a slice at position 0, after a change of leader, when the
   leader has deleted it, and when an answer does not continue it. Whoever takes the slices checks the whole.
4. If the leader's log begins behind what was read last, its newest snapshot comes in between. The records that are missing
   then were deleted before they were read.
5. Not more is held than HELD_BYTES_MAX and two answers. Whatever makes no sense ends the reading with one sentence, at once
   or after FRUITLESS_MAX answers that bring nothing.
6. The cluster that answers first is named in each request, so that another one, which has come up at its addresses, refuses
   it: its log may fit by offset and epoch, and would go on with another cluster's state.

How the oldest snapshot is found: a leader names its newest snapshot alone, to whoever asks for offset 0 or for what is
deleted. Any offset behind the log's start may be asked for with the leader's own epoch. The batch there has an epoch, and
the snapshot at the start has that epoch or an older one; whoever asks with an older one is told the snapshot's, as the
place where the logs diverge.

KIP-595 (Fetch of the log), KIP-630 (FetchSnapshot), KIP-1166 (a Fetch that waits for the high watermark, version 18).
"""

from contextlib import suppress
from typing import Any, NamedTuple

from actors.client.asks import Ask, Know, Pause, Purpose, Steps
from actors.client.connection import Lost
from actors.client.errors import ClientError, refused
from actors.client.operations.quorum_leader import FETCHES, KnownQuorum, Leader, fetch_request, not_as_brokers, only
from actors.client.operations.uncommitted import Batches, OffsetAndEpoch, Uncommitted
from actors.client.properties import ClientConfig
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.scan import scan

TOPICS = ("__cluster_metadata", "__kafka_metadata")
"""The names of the log: with the records of released Apache Kafka, and with those of the drafts."""
ANSWER_BYTES = 8 << 20
"""How many bytes of batches an answer may have, unless its first batch alone is larger."""
SLICE_BYTES = 4 << 20
HELD_BYTES_MAX = 32 << 20
HELD_WAIT_MS = 10
"""How long a Fetch waits while batches are held back, below version 18: the leader does not answer it when they are
committed."""
WAITS_FOR_COMMITS = 18
"""The first version of Fetch that is answered when the high watermark moves."""
FRUITLESS_MAX = 8
NEWEST = (1 << 63) - 1
"""The offset `needed` of a reading that wants only what the log adds up to now."""
WITHOUT_LEADER = frozenset({
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
})  # fmt: skip
"""The codes of a controller that does not lead in the epoch that was asked for, or cannot answer now."""


class Slice(NamedTuple):
    """A piece of a snapshot. One at position 0 begins a snapshot, whatever came before."""

    id: OffsetAndEpoch
    """The end of what the snapshot has, exclusive, and the epoch of the record before it."""
    position: int
    data: memoryview
    size: int
    """The bytes of the whole snapshot."""

    @property
    def is_last(self) -> bool:
        """Whether the snapshot ends with it."""
        return self.position + len(self.data) == self.size


Event = Slice | Batches


class _Download:
    """A snapshot that is being fetched."""

    __slots__ = ("id", "position", "size")

    def __init__(self, id: OffsetAndEpoch) -> None:
        self.id = id
        self.position = 0
        self.size = -1
        """The bytes of the whole; -1: no slice has come yet."""


class Tail:
    """A reader of the metadata log. `fetch()` gives what is new; it is called again and again, one call at a time."""

    def __init__(self, config: ClientConfig, needed: int = NEWEST) -> None:
        """`needed`: the offset from which on the log, or up to which the state, has to be known: see rule 2."""
        self.quorum = KnownQuorum()
        self.high_watermark = -1
        """The highest one that a leader has told; -1: none yet."""
        self.first_high_watermark = -1
        """The first one that was told: what is below it was committed before the reading began."""
        self._config = config
        self._wait_ms = config.fetch_wait_ms
        self._needed = needed
        self._log: Uncommitted | None = None
        self._download: _Download | None = None
        self._topic = 0
        """The name of the log that FetchSnapshot takes here, as a place in TOPICS."""
        self._fruitless = 0
        self._cluster_id: str | None = None
        """The cluster that is read; None: it is not known yet, or not told where controllers alone are asked."""
        self._is_cluster_asked = False

    @property
    def offset(self) -> int:
        """The offset behind what was given out; -1: nothing was yet."""
        return self._log.start.offset if self._log is not None and not self._log.claimed else -1

    @property
    def is_caught_up(self) -> bool:
        """Whether all was given out that was committed when the reading began."""
        return self._download is None and self.offset >= self.first_high_watermark >= 0

    def fetch(self, wait_ms: int | None = None) -> Steps[list[Event]]:
        """Ask the leader once. Returns what is committed and new, or the next piece of a snapshot; empty: nothing new came
        within `wait_ms` (None: fetch.max.wait.ms), or another leader has to be asked. Raises ClientError."""
        self._wait_ms = self._config.fetch_wait_ms if wait_ms is None else wait_ms
        leader: Leader = yield from self.quorum.find()
        if not self._is_cluster_asked:
            with suppress(ClientError):
                self._cluster_id = (yield Know(())).cluster_id
            self._is_cluster_asked = True
        if self._download is not None:
            return (yield from self._slice(leader, self._download))
        if self._log is None:
            return (yield from self._begin(leader))
        log = self._log
        part = yield from self._fetch(leader, log.end)
        if part is None:
            return []
        if part.snapshot_id is not None:
            id = OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch)
            if not log.claimed and id.offset <= log.start.offset:
                return (yield from self._useless(leader, f"wants offset {log.end.offset} to be read from {_named(id)}"))
            self._download = _Download(id)
            return []
        if part.diverging_epoch is not None:
            return (yield from self._diverged(leader, log, part.diverging_epoch))
        return (yield from self._take(leader, log, part))

    # ---- where the reading begins

    def _begin(self, leader: Leader) -> Steps[list[Event]]:
        part = yield from self._fetch(leader, OffsetAndEpoch(0, 0))
        if part is None:
            return []
        if part.snapshot_id is None:
            if part.diverging_epoch is not None:
                return (yield from self._useless(leader, "does not agree to an empty log"))
            self._log = Uncommitted(OffsetAndEpoch(0, 0))
            return (yield from self._take(leader, self._log, part))
        newest = OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch)
        start = part.log_start_offset
        if newest.offset < max(start, 0) or newest.epoch < 0:
            return (yield from self._useless(leader, f"names {_named(newest)}, and its log begins at {start}"))
        if newest.offset <= max(self._needed, start, 1):  # at 1 there may be nothing to fetch yet
            self._download = _Download(newest)
        elif start <= 0:
            self._log = Uncommitted(OffsetAndEpoch(1, leader.epoch), claimed=True)
        else:
            oldest = yield from self._oldest(leader, start)
            if self.quorum.leader is leader:
                self._download = _Download(newest if oldest is None else oldest)
        return []

    def _oldest(self, leader: Leader, start: int) -> Steps[OffsetAndEpoch | None]:
        """The snapshot at which the log begins; None: the leader does not say."""
        part = yield from self._fetch(leader, OffsetAndEpoch(start + 1, leader.epoch))
        if part is None:
            return None
        headers, _, _ = scan(_bytes(part.records), 0, len(_bytes(part.records)), True, records_max=1)
        if not len(headers):
            return None
        epoch = int(headers[0]["epoch"])
        part = yield from self._fetch(leader, OffsetAndEpoch(start, epoch))
        if part is None:
            return None
        if part.snapshot_id is None and part.diverging_epoch is None:
            return OffsetAndEpoch(start, epoch)
        if epoch < 1:
            return None
        part = yield from self._fetch(leader, OffsetAndEpoch(start + 1, epoch - 1))
        if part is None or part.diverging_epoch is None or part.diverging_epoch.end_offset != start:
            return None
        return OffsetAndEpoch(start, part.diverging_epoch.epoch)

    # ---- batches

    def _fetch(self, leader: Leader, place: OffsetAndEpoch) -> Steps[Any]:
        """The leader's answer about a place in its log; None: it is not known who leads."""
        wait_ms = self._wait_ms
        held = self._log is not None and self._log.bytes > 0

        def build(version: int) -> Any:
            waits = not held or version >= WAITS_FOR_COMMITS
            return fetch_request(
                version, place.offset, place.epoch, leader.epoch, max(self.high_watermark, 0),
                wait_ms if waits else min(HELD_WAIT_MS, wait_ms), ANSWER_BYTES, self._cluster_id,
            )  # fmt: skip

        part = yield from self._ask(leader, "Fetch", build, FETCHES, "responses")
        if part is None:
            return None
        if part.error_code:
            raise refused(f"the metadata log at {leader.server}", part.error_code)
        if part.high_watermark >= 0:
            self.high_watermark = max(self.high_watermark, part.high_watermark)
            if self.first_high_watermark < 0:
                self.first_high_watermark = part.high_watermark
        return part

    def _take(self, leader: Leader, log: Uncommitted, part: Any) -> Steps[list[Event]]:
        records, full = _bytes(part.records), log.bytes >= HELD_BYTES_MAX
        if len(records) and not full:
            first, _, _ = scan(records, 0, len(records), False, records_max=1)
            if len(records) > max(ANSWER_BYTES, *(int(one["size"]) for one in first), 0):
                raise ClientError(f"{leader.server} sent {len(records)} bytes, and {ANSWER_BYTES} were asked for")
            try:
                log.add(records, leader.epoch)
            except ClientError as error:
                raise ClientError(f"{leader.server} {error}") from None
        self._fruitless = 0
        found: list[Event] = [*log.release(self.high_watermark)]
        if full and not found:
            yield Pause(attempt=0)
        return found

    def _diverged(self, leader: Leader, log: Uncommitted, told: Any) -> Steps[list[Event]]:
        before = log.end
        if log.claimed:
            self._log = None
        else:
            try:
                log.truncate(OffsetAndEpoch(told.end_offset, told.epoch))
            except ClientError as error:
                raise ClientError(f"{leader.server} {error}") from None
            if log.end != before:
                return []
        return (yield from self._useless(leader, f"does not agree to offset {before.offset} in epoch {before.epoch}"))

    # ---- the snapshot

    def _slice(self, leader: Leader, download: _Download) -> Steps[list[Event]]:
        kind = message("FetchSnapshotRequest")
        id = kind.SnapshotId(end_offset=download.id.offset, epoch=download.id.epoch)
        asked = kind.PartitionSnapshot(
            partition=0, current_leader_epoch=leader.epoch, snapshot_id=id, position=download.position
        )
        topic = kind.TopicSnapshot(name=TOPICS[self._topic], partitions=[asked])
        request = kind(cluster_id=self._cluster_id, replica_id=-1, max_bytes=SLICE_BYTES, topics=[topic])
        part = yield from self._ask(leader, "FetchSnapshot", lambda version: request, (0, 1 << 15), "topics")
        if part is None:
            return []
        if part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._topic + 1 < len(TOPICS):
            self._topic += 1
            return []
        if part.error_code in (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE):
            self._download = None
            return (yield from self._useless(leader, f"does not have {_named(download.id)} any more"))
        if part.error_code:
            raise refused(f"{_named(download.id)} at {leader.server}", part.error_code)
        data = _bytes(part.unaligned_records)
        end = part.position + len(data)
        if len(data) > SLICE_BYTES:
            raise ClientError(f"{leader.server} sent {len(data)} bytes of a snapshot, and {SLICE_BYTES} were asked for")
        if (
            OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch) != download.id
            or part.position != download.position
            or download.size not in (-1, part.size)
            or end > part.size
        ):
            self._download = _Download(download.id)
            return (yield from self._useless(leader, f"does not go on with {_named(download.id)}"))
        if not data:
            return (yield from self._useless(leader, f"sends nothing of {_named(download.id)}"))
        self._fruitless = 0
        download.position, download.size = end, part.size
        if end == part.size:
            self._download, self._log = None, Uncommitted(download.id)
            self.high_watermark = max(self.high_watermark, download.id.offset)
        return [Slice(download.id, part.position, data, part.size)]

    # ---- what both have in common

    def _ask(self, leader: Leader, name: str, build: Any, versions: tuple[int, int], topics: str) -> Steps[Any]:
        """The one partition of the leader's answer; None: it does not lead, and the next call asks another."""
        timeout_ms = self._wait_ms + self._config.request_timeout_ms
        ask = Ask(leader.address, name, build, timeout_ms=timeout_ms, purpose=Purpose.FETCH, versions=versions)
        (found,) = yield [ask]
        if isinstance(found, Lost):
            self._without_leader()
            return None
        if isinstance(found, ClientError):
            raise not_as_brokers(found)
        self.quorum.reached()
        self.quorum.check(leader.server, name, found.message.error_code)
        part = only(leader.server, getattr(found.message, topics))
        led = part.current_leader
        newer = led is not None and led.leader_epoch > leader.epoch
        if part.error_code not in WITHOUT_LEADER and not newer:
            return part
        self._without_leader()
        if not newer or not self.quorum.answered(led.leader_id, led.leader_epoch, found.message.node_endpoints):
            yield Pause(attempt=0)
        return None

    def _without_leader(self) -> None:
        self.quorum.lost()
        if self._download is not None:
            self._download = _Download(self._download.id)

    def _useless(self, leader: Leader, why: str) -> Steps[list[Event]]:
        """Wait after an answer that brings nothing. Raises ClientError if there were too many in a row."""
        self._fruitless += 1
        if self._fruitless > FRUITLESS_MAX:
            raise ClientError(f"{leader.server} {why}, again and again: its answers make no sense")
        yield Pause(attempt=self._fruitless - 1)
        return []


def _bytes(records: Any) -> memoryview:
    return memoryview(records or b"")


def _named(id: OffsetAndEpoch) -> str:
    return f"the snapshot that ends at offset {id.offset} in epoch {id.epoch}"
