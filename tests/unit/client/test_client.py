"""The client without sockets: routing, versions, retries, deadlines, and servers that are hostile or none of Kafka's."""

from typing import Any

import pytest

from actors.client.asks import Address, AnyNode, Ask, Controller, Coordinator, KeyType, Know, Node, Pause, Reply, Steps
from actors.client.connection import CORRELATION_MAX, Lost
from actors.client.errors import ClientError, NoKafka, NotInTime, NotLoggedIn, Unspoken
from actors.client.operations import topics
from actors.wire.errors import ErrorCode
from actors.wire.messages import message, requests
from tests.unit.client.servers import Server, World, metadata_topic, newest

HOST = ("a", 9092)


def one(*answers: tuple[str, Any], **config: Any) -> tuple[World, Server]:
    """A world with one server."""
    server = Server(*HOST, dict(answers))
    return World(server, **config), server


def ask_metadata() -> Steps[Any]:
    kind = message("MetadataRequest")
    reply: Reply = yield Ask(AnyNode(), "Metadata", lambda version: kind(topics=[]))
    return reply


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_the_newest_common_version_is_spoken(piece: int) -> None:
    server = Server(*HOST, {}, {"Metadata": (0, 7)})
    world = World(server)
    world.piece = piece
    assert world.run(ask_metadata()).version == 7
    assert [row[:2] for row in server.asked] == [("ApiVersions", 4), ("Metadata", 7)]
    assert server.asked[0][2].client_software_name == "rayft"


def test_versions_are_negotiated_down_with_an_old_server() -> None:
    def answer(server: Server, version: int, request: Any) -> Any:
        kind = message("ApiVersionsResponse")
        if version > 2:  # as Kafka 2.1 does: in version 0, and without a list
            number = int.from_bytes(b"\0\0\0\0", "big")
            return _v0(world, kind(error_code=ErrorCode.UNSUPPORTED_VERSION), number)
        return server.api_versions(version)

    world, server = one(("ApiVersions", answer))
    assert world.run(ask_metadata()).message.cluster_id == "cluster"
    assert [row[:2] for row in server.asked][:2] == [("ApiVersions", 4), ("ApiVersions", 0)]


def _v0(world: World, body: Any, _: int) -> bytes:
    from actors.wire.framing import encode_response

    (link,) = world.client._links.values()
    return b"".join(encode_response("ApiVersions", 0, link.connection.under_way[0].correlation_id, body))


def test_no_common_version_is_said() -> None:
    server = Server(*HOST, {}, {"DescribeQuorum": (7, 9), "DescribeProducers": (0, -1)})
    world = World(server)
    for name, words in (
        ("DescribeQuorum", r"a:9092 speaks versions 7 to 9 of DescribeQuorum, and versions 0 to 2 are needed here"),
        ("DescribeProducers", r"a:9092 does not speak DescribeProducers"),
    ):

        def steps(name: str = name) -> Steps[None]:
            yield Ask(AnyNode(), name, lambda version: message(f"{name}Request")())

        with pytest.raises(Unspoken, match=words):
            world.run(steps())


def numbered(count: int) -> Steps[list[Any]]:
    kind = message("MetadataRequest")
    return (
        yield [
            Ask(AnyNode(), "Metadata", lambda version, n=n: kind(topics=[kind.MetadataRequestTopic(name=str(n))]))
            for n in range(count)
        ]
    )


def named(server: Server) -> list[str]:
    return [request.topics[0].name for name, _, request in server.asked if name == "Metadata"]


def test_requests_are_sent_in_order() -> None:
    world, server = one(**{"max.in.flight.requests.per.connection": 3})
    assert len(world.run(numbered(20))) == 20
    assert named(server) == [str(n) for n in range(20)]


def test_so_many_requests_are_under_way_and_no_more() -> None:
    world, server = one(("Metadata", lambda *_: None), **{"max.in.flight.requests.per.connection": 3})
    world.client.start(numbered(20), world.now_us)
    for _ in range(5):
        world.step()
    assert named(server) == ["0", "1", "2"]


def test_correlation_ids_wrap() -> None:
    world, _ = one()
    world.run(ask_metadata())
    (link,) = world.client._links.values()
    link.connection._correlation_id = CORRELATION_MAX
    for _ in range(3):
        world.run(ask_metadata())
    assert link.connection._correlation_id == 2


