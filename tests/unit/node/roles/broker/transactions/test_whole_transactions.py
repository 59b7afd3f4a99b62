"""Transactions through all brokers that take part: coordinator, leaders of partitions, group coordinator."""

from contextlib import nullcontext

import pytest

from actors.broker.log.aborted_transactions import aborted_transactions
from actors.broker.replication.admission import RequestRefused
from actors.metadata import ops
from actors.node.roles.broker.replication.transaction_verification import BatchToVerify, ClientAbilities
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import Lab
from tests.unit.node.roles.broker.transactions.cluster import (
    COORDINATOR,
    IDS,
    LEADER,
    Client,
    codes,
    made,
    offset,
    stable,
    states,
)

NONE = ErrorCode.NONE


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_over_two_partitions(version: int, commit: bool) -> None:
    lab = made(version)
    client = Client(lab, version=version)
    assert client.init() is NONE
    if version < 2:
        assert client.add(0, 1) == [NONE, NONE]
    assert client.send(0, 1) == [NONE, NONE]
    assert client.send(0) == [NONE]
    assert stable(lab, 0) == (0, 2) and stable(lab, 1) == (0, 1)
    assert states(lab) == {"x": "Ongoing"}
    epoch = client.epoch
    assert client.end(commit) is NONE
    assert stable(lab, 0) == (3, 3) and stable(lab, 1) == (2, 2)
    assert states(lab) == {"x": "CompleteCommit" if commit else "CompleteAbort"}
    assert client.epoch == epoch + (1 if version >= 2 else 0)
    producers = lab.partition(LEADER, 0).log.producers
    assert producers.by_id[client.id].epoch == client.epoch
    assert bool(aborted_transactions(lab.partition(LEADER).log, 0, 10)) is not commit


