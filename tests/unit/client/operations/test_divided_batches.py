"""Batches that are too large for their topic: divided in order under the same numbers, down to the record to blame."""

import random
from typing import Any

import pytest

from actors.client.errors import ClientError, RecordRefused
from actors.client.operations.halves import halves
from actors.client.operations.producing import PartlyWritten, Piece, Placed, Producer
from actors.wire.errors import ErrorCode
from fastpath.records.batch import Builder, header, records, verify
from tests.unit.client.operations.test_producing import RESPONSE, introduced
from tests.unit.client.servers import Server, World


def batch(*values: bytes, codec: int = 0) -> bytearray:
    builder = Builder(attributes=codec)
    for number, value in enumerate(values):
        builder.append(b"k%d" % number, value, 1000 + number, [(b"h", value), (b"h", None)])
    return builder.build()


def answered(request: Any, row: Any) -> Any:
    """The answer to a Produce for one topic, with the row of its partition."""
    topic = request.topic_data[0]
    rows = RESPONSE.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[row])
    return RESPONSE(responses=[rows])


class Narrow:
    """A leader that takes batches of so many bytes, and keeps numbers as a broker does. `others`: records of other clients
    that come after each batch."""

    def __init__(self, bytes_max: int, others: int = 0) -> None:
        self.bytes_max = bytes_max
        self.others = others
        self.end = 0
        self.next: int | None = None
        self.values: list[bytes | None] = []

    def __call__(self, server: Server, version: int, request: Any) -> Any:
        (topic,) = request.topic_data
        (one,) = topic.partition_data
        head = verify(one.records)
        code, offset = 0, -1
        if head.size > self.bytes_max:
            code = int(ErrorCode.MESSAGE_TOO_LARGE)
        elif self.next not in (None, head.base_sequence):
            code = int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        else:
            self.next, offset = head.base_sequence + head.count, self.end
            self.end += head.count + self.others
            self.values += [record.value for record in records(one.records)]
        row = RESPONSE.PartitionProduceResponse(index=one.index, error_code=code, base_offset=offset)
        return answered(request, row)


def world(log: Narrow, **config: Any) -> tuple[World, Producer]:
    server = Server("a", 1, {"Produce": log, "InitProducerId": introduced})
    made = World(server, **config)
    server.answers["Metadata"] = lambda *_: made.metadata(t=(1, [1]))
    return made, Producer(made.config)


def many(count: int, size: int = 30) -> list[bytes]:
    return [b"%04d" % n + b"x" * size for n in range(count)]


@pytest.mark.parametrize("codec", [0, 3])
@pytest.mark.parametrize("others", [0, 3])
def test_all_records_are_written_in_order_whatever_the_topic_takes(codec: int, others: int) -> None:
    values = [random.Random(n).randbytes(40) for n in range(400)]
    for bytes_max in (200, 1000, 10_000):
        log = Narrow(bytes_max, others)
        made, producer = world(log)
        given = [(("t", 0), batch(*values[n : n + 80], codec=codec)) for n in range(0, 400, 80)]
        placed = made.run(producer.send(given))
        assert log.values == values
        assert (producer.divided > 0) is (bytes_max < 10_000)
        begin = 0
        for one in placed:
            assert isinstance(one, Placed) and one.offset == begin
            pieces = 1 if one.last < 0 else (one.last + 1 - begin - 80) // others + 1 if others else 0
            begin = begin + 80 + others * pieces
        assert begin == log.end
        assert made.run(producer.send([(("t", 0), batch(b"more"))])) == [Placed(log.end - 1 - others, -1)]


def test_a_record_that_alone_is_too_large_is_told_and_what_was_written_of_its_batch() -> None:
    log = Narrow(500)
    made, producer = world(log)
    values = [*many(70), b"y" * 600, *many(9)]
    first, second = made.run(producer.send([(("t", 0), batch(*values)), (("t", 0), batch(b"behind"))]))
    assert isinstance(first, PartlyWritten) and isinstance(first.error, RecordRefused)
    assert first.error.record == 70 and first.code == ErrorCode.MESSAGE_TOO_LARGE
    assert isinstance(second, ClientError), "what is behind it is not written, as it would stand in its place"
    assert [piece.records for piece in first.pieces] and sum(piece.records for piece in first.pieces) == log.end
    assert first.pieces[0] == Piece(0, first.pieces[0].records, Placed(0, -1))
    assert log.values == values[: log.end]


