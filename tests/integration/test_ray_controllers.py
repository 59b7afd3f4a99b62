"""Controllers on a Ray of three machines, each an address of the loopback network: one more, a machine that is lost, a disk
that is lost, one less; one command each."""

import contextlib
import json
import os
import shutil
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from actors.host.cluster import controllers, quorum_changes
from actors.host.cluster import plan as plans
from actors.host.cluster.quorum_changes import Members
from bench.ports import free_port
from tests.integration import rays
from tests.integration.conftest import until

pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def members(directory: Path) -> Members:
    plan = plans.load(directory)
    assert plan is not None
    return quorum_changes.members(controllers.asked(plan), 30)


def rows(directory: Path) -> dict[int, dict[str, Any]]:
    """What cluster.json says of the controllers."""
    return {row["id"]: row for row in json.loads((directory / "cluster.json").read_text())["controllers"]}


def test_a_lost_machine_and_a_lost_disk_are_replaced_by_one_command(tmp_path: Path) -> None:
    around = rays.environment(tmp_path / "home")
    directory = tmp_path / "cluster"
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(rays.started(around))
        second = contextlib.ExitStack()
        second.enter_context(rays.joined(around, address, "127.0.0.2"))
        stack.enter_context(second)
        stack.enter_context(rays.joined(around, address, "127.0.0.3"))
        rayft = partial(rays.rayft, around, address, directory)
        ran = rayft("up", "--controllers", "3", "--brokers", "0", "--port", str(free_port()))
        assert ran.returncode == 0, ran.stderr
        placed = rows(directory)
        assert len({row["host"] for row in placed.values()}) == 3

        lost = next(id for id, row in placed.items() if row["host"] == "127.0.0.2")
        disk = members(directory).voters[lost]
        second.close()
        shutil.rmtree(directory / f"controller-{lost}")
        ran = rayft("up", "--add-controller", str(lost))
        assert ran.returncode == 0, ran.stderr
        print(f"after its machine was lost: {ran.stdout}")
        found = members(directory)
        assert sorted(found.voters) == [1001, 1002, 1003] and found.voters[lost] != disk
        assert rows(directory)[lost]["host"] != "127.0.0.2"

        ran = rayft("up", "--add-controller", str(lost))
        assert ran.returncode == 1 and f"controller {lost} votes with the disk that it has" in ran.stderr

        disk = members(directory).voters[lost]
        shutil.rmtree(directory / f"controller-{lost}")
        os.kill(rows(directory)[lost]["pid"], signal.SIGKILL)
        log = directory / f"controller-{lost}.log"
        time.sleep(3)  # Ray starts it again meanwhile, and it does not take the empty directory for its own
        assert (
            members(directory).voters[lost] == disk
            and not (directory / f"controller-{lost}" / "meta.properties").exists()
        )
        ran = rayft("up", "--add-controller", str(lost))
        assert ran.returncode == 0, ran.stderr + log.read_text()
        print(f"after its disk was lost: {ran.stdout}")
        assert members(directory).voters[lost] != disk

        ran = rayft("up", "--add-controller")
        assert ran.returncode == 0, ran.stderr
        assert sorted(members(directory).voters) == [1001, 1002, 1003, 1004]
        leader = members(directory).leader_id
        ran = rayft("down", "--node", str(leader), "--remove")
        assert ran.returncode == 0, ran.stderr
        rest = sorted({1001, 1002, 1003, 1004} - {leader})
        assert sorted(members(directory).voters) == rest == sorted(rows(directory))

        assert rayft("down", "--timeout", "10").returncode == 0
        assert rayft("up").returncode == 0
        until(lambda: sorted(members(directory).voters) == rest)
        rayft("down", "--timeout", "10")
