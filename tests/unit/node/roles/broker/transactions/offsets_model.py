"""Random histories of offsets that are committed plainly and in transactions, against a model that believes the answers.

One transactional id, one group with classic members, one partition of `__consumer_offsets`. Producers and members are
replaced, coordinators move, topics are deleted and made anew, also between two slices of a request, which has several
although it is short. After each step:

1. What was answered with NONE came from the present producer and the present member, and counts; what was answered with an
   error left nothing.
2. The coordinator tells what the model has, and knows the same offsets of open transactions.
3. A coordinator that reads the log from its beginning has the same.
4. The last stable offset stands still for an open transaction only.
"""

import random
from collections.abc import Callable
from typing import Any

from actors.broker.groups.coordinator import Coordinator
from actors.broker.log.producers import markers
from actors.metadata import ops
from actors.metadata.topic_names import OFFSETS_TOPIC
from actors.ports import Now
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import batch
from tests.unit.node.roles.broker.lab import TOPIC_ID
from tests.unit.node.roles.broker.transactions.cluster import COORDINATOR, IDS, Client, made

NONE = ErrorCode.NONE
PARTITIONS = 7
ENTRIES_A_SLICE = 3
Key = tuple[str, int]


class Wrong(AssertionError):
    """A history after which something does not hold."""


class Member:
    """Of the group g, as it was told when it joined."""

    def __init__(self, id: str, generation: int) -> None:
        self.id = id
        self.generation = generation