def test_without_numbers_batches_are_divided_as_well() -> None:
    log = Narrow(400)
    config = {"enable.idempotence": "false", "acks": "1", "max.in.flight.requests.per.connection": "1"}
    made, producer = world(log, **config)
    log.next = -1

    def takes(server: Server, version: int, request: Any) -> Any:
        log.next = -1
        return log(server, version, request)

    next(iter(made.servers.values())).answers["Produce"] = takes
    (placed,) = made.run(producer.send([(("t", 0), batch(*many(50)))]))
    assert placed == Placed(0, -1, 49) and log.values == many(50)


def test_numbers_wrap_inside_a_batch_that_is_divided() -> None:
    log = Narrow(400)
    made, producer = world(log)
    made.run(producer.send([(("t", 0), batch(b"a"))]))
    producer._sequences["t", 0] = log.next = (1 << 31) - 7
    seen: list[int] = []

    def takes(server: Server, version: int, request: Any) -> Any:
        head = header(request.topic_data[0].partition_data[0].records)
        answer = log(server, version, request)
        if head.size <= 400:
            seen.append(head.base_sequence)
            log.next = (head.base_sequence + head.count) % (1 << 31)
        return answer

    next(iter(made.servers.values())).answers["Produce"] = takes
    made.run(producer.send([(("t", 0), batch(*many(20)))]))
    assert log.values == [b"a", *many(20)]
    assert seen[0] == (1 << 31) - 7 and min(seen) < 20


def test_halves_have_the_records_and_the_codec() -> None:
    for codec in range(5):
        values = many(7)
        whole = batch(*values, codec=codec)
        first, second = halves(whole)
        assert [verify(one).attributes for one in (first, second)] == [codec, codec]
        both = [record[1:] for one in (first, second) for record in records(one)]
        assert both == [record[1:] for record in records(whole)]
        assert [header(one).count for one in (first, second)] == [3, 4]
    damaged = batch(*many(4), codec=4)
    damaged[70] ^= 0xFF
    with pytest.raises(ClientError, match="cannot be divided"):
        halves(damaged[:61] + b"\xff" * (len(damaged) - 61))


def test_sends_for_partitions_of_their_own_may_be_under_way_at_once() -> None:
    """When one fails, the others do not go on under numbers that are lost."""

    def takes(server: Server, version: int, request: Any) -> Any:
        one = request.topic_data[0].partition_data[0]
        server.seen = [*getattr(server, "seen", []), (one.index, header(one.records).producer_id)]  # type: ignore[attr-defined]
        fails = {0: int(ErrorCode.INVALID_RECORD), 1: int(ErrorCode.NOT_ENOUGH_REPLICAS)}
        row = RESPONSE.PartitionProduceResponse(index=one.index, error_code=fails[one.index], base_offset=-1)
        return answered(request, row)

    server = Server("a", 1, {"Produce": takes, "InitProducerId": introduced})
    made = World(server)
    server.answers["Metadata"] = lambda *_: made.metadata(t=(1, [1, 1]))
    producer = Producer(made.config)
    made.run(producer.introduce())
    made.run(producer.introduce())
    assert server.introduced == 1  # type: ignore[attr-defined]
    tasks = [made.client.start(producer.send([(("t", part), batch(b"v"))]), made.now_us) for part in (1, 0)]
    (error,) = made.wait(tasks[1])
    assert isinstance(error, ClientError)
    with pytest.raises(ClientError, match="other batches of the producer have failed"):
        made.wait(tasks[0])
    assert {id for _, id in server.seen} == {101}  # type: ignore[attr-defined]


def test_the_record_that_a_leader_names_is_told() -> None:
    def takes(server: Server, version: int, request: Any) -> Any:
        kind = RESPONSE.PartitionProduceResponse
        row = kind(
            index=0, error_code=int(ErrorCode.INVALID_TIMESTAMP), base_offset=-1, error_message="too old",
            record_errors=[RESPONSE.BatchIndexAndErrorMessage(batch_index=2)],
        )  # fmt: skip
        return answered(request, row)

    server = Server("a", 1, {"Produce": takes, "InitProducerId": introduced})
    made = World(server)
    server.answers["Metadata"] = lambda *_: made.metadata(t=(1, [1]))
    (error,) = made.run(Producer(made.config).send([(("t", 0), batch(*many(4)))]))
    assert isinstance(error, RecordRefused) and error.record == 2 and "too old (INVALID_TIMESTAMP)" in str(error)


def test_a_batch_of_more_than_what_is_read_of_strangers_is_divided() -> None:
    """Records of 104 MiB that compress to little, as a large batch.size makes them."""
    builder = Builder(attributes=4)
    for _ in range(13):
        builder.append(None, b"x" * (8 << 20))
    first, second = halves(builder.build())
    assert (header(first).count, header(second).count) == (6, 7)
    assert [len(record.value or b"") for record in records(second)] == [8 << 20] * 7
