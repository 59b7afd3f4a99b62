"""The topics in /brokers/topics, the replicas of their partitions, and their leaders, between znodes and ops.

This file alone decides what these znodes say and how they are written. Rules:

1. A topic without an id belongs to an inter.broker.protocol.version older than 2.8.
2. Leader and ISR are in a znode a partition. From inter.broker.protocol.version 2.7 on only a controller writes it, so
   a topic without any was made by a broker and has not been seen by a controller yet.
3. A partition begins here above both numbers that ZooKeeper has for it: its leader epoch, and the version of its znode,
   which brokers know as the partition epoch. At our levels one number is both (A33), and a broker obeys only a higher
   one.
4. The version of a state that is written here is never behind the partition epoch that brokers were told, which rises with
   each change: it is written as often as that has risen.
5. A partition whose ISR is empty or names a broker that has no replica is not taken over: no replica of it is known to
   hold what was acknowledged.
"""

import base64
import binascii
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from actors.bridge.znodes import TOPICS, BadZnode, field, fields, number, shown, written
from actors.metadata.image import Image
from actors.metadata.ops import PartitionsSet
from actors.metadata.topic_names import name_error
from actors.ports.zookeeper import Create, Write, Znode

NO_LEADER = -1
PARTITIONS_MAX = 200_000
"""The most partitions of one topic."""
REPLICAS_MAX = 100
BEHIND_MAX = 10_000
"""How often a state may be written only to raise its version."""


class Topic(NamedTuple):
    """The content of a topic's znode."""

    name: str
    id: bytes
    """The topic id, 16 bytes; empty: the topic has none."""
    replicas: Mapping[int, tuple[int, ...]]
    """The replicas by partition number; the numbers are 0, 1, 2, ..."""
    adding: Mapping[int, tuple[int, ...]]
    removing: Mapping[int, tuple[int, ...]]
    """The replicas that a reassignment under way adds (`adding`) and removes, by partition number."""


class Partition(NamedTuple):
    """The content of a partition's state znode."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    version: int
    """The version of the znode: how often the state has changed."""
    controller_epoch: int = 0
    """The epoch of the controller that has written the state."""


def path_of(name: str) -> str:
    """The path of a topic's znode."""
    return f"{TOPICS}/{name}"


def state_path(name: str, number: int) -> str:
    """The path of a partition's state."""
    return f"{TOPICS}/{name}/partitions/{number}/state"


def topic(path: str, znode: Znode) -> Topic:
    """What a topic's znode says. Raises BadZnode."""
    name = path.removeprefix(TOPICS + "/")
    if (error := name_error(name)) is not None:
        raise BadZnode(path, error)
    found = fields(path, znode)
    replicas = _replicas(path, field(path, found, "partitions", dict), "partitions")
    if sorted(replicas) != list(range(len(replicas))) or not replicas:
        raise BadZnode(path, f"has the partitions {shown(sorted(replicas))}, which must be 0, 1, 2 and so on")
    if not all(replicas.values()):
        raise BadZnode(path, "has a partition without replicas")
    return Topic(
        name,
        _id(path, found.get("topic_id")),
        replicas,
        _replicas(path, field(path, found, "adding_replicas", dict, {}), "adding_replicas"),
        _replicas(path, field(path, found, "removing_replicas", dict, {}), "removing_replicas"),
    )


def partition(path: str, znode: Znode, replicas: Sequence[int]) -> Partition:
    """What a partition's state says. Raises BadZnode."""
    found = fields(path, znode)
    leader = found.get("leader")
    isr = _brokers(path, field(path, found, "isr", list), "isr")
    if not isr:
        raise BadZnode(path, "has an empty ISR: nobody knows which replica holds what was acknowledged")
    if strangers := [one for one in isr if one not in replicas]:
        raise BadZnode(path, f"has broker {strangers[0]} in the ISR, which has no replica")
    leader = NO_LEADER if leader == NO_LEADER else number(path, leader, "leader")
    if leader != NO_LEADER and leader not in isr:
        raise BadZnode(path, f"has broker {leader} as the leader, which is not in the ISR")
    by = number(path, found.get("controller_epoch", 0), "controller_epoch")
    return Partition(leader, number(path, found.get("leader_epoch"), "leader_epoch"), isr, znode.version, by)


