"""Commits of many offsets: what happens between two slices of a request, and what of it is written then."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from actors.broker.replication.admission import RequestRefused
from actors.metadata import ops
from actors.metadata.topic_names import OFFSETS_TOPIC
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import batch
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab, Pending
from tests.unit.node.roles.broker.transactions.cluster import COORDINATOR, IDS, LEADER, Client, made, offset, stable

pytestmark = pytest.mark.long

NONE = ErrorCode.NONE
PARTITIONS = 700
FIRST, LAST = 0, 650


def lone(version: int = 2, **settings: str) -> tuple[Lab, Client]:
    lab = made(version, partitions=PARTITIONS, group_initial_rebalance_delay_ms="0", **settings)
    client = Client(lab, version=version)
    assert client.init() is NONE
    if version < 2:
        add(client)
    return lab, client


def add(client: Client, group: str = "g") -> None:
    request = message("AddOffsetsToTxnRequest")(
        transactional_id="x", producer_id=client.id, producer_epoch=client.epoch, group_id=group
    )
    assert client.call(COORDINATOR, "AddOffsetsToTxn", 3, request).reply.error_code == 0


def ask(lab: Lab, name: str, version: int, request: Any, connection: int = 21) -> Any:
    pending = lab.call(COORDINATOR, name, version, request, connection=connection)
    lab.settle()
    assert pending.done, name
    return pending.reply


def join(lab: Lab, instance: str | None = None, connection: int = 21) -> Any:
    """A member of the classic protocol, alone in its group, with its assignment."""
    kind = message("JoinGroupRequest")
    protocol = kind.JoinGroupRequestProtocol(name="range", metadata=b"")
    fields = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer"}
    request = kind(group_id="g", member_id="", group_instance_id=instance, protocols=[protocol], **fields)
    member = ask(lab, "JoinGroup", 5 if instance else 3, request, connection)
    kind = message("SyncGroupRequest")
    assigned = kind.SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"all")
    request = kind(
        group_id="g",
        generation_id=member.generation_id,
        member_id=member.member_id,
        group_instance_id=instance,
        assignments=[assigned],
    )
    assert ask(lab, "SyncGroup", 3, request, connection).error_code == 0
    return member


def leave(lab: Lab, member: Any) -> None:
    request = message("LeaveGroupRequest")(group_id="g", member_id=member.member_id)
    assert ask(lab, "LeaveGroup", 1, request, 22).error_code == 0


def committing(client: Client, offset: int, **more: Any) -> Pending:
    """The same offset for all partitions, in the client's transaction; not answered yet."""
    kind = message("TxnOffsetCommitRequest")
    topics = []
    if unknown := more.pop("unknown", 0):
        part = kind.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        topics = [kind.TxnOffsetCommitRequestTopic(name=f"none-{n}", partitions=[part]) for n in range(unknown)]
    parts = [
        kind.TxnOffsetCommitRequestPartition(partition_index=n, committed_offset=offset, committed_metadata="")
        for n in range(PARTITIONS)
    ]
    fields = {
        "transactional_id": client.transactional_id,
        "group_id": "g",
        "producer_id": client.id,
        "producer_epoch": client.epoch,
        "topics": [*topics, kind.TxnOffsetCommitRequestTopic(name="t", partitions=parts)],
    }
    version = 5 if client.version >= 2 else 3
    return client.lab.call(COORDINATOR, "TxnOffsetCommit", version, kind(**{**fields, **more}), connection=6)


def plain(lab: Lab, offset: int, *, member: Any = None, instance: str | None = None) -> Pending:
    kind = message("OffsetCommitRequest")
    parts = [kind.OffsetCommitRequestPartition(partition_index=n, committed_offset=offset) for n in range(PARTITIONS)]
    request = kind(
        group_id="g",
        member_id="" if member is None else member.member_id,
        generation_id_or_member_epoch=-1 if member is None else member.generation_id,
        group_instance_id=instance,
        topics=[kind.OffsetCommitRequestTopic(name="t", partitions=parts)],
    )
    return lab.call(COORDINATOR, "OffsetCommit", 8, request, connection=6)


def told(lab: Lab, pending: Pending) -> set[ErrorCode]:
    """The errors of the partitions of t."""
    lab.settle()
    assert pending.done
    return {
        ErrorCode(one.error_code) for topic in pending.reply.topics if topic.name == "t" for one in topic.partitions
    }


