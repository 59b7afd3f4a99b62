"""Changes of the voters, one at a time (KIP-853 AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter).

This file alone decides which change a leader makes, when it is done, and what is answered. Rules:

1. One change at a time: a change does not wait, it is refused while another one is under way or not committed. While a
   voter's endpoint is asked nothing is under way yet: else a voter at an address that does not answer, which asks for
   its change again and again, would keep out every other change, its own removal too. When the answer comes, all
   objections are checked anew.
2. No change before a record of the leader's own epoch is committed: until then a change of an earlier leader may be in a
   majority's logs without its knowledge.
3. A voter is written down only where it has answered itself: with its id, its directory and its cluster. So an address
   that leads to another node, to the leader itself or nowhere never gets into the log, neither with a new voter nor
   with one that has moved. A new one says there what it supports, and has caught up, so that it holds up no commits.
4. No voter is removed unless a majority of those that stay has fetched within the fetch timeout.
   What its id stands for otherwise is looked at until the record is written: a broker may come while its endpoint is asked.
5. The sets before and after a change differ by one voter, so each majority of the one shares a replica with each of the
   other. The new set counts from the moment in which its record is appended, for elections and for commits.
6. A leader that removes itself leads until the record is committed, by the others alone. Then it resigns.

Codes and sentences are Apache Kafka's, where it has them. Each table is read from the top; the first that objects answers.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from actors.raft import leading
from actors.raft.messages import (
    AddVoterRequest,
    ChangeResponse,
    Error,
    ProbeRequest,
    ProbeResponse,
    RemoveVoterRequest,
    ReplicaKey,
    UpdateVoterRequest,
    Voter,
    VoterRequest,
)
from actors.raft.state import Core, PendingVotersChange, Role, VotersChange

KRAFT_VERSION = 1
"""The version under which voters change."""
ASKED_MAX = 16
"""How many endpoints of voters may be asked at the same time."""


class Refusal(NamedTuple):
    """Why a change of the voters is not made. `reason` is a sentence for the client that asked for it."""

    error: Error
    reason: str | None = None


BUSY = Refusal(Error.REQUEST_TIMED_OUT, "Request timed out waiting for leader to handle previous voter change request")

Check = Callable[[Core, VoterRequest], Refusal | None]
Finding = Callable[[Core, VoterRequest, ProbeResponse], Refusal | None]

VERBS: dict[type, str] = {AddVoterRequest: "adding", RemoveVoterRequest: "removing", UpdateVoterRequest: "updating"}


# -- what a leader objects to


def _not_leader(core: Core, request: VoterRequest) -> Refusal | None:
    return None if core.role is Role.LEADER else Refusal(Error.NOT_LEADER_OR_FOLLOWER)


def _other_epoch(core: Core, request: VoterRequest) -> Refusal | None:
    assert isinstance(request, UpdateVoterRequest)
    error = leading.refusal(core, request.epoch)
    return None if error is Error.NONE else Refusal(error)


def _pending(core: Core, request: VoterRequest) -> Refusal | None:
    return None if core.leading is None or core.leading.change is None else BUSY


def _not_established(core: Core, request: VoterRequest) -> Refusal | None:
    if core.leading is not None and core.leading.committed:
        return None
    reason = "Request timed out waiting for leader to establish HWM and fence previous voter changes"
    return Refusal(Error.REQUEST_TIMED_OUT, reason)


def _static(core: Core, request: VoterRequest) -> Refusal | None:
    if core.history.recorded:
        return None
    reason = f"Cluster doesn't support {VERBS[type(request)]} voter because the kraft.version feature is 0"
    return Refusal(Error.UNSUPPORTED_VERSION, reason)


def _uncommitted(core: Core, request: VoterRequest) -> Refusal | None:
    offset, high_watermark = core.history.newest_offset, core.high_watermark
    if offset < high_watermark:
        return None
    reason = (
        f"Request timed out waiting for voters to commit the latest voter change at {offset} with HWM {high_watermark}"
    )
    return Refusal(Error.REQUEST_TIMED_OUT, reason)


def _duplicate(core: Core, request: VoterRequest) -> Refusal | None:
    assert isinstance(request, AddVoterRequest)
    key = request.voter.key
    if core.voters.key(key.id) is None:
        return None
    reason = f"The voter id for {key} is already part of the set of voters {_named(core.voters.keys)}."
    return Refusal(Error.DUPLICATE_VOTER, reason)


def _taken(core: Core, request: VoterRequest) -> Refusal | None:
    assert isinstance(request, AddVoterRequest)
    use = core.other_use(request.voter.key.id)
    if use is None:
        return None
    reason = f"The id of {request.voter.key} is that of {use}: format the controller with an id of its own"
    return Refusal(Error.INVALID_REQUEST, reason)


def _unknown(core: Core, request: VoterRequest) -> Refusal | None:
    key = request.voter if isinstance(request, RemoveVoterRequest) else request.voter.key
    if key in core.voters:
        return None
    verb = "remove" if isinstance(request, RemoveVoterRequest) else "update"
    reason = f"Cannot {verb} voter {key} from the set of voters {_named(core.voters.keys)}"
    return Refusal(Error.VOTER_NOT_FOUND, reason)


def _only(core: Core, request: VoterRequest) -> Refusal | None:
    if len(core.voters) > 1:
        return None
    return Refusal(Error.INVALID_REQUEST, f"Cannot remove voter {request.voter}: it is the only one")


def _rest_silent(core: Core, request: VoterRequest) -> Refusal | None:
    """Rule 4: refuses to remove a voter if the voters that stay have no majority that fetches. The leader counts as
    alive where it stays."""
    assert isinstance(request, RemoveVoterRequest)
    assert core.leading is not None
    rest = core.voters.without(request.voter)
    since_ms = core.now_ms - core.limits.fetch_timeout_ms
    fetched = ((key, progress) for key, progress in core.leading.voters.items() if progress.end_offset >= 0)
    alive = {key for key, progress in fetched if progress.fetch_ms >= since_ms} | {core.me}
    silent = [key for key in rest.keys if key not in alive]
    if len(rest) - len(silent) >= rest.majority:
        return None
    reason = (
        f"Cannot remove voter {request.voter}: of the voters that would stay, {_named(silent)} have not fetched for "
        f"{core.limits.fetch_timeout_ms} ms, and the others are no majority"
    )
    return Refusal(Error.REQUEST_TIMED_OUT, reason)


def _versions(core: Core, request: VoterRequest) -> Refusal | None:
    assert isinstance(request, UpdateVoterRequest)
    return None if _supports(request.voter.kraft_versions) else Refusal(Error.INVALID_REQUEST)


def _supports(versions: tuple[int, int] | None) -> bool:
    return versions is not None and versions[0] <= KRAFT_VERSION <= versions[1]


def _named(keys: Sequence[ReplicaKey]) -> str:
    return f"[{', '.join(str(key) for key in keys)}]"


_ALWAYS: tuple[Check, ...] = (_pending, _not_established, _static, _uncommitted)
OBJECTIONS: dict[type, tuple[Check, ...]] = {
    AddVoterRequest: (_not_leader, *_ALWAYS, _duplicate, _taken),
    RemoveVoterRequest: (_not_leader, *_ALWAYS, _unknown, _only, _rest_silent),
    UpdateVoterRequest: (_other_epoch, *_ALWAYS, _versions, _unknown),
}


def objection(core: Core, request: VoterRequest) -> Refusal | None:
    """Why a change cannot be made now; None if nothing is against it."""
    for check in OBJECTIONS[type(request)]:
        refusal = check(core, request)
        if refusal is not None:
            return refusal
    return None


# -- what a leader objects to in the answer from a voter's endpoint


def _silent(core: Core, request: VoterRequest, answer: ProbeResponse) -> Refusal | None:
    if answer.failed is None:
        return None
    return Refusal(Error.REQUEST_TIMED_OUT, f"{_aborted(request)} since API_VERSIONS returned an error {answer.failed}")


def _somebody_else(core: Core, request: VoterRequest, answer: ProbeResponse) -> Refusal | None:
    if answer.other is None:
        return None
    _, host, port = _voter(request).endpoints[0]
    return Refusal(Error.INVALID_REQUEST, f"{_aborted(request)} since at {host}:{port} there is {answer.other}")


def _unsupporting(core: Core, request: VoterRequest, answer: ProbeResponse) -> Refusal | None:
    if _supports(answer.kraft_versions):
        return None
    low, high = answer.kraft_versions or (0, 0)
    reason = (
        f"{_aborted(request)} since the kraft.version range (min: {low}, max: {high}) doesn't support the finalized version "
        f"{KRAFT_VERSION}"
    )
    return Refusal(Error.INVALID_REQUEST, reason)


def _lagging(core: Core, request: VoterRequest, answer: ProbeResponse) -> Refusal | None:
    if _caught_up(core, _voter(request).key):
        return None
    return Refusal(Error.REQUEST_TIMED_OUT, f"{_aborted(request)} since it is lagging behind")


FINDINGS: dict[type, tuple[Finding, ...]] = {
    AddVoterRequest: (_silent, _somebody_else, _unsupporting, _lagging),
    UpdateVoterRequest: (_silent, _somebody_else),
}


def _aborted(request: VoterRequest) -> str:
    verb = "add" if isinstance(request, AddVoterRequest) else "update"
    return f"Aborted {verb} voter operation for {_voter(request).key}"


def _voter(request: VoterRequest) -> Voter:
    assert isinstance(request, AddVoterRequest | UpdateVoterRequest)
    return request.voter


# -- the changes


def add(core: Core, source: int, request: AddVoterRequest) -> None:
    """Add a voter (AddRaftVoter): ask it whether it is that voter and what it supports, then go on in `probed`."""
    refusal = objection(core, request)
    if refusal is None:
        _probe(core, source, request)
    else:
        _answer(core, source, request, refusal)


def _probe(core: Core, source: int, request: AddVoterRequest | UpdateVoterRequest) -> None:
    """Ask at the endpoint of the voter what it supports, unless a question to this voter is under way: one at a time
    for each voter."""
    assert core.leading is not None
    asked, key = core.leading.asked, request.voter.key
    if len(asked) >= ASKED_MAX or any(_voter(one.request).key == key for one in asked.values()):
        _answer(core, source, request, BUSY)
        return
    serial = core.next_serial()
    asked[serial] = _made(core, source, request)
    core.say(key.id, ProbeRequest(serial, request.voter, core.epoch))


def probed(core: Core, source: int, response: ProbeResponse) -> None:
    """Take the answer from the endpoint of a voter: write the record, or tell the client why not."""
    change = core.leading.asked.pop(response.serial, None) if core.leading is not None else None
    if core.leading is None or change is None:
        return
    request = change.request
    refusal = _found(core, request, response) or objection(core, request)
    if refusal is not None:
        _answer(core, change.source, request, refusal)
        return
    voter = _voter(request)
    if isinstance(request, AddVoterRequest):
        assert response.kraft_versions is not None
        voter = voter._replace(kraft_versions=response.kraft_versions)
    change.wanted = core.voters.with_voter(voter)
    core.leading.change = change


def _found(core: Core, request: VoterRequest, response: ProbeResponse) -> Refusal | None:
    """Why the answer from the voter's endpoint forbids the change; None if it does not."""
    for check in FINDINGS[type(request)]:
        refusal = check(core, request, response)
        if refusal is not None:
            return refusal
    return None


