"""This node's replica of the metadata partition: it performs what `actors.raft` wants.

This file alone decides how a directory becomes a replica, and how a `Ready` becomes effects, in its order. Deciding about
leadership and commitment is raft's, and `QuorumReplica.raft` is there to be asked about them. What peers are sent is in
`transport.py`, when a sync counts in `syncs.py`, what the roles see in `replay.py`, snapshots in `stored_snapshots.py`,
where bytes lie in `store.py` and below. Rules:

1. What cannot go on (a failed disk, a log that lacks committed records, a snapshot that is not sound) stops the node with a
   sentence.
2. A broker without room for metadata, or without a descriptor for a snapshot, waits for some. A controller stops, so that
   another one leads.
"""

from collections.abc import Callable, Sequence
from typing import Any

from actors.authorization.addresses import is_every_interface
from actors.metadata import batches
from actors.metadata.ops import CorruptMetadata
from actors.node.net.channels import Channels
from actors.node.quorum import files
from actors.node.quorum.addresses import Address, Addresses
from actors.node.quorum.identity import Identity
from actors.node.quorum.replay import NodeRole, Replay
from actors.node.quorum.store import Recovered, Store
from actors.node.quorum.stored_snapshots import StoredSnapshots
from actors.node.quorum.syncs import FULL_RETRY_MS, Syncs
from actors.node.quorum.told_leader import ToldLeader
from actors.node.quorum.transport import Transport
from actors.node.quorum.upkeep import Upkeep
from actors.node.quorum.voters import record, voters_in
from actors.node.runtime.meters import Histogram, Meter
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.storage import Storage
from actors.ports import Batch, Content, DiskFailed, DiskFull, Now
from actors.raft import (
    EPOCH_MAX,
    Control,
    LeaderChange,
    Raft,
    RaftLimits,
    Ready,
    ReplicaKey,
    Role,
    Voter,
    VoterHistory,
    Voters,
)


