"""Mistakes of the broker: replication, the ISR on the leader's side, acknowledgement, the lease, groups."""

from collections.abc import Callable, Sequence
from typing import Any

from actors.broker.groups.coordinator import Coordinator
from actors.broker.lifecycle.lifecycle import BrokerState, Lifecycle
from actors.broker.log.log import PartitionLog
from actors.broker.log.offsets_by_time import EARLIEST
from actors.broker.log.truncation import truncate_to
from actors.broker.replication import isr_transitions as isr_rules
from actors.broker.replication import reading
from actors.broker.replication.admission import RequestRefused
from actors.broker.replication.fetchers import Fetcher
from actors.broker.replication.isr_transitions import Isr, View
from actors.broker.replication.metadata_delta import PartitionState
from actors.broker.replication.partition import Assignment, Became, Partition
from actors.controller.partitions import alter_isr as controller_isr
from actors.node.node import Node
from actors.node.roles.broker.availability import Availability
from actors.node.roles.broker.coordinators.coordinator_loading import Loading
from actors.node.roles.broker.lifecycle.heartbeats import BrokerHeartbeats
from actors.node.roles.broker.log.directory_failures import DirectoryFailures
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.metadata.metadata_publisher import MetadataApplier
from actors.node.runtime.waiting import Waiting
from actors.ports import Now
from actors.wire.errors import ErrorCode
from fastpath.records import batch as batches
from tests.simulator.planted.registry import Patch, instead, mistake


@mistake()
def truncate_by_high_watermark_instead_of_epoch() -> Sequence[Patch]:
    """A new follower truncates its log to its own high watermark and asks for no epoch (the rule before KIP-101)."""
    apply, build = Partition.apply, Fetcher._build

    def cut(partition: Partition, assignment: Assignment, mono_ms: int) -> tuple[Became, Any]:
        again = assignment.leader_epoch > partition.leader_epoch
        part, row = apply(partition, assignment, mono_ms)
        if again and not partition.leads and partition.high_watermark >= partition.log.log_start_offset:
            truncate_to(partition.log, partition.high_watermark)
        return part, row

    def without_epochs(fetcher: Fetcher) -> Any:
        question = build(fetcher)
        for topic in question.request.topics:
            for one in topic.partitions:
                one.last_fetched_epoch = -1
        return question

    return [instead(Partition, "apply", cut), instead(Fetcher, "_build", without_epochs)]


@mistake("moving")
def diverging_epoch_ignored() -> Sequence[Patch]:
    """A leader does not tell a follower that its log has diverged."""
    return [instead(Partition, "diverging", lambda partition, offset, epoch: None)]


@mistake("moving")
def epoch_check_dropped_in_fetch() -> Sequence[Patch]:
    """A fetch is answered under any leader epoch, and a follower accepts any answer."""
    check = Partition.check_epoch

    def lenient(partition: Partition, epoch: int, *, leader_only: bool, exactly: bool = False) -> None:
        check(partition, -1, leader_only=leader_only)

    def no_divergence(partition: Partition, offset: int, epoch: int) -> None:
        return None

    return [instead(Partition, "check_epoch", lenient), instead(Partition, "diverging", no_divergence)]


@mistake()
def isr_shrink_assumed_before_it_is_confirmed() -> Sequence[Patch]:
    """The high watermark no longer waits for a replica that is about to leave the ISR, though it may still be
    elected."""
    move = Isr._move

    def eager(self: Isr, event: Any, **more: Any) -> Any:
        row = move(self, event, **more)
        if self.proposal is not None:
            self.maximal = self.proposal.want
        return row

    return [instead(Isr, "_move", eager)]


@mistake("moving")
def isr_growth_counted_only_when_confirmed() -> Sequence[Patch]:
    """The high watermark does not wait for a replica that is about to join the ISR, though the controller may have
    added it already."""
    move = Isr._move

    def committed_only(self: Isr, event: Any, **more: Any) -> Any:
        row = move(self, event, **more)
        self.maximal = self.isr
        return row

    return [
        instead(Isr, "_move", committed_only),
        instead(isr_rules, "_awaited", lambda view, follower: False),
    ]


@mistake()
def replica_joins_before_it_has_caught_up() -> Sequence[Patch]:
    """A leader proposes a follower as soon as it has fetched at all."""

    def joins(view: View, isr: Isr, follower: Any) -> bool:
        return follower.log_end >= 0 and isr_rules.eligible(view, follower)

    return [instead(isr_rules, "joins", joins)]


@mistake()
def high_watermark_ignores_followers() -> Sequence[Patch]:
    """What the leader has counts as committed."""

    def own(view: View, isr: Isr, min_insync: int) -> int:
        return max(view.own_end, view.high_watermark)

    return [instead(isr_rules, "high_watermark", own)]


@mistake()
def isr_below_min_insync_acknowledged() -> Sequence[Patch]:
    """The leader ignores min.insync.replicas."""
    return [instead(Partition, "min_insync", property(lambda partition: 1))]


