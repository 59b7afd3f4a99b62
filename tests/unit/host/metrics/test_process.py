"""The numbers of this process, against what the system says in other ways."""

import os
import shutil
import time
from pathlib import Path

import pytest

from actors.host.metrics import process
from actors.host.metrics.process import process_samples
from tests.numbers import numbers


def test_the_numbers_are_those_of_this_process() -> None:
    before = time.process_time()
    found = numbers(process_samples())
    assert before - 0.5 < found["process_cpu_seconds_total"] < before + 5
    assert abs(found["process_start_time_seconds"] - time.time()) < 7 * 86_400
    assert found["process_resident_memory_bytes"] > 1 << 20
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
    try:
        assert numbers(process_samples())["process_open_fds"] >= found["process_open_fds"] + 15
    finally:
        for one in held:
            os.close(one)
    assert found["process_open_fds"] < found["process_max_fds"]
    assert found['python_gc_collections_total{generation="0"}'] >= 0
    assert found["kafka_server_kafkaserver_linux_disk_write_bytes"] >= 0


@pytest.mark.parametrize(
    ("hidden", "absent"),
    [
        ("stat", {"process_start_time_seconds"}),
        (
            "self/io",
            {"kafka_server_kafkaserver_linux_disk_read_bytes", "kafka_server_kafkaserver_linux_disk_write_bytes"},
        ),
        ("self/limits", {"process_max_fds"}),
        ("self/fd", {"process_open_fds"}),
    ],
)
def test_what_a_service_manager_hides_takes_nothing_else_away(
    hidden: str, absent: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = set(numbers(process_samples()))
    (tmp_path / "self" / "fd").mkdir(parents=True)
    for name in ("stat", "self/stat", "self/io", "self/limits"):
        shutil.copy(f"/proc/{name}", tmp_path / name)
    place = tmp_path / hidden
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    monkeypatch.setattr(process, "PROC", str(tmp_path))
    assert whole - set(numbers(process_samples())) == absent
