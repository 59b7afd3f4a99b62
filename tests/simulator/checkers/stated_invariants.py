"""What the parts of a node state of themselves: the invariants in the docstrings of their fields, as far as they can be read
off the state after a turn.

This is the one checker that looks at everything instead of at what has changed. So it looks at a node in one of `EVERY`
turns only: what is wrong once, as a sum, stays wrong.
"""

from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from typing import Any

from actors.broker.lifecycle.lifecycle import BrokerState
from actors.broker.replication.fetch_sessions import ENTRY_BYTES
from actors.broker.replication.isr_transitions import Stage
from actors.node.net.connections import IN_FLIGHT_MAX
from actors.node.net.request_queue import IN_LINE, SHARE_NS
from actors.node.runtime.calls import Listener
from tests.simulator.checkers.hooks import Violation

EVERY = 16
REMEMBERED_MAX = 5

Broken = Iterator[str]


def raft(node: Any) -> Broken:
    """What of the metadata log is durable and committed is in it, and its epochs rise."""
    replica, store = node.quorum.raft, node.quorum.store
    end = replica.log_end_offset
    if max(replica.durable_offset, replica.high_watermark) > end:
        yield f"durable {replica.durable_offset}, high watermark {replica.high_watermark}, log end {end}"
    epochs, starts = replica.epochs._epochs, replica.epochs._offsets
    if not rises(epochs) or not rises(starts):
        yield f"epochs {epochs} begin at {starts}"
    if starts and not replica.log_start_offset <= starts[0] <= starts[-1] < end:
        yield f"epochs begin at {starts}, the log at {replica.log_start_offset}, it ends at {end}"
    segments = store.log.segments
    if segments and segments[0].ahead:
        yield "the first segment is ahead of the one before it"


def connections(node: Any) -> Broken:
    """Faults of the connections of peers: sums that are no sums, requests out of order."""
    held = node.requests.connections
    unread = bytes_held = behind = apart = 0
    for connection in held.all():
        slots, waiting = connection.slots, connection.waiting
        unread += connection.unread
        behind += connection.behind
        if connection.behind != sum(slot.behind_bytes for slot in slots):
            yield f"connection {connection.id} has {connection.behind} bytes of answers behind others"
        own = sum(map(len, waiting)) + sum(slot.bytes_held for slot in slots if slot.parts is None)
        bytes_held += own - connection.apart.bytes
        apart += connection.apart.bytes
        if not 0 <= connection.apart.bytes <= (own if connection.waits else 0):
            yield f"connection {connection.id} has {connection.apart} apart, and holds {own} bytes"
        if connection.writing != sum(slot.writer is not None for slot in slots):
            yield f"connection {connection.id} has {connection.writing} requests that write"
        if any((slot.writer is None) != (slot.frame is None) for slot in slots):
            yield f"connection {connection.id} keeps the frame of a request that does not write"
        if slots and slots[0].parts is not None:
            yield f"connection {connection.id} has a first answer that has not left"
        if len(slots) > IN_FLIGHT_MAX:
            yield f"connection {connection.id} has {len(slots)} requests under way"
        if waiting and len(slots) < IN_FLIGHT_MAX and connection.kind is not Listener.CONTROL_PLANE:
            yield f"connection {connection.id} lets {len(waiting)} requests wait though only {len(slots)} are under way"
        if not 0 <= connection.sent <= connection.unread:
            yield f"connection {connection.id} was sent {connection.sent} of {connection.unread} unread bytes"
    if held.behind_bytes != behind:
        yield f"{held.behind_bytes} bytes of answers wait for others, those of connections are {behind}"
    if held._unread != unread:
        yield f"{held._unread} bytes are unread, those of connections are {unread}"
    if held.bytes_apart != apart:
        yield f"{held.bytes_apart} bytes are apart, those of connections are {apart}"
    if held.bytes_held != bytes_held:
        yield f"{held.bytes_held} bytes are held, those of connections are {bytes_held}"


def channels(node: Any) -> Broken:
    """Connections that this node dials."""
    for purpose, channel in node.channels._by_purpose.items():
        if channel.up and channel.queued:
            yield f"channel {purpose} is up, and {len(channel.queued)} requests wait for that"
        if channel.conn > 0 or channel.conn < node.channels._next_conn:
            yield f"channel {purpose} has number {channel.conn}"


def request_queue(node: Any) -> Broken:
    """Requests that wait for a turn."""
    for line in node.requests.queue._all:
        lined: dict[int, int] = {}
        for queue in line._queues.values():
            lined[id(queue.host)] = lined.get(id(queue.host), 0) + queue.lined
        if any(queue.host.lined != lined[id(queue.host)] for queue in line._queues.values()):
            yield "a host counts other connections than those that stand in the line"
        if line.size != sum(len(queue.items) for queue in line._queues.values()):
            yield f"a line counts {line.size} requests"
        if line.at_work is not None and (line.at_work.place is not IN_LINE or line._share_ns >= SHARE_NS):
            yield "a connection is still at work whose request rests, or whose share is used up"


def waiting(node: Any) -> Broken:
    """Requests that wait for something."""
    of = node.runtime.waiting
    if any(not connections or not all(connections.values()) for connections in of._late.hosts.values()):
        yield "a host or a connection without a late request is kept in the line"
    forgotten = {entry for entry, _ in of._forgotten}
    if any(entry.function is None and entry not in forgotten for waiters in of._parked.values() for entry in waiters):
        yield "a request that was called is still parked"
    if any(call not in of._parked for call in of._asked):
        yield "a call waits for an answer and is not parked"