def test_a_batch_without_an_added_partition_is_refused_by_what_the_client_knows() -> None:
    lab = made(0)
    client = Client(lab, version=0)
    client.init()
    assert client.send(0, version=10) == [ErrorCode.INVALID_TXN_STATE]
    assert client.send(0, version=11, base_sequence=0) == [ErrorCode.TRANSACTION_ABORTABLE]
    assert client.add(0) == [NONE]
    client.sequences = {}
    assert client.send(0, 1) == [NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert lab.partition(LEADER, 1).log.log_end_offset == 0


def test_without_verification_batches_are_taken_as_they_come() -> None:
    lab = made(0, transaction_partition_verification_enable="false")
    client = Client(lab, version=0)
    client.init()
    assert client.send(0) == [NONE]


@pytest.mark.parametrize("version", [0, 2])
def test_a_batch_does_not_overtake_one_that_was_refused_for_a_moment(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator could not be reached when the first batch came: it is sent again, and so is the one behind it."""
    lab = made(version)
    client = Client(lab, version=version)
    client.init()
    if version < 2:
        client.add(0)
    with monkeypatch.context() as patched:
        patched.setattr(lab.broker(LEADER).verification, "_listener", "NOWHERE")
        assert client.send(0) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert client.send(0) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert client.send(0, base_sequence=0) == client.send(0, base_sequence=1) == [NONE]
    assert client.end(True) is NONE and stable(lab, 0) == (3, 3)


def test_the_first_batch_of_a_producer_that_a_leader_adds_has_the_sequence_0() -> None:
    """The one before it went to another broker, which was not the leader any more."""
    lab = made()
    client = Client(lab)
    client.init()
    assert client.send(0, base_sequence=1) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert client.send(0, base_sequence=0) == client.send(0, base_sequence=1) == [NONE]


def test_a_zombies_batch_is_refused_before_and_behind_the_marker() -> None:
    lab = made()
    zombie, client = Client(lab), Client(lab)
    zombie.init()
    client.init()
    assert zombie.send(0) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert client.send(0) == [NONE]
    assert zombie.send(0) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert zombie.end(True) is ErrorCode.PRODUCER_FENCED
    assert client.end(True) is NONE


def test_a_batch_that_comes_after_the_end_of_its_transaction_is_refused() -> None:
    """KIP-890: the client has ended the transaction, and one of its batches was still on its way."""
    lab = made()
    client = Client(lab)
    client.init()
    assert client.send(0) == [NONE]
    late_id, late_epoch = client.id, client.epoch
    assert client.end(False) is NONE
    late = client.sending(0, producer_id=late_id, producer_epoch=late_epoch, base_sequence=1)
    lab.settle()
    assert codes(late) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    elsewhere = client.sending(1, producer_id=late_id, producer_epoch=late_epoch, base_sequence=0)
    lab.settle()
    assert codes(elsewhere) == [ErrorCode.INVALID_PRODUCER_EPOCH], "a partition that the transaction had not reached"
    assert stable(lab, 0) == (2, 2) and lab.partition(LEADER, 1).log.log_end_offset == 0


def test_a_marker_that_overtakes_a_verified_batch_takes_the_permission_back() -> None:
    """Version 0 has no raised epoch: what was verified before the end would open a transaction that nobody ends."""
    lab = made(0)
    client = Client(lab, version=0)
    client.init()
    client.add(0)
    late = client.sending(0)
    verification = lab.broker(LEADER).verification
    for _ in range(200):
        if any(one.given for one in verification._permissions.values()):
            break
        later, lab.later = lab.later, []
        for job in later:
            job()
        arrived = [one for one in lab.awaited if one[0].done]
        lab.awaited = [one for one in lab.awaited if not one[0].done]
        for pending, then, asker, _ in arrived:
            if asker == LEADER:
                then(pending.reply)
            else:
                lab.awaited.append((pending, then, asker, 0))
        for node in lab.nodes.values():
            if node.id != LEADER:
                node.broker.tick(lab.now)
                while node.waiting.run():
                    pass
                node.broker.end()
    assert not late.done
    kind = message("WriteTxnMarkersRequest")
    marker = kind.WritableTxnMarker(
        producer_id=client.id,
        producer_epoch=client.epoch,
        transaction_result=False,
        topics=[kind.WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=0,
    )
    lab.call(LEADER, "WriteTxnMarkers", 1, kind(markers=[marker]))
    lab.settle()
    assert codes(late) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert stable(lab, 0) == (1, 1), "the marker alone"


@pytest.mark.parametrize("moves", [0, 1])
def test_a_permission_does_not_outlive_a_leadership(moves: int) -> None:
    """Version 0: the leader in between may have written the marker, which this broker has as a follower's copy only."""
    lab = made(0)
    producer = Client(lab, version=0)
    producer.init()
    producer.add(0)
    partition, verification = lab.partition(LEADER), lab.broker(LEADER).verification
    question = BatchToVerify(0, partition, producer.id, producer.epoch)
    check = verification.begin(producer.transactional_id, ClientAbilities(adds=False, aborts=False), [question])
    lab.settle()
    partition.leader_epoch += 2 * moves
    with pytest.raises(RequestRefused, match="ask again") if moves else nullcontext():
        verification.admit(question, check, ClientAbilities(adds=False, aborts=False))


def test_requests_of_a_connection_wait_behind_one_that_is_verified() -> None:
    lab = made()
    client = Client(lab)
    client.init()
    pending = [client.sending(0) for _ in range(5)]
    assert not any(one.done for one in pending)
    lab.settle()
    assert [codes(one) for one in pending] == [[NONE]] * 5
    assert [one.reply.responses[0].partition_responses[0].base_offset for one in pending] == [0, 1, 2, 3, 4]
    asked = [one.log for one in [lab.partition(LEADER)]]
    assert asked[0].producers.by_id[client.id].transaction_offset == 0


def test_the_leader_waits_for_the_end_of_the_transaction_before() -> None:
    """A client of version 2 sends at once after EndTxn was answered; the markers may not be there yet."""
    lab = made()
    client = Client(lab)
    client.init()
    assert client.send(0) == [NONE]
    lab.lost.add("WriteTxnMarkers")
    ending = client.ending(True)
    for _ in range(5):
        lab.turn()
    assert client.ended(ending) is NONE and states(lab) == {"x": "PrepareCommit"}
    lab.lost.clear()
    following = client.sending(0)
    lab.pass_ms(200, 10)
    assert codes(following) == [NONE]
    assert stable(lab, 0) == (2, 3)
    assert client.end(True) is NONE
    assert stable(lab, 0) == (4, 4)


def test_a_leader_that_coordinates_the_transaction_itself_sends_no_request() -> None:
    """It waits for the end of the transaction before, too, and is told the moment that it has come."""
    lab = made()
    client = Client(lab)
    client.init()
    lab.change([1, 2, 3], COORDINATOR, 0)
    lab.settle()
    lab.lost.update(("AddPartitionsToTxn", "WriteTxnMarkers"))
    assert client.send(0, broker=COORDINATOR) == [NONE]
    ending = client.ending(True)
    for _ in range(5):
        lab.turn()
    assert client.ended(ending) is NONE
    pending = client.sending(0, broker=COORDINATOR, base_sequence=0)
    for _ in range(5):
        lab.turn()
    assert not pending.done, "the marker of the transaction before is on its way"
    lab.lost.remove("WriteTxnMarkers")
    lab.pass_ms(40, 10)
    assert codes(pending) == [NONE]
    assert client.end(True) is NONE and states(lab) == {"x": "CompleteCommit"}


def test_a_deleted_topic_needs_no_marker() -> None:
    lab = made()
    client = Client(lab)
    client.init()
    assert client.send(0) == [NONE]
    lab.commit(ops.TopicGone(bytes(range(16))))
    assert client.end(True) is NONE
    assert states(lab) == {"x": "CompleteCommit"}


def test_a_leader_that_moves_gets_its_marker_at_the_new_place() -> None:
    lab = made()
    client = Client(lab)
    client.init()
    assert client.send(0, 1) == [NONE, NONE]
    lab.lost.add("WriteTxnMarkers")
    ending = client.ending(True)
    for _ in range(5):
        lab.turn()
    assert client.ended(ending) is NONE
    lab.lost.clear()
    lab.change([3, 1], 3, 0)
    lab.change([3, 1], 3, 1)
    lab.pass_ms(500, 20)
    assert states(lab) == {"x": "CompleteCommit"}
    for number in (0, 1):
        moved = lab.partition(3, number)
        assert moved.last_stable_offset == moved.high_watermark == 2


@pytest.mark.parametrize("commit", [True, False])
def test_another_broker_goes_on_with_a_prepared_end(commit: bool) -> None:
    lab = made()
    client = Client(lab)
    client.init()
    assert client.send(0) == [NONE]
    lab.lost.add("WriteTxnMarkers")
    ending = client.ending(commit)
    for _ in range(5):
        lab.turn()
    assert client.ended(ending) is NONE and stable(lab, 0)[0] == 0
    lab.lost.clear()
    lab.change([3, 1], 3, 0, IDS["__transaction_state"])
    lab.pass_ms(500, 20)
    assert states(lab, 3) == {"x": "CompleteCommit" if commit else "CompleteAbort"}
    assert stable(lab, 0) == (2, 2)
    assert client.init() is ErrorCode.NOT_COORDINATOR
    assert client.init(broker=3) is NONE
    markers = lab.partition(LEADER).log.producers.by_id[client.id]
    assert markers.coordinator_epoch == lab.broker(3).transactions.machine.shards[0].epoch > 0


def test_a_transaction_over_its_time_is_aborted() -> None:
    lab = made()
    client = Client(lab)
    client.init(timeout_ms=5000)
    assert client.send(0) == [NONE]
    lab.pass_ms(4000, 500)
    assert stable(lab, 0) == (0, 1)
    lab.pass_ms(12_000, 500)
    assert stable(lab, 0) == (2, 2) and states(lab) == {"x": "CompleteAbort"}
    assert client.send(0) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert client.end(True) is ErrorCode.INVALID_TXN_STATE
    assert client.init() is NONE


# ---- offsets of groups


@pytest.mark.parametrize("version", [0, 2])
def test_offsets_of_a_transaction_count_with_its_commit(version: int) -> None:
    lab = made(version)
    client = Client(lab, version=version)
    client.init()
    if version < 2:
        add = message("AddOffsetsToTxnRequest")(
            transactional_id="x", producer_id=client.id, producer_epoch=client.epoch, group_id="g"
        )
        assert client.commit_offsets() == [ErrorCode.TRANSACTION_ABORTABLE]
        assert client.call(COORDINATOR, "AddOffsetsToTxn", 3, add).reply.error_code == 0
    assert client.commit_offsets() == [NONE]
    assert offset(lab) == (-1, NONE)
    assert offset(lab, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert offset(lab, stable=True, number=1) == (-1, NONE)
    assert client.end(True) is NONE
    assert offset(lab) == offset(lab, stable=True) == (7, NONE)


def test_offsets_of_an_aborted_transaction_are_forgotten() -> None:
    lab = made()
    client = Client(lab)
    client.init()
    assert client.commit_offsets(offset=3) == [NONE]
    assert client.end(True) is NONE
    assert client.commit_offsets(offset=9) == [NONE]
    assert offset(lab, stable=True)[1] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert client.end(False) is NONE
    assert offset(lab, stable=True) == (3, NONE)


@pytest.mark.parametrize("api", ["OffsetDelete", "DeleteGroups"])
def test_what_a_group_has_in_an_open_transaction_only_can_be_deleted(api: str) -> None:
    """The group was not found, and its offset came when the transaction was committed."""
    lab = made()
    client = Client(lab)
    client.init()
    assert client.commit_offsets(offset=3) == [NONE]
    if api == "DeleteGroups":
        request = message("DeleteGroupsRequest")(groups_names=["g"])
        assert client.call(COORDINATOR, "DeleteGroups", 2, request).reply.results[0].error_code == 0
    else:
        kind = message("OffsetDeleteRequest")
        topic = kind.OffsetDeleteRequestTopic(
            name="t", partitions=[kind.OffsetDeleteRequestPartition(partition_index=0)]
        )
        reply = client.call(COORDINATOR, "OffsetDelete", 0, kind(group_id="g", topics=[topic])).reply
        assert (reply.error_code, reply.topics[0].partitions[0].error_code) == (0, 0)
    assert client.end(True) is NONE
    assert offset(lab) == (-1, NONE)


@pytest.mark.parametrize("commit", [True, False])
def test_another_group_coordinator_finds_the_offsets_of_open_transactions(commit: bool) -> None:
    lab = made()
    client, other = Client(lab), Client(lab, "y")
    client.init()
    other.init()
    assert client.commit_offsets(offset=3) == [NONE]
    assert other.commit_offsets("h", offset=5) == [NONE]
    assert other.end(True) is NONE
    lab.change([2, 3, 1], 2, 0, IDS["__consumer_offsets"])
    lab.settle()
    lab.change([1, 2, 3], 1, 0, IDS["__consumer_offsets"])
    lab.settle()
    assert offset(lab, "h", stable=True) == (5, NONE)
    assert offset(lab, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert client.end(commit) is NONE
    assert offset(lab, stable=True) == ((3 if commit else -1), NONE)
    lab.change([2, 3, 1], 2, 0, IDS["__consumer_offsets"])
    lab.settle()
    lab.change([1, 2, 3], 1, 0, IDS["__consumer_offsets"])
    lab.settle()
    assert offset(lab, stable=True) == ((3 if commit else -1), NONE)


def test_a_plain_commit_behind_a_transactional_one_stays() -> None:
    lab = made()
    client = Client(lab)
    client.init()
    assert client.commit_offsets(offset=3) == [NONE]
    kind = message("OffsetCommitRequest")
    part = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=20)
    topic = kind.OffsetCommitRequestTopic(name="t", partitions=[part])
    client.call(COORDINATOR, "OffsetCommit", 5, kind(group_id="g", generation_id_or_member_epoch=-1, topics=[topic]))
    assert offset(lab) == (20, NONE)
    assert client.end(True) is NONE
    assert offset(lab) == (20, NONE)
    lab.change([2, 3, 1], 2, 0, IDS["__consumer_offsets"])
    lab.settle()
    lab.change([1, 2, 3], 1, 0, IDS["__consumer_offsets"])
    lab.settle()
    assert offset(lab) == (20, NONE), "and so the log says"


def test_a_consumer_of_another_generation_commits_nothing() -> None:
    """KIP-447."""
    lab = made()
    client = Client(lab)
    client.init()
    assert client.commit_offsets(generation_id=4, member_id="m") == [ErrorCode.ILLEGAL_GENERATION]
    assert client.commit_offsets("", version=5) == [ErrorCode.INVALID_GROUP_ID]
    assert client.commit_offsets(topic="missing") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert client.commit_offsets(producer_id=-1) == [ErrorCode.INVALID_REQUEST]
    assert client.commit_offsets(producer_epoch=5) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert client.commit_offsets(producer_id=77) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]


# ---- bad input


def lone(**settings: str) -> tuple[Lab, Client]:
    lab = made(**settings)
    client = Client(lab)
    assert client.init() is NONE
    return lab, client


def test_partitions_are_added_all_or_none() -> None:
    lab, client = lone()
    client.version = 0
    assert client.add(0, 9) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert client.add(0, topic="missing") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert client.add(0, topic="__consumer_offsets") == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert states(lab) == {"x": "Empty"}
    client.epoch += 1
    assert client.add(0) == [ErrorCode.PRODUCER_FENCED]
    assert client.add(0, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    client.id += 1
    assert client.add(0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]


@pytest.mark.parametrize(
    "id, timeout_ms, error",
    [
        ("", 1000, ErrorCode.INVALID_REQUEST),
        ("y", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("y", -1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("y", 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_ids_and_timeouts_that_are_refused(id: str, timeout_ms: int, error: ErrorCode) -> None:
    lab, _ = lone()
    client = Client(lab, id)
    assert client.init(timeout_ms) is error
    assert states(lab) == {"x": "Empty"}


def test_the_longest_id_is_kept() -> None:
    lab, _ = lone()
    client = Client(lab, "z" * 32_767)
    assert client.init() is NONE
    assert set(states(lab)) == {"x", client.transactional_id}


def test_memory_for_ids_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.broker.transactions.coordinator.IDS_BYTES_MAX", 2200)
    lab, client = lone()
    assert Client(lab, "y").init() is NONE
    assert Client(lab, "z").init() is ErrorCode.POLICY_VIOLATION
    assert client.send(0, 1) == [NONE, NONE]
    other = Client(lab, "y")
    assert other.init() is NONE
    assert other.send(0) == [ErrorCode.POLICY_VIOLATION]
    assert client.end(True) is NONE
    assert other.send(0, base_sequence=0) == [NONE], "the memory of an ended transaction is free"


def test_a_transaction_has_so_many_partitions_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.broker.transactions.coordinator.PARTITIONS_MAX", 1)
    _, client = lone()
    client.version = 0
    assert client.add(0) == [NONE]
    assert client.add(1) == [ErrorCode.POLICY_VIOLATION]
    assert client.add(0) == [NONE]
    assert client.end(True) is NONE
    assert client.add(1) == [NONE], "another transaction has room again"


def test_markers_of_many_partitions_are_placed_turn_by_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.node.roles.broker.transactions.transaction_markers.PARTS_A_TURN", 1)
    lab, client = lone()
    assert client.send(0, 1) == [NONE, NONE]
    assert client.end(True) is NONE
    assert states(lab) == {"x": "CompleteCommit"}
    assert stable(lab, 0) == stable(lab, 1) == (2, 2)


def test_who_is_no_coordinator_says_so() -> None:
    lab, client = lone()
    assert client.init(broker=3) is ErrorCode.NOT_COORDINATOR
    kind = message("DescribeTransactionsRequest")
    found = lab.call(3, "DescribeTransactions", 0, kind(transactional_ids=["x", "", "x"])).reply.transaction_states
    assert [one.error_code for one in found] == [ErrorCode.NOT_COORDINATOR, ErrorCode.INVALID_REQUEST]
    found = lab.call(1, "DescribeTransactions", 0, kind(transactional_ids=["x", "no"])).reply.transaction_states
    assert [(one.error_code, one.transaction_state) for one in found] == [
        (NONE, "Empty"),
        (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ""),
    ]


def test_transactions_are_listed_by_state_producer_duration_and_pattern() -> None:
    lab, client = lone()
    other = Client(lab, "other")
    other.init()
    other.send(0)
    lab.pass_ms(2000)
    kind = message("ListTransactionsRequest")

    def listed(version: int = 2, **filters: object) -> list[str]:
        reply = lab.call(COORDINATOR, "ListTransactions", version, kind(**filters)).reply
        return [one.transactional_id for one in reply.transaction_states]

    assert listed() == ["x", "other"]
    assert listed(state_filters=["Ongoing", "Sleeping"]) == ["other"]
    assert listed(state_filters=["Sleeping"]) == []
    assert listed(producer_id_filters=[client.id]) == ["x"]
    assert "other" not in listed(1, duration_filter=3000) and "other" in listed(1, duration_filter=1500)
    assert listed(transactional_id_pattern="o.*r") == ["other"]
    assert listed(transactional_id_pattern="o") == []
    reply = lab.call(COORDINATOR, "ListTransactions", 2, kind(transactional_id_pattern="(")).reply
    assert reply.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    reply = lab.call(COORDINATOR, "ListTransactions", 0, kind(state_filters=["Nope", "Nope"])).reply
    assert reply.unknown_state_filters == ["Nope"]


def test_a_batched_request_answers_each_transaction() -> None:
    lab, client = lone()
    kind = message("AddPartitionsToTxnRequest")

    def one(id: str, verify: bool, topic: str = "t", **more: int) -> object:
        return kind.AddPartitionsToTxnTransaction(
            transactional_id=id,
            producer_id=more.get("producer", client.id),
            producer_epoch=client.epoch,
            verify_only=verify,
            topics=[kind.AddPartitionsToTxnTopic(name=topic, partitions=[0, 0, 1])],
        )

    asked = [one("x", False), one("x", True, producer=77), one("y", True), one("", False), one("z", False, "missing")]
    reply = lab.call(COORDINATOR, "AddPartitionsToTxn", 5, kind(transactions=asked))
    lab.settle()
    answers = {
        found.transactional_id: [
            ErrorCode(part.partition_error_code) for topic in found.topic_results for part in topic.results_by_partition
        ]
        for found in reply.reply.results_by_transaction
    }
    assert answers == {
        "x": [NONE, NONE],
        "y": [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2,
        "": [ErrorCode.INVALID_REQUEST] * 2,
        "z": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2,
    }


def test_a_producer_whose_first_epoch_was_never_written_may_do_nothing() -> None:
    lab = made()
    lab.commit(ops.ConfigSet(2, "__transaction_state", "min.insync.replicas", "2"))
    lab.settle()
    lab.split |= {frozenset((1, 2)), frozenset((1, 3))}
    request = message("InitProducerIdRequest")(transactional_id="x", transaction_timeout_ms=60_000)
    asked = lab.call(COORDINATOR, "InitProducerId", 5, request)
    lab.pass_ms(7000)
    assert asked.done and asked.reply.error_code != 0
    client = Client(lab)
    client.id = lab.broker(COORDINATOR).transactions.machine.shards[0].entries["x"].transaction.producer_id
    client.epoch = -1
    assert client.add(0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert client.end(True) is client.end(False) is client.end(True, 3) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    lab.split.clear()
    lab.pass_ms(3000)
    assert client.init() is NONE and client.send(0) == [NONE]


def test_the_id_that_was_at_rest_for_longest_goes_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.broker.transactions.coordinator.IDS_BYTES_MAX", 3 * 801 + 300)
    lab, client = lone()
    assert client.send(0) == [NONE]
    assert Client(lab, "a").init() is NONE
    lab.pass_ms(1000)
    assert Client(lab, "b").init() is NONE
    assert Client(lab, "c").init() is ErrorCode.POLICY_VIOLATION, "others were used just now"
    monkeypatch.setattr("actors.broker.transactions.coordinator.SPARED_MS", 5_000)
    lab.pass_ms(4_500)
    assert Client(lab, "c").init() is NONE
    assert set(states(lab)) == {"x", "b", "c"}, "x has a transaction open"
    lab.pass_ms(5_500)
    assert Client(lab, "b").init() is NONE
    assert Client(lab, "d").init() is NONE
    assert set(states(lab)) == {"x", "b", "d"}
    assert lab.broker(COORDINATOR).transactions.machine._going == 0
    lab.change([2, 3, 1], 2, 0, IDS["__transaction_state"])
    lab.settle()
    assert set(states(lab, 2)) == {"x", "b", "d"}
    assert client.init(broker=2) in (NONE, ErrorCode.CONCURRENT_TRANSACTIONS)
