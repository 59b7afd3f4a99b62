"""Access rules, passwords, quotas, settings and places with played answers: what is asked again, what is not, and answers
that are damaged or about something else."""

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from actors.authentication.scram import Mechanism
from actors.authorization.access_rules import Filter, Rule
from actors.authorization.resources import Operation, Pattern, Permission, Resource
from actors.client.asks import Steps
from actors.client.errors import ClientError
from actors.client.operations import acls, configs, placement, quotas, scram
from actors.client.operations.configs import Kind, Op
from actors.wire.errors import ErrorCode
from actors.wire.framing import encode_response
from actors.wire.messages import message
from tests.unit.client.servers import Server, World

READ = Rule(Resource.TOPIC, "orders", Pattern.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW)
DENIED = Rule(Resource.GROUP, "g", Pattern.PREFIXED, "User:bob", "1.2.3.4", Operation.ALL, Permission.DENY)
ALICE: quotas.Entity = (("user", "alice"), ("client-id", None))
SALTED = scram.SaltedPassword(Mechanism.SCRAM_SHA_512, 4096, b"salt", b"salted")
RESET = ConnectionError("reset")
BUSY = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def play(name: str, *answers: Any) -> tuple[World, list[Any]]:
    """A world whose server gives these answers to one API, one after the other, and the requests that it got."""
    left = list(answers)
    asked: list[Any] = []

    def answer(server: Server, version: int, request: Any) -> Any:
        asked.append(request)
        return left.pop(0)

    return World(Server("a", 9092, {name: answer})), asked


def created(*codes: int) -> Any:
    kind = message("CreateAclsResponse")
    return kind(results=[kind.AclCreationResult(error_code=code) for code in codes])


def described(*rules: Rule, error_code: int = 0) -> Any:
    kind = message("DescribeAclsResponse")
    return kind(
        error_code=error_code,
        resources=[
            kind.DescribeAclsResource(
                resource_type=one.resource, resource_name=one.name, pattern_type=one.pattern,
                acls=[kind.AclDescription(principal=one.principal, host=one.host, operation=one.operation,
                                          permission_type=one.permission)],
            )
            for one in rules
        ],
    )  # fmt: skip


def deleted(*rules: tuple[Rule, int], error_code: int = 0) -> Any:
    kind = message("DeleteAclsResponse")
    found = [
        kind.DeleteAclsMatchingAcl(
            error_code=code, resource_type=one.resource, resource_name=one.name, pattern_type=one.pattern,
            principal=one.principal, host=one.host, operation=one.operation, permission_type=one.permission,
        )
        for one, code in rules
    ]  # fmt: skip
    return kind(filter_results=[kind.DeleteAclsFilterResult(error_code=error_code, matching_acls=found)])


def test_rules_are_told_in_order_with_numbers_that_only_later_releases_know() -> None:
    newer = READ._replace(resource=99, operation=77)
    world, (*asked,) = play("DescribeAcls", described(newer, DENIED, READ, error_code=0))
    assert world.run(acls.describe()) == [READ, DENIED, newer]
    assert acls.named(newer) == "allow User:alice 77 on 99 orders from *"
    assert acls.named(DENIED) == "deny User:bob all on group names that begin with g from 1.2.3.4"
    world, asked = play("DescribeAcls", described(error_code=ErrorCode.SECURITY_DISABLED))
    with pytest.raises(ClientError, match="SECURITY_DISABLED") as raised:
        world.run(
            acls.describe(Filter(Resource.TOPIC, "t", Pattern.MATCH, "User:a", "h", Operation.READ, Permission.DENY))
        )
    assert raised.value.code == ErrorCode.SECURITY_DISABLED
    (request,) = asked
    assert (request.resource_type_filter, request.resource_name_filter, request.pattern_type_filter) == (2, "t", 2)
    assert (request.principal_filter, request.host_filter, request.operation, request.permission_type) == (
        "User:a",
        "h",
        3,
        2,
    )


def test_making_a_rule_is_asked_again_also_when_the_answer_was_lost() -> None:
    world, asked = play("CreateAcls", created(BUSY, 0), RESET, created(0))
    assert world.run(acls.create([READ, DENIED])) == {DENIED: None, READ: None}
    assert [[one.resource_name for one in request.creations] for request in asked] == [
        ["orders", "g"],
        ["orders"],
        ["orders"],
    ]
    world, asked = play("CreateAcls", created(0, ErrorCode.INVALID_REQUEST))
    outcomes = world.run(acls.create([READ, DENIED]))
    assert outcomes[READ] is None and str(outcomes[DENIED]).startswith("access rule deny User:bob all on group")
    world, asked = play("CreateAcls", created(0))
    assert "does not mention it" in str(world.run(acls.create([READ, DENIED]))[DENIED])


