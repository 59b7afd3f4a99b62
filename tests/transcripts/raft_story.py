"""Commands of the raft transcripts: a few replicas, a clock that moves only on command, and a line for every event.

    voters 1 2 3 [observers 4]   make the replicas and start them
    quorum 1 2 3 [observers 4]   the same, and run the first election without showing it
    changing 1 2 [observers 3]   as quorum, and the log names the voters (kraft.version 1): they can be changed
    run MS                       let time pass; messages take no time, syncs end at once
    append N TEXT                append a client's record at the leader
    resign N                     the leader resigns
    kill N | start N             the process dies (connections break, its port refuses) | is started
    crash N                      kill, and everything that was not synced is lost
    lose-disk N                  kill, and the disk is replaced by an empty one, which has another directory id
    freeze N | thaw N            the process is frozen | goes on
    cut A B | heal               nothing gets from A to B | everything gets through again
    refuse A B                   the connection of A to B breaks and B's port refuses A, although B lives
    hold N | sync N              syncs of N do not end | those that began have ended
    snapshot N                   N writes a snapshot and cuts its log
    stranger KIND A EPOCH [ID [DISK]]  A gets a message (begin, end, vote, pre-vote, fetch) from a peer outside, in which ID
                                 leads or asks (default: 77, no voter; DISK own: with the disk of that id); shows the answer
    answer A EPOCH ID            a replica answers A that ID (-1: unknown) leads EPOCH
    epoch N EPOCH                N, which is not running, has EPOCH in its quorum-state, without a vote
    add A N [now | lost]         A is asked to add N, as it is now, to the voters (now: do not wait for the commit; lost:
                                 once N has said what it supports, nothing gets from A to anybody)
    remove A N                   A is asked to remove the voter N; N' is the one that N was after its disk was replaced
    update A N PORT              A is asked, by N, to note that N has another port
    status                       one line for every replica; with the voters that it counts, where they can be changed

In a list of voters 3' is replica 3 with its second disk, and 3:7 replica 3 at port 7.

A fetch is shown if it asks for something new, an answer if it brings something. A random wait is 100 ms times the id.
"""

import re
from collections import deque
from collections.abc import Callable
from typing import Any

from actors.ports import Batch, Now
from actors.raft import (
    Control,
    EpochTable,
    Failed,
    HardState,
    LeaderChange,
    Raft,
    RaftLimits,
    ReplicaKey,
    Role,
    SnapshotId,
    Voter,
    VoterHistory,
    Voters,
)
from actors.raft.messages import (
    REQUESTS,
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ProbeRequest,
    ProbeResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoteRequest,
    VoteResponse,
)
from tests.simulator.raft_disk import Disk

OUTSIDE = 0
"""The source of messages from a peer that is no replica: answers to it go there."""
LIMITS = RaftLimits(snapshot_bytes_max=2000)


class Chance:
    """A replica's random numbers: always the same."""

    def __init__(self, id: int) -> None:
        self.id = id

    def below(self, n: int) -> int:
        return min(100 * self.id, n - 1)

    def uuid(self) -> bytes:
        return bytes(16)


VOTERS = "voters-"


def control_batch(change: Control, offset: int, epoch: int, now: Now) -> Batch:
    if isinstance(change, LeaderChange):
        text = f"leader-{change.leader_id}"
        if change.record is not None:
            text += f"+{VOTERS}{_named(change.record)}"
    else:
        text = VOTERS + _named(change.voters)
    return Batch(offset, offset, epoch, text.encode())


def voters_in(batch: Batch) -> tuple[int, Voters] | None:
    _, found, text = bytes(batch.data).decode().partition(VOTERS)
    return (batch.base_offset, Voters(_voter(one) for one in text.split(","))) if found else None


def _named(voters: Voters) -> str:
    return ",".join(_name(one) for one in voters.members)


def _name(voter: Voter) -> str:
    port = "".join(f":{number}" for _, _, number in voter.endpoints)
    return f"{voter.key.id}{chr(39) if voter.key.directory_id[:3] == b'new' else ''}{port}"


def _voter(name: str) -> Voter:
    name, _, port = name.partition(":")
    id = int(name.strip("'"))
    directory = b"new-%012d" % id if name.endswith("'") else b"%016d" % id
    return Voter(ReplicaKey(id, directory), (("", "", int(port)),) if port else ())