# ---- servers that are none


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a:9092 is no Kafka as this client is set up: it answers HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "it speaks TLS: set security.protocol"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00", "answered with correlation id 0 where"),
        (b"\xff\xff\xff\xff", "negative length"),
        (b"\x7f\xff\xff\xff", "frame of 2147483647 bytes"),
        (b"\x00\x00\x00\x02\x00\x00", "too short for an answer"),
    ],
)
def test_a_server_that_is_no_kafka_is_told_at_once(sent: bytes, words: str) -> None:
    world, _ = one(("ApiVersions", sent))
    with pytest.raises(NoKafka, match=words):
        world.run(ask_metadata())
    assert world.now_us < 2_000_000, "it was not tried for ever"


def garbled(server: Server, version: int, request: Any) -> Any:
    (link,) = WORLD[0].client._links.values()
    number = link.connection.under_way[0].correlation_id.to_bytes(4, "big")
    return (4 + 5).to_bytes(4, "big") + number + b"\xff\xff\xff\xff\xff"


WORLD: list[World] = []


def test_an_answer_of_garbage_is_told() -> None:
    world, _ = one(("Metadata", garbled))
    WORLD[:] = [world]
    with pytest.raises(NoKafka, match=r"a:9092 answered Metadata with bytes that cannot be read"):
        world.run(ask_metadata())


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    world, _ = one()
    world.run(ask_metadata())
    (conn,) = world.client._links
    world.client.received(conn, b"\x00\x00\x00\x04\x00\x00\x00\x01", world.now_us)
    assert not world.client._links
    assert world.run(ask_metadata()).message.brokers, "it is dialled again"


def test_a_frame_that_is_cut_is_lost_and_asked_again() -> None:
    cut = [b"\x00\x00\x00\x40\x00\x00", ConnectionError("reset")]
    answers: list[Any] = [cut[0]]

    def metadata(server: Server, version: int, request: Any) -> Any:
        return answers.pop() if answers else world.metadata()

    world, server = one(("Metadata", metadata))
    task = world.client.start(ask_metadata(), world.now_us)
    while "Metadata" not in [row[0] for row in server.asked]:
        world.step()
    world.step()
    world.cut(server)
    assert world.wait(task).message.cluster_id == "cluster"
    assert task.last_error is not None and "in the middle of an answer" in str(task.last_error)


def test_a_request_that_may_not_be_repeated_is_not() -> None:
    world, server = one(("CreateTopics", ConnectionError("reset")))
    with pytest.raises(Lost, match="CreateTopics may have been done or not"):
        world.run(topics.create([topics.NewTopic("t", 1, 1)]))
    assert [row[0] for row in server.asked].count("CreateTopics") == 1


# ---- time


def test_a_server_that_does_not_answer_is_left_and_asked_again_until_the_deadline() -> None:
    world, server = one(("Metadata", None), request_timeout_ms=1000, default_api_timeout_ms=5000)
    server.answers["Metadata"] = lambda *_: None
    with pytest.raises(NotInTime, match=r"there was no result in time: a:9092 did not answer Metadata in time"):
        world.run(ask_metadata())
    asked = [row[0] for row in server.asked].count("Metadata")
    assert 3 <= asked <= 5 and world.now_us == 6_000_000


def test_beside_a_server_that_says_nothing_another_one_is_dialled() -> None:
    """Bootstrap servers and brokers that are known. None is dialled twice, or sooner."""
    servers = [Server(host, port, {}) for port, host in enumerate("abc", 1)]
    for one in servers[1:]:
        one.answers["ApiVersions"] = lambda *_: None
    world = World(*servers, bootstrap_servers="a:1,b:2,c:3")
    world.run(ask_metadata())
    assert [row[1] for row in world.dialled] == ["b", "c", "a"]
    assert [row[0] for row in world.dialled] == [1_000_000, 3_000_000, 5_000_000]
    world.run(topics.describe())
    world.cut(servers[0])
    servers[0].answers["ApiVersions"] = lambda *_: None
    servers[1].answers.clear()
    world.run(ask_metadata())
    assert [row[1] for row in world.dialled[3:]] == ["c", "b"]


def test_a_server_that_says_nothing_is_named_at_the_deadline() -> None:
    world, _ = one(("ApiVersions", lambda *_: None))
    with pytest.raises(NotInTime, match=r"there was no result in time: a:9092 has not answered yet"):
        world.run(ask_metadata(), 12_000)
    assert len(world.dialled) == 1


def test_dials_back_off() -> None:
    world, server = one(default_api_timeout_ms=10_000)
    server.refuses = True
    with pytest.raises(NotInTime, match="a:9092: nothing listens there"):
        world.run(ask_metadata())
    gaps = [after[0] - before[0] for before, after in zip(world.dialled, world.dialled[1:], strict=False)]
    assert gaps[:5] == [50_000, 100_000, 200_000, 400_000, 800_000] and set(gaps[5:]) == {1_000_000}


