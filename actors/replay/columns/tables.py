"""An image as Arrow tables.

This file alone decides which tables there are and their columns (docs/replay.md lists them). Partitions are copied from
the image's columns without an object for each row; the other tables are small and are built row by row. Secrets are
left out: credentials and tokens appear by name only, and secret values of configurations as `(hidden)`.
"""

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from actors.metadata.ops import NO_UUID
from actors.printable import html_table
from actors.replay.columns.arrow import lists, plain, sizes, texts
from actors.replay.columns.as_of import AsOf, Replay, replay
from actors.replay.columns.moment import Moment
from actors.replay.logs.chunks import ChunkReading
from actors.replay.logs.files import Damage
from actors.settings.secret import shown
from fastpath.arrow import partition_columns

IDS = pa.list_(pa.int32())
ENDPOINT = pa.struct([("name", pa.string()), ("host", pa.string()), ("port", pa.int32()), ("protocol", pa.string())])
RANGE = pa.struct([("name", pa.string()), ("min", pa.int16()), ("max", pa.int16())])

SCHEMAS: Mapping[str, pa.Schema] = {
    "topics": pa.schema(
        [
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("partitions", pa.int32()),
            ("deleting", pa.bool_()),
        ]
    ),
    "partitions": pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("leader", pa.int32()),
            ("leader_epoch", pa.int32()),
            ("replicas", IDS),
            ("isr", IDS),
            ("under_replicated", pa.bool_()),
            ("partition_epoch", pa.int32()),
            ("adding", IDS),
            ("removing", IDS),
            ("elr", IDS),
            ("last_known_elr", IDS),
            ("recovering", pa.bool_()),
            ("directories", pa.list_(pa.string())),
            ("topic_id", pa.string()),
        ]
    ),
    "brokers": pa.schema(
        [
            ("broker", pa.int32()),
            ("epoch", pa.int64()),
            ("fenced", pa.bool_()),
            ("leaving", pa.bool_()),
            ("rack", pa.string()),
            ("endpoints", pa.list_(ENDPOINT)),
            ("features", pa.list_(RANGE)),
            ("replicas", pa.int32()),
            ("led", pa.int32()),
            ("in_isr", pa.int32()),
            ("incarnation_id", pa.string()),
            ("log_dirs", pa.list_(pa.string())),
            ("cordoned_log_dirs", pa.list_(pa.string())),
        ]
    ),
    "configs": pa.schema(
        [("resource_type", pa.string()), ("resource", pa.string()), ("name", pa.string()), ("value", pa.string())]
    ),
    "features": pa.schema([("feature", pa.string()), ("level", pa.int16())]),
    "acls": pa.schema(
        [
            ("resource_type", pa.string()),
            ("resource", pa.string()),
            ("pattern", pa.string()),
            ("principal", pa.string()),
            ("host", pa.string()),
            ("operation", pa.string()),
            ("permission", pa.string()),
            ("id", pa.string()),
        ]
    ),
    "quotas": pa.schema(
        [
            ("entity", pa.list_(pa.struct([("type", pa.string()), ("name", pa.string())]))),
            ("quota", pa.string()),
            ("value", pa.float64()),
        ]
    ),
    "scram": pa.schema([("user", pa.string()), ("mechanism", pa.string()), ("iterations", pa.int32())]),
    "tokens": pa.schema(
        [
            ("token", pa.string()),
            ("owner", pa.string()),
            ("requester", pa.string()),
            ("renewers", pa.list_(pa.string())),
            ("issued", pa.timestamp("ms", "UTC")),
            ("expires", pa.timestamp("ms", "UTC")),
            ("expires_at_last", pa.timestamp("ms", "UTC")),
        ]
    ),
    "controllers": pa.schema(
        [
            ("controller", pa.int32()),
            ("voter", pa.bool_()),
            ("leader", pa.bool_()),
            ("directory_id", pa.string()),
            ("endpoints", pa.list_(ENDPOINT)),
            ("incarnation_id", pa.string()),
        ]
    ),
    "producer_ids": pa.schema([("broker", pa.int32()), ("broker_epoch", pa.int64()), ("next_producer_id", pa.int64())]),
}
TABLES = tuple(SCHEMAS)


