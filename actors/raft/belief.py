"""Which epochs and leaders a replica believes when a message names them.

This file alone decides what is compared before an epoch is stored. Nobody is authenticated here: whoever reaches the
listener can write any number into any field.

Rules:

1. A leader is a voter. A message that names another leader is refused whole, its epoch included. An observer that does
   not know the voters yet believes those whom it asked.
2. A candidate is a voter, on the disk (directory id) that was formatted for it; another one moves no epoch.
3. A request may come from anybody. It raises the epoch by at most `REQUEST_STEP_MAX`: a voter misses few elections while
   it runs. One that was away for longer asks the others, since no leader of its epoch answers, and learns from answers.
4. An answer comes from the address of a replica that was asked. It raises the epoch of a voter up to `ANSWER_EPOCH_MAX`
   in one step, and beyond that by `REQUEST_STEP_MAX`: nobody jumps to the last epoch.
5. `EPOCH_MAX` is the last epoch: one more would not fit into quorum-state, the log and the wire. Nobody stands in it
   (`Raft.exhausted`).

An observer never counts an epoch up, so it follows its leader through any epoch that an answer names.
"""

from actors.raft.messages import NO_LEADER, Error, ReplicaKey, VoteRequest
from actors.raft.state import EPOCH_MAX, Core

REQUEST_STEP_MAX = 100
"""Elections that a running voter may have missed when a request tells it of the newest."""
ANSWER_EPOCH_MAX = 1 << 30
"""Half of all epochs: an election a second takes 34 years to come here, and as long again to the last epoch."""


def may_lead(core: Core, leader_id: int) -> bool:
    """Whether another replica of that id can be the leader (rule 1)."""
    if len(core.voters) == 0:
        return leader_id >= 0
    return leader_id != core.me.id and core.voters.key(leader_id) is not None


def announced(core: Core, leader_id: int, epoch: int) -> Error:
    """What is wrong with a request in which `leader_id` says that it leads, or led, `epoch`."""
    if epoch < core.epoch:
        return Error.FENCED_LEADER_EPOCH
    near = epoch <= min(core.epoch + REQUEST_STEP_MAX, EPOCH_MAX)
    return Error.NONE if near and may_lead(core, leader_id) else Error.INVALID_REQUEST


def candidate(core: Core, request: VoteRequest) -> Error:
    """What is wrong with a vote or a pre-vote for this replica. A candidate that is no voter is no error, but is granted
    nothing."""
    if request.epoch < core.epoch:
        return Error.FENCED_LEADER_EPOCH
    newest = request.epoch if request.pre_vote else request.epoch - 1
    sound = 0 <= request.last_epoch <= newest and request.end_offset >= 0 and request.replica != core.me
    near = request.epoch <= min(core.epoch + REQUEST_STEP_MAX, EPOCH_MAX)
    return Error.NONE if sound and near else Error.INVALID_REQUEST


def answer(core: Core, leader_id: int, epoch: int) -> bool:
    """Whether an answer that names this leader (-1: none) of this epoch can be used."""
    known = leader_id == NO_LEADER or leader_id == core.me.id or may_lead(core, leader_id)
    if core.is_voter:
        return known and epoch <= min(max(ANSWER_EPOCH_MAX, core.epoch + REQUEST_STEP_MAX), EPOCH_MAX)
    return known and epoch <= EPOCH_MAX


def follows(core: Core, voter: ReplicaKey, leader_id: int, epoch: int) -> bool:
    """Whether an announcement to `voter` tells this replica of a leader that it has not heard yet."""
    heard = core.leader_id == leader_id and core.fetching is not None and core.fetching.heard
    news = epoch > core.epoch or core.leader_id == NO_LEADER or (core.leader_id == leader_id and not heard)
    return news and voter == core.me and announced(core, leader_id, epoch) is Error.NONE