def test_a_throttled_connection_is_left_alone() -> None:
    def throttled(server: Server, version: int, request: Any) -> Any:
        reply = world.metadata()
        reply.throttle_time_ms = 700
        return reply

    world, _ = one(("Metadata", throttled))
    world.run(ask_metadata())
    before = world.now_us
    world.run(ask_metadata())
    assert world.now_us - before == 700_000


def test_a_throttle_that_never_ends_is_told() -> None:
    def throttled(server: Server, version: int, request: Any) -> Any:
        reply = world.metadata()
        reply.throttle_time_ms = 1 << 30
        return reply

    world, _ = one(("Metadata", throttled))
    world.run(ask_metadata())
    with pytest.raises(NotInTime, match="the server asks to wait, as a quota is used up"):
        world.run(ask_metadata(), 3000)


def test_an_idle_connection_is_closed() -> None:
    world, _ = one(connections_max_idle_ms=5000)
    world.run(ask_metadata())
    deadline = world.client.turn(world.now_us).deadline_us
    assert deadline is not None and deadline == world.now_us + 5_000_000
    assert world.client.turn(deadline).closes


def test_pauses_take_their_time() -> None:
    def steps() -> Steps[str]:
        yield Pause(250)
        yield []
        return "done"

    world, _ = one()
    assert world.run(steps()) == "done"
    assert world.now_us == 1_250_000


# ---- routing


def two(**answers: Any) -> tuple[World, Server, Server]:
    first, second = Server("a", 1, dict(answers)), Server("b", 2, dict(answers))
    return World(first, second), first, second


def test_a_node_that_is_lost_is_told_to_the_operation() -> None:
    world, _, second = two()
    second.refuses = True

    def steps() -> Steps[Any]:
        yield Know(())
        kind = message("MetadataRequest")
        return (yield [Ask(Node(n), "Metadata", lambda version: kind(topics=[])) for n in (1, 2, 3)])

    first, other, unknown = world.run(steps())
    assert first.node == 1
    assert isinstance(other, Lost) and "broker 2 (b:2): nothing listens there" in str(other)
    assert isinstance(unknown, Lost) and "broker 3 is not among the brokers" in str(unknown)


def test_the_connection_to_a_bootstrap_server_is_kept_as_the_brokers() -> None:
    world, first, _ = two()

    def steps() -> Steps[Any]:
        yield Know(())
        kind = message("MetadataRequest")
        return (yield Ask(Node(1), "Metadata", lambda version: kind(topics=[])))

    world.run(steps())
    assert [row[1:] for row in world.dialled] == [("a", 1)]
    assert [row[0] for row in first.asked] == ["ApiVersions", "Metadata", "Metadata"]


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
def test_all_brokers_lost_means_the_bootstrap_servers_again(strategy: str) -> None:
    door, broker, newer = Server("door", 1, {}), Server("b", 2, {}), Server("c", 3, {})
    world = World(door, broker, newer, metadata_recovery_strategy=strategy)
    kind = message("MetadataResponse")
    behind = [broker]

    def metadata(*_: Any) -> Any:
        return kind(brokers=[kind.MetadataResponseBroker(node_id=1, host=one.host, port=one.port) for one in behind])

    for one in (door, broker, newer):
        one.answers["Metadata"] = metadata
    world.run(topics.describe())
    world.cut(door)
    world.run(topics.describe())
    assert world.dialled[-1][1] == "b", "brokers come before bootstrap servers"
    behind[:] = [newer]
    world.cut(broker)
    broker.refuses = True
    if strategy == "none":
        with pytest.raises(NotInTime, match=r"broker 1 \(b:2\): nothing listens there"):
            world.run(topics.describe(), 5000)
    else:
        world.run(topics.describe(), 5000)
        assert world.client.metadata.brokers[1].host == "c"


def found_at(node: int, code: int = 0) -> Any:
    def answer(server: Server, version: int, request: Any) -> Any:
        kind = message("FindCoordinatorResponse")
        return kind(coordinators=[kind.Coordinator(key=request.coordinator_keys[0], node_id=node, error_code=code)])

    return answer


def test_a_coordinator_is_looked_up_once_and_again_when_it_has_moved() -> None:
    where = [2]
    kind = message("DeleteGroupsResponse")

    def delete(server: Server, version: int, request: Any) -> Any:
        here = server.port == where[0]
        code = 0 if here else int(ErrorCode.NOT_COORDINATOR)
        return kind(results=[kind.DeletableGroupResult(group_id="g", error_code=code)])

    world, first, second = two(FindCoordinator=lambda *all: found_at(where[0])(*all), DeleteGroups=delete)

    def steps() -> Steps[Any]:
        request = message("DeleteGroupsRequest")(groups_names=["g"])
        return (yield Ask(Coordinator(KeyType.GROUP, "g"), "DeleteGroups", lambda version: request))

    assert world.run(steps()).node == 2
    world.run(steps())
    where[0] = 1
    assert world.run(steps()).node == 1
    looked = [row[0] for row in first.asked + second.asked].count("FindCoordinator")
    assert looked == 2


