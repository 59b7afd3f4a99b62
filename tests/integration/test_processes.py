"""Clusters of real processes: start, kill, stop, and what the command reports about them."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rayft
from actors.host.cluster import probe
from actors.host.cluster.on_processes import Cluster, ClusterError
from actors.settings.keys import ConfigError
from bench.ports import free_port, free_ports
from tests.integration.conftest import command

ROOT = Path(__file__).parent.parent.parent


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(holds, timeout_s: float = 60.0) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with rayft.Cluster(controllers=3, brokers=3) as one:
        yield one


def test_who_is_there(cluster: Cluster) -> None:
    assert (cluster.controller_ids, cluster.broker_ids) == ([1001, 1002, 1003], [1, 2, 3])
    assert len(cluster.bootstrap_servers.split(",")) == 3
    assert set(cluster.pids) == {1, 2, 3, 1001, 1002, 1003}
    assert len(set(cluster.pids.values())) == 6, "each has a process of its own"
    assert cluster.leader_id() in cluster.controller_ids
    assert "has no effect" not in cluster.log(1), "of what was written for them, no node complains"
    described = json.loads((cluster.dir / "cluster.json").read_text())
    assert described["cluster_id"] == cluster.cluster_id
    assert described["bootstrap_servers"] == cluster.bootstrap_servers
    assert described["bootstrap_controllers"] == cluster.bootstrap_controllers
    assert {row["id"]: row["pid"] for row in described["controllers"] + described["brokers"]} == cluster.pids


def test_status_says_it_too(cluster: Cluster) -> None:
    ran = command("status", "--json", "--dir", str(cluster.dir))
    assert ran.returncode == 0, ran.stderr
    state = json.loads(ran.stdout)
    assert state["leader_id"] == cluster.leader_id()
    assert {row["state"] for row in state["brokers"]} == {"active"}
    assert sorted(row["state"] for row in state["controllers"]) == ["follower", "follower", "leader"]
    assert {row["id"]: row["pid"] for row in state["controllers"] + state["brokers"]} == cluster.pids
    assert "active" in command("status", "--dir", str(cluster.dir)).stdout


def test_who_watches_and_has_seen_enough_is_told_nothing(cluster: Cluster) -> None:
    words = [sys.executable, "-m", "actors.command.cli", "status", "--json", "--watch", "--dir", str(cluster.dir)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stderr is not None
        assert running.stdout.readline() == b"{\n"
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


def test_a_killed_broker_comes_back_on_its_port(cluster: Cluster) -> None:
    before, address = cluster.pids[2], cluster.address(2)
    cluster.kill(2)
    cluster.wait_ready(2)
    assert cluster.pids[2] != before
    assert cluster.address(2) == address
    assert probe.serves(address)
    until(lambda: json.loads((cluster.dir / "cluster.json").read_text())["brokers"][1]["pid"] == cluster.pids[2])
    line = (cluster.dir / "supervisor.log").read_text().splitlines()[-1]
    told = f"broker-2 is started again, as process {cluster.pids[2]}: it was ended by signal 9 (Killed)"
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\d \S+ WARN  {re.escape(told)}", line)


def test_a_killed_leader_is_replaced_and_comes_back(cluster: Cluster) -> None:
    leader = cluster.leader_id()
    cluster.kill(leader, restart=False)
    assert leader not in cluster.pids
    until(lambda: cluster.leader_id() != leader)
    assert command("status", "--json", "--dir", str(cluster.dir)).returncode == 1, "a node is missing"
    cluster.start_node(leader)
    cluster.wait_ready(leader)
    until(lambda: leader in cluster.quorum().ends)


def test_a_restart_is_controlled(cluster: Cluster) -> None:
    before = cluster.pids[3]
    cluster.restart(3)
    assert cluster.pids[3] != before
    assert f"process {before} ends: stopped as asked" in cluster.log(3)


def test_unknown_nodes_are_named(cluster: Cluster) -> None:
    with pytest.raises(KeyError, match="no node has the id 99"):
        cluster.kill(99)


def test_a_directory_is_used_once_at_a_time(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match=rf"{cluster.dir} is in use by process \d+"):
        Cluster(dir=cluster.dir).start()
    with pytest.raises(ConfigError, match="holds a cluster with 3 brokers, not 5"):
        Cluster(brokers=5, dir=cluster.dir).start()
    ran = command("node", "--config", str(cluster.dir / "broker-1.properties"))
    assert ran.returncode == 3
    assert f"is in use by process {cluster.pids[1]}" in ran.stderr


def test_a_cluster_ends_whole_and_starts_again_as_it_was(tmp_path: Path) -> None:
    with rayft.Cluster(1, 1, tmp_path, combined=True) as one:
        assert one.pids[1] == one.pids[1001]
        first = (one.cluster_id, one.bootstrap_servers)
        pids = list(one.pids.values())
        epoch = one.quorum().leader_epoch
    assert not any(alive(pid) for pid in pids)
    assert not (tmp_path / "cluster.json").exists()
    with rayft.Cluster(dir=tmp_path) as again:
        assert (again.cluster_id, again.bootstrap_servers) == first
        assert again.leader_id() == 1001
        assert again.quorum().leader_epoch > epoch
    assert tmp_path.exists()


def test_nothing_is_left_when_the_starter_is_killed(tmp_path: Path) -> None:
    code = (
        "import rayft, sys, time\n"
        "with rayft.Cluster(1, 1, sys.argv[1]) as c:\n"
        "    print(*c.pids.values(), flush=True)\n"
        "    time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        pids = [int(text) for text in process.stdout.readline().split()]
        assert len(pids) == 2
        process.kill()
    until(lambda: not any(alive(pid) for pid in pids))


def test_nothing_is_left_when_the_supervisor_is_killed() -> None:
    cluster = Cluster(1, 1).start()
    try:
        pids = list(cluster.pids.values())
        assert cluster._process is not None
        cluster._process.kill()
        until(lambda: not any(alive(pid) for pid in pids))
    finally:
        cluster.stop()
    assert not cluster.dir.exists()


def test_nothing_is_left_of_a_detached_cluster_that_is_stopped_in_a_hurry(tmp_path: Path) -> None:
    """This happens when its start has failed: its broker waits for a controller that does not answer."""
    cluster = Cluster(1, 1, tmp_path, detached=True).start()
    pids = list(cluster.pids.values())
    try:
        cluster.kill(1001, signal.SIGSTOP)
        cluster.stop(timeout_s=1.0)
        assert not any(alive(pid) for pid in pids)
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = command("up", "--dir", str(tmp_path / "c"), "--port", str(port), "--brokers", "1", "--controllers", "1")
    assert ran.returncode == 1
    assert ran.stderr.strip().count("\n") == 0
    named = re.search(r"port (\d+) on 127\.0\.0\.1 cannot be used", ran.stderr)
    assert named and int(named[1]) in (port, port + 100), "a test beside this one may use the controller's port"
    assert not list((tmp_path / "c").glob("*.properties"))


def test_a_wrong_setting_is_one_sentence(tmp_path: Path) -> None:
    ran = command("up", "--dir", str(tmp_path), "--port", "0", "--set", "log.retention.hrs=1")
    assert ran.returncode == 1
    assert "did you mean log.retention.hours?" in ran.stderr
    ran = command("up", "--dir", str(tmp_path), "--port", "0", "--set", "broker.id=1")
    assert "differs from node to node" in ran.stderr


def test_up_detached_and_down(tmp_path: Path) -> None:
    ran = command("up", "--dir", str(tmp_path), "--controllers", "1", "--brokers", "1", "--port", "0", "--detach")
    try:
        assert ran.returncode == 0, ran.stderr
        described = json.loads((tmp_path / "cluster.json").read_text())
        pids = [row["pid"] for row in described["controllers"] + described["brokers"]]
        assert all(alive(pid) for pid in pids)
        assert described["bootstrap_servers"] in ran.stdout
        assert json.loads(command("status", "--json", "--dir", str(tmp_path)).stdout)["leader_id"] == 1001
    finally:
        ran = command("down", "--dir", str(tmp_path))
    assert (ran.returncode, ran.stdout) == (0, "stopped\n")
    assert not any(alive(pid) for pid in pids)
    assert "no cluster is running" in command("down", "--dir", str(tmp_path)).stdout
    assert "stopped as asked" in (tmp_path / "broker-1.log").read_text()


def test_down_stops_a_cluster_whose_settings_are_not_taken_any_more(tmp_path: Path) -> None:
    """This happens after an upgrade to a release that refuses one of them."""
    ran = command("up", "--dir", str(tmp_path), "--controllers", "1", "--brokers", "1", "--port", "0", "--detach")
    assert ran.returncode == 0, ran.stderr
    described = json.loads((tmp_path / "cluster.json").read_text())
    pids = [row["pid"] for row in described["controllers"] + described["brokers"]]
    with (tmp_path / "broker-1.properties").open("a") as file:
        file.write("log.segment.bytes=none\n")
    ran = command("down", "--dir", str(tmp_path))
    assert (ran.returncode, ran.stdout) == (0, "stopped\n")
    assert not any(alive(pid) for pid in pids)
    ran = command("down", "--dir", str(tmp_path))
    assert ran.returncode == 1 and "log.segment.bytes" in ran.stderr


def _heed_ctrl_c() -> None:
    """Handle SIGINT again: tests in the background of a shell have inherited that it is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_up_in_the_foreground_ends_with_ctrl_c(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "actors.command.cli", "up", "--dir", str(tmp_path), "--controllers", "1", "--brokers", "1",
         "--port", "0"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=_heed_ctrl_c,
    )  # fmt: skip
    with process:
        log = tmp_path / "broker-1.log"
        until(lambda: log.exists() and "serves clients" in log.read_text() and (tmp_path / "cluster.json").exists())
        described = json.loads((tmp_path / "cluster.json").read_text())
        pids = [row["pid"] for row in described["controllers"] + described["brokers"]]
        time.sleep(1.0)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert output.rstrip().endswith("stopped")
    assert not any(alive(pid) for pid in pids)


