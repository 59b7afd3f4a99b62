"""The quorum of a node: performs what `actors.raft` wants, and hands committed batches to the roles.

This file alone decides how a `Ready` becomes effects, in its order, and when a role sees a batch. Deciding about
leadership and commitment is raft's; where bytes lie is `metadata_log`'s and `checkpoints`'; what they mean is the
roles'; how messages look on the wire is in `rpc/`.

Rules:

1. Syncs count in the order in which they began, whatever the order in which the host finishes them.
2. A role sees committed batches only, each once, in order, after the snapshot before them. A lost leadership comes
   first, a gained one last and only when everything below it has been replayed.
3. What cannot go on (a failed disk, a log that lacks committed records) stops the node with a sentence.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from actors.metadata import batches
from actors.node import metadata_files as files
from actors.node.addresses import Address, Addresses
from actors.node.channels import ChannelError
from actors.node.checkpoints import Checkpoints, verify
from actors.node.metadata_log import MetadataLog, Segment
from actors.node.quorum_storage import Recovered, Store
from actors.node.registry import Answer, Close, Done, Parked
from actors.node.rpc import begin_quorum_epoch, end_quorum_epoch, fetch_metadata, fetch_snapshot, vote
from actors.ports import Batch, Buffer, Disk, DiskFailed, DiskFull, Now, SyncClass
from actors.raft import (
    EPOCH_MAX,
    Description,
    Failed,
    LeaderChange,
    Leadership,
    Limits,
    LogDiverged,
    Raft,
    Ready,
    ReplicaKey,
    Role,
    SnapshotId,
    Voters,
)
from actors.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Message,
    Request,
    Response,
    VoteRequest,
)
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.node.node import Node

FULL_RETRY_MS = 1000
REPLAY_BYTES = 4 << 20
"""Bytes of committed batches that one turn replays at most."""
READ_BYTES = 1 << 20
ANSWER_MS = 10_000
"""A request that raft has not answered by then never will be; only a mistake leads there."""
FIRST_TOKEN = 1 << 40
"""Return addresses of requests from the wire; ids of replicas are far below."""
CONTROL_BIT = 0x20

OUTGOING: dict[type, Any] = {
    VoteRequest: vote,
    BeginQuorumEpochRequest: begin_quorum_epoch,
    EndQuorumEpochRequest: end_quorum_epoch,
    FetchRequest: fetch_metadata,
    FetchSnapshotRequest: fetch_snapshot,
}
"""Request -> the module that writes it (`outgoing`) and reads its answer (`incoming`)."""


class NodeRole(Protocol):
    """What a role of the node does with the metadata log."""

    def load(self, data: Buffer, snapshot: SnapshotId) -> None: ...
    def replay(self, batch: Batch) -> None: ...
    def committed(self, high_watermark: int) -> None: ...


class _Asked:
    """A request from the wire; `reply` is raft's answer once there is one."""

    __slots__ = ("reply",)

    def __init__(self) -> None:
        self.reply: Response | None = None


class _Sync:
    """A sync in flight. Invariant: `raft.synced` is called for it after all that began before it."""

    __slots__ = ("after", "done", "token")

    def __init__(self, token: int, after: Sequence[tuple[int, Message]]) -> None:
        self.token = token
        self.after = after
        self.done = False


