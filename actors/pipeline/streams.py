"""A stream of topics by address: where a query begins, how far each turn goes, and what lies between two positions.

This file alone decides that, for `offset_maps.Position`s, which a checkpoint holds. Rules:

1. What lies between two positions is the same whenever it is asked for, so a query that begins again sees each record once.
   A partition that is new in a position, of a topic that grew or that a pattern fits since, is read from its first offset,
   which stands in the position.
2. A topic id in a position tells the topic from another one of its name. That the topic was deleted and made again is a
   loss; a query that goes on reads the new one from its first record.
3. A position behind the end of a log, or behind the end of its leader epoch there (KIP-320), was truncated: a loss. A query
   that goes on does so from the end.
4. A turn has at most maxOffsetsPerTrigger offsets, shared in proportion to what each partition has. It waits for
   minOffsetsPerTrigger, but no longer than maxTriggerDelay. A query that reads what is available now waits for nothing and
   ends where logs ended when it began.
5. Offsets are committed to a group only so that monitors see how far a query is: the checkpoint alone counts. A commit has
   COMMIT_S; one that fails is a warning, and the next position is tried. Of what is gone nothing is committed.
6. A position in which nothing has moved is given back as it was, so that no turn begins for it.
7. Brokers learn of topics and partitions one after the other: what a position has and a broker does not tell is asked for
   again before it is gone, and its position is kept.
"""

import warnings
from collections.abc import Mapping
from typing import Any

from actors.client.asks import Know, Steps
from actors.client.errors import ClientError
from actors.client.metadata import Metadata
from actors.client.operations import groups
from actors.client.operations.leaders import Part
from actors.client.operations.offsets import EpochEnd, epoch_ends
from actors.host.client.blocking import Kafka, now_us
from actors.pipeline import offset_maps
from actors.pipeline.offset_maps import Position
from actors.pipeline.planning import Bounds, Lost, Slice, bounds, chosen, complete, cut, named, resolved
from actors.pipeline.query import Query
from actors.pipeline.slices import losses
from actors.replay.follow import share
from actors.wire.messages import ZERO_UUID

COMMIT_S = 5.0
"""The time that a commit may take away from a query."""
Stored = dict[str, Any]
"""A position in the form that a checkpoint holds."""


class OffsetsNotCommitted(UserWarning):
    """The group's offsets could not be committed; the query goes on."""


