"""What the writers of Spark and Ray make of what their tasks say."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from actors.pipeline.sink.options import Target, target
from actors.pipeline.sink.values import Attempt, Grant, SinkFailed

OPTIONS = {"kafka.bootstrap.servers": "localhost:9", "topic": "t", "sinkId": "s"}
GRANT = Grant("s", 7, 40, "q", "r", 3)
ATTEMPT = Attempt("rayft-sink/s/3/w/0", 1, 0, (("t", 0, 1, 1),))


class Decided:
    """A driver that notes what it is to decide."""

    works: list[Any]

    def __init__(self, *given: Any) -> None:
        pass

    def __enter__(self) -> "Decided":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, work: Any) -> None:
        self.works.append(work.facts)


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    Decided.works = []
    monkeypatch.setattr("actors.pipeline.sink.driver.Driver", Decided)
    return Decided.works


@pytest.mark.parametrize("lacking", [0, 1, 2])
def test_a_task_of_spark_that_says_nothing_fails_its_batch(
    works: list[Any], monkeypatch: pytest.MonkeyPatch, lacking: int
) -> None:
    writers = pytest.importorskip("actors.pipeline.spark_writers", reason="PySpark is not installed")
    monkeypatch.setattr(writers, "Driver", Decided)
    schema = writers.StructType()
    stream = writers.TopicsStreamWriter(target(OPTIONS), None, schema)
    told: list[Any] = [writers.Wrote(GRANT, "q", "r", 41, one) for one in (ATTEMPT, None, ATTEMPT)]
    if lacking:
        told[-lacking:] = [None] * lacking
        with pytest.raises(SinkFailed, match=f"{lacking} of 3 tasks have not said what they wrote"):
            stream.commit(told, 41)
        with pytest.raises(SinkFailed, match="tasks have not said"):
            stream.commit([None], 41)
        with pytest.raises(SinkFailed, match="tasks have not said"):
            writers.TopicsWriter(target(OPTIONS), GRANT, schema).commit(told)
        assert not works
    else:
        stream.commit(told, 41)
        (facts,) = works
        assert (facts.batch, facts.attempts, facts.follows) == (41, (ATTEMPT, ATTEMPT), True)
        writers.TopicsStreamWriter(target(OPTIONS | {"firstBatch": "41"}), None, schema).commit(told, 41)
        writers.TopicsWriter(target(OPTIONS), GRANT, schema).commit(told)
        assert [one.follows for one in works[1:]] == [False, False]
    less: Target = target({"kafka.bootstrap.servers": "localhost:9", "topic": "t", "delivery": "at-least-once"})
    writers.TopicsWriter(less, None, schema).commit([None])


def test_a_task_of_ray_that_says_nothing_fails_its_job(works: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    door = pytest.importorskip("actors.pipeline.ray_sink", reason="Ray Data is not installed")
    monkeypatch.setattr(door, "Driver", Decided)
    sink = door.Sink("localhost:9", "t", sink="s")
    sink.grant, sink.batch = GRANT, 41
    with pytest.raises(SinkFailed, match="some tasks have not said what they wrote: nothing is written"):
        sink.on_write_complete(SimpleNamespace(write_returns=[door.Wrote(ATTEMPT), None]))
    assert not works
    sink.on_write_complete(SimpleNamespace(write_returns=[door.Wrote(ATTEMPT), door.Wrote(None)]))
    assert [one.attempts for one in works] == [(ATTEMPT,)]


def test_a_ray_that_does_not_tell_what_its_tasks_wrote_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray 2.40 is one. A sink would decide a batch of nothing, and abort all that was written."""
    door = pytest.importorskip("actors.pipeline.ray_sink", reason="Ray Data is not installed")

    @dataclass
    class Result:
        num_rows: int = 0

    monkeypatch.setattr(door, "WriteResult", Result)
    with pytest.raises(RuntimeError, match=r"Ray .* does not tell the driver what .* or write delivery=at-least-once"):
        door.Sink("localhost:9", "t", sink="s").on_write_start()
