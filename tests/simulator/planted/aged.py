"""Worlds in which whatever counts is close to its end, as in a cluster that has run for years.

What each field of the protocol does at its end, tests/unit/wire/test_counters.py lists. Here a whole cluster begins a little
before it, and goes over it while faults come and go: correlation ids of the nodes, epochs of fetch sessions, generations of
groups, sequence numbers of producers, epochs of transactional producers. Epochs of partitions and leaders, epochs of the
groups of KIP-848 and producer ids begin near theirs and do not come to it, since nothing is promised behind it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from actors.broker.groups.classic import rebalance
from actors.broker.groups.classic.state import Group
from actors.broker.groups.epochs import EPOCH_MAX as GENERATION_MAX
from actors.broker.log.producers import producers
from actors.broker.replication import fetch_sessions, fetchers
from actors.broker.transactions import rules, state
from actors.metadata import ops
from actors.metadata.image import Image
from actors.node.net.channels import CORRELATION_MAX, Channel
from tests.simulator.clients import producer
from tests.simulator.planted.registry import Patch, instead, mistake

REQUESTS_LEFT = 20
SESSION_REQUESTS_LEFT = 3
GENERATIONS_LEFT = 2
RECORDS_LEFT = 5
CHANGES_LEFT = 1_000_000
"""How many changes of a partition are left before its epoch ends: more than a world makes."""
PRODUCER_IDS_LEFT = 10_000_000
TRANSACTIONS = 6
"""A transactional producer's epochs: so few that each producer uses them up."""
INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1


def begun(cls: type[Any], attribute: str, value: int) -> Patch:
    """A patch by which each new object of a class begins with that value."""
    made: Callable[..., None] = cls.__init__

    def begins(self: Any, *given: Any, **named: Any) -> None:
        made(self, *given, **named)
        setattr(self, attribute, value)

    return instead(cls, "__init__", begins)


def few_epochs() -> list[Patch]:
    """What makes transactional producers use up the epochs of their ids."""
    return [instead(state, "EPOCH_MAX", TRANSACTIONS), instead(rules, "EPOCH_MAX", TRANSACTIONS)]


def aged() -> list[Patch]:
    """What makes a world old."""
    first = fetch_sessions.EPOCH_MAX - SESSION_REQUESTS_LEFT
    ids = Image.next_producer_id.fget  # type: ignore[attr-defined]
    oldest = INT64_MAX - PRODUCER_IDS_LEFT
    return [
        begun(Channel, "next_correlation", CORRELATION_MAX - REQUESTS_LEFT),
        instead(fetch_sessions, "FIRST_EPOCH", first),
        instead(fetchers, "FIRST_EPOCH", first),
        begun(Group, "generation", GENERATION_MAX - GENERATIONS_LEFT),
        instead(producer, "FIRST_SEQUENCE", producer.SEQUENCE_MAX - RECORDS_LEFT),
        *few_epochs(),
        instead(ops, "FIRST_EPOCH", INT32_MAX - CHANGES_LEFT),
        instead(Image, "next_producer_id", property(lambda image: max(ids(image), oldest))),
    ]


@mistake("aged")
def correlation_ids_do_not_begin_again() -> Sequence[Patch]:
    """A node ends when it has sent 2^31 requests over one channel: the id behind the largest does not fit into its field."""

    def correlation(channel: Channel) -> int:
        channel.next_correlation += 1
        return channel.next_correlation

    return [instead(Channel, "correlation", correlation)]


@mistake("aged")
def generations_do_not_begin_again() -> Sequence[Patch]:
    """A classic group has no generation behind the largest int32, and its members join for ever."""
    return [instead(rebalance, "next_generation", lambda generation: generation + 1)]


@mistake("aged")
def sequence_numbers_do_not_begin_again() -> Sequence[Patch]:
    """A leader takes the number behind the largest int32 for one that is out of order: that producer is stuck."""
    return [instead(producers, "SEQUENCE_MAX", (1 << 40) - 1)]
