"""Members of one consumer group (KIP-848) in few processes, and a checker of what they tell.

`python -m tests.integration.hundred_members SERVERS TOPIC GROUP COUNT NAME` runs members of librdkafka, a thread each;
`ConsumerMembers.java` runs those of Java, `clients/go/members.go` those of franz-go. A number on standard input lets so many
of them leave. Each line that they tell is "WORD NANOSECONDS MEMBER PARTITION OFFSET", by the machine's monotonic clock:

- `own`: a partition was given to the member; `let`: it has let go of it, and has committed before; `lost`: it has found out
  that it is no member any more;
- `read`: a record was handed to the member; `left`: it has left the group; `failed`: a commit was refused.
"""

import itertools
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

COMMIT_SECONDS = 1.0


class Line(NamedTuple):
    """What one member told."""

    word: str
    at: int
    member: str
    partition: int
    offset: int


def lines(path: Path) -> list[Line]:
    """The whole lines of a file. The last one may be cut short by a kill."""
    found = []
    for line in path.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            word, at, member, partition, offset = line.split()
            found.append(Line(word, int(at), member, int(partition), int(offset)))
    return found


class Held(NamedTuple):
    """A partition was a member's from `begin` until `end`, in nanoseconds. `sure`: it ended by the member's own word."""

    begin: int
    end: int
    member: str
    sure: bool


FOREVER = 1 << 62


def holdings(told: Iterable[Line], killed: dict[str, int]) -> dict[int, list[Held]]:
    """Partition -> who had it when. `killed`: members that were killed, and when."""
    found: dict[int, list[Held]] = {}
    open_: dict[tuple[str, int], int] = {}
    for line in sorted(told, key=lambda line: line.at):
        place = (line.member, line.partition)
        if line.word == "own":
            assert place not in open_, f"{line.member} is given partition {line.partition} twice"
            open_[place] = line.at
        elif line.word in ("let", "lost") and place in open_:
            held = Held(open_.pop(place), line.at, line.member, line.word == "let")
            found.setdefault(line.partition, []).append(held)
    for (member, partition), begin in open_.items():
        found.setdefault(partition, []).append(Held(begin, killed.get(member, FOREVER), member, True))
    return found


def check_owners(told: Iterable[Line], killed: dict[str, int]) -> None:
    """A partition has one owner at a time. A member that has lost its partitions hears of it late: its end is not sure."""
    for partition, held in holdings(told, killed).items():
        held.sort()
        for before, after in itertools.pairwise(held):
            assert before.end <= after.begin or not before.sure, f"partition {partition}: {before} and {after}"


def check_reads(told: Iterable[Line], ends: dict[int, int], killed: dict[str, int]) -> None:
    """Every record was read, and only by a member that had the partition then. `ends`: partition -> end offset."""
    told = list(told)
    held = holdings(told, killed)
    read: dict[int, set[int]] = {}
    for line in told:
        if line.word == "read":
            read.setdefault(line.partition, set()).add(line.offset)
            assert any(
                one.member == line.member and one.begin <= line.at <= one.end for one in held.get(line.partition, ())
            ), f"{line} without the partition"
    for partition, end in ends.items():
        missing = set(range(end)) - read.get(partition, set())
        assert not missing, f"partition {partition}: offsets {sorted(missing)[:5]} of {end} were read by nobody"


def check_commits(seen: Iterable[dict[int, int]]) -> None:
    """Committed offsets, as they were seen one after the other, never go back."""
    last: dict[int, int] = {}
    for offsets in seen:
        for partition, offset in offsets.items():
            assert offset >= last.get(partition, 0), (
                f"partition {partition} went back to {offset} from {last[partition]}"
            )
            last[partition] = offset


def owners(told: Iterable[Line], gone: Iterable[str]) -> dict[int, str]:
    """Who has which partition now. `gone`: members that were killed."""
    found: dict[int, str] = {}
    for line in sorted(told, key=lambda line: line.at):
        if line.word == "own":
            found[line.partition] = line.member
        elif line.word in ("let", "lost") and found.get(line.partition) == line.member:
            del found[line.partition]
    without = set(gone)
    return {partition: member for partition, member in found.items() if member not in without}


# ---- members of librdkafka

_told = threading.Lock()


def _tell(word: str, member: str, partition: int = -1, offset: int = -1) -> None:
    with _told:
        sys.stdout.write(f"{word} {time.monotonic_ns()} {member} {partition} {offset}\n")
        sys.stdout.flush()


class Member(threading.Thread):
    """One member of librdkafka."""

    def __init__(self, servers: str, topic: str, group: str, name: str) -> None:
        super().__init__()
        self.name = name
        self.stopped = False
        self._topic = topic
        self._read: dict[int, int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "client.id": name,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        """Read and commit until it is stopped."""
        consumer = self._consumer
        consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        committed = time.monotonic()
        while not self.stopped:
            record = consumer.poll(0.2)
            if record is not None and record.error() is None:
                partition, offset = record.partition(), record.offset()
                assert partition is not None and offset is not None
                _tell("read", self.name, partition, offset)
                self._read[partition] = offset + 1
            if time.monotonic() - committed > COMMIT_SECONDS:
                committed = time.monotonic()
                self._commit(list(self._read))
        consumer.close()
        _tell("left", self.name)

    def _commit(self, partitions: list[int]) -> None:
        now = [TopicPartition(self._topic, n, self._read[n]) for n in partitions if n in self._read]
        if not now:
            return
        try:
            self._consumer.commit(offsets=now, asynchronous=False)
        except KafkaException:
            _tell("failed", self.name)
            return
        for one in now:
            self._read.pop(one.partition, None)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            _tell("own", self.name, one.partition)
        consumer.incremental_assign(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit([one.partition for one in partitions])
        self._drop("let", consumer, partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._drop("lost", consumer, partitions)

    def _drop(self, word: str, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._read.pop(one.partition, None)
            _tell(word, self.name, one.partition)
        consumer.incremental_unassign(partitions)


def main() -> None:
    """Run members until standard input ends."""
    servers, topic, group, count, name = sys.argv[1:]
    members = [Member(servers, topic, group, f"{name}-{n}") for n in range(int(count))]
    for member in members:
        member.start()
    for line in sys.stdin:
        for _ in range(int(line)):
            members.pop().stopped = True
    for member in members:
        member.stopped = True


if __name__ == "__main__":
    main()