class Tables(dict[str, pa.Table]):
    """The tables of a moment by name: a dict, which a notebook shows as one table of how many rows each has."""

    def _repr_html_(self) -> str:
        rows = ((name, f"{len(one):,}", ", ".join(one.column_names)) for name, one in self.items())
        return html_table(("table", "rows", "columns"), rows, len(self))


PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
CONFIG_RESOURCES = {2: "topic", 4: "broker", 8: "broker_logger", 16: "client_metrics", 32: "group"}
ACL_RESOURCES = {2: "topic", 3: "group", 4: "cluster", 5: "transactional_id", 6: "delegation_token", 7: "user"}
PATTERNS = {3: "literal", 4: "prefixed"}
OPERATIONS = {
    2: "all", 3: "read", 4: "write", 5: "create", 6: "delete", 7: "alter", 8: "describe", 9: "cluster_action",
    10: "describe_configs", 11: "alter_configs", 12: "idempotent_write", 13: "create_tokens", 14: "describe_tokens",
    15: "two_phase_commit",
}  # fmt: skip
PERMISSIONS = {2: "deny", 3: "allow"}
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


def table(name: str, of: Replay | Moment) -> pa.Table:
    """One table of the metadata at a moment. Raises ValueError for a name that does not exist."""
    if name not in SCHEMAS:
        raise ValueError(f"there is no table {name!r} of a moment, only {', '.join(TABLES)}")
    moment = of if isinstance(of, Moment) else of.moment()
    if name == "partitions":
        return partitions(moment)
    return pa.Table.from_pylist(ROWS[name](moment), SCHEMAS[name])


def state(
    path: str | Path,
    as_of: AsOf = None,
    tables: Sequence[str] | None = None,
    family: str | None = None,
    verify: bool = True,
    on_damage: Callable[[Damage], None] | None = None,
) -> dict[str, pa.Table]:
    """The metadata under a path as of an offset or a time: one Arrow table for each name, all of them or the given
    ones.

    `as_of`: an offset (exclusive), a time (inclusive), or None: now. Raises NothingToRead, CorruptLog, FamilyUnknown.
    """
    found = replay(path, as_of, family, ChunkReading.of(verify, on_damage)).moment()
    return Tables({name: table(name, found) for name in (TABLES if tables is None else tables)})


