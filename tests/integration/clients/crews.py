"""Crews: processes with members of one consumer group each, and what they have told so far.

`tests/integration/hundred_members.py` says what they tell, and checks it. Their programs: `hundred_members.py` itself
(librdkafka), `ConsumerMembers.java`, and `members.go` (franz-go), which `conftest.py` builds.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.integration.conftest import ROOT, Java
from tests.integration.hundred_members import Line, lines, owners

SECONDS_MAX = 180
JAVA_PROGRAM = ROOT / "tests" / "integration" / "ConsumerMembers.java"


def rdkafka_members(servers: str, topic: str, group: str) -> list[str]:
    """The command that runs members of librdkafka, without their number and name."""
    return [sys.executable, "-m", "tests.integration.hundred_members", servers, topic, group]


def java_members(java: Java, servers: str, topic: str, group: str) -> list[str]:
    """The same for Java's consumer."""
    command = ["java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-cp", f"{java.libs}/*", str(JAVA_PROGRAM)]
    return [*command, servers, topic, group]


def franz_go_members(program: Path, servers: str, topic: str, group: str, protocol: str = "consumer") -> list[str]:
    """The same for franz-go. `protocol`: the group's, consumer (KIP-848) or classic."""
    return [str(program), "members", servers, topic, group, protocol]


class Crew:
    """Members in one process."""

    def __init__(self, name: str, count: int, out: Path, command: list[str]) -> None:
        self.name = name
        self.count = count
        self.out = out
        self.killed_at: int | None = None
        with out.open("w") as file, out.with_suffix(".errors").open("w") as errors:
            self.process = subprocess.Popen(
                [*command, str(count), name], stdin=subprocess.PIPE, stdout=file, stderr=errors, text=True, cwd=ROOT
            )

    def leave(self, count: int) -> None:
        """So many of its members leave."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """kill -9 of all its members."""
        self.process.kill()
        self.process.wait()
        self.killed_at = time.monotonic_ns()

    def end(self) -> None:
        """All its members leave, and the process ends."""
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait(SECONDS_MAX)


class Crews:
    """All crews of a group, and what they have told."""

    def __init__(self, folder: Path) -> None:
        self._crews: list[Crew] = []
        self._folder = folder

    def start(self, name: str, count: int, command: list[str]) -> Crew:
        """So many members more, of the program that this command runs."""
        crew = Crew(name, count, self._folder / f"{name}.txt", command)
        self._crews.append(crew)
        return crew

    def told(self) -> list[Line]:
        """By all members so far."""
        return [line for crew in self._crews for line in lines(crew.out)]

    def killed(self) -> dict[str, int]:
        """Members that were killed, and when."""
        return {
            f"{crew.name}-{n}": crew.killed_at
            for crew in self._crews
            if crew.killed_at is not None
            for n in range(crew.count)
        }

    def shared(self, members: int, partitions: int) -> bool:
        """Whether so many members have all partitions."""
        found = owners(self.told(), self.killed())
        return len(found) == partitions and len(set(found.values())) == members

    def read(self) -> set[tuple[int, int]]:
        """Partition and offset of every record that was read."""
        return {(line.partition, line.offset) for line in self.told() if line.word == "read"}

    def end(self) -> None:
        """All members leave, and all processes end."""
        for crew in self._crews:
            crew.end()

    def stop(self) -> None:
        """Whatever still runs is killed."""
        for crew in self._crews:
            crew.process.kill()
            crew.process.wait()


def await_(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds, with few looks: the members need the processor."""
    end = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < end, f"it does not come that {what}"
        time.sleep(1)
