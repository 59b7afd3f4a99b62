"""Apache Kafka 2.8.2 with ZooKeeper as `bench.overload` measures it: three brokers, one of which is the controller.

Both times are lines of the state change log, in milliseconds of the wall clock. A leadership is committed when the
controller says that it has changed the partition's state, which it does when ZooKeeper has answered and before it sends
anything. The loaded broker has obeyed when its partition says that it starts as leader or follower in that epoch.
"""

import re
import subprocess
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from bench.ports import free_ports
from tests.integration.bridge.zookeeper_mode import ZooKeeper, jars

ROOT = Path(__file__).resolve().parent.parent
CONTROLLER, LOADED, IDLE = 3001, 1, 2
RELEASE = "2.8.2"
START_SECONDS_MAX = 90
HEAP = "2g"
"""500 requests of 1 MB may wait, which the default of 1 GB leaves little room for."""
LOG4J = """log4j.rootLogger=WARN, out
log4j.logger.state.change.logger=INFO
log4j.logger.kafka.server.KafkaServer=INFO
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %m%n
"""
COMMITTED = re.compile(
    r"^(\S+ \S+) .*Changed partition moved-(\d+) from OnlinePartition to OnlinePartition with state "
    r"LeaderAndIsr\(leader=(\d+), leaderEpoch=(\d+),"
)
OBEYED = re.compile(r"^(\S+ \S+) .*(Leader|Follower) moved-(\d+) starts at leader epoch (\d+)")


class Moved(NamedTuple):
    """One leadership of a partition of `moved`."""

    number: int
    leader: int
    epoch: int


class KafkaCluster:
    """ZooKeeper and the three brokers of one case."""

    def __init__(self, home: Path, lane: bool, stack: ExitStack) -> None:
        self.home = home
        self.wall_ns = time.time_ns() - time.monotonic_ns()
        (home / "log4j.properties").write_text(LOG4J)
        zookeeper = stack.enter_context(ZooKeeper())
        ports = free_ports(9)
        ids = (CONTROLLER, LOADED, IDLE)
        own = {id: ports[3 * place : 3 * place + 3] for place, id in enumerate(ids)}
        self.clients = {id: own[id][0] for id in (LOADED, IDLE)}
        self.operator = own[CONTROLLER][0]
        for id in ids:  # the first one is the controller
            clients, internal, control = own[id]
            values = {
                "broker.id": str(id),
                "zookeeper.connect": zookeeper.address,
                "reserved.broker.max.id": "4000",
                "listeners": f"PLAINTEXT://127.0.0.1:{clients},INTERNAL://127.0.0.1:{internal}"
                + (f",CP://127.0.0.1:{control}" if lane else ""),
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CP:PLAINTEXT",
                "inter.broker.listener.name": "INTERNAL",
                **({"control.plane.listener.name": "CP"} if lane else {}),
                "auto.leader.rebalance.enable": "false",
                "offsets.topic.replication.factor": "1",
                "log.retention.check.interval.ms": "100",
                "log.segment.delete.delay.ms": "0",
                "log.dirs": str(home / f"data-{id}"),
            }
            file = home / f"{id}.properties"
            file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
            out = stack.enter_context(self._log(id).open("wb"))
            # Of these flags the last four are those of Kafka's own scripts.
            command = [
                "java", f"-Xmx{HEAP}", f"-Dlog4j.configuration=file:{home}/log4j.properties", "-server", "-XX:+UseG1GC",
                "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
                "-cp", f"{jars(RELEASE)}/*", "kafka.Kafka", str(file),
            ]  # fmt: skip
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
            stack.callback(process.wait)
            stack.callback(process.kill)
            end = time.monotonic() + START_SECONDS_MAX
            while "started (kafka.server.KafkaServer)" not in self._text(id) and "] started" not in self._text(id):
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"broker {id} did not start:\n" + self._text(id)[-2000:])
                time.sleep(0.1)

    def committed(self) -> dict[Moved, int]:
        """Leaderships and when the controller has changed them in ZooKeeper, in ns of the monotonic clock."""
        found = {}
        for line in self._text(CONTROLLER).splitlines():
            if match := COMMITTED.match(line):
                found[Moved(int(match[2]), int(match[3]), int(match[4]))] = self._at_ns(match[1])
        return found

    def obeyed(self) -> dict[Moved, int]:
        """Leaderships and when the loaded broker has taken them over, in ns of the monotonic clock."""
        found = {}
        for line in self._text(LOADED).splitlines():
            if match := OBEYED.match(line):
                leader = LOADED if match[2] == "Leader" else IDLE
                found[Moved(int(match[3]), leader, int(match[4]))] = self._at_ns(match[1])
        return found

    def appended(self) -> dict[tuple[int, int], int] | None:
        """An unmodified broker does not say when it appends."""
        return None

    def _log(self, id: int) -> Path:
        return self.home / f"{id}.out"

    def _text(self, id: int) -> str:
        return self._log(id).read_text(errors="replace")

    def _at_ns(self, text: str) -> int:
        return round(datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").timestamp() * 1000) * 1_000_000 - self.wall_ns
