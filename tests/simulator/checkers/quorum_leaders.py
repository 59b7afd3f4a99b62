"""The quorum has one leader in an epoch; epochs and the high watermark of a node never fall while it runs.

Invariants of KIP-595's TLA+ specification and of Kafka's RaftEventSimulationTest: NeverTwoLeadersInEpoch,
MonotonicEpoch (over restarts too: a node tells nobody of an epoch that is not on its disk), MonotonicHighWatermark.
"""

from typing import Any

from actors.raft import Role
from tests.simulator.checkers.hooks import Violation


class QuorumLeaders:
    name = "one_leader_an_epoch"

    def __init__(self) -> None:
        self.leaders: dict[int, str] = {}
        self._epochs: dict[str, int] = {}
        self._durable: dict[str, int] = {}
        """Node -> the newest epoch that was on its disk."""
        self._marks: dict[str, int] = {}

    def ended(self, process: Any) -> None:
        """The next process learns the high watermark anew, and may have forgotten an epoch that was not durable."""
        self._marks.pop(process.name, None)
        self._epochs[process.name] = self._durable.get(process.name, 0)

    def turned(self, process: Any) -> None:
        """Epochs and high watermark of this node."""
        raft = process.node.quorum.raft
        name, epoch, mark = process.name, raft.epoch, raft.high_watermark
        if epoch < self._epochs.get(name, 0):
            raise Violation("quorum_epoch_monotonic", f"{name} went from epoch {self._epochs[name]} back to {epoch}")
        self._epochs[name] = epoch
        self._durable[name] = max(self._durable.get(name, 0), raft._core.log.durable_epoch)
        if mark < self._marks.get(name, -1):
            raise Violation("quorum_high_watermark_monotonic", f"{name} went from {self._marks[name]} back to {mark}")
        self._marks[name] = mark
        if raft.role is Role.LEADER:
            other = self.leaders.setdefault(epoch, name)
            if other != name:
                raise Violation(self.name, f"{other} and {name} both led epoch {epoch}")

    def lost_disk(self, process: Any) -> None:
        """The node's knowledge is gone with its disk."""
        self._epochs.pop(process.name, None)
        self._durable.pop(process.name, None)
