"""rayft as `bench.overload` measures it: a controller and two brokers that note when a leadership is committed and obeyed.

The controller notes a change when its role replays the committed batch, a broker when its replica has taken the change over;
both by the machine's monotonic clock. A broker also notes what it appends as the leader of `moved`, and when.
"""

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.overload_kafka import CONTROLLER, IDLE, LOADED, ROOT, Moved
from bench.ports import free_ports

START_SECONDS_MAX = 60


def node(file: str, times: str, lane: bool) -> int:
    """Run a node; note when changes of partitions are committed here, when they are obeyed, and what is appended."""
    from actors.broker.replication.partition import Partition
    from actors.broker.replication.replicas import Replicas
    from actors.command import cli
    from actors.metadata.dialects import dialect
    from actors.metadata.ops import PartitionsChanged
    from actors.node.net.channels import Channels
    from actors.node.roles.controller.role import ControllerRole
    from actors.node.runtime.calls import Lane

    out = os.open(times, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    replay, assign, append = ControllerRole.replay, Replicas.assign, Partition.append

    def note(what: str, topic_id: bytes, number: int, leader: int, epoch: int, at_ns: int) -> None:
        os.write(out, f"{what} {topic_id.hex()} {number} {leader} {epoch} {at_ns}\n".encode())

    def committed(self: Any, batch: Any) -> None:
        at_ns = time.monotonic_ns()
        replay(self, batch)
        if not batch.data[22] & 0x20:  # control batch
            for _, op in dialect(self.committed_level).decode(batch):
                for state in op if isinstance(op, PartitionsChanged) else ():
                    note("committed", state.topic_id, state.number, state.leader, state.leader_epoch, at_ns)

    def obeyed(self: Any, topic: str, topic_id: bytes, number: int, assignment: Any, mono_ms: int) -> None:
        assign(self, topic, topic_id, number, assignment, mono_ms)
        note("obeyed", topic_id, number, assignment.leader, assignment.leader_epoch, time.monotonic_ns())

    def appended(self: Any, *arguments: Any, **named: Any) -> Any:
        end = self.log.log_end_offset
        found = append(self, *arguments, **named)
        if self.topic == "moved":
            os.write(out, f"appended {self.number} {end} {self.leader_epoch} {time.monotonic_ns()}\n".encode())
        return found

    ControllerRole.replay, Replicas.assign = committed, obeyed  # type: ignore[method-assign]
    Partition.append = appended  # type: ignore[method-assign]
    if not lane:
        Channels.lane = lambda self, conn: Lane.DATA  # type: ignore[method-assign]
    sys.argv = ["rayft", "node", "--config", file]
    return cli.main()


class RayftCluster:
    """The three nodes of one case. Without the lane, what is pushed takes the listener between brokers, and the answers of
    controllers wait in the lane of data."""

    def __init__(self, home: Path, pushed: bool, lane: bool, stack: ExitStack) -> None:
        self.home = home
        ports = free_ports(7)
        self.clients = {id: ports[3 * id - 2] for id in (LOADED, IDLE)}
        """The ports for clients."""
        self.operator = self.clients[IDLE]
        """The port where leaders are elected."""
        common = {
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{ports[0]}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CP:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "rayft.metadata.push.enable": "true",
            "offsets.topic.replication.factor": "1",
            "log.retention.check.interval.ms": "100",
            "log.segment.delete.delay.ms": "0",
        }
        plane = {"control.plane.listener.name": "CP"} if lane and pushed else {}
        nodes = {
            CONTROLLER: {
                "process.roles": "controller",
                "controller.id": str(CONTROLLER),
                "listeners": f"CONTROLLER://127.0.0.1:{ports[0]}",
                **plane,
            }
        }
        for id in (LOADED, IDLE):
            clients, internal, control = ports[3 * id - 2 : 3 * id + 1]
            listeners = f"PLAINTEXT://127.0.0.1:{clients},INTERNAL://127.0.0.1:{internal}"
            nodes[id] = {
                "process.roles": "broker",
                "broker.id": str(id),
                "listeners": listeners + (f",CP://127.0.0.1:{control}" if plane else ""),
                "rayft.metadata.source": "push" if pushed else "log",
                **plane,
            }
        rayft = [sys.executable, "-m", "actors.command.cli"]
        identity = subprocess.run(
            [*rayft, "random-id"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
        for id, own in nodes.items():
            file = home / f"{id}.properties"
            values = {**common, **own, "log.dirs": str(home / f"data-{id}")}
            file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
            alone = ["--standalone"] if id == CONTROLLER else []
            subprocess.run(
                [*rayft, "format", "--config", str(file), "--cluster-id", identity, *alone],
                cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            out = stack.enter_context((home / f"{id}.log").open("wb"))
            command = [sys.executable, "-m", "bench.overload", "node", str(file), str(self._times(id))]
            process = subprocess.Popen([*command, *([] if lane else ["--no-lane"])], cwd=ROOT, stdout=out, stderr=out)
            stack.callback(process.wait)
            stack.callback(process.kill)
        end = time.monotonic() + START_SECONDS_MAX
        for id in (LOADED, IDLE):
            while "serves clients" not in (home / f"{id}.log").read_text():
                if time.monotonic() > end:
                    raise RuntimeError(f"broker {id} did not start:\n" + (home / f"{id}.log").read_text()[-2000:])
                time.sleep(0.05)

    def committed(self) -> dict[Moved, int]:
        """Leaderships and when they were committed, in ns."""
        return self._noted(CONTROLLER, "committed")

    def obeyed(self) -> dict[Moved, int]:
        """Leaderships and when the loaded broker has taken them over, in ns."""
        return self._noted(LOADED, "obeyed")

    def appended(self) -> dict[tuple[int, int], int] | None:
        """When the loaded broker appended something of `moved` last, in ns, by partition and offset."""
        rows = (line.split() for line in self._times(LOADED).read_text().splitlines() if line.startswith("appended"))
        return {(int(row[1]), int(row[2])): int(row[4]) for row in rows}

    def _times(self, id: int) -> Path:
        return self.home / f"{id}.times"

    def _noted(self, id: int, what: str) -> dict[Moved, int]:
        found: dict[Moved, int] = {}
        for line in self._times(id).read_text().splitlines():
            if line.startswith(what):
                _, _, number, leader, epoch, at_ns = line.split()
                found.setdefault(Moved(int(number), int(leader), int(epoch)), int(at_ns))
        return found
