"""Configurations: whom a question or a change goes to, and what is made of the answers."""

from typing import Any

import pytest

from actors.client.errors import ClientError
from actors.client.operations import configs
from actors.client.operations.configs import Config, Kind, Op
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.client.servers import Server, World

DESCRIBED, ALTERED = message("DescribeConfigsResponse"), message("IncrementalAlterConfigsResponse")


def described(server: Server, version: int, request: Any) -> Any:
    """A setting that says which server has answered; a resource named `gone` does not exist, `silent` is left out."""
    rows = []
    for one in request.resources:
        if one.resource_name == "silent":
            continue
        code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) if one.resource_name == "gone" else 0
        synonym = DESCRIBED.DescribeConfigsSynonym(name="x", value="0", source=5)
        told = DESCRIBED.DescribeConfigsResourceResult(
            name="at", value=server.host, config_source=4, is_sensitive=False, read_only=True, synonyms=[synonym]
        )
        rows.append(
            DESCRIBED.DescribeConfigsResult(
                resource_type=one.resource_type, resource_name=one.resource_name, error_code=code,
                configs=[] if code else [told],
            )
        )  # fmt: skip
    return DESCRIBED(results=rows)


def altered(server: Server, version: int, request: Any) -> Any:
    kind = ALTERED.AlterConfigsResourceResponse
    return ALTERED(
        responses=[kind(resource_type=one.resource_type, resource_name=one.resource_name) for one in request.resources]
    )


def world() -> World:
    return World(
        *(Server(host, 1, {"DescribeConfigs": described, "IncrementalAlterConfigs": altered}) for host in "abc")
    )


def asked(made: World, name: str) -> dict[str, list[tuple[int, str]]]:
    """Host -> the resources that it was asked for, or to change."""
    found: dict[str, list[tuple[int, str]]] = {}
    for server in made.servers.values():
        for api, _, request in server.asked:
            if api == name:
                found.setdefault(server.host, []).extend(
                    (one.resource_type, one.resource_name) for one in request.resources
                )
    return found


def test_a_broker_is_asked_itself_and_of_the_others_any() -> None:
    made = world()
    wanted = [(Kind.TOPIC, "t"), (Kind.BROKER, "3"), (Kind.BROKER, "2"), (Kind.BROKER, ""), (Kind.BROKER_LOGGER, "3")]
    found = made.run(configs.describe(wanted))
    told = {resource: one["at"].value for resource, one in found.items()}
    assert told[Kind.BROKER, "3"] == told[Kind.BROKER_LOGGER, "3"] == "c" and told[Kind.BROKER, "2"] == "b"
    assert set(told) == set(wanted) and told[Kind.TOPIC, "t"] == told[Kind.BROKER, ""]
    one = found[Kind.BROKER, "2"]["at"]
    assert one == Config("at", "b", "file", True, False, (("x", "0", "default"),))


def test_of_what_cannot_be_told_there_is_an_error_beside_the_others() -> None:
    wanted = [(Kind.TOPIC, "gone"), (Kind.GROUP, "silent"), (Kind.BROKER, "9"), (Kind.TOPIC, "t")]
    found = world().run(configs.describe(wanted))
    assert found[Kind.TOPIC, "gone"].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert str(found[Kind.GROUP, "silent"]) == "group silent: the answer does not mention it"
    assert "broker 9 is not among the brokers" in str(found[Kind.BROKER, "9"]) and "at" in found[Kind.TOPIC, "t"]


@pytest.mark.parametrize("name", ["", "x", "\u00b2", "\u0663", "-1"])
def test_what_is_no_number_of_a_broker_is_for_any_broker_to_refuse(name: str) -> None:
    made = world()
    assert "at" in made.run(configs.describe([(Kind.BROKER, name)]))[Kind.BROKER, name]
    assert made.run(configs.alter({(Kind.BROKER, name): {"a": (Op.SET, "1")}})) == {(Kind.BROKER, name): None}
    assert list(asked(made, "IncrementalAlterConfigs")) == ["a"], "the controller"


def test_a_change_goes_to_the_controller_and_that_of_a_broker_to_itself() -> None:
    made = world()
    changes = {
        (Kind.TOPIC, "t"): {"a": (Op.SET, "1"), "b": (Op.DELETE, None)},
        (Kind.BROKER, "2"): {"a": (Op.APPEND, "x")},
        (Kind.BROKER, ""): {"a": (Op.SET, "2")},
        (Kind.GROUP, "g"): {"a": (Op.SUBTRACT, "x")},
    }
    assert made.run(configs.alter(changes)) == dict.fromkeys(changes)
    assert asked(made, "IncrementalAlterConfigs") == {
        "a": [(Kind.TOPIC, "t"), (Kind.BROKER, ""), (Kind.GROUP, "g")], "b": [(Kind.BROKER, "2")],
    }  # fmt: skip
    (request,) = [row[2] for row in made.servers["b", 1].asked if row[0] == "IncrementalAlterConfigs"]
    (one,) = request.resources[0].configs
    assert (one.name, one.config_operation, one.value) == ("a", Op.APPEND, "x") and not request.validate_only


def test_a_broker_that_is_away_fails_the_whole_change() -> None:
    with pytest.raises(ClientError, match="broker 9 is not among the brokers"):
        world().run(configs.alter({(Kind.BROKER, "9"): {"a": (Op.SET, "1")}}))
