"""Apache Kafka's share consumers, unmodified, while brokers and members are killed (KIP-932)."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from tests.integration.clients.test_consumer_groups import produce
from tests.integration.conftest import Java, everywhere, until

SECONDS = 90
PROGRAM = Path(__file__).parent.parent / "ShareMember.java"
RECORDS = 3_000
CONFIG = {
    "group.share.record.lock.duration.ms": "5000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": "10",
    "share.coordinator.state.topic.num.partitions": "3",
}


class Member:
    """A share consumer in a process of its own."""

    def __init__(self, java: Java, out: Path, *arguments: str) -> None:
        self.out = out
        with out.open("w") as file:
            command = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{java.libs}/*", str(PROGRAM)]
            self.process = subprocess.Popen([*command, *arguments], stdout=file, stderr=subprocess.DEVNULL)

    def told(self) -> list[list[str]]:
        """Its whole lines, in words."""
        lines = self.out.read_text().splitlines(keepends=True)
        return [line.split() for line in lines if line.endswith("\n")]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def members(java: Java, folder: Path, count: int, *arguments: str) -> Iterator[list[Member]]:
    found = [Member(java, folder / f"member-{number}", *arguments) for number in range(count)]
    try:
        yield found
    finally:
        for member in found:
            member.kill()


def begin_at_the_start(java: Java, servers: str, group: str) -> None:
    given = ["--entity-type", "groups", "--entity-name", group, "--add-config", "share.auto.offset.reset=earliest"]
    java.run("kafka.admin.ConfigCommand", "--bootstrap-server", servers, "--alter", *given)


def lags(java: Java, servers: str, group: str) -> list[str]:
    """What is left to a group, by partition. An acceptance whose answer was lost counts as well."""
    tool = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
    given = ["--bootstrap-server", servers, "--describe", "--group", group]
    return [line.split()[4] for line in java.run(tool, *given, check=False).splitlines() if line.startswith(group)]


def check(told: list[list[str]], values: set[str]) -> None:
    """What was done was delivered to nobody afterwards: nobody has asked later and got it once more. (A member may hold
    what it got before its lock ended, for fewer times.)"""
    done: dict[tuple[str, str], tuple[int, int]] = {}
    for word, ms, *more in told:
        if word == "done":
            place, found = (more[0], more[1]), (int(ms), int(more[2]))
            done[place] = min(found, done.get(place, found))
    for word, ms, *more in told:
        if word == "got":
            place, count, value = (more[0], more[1]), int(more[2]), more[3]
            assert value in values and 1 <= count <= 10, more
            done_ms, done_count = done.get(place, (int(ms), count))
            assert int(ms) <= done_ms or count <= done_count, f"{value} was done, and was delivered again"


@pytest.mark.slow
def test_every_record_is_done_once_while_brokers_and_members_are_killed(java: Java, tmp_path: Path) -> None:
    """The coordinator of the group, share coordinators and leaders of partitions are among the brokers that are killed, one
    after the other; members too."""
    with rayft.Cluster(controllers=1, brokers=3, config=CONFIG) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("shared", 3, 3)])["shared"].result(SECONDS)
        everywhere(cluster, "shared", 3)
        begin_at_the_start(java, servers, "sharers")
        with members(java, tmp_path, 3, servers, "shared", "sharers") as found:
            values = {str(number) for number in range(RECORDS)}
            for number in range(3):
                produce(servers, "shared", range(number * RECORDS // 3, (number + 1) * RECORDS // 3))
                until(lambda: any(member.told() for member in found))
                cluster.kill(number + 1)
                if number == 1:
                    found[0].kill()
                time.sleep(3)
            until(lambda: lags(java, servers, "sharers") == ["0", "0", "0"])
            told = _all(found)
    check(told, values)
    assert {line[5] for line in told if line[0] == "got"} == values
    delivered: dict[str, int] = {}
    for line in told:
        if line[0] == "got":
            delivered[line[5]] = max(delivered.get(line[5], 0), int(line[4]))
    given_back = [value for value in values if value.endswith("7")]
    assert all(delivered[value] >= 2 for value in given_back), "what was given back comes for a second time"


def _all(found: list[Member]) -> list[list[str]]:
    return [line for member in found for line in member.told()]


def test_the_console_consumer_reads_rejects_and_gives_back(cluster: Any, java: Java, name: str) -> None:
    servers = cluster.bootstrap_servers
    java.run(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", servers, "--create", "--topic", name,
        "--partitions", "2",
    )  # fmt: skip
    everywhere(cluster, name, 2)
    begin_at_the_start(java, servers, name)
    produce(servers, name, range(50))
    tool, *common = "org.apache.kafka.tools.consumer.ConsoleShareConsumer", "--bootstrap-server", servers
    common += ["--topic", name, "--group", name, "--timeout-ms", "20000"]
    released = java.run(tool, *common, "--max-messages", "50", "--release").split()
    accepted = java.run(tool, *common, "--max-messages", "50").split()
    everything = sorted(str(number) for number in range(50))
    assert len(released) == 50 and set(released) <= set(everything), "what it gave back may have come to it again"
    assert sorted(accepted) == everything
    common[-1] = "3000"
    assert java.run(tool, *common, "--max-messages", "1").split() == []
