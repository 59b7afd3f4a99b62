"""Batches in Ray's object store: decoded once for all processes, and read without a copy by Ray Data, Spark and
Python."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration import rays
from tests.unit.replay.written import node

pytest.importorskip("ray.data", reason="Ray Data is not installed")
pytest.importorskip("pyspark", reason="PySpark is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
RECORDS = 20_000
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    environment = rays.environment(tmp_path_factory.mktemp("home"))
    with rays.started(environment) as ray_address:
        yield _driver(ray_address, environment)


def _driver(ray_address: str, environment: dict[str, str]) -> Any:
    def run(name: str, argument: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "tests.integration.replay.drivers", name, ray_address, argument]
        ran = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False
        )
        assert ran.returncode == 0, ran.stderr[-3000:]
        return dict(json.loads(ran.stdout.splitlines()[-1]))

    return run


def test_decoded_once_and_read_by_all_without_a_copy(driver: Any, tmp_path: Path) -> None:
    path = node(tmp_path / "node", {"orders": 2}, RECORDS, 200)
    shared = driver("share", str(path))
    assert shared["decodes"] > 4, "one a split"
    path.rename(tmp_path / "gone")  # a process that decodes again would find nothing
    found = driver("read", shared["handle"])
    total = RECORDS * (RECORDS - 1)
    assert found["dataset"] == [2 * RECORDS, total]
    assert found["spark"] == [2 * RECORDS, total, 2 * RECORDS]
    for where in ("here", "workers"):
        assert len(found[where]) == shared["decodes"]
        assert sum(rows for rows, _ in found[where]) == 2 * RECORDS
        assert [taken for _, taken in found[where]] == [0] * shared["decodes"], "bytes of Arrow's pool"


def test_ray_data_reads_files_in_splits_and_only_the_columns_it_needs(driver: Any, tmp_path: Path) -> None:
    found = driver("files", str(node(tmp_path, {"orders": 2}, RECORDS, 200)))
    assert found["count"] == 2 * RECORDS and found["sum"] == RECORDS * (RECORDS - 1)
    assert found["names"] == ["offset", "partition"] and found["blocks"] > 4 and ":" in found["first"]
