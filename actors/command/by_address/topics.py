"""`rayft topic`, once it runs."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from actors.client.errors import ClientError, NotInTime
from actors.client.metadata import Topic
from actors.client.operations import configs
from actors.client.operations import topics as operations
from actors.client.operations.offsets import EARLIEST, LATEST, TRIES_SAMPLED, Found, list_offsets
from actors.command.by_address.connection import connected, wrong
from actors.command.output import listing
from actors.command.output.listing import BOOL, INT, INTS, LONG, TEXT, Listing
from actors.host.client.blocking import Kafka
from actors.printable import printable
from actors.why.phrases import counted
from actors.wire.errors import ErrorCode
from actors.wire.messages import ZERO_UUID

LISTED = Listing(
    {"topic": TEXT, "id": TEXT, "internal": BOOL, "partitions": INT, "replicas": INT, "under_replicated": INT,
     "without_leader": INT},
    ("topic", "partitions", "replicas", "under_replicated", "without_leader"),
    dict.fromkeys(("under_replicated", "without_leader"), lambda count: count > 0),
)  # fmt: skip
DESCRIBED = Listing(
    {"topic": TEXT, "id": TEXT, "partition": INT, "leader": INT, "epoch": INT, "replicas": INTS, "isr": INTS,
     "offline": INTS, "earliest": LONG, "latest": LONG},
    ("topic", "partition", "leader", "epoch", "replicas", "isr", "earliest", "latest"),
    {"leader": lambda leader: leader is None},
)  # fmt: skip
SETTINGS = Listing({"name": TEXT, "value": TEXT, "source": TEXT})
OFFSETS_S = 15.0
"""How long the offsets of all described partitions may take, s."""


def told(kind: str, outcomes: Mapping[Any, ClientError | None], done: str) -> int:
    """Print what came of each thing. Returns the exit code: 1 if one was refused."""
    for name, error in outcomes.items():
        if error is None:
            print(f"{done} {kind} {name}")
        elif error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            print(f"rayft: {kind} {name} does not exist", file=sys.stderr)
        else:
            print(f"rayft: {error}", file=sys.stderr)
    return 1 if any(error is not None for error in outcomes.values()) else 0


def pairs(given: Iterable[str], example: str = "retention.ms=3600000") -> dict[str, str]:
    """Settings out of texts NAME=VALUE, as typed. Ends the command for anything else, with an example."""
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name.strip():
            wrong(f"{one!r} is no setting: write NAME=VALUE, as in {example}")
        found[name.strip()] = value
    return found


def _list(options: argparse.Namespace) -> int:
    if options.as_of is not None:
        from actors.command.by_address.metadata_log import moment

        rows = moment.listed_topics(options)
    else:
        with connected(options) as kafka:
            rows = [_listed(one) for _, one in sorted(kafka.run(operations.describe()).items())]
    listing.show([one for one in rows if options.internal or not one["internal"]], LISTED, options.output)
    return 0


def _listed(topic: Topic) -> dict[str, Any]:
    parts = topic.partitions.values()
    return {
        "topic": topic.name,
        "id": _id(topic),
        "internal": topic.internal,
        "partitions": len(parts),
        "replicas": max((len(one.replicas) for one in parts), default=0),
        "under_replicated": sum(len(one.isr) < len(one.replicas) for one in parts),
        "without_leader": sum(one.leader < 0 for one in parts),
    }


def _id(topic: Topic) -> str | None:
    from actors.host.work.system_random import uuid_text

    return None if topic.id == ZERO_UUID else uuid_text(topic.id)


def _describe(options: argparse.Namespace) -> int:
    if options.as_of is not None:
        from actors.command.by_address.metadata_log import moment

        columns = [name for name in DESCRIBED.table if name not in ("earliest", "latest")]
        listing.show(moment.described_topics(options), DESCRIBED._replace(table=columns), options.output)
        return 0
    with connected(options) as kafka:
        found = kafka.run(operations.describe(options.topics))
        led = [
            (one.name, part.number) for one in found.values() for part in one.partitions.values() if part.leader >= 0
        ]
        earliest, latest = _offsets(kafka, led, EARLIEST), _offsets(kafka, led, LATEST)
    rows = [
        {
            "topic": topic.name,
            "id": _id(topic),
            "partition": number,
            "leader": part.leader if part.leader >= 0 else None,
            "epoch": part.leader_epoch if part.leader_epoch >= 0 else None,
            "replicas": list(part.replicas),
            "isr": list(part.isr),
            "offline": list(part.offline),
            "earliest": earliest.get((topic.name, number)),
            "latest": latest.get((topic.name, number)),
        }
        for topic in found.values()
        for number, part in sorted(topic.partitions.items())
    ]
    listing.show(rows, DESCRIBED, options.output)
    return 0


def _offsets(kafka: Kafka, parts: list[tuple[str, int]], at: int) -> dict[tuple[str, int], int]:
    """The offset of each partition whose leader tells it."""
    try:
        found = kafka.run(list_offsets(parts, at, tries=TRIES_SAMPLED), OFFSETS_S)
    except NotInTime as error:
        print(f"rayft: offsets are not shown: {error}", file=sys.stderr)
        return {}
    lacks = [one for one in found.values() if isinstance(one, ClientError)]
    if lacks:
        count = f"{len(lacks)} of {counted(len(parts), 'partition')}"
        print(f"rayft: offsets of {count} are not shown: {lacks[0]}", file=sys.stderr)
    return {part: one.offset for part, one in found.items() if isinstance(one, Found)}


def _create(options: argparse.Namespace) -> int:
    for what, count in (("--partitions", options.partitions), ("--replicas", options.replicas)):
        if count < 1 and count != -1:
            wrong(f"{what} {count} is not possible: write 1 or more")
    values = pairs(options.set)
    wanted = [operations.NewTopic(name, options.partitions, options.replicas, values) for name in options.topics]
    with connected(options) as kafka:
        return told("topic", kafka.run(operations.create(wanted)), "created")


def _delete(options: argparse.Namespace) -> int:
    with connected(options) as kafka:
        return told("topic", kafka.run(operations.delete(dict.fromkeys(options.topics))), "deleted")


def _get(options: argparse.Namespace) -> int:
    resource = configs.Kind.TOPIC, options.topic
    with connected(options) as kafka:
        found = kafka.run(configs.describe([resource], options.names or None))[resource]
    if isinstance(found, ClientError):
        return told("topic", {options.topic: found}, "")
    missing = [name for name in options.names if name not in found]
    if missing:
        raise ValueError(f"a topic has no setting {missing[0]}: rayft topic config get {options.topic} shows all.")
    rows = [{"name": one.name, "value": one.value, "source": one.source} for _, one in sorted(found.items())]
    if options.output == "table":
        for row in rows:
            print(printable(f"{row['name']}={'' if row['value'] is None else row['value']}"))
    else:
        listing.show(rows, SETTINGS, options.output)
    return 0


def _set(options: argparse.Namespace) -> int:
    return _alter(options, {name: (configs.Op.SET, value) for name, value in pairs(options.values).items()})


def _unset(options: argparse.Namespace) -> int:
    return _alter(options, {name: (configs.Op.DELETE, None) for name in options.names})


def _alter(options: argparse.Namespace, changes: Mapping[str, tuple[configs.Op, str | None]]) -> int:
    with connected(options) as kafka:
        found = kafka.run(configs.alter({(configs.Kind.TOPIC, options.topic): changes}))
    return told("topic", {name: error for (_, name), error in found.items()}, "changed")


VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list, "describe": _describe, "create": _create, "delete": _delete, "get": _get, "set": _set, "unset": _unset,
}  # fmt: skip
