"""The faults, one function each. Each begins its fault at once and returns a description, how long the fault lasts, and
how it is undone. All choices come from the random generator of the run's seed.
"""

import contextlib
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from actors.host.cluster import probe
from actors.wire.messages import message
from tests.integration.faults.targets import CLIENT, Target, Wired

FREEZE_S = (0.3, 2.0, 9.0)
"""In seconds: too short to be noticed, longer than a fetch timeout, longer than a lease."""
HOLE_S = (0.5, 3.0, 8.0)
"""The longest is below the clients' socket timeout, so that no client repeats a request while the first is on its
way."""


class Hurt(NamedTuple):
    """A fault that has begun."""

    what: str
    lasts_s: float
    undo: Callable[[], None]


Fault = Callable[[Target, random.Random], Hurt | None]


def nothing() -> None:
    """Nothing is to be undone."""


def kill_broker(target: Target, choice: random.Random) -> Hurt | None:
    """kill -9 of a broker, most often the one with most leaderships. It is restarted at once."""
    led = _led(target)
    node = (
        max(led, key=lambda broker: led[broker])
        if led and choice.random() < 0.6
        else choice.choice(list(target.brokers))
    )
    return Hurt(f"kill -9 broker {node}", choice.uniform(1, 4), nothing) if target.kill(node) else None


def kill_leader(target: Target, choice: random.Random) -> Hurt | None:
    """kill -9 of the active controller."""
    node = target.leader()
    if node is None or not target.kill(node):
        return None
    return Hurt(f"kill -9 active controller {node}", choice.uniform(1, 3), nothing)


def kill_both(target: Target, choice: random.Random) -> Hurt | None:
    """The active controller and a broker at the same time, so that no controller notices the broker's end."""
    leader, node = target.leader(), choice.choice(list(target.brokers))
    if leader is None:
        return None
    killed = [id for id in (leader, node) if target.kill(id)]
    return _killed("active controller and broker", killed, choice.uniform(2, 5))


def kill_all_brokers(target: Target, choice: random.Random) -> Hurt | None:
    """The page cache survives kill -9, so no record may be missing after it."""
    killed = [node for node in target.brokers if target.kill(node)]
    return _killed("all brokers", killed, choice.uniform(2, 4))


def kill_everything(target: Target, choice: random.Random) -> Hurt | None:
    """Like a power cut, but without loss of memory."""
    killed = [node for node in (*target.controllers, *target.brokers) if target.kill(node)]
    return _killed("everything", killed, choice.uniform(3, 5))


def _killed(whom: str, nodes: Sequence[int], seconds: float) -> Hurt | None:
    return Hurt(f"kill -9 {whom}: {list(nodes)}", seconds, nothing) if nodes else None


def stop_for_a_while(target: Target, choice: random.Random) -> Hurt | None:
    """kill -9, with a restart only later."""
    node = choice.choice([*target.brokers, *target.controllers])
    if not target.kill(node, restart=False):
        return None
    return Hurt(f"kill -9 node {node}, kept down", choice.uniform(2, 9), lambda: target.start(node))


def freeze(target: Target, choice: random.Random) -> Hurt | None:
    """SIGSTOP: a node that resumes after a pause and does not know of it."""
    node = choice.choice([*target.brokers, *target.controllers])
    return _freeze(target, [node], choice)


def freeze_leader(target: Target, choice: random.Random) -> Hurt | None:
    """The active controller, and now and then a broker with it."""
    leader = target.leader()
    if leader is None:
        return None
    return _freeze(target, [leader, *([choice.choice(list(target.brokers))] if choice.random() < 0.3 else [])], choice)


def _freeze(target: Target, nodes: Sequence[int], choice: random.Random) -> Hurt | None:
    stopped = [node for node in nodes if target.signal(node, signal.SIGSTOP)]

    def thaw() -> None:
        for node in stopped:
            target.signal(node, signal.SIGCONT)

    seconds = choice.choice(FREEZE_S)
    return Hurt(f"SIGSTOP {stopped}", seconds, thaw) if stopped else None


def part(target: Target, choice: random.Random) -> Hurt | None:
    """One node is cut off from all other nodes, but not from clients."""
    assert isinstance(target, Wired) and target.wires is not None
    nodes = [target.name(node) for node in (*target.brokers, *target.controllers)]
    leader = target.leader()
    alone = target.name(leader) if leader is not None and choice.random() < 0.4 else choice.choice(nodes)
    state = choice.choice(("hole", "cut"))
    for other in nodes:
        if other != alone:
            target.wires.cut(alone, other, state)
    return Hurt(f"{alone} {state} off from all nodes", choice.choice(HOLE_S), _healing(target))