def probe_failed(core: Core, serial: int) -> None:
    """Refuse the change whose voter was asked with this serial, since the voter cannot be reached."""
    probed(core, core.me.id, ProbeResponse(serial, None, "BROKER_NOT_AVAILABLE"))


def _caught_up(core: Core, key: ReplicaKey) -> bool:
    """Whether that replica had the whole log within the last fetch timeout."""
    assert core.leading is not None
    progress = core.leading.observers.get(key)
    if progress is None or progress.caught_up_ms is None:
        return False
    return progress.caught_up_ms >= core.now_ms - core.limits.fetch_timeout_ms


def remove(core: Core, source: int, request: RemoveVoterRequest) -> None:
    """Begin to remove a voter (RemoveRaftVoter), or answer why it is not removed."""
    refusal = objection(core, request)
    if refusal is None:
        _begin(core, source, request).wanted = core.voters.without(request.voter)
    else:
        _answer(core, source, request, refusal)


def update(core: Core, source: int, request: UpdateVoterRequest) -> None:
    """Note where a voter is reached now and what it supports (UpdateRaftVoter). Nothing is written if the log says so
    already."""
    refusal, known = objection(core, request), core.voters.member(request.voter.key)
    if refusal is not None or known is None or known == request.voter:
        _answer(core, source, request, refusal)
    elif known.endpoints != request.voter.endpoints:
        _probe(core, source, request)
    else:
        _begin(core, source, request).wanted = core.voters.with_voter(request.voter)


