"""The snapshot that `rayft compact` makes from a running cluster's files, compared with the one its controller
wrote."""

import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from actors import replay
from actors.replay.checkpoint import compact


def newest(folder: Path) -> Path:
    return max(folder.glob("*.checkpoint"))


def copied(folder: Path, to: Path) -> Path:
    """A copy of the metadata log at one moment, although files come and go while they are copied."""
    while True:
        shutil.rmtree(to, ignore_errors=True)
        try:
            shutil.copytree(folder, to / folder.name)
        except (shutil.Error, FileNotFoundError):
            continue
        if newest(to / folder.name).name == newest(folder).name:
            shutil.copy(folder.parent / "meta.properties", to)
            return to / folder.name


@pytest.mark.parametrize("level", [1, 2])
def test_the_bytes_are_those_of_the_running_controller(level: int, tmp_path: Path) -> None:
    config = {"metadata.log.max.record.bytes.between.snapshots": "3000"}
    with rayft.Cluster(
        controllers=1, brokers=2, dir=tmp_path / "cluster", config=config, format_level=level
    ) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        (folder,) = (path for path in (tmp_path / "cluster").rglob("__kafka_metadata-0") if "1001" in str(path))
        deadline = time.monotonic() + 60
        compared = {newest(folder).name}
        number = 0
        while len(compared) < 3:
            topic = NewTopic(f"topic-{number}", 5, 2, config={"retention.ms": str(1000 + number)})
            for done in admin.create_topics([topic]).values():
                done.result()
            number += 1
            if newest(folder).name not in compared:
                copy = copied(folder, tmp_path / "copy")
                taken = newest(copy)
                controllers, end = taken.read_bytes(), int(taken.name[:20])
                taken.unlink()
                made = compact(copy, end)
                assert (made.name, b"".join(map(bytes, made.parts))) == (taken.name, controllers)
                compared.add(taken.name)
            assert time.monotonic() < deadline, "the controller took no snapshots"
        assert replay.state(folder, None, ["topics"])["topics"].num_rows == number
        made.write(tmp_path)
        state = replay.state(tmp_path / made.name, None, ["topics", "partitions", "configs"])
        assert state["partitions"].num_rows == 5 * state["topics"].num_rows > 0
        assert state["configs"]["value"].to_pylist() == [
            str(1000 + int(one["resource"][6:])) for one in state["configs"].to_pylist()
        ]
