"""`--as-of`: what a cluster was like at an earlier moment, out of its metadata log.

The rows are those that the same command shows of now, as far as the metadata has them: offsets of records are none of it,
nor are defaults and files of nodes. The log is read as `rayft replay` reads it: by an observer that needs CLUSTER_ACTION at
the controllers, and as far back as the cluster has kept it.
"""

import argparse
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from actors.arrow.metadata_copy import Copy
from actors.arrow.metadata_replay import needed
from actors.authorization.resources import Operation, Pattern, Permission, Resource
from actors.authorization.rules import Rule
from actors.client.operations.configs import Config, Kind
from actors.client.operations.configs import Resource as Configured
from actors.client.operations.quorum_leader import KnownQuorum
from actors.client.operations.quotas import Entity, ordered
from actors.client.operations.tail import Tail
from actors.command.by_address.connection import connected, wrong
from actors.host.cluster_error import ClusterError
from actors.replay.columns import tables
from actors.replay.where import bound
from actors.settings.secret import HIDDEN

Row = Mapping[str, Any]
INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
SOURCES = {
    Kind.TOPIC: "topic",
    Kind.BROKER: "broker",
    Kind.CLIENT_METRICS: "client metrics",
    Kind.GROUP: "group",
}


def rows(options: argparse.Namespace, *names: str) -> list[list[Row]]:
    """The rows of tables (docs/replay.md) at the moment that `--as-of` names. Ends the command for words that name none.
    Raises ClusterError, ValueError."""
    try:
        moment = bound(options.as_of)
    except ValueError as error:
        wrong(f"--as-of: {error}".rstrip("."))
    with connected(options, first=lambda: KnownQuorum().find()) as kafka, Copy() as copy:
        copy.fill(kafka, Tail(kafka.config, needed(moment)))
        found = tables.state(copy.path, moment, names)
    return [found[name].to_pylist() for name in names]


def _of_topics(parts: Sequence[Row], names: Sequence[str]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for part in parts:
        found.setdefault(part["topic"], []).append(part)
    missing = next((name for name in names if name not in found), None)
    if missing is not None:
        raise ClusterError(
            f"topic {missing} did not exist then: rayft topic list with that --as-of shows those that did"
        )
    return found


def listed_topics(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of `topic list`."""
    all_topics, partitions = rows(options, "topics", "partitions")
    parts = _of_topics(partitions, ())
    return [
        {
            "topic": one["topic"],
            "id": one["topic_id"],
            "internal": one["topic"] in INTERNAL,
            "partitions": one["partitions"],
            "replicas": max((len(part["replicas"]) for part in parts.get(one["topic"], ())), default=0),
            "under_replicated": sum(part["under_replicated"] for part in parts.get(one["topic"], ())),
            "without_leader": sum(part["leader"] is None for part in parts.get(one["topic"], ())),
        }
        for one in sorted(all_topics, key=lambda row: str(row["topic"]))
        if not one["deleting"]
    ]


def described_topics(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of `topic describe`, without offsets. Raises ClusterError for a topic that did not exist."""
    (partitions,) = rows(options, "partitions")
    found = _of_topics(partitions, options.topics)
    return [
        {
            "topic": name,
            "id": part["topic_id"],
            "partition": part["partition"],
            "leader": part["leader"],
            "epoch": part["leader_epoch"],
            "replicas": part["replicas"],
            "isr": part["isr"],
            "offline": None,
            "earliest": None,
            "latest": None,
        }
        for name in dict.fromkeys(options.topics)
        for part in found[name]
    ]


def configs(options: argparse.Namespace, resource: Configured) -> dict[str, Config]:
    """The settings that a resource had of its own. Raises ClusterError for a topic that did not exist."""
    found, topics = rows(options, "configs", "topics")
    kind, name = resource
    if kind is Kind.TOPIC and name not in {row["topic"] for row in topics}:
        raise ClusterError(f"topic {name} did not exist then: rayft topic list with that --as-of shows those that did")
    word = tables.CONFIG_RESOURCES[int(kind)]
    source = "default of brokers" if kind is Kind.BROKER and not name else SOURCES[kind]
    return {
        row["name"]: _config(row, source) for row in found if (row["resource_type"], row["resource"]) == (word, name)
    }


def _config(row: Row, source: str) -> Config:
    sensitive = row["value"] == HIDDEN
    value = None if sensitive else row["value"]
    return Config(row["name"], value, source, False, sensitive, ((row["name"], value, source),))


def rules(options: argparse.Namespace) -> list[Rule]:
    """The access rules, in order."""
    (found,) = rows(options, "acls")
    return sorted(
        Rule(
            _number(Resource, row["resource_type"]), row["resource"], _number(Pattern, row["pattern"]), row["principal"],
            row["host"], _number(Operation, row["operation"]), _number(Permission, row["permission"]),
        )
        for row in found
    )  # fmt: skip


def _number(kind: type[IntEnum], word: str) -> int:
    """The number of a word, also where the table has a number that it has no word for."""
    return int(kind[word.upper()]) if word.upper() in kind.__members__ else int(word)


def users(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of `user list`."""
    (found,) = rows(options, "scram")
    return [{name: row[name] for name in ("user", "mechanism", "iterations")} for row in found]


def quotas(options: argparse.Namespace) -> dict[Entity, dict[str, float]]:
    """The quotas by entity."""
    (found,) = rows(options, "quotas")
    quotas: dict[Entity, dict[str, float]] = {}
    for row in found:
        entity = ordered((part["type"], part["name"]) for part in row["entity"])
        quotas.setdefault(entity, {})[row["quota"]] = row["value"]
    return quotas
