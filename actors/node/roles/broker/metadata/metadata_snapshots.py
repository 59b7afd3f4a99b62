"""When a broker snapshots the metadata: the local rule (KIP-630, When to Snapshot; reading A48).

Nobody tells a broker. It begins one when its log has grown by `metadata.log.max.record.bytes.between.snapshots` behind the
newest checkpoint, or when anything at all has come and `metadata.log.max.snapshot.interval.ms` have passed. On a node that
is a controller too the controller does, as the active one says; the two share the log.
"""

from actors.metadata.image import Image
from actors.node.quorum.replica import QuorumReplica
from actors.node.quorum.snapshots import Snapshotting
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.storage import Storage
from actors.ports import Now


class BrokerSnapshots(Snapshotting):
    """The snapshots of a broker's image."""

    def __init__(self, runtime: Runtime, quorum: QuorumReplica, storage: Storage) -> None:
        super().__init__(runtime, quorum, storage)
        self._own = "controller" not in runtime.config.roles and storage.family == "drafts"
        """Whether this role takes any snapshots; nothing writes the released family."""
        self._bytes_max = runtime.config.value("metadata.log.max.record.bytes.between.snapshots")
        self._interval_ms = runtime.config.value("metadata.log.max.snapshot.interval.ms")
        self._since_ms = -1
        """Monotonic time at which the newest snapshot began, or at which this process first looked."""

    def tick(self, image: Image, now: Now) -> None:
        """Begin a snapshot if one is due. `image` ends where a batch does."""
        if self._since_ms < 0:
            self._since_ms = now.mono_ms
        store = self._quorum.store
        grown = store.bytes_since_snapshot
        due = grown >= self._bytes_max or (grown and now.mono_ms - self._since_ms >= self._interval_ms)
        if due and self._own and store.taken is None:
            self._since_ms = now.mono_ms
            self.take(image)
