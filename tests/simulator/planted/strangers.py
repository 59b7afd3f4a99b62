"""Mistakes in the checks of messages from peers that are no nodes."""

from collections.abc import Sequence

from actors.raft import belief, election, raft, roles
from actors.raft.messages import VoteRequest
from actors.raft.state import EPOCH_MAX, Core
from tests.simulator.planted.registry import Patch, instead, mistake


@mistake("strange")
def a_leader_that_is_no_voter_is_believed() -> Sequence[Patch]:
    """A node follows any replica that says that it leads."""
    return [instead(belief, "may_lead", lambda core, leader_id, known: leader_id not in (-1, core.me.id))]


@mistake("strange")
def an_epoch_far_ahead_is_believed() -> Sequence[Patch]:
    """A request in the name of a voter raises the epoch without a limit."""
    return [instead(belief, "REQUEST_STEP_MAX", EPOCH_MAX)]


@mistake("strange")
def a_candidate_that_is_no_voter_moves_the_epoch() -> Sequence[Patch]:
    """A voter adopts the higher epoch of any candidate."""
    vote = election.vote

    def eager(core: Core, source: int, request: VoteRequest) -> None:
        if core.epoch < request.epoch <= EPOCH_MAX:
            roles.unattach(core, request.epoch)
        vote(core, source, request)

    return [instead(raft, "HANDLERS", {**raft.HANDLERS, VoteRequest: eager})]