def may_correct_own(core: Core) -> bool:
    """Whether a leader can write its own entry among the voters anew: no other change is in the way."""
    if core.own is None or not core.is_voter or core.leading is None:
        return False
    return objection(core, UpdateVoterRequest(0, core.epoch, core.own)) is None


def correct_own(core: Core) -> None:
    """Begin the change with which a leader notes in the log where it is reached now itself."""
    assert core.own is not None
    request = UpdateVoterRequest(0, core.epoch, core.own)
    _begin(core, None, request).wanted = core.voters.with_voter(core.own)


def write(core: Core) -> bool:
    """Append the record that is wanted at the end of the log. Its voters count from now on. False: nothing is appended,
    since what the leader has written meanwhile forbids the change."""
    assert core.leading is not None
    change = core.leading.change
    assert change is not None
    assert change.wanted is not None
    taken = _taken(core, change.request) if isinstance(change.request, AddVoterRequest) else None
    if taken is not None:
        core.leading.change = None
        _answer(core, change.source, change.request, taken)
        return False
    voters, change.wanted, change.offset = change.wanted, None, core.log.end_offset
    core.append(core.control_batch(VotersChange(voters), change.offset, core.epoch, core.now))
    assert core.voters == voters, (core.voters, voters)
    request = change.request
    if isinstance(request, UpdateVoterRequest) or (isinstance(request, AddVoterRequest) and not request.wait):
        core.leading.change = None
        _answer(core, change.source, request, None)
    leading.recount(core)
    return True


def expire(core: Core) -> None:
    """Answer a change whose time is over. A record that is already written stays, and is committed when it can be."""
    if core.leading is None:
        return
    change, asked = core.leading.change, core.leading.asked
    if change is not None and change.deadline_ms <= core.now_ms:
        core.leading.change = None
        _answer(core, change.source, change.request, Refusal(Error.REQUEST_TIMED_OUT))
    for serial in [serial for serial, one in asked.items() if one.deadline_ms <= core.now_ms]:
        late = asked.pop(serial)
        _answer(core, late.source, late.request, Refusal(Error.REQUEST_TIMED_OUT))


def _begin(core: Core, source: int | None, request: VoterRequest) -> PendingVotersChange:
    assert core.leading is not None
    change = core.leading.change = _made(core, source, request)
    return change


def _made(core: Core, source: int | None, request: VoterRequest) -> PendingVotersChange:
    return PendingVotersChange(source, request, core.now_ms + core.limits.request_timeout_ms)


def _answer(core: Core, source: int | None, request: VoterRequest, refusal: Refusal | None) -> None:
    if source is None:
        return
    error, reason = (Error.NONE, None) if refusal is None else refusal
    core.say(source, ChangeResponse(request.serial, error, core.told_leader, core.epoch, reason))
