"""What goes on until Ctrl-C, and a cluster's nodes by its address: against both kinds of cluster, with a broker that goes
away."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.command.conftest import Two
from tests.integration.command.typed import typed
from tests.integration.conftest import ROOT, until

pytestmark = pytest.mark.timeout(300)


@contextmanager
def running(*words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A command that goes on, and handles SIGINT: tests in the background of a shell have inherited that it is ignored."""
    process = subprocess.Popen(
        [sys.executable, "-m", "actors.command.cli", *words],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def line(process: "subprocess.Popen[bytes]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode()


def ended(process: "subprocess.Popen[bytes]") -> None:
    """Ctrl-C ends it well, without a word."""
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    assert (process.wait(30), process.stderr.read()) == (0, b"")


def test_changes_of_health_are_told_and_what_stays_is_not(two: Two, name: str) -> None:
    assert typed(two.servers, "topic", "create", name, "-p", "1", "-r", "2").code == 0
    until(lambda: typed(two.servers, "health").code == 0)
    with running("health", "--watch", "-b", two.servers, "-o", "jsonl") as process:
        first = json.loads(line(process))
        assert (first["well"], first["faults"]) == (True, [])
        two.end()
        seen: list[Any] = [first]
        away = {
            "kind": "broker", "fault": "broker 2 is away and has replicas of 1 partition", "since_ms": None, "cause": "",
            "help": "start broker 2", "is_fault": True,
        }  # fmt: skip
        while seen[-1]["faults"] != [away]:
            seen.append(json.loads(line(process)))
            assert seen[-1]["faults"] != seen[-2]["faults"], "nothing has changed"
        ended(process)
    with running("health", "--watch", "-b", two.servers) as process:
        text = line(process)
        assert text[2:3] == text[5:6] == ":" and text[8:] == f" {away['fault']}: {away['help']}\n"
        ended(process)


def test_the_nodes_of_a_cluster_by_its_address(two: Two, name: str) -> None:
    assert typed(two.servers, "topic", "create", name, "-p", "3", "-r", "2").code == 0

    def found() -> Any:
        return json.loads(typed(two.servers, "status", "--json", "-b", two.servers).out or "{}")

    until(lambda: [one["state"] for one in found()["brokers"]] == ["active", "active"] and found()["partitions"] == 3)
    state = found()
    (controller,) = state["controllers"]
    assert (controller["state"], controller["id"], state["offline_partitions"]) == ("leader", state["leader_id"], 0)
    assert controller["port"] > 0 and [one["id"] for one in state["brokers"]] == [1, 2]
    ran = typed(two.servers, "status", "-b", two.servers)
    assert ran.code == 0 and f"controller {state['leader_id']} leads" in " ".join(ran.text.split()), ran
    rows = typed(two.servers, "status", "-b", two.servers, "-o", "arrow").out
    import pyarrow as pa

    assert pa.ipc.open_stream(rows).read_all().column("role").to_pylist() == ["controller", "broker", "broker"]
    with running("status", "--watch", "-b", two.servers, "-o", "jsonl") as process:
        assert all(one["state"] == "active" for one in json.loads(line(process))["brokers"])
        two.end()
        while json.loads(line(process))["brokers"][1]["state"] not in ("down", "fenced"):
            pass
        ended(process)
    assert typed(two.servers, "status", "-b", two.servers).code == 1
    gone = typed(two.servers, "status", "-b", "127.0.0.1:1")
    assert gone.code == 1 and gone.err.startswith("rayft: no broker answers: ") and gone.err.count("\n") == 1


def test_ctrl_c_ends_what_follows_the_metadata(two: Two, name: str) -> None:
    with running("replay", "--follow", "-b", two.servers) as process:
        made = 0
        while not process.stdout or not _has_bytes(process):  # it begins with what comes after its start
            made += 1
            assert typed(two.servers, "topic", "create", f"{name}-{made}", "-p", "1", "-r", "1").code == 0
        assert name in line(process)
        ended(process)


def _has_bytes(process: "subprocess.Popen[bytes]") -> bool:
    import select

    return bool(select.select([process.stdout], [], [], 0.2)[0])


def test_topics_and_groups_that_move(two: Two, name: str) -> None:
    assert typed(two.servers, "topic", "create", name, "-p", "1", "-r", "2").code == 0
    group = f"{name}-readers"
    with running(
        "top", "-b", two.servers, "--every", "0.5", "-o", "jsonl", "--topic", name, "--group", group
    ) as process:
        first = json.loads(line(process))
        assert [one["topic"] for one in first["topics"]] == [name] and first["topics"][0]["records_per_s"] is None
        assert typed(two.servers, "produce", name, stdin=b"a\nb\nc\n").code == 0
        assert (
            typed(two.servers, "consume", name, "--from", "beginning", "--exit", "--group", group, "-n", "1").code == 0
        )
        seen = [first]
        while not (seen[-1]["groups"] and seen[-1]["groups"][0]["lag"] == 2):
            seen.append(json.loads(line(process)))
        assert any((one["topics"][0]["records_per_s"] or 0) > 0 for one in seen)
        assert seen[-1]["topics"][0]["end"] == 3 and seen[-1]["groups"][0]["group"] == group
        assert typed(two.servers, "consume", name, "--exit", "--group", group).code == 0
        while seen[-1]["groups"][0]["lag"]:
            seen.append(json.loads(line(process)))
        assert seen[-1]["groups"][0]["lag_per_s"] < 0
        two.end()
        while seen[-1]["well"]:
            seen.append(json.loads(line(process)))
        assert seen[-1]["topics"][0]["topic"] == name, "what was seen is still shown"
        ended(process)
