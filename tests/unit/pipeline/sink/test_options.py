"""The options of a sink: Spark's names, what contradicts each other, and what is refused by its name."""

import pytest

from actors.pipeline.sink.options import target

ADDRESS = {"kafka.bootstrap.servers": "localhost:9092"}
SINK = ADDRESS | {"topic": "out", "sinkId": "orders-v1"}


def test_a_sink_writes_each_row_once_with_transactions_as_long_as_brokers_allow() -> None:
    found = target(SINK)
    assert (found.topic, found.sink, found.ledger, found.batch, found.accepted) == (
        "out", "orders-v1", "rayft-sinks", None, -1
    )  # fmt: skip
    assert (found.headers, found.timestamp) == (True, False)
    assert found.settings["transaction.timeout.ms"] == "900000"
    assert found.settings["allow.auto.create.topics"] == "false"


def test_names_are_taken_in_any_case_and_settings_count_before_defaults() -> None:
    found = target({
        "KAFKA.bootstrap.servers": "a:1", "SINKID": "s", "topic": "Out", "batchid": "7", "acceptlostbatch": "6",
        "includeheaders": "FALSE", "includeTimestamp": "true", "ledger": "l", "firstBatch": "5",
        "kafka.transaction.timeout.ms": "5000",
        "kafka.compression.type": "zstd", "checkpointLocation": "/c",
    })  # fmt: skip
    assert (found.topic, found.sink, found.batch, found.accepted, found.ledger) == ("Out", "s", 7, 6, "l")
    assert (found.headers, found.timestamp, found.first) == (False, True, 5)
    assert (found.settings["transaction.timeout.ms"], found.settings["compression.type"]) == ("5000", "zstd")


def test_transactions_of_a_two_phase_commit_have_no_timeout() -> None:
    two_phase = {"kafka.transaction.two.phase.commit.enable": "true"}
    assert "transaction.timeout.ms" not in target(SINK | two_phase).settings
    with pytest.raises(ValueError, match=r"transaction\.timeout\.ms has no meaning with"):
        target(SINK | two_phase | {"kafka.transaction.timeout.ms": "5000"})
    with pytest.raises(ValueError, match=r"needs a transactional\.id"):
        target(ADDRESS | two_phase | {"delivery": "at-least-once"})


def test_without_the_promise_there_is_no_sink_id() -> None:
    found = target(ADDRESS | {"delivery": "at-least-once", "kafka.acks": "1"})
    assert (found.sink, found.topic) == ("", None)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"sinkId": None}, "option sinkId is missing"),
        ({"sinkId": "a/b"}, "option sinkId: write up to 100 letters"),
        ({"sinkId": ""}, "option sinkId: write up to 100 letters"),
        ({"sinkId": "a" * 101}, "option sinkId: write up to 100 letters"),
        ({"delivery": "once"}, "option delivery: write exactly-once or at-least-once"),
        ({"delivery": "at-least-once"}, "option sinkId means nothing with delivery=at-least-once"),
        ({"kafka.bootstrap.servers": None}, "option kafka.bootstrap.servers is missing"),
        ({"kafka.transactional.id": "t"}, "option kafka.transactional.id is not supported: it is made of sinkId"),
        ({"kafka.acks": "1"}, "option kafka.acks=1 contradicts delivery=exactly-once"),
        ({"kafka.enable.idempotence": "false"}, "option kafka.enable.idempotence=false contradicts"),
        ({"kafka.key.serializer": "x"}, "option kafka.key.serializer is not supported"),
        ({"kafka.compression.type": "zip"}, r"options kafka\.\*: compression.type=zip is not allowed"),
        ({"sinkid": "b"}, "option sinkid is given twice"),
        ({"topics": "b"}, "a sink has no option topics: did you mean topic"),
        ({"path": "/x"}, "option path: a sink writes to topics by address"),
        ({"batchId": "-1"}, "option batchId: write a number from 0 on"),
        ({"batchId": str(1 << 63)}, "option batchId: write a number from 0 on"),
        ({"acceptLostBatch": "x"}, "option acceptLostBatch: write a number from 0 on"),
        ({"includeHeaders": "yes"}, "option includeHeaders: write true or false"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(more: dict[str, str | None], words: str) -> None:
    given = {name: text for name, text in (SINK | more).items() if text is not None}
    with pytest.raises(ValueError, match=words):
        target(given)


def test_a_target_shows_no_secret() -> None:
    assert "hidden" not in repr(target(SINK | {"kafka.sasl.password": "hidden", "kafka.sasl.username": "a"}))