def test_removing_is_not_asked_again_when_the_answer_was_lost() -> None:
    world, asked = play("DeleteAcls", RESET, deleted((READ, 0)))
    with pytest.raises(ClientError, match="DeleteAcls may have been done or not"):
        world.run(acls.delete(acls.EVERY))
    assert len(asked) == 1
    world, asked = play("DeleteAcls", deleted(error_code=BUSY), deleted((READ, 0), (DENIED, ErrorCode.INVALID_REQUEST)))
    removed = world.run(acls.delete(acls.EVERY))
    assert removed.rules == [READ] and "INVALID_REQUEST" in str(removed.left[DENIED]) and len(asked) == 2
    world, asked = play("DeleteAcls", message("DeleteAclsResponse")(filter_results=[]))
    with pytest.raises(ClientError, match="rules may be gone or not"):
        world.run(acls.delete(acls.EVERY))


def altered(*users: tuple[str, int]) -> Any:
    kind = message("AlterUserScramCredentialsResponse")
    return kind(results=[kind.AlterUserScramCredentialsResult(user=user, error_code=code) for user, code in users])


def test_a_password_is_set_again_and_deleted_once() -> None:
    world, asked = play("AlterUserScramCredentials", RESET, altered(("alice", 0)))
    assert world.run(scram.upsert("alice", SALTED)) == {"alice": None}
    first, second = (request.upsertions[0] for request in asked)
    assert (first.name, first.mechanism, first.iterations, bytes(first.salt), bytes(first.salted_password)) == (
        "alice", 2, 4096, b"salt", b"salted"
    )  # fmt: skip
    assert bytes(second.salt) == b"salt"
    assert "salted" not in repr(SALTED)
    world, asked = play("AlterUserScramCredentials", RESET, altered(("alice", 0)))
    with pytest.raises(ClientError, match="may have been done or not"):
        world.run(scram.delete(2, ["alice"]))
    world, asked = play("AlterUserScramCredentials", altered(("bob", ErrorCode.RESOURCE_NOT_FOUND), ("alice", 0)))
    outcomes = world.run(scram.delete(2, ["alice", "bob", "alice"]))
    assert outcomes["alice"] is None and "user bob" in str(outcomes["bob"])
    assert [(one.name, one.mechanism) for one in asked[0].deletions] == [("alice", 2), ("bob", 2)]


def users(**codes: int) -> Any:
    kind = message("DescribeUserScramCredentialsResponse")
    info = kind.CredentialInfo(mechanism=9, iterations=5000)
    return kind(
        results=[
            kind.DescribeUserScramCredentialsResult(user=user, error_code=code, credential_infos=[] if code else [info])
            for user, code in codes.items()
        ]
    )


def test_users_are_told_or_why_not() -> None:
    world, asked = play("DescribeUserScramCredentials", users(alice=0, bob=ErrorCode.RESOURCE_NOT_FOUND))
    found = world.run(scram.describe(["alice", "bob", "alice"]))
    assert found["alice"] == {9: 5000} and isinstance(found["bob"], ClientError)
    assert [one.name for one in asked[0].users] == ["alice", "bob"]
    assert (scram.mechanism_name(9), scram.mechanism_name(1)) == ("9", "SCRAM-SHA-256")
    world, asked = play("DescribeUserScramCredentials", users())
    assert world.run(scram.describe()) == {} and asked[0].users is None


def quota_entries(*entities: quotas.Entity) -> Any:
    kind = message("DescribeClientQuotasResponse")
    return kind(
        entries=[
            kind.EntryData(
                entity=[kind.EntityData(entity_type=type, entity_name=name) for type, name in reversed(entity)],
                values=[kind.ValueData(key="producer_byte_rate", value=math.nan), kind.ValueData(key="x", value=1.5)],
            )
            for entity in entities
        ]
    )


def altered_quotas(*entities: tuple[quotas.Entity, int]) -> Any:
    kind = message("AlterClientQuotasResponse")
    return kind(
        entries=[
            kind.EntryData(
                error_code=code,
                entity=[kind.EntityData(entity_type=type, entity_name=name) for type, name in reversed(entity)],
            )
            for entity, code in entities
        ]
    )


