"""Which voter becomes leader: pre-votes, votes, the dead-leader hint (KIP-595 "Vote", KIP-996, EndQuorumEpoch).

This file alone decides when a voter stands for election, for which replica it votes, and how long it waits after a lost
round.

Rules:

1. A voter grants one vote an epoch, to a voter whose log is not behind its own, and only while the leader of that epoch
   is unknown. The answer leaves after quorum-state is durable. With voters that change, a controller that knows of no
   vote of its own grants too: the candidate may have the record that made this replica a voter (KIP-853).
2. A pre-vote changes no state and promises nothing. It is refused while this replica has recent word from a leader. So
   a voter that was cut off cannot disturb the others when it comes back.
3. `Core.hurry` is set when the leader's listener refuses connections, when the leader has resigned, or when the process
   has just started. Then an election disturbs no live leader. While it is set, pre-votes are granted; the voter waits
   its rank times the stagger before it asks for pre-votes; a pre-vote granted to another voter restarts that wait; and
   a refused pre-vote is repeated soon, after a random time.
"""

from actors.raft import belief, leading, roles, twins
from actors.raft.messages import (
    NO_LEADER,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Error,
    ReplicaKey,
    VoteRequest,
    VoteResponse,
)
from actors.raft.ready import HardState
from actors.raft.state import EPOCH_MAX, NEVER_MS, Ballot, Core, Role

BACKOFF_BASE_MS = 50


def begin(core: Core) -> None:
    """Enter the first role of a process: see rule 3 of `state`."""
    if core.hard.leader_id == core.me.id and core.stands:
        core.role = Role.RESIGNED
    elif core.hard.leader_id != NO_LEADER and core.hard.leader_id != core.me.id:
        roles.follow(core, core.hard.leader_id, core.epoch)
        return
    if not core.stands:
        roles.search(core)
        return
    core.hurry = True
    core.hurry_until_ms = core.now_ms + core.limits.election_timeout_ms
    core.patience_ms = core.now_ms + (0 if len(core.voters) == 1 and core.is_voter else core.hint_wait_ms())


# -- asking


def stand(core: Core) -> None:
    """Ask for pre-votes in the present epoch. In the last epoch a voter does not ask, because no epoch follows it."""
    if core.epoch >= EPOCH_MAX:
        core.exhausted, core.patience_ms = True, NEVER_MS
        return
    core.become(Role.PROSPECTIVE)
    core.patience_ms = core.now_ms + core.election_wait_ms()
    ballot = core.ballot = Ballot([core.me] if core.is_voter else [])
    for request in _requests(core, ballot, pre_vote=True):
        core.say(request.voter.id, request)
    count(core)


def _run(core: Core) -> None:
    """Vote for itself in the next epoch, and ask for votes once that is durable."""
    core.become(Role.CANDIDATE, HardState(core.epoch + 1, core.me, NO_LEADER))
    core.patience_ms = core.now_ms + core.election_wait_ms()
    ballot = core.ballot = Ballot([core.me] if core.is_voter else [])
    for request in _requests(core, ballot, pre_vote=False):
        core.claim(request.voter.id, request)


def _requests(core: Core, ballot: Ballot, pre_vote: bool) -> list[VoteRequest]:
    requests = []
    for key in core.voters.others(core.me):
        serial = core.next_serial()
        ballot.awaited[serial] = key
        log = core.log
        requests.append(VoteRequest(serial, core.me, key, core.epoch, log.last_epoch, log.end_offset, pre_vote))
    return requests


def count(core: Core) -> None:
    """Go on when the round is won or can no longer be won. A voter counts its own vote once that is durable."""
    ballot = core.ballot
    if ballot is None:
        return
    if len(ballot.granted) >= core.voters.majority:
        if core.role is Role.PROSPECTIVE:
            _run(core)
        elif core.log.durable_epoch >= core.epoch:
            core.lost_votes = 0
            leading.begin(core, sorted(ballot.granted))
    elif len(ballot.granted) + len(ballot.awaited) < core.voters.majority:
        _lose(core)


def _lose(core: Core) -> None:
    """Go on after a lost round: try again soon if `Core.hurry`, else after a wait."""
    if core.role is Role.PROSPECTIVE:
        retry = core.limits.hint_retry_ms
        _stand_down(core, retry + core.random.below(2 * retry + 1))
        return
    core.ballot = None
    core.lost_votes += 1
    longest = min(core.limits.election_backoff_max_ms, BACKOFF_BASE_MS << min(core.lost_votes, 10))
    core.patience_ms = core.now_ms + 1 + core.random.below(longest)


