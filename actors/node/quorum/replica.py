"""This node's replica of the metadata partition: it performs what `actors.raft` wants.

This file alone decides how a `Ready` becomes effects, in its order. Deciding about leadership and commitment is raft's.
What peers are sent is in `transport.py`, what the roles see in `replay.py`, snapshots in `stored_snapshots.py`, where
bytes lie in `log.py` and `checkpoints.py`. Rules:

1. Syncs count in the order in which they began, whatever the order in which the host finishes them.
2. What cannot go on (a failed disk, a log that lacks committed records) stops the node with a sentence.
3. A broker without room for metadata waits for some. A controller stops, so that another one leads.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from actors.metadata import batches
from actors.node.net.channels import Channels
from actors.node.quorum import files
from actors.node.quorum.addresses import Address, Addresses
from actors.node.quorum.checkpoints import Checkpoints
from actors.node.quorum.codec.partition import Refusal
from actors.node.quorum.identity import Identity
from actors.node.quorum.log import MetadataLog, Segment
from actors.node.quorum.replay import NodeRole, Replay
from actors.node.quorum.store import Recovered, Store
from actors.node.quorum.stored_snapshots import StoredSnapshots
from actors.node.quorum.transport import Transport
from actors.node.quorum.upkeep import Upkeep
from actors.node.runtime.answers import Answer
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.storage import Storage
from actors.ports import Batch, Buffer, Disk, DiskFailed, DiskFull, Now, SyncClass
from actors.raft import (
    EPOCH_MAX,
    Description,
    LeaderChange,
    Limits,
    LogDiverged,
    Raft,
    Ready,
    ReplicaKey,
    Role,
    Voters,
)
from actors.raft.messages import BeginQuorumEpochRequest, Message, Request

FULL_RETRY_MS = 1000


class _Sync:
    """A sync in flight. Invariant: `raft.synced` is called for it after all that began before it."""

    __slots__ = ("after", "done", "token")

    def __init__(self, token: int, after: Sequence[tuple[int, Message]]) -> None:
        self.token = token
        self.after = after
        self.done = False


class Quorum:
    """This node's replica of the metadata partition. Usable once `recover` has returned."""

    def __init__(self, runtime: Runtime, channels: Channels, storage: Storage, id: int) -> None:
        """`id`: the number of this node among all replicas of the metadata."""
        self._runtime = runtime
        config = runtime.config
        self.controls = "controller" in config.roles
        """Whether this node may vote and lead."""
        own = config.controller_endpoints[0] if config.controller_endpoints else None
        self.identity = Identity(
            storage.cluster_id,
            files.TOPICS[storage.family],
            ReplicaKey(id, storage.directory_ids[0]),
            own.name if own else "",
            Addresses(config.controller_connect, id, (own.host, own.port) if own else None),
        )
        self.limits = _limits(config.value)
        self.store = Store(
            storage.disks[0],
            files.DIRECTORIES[storage.family],
            config.value("internal.metadata.log.segment.bytes") or config.value("metadata.log.segment.bytes"),
            config.value("metadata.log.segment.ms"),
        )
        self._transport = Transport(runtime, channels, self.identity, self.limits.request_timeout_ms, self)
        self._replay = Replay(runtime, self.store, self.identity.voters)
        self._snapshots = StoredSnapshots(runtime, self.store)
        self._upkeep = Upkeep(runtime, self.store)
        self._syncs: deque[_Sync] = deque()
        self._newest: dict[str, tuple[Disk, str, bytes]] = {}
        """Path -> the newest replacement that was submitted."""
        self._unwritten: Ready | None = None
        """There is no room for what came; nothing goes on before it is written. Never on a controller."""
        self._again_ms = 0
        """When to look for room again."""
        self._raft: Raft | None = None

    def attach(self, roles: Sequence[NodeRole]) -> None:
        """Who replays what is committed. Before `recover`."""
        self._replay.roles = roles

    # -- what others ask

    @property
    def raft(self) -> Raft:
        assert self._raft is not None, "the quorum has not recovered yet"
        return self._raft

    @property
    def log(self) -> MetadataLog:
        return self.store.log

    @property
    def checkpoints(self) -> Checkpoints:
        return self.store.checkpoints

    @property
    def leader_id(self) -> int:
        """-1: none is known."""
        assert self._raft is not None, "the quorum has not recovered yet"
        return self._raft.leader_id

    @property
    def epoch(self) -> int:
        return self.raft.epoch

    @property
    def high_watermark(self) -> int:
        return self.raft.high_watermark

    @property
    def told_high_watermark(self) -> int:
        """The newest that a leader has told this process; -1: none yet. The replay may have to go there still."""
        return self.raft.told_high_watermark

    @property
    def log_end_offset(self) -> int:
        return self.raft.log_end_offset

    @property
    def durable_offset(self) -> int:
        """Everything of the log below it is on the own disk."""
        return self.raft.durable_offset

    @property
    def is_leader(self) -> bool:
        return self._raft is not None and self._raft.role is Role.LEADER

    @property
    def active(self) -> bool:
        """Leader, and the start of the own epoch is committed and replayed."""
        return self._replay.active

    @property
    def overdue(self) -> bool:
        """Leader without word from a majority for so long that another may lead; it resigns in this turn."""
        return self._raft is not None and self._raft.overdue(self._runtime.now)

    @property
    def storing_snapshot(self) -> bool:
        """A role has handed over a snapshot that has not got its name yet."""
        return self.store.taken is not None

    def leader_address(self) -> Address | None:
        """Controller listener of the leader; None while there is none or nobody has told where it is."""
        if self._raft is None or self._raft.leader_id < 0:
            return None
        return self.identity.addresses.find(self._raft.leader_id)

    def describe(self) -> Description:
        """For DescribeQuorum."""
        return self.raft.describe()

    def degraded(self) -> bool:
        """Leader: voters are missing, and one more would stop the quorum (R631-118)."""
        live, voters = self.raft.live_voters, self.identity.voters.voters
        return self.is_leader and live < len(voters) and live <= voters.majority

    @property
    def bytes_since_snapshot(self) -> int:
        """Bytes of log behind the newest checkpoint."""
        return self.store.bytes_since_snapshot

    # -- life

    def recover(self) -> None:
        """Read the directory and take up the quorum where it was left. Raises DamagedFile, DiskFailed."""
        runtime, now = self._runtime, self._runtime.now
        found = self.store.recover(now.mono_ms)
        for sentence in found.notices:
            runtime.log.warning(sentence)
        me = self.identity.me
        self.identity.voters.adopt(found.voters)
        voters = self.identity.voters.voters
        if me in voters and max(found.hard.epoch, found.table.last_epoch) >= EPOCH_MAX:
            raise files.DamagedFile(self._last_epoch())
        self._check_connect(voters)
        if found.latest.end_offset > 0:
            self._replay.load(found.latest)
        self._replay.applied = found.latest.end_offset
        self._raft = Raft(
            me,
            voters if self.controls or found.voters else Voters(),
            found.hard,
            found.table,
            self.store,
            runtime.random,
            self.limits,
            self._control_batch,
            now,
            latest=found.latest,
            bootstrap=self.identity.addresses.bootstrap,
        )
        self._say_where(found)
        self.advance()

    def _last_epoch(self) -> str:
        return files.last_epoch(f"{self.store.directory}/{files.QUORUM_STATE}", EPOCH_MAX)

    def _check_connect(self, voters: Voters) -> None:
        """controller.connect may name the voters, but who votes stands on the disk (A11)."""
        given = self.identity.addresses.given_ids
        if self.controls and len(voters) and given and given != {key.id for key in voters.keys}:
            raise files.DamagedFile(
                f"controller.connect names the controllers {sorted(given)}, but this directory was formatted for "
                f"{[key.id for key in voters.keys]}: write those ids, or format an empty directory"
            )

    def _say_where(self, found: Recovered) -> None:
        me, voters = self.identity.me, self.identity.voters.voters
        kind = "voter" if me in voters else "observer"
        self._runtime.log.info(
            f"metadata log: {kind} {me.id}, epoch {found.hard.epoch}, offsets {found.table.start.end_offset} to "
            f"{found.table.end_offset}, checkpoint {found.latest.end_offset}"
        )

    def resign(self) -> None:
        """Hand over before a shutdown. Does nothing on a node that does not lead."""
        if self._raft is not None:
            self._raft.resign()
            self.advance()

    def retire(self) -> None:
        """Whatever must happen before this node ends has happened, save that a leader hands over."""
        self.resign()
        self._runtime.stop(0, "stopped as asked")

    def tick(self, now: Now) -> None:
        """Timers of the quorum."""
        raft = self._raft
        if raft is not None:
            if raft.tick(now) and raft.exhausted:
                self._runtime.stop(1, self._last_epoch())
            self.advance()

    def deadline_ms(self) -> int:
        """When the next turn is due; 0: at once."""
        if self._unwritten is not None:
            return self._again_ms
        return 0 if self._replay.behind or self._raft is None else self._raft.deadline_ms()

    def append(self, batch: Batch) -> None:
        """The leader's own batch, at `log_end_offset`. Raises NotLeader."""
        self.raft.append(batch)

    # -- messages

    def ask(self, codec: Any, asked: Request | Refusal) -> Answer:
        """Give a request of a peer to raft; its answer, written by `codec`, leaves when raft has it."""
        return self._transport.ask(codec, asked)

    def hear_of_leader(self, told: BeginQuorumEpochRequest, endpoints: Sequence[Any]) -> None:
        """A leader that this replica would follow says where it is reached."""
        if self.raft.follows(told.voter, told.leader_id, told.epoch):
            for endpoint in endpoints[:1]:
                self.identity.addresses.learn(told.leader_id, endpoint.host, endpoint.port)

    def link_lost(self, target: int, refused: bool) -> None:
        """The connection to the replica that is fetched from is gone."""
        self.raft.link_lost(target, refused, self._runtime.now)

    def step(self, source: int, message: Message) -> None:
        """A message has come. Raft acts on it, and this node in `advance`."""
        try:
            self.raft.step(source, message, self._runtime.now)
        except LogDiverged as diverged:
            self._runtime.stop(1, str(diverged))

    # -- performing

    def advance(self) -> None:
        """Perform what raft wants until it wants nothing more; then replay, snapshot, sweep."""
        raft, store = self._raft, self.store
        if raft is None or (
            raft.quiet(self._replay.applied)
            and not (
                self._replay.pending or self._unwritten or store.taken or store.log.missed or store.checkpoints.missed
                or store.log.garbage or store.checkpoints.garbage
            )
        ):  # fmt: skip
            return
        try:
            if self._unwritten is not None and not self._write_on(self._unwritten):
                return
            while self._unwritten is None:
                ready = raft.ready()
                if raft.settled:
                    break
                self._perform(ready)
            if self._unwritten is not None:
                return
            self._replay.run(raft.high_watermark)
            self._snapshots.store(raft)
            self._upkeep.keep_mark(raft)
            self._upkeep.read_missed(raft)
        except (DiskFailed, DiskFull) as failed:
            self._runtime.stop(1, f"the metadata log cannot be written: {failed}")
            return
        if not self._syncs:
            self._upkeep.sweep()

    def _perform(self, ready: Ready) -> None:
        """One Ready, in its order, as far as there is room for what came. One answer at a time is awaited, so it has a part
        of a snapshot, or a snapshot to load, or batches."""
        if ready.lost:
            self._replay.lost(self.epoch)
        now_ms = self._runtime.now.mono_ms
        if ready.load_snapshot is not None:
            self.store.adopt(ready.load_snapshot, now_ms)
            self._replay.load(ready.load_snapshot)
        if ready.truncate_to is not None:
            self.log.truncate(ready.truncate_to)
        if self._write(ready):
            self._tell(ready)

    def _write(self, ready: Ready) -> bool:
        """Write its part of a snapshot, or append its batches. False: there is no room, and this node is a broker: it waits
        for some, since clients can still be served, and a broker that falls behind is fenced by who leads. A controller
        stops, so that another leads."""
        batches = [batch for batch in ready.append if batch.base_offset >= self.log.end_offset]
        try:
            for part in ready.snapshot_parts:
                file = self.checkpoints.write_part(part.snapshot, part.position, part.data)
                if part.last:
                    self._snapshots.verify(part.snapshot, file, self.raft)
            self.log.append(batches, self._runtime.now.mono_ms)
        except DiskFull as full:
            if self.controls:
                raise
            if self._unwritten is None:
                self._runtime.log.error(f"metadata is not taken in until there is room: {full}")
            self._unwritten = ready
            self._again_ms = self._runtime.now.mono_ms + FULL_RETRY_MS
            return False
        self.store.bytes_since_snapshot += sum(len(batch.data) for batch in ready.append)
        return True

    def _write_on(self, ready: Ready) -> bool:
        """Look for room again, not in every turn; go on with `ready` where it was left."""
        if self._runtime.now.mono_ms < self._again_ms or not self._write(ready):
            return False
        self._unwritten = None
        self._runtime.log.info("there is room for metadata again")
        self._tell(ready)
        return True

    def _tell(self, ready: Ready) -> None:
        """What comes after the append."""
        for target, message in ready.send:
            self._transport.send(target, message)
        if ready.sync is not None:
            self._sync(ready)
        if ready.gained is not None:
            self._replay.pending = ready.gained

    def _sync(self, ready: Ready) -> None:
        assert ready.sync is not None
        sync = _Sync(ready.sync, ready.after_sync)
        self._syncs.append(sync)
        replacements = self.store.replacements(ready.hard_state, self.raft.epochs)
        self._newest.update((one[1], one) for one in replacements)
        dirty = self.log.take_dirty()
        files = [segment.file for segment in dirty]

        def submit() -> None:
            # When it is tried again, a later one may have written newer content.
            current = [one for one in replacements if self._newest[one[1]] is one]
            self._runtime.sync(
                files, current, lambda result: self._synced(sync, dirty, result, submit), SyncClass.QUORUM
            )

        submit()

    def _synced(
        self, sync: _Sync, dirty: Sequence[Segment], result: Exception | None, again: Callable[[], None]
    ) -> None:
        if isinstance(result, DiskFull) and not self.controls:
            self._runtime.log.error(f"metadata is not made durable until there is room: {result}")
            self._runtime.waiting.timers.at(self._runtime.now.mono_ms + FULL_RETRY_MS, again)
            return
        if result is not None:
            self._runtime.stop(1, f"the metadata log cannot be made durable: {result}")
            return
        self.log.synced(dirty)
        sync.done = True
        while self._syncs and self._syncs[0].done:
            first = self._syncs.popleft()
            for target, message in first.after:
                self._transport.send(target, message)
            self.raft.synced(first.token)

    def snapshot(self, end_offset: int, epoch: int, data: Buffer | Sequence[Buffer]) -> None:
        """Store a checkpoint that a role has written, whole or in parts. It gets its name once everything below
        `end_offset` is committed and durable here."""
        self._snapshots.take_in(end_offset, epoch, data)
        self.advance()

    def epoch_at(self, offset: int) -> int:
        """Epoch of the record just below `offset`: the second half of a snapshot's name."""
        return self.raft.epochs.epoch_at(offset)

    def _control_batch(self, change: LeaderChange, offset: int, epoch: int, now: Now) -> Batch:
        controls: list[batches.Control] = [
            batches.LeaderChange(
                change.leader_id, tuple(key.id for key in change.voters), tuple(key.id for key in change.granting)
            )
        ]
        if change.first:
            controls += [batches.KRaftVersion(1), batches.Voters(tuple(self.identity.voters.records))]
        return batches.control_batch(offset, epoch, now.wall_ms, controls)


def _limits(value: Callable[[str], Any]) -> Limits:
    return Limits(
        election_timeout_ms=value("controller.quorum.election.timeout.ms"),
        election_backoff_max_ms=value("controller.quorum.election.backoff.max.ms"),
        fetch_timeout_ms=value("controller.quorum.fetch.timeout.ms"),
        retry_backoff_ms=value("controller.quorum.retry.backoff.ms"),
        request_timeout_ms=value("controller.quorum.request.timeout.ms"),
        fetch_bytes_max=value("controller.quorum.fetch.max.bytes"),
        snapshot_bytes_max=value("controller.quorum.fetch.snapshot.max.bytes"),
    )
