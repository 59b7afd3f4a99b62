"""Answers of a running cluster as facts of what is wrong: voters that lag, log directories that cannot be used, transactions
that hang.

This file alone decides when a transaction hangs: its producer has been silent for HANGING_MS, and no coordinator will end it
in time; and what an answer about the quorum says of each voter.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from actors.why.facts import NO_TIMEOUT_MS, LogDirFacts, QuorumFacts, TransactionFacts, VoterFacts

HANGING_MS = 900_000
"""Longer than any transaction may be open: transaction.max.timeout.ms of brokers, unless set otherwise."""


class QuorumReplica(Protocol):
    """A voter or an observer, as the leader of the quorum knows it."""

    @property
    def id(self) -> int:
        """The id of the controller."""

    @property
    def log_end_offset(self) -> int:
        """The end of its log; -1: not known."""

    @property
    def last_caught_up_ms(self) -> int:
        """When it had all of the leader's log last, by the leader's clock; below 1: never, or not told."""


class Quorum(Protocol):
    """The quorum as its leader tells it."""

    @property
    def leader(self) -> int:
        """The id of the leader; -1: there is none."""

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader."""

    @property
    def voters(self) -> Sequence[QuorumReplica]:
        """The controllers that vote."""

    @property
    def observers(self) -> Sequence[QuorumReplica]:
        """The nodes that follow and do not vote."""


class Open(Protocol):
    """A transaction that is open in a partition, as the leader of the partition knows it."""

    @property
    def topic(self) -> str:
        """The topic of the partition."""

    @property
    def partition(self) -> int:
        """The number of the partition."""

    @property
    def producer_id(self) -> int:
        """The id of the producer that writes in it."""

    @property
    def last_timestamp_ms(self) -> int:
        """The timestamp of the last batch, ms."""


class Coordinated(Protocol):
    """A transaction that is open, as its coordinator knows it."""

    @property
    def id(self) -> str:
        """The transactional id."""

    @property
    def timeout_ms(self) -> int:
        """The time after which its coordinator ends it; NO_TIMEOUT_MS: never."""

    @property
    def started_ms(self) -> int:
        """The time at which it began, ms since 1970."""


OpenT = TypeVar("OpenT", bound=Open)


def of_quorum(told: Quorum) -> QuorumFacts:
    """The leader, and what is known of each voter. A leader that is no voter any more leads until that is committed.
    Releases before Kafka 3.3 do not tell the times, without which nothing is said of a voter."""
    if told.leader < 0:
        return QuorumFacts(-1, told.leader_epoch, tuple(VoterFacts(one.id) for one in told.voters))
    leader = next((one for one in (*told.voters, *told.observers) if one.id == told.leader), None)
    if leader is None or leader.last_caught_up_ms < 0:
        return QuorumFacts(told.leader, told.leader_epoch)
    return QuorumFacts(told.leader, told.leader_epoch, tuple(_voter(leader, one) for one in told.voters))


def _voter(leader: QuorumReplica, one: QuorumReplica) -> VoterFacts:
    lag, behind_ms = leader.log_end_offset - one.log_end_offset, leader.last_caught_up_ms - one.last_caught_up_ms
    if one.last_caught_up_ms <= 0:  # it has never fetched from this leader
        return VoterFacts(one.id, max(lag, 0) or -1)
    return VoterFacts(one.id, max(lag, 0), max(behind_ms, 0))


def offline(told: Mapping[int, Any]) -> Iterator[LogDirFacts]:
    """The log directories that cannot be used. `told`: broker -> a list of its directories, each with its path and error, or
    the error with which it answered."""
    for broker, those in sorted(told.items()):
        for one in those if isinstance(those, list) else []:
            if one.error is not None:
                yield LogDirFacts(broker, one.path, str(one.error))


def silent(now_ms: int, open_: Iterable[OpenT]) -> dict[int, list[OpenT]]:
    """The transactions that are open for long, by producer id."""
    by_producer: dict[int, list[OpenT]] = {}
    for one in open_:
        if now_ms - one.last_timestamp_ms > HANGING_MS:
            by_producer.setdefault(one.producer_id, []).append(one)
    return by_producer


def hanging(now_ms: int, open_: Iterable[Open], known: Mapping[int, Coordinated]) -> Iterator[TransactionFacts]:
    """The silent ones that no coordinator ends in time. One that it will end is well, however old its records are. `known`:
    producer id -> what its coordinator knows."""
    for producer, those in sorted(silent(now_ms, open_).items()):
        names = tuple(f"{one.topic}-{one.partition}" for one in those)
        found = known.get(producer)
        started_ms = min(one.last_timestamp_ms for one in those)
        if found is None:
            yield TransactionFacts("", producer, started_ms, -1, names)
        elif found.timeout_ms == NO_TIMEOUT_MS or not 0 <= now_ms - found.started_ms <= found.timeout_ms:
            yield TransactionFacts(
                found.id, producer, found.started_ms if found.started_ms >= 0 else started_ms, found.timeout_ms, names
            )