def test_quotas_are_told_and_set_again_when_the_answer_was_lost() -> None:
    strange: quotas.Entity = (("user", None), ("moon", "x"))
    world, asked = play("DescribeClientQuotas", quota_entries(ALICE, strange))
    found = world.run(quotas.describe(ALICE, strict=True))
    assert list(found) == [ALICE, strange] and found[ALICE]["x"] == 1.5
    components = [(one.entity_type, one.match_type, one.match) for one in asked[0].components]
    assert components == [("user", 0, "alice"), ("client-id", 1, None)] and asked[0].strict
    bob: quotas.Entity = (("user", "bob"),)
    world, asked = play(
        "AlterClientQuotas",
        altered_quotas((bob, ErrorCode.INVALID_REQUEST), (ALICE, BUSY)), RESET, altered_quotas((ALICE, 0)),
    )  # fmt: skip
    outcomes = world.run(quotas.alter({ALICE: {"a": 2.0, "b": None, "c": 0.0}, bob: {"a": 1.0}}))
    assert outcomes[ALICE] is None and str(outcomes[bob]).startswith("quotas of user bob: ")
    assert [(one.key, one.value, one.remove) for one in asked[2].entries[0].ops] == [
        ("a", 2.0, False),
        ("b", 0.0, True),
        ("c", 0.0, False),
    ]
    assert [len(request.entries) for request in asked] == [2, 1, 1]


def configured(*resources: tuple[int, str, int]) -> Any:
    kind = message("DescribeConfigsResponse")
    return kind(
        results=[
            kind.DescribeConfigsResult(
                resource_type=type, resource_name=name, error_code=code,
                configs=[kind.DescribeConfigsResourceResult(name="a", value="1", config_source=99)],
            )
            for type, name, code in resources
        ]
    )  # fmt: skip


def test_settings_of_a_broker_are_asked_there_and_an_answer_about_others_is_told() -> None:
    first, second = (Server(host, 9092, {}) for host in "ab")
    for one in (first, second):
        one.answers = {"DescribeConfigs": configured((77, "x", 0), (4, "", 0)), "Metadata": brokers}
    world = World(first, second)
    found = world.run(configs.describe([(Kind.BROKER, "2"), (Kind.BROKER, "")]))
    assert "does not mention it" in str(found[Kind.BROKER, "2"]) and found[Kind.BROKER, ""]["a"].source == "unknown"
    assert "DescribeConfigs" in [name for name, _, _ in second.asked]
    kind = message("IncrementalAlterConfigsResponse")
    for one in (first, second):
        one.asked.clear()
        one.answers["IncrementalAlterConfigs"] = lambda server, version, request: kind(
            responses=[
                kind.AlterConfigsResourceResponse(resource_type=of.resource_type, resource_name=of.resource_name)
                for of in request.resources
            ]
        )
    change = {"a": (Op.SET, "1")}
    outcomes = world.run(configs.alter({(Kind.BROKER, "2"): change, (Kind.BROKER, ""): change}))
    assert outcomes == {(Kind.BROKER, "2"): None, (Kind.BROKER, ""): None}
    (theirs,) = [request for name, _, request in second.asked if name == "IncrementalAlterConfigs"]
    assert [one.resource_name for one in theirs.resources] == ["2"]
    with pytest.raises(ClientError, match="broker 7 is not among the brokers"):
        world.run(configs.alter({(Kind.BROKER, "7"): change}))


def brokers(server: Server, version: int, request: Any) -> Any:
    kind = message("MetadataResponse")
    some = [kind.MetadataResponseBroker(node_id=n, host=host, port=9092) for n, host in enumerate("ab", 1)]
    return kind(brokers=some, controller_id=1, cluster_id="cluster")


def elections(*parts: tuple[str, int, int]) -> Any:
    kind = message("ElectLeadersResponse")
    return kind(
        replica_election_results=[
            kind.ReplicaElectionResult(
                topic=topic, partition_result=[kind.PartitionResult(partition_id=number, error_code=code)]
            )
            for topic, number, code in parts
        ]
    )


def reassigned(*parts: tuple[str, int, int], error_code: int = 0) -> Any:
    kind = message("AlterPartitionReassignmentsResponse")
    return kind(
        error_code=error_code,
        responses=[
            kind.ReassignableTopicResponse(
                name=topic, partitions=[kind.ReassignablePartitionResponse(partition_index=number, error_code=code)]
            )
            for topic, number, code in parts
        ],
    )


def moving() -> Any:
    kind = message("ListPartitionReassignmentsResponse")
    one = kind.OngoingPartitionReassignment(
        partition_index=3, replicas=[1, 2], adding_replicas=[2], removing_replicas=[]
    )
    return kind(topics=[kind.OngoingTopicReassignment(name="t", partitions=[one])])