def uuid(raw: bytes) -> str:
    """A uuid as Kafka writes it: 22 characters of base64 for URLs."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _named(numbers: Mapping[int, str], number: int) -> str:
    return numbers.get(number, str(number))


# ---- partitions ---------------------------------------------------------------------------------------------------


def partitions(
    moment: Moment,
    rows: "np.ndarray[Any, np.dtype[np.int64]] | None" = None,
    names: Collection[str] | None = None,
) -> pa.Table:
    """Partitions by topic and number; or the given rows of the moment, in their order. `names`: the columns that are made;
    None: all. Texts and lists of a million partitions cost most of what the table does."""
    columns = moment.columns
    rows = moment.rows if rows is None else rows
    found = partition_columns.partitions(columns, rows)
    count = len(rows)
    rare = {int(at): columns.extra(int(rows[at])) for at in found["rare"]}

    @cache
    def topics() -> tuple[Any, list[int]]:
        """(the place of each row's topic, those topics)"""
        places = np.zeros(moment.topic_rows_end, dtype=np.int32)
        places[found["topic"]] = 1
        touched = np.flatnonzero(places)
        places[touched] = np.arange(len(touched), dtype=np.int32)
        return plain(places[found["topic"]]), touched.tolist()

    @cache
    def isr() -> pa.Array:
        if any(len(columns.replicas(int(rows[at]))) > 32 for at in rare):
            return pa.array([columns.isr(int(row)) for row in rows], IDS)
        return ids_of(*found["isr"])

    def recovering() -> Any:
        made = np.zeros(count, dtype=bool)
        made[[at for at, extra in rare.items() if extra.recovery]] = True
        return plain(made)

    def directories() -> Any:
        known, (offsets, numbers) = columns.directory_ids, found["directories"]
        ids = texts([uuid(known.value(i)) for i in range(len(known))])
        return lists(offsets, ids.take(plain(numbers)))

    def sparse(name: str) -> Callable[[], Any]:
        return lambda: _sparse(count, {at: getattr(extra, name) for at, extra in rare.items() if getattr(extra, name)})

    made: dict[str, Callable[[], Any]] = {
        "topic": lambda: texts([moment.topic_name(topic) for topic in topics()[1]]).take(topics()[0]),
        "partition": lambda: plain(found["number"]),
        "leader": lambda: _id(found["leader"]),
        "leader_epoch": lambda: plain(found["leader_epoch"]),
        "replicas": lambda: ids_of(*found["replicas"]),
        "isr": isr,
        "under_replicated": lambda: plain(sizes(isr()) < np.diff(found["replicas"][0])),
        "partition_epoch": lambda: plain(found["partition_epoch"]),
        "recovering": recovering,
        "directories": directories,
        "topic_id": lambda: texts([uuid(columns.topic_id(topic) or NO_UUID) for topic in topics()[1]]).take(
            topics()[0]
        ),
        **{name: sparse(name) for name in ("adding", "removing", "elr", "last_known_elr")},
    }
    schema = SCHEMAS["partitions"]
    if names is not None:
        schema = pa.schema([one for one in schema if one.name in names])
    return pa.Table.from_arrays([made[name]() for name in schema.names], schema=schema)


def ids_of(offsets: Any, values: Any) -> pa.Array:
    """Lists of broker ids over numpy's memory, without a copy."""
    return lists(offsets, plain(values))


def _id(ids: Any) -> pa.Array:
    """Broker ids, with null for -1."""
    return plain(ids, valid=ids >= 0)


def _sparse(count: int, some: Mapping[int, Sequence[int]]) -> pa.Array:
    """Lists that are empty in nearly every row."""
    sizes = np.zeros(count + 1, dtype=np.int32)
    for at, values in some.items():
        sizes[at + 1] = len(values)
    flat = [value for at in sorted(some) for value in some[at]]
    return ids_of(np.cumsum(sizes, dtype=np.int32), np.array(flat, dtype=np.int32))


# ---- the others: few rows -----------------------------------------------------------------------------------------

Rows = list[dict[str, Any]]


def _topics(moment: Moment) -> Rows:
    return [
        {
            "topic": moment.topic_name(row),
            "topic_id": uuid(topic_id),
            "partitions": moment.columns.partition_count(row),
            "deleting": moment.is_deleted(row),
        }
        for topic_id, row in sorted(moment.topic_rows, key=lambda one: moment.topic_name(one[1]))
    ]


def _endpoints(endpoints: Sequence[Sequence[Any]]) -> Rows:
    return [
        {"name": name, "host": host, "port": port, "protocol": _named(PROTOCOLS, rest[0]) if rest else None}
        for name, host, port, *rest in endpoints
    ]


def _brokers(moment: Moment) -> Rows:
    rows = []
    for one in moment.brokers():
        replicas, led, in_isr = moment.counts(one.id)
        rows.append(
            {
                "broker": one.id,
                "epoch": one.epoch,
                "fenced": one.fenced,
                "leaving": one.in_controlled_shutdown,
                "rack": one.rack,
                "endpoints": _endpoints(one.endpoints),
                "features": [{"name": name, "min": low, "max": high} for name, low, high in one.features],
                "replicas": replicas,
                "led": led,
                "in_isr": in_isr,
                "incarnation_id": uuid(one.incarnation_id),
                "log_dirs": [uuid(one_dir) for one_dir in one.log_dirs],
                "cordoned_log_dirs": [uuid(one_dir) for one_dir in one.cordoned_log_dirs],
            }
        )
    return rows


def _configs(moment: Moment) -> Rows:
    return [
        {
            "resource_type": _named(CONFIG_RESOURCES, type_),
            "resource": resource,
            "name": name,
            "value": shown(name, values[name]),
        }
        for (type_, resource), values in sorted(moment.configs.items())
        for name in sorted(values)
    ]


def _features(moment: Moment) -> Rows:
    return [{"feature": name, "level": level} for name, level in sorted(moment.features.items())]


def _acls(moment: Moment) -> Rows:
    rows = []
    for op in [*moment.entities_of("acl"), *moment.entities_of("acl_id")]:
        fields: dict[str, Any] = dict(op.fields)
        rows.append(
            {
                "resource_type": _named(ACL_RESOURCES, fields["resource_type"]),
                "resource": fields["resource_name"],
                "pattern": _named(PATTERNS, fields["pattern_type"]),
                "principal": fields["principal"],
                "host": fields["host"],
                "operation": _named(OPERATIONS, fields["operation"]),
                "permission": _named(PERMISSIONS, fields["permission_type"]),
                "id": uuid(fields["id"]) if "id" in fields else None,
            }
        )
    return rows


def _quotas(moment: Moment) -> Rows:
    rows = []
    for op in moment.entities_of("quota"):
        fields: dict[str, Any] = dict(op.fields)
        entity = [{"type": type_, "name": name} for type_, name in fields["entity"]]
        rows.append({"entity": entity, "quota": fields["key"], "value": fields["value"]})
    return rows


def _scram(moment: Moment) -> Rows:
    found: list[dict[str, Any]] = [dict(op.fields) for op in moment.entities_of("scram")]
    return [
        {"user": one["name"], "mechanism": _named(MECHANISMS, one["mechanism"]), "iterations": one["iterations"]}
        for one in found
    ]


def _tokens(moment: Moment) -> Rows:
    found: list[dict[str, Any]] = [dict(op.fields) for op in moment.entities_of("token")]
    return [
        {
            "token": one["token_id"],
            "owner": one["owner"],
            "requester": one.get("requester"),
            "renewers": list(one["renewers"]),
            "issued": one["issue_timestamp"],
            "expires": one["expiration_timestamp"],
            "expires_at_last": one["max_timestamp"],
        }
        for one in found
    ]


def _controllers(moment: Moment) -> Rows:
    quorum = moment.quorum
    voters = {voter.id: voter for voter in quorum.voters.voters} if quorum.voters else {}
    found: list[dict[str, Any]] = [dict(op.fields) for op in moment.entities_of("controller")]
    registered = {one["controller_id"]: one for one in found}
    rows = []
    for number in sorted({*voters, *registered, *([quorum.leader_id] if quorum.leader_id >= 0 else [])}):
        voter, own = voters.get(number), registered.get(number)
        endpoints: Sequence[Sequence[Any]] = own["end_points"] if own else voter.endpoints if voter else ()
        rows.append(
            {
                "controller": number,
                "voter": number in voters if quorum.voters else None,
                "leader": number == quorum.leader_id if quorum.leader_id >= 0 else None,
                "directory_id": uuid(voter.directory_id) if voter else None,
                "endpoints": _endpoints(endpoints),
                "incarnation_id": uuid(own["incarnation_id"]) if own else None,
            }
        )
    return rows


def _producer_ids(moment: Moment) -> Rows:
    op = moment.pin.producer_ids
    if op is None:
        return []
    return [{"broker": op.broker_id, "broker_epoch": op.broker_epoch, "next_producer_id": op.next_producer_id}]


ROWS: Mapping[str, Callable[[Moment], Rows]] = {
    "topics": _topics,
    "brokers": _brokers,
    "configs": _configs,
    "features": _features,
    "acls": _acls,
    "quotas": _quotas,
    "scram": _scram,
    "tokens": _tokens,
    "controllers": _controllers,
    "producer_ids": _producer_ids,
}