class World:
    """A cluster, what its clients know, and what the group has committed as far as they were told."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.version = self.random.choice((0, 2))
        self.lab = made(self.version, partitions=PARTITIONS, group_initial_rebalance_delay_ms="0")
        self.producers: list[Client] = []
        """All that there ever were, the present one last."""
        self.members: list[Member] = []
        self.joined = False
        """Whether the last of them is in the group."""
        self.visible: dict[Key, int] = {}
        self.pending: dict[Key, tuple[int, int | None]] = {}
        """Of the open transaction: order and offset; None: another value has come since."""
        self.order = 0
        self.offset = 0
        self.steps: list[str] = []
        self.topics = 0
        self.between: Callable[[], None] | None = None
        self.lab.between_slices = self._between
        self.heir: Coordinator
        """A coordinator that has read the log up to `read_to`. Another one reads it when it has grown."""
        self.read_to = -1
        self.init()

    # ---- what happens

    def step(self) -> None:
        """Something happens, and then everything is checked."""
        does = self.random.choices(
            (self.txn_commit, self.plain_commit, self.end, self.init, self.join, self.leave, self.move, self.anew),
            (8, 4, 5, 3, 3, 1, 1, 1),
        )[0]
        if does in (self.txn_commit, self.plain_commit) and self.random.random() < 0.6:
            meanwhile = self.random.choice(
                (self.init, self.join, self.leave, self.move, self.anew, self.end, self.plain_commit)
            )
            at = self.random.randrange(1, 3)
            self.between = lambda: self._after(at, meanwhile)
        self.steps.append(does.__name__)
        does()
        self.between = None
        self.lab.settle()
        self.check()

    def _after(self, slices: int, meanwhile: Callable[[], None]) -> None:
        if slices > 1:
            self.between = lambda: self._after(slices - 1, meanwhile)
            return
        self.between = None
        self.steps.append(f"  meanwhile {meanwhile.__name__}")
        meanwhile()
        self.lab.settle()

    def _between(self) -> None:
        if self.between is not None:
            self.between()

    def ask(self, name: str, version: int, request: Any, connection: int = 21) -> Any:
        pending = self.lab.call(COORDINATOR, name, version, request, connection=connection)
        self.lab.settle()
        for _ in range(20):
            if pending.done:
                return pending.reply
            self.lab.pass_ms(100)
        raise Wrong(f"{name} is not answered")

    def init(self) -> None:
        """The application starts anew: the producer before it is fenced, its transaction aborted."""
        client = Client(self.lab, version=self.version)
        for _ in range(20):
            if client.init() is NONE:
                break
            self.lab.pass_ms(200)
        else:
            raise Wrong("a new producer is not let in")
        self.pending = {}
        self.producers.append(client)

    def end(self) -> None:
        """A producer ends its transaction, be it the present one or another."""
        client = self.random.choice((self.producers[-1], self.random.choice(self.producers)))
        commit = self.random.random() < 0.6
        code = client.end(commit)
        self.lab.settle()
        if client is not self.producers[-1]:
            return
        if code is NONE:
            for key, (_, offset) in self.pending.items():
                if commit and offset is not None:
                    self.visible[key] = offset
            self.pending = {}
        elif self.pending:
            raise Wrong(f"the end of an open transaction is {code.name}")

    def join(self) -> None:
        """A member joins, after the one before it has left."""
        self.leave()
        kind = message("JoinGroupRequest")
        protocol = kind.JoinGroupRequestProtocol(name="range", metadata=b"")
        fields = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer"}
        told = self.ask("JoinGroup", 3, kind(group_id="g", member_id="", protocols=[protocol], **fields))
        kind = message("SyncGroupRequest")
        assigned = kind.SyncGroupRequestAssignment(member_id=told.member_id, assignment=b"all")
        asked = {"group_id": "g", "generation_id": told.generation_id, "member_id": told.member_id}
        if self.ask("SyncGroup", 3, kind(assignments=[assigned], **asked)).error_code:
            raise Wrong("a member that is alone is not told its assignment")
        self.members.append(Member(told.member_id, told.generation_id))
        self.joined = True

    def leave(self) -> None:
        """The member leaves."""
        if self.joined:
            self.ask("LeaveGroup", 1, message("LeaveGroupRequest")(group_id="g", member_id=self.members[-1].id))
            self.joined = False

    def move(self) -> None:
        """Another broker coordinates the group, and then this one again."""
        for isr, leader in (([2, 3, 1], 2), ([1, 2, 3], 1)):
            self.lab.change(isr, leader, 0, IDS[OFFSETS_TOPIC])
            self.lab.settle()

    def anew(self) -> None:
        """The topic is deleted, and made anew."""
        self.topics += 1
        self.lab.commit(ops.TopicGone(self._topic_id(self.topics - 1)))
        self.lab.topic([2, 3, 1], "t", self._topic_id(self.topics), partitions=PARTITIONS)
        self.lab.settle()
        self.visible = {}
        self.pending = {key: (order, None) for key, (order, _) in self.pending.items()}

    @staticmethod
    def _topic_id(number: int) -> bytes:
        return TOPIC_ID if not number else bytes([40 + number % 200]) * 16

    def _who(self) -> Member | None:
        """A member that commits: mostly the present one; None: nobody is named."""
        if not self.members or self.random.random() < 0.2:
            return None
        return self.random.choice((self.members[-1], self.members[-1], self.random.choice(self.members)))

    def _may(self, member: Member | None, *, transactional: bool) -> bool:
        """Whether the member may commit now."""
        if member is None:
            return transactional or not self.joined
        return self.joined and member is self.members[-1]

    def _next(self) -> tuple[int, list[int]]:
        self.offset += 1
        return self.offset, self.random.sample(range(PARTITIONS), self.random.randrange(1, PARTITIONS + 1))

    def txn_commit(self) -> None:
        """A producer commits offsets in its transaction, in the name of a member."""
        client = self.random.choice((self.producers[-1], self.producers[-1], self.random.choice(self.producers)))
        if self.version < 2:
            add = message("AddOffsetsToTxnRequest")(
                transactional_id="x", producer_id=client.id, producer_epoch=client.epoch, group_id="g"
            )
            self.ask("AddOffsetsToTxn", 3, add)
        member, (offset, numbers) = self._who(), self._next()
        kind = message("TxnOffsetCommitRequest")
        parts = [
            kind.TxnOffsetCommitRequestPartition(partition_index=one, committed_offset=offset, committed_metadata="")
            for one in numbers
        ]
        request = kind(
            transactional_id="x",
            group_id="g",
            producer_id=client.id,
            producer_epoch=client.epoch,
            generation_id=-1 if member is None else member.generation,
            member_id="" if member is None else member.id,
            topics=[kind.TxnOffsetCommitRequestTopic(name="t", partitions=parts)],
        )
        if not self._counts(self.ask("TxnOffsetCommit", 5 if self.version >= 2 else 3, request, 6)):
            return
        if client is not self.producers[-1]:
            raise Wrong("a fenced producer has committed")
        if not self._may(member, transactional=True):
            raise Wrong("a member that was replaced has committed in a transaction")
        self.order += 1
        self.pending |= {("t", number): (self.order, offset) for number in numbers}

    def plain_commit(self) -> None:
        """A member commits offsets."""
        member, (offset, numbers) = self._who(), self._next()
        kind = message("OffsetCommitRequest")
        parts = [kind.OffsetCommitRequestPartition(partition_index=one, committed_offset=offset) for one in numbers]
        request = kind(
            group_id="g",
            member_id="" if member is None else member.id,
            generation_id_or_member_epoch=-1 if member is None else member.generation,
            topics=[kind.OffsetCommitRequestTopic(name="t", partitions=parts)],
        )
        if not self._counts(self.ask("OffsetCommit", 8, request, 7)):
            return
        if not self._may(member, transactional=False):
            raise Wrong("a member that was replaced has committed")
        for number in numbers:
            self.visible["t", number] = offset
            if ("t", number) in self.pending:
                self.pending["t", number] = self.pending["t", number][0], None

    @staticmethod
    def _counts(reply: Any) -> bool:
        codes = {one.error_code for topic in reply.topics for one in topic.partitions}
        if len(codes) > 1:
            raise Wrong(f"one part of a commit counts and another does not: {codes}")
        return codes == {NONE}

    # ---- what holds

    def check(self) -> None:
        """All that holds after each step."""
        machine = self.lab.broker(COORDINATOR).groups.machine
        while machine.deadline_ms() <= self.lab.now.mono_ms:
            self.lab.turn()
        self._same(machine, "the coordinator")
        partition = self.lab.partition(COORDINATOR, 0, OFFSETS_TOPIC)
        if partition.log.log_end_offset != self.read_to:
            self.heir, self.read_to = self._heir(machine), partition.log.log_end_offset
        self._same(self.heir, "a coordinator that reads the log")
        if not self.pending and partition.last_stable_offset != partition.high_watermark:
            raise Wrong("the last stable offset stands still without an open transaction")

    def _same(self, machine: Coordinator, who: str) -> None:
        found = machine.fetch("g")
        assert isinstance(found, dict)
        offsets = {key: one.offset for key, one in found.items()}
        if offsets != self.visible:
            raise Wrong(f"{who} tells {offsets}, committed is {self.visible}")
        if set(machine.unstable("g")) != set(self.pending):
            raise Wrong(f"{who} has {set(machine.unstable('g'))} in open transactions, it is {set(self.pending)}")

    def _heir(self, machine: Coordinator) -> Coordinator:
        heir = Coordinator(machine.settings, machine.kinds.consumer.topics)
        heir.gained(0, 1)
        log, offset = self.lab.partition(COORDINATOR, 0, OFFSETS_TOPIC).log, 0
        while offset < log.log_end_offset:
            read = log.read(offset, 1 << 20)
            for header in batch.headers(read.data):
                if header.attributes & markers.CONTROL:
                    marker = markers.read(read.data, header.position)
                    assert marker is not None
                    heir.load_end(0, 1, header.producer_id, marker.commit)
                else:
                    records = [(one.key, one.value) for one in batch.records(read.data, header.position)]
                    transactional = header.attributes & markers.TRANSACTIONAL
                    heir.load(0, 1, records, header.producer_id if transactional else -1)
            offset = read.next_offset
        heir.loaded(0, 1, Now(1, 1))
        return heir


def run(seed: int, steps: int) -> World:
    """One history; its end. Raises Wrong, with what has happened."""
    world = World(seed)
    try:
        for _ in range(steps):
            world.step()
    except Wrong as wrong:
        happened = "\n".join(world.steps)
        raise Wrong(f"seed {seed}, version {world.version}: {wrong}, after\n{happened}") from None
    return world
