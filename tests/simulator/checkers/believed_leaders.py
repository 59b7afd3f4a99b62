"""A node accepts only leaders and epochs that voters made: its leader is a voter, and a voter stood for its epoch.

A peer that sends other epochs or leaders, in any message, changes no node's state.
"""

from typing import Any

from actors.raft import NO_LEADER
from tests.simulator.checkers.hooks import Violation


class BelievedLeaders:
    name = "only_voters_make_epochs"

    def __init__(self) -> None:
        self._newest = 0
        """The newest epoch for which a voter has stood."""

    def turned(self, process: Any) -> None:
        """The leader and the epoch of this node."""
        core = process.node.quorum.raft._core
        leader_id, epoch = core.hard.leader_id, core.hard.epoch
        if leader_id != NO_LEADER and core.voters.keys and core.voters.key(leader_id) is None:
            raise Violation(self.name, f"{process.name} believes that {leader_id}, which is no voter, leads {epoch}")
        if epoch > self._newest:
            if core.hard.voted != core.me:
                raise Violation(
                    self.name, f"{process.name} is in epoch {epoch}, and nobody stood for one after {self._newest}"
                )
            self._newest = epoch
