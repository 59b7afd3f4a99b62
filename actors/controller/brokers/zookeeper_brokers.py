"""Brokers of Apache Kafka that live with ZooKeeper: which of them are registered, and under which epoch (KIP-500).

Such a broker sends no heartbeat and holds no lease: it lives as long as its znode in /brokers/ids. This file alone decides
what becomes of the list of those znodes. Rules:

1. The list is whole. A broker that is registered and not in it is fenced at once.
2. A broker's epoch is the czxid of its znode, which the broker takes as its epoch as well: it answers 77 to a lower one. A
   new czxid is a new process, or a new session of the same one: the old registration is fenced first, then the new one is
   made.
3. An id has one owner. One that a broker of rayft holds is not given to a znode, and the other way round (`owns`).
4. A new active controller knows from the log which brokers are of this kind, and fences none of them before it has the
   list.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from actors.controller.brokers import heartbeat_leases
from actors.controller.soft_state import Legacy, Soft
from actors.controller.state import Result, State
from actors.metadata.ops import BrokerSet, EndPoint
from actors.ports import Now, Random


class LiveBroker(NamedTuple):
    """A broker as its znode describes it."""

    id: int
    epoch: int
    """The czxid of the znode: above zero."""
    endpoints: tuple[EndPoint, ...]
    rack: str | None = None
    features: tuple[tuple[str, int, int], ...] = ()
    """(name, lowest level, highest level), which brokers write from 2.7 on"""


def follow(state: State, live: Sequence[LiveBroker], now: Now, random: Random) -> Result:
    """Let the registrations follow the znodes. The reply holds the ids that are to be looked at again, when a fencing
    has ended or their present owner has given them up."""
    soft, image = state.soft, state.image
    wanted = {broker.id: broker for broker in live if broker.id not in state.controllers}
    soft.znodes = frozenset(wanted)
    for broker in image.brokers():
        if broker.zookeeper and broker.id not in wanted:
            _leave(soft, broker.id, "its znode is gone")
    ops: list[Any] = []
    later: list[int] = []
    for id, found in sorted(wanted.items()):
        registered = image.broker(id)
        if id in soft.leaving or (registered is not None and not registered.zookeeper):
            later.append(id)
        elif registered is not None and registered.epoch != found.epoch:
            _leave(soft, id, f"its znode is another one: {found.epoch} and not {registered.epoch}")
            later.append(id)
        else:
            ops += _registered(state, registered, found, now)
    return Result(ops, later, atomic=False)


def owns(soft: Soft, registered: BrokerSet | None, broker: int) -> bool:
    """Whether an id is that of a broker in ZooKeeper mode: it is registered so, or it is not in use and has a znode."""
    return registered.zookeeper if registered is not None else broker in soft.znodes


def incarnation(epoch: int) -> bytes:
    """The incarnation of a broker in ZooKeeper mode: made from its epoch, since the znode names none."""
    return epoch.to_bytes(16, "big")


def _registered(state: State, registered: BrokerSet | None, found: LiveBroker, now: Now) -> list[Any]:
    """The op that registers a broker as its znode has it; none if it is registered so."""
    soft = state.soft
    wanted = BrokerSet(
        found.id,
        found.epoch,
        incarnation(found.epoch),
        found.endpoints,
        found.rack,
        found.features,
        zookeeper=True,
    )
    legacy = soft.legacy.get(found.id)
    if legacy is None or legacy.incarnation_id != wanted.incarnation_id:
        legacy = soft.legacy[found.id] = Legacy(wanted.incarnation_id, zookeeper=True)
    legacy.listeners = found.endpoints
    if registered is None:
        heartbeat_leases.grant_for_session(soft, found.id, found.epoch, wanted.incarnation_id)
        soft.electing[found.id] = None
    return [] if wanted == registered else [wanted]


def _leave(soft: Soft, broker: int, why: str) -> None:
    soft.legacy.pop(broker, None)
    if broker not in soft.leaving:
        heartbeat_leases.revoke(soft, broker, why)
