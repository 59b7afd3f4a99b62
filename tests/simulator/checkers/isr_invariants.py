"""Invariants I3, I5 and I6 of KIP-497 (docs/readings.md), on the committed metadata.

I3: the version (the leader epoch at levels 1 and 2) never falls, and rises with every change. I5: an ISR is a part of
the replicas, without repetition, and contains the leader. I6: a fenced broker is in an ISR only as its last member.
"""

from typing import Any

from actors.ports import Batch
from tests.simulator.checkers.hooks import Violation
from tests.simulator.checkers.metadata_log import partitions

State = tuple[int, frozenset[int], int]


class IsrInvariants:
    name = "isr_shape"

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, int], State] = {}

    def metadata(self, image: Any, batch: Batch) -> None:
        """A batch was committed: look at every partition."""
        registered = {broker.id for broker in image.brokers()}
        for key, row in partitions(image):
            self._partition(image, key, row, registered)

    def _partition(self, image: Any, key: tuple[bytes, int], row: int, registered: set[int]) -> None:
        members, leader, epoch = image.isr(row), image.leader(row), image.leader_epoch(row)
        isr = frozenset(members)
        now = epoch, isr, leader
        before = self._known.get(key)
        fenced = len(isr) > 1 and not isr <= registered
        if before == now and not fenced:
            return
        self._known[key] = now
        name = f"{image.topic_name(image.topic_of(row))}-{key[1]}"
        if len(members) != len(isr) or not isr <= set(image.replicas(row)) or (leader >= 0 and leader not in isr):
            raise Violation(self.name, f"{name}: ISR {members} of {image.replicas(row)}, leader {leader}")
        if before is not None and (epoch < before[0] or (epoch == before[0] and (isr, leader) != before[1:])):
            raise Violation("isr_version_step", f"{name}: {before} became {now}")
        if fenced:
            raise Violation("isr_no_fenced_member", f"{name}: ISR {members}, registered are {sorted(registered)}")
