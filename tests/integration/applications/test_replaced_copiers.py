"""Exactly once over 400 partitions, while the members and producers of the copying group are replaced: killed with -9, or
frozen until others have their partitions and then let go on. With librdkafka in groups of both protocols, and with Kafka
Streams. A commit of so many partitions is written in several portions, and whoever is replaced between two of them must
not have the rest of it accepted (KIP-447)."""

import os
import random
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from tests.integration.applications.copying import SESSION_MS, SOURCE, TARGET, TRANSACTION_MS
from tests.integration.applications.programs import PATIENCE_SECONDS, Reader, compiled, properties
from tests.integration.applications.test_streams import CONFIG
from tests.integration.conftest import ROOT, everywhere

PARTITIONS = 400
MEMBERS = 2
A_SECOND = 600
ROUNDS = int(os.environ.get("RAYFT_REPLACEMENTS", "100"))
GROUPS = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": str(SESSION_MS),
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
}


class Source(threading.Thread):
    """Writes numbers, one after the other, over all partitions."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self.producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
        self.done = threading.Event()
        self.count = 0

    def __enter__(self) -> "Source":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.join(60)

    def run(self) -> None:
        while not self.done.wait(0.1):
            for _ in range(A_SECOND // 10):
                self.producer.produce(SOURCE, b"%d" % self.count, partition=self.count % PARTITIONS)
                self.count += 1
            self.producer.poll(0)

    def finish(self) -> None:
        """Stop writing, and wait until all is acknowledged."""
        self.done.set()
        self.join(60)
        assert self.producer.flush(120) == 0


class Crew(ABC):
    """The members of the group, a process each, in places that are numbered from 0 on. Whoever ends is started anew."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.members: list[subprocess.Popen[bytes]] = []
        self.frozen: list[subprocess.Popen[bytes]] = []
        self.started = self.refused = 0

    @abstractmethod
    def command(self, place: int) -> list[str]:
        """What starts a member."""

    def start(self, place: int) -> subprocess.Popen[bytes]:
        self.started += 1
        with (self.folder / f"member-{place}.log").open("ab") as log:
            return subprocess.Popen(self.command(place), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT)

    def __enter__(self) -> "Crew":
        self.members = [self.start(place) for place in range(MEMBERS)]
        return self

    def __exit__(self, *_: object) -> None:
        for one in (*self.members, *self.frozen):
            one.kill()
            one.wait()

    def mend(self) -> None:
        """Start anew whoever is not there: it was taken away, or has ended by itself, since it was fenced or refused."""
        for place, one in enumerate(self.members):
            if (code := one.poll()) is not None:
                self.refused += code > 0
                self.members[place] = self.start(place)

    def kill(self, place: int) -> None:
        """End a member by kill -9."""
        self.members[place].kill()
        self.members[place].wait()

    def replace(self, place: int) -> None:
        """Another one takes the place of a member that was killed."""
        self.kill(place)
        self.members[place] = self.start(place)

    def freeze(self, place: int) -> None:
        """Another one takes the place of a member that is frozen, until `thaw` lets that go on."""
        self.members[place].send_signal(signal.SIGSTOP)
        self.frozen.append(self.members[place])
        self.members[place] = self.start(place)

    def thaw(self) -> None:
        """Frozen members go on where they were. They end when they learn that they are replaced, or are killed soon."""
        for one in self.frozen:
            one.send_signal(signal.SIGCONT)
            try:
                self.refused += one.wait(3) > 0
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
        self.frozen.clear()

    def said(self) -> str:
        """The end of what the members have printed."""
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(self.folder.glob("*.log")))


class Librdkafka(Crew):
    """Members whose producer has its place's transactional id, or one that nobody had before: those that they replace are
    then fenced by the group alone."""

    def __init__(self, folder: Path, servers: str, protocol: str) -> None:
        super().__init__(folder)
        self.servers, self.protocol = servers, protocol

    def command(self, place: int) -> list[str]:
        name = f"copier-{place}" if self.started % 2 else f"copier-{place}-{self.started}"
        program = "tests.integration.applications.copying"
        return [sys.executable, "-m", program, self.servers, name, self.protocol]


