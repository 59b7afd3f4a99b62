"""Appends to partitions that this broker leads: a client's, and those of the broker's own coordinators.

This file alone decides what a failed append means: without room another member of the ISR is to lead, with a failed
device the log directory goes offline. Whether a batch may be appended at all is `broker/replication/admission.py`'s for
clients.
"""

from collections.abc import Callable
from functools import partial

from actors.broker.lifecycle.lifecycle import Lifecycle
from actors.broker.log.log import Appended
from actors.broker.replication.admission import RequestRefused
from actors.broker.replication.partition import NoRoom, Partition
from actors.broker.replication.replicas import Replicas
from actors.node.roles.broker.availability import Availability
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.runtime.runtime import Runtime
from actors.ports import Buffer, DiskFailed
from actors.wire.errors import ErrorCode

HAND_OVER_AGAIN_MS = 60_000


class Appends:
    """Appends to logs, and what follows from an append."""

    def __init__(
        self, runtime: Runtime, replicas: Replicas, logs: LogManager, lifecycle: Lifecycle, availability: Availability
    ) -> None:
        self._runtime = runtime
        self._replicas = replicas
        self._logs = logs
        self._lifecycle = lifecycle
        self._availability = availability

    def append(self, partition: Partition, data: Buffer, *, client: bool) -> Appended:
        """Append as `Partition.append`; `grown` is due then. Raises RequestRefused, and always once this process ends: the
        last flush of its logs has begun, or there is none."""
        if self._logs.closing:
            raise _stops()
        try:
            appended = partition.append(data, self._runtime.now.wall_ms, client=client)
        except (RequestRefused, DiskFailed) as error:
            raise self._failed(partition, error) from None
        if self._replicas.full:
            self._replicas.full.pop(partition, None)
        return appended

    def end_transaction(
        self,
        partition: Partition,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> Appended:
        """Append a transaction's marker as `Partition.end_transaction`, with acks=all; the rest as `append`."""
        if self._logs.closing:
            raise _stops()
        partition.admit(-1)
        wall_ms = self._runtime.now.wall_ms
        try:
            return partition.end_transaction(
                producer_id,
                producer_epoch,
                commit,
                coordinator_epoch,
                wall_ms,
                transaction_version=transaction_version,
            )
        except (RequestRefused, DiskFailed) as error:
            raise self._failed(partition, error) from None

    def _failed(self, partition: Partition, error: RequestRefused | DiskFailed) -> RequestRefused:
        """Handle a failed append. Returns the refusal for its client."""
        if isinstance(error, DiskFailed):
            self._logs.failures.append_failed(self._replicas, partition, error)
            return RequestRefused(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk of the leader of {partition!r} failed")
        if isinstance(error, NoRoom):
            self._no_room(partition)
        return error

    def grown(self, partition: Partition) -> None:
        """Note that a led partition has taken in a batch."""
        self._logs.written.add(partition)
        self._replicas.appended(partition, self._runtime.now.mono_ms)

    def signal(self) -> None:
        """Wake the requests that wait for what has changed."""
        signals = self._replicas.signals
        if signals:
            self._replicas.signals = {}
            for key, reached in signals.items():
                self._runtime.waiting.signal(key, reached)

    # ---- of the broker itself

    def append_internal(
        self,
        topic: str,
        number: int,
        data: bytearray,
        then: Callable[[ErrorCode], None],
        timeout_setting: str = "offsets.commit.timeout.ms",
    ) -> None:
        """Append one batch as acks=all, without a client's limits. `then` gets NONE when it is committed, else why not.
        Batches of one partition stay in order. `timeout_setting`: the setting that says how long it may take until all
        replicas have it."""
        runtime = self._runtime
        partition = self._replicas.get(topic, number)
        try:
            if partition is None:
                raise RequestRefused(self._availability.absent(topic, number))
            partition.admit(-1)
            appended = self.append(partition, data, client=False)
        except RequestRefused as refused:
            then(refused.code)
            return
        self.grown(partition)
        self.signal()
        deadline_ms = runtime.now.mono_ms + runtime.config.value(timeout_setting)
        self._wait(partition, appended.last_offset + 1, partition.leader_epoch, deadline_ms, then)

    def _wait(
        self,
        partition: Partition,
        required_offset: int,
        leader_epoch: int,
        deadline_ms: int,
        then: Callable[[ErrorCode], None],
    ) -> None:
        # Older appends are told first, also where an ISR that shrank in this turn has committed all of them at once.
        if self._runtime.waiting.waits(partition.committed):
            again = partial(self._look, partition, required_offset, leader_epoch, deadline_ms, then)
            self._runtime.waiting.park([partition.committed], deadline_ms, again)
        else:
            self._look(partition, required_offset, leader_epoch, deadline_ms, then, False)

    def _look(
        self,
        partition: Partition,
        required_offset: int,
        leader_epoch: int,
        deadline_ms: int,
        then: Callable[[ErrorCode], None],
        expired: bool,
    ) -> None:
        verdict = partition.verdict(required_offset, leader_epoch)
        if verdict is None and expired:
            verdict = ErrorCode.REQUEST_TIMED_OUT
        if verdict is None:
            again = partial(self._look, partition, required_offset, leader_epoch, deadline_ms, then)
            self._runtime.waiting.park([partition.committed], deadline_ms, again)
        else:
            then(verdict)

    def _no_room(self, partition: Partition) -> None:
        """Ask for another leader of a led partition that cannot grow here: the next heartbeat, sent at once, asks for
        one out of its ISR. Not again within a minute: where no member has room, the leadership would go round and
        round."""
        replicas, now_ms = self._replicas, self._runtime.now.mono_ms
        asked_ms = replicas.handed_over_ms.get(partition)
        if len(partition.isr.isr) > 1 and (asked_ms is None or now_ms - asked_ms >= HAND_OVER_AGAIN_MS):
            replicas.handed_over_ms[partition] = now_ms
            replicas.full[partition] = partition.leader_epoch
            self._lifecycle.hurry(self._runtime.now)


def _stops() -> RequestRefused:
    return RequestRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker stops")
