"""Each alert rule of `ops/` on series that Prometheus' own tester makes up: it fires for the fault that it names, is quiet
before it and again behind it, and no other rule fires for it.

Needs promtool, which is in Debian's package prometheus."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ops.make import HERE
from ops.watched import ALERTS

CONTROLLER, RAFT = "kafka_controller_kafkacontroller_", "kafka_server_raftmetrics_"
NODES = [f"n{number}:9404" for number in range(1, 7)]
CONTROLLERS, BROKERS = NODES[:3], NODES[3:]
EXPORTER, GROUPS = "n1:9308", "rayft-groups"
HEALTHY_S, FAULT_S, AFTER_S = 300, 900, 1200
"""A fault begins after the first, ends after the second; the third is how long a series goes on behind that."""
STEP_S = 10


def series(name: str, instance: str, **labels: str) -> str:
    pairs = {"job": "rayft", "instance": instance, **labels}
    return name + "{" + ",".join(f"{key}={json.dumps(value)}" for key, value in pairs.items()) + "}"


def values(usual: float, faulty: float | None = None) -> str:
    """A number that is another one while the fault lasts; None: it is missing."""
    before, during, after = HEALTHY_S // STEP_S, FAULT_S // STEP_S, AFTER_S // STEP_S
    middle = f"_x{during}" if faulty is None else f"{faulty}x{during - 1}"
    return f"{usual}x{before - 1} {middle} {usual}x{after}"


def healthy() -> dict[str, float]:
    """What a cluster of three controllers and three brokers shows when all is well, as far as rules look at it."""
    found: dict[str, float] = {}
    for node in NODES:
        found[series("up", node)] = 1
        found[series(RAFT + "number_of_voters", node)] = 3
        found[series("process_open_fds", node)] = 100
        found[series("process_max_fds", node)] = 1024
        found[series("rayft_failed_logins_total", node)] = 0
        found[series("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", node)] = 0.9
    found[series("rayft_quorum_voters_caught_up", CONTROLLERS[0])] = 3
    for place, node in enumerate(CONTROLLERS):
        found[series(CONTROLLER + "activecontrollercount", node)] = int(place == 0)
        found[series(CONTROLLER + "metadatalag", node)] = 2
        found[series("kafka_controller_controllerstats_uncleanleaderelections_total", node)] = 0
    for name in ("offlinepartitionscount", "fencedbrokercount"):
        found[series(CONTROLLER + name, CONTROLLERS[0])] = 0
    for node in BROKERS:
        for name in ("underminisrpartitioncount", "underreplicatedpartitions"):
            found[series("kafka_server_replicamanager_" + name, node)] = 0
        found[series("kafka_log_logmanager_offlinelogdirectorycount", node)] = 0
        found[series("rayft_log_directory_without_room", node, logDirectory="/data")] = 0
        found[series("kafka_controller_kafkaserver_metadatalag", node)] = 2
        found[series("kafka_server_replicafetchermanager_maxlag", node, clientId="Replica")] = 0
    found[series("up", EXPORTER, job=GROUPS)] = 1
    found[series("rayft_exporter_unanswered", EXPORTER, job=GROUPS, what="groups")] = 0
    found[series("rayft_exporter_unanswered", EXPORTER, job=GROUPS, what="topics")] = 5
    return found


def of_node(node: str) -> dict[str, float | None]:
    """Everything that a node shows is missing, and its scrapes fail."""
    return {name: None for name in healthy() if json.dumps(node) in name} | {series("up", node): 0}


LEADER, FOLLOWER, BROKER = CONTROLLERS[0], CONTROLLERS[1], BROKERS[0]
NOBODY = (
    {name: None for name in healthy()}
    | {series("up", node): 0 for node in NODES}
    | {series("up", EXPORTER, job=GROUPS): 0}
)
FAULTS: dict[str, tuple[set[str], dict[str, float | None]]] = {
    "a broker's metrics are away": ({"RayftNodeDown"}, of_node(BROKER)),
    "a voter is away": (
        {"RayftNodeDown", "RayftQuorumLacksVoters"},
        of_node(FOLLOWER) | {series("rayft_quorum_voters_caught_up", LEADER): 2},
    ),
    "a voter is cut off": ({"RayftQuorumLacksVoters"}, {series("rayft_quorum_voters_caught_up", LEADER): 2}),
    "nobody is there": ({"RayftNodeDown", "RayftNoActiveController", "RayftGroupsUnseen"}, NOBODY),
    "the lags of groups are not asked for": ({"RayftGroupsUnseen"}, {series("up", EXPORTER, job=GROUPS): 0}),
    "a group does not answer": (
        {"RayftGroupsUnseen"}, {series("rayft_exporter_unanswered", EXPORTER, job=GROUPS, what="groups"): 1}
    ),
    "all controllers are away": (
        {"RayftNodeDown", "RayftNoActiveController", "RayftQuorumLacksVoters"},
        of_node(CONTROLLERS[0]) | of_node(CONTROLLERS[1]) | of_node(CONTROLLERS[2]),
    ),
    "nobody leads": (
        {"RayftNoActiveController", "RayftQuorumLacksVoters"},
        {
            series(CONTROLLER + "activecontrollercount", LEADER): 0,
            series("rayft_quorum_voters_caught_up", LEADER): None,
        },
    ),
    "two lead": ({"RayftNoActiveController"}, {series(CONTROLLER + "activecontrollercount", FOLLOWER): 1}),
    "partitions have no leader": ({"RayftOfflinePartitions"}, {series(CONTROLLER + "offlinepartitionscount", LEADER): 2}),
    "a broker is fenced": ({"RayftFencedBrokers"}, {series(CONTROLLER + "fencedbrokercount", LEADER): 1}),
    "partitions are under min.insync.replicas": (
        {"RayftUnderMinIsr", "RayftUnderReplicated"},
        {
            series("kafka_server_replicamanager_underminisrpartitioncount", BROKER): 1,
            series("kafka_server_replicamanager_underreplicatedpartitions", BROKER): 1,
        },
    ),
    "a disk has failed": (
        {"RayftOfflineDirectories"}, {series("kafka_log_logmanager_offlinelogdirectorycount", BROKER): 1}
    ),
    "a disk is full": (
        {"RayftNoRoom"}, {series("rayft_log_directory_without_room", BROKER, logDirectory="/data"): 1}
    ),
    "a broker lacks metadata": (
        {"RayftMetadataLag"}, {series("kafka_controller_kafkaserver_metadatalag", BROKER): 5_000}
    ),
    "a controller lacks metadata": ({"RayftMetadataLag"}, {series(CONTROLLER + "metadatalag", FOLLOWER): 5_000}),
    "a follower is far behind": (
        {"RayftFollowerLag"}, {series("kafka_server_replicafetchermanager_maxlag", BROKER, clientId="Replica"): 50_000}
    ),
    "a thread is busy": (
        {"RayftBusy"},
        {series("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", BROKER): 0.02},
    ),
    "descriptors run out": ({"RayftFewDescriptors"}, {series("process_open_fds", BROKER): 950}),
}  # fmt: skip
BEFORE, DURING, AFTER = HEALTHY_S // STEP_S, FAULT_S // STEP_S, AFTER_S // STEP_S
OF_GROUP = {"job": GROUPS, "consumergroup": "g", "topic": "t", "partition": "0"}
COMMITTED, LAG = (series(f"kafka_consumergroup_{name}", EXPORTER, **OF_GROUP) for name in ("current_offset", "lag"))
COUNTED = {
    "a replica that was not in sync leads": (
        {"RayftUncleanElections"},
        {
            series("kafka_controller_controllerstats_uncleanleaderelections_total", LEADER): (
                f"0x{BEFORE - 1} 1x{DURING + AFTER}"
            )
        },
        300,
    ),
    "logins fail": (
        {"RayftFailedLogins"},
        {series("rayft_failed_logins_total", BROKER): f"0x{BEFORE - 1} 0+50x{DURING - 1} {50 * DURING}x{AFTER}"},
        420,
    ),
    "a group stops while records come": (
        {"RayftGroupStopped"},
        {
            COMMITTED: f"0+10x{BEFORE - 1} {10 * BEFORE}x{DURING - 1} {10 * BEFORE}+20x{AFTER}",
            LAG: f"5x{BEFORE - 1} 5+10x{DURING - 1} {10 * DURING}-5x{AFTER}",
        },
        660,
    ),
    "a group has read all, and no record comes": (set(), {COMMITTED: f"7x{BEFORE + DURING + AFTER}", LAG: "0x500"}, 660),
    "a group is behind and reads": (
        set(), {COMMITTED: f"0+10x{BEFORE + DURING + AFTER}", LAG: f"5+10x{BEFORE + DURING + AFTER}"}, 660
    ),
}  # fmt: skip
"""What is counted: (the alerts that fire, the series as they go on, so many seconds behind the beginning of the fault)."""

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool (Debian's package prometheus) in PATH"
)


TIMES_S = [HEALTHY_S - STEP_S, HEALTHY_S + FAULT_S - STEP_S, HEALTHY_S + FAULT_S + AFTER_S - STEP_S]
"""Before the fault, at its end, and long behind it."""


def group(inputs: dict[str, str], expected: list[tuple[int, set[str]]]) -> dict[str, Any]:
    """A test of promtool's: the series, and which alerts fire at which times."""
    return {
        "interval": f"{STEP_S}s",
        "input_series": [{"series": name, "values": text} for name, text in inputs.items()],
        "promql_expr_test": [
            {
                "expr": 'group by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{at_s}s",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(names)],
            }
            for at_s, names in expected
        ],
    }


