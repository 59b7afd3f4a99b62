"""How a test's records are spread and cut, and what its names are."""

import socket
import time
from contextlib import closing

import pytest

from actors.testing import kafka
from actors.testing.kafka import Kafka, NoCluster
from fastpath.records.batch import headers, records


def test_names_are_legal_and_differ() -> None:
    given = {"bootstrap.servers": "a:1"}
    one, other = Kafka(given, "test_x[a/b-ü ?]"), Kafka(given, "test_x[a/b-ü ?]")
    assert one.prefix != other.prefix and one.prefix.startswith("test_x-a-b-")
    assert (
        set(one.name("t")) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-t")
        and len(Kafka(given, "x" * 500).prefix) < 80
    )
    assert Kafka(given, "[ü]").prefix.startswith("test-") and one.bootstrap_servers == "a:1"
    with pytest.raises(NoCluster, match="was not started by the tests"):
        _ = one.cluster


def test_a_kafka_that_says_nothing_is_waited_for_as_long_as_was_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = Kafka({"bootstrap.servers": f"127.0.0.1:{server.getsockname()[1]}"}, "test_x")
        began = time.monotonic()
        with (
            closing(one),
            pytest.raises(TimeoutError, match="topic t has 0 records after 1 s, not 2: there was no result"),
        ):
            one.consume("t", 2, timeout_s=1)
        assert time.monotonic() - began < 20


def test_partitions_take_turns_and_keys_have_their_own() -> None:
    found = kafka._by_partition(["a", b"b", None], None, None, 2)
    assert found == {0: [(None, b"a"), (None, None)], 1: [(None, b"b")]}
    keyed = kafka._by_partition([b"1", b"2", b"3"], ["k", None, "k"], None, 8)
    assert sorted(len(one) for one in keyed.values()) in ([1, 2], [3])
    assert kafka._by_partition(["a", "b"], ["x", "y"], 5, 8).keys() == {5}
    with pytest.raises(ValueError):
        kafka._by_partition(["a"], ["x", "y"], None, 8)


def test_batches_are_cut_by_size_and_none_is_empty() -> None:
    given = [(None, bytes(200_000))] * 5 + [(b"k", None)]
    cut = list(kafka._batches(given, ((b"h", None),), 7))
    assert [header.count for batch in cut for header in headers(batch)] == [2, 2, 2]
    last = list(records(cut[-1]))[-1]
    assert (last.key, last.value, last.timestamp, last.headers) == (b"k", None, 7, ((b"h", None),))
    assert list(kafka._batches([], (), 0)) == []
    assert len(list(kafka._batches([(None, b"")], (), 0))) == 1, "an empty value is a record"
