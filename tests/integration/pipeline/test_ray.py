"""Ray Data by address against a real cluster: the rows of a foreign consumer, splits smaller than partitions, shared
batches."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("ray.data", reason="Ray Data is not installed")

import rayft
from actors.arrow.values.asked import Asked
from actors.client.errors import ClientError
from actors.pipeline import ray as door
from actors.pipeline.ray_sink import Sink
from actors.pipeline.sink.values import OtherQuery, WentBack
from actors.pipeline.slices import DataLoss
from tests.integration import rays
from tests.integration.arrow.registry import registry
from tests.integration.arrow.test_read import consumed, written
from tests.integration.arrow.test_read import rows as as_rows
from tests.integration.arrow.test_values import orders
from tests.integration.pipeline.conftest import Topics, settled
from tests.integration.pipeline.test_sink_steps import Sink as Protocol
from tests.integration.pipeline.test_streams import produce

ROOT = Path(__file__).parents[3]
ALL = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def tables(topics: door.Topics, parallelism: int, *wanted: str) -> list[list[Any]]:
    """The tables of each task, without Ray."""
    source = door.TopicsDatasource(topics)
    if wanted:
        source = source.apply_projection({name: name for name in wanted})
    return [list(task.read_fn()) for task in source.get_read_tasks(parallelism)]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_the_rows_are_those_of_a_foreign_consumer_however_a_read_is_cut(
    topics: Topics, name: str, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each log ends in a marker, headers have the same name twice, and pieces begin inside transactions."""
    monkeypatch.setattr(door, "SLICE_OFFSETS", 10)
    topics.make(name)
    written(topics.cluster, name, random.Random(5), "zstd", True)
    plan = door.planned(topics.servers, name, columns=ALL, config={"isolation.level": isolation})
    found = tables(plan, 23)
    assert len(found) >= 23
    expected = consumed(topics.cluster, name, isolation)
    assert len(expected) in range(100, 501 if isolation == "read_committed" else 601)
    assert as_rows(pa.concat_tables([one for task in found for one in task])) == expected


def test_small_partitions_are_not_cut_and_columns_are_built_as_used(topics: Topics, name: str) -> None:
    topics.make(name)
    produce(topics, name, 0, 300, 3)
    plan = door.planned(topics.servers, name)
    found = tables(plan, 200, "value")
    assert len(found) == 3 and {table.column_names[0] for task in found for table in task} == {"value"}
    counted = door.TopicsDatasource(plan).apply_projection({}).get_read_tasks(2)
    assert sum(table.num_rows for task in counted for table in task.read_fn()) == 300


def test_a_dataset_is_pinned_when_it_is_made(topics: Topics, name: str) -> None:
    topics.make(name, 1)
    produce(topics, name, 0, 50)
    plan = door.planned(topics.servers, name, start={(name, 0): 10}, columns=("offset",))
    produce(topics, name, 50, 90)
    (task,) = tables(plan, 1)
    assert [row for table in task for row in table.column(0).to_pylist()] == list(range(10, 50))
    topics.delete(name)
    topics.make(name, 1)
    produce(topics, name, 0, 90)
    with pytest.raises(DataLoss, match="deleted and made anew"):
        tables(plan, 1)
    with pytest.raises(ClientError, match="does not exist"):
        door.planned(topics.servers, f"{name}-none")
    with pytest.raises(ValueError, match="no column 'colour'"):
        door.planned(topics.servers, name, columns=("colour",))
    secret = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u"}
    assert "geheim" not in repr(door.Topics({**secret, "sasl.password": "geheim"}, (), ("key",)))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    environment = rays.environment(tmp_path_factory.mktemp("home"))
    with rays.started(environment) as address:

        def run(word: str, *arguments: str) -> dict[str, Any]:
            command = [sys.executable, "-m", "tests.integration.pipeline.drivers", word, address, *arguments]
            ran = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False
            )
            assert ran.returncode == 0, ran.stderr[-3000:]
            return dict(json.loads(ran.stdout.splitlines()[-1]))

        yield run