def test_a_coordinator_and_a_controller_that_cannot_be_reached_are_looked_up_anew() -> None:
    """A broker that was killed stays the one that others name, until its session is over: then they name another."""
    named = [2]
    kind = message("DeleteGroupsResponse")
    done = message("CreateTopicsResponse")()

    def metadata(server: Server, version: int, request: Any) -> Any:
        kind = message("MetadataResponse")
        some = [kind.MetadataResponseBroker(node_id=n, host=host, port=n) for n, host in enumerate("ab", 1)]
        return kind(brokers=some, controller_id=named[0], cluster_id="cluster")

    world, _, second = two(
        FindCoordinator=lambda *all: found_at(named[0])(*all),
        DeleteGroups=kind(results=[kind.DeletableGroupResult(group_id="g")]), CreateTopics=done, Metadata=metadata,
    )  # fmt: skip

    def steps() -> Steps[Any]:
        first = yield Ask(Coordinator(KeyType.GROUP, "g"), "DeleteGroups", lambda version: deletion)
        other = yield Ask(Controller(), "CreateTopics", lambda version: message("CreateTopicsRequest")())
        return first.node, other.node

    deletion = message("DeleteGroupsRequest")(groups_names=["g"])
    assert world.run(steps()) == (2, 2)
    world.cut(second)
    second.refuses = True
    task = world.client.start(steps(), world.now_us, 20_000)
    while world.now_us < 5_000_000 and not task.done:
        world.step()
    assert not task.done, "nobody else is named"
    named[0] = 1
    assert world.wait(task) == (1, 1)


def test_a_coordinator_that_may_not_be_found_is_told() -> None:
    code = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    world, _, _ = two(FindCoordinator=found_at(-1, code))

    def steps() -> Steps[Any]:
        yield Ask(Coordinator(KeyType.GROUP, "g"), "DeleteGroups", lambda version: None)

    with pytest.raises(ClientError, match=r"group g: no permission for that group") as raised:
        world.run(steps())
    assert raised.value.code == code


def test_an_older_leader_epoch_does_not_replace_a_newer_one() -> None:
    answers = [(5, [2]), (4, [1]), (6, [1])]
    world, _, _ = two(Metadata=lambda *_: world.metadata(t=answers.pop(0)))
    seen = []
    for _ in range(3):
        (topic,) = world.run(topics.describe(["t"])).values()
        seen.append((topic.partitions[0].leader, topic.partitions[0].leader_epoch))
    assert seen == [(2, 5), (2, 5), (1, 6)]


def test_a_leader_that_is_none_of_the_brokers_is_asked_for_anew() -> None:
    """It began a moment ago, say: what was told is of no use, and is not kept until it is too old."""
    leaders = [9, 2]
    world, _, _ = two(Metadata=lambda *_: world.metadata(t=(5, [leaders.pop(0)])))

    def steps() -> Steps[list[int]]:
        found = []
        for _ in range(3):
            found.append((yield Know(("t",))).leader("t", 0))
        return found

    assert world.run(steps()) == [9, 2, 2]


def test_a_topic_that_is_gone_is_forgotten() -> None:
    gone = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    answers: list[Any] = [(5, [2]), gone]
    world, _, _ = two(Metadata=lambda *_: world.metadata(t=answers.pop(0)))
    world.run(topics.describe(["t"]))
    with pytest.raises(ClientError, match="topic t does not exist"):
        world.run(topics.describe(["t"]))
    assert world.client.metadata.topics == {}


# ---- logins

SASL = {
    "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "hush",
}  # fmt: skip


def handshake(server: Server, version: int, request: Any) -> Any:
    return message("SaslHandshakeResponse")(mechanisms=["PLAIN", "OAUTHBEARER"])


def test_a_wrong_password_is_said_and_not_tried_for_ever() -> None:
    refused = message("SaslAuthenticateResponse")(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="Authentication failed"
    )
    world, server = one(("SaslHandshake", handshake), ("SaslAuthenticate", lambda *_: refused), **SASL)
    with pytest.raises(NotLoggedIn, match="refused the login by PLAIN: the name or the password is wrong") as raised:
        world.run(ask_metadata())
    assert "hush" not in str(raised.value)
    assert [row[0] for row in server.asked].count("SaslAuthenticate") == 1