def replicas(node: Any) -> Broken:
    """Partitions of a broker, what their leader knows of followers, and their logs."""
    broker, me = node.broker, node.broker.cache.me
    for partition in broker.replicas:
        log = partition.log
        if partition.high_watermark > log.log_end_offset:
            yield f"{partition!r}: high watermark {partition.high_watermark}, log end {log.log_end_offset}"
        others = set(partition.replicas) - {me} if partition.leads else set()
        if set(partition.followers) != others:
            yield f"{partition!r}: follows {sorted(partition.followers)}, other replicas are {sorted(others)}"
        for follower in partition.followers.values():
            if follower.log_end >= 0 and follower.caught_up_ms > follower.fetch_ms:
                yield f"{partition!r}: {follower.id} was caught up after its last fetch"
        isr = partition.isr
        if (isr.proposal is None) != (isr.stage is Stage.SETTLED):
            yield f"{partition!r}: {isr.proposal} in stage {isr.stage}"
        if (partition.topic_id, partition.number) in broker.replicas.offline:
            yield f"{partition!r} is here and offline"
        yield from (f"{partition!r}: {sentence}" for sentence in _log(log))


def _log(log: Any) -> Broken:
    try:
        log.check()
    except AssertionError as error:
        yield f"{error!r}, log start {log.log_start_offset}, recovery point {log.recovery_point}, {log.epochs.starts}"
    for id, producer in log.producers.by_id.items():
        if len(producer.batches) > REMEMBERED_MAX or (
            producer.batches and producer.batches[-1].last_offset >= log.log_end_offset
        ):
            yield f"of producer {id} {producer.batches} are remembered, the log ends at {log.log_end_offset}"


def indexes(node: Any) -> Broken:
    """Indexes of sealed segments in memory."""
    caches = {id(partition.log.indexes): partition.log.indexes for partition in node.broker.replicas}
    for cache in caches.values():
        if cache.held_bytes != sum(cache.segments.values()):
            yield f"indexes hold {cache.held_bytes} bytes, their segments say {sum(cache.segments.values())}"


def sessions(node: Any) -> Broken:
    """Faults of the fetch sessions of a broker."""
    of, entries = node.broker.sessions, 0
    for session in of._by_id.values():
        if not session.dirty.keys() <= set(session.entries.values()):
            yield f"session {session.id} has something to say of a partition that it has not"
        entries += len(session.entries)
    if of.account.bytes != entries * ENTRY_BYTES:
        yield f"{of.account.bytes} bytes are charged for sessions, they have {entries} partitions"


def ledger(node: Any) -> Broken:
    """Faults of the ledger of what is kept for peers."""
    try:
        node.runtime.ledger.check()
    except AssertionError as error:
        yield f"the ledger does not add up: {error!r}"


def groups(node: Any) -> Broken:
    """Groups that the broker coordinates."""
    for shard in node.broker.groups.machine.shards.values():
        if shard.unsettled and not shard.loaded:
            yield f"partition {shard.partition} has written offsets before it is loaded"
        for group in shard.of("classic").values():
            try:
                group.check()
            except AssertionError as error:
                yield f"group {group.id}: {error!r}, leader {group.leader}, {group.static} of {sorted(group.members)}"


def storage(node: Any) -> Broken:
    """Directories of partitions that no metadata has claimed yet."""
    for (topic, number), found in node.broker.logs.claims.unclaimed.items():
        ids = [directory.topic_id for _, directory in found]
        if not found or len(set(ids)) != len(ids):
            yield f"{topic}-{number} is unclaimed {len(found)} times"


def lease(node: Any) -> Broken:
    """Faults of a broker's lease."""
    lifecycle = node.broker.lifecycle
    if lifecycle.state is BrokerState.ACTIVE and lifecycle.lease_until_ms < 0:
        yield "active, and never had a lease"


ALL_NODES: tuple[Callable[[Any], Broken], ...] = (raft, connections, channels, request_queue, waiting)
BROKERS: tuple[Callable[[Any], Broken], ...] = (replicas, indexes, sessions, ledger, groups, storage, lease)


def rises(numbers: list[int]) -> bool:
    """Whether the numbers rise strictly."""
    return all(earlier < later for earlier, later in pairwise(numbers))


class StatedInvariants:
    name = "parts_are_as_they_say"

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}
        self._epochs: dict[str, int] = {}

    def turned(self, process: Any) -> None:
        """Now and then, everything."""
        turns = self._turns[process.name] = self._turns.get(process.name, 0) + 1
        if turns % EVERY == 0:
            self.look(process)

    def look(self, process: Any) -> None:
        """At one node, now."""
        node = process.node
        broken = chain.from_iterable(part(node) for part in (*ALL_NODES, *(BROKERS if node.broker is not None else ())))
        for sentence in broken:
            raise Violation(self.name, f"{process.name}: {sentence}")
        if node.broker is not None:
            before, epoch = self._epochs.get(process.name, -1), node.broker.lifecycle.epoch
            self._epochs[process.name] = epoch
            if epoch < before:
                raise Violation(self.name, f"{process.name} had broker epoch {before} and has {epoch}")

    def ended(self, process: Any) -> None:
        """The next process gets an epoch of its own."""
        self._epochs.pop(process.name, None)