def test_values_have_the_columns_of_their_schema(topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task has the schema that was the latest when the Dataset was made."""
    monkeypatch.setattr(door, "SLICE_OFFSETS", 10)
    topics.make(name)
    with registry() as schemas:
        expected = orders(topics.cluster, name, schemas)
        asked = Asked("avro", None, schemas.url, None, None, "raw")
        plan = door.planned(topics.servers, name, asked=asked)
        schemas.register(f"{name}-value", {"schema": '"string"'})
        found = tables(plan, 9)
        assert len(found) > 3 and plan.schema.names[-2:] == ["value_raw", "value_error"]
        whole = pa.concat_tables([one for task in found for one in task]).sort_by("offset")
        assert whole.column("value").to_pylist() == expected and whole.column("value_error").null_count == len(expected)
        few = pa.concat_tables([one for task in tables(plan, 9, "value_error", "offset") for one in task])
        assert few.column_names == ["value_error", "offset"] and few.num_rows == len(expected)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ray_reads_and_shares_topics_with_spark(driver: Any, topics: Topics, name: str) -> None:
    topics.make(name)
    produce(topics, name, 0, 3000, 3)
    expected = {"rows": 3000, "sum": 3 * sum(range(1000)), "values": 3000}
    assert driver("read", topics.servers, name) == expected
    shared = driver("share", topics.servers, name)
    produce(topics, name, 3000, 3300, 3)
    topics.delete(name)  # a process that read again would find nothing
    found = driver("shared", shared["handle"])
    assert found == {"dataset": expected, "spark": expected}


def committed(topics: Topics, name: str) -> list[int]:
    """The values that readers of committed records see."""
    settled(topics.servers, name)
    reader = rayft.read(topics.servers, name, columns=["value"], config={"isolation.level": "read_committed"})
    return sorted(int(value) for value in reader.read_all()["value"].to_pylist())


class Result:
    """What Ray gives the driver of a sink."""

    def __init__(self, *found: Any) -> None:
        self.write_returns = list(found)


def test_a_dataset_is_written_once_or_not_at_all(topics: Topics, name: str) -> None:
    """Ray's part is played here: its driver and its tasks, of which one is run again."""
    topics.make(name)
    blocks = [pa.table({"key": ["a"] * 10, "value": [str(n * 10 + k) for k in range(10)]}) for n in range(3)]

    def job(batch: int | None, complete: bool = True, **more: Any) -> Sink:
        sink = Sink(topics.servers, name, sink=name, batch=batch, **more)
        sink.on_write_start(blocks[0].schema)
        sink.write([blocks[0]], None)  # its worker died
        found = [sink.write([block], None) for block in blocks]
        found.append(sink.write([blocks[0].slice(0, 0)], None))
        if complete:
            sink.on_write_complete(Result(*found))
        else:
            sink.on_write_failed(RuntimeError("a task has failed"))
        return sink

    job(None, complete=False)
    assert committed(topics, name) == []
    job(5)
    assert committed(topics, name) == list(range(30))
    job(5)
    with pytest.raises(WentBack, match="batch 4 comes behind batch 5"):
        job(4)
    assert committed(topics, name) == list(range(30))
    assert job(None).batch == 6
    assert len(committed(topics, name)) == 60
    own = Protocol.__new__(Protocol)
    own.servers, own.id, own.ledger, own.topic = topics.servers, name, "rayft-sinks", name
    assert not own.open_transactions()


def test_a_sink_of_ray_refuses_what_makes_no_sense(topics: Topics, name: str) -> None:
    topics.make(name)
    with pytest.raises(ValueError, match="option sinkId is missing"):
        Sink(topics.servers, name)
    with pytest.raises(ValueError, match=r"kafka\.transactional\.id is not supported"):
        Sink(topics.servers, name, sink="a", config={"transactional.id": "t"})
    with pytest.raises(ClientError, match="topic there-is-none does not exist"):
        Sink(topics.servers, "there-is-none", sink=name).on_write_start()
    with pytest.raises(RuntimeError, match="did not open the sink"):
        Sink(topics.servers, name, sink=name).write([pa.table({"value": ["a"]})], None)
    sink = Sink(topics.servers, name, delivery="at-least-once", config={"acks": "1"})
    sink.on_write_start()
    sink.on_write_complete(Result(sink.write([pa.table({"value": ["1"]})], None)))
    assert committed(topics, name) == [1]


def test_a_sink_of_a_query_takes_no_rows_of_ray(topics: Topics, name: str) -> None:
    protocol = Protocol(topics, name)
    protocol.ledger = "rayft-sinks"
    protocol.batch(0, 1, "run", ["1"])
    with pytest.raises(OtherQuery, match="this is jobs without a query"):
        Sink(topics.servers, name, sink=name).on_write_start()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ray_writes_each_row_once_though_a_worker_dies(driver: Any, topics: Topics, name: str, tmp_path: Path) -> None:
    topics.make(name)
    for batch in ("1", "1", "2"):
        told = driver("write", topics.servers, name, str(tmp_path), batch)
        assert told == {"died": True}
        assert committed(topics, name) == sorted(list(range(4000)) * int(batch))
