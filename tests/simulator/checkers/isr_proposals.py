"""An ISR changes by its leader's proposal, and a leader is replaced for a reason (KIP-497: only the leader's AlterIsr on the
newest version, fencing, controlled shutdown, the preferred replica's return and a reassignment change a partition).

This is checked when the change is committed. The leader does not know of it by then, so it still has the proposal, for
that topic id, on the version before. A broker leaves an ISR without a proposal if it was fenced, stops, or gives up a
damaged or offline replica. A broker without room loses its leaderships.
"""

from typing import Any

from actors.metadata.image import Image
from tests.simulator.checkers.hooks import Violation
from tests.simulator.checkers.metadata_log import partitions
from tests.simulator.cluster import Cluster

Key = tuple[bytes, int]
State = tuple[int, frozenset[int], int, tuple[int, ...]]
"""(partition epoch, ISR, leader, replicas) of a partition."""


class IsrProposals:
    name = "isr_changes_are_proposed"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[Key, State] = {}

    def metadata(self, image: Image, batch: Any) -> None:
        """A batch was committed: look at every partition."""
        for key, row in partitions(image):
            now = image.partition_epoch(row), frozenset(image.isr(row)), image.leader(row), tuple(image.replicas(row))
            before = self._known.get(key)
            if now == before:
                continue
            self._known[key] = now
            if before is None or before[2] < 0 or now[2] < 0 or now[0] != before[0] + 1 or now[3] != before[3]:
                continue
            if now[2] == before[2]:
                self._check_that_it_was_proposed(image, key, before, now)
            elif now[2] != image.replicas(row)[0] and self._well(image, before[2], key):
                name = f"{image.topic_name(image.topic_of(row))}-{key[1]}"
                raise Violation(
                    "leaders_are_replaced_for_a_reason",
                    f"{name}: {before} became {now}, and broker {before[2]} is well",
                )

    def _check_that_it_was_proposed(self, image: Image, key: Key, before: State, now: State) -> None:
        version, members, leader, _ = before
        if not now[1] - members and not any(self._well(image, broker, key) for broker in members - now[1]):
            return
        if not self._well(image, leader, key):
            return
        partition = self._cluster.brokers[leader].node.broker.replicas.get(*key)
        if partition is not None and partition.isr.partition_epoch > version:
            return  # whoever committed it ended in that turn, and the leader was the next to know
        proposal = partition.isr.proposal if partition is not None and partition.leads else None
        if proposal is None or proposal.base != version or proposal.want != now[1]:
            raise Violation(self.name, f"{partition!r}: {before} became {now}; broker {leader} wants {proposal}")

    def _well(self, image: Image, broker: int, key: Key) -> bool:
        """Whether this broker runs, under its present registration, and is not about to leave."""
        node, registration = self._cluster.brokers[broker].node, image.broker(broker)
        if node is None or node.broker is None or registration is None:
            return False
        life, replica = node.broker.lifecycle, node.broker.replicas.get(*key)
        replicas = node.broker.replicas
        ill = key in replicas.offline if replica is None else replica.unreadable or replica in replicas.handed_over_ms
        return life.epoch == registration.epoch and not life.stopping and not ill
