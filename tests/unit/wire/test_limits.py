"""The limit on the entries of a request: what counts, where it is checked, and what is said above it."""

from pathlib import Path

import pytest

from actors.node.api.handlers import load
from actors.wire import framing, limits
from actors.wire.errors import WireError
from actors.wire.messages import decode, encode, message
from tests.reference import wire
from tests.served import EVERY as TABLE

load()


def frame(name, version, body):
    return memoryview(b"".join(bytes(part) for part in framing.encode_request(name, version, 1, None, body)))[4:]


def test_a_request_may_have_as_many_entries_as_its_limit_says_and_no_more():
    kind = message("DeleteTopicsRequest")
    most = limits.entries_max("DeleteTopics")
    whole = frame("DeleteTopics", 3, kind(topic_names=["t"] * most))
    _, position = framing.decode_request_header(whole)
    assert len(framing.decode_request("DeleteTopics", 3, whole, position).topic_names) == most
    above = frame("DeleteTopics", 3, kind(topic_names=["t"] * (most + 1)))
    with pytest.raises(WireError, match=f"DeleteTopicsRequest.topic_names: more than {most} entries"):
        framing.decode_request("DeleteTopics", 3, above, position)


def test_entries_of_all_depths_count_together():
    kind = message("ProduceRequest")
    one = kind.PartitionProduceData(index=0, records=None)
    body = kind(topic_data=[kind.TopicProduceData(name="t", partition_data=[one] * 3)] * 5)
    data = encode(body, 9)
    assert decode("ProduceRequest", 9, data, 0, 20)[0] == body
    with pytest.raises(WireError, match=r"topic_data\[4\].partition_data: more than 19 entries"):
        decode("ProduceRequest", 9, data, 0, 19)


def test_unknown_tagged_fields_count_too():
    body = encode(message("ApiVersionsRequest")(), 3)[:-1]
    tags = wire.uvarint(100) + b"".join(wire.uvarint(number) + b"\0" for number in range(100, 200))
    assert decode("ApiVersionsRequest", 3, body + tags, 0, 100)
    with pytest.raises(WireError, match="more than 99 entries"):
        decode("ApiVersionsRequest", 3, body + tags, 0, 99)


def test_every_request_that_is_served_has_a_limit():
    for api in TABLE.values():
        assert 1_000 <= limits.entries_max(api.name) <= 500_000, api.name


def test_the_operators_table_is_the_one_that_holds():
    text = (Path(__file__).parents[3] / "docs/operations.md").read_text()
    table = text.partition("## Limits on requests")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    shown = {name: int(number.replace(",", "")) for names, number in rows for name in names.split(", ")}
    assert shown.pop("any other") == limits.ENTRIES_MAX
    served = {api.name for api in TABLE.values()}
    assert {name: limits.entries_max(name) for name in served} == {name: limits.ENTRIES_MAX for name in served} | shown


def test_an_element_that_is_encoded_already_is_written_as_it_is():
    kind = message("MetadataResponse")
    topics = [kind.MetadataResponseTopic(name=f"t{number}", topic_id=bytes(16), partitions=[]) for number in range(3)]
    for version in (1, 8, 12):
        mixed = kind(brokers=[], topics=[topics[0], encode(topics[1], version), topics[2]])
        assert encode(mixed, version) == encode(kind(brokers=[], topics=topics), version)
