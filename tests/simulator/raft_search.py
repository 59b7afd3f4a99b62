"""Every state that a small quorum whose voters change can reach (KIP-853), by the product's own tables.

    python -m tests.simulator.raft_search [NODES INITIAL EPOCHS CHANGES]     counts the states

A state is what each replica has on its disk and believes: epoch, vote, whether it leads, log, high watermark, and a leader's
knowledge of the others. A step is one of: a replica asks any part of its voters for their votes; a follower takes one batch
from a leader, or cuts what the leader does not have; a leader changes the voters as anything that nobody objects to; a
replica restarts. No message is lost or old in it: a vote that is not counted, and a fetch that does not come, are steps that
are left out. Pre-votes and time are left out too, since they only make fewer elections.

What decides is not modelled but called: `change.objection`, `Core.stands`, `Voters` and `VoterHistory`. So a mistake in
these is found by its shortest way to a violation. Held are: one leader an epoch, a leader has what was committed, and what
was committed stays.
"""

import sys
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from types import SimpleNamespace
from typing import Any, NamedTuple

from actors.raft import RaftLimits, ReplicaKey, Role, Voter, VoterHistory, Voters, change
from actors.raft.messages import AddVoterRequest, RemoveVoterRequest
from actors.raft.state import Core

Entry = tuple[int, int]
"""(epoch, the voters that the batch names as a set of bits; 0: it names none)"""
Log = tuple[Entry, ...]
LIMITS = RaftLimits()


class Node(NamedTuple):
    """The state of one replica."""

    epoch: int = 0
    voted: int = -1
    leads: bool = False
    log: Log = ()
    high_watermark: int = 0
    known: tuple[int, ...] = ()
    """The log end of each replica as of its last fetch, as a leader knows it; -1: it has not fetched in this epoch."""


class State(NamedTuple):
    nodes: tuple[Node, ...]
    committed: Log


class Found(NamedTuple):
    """The end of a search: the number of states, and what does not hold, with the steps that lead there."""

    states: int
    violation: str | None = None
    steps: tuple[str, ...] = ()


class Broken(Exception):
    """A property does not hold."""


class Bounds(NamedTuple):
    nodes: int
    initial: int
    epochs: int
    changes: int


def _key(node: int) -> ReplicaKey:
    return ReplicaKey(node, bytes([node]) * 16)


@cache
def _voters(mask: int) -> Voters:
    return Voters(_key(node) for node in range(mask.bit_length()) if mask >> node & 1)


