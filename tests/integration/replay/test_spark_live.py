"""Spark beside a running cluster: it follows the logs while records arrive, and makes the snapshot again."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from actors import replay
from actors.replay import spread
from tests.integration.replay.test_offline_snapshot import copied, newest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
PARTITIONS = 3
WAIT_S = 300


def produce(servers: str, first: int, last: int) -> None:
    """Records `first` to `last`, round robin over the partitions."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for number in range(first, last):
        producer.produce("orders", str(number).encode(), partition=number % PARTITIONS)
        if number % 500 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def create(servers: str, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})  # kept in a variable, because its futures end with it
    for done in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        done.result()


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


class Follower:
    """A query that writes its rows to a folder, and can be stopped and restarted."""

    def __init__(self, session: Any, path: Path, folder: Path, shown: str, **options: str) -> None:
        self.session, self.path, self.folder, self.shown, self.options = session, path, folder, shown, options
        self.query: Any = None

    def start(self) -> None:
        frame = self.session.readStream.format("rayft").options(**self.options).load(str(self.path))
        writer = frame.selectExpr(*self.shown.split(",")).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        self.query = writer.trigger(processingTime="200 milliseconds").start(str(self.folder / "out"))

    def stop(self) -> None:
        self.rows()
        self.query.stop()

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows by turn, in the order in which each turn wrote them."""
        if (error := self.query.exception()) is not None:
            if "failed to connect back" not in str(error):
                # Spark gives a worker ten seconds, whatever the machine does.
                raise error
            self.start()
        if not list((self.folder / "out").glob("_spark_metadata/*")):
            return []
        return [tuple(row) for row in self.session.read.parquet(str(self.folder / "out")).collect()]


def test_a_live_cluster_is_followed_through_a_restart_of_the_query(session: Any, tmp_path: Path) -> None:
    with rayft.Cluster(controllers=1, brokers=1, dir=tmp_path / "cluster") as cluster:
        servers = cluster.bootstrap_servers
        create(servers, "orders")
        produce(servers, 0, 1000)
        (log,) = (path for path in (tmp_path / "cluster").rglob("orders-0") if path.is_dir())
        (metadata,) = (path for path in (tmp_path / "cluster").rglob("__kafka_metadata-0") if "1001" in str(path))
        records = Follower(
            session, log.parent, tmp_path / "records", "partition,offset,cast(value as string) value", topics="orders"
        )
        changes = Follower(session, metadata, tmp_path / "changes", "offset,type", columns="offset,type")
        for one in (records, changes):
            one.start()
        produce(servers, 1000, 4000)
        create(servers, "more", "and-more")
        until(lambda: len(records.rows()) >= 2000, "the query sees records that arrive while it runs")
        for one in (records, changes):
            one.stop()
        produce(servers, 4000, 6000)  # while nobody looks
        create(servers, "late")
        for one in (records, changes):
            one.start()
        produce(servers, 6000, 7000)
        until(lambda: len(records.rows()) >= 7000, "the query sees all records")
        source = replay.open(metadata)
        (end,) = source.ends().values()
        until(lambda: len(changes.rows()) >= end, "the query sees all metadata")
        for one in (records, changes):
            one.stop()
    seen = sorted(records.rows())
    assert [int(value) for _, _, value in sorted(seen, key=lambda row: int(row[2]))] == list(range(7000)), "each once"
    for partition in range(PARTITIONS):
        own = [(offset, int(value)) for number, offset, value in seen if number == partition]
        assert [offset for offset, _ in own] == list(range(len(own)))
        assert [value for _, value in own] == list(range(partition, 7000, PARTITIONS)), "in the order of the log"
    told = sorted(changes.rows())[:end]
    expected = [
        row for split in source.splits() for b in replay.read(split, ["offset", "type"]) for row in b.to_pylist()
    ]
    assert told == [(row["offset"], row["type"]) for row in expected][: len(told)] and len(told) == end


@pytest.mark.parametrize("level", [1, 2])
def test_spark_makes_the_snapshot_of_the_running_controller(session: Any, level: int, tmp_path: Path) -> None:
    config = {"metadata.log.max.record.bytes.between.snapshots": "3000"}
    with rayft.Cluster(
        controllers=1, brokers=1, dir=tmp_path / "cluster", config=config, format_level=level
    ) as cluster:
        (folder,) = (path for path in (tmp_path / "cluster").rglob("__kafka_metadata-0") if "1001" in str(path))
        first, number = newest(folder).name, 0
        while newest(folder).name == first:
            assert number < 500, "the controller took no snapshot"
            create(cluster.bootstrap_servers, f"topic-{number}")
            number += 1
        copy = copied(folder, tmp_path / "copy")
    taken = newest(copy)
    data = taken.read_bytes()
    taken.unlink()
    made = spread.compact(session, copy, int(taken.name[:20]))
    assert (made.name, b"".join(map(bytes, made.parts))) == (taken.name, data)
    shutil.rmtree(copy)
