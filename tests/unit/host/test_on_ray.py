"""Placing nodes on Ray's machines, and the file for `ray up`; nothing here starts Ray."""

import json
import os
from pathlib import Path

import pytest

from actors.host import on_ray, storage
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
    old = storage.Lock(str(tmp_path / "broker-1"))
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
