"""What a broker does with its log directory as a whole, with a fault at each step and a crash after it.

Topics are deleted and made again, checkpoints are written, a broker stops in order and starts. Each runs once to count the
steps of the disk. Then it runs again for each step and each way to fail. A shortage ends no broker: when it is over, the
broker has done everything by itself. A failing device ends this one, which has no other directory. After a kill or a power
cut the next start has what was acknowledged and durable, and nothing of a topic that was deleted.
"""

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

import pytest

from actors.broker.log.directories.directory import STRAY, parse_name, read_topic_id
from actors.metadata import ops
from actors.ports import DiskFailed, DiskFull
from actors.wire.errors import ErrorCode
from fastpath.records.batch import records
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log.test_failing_disk import FAILED, FULL, HOWS, LASTS, Adversary, Way, crash, fail_each_step
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab, Pending, code, outcome

pytestmark = pytest.mark.long

KEPT, NAMESAKE = bytes(range(2, 18)), bytes(range(1, 17))
CONFIGS = {"internal.segment.bytes": "200"}
GONE_MS = 70_000
"""After so long what was deleted is unlinked."""


class Machine(Lab):
    """A lab whose broker does nothing more once its process has ended."""

    def turn(self) -> bool:
        """One turn of everybody."""
        if 1 in self.nodes and self.nodes[1].stopped is not None:
            self.dead.add(1)
        return super().turn()


class Broker:
    """A broker with the topics `t` and `kept`, and what it has acknowledged."""

    def __init__(self) -> None:
        self.lab = Machine(1)
        self.disk: VirtualDisk = self.lab.disks[1]
        self.sent: dict[str, list[tuple[bytes, Pending]]] = {"kept": [], "t": []}
        self.durable: dict[str, int] = {"kept": 0, "t": 0}
        """The recovery point of each topic when its broker was seen last."""
        for name, topic_id in (("kept", KEPT), ("t", TOPIC_ID)):
            self.lab.topic([1], name, topic_id, configs=CONFIGS)
            for number in range(3):
                self.produce(name, b"old%d" % number)
        self.lab.pass_ms(6_000, 1_000)

    def produce(self, topic: str, value: bytes) -> None:
        """One record, which may be refused."""
        if self.stopped:
            return
        self.sent[topic].append((value + bytes(60), self.lab.produce(1, value + bytes(60), topic=topic)))
        self.lab.settle()

    def acknowledged(self, topic: str) -> list[bytes]:
        """The records that were, in order."""
        return [value for value, told in self.sent[topic] if told.done and code(told) is ErrorCode.NONE]

    def delete(self) -> None:
        """Delete `t`."""
        self.lab.commit(ops.TopicGone(TOPIC_ID, "t"))
        self.sent["t"].clear()
        self.lab.settle()

    def make_again(self) -> None:
        """Make another topic of that name, and write to it."""
        self.lab.topic([1], topic_id=NAMESAKE, configs=CONFIGS)
        for number in range(2):
            self.produce("t", b"new%d" % number)

    def start(self) -> None:
        """A new process, which may find that it cannot start."""
        try:
            self.lab.start(1)
        except (DiskFull, DiskFailed):  # the host says what it is, and ends
            self.lab.dead.add(1)
        self.lab.settle()
        for topic_id in (KEPT, TOPIC_ID, NAMESAKE):
            if not self.stopped and self.lab.nodes[1].broker.cache.image.topic_by_id(topic_id) >= 0:
                self.lab.change([1], 1, topic_id=topic_id)  # as the controller does
        self.lab.settle()

    @property
    def stopped(self) -> bool:
        """Whether the process has ended."""
        return 1 in self.lab.dead or self.lab.nodes[1].stopped is not None

    def look(self) -> None:
        """Note what is durable, as the broker knows it."""
        for topic in self.durable:
            partition = self.lab.partition(1, topic=topic)
            self.durable[topic] = 0 if partition is None else partition.log.recovery_point

    def read(self, topic: str) -> list[bytes]:
        """All records of a topic, as a consumer gets them."""
        found = list[bytes]()
        while data := outcome(self.lab.fetch(1, len(found), topic=topic)).records:
            found += [record.value or b"" for record in records(data)]
        return found

    def check(self, power_was_cut: bool, names: bool = True) -> None:
        """The broker, which runs on a sound disk, has what it should. `names`: also nothing of what was deleted."""
        assert not self.stopped, f"the broker does not run: {self.lab.nodes[1].log.lines[-3:]}"
        for topic, sent in self.sent.items():
            acknowledged = self.acknowledged(topic)
            if topic == "t" and not sent:
                continue
            partition = self.lab.partition(1, topic=topic)
            if partition is None:
                assert not names, f"there is no {topic}"
                continue
            found = self.read(topic)
            least = min(self.durable[topic], len(acknowledged)) if power_was_cut else len(acknowledged)
            assert [one for one in found if one in acknowledged] == acknowledged[: max(least, len(found))], (
                topic,
                found,
            )
            assert set(found) <= {value for value, _ in sent}, f"{topic} has what is of another topic: {found}"
            assert partition.log.torn is None
        for name in self.disk.names("") if names else ():
            parsed = parse_name(name)
            assert parsed is None or parsed[2] in ("", STRAY), f"{name} is still there"
            if parsed is not None and not parsed[2]:
                found = read_topic_id(self.disk, name)
                blank = found is None and self.lab.partition(1, parsed[1], parsed[0]).log.blank
                assert blank or found in (KEPT, NAMESAKE, TOPIC_ID if not self.deleted else KEPT), name

    @property
    def deleted(self) -> bool:
        """Whether `t` was deleted."""
        image = self.lab.nodes[1].broker.cache.image
        return image.topic_by_id(TOPIC_ID) < 0


