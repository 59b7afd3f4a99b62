"""Which input of a replica reaches which rule, when its timers are due, and when it rests."""

import inspect
from types import SimpleNamespace

import pytest

from actors.ports import Batch
from actors.raft import Failed, HardState, Message, NotLeader, Role
from actors.raft.leading import ReplicaProgress
from actors.raft.messages import REQUESTS, RESPONSES, Error, FetchRequest, FetchResponse, ProbeRequest, VoteRequest
from actors.raft.raft import HANDLERS, PATIENCE_ENDED, TEACHES, Raft
from actors.raft.state import NEVER_MS
from tests.unit.raft.replica import KEYS, LIMITS, Replica

LOG = {"log": [(3, 0)], "end_offset": 10}


def fetches(said: list[tuple[int, Message]]) -> list[FetchRequest]:
    return [one for _, one in said if isinstance(one, FetchRequest)]


def test_every_message_and_every_role_has_a_rule() -> None:
    """A probe is answered by the node: what it supports is no matter of the quorum."""
    assert HANDLERS.keys() == {*REQUESTS, *RESPONSES} - {ProbeRequest}
    assert PATIENCE_ENDED.keys() == set(Role)
    for kind in TEACHES:
        assert {"epoch", "leader_id"} <= set(kind._fields)
    for rule in HANDLERS.values():
        assert len(inspect.signature(rule).parameters) == 3


@pytest.mark.parametrize(("ago_ms", "counted"), [(0, 2), (2_000, 2), (2_001, 1), (None, 1)])
def test_a_voter_counts_as_caught_up_up_to_the_end_of_the_fetch_timeout(ago_ms: int | None, counted: int) -> None:
    progress = ReplicaProgress(0)
    progress.caught_up_ms = None if ago_ms is None else 9_000 - ago_ms
    core = SimpleNamespace(
        leading=SimpleNamespace(voters={KEYS[2]: progress}),
        now_ms=9_000,
        is_voter=True,
        limits=SimpleNamespace(fetch_timeout_ms=2_000),
    )
    assert Raft.voters_caught_up.fget(SimpleNamespace(_core=core)) == counted  # type: ignore[attr-defined]


def test_an_answer_teaches_the_leader_even_where_it_is_awaited_no_more() -> None:
    replica = Replica(hard=HardState(3), **LOG)
    replica.step(FetchResponse(77, Error.NOT_LEADER_OR_FOLLOWER, 3, 5), 2)
    assert (replica.raft.leader_id, replica.raft.epoch, replica.raft.role) == (3, 5, Role.FOLLOWER)


def test_an_answer_that_names_an_impossible_leader_is_as_good_as_none() -> None:
    replica = Replica(hard=HardState(3, None, 2), **LOG)
    (asked,) = fetches(replica.said)
    replica.step(FetchResponse(asked.serial, Error.NONE, 9, 3, high_watermark=10), 2)
    assert (replica.raft.leader_id, replica.raft.epoch) == (2, 3)
    assert replica.raft.high_watermark == 0, "nothing of it counts"
    (again,) = fetches(replica.run(LIMITS.retry_backoff_ms))
    assert again.serial != asked.serial


def test_a_fetch_that_failed_is_sent_again_after_a_pause() -> None:
    replica = Replica(hard=HardState(3, None, 2), **LOG)
    (asked,) = fetches(replica.said)
    assert not fetches(replica.step(Failed(asked.serial), 2))
    assert not fetches(replica.run(LIMITS.retry_backoff_ms - 1))
    assert len(fetches(replica.run(1))) == 1


def test_an_observer_whose_leader_leads_no_more_looks_for_another_after_a_pause() -> None:
    replica = Replica(voters=(2, 3), hard=HardState(3, None, 2), **LOG)
    (asked,) = fetches(replica.said)
    assert not fetches(replica.step(FetchResponse(asked.serial, Error.NOT_LEADER_OR_FOLLOWER, 2, 3), 2))
    assert replica.raft.role is Role.UNATTACHED
    assert not fetches(replica.run(LIMITS.retry_backoff_ms - 1))
    asked = {
        to for _ in range(3) for to, one in replica.run(LIMITS.request_timeout_ms) if isinstance(one, FetchRequest)
    }
    assert asked == {2, 3}


def test_a_fetch_that_nobody_reports_is_given_up() -> None:
    replica = Replica(hard=HardState(3, None, 2), **LOG)
    assert replica.raft.deadline_ms() < NEVER_MS
    said = replica.run(10 * LIMITS.request_timeout_ms)
    assert any(isinstance(one, VoteRequest) for _, one in said), "it stands when its leader is silent"


def test_a_replica_rests_until_its_deadline() -> None:
    replica = Replica(hard=HardState(3, None, 2), **LOG)
    assert replica.raft.settled
    deadline_ms = replica.raft.deadline_ms()
    replica.now_ms = deadline_ms - 1
    assert replica.raft.tick(replica.now) is False and replica.raft.settled
    replica.now_ms = deadline_ms
    assert replica.raft.tick(replica.now) is True


def test_only_a_leader_appends() -> None:
    replica = Replica(hard=HardState(3, None, 2), **LOG)
    with pytest.raises(NotLeader, match="replica 1 is follower in epoch 3"):
        replica.raft.append(Batch(10, 10, 3, b""))
    alone = Replica(voters=(1,), **LOG)
    alone.run(0)
    assert alone.raft.role is Role.LEADER
    end = alone.raft.log_end_offset
    alone.raft.append(Batch(end, end, alone.raft.epoch, b""))
    alone.drain()
    assert alone.raft.high_watermark == end + 1 and alone.raft.quiet(end + 1) and not alone.raft.quiet(end)


def test_a_leader_says_when_one_more_silent_voter_would_stop_it() -> None:
    replica = Replica()
    replica.elect()
    assert replica.raft.role is Role.LEADER and not replica.raft.degraded
    replica.now_ms += LIMITS.fetch_timeout_ms
    replica.fetched(2, replica.raft.log_end_offset)
    assert not replica.raft.degraded
    replica.now_ms += 1
    replica.raft.tick(replica.now)
    assert replica.raft.degraded, "3 has been silent for longer than a fetch timeout"


def test_a_leader_that_nobody_fetches_from_resigns() -> None:
    replica = Replica()
    replica.elect()
    replica.now_ms += LIMITS.check_quorum_ms
    assert replica.raft.overdue(replica.now)
    replica.raft.tick(replica.now)
    replica.drain()
    assert replica.raft.role is Role.RESIGNED and replica.raft.leader_id == -1


def test_a_resignation_is_of_a_leader_alone() -> None:
    replica = Replica(hard=HardState(3, None, 2), **LOG)
    replica.raft.resign()
    assert replica.raft.role is Role.FOLLOWER
    leads = Replica()
    leads.elect()
    leads.raft.resign([KEYS[3]])
    told = [one for _, one in leads.drain() if hasattr(one, "preferred")]
    assert leads.raft.role is Role.RESIGNED and told and all(one.preferred[0] == KEYS[3] for one in told)  # type: ignore[union-attr]


@pytest.mark.parametrize(("voted", "shown"), [(None, -1), (0, 0), (3, 3)])
def test_the_metric_of_the_vote_names_a_replica_or_minus_1(voted: int | None, shown: int) -> None:
    """KIP-595, `current-vote`."""
    replica = Replica(hard=HardState(3, None if voted is None else KEYS[voted]), **LOG)
    assert replica.raft.voted == shown
