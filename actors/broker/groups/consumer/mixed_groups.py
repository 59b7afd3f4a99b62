"""Consumer groups whose members speak either protocol: what classic members are answered, and the way back (KIP-848).

What a classic member's request means is in `classic_members.py`, which group may change its protocol in `migration.py`. This
file alone decides in which order such a request changes the group, and what becomes of a group that is classic from now on.
Rules:

1. A join is a heartbeat (`_beat`), and is answered as a join when the heartbeat is.
2. A sync brings a member its assignment once all that this depends on is committed.
3. A member that owes a step, a join or a sync, has its rebalance timeout for that.
4. A group goes back to the classic protocol with the change that makes it do so. Heartbeats that wait are told to begin
   anew, and the records of the consumer group are taken out with the same write.
"""

from collections.abc import Callable, Mapping

from actors.broker.groups.classic_requests import JoinRequest, Synced, SyncRequest
from actors.broker.groups.consumer import classic_members
from actors.broker.groups.consumer import records as kinds
from actors.broker.groups.consumer.migration import assignment_bytes, to_classic
from actors.broker.groups.consumer.records import RecordKey
from actors.broker.groups.consumer.requests import ConsumerBeat, ConsumerHeartbeat
from actors.broker.groups.consumer.settings import ConsumerGroupSettings
from actors.broker.groups.consumer.state import FAR_MS, ConsumerGroup, Member
from actors.broker.groups.reconciled_groups import ReconciledGroups
from actors.broker.groups.refusals import RequestRefused
from actors.broker.groups.shard import Shard
from actors.ports import Now
from actors.wire.errors import ErrorCode, WireError


class MixedGroups(ReconciledGroups[ConsumerGroup]):
    """The consumer groups of one broker, as far as classic members are in them, or are left."""

    settings: ConsumerGroupSettings

    # ---- requests of classic members

    def classic_join(self, shard: Shard, group_id: str, ticket: int, request: JoinRequest, now: Now) -> None:
        """Handle JoinGroup of a classic member. The answer comes under the ticket."""
        group = self.groups(shard)[group_id]
        try:
            self._check_room(group, request.member_id or request.fresh_id)
            heartbeat = classic_members.heartbeat_of(group, request, self.settings.migration, self.topics)
            self._beat(shard, ticket, heartbeat, now)
        except RequestRefused as refused:
            self.ports.answers.append((ticket, classic_members.refused(request, refused.code)))

    def classic_sync(self, shard: Shard, group: ConsumerGroup, ticket: int, request: SyncRequest, now: Now) -> None:
        """Handle SyncGroup of a classic member. It gets its assignment, once all that this depends on is committed."""
        error, given = ErrorCode.NONE, b""
        try:
            member = classic_members.member_of(group, request.member_id, request.instance_id, request.generation)
            error = classic_members.sync_error(group, member, request)
            given = self._synced(group, member, error, now)
        except RequestRefused as refused:
            error = refused.code
        if error is not ErrorCode.NONE:
            self.ports.answers.append((ticket, Synced(error)))
            return
        done = Synced(ErrorCode.NONE, request.protocol_type, request.protocol, given)
        answers = self.ports
        self._commit(
            shard,
            group,
            {},
            lambda error: answers.answers.append((ticket, done if error is ErrorCode.NONE else Synced(error))),
        )

    def _synced(self, group: ConsumerGroup, member: Member, error: ErrorCode, now: Now) -> bytes:
        """Change a member's timers after its sync. Returns its assignment."""
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._time_step(group, member, now)
        if error is not ErrorCode.NONE:
            return b""
        member.rebalance_due_ms = FAR_MS
        self._touch(group, member, now)
        assert member.subscription.classic is not None
        return assignment_bytes(member.subscription.classic.protocols[0][1], member.current.assigned, self.topics)

    def classic_heartbeat(
        self, shard: Shard, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now: Now
    ) -> ErrorCode:
        """Handle Heartbeat of a classic member. Returns the error of the answer."""
        try:
            member = classic_members.member_of(group, member_id, instance_id, generation)
        except RequestRefused as refused:
            return refused.code
        self._touch(group, member, now)
        error = classic_members.heartbeat_error(group, member)
        if error is not ErrorCode.NONE:
            self._time_step(group, member, now)
        return error

    def _reply(self, ticket: int, request: ConsumerHeartbeat, beat: ConsumerBeat) -> None:
        """Answer a heartbeat, or the join that it stands for."""
        self._answer(ticket, beat if request.join is None else classic_members.joined(request, beat))

    def _time_step(self, group: ConsumerGroup, member: Member, now: Now) -> None:
        """Begin the time for a step that a classic member owes: to join anew or to ask for its assignment."""
        if member.rebalance_due_ms == FAR_MS:
            member.rebalance_due_ms = now.mono_ms + max(0, member.subscription.rebalance_timeout_ms)
            self._watch(group, member)

    # ---- back to the classic protocol

    def _downgrade(
        self,
        shard: Shard,
        group: ConsumerGroup,
        touched: Mapping[RecordKey, None],
        then: Callable[[ErrorCode], None] | None,
        now: Now,
        joined: tuple[int, ConsumerHeartbeat, str] | None = None,
    ) -> bool:
        """Let the group go on as a classic group. Returns whether it can. `joined`: ticket, request and id of the
        static member that has come back; it is answered when that is written, and hears of a rebalance afterwards like
        the others."""
        try:
            classic = to_classic(group, self.topics, now.wall_ms)
        except WireError:
            return False
        group.gone = True
        keys = dict.fromkeys((*touched, *group.way.writes.unsettled(), *kinds.keys(group)))
        for one in group.way.waiting:
            self._reply(one.ticket, one.request, ConsumerBeat(_gone_classic(one.request)))
        group.way.waiting.clear()
        rebalance = joined is None or group.epoch > group.target_epoch

        def written(error: ErrorCode, now: Now) -> None:
            if joined is not None:
                beat = ConsumerBeat(error, None, joined[2], classic.generation)
                self._reply(joined[0], joined[1], beat)
            if then is not None:
                then(error)

        self.ports.become_classic(
            shard, classic, [kinds.key_bytes(group.id, key) for key in keys], now, rebalance=rebalance, then=written
        )
        return True


def _gone_classic(request: ConsumerHeartbeat) -> ErrorCode:
    """The error for a member whose group has become classic while its request waited."""
    return ErrorCode.UNKNOWN_MEMBER_ID if request.join is None else ErrorCode.REBALANCE_IN_PROGRESS
