"""A replica that runs twice: its directory was copied, and both copies were started.

A replica is its id and its disk, so a process with a copy of the disk speaks with the same key, and may give the vote
of an epoch a second time. Nothing on the copy shows that it is one. What others see of the two shows it, and this file
alone decides when that is enough:

1. A voter fetches on one connection at a time, and never goes back to one that it has given up. A leader that sees the
   same key on two connections in turn, and on the older one again and again, serves two processes. The one whose
   connection it saw first goes on, the other one is refused. For two brokers with one id the draft decides otherwise
   (R631-175), and an observer gives no vote.
2. A leader asks for no votes. Where the leader of an epoch asks its follower for a pre-vote in that epoch, and answers
   a fetch of the same epoch that was sent later, another process has asked: a leader that has stopped never leads that
   epoch again (`state`, rule 3). The next question of that kind is refused, once. What a candidate has asked before it
   was elected does not count, for it may come late: that was a pre-vote in an earlier epoch, or a vote.
3. A process that is refused in this way stops with a sentence. The other one goes on, so the cluster still has its
   voter.

Two copies of the only voter have no other replica in common, and stay unnoticed; so does a copy as long as it reaches
no other replica.
"""

from actors.raft.messages import ReplicaKey, VoteRequest
from actors.raft.state import Core, Fetching, ReplicaProgress, Role

RETURNS_MAX = 2
"""How often a leader sees a replica on the older of two connections again before it takes it for two processes. A
delayed request may cause this once."""
NOWHERE = -1
"""A fetch that came on no connection."""


class RunsTwice(Exception):
    """Another process has this replica's id and disk, and others hear both. The node must stop."""

    def __init__(self, me: ReplicaKey) -> None:
        super().__init__(
            f"another process with the id {me.id} and the directory id of this node takes part in the cluster: its "
            f"directory was copied. Only one of the two may run; format an empty directory for the other one"
        )


def fetched(progress: ReplicaProgress, connection: int) -> bool:
    """Note the connection of a fetch (rule 1). True: it is the second process of its replica, and is refused."""
    if connection == progress.connection and progress.returns < RETURNS_MAX:
        return False
    if connection == NOWHERE:
        return False
    older, newer = progress.connections
    if connection not in (older, newer):
        progress.connections, progress.returns = (newer, connection), 0
    elif connection == older and connection != progress.connection:
        progress.returns += 1
    progress.connection = connection
    return progress.returns >= RETURNS_MAX and connection == progress.connections[1]


def leader_asks(core: Core, request: VoteRequest) -> bool:
    """Judge a request for a vote (rule 2). True: it comes from a second process of the leader, and is refused."""
    if not request.pre_vote or request.epoch != core.epoch:
        return False
    fetching = core.fetching
    if fetching is None or core.role is not Role.FOLLOWER or request.replica.id != core.leader_id:
        return False
    if request.replica not in core.voters:
        return False
    if fetching.led_on:
        forget(fetching)
        return True
    if not fetching.asked_by_leader:
        fetching.asked_by_leader = core.next_serial()
    return False


def leader_answers(fetching: Fetching, serial: int) -> None:
    """Note that the leader has answered the fetch of that serial, and so leads still."""
    if 0 < fetching.asked_by_leader < serial:
        fetching.led_on = True


def forget(fetching: Fetching) -> None:
    """Forget what the leader has asked: it is gone, or may be, so from now on it may ask for votes."""
    fetching.asked_by_leader, fetching.led_on = 0, False