def part_clients(target: Target, choice: random.Random) -> Hurt | None:
    """A broker is cut off from clients, but not from the cluster."""
    assert isinstance(target, Wired) and target.wires is not None
    broker = target.name(choice.choice(list(target.brokers)))
    state = choice.choice(("hole", "cut"))
    target.wires.cut(CLIENT, broker, state)
    return Hurt(f"{broker} {state} off from clients", choice.choice(HOLE_S), _healing(target))


def part_pair(target: Target, choice: random.Random) -> Hurt | None:
    """Two nodes do not reach each other, although all others do; sometimes in one direction only."""
    assert isinstance(target, Wired) and target.wires is not None
    nodes = [target.name(node) for node in (*target.brokers, *target.controllers)]
    one, other = choice.sample(nodes, 2)
    state = choice.choice(("hole", "cut", "one way"))
    if state == "one way":
        target.wires.tell("set", one, other, "hole")
    else:
        target.wires.cut(one, other, state)
    return Hurt(f"{one} to {other}: {state}", choice.choice(HOLE_S), _healing(target))


def slow_down(target: Target, choice: random.Random) -> Hurt | None:
    """Delays between all nodes, or between one and all others."""
    assert isinstance(target, Wired) and target.wires is not None
    nodes = [target.name(node) for node in (*target.brokers, *target.controllers)]
    delay_ms = choice.choice((20, 100, 400))
    centre = choice.choice([None, *nodes])
    for one, other in combinations(nodes, 2):
        if centre in (None, one, other):
            target.wires.slow(one, other, delay_ms)
    return Hurt(f"{delay_ms} ms each way around {centre or 'all nodes'}", choice.uniform(2, 5), _healing(target))


def reset_connections(target: Target, choice: random.Random) -> Hurt | None:
    """Every connection of a broker breaks once."""
    assert isinstance(target, Wired) and target.wires is not None
    broker = target.name(choice.choice(list(target.brokers)))
    others = [CLIENT, *(target.name(node) for node in (*target.brokers, *target.controllers))]
    for other in others:
        if other != broker:
            target.wires.cut(broker, other)
    target.wires.tell("heal")
    return Hurt(f"all connections of {broker} reset", choice.uniform(0.5, 2), nothing)


def restart(target: Target, choice: random.Random) -> Hurt | None:
    """A controlled shutdown and a new start."""
    assert isinstance(target, Wired)
    node = choice.choice([*target.brokers, *target.controllers])
    target.cluster.restart(node, 60)
    return Hurt(f"controlled restart of {node}", choice.uniform(0.5, 2), nothing)


def elect(target: Target, choice: random.Random) -> Hurt | None:
    """No fault: preferred leaders are elected, so that leaderships are spread again."""
    request = message("ElectLeadersRequest")(election_type=0, topic_partitions=None, timeout_ms=5000)
    host, _, port = choice.choice(target.bootstrap.split(",")).rpartition(":")
    try:
        probe.ask((host, int(port)), "ElectLeaders", request, 2, 10)
    except probe.NoAnswer:
        return None
    return Hurt("preferred leaders elected", choice.uniform(0.2, 1), nothing)


def _led(target: Target) -> Counter[int]:
    """How many partitions each broker leads, as clients know it."""
    admin = AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 0})
    try:
        topics = admin.list_topics(timeout=5).topics
    except KafkaException:
        return Counter()
    leaders = (part.leader for topic in topics.values() for part in topic.partitions.values())
    return Counter(leader for leader in leaders if leader in target.brokers)


def fill_disk(target: Target, choice: random.Random) -> Hurt | None:
    """The disk of the first broker's data is full, and stays so for a while after it has made room."""
    assert isinstance(target, Wired)
    if target.small is None:
        return None
    ballast = target.small / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    return Hurt("no room on the disk of broker 1", choice.uniform(2, 8), lambda: ballast.unlink(missing_ok=True))


def _healing(target: Wired) -> Callable[[], None]:
    def heal() -> None:
        assert target.wires is not None
        target.wires.tell("heal")

    return heal


EVERYWHERE: dict[Fault, int] = {
    kill_broker: 6, kill_leader: 4, kill_both: 2, kill_all_brokers: 1, kill_everything: 1, freeze: 4, freeze_leader: 2,
    elect: 4,
}  # fmt: skip
"""Fault -> how often it is chosen, on any host."""
WIRED = EVERYWHERE | {
    stop_for_a_while: 4, part: 4, part_clients: 2, part_pair: 4, slow_down: 2, reset_connections: 2, restart: 2,
    fill_disk: 2,
}  # fmt: skip
"""The same for hosts with wires, where a node can be kept down, and perhaps with a small disk."""