def delete(broker: Broker) -> None:
    broker.delete()
    broker.lab.pass_ms(GONE_MS, 5_000)


def delete_and_make_again(broker: Broker) -> None:
    broker.delete()
    broker.make_again()
    broker.lab.pass_ms(GONE_MS, 5_000)


def checkpoint(broker: Broker) -> None:
    for topic in ("kept", "t"):
        broker.produce(topic, b"more")
    broker.lab.pass_ms(12_000, 1_000)


def stop(broker: Broker) -> None:
    broker.produce("kept", b"more")
    broker.lab.nodes[1].broker.shutdown()
    broker.lab.settle()


def stop_and_start(broker: Broker) -> None:
    stop(broker)
    broker.start()
    broker.produce("kept", b"again")


def start_behind_a_kill(broker: Broker) -> None:
    broker.produce("kept", b"more")
    broker.start()
    broker.produce("kept", b"again")


class Case(NamedTuple):
    """One sequence."""

    run: Callable[[Broker], None]
    ends: bool = False
    """The process is to end in it, or may not begin: then a shortage may end it too."""


CASES = {
    "delete": Case(delete),
    "delete and make again": Case(delete_and_make_again),
    "checkpoint": Case(checkpoint),
    "clean stop": Case(stop, ends=True),
    "stop and start": Case(stop_and_start, ends=True),
    "start behind a kill": Case(start_behind_a_kill, ends=True),
}


def run(case: Case, step: int, numbers: tuple[int, ...], lasts: int, how: int) -> bool:
    """Whether the fault has come."""
    broker = Broker()
    broker.disk.fault = adversary = Adversary(step, numbers, lasts)
    case.run(broker)
    broker.disk.fault = None
    came = adversary.steps >= step
    if not broker.stopped:
        broker.lab.pass_ms(GONE_MS, 5_000)
        broker.look()
        broker.check(False, numbers is FULL)  # a name that the device refused to change is left to the next start
        for topic in ("kept", "t") if numbers is FULL else ():
            if broker.sent[topic]:
                broker.produce(topic, b"after")
                assert broker.acknowledged(topic)[-1].startswith(b"after"), f"{topic} is not served again"
    else:
        assert case.ends or numbers is FAILED, f"a shortage has ended the broker: {broker.lab.nodes[1].stopped}"
    if how == 0:
        broker.lab.dead.add(1)
    else:
        broker.lab.crash(1)
        crash(broker.disk, how)
    broker.start()
    broker.lab.pass_ms(GONE_MS, 5_000)
    broker.check(how > 0)
    return came


def one_of(every: int, step: int) -> Iterator[Way]:
    """Each fault, or one of `every`, with a crash behind it by chance."""
    for (kind, lasts), numbers in [*product(LASTS.items(), (FULL, FAILED))][step % every :: every]:
        yield (kind, lasts), numbers, random.Random(f"{step} {kind} {numbers}").randrange(HOWS)


@pytest.mark.parametrize("name", CASES)
def test_a_fault_at_each_step_of_a_log_directory_and_a_crash_behind_it(name: str) -> None:
    fail_each_step(name, partial(one_of, 8), partial(run, CASES[name]))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_each_fault_at_each_step_of_a_log_directory(name: str) -> None:
    fail_each_step(name, partial(one_of, 1), partial(run, CASES[name]))
