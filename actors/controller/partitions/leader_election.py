"""The election of a partition's leader among its replicas, and the ISR that goes with it (KIP-631, Fencing).

This file alone decides which replica becomes leader, whatever asks: a broker that is lost or comes back, ElectLeaders, a
reassignment. The passes over many partitions do the same in `fastpath/image/`. Rules:

1. A leader stays while it is in the ISR. Otherwise the first replica, in the order of preference, that is in the ISR and
   usable; -1 if there is none.
2. The last member of an ISR is not removed: it has the data (A32). Then the leader is -1, unless the topic allows an
   unclean election, or the broker is given up on purpose.
3. A broker that says that it cannot read its replica is not elected, not even uncleanly.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from actors.controller.configs import unclean_allowed
from actors.controller.state import State


class PartitionChange(NamedTuple):
    """Partition `row` gets this ISR and leader, under the next epochs."""

    row: int
    isr: tuple[int, ...]
    leader: int


def choose_leader(replicas: tuple[int, ...], isr: Collection[int], usable: Collection[int]) -> int:
    """The most preferred usable member of the ISR, or -1."""
    for broker in replicas:
        if broker in isr and broker in usable:
            return broker
    return -1


def able(state: State, row: int) -> Collection[int]:
    """The usable brokers, without those that have said that they cannot read their replica of partition `row`."""
    image, usable = state.image, state.soft.usable(state.image).ids
    if not state.soft.unreadable:
        return usable
    key = (image.topic_id(image.topic_of(row)) or b"", image.number(row))
    return usable - {broker for broker, replicas in state.soft.unreadable.items() if key in replicas}


def leave(state: State, row: int, brokers: Mapping[int, bool]) -> PartitionChange | None:
    """The change with which brokers, one after the other, leave the ISR and the leadership of partition `row`; None if that
    changes nothing. `brokers`: each with whether it is given up, so that even the last copy may go."""
    image = state.image
    isr, leader = image.isr(row), image.leader(row)
    for broker, give_up in brokers.items():
        if broker not in isr:
            continue
        rest = tuple(member for member in isr if member != broker)
        usable = frozenset(able(state, row)) - set(brokers)
        if rest:
            isr = rest
            if leader not in rest:
                leader = choose_leader(image.replicas(row), rest, usable)
            continue
        heir = -1
        if unclean_allowed(state, image.topic_of(row)):
            heir = choose_leader(image.replicas(row), image.replicas(row), usable)
        if heir >= 0:
            isr, leader = (heir,), heir
        else:
            isr, leader = () if give_up else isr, -1
    return None if (isr, leader) == (image.isr(row), image.leader(row)) else PartitionChange(row, isr, leader)


def elect(state: State, row: int, unclean: bool) -> PartitionChange | None:
    """The change that gives a partition without a leader one; None if no replica can lead it. `unclean`: a replica
    outside the ISR may lead too."""
    image = state.image
    if image.leader(row) >= 0:
        return None
    replicas, isr, usable = image.replicas(row), image.isr(row), able(state, row)
    leader = choose_leader(replicas, isr, usable)
    if leader >= 0:
        return PartitionChange(row, isr, leader)
    if unclean:
        leader = choose_leader(replicas, replicas, usable)
        if leader >= 0:
            return PartitionChange(row, (leader,), leader)
    return None
