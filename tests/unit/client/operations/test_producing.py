"""Produce without brokers: order, sequence numbers, what is sent again, and transactions that can only be aborted."""

from typing import Any

import pytest

from actors.client.asks import KeyType
from actors.client.errors import ClientError
from actors.client.operations.producing import Placed, Producer
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder, verify
from tests.unit.client.servers import Server, World

RESPONSE = message("ProduceResponse")


def batch(count: int = 1) -> bytearray:
    builder = Builder()
    for _ in range(count):
        builder.append(None, b"v")
    return builder.build()


class Log:
    """A leader of partitions that keeps sequence numbers as a broker does. `fails`: error codes or exceptions of the next
    requests; (code, True): it was written all the same."""

    def __init__(self, *fails: Any) -> None:
        self.fails = list(fails)
        self.ends: dict[int, int] = {}
        self.last: dict[int, list[tuple[int, int]]] = {}
        """Partition -> (sequence, offset) of what it has."""
        self.written: list[tuple[int, int]] = []
        """(partition, sequence) in order."""

    def __call__(self, server: Server, version: int, request: Any) -> Any:
        fail = self.fails.pop(0) if self.fails else 0
        fail, kept = fail if isinstance(fail, tuple) else (fail, False)
        parts = []
        for topic in request.topic_data:
            for one in topic.partition_data:
                header = verify(one.records)
                code, offset = (0, -1) if not fail or kept else (fail, -1)
                if not code:
                    code, offset = self.take(one.index, header)
                parts.append(RESPONSE.PartitionProduceResponse(
                    index=one.index, error_code=fail if isinstance(fail, int) and fail else code, base_offset=offset
                ))  # fmt: skip
        if isinstance(fail, Exception):
            return fail
        name, id = request.topic_data[0].name, request.topic_data[0].topic_id
        return RESPONSE(responses=[RESPONSE.TopicProduceResponse(name=name, topic_id=id, partition_responses=parts)])

    def take(self, part: int, header: Any) -> tuple[int, int]:
        known = self.last.setdefault(part, [])
        for sequence, offset in known[-5:]:
            if sequence == header.base_sequence:
                return 0, offset
        if known and header.base_sequence != known[-1][0] + 1:
            return int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1
        offset = len(known)
        known.append((header.base_sequence, offset))
        self.written.append((part, header.base_sequence))
        return 0, offset


def introduced(server: Server, version: int, request: Any) -> Any:
    server.introduced = getattr(server, "introduced", 0) + 1  # type: ignore[attr-defined]
    return message("InitProducerIdResponse")(producer_id=100 + server.introduced, producer_epoch=0)  # type: ignore[attr-defined]


def world(log: Log, **config: Any) -> World:
    server = Server("a", 1, {"Produce": log, "InitProducerId": introduced})
    made = World(server, **config)
    server.answers["Metadata"] = lambda *_: made.metadata(t=(1, [1, 1]))
    return made


def test_batches_are_numbered_and_the_first_goes_alone() -> None:
    log = Log()
    made = world(log)
    placed = made.run(Producer(made.config).send([(("t", 0), batch()) for _ in range(10)]))
    assert placed == [Placed(n, -1) for n in range(10)]
    assert log.written == [(0, n) for n in range(10)]


@pytest.mark.parametrize(
    "fail",
    [
        int(ErrorCode.NOT_ENOUGH_REPLICAS),
        int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), True),
        (int(ErrorCode.REQUEST_TIMED_OUT), True),
        ConnectionError("reset"),
        (ConnectionError("reset"), True),
    ],
)
@pytest.mark.parametrize("at", [0, 1, 3])
def test_what_fails_is_sent_again_in_order_and_nothing_is_twice(fail: Any, at: int) -> None:
    log = Log(*[0] * at, fail)
    made = world(log)
    producer = Producer(made.config)
    placed = made.run(producer.send([(("t", 0), batch()) for _ in range(9)]))
    assert placed == [Placed(n, -1) for n in range(9)]
    assert log.written == [(0, n) for n in range(9)]
    assert made.run(producer.send([(("t", 0), batch())])) == [Placed(9, -1)]