def in_slice(lab: Lab, number: int, do: Callable[[], None]) -> None:
    """Do something behind that slice of the next long request."""
    seen = 0

    def between() -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            lab.between_slices = lambda: None
            do()

    lab.between_slices = between


def batches(lab: Lab) -> list[batch.Header]:
    """What the log of the groups' coordinator has."""
    log = lab.partition(COORDINATOR, 0, OFFSETS_TOPIC).log
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        headers = batch.headers(log.read(offset, 1 << 20).data)
        found += headers
        offset = headers[-1].last_offset + 1
    return found


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("begun", [True, False])
def test_nothing_is_written_for_a_producer_that_was_fenced_between_two_slices(
    version: int, number: int, begun: bool
) -> None:
    lab, old = lone(version)
    new = Client(lab, version=version)
    if begun:
        assert old.commit_offsets(offset=3) == [NONE]

    def fence() -> None:
        new.init()
        lab.settle()
        lab.pass_ms(300)
        assert new.init() is NONE

    in_slice(lab, number, fence)
    pending = committing(old, 777)
    assert told(lab, pending) <= {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    partition = lab.partition(COORDINATOR, 0, OFFSETS_TOPIC)
    lab.pass_ms(120_000, 5000)
    assert partition.last_stable_offset == partition.high_watermark
    if version < 2:
        add(new, "h")
    assert new.commit_offsets("h", offset=5) == [NONE] and new.end(True) is NONE
    lab.settle()
    assert offset(lab, stable=True) == offset(lab, stable=True, number=LAST) == (-1, NONE)
    assert offset(lab, "h", stable=True) == (5, NONE)


@pytest.mark.parametrize("version", [0, 2])
def test_nothing_is_written_for_a_member_that_was_replaced_between_two_slices(version: int) -> None:
    """KIP-447."""
    lab, client = lone(version)
    member = join(lab)
    assert told(lab, plain(lab, 100, member=member)) == {NONE}

    def take_over() -> None:
        leave(lab, member)
        join(lab, connection=23)
        assert offset(lab, stable=True) == offset(lab, stable=True, number=LAST) == (100, NONE)

    in_slice(lab, 2, take_over)
    fields = {"generation_id": member.generation_id, "member_id": member.member_id}
    assert told(lab, committing(client, 200, **fields)) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert client.end(True) in (NONE, ErrorCode.INVALID_TXN_STATE), "a client that does not care"
    lab.settle()
    assert offset(lab, stable=True) == offset(lab, stable=True, number=LAST) == (100, NONE)


def test_a_static_member_that_has_restarted_between_two_slices_fences_the_one_before() -> None:
    lab, _ = lone()
    member = join(lab, "i")
    in_slice(lab, 1, lambda: join(lab, "i", 23) and None)
    assert told(lab, plain(lab, 5, member=member, instance="i")) == {ErrorCode.FENCED_INSTANCE_ID}
    assert offset(lab) == (-1, NONE)


def test_a_plain_commit_of_a_replaced_member_writes_nothing() -> None:
    lab, _ = lone()
    member = join(lab)
    in_slice(lab, 2, lambda: leave(lab, member))
    assert told(lab, plain(lab, 5, member=member)) <= {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}
    assert offset(lab) == offset(lab, number=LAST) == (-1, NONE)


@pytest.mark.parametrize("again", [False, True])
def test_what_was_deleted_between_two_slices_gets_no_offset(again: bool) -> None:
    """Nor does another topic of the same name."""
    lab, client = lone()

    def delete() -> None:
        lab.commit(ops.TopicGone(TOPIC_ID))
        if again:
            lab.topic([2, 3, 1], "t", b"\7" * 16, partitions=PARTITIONS)
        lab.settle()

    in_slice(lab, 1, delete)
    assert told(lab, committing(client, 9)) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert not lab.broker(COORDINATOR).groups.machine.unstable("g")


@pytest.mark.parametrize("there", [True, False])
def test_a_coordinator_that_has_lost_the_group_between_two_slices_writes_nothing(there: bool) -> None:
    """`there`: it is the coordinator again."""
    lab, client = lone()

    def move() -> None:
        lab.change([2, 3, 1], 2, 0, IDS[OFFSETS_TOPIC])
        lab.settle()
        if there:
            lab.change([1, 2, 3], 1, 0, IDS[OFFSETS_TOPIC])
            lab.settle()

    in_slice(lab, 1, move)
    assert told(lab, committing(client, 9)) == {ErrorCode.NOT_COORDINATOR}
    assert not lab.partition(COORDINATOR, 0, OFFSETS_TOPIC).log.producers.transactions.open


def test_a_long_commit_is_one_batch() -> None:
    lab, client = lone()
    assert told(lab, committing(client, 9, unknown=400)) == {NONE}
    assert [one.count for one in batches(lab)] == [PARTITIONS]
    assert client.end(True) is NONE
    assert told(lab, plain(lab, 10)) == {NONE}
    assert [one.count for one in batches(lab)] == [PARTITIONS, 1, PARTITIONS]
    assert offset(lab, number=LAST) == (10, NONE)


@pytest.mark.parametrize("transactional", [False, True])
def test_a_commit_that_is_larger_than_a_batch_is_refused_as_a_whole(transactional: bool) -> None:
    lab, client = lone()
    log = lab.partition(COORDINATOR, 0, OFFSETS_TOPIC).log
    log.configure(replace(log.settings, max_message_bytes=20_000))
    pending = committing(client, 9) if transactional else plain(lab, 9)
    assert told(lab, pending) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert offset(lab) == offset(lab, stable=True) == (-1, NONE)
    assert not batches(lab)


def test_a_marker_that_is_told_late_ends_nothing_of_the_next_transaction() -> None:
    lab, client = lone()
    assert client.commit_offsets(offset=3) == [NONE]
    groups = lab.broker(COORDINATOR).groups
    place = groups.machine.marker_place(0)
    assert place is not None
    assert client.end(True) is NONE
    assert client.commit_offsets(offset=4) == [NONE]
    groups.transaction_ended(0, client.id, True, place)
    assert offset(lab) == (3, NONE)
    assert offset(lab, stable=True)[1] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    groups.transaction_ended(0, client.id, True, place._replace(leader_epoch=place.leader_epoch - 1, order=1 << 40))
    assert offset(lab) == (3, NONE)
    assert client.end(False) is NONE
    assert offset(lab, stable=True) == (3, NONE)


def test_a_leader_writes_nothing_of_its_own_with_an_older_epoch() -> None:
    lab, client = lone()
    assert client.send(0) == [NONE] and client.end(True) is NONE and client.send(0) == [NONE]
    leader = lab.broker(LEADER)
    builder = batch.Builder(attributes=0x10, producer_id=client.id, producer_epoch=client.epoch - 1)
    builder.append(b"k", b"v")
    before = lab.partition(LEADER, 0).log.log_end_offset
    with pytest.raises(RequestRefused) as refused:
        leader.appends.append(lab.partition(LEADER, 0), builder.build(), client=False)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert lab.partition(LEADER, 0).log.log_end_offset == before
    assert client.end(True) is NONE
    assert stable(lab)[0] == stable(lab)[1]


@pytest.mark.parametrize("version", [0, 2])
def test_offsets_that_come_behind_the_end_of_their_transaction_open_no_other(version: int) -> None:
    lab, client = lone(version)
    assert client.commit_offsets(offset=3) == [NONE]
    in_slice(lab, 2, lambda: client.end(True) and None)
    pending = committing(client, 9)
    assert NONE not in told(lab, pending)
    assert not lab.partition(COORDINATOR, 0, OFFSETS_TOPIC).log.producers.transactions.open
    assert offset(lab, stable=True) == (3, NONE)


@pytest.mark.parametrize("version", [1, 2])
def test_a_member_that_has_left_a_group_commits_nothing_in_a_transaction(version: int) -> None:
    """KIP-447. The group is still there, with another member; who names no member is believed."""
    lab, client = lone(version)
    gone = join(lab)
    leave(lab, gone)
    stays = join(lab, connection=23)

    def codes(**more: Any) -> set[ErrorCode]:
        pending = committing(client, 5, **more)
        lab.settle()
        assert pending.done
        return {ErrorCode(one.error_code) for topic in pending.reply.topics for one in topic.partitions}

    for generation in (gone.generation_id, stays.generation_id):
        assert codes(member_id=gone.member_id, generation_id=generation) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert codes(member_id=stays.member_id, generation_id=stays.generation_id) == {NONE}
