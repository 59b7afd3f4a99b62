"""The answer of a controller that is not active has its error where clients look for it, for each thing that was named."""

from typing import Any

import pytest

from actors.client.client import error_codes
from actors.controller.refusals import REFUSALS, refusal
from actors.wire.errors import ErrorCode
from actors.wire.messages import Message, message

CODE = ErrorCode.NOT_CONTROLLER


def strings(value: Any) -> list[str]:
    """All names in an answer."""
    found = []
    for field in value.__layout__.names:
        held = getattr(value, field)
        if field in ("name", "user", "resource_name", "entity_name", "topic"):
            found.append(held)
        for one in held if isinstance(held, list) else ():
            if isinstance(one, Message):
                found += strings(one)
    return found


def topics(name: str, entry: str, **fields: Any) -> Any:
    kind = message(f"{name}Request")
    return kind(topics=[getattr(kind, entry)(name=one, **fields) for one in ("a", "b", "a")])


def configs(name: str) -> Any:
    kind = message(f"{name}Request")
    return kind(resources=[kind.AlterConfigsResource(resource_type=2, resource_name=one) for one in "ab"])


def named() -> list[tuple[Any, list[str]]]:
    elect, move = message("ElectLeadersRequest"), message("AlterPartitionReassignmentsRequest")
    scram, quotas = message("AlterUserScramCredentialsRequest"), message("AlterClientQuotasRequest")
    return [
        (topics("CreateTopics", "CreatableTopic"), ["a", "b"]),
        (topics("CreatePartitions", "CreatePartitionsTopic"), ["a", "b"]),
        (message("DeleteTopicsRequest")(topic_names=["a", "b", "a"]), ["a", "b"]),
        (elect(topic_partitions=[elect.TopicPartitions(topic="a", partitions=[0, 1])]), ["a"]),
        (move(topics=[move.ReassignableTopic(name="a", partitions=[move.ReassignablePartition()])]), ["a"]),
        (configs("AlterConfigs"), ["a", "b"]),
        (configs("IncrementalAlterConfigs"), ["a", "b"]),
        (
            scram(
                deletions=[scram.ScramCredentialDeletion(name=one, mechanism=1) for one in "ca"],
                upsertions=[scram.ScramCredentialUpsertion(name=one, mechanism=2) for one in "ab"],
            ),
            ["c", "a", "b"],
        ),
        (quotas(entries=[quotas.EntryData(entity=[quotas.EntityData(entity_type="user", entity_name="a")])]), ["a"]),
    ]  # fmt: skip


@pytest.mark.parametrize(("request_", "names"), named(), ids=lambda one: type(one).__name__)
def test_each_thing_that_was_named_is_refused_once(request_: Any, names: list[str]) -> None:
    reply = refusal(request_, CODE, 1002)
    assert strings(reply) == names and set(error_codes(reply)) == {int(CODE)}


@pytest.mark.parametrize("name", ["CreateAcls", "DeleteAcls"])
def test_rules_are_refused_by_their_place(name: str) -> None:
    kind = message(f"{name}Request")
    entries = (
        {"creations": [kind.AclCreation()] * 3} if name == "CreateAcls" else {"filters": [kind.DeleteAclsFilter()] * 3}
    )
    assert list(error_codes(refusal(kind(**entries), CODE, -1))) == [int(CODE)] * 3


@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_a_request_that_names_nothing_gets_an_answer_of_its_api(name: str) -> None:
    kind = (
        message(f"v28:{name}Request")
        if name in ("BrokerHeartbeat", "ControllerHeartbeat")
        else message(f"{name}Request")
    )
    reply = refusal(kind(), CODE, 1002)
    assert reply.__schema__.head.name == f"{name}Response"
    if name == "BrokerHeartbeat":
        assert (reply.active_controller_id, reply.broker_epoch, reply.error_code) == (1002, -1, CODE)


def test_an_api_that_controllers_do_not_serve_is_not_refused_here() -> None:
    with pytest.raises(KeyError):
        refusal(message("ProduceRequest")(), CODE, -1)