@mistake()
def acknowledged_without_followers() -> Sequence[Patch]:
    """acks=all is answered as acks=1."""
    verdict = Partition.verdict

    def at_once(partition: Partition, required: int, epoch: int) -> ErrorCode | None:
        code = verdict(partition, required, epoch)
        return ErrorCode.NONE if code is None else code

    return [instead(Partition, "verdict", at_once)]


@mistake("moving")
def acknowledged_by_whoever_leads_later() -> Sequence[Patch]:
    """A waiting produce is decided by offsets alone, though another leader's records may be at these offsets."""

    def by_offset(partition: Partition, required: int, epoch: int) -> ErrorCode | None:
        return ErrorCode.NONE if partition.high_watermark >= required else None

    return [instead(Partition, "verdict", by_offset)]


@mistake()
def fetch_above_the_high_watermark_served() -> Sequence[Patch]:
    """A consumer gets everything in the log."""
    read = reading._read

    def all_of_it(partition: Partition, entry: Any, reader: Any, *more: Any) -> Any:
        return read(partition, entry, reader._replace(replica=max(reader.replica, 0)), *more)

    return [instead(reading, "_read", all_of_it)]


@mistake("moving")
def offset_beyond_the_high_watermark_refused() -> Sequence[Patch]:
    """A new leader answers OFFSET_OUT_OF_RANGE for records that it does not know to be committed yet."""
    read = reading._read

    def strict(partition: Partition, entry: Any, reader: Any, *more: Any) -> Any:
        if reader.replica < 0 and entry.fetch_offset > partition.high_watermark:
            raise RequestRefused(ErrorCode.OFFSET_OUT_OF_RANGE)
        return read(partition, entry, reader, *more)

    return [instead(reading, "_read", strict)]


@mistake("moving")
def high_watermark_falls_with_a_new_leader() -> Sequence[Patch]:
    """A follower takes over its leader's high watermark even if its own is higher."""

    def follow(partition: Partition, leader_high_watermark: int, leader_log_start: int) -> bool:
        reached = min(max(leader_high_watermark, partition.log.log_start_offset), partition.log.log_end_offset)
        moved = reached != partition.high_watermark
        partition.high_watermark = reached
        return moved

    return [instead(Partition, "follow", follow)]


@mistake("silence")
def fenced_broker_keeps_serving() -> Sequence[Patch]:
    """A broker that was active once goes on serving, with or without a lease."""

    def serving(life: Lifecycle, now: Any, next_offset: int) -> bool:
        return life.epoch >= 0 and life.state is not BrokerState.SHUTDOWN and next_offset > life.epoch

    return [instead(Lifecycle, "serving", serving)]


@mistake("groups")
def clients_of_a_fenced_broker_answered() -> Sequence[Patch]:
    """A broker that knows that it is fenced neither closes its clients' connections nor checks the lease before it
    answers."""
    return [
        instead(Availability, "admits", lambda availability, connection, key: True),
        instead(BrokerHeartbeats, "_close_clients", lambda heartbeats, why: None),
    ]


@mistake("silence")
def lease_counted_from_the_answer() -> Sequence[Patch]:
    """A lease begins when its answer comes, however late that is."""
    granted = Lifecycle._granted

    def late(life: Lifecycle, answer: Any, sent: Any, beat: Any, now: Any) -> None:
        granted(life, answer, now, beat, now)

    return [instead(Lifecycle, "_granted", late)]


@mistake("silence")
def serving_before_the_own_registration_is_replayed() -> Sequence[Patch]:
    """An active broker serves at once, with whatever metadata it has."""

    def serving(life: Lifecycle, now: Any, next_offset: int) -> bool:
        return life.state is BrokerState.ACTIVE and now.mono_ms < life.lease_until_ms

    return [instead(Lifecycle, "serving", serving)]


@mistake("quiet")
def leading_by_an_older_registration() -> Sequence[Patch]:
    """A restarted broker leads at once what its last process led, before the controller knows of the crash."""
    assign = MetadataApplier._assign

    def trusting(applier: MetadataApplier, state: PartitionState) -> None:
        kept, applier._registered = applier._registered, True
        try:
            assign(applier, state)
        finally:
            applier._registered = kept

    return [instead(MetadataApplier, "_assign", trusting)]


@mistake("groups")
def group_offsets_acknowledged_before_commit() -> Sequence[Patch]:
    """A committed offset is visible and answered before its followers have it."""
    commit = Coordinator.commit

    def eager(
        self: Coordinator, group_id: str, offsets: Any, then: Callable[[ErrorCode], None], records: Any = None
    ) -> None:
        count = len(self.writes)
        commit(self, group_id, offsets, then, records)
        for write in self.writes[count:]:
            self.written(write.token, ErrorCode.NONE, Now(0, 0))

    return [instead(Coordinator, "commit", eager)]


@mistake()
def group_offsets_not_loaded() -> Sequence[Patch]:
    """A new coordinator does not read what the old one wrote."""
    return [instead(Coordinator, "load", lambda self, partition, epoch, records, producer_id=-1: [])]


