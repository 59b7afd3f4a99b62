"""A long request that is answered in pieces has the answer that it would have had as a whole."""

from collections.abc import Iterable
from typing import Any

import pytest

from actors.controller.refusals import REFUSALS, refusal
from actors.node.api.security.denied import REPLIES
from actors.wire.errors import ErrorCode
from actors.wire.messages import encode, message
from actors.wire.pieces import join, pieces

MOST = 30


def in_pieces(request: Any) -> tuple[Any, Any]:
    """The reply to the whole, and the one that its pieces' replies add up to."""
    name = request.__schema__.head.name.removesuffix("Request")

    def reply_to(one: Any) -> Any:
        return refusal(one, ErrorCode.NOT_CONTROLLER, -1) if name in REFUSALS else REPLIES[name](one)

    reply: Any = None
    for piece in pieces(request, MOST):
        if reply is None:
            reply = reply_to(piece.request)
        else:
            join(reply, reply_to(piece.request), piece.inside)
    return reply_to(request), reply


def made(name: str, **fields: Any) -> Any:
    return message(f"{name}Request")(**fields)


def of(name: str, struct: str, fields: Iterable[dict[str, Any]]) -> list[Any]:
    cls = getattr(message(f"{name}Request"), struct)
    return [cls(**one) for one in fields]


def quotas(entities: int, changes: int) -> Any:
    name = "AlterClientQuotas"
    ops = of(name, "OpData", ({"key": f"k{number}", "value": 1.0} for number in range(changes)))
    entries = (
        {"entity": of(name, "EntityData", [{"entity_type": "user", "entity_name": f"u{one}"}]), "ops": ops}
        for one in range(entities)
    )
    return made(name, entries=of(name, "EntryData", entries), validate_only=False)


def grown(topics: int, partitions: int) -> Any:
    name = "CreatePartitions"
    places = of(name, "CreatePartitionsAssignment", ({"broker_ids": [1, 2, 3]} for _ in range(partitions)))
    found = ({"name": f"t{one}", "count": partitions, "assignments": places} for one in range(topics))
    return made(name, topics=of(name, "CreatePartitionsTopic", found), timeout_ms=1, validate_only=False)


def configured(name: str, struct: str, resources: int, settings: int) -> Any:
    configs = of(name, struct, ({"name": f"c{number}", "value": "x"} for number in range(settings)))
    found = (
        {"resource_type": 2, "resource_name": f"t{one}", "configs": configs} for one in range(resources)
    )  # fmt: skip
    return made(name, resources=of(name, "AlterConfigsResource", found), validate_only=False)


def elected(*counts: int) -> Any:
    """The same topic again and again: what a request names twice is answered twice."""
    found = ({"topic": "t", "partitions": list(range(count))} for count in counts)
    return made("ElectLeaders", topic_partitions=of("ElectLeaders", "TopicPartitions", found), timeout_ms=1)


def marked(markers: int, topics: int, partitions: int) -> Any:
    name = "WriteTxnMarkers"
    places = [{"name": f"t{one}", "partition_indexes": list(range(partitions))} for one in range(topics)]
    found = (
        {"producer_id": 7, "producer_epoch": 1, "transaction_result": True, "coordinator_epoch": 1,
         "topics": of(name, "WritableTxnMarkerTopic", places)}
        for _ in range(markers)
    )  # fmt: skip
    return made(name, markers=of(name, "WritableTxnMarker", found))


def rules(count: int) -> Any:
    one = {
        "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a", "host": "*",
        "operation": 3, "permission_type": 3,
    }  # fmt: skip
    return made("CreateAcls", creations=of("CreateAcls", "AclCreation", [one] * count))


@pytest.mark.parametrize(
    "request_",
    [
        quotas(200, 1), quotas(3, 100), quotas(29, 2), grown(200, 0), grown(2, 100), grown(1, 0),
        configured("IncrementalAlterConfigs", "AlterableConfig", 3, 70),
        configured("AlterConfigs", "AlterableConfig", 90, 1),
        elected(29, 1), elected(28, 28, 28), elected(100, 100), elected(0, 0, 200), elected(),
        marked(40, 1, 1), marked(3, 5, 40), marked(2, 50, 1), rules(100), rules(1),
    ],
)  # fmt: skip
def test_pieces_add_up_to_the_answer_to_the_whole(request_: Any) -> None:
    whole, joined = in_pieces(request_)
    version = 2 if "ElectLeaders" in type(whole).__name__ else 1
    assert joined == whole
    assert bytes(encode(joined, version)) == bytes(encode(whole, version))
