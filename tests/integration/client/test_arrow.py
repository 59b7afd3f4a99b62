"""Rows that are written, read, scanned and followed by address, on both kinds of broker: what tests/integration/arrow has at
length on rayft, and with Apache Kafka among the slow tests."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rayft
from actors.client.operations import topics
from actors.host.client.blocking import connect
from tests.integration.conftest import everywhere, until

pytestmark = pytest.mark.timeout(180)
COLUMNS = ("key", "value", "partition", "offset")


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transaction"])
def test_a_table_that_is_written_is_the_table_that_is_read(kafka: Any, name: str, transactional: bool) -> None:
    with connect(kafka.bootstrap_servers) as client:
        client.run(topics.create([topics.NewTopic(name, 3, 3)]))
    everywhere(kafka, name, 3)
    keys = pa.array([None if n % 5 == 0 else b"%d" % (n % 7) for n in range(5000)])
    given = pa.table({"key": keys, "value": pa.array([b"%d" % n for n in range(5000)])})
    id, config = (f"{name}-id" if transactional else None), {"isolation.level": "read_committed"}
    written = rayft.write(
        kafka.bootstrap_servers, name, given, transactional_id=id, config={"compression.type": "zstd"}
    )
    assert written.count == 5000 and sum(span.count for span in written.partitions.values()) == 5000

    def committed() -> pa.Table:
        return rayft.read(kafka.bootstrap_servers, name, columns=COLUMNS, config=config).read_all()

    until(lambda: committed().num_rows == 5000)  # Apache Kafka answers a commit before its markers are in the logs
    read = committed()
    order = pc.sort_indices(pc.cast(pc.cast(read["value"], pa.string()), pa.int64()))
    assert read.take(order).select(["key", "value"]).cast(given.schema).equals(given)
    part = pc.field("partition") == 1
    scanned = rayft.scan(kafka.bootstrap_servers, name).to_table(columns=list(COLUMNS), filter=part)
    assert scanned.sort_by("offset").equals(read.filter(part).sort_by("offset").cast(scanned.schema))
    with rayft.follow(kafka.bootstrap_servers, name, start="earliest", columns=COLUMNS, config=config) as following:
        count = 0
        for batch in following:
            count += batch.num_rows
            if count >= 5000:
                break
    assert count == 5000
