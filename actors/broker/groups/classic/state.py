"""The state of a group: members, generation, phase, and the rules between them.

    EMPTY -> PREPARING -> COMPLETING -> STABLE -> PREPARING ...   any -> EMPTY (last member gone) -> DEAD (deleted)

Rules:

1. `generation` grows by one when a join phase ends, and never otherwise.
2. A member that waits for the end of a phase (`join_ticket`, `sync_ticket`) does not expire: its connection shows that
   it lives.
3. The chosen protocol is one that every member named. Each member votes for the first of these in its own list.

Times are monotonic milliseconds, except those that are written to the log.
"""

import enum
from collections import Counter
from collections.abc import Sequence

NO_TICKET = 0
TYPE = "classic"
"""Its name in ListGroups."""


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
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline_ms",
        "id",
        "instance_id",
        "is_new",
        "join_ticket",
        "join_version",
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
    ) -> None:
        self.id = id
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
        self.deadline_ms = 0
        self.is_new = True
        self.unsynced = False

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for a protocol; empty if it did not name it."""
        for name, data in self.protocols:
            if name == protocol:
                return data
        return b""

    def vote(self, candidates: set[str]) -> str:
        """The first protocol in its list that is a candidate."""
        return next(name for name, _ in self.protocols if name in candidates)


class Group:
    """One group, or only offsets that were committed for its name.

    Invariant: `leader` is a key of `members` or None; `static` maps instance ids to keys of `members`."""

    type = TYPE

    def __init__(self, id: str) -> None:
        self.id = id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}
        self.pending: dict[str, int] = {}
        """Member ids that were given out with MEMBER_ID_REQUIRED and have not joined yet -> when they expire."""
        self.phase_deadline_ms = 0
        """End of the join phase (PREPARING), or of the time to ask for an assignment (COMPLETING, STABLE)."""
        self.phase_extends_until_ms = 0
        """PREPARING after EMPTY: new members may move the end of the phase up to this time."""
        self.newcomers = False
        self.state_wall_ms = -1
        """When the state last changed, wall clock: offsets of an empty group expire from then on."""
        self.recorded = False
        """A record of it was written: the log may have one."""
        self.former: dict[bytes, None] = {}
        """Keys of which the log may have a value from when it was a group of another kind."""

    def candidates(self) -> set[str]:
        """Protocols that every member names."""
        sets = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*sets) if sets else set()

    def supports(self, protocol_type: str, protocols: Sequence[tuple[str, bytes]]) -> bool:
        """Whether a member with these protocols could be in the group with the others."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and bool(self.candidates() & {name for name, _ in protocols})

    def choose_protocol(self) -> str:
        """The candidate with most votes. Among equals it is the first by name, so that the choice is stable."""
        candidates = self.candidates()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return min(votes, key=lambda name: (-votes[name], name))

    def all_joined(self) -> bool:
        """Whether the join phase can end early."""
        return not self.pending and all(member.join_ticket for member in self.members.values())

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: Member) -> None:
        """Add a new member. The first one leads and names the protocol type."""
        if not self.members:
            self.protocol_type = member.protocol_type
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id
        self.pending.pop(member.id, None)

    def remove(self, id: str) -> Member | None:
        """Remove a member. If it led, another member leads."""
        member = self.members.pop(id, None)
        if member is None:
            return None
        if member.instance_id is not None and self.static.get(member.instance_id) == id:
            del self.static[member.instance_id]
        if self.leader == id:
            self.leader = next(iter(self.members), None)
        return member

    def replace(self, old_id: str, new_id: str) -> Member:
        """A static member came back under a new member id."""
        member = self.members.pop(old_id)
        member.id = new_id
        self.members[new_id] = member
        assert member.instance_id is not None
        self.static[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        return member

    def check(self) -> None:
        """Assert the invariants; called after each step in tests."""
        assert self.leader is None or self.leader in self.members
        assert all(self.members[id].instance_id == name for name, id in self.static.items())
        assert self.members or self.state in (GroupState.EMPTY, GroupState.DEAD, GroupState.PREPARING)