def taken_over(
    one: Topic,
    states: Mapping[int, Partition],
    alive: Collection[int],
    numbers: Sequence[int] | None = None,
    above: Mapping[int, int] | None = None,
) -> PartitionsSet:
    """The op that begins partitions of a topic here, all or those given. `alive`: brokers that may lead and be in sync;
    if no member of an ISR is alive, the ISR stays and there is no leader. A partition without a state is new. `above`:
    epochs by partition that brokers were told already."""
    numbers = range(len(one.replicas)) if numbers is None else numbers
    begun = [_begun(one.replicas[number], states.get(number), alive) for number in numbers]
    told = above or {}
    epochs = [max(epoch, told.get(number, -1) + 1) for number, (_, _, epoch) in zip(numbers, begun, strict=True)]
    return PartitionsSet(
        one.id,
        numbers,
        [one.replicas[number] for number in numbers],
        [isr for isr, _, _ in begun],
        leader=[leader for _, leader, _ in begun],
        leader_epoch=epochs,
        partition_epoch=epochs,
    )


def _begun(
    replicas: tuple[int, ...], state: Partition | None, alive: Collection[int]
) -> tuple[tuple[int, ...], int, int]:
    """ISR, leader and epoch of a partition here."""
    isr = replicas if state is None else state.isr
    epoch = 0 if state is None else max(state.leader_epoch, state.version) + 1
    there = tuple(broker for broker in isr if broker in alive)
    if not there:
        return isr, NO_LEADER, epoch
    first = next(broker for broker in replicas if broker in there)
    return there, state.leader if state is not None and state.leader in there else first, epoch


def topic_data(image: Image, row: int) -> bytes:
    """The content of a topic's znode, as the image has the topic."""
    rows = list(image.topic_partitions(row))
    return written(
        removing_replicas={str(image.number(one)): list(image.removing(one)) for one in rows if image.removing(one)},
        partitions={str(image.number(one)): list(image.replicas(one)) for one in rows},
        topic_id=id_text(image.topic_id(row) or b""),
        adding_replicas={str(image.number(one)): list(image.adding(one)) for one in rows if image.adding(one)},
        version=3,
    )


def state_data(image: Image, row: int, controller_epoch: int, leader_epoch: int) -> bytes:
    """The content of a partition's state znode, as the image has it but under `leader_epoch`."""
    return written(
        controller_epoch=controller_epoch,
        leader=image.leader(row),
        version=1,
        leader_epoch=leader_epoch,
        isr=list(image.isr(row)),
    )


def state_writes(path: str, known: Znode, data: bytes, told: int) -> list[Write]:
    """The writes after which a state says `data`, and its version is at least `told`, the partition epoch that brokers
    know: they obey a controller in ZooKeeper mode, which tells them the version, only if it is not behind."""
    differs = _said(known.data) != _said(data)
    times = min(max(int(differs), told - known.version), BEHIND_MAX)
    return [Write(path, data, known.version)][:times] + [Write(path, data)] * (times - 1)


def _said(data: bytes) -> Any:
    """The parts of a state that brokers are told: all but which controller wrote it."""
    try:
        found = json.loads(data)
        return tuple(found[name] for name in ("leader", "leader_epoch", "isr"))
    except (ValueError, LookupError, TypeError, RecursionError):
        return data


def state_znodes(name: str, number: int, data: bytes) -> list[Create]:
    """The znodes to create for a partition that has none yet, below `.../partitions`."""
    path = state_path(name, number)
    return [Create(path.rpartition("/")[0]), Create(path, data)]


def id_text(id: bytes) -> str:
    """The text of a topic id in a znode."""
    return base64.urlsafe_b64encode(id).decode().rstrip("=")


def _id(path: str, text: Any) -> bytes:
    if text is None:
        return b""
    try:
        found = base64.urlsafe_b64decode(text + "==") if isinstance(text, str) and len(text) == 22 else b""
    except (binascii.Error, ValueError):
        found = b""
    if len(found) != 16 or not any(found):
        raise BadZnode(path, f"has {shown(text)} as topic_id, which must be 22 characters of base64")
    return found


def _replicas(path: str, found: Mapping[str, Any], what: str) -> dict[int, tuple[int, ...]]:
    if len(found) > PARTITIONS_MAX:
        raise BadZnode(path, f"has {len(found)} partitions, and a topic has {PARTITIONS_MAX} at most")
    return {number(path, key, f"a partition of {what}"): _brokers(path, value, what) for key, value in found.items()}


def _brokers(path: str, found: Any, what: str) -> tuple[int, ...]:
    if not isinstance(found, list) or len(found) > REPLICAS_MAX:
        raise BadZnode(path, f"has {shown(found)} in {what}, which must be a list of at most {REPLICAS_MAX} brokers")
    ids = tuple(number(path, one, f"a broker in {what}") for one in found)
    if len(set(ids)) != len(ids):
        raise BadZnode(path, f"names a broker twice in {what}: {shown(found)}")
    return ids
