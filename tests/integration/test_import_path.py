"""A folder `actors` in the current directory, as a user's own project may have one, hides nothing of rayft's."""

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import rayft
from bench.ports import free_port
from tests.integration import rays
from tests.unit.replay.written import node

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with packages of the same names as rayft's, which print and break when they are imported."""
    for name in ("actors", "fastpath"):
        package = tmp_path / "project" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("print('the wrong package')\nraise ImportError('the wrong package')\n")
    return tmp_path / "project"


@pytest.fixture
def around() -> Iterator[dict[str, str]]:
    yield {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"} | {"PYTHONPATH": str(ROOT)}


def run(project: Path, around: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """`rayft` as its installed script runs it: the current directory is not on the path of the command itself."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "actors.command.cli", *arguments],
        cwd=project, env=around, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


def test_a_cluster_starts_in_a_directory_with_other_packages_of_the_same_names(
    project: Path, around: dict[str, str], tmp_path: Path
) -> None:
    """Before, this waited 60 s and printed the traceback of a thread."""
    where = ("--dir", str(tmp_path / "data"))
    ran = run(project, around, "up", "--controllers", "1", "--brokers", "1", "--port", str(free_port()), *where,
              "--detach")  # fmt: skip
    try:
        assert ran.returncode == 0, ran.stderr
        assert "wrong package" not in ran.stdout + ran.stderr
    finally:
        ran = run(project, around, "down", *where)
    assert ran.returncode == 0, ran.stderr


def test_a_supervisor_that_ends_at_once_is_reported_at_once_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho this is no event\necho 'No module named fastpath.bytes.varint' >&2\nexit 7\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    began = time.monotonic()
    with pytest.raises(rayft.ClusterError, match="exit code 7: No module named fastpath"):
        rayft.Cluster(1, 1, tmp_path / "data").start()
    assert time.monotonic() - began < 30
    assert "Traceback" not in capfd.readouterr().err


def test_the_reason_of_an_earlier_supervisor_is_not_told_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 9\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "supervisor.log").write_text("the reason of last week\n")
    with pytest.raises(rayft.ClusterError, match="exit code 9: it wrote nothing"):
        rayft.Cluster(1, 1, tmp_path / "data").start()


@pytest.mark.slow
def test_spark_workers_find_the_source_there_and_the_modules_of_the_project(
    project: Path, around: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    from actors.replay.java import Unfit, java_home

    try:
        java_home()
    except Unfit as unfit:
        pytest.skip(str(unfit))
    path = node(tmp_path / "node", {"orders": 1}, 50)
    (project / "doubling.py").write_text("def doubled(number):\n    return 2 * number\n")
    (tmp_path / "driver.py").write_text(
        textwrap.dedent(
            f"""
            import os, sys
            sys.path.append(os.getcwd())  # behind rayft's own directory
            from actors.pipeline import spark
            from doubling import doubled
            session = spark.session("project", "local[1]", "512m")
            print("count", session.read.format("rayft").load({str(path)!r}).count())
            print("sum", session.sparkContext.parallelize([1, 2, 3], 1).map(doubled).sum())
            print("own", os.environ.get("PYTHONSAFEPATH"))
            session.stop()
            """
        )
    )
    ran = subprocess.run(
        [sys.executable, "-P", str(tmp_path / "driver.py")],
        cwd=project, env=around, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout.splitlines() == ["count 50", "sum 12", "own None"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_actors_of_ray_start_there_too(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    environment = rays.environment(tmp_path / "home")
    with rays.started(environment) as address:
        rayft_ = partial(run, project, environment)
        where = ("--ray", address, "--dir", str(tmp_path / "c"))
        ran = rayft_("up", "--controllers", "1", "--brokers", "1", "--port", str(free_port()), *where)
        try:
            assert ran.returncode == 0, ran.stderr
        finally:
            rayft_("down", "--timeout", "10", *where)
