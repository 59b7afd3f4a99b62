"""What the answers of a cluster say is wrong with it, as sentences."""

from typing import Any

from actors.client.errors import ClientError
from actors.client.metadata import Broker, Partition, Topic
from actors.client.operations.cluster import Cluster, LogDir, Quorum, Replica
from actors.client.operations.transactions import NO_TIMEOUT_MS, CoordinatedTransaction, OpenTransaction
from actors.command.by_address import health
from actors.why.explanations import Explanation, explain


def topic(*parts: Partition) -> Topic:
    return Topic("t", bytes(16), False, {one.number: one for one in parts}, 0)


def quorum(leader: int, *caught_up_ms: int) -> Quorum:
    return Quorum(leader, 3, 100, [Replica(n, bytes(16), 100, ms, ms) for n, ms in enumerate(caught_up_ms, 1)], [], {})


CLUSTER = Cluster("id", 1, {1: Broker(1, "h", 1), 2: Broker(2, "h", 2)})


NOW_MS = 1_795_251_600_000


def explained(
    found: dict[str, Topic], quorum: Quorum | None = None, log_dirs: Any = None, open_: Any = ()
) -> list[tuple[str, str]]:
    facts = health.facts_of(NOW_MS, CLUSTER, found, quorum, log_dirs or {}, open_)
    return [(one.kind, one.sentence) for one in explain(facts)]


def test_a_fault_has_a_sentence_and_what_helps() -> None:
    well = topic(Partition(0, 1, 0, (1, 2), (1, 2), ()))
    assert explained({"t": well}, quorum(1, 50_000, 49_000)) == []
    ill = topic(
        Partition(0, -1, 0, (3,), (3,), (3,)),
        Partition(1, 1, 0, (1, 2), (1,), ()),
        Partition(2, 1, 0, (1, 3), (1,), (3,)),
        Partition(3, 2, 0, (1, 2), (1, 2), ()),
    )
    assert explained({"t": ill}) == [
        ("broker", "broker 3 is away and has replicas of 2 partitions"),
        ("offline", "t-0 has no leader"),
        ("under-replicated", "t-1: replica 2 is not in the ISR"),
        ("preferred", "t-3 is led by broker 2, though broker 1 is the preferred leader and in sync"),
    ]


def test_faults_of_the_quorum() -> None:
    assert explained({}, quorum(1, 50_000, 20_000, -1)._replace(leader_epoch=9)) == [
        ("voter", "controller 2 does not follow the leader for 30 s"),
        ("voter", "controller 3 does not follow the leader"),
    ]
    assert explained({}, quorum(-1, 5)) == [("no quorum", "no controller leads")]
    assert explained({}, quorum(1, -1, -1)) == [], "an old release does not tell the times"
    leaving = quorum(1, 50_000, 50_000)
    leaving = leaving._replace(voters=leaving.voters[1:], observers=leaving.voters[:1])
    assert explained({}, leaving) == [], "a leader that is no voter any more leads until that is committed"
    ahead = quorum(1, 50_000, 50_001)
    ahead.voters[1] = ahead.voters[1]._replace(log_end_offset=99)
    assert explained({}, ahead) == [], "its clock was set back"


def test_log_directories_and_transactions() -> None:
    bad = LogDir("/d/one", -1, -1, {}, {}, set(), ClientError("log directory /d/one of broker 2: KAFKA_STORAGE_ERROR"))
    good = LogDir("/d/two", -1, -1, {}, {}, set())
    old, new = NOW_MS - 16 * 60_000, NOW_MS - 60_000
    open_ = [OpenTransaction("t", n, 7 + n // 2, 0, 5, old if n < 2 else new) for n in range(3)]
    assert explained({}, None, {1: ClientError("denied"), 2: [bad, good]}, open_) == [
        ("disk", "log directory /d/one of broker 2 is offline"),
        ("transaction", "the transaction of producer 7 is open since 08:44:00, for 16 min"),
    ]


def test_a_transaction_of_a_two_phase_commit_does_not_hang() -> None:
    old = NOW_MS - 16 * 60_000
    open_ = [OpenTransaction("t", n, 7 + n, 0, 5, old) for n in range(3)]
    known = {
        7: CoordinatedTransaction("two", 7, NO_TIMEOUT_MS, NOW_MS - 20 * 60_000),
        8: CoordinatedTransaction("one", 8, 60_000, NOW_MS - 17 * 60_000),
    }
    facts = health.facts_of(NOW_MS, CLUSTER, {}, None, {}, open_, known)
    found = explain(facts)
    assert [(one.kind, one.is_fault, one.sentence) for one in found] == [
        (
            "transaction",
            True,
            "the transaction of transactional id one is open since 08:43:00, for 17 min, longer than its timeout of 60 s",
        ),
        ("transaction", True, "the transaction of producer 9 is open since 08:44:00, for 16 min"),
        (
            "prepared",
            False,
            "the transaction of transactional id two takes part in a two-phase commit and is open since 08:40:00, for 20 "
            "min: it has no timeout, and waits for the decision",
        ),
    ]
    assert found[-1].command.endswith("forceTerminateTransaction --transactionalId two")


def test_a_transaction_that_its_coordinator_ends_in_time_is_no_fault() -> None:
    old = NOW_MS - 16 * 60_000

    def told(started_ms: int, timeout_ms: int) -> list[str]:
        known = {7: CoordinatedTransaction("flink", 7, timeout_ms, started_ms)}
        facts = health.facts_of(NOW_MS, CLUSTER, {}, None, {}, [OpenTransaction("t", 0, 7, 0, 5, old)], known)
        return [one.kind for one in explain(facts)]

    assert told(old, 3_600_000) == told(old, 16 * 60_000) == [], "it may be open for an hour, or is over now"
    assert told(NOW_MS - 400, 600_000) == [], "only its records are old"
    assert told(old, 16 * 60_000 - 1) == ["transaction"] and told(-1, 3_600_000) == ["transaction"]
    assert told(NOW_MS - 400, NO_TIMEOUT_MS) == ["prepared"]


def test_a_fault_that_only_lasts_longer_is_no_change() -> None:
    def seen(*seconds: int) -> health.SeenCluster:
        lasting = [
            f"controller 2 does not follow the leader for {one} s, it is {one} records behind" for one in seconds
        ]
        return health.SeenCluster([Explanation("voter", one, -1, "", "start it") for one in lasting], "")

    assert health._lasting(seen(30)) == health._lasting(seen(31)) != health._lasting(seen(30, 30))
    assert health._lasting(seen()) == []