def test_a_mechanism_that_the_server_does_not_have() -> None:
    told = message("SaslHandshakeResponse")(
        error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["SCRAM-SHA-512"]
    )
    world, _ = one(("SaslHandshake", lambda *_: told), **SASL)
    with pytest.raises(NotLoggedIn, match=r"does not take sasl.mechanism=PLAIN: it takes SCRAM-SHA-512"):
        world.run(ask_metadata())


def test_an_expired_token_ends_with_the_byte_that_the_rfc_wants() -> None:
    tokens = []

    def authenticate(server: Server, version: int, request: Any) -> Any:
        kind = message("SaslAuthenticateResponse")
        tokens.append(bytes(request.auth_bytes))
        if len(tokens) == 1:
            return kind(auth_bytes=b'{"status":"invalid_token"}')
        return kind(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="no")

    config = {
        "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token": "hush",
    }  # fmt: skip
    world, _ = one(("SaslHandshake", handshake), ("SaslAuthenticate", authenticate), **config)
    with pytest.raises(NotLoggedIn, match=r"the token is wrong or has expired \(status invalid_token\)") as raised:
        world.run(ask_metadata())
    assert tokens == [b"n,,\x01auth=Bearer hush\x01\x01", b"\x01"]
    assert "hush" not in str(raised.value)


def test_a_login_is_renewed_before_its_end() -> None:
    accepted = message("SaslAuthenticateResponse")(session_lifetime_ms=10_000)
    world, server = one(("SaslHandshake", handshake), ("SaslAuthenticate", lambda *_: accepted), **SASL)
    world.run(ask_metadata())

    def steps() -> Steps[None]:
        yield Pause(25_000)

    world.run(steps())
    world.run(ask_metadata())
    names = [row[0] for row in server.asked]
    assert names.count("SaslAuthenticate") == 3 and names.count("ApiVersions") == 1, (names, world.now_us)


def test_what_a_task_waits_for_ends_with_the_client() -> None:
    world, server = one()
    server.answers["Metadata"] = lambda *_: None
    task = world.client.start(ask_metadata(), world.now_us)
    for _ in range(4):
        world.step()
    assert world.client.close().closes
    with pytest.raises(ClientError, match="the client was closed"):
        task.result()


def test_the_helpers_know_all_requests() -> None:
    assert newest("Fetch") == requests("Fetch").advertised[-1] and metadata_topic("t", 3).error_code == 3


def test_a_look_up_that_failed_when_nobody_waited_is_made_anew() -> None:
    server = Server(*HOST, {"DeleteGroups": message("DeleteGroupsResponse")()})
    world = World(server)
    server.answers["FindCoordinator"] = found_at(-1, int(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def steps() -> Steps[Any]:
        request = message("DeleteGroupsRequest")(groups_names=["g"])
        return (yield Ask(Coordinator(KeyType.GROUP, "g"), "DeleteGroups", lambda version: request))

    world.run(topics.describe())
    with pytest.raises(NotInTime):
        world.run(steps(), 1000)
    server.answers["FindCoordinator"] = found_at(1)
    world.now_us += 120_000_000
    assert world.run(steps()).node == 1


def test_an_answer_without_what_was_asked_for_is_told() -> None:
    world, _ = one(("FindCoordinator", message("FindCoordinatorResponse")(coordinators=[])))

    def steps() -> Steps[Any]:
        yield Ask(Coordinator(KeyType.GROUP, "g"), "DeleteGroups", lambda version: None)

    with pytest.raises(ClientError, match="an answer lacks what was asked for"):
        world.run(steps())
    assert world.client._tasks == []


def test_a_server_that_is_asked_by_its_address_is_none_of_the_brokers() -> None:
    broker = Server("b", 1, {"ListGroups": message("ListGroupsResponse")()})
    other = Server("c", 2, {"ListGroups": message("ListGroupsResponse")()})
    made = World(broker, other)
    kind = message("ListGroupsRequest")

    def steps(to: Any) -> Any:
        return (yield Ask(to, "ListGroups", lambda version: kind()))

    address = Address("c", 2, "controller 7")
    for to, asked in ((address, other), (AnyNode(), broker), (AnyNode(), broker), (address, other)):
        before = len(asked.asked)
        assert made.run(steps(to)).node == -1 and len(asked.asked) > before
    other.refuses = True
    made.cut(other)
    with pytest.raises(Lost, match=r"^controller 7 \(c:2\): nothing listens there"):  # at once, and not sent anew
        made.run(steps(address))
