"""The state of a group: members, generation, phase, and the rules between them.

    EMPTY -> PREPARING -> COMPLETING -> STABLE -> PREPARING ...   any -> EMPTY (last member gone) -> DEAD (deleted)

Rules:

1. `generation` grows by one when a join phase ends, and never otherwise.
2. A member that waits for the end of a phase (`join_ticket`, `sync_ticket`) does not expire: its connection shows that
   it lives.
3. The chosen protocol is one that every member named. Each member votes for the first of these in its own list. The bytes
   beside a protocol's name are the client's own and decide nothing.
4. A request costs the same in a group of one and of a thousand members. What it asks about all members is counted, and
   the next deadline is the first of a heap. So protocols, tickets and deadlines change through methods of `Group` alone.
5. What members say of themselves, and are assigned, is as long as they like. It is charged to `account`: to the principal
   that has sent it, and what comes from the log to nobody.
6. Member ids that were given out and not used are at most PENDING_MAX. A further one takes the place of the oldest.

Times are monotonic milliseconds, except those that are written to the log.
"""

import enum
import heapq
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from actors.ledger import NODES, Account

K = TypeVar("K")
NO_TICKET = 0
PENDING_MAX = 10_000
"""The most member ids of one group that were given out and not used. A client comes back with its id within a round
trip."""
MEMBER_BYTES = 1_500
"""The bytes that a member takes beside its texts."""
PROTOCOL_BYTES = 150
"""The bytes that a protocol of a member takes beside its texts."""
FAR_MS = 1 << 62
"""The deadline of a member that is not watched yet."""
DEADLINES_SLACK = 64
"""How many outdated entries a small group's heap of deadlines may have."""
TYPE = "classic"
"""The name of the kind in ListGroups."""


class GroupState(enum.Enum):
    """States of a classic group, by the names that Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Member:
    """One member of a group.

    `join_ticket`, `sync_ticket`: the request that waits for the end of the phase, NO_TICKET if none does.
    `deadline_ms`: when it expires unless it sends a request before.
    `unsynced`: it has joined this generation and has not asked for its assignment yet.
    Those that the group counts (`protocols`, the tickets, `unsynced`, `deadline_ms`) are set by `Group`.
    """

    __slots__ = (
        "assignment",
        "charged",
        "client_host",
        "client_id",
        "deadline_ms",
        "id",
        "instance_id",
        "join_ticket",
        "join_version",
        "principal",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_ticket",
        "unsynced",
    )

    def __init__(
        self,
        id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Sequence[tuple[str, bytes]],
        principal: str = NODES,
    ) -> None:
        self.id = id
        self.principal = principal
        """The principal to which the member is charged."""
        self.charged = 0
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = list(protocols)
        self.assignment = b""
        self.join_ticket = NO_TICKET
        self.join_version = 0
        self.sync_ticket = NO_TICKET
        self.deadline_ms = FAR_MS
        self.unsynced = False

    @property
    def size(self) -> int:
        """The bytes that the member takes, about."""
        return MEMBER_BYTES + said_bytes(self.protocols) + len(self.assignment)

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for a protocol; empty if it did not name the protocol."""
        for name, data in self.protocols:
            if name == protocol:
                return data
        return b""

    @property
    def names(self) -> tuple[str, ...]:
        """The protocols that the member can do, the one that it likes best first."""
        return tuple(name for name, _ in self.protocols)


