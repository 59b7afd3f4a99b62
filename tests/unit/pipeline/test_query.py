"""The options of a read by address: Spark's own, and what is refused in which words."""

import pickle

import pytest

from actors.pipeline.query import is_by_address, query

ADDRESS = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def refused(stream: bool = False, **options: str) -> str:
    with pytest.raises(ValueError) as caught:
        query({**ADDRESS, **{name.replace("__", "."): text for name, text in options.items()}}, stream)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_defaults_are_those_of_sparks_own_source() -> None:
    batch, stream = (query(ADDRESS, is_stream) for is_stream in (False, True))
    assert (batch.starting.word, batch.ending.word, stream.starting.word) == ("earliest", "latest", "latest")
    assert batch.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert batch.fail_on_data_loss and batch.topics.names == ("orders",) and batch.config.isolation == 0
    assert (batch.partitions_min, batch.records_max, batch.trigger_max, batch.trigger_min) == (None,) * 4
    assert batch.delay_max_ms == 15 * 60_000 and batch.group == ""


def test_options_are_taken_whatever_the_case_of_their_names() -> None:
    options = {
        "KAFKA.BOOTSTRAP.SERVERS": "h:1", "SubscribePattern": "or.*", "includeheaders": "TRUE", "MINPARTITIONS": "9",
        "maxRecordsPerPartition": "70", "failondataloss": "false", "kafka.isolation.level": "read_committed",
        "maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "2", "maxTriggerDelay": "90s", "kafka.group.id": "g",
        "kafkaConsumer.pollTimeoutMs": "7000", "fetchOffset.numRetries": "3", "groupIdPrefix": "p",
    }  # fmt: skip
    found = query(options, True)
    assert found.topics.pattern is not None and found.topics.pattern.pattern == "or.*"
    assert found.columns[-1] == "headers" and (found.partitions_min, found.records_max) == (9, 70)
    assert (found.trigger_max, found.trigger_min, found.delay_max_ms, found.group) == (5, 2, 90_000, "g")
    assert not found.fail_on_data_loss
    assert found.config.isolation == 1 and found.config.api_timeout_ms == 7000
    assert pickle.loads(pickle.dumps(found)) == found, "tasks are sent it"


def test_a_clients_setting_counts_before_what_a_query_takes_for_it() -> None:
    own = {"kafka.default.api.timeout.ms": "1", "kafka.fetch.max.bytes": "5", "kafkaConsumer.pollTimeoutMs": "2"}
    config = query({**ADDRESS, **own}, False).config
    assert (config.api_timeout_ms, config.fetch_max_bytes) == (1, 5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minPartition": "3"}, "no option minPartition: did you mean minPartitions?"),
        ({"zebra": "3"}, "no option zebra: there are assign, columns, "),
        ({"kafka__auto.offset.reset": "earliest"}, "kafka.auto.offset.reset is not supported: .* startingOffsets"),
        ({"kafka__enable.auto.commit": "true"}, "kafka.enable.auto.commit is not supported: .* checkpoint"),
        ({"kafka__value.deserializer": "X"}, "kafka.value.deserializer is not supported: keys and values"),
        ({"kafka__isolation.levle": "x"}, r"options kafka\.\*: isolation.levle .* did you mean isolation.level"),
        ({"kafka__isolation.level": "x"}, r"options kafka\.\*: isolation.level=x is not allowed"),
        ({"assign": '{"orders": [0]}'}, "subscribe and assign contradict each other"),
        ({"subscribe": " , "}, "option subscribe: write the names"),
        ({"includeHeaders": "yes"}, "option includeHeaders: write true or false"),
        ({"includeHeaders": "true", "columns": "key"}, "includeHeaders=true contradicts columns"),
        ({"columns": "key,colour"}, "option columns: .* no column 'colour'"),
        ({"columns": "key,key"}, "option columns: write some columns, each once"),
        ({"minPartitions": "0"}, "option minPartitions: write a number above 0"),
        ({"maxTriggerDelay": "soon"}, "option maxTriggerDelay: write a time such as 15m"),
        ({"startingOffsets": "latest"}, "startingOffsets: a batch cannot begin at latest"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "startingOffsets: a batch cannot begin at latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets: a batch cannot end at earliest"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "endingOffsets: a batch cannot end at earliest"),
        ({"startingTimestamp": "now"}, "startingTimestamp: write milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "skip"}, "startingOffsetsByTimestampStrategy: write error or latest"),
        ({"MINPARTITIONS": "1", "minPartitions": "2"}, "option minPartitions is given twice"),
    ],
)
def test_what_contradicts_or_is_unknown_is_refused_by_name(options: dict[str, str], words: str) -> None:
    import re

    assert re.search(words, refused(**options)), refused(**options)


def test_what_is_read_and_where_must_be_said() -> None:
    for options, words in (
        ({"subscribe": "orders"}, "kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": "h:1"}, "no option says what is read: write one of subscribe, "),
        ({"kafka.bootstrap.servers": "h:1", "subscribePattern": "("}, "subscribePattern is no regular expression"),
    ):
        with pytest.raises(ValueError, match=words):
            query(options, False)


def test_a_stream_refuses_an_end_and_a_batch_ignores_what_is_a_streams() -> None:
    assert "option endingOffsets: a stream has no end" in refused(stream=True, endingOffsets="latest")
    assert query({**ADDRESS, "maxOffsetsPerTrigger": "5"}, False).trigger_max == 5
    assert query({**ADDRESS, "endingOffsets": "latest", "startingOffsets": "latest"}, None).columns


def test_a_time_counts_before_times_and_these_before_offsets() -> None:
    times = '{"orders": {"0": 1000}}'
    given = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": times, "startingTimestamp": "77"}
    assert query({**ADDRESS, **given}, False).starting.time_ms == 77
    del given["startingTimestamp"]
    assert query({**ADDRESS, **given}, False).starting.times_ms == {("orders", 0): 1000}


def test_files_and_addresses_do_not_mix_and_secrets_are_not_shown() -> None:
    assert is_by_address(ADDRESS) and is_by_address({"assign": "x"}) and not is_by_address({"path": "/x"})
    with pytest.raises(ValueError, match=r"subscribe reads topics by address and path reads what lies here"):
        is_by_address({"path": "/x", "subscribe": "orders"})
    secret = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN",
              "kafka.sasl.jaas.config": 'x required username="u" password="geheim";'}  # fmt: skip
    found = query({**ADDRESS, **secret}, False)
    assert "geheim" not in repr(found) and found.config.login is not None
    assert "geheim" not in refused(**{**secret, "kafka.sasl.mechanism": "X"})
