"""Which epochs and leaders a replica believes when a message names them.

This file alone decides what is compared before an epoch is stored. No request is authenticated: anything that reaches
the listener can write any number into any field.

Rules:

1. A leader is a voter. A message that names another leader is refused whole, its epoch included. An observer that does
   not know the voters yet believes the replicas that it asked.
2. A candidate is a voter on the disk (directory id) that is recorded for it. A request of any other candidate changes
   no epoch.
3. A request may come from anybody. It raises the epoch by at most `REQUEST_STEP_MAX`, because a running voter misses
   few elections. A voter that was away for longer finds no live leader in its epoch, asks the other voters, and learns
   the newest epoch from their answers.
4. An answer comes from the address of a replica that was asked. It raises the epoch of a voter up to `ANSWER_EPOCH_MAX`
   in one step, and beyond that by `REQUEST_STEP_MAX`: no single answer leads to the last epoch.
5. `EPOCH_MAX` is the last epoch: a higher one would not fit into quorum-state, the log and the wire. No voter stands
   for election in it (`Raft.exhausted`).

6. With voters that change (kraft.version 1), a replica may not know the voters yet. One that has heard from no leader
   for a fetch timeout believes that others than its voters may stand and lead, if an answer says so, or a request that
   names this replica's directory id, as the voters' records do. An observer believes the answers of those that it asked
   at once. A replica that hears its leader believes no other replica that is not among its voters.

An observer never starts an epoch of its own, so it follows its leader through any epoch that an answer names.
"""

from actors.raft.messages import NO_LEADER, BeginQuorumEpochRequest, Error, VoteRequest
from actors.raft.state import EPOCH_MAX, Core

REQUEST_STEP_MAX = 100
"""The number of elections that a running voter may have missed when a request tells it of the newest epoch."""
ANSWER_EPOCH_MAX = 1 << 30
"""Half of all epochs. At one election a second, this epoch is reached after 34 years and the last one after 68."""


def lost(core: Core) -> bool:
    """Whether this replica has heard from no leader for so long that others may vote by now (rule 6)."""
    return (
        core.history.recorded and core.leading is None and core.now_ms - core.heard_ms >= core.limits.fetch_timeout_ms
    )


def may_lead(core: Core, leader_id: int, known: bool) -> bool:
    """Whether another replica of that id can be the leader (rules 1 and 6). `known`: the replica that says so was
    asked, or its message names this replica's disk."""
    if len(core.voters) == 0:
        return leader_id >= 0
    if leader_id == core.me.id or leader_id < 0:
        return False
    if core.voters.key(leader_id) is not None:
        return True
    return core.history.recorded and (leader_id == core.leader_id or (known and lost(core)))


def may_stand(core: Core, request: VoteRequest) -> bool:
    """Whether that replica may ask for the vote of this one (rules 2 and 6)."""
    return request.replica in core.voters or (request.named and lost(core))


def announced(core: Core, leader_id: int, epoch: int, named: bool) -> Error:
    """The error for a request in which `leader_id` says that it leads, or led, `epoch`; NONE if it can be true.
    `named`: the request names the disk of this replica."""
    if epoch < core.epoch:
        return Error.FENCED_LEADER_EPOCH
    near = epoch <= min(core.epoch + REQUEST_STEP_MAX, EPOCH_MAX)
    return Error.NONE if near and may_lead(core, leader_id, named) else Error.INVALID_REQUEST


def candidate(core: Core, request: VoteRequest) -> Error:
    """The error for a request for a vote or a pre-vote; NONE if its numbers are sound. A candidate that is not a voter
    gets no error here, and `may_stand` refuses it."""
    if request.epoch < core.epoch:
        return Error.FENCED_LEADER_EPOCH
    newest = request.epoch if request.pre_vote else request.epoch - 1
    sound = 0 <= request.last_epoch <= newest and request.end_offset >= 0 and request.replica != core.me
    near = request.epoch <= min(core.epoch + REQUEST_STEP_MAX, EPOCH_MAX)
    return Error.NONE if sound and near else Error.INVALID_REQUEST


def answer(core: Core, leader_id: int, epoch: int) -> bool:
    """Whether an answer that names this leader (-1: none) of this epoch can be used."""
    known = leader_id == NO_LEADER or leader_id == core.me.id or may_lead(core, leader_id, True)
    known = known or (core.history.recorded and not core.stands and leader_id >= 0)
    if core.is_voter:
        return known and epoch <= min(max(ANSWER_EPOCH_MAX, core.epoch + REQUEST_STEP_MAX), EPOCH_MAX)
    return known and epoch <= EPOCH_MAX


def follows(core: Core, told: BeginQuorumEpochRequest) -> bool:
    """Whether an announcement names a leader that this replica has not heard from yet."""
    leader_id, epoch = told.leader_id, told.epoch
    heard = core.leader_id == leader_id and core.fetching is not None and core.fetching.heard
    news = epoch > core.epoch or core.leader_id == NO_LEADER or (core.leader_id == leader_id and not heard)
    return news and told.voter == core.me and announced(core, leader_id, epoch, told.named) is Error.NONE