class Group:
    """One group, or only offsets that were committed for its name.

    Invariant: `leader` is a key of `members` or None; `static` maps instance ids to keys of `members`."""

    type = TYPE

    def __init__(self, id: str, account: Account | None = None) -> None:
        self.id = id
        self.account = account
        """The account to which members are charged; None: the group has not been taken in yet."""
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}
        self.pending: dict[str, int] = {}
        """When a member id lapses that was given out with MEMBER_ID_REQUIRED and has not joined yet, by id."""
        self.phase_deadline_ms = 0
        """The end of the join phase (PREPARING), or of the time to ask for an assignment (COMPLETING, STABLE)."""
        self.phase_extends_until_ms = 0
        """The time up to which new members may move the end of the phase, in PREPARING after EMPTY."""
        self.newcomers = False
        self.state_wall_ms = -1
        """When the state last changed, wall clock: offsets of an empty group expire from then on."""
        self.recorded = False
        """Whether a record of the group was written: the log may have one."""
        self.former: dict[bytes, None] = {}
        """The keys of which the log may have a value from when the group was one of another kind."""
        self._named: Counter[str] = Counter()
        """How many members name a protocol, by protocol."""
        self._ballots: Counter[tuple[str, ...]] = Counter()
        """How many members have the same `Member.names`, by those."""
        self._joining = 0
        self._unsynced = 0
        self._deadlines: list[tuple[int, str]] = []
        """A heap of (when, id of a member or of `pending`). Entries that differ from `_watched` are outdated."""
        self._watched: dict[str, int] = {}
        """The entry of `_deadlines` that counts, by id. It is no later than the id's deadline."""

    def supports(self, protocol_type: str, protocols: Sequence[tuple[str, bytes]]) -> bool:
        """Whether a member with these protocols could be in the group with the others."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(
            self._named[name] == len(self.members) for name, _ in protocols
        )

    def choose_protocol(self) -> str | None:
        """The protocol with most votes among those that all members name, None if there is none. Among equals it is the
        first by name, so that the choice is stable."""
        votes: Counter[str] = Counter()
        for names, members in self._ballots.items():
            vote = next((name for name in names if self._named[name] == len(self.members)), None)
            if vote is not None:
                votes[vote] += members
        return min(votes, key=lambda name: (-votes[name], name), default=None)

    def set_protocols(self, member: Member, protocols: Sequence[tuple[str, bytes]]) -> None:
        """Note which protocols a member can do."""
        self._count_protocols(member, -1)
        member.protocols = list(protocols)
        self._count_protocols(member, 1)
        self.weigh(member)

    # ---- what members take

    def take_in(self, account: Account) -> None:
        """Charge the account for what the members take: the group is served from now on."""
        self.account = account
        for member in self.members.values():
            self.weigh(member)

    def let_out(self) -> None:
        """Charge nothing for the group any more: it is served no longer."""
        for member in self.members.values():
            self._charge(member, 0)
        self.account = None

    def belongs(self, member: Member, principal: str) -> None:
        """Charge a member to this principal from now on."""
        if member.principal != principal:
            self._charge(member, 0)
            member.principal = principal

    def weigh(self, member: Member) -> None:
        """Charge a member again: what it takes may have changed."""
        if self.account is not None:
            self._charge(member, member.size)

    def _charge(self, member: Member, size: int) -> None:
        if self.account is not None and size != member.charged:
            self.account.keep(member.principal, size - member.charged)
            member.charged = size

    # ---- members that wait

    @property
    def joining(self) -> int:
        """How many members wait for the end of a join phase."""
        return self._joining

    def all_joined(self) -> bool:
        """Whether the join phase can end early."""
        return not self.pending and self._joining == len(self.members)

    def wait_to_join(self, member: Member, ticket: int, version: int) -> None:
        """Let a request of the member, which has none that waits, wait for the end of the join phase."""
        assert member.join_ticket == NO_TICKET
        member.join_ticket, member.join_version = ticket, version
        self._joining += 1

    def take_join(self, member: Member) -> int:
        """Take the request that waits for the end of the join phase, which does so no more; NO_TICKET if there is
        none."""
        ticket, member.join_ticket = member.join_ticket, NO_TICKET
        self._joining -= ticket != NO_TICKET
        self._watch(member.id, member.deadline_ms)
        return ticket

    def wait_to_sync(self, member: Member, ticket: int) -> None:
        """Let a request of the member, which has none that waits, wait for the assignment."""
        assert member.sync_ticket == NO_TICKET
        member.sync_ticket = ticket

    def take_sync(self, member: Member) -> int:
        """Take the request that waits for the assignment, which does so no more; NO_TICKET if there is none."""
        ticket, member.sync_ticket = member.sync_ticket, NO_TICKET
        self._watch(member.id, member.deadline_ms)
        return ticket

    @property
    def unsynced(self) -> int:
        """How many members have not asked for the assignment of this generation."""
        return self._unsynced

    def set_unsynced(self, member: Member, unsynced: bool) -> None:
        """Note that a member has joined a generation, or has asked for its assignment."""
        self._unsynced += unsynced - member.unsynced
        member.unsynced = unsynced

    # ---- deadlines

    def give_id(self, id: str, lapses_ms: int) -> None:
        """Note that a client gets a member id, and shall join with it."""
        if len(self.pending) >= PENDING_MAX:
            self.forget_id(next(iter(self.pending)))
        self.pending[id] = lapses_ms
        self._watch(id, lapses_ms)

    def forget_id(self, id: str) -> bool:
        """Forget an id that was given out, and has been used or will not be. Returns False if it is not among them."""
        if self.pending.pop(id, None) is None:
            return False
        self._watched.pop(id, None)
        return True

    def touch(self, member: Member, now_ms: int) -> None:
        """Begin a member's session anew: it has sent a request."""
        member.deadline_ms = now_ms + member.session_timeout_ms
        self._watch(member.id, member.deadline_ms)

    def due(self, now_ms: int) -> list[str]:
        """Take out the ids whose time is over: of members that wait for nothing, and those never used. Each is returned
        once."""
        found = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            entry = heapq.heappop(self._deadlines)
            if self._watched.get(entry[1]) != entry[0]:
                continue
            del self._watched[entry[1]]
            deadline_ms = self._deadline_ms(entry[1])
            if deadline_ms is None:
                continue
            if deadline_ms <= now_ms:
                found.append(entry[1])
            else:
                self._watch(entry[1], deadline_ms)
        return found

    def next_due_ms(self) -> int | None:
        """The time when `due` may find something, None if never. It is no later than that, and may be earlier."""
        while self._deadlines and self._watched.get(self._deadlines[0][1]) != self._deadlines[0][0]:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    # ---- members that come and go

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: Member) -> None:
        """Add a new member. The first one leads, and decides the protocol type."""
        assert member.id not in self.members
        if not self.members:
            self.protocol_type = member.protocol_type
        self.members[member.id] = member
        self._count(member, 1)
        self.weigh(member)
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id
        self.forget_id(member.id)

    def remove(self, id: str) -> Member | None:
        """Remove a member. If it was the leader, another member leads."""
        member = self.members.pop(id, None)
        if member is None:
            return None
        self._count(member, -1)
        self._charge(member, 0)
        self._watched.pop(id, None)
        if member.instance_id is not None and self.static.get(member.instance_id) == id:
            del self.static[member.instance_id]
        if self.leader == id:
            self.leader = next(iter(self.members), None)
        return member

    def replace(self, old_id: str, new_id: str) -> Member:
        """Put a static member that came back in its old place, under a new member id."""
        member = self.members.pop(old_id)
        member.id = new_id
        self.members[new_id] = member
        self._watched.pop(old_id, None)
        self._watch(new_id, member.deadline_ms)
        assert member.instance_id is not None
        self.static[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        return member

    def check(self) -> None:
        """Assert the invariants; called after each step in tests."""
        members = self.members.values()
        assert self.leader is None or self.leader in self.members
        assert all(self.members[id].instance_id == name for name, id in self.static.items())
        assert self.members or self.state in (GroupState.EMPTY, GroupState.DEAD, GroupState.PREPARING)
        assert all(member.charged == (member.size if self.account is not None else 0) for member in members)
        assert self._joining == sum(member.join_ticket != NO_TICKET for member in members)
        assert self._unsynced == sum(member.unsynced for member in members)
        assert self._ballots == Counter(member.names for member in members)
        assert self._named == Counter(name for member in members for name in set(member.names))
        assert len(self.pending) <= PENDING_MAX and not self.pending.keys() & self.members.keys()
        assert all(id in self.pending or id in self.members for id in self._watched)
        waiting = {member.id for member in members if member.join_ticket or member.sync_ticket}
        for id in self.members.keys() | self.pending.keys():
            deadline_ms = self._deadline_ms(id)
            assert id in waiting or deadline_ms is None or self._watched.get(id, FAR_MS) <= deadline_ms

    # ---- inside

    def _count(self, member: Member, by: int) -> None:
        self._joining += by * (member.join_ticket != NO_TICKET)
        self._unsynced += by * member.unsynced
        self._count_protocols(member, by)

    def _count_protocols(self, member: Member, by: int) -> None:
        names = member.names
        _add(self._ballots, names, by)
        for name in set(names):
            _add(self._named, name, by)

    def _deadline_ms(self, id: str) -> int | None:
        """The time at which an id expires; None: nothing ends at a time of its own."""
        member = self.members.get(id)
        if member is None:
            return self.pending.get(id)
        return None if member.join_ticket or member.sync_ticket else member.deadline_ms

    def _watch(self, id: str, deadline_ms: int) -> None:
        if self._watched.get(id, FAR_MS) <= deadline_ms:
            return
        self._watched[id] = deadline_ms
        heapq.heappush(self._deadlines, (deadline_ms, id))
        if len(self._deadlines) > 2 * len(self._watched) + DEADLINES_SLACK:
            self._deadlines = [(when_ms, id) for id, when_ms in self._watched.items()]
            heapq.heapify(self._deadlines)


def said_bytes(protocols: Sequence[tuple[str, bytes]]) -> int:
    """The bytes that the protocols of a member take, about."""
    return sum([PROTOCOL_BYTES + len(name) + len(data) for name, data in protocols])


def _add(counts: Counter[K], key: K, by: int) -> None:
    counts[key] += by
    if not counts[key]:
        del counts[key]
