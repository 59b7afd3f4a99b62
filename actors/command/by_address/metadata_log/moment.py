"""`--as-of`: what a cluster was like at an earlier moment, out of its metadata log.

The rows are those that the same command shows of now, as far as the metadata has them: offsets of records are none of it,
nor are defaults and files of nodes. The log is read as `rayft replay` reads it: by an observer that needs CLUSTER_ACTION at
the controllers, and as far back as the cluster has kept it.
"""

import argparse
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from actors.arrow.metadata_replay import needed
from actors.authorization.access_rules import Rule
from actors.authorization.resources import Operation, Pattern, Permission, Resource
from actors.client.operations.configs import Config, Kind
from actors.client.operations.configs import Resource as Configured
from actors.client.operations.quorum_leader import KnownQuorum
from actors.client.operations.quotas import Entity, ordered
from actors.command.by_address.connection import connected, wrong
from actors.command.by_address.metadata_log.private_copy import private_copy
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


def tables_of(options: argparse.Namespace, *names: str) -> list[pa.Table]:
    """The tables (docs/replay.md) of the moment that `--as-of` names. Ends the command for words that name none. Raises
    ClusterError, ValueError."""
    try:
        moment = bound(options.as_of)
    except ValueError as error:
        wrong(f"--as-of: {error}".rstrip("."))
    with (
        connected(options, first=lambda: KnownQuorum().find()) as kafka,
        private_copy(kafka, needed(moment)) as path,
    ):
        found = tables.state(path, moment, names)
    return [found[name] for name in names]


def listed_topics(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of `topic list`. Partitions are counted in columns, as there may be a million of them."""
    topics, parts = tables_of(options, "topics", "partitions")
    sizes = parts.append_column("size", pc.list_value_length(parts["replicas"]))
    counted = sizes.group_by("topic").aggregate(
        [("size", "max"), ("under_replicated", "sum"), ("leader", "count", pc.CountOptions(mode="only_null"))]
    )
    of = {row["topic"]: row for row in counted.to_pylist()}
    rows = [_listed(one, of.get(one["topic"], {})) for one in topics.to_pylist() if not one["deleting"]]
    return sorted(rows, key=lambda row: str(row["topic"]))


def _listed(topic: Row, counted: Row) -> dict[str, Any]:
    return {
        "topic": topic["topic"],
        "id": topic["topic_id"],
        "internal": topic["topic"] in INTERNAL,
        "partitions": topic["partitions"],
        "replicas": counted.get("size_max", 0),
        "under_replicated": counted.get("under_replicated_sum", 0),
        "without_leader": counted.get("leader_count", 0),
    }


def described_topics(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of `topic describe`, without offsets. Raises ClusterError for a topic that did not exist."""
    (parts,) = tables_of(options, "partitions")
    names = list(dict.fromkeys(options.topics))
    wanted = parts.filter(pc.is_in(parts["topic"], pa.array(names, pa.string())))
    found: dict[str, list[dict[str, Any]]] = {}
    for part in wanted.to_pylist():
        found.setdefault(part["topic"], []).append(_described(part))
    for name in names:
        if name not in found:
            raise _no_topic(name)
    return [row for name in names for row in found[name]]


def _described(part: Row) -> dict[str, Any]:
    same = {name: part[name] for name in ("topic", "partition", "leader", "replicas", "isr")}
    others = dict.fromkeys(("offline", "earliest", "latest"))
    return {**same, "id": part["topic_id"], "epoch": part["leader_epoch"], **others}


def _no_topic(name: str) -> ClusterError:
    return ClusterError(f"topic {name} did not exist then: rayft topic list with that --as-of shows those that did")


def configs(options: argparse.Namespace, resource: Configured) -> dict[str, Config]:
    """The settings that a resource had of its own. Raises ClusterError for a topic that did not exist."""
    found, topics = tables_of(options, "configs", "topics")
    kind, name = resource
    if kind is Kind.TOPIC and name not in topics["topic"].to_pylist():
        raise _no_topic(name)
    word = tables.CONFIG_RESOURCES[int(kind)]
    source = "default of brokers" if kind is Kind.BROKER and not name else SOURCES[kind]
    return {
        row["name"]: _config(row, source)
        for row in found.to_pylist()
        if (row["resource_type"], row["resource"]) == (word, name)
    }


def _config(row: Row, source: str) -> Config:
    sensitive = row["value"] == HIDDEN
    value = None if sensitive else row["value"]
    return Config(row["name"], value, source, False, sensitive, ((row["name"], value, source),))


def rules(options: argparse.Namespace) -> list[Rule]:
    """The access rules, in order."""
    (found,) = tables_of(options, "acls")
    return sorted(
        Rule(
            _number(Resource, row["resource_type"]), row["resource"], _number(Pattern, row["pattern"]), row["principal"],
            row["host"], _number(Operation, row["operation"]), _number(Permission, row["permission"]),
        )
        for row in found.to_pylist()
    )  # fmt: skip


def _number(kind: type[IntEnum], word: str) -> int:
    """The number of a word, also where the table has a number that it has no word for."""
    return int(kind[word.upper()]) if word.upper() in kind.__members__ else int(word)


def users(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of `user list`."""
    (found,) = tables_of(options, "scram")
    return [{name: row[name] for name in ("user", "mechanism", "iterations")} for row in found.to_pylist()]


def quotas(options: argparse.Namespace) -> dict[Entity, dict[str, float]]:
    """The quotas by entity."""
    (found,) = tables_of(options, "quotas")
    quotas: dict[Entity, dict[str, float]] = {}
    for row in found.to_pylist():
        entity = ordered((part["type"], part["name"]) for part in row["entity"])
        quotas.setdefault(entity, {})[row["quota"]] = row["value"]
    return quotas
