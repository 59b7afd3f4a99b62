"""The rule that what the members of a share group are told of their membership fits together (KIP-932).

The members report what they asked and were told. A refusal, and an answer for which nothing had to be written, may come from
a broker that has not heard yet that it coordinates no more: these are judged only where the newest metadata still names the
broker that spoke. Rules:

1. The epochs that a member is told rise.
2. A member has one assignment in an epoch: a member that is told an epoch twice has the same partitions both times.
3. A member whose session lasts is known to its coordinator, whichever broker that is by now.
4. The epoch that a member was told last is its own: it is not fenced in it, unless several answers were lost.
5. Epochs before the last two, and epochs that no member was told, are refused.
6. A member that has left, and was answered so, is no longer a member.
"""

from actors.wire.errors import ErrorCode
from tests.simulator.checkers.coordinators import Coordinators
from tests.simulator.checkers.hooks import Violation
from tests.simulator.world import World

Given = frozenset[tuple[bytes, int]]
LOST_MAX = 1
"""How many answers may be lost before a member's last epoch may be one that is fenced: the epoch before counts too."""
UNKNOWN = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND))


class _Fact:
    """The state of one member since it joined, as far as it was told."""

    __slots__ = ("alive_us", "epoch", "given", "lost")

    def __init__(self) -> None:
        self.epoch = 0
        self.given: dict[int, Given] = {}
        self.alive_us = 0
        self.lost = 0


class ShareMembers:
    """The members of one share group."""

    def __init__(self, world: World, coordinators: Coordinators, group: str) -> None:
        self.group = group
        self._world = world
        self._coordinators = coordinators
        self._facts: dict[str, _Fact] = {}

    def answered(
        self, member: str, sent: int, told: int, given: Given | None, broker: str | None, asked_us: int, session_ms: int,
        *, full: bool,
    ) -> None:  # fmt: skip
        """A heartbeat in epoch `sent`, asked of a broker at `asked_us`, was answered with `told`. The session lasts for
        `session_ms` from then at least, if the broker coordinated the group. `full`: it has asked for everything."""
        fact = self._facts.setdefault(member, _Fact())
        what = f"{self.group}: {member}, in epoch {sent}, is told {told}"
        if told < max(sent, fact.epoch):
            raise Violation("epochs_of_share_members_rise", f"{what} after {fact.epoch}")
        if given is None and full:
            raise Violation("one_assignment_an_epoch", f"{what} and nothing of its partitions, for which it asked")
        known = fact.given.get(told)
        if given is not None and known is not None and given != known:
            raise Violation("one_assignment_an_epoch", f"{what} with {_shown(given)}, and before with {_shown(known)}")
        if given is not None:
            fact.given[told] = given
        fact.epoch, fact.lost = told, 0
        if self._coordinators.was(broker, self.group, asked_us):
            fact.alive_us = asked_us + session_ms * 1000

    def unanswered(self, member: str) -> None:
        """Note that a member's heartbeat was not answered, so that its outcome is not known."""
        if member in self._facts:
            self._facts[member].lost += 1

    def refused(self, member: str, sent: int, code: int, broker: str | None) -> None:
        """A heartbeat was refused."""
        fact = self._facts.get(member)
        if fact is None or not self._coordinates(broker):
            return
        what = f"{self.group}: {member}, in epoch {sent},"
        if code in UNKNOWN and self._world.time_us < fact.alive_us:
            raise Violation("sessions_of_share_members_last", f"{what} is told {ErrorCode(code).name}")
        if code == ErrorCode.FENCED_MEMBER_EPOCH and sent == fact.epoch and fact.lost <= LOST_MAX:
            raise Violation("nobody_is_fenced_in_its_epoch", f"{what} is fenced after {fact.lost} lost answers")

    def accepted_out_of_turn(self, member: str, sent: int, told: int, broker: str | None) -> None:
        """A heartbeat in an epoch that is not the member's was accepted."""
        if self._coordinates(broker):
            raise Violation("other_epochs_are_fenced", f"{self.group}: {member} is told {told} in epoch {sent}")

    def known_after_it_left(self, member: str, sent: int, broker: str | None) -> None:
        """Fail if a coordinator accepts the heartbeat of a member that had left."""
        if self._coordinates(broker):
            raise Violation("who_left_is_unknown", f"{self.group}: {member} may go on in epoch {sent}")

    def leaves(self, member: str) -> None:
        """A member gives up its membership: nothing is known of it any more."""
        self._facts.pop(member, None)

    def uncovered(self, partitions: Given) -> Given:
        """The partitions that no member has whose session is known to last."""
        now_us, had = self._world.time_us, set[tuple[bytes, int]]()
        for fact in self._facts.values():
            if now_us < fact.alive_us:
                had |= fact.given.get(fact.epoch, frozenset())
        return partitions - had

    def _coordinates(self, broker: str | None) -> bool:
        return self._coordinators.was(broker, self.group, self._world.time_us)


def _shown(given: Given) -> list[str]:
    return sorted(f"{topic_id.hex()[:4]}-{number}" for topic_id, number in given)