@mistake("groups")
def offsets_of_a_lost_coordinator_kept() -> Sequence[Patch]:
    """A deposed coordinator still answers from memory, and uses that memory again when it is elected again."""
    gained = Coordinator.gained
    shards: dict[tuple[int, int], Any] = {}

    def lost(self: Coordinator, partition: int) -> None:
        shard = self.shards.pop(partition, None)
        if shard is not None:
            shards[id(self), partition] = shard

    def again(self: Coordinator, partition: int, epoch: int) -> None:
        gained(self, partition, epoch)
        old = shards.get((id(self), partition))
        if old is not None and old.loaded:
            old.epoch = epoch
            self.shards[partition] = old

    return [instead(Coordinator, "lost", lost), instead(Coordinator, "gained", again)]


@mistake("compacted")
def offsets_behind_a_gap_not_loaded() -> Sequence[Patch]:
    """A new coordinator passes over what lies behind a gap that the cleaner has left."""
    begin = Loading._begin

    def until_the_gap(loading: Loading, data: Any) -> None:
        headers = batches.headers(data)
        first = headers[0].base_offset
        expected = loading.__dict__.setdefault("expected", first)
        behind = headers[-1].last_offset + 1
        if first == expected:
            end = len(data)
            for header in headers:
                if header.base_offset != expected:
                    end = header.position
                    break
                expected = header.last_offset + 1
            loading.__dict__["expected"] = expected
            if end:
                begin(loading, data[:end])
        loading._offset = behind

    return [instead(Loading, "_begin", until_the_gap)]


@mistake("groups")
def group_is_told_the_next_partition() -> Sequence[Patch]:
    """A fetch of a committed offset returns that of another partition."""
    fetch = Coordinator.fetch

    def shifted(coordinator: Coordinator, group: str) -> Any:
        found = fetch(coordinator, group)
        if isinstance(found, ErrorCode):
            return found
        return {(topic, partition): found.get((topic, 1 - partition), one) for (topic, partition), one in found.items()}

    return [instead(Coordinator, "fetch", shifted)]


@mistake("groups")
def joins_not_answered_after_a_while() -> Sequence[Patch]:
    """A member that joins late in the life of a coordinator gets no answer."""
    join = Coordinator.join

    def deaf(coordinator: Coordinator, group: str, ticket: int, request: Any, now: Now) -> None:
        if now.mono_ms < 15_000:
            join(coordinator, group, ticket, request, now)

    return [instead(Coordinator, "join", deaf)]


@mistake("purged")
def partitions_said_to_begin_too_late() -> Sequence[Patch]:
    """ListOffsets returns the offset after the first batch as the earliest one."""
    ask = PartitionLog.offset_for_time

    def late(log: PartitionLog, timestamp: int, upper_offset: int | None = None) -> Any:
        found = ask(log, timestamp, upper_offset)
        return found._replace(offset=found.offset + 1) if timestamp == EARLIEST and found.offset else found

    return [instead(PartitionLog, "offset_for_time", late)]


@mistake()
def broker_gives_up_when_its_controller_moves() -> Sequence[Patch]:
    """The broker stops when its controller changes, and is started again."""
    follow = Node._follow_controller

    def fickle(node: Node) -> None:
        before = node._active_controller
        follow(node)
        if node.broker is not None and -1 != before != node._active_controller:
            node.runtime.stop(1, "the controller has moved")

    return [instead(Node, "_follow_controller", fickle)]


@mistake()
def produce_accepted_by_a_follower() -> Sequence[Patch]:
    """No check whether this broker leads the partition."""
    admit, verdict = Partition.admit, Partition.verdict

    def anyone(partition: Partition, acks: int) -> None:
        try:
            admit(partition, acks)
        except RequestRefused as refused:
            if refused.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise

    def judged(partition: Partition, required: int, epoch: int) -> ErrorCode | None:
        code = verdict(partition, required, epoch)
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and not partition.removed:
            return ErrorCode.NONE
        return code

    return [instead(Partition, "admit", anyone), instead(Partition, "verdict", judged)]


@mistake("away")
def an_empty_only_ISR_member_leads() -> Sequence[Patch]:
    """A replica whose files are gone begins anew, though it counts as in sync."""
    return [instead(LogManager, "lost", lambda *_, **__: False)]


@mistake("general")
def a_failed_directory_ends_the_broker() -> Sequence[Patch]:
    """The broker does not go on with its other directories."""
    return [instead(DirectoryFailures, "fail", lambda *_: False)]


@mistake("general")
def a_replica_that_is_offline_joins_the_ISR() -> Sequence[Patch]:
    """The controller accepts a member again that has just reported that it cannot use its replica."""
    return [instead(controller_isr, "able", lambda state, row: state.soft.usable(state.image).ids)]


@mistake("transactional")
def signalled_too_late_for_a_turn() -> Sequence[Patch]:
    """A request that is told at the end of a turn that it may go on waits for the next turn, whenever that comes."""
    deadline_ms = Waiting.deadline_ms

    def later(self: Waiting) -> int:
        signalled, self._signalled = self._signalled, {}
        try:
            return deadline_ms(self)
        finally:
            self._signalled = signalled

    return [instead(Waiting, "deadline_ms", later)]
