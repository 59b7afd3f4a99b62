"""The differences between the families of metadata beyond bytes: where the controller's decisions depend on what
records can say.

This file alone decides how the two epochs of a partition move together, and what fencing makes of a registration. Rules:

1. Every change of a partition moves its partition epoch by one: of the ISR, the leader, the replicas, a reassignment.
2. A leadership that begins or ends moves the leader epoch too, by one. It never moves without the partition epoch.
3. In the drafts one number is both epochs, so each change moves both (A33). `fastpath.image.read_records` reads that number
   into both epochs of a row, `fastpath.image.write_records` refuses a row whose epochs differ, `next_epochs` moves both.
   Everything else takes two numbers.
4. Fenced and absent are two things: a fenced broker is registered and hosts its replicas, but may not lead nor be in sync.
   The drafts have no record for the first, so there fencing ends the registration (A31).
"""

from typing import NamedTuple

from actors.metadata.ops import BrokerChanged, BrokerGone, BrokerUnregistered


class Epochs(NamedTuple):
    """The two epochs of a partition."""

    leader: int
    """The leader epoch: it counts leaderships. Clients and followers fence with it; batches and leader-epoch-checkpoint
    hold it."""
    partition: int
    """The partition epoch: it counts changes of any kind. An AlterIsr names it, and the newer of two states has the
    higher one."""


class Family(NamedTuple):
    """What the records of a family can say."""

    name: str
    one_epoch: bool
    """Whether one number is both epochs (A33)."""
    registers_fenced: bool
    """Whether a fenced broker stays registered; if not, fencing ends the registration (A31)."""

    def next_epochs(self, now: tuple[int, int], *, leadership_moves: bool) -> Epochs:
        """The epochs after a change. `leadership_moves`: another broker leads, or none, or a replica leaves the assignment
        and may not fetch under the epoch that it knows. (Apache Kafka from metadata.version 3.6 on; before, a shrinking ISR
        moved the leader epoch too.)"""
        leader, partition = now[0] + leadership_moves, now[1] + 1
        return Epochs(partition if self.one_epoch else leader, partition)

    def fenced(self, broker: int, epoch: int) -> BrokerChanged | BrokerGone:
        """The op that fences a broker registered under `epoch`, after it has left its leaderships and ISRs."""
        if self.registers_fenced:
            return BrokerChanged(broker, epoch, fenced=True)
        return BrokerGone(broker, epoch)

    def unregistered(self, broker: int, epoch: int) -> BrokerUnregistered | BrokerGone:
        """The op that ends a registration for good, after the broker has left its leaderships and ISRs."""
        return BrokerUnregistered(broker, epoch) if self.registers_fenced else BrokerGone(broker, epoch)


DRAFTS = Family("drafts", one_epoch=True, registers_fenced=False)
RELEASED = Family("released", one_epoch=False, registers_fenced=True)
