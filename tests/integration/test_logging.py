"""The lines of a cluster's nodes go where a user of `rayft.Cluster` has Python's `logging` send them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import rayft


def test_lines_of_all_nodes_are_routed_by_a_file(tmp_path: Path) -> None:
    routed, file = tmp_path / "routed", tmp_path / "logging.json"
    handler = {"class": "logging.FileHandler", "filename": str(routed), "formatter": "json", "level": "INFO"}
    given = {
        "version": 1,
        "formatters": {"json": {"format": '{"at": "%(asctime)s", "from": "%(name)s", "says": "%(message)s"}'}},
        "handlers": {"file": handler},
        "loggers": {"rayft.host": {"handlers": ["file"]}},
    }
    file.write_text(json.dumps(given))
    config = {"rayft.logging.config": str(file), "num.io.threads": "3"}
    with rayft.Cluster(controllers=1, brokers=1, dir=tmp_path / "cluster", config=config, port=0) as cluster:
        own = cluster.log(cluster.broker_ids[0])
    lines = [json.loads(line) for line in routed.read_text().splitlines()]
    notices = [line["from"] for line in lines if "num.io.threads has no effect" in line["says"]]
    assert notices == ["rayft.host.serve"] * 2, "the controller's and the broker's"
    assert all(line["from"].startswith("rayft.host") for line in lines)
    assert "num.io.threads has no effect" in own, "the logger `rayft` has kept its own stream"


def test_what_a_handler_keeps_back_is_written_when_a_node_ends(tmp_path: Path) -> None:
    routed, file = tmp_path / "routed", tmp_path / "logging.json"
    given = {
        "version": 1,
        "handlers": {
            "file": {"class": "logging.FileHandler", "filename": str(routed)},
            "kept": {"class": "logging.handlers.MemoryHandler", "capacity": 100_000, "target": "file"},
        },
        "loggers": {"rayft": {"handlers": ["kept"]}},
    }
    file.write_text(json.dumps(given))
    config = {"rayft.logging.config": str(file)}
    with rayft.Cluster(controllers=1, brokers=1, dir=tmp_path / "cluster", config=config, port=0):
        pass
    ends = [line for line in routed.read_text().splitlines() if " ends: " in line]
    assert len(ends) == 2, "of the controller and of the broker"


def test_a_log_for_programs_has_an_object_in_each_line(tmp_path: Path) -> None:
    """From the first line of a node to the one that says that it ends, in the supervisor's log too, and though a handler
    that cannot write says so on standard error."""
    full = {"class": "logging.FileHandler", "filename": "/dev/full"}
    routes = {"version": 1, "handlers": {"full": full}, "loggers": {"rayft.host": {"handlers": ["full"]}}}
    (tmp_path / "logging.json").write_text(json.dumps(routes))
    words = ["--controllers", "1", "--brokers", "1", "--port", "0", "--dir", str(tmp_path), "--log-format", "json"]
    command = [sys.executable, "-m", "actors.command.cli"]
    route = ("--set", f"rayft.logging.config={tmp_path / 'logging.json'}")
    subprocess.run([*command, "up", *words, "--set", "num.io.threads=3", *route, "--detach"], check=True, timeout=120)
    running = json.loads((tmp_path / "cluster.json").read_text())["brokers"][0]["pid"]
    os.kill(running, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while not (tmp_path / "supervisor.log").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    subprocess.run([*command, "down", "--dir", str(tmp_path)], check=True, timeout=120)
    logs = [path for path in tmp_path.glob("*.log") if path.name != "supervisor.log"]
    assert len(logs) == 2
    nodes = set()
    for path in logs:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        nodes |= {line["node"] for line in lines}
        assert "num.io.threads has no effect" in lines[0]["message"] + lines[1]["message"]
        assert any(line["message"].startswith("--- Logging error ---") for line in lines)
        ended = [line for line in lines if line["logger"] == "rayft.host.serve"][-1]
        assert " ends: " in ended["message"] and ended["level"] == "INFO"
    assert len(nodes) == 2
    told = [json.loads(line) for line in (tmp_path / "supervisor.log").read_text().splitlines()]
    assert told and all(line["node"] is None for line in told)