class QuorumReplica:
    """This node's replica of the metadata partition: recovers it, and performs what raft wants of it."""

    raft: Raft
    """The machine of the quorum, which knows the leader and what is committed. For reading, and from the end of
    `recover` on."""
    transport: Transport
    """The messages from and to other replicas, from the end of `recover` on."""
    _snapshots: StoredSnapshots
    _syncs: Syncs
    _upkeep: Upkeep

    def __init__(self, runtime: Runtime, channels: Channels, storage: Storage, id: int) -> None:
        """`id` is the number of this node among all replicas of the metadata."""
        self._runtime = runtime
        self.channels = channels
        config = runtime.config
        self._controls = "controller" in config.roles
        """Whether this node may vote and lead."""
        own = config.controller_endpoints[0] if config.controller_endpoints else None
        self.identity = Identity(
            storage.cluster_id,
            files.TOPICS[storage.family],
            ReplicaKey(id, storage.directory_ids[0]),
            own.name if own else "",
            self._addresses(id),
        )
        self.store = Store(
            storage.disks[0],
            files.DIRECTORIES[storage.family],
            config.value("internal.metadata.log.segment.bytes") or config.value("metadata.log.segment.bytes"),
            config.value("metadata.log.segment.ms"),
        )
        self.told_leader = ToldLeader(self.identity.addresses) if config.is_pushed else None
        """The active controller, on a broker that does not pull the metadata log; None: raft knows it."""
        self._limits = _limits(config.value)
        self._auto_join = self._controls and config.value("controller.quorum.auto.join.enable")
        self._replay = Replay(runtime, self.store)
        self.other_use: Callable[[int], str | None] = lambda id: None
        """Tells what else an id stands for, as the controller of this node knows; it returns None if the id stands for
        nothing else."""
        self._failed = False
        """Whether the disk has failed in the middle of what raft wants: this node ends, and nothing more is done for it."""
        self._unwritten: Ready | None = None
        """A Ready that found no room on the disk; None: there is none. Nothing goes on before it is written. Never on a
        controller."""
        self._steps_done = 0
        """How many of its `STEPS` are done."""
        self._unloaded = False
        """Whether a snapshot waits for a descriptor. Never on a controller."""
        self.election_latency_ms = Histogram()
        """How long no leader was known, in ms, each time until one was."""
        self.appended, self.fetched = Meter(), Meter()
        """Records that were appended as the leader, and that were taken in from one."""
        self.leaders = 0
        """How often another replica than before was found to lead."""
        self._known_leader = -1
        self._leaderless_ms: int | None = None
        self._again_ms = 0
        """The monotonic time to look for room again."""

    def _addresses(self, id: int) -> Addresses:
        config = self._runtime.config
        told = config.controller_advertised[0] if config.controller_advertised else None
        if told is None:
            return Addresses(config.controller_connect, id, None)
        place = (told.host, told.port)
        explicit = config.advertises(told.name)
        return Addresses(config.controller_connect, id, place, place if explicit else None)

    def attach(self, roles: Sequence[NodeRole]) -> None:
        """Set the roles that replay what is committed. Call it before `recover`."""
        self._replay.roles = roles

    @property
    def snapshots_loaded(self) -> int:
        """How many snapshots of the metadata this process has loaded."""
        return self._replay.loads

    @property
    def loads(self) -> bool:
        """Whether a snapshot is being loaded, or waits for a descriptor."""
        return self._replay.loading is not None

    @property
    def loading(self) -> bool:
        """Whether a slice of a snapshot is loaded in each turn."""
        return self._replay.loading is not None and not self._unloaded

    def leader_address(self) -> Address | None:
        """The controller listener of the leader; None while there is no leader or its address is not known."""
        if self.told_leader is not None:
            return self.told_leader.address()
        leader_id = self.raft.leader_id
        return None if leader_id < 0 else self.identity.addresses.find(leader_id)

    @property
    def leader_id(self) -> int:
        """The id of the active controller, as far as this node knows; -1: it knows of none."""
        return self.raft.leader_id if self.told_leader is None else self.told_leader.id

    # -- life

    def begin_turn(self) -> None:
        """Let as much be done as in any turn."""
        self._replay.begin_turn()

    def recover(self) -> None:
        """Read the directory and go on with the quorum where the last process left it. Raises DamagedFile, DiskFailed."""
        runtime, now = self._runtime, self._runtime.now
        found = self.store.recover(now.mono_ms)
        for sentence in found.notices:
            runtime.log.warning(sentence)
        me = self.identity.me
        voters = found.voters.newest
        self.identity.voters.adopt(voters)
        if me in voters and max(found.hard.epoch, found.table.last_epoch) >= EPOCH_MAX:
            raise files.DamagedFile(self._last_epoch())
        if found.table.end_offset == 0:
            self._check_connect(voters)
        pulls = self.told_leader is None
        if found.latest.end_offset > 0 and pulls:
            self._replay.load(found.latest)
        else:
            self._replay.applied = found.latest.end_offset
        self.raft = raft = Raft(
            me,
            found.voters if pulls else VoterHistory(Voters()),
            found.hard,
            found.table,
            self.store,
            runtime.random,
            self._limits,
            self._control_batch,
            now,
            latest=found.latest,
            bootstrap=self.identity.addresses.bootstrap if pulls else (),
            voters_in=voters_in,
            elects=self._controls,
            own=self._own_voter(),
            auto_join=self._auto_join,
            joined=self._auto_join and self.store.has_joined(me.directory_id),
            other_use=lambda id: self.other_use(id),
        )
        self.transport = Transport(runtime, self.channels, self.identity, self._limits.request_timeout_ms, raft)
        self._snapshots = StoredSnapshots(runtime, self.store, raft)
        self._syncs = Syncs(runtime, self.store, self.transport, raft, not self._controls)
        self._upkeep = Upkeep(runtime, self.store, raft)
        self._say_where(found)
        self._say_left()
        self.advance()

    def _own_voter(self) -> Voter | None:
        """The entry that the log should have of this node if it votes; None if its port cannot be known."""
        address = self.identity.addresses.own
        if address is None or address[1] <= 0:
            return None
        others = self._runtime.config.controller_advertised[1:]
        further = tuple(
            (one.name, one.host, one.port) for one in others if one.port > 0 and not is_every_interface(one.host)
        )
        return Voter(self.identity.me, ((self.identity.listener_name, *address), *further))

    def _last_epoch(self) -> str:
        return files.last_epoch(f"{self.store.directory}/{files.QUORUM_STATE}", EPOCH_MAX)

    def _check_connect(self, voters: Voters) -> None:
        """Check that controller.connect does not name other voters than the disk, which counts (A11). Once the log has
        begun the voters may change, and the setting only says where to ask first. Raises DamagedFile."""
        given = self.identity.addresses.given_ids
        if self._controls and len(voters) and given and given != {key.id for key in voters.keys}:
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

    def _say_left(self) -> None:
        """Warn that this controller is no voter any more, and will not become one by itself."""
        if self.raft.joined and self.identity.me not in self.identity.voters.voters:
            self._runtime.log.warning(
                "this controller votes no more, and does not ask for its vote again, since it joins once a disk: stop it, "
                "add it (kafka-metadata-quorum.sh add-controller), or format an empty directory for it"
            )

    def resign(self) -> None:
        """Hand leadership over before a shutdown. Does nothing on a node that does not lead."""
        self.raft.resign()
        self.advance()

    def retire(self) -> None:
        """Finish what must happen before this node ends, except that a leader hands over."""
        self.resign()
        self._runtime.stop(0, "stopped as asked")

    def tick(self, now: Now) -> None:
        """Let the timers of the quorum run."""
        if self.raft.tick(now) and self.raft.exhausted:
            self._runtime.stop(1, self._last_epoch())
        self.advance()

    def deadline_ms(self) -> int:
        """The monotonic time when the next turn is due; 0: at once."""
        if self._unwritten is not None:
            return self._again_ms
        if self._unloaded:
            return min(self._again_ms, self.raft.deadline_ms())
        if self._replay.due or (self._replay.leads and self.raft.change_due):
            return 0
        return self.raft.deadline_ms()

    def append(self, batch: Batch) -> None:
        """Append the leader's own batch at the log's end. Raises NotLeader."""
        self.raft.append(batch)

    def write_change(self) -> bool:
        """Write the change of the voters that is due, at the end of the log. False: no change is due, or the roles,
        which say where the log ends, do not know yet that this node leads."""
        if not (self.raft.change_due and self._replay.leads):
            return False
        if not self.raft.write_change():
            return False
        self.identity.voters.adopt(self.raft.voters)
        self._runtime.log.info(f"the voters are {self.identity.voters.ids()}, from offset {self.raft.voters_offset} on")
        return True

    def voters_at(self, end_offset: int) -> batches.Voters | None:
        """The voters according to the records below `end_offset`, as a snapshot names them; None: the records name no
        voters."""
        found = self.raft.voters_at(end_offset)
        return None if found is None else record(found)

    def snapshot(self, end_offset: int, epoch: int, content: Content) -> None:
        """Store a checkpoint of a role, whole or made while it is written, and release it then. It gets its name once
        everything below `end_offset` is committed and durable here."""
        self._snapshots.take_in(end_offset, epoch, content)
        self.advance()

    # -- performing

    def advance(self) -> None:
        """Perform what raft wants until it wants nothing more; then replay, snapshot, sweep."""
        if self._failed:
            return
        raft, store = self.raft, self.store
        if raft.quiet(self._replay.applied) and not (
            self._replay.pending or self._replay.loading or self._unwritten or store.taken
            or store.log.missed or store.checkpoints.missed or store.log.garbage or store.checkpoints.garbage
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
            if not self._replay_on():
                return
            self._snapshots.store()
            self._upkeep.keep_mark()
            self._upkeep.keep_joined(self.identity.me.directory_id)
            self._upkeep.read_missed()
        except (DiskFailed, DiskFull) as failed:
            self._failed = True
            self._runtime.stop(1, f"the metadata log cannot be written: {failed}")
            return
        if self._syncs.idle:
            self._upkeep.sweep()

    def _replay_on(self) -> bool:
        """Replay what is committed, or go on with a snapshot; not in every turn while there is no descriptor for one. False:
        the snapshot cannot be loaded, and this node ends."""
        now_ms = self._runtime.now.mono_ms
        if self._unloaded and now_ms < self._again_ms:
            return True
        try:
            self._replay.run(self.raft.high_watermark)
        except (CorruptMetadata, DiskFailed, DiskFull) as failed:
            snapshot = self._replay.loading
            if snapshot is None:
                raise
            where = self.store.checkpoints.path(snapshot)
            if isinstance(failed, DiskFull) and not self._controls:
                if not self._unloaded:
                    self._runtime.log.error(f"{where} is not loaded until there is a descriptor: {failed}")
                self._unloaded, self._again_ms = True, now_ms + FULL_RETRY_MS
                return True
            self._failed = True
            self._runtime.stop(1, f"the snapshot {where} cannot be loaded: {failed}")
            return False
        self._unloaded = False
        return True

    def _perform(self, ready: Ready) -> None:
        """Perform one Ready, in its order, as far as there is room for what came. One answer at a time is awaited, so
        it has a part of a snapshot, or a snapshot to load, or batches."""
        if ready.lost:
            self._replay.lost(self.raft.epoch)
        now_ms = self._runtime.now.mono_ms
        if ready.hard_state is not None:
            self.identity.addresses.led_by(ready.hard_state.leader_id)
        self._follow_leader(now_ms)
        if self.raft.voters is not self.identity.voters.voters:
            self.identity.voters.adopt(self.raft.voters)
            self._say_left()
        self._steps_done = 0
        if self._write(ready):
            self._tell(ready)

    def _follow_leader(self, now_ms: int) -> None:
        """Measure how long no leader is known, and count those that are."""
        leader = self.raft.leader_id
        if leader < 0:
            if self._leaderless_ms is None:
                self._leaderless_ms = now_ms
            return
        if self._leaderless_ms is not None:
            self.election_latency_ms.add(now_ms - self._leaderless_ms)
            self._leaderless_ms = None
        if leader != self._known_leader:
            self._known_leader = leader
            self.leaders += 1

    def _write(self, ready: Ready) -> bool:
        """Take the steps of a Ready that are not done yet. False: there is no room, and this node is a broker: it waits
        for some, since clients can still be served, and a broker that falls behind is fenced by the active controller. A
        controller stops, so that another one leads."""
        try:
            for step in STEPS[self._steps_done :]:
                step(self, ready)
                self._steps_done += 1
        except DiskFull as full:
            if self._controls:
                raise
            if self._unwritten is None:
                self._runtime.log.error(f"metadata is not taken in until there is room: {full}")
            self._unwritten = ready
            self._again_ms = self._runtime.now.mono_ms + FULL_RETRY_MS
            return False
        return True

    def _load(self, ready: Ready) -> None:
        """Put the received snapshot of a Ready, if it has one, in the place of everything."""
        if ready.load_snapshot is not None:
            self.store.adopt(ready.load_snapshot, self._runtime.now.mono_ms)
            self._replay.load(ready.load_snapshot)

    def _cut(self, ready: Ready) -> None:
        """Cut the log where a Ready says so."""
        if ready.truncate_to is not None:
            self.store.log.truncate(ready.truncate_to)

    def _append(self, ready: Ready) -> None:
        """Write the part of a snapshot that a Ready has, and append its batches that are not in the log yet."""
        log = self.store.log
        batches = [batch for batch in ready.append if batch.base_offset >= log.end_offset]
        for part in ready.snapshot_parts:
            file = self.store.checkpoints.write_part(part.snapshot, part.position, part.data)
            if part.last:
                self._snapshots.verify(part.snapshot, file)
        log.append(batches, self._runtime.now.mono_ms)
        self.store.bytes_since_snapshot += sum(len(batch.data) for batch in ready.append)
        if batches:
            meter = self.appended if self.raft.role is Role.LEADER else self.fetched
            records = sum(batch.last_offset - batch.base_offset + 1 for batch in batches)
            meter.mark(records, self._runtime.now.mono_ms)

    def _write_on(self, ready: Ready) -> bool:
        """Look for room again, but not in every turn, and go on with `ready` where it was left."""
        if self._runtime.now.mono_ms < self._again_ms or not self._write(ready):
            return False
        self._unwritten = None
        self._runtime.log.info("there is room for metadata again")
        self._tell(ready)
        return True

    def _tell(self, ready: Ready) -> None:
        """Perform what a Ready wants after the append."""
        self.transport.tell(ready.send)
        if ready.sync is not None:
            self._syncs.begin(ready)
        if ready.gained is not None:
            self._replay.pending = ready.gained

    def _control_batch(self, change: Control, offset: int, epoch: int, now: Now) -> Batch:
        controls: list[batches.Control]
        if isinstance(change, LeaderChange):
            voters, granting = tuple(key.id for key in change.voters), tuple(key.id for key in change.granting)
            controls = [batches.LeaderChange(change.leader_id, voters, granting)]
            if change.record is not None:
                controls += [batches.KRaftVersion(1), record(change.record)]
        else:
            controls = [record(change.voters)]
        return batches.control_batch(offset, epoch, now.wall_ms, controls)


STEPS = (QuorumReplica._load, QuorumReplica._cut, QuorumReplica._append)
"""What is written of a Ready, in this order. Each raises DiskFull, and is taken again then until there is room."""


def _limits(value: Callable[[str], Any]) -> RaftLimits:
    return RaftLimits(
        election_timeout_ms=value("controller.quorum.election.timeout.ms"),
        election_backoff_max_ms=value("controller.quorum.election.backoff.max.ms"),
        fetch_timeout_ms=value("controller.quorum.fetch.timeout.ms"),
        retry_backoff_ms=value("controller.quorum.retry.backoff.ms"),
        request_timeout_ms=value("controller.quorum.request.timeout.ms"),
        fetch_bytes_max=value("controller.quorum.fetch.max.bytes"),
        snapshot_bytes_max=value("controller.quorum.fetch.snapshot.max.bytes"),
    )