def test_a_batch_that_is_refused_is_told_and_the_producer_begins_anew() -> None:
    log = Log(0, int(ErrorCode.MESSAGE_TOO_LARGE))
    made = world(log)
    producer = Producer(made.config)
    made.run(producer.send([(("t", 0), batch())]))
    (error,) = made.run(producer.send([(("t", 0), batch())]))
    assert isinstance(error, ClientError) and "partition t/0: a record batch is larger" in str(error)
    log.last.clear()
    assert made.run(producer.send([(("t", 0), batch())])) == [Placed(0, -1)]
    (server,) = made.servers.values()
    assert server.introduced == 2  # type: ignore[attr-defined]


def test_sequence_numbers_wrap() -> None:
    log = Log()
    made = world(log)
    producer = Producer(made.config)
    made.run(producer.send([(("t", 0), batch())]))
    producer._sequences["t", 0] = (1 << 31) - 2
    log.last.clear()
    made.run(producer.send([(("t", 0), batch(3))]))
    assert producer._sequences["t", 0] == 1


def test_without_acks_nothing_is_waited_for() -> None:
    made = world(Log(), acks="0")
    assert made.run(Producer(made.config).send([(("t", 0), batch())])) == [Placed(-1, -1)]


def test_a_batch_with_something_behind_it_is_refused_before_it_is_sent() -> None:
    made = world(Log())
    with pytest.raises(ClientError, match="a batch for t/0 has"):
        made.run(Producer(made.config).send([(("t", 0), batch() + b"x")]))


def test_the_same_bytes_given_twice_are_written_twice() -> None:
    log, data = Log(), batch()
    made = world(log)
    producer = Producer(made.config)
    made.run(producer.send([(("t", 1), batch())]))
    placed = made.run(producer.send([(("t", 0), data), (("t", 0), data), (("t", 1), data)]))
    assert placed == [Placed(0, -1), Placed(1, -1), Placed(1, -1)]
    assert log.written == [(1, 0), (0, 0), (1, 1), (0, 1)]


@pytest.mark.parametrize("data", [b"", b"x" * 80, batch()[:-1]])
def test_bytes_that_are_no_batch_are_told_and_nothing_is_left_of_the_operation(data: bytes) -> None:
    made = world(Log())
    with pytest.raises(ClientError, match="a batch for t/0 is none"):
        made.run(Producer(made.config).send([(("t", 0), data)]))
    assert not made.client._tasks


def test_too_many_requests_in_flight_for_a_producer_that_numbers() -> None:
    made = world(Log(), **{"max.in.flight.requests.per.connection": 6})
    with pytest.raises(ClientError, match="write 5 or less"):
        Producer(made.config)


def transactional(log: Log, **config: Any) -> tuple[World, Server]:
    made = world(log, transactional_id="x", **config)
    (server,) = made.servers.values()
    coordinator = message("FindCoordinatorResponse")
    server.answers["FindCoordinator"] = coordinator(coordinators=[coordinator.Coordinator(key="x", node_id=1)])
    added = message("AddPartitionsToTxnResponse")
    server.answers["AddPartitionsToTxn"] = added()
    server.answers["EndTxn"] = message("EndTxnResponse")()
    return made, server


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_of_offsets_alone_is_ended_too(commit: bool, version: int) -> None:
    made, server = transactional(Log(), **({"transaction_two_phase_commit_enable": "true"} if version else {}))
    coordinator = message("FindCoordinatorResponse")
    server.answers["FindCoordinator"] = coordinator(
        coordinators=[coordinator.Coordinator(key=key, node_id=1) for key in ("x", "g")]
    )
    server.answers |= {
        "AddOffsetsToTxn": message("AddOffsetsToTxnResponse")(),
        "TxnOffsetCommit": message("TxnOffsetCommitResponse")(),
    }
    server.versions["InitProducerId"] = (0, 6)
    producer = Producer(made.config)
    made.run(producer.begin())
    made.run(producer.send_offsets("g", {("t", 0): 5}))
    if version:
        producer.prepare()
    made.run(producer.commit() if commit else producer.abort())
    assert [request.committed for name, _, request in server.asked if name == "EndTxn"] == [commit]


