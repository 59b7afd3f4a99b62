"""The codec compared with kio's (whose decoder is native code): messages of the hot path, decode and encode.

`pytest -s bench/test_codec.py` prints the ratios and fails below 1.0. Figures are microseconds for each message, the
best of several rounds, with rayft and kio in turn.
"""

import io
import time
from collections.abc import Callable
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from actors.wire.messages import decode, encode, encode_parts, message


def metadata_response() -> Any:
    """50 topics of 8 partitions on 3 brokers."""
    cls = message("MetadataResponse")
    partition = {"leader_id": 1, "leader_epoch": 3, "replica_nodes": [1, 2, 3], "isr_nodes": [1, 2, 3]}
    topics = [
        cls.MetadataResponseTopic(
            name=f"orders-{number}",
            topic_id=bytes([number + 1]) * 16,
            partitions=[cls.MetadataResponsePartition(partition_index=index, **partition) for index in range(8)],
        )
        for number in range(50)
    ]
    brokers = [cls.MetadataResponseBroker(node_id=id, host=f"host-{id}.example", port=9092) for id in (1, 2, 3)]
    return cls(brokers=brokers, cluster_id="cluster-id-of-22-chars", controller_id=1, topics=topics)


def fetch_response() -> Any:
    """10 topics of 10 partitions with 1 KiB of records each."""
    cls = message("FetchResponse")
    records = bytes(1024)
    topics = [
        cls.FetchableTopicResponse(
            topic=f"orders-{number}",
            partitions=[
                cls.PartitionData(
                    partition_index=index,
                    high_watermark=1000,
                    last_stable_offset=1000,
                    log_start_offset=0,
                    records=records,
                )
                for index in range(10)
            ],
        )
        for number in range(10)
    ]
    return cls(session_id=7, responses=topics)


def produce_request() -> Any:
    """One topic, 4 partitions, 16 KiB of records each."""
    cls = message("ProduceRequest")
    parts = [cls.PartitionProduceData(index=index, records=bytes(16_384)) for index in range(4)]
    return cls(acks=-1, timeout_ms=30_000, topic_data=[cls.TopicProduceData(name="orders", partition_data=parts)])


CASES: list[tuple[str, int, int, Callable[[], Any]]] = [
    ("MetadataResponse", 3, 12, metadata_response),
    ("FetchResponse", 1, 12, fetch_response),
    ("ProduceRequest", 0, 9, produce_request),
]


def best(functions: list[Callable[[], Any]], rounds: int = 15) -> list[float]:
    """The best seconds for a call of each. The functions take turns."""
    loops = [1] * len(functions)
    found = [float("inf")] * len(functions)
    for index, function in enumerate(functions):
        start = time.perf_counter()
        function()
        loops[index] = max(1, int(0.01 / (time.perf_counter() - start)))
    for _ in range(rounds):
        for index, function in enumerate(functions):
            start = time.perf_counter()
            for _ in range(loops[index]):
                function()
            found[index] = min(found[index], (time.perf_counter() - start) / loops[index])
    return found


@pytest.mark.parametrize(("name", "key", "version", "make"), CASES, ids=[case[0] for case in CASES])
def test_ratio(name: str, key: int, version: int, make: Callable[[], Any]) -> None:
    made, cls = make(), message(name)
    encoded = encode(made, version)
    theirs = (load_response_schema if name.endswith("Response") else load_request_schema)(key, version)
    read, write = entity_reader(theirs), entity_writer(theirs)
    entity, _ = read(encoded, 0)

    def kio_encode() -> bytes:
        out = io.BytesIO()
        write(out, entity)
        return out.getvalue()

    assert kio_encode() == encoded
    ours, kios = best([lambda: decode(cls, version, encoded), lambda: read(encoded, 0)])
    out, parts, kios_out, build = best(
        [lambda: encode(made, version), lambda: encode_parts(made, version), kio_encode, make]
    )
    print(
        f"\n{name} v{version}, {len(encoded)} bytes: decode {ours * 1e6:.1f} us (kio {kios * 1e6:.1f}, x{kios / ours:.1f}), "
        f"encode {out * 1e6:.1f} us, in parts {parts * 1e6:.1f} (kio {kios_out * 1e6:.1f}, x{kios_out / out:.1f}), "
        f"objects {build * 1e6:.1f} us"
    )
    assert kios / ours >= 1.0
    assert kios_out / out >= 1.0