class Actor:
    """One replica and its disk."""

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.disk = Disk()
        self.raft: Raft | None = None
        self.holds = False
        self.frozen = False
        self.held: list[tuple[int, Any]] = []
        self.inbox: list[tuple[int, Any]] = []
        self.shown = ""


class Story:
    """A story of the quorum, which runs commands. `lines` is the output of the last one."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.actors: dict[int, Actor] = {}
        self.voters = Voters()
        self.snapshots: dict[SnapshotId, Voters] = {}
        """The voters that each snapshot names, where they can be changed."""
        self.cuts: set[tuple[int, int]] = set()
        self.cut_when_probed: set[tuple[int, int]] = set()
        self.refusals: set[tuple[int, int]] = set()
        self.mail: deque[tuple[int, int, Any]] = deque()
        self.lines: list[str] = []
        self.fetches: dict[tuple[int, int], tuple[int, int]] = {}
        self.told: dict[tuple[int, int], int] = {}

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)

    def commands(self) -> dict[str, Callable[..., str]]:
        """Command -> the function that runs it and returns its output."""
        return {name[3:].replace("_", "-"): self._told(getattr(self, name)) for name in dir(self) if name[:3] == "do_"}

    def _told(self, act: Callable[..., None]) -> Callable[..., str]:
        def tell(*words: str) -> str:
            self.lines = []
            act(*words)
            return "\n".join(self.lines)

        return tell

    # -- commands

    def do_voters(self, *words: str) -> None:
        ids = [word for word in words if word != "observers"]
        count = words.index("observers") if "observers" in words else len(ids)
        keys = [ReplicaKey(int(id), b"%016d" % int(id)) for id in ids]
        self.voters = Voters(keys[:count])
        for key in keys:
            self.actors[key.id] = Actor(key)
            self._start(self.actors[key.id])

    def do_changing(self, *words: str) -> None:
        ids = words[: words.index("observers")] if "observers" in words else words
        self.snapshots[SnapshotId(0, 0)] = Voters(_voter(id) for id in ids)
        self.do_quorum(*words)

    def do_add(self, id: str, voter: str, when: str = "") -> None:
        key = self.actors[int(voter)].key
        self.cut_when_probed = {(int(id), other) for other in self.actors} if when == "lost" else set()
        self._ask(int(id), AddVoterRequest(0, Voter(key), when != "now"))

    def do_remove(self, id: str, voter: str) -> None:
        self._ask(int(id), RemoveVoterRequest(0, _voter(voter).key))

    def do_update(self, id: str, voter: str, port: str) -> None:
        actor = self.actors[int(id)]
        assert actor.raft is not None
        self._ask(int(id), UpdateVoterRequest(0, actor.raft.epoch, _voter(f"{voter}:{port}")))

    def _ask(self, id: int, request: Any) -> None:
        self.mail.append((OUTSIDE, id, request))
        self._settle()

    def do_quorum(self, *words: str) -> None:
        self.do_voters(*words)
        self.do_run("30")
        leader = next(a for a in self.actors.values() if a.raft is not None and a.raft.role is Role.LEADER)
        assert leader.raft is not None
        self.lines = [f"{self.now_ms:5} {leader.key.id} leads epoch {leader.raft.epoch}"]

    def do_run(self, ms: str) -> None:
        end = self.now_ms + int(ms)
        self._settle()
        while True:
            running = [actor for actor in self.actors.values() if actor.raft is not None and not actor.frozen]
            due = min((actor.raft.deadline_ms() for actor in running if actor.raft), default=end + 1)
            if due > end:
                break
            self.now_ms = max(self.now_ms + 1, due)
            for actor in running:
                if actor.raft is not None and actor.raft.deadline_ms() <= self.now_ms:
                    actor.raft.tick(self.now)
                    self._perform(actor)
            self._settle()
        self.now_ms = end

    def do_append(self, id: str, text: str) -> None:
        actor = self.actors[int(id)]
        assert actor.raft is not None
        offset = actor.raft.log_end_offset
        actor.raft.append(Batch(offset, offset, actor.raft.epoch, text.encode()))
        self._perform(actor)
        self._settle()

    def do_resign(self, id: str) -> None:
        actor = self.actors[int(id)]
        assert actor.raft is not None
        actor.raft.resign()
        self._perform(actor)
        self._settle()

    def do_kill(self, id: str) -> None:
        self._stop(self.actors[int(id)])

    def do_crash(self, id: str) -> None:
        actor = self.actors[int(id)]
        actor.disk.page = actor.disk.durable.copy()
        self._stop(actor)

    def do_lose_disk(self, id: str) -> None:
        actor = self.actors[int(id)]
        actor.disk.wipe()
        actor.key = ReplicaKey(actor.key.id, b"new-%012d" % actor.key.id)
        self._stop(actor)

    def do_start(self, id: str) -> None:
        self._start(self.actors[int(id)])
        self._settle()

    def do_freeze(self, id: str) -> None:
        self.actors[int(id)].frozen = True

    def do_thaw(self, id: str) -> None:
        actor = self.actors[int(id)]
        actor.frozen = False
        inbox, actor.inbox = actor.inbox, []
        self.mail.extend((source, actor.key.id, message) for source, message in inbox)
        self._settle()
        if actor.raft is not None:
            actor.raft.tick(self.now)
            self._perform(actor)
            self._settle()

    def do_cut(self, source: str, target: str) -> None:
        self.cuts.add((int(source), int(target)))

    def do_heal(self) -> None:
        self.cuts.clear()
        self.refusals.clear()

    def do_refuse(self, source: str, target: str) -> None:
        self.refusals.add((int(source), int(target)))
        actor = self.actors[int(source)]
        assert actor.raft is not None
        actor.raft.link_lost(int(target), False, self.now)
        self._perform(actor)
        self._settle()

    def do_hold(self, id: str) -> None:
        self.actors[int(id)].holds = True

    def do_sync(self, id: str) -> None:
        actor = self.actors[int(id)]
        actor.holds = False
        held, actor.held = actor.held, []
        for token, after_sync in held:
            self._synced(actor, token, after_sync)
        self._settle()

    def do_snapshot(self, id: str) -> None:
        actor = self.actors[int(id)]
        assert actor.raft is not None
        end_offset = actor.raft.high_watermark
        below = actor.disk.page.at(end_offset - 1)
        assert below is not None
        snapshot = SnapshotId(end_offset, below.epoch)
        voters = actor.raft.voters_at(end_offset)
        if voters is not None:
            self.snapshots[snapshot] = voters
        actor.disk.cut(snapshot, snapshot)
        actor.raft.snapshot_taken(snapshot, snapshot)
        self._perform(actor)
        self._settle()

    def do_stranger(self, kind: str, id: str, epoch: str, asker: str = "77", disk: str = "") -> None:
        actor, number = self.actors[int(id)], int(epoch)
        key = ReplicaKey(int(asker), b"%016d" % int(asker) if disk == "own" else b"s" * 16)
        votes = {"vote": False, "pre-vote": True}
        requests: dict[str, Any] = {
            "begin": BeginQuorumEpochRequest(0, actor.key, key.id, number),
            "end": EndQuorumEpochRequest(0, key.id, number, (actor.key,)),
            "fetch": FetchRequest(0, key, number, 0, 0, -1, 0, 1 << 20),
        } | {word: VoteRequest(0, key, actor.key, number, 0, 1 << 40, pre) for word, pre in votes.items()}
        self.mail.append((OUTSIDE, actor.key.id, requests[kind]))
        self._settle()

    def do_answer(self, id: str, epoch: str, leader: str) -> None:
        self.mail.append((OUTSIDE, int(id), BeginQuorumEpochResponse(0, Error.NONE, int(leader), int(epoch))))
        self._settle()

    def do_epoch(self, id: str, epoch: str) -> None:
        disk = self.actors[int(id)].disk
        disk.set_hard(HardState(int(epoch)))
        disk.begin_sync(0)
        disk.end_sync(0)

    def do_status(self) -> None:
        for actor in self.actors.values():
            raft = actor.raft
            if raft is None:
                self.lines.append(f"{actor.key.id}: not running")
                continue
            table: EpochTable = raft.epochs
            epochs = " ".join(f"{epoch}@{offset}" for epoch, offset in table.entries()) or "none"
            self.lines.append(
                f"{actor.key.id}: {raft.role.value} epoch {raft.epoch} leader {raft.leader_id} log {raft.log_start_offset}"
                f"..{raft.log_end_offset} (epochs {epochs}) durable {raft.durable_offset} high watermark "
                f"{raft.high_watermark}{' exhausted' if raft.exhausted else ''}"
                f"{f' voters {_named(raft.voters)}' if self.snapshots else ''}"
            )

    # -- processes

    def _start(self, actor: Actor) -> None:
        page = actor.disk.page
        actor.raft = Raft(
            actor.key,
            self._history(actor),
            page.hard,
            page.table(),
            actor.disk,
            Chance(actor.key.id),
            LIMITS,
            control_batch,
            self.now,
            latest=max(page.snapshots, default=page.start),
            voters_in=voters_in,
            bootstrap=tuple(self.actors) if self.snapshots else (),
        )
        actor.shown = ""
        self._perform(actor)

    def _history(self, actor: Actor) -> VoterHistory:
        page = actor.disk.page
        newest = max(page.snapshots, default=page.start)
        if not self.snapshots:
            return VoterHistory(self.voters)
        formatted = newest.end_offset > 0 or actor.key.directory_id[:3] != b"new"
        entries = [(newest.end_offset - 1, self.snapshots[newest])] if formatted else []
        found = (voters_in(batch) for batch in page.batches if batch.base_offset >= newest.end_offset)
        return VoterHistory(Voters(), entries + [one for one in found if one is not None])

    def _stop(self, actor: Actor) -> None:
        actor.raft, actor.held, actor.inbox = None, [], []
        actor.holds = actor.frozen = False
        for other in self.actors.values():
            if other.raft is not None and not other.frozen:
                other.raft.link_lost(actor.key.id, False, self.now)
                self._perform(other)
        self._settle()

    def _perform(self, actor: Actor) -> None:
        while actor.raft is not None:
            if actor.raft.change_due:
                actor.raft.write_change()
                self._say(actor, f"writes voters {_named(actor.raft.voters)} at {actor.raft.voters_offset}")
            ready = actor.raft.ready()
            self._show_state(actor)
            busy = bool(ready.send or ready.sync or ready.snapshot_parts or ready.lost or ready.gained)
            if ready.load_snapshot is not None:
                self._say(actor, f"loads snapshot {_snapshot(ready.load_snapshot)}")
                actor.disk.restart_at(ready.load_snapshot)
            if ready.truncate_to is not None:
                self._say(actor, f"cuts its log to {ready.truncate_to}")
                actor.disk.truncate(ready.truncate_to)
            actor.disk.append(list(ready.append))
            if ready.hard_state is not None:
                actor.disk.set_hard(ready.hard_state)
            self.mail.extend((actor.key.id, target, message) for target, message in ready.send)
            if ready.sync is not None:
                actor.disk.begin_sync(ready.sync)
                if actor.holds:
                    actor.held.append((ready.sync, ready.after_sync))
                else:
                    self._synced(actor, ready.sync, ready.after_sync)
            if ready.gained is not None:
                self._say(actor, f"may serve as leader from offset {ready.gained.next_offset}")
            for part in ready.snapshot_parts:
                if part.last:
                    actor.raft.snapshot_received(part.snapshot, True, self.now, self.snapshots.get(part.snapshot))
            if not busy:
                return

    def _synced(self, actor: Actor, token: int, after_sync: Any) -> None:
        assert actor.raft is not None
        actor.disk.end_sync(token)
        self.mail.extend((actor.key.id, target, message) for target, message in after_sync)
        actor.raft.synced(token)
        self._perform(actor)

    # -- network

    def _settle(self) -> None:
        while self.mail:
            source, target, message = self.mail.popleft()
            self._show_message(source, target, message)
            if target == OUTSIDE:
                self.lines.append(f"{self.now_ms:5} {source} answers {_answered(message)}")
                continue
            actor = self.actors[target]
            if (source, target) in self.cuts:
                continue
            if self._refuses(source, target, message):
                self._refuse(source, target, message)
            elif isinstance(message, ProbeRequest):
                self.mail.append((target, source, ProbeResponse(message.serial, (0, 1))))
                self.cuts |= self.cut_when_probed
                self.cut_when_probed = set()
            elif actor.frozen:
                actor.inbox.append((source, message))
            else:
                actor.raft.step(source, message, self.now)
                self._perform(actor)

    def _refuses(self, source: int, target: int, message: Any) -> bool:
        return self.actors[target].raft is None or (isinstance(message, REQUESTS) and (source, target) in self.refusals)

    def _refuse(self, source: int, target: int, message: Any) -> None:
        asker = self.actors[source]
        if isinstance(message, REQUESTS) and asker.raft is not None:
            asker.raft.step(target, Failed(message.serial), self.now)
            asker.raft.link_lost(target, True, self.now)
            self._perform(asker)

    # -- what is printed

    def _say(self, actor: Actor, text: str) -> None:
        self.lines.append(f"{self.now_ms:5} {actor.key.id}: {text}")

    def _show_state(self, actor: Actor) -> None:
        raft = actor.raft
        assert raft is not None
        text = f"{raft.role.value} in epoch {raft.epoch}"
        if raft.role is Role.FOLLOWER:
            text += f" of {raft.leader_id}"
        if text != actor.shown:
            actor.shown = text
            self._say(actor, text)

    def _show_message(self, source: int, target: int, message: Any) -> None:
        if OUTSIDE in (source, target):
            return
        text = TEXTS[type(message)](self, source, target, message) if type(message) in TEXTS else None
        if text:
            lost = " (cut)" if (source, target) in self.cuts else ""
            lost = lost or (" (refused)" if self._refuses(source, target, message) else "")
            self.lines.append(f"{self.now_ms:5} {source} -> {target} {text}{lost}")

    def _fetch(self, source: int, target: int, request: FetchRequest) -> str | None:
        wanted = (request.epoch, request.offset)
        if self.fetches.get((source, target)) == wanted:
            return None
        self.fetches[source, target] = wanted
        return f"fetch epoch {request.epoch} from {request.offset} (epoch {request.last_epoch})"

    def _fetched(self, source: int, target: int, response: FetchResponse) -> str | None:
        news = []
        if response.error is not Error.NONE:
            news.append(f"{response.error.name} epoch {response.epoch} leader {response.leader_id}")
        if response.diverging is not None:
            news.append(f"diverges: epoch {response.diverging.epoch} ends at {response.diverging.offset}")
        if response.snapshot is not None:
            news.append(f"see snapshot {_snapshot(response.snapshot)}")
        news += [f"{bytes(batch.data).decode()}@{batch.base_offset}" for batch in response.batches]
        if response.error is Error.NONE and self.told.get((source, target)) != response.high_watermark:
            self.told[source, target] = response.high_watermark
            news.append(f"high watermark {response.high_watermark}")
        return f"fetched {', '.join(news)}" if news else None


def _answered(response: Any) -> str:
    granted = " granted" if getattr(response, "granted", False) else ""
    reason = getattr(response, "reason", None)
    why = f": {_without_directories(reason)}" if reason else ""
    return f"{response.error.name}{granted} epoch {response.epoch} leader {response.leader_id}{why}"


def _without_directories(reason: str) -> str:
    return re.sub(
        r"ReplicaKey\(id=(\d+), directoryId=(?:MDAw|(\w))[^)]*\)", lambda m: m[1] + ("'" if m[2] else ""), reason
    )


def _snapshot(snapshot: SnapshotId) -> str:
    return f"{snapshot.end_offset}-{snapshot.epoch}"


def _vote(story: Story, source: int, target: int, request: VoteRequest) -> str:
    kind = "pre-vote?" if request.pre_vote else "vote?"
    return f"{kind} epoch {request.epoch} log {request.end_offset} (epoch {request.last_epoch})"


def _voted(story: Story, source: int, target: int, response: VoteResponse) -> str:
    error = "" if response.error is Error.NONE else f" {response.error.name}"
    return f"{'granted' if response.granted else 'refused'}{error} epoch {response.epoch} leader {response.leader_id}"


def _probed(story: Story, source: int, target: int, response: ProbeResponse) -> str:
    return f"kraft.version {response.kraft_versions}"


TEXTS: dict[type, Callable[[Story, int, int, Any], str | None]] = {
    VoteRequest: _vote,
    VoteResponse: _voted,
    BeginQuorumEpochRequest: lambda story, source, target, request: f"begin epoch {request.epoch}",
    EndQuorumEpochRequest: lambda story, source, target, request: (
        f"end epoch {request.epoch}, preferred {[key.id for key in request.preferred]}"
    ),
    ProbeRequest: lambda story, source, target, request: "which kraft.version?",
    ProbeResponse: _probed,
    FetchRequest: Story._fetch,
    FetchResponse: Story._fetched,
    FetchSnapshotRequest: lambda story, source, target, request: (
        f"fetch snapshot {_snapshot(request.snapshot)} at {request.position}"
    ),
    FetchSnapshotResponse: lambda story, source, target, response: (
        f"snapshot {_snapshot(response.snapshot)}: {len(response.data)} of {response.size} bytes at {response.position}"
        if response.error is Error.NONE
        else f"snapshot {_snapshot(response.snapshot)}: {response.error.name}"
    ),
}
