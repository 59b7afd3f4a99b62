"""Many members of one consumer group in one process, each on a connection of its own (KIP-848).

A member does what clients of Apache Kafka do: it sends a heartbeat at the interval that the broker answers, and at once when
what it owns has changed. It lets go of a partition when it is told to, and says so with that heartbeat. It reads and commits
nothing, so all of its time is the coordinator's, and the client's own processor time is small (`Crowd.cpu_seconds`).
"""

import heapq
import itertools
import selectors
import socket
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from actors.wire import framing
from actors.wire.messages import message
from bench import frames

REBALANCE_TIMEOUT_MS = 300_000
VERSION = 1
LEAVES = -1
RETRIED = {14, 15, 16}
"""The coordinator is loading, not available, or another: of a topic `__consumer_offsets` that has just come."""
RETRY_SECONDS = 0.02


class Move(NamedTuple):
    """A partition that a member has let go of, and another has got. Times are those of `time.perf_counter`."""

    partition: int
    owner: str
    at: float
    to: str
    given_at: float


class Person:
    """One member. `due`: when it sends its next heartbeat; `news`: what it owns has changed since its last one."""

    __slots__ = ("asked", "due", "epoch", "id", "inbox", "interval", "leaving", "news", "owned", "sent_at", "socket")

    def __init__(self, address: tuple[str, int]) -> None:
        self.id = str(uuid.uuid4())
        self.socket = socket.create_connection(address, 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.inbox = bytearray()
        self.epoch = 0
        self.owned: frozenset[int] = frozenset()
        self.interval = 5.0
        self.due = self.sent_at = 0.0
        self.asked = self.news = self.leaving = False


class Crowd:
    """Members of one group, which subscribe to one topic."""

    def __init__(self, address: tuple[str, int], group: str, topic: str, partitions: int) -> None:
        self.address, self.group, self.topic, self.partitions = address, group, topic, partitions
        self.people: dict[str, Person] = {}
        self.owners: dict[int, str] = {}
        self.moves: list[Move] = []
        self.beats = 0
        """Heartbeats that were answered."""
        self.cpu_seconds = 0.0
        """Of this process, while it was in `until`."""
        self._epochs: Counter[int] = Counter()
        self._free: dict[int, tuple[str, float]] = {}
        self._due: list[tuple[float, int, Person]] = []
        self._number = itertools.count()
        self._selector = selectors.DefaultSelector()
        self._request = message("ConsumerGroupHeartbeatRequest")
        self._topic_id = b""

    def join(self, count: int) -> None:
        """Connect more members. Their first heartbeats are sent by `until`."""
        for _ in range(count):
            person = Person(self.address)
            self.people[person.id] = person
            self._epochs[0] += 1
            self._selector.register(person.socket, selectors.EVENT_READ, person)
            self._plan(person, 0.0)

    def settled(self) -> bool:
        """Every partition has an owner, all members are in one epoch, own alike many, and owe no acknowledgement."""
        if len(self.owners) < self.partitions or len(self._epochs) > 1 or 0 in self._epochs:
            return False
        least = self.partitions // len(self.people)
        if any(not least <= len(one.owned) <= least + 1 for one in self.people.values()):
            return False
        return not any(one.news for one in self.people.values())

    def until(self, done: Callable[[], bool], seconds_max: float) -> float:
        """Serve the members until that is so. The seconds that it took. Raises TimeoutError."""
        cpu, begin = time.process_time(), time.perf_counter()
        end = begin + seconds_max
        while not done():
            now = time.perf_counter()
            if now > end:
                raise TimeoutError(self.describe())
            while self._due and self._due[0][0] <= now:
                due, _, person = heapq.heappop(self._due)
                if person.due == due and not person.asked:
                    self._send(person, now)
            wait = self._due[0][0] - now if self._due else 1.0
            for key, _ in self._selector.select(max(0.0, min(wait, 1.0))):
                self._receive(key.data)
        self.cpu_seconds += time.process_time() - cpu
        return time.perf_counter() - begin

    def leave(self, seconds_max: float) -> None:
        """All members leave the group, and the connections are closed."""
        for person in self.people.values():
            person.leaving = True
            self._plan(person, 0.0)
        self.until(lambda: not self.people, seconds_max)

    def describe(self) -> str:
        """Where it stands, for an error."""
        few = dict(sorted(self._epochs.items())[-5:])
        return f"{len(self.people)} members, {len(self.owners)} of {self.partitions} partitions owned, epochs {few}"

    def close(self) -> None:
        """Close every connection, without a word."""
        for person in self.people.values():
            person.socket.close()
        self._selector.close()

    # ---- inside

    def _plan(self, person: Person, due: float) -> None:
        person.due = due
        heapq.heappush(self._due, (due, next(self._number), person))

    def _send(self, person: Person, now: float) -> None:
        kind = self._request
        fields: dict[str, Any] = {"group_id": self.group, "member_id": person.id, "member_epoch": person.epoch}
        if person.leaving:
            fields["member_epoch"] = LEAVES
        elif person.epoch == 0:
            fields |= {
                "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
                "subscribed_topic_names": [self.topic],
                "topic_partitions": [],
            }
        elif person.news:
            owned = [kind.TopicPartitions(topic_id=self._topic_id, partitions=sorted(person.owned))]
            fields["topic_partitions"] = owned if person.owned else []
        person.news, person.asked, person.sent_at = False, True, now
        person.socket.sendall(frames.frame("ConsumerGroupHeartbeat", VERSION, kind(**fields)))

    def _receive(self, person: Person) -> None:
        part = person.socket.recv(1 << 16)
        if not part:
            raise ConnectionError("the broker closed a member's connection")
        person.inbox += part
        if len(person.inbox) < 4 or len(person.inbox) < 4 + int.from_bytes(person.inbox[:4], "big"):
            return
        reply = framing.decode_response("ConsumerGroupHeartbeat", VERSION, bytes(person.inbox[4:]))
        person.inbox.clear()
        person.asked = False
        now = time.perf_counter()
        if reply.error_code in RETRIED:
            self._plan(person, now + RETRY_SECONDS)
            return
        if reply.error_code:
            raise RuntimeError(f"a heartbeat was answered {reply.error_code}: {reply.error_message}")
        self.beats += 1
        if person.leaving:
            self._forget(person)
            return
        self._move_epoch(person, reply.member_epoch)
        person.interval = reply.heartbeat_interval_ms / 1000
        if reply.assignment is not None:
            self._assign(person, reply.assignment.topic_partitions, now)
        self._plan(person, 0.0 if person.news else person.sent_at + person.interval)

    def _assign(self, person: Person, topics: Any, now: float) -> None:
        given = frozenset(n for one in topics for n in one.partitions)
        if topics:
            self._topic_id = bytes(topics[0].topic_id)
        if given == person.owned:
            return
        for partition in person.owned - given:
            del self.owners[partition]
            self._free[partition] = person.id, now
        for partition in given - person.owned:
            if partition in self.owners:
                raise AssertionError(f"partition {partition} has two owners")
            self.owners[partition] = person.id
            if partition in self._free:
                owner, at = self._free.pop(partition)
                self.moves.append(Move(partition, owner, at, person.id, now))
        person.owned, person.news = given, True

    def _move_epoch(self, person: Person, epoch: int) -> None:
        if epoch != person.epoch:
            self._epochs[person.epoch] -= 1
            if not self._epochs[person.epoch]:
                del self._epochs[person.epoch]
            self._epochs[epoch] += 1
            person.epoch = epoch

    def _forget(self, person: Person) -> None:
        self._move_epoch(person, LEAVES)
        for partition in person.owned:
            del self.owners[partition]
        self._selector.unregister(person.socket)
        person.socket.close()
        del self.people[person.id]