class Streams(Crew):
    """Kafka Streams, each member with a state directory of its own: a new process in it has the names of the old one."""

    def __init__(self, folder: Path, servers: str, protocol: str) -> None:
        super().__init__(folder)
        (folder / "classes").mkdir()
        self.path = compiled(Path(__file__).with_name("Copies.java"), folder / "classes")
        self.servers, self.protocol = servers, protocol

    def command(self, place: int) -> list[str]:
        settings = properties(
            self.folder / f"member-{place}-{self.started}.properties",
            {
                "application.id": "copiers",
                "group.protocol": self.protocol,
                "bootstrap.servers": self.servers,
                "processing.guarantee": "exactly_once_v2",
                "state.dir": self.folder / f"state-{self.started}",
                "num.stream.threads": 1,
                "commit.interval.ms": 100,
                "transaction.timeout.ms": TRANSACTION_MS,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
                "auto.offset.reset": "earliest",
            },
        )
        return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", self.path, "Copies", str(settings)]


def source_and_target(cluster: rayft.Cluster) -> AdminClient:
    """Make the topics from which and into which is copied, in a cluster of three brokers. Returns its administrator."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for future in admin.create_topics([NewTopic(one, PARTITIONS, 3) for one in (SOURCE, TARGET)]).values():
        future.result(60)
    for one in (SOURCE, TARGET):
        everywhere(cluster, one, PARTITIONS)
    return admin


def copied_once(reader: Reader, source: Source) -> None:
    """Check that what was read of the target has every record of the source, and none twice."""
    found = Counter(value for _, _, _, value in reader.read[TARGET])
    twice = {value: count for value, count in found.items() if count > 1}
    missing = [number for number in range(source.count) if b"%d" % number not in found]
    assert not twice and not missing, (len(twice), sorted(twice)[:5], len(missing), missing[:5])


@pytest.mark.slow
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("rounds", [ROUNDS])
@pytest.mark.parametrize(
    ("kind", "protocol"),
    [(Librdkafka, "classic"), (Librdkafka, "consumer"), (Streams, "classic"), (Streams, "streams")],
    ids=["librdkafka-classic", "librdkafka-consumer", "streams-classic", "streams-streams"],
)
def test_each_record_is_copied_once_by_members_that_are_replaced(
    tmp_path: Path, kind: type[Librdkafka | Streams], protocol: str, rounds: int
) -> None:
    choose = random.Random(rounds)
    with rayft.Cluster(controllers=1, brokers=3, dir=tmp_path / "c", config=CONFIG | GROUPS) as cluster:
        servers = cluster.bootstrap_servers
        source_and_target(cluster)
        with (
            kind(tmp_path, servers, protocol) as crew,
            Reader(servers, [TARGET]) as reader,
            Source(servers) as source,
        ):

            def copied(count: int) -> bool:
                crew.mend()
                return len(reader.read[TARGET]) >= count

            for _ in range(rounds):
                more = len(reader.read[TARGET]) + A_SECOND
                assert reader.until(lambda more=more: copied(more), PATIENCE_SECONDS), crew.said()
                choose.choice((crew.kill, crew.replace, crew.freeze))(choose.randrange(MEMBERS))
                # In this time the others take what the member had. One that was killed and not replaced leaves all 400
                # partitions to the other one.
                reader.until(lambda: False, SESSION_MS / 1000 + choose.random())
                crew.thaw()
            source.finish()
            whole = reader.until(lambda: copied(source.count), PATIENCE_SECONDS)
            assert whole, f"{len(reader.read[TARGET])} of {source.count}\n{crew.said()}"
            reader.quiet()
        print(f"{source.count} records, {crew.started} members, {crew.refused} of them refused")
    copied_once(reader, source)
