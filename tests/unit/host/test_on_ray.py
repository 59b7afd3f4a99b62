"""Placing nodes on Ray's machines, and the file for `ray up`; nothing here starts Ray."""

import argparse
import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors import cli
from actors.host import locks, on_ray
from actors.host import plan as plans
from actors.host.on_processes import Cluster, ClusterError, down
from actors.host.on_ray import place

ROOT = Path(__file__).parent.parent.parent.parent
NONE: frozenset[str] = frozenset()


def test_nodes_are_spread_in_turn() -> None:
    machines = [("10.0.0.1", NONE), ("10.0.0.2", NONE)]
    names = ["controller-1001", "controller-1002", "controller-1003"]
    assert place(names, machines) == {
        "controller-1001": ("10.0.0.1", "node:10.0.0.1"),
        "controller-1002": ("10.0.0.2", "node:10.0.0.2"),
        "controller-1003": ("10.0.0.1", "node:10.0.0.1"),
    }


def test_a_machine_that_offers_a_node_gets_it() -> None:
    machines = [("10.0.0.1", NONE), ("10.0.0.2", frozenset({"rayft-broker-1"}))]
    assert place(["broker-1", "broker-2"], machines) == {
        "broker-1": ("10.0.0.2", "rayft-broker-1"),
        "broker-2": ("10.0.0.1", "node:10.0.0.1"),
    }


def test_the_cluster_file_fits_rays_schema() -> None:
    yaml = pytest.importorskip("yaml")
    jsonschema = pytest.importorskip("jsonschema")
    ray = pytest.importorskip("ray")
    described = yaml.safe_load((ROOT / "cluster.yaml").read_text())
    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())
    jsonschema.validate(described, schema)
    for key in ("head_start_ray_commands", "worker_start_ray_commands"):
        start = described[key][-1]
        assert "RAY_gcs_rpc_server_reconnect_timeout_s=86400" in start
        assert "RAY_AUTH_MODE=token" in start
        assert "&& ray start" in start, "the settings reach ray start"


def broker(path: Path) -> on_ray.RayNode:
    own = {
        "process.roles": "broker",
        "broker.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "controller.connect": "1001@127.0.0.1:1",
        "log.dirs": str(path / "broker-1"),
    }
    return on_ray.RayNode("broker-1", own, "3Db5QLSqSZieL3rJBUUegA", bytes(range(16)), [])


def test_a_node_whose_directory_is_still_held_ends_its_process_and_not_its_actor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray may start an actor anew while the old process lives. It gives an actor up whose constructor fails."""
    exits: list[int] = []
    monkeypatch.setattr(on_ray, "REFUSED_PAUSE_S", 0.0)
    monkeypatch.setattr(os, "_exit", exits.append)
    (tmp_path / "broker-1").mkdir()
    old = locks.Lock(str(tmp_path / "broker-1"))
    node = broker(tmp_path)
    node._thread.join(10)
    old.close()
    ended = node.state()["ended"]
    assert ended[0] == 3 and "in use by process" in ended[1]
    assert exits == [3]


def test_a_node_that_breaks_ends_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor without a node would look alive to Ray for ever."""
    exits: list[int] = []
    monkeypatch.setattr(os, "_exit", exits.append)
    (tmp_path / "broker-1.log").mkdir()
    monkeypatch.setattr(on_ray, "REFUSED_PAUSE_S", 0.0)
    node = broker(tmp_path)
    node._thread.join(10)
    assert "Is a directory" in node.state()["ended"][1]
    assert exits == [3]


def up(
    directory: Path, monkeypatch: pytest.MonkeyPatch, start: Callable[[str, Any], None] = lambda name, choice: None
) -> int:
    """`rayft up --ray` with nothing of Ray in it."""
    monkeypatch.setattr(on_ray, "connect", lambda address: types.SimpleNamespace(nodes=list))
    monkeypatch.setattr(on_ray, "machines", lambda nodes: [("127.0.0.1", NONE)])
    monkeypatch.setattr(on_ray, "_actor", lambda ray, name, choice, secrets: start(name, choice))
    monkeypatch.setattr(on_ray, "_wait", lambda ray, actors, plan: dict.fromkeys(actors, 1))
    return on_ray.up(
        argparse.Namespace(ray="auto", dir=directory, controllers=1, brokers=1, port=9092, secure=None), {}
    )


def test_a_cluster_of_processes_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans.create(tmp_path, 1, 1, common={"log.retention.hours": "1"})
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.properties")}
    with pytest.raises(ClusterError, match="leave --ray out"):
        up(tmp_path, monkeypatch)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.properties")} == before
    assert not (tmp_path / "ray.json").exists()


@pytest.mark.parametrize("command", ["up", "down"])
def test_without_ray_it_says_what_to_install(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert cli.main([command, "--ray", "--dir", str(tmp_path / "cluster")]) == 1
    assert capsys.readouterr().err == "rayft: this command needs ray: pip install 'rayft[ray]'.\n"


def test_a_cluster_on_ray_is_not_started_or_stopped_as_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray would start again what `down` ends."""
    assert up(tmp_path, monkeypatch) == 0
    assert up(tmp_path, monkeypatch) == 0
    with pytest.raises(ClusterError, match="--ray"):
        Cluster(dir=tmp_path).start()
    with pytest.raises(ClusterError, match="--ray"):
        down(tmp_path)


def test_a_choice_is_enough_to_go_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command may be killed between one file and the next."""
    up(tmp_path, monkeypatch)
    made = plans.load(tmp_path)
    (tmp_path / "broker-1.properties").unlink()
    assert up(tmp_path, monkeypatch) == 0
    assert plans.load(tmp_path) == made


def test_settings_are_changed_in_the_properties_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    up(tmp_path, monkeypatch)
    with (tmp_path / "broker-1.properties").open("a") as file:
        file.write("log.retention.hours=1\n")
    given = {}
    assert up(tmp_path, monkeypatch, lambda name, choice: given.update({name: choice["nodes"][name]})) == 0
    assert given["broker-1"]["properties"]["log.retention.hours"] == "1"


class Gone(Exception):
    """What a call of an actor ends with whose process is not there."""


class Late(Exception):
    """What it ends with where no machine is there for the actor."""


def test_a_node_whose_process_ends_while_it_starts_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray starts it again; a node that stays away is named in the end."""
    plan = plans.create(tmp_path, 1, 0, common={})
    answers: list[Any] = [Gone(), {"pid": 7, "listening": ["CONTROLLER"], "ended": None}]

    def get(call: Any, timeout: float) -> Any:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    actor = types.SimpleNamespace(state=types.SimpleNamespace(remote=lambda: None))
    ray = types.SimpleNamespace(get=get, exceptions=types.SimpleNamespace(RayActorError=Gone, GetTimeoutError=Late))
    assert on_ray._wait(ray, {"controller-1001": actor}, plan) == {"controller-1001": 7}
    monkeypatch.setattr(on_ray, "READY_TIMEOUT_S", 0.2)
    for missing in (Gone(), Late()):
        answers[:] = [missing]
        with pytest.raises(ClusterError, match="not ready after 0 s: controller-1001"):
            on_ray._wait(ray, {"controller-1001": actor}, plan)