class Stream:
    """A query that follows topics. Its client lives on the driver, from the first question to `close`."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self._kafka: Kafka | None = None
        self._frozen: Position | None = None
        """The position at which a query that reads what is available now ends."""
        self._begun_us: int | None = None
        """The time when the last turn began."""
        self._newest: Position | None = None
        """The position behind everything that the last turn saw."""
        self._absent: set[Part] = set()
        """The partitions of positions that no broker tells of, however often it is asked."""
        self._committed: Stored = {}
        """The position that was committed last, or was tried."""

    def __getstate__(self) -> dict[str, Any]:
        """The state that tasks are sent: without the client, which is the driver's."""
        return self.__dict__ | {"_kafka": None}

    def close(self) -> None:
        """End the client's connections."""
        if self._kafka is not None:
            self._kafka.close()
        self._kafka = None

    def _run(self, steps: Steps[Any], timeout_s: float | None = None) -> Any:
        if self._kafka is None:
            self._kafka = Kafka(self.query.config)
        return self._kafka.run(steps, timeout_s)

    @property
    def _lost(self) -> Lost:
        return losses(self.query.fail_on_data_loss)

    # ---- positions

    def beginning(self) -> Stored:
        """The position at which a new query begins. Raises ClientError, and ValueError for offsets that are not complete."""
        return offset_maps.written(self._run(self._beginning()))

    def _beginning(self) -> Steps[Position]:
        now = yield from self._now()
        complete(self.query.starting, now.logs)
        offsets = yield from resolved(self.query.starting, now.logs, self.query.config.isolation)
        for part, offset in offsets.items():
            if offset < now.logs[part].low:
                self._lost(_deleted(part, offset, now.logs[part].low))
        held = {part: max(offset, now.logs[part].low) for part, offset in offsets.items()}
        return Position(held, now.ids, now.epochs(held), {})

    def now(self) -> Stored:
        """The position behind everything there is, as the last turn saw it. Raises ClientError."""
        if self._newest is None:
            self._newest = self._run(self._now()).end
        return offset_maps.written(self._newest)

    def freeze(self) -> None:
        """Ignore everything newer than what exists now. Raises ClientError."""
        topics = self.query.topics
        parts = topics.parts | {(name, 0) for name in topics.names}
        seen = {} if self.query.fail_on_data_loss else dict.fromkeys(parts, ZERO_UUID)
        self._frozen = self._run(self._now(seen)).end

    def latest(self, start: Stored, limited: bool = True) -> Stored:
        """The end of the turn that begins at a position. `limited`: whether the limits of the options hold for it. Raises
        ClientError, DataLoss, and ValueError for a position of something else."""
        before = offset_maps.read(start)
        end = self._run(self._latest(before, limited))
        return start if end is None else offset_maps.written(end)

    def _latest(self, before: Position, limited: bool) -> Steps[Position | None]:
        """The end of a turn; None: nothing moves."""
        now = yield from self._now(_ids(before))
        self._newest = now.end
        self._gone(before, now)
        cut_off = yield from self._truncated(before, now)
        low = {part: self._low(before, now, part, cut_off) for part in now.logs}
        ends = {part: max(low[part], self._end(part, now)) for part in now.logs}
        ahead = {part: end for part, end in ends.items() if end > low[part]}
        if limited and self._waits(sum(end - low[part] for part, end in ahead.items())):
            return None
        if limited and self.query.trigger_max is not None:
            ahead = share(low, ahead, self.query.trigger_max)
        if not ahead and all(
            before.offsets.get(part) == one for part, one in low.items() if _is_same(before, now, part)
        ):
            return None
        self._begun_us = now_us()
        reached = {part: ahead.get(part, one) for part, one in low.items()}
        kept = {part: offset for part, offset in before.offsets.items() if _is_gone(before, now, part)}
        fresh = {part: low[part] for part in reached if not _is_same(before, now, part)}
        unmoved = {
            part: epoch for part, epoch in before.epochs.items() if reached.get(part) == before.offsets.get(part)
        }
        return Position(kept | reached, before.ids | now.ids, unmoved | now.epochs(reached), fresh)

    def _low(self, before: Position, now: "_Now", part: Part, cut_off: Mapping[Part, int]) -> int:
        """The offset at which a partition begins in a turn."""
        log = now.logs[part]
        if not _is_same(before, now, part):
            return log.low
        offset = before.offsets[part]
        if offset > log.high:
            self._lost(f"partition {named(part)}: the log ends at {log.high}, below {offset}: it was truncated")
            return log.high
        if part in cut_off:
            self._lost(
                f"partition {named(part)}: offsets {cut_off[part]} to {offset - 1} were read, and a new leader does not "
                f"have them: the log was truncated"
            )
        return offset

    def _end(self, part: Part, now: "_Now") -> int:
        """The furthest that a turn may come in a partition."""
        high = now.logs[part].high
        if self._frozen is None:
            return high
        same = _is_same(self._frozen, now, part)
        return min(high, self._frozen.offsets[part]) if same else 0

    def _waits(self, records: int) -> bool:
        """Whether a turn waits for more records."""
        least = self.query.trigger_min
        if least is None or records >= least or self._frozen is not None:
            return False
        return self._begun_us is not None and now_us() - self._begun_us < self.query.delay_max_ms * 1000

    # ---- what is there

    def _now(self, seen: Mapping[Part, bytes] = {}) -> Steps["_Now"]:
        """What the cluster has now of what is read. Partitions that were `seen`, each with its topic id, may be gone."""
        ids: dict[Part, bytes] = yield from chosen(self.query.topics, seen, self._absent)
        self._absent = {*self._absent, *seen} - set(ids)
        logs: dict[Part, Bounds] = yield from bounds(ids, self.query.config.isolation)
        return _Now({topic: id for (topic, _), id in ids.items() if id != ZERO_UUID}, logs)

    def _gone(self, before: Position, now: "_Now") -> None:
        """Tell what a position has and the cluster has not, or has anew."""
        remade: set[str] = set()
        for part in before.offsets:
            if _is_gone(before, now, part):
                self._lost(
                    f"partition {named(part)}: it is gone, and what came behind {before.offsets[part]} was not read"
                )
            elif not _is_same(before, now, part) and part[0] not in remade:
                remade.add(part[0])
                self._lost(
                    f"topic {part[0]} was deleted and made again: what the old one had behind offset "
                    f"{before.offsets[part]} of partition {part[1]} was not read, and the new one is read from its first "
                    f"record"
                )

    def _truncated(self, before: Position, now: "_Now") -> Steps[dict[Part, int]]:
        """Partition -> where the leader epoch of its position ends, if that is in front of the position."""
        metadata: Metadata = yield Know(())
        moved = {
            part: epoch
            for part, epoch in before.epochs.items()
            if _is_same(before, now, part) and metadata.leader_epoch(*part) > epoch
        }
        if not moved:
            return {}
        told: dict[Part, EpochEnd | ClientError] = yield from epoch_ends(moved)
        ends = {part: one.end_offset for part, one in told.items() if isinstance(one, EpochEnd)}
        return {part: end for part, end in ends.items() if 0 <= end < before.offsets[part]}

    # ---- between two positions

    def slices(self, start: Stored, end: Stored) -> list[Slice]:
        """The slices between two positions. Raises ClientError, DataLoss and ValueError."""
        found = self._run(self._slices(offset_maps.read(start), offset_maps.read(end)))
        return cut(found, self.query.partitions_min, self.query.records_max)

    def _slices(self, before: Position, end: Position) -> Steps[list[Slice]]:
        now = yield from self._now(_ids(end))
        found = []
        for part, stop in end.offsets.items():
            begun = before.offsets.get(part, 0) if _is_same(before, end, part) else end.begun.get(part, -1)
            log = now.logs.get(part)
            if 0 <= stop <= begun:
                continue
            if log is None or not _is_same(end, now, part):
                self._lost(
                    f"partition {named(part)}: the topic was deleted, and offsets up to {stop - 1} were not read"
                )
                continue
            first = log.low if begun < 0 else begun
            if first < log.low:
                self._lost(_deleted(part, first, min(log.low, stop)))
            if stop > log.high:
                self._lost(
                    f"partition {named(part)}: the log ends at {log.high} and offset {stop - 1} was seen: it was truncated"
                )
            first, stop = max(first, log.low), min(stop, log.high)
            if first < stop:
                found.append(Slice(*part, first, stop, end.ids.get(part[0], ZERO_UUID)))
        return found

    # ---- the group

    def commit(self, end: Stored) -> None:
        """Commit a position to the group, if there is one. A commit that fails is the warning OffsetsNotCommitted."""
        if not self.query.group or end == self._committed:
            return
        self._committed = end
        position = offset_maps.read(end)
        values = {
            part: groups.Committed(offset, position.epochs.get(part, -1), "")
            for part, offset in position.offsets.items()
            if part not in self._absent
        }
        if not values:
            return
        try:
            told = self._run(groups.commit(self.query.group, values), COMMIT_S)
            failed = [one for one in told.values() if one is not None]
        except ClientError as error:
            failed = [error]
        if failed:
            warnings.warn(f"offsets of group {self.query.group}: {failed[0]}", OffsetsNotCommitted, stacklevel=2)


