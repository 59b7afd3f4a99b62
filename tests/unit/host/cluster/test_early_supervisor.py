"""A supervisor that is started before its cluster is planned: it serves the cluster that adopts it, and leaves nothing where
none does."""

import json
import subprocess
from pathlib import Path

import pytest

import rayft
from actors.host.cluster import early_supervisor
from actors.settings.keys import ConfigError

END_S = 60


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary directories are made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_cluster_takes_the_process_and_its_directory_and_both_go_with_it(home: Path) -> None:
    early = early_supervisor.begin()
    cluster = rayft.Cluster(1, 1, combined=True, early=early)
    with cluster:
        assert str(cluster.dir) == early.directory and Path(early.directory).parent == home
        assert early.process.poll() is None and cluster.pids
        assert (cluster.dir / early_supervisor.LOG).stat().st_mode & 0o777 == 0o600
    assert early.process.poll() == 0 and not list(home.iterdir())


@pytest.mark.long
@pytest.mark.parametrize("told", [b"", b'{"do": "stop", "timeout_s": 1}\n'], ids=["the program ends", "it is stopped"])
def test_it_removes_its_directory_when_no_cluster_comes(home: Path, told: bytes) -> None:
    early = early_supervisor.begin()
    early.process.communicate(told, timeout=END_S)
    assert early.process.returncode == 0 and not list(home.iterdir())


def test_where_no_process_is_to_be_had_no_directory_stays(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(home / "nothing"))
    with pytest.raises(FileNotFoundError):
        early_supervisor.begin()
    assert not list(home.iterdir())


@pytest.mark.long
def test_a_cluster_that_cannot_be_planned_ends_it(home: Path) -> None:
    early = early_supervisor.begin()
    with (
        pytest.raises(ConfigError),
        rayft.Cluster(1, 1, config={"num.partitions": "many"}, combined=True, early=early),
    ):
        pass
    assert early.process.wait(END_S) == 0 and not list(home.iterdir())


def test_the_reason_is_told_where_it_cannot_begin(home: Path) -> None:
    early = early_supervisor.begin()
    early.process.kill()
    early.process.wait(END_S)
    with pytest.raises(rayft.ClusterError, match="the supervisor ended with exit code -9"):
        rayft.Cluster(1, 1, combined=True, early=early).start()


def test_it_has_a_directory_of_its_own_and_is_never_detached(tmp_path: Path) -> None:
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as nothing:
        early = early_supervisor.EarlySupervisor(str(tmp_path), nothing)
    for wrong in ({"dir": tmp_path}, {"detached": True}):
        with pytest.raises(ValueError, match="directory of its own"):
            rayft.Cluster(1, 1, early=early, **wrong)  # type: ignore[arg-type]


@pytest.mark.long
def test_commands_behind_the_first_line_are_the_clusters(home: Path) -> None:
    """Both lines may come in one piece."""
    early = early_supervisor.begin()
    from actors.host.cluster import plan

    plan.create(Path(early.directory), 1, 1, common={}, combined=True)
    lines = [{"do": "begin"}, {"do": "stop", "timeout_s": 10}]
    out, _ = early.process.communicate("".join(json.dumps(one) + "\n" for one in lines).encode(), timeout=END_S)
    assert [json.loads(one)["event"] for one in out.splitlines()][-1] == "stopped" and early.process.returncode == 0
