"""Who leads the quorum, as it is found out: by bootstrap servers, by controllers, and when nobody helps."""

from typing import Any

import pytest

from actors.client.errors import ClientError
from actors.client.operations import quorum_leader
from actors.client.operations.quorum_leader import KnownQuorum
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.client.servers import Server, World

FETCH, QUORUM = message("FetchResponse"), message("DescribeQuorumResponse")
CONTROLLERS = {1001: ("c", 1), 1002: ("d", 2)}


def quorum(
    leader: int = 1001, epoch: int = 5, code: int = 0, whole: int = 0, nodes: tuple[int, ...] = (1001, 1002)
) -> Any:
    part = QUORUM.PartitionData(leader_id=leader, leader_epoch=epoch, error_code=code)
    return QUORUM(
        error_code=whole,
        topics=[QUORUM.TopicData(topic_name="__cluster_metadata", partitions=[part])],
        nodes=[
            QUORUM.Node(
                node_id=one,
                listeners=[QUORUM.Listener(name="C", host=CONTROLLERS[one][0], port=CONTROLLERS[one][1])],
            )
            for one in nodes
        ],
    )


def told(leader: int, epoch: int, code: int = 0, whole: int = 0) -> Any:
    """A controller's answer to a Fetch: who leads."""
    current = FETCH.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    part = FETCH.PartitionData(error_code=code, current_leader=current)
    ends = [FETCH.NodeEndpoint(node_id=one, host=at[0], port=at[1]) for one, at in CONTROLLERS.items() if one == leader]
    return FETCH(
        error_code=whole,
        responses=[FETCH.FetchableTopicResponse(topic_id=quorum_leader.TOPIC_ID, partitions=[part])],
        node_endpoints=ends,
    )


def world(asked: Any, c: Any = None, d: Any = None, **config: Any) -> World:
    """A broker that is asked for the quorum, and two controllers."""
    broker = Server("a", 9, {"DescribeQuorum": asked})
    controllers = [Server(*CONTROLLERS[id], {"Fetch": one}) for id, one in ((1001, c), (1002, d))]
    made = World(broker, *controllers, **config)
    for server in made.servers.values():
        server.answers["Metadata"] = lambda *_: made.metadata(controller=-1)
    return made


def fetches(made: World) -> list[str]:
    return [server.host for server in made.servers.values() for name, _, _ in server.asked if name == "Fetch"]


def test_a_broker_names_the_leader_and_where_controllers_are() -> None:
    known = KnownQuorum()
    found = world(quorum()).run(known.find())
    assert (found.id, found.epoch, found.address.host, found.server) == (1001, 5, "c", "controller 1001 (c:1)")
    known.lost()
    assert known.leader is None


def test_a_leader_that_is_lost_is_looked_for_at_controllers_itself_last() -> None:
    made = world(quorum(), c=told(1001, 5), d=told(1002, 6))
    known = KnownQuorum()
    made.run(known.find())
    known.lost()
    found = made.run(known.find())
    assert (found.id, found.epoch) == (1002, 6) and fetches(made) == ["d"]


def test_an_older_epoch_does_not_replace_a_newer_one() -> None:
    known = KnownQuorum()
    made = world(quorum(), c=told(1001, 7), d=told(1002, 4))
    made.run(known.find())
    assert not known.answered(1002, 4, ()) and known.answered(1001, 5, ())
    known.lost()
    found = made.run(known.find())
    assert (found.id, found.epoch) == (1001, 7) and fetches(made) == ["c", "d"], "d has not heard of it"
    assert not known.answered(-1, 9, ()), "a controller that knows no leader"


def test_controllers_out_of_reach_are_believed_to_be_after_some_rounds() -> None:
    gone = ConnectionError("reset")
    made = world(quorum(leader=-1), c=gone, d=gone, reconnect_backoff_ms=1, reconnect_backoff_max_ms=1)
    with pytest.raises(ClientError, match=r"no controller can be reached from here.*\(c:1, d:2\): open it"):
        made.run(KnownQuorum().find(), 600_000)
    described = [name for name, _, _ in made.servers["a", 9].asked].count("DescribeQuorum")
    assert described == quorum_leader.ROUNDS_MAX


def test_a_controller_that_has_answered_once_is_waited_for() -> None:
    gone = ConnectionError("reset")
    answers = [quorum()]
    made = world(lambda *_: answers.pop() if answers else quorum(leader=-1), c=gone, d=gone)
    known = KnownQuorum()
    made.run(known.find())
    known.reached()
    known.lost()
    with pytest.raises(ClientError, match="there was no result in time"):
        made.run(known.find(), 60_000)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (quorum(whole=int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)), "grant it CLUSTER_ACTION on the cluster"),
        (quorum(code=int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)), "the quorum: "),
        (quorum(whole=int(ErrorCode.INVALID_REQUEST)), "DescribeQuorum at the quorum"),
    ],
)
def test_what_cannot_succeed_is_told(answer: Any, words: str) -> None:
    with pytest.raises(ClientError, match=words):
        world(answer).run(KnownQuorum().find())


def test_before_kafka_3_9_nobody_tells_where_controllers_are() -> None:
    made = world(quorum(nodes=()))
    made.servers["a", 9].versions = {"DescribeQuorum": (0, 1)}
    with pytest.raises(ClientError, match=r"that needs Kafka 3\.9 or newer"):
        made.run(KnownQuorum().find())


def test_only_so_many_controllers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_leader, "CONTROLLERS_MAX", 1)
    known = KnownQuorum()
    found = world(quorum(leader=1002)).run(known.find())
    assert found.id == 1002 and not known.answered(1001, 6, ()), "the first was forgotten"
