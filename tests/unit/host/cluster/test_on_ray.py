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

from actors.command import cli
from actors.host.cluster import on_ray
from actors.host.cluster import plan as plans
from actors.host.cluster.on_processes import Cluster, ClusterError, down
from actors.host.cluster.on_ray import place
from actors.host.work import locks

ROOT = Path(__file__).parent.parent.parent.parent.parent
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
    monkeypatch.setattr(on_ray, "_wait", lambda ray, names, made, plan: {name: made(name) or 1 for name in names})
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


class Away(Exception):
    """What a call of an actor ends with whose process is not there."""


class Dead(Away):
    """What it ends with where the actor has ended for good."""


class Late(Exception):
    """What it ends with where no machine is there for the actor."""


class Starting:
    """Ray as `up` sees it: actors that answer, by name, what is in their lines; the last answer is given for ever."""

    def __init__(self, **lines: list[Any]) -> None:
        self._lines = {name.replace("_", "-"): line for name, line in lines.items()}
        self.exceptions = types.SimpleNamespace(RayActorError=Away, ActorDiedError=Dead, GetTimeoutError=Late)

    def get(self, line: list[Any], timeout: float) -> Any:
        answer = line.pop(0) if len(line) > 1 else line[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def made(self, name: str, *, new: bool = True) -> on_ray.Made:
        actor = types.SimpleNamespace(state=types.SimpleNamespace(remote=lambda: self._lines[name]))
        return on_ray.Made(actor, new=new)


def serves(pid: int, *listening: str) -> dict[str, Any]:
    return {"pid": pid, "listening": list(listening), "ended": None}


FIRST = ["controller-1001"]


def test_a_node_whose_process_ends_while_it_starts_is_waited_for(tmp_path: Path) -> None:
    """Ray starts it again."""
    plan = plans.create(tmp_path, 1, 0, common={})
    ray = Starting(controller_1001=[Away(), Late(), serves(7, "CONTROLLER")])
    assert on_ray._wait(ray, FIRST, ray.made, plan) == {"controller-1001": 7}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Away(), "its process has ended"),
        (Late(), "or Ray has not started it"),
        (serves(7), "process 7 listens to nobody yet"),
    ],
)
def test_a_node_that_stays_away_is_named_with_what_it_did_and_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Any, why: str
) -> None:
    monkeypatch.setattr(on_ray, "READY_TIMEOUT_S", 0.2)
    plan = plans.create(tmp_path, 1, 0, common={})
    ray = Starting(controller_1001=[answer])
    with pytest.raises(ClusterError, match="no progress") as raised:
        on_ray._wait(ray, FIRST, ray.made, plan)
    assert f"controller-1001 ({why}" in str(raised.value).replace("its process has not answered for 3 s, ", "")
    assert str(tmp_path / "controller-1001.log") in str(raised.value)


def test_an_actor_that_was_being_ended_is_made_anew(tmp_path: Path) -> None:
    """It has its name until Ray has put it away; it never serves again."""
    plan = plans.create(tmp_path, 1, 0, common={})
    ray = Starting(old=[serves(7, "CONTROLLER"), Dead()], controller_1001=[serves(8, "CONTROLLER")])
    ray.get(ray._lines["old"], 0)
    found = [ray.made("old", new=False), ray.made("old", new=False), ray.made("controller-1001")]
    assert on_ray._wait(ray, FIRST, lambda name: found.pop(0), plan) == {"controller-1001": 8}


def test_an_actor_of_its_own_that_ends_for_good_is_told_at_once(tmp_path: Path) -> None:
    plan = plans.create(tmp_path, 1, 0, common={})
    ray = Starting(controller_1001=[Dead("killed by `ray.kill`")])
    with pytest.raises(ClusterError, match=r"its actor has ended: killed by `ray\.kill`; its log is "):
        on_ray._wait(ray, FIRST, ray.made, plan)


def test_nodes_that_start_one_after_the_other_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray starts one process at a time where it counts one processor: only a time without progress ends the start."""
    monkeypatch.setattr(on_ray, "READY_TIMEOUT_S", 1.0)
    monkeypatch.setattr(on_ray, "NAME_PAUSE_S", 0.4)
    plan = plans.create(tmp_path, 3, 0, common={})
    lines = {f"controller_{1000 + n}": [Late()] * 2 * n + [serves(n, "CONTROLLER")] for n in (1, 2, 3)}
    ray = Starting(**lines)
    pids = on_ray._wait(ray, [f"controller-{1000 + n}" for n in (1, 2, 3)], ray.made, plan)
    assert pids == {"controller-1001": 1, "controller-1002": 2, "controller-1003": 3}


def test_a_node_whose_process_ends_again_and_again_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray starts it anew for ever."""
    monkeypatch.setattr(on_ray, "READY_TIMEOUT_S", 0.5)
    plan = plans.create(tmp_path, 1, 0, common={})
    line = [one for pid in range(1, 61) for one in (serves(pid), Away())]
    ray = Starting(controller_1001=[*line, serves(61, "CONTROLLER")])
    with pytest.raises(ClusterError, match="no progress"):
        on_ray._wait(ray, FIRST, ray.made, plan)


def test_down_waits_until_the_names_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that follows would take the ended actor for the node."""
    monkeypatch.setattr(on_ray, "NAME_PAUSE_S", 0.0)
    actor = types.SimpleNamespace(shutdown=types.SimpleNamespace(remote=lambda timeout_s: None))
    left, killed = [actor] * 4, []
    monkeypatch.setattr(on_ray, "existing", lambda ray, name: left.pop() if left else None)
    ray = types.SimpleNamespace(wait=lambda *a, **k: None, kill=lambda one, no_restart: killed.append(no_restart))
    on_ray.end(ray, FIRST, 1.0)
    assert killed == [True] * 4 and not left