class Search:
    """Breadth first, from a quorum of the first nodes."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._base = (1 << bounds.initial) - 1
        self._history = cache(self._make_history)
        self._objects = cache(self._objection)
        self._stands = cache(self._may_stand)

    def run(self, states_max: int = 10_000_000) -> Found:
        """All states, or those up to the first one that breaks a property."""
        first = State((Node(),) * self.bounds.nodes, ())
        came: dict[State, tuple[State, str] | None] = {first: None}
        layer = [first]
        while layer and len(came) <= states_max:
            following = []
            for state in layer:
                try:
                    for step, next_state in self._steps(state):
                        if next_state not in came:
                            came[next_state] = state, step
                            following.append(next_state)
                except Broken as broken:
                    return Found(len(came), str(broken.args[0]), (*self._way(came, state), str(broken.args[1])))
            layer = following
        return Found(len(came))

    @staticmethod
    def _way(came: dict[State, tuple[State, str] | None], state: State) -> list[str]:
        steps = []
        while (before := came[state]) is not None:
            state = before[0]
            steps.append(before[1])
        return steps[::-1]

    # -- what the product decides

    def _make_history(self, log: Log) -> VoterHistory:
        history = VoterHistory(Voters(), [(-1, _voters(self._base))])
        for offset, (_, mask) in enumerate(log):
            if mask:
                history.append(offset, _voters(mask))
        return history

    def _may_stand(self, me: int, log: Log, high_watermark: int) -> bool:
        history = self._history(log)
        core = SimpleNamespace(
            me=_key(me),
            history=history,
            is_voter=_key(me) in history.newest,
            elects=True,
            high_watermark=high_watermark,
        )
        return bool(Core.stands.fget(core))  # type: ignore[attr-defined]

    def _objection(self, me: int, log: Log, high_watermark: int, request: Any) -> bool:
        history, epoch = self._history(log), log[-1][0]
        alive = SimpleNamespace(end_offset=0, fetch_ms=0)
        committed = high_watermark > _began(log, epoch)
        leading = SimpleNamespace(change=None, committed=committed, voters=dict.fromkeys(history.newest.keys, alive))
        core: Any = SimpleNamespace(
            me=_key(me),
            role=Role.LEADER,
            leading=leading,
            history=history,
            voters=history.newest,
            high_watermark=high_watermark,
            now_ms=0,
            limits=LIMITS,
            other_use=lambda _id: None,
        )
        return change.objection(core, request) is not None

    def _is_removed(self, me: int, log: Log) -> bool:
        """Whether the replica would act differently if it forgot how far its log is committed."""
        return any(mask and not mask >> me & 1 for _, mask in log)

    # -- steps

    def _steps(self, state: State) -> Iterator[tuple[str, State]]:
        for me in range(self.bounds.nodes):
            node = state.nodes[me]
            if node.leads:
                yield from self._changes(state, me)
                for other in range(self.bounds.nodes):
                    if other != me and state.nodes[other].epoch <= node.epoch:
                        yield f"{other} fetches from {me}", self._fetched(state, other, me)
            elif node.epoch < self.bounds.epochs and self._stands(me, node.log, node.high_watermark):
                yield from self._elections(state, me)
            if node.leads or (node.high_watermark and self._is_removed(me, node.log)):
                again = node._replace(leads=False, known=(), high_watermark=0)
                yield f"{me} restarts", _with(state, {me: again})

    def _elections(self, state: State, me: int) -> Iterator[tuple[str, State]]:
        node = state.nodes[me]
        epoch, voters = node.epoch + 1, self._history(node.log).newest
        ours = (node.log[-1][0] if node.log else 0, len(node.log))
        willing = []
        for key in voters.others(_key(me)):
            other = state.nodes[key.id]
            theirs = (other.log[-1][0] if other.log else 0, len(other.log))
            if other.epoch < epoch and theirs <= ours:
                willing.append(key.id)
        own = _key(me) in voters
        for count in range(len(willing) + 1):
            for granting in combinations(willing, count):
                changed = {me: node._replace(epoch=epoch, voted=me, leads=False, known=())}
                for one in granting:
                    changed[one] = state.nodes[one]._replace(epoch=epoch, voted=me, leads=False, known=())
                step = f"{me} stands for {epoch}, votes of {granting}"
                if count + own >= voters.majority:
                    self._check_leader(state, me, epoch, step)
                    log = (*node.log, (epoch, 0))
                    changed[me] = changed[me]._replace(leads=True, log=log, known=(-1,) * self.bounds.nodes)
                    yield step, self._advanced(_with(state, changed), me, step)
                else:
                    yield step, _with(state, changed)

    def _check_leader(self, state: State, me: int, epoch: int, step: str) -> None:
        for other, node in enumerate(state.nodes):
            if other != me and node.leads and node.epoch == epoch:
                raise Broken(f"{other} and {me} lead {epoch}", step)
        if state.nodes[me].log[: len(state.committed)] != state.committed:
            raise Broken(f"{me} leads {epoch} and lacks what was committed", step)

    def _fetched(self, state: State, me: int, leader: int) -> State:
        node, ahead = state.nodes[me], state.nodes[leader]
        step = f"{me} fetches from {leader}"
        if node.leads and node.epoch == ahead.epoch:
            raise Broken(f"{leader} and {me} lead {node.epoch}", step)
        same = 0
        while same < min(len(node.log), len(ahead.log)) and node.log[same] == ahead.log[same]:
            same += 1
        if same < node.high_watermark:
            raise Broken(f"{me} cuts what was committed", step)
        log = ahead.log[: same + 1] if len(node.log) == same else node.log[:same]
        told = ahead.high_watermark if ahead.high_watermark > _began(ahead.log, ahead.epoch) else 0
        voted = node.voted if node.epoch == ahead.epoch else -1
        follower = Node(ahead.epoch, voted, False, log, max(node.high_watermark, min(told, len(log))))
        known = list(ahead.known)
        if log == ahead.log[: len(log)]:
            known[me] = max(known[me], len(log))
        changed = {me: follower, leader: ahead._replace(known=tuple(known))}
        return self._advanced(_with(state, changed), leader, step)

    def _changes(self, state: State, me: int) -> Iterator[tuple[str, State]]:
        node = state.nodes[me]
        if sum(1 for _, mask in node.log if mask) >= self.bounds.changes:
            return
        voters = self._history(node.log).newest
        mask = sum(1 << key.id for key in voters.keys)
        for other in range(self.bounds.nodes):
            key = _key(other)
            request: Any = AddVoterRequest(0, Voter(key), True)
            if key in voters:
                request = RemoveVoterRequest(0, key)
            if mask ^ 1 << other and not self._objects(me, node.log, node.high_watermark, request):
                changed = node._replace(log=(*node.log, (node.epoch, mask ^ 1 << other)))
                step = f"{me} {'removes' if key in voters else 'adds'} {other}"
                yield step, self._advanced(_with(state, {me: changed}), me, step)

    def _advanced(self, state: State, me: int, step: str) -> State:
        """The leader counts, as `leading.advance`."""
        node = state.nodes[me]
        history = self._history(node.log)
        held = [len(node.log) if key.id == me else node.known[key.id] for key in history.newest.keys]
        agreed = history.newest.agreed(held)
        if agreed <= max(node.high_watermark, _began(node.log, node.epoch)):
            return state
        prefix, known = node.log[:agreed], state.committed
        same = min(len(prefix), len(known))
        if prefix[:same] != known[:same]:
            raise Broken(f"{me} commits {prefix} and {known} was committed", step)
        removed = _key(me) not in history.newest and history.newest_offset < agreed
        node = node._replace(high_watermark=agreed)
        if removed:
            node = node._replace(leads=False, known=())
        return State(_with(state, {me: node}).nodes, prefix if len(prefix) > len(known) else known)


def _began(log: Log, epoch: int) -> int:
    """The offset of the batch that opened the epoch."""
    return next((offset for offset, entry in enumerate(log) if entry[0] == epoch), len(log))


def _with(state: State, changed: dict[int, Node]) -> State:
    nodes = list(state.nodes)
    for place, node in changed.items():
        nodes[place] = node
    return State(tuple(nodes), state.committed)


if __name__ == "__main__":
    print(Search(Bounds(*map(int, sys.argv[1:] or (4, 3, 2, 2)))).run())