def test_one_node_by_hand(tmp_path: Path) -> None:
    """The commands format and node, as in a container."""
    ports = free_ports(2)
    file = tmp_path / "node.properties"
    file.write_text(
        "process.roles=broker,controller\nbroker.id=1\ncontroller.id=1001\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:{ports[0]},CONTROLLER://127.0.0.1:{ports[1]}\n"
        f"controller.quorum.voters=1001@127.0.0.1:{ports[1]}\nlog.dirs={tmp_path / 'data'}\n"
    )
    ran = command("node", "--config", str(file))
    assert ran.returncode == 3
    assert "is not formatted: run `rayft format`" in ran.stderr
    identity = command("random-id").stdout.strip()
    assert "must know its quorum" in command("format", "--config", str(file), "--cluster-id", identity).stderr
    ran = command("format", "--config", str(file), "--cluster-id", identity, "--standalone")
    assert ran.returncode == 0, ran.stderr
    process = subprocess.Popen(
        [sys.executable, "-m", "actors.command.cli", "node", "--config", str(file)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        until(lambda: probe.serves(("127.0.0.1", ports[0])))
        assert probe.quorum([("127.0.0.1", ports[1])]).leader_id == 1001
        process.terminate()
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "stopped as asked" in output


def test_metrics_are_shown_over_http_and_by_status(tmp_path: Path) -> None:
    port = free_port()
    listen = {"rayft.metrics.listen": f"127.0.0.1:{port}"}
    with Cluster(1, 1, tmp_path / "c", listen, combined=True):
        shown = probe.metrics(("127.0.0.1", port))
        lags = {"kafka_controller_kafkacontroller_metadatalag", "kafka_controller_kafkaserver_metadatalag"}
        assert lags <= set(shown)
        assert shown["kafka_server_kafkaserver_brokerstate"] == 3
        said = json.loads(command("status", "--json", "--dir", str(tmp_path / "c")).stdout)
        assert said["controllers"][0]["metrics"]["kafka_controller_kafkacontroller_activecontrollercount"] == 1


def memory_kb(pid: int) -> int:
    """The memory that a process has alone, and its share of what it shares with others."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return int(next(row for row in rows if row.startswith("Pss:")).split()[1])


def test_r631_008_sharing_a_process_saves_memory(tmp_path: Path) -> None:
    """Much of it, since one interpreter, one set of modules and one image of the metadata serve both roles."""
    used = {}
    for combined in (True, False):
        with Cluster(1, 1, tmp_path / str(combined), combined=combined) as one:
            used[combined] = sum(memory_kb(pid) for pid in set(one.pids.values()))
    assert used[True] < 0.75 * used[False]