def _stand_down(core: Core, hurry_wait_ms: int) -> None:
    """Stop asking for votes. Follow the leader of the epoch again if there is one."""
    if core.leader_id not in (NO_LEADER, core.me.id):
        core.become(Role.FOLLOWER)
        roles.resume(core)
    else:
        core.become(Role.UNATTACHED)
        core.patience_ms = core.now_ms + core.election_wait_ms()
    if core.hurry:
        core.patience_ms = core.now_ms + hurry_wait_ms


def patience_ended(core: Core) -> None:
    """Act at the end of a voter's wait: it has no leader, or has not heard from its leader in time."""
    if not core.stands:
        roles.search(core)
    elif core.role is Role.PROSPECTIVE:
        core.hurry = core.hurry and core.now_ms < core.hurry_until_ms
        _stand_down(core, core.hint_wait_ms())
    else:
        stand(core)


# -- granting


def vote(core: Core, source: int, request: VoteRequest) -> None:
    """Answer a vote or a pre-vote. INVALID_VOTER_KEY: the request names another disk;
    DUPLICATE_BROKER_REGISTRATION: see `twins`; other errors: see `belief.candidate`."""
    granted = False
    if twins.leader_asks(core, request):
        error = Error.DUPLICATE_BROKER_REGISTRATION
        core.say(source, VoteResponse(request.serial, error, core.told_leader, core.epoch, granted))
        return
    error = belief.candidate(core, request) if request.voter == core.me else Error.INVALID_VOTER_KEY
    if error is Error.NONE and core.claims and belief.may_stand(core, request):
        if request.epoch > core.epoch:
            roles.unattach(core, request.epoch)
        granted = _may_grant(core, request)
        if granted and request.pre_vote:
            _give_way(core)
        elif granted:
            _grant(core, request.replica)
    answer = VoteResponse(request.serial, error, core.told_leader, core.epoch, granted)
    if request.pre_vote and not core.out.hard_changed:
        core.say(source, answer)
    else:
        core.claim(source, answer)


def _grant(core: Core, candidate: ReplicaKey) -> None:
    core.become(Role.UNATTACHED, HardState(core.epoch, candidate, NO_LEADER))
    if core.stands:
        core.patience_ms = core.now_ms + core.election_wait_ms()
    else:
        roles.search(core)


def _may_grant(core: Core, request: VoteRequest) -> bool:
    log = core.log
    if (request.last_epoch, request.end_offset) < (log.last_epoch, log.end_offset):
        return False
    if not request.pre_vote:
        return core.leader_id == NO_LEADER and core.hard.voted in (None, request.replica)
    if core.role is Role.FOLLOWER:
        assert core.fetching is not None
        return core.hurry or not core.fetching.heard
    return core.role is not Role.LEADER


def _give_way(core: Core) -> None:
    """Note that a pre-vote was granted. If `Core.hurry`, this voter's own attempt starts over, so that two survivors do
    not split the votes."""
    if not core.hurry:
        return
    if core.role is Role.PROSPECTIVE:
        _stand_down(core, core.hint_wait_ms())
    elif core.role is not Role.CANDIDATE:
        core.patience_ms = core.now_ms + core.hint_wait_ms()


def vote_answered(core: Core, source: int, response: VoteResponse) -> None:
    ballot = core.ballot
    if ballot is None:
        return
    key = ballot.awaited.pop(response.serial, None)
    if key is None:
        return
    if response.error is Error.DUPLICATE_BROKER_REGISTRATION:
        raise twins.RunsTwice(core.me)
    if response.granted and response.epoch == core.epoch:
        ballot.granted.add(key)
    count(core)


def vote_failed(core: Core, serial: int) -> None:
    """Count a request for a vote that no answer will come to as a refusal."""
    if core.ballot is not None and core.ballot.awaited.pop(serial, None) is not None:
        count(core)


def end_quorum_epoch(core: Core, source: int, request: EndQuorumEpochRequest) -> None:
    """Take a leader's resignation (EndQuorumEpoch). The first of its preferred voters stands at once, the second after
    one stagger, and so on."""
    error = belief.announced(core, request.leader_id, request.epoch, False)
    if error is Error.NONE:
        roles.learn(core, request.epoch, request.leader_id)
        if core.leader_id == request.leader_id and core.epoch == request.epoch:
            places = [key for key in request.preferred if key in core.voters]
            behind = len(places) + core.voters.rank(core.me.id, request.leader_id)
            place = places.index(core.me) if core.me in places else behind
            roles.hint(core, place * core.limits.hint_stagger_ms)
    core.claim(source, EndQuorumEpochResponse(request.serial, error, core.told_leader, core.epoch))
