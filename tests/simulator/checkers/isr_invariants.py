"""The invariants I3, I5 and I6 of KIP-497 (docs/readings.md), on the committed metadata.

I3: the version (the partition epoch) never falls, and rises with every change; the leader epoch never falls, and never
    moves without it. I5: an ISR is part of the replicas, without repetition, and has the leader in it. I6: a fenced
    broker is in an ISR only as its last member.
"""

from typing import Any

from actors.ports import Batch
from tests.simulator.checkers.hooks import Violation
from tests.simulator.checkers.metadata_log import partitions

State = tuple[int, frozenset[int], int, int]
"""(partition epoch, ISR, leader, leader epoch)"""


class IsrInvariants:
    name = "isr_shape"

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, int], State] = {}

    def metadata(self, image: Any, batch: Batch) -> None:
        """A batch was committed: look at every partition."""
        alive = {broker.id for broker in image.unfenced_brokers()}
        for key, row in partitions(image):
            self._partition(image, key, row, alive)

    def _partition(self, image: Any, key: tuple[bytes, int], row: int, alive: set[int]) -> None:
        members, leader, epoch = image.isr(row), image.leader(row), image.partition_epoch(row)
        isr = frozenset(members)
        now = epoch, isr, leader, image.leader_epoch(row)
        before = self._known.get(key)
        fenced = len(isr) > 1 and not isr <= alive
        if before == now and not fenced:
            return
        self._known[key] = now
        name = f"{image.topic_name(image.topic_of(row))}-{key[1]}"
        if len(members) != len(isr) or not isr <= set(image.replicas(row)) or (leader >= 0 and leader not in isr):
            raise Violation(self.name, f"{name}: ISR {members} of {image.replicas(row)}, leader {leader}")
        if before is not None and (epoch < before[0] or (epoch == before[0] and now != before) or now[3] < before[3]):
            raise Violation("isr_version_step", f"{name}: {before} became {now}")
        if fenced:
            raise Violation("isr_no_fenced_member", f"{name}: ISR {members}, not fenced are {sorted(alive)}")