def test_leaders_are_elected_again_when_the_answer_was_lost() -> None:
    world, asked = play("ElectLeaders", RESET, elections(("t", 0, 0), ("t", 1, ErrorCode.ELECTION_NOT_NEEDED)))
    outcomes = world.run(placement.elect([("t", 0), ("t", 1), ("u", 0), ("t", 0)], unclean=True))
    assert outcomes["t", 0] is None and outcomes["t", 1].code == ErrorCode.ELECTION_NOT_NEEDED
    assert "does not mention it" in str(outcomes["u", 0])
    assert asked[1].election_type == 1 and [(one.topic, one.partitions) for one in asked[1].topic_partitions] == [
        ("t", [0, 1]), ("u", [0])
    ]  # fmt: skip
    world, asked = play("ElectLeaders", elections(("t", 0, 0)))
    assert world.run(placement.elect()) == {("t", 0): None} and asked[0].topic_partitions is None
    world, asked = play("ElectLeaders", message("ElectLeadersResponse")(error_code=31))
    with pytest.raises(ClientError, match="CLUSTER_AUTHORIZATION_FAILED"):
        world.run(placement.elect())


def test_moving_is_asked_again_and_giving_up_is_not() -> None:
    world, asked = play("AlterPartitionReassignments", RESET, reassigned(("t", 0, 0), ("t", 1, 39)))
    outcomes = world.run(placement.move({("t", 0): [1, 2], ("t", 1): [9]}))
    assert outcomes["t", 0] is None and "partition t/1" in str(outcomes["t", 1])
    assert [one.replicas for one in asked[1].topics[0].partitions] == [[1, 2], [9]]
    world, asked = play("AlterPartitionReassignments", RESET, reassigned(("t", 0, 0)))
    with pytest.raises(ClientError, match="may have been done or not"):
        world.run(placement.move({("t", 0): None}))
    world, asked = play("AlterPartitionReassignments", reassigned(error_code=31))
    assert "CLUSTER_AUTHORIZATION_FAILED" in str(world.run(placement.move({("t", 0): [1]}))["t", 0])
    world, asked = play("ListPartitionReassignments", moving())
    assert world.run(placement.moves()) == {("t", 3): placement.Reassignment((1, 2), (2,), ())}


CASES: dict[str, tuple[Callable[[], Steps[Any]], Any]] = {
    "DescribeAcls": (acls.describe, described(READ, DENIED)),
    "CreateAcls": (lambda: acls.create([READ, DENIED]), created(0, 0)),
    "DeleteAcls": (lambda: acls.delete(acls.EVERY), deleted((READ, 0), (DENIED, 0))),
    "DescribeUserScramCredentials": (scram.describe, users(alice=0, bob=91)),
    "AlterUserScramCredentials": (lambda: scram.upsert("alice", SALTED), altered(("alice", 0))),
    "DescribeClientQuotas": (quotas.describe, quota_entries(ALICE)),
    "AlterClientQuotas": (lambda: quotas.alter({ALICE: {"a": 1.0}}), altered_quotas((ALICE, 0))),
    "ElectLeaders": (placement.elect, elections(("t", 0, 0), ("u", 1, 84))),
    "AlterPartitionReassignments": (lambda: placement.move({("t", 0): [1]}), reassigned(("t", 0, 0))),
    "ListPartitionReassignments": (placement.moves, moving()),
    "DescribeConfigs": (lambda: configs.describe([(Kind.GROUP, "g")]), configured((32, "g", 0))),
}


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_answer_is_an_error_or_another_answer(name: str) -> None:
    """Each byte changed, and the answer cut at each place: an operation ends with a value or a ClientError."""
    steps, answer = CASES[name]
    dice = random.Random(5)
    world, _ = play(name)

    def damaged(server: Server, version: int, request: Any) -> bytes:
        (under_way,) = [one for link in world.client._links.values() for one in link.connection.under_way]
        sound = bytearray(b"".join(encode_response(name, version, under_way.correlation_id, answer)))
        body = damage(sound[8:])
        return (len(body) + 4).to_bytes(4, "big") + bytes(sound[4:8]) + bytes(body)

    ways: list[Callable[[bytearray], bytearray]] = [
        lambda body: body[: dice.randrange(len(body))],
        lambda body: body + bytes(dice.randrange(1, 9)),
        lambda body: bytearray(one if dice.random() > 0.1 else dice.randrange(256) for one in body),
    ]
    ended = {"value": 0, "error": 0}
    for turn in range(300):
        damage = ways[turn % 3]
        world = World(Server("a", 9092, {name: damaged}), retries=2)
        try:
            found = world.run(steps(), 1000)
            inside = isinstance(found, dict) and any(isinstance(one, ClientError) for one in found.values())
            ended["error" if inside else "value"] += 1
        except ClientError:
            ended["error"] += 1
    assert ended["error"] > 100, ended
