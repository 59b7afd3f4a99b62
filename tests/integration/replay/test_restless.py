"""A directory is read while it is written, cleaned, cut and shortened: each reading gives each record once, as it was
acknowledged, or ends with one sentence; never with a signal, and never by calling sound bytes damage.

`restless.py` is the writer, a process of its own. Each way of reading looks in the middle of that: the command, Python,
Spark's batch reader and Ray's.
"""

import json
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors import replay
from tests.integration import rays
from tests.integration.replay.restless import Journal, Row

ROOT = Path(__file__).parents[3]
Reading = Callable[[Path, str], "list[Row] | str"]
"""Rows, or the sentence with which the reading ended."""
SENTENCES = (
    "was truncated while it was read",
    "is gone, and no other segment has",
    "does not exist",
    "holds no log",
    "No such file or directory",
)
"""What a reading may end with. Anything else, damage above all, is a fault."""
SMALL = {"splitBytes": "30000", "chunkBytes": "4000"}
QUICK, SLOW = 6, 25
"""Readings of a kind."""
READ_S = 0.03
"""How long a slow reader needs for a split."""


@pytest.fixture
def restless(tmp_path: Path) -> Iterator[tuple[Path, Journal]]:
    """The directory, and its journal; there is something in it."""
    root, said = tmp_path / "cluster", tmp_path / "journal"
    words = [sys.executable, "-m", "tests.integration.replay.restless", str(root), str(said), "42"]
    with (tmp_path / "writer.err").open("wb") as errors:
        writer = subprocess.Popen(words, cwd=ROOT, stderr=errors)
    try:
        while not (said.exists() and said.read_bytes().count(b"cut") > 3):
            assert writer.poll() is None, (tmp_path / "writer.err").read_text()
            time.sleep(0.1)
        yield root, Journal(said)
        assert writer.poll() is None, (tmp_path / "writer.err").read_text()
    finally:
        writer.kill()
        writer.wait()


def told(error: BaseException) -> str:
    """The sentence of an error, if it is one of those that a reading may end with."""
    text = str(error)
    found = next((one for one in SENTENCES if one in text), None)
    if found is None or "CorruptLog" in text:
        raise error
    return found


def by_command(root: Path, topic: str) -> "list[Row] | str":
    words = [sys.executable, "-m", "actors.command.cli", "replay", str(root), "--table", "log", "--topic", topic]
    done = subprocess.run(
        [*words, "--columns", "offset,value", "--json"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr, (done.returncode, done.stderr)
    if done.returncode:
        sentence = done.stderr.strip().splitlines()[-1]
        assert sentence.startswith("rayft: ")
        return told(ValueError(sentence))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [Row(row["offset"], row["value"].encode()) for row in rows]


def by_python(root: Path, topic: str) -> "list[Row] | str":
    rows: list[Row] = []
    try:
        for split in replay.open(root, topics=[topic]).splits(int(SMALL["splitBytes"])):
            for part in replay.read(split, ["offset", "value"], chunk_bytes=int(SMALL["chunkBytes"])):
                rows += map(Row, part["offset"].to_pylist(), part["value"].to_pylist())
            time.sleep(READ_S)
    except (ValueError, OSError) as error:
        return told(error)
    return rows


def by_spark_without_its_jvm(root: Path, topic: str) -> "list[Row] | str":
    """As the tasks of Spark do."""
    spark = pytest.importorskip("actors.replay.spark", reason="PySpark is not installed")
    rows: list[Row] = []
    try:
        door = spark.Files({"path": str(root), "topics": topic, "columns": "offset,value", **SMALL})
        reader = door.reader(door.schema())
        for piece in reader.partitions():
            for part in reader.read(piece):
                rows += map(Row, part["offset"].to_pylist(), part["value"].to_pylist())
            time.sleep(READ_S)
    except (ValueError, OSError) as error:
        return told(error)
    return rows


def by_ray_without_a_cluster(root: Path, topic: str) -> "list[Row] | str":
    """As the tasks of Ray do."""
    ray = pytest.importorskip("actors.replay.ray", reason="Ray is not installed")
    from actors.replay.read_options import read_options

    rows: list[Row] = []
    try:
        door = ray.LogDatasource(read_options({"path": str(root), "topics": topic, "columns": "offset,value", **SMALL}))
        for task in door.get_read_tasks(2):
            for table in task.read_fn():
                rows += map(Row, table["offset"].to_pylist(), table["value"].to_pylist())
            time.sleep(READ_S)
    except (ValueError, OSError) as error:
        return told(error)
    return rows


def looked(way: Reading, times: int, root: Path, journal: Journal) -> Counter[str]:
    """Read `times` times in one way, each time in the middle of it; how the readings ended."""
    ends: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CopiesDiffer: that is right here
        for number in range(times):
            topic = ("plain", "compacted")[number % 2]
            before = journal.moment(topic)
            found = way(root, topic)
            if isinstance(found, str):
                ends[found] += 1
                continue
            faults = journal.judge(topic, before, found)
            assert not faults, f"{way.__name__}, {topic}: {len(faults)} faults: {faults[:5]}"
            after = journal.moment(topic)
            ends["rows"] += len(found)
            ends["readings"] += 1
            ends["beside a cut or a deletion"] += any(
                after.events.get(one, 0) > before.events.get(one, 0) for one in ("cut", "deleted", "cleaned")
            )
    return ends


@pytest.mark.parametrize(
    "way",
    [pytest.param(by_command, marks=pytest.mark.slow), by_python, by_spark_without_its_jvm, by_ray_without_a_cluster],
)
def test_rows_once_or_a_sentence(way: Reading, restless: tuple[Path, Journal]) -> None:
    ends = looked(way, QUICK, *restless)
    assert ends["readings"] and ends["beside a cut or a deletion"], ends


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_readings(
    session: Any, restless: tuple[Path, Journal], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark and Ray with their clusters."""
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    from actors.replay import ray as door

    def by_spark(root: Path, topic: str) -> "list[Row] | str":
        options = {"topics": topic, "columns": "offset,value", **SMALL}
        try:
            found = session.read.format("rayft").options(**options).load(str(root)).toArrow()
        except Exception as error:  # Spark has its own kinds, and puts the sentence into them
            return told(error)
        return list(map(Row, found["offset"].to_pylist(), found["value"].to_pylist()))

    def by_ray(root: Path, topic: str) -> "list[Row] | str":
        try:
            dataset = door.read(path=str(root), topics=topic, columns="offset,value", **SMALL)
            rows = [Row(row["offset"], row["value"]) for row in dataset.take_all()]
        except Exception as error:  # as above
            return told(error)
        return sorted(rows, key=lambda row: row.offset)

    around = rays.environment(tmp_path / "home")
    with rays.started(around) as address:
        ray.init(address=address, log_to_driver=False)
        try:
            ends = {way.__name__: looked(way, SLOW, *restless) for way in (by_command, by_python, by_spark, by_ray)}
        finally:
            ray.shutdown()
    with capsys.disabled():
        print(*(f"\n{name}: {dict(one)}" for name, one in ends.items()))
    assert all(one["readings"] and one["beside a cut or a deletion"] for one in ends.values()), ends