def test_a_transaction_whose_abort_has_failed_is_still_open() -> None:
    """Else the next commit would commit what the failed transaction has written."""
    made, server = transactional(Log(int(ErrorCode.MESSAGE_TOO_LARGE)))
    producer = Producer(made.config)
    made.run(producer.begin())
    (error,) = made.run(producer.send([(("t", 0), batch())]))
    assert isinstance(error, ClientError)
    server.answers["InitProducerId"] = message("InitProducerIdResponse")(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
    with pytest.raises(ClientError, match="no result in time"):
        made.run(producer.abort(), 2000)
    with pytest.raises(ClientError, match="a transaction is open"):
        made.run(producer.begin())
    server.answers["InitProducerId"] = introduced
    made.run(producer.abort())
    made.run(producer.begin())
    assert "EndTxn" not in [name for name, _, _ in server.asked]


def test_a_commit_of_which_nobody_knows_is_not_aborted_but_asked_for_again() -> None:
    made, server = transactional(Log())
    producer = Producer(made.config)
    made.run(producer.begin())
    made.run(producer.send([(("t", 0), batch())]))
    server.answers["EndTxn"] = ConnectionError("reset")  # it may have been carried out
    with pytest.raises(ClientError, match="no result in time"):
        made.run(producer.commit(), 2000)
    for wrong in (producer.abort, producer.begin):
        with pytest.raises(ClientError, match="not known whether the transaction was committed: commit again"):
            made.run(wrong())
    with pytest.raises(ClientError, match="commit again"):
        made.run(producer.send([(("t", 0), batch())]))
    server.answers["EndTxn"] = message("EndTxnResponse")()
    made.run(producer.commit())
    made.run(producer.begin())


@pytest.mark.parametrize("request_name", ["EndTxn", "FindCoordinator"])
def test_a_refusal_of_a_later_try_says_nothing_of_a_commit_that_was_sent_before(request_name: str) -> None:
    made, server = transactional(Log())
    producer = Producer(made.config)
    made.run(producer.begin())
    made.run(producer.send([(("t", 0), batch())]))
    answers = dict(server.answers)
    server.answers["EndTxn"] = ConnectionError("reset")  # it may have been carried out
    with pytest.raises(ClientError, match="no result in time"):
        made.run(producer.commit(), 2000)
    denied = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    kind = message("FindCoordinatorResponse")
    server.answers["EndTxn"] = message("EndTxnResponse")(error_code=denied)
    if request_name == "FindCoordinator":
        made.client.forget_coordinator(KeyType.TRANSACTION, "x")
        server.answers["FindCoordinator"] = kind(coordinators=[kind.Coordinator(key="x", error_code=denied)])
    with pytest.raises(ClientError) as refused:
        made.run(producer.commit())
    assert refused.value.code == denied
    with pytest.raises(ClientError, match="not known whether the transaction was committed: commit again"):
        made.run(producer.abort())
    server.answers.update(answers)
    made.run(producer.commit())
    made.run(producer.begin())


def test_a_commit_that_the_coordinator_says_there_was_none_of_can_be_aborted() -> None:
    made, server = transactional(Log())
    producer = Producer(made.config)
    made.run(producer.begin())
    made.run(producer.send([(("t", 0), batch())]))
    server.answers["EndTxn"] = message("EndTxnResponse")(error_code=ErrorCode.INVALID_TXN_STATE)
    with pytest.raises(ClientError, match="INVALID_TXN_STATE"):
        made.run(producer.commit())
    made.run(producer.abort())
    made.run(producer.begin())
