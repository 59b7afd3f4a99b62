"""The lines of a cluster's nodes go where a user of `rayft.Cluster` has Python's `logging` send them."""

import json
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