def tried(groups: list[dict[str, Any]], directory: Path) -> "subprocess.CompletedProcess[str]":
    test = {
        "rule_files": [str(HERE / "prometheus" / "rules.yml")],
        "evaluation_interval": f"{STEP_S}s",
        "tests": groups,
    }
    (directory / "test.yml").write_text(yaml.safe_dump(test))
    command = ["promtool", "test", "rules", str(directory / "test.yml")]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def groups() -> Iterator[dict[str, Any]]:
    well = {name: values(usual, usual) for name, usual in healthy().items()}
    for names, changes in FAULTS.values():
        inputs = dict(well)
        for name, faulty in changes.items():
            usual = healthy().get(name)
            before = f"_x{HEALTHY_S // STEP_S} {faulty}x{FAULT_S // STEP_S - 1}"
            inputs[name] = before if usual is None else values(usual, faulty)
        yield group(inputs, [(TIMES_S[0], set()), (TIMES_S[1], names), (TIMES_S[2], set())])
    for names, counted, after_s in COUNTED.values():
        yield group(well | counted, [(TIMES_S[0], set()), (HEALTHY_S + after_s, names), (TIMES_S[2], set())])


@pytest.mark.long
def test_each_rule_fires_for_its_faults_and_for_no_other_and_ends_with_them(tmp_path: Path) -> None:
    done = tried(list(groups()), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_has_a_fault() -> None:
    named = {name for names, _ in FAULTS.values() for name in names} | {
        name for names, _, _ in COUNTED.values() for name in names
    }
    assert {alert.name for alert in ALERTS} == named


def test_an_alert_says_how_many_controllers_are_active_where_none_is_seen(tmp_path: Path) -> None:
    alert = next(one for one in ALERTS if one.name == "RayftNoActiveController")
    told = {"summary": "0 controllers are active, not one.", "description": alert.then}
    expected = {
        "alertname": alert.name,
        "eval_time": "5m",
        "exp_alerts": [{"exp_labels": {"severity": alert.severity}, "exp_annotations": told}],
    }
    inputs = [{"series": series("up", LEADER), "values": "0x100"}]
    done = tried([{"interval": "10s", "input_series": inputs, "alert_rule_test": [expected]}], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
