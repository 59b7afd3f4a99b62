"""Leases as the controller counts them (KIP-631, Broker Heartbeats; readings A22, A25).

This file alone decides when a broker has missed its heartbeats for too long; `fencing_passes.py` carries out what follows.
Rules:

1. A lease ends at monotonic receipt + lease period. The broker counts from its sending, so it fences itself first.
2. A new active controller treats every unfenced broker as renewed at takeover, plus the time for which a deposed leader
   may still have renewed leases without knowing. The longer of its own lease period and the one in the registration counts:
   the brokers' leases are those that the controller before granted, and its setting may have been another.
3. Time in which the loop stood still is credited: a broker is not fenced for the controller's own pause.
4. Expiry is judged after the control lane has run, so that a heartbeat that has arrived counts.
5. A broker in ZooKeeper mode sends no heartbeat: its lease lasts until its znode is gone (`zookeeper_brokers.py`).
"""

from actors.controller.soft_state import Departure, Lease, Soft
from actors.metadata.image import Image
from actors.ports import Now

NEVER_MS = 1 << 62
"""The end of a lease that ends by ZooKeeper's word alone."""
STOOD_STILL_MS = 250
"""A turn that comes this much later than it was due shows that the loop stood still."""


def grant(soft: Soft, broker_id: int, epoch: int, incarnation_id: bytes, offset: int, now: Now, lease_ms: int) -> None:
    """Give a lease to a broker that the op at `epoch` registers. The answer leaves only after its commit. The lease
    counts from now, which is safe: it ends here later than at the broker."""
    soft.leases[broker_id] = Lease(epoch, incarnation_id, now.mono_ms + lease_ms, epoch, offset)
    soft.stopping.pop(broker_id, None)
    soft.changed()


def grant_for_session(soft: Soft, broker_id: int, epoch: int, incarnation_id: bytes) -> None:
    """Give a lease to a broker in ZooKeeper mode that is registered under `epoch`. Its session there is its lease,
    which has no end in time."""
    soft.leases[broker_id] = Lease(epoch, incarnation_id, NEVER_MS, -1, -1)
    soft.stopping.pop(broker_id, None)
    soft.changed()


def renew(lease: Lease, offset: int, now: Now, lease_ms: int) -> None:
    """Renew a lease after an accepted heartbeat for one lease period from now (R631-145). It is never shortened."""
    lease.expires_ms = max(lease.expires_ms, now.mono_ms + lease_ms)
    lease.offset = max(lease.offset, offset)
    lease.refused = False


def revoke(soft: Soft, broker_id: int, why: str, *, newcomer: bool = False, give_up: bool = False) -> None:
    """End a lease, or the rest of a registration, and let the fencing begin. A fencing that runs already goes on; it
    may be given `newcomer` and `give_up` later, but never loses them."""
    running = soft.leaving.get(broker_id)
    if running is not None:
        newcomer, give_up, why = newcomer or running.newcomer, give_up or running.give_up, running.why
    soft.leases.pop(broker_id, None)
    soft.stopping.pop(broker_id, None)
    if running is not None and running.give_up == give_up:
        soft.leaving[broker_id] = running._replace(newcomer=newcomer)
    else:  # rows that were passed already are looked at again only if the last copies are given up from now on
        soft.leaving[broker_id] = Departure(why, newcomer, give_up)
    soft.changed()


def take_over(soft: Soft, image: Image, now: Now, lease_ms: int, grace_ms: int) -> None:
    """Give every unfenced broker a lease as if it had been renewed now, plus the grace (A22). A fenced one has lost its
    lease, though it may be registered."""
    for broker in image.unfenced_brokers():
        if broker.zookeeper:
            grant_for_session(soft, broker.id, broker.epoch, broker.incarnation_id)
            continue
        ends_ms = now.mono_ms + max(lease_ms, broker.lease_ms) + grace_ms
        lease = soft.leases[broker.id] = Lease(broker.epoch, broker.incarnation_id, ends_ms, broker.epoch, -1)
        lease.longer_until_ms = ends_ms
    soft.changed()


def recorded_ms(lease: Lease, registered_ms: int, now: Now, lease_ms: int) -> int:
    """The lease period that the registration must name: this controller's, unless a longer lease may still run."""
    return max(lease_ms, registered_ms) if now.mono_ms < lease.longer_until_ms else lease_ms


def credit(soft: Soft, due_ms: int, now: Now) -> int:
    """Add the time for which the loop stood still to every lease: the turn was due at `due_ms`. Returns the ms
    added."""
    late_ms = now.mono_ms - due_ms
    if late_ms < STOOD_STILL_MS:
        return 0
    for lease in soft.leases.values():
        lease.expires_ms += late_ms
    return late_ms


def expired(soft: Soft, now: Now) -> list[int]:
    """Brokers whose lease has ended, by id."""
    return sorted(broker_id for broker_id, lease in soft.leases.items() if lease.expires_ms <= now.mono_ms)


def deadline_ms(soft: Soft, far_ms: int) -> int:
    """When the next lease ends."""
    return min((lease.expires_ms for lease in soft.leases.values()), default=far_ms)