class Quorum:
    """This node's replica of the metadata partition. Usable once `recover` has returned."""

    def __init__(self, node: "Node", roles: Sequence[NodeRole]) -> None:
        self.node = node
        self.roles = roles
        config, storage = node.config, node.storage
        self.cluster_id = storage.cluster_id
        self.topic = files.TOPICS[storage.family]
        self.me = ReplicaKey(node.id, storage.directory_ids[0])
        self.controls = "controller" in config.roles
        own = config.controller_endpoints[0] if config.controller_endpoints else None
        self.addresses = Addresses(config.controller_connect, node.id, (own.host, own.port) if own else None)
        self.limits = _limits(config.value)
        self.store = Store(
            storage.disks[0],
            files.DIRECTORIES[storage.family],
            config.value("internal.metadata.log.segment.bytes") or config.value("metadata.log.segment.bytes"),
            config.value("metadata.log.segment.ms"),
        )
        self.voter_records: Sequence[batches.Voter] = ()
        self._asked: dict[int, _Asked] = {}
        self._next_token = FIRST_TOKEN
        self._syncs: deque[_Sync] = deque()
        self._applied = 0
        self._behind = False
        self._reading = False
        self._pending: Leadership | None = None
        self._active = False
        self._fetches_from: int | None = None
        self._strangers: set[int] = set()
        """Controllers that have said that they are of another cluster."""
        self._agreed = False
        """A controller has once answered as one of this cluster."""
        self._newest: dict[str, tuple[Disk, str, bytes]] = {}
        """Path -> the newest replacement that was submitted."""
        self._unwritten: Ready | None = None
        """There is no room for what came; nothing goes on before it is written. Never on a controller."""
        self._again_ms = 0
        """When to look for room again."""
        self._mark_timed = False
        """A timer runs for the durable mark."""
        self._raft: Raft | None = None

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
        return self.raft.leader_id

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
    def applied(self) -> int:
        """Everything below has been replayed by the roles."""
        return self._applied

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
        return self._active

    @property
    def overdue(self) -> bool:
        """Leader without word from a majority for so long that another may lead; it resigns in this turn."""
        return self._raft is not None and self._raft.overdue(self.node.now)

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest checkpoint on the disk."""
        return self.checkpoints.latest

    @property
    def bytes_since_snapshot(self) -> int:
        """Bytes of log behind the newest checkpoint."""
        return self.store.bytes_since_snapshot

    @property
    def storing_snapshot(self) -> bool:
        """A role has handed over a snapshot that has not got its name yet."""
        return self.store.taken is not None

    def leader_address(self) -> Address | None:
        """Controller listener of the leader; None while there is none or nobody has told where it is."""
        if self._raft is None or self._raft.leader_id < 0:
            return None
        return self.addresses.find(self._raft.leader_id)

    def describe(self) -> Description:
        """For DescribeQuorum."""
        return self.raft.describe()

    def voter_ids(self) -> Sequence[int]:
        """Ids of the voters, in order."""
        return [key.id for key in self.raft_voters.keys]

    def voters_record(self) -> batches.Voters | None:
        """The voters as a snapshot names them; None while this node does not know them."""
        return batches.Voters(tuple(self.voter_records)) if self.voter_records else None

    def degraded(self) -> bool:
        """Leader: voters are missing, and one more would stop the quorum (R631-118)."""
        live = self.raft.live_voters
        return self.is_leader and live < len(self.raft_voters) and live <= self.raft_voters.majority

    # -- life

    def recover(self) -> None:
        """Read the directory and take up the quorum where it was left. Raises DamagedFile, DiskFailed."""
        node, now = self.node, self.node.now
        found = self.store.recover(now.mono_ms)
        for sentence in found.notices:
            node.log.warning(sentence)
        self.voter_records = found.voters
        self.addresses.record(found.voters)
        voters = Voters(ReplicaKey(voter.id, voter.directory_id) for voter in found.voters)
        if self.me in voters and max(found.hard.epoch, found.table.last_epoch) >= EPOCH_MAX:
            raise files.DamagedFile(self._last_epoch())
        self._check_connect(voters)
        if found.latest.end_offset > 0:
            self._load(found.latest)
        self._applied = found.latest.end_offset
        self._raft = Raft(
            self.me,
            voters if self.controls or found.voters else Voters(),
            found.hard,
            found.table,
            self.store,
            node.random,
            self.limits,
            self._control_batch,
            now,
            latest=found.latest,
            bootstrap=self.addresses.bootstrap,
        )
        self._say_where(found)
        self.advance()

    def _last_epoch(self) -> str:
        return files.last_epoch(f"{self.store.directory}/{files.QUORUM_STATE}", EPOCH_MAX)

    def _check_connect(self, voters: Voters) -> None:
        """controller.connect may name the voters, but who votes stands on the disk (A11)."""
        given = self.addresses.given_ids
        if self.controls and len(voters) and given and given != {key.id for key in voters.keys}:
            raise files.DamagedFile(
                f"controller.connect names the controllers {sorted(given)}, but this directory was formatted for "
                f"{[key.id for key in voters.keys]}: write those ids, or format an empty directory"
            )

    def _say_where(self, found: Recovered) -> None:
        kind = "voter" if self.me in self.raft_voters else "observer"
        self.node.log.info(
            f"metadata log: {kind} {self.me.id}, epoch {found.hard.epoch}, offsets {found.table.start.end_offset} to "
            f"{found.table.end_offset}, checkpoint {found.latest.end_offset}"
        )

    @property
    def raft_voters(self) -> Voters:
        """The voters as formatted."""
        return Voters(ReplicaKey(voter.id, voter.directory_id) for voter in self.voter_records)

    def resign(self) -> None:
        """Hand over before a shutdown. Does nothing on a node that does not lead."""
        if self._raft is not None:
            self._raft.resign()
            self.advance()

    def tick(self, now: Now) -> None:
        """Timers of the quorum."""
        if self._raft is not None:
            self._raft.tick(now)
            if self._raft.exhausted:
                self.node.stop(1, self._last_epoch())
            self.advance()

    def deadline_ms(self) -> int:
        """When the next turn is due; 0: at once."""
        if self._unwritten is not None:
            return self._again_ms
        return 0 if self._behind or self._raft is None else self._raft.deadline_ms()

    def append(self, batch: Batch) -> None:
        """The leader's own batch, at `log_end_offset`. Raises NotLeader."""
        self.raft.append(batch)

    # -- requests from the wire

    def ask(self, request: Request, answer: Callable[[Any], Any]) -> Answer:
        """Give a request to raft; `answer(response)` makes the wire's reply. For the handlers in `rpc/`."""
        self._next_token += 1
        token, asked = self._next_token, _Asked()
        self._asked[token] = asked
        self._step(token, request)

        def again(expired: bool) -> Answer:
            if asked.reply is None:
                self._asked.pop(token, None)
                return Close("the quorum did not answer")
            return Done(answer(asked.reply))

        return Parked((("raft", token),), self.node.now.mono_ms + ANSWER_MS, again)

    def _step(self, source: int, message: Message) -> None:
        try:
            self.raft.step(source, message, self.node.now)
        except LogDiverged as diverged:
            self.node.stop(1, str(diverged))

    # -- performing

    def advance(self) -> None:
        """Perform what raft wants until it wants nothing more; then replay, snapshot, sweep."""
        raft, store = self._raft, self.store
        if raft is None or (
            raft.quiet(self._applied)
            and not (
                self._pending or self._unwritten or store.taken or store.log.missed or store.checkpoints.missed
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
            self._replay()
            self._store_snapshot()
            self._keep_mark()
            self._read_missed()
        except (DiskFailed, DiskFull) as failed:
            self.node.stop(1, f"the metadata log cannot be written: {failed}")
            return
        if not self._syncs:
            self._sweep()

    def _perform(self, ready: Ready) -> None:
        """One Ready, in its order, as far as there is room for what came. One answer at a time is awaited, so it has a part
        of a snapshot, or a snapshot to load, or batches."""
        if ready.lost:
            self._lost()
        now_ms = self.node.now.mono_ms
        if ready.load_snapshot is not None:
            self.store.adopt(ready.load_snapshot, now_ms)
            self._load(ready.load_snapshot)
            self._applied = ready.load_snapshot.end_offset
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
                    self._verify(part.snapshot, file)
            self.log.append(batches, self.node.now.mono_ms)
        except DiskFull as full:
            if self.node.controller is not None:
                raise
            if self._unwritten is None:
                self.node.log.error(f"metadata is not taken in until there is room: {full}")
            self._unwritten = ready
            self._again_ms = self.node.now.mono_ms + FULL_RETRY_MS
            return False
        self.store.bytes_since_snapshot += sum(len(batch.data) for batch in ready.append)
        return True

    def _write_on(self, ready: Ready) -> bool:
        """Look for room again, not in every turn; go on with `ready` where it was left."""
        if self.node.now.mono_ms < self._again_ms or not self._write(ready):
            return False
        self._unwritten = None
        self.node.log.info("there is room for metadata again")
        self._tell(ready)
        return True

    def _tell(self, ready: Ready) -> None:
        """What comes after the append."""
        for target, message in ready.send:
            self._send(target, message)
        if ready.sync is not None:
            self._sync(ready)
        if ready.gained is not None:
            self._pending = ready.gained

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
            self.node.sync(files, current, lambda result: self._synced(sync, dirty, result, submit), SyncClass.QUORUM)

        submit()

    def _synced(
        self, sync: _Sync, dirty: Sequence[Segment], result: Exception | None, again: Callable[[], None]
    ) -> None:
        if isinstance(result, DiskFull) and self.node.controller is None:
            self.node.log.error(f"metadata is not made durable until there is room: {result}")
            self.node.waiting.timers.at(self.node.now.mono_ms + FULL_RETRY_MS, again)
            return
        if result is not None:
            self.node.stop(1, f"the metadata log cannot be made durable: {result}")
            return
        self.log.synced(dirty)
        sync.done = True
        while self._syncs and self._syncs[0].done:
            first = self._syncs.popleft()
            for target, message in first.after:
                self._send(target, message)
            self.raft.synced(first.token)

    def _lost(self) -> None:
        self._active = False
        self._pending = None
        self.node.log.info(f"no longer leader of the quorum, epoch {self.epoch}")
        if self.node.controller is not None:
            self.node.controller.lost()
        self.node.waiting.lost()

    # -- messages

    def _send(self, target: int, message: Message) -> None:
        """An answer to a request from the wire, or a request to another replica."""
        asked = self._asked.pop(target, None)
        if asked is not None:
            asked.reply = message  # type: ignore[assignment]
            self.node.waiting.signal(("raft", target))
        elif type(message) in OUTGOING:
            self._request(target, message)

    def _request(self, target: int, request: Any) -> None:
        module = OUTGOING[type(request)]
        address = self.addresses.find(target)
        if address is None:
            self._step(target, Failed(request.serial))
            return
        purpose = (module.PURPOSE, target)
        if module.PURPOSE == fetch_metadata.PURPOSE and self._fetches_from != target:
            self._fetch_from(target)
        self.node.channels.peer(
            purpose,
            address,
            module.NAME,
            module.outgoing(self, request),
            lambda reply: self._answered(target, request, module, reply),
            self.limits.request_timeout_ms,
        )

    def _fetch_from(self, target: int) -> None:
        """One connection for fetches: watch the one to this leader, drop the one to the last."""
        channels = self.node.channels
        last, self._fetches_from = self._fetches_from, target
        if last is not None:
            channels.drop((fetch_metadata.PURPOSE, last))
        channels.watch((fetch_metadata.PURPOSE, target), lambda refused: self._link_lost(target, refused))

    def _link_lost(self, target: int, refused: bool) -> None:
        if target == self._fetches_from:
            self.raft.link_lost(target, refused, self.node.now)

    def _answered(self, target: int, request: Any, module: Any, reply: Any) -> None:
        response: Message | None = None
        if not isinstance(reply, ChannelError):
            if reply.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
                self._foreign(target)
            else:
                self._agreed = True
                response = module.incoming(self, request, reply)
                if response is None:
                    self.node.log.warning(f"{module.NAME}: the answer of {target} cannot be used: {reply!r:.300}")
        self._step(target, response if response is not None else Failed(request.serial))

    def _foreign(self, target: int) -> None:
        """A controller says that it is of another cluster. Who hears that from most, and never anything else, is in the
        wrong place itself."""
        if target not in self._strangers:
            self._strangers.add(target)
            host, port = self.addresses.find(target) or ("", 0)
            self.node.log.error(f"the controller at {host}:{port} is not of cluster {self.cluster_id}")
        if not self._agreed and 2 * len(self._strangers) > len(self.addresses.bootstrap):
            self.node.stop(1, f"the controllers of controller.connect are of another cluster than this node, whose "
                              f"directory belongs to {self.cluster_id}: name its own controllers, or take another "
                              f"directory.")  # fmt: skip

    # -- committed batches

    def _load(self, snapshot: SnapshotId) -> None:
        data = self.checkpoints.load(snapshot)
        voters = self.store.voters_of(data)
        if voters:
            self.voter_records = voters
            self.addresses.record(voters)
        for role in self.roles:
            role.load(data, snapshot)

    def _replay(self) -> None:
        """Hand committed batches to the roles, up to a budget; then say what is committed."""
        high_watermark, before, budget = self.raft.high_watermark, self._applied, REPLAY_BYTES
        while self._applied < high_watermark and budget > 0:
            start = self._applied
            for batch in self.log.read(start, READ_BYTES) or ():
                if batch.last_offset >= high_watermark:
                    break
                self._replay_one(batch)
                budget -= len(batch.data)
            if self._applied == start:  # read from disk first, or not written yet for want of room
                break
        self._behind = self._applied < high_watermark and budget <= 0
        if self._applied > before:
            for role in self.roles:
                role.committed(self._applied)
            self.node.waiting.committed(self._applied)
        if self._pending is not None and self._applied >= self._pending.next_offset:
            self._gain(self._pending)

    def _replay_one(self, batch: Batch) -> None:
        if batch.data[22] & CONTROL_BIT:
            for _, control in batches.controls(batch.data):
                if isinstance(control, batches.Voters):
                    self.voter_records = control.voters
                    self.addresses.record(control.voters)
        for role in self.roles:
            role.replay(batch)
        self._applied = batch.last_offset + 1

    def _gain(self, leadership: Leadership) -> None:
        self._pending = None
        self._active = True
        self.node.log.info(f"leader of the quorum, epoch {leadership.epoch}, offset {leadership.next_offset}")
        if self.node.controller is not None:
            self.node.controller.gained(leadership.epoch, leadership.next_offset)

    def _read_missed(self) -> None:
        """Fetch from the disk what somebody missed in memory; raft and the replay then look again."""
        cold, piece = self.log.missed, self.checkpoints.missed
        if self._reading or (cold is None and piece is None):
            return
        self._reading = True
        self.log.missed = self.checkpoints.missed = None

        def read(result: Any) -> None:
            self._reading = False
            if isinstance(result, FileNotFoundError):
                self.raft.warmed()  # deleted meanwhile, behind a newer snapshot: who asked is told so
                return
            if isinstance(result, Exception):
                self.node.stop(1, f"the metadata log cannot be read: {result}")
                return
            if cold is not None:
                self.log.warm(cold, result)
            elif piece is not None:
                self.checkpoints.warm(piece[0], piece[1], result)
            self.raft.warmed()

        if cold is not None:
            self.node.work(cold.job, read)
        elif piece is not None:
            file, position, size = piece
            self.node.work(lambda: file.read_cold(position, size), read)

    # -- snapshots

    def snapshot(self, end_offset: int, epoch: int, data: Buffer | Sequence[Buffer]) -> None:
        """Store a checkpoint that a role has written, whole or in parts. It gets its name once everything below
        `end_offset` is committed and durable here."""
        whole = bytes(data) if isinstance(data, bytes | bytearray | memoryview) else b"".join(data)
        self.store.taken = (SnapshotId(end_offset, epoch), whole)
        self.advance()

    def epoch_at(self, offset: int) -> int:
        """Epoch of the record just below `offset`: the second half of a snapshot's name."""
        return self.raft.epochs.epoch_at(offset)

    def _store_snapshot(self) -> None:
        raft = self.raft
        taken = self.store.next_taken(min(raft.high_watermark, raft.durable_offset), self.node.now.mono_ms)
        if taken is None:
            return
        snapshot, data = taken

        def stored(result: Exception | None) -> None:
            if isinstance(result, DiskFull):
                self.node.log.error(f"no snapshot until there is room, the log goes on growing: {result}")
                self.store.not_stored(self.node.now.mono_ms)
                self.node.waiting.timers.at(self.store.again_ms, self._store_snapshot)
                return
            if result is not None:
                self.node.stop(1, f"a checkpoint cannot be written: {result}")
                return
            start = self.store.stored(snapshot, raft.epochs.start)
            if start is not None:
                raft.snapshot_taken(snapshot, start)
                self.log.delete_below(start.end_offset)

        self.node.sync((), [(self.store.disk, self.checkpoints.path(snapshot), data)], stored)

    def _keep_mark(self) -> None:
        """Write down how far the log is durable and committed, now or when it is time."""
        mark, now_ms = self.store.mark, self.node.now.mono_ms
        safe = min(self.raft.high_watermark, self.raft.durable_offset)
        if self._mark_timed or not mark.behind(safe):
            return

        def timed() -> None:
            self._mark_timed = False
            self._keep_mark()

        if now_ms < mark.due_ms:
            self._mark_timed = True
            self.node.waiting.timers.at(mark.due_ms, timed)
            return

        def written(result: Exception | None) -> None:
            mark.written(result is None)
            if result is None or isinstance(result, DiskFull):
                self._keep_mark()
            else:
                self.node.stop(1, f"{files.DURABLE} cannot be written: {result}")

        self.node.sync((), [mark.write(safe, now_ms)], written)

    def _verify(self, snapshot: SnapshotId, file: Any) -> None:
        """A received file becomes durable, is checked outside the loop, and raft hears of it."""

        def checked(result: Any) -> None:
            if not self.checkpoints.receives(file):
                return  # given up, and perhaps unlinked, for one that another leader sends
            if isinstance(result, Exception):
                self.node.stop(1, f"a received checkpoint cannot be read: {result}")
            else:
                if result is not None:
                    self.node.log.warning(
                        f"the snapshot in {file.path} came damaged at byte {result.position}: {result.reason}"
                    )
                self.raft.snapshot_received(snapshot, result is None, self.node.now)

        def durable(result: Exception | None) -> None:
            if result is not None:
                self.node.stop(1, f"a received checkpoint cannot be made durable: {result}")
            else:
                self.node.work(lambda: verify(file), checked)

        self.node.sync((file,), (), durable)

    def _sweep(self) -> None:
        """Unlink what was given up, outside the loop."""
        garbage = self.store.take_garbage()
        if garbage:
            self.node.work(lambda: self.store.unlink(garbage), lambda result: None)

    def _control_batch(self, change: LeaderChange, offset: int, epoch: int, now: Now) -> Batch:
        controls: list[batches.Control] = [
            batches.LeaderChange(
                change.leader_id, tuple(key.id for key in change.voters), tuple(key.id for key in change.granting)
            )
        ]
        if change.first:
            controls += [batches.KRaftVersion(1), batches.Voters(tuple(self.voter_records))]
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
