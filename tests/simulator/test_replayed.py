"""Replay reads what is committed from the directories of clusters that crash: dead leaders, topics made again, cleanings,
cuts, zeros at ends. The command, Spark's and Ray's read functions show the same rows, which are the acknowledged ones."""

import shutil
import warnings
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from actors.command import cli
from actors.replay.logs.files import CorruptLog, NothingToRead
from actors.replay.read_options import read_options
from tests.simulator.crashed import COLUMNS, Crashed, Row

QUICK_SEEDS, QUICK_LOOKS, QUICK_MS = 20, 2, 10_000
"""Faults last for QUICK_MS before the first look."""
SLOW_SEEDS, SLOW_LOOKS = range(1_000, 1_020), 50
"""The seeds and the looks at each that make a thousand directories."""


def by_command(root: Path, topic: str, out: Path) -> list[pa.RecordBatch]:
    given = ["replay", str(root), "--table", "log", "--topic", topic, "--columns", ",".join(COLUMNS), "--out", str(out)]
    assert cli.main(given) == 0
    with pa.ipc.open_file(str(out)) as file:
        return [file.get_batch(number) for number in range(file.num_record_batches)]


def by_spark(root: Path, topic: str) -> list[pa.RecordBatch]:
    """The record batches of a topic as a task of Spark reads them, without its JVM."""
    spark = pytest.importorskip("actors.replay.spark", reason="PySpark is not installed")
    door = spark.Files({"path": str(root), "topics": topic, "columns": ",".join(COLUMNS)})
    reader = door.reader(door.schema())
    return [one for piece in reader.partitions() for one in reader.read(piece)]


def by_ray(root: Path, topic: str) -> list[pa.RecordBatch]:
    """The record batches of a topic as a task of Ray reads them, without a cluster."""
    ray = pytest.importorskip("actors.replay.ray", reason="Ray is not installed")
    door = ray.LogDatasource(read_options({"path": str(root), "topics": topic, "columns": ",".join(COLUMNS)}))
    return [one for task in door.get_read_tasks(2) for table in task.read_fn() for one in table.to_batches()]


def rows(found: list[pa.RecordBatch]) -> list[Row]:
    return [Row(*row) for one in found for row in zip(*(column.to_pylist() for column in one.columns), strict=True)]


def judged(world: Crashed, root: Path, counts: Counter[str]) -> list[str]:
    """Faults in what is shown of the cluster's directory, in sentences."""
    faults: list[str] = []
    for topic, topic_id in world.topics().items():
        try:
            found = rows(by_spark(root, topic))
        except NothingToRead:
            found = []
        except CorruptLog as error:
            if not world.rotten(error.path):
                faults.append(str(error))
            counts["topics with rot"] += 1
            continue
        else:
            counts["rows"] += len(found)
            same = [rows(by_ray(root, topic)), rows(by_command(root, topic, root / f"{topic}.arrow"))]
            faults += [f"{topic}: other rows by another way"] if same != [found, found] else []
        faults += world.judge(topic, topic_id, found)
    return faults


def check(seed: int, looks: int, room: Path, first_ms: int = 0, *, dead: bool = False) -> Counter[str]:
    counts: Counter[str] = Counter()

    def look(world: Crashed) -> None:
        root = room / "cluster"
        world.write(root)
        counts["directories"] += 1
        counts["segments under the name .swap"] += len(list(root.glob("*/*/*.log.swap")))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CopiesDiffer, OtherTopic: each is right here
            faults = judged(world, root, counts)
        assert not faults, f"seed {seed}, {world.world.time_us // 1000} ms: {faults[:5]}"
        shutil.rmtree(root)

    result = Crashed(seed, looks, look, first_ms, dead=dead).run()
    assert result.ok, result.text
    assert counts["directories"] == looks
    return counts


@pytest.mark.parametrize("seed", range(QUICK_SEEDS))
def test_what_is_shown_is_what_was_acknowledged(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every other world has many faults; in the others one broker dies, and everything goes on without it."""
    check(seed, QUICK_LOOKS, tmp_path, QUICK_MS, dead=bool(seed % 2))
    capsys.readouterr()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SLOW_SEEDS)
def test_what_is_shown_of_a_thousand_clusters(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = check(seed, SLOW_LOOKS, tmp_path)
    capsys.readouterr()
    assert counts["rows"] > 0
