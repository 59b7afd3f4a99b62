"""ElectLeaders (43): makes the preferred replica leader or, if asked for, one that lacks records (KIP-183, KIP-460).

This file alone decides which partitions a request or a rebalance gives another leader; which replica that is otherwise,
`leader_election.py` decides. An unclean election by request is allowed whatever the topic's setting says, because the
request is the permission. At an interval (auto.leader.rebalance.enable) preferred replicas get their partitions back
without a request, in slices.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from actors.controller.partitions.leader_election import PartitionChange, able, elect
from actors.controller.partitions.partition_changes import changed
from actors.controller.state import Result, State
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ElectLeadersRequest

PREFERRED, UNCLEAN = 0, 1
ROWS_AT_ONCE = 10_000
"""The number of rows that one slice of a rebalance looks at."""

Outcome = tuple[ErrorCode, PartitionChange | None]


def elect_leaders(state: State, request: "ElectLeadersRequest", now: Now, random: Random) -> Result:
    """Carry out an ElectLeadersRequest. topic_partitions null means all partitions; then the reply holds only those
    that needed an election. Errors by partition: 3, 80, 83 ELIGIBLE_LEADERS_NOT_AVAILABLE, 84; top level 42 for an
    unknown election type."""
    kind = message("ElectLeadersResponse")
    reply = kind()
    if request.election_type not in (PREFERRED, UNCLEAN):
        return Result((), kind(error_code=int(ErrorCode.INVALID_REQUEST)))
    judge = _preferred if request.election_type == PREFERRED else _unclean
    changes = []
    for topic, rows in _wanted(state, request):
        results = []
        for number, row in rows:
            code, change = judge(state, row) if row >= 0 else (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
            if change is not None:
                changes.append(change)
            if request.topic_partitions is not None or code != ErrorCode.ELECTION_NOT_NEEDED:
                results.append(
                    kind.PartitionResult(
                        partition_id=number, error_code=int(code), error_message=None if code == 0 else code.text
                    )
                )
        if results:
            reply.replica_election_results.append(kind.ReplicaElectionResult(topic=topic, partition_result=results))
    return Result(changed(state, changes), reply, atomic=False)


def rebalance(state: State, from_row: int) -> Result:
    """Change one slice of a rebalance: partitions whose preferred replica could lead but does not. `reply` is the row
    where the next slice begins, -1 at the end."""
    image = state.image
    end = min(from_row + ROWS_AT_ONCE, image.row_end)
    changes = []
    for row in range(from_row, end):
        if image.is_partition(row):
            _, change = _preferred(state, row)
            if change is not None:
                changes.append(change)
    return Result(changed(state, changes), end if end < image.row_end else -1, atomic=False)


def _wanted(state: State, request: "ElectLeadersRequest") -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """(topic, [(number, row or -1)]) of the partitions that the request is about."""
    image = state.image
    if request.topic_partitions is None:
        for topic in image.topics():
            yield image.topic_name(topic), list(enumerate(image.topic_partitions(topic)))
        return
    numbers: dict[str, dict[int, None]] = {}
    for entry in request.topic_partitions:
        numbers.setdefault(entry.topic, {}).update(dict.fromkeys(entry.partitions))
    for name, wanted in numbers.items():
        topic = image.topic(name)
        yield name, [(number, image.partition(topic, number) if topic >= 0 else -1) for number in wanted]


def _preferred(state: State, row: int) -> Outcome:
    image = state.image
    preferred = image.replicas(row)[0]
    if image.leader(row) == preferred:
        return ErrorCode.ELECTION_NOT_NEEDED, None
    if preferred not in image.isr(row) or preferred not in able(state, row):
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, None
    return ErrorCode.NONE, PartitionChange(row, image.isr(row), preferred)


def _unclean(state: State, row: int) -> Outcome:
    if state.image.leader(row) >= 0:
        return ErrorCode.ELECTION_NOT_NEEDED, None
    change = elect(state, row, True)
    if change is None:
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, None
    return ErrorCode.NONE, change
