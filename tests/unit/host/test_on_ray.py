"""Placing nodes on Ray's machines, and the file for `ray up`; nothing here starts Ray."""

import json
from pathlib import Path

import pytest

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