class _Now:
    """What a cluster has at a moment of what is read."""

    def __init__(self, ids: dict[str, bytes], logs: dict[Part, Bounds]) -> None:
        self.ids = ids
        """The ids of topics, where the cluster has them."""
        self.logs = logs
        self.topics = {topic for topic, _ in logs}

    @property
    def end(self) -> Position:
        """The position behind everything."""
        offsets = {part: one.high for part, one in self.logs.items()}
        return Position(offsets, self.ids, self.epochs(offsets), {})

    @property
    def offsets(self) -> Mapping[Part, Any]:
        """The partitions that there are."""
        return self.logs

    def epochs(self, offsets: Mapping[Part, int]) -> dict[Part, int]:
        """The leader epochs of the offsets that are at the end of their logs: of others the epoch is not known."""
        return {
            part: log.epoch
            for part, log in self.logs.items()
            if part in offsets and log.epoch >= 0 and offsets[part] == log.high
        }


def _is_same(one: Position | _Now, other: Position | _Now, part: Part) -> bool:
    """Whether both have a partition, and of the same topic. A position without an id fits any."""
    if part not in one.offsets or part not in other.offsets:
        return False
    ids = one.ids.get(part[0], ZERO_UUID), other.ids.get(part[0], ZERO_UUID)
    return ids[0] == ids[1] or ZERO_UUID in ids


def _is_gone(one: Position, now: _Now, part: Part) -> bool:
    """Whether the cluster tells of neither a partition nor another topic in the place of its own: topics do not lose
    partitions."""
    same = part[0] not in now.topics or one.ids.get(part[0], ZERO_UUID) == now.ids.get(part[0])
    return part not in now.logs and same


def _ids(position: Position) -> dict[Part, bytes]:
    """The topic id of each partition of a position, zeros where it is not known."""
    return {part: position.ids.get(part[0], ZERO_UUID) for part in position.offsets}


def _deleted(part: Part, first: int, low: int) -> str:
    return f"partition {named(part)}: offsets {first} to {low - 1} were deleted before they were read"
