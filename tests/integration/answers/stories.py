"""The requests: every request of clients with its errors and special cases, at an old version, a middle one and the
newest.

A story makes what it needs under names of its own, and must not depend on another story. The title of a request says
what is special about it. Requests use plain numbers.
"""

import time
from collections.abc import Callable
from typing import Any

from fastpath.records.batch import Builder, patch
from tests.integration.answers import transactions
from tests.integration.answers.dialogue import ELIGIBLE, Dialogue

Story = Callable[[Dialogue, str], None]
NO_ID = bytes(16)
STRANGE_ID = bytes(15) + b"\x99"
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t\0\0\0\0"


def create(d: Dialogue, topic: str, partitions: int = 1, replicas: int = 3, **configs: str) -> None:
    """Create a topic, and wait until all brokers know it."""
    settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    made = {"name": topic, "num_partitions": partitions, "replication_factor": replicas, "configs": settings}
    reply = d.raw("CreateTopics", 5, topics=[made], timeout_ms=20_000)
    assert reply.topics[0].error_code == 0, reply
    d.settled(topic, partitions)


def batch(*values: bytes, timestamp_ms: int | None = None, **fields: Any) -> bytearray:
    """A record batch."""
    builder = Builder(timestamp_ms=int(time.time() * 1000) if timestamp_ms is None else timestamp_ms, **fields)
    for value in values:
        builder.append(b"k", value)
    return builder.build()


def produce(d: Dialogue, topic: str, data: Any, number: int = 0, **options: Any) -> dict[str, Any]:
    """The values of a produce request."""
    return {
        "acks": -1, "timeout_ms": 10_000, **options,
        "topic_data": [{"name": topic, "partition_data": [{"index": number, "records": data}]}],
    }  # fmt: skip


# ---- topics


def topics_made(d: Dialogue, t: str) -> None:
    create(d, t)
    cases: dict[str, dict[str, Any]] = {
        "exists": {"name": t}, "empty name": {"name": ""}, "a dot": {"name": "."}, "two dots": {"name": ".."},
        "a slash": {"name": "a/b"}, "a blank": {"name": "a b"}, "250 characters": {"name": "x" * 250},
        "zero partitions": {"num_partitions": 0}, "minus two partitions": {"num_partitions": -2},
        "zero replicas": {"replication_factor": 0}, "minus two replicas": {"replication_factor": -2},
        "four replicas": {"replication_factor": 4}, "a strange setting": {"configs": [{"name": "no.such", "value": "1"}]},
        "a bad value": {"configs": [{"name": "retention.ms", "value": "soon"}]},
        "a null value": {"configs": [{"name": "retention.ms", "value": None}]},
        "min below max": {"configs": [{"name": "min.insync.replicas", "value": "0"}]},
        "bad policy": {"configs": [{"name": "cleanup.policy", "value": "squash"}]},
        "bad codec": {"configs": [{"name": "compression.type", "value": "brotli"}]},
        "bad timestamp type": {"configs": [{"name": "message.timestamp.type", "value": "Never"}]},
        "small segments": {"configs": [{"name": "segment.bytes", "value": "10"}]},
        "a setting twice": {"configs": [{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]},
        "assignment and count": {"assignments": [{"partition_index": 0, "broker_ids": [1]}]},
        "an unknown broker": {"num_partitions": -1, "replication_factor": -1,
                              "assignments": [{"partition_index": 0, "broker_ids": [77]}]},
        "a broker twice": {"num_partitions": -1, "replication_factor": -1,
                           "assignments": [{"partition_index": 0, "broker_ids": [1, 1]}]},
        "no replicas": {"num_partitions": -1, "replication_factor": -1,
                        "assignments": [{"partition_index": 0, "broker_ids": []}]},
        "a gap in the numbers": {"num_partitions": -1, "replication_factor": -1,
                                 "assignments": [{"partition_index": 1, "broker_ids": [1]}]},
        "uneven replicas": {"num_partitions": -1, "replication_factor": -1, "assignments": [
            {"partition_index": 0, "broker_ids": [1, 2]}, {"partition_index": 1, "broker_ids": [1]}]},
        "an internal setting": {"configs": [{"name": "internal.segment.bytes", "value": "1000"}]},
        "a good one": {},
    }  # fmt: skip
    for version in (2, 7):
        for title, case in cases.items():
            topic = {"name": f"{t}-v", "num_partitions": 2, "replication_factor": 3, **case}
            d.ask(f"create, validate only: {title}", "CreateTopics", version, topics=[topic], validate_only=True)
        d.ask("create: none", "CreateTopics", version, topics=[])
        twice = [{"name": f"{t}-w", "num_partitions": 1, "replication_factor": 1}] * 2
        d.ask("create: the same twice", "CreateTopics", version, topics=twice)
    same = [{"name": t.replace("-", "_"), "num_partitions": 1, "replication_factor": 1}]
    d.ask("create: names that collide", "CreateTopics", 7, topics=[{**same[0], "name": t.replace("-", ".")}])
    d.ask("create: names that collided", "CreateTopics", 7, topics=same)
    d.ask("create: broker's defaults", "CreateTopics", 7,
          topics=[{"name": f"{t}-d", "num_partitions": -1, "replication_factor": -1}])  # fmt: skip


def topics_deleted(d: Dialogue, t: str) -> None:
    create(d, t)
    for version in (1, 4, 5):
        d.ask("delete: unknown", "DeleteTopics", version, timeout_ms=10_000, topic_names=[f"{t}-none"])
        d.ask("delete: none", "DeleteTopics", version, timeout_ms=10_000, topic_names=[])
        d.ask("delete: twice", "DeleteTopics", version, timeout_ms=10_000, topic_names=[f"{t}-none"] * 2)
    d.ask("delete: unknown", "DeleteTopics", 6, timeout_ms=10_000, topics=[{"name": f"{t}-none"}])
    d.ask("delete: unknown id", "DeleteTopics", 6, timeout_ms=10_000, topics=[{"topic_id": STRANGE_ID}])
    d.ask("delete: name and id", "DeleteTopics", 6, timeout_ms=10_000, topics=[{"name": t, "topic_id": STRANGE_ID}])
    d.ask("delete: neither", "DeleteTopics", 6, timeout_ms=10_000, topics=[{}])
    d.ask("delete: twice", "DeleteTopics", 6, timeout_ms=10_000, topics=[{"name": t}, {"name": t}])
    d.ask("delete: there", "DeleteTopics", 6, timeout_ms=10_000, topics=[{"name": t}])
    d.ask("delete: gone", "DeleteTopics", 6, timeout_ms=10_000, topics=[{"name": t}])


def partitions_added(d: Dialogue, t: str) -> None:
    create(d, t, 2, 1)
    cases: dict[str, dict[str, Any]] = {
        "unknown topic": {"name": f"{t}-none"}, "fewer": {"count": 1}, "as many": {"count": 2}, "zero": {"count": 0},
        "negative": {"count": -1}, "too few assignments": {"count": 4, "assignments": [{"broker_ids": [1]}]},
        "too many assignments": {"count": 3, "assignments": [{"broker_ids": [1]}, {"broker_ids": [2]}]},
        "wrong factor": {"count": 3, "assignments": [{"broker_ids": [1, 2]}]},
        "unknown broker": {"count": 3, "assignments": [{"broker_ids": [99]}]},
        "empty assignment": {"count": 3, "assignments": [{"broker_ids": []}]},
        "good": {"count": 3},
    }  # fmt: skip
    for version in (0, 3):
        for title, case in cases.items():
            topic = {"name": t, "assignments": None, **case}
            d.ask(
                f"grow, validate only: {title}",
                "CreatePartitions",
                version,
                timeout_ms=10_000,
                topics=[topic],
                validate_only=True,
            )
        d.ask(
            "grow: the same twice",
            "CreatePartitions",
            version,
            timeout_ms=10_000,
            topics=[{"name": t, "count": 5, "assignments": None}] * 2,
        )
    d.ask("grow", "CreatePartitions", 3, timeout_ms=10_000, topics=[{"name": t, "count": 4, "assignments": None}])


def metadata(d: Dialogue, t: str) -> None:
    create(d, t, 2)
    for version in (1, 4, 8, 9, 12, 13):
        for title, name in (("there", t), ("unknown", f"{t}-none"), ("illegal", "a/b"), ("empty", "")):
            if version >= 4 or title != "unknown":
                d.ask(f"metadata: {title}", "Metadata", version, topics=[{"name": name}], **_no_creation(version))
        d.ask("metadata: no topics", "Metadata", version, topics=[], **_no_creation(version))
        d.ask("metadata: twice", "Metadata", version, topics=[{"name": t}] * 2, **_no_creation(version))
    for version in (10, 12, 13):
        d.ask("metadata: strange id", "Metadata", version, topics=[{"topic_id": STRANGE_ID, "name": None}])
        d.ask("metadata: no id, no name", "Metadata", version, topics=[{"topic_id": NO_ID, "name": None}])
        d.ask("metadata: id and name", "Metadata", version, topics=[{"topic_id": STRANGE_ID, "name": t}])
    d.ask("metadata: operations", "Metadata", 10, topics=[{"name": t}], include_cluster_authorized_operations=True,
          include_topic_authorized_operations=True)  # fmt: skip
    for limit, topics in ((10, [t]), (1, [t]), (10, [f"{t}-none", t]), (10, ["a/b"]), (0, [t])):
        d.ask(f"topic partitions: {[x.replace(t, 't') for x in topics]} limit {limit}", "DescribeTopicPartitions", 0,
              topics=[{"name": one} for one in topics], response_partition_limit=limit)  # fmt: skip
    for title, cursor in (
        ("at 1", (t, 1)),
        ("behind the end", (t, 9)),
        ("negative", (t, -1)),
        ("gone", (f"{t}-none", 0)),
    ):
        d.ask(f"topic partitions: cursor {title}", "DescribeTopicPartitions", 0, topics=[{"name": t}],
              cursor={"topic_name": cursor[0], "partition_index": cursor[1]})  # fmt: skip
    for version in (0, 1, 2):
        d.ask("cluster", "DescribeCluster", version, include_cluster_authorized_operations=True)
    d.ask("cluster: the controllers, of a broker", "DescribeCluster", 2, endpoint_type=2)
    d.ask("cluster: strange endpoints", "DescribeCluster", 2, endpoint_type=7)


def _no_creation(version: int) -> dict[str, Any]:
    return {"allow_auto_topic_creation": False} if version >= 4 else {}


# ---- settings


def settings(d: Dialogue, t: str) -> None:
    create(d, t, retention_ms="5000")
    for version in (1, 4):
        for title, kind, name in (
            ("unknown topic", 2, f"{t}-none"), ("illegal topic", 2, "a/b"), ("empty topic", 2, ""),
            ("another broker", 4, "2"), ("no broker", 4, "x"), ("strange kind", 3, "x"), ("unknown broker", 4, "77"),
            ("all brokers", 4, ""), ("strange group", 32, "g"),
        ):  # fmt: skip
            d.ask(f"settings: {title}", "DescribeConfigs", version, 1,
                  resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": None}])  # fmt: skip
        for title, keys in (("one", ["retention.ms"]), ("unknown", ["no.such"]), ("twice", ["retention.ms"] * 2)):
            d.ask(f"settings: {title} key", "DescribeConfigs", version, include_synonyms=True,
                  resources=[{"resource_type": 2, "resource_name": t, "configuration_keys": keys}])  # fmt: skip
    reply = d.raw("DescribeConfigs", 4, resources=[{"resource_type": 2, "resource_name": t, "configuration_keys": None}],
                  include_synonyms=True)  # fmt: skip
    d.answers["settings: all of a topic"] = {
        one.name: [one.value, one.read_only, one.config_source, one.is_sensitive, one.config_type]
        for one in sorted(reply.results[0].configs, key=lambda one: one.name)
        if one.name != ELIGIBLE
    }


def settings_altered(d: Dialogue, t: str) -> None:
    create(d, t)
    SET, DELETE, APPEND, SUBTRACT = range(4)
    cases: dict[str, tuple[int, str, list[tuple[str, int, str | None]]]] = {
        "good": (2, t, [("retention.ms", SET, "6000")]), "unknown topic": (2, f"{t}-none", [("retention.ms", SET, "1")]),
        "illegal topic": (2, "a/b", [("retention.ms", SET, "1")]), "empty topic": (2, "", [("retention.ms", SET, "1")]),
        "strange key": (2, t, [("no.such", SET, "1")]), "bad value": (2, t, [("retention.ms", SET, "soon")]),
        "null": (2, t, [("retention.ms", SET, None)]), "delete what is not set": (2, t, [("segment.ms", DELETE, None)]),
        "delete a strange one": (2, t, [("no.such", DELETE, None)]),
        "append": (2, t, [("cleanup.policy", APPEND, "compact")]),
        "append to a number": (2, t, [("retention.ms", APPEND, "1")]),
        "subtract": (2, t, [("cleanup.policy", SUBTRACT, "delete")]),
        "strange operation": (2, t, [("retention.ms", 9, "1")]),
        "twice": (2, t, [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]),
        "nothing": (2, t, []), "strange kind": (3, t, [("x", SET, "1")]),
        "a broker that is none": (4, "x", [("x", SET, "1")]),
        "empty value": (2, t, [("retention.ms", SET, "")]), "empty list": (2, t, [("cleanup.policy", SET, "")]),
        "below range": (2, t, [("max.message.bytes", SET, "-1")]),
        "an unknown broker": (4, "77", [("log.retention.ms", SET, "1000000")]),
    }  # fmt: skip
    for version in (0, 1):
        for title, (kind, name, changes) in cases.items():
            configs = [{"name": key, "config_operation": op, "value": value} for key, op, value in changes]
            d.ask(f"alter, validate only: {title}", "IncrementalAlterConfigs", version, validate_only=True,
                  resources=[{"resource_type": kind, "resource_name": name, "configs": configs}])  # fmt: skip
        good = {
            "resource_type": 2,
            "resource_name": t,
            "configs": [{"name": "retention.ms", "config_operation": 0, "value": "1"}],
        }
        d.ask("alter: the same resource twice", "IncrementalAlterConfigs", version, resources=[good, good])
    for version in (0, 2):
        for title in ("good", "unknown topic", "strange key", "bad value", "null", "nothing", "strange kind", "twice"):
            kind, name, changes = cases[title]
            configs = [{"name": key, "value": value} for key, _, value in changes]
            d.ask(f"replace, validate only: {title}", "AlterConfigs", version, validate_only=True,
                  resources=[{"resource_type": kind, "resource_name": name, "configs": configs}])  # fmt: skip


# ---- records


def produced(d: Dialogue, t: str) -> None:
    create(d, t, max_message_bytes="10000")
    create(d, f"{t}-late", message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000")
    create(d, f"{t}-log", message_timestamp_type="LogAppendTime")
    create(d, f"{t}-compact", cleanup_policy="compact")
    create(d, f"{t}-twice")
    create(d, f"{t}-two", min_insync_replicas="3", replicas=2)
    at = d.leader(t)
    other = next(id for id in d.broker_ids if id != at)
    broken = batch(b"x")
    broken[-1] ^= 1
    short = batch(b"x")[:-3]
    magic = batch(b"x")
    magic[16] = 1
    keyless = Builder(timestamp_ms=int(time.time() * 1000))
    keyless.append(None, b"x")
    shifted = batch(b"x")
    patch(shifted, 0, 500, 7)
    year = 365 * 86400 * 1000
    now = int(time.time() * 1000)
    cases: dict[str, tuple[str, Any, int, dict[str, Any]]] = {
        "good": (t, batch(b"a"), 0, {}), "base offset is not zero": (t, shifted, 0, {}),
        "unknown topic": (f"{t}-none", batch(b"a"), 0, {}),
        "unknown partition": (t, batch(b"a"), 9, {}), "negative partition": (t, batch(b"a"), -1, {}),
        "acks 2": (t, batch(b"a"), 0, {"acks": 2}), "acks -2": (t, batch(b"a"), 0, {"acks": -2}),
        "acks 1": (t, batch(b"a"), 0, {"acks": 1}), "too large": (t, batch(b"a" * 20_000), 0, {}),
        "bad crc": (t, broken, 0, {}), "cut": (t, short, 0, {}), "old magic": (t, magic, 0, {}),
        "empty": (t, b"", 0, {}), "two batches": (t, batch(b"a") + batch(b"b"), 0, {}),
        "too old": (f"{t}-late", batch(b"a", timestamp_ms=now - year), 0, {}),
        "in the future": (f"{t}-late", batch(b"a", timestamp_ms=now + year), 0, {}),
        "append time": (f"{t}-log", batch(b"a", timestamp_ms=1), 0, {}),
        "far in the future": (t, batch(b"a", timestamp_ms=now + 3 * year), 0, {}),
        "no key": (f"{t}-compact", keyless.build(), 0, {}),
        "too few in sync": (f"{t}-two", batch(b"a"), 0, {}),
        "strange producer": (t, batch(b"a", producer_id=77_000, producer_epoch=0, base_sequence=5), 0, {}),
        "control batch": (t, batch(b"a", attributes=0x20), 0, {}),
    }  # fmt: skip
    for version in (3, 8, 9, 12):
        for title, (topic, data, number, options) in cases.items():
            to = d.leader(topic) if not topic.endswith("-none") else at
            d.ask(f"produce: {title}", "Produce", version, to, **produce(d, topic, data, number, **options))
        d.ask("produce: not to the leader", "Produce", version, other, **produce(d, t, batch(b"a")))
        d.ask("produce: nothing", "Produce", version, at, acks=-1, timeout_ms=1000, topic_data=[])
        twice = {"index": 0, "records": batch(b"a")}
        d.ask("produce: a partition twice", "Produce", version, d.leader(f"{t}-twice"), acks=-1, timeout_ms=1000,
              topic_data=[{"name": f"{t}-twice", "partition_data": [twice, twice]}])  # fmt: skip
    d.ask("produce: strange id", "Produce", 13, at, acks=-1, timeout_ms=1000,
          topic_data=[{"topic_id": STRANGE_ID, "partition_data": [{"index": 0, "records": batch(b"a")}]}])  # fmt: skip
    d.ask("produce: no id", "Produce", 13, at, acks=-1, timeout_ms=1000,
          topic_data=[{"partition_data": [{"index": 0, "records": batch(b"a")}]}])  # fmt: skip


def idempotent(d: Dialogue, t: str) -> None:
    create(d, t)
    at = d.leader(t)
    for version in (0, 2, 4, 5):
        d.ask("producer id", "InitProducerId", version, transactional_id=None, transaction_timeout_ms=1000)
    for title, values in (
        ("bad epoch", {"producer_id": 5, "producer_epoch": -1}),
        ("own", {"producer_id": 5, "producer_epoch": 3}),
    ):
        d.ask(
            f"producer id: {title}", "InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1000, **values
        )
    first = d.raw("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1000).producer_id
    for title, epoch, sequence, count in (
        ("first", 0, 0, 2), ("repeated", 0, 0, 2), ("next", 0, 2, 1), ("gap", 0, 9, 1), ("old", 0, 1, 1),
        ("new epoch, late start", 1, 4, 1), ("new epoch", 1, 0, 1), ("old epoch", 0, 3, 1), ("no sequence", 1, -1, 1),
    ):  # fmt: skip
        data = batch(*[b"v"] * count, producer_id=first, producer_epoch=epoch, base_sequence=sequence)
        d.ask(f"idempotent: {title}", "Produce", 9, at, **produce(d, t, data))


def offsets(d: Dialogue, t: str) -> None:
    create(d, t, 2)
    at = d.leader(t)
    other = next(id for id in d.broker_ids if id != at)
    for n in range(5):
        d.raw("Produce", 9, at, **produce(d, t, batch(b"v", timestamp_ms=1_600_000_000_000 + n * 1000)))
    places = {
        "earliest": -2, "latest": -1, "largest time": -3, "local": -4, "tiered": -5, "pending upload": -6, "strange": -7,
        "first": 0, "between": 1_600_000_001_500, "exactly": 1_600_000_002_000, "after all": 1_900_000_000_000,
    }  # fmt: skip
    for version in (1, 4, 6, 7, 8, 9, 10, 11):
        for title, stamp in places.items():
            d.ask(f"offset: {title}", "ListOffsets", version, at, replica_id=-1,
                  topics=[{"name": t, "partitions": [{"partition_index": 0, "timestamp": stamp}]}])  # fmt: skip
        for title, topic, number, to in (
            ("unknown topic", f"{t}-none", 0, at), ("unknown partition", t, 9, at), ("not the leader", t, 0, other),
        ):  # fmt: skip
            d.ask(f"offset: {title}", "ListOffsets", version, to, replica_id=-1,
                  topics=[{"name": topic, "partitions": [{"partition_index": number, "timestamp": -1}]}])  # fmt: skip
        one = {"partition_index": 0, "timestamp": -1}
        d.ask(
            "offset: twice", "ListOffsets", version, at, replica_id=-1, topics=[{"name": t, "partitions": [one, one]}]
        )
    for version in (4, 11):
        for title, epoch in (("old epoch", -1), ("future epoch", 99)):
            d.ask(f"offset: {title}", "ListOffsets", version, at, replica_id=-1, topics=[{"name": t, "partitions": [
                {"partition_index": 0, "timestamp": -1, "current_leader_epoch": epoch}]}])  # fmt: skip
    for version in (2, 4):
        for title, topic, number, current, epoch, to in (
            ("there", t, 0, -1, 0, at), ("future", t, 0, -1, 50, at), ("negative", t, 0, -1, -1, at),
            ("wrong current", t, 0, 99, 0, at), ("unknown topic", f"{t}-none", 0, -1, 0, at),
            ("unknown partition", t, 9, -1, 0, at), ("not the leader", t, 0, -1, 0, other),
        ):  # fmt: skip
            one = {"partition": number, "current_leader_epoch": current, "leader_epoch": epoch}
            d.ask(f"epoch end: {title}", "OffsetForLeaderEpoch", version, to, replica_id=-1,
                  topics=[{"topic": topic, "partitions": [one]}])  # fmt: skip


def fetched(d: Dialogue, t: str) -> None:
    create(d, t)
    at = d.leader(t)
    other = next(id for id in d.broker_ids if id != at)
    for _ in range(5):
        d.raw("Produce", 9, at, **produce(d, t, batch(b"v" * 100)))
    topic_id = d.raw("Metadata", 12, topics=[{"name": t}]).topics[0].topic_id

    def asked(version: int, **values: Any) -> dict[str, Any]:
        given = {"fetch_offset": 0, "partition_max_bytes": 1 << 20, "partition": 0, **values}
        name = given.pop("topic", t)
        id = given.pop("topic_id", topic_id)
        topic = {"topic_id": id} if version >= 13 else {"topic": name}
        return {"max_wait_ms": 0, "min_bytes": 0, "topics": [{**topic, "partitions": [given]}]}

    cases: dict[str, tuple[int, dict[str, Any]]] = {
        "all": (at, {}), "one batch": (at, {"partition_max_bytes": 1}), "no bytes": (at, {"partition_max_bytes": 0}),
        "at the end": (at, {"fetch_offset": 5}), "behind the end": (at, {"fetch_offset": 6}),
        "negative": (at, {"fetch_offset": -1}), "unknown partition": (at, {"partition": 9}),
    }  # fmt: skip
    for version in (4, 7, 11, 12, 13, 16, 17):
        for title, (to, values) in cases.items():
            d.ask(f"fetch: {title}", "Fetch", version, to, **asked(version, **values))
        if version < 11:
            d.ask("fetch: not the leader", "Fetch", version, other, **asked(version))
        d.ask("fetch: nothing", "Fetch", version, at, max_wait_ms=0, min_bytes=0, topics=[])
        unknown = {"topic": f"{t}-none"} if version < 13 else {"topic_id": STRANGE_ID}
        d.ask("fetch: unknown topic", "Fetch", version, at, **asked(version, **unknown))
    for version in (9, 12, 17):
        d.ask("fetch: future epoch", "Fetch", version, at, **asked(version, current_leader_epoch=99))
    for version in (12, 17):
        d.ask("fetch: diverging", "Fetch", version, at, **asked(version, last_fetched_epoch=50, fetch_offset=5))
    d.ask("fetch: no id", "Fetch", 13, at, **asked(13, topic_id=NO_ID))
    for version in (7, 12, 13):
        for title, id, epoch in (
            ("unknown", 12345, 1),
            ("epoch without", 0, 5),
            ("closing none", 0, -1),
            ("closing", 999, -1),
        ):
            d.ask(f"session: {title}", "Fetch", version, at, session_id=id, session_epoch=epoch, **asked(version))
        session = d.raw("Fetch", version, at, session_id=0, session_epoch=0, **asked(version)).session_id
        d.ask("session: wrong epoch", "Fetch", version, at, session_id=session, session_epoch=9, **asked(version))
        d.ask(
            "session: next",
            "Fetch",
            version,
            at,
            session_id=session,
            session_epoch=1,
            max_wait_ms=0,
            min_bytes=0,
            topics=[],
        )


def records_deleted(d: Dialogue, t: str) -> None:
    create(d, t)
    create(d, f"{t}-compact", cleanup_policy="compact")
    create(d, f"{t}-both", cleanup_policy="compact,delete")
    create(d, f"{t}-kept", cleanup_policy="")
    at = d.leader(t)
    other = next(id for id in d.broker_ids if id != at)
    for _ in range(5):
        d.raw("Produce", 9, at, **produce(d, t, batch(b"v")))
    for version in (0, 2):
        for title, topic, number, offset, to in (
            ("beyond", t, 0, 9, at), ("negative", t, 0, -2, at), ("unknown topic", f"{t}-none", 0, 0, at),
            ("unknown partition", t, 9, 0, at), ("compacted", f"{t}-compact", 0, 0, None), ("both", f"{t}-both", 0, 0, None),
            ("kept", f"{t}-kept", 0, 0, None), ("not the leader", t, 0, 1, other), ("some", t, 0, 2 + version, at),
            ("again", t, 0, 1, at),
        ):  # fmt: skip
            one = {"partition_index": number, "offset": offset}
            d.ask(f"delete records: {title}", "DeleteRecords", version, d.leader(topic) if to is None else to,
                  timeout_ms=5000, topics=[{"name": topic, "partitions": [one]}])  # fmt: skip
    d.ask("delete records: all", "DeleteRecords", 2, at, timeout_ms=5000,
          topics=[{"name": t, "partitions": [{"partition_index": 0, "offset": -1}]}])  # fmt: skip


# ---- groups


def _join(group: str, member: str = "", **values: Any) -> dict[str, Any]:
    return {
        "group_id": group, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": member,
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": SUBSCRIPTION}], **values,
    }  # fmt: skip


def _place(d: Dialogue, group: str, values: dict[str, Any]) -> int:
    return d.coordinator(values.get("group_id") or group)


def groups(d: Dialogue, t: str) -> None:
    at = d.coordinator(t)
    d.rest(t)
    other = next(id for id in d.broker_ids if id != at)
    for version in (0, 3, 5, 9):
        for title, values in {
            "empty group": {"group_id": ""}, "short session": {"session_timeout_ms": 10},
            "long session": {"session_timeout_ms": 10_000_000}, "unknown member": {"member_id": "stranger"},
            "no protocols": {"protocols": []}, "no type": {"protocol_type": ""},
        }.items():  # fmt: skip
            group = f"{t}-{version}-x"
            d.ask(f"join: {title}", "JoinGroup", version, d.coordinator(group), **{**_join(group), **values})
        d.ask("join: not the coordinator", "JoinGroup", version, other, **_join(t))
    joined = d.raw("JoinGroup", 3, at, **_join(t))
    member, generation = joined.member_id, joined.generation_id
    d.answers["joined"] = [joined.error_code, generation, joined.protocol_name, len(joined.members)]
    d.ask("join: another type", "JoinGroup", 3, at, **_join(t, protocol_type="connect"))
    d.ask("join: no common protocol", "JoinGroup", 3, at, **_join(t, protocols=[{"name": "other", "metadata": b""}]))
    d.ask(
        "heartbeat: before the assignment", "Heartbeat", 3, at, group_id=t, generation_id=generation, member_id=member
    )
    assigned = [{"member_id": member, "assignment": b"mine"}]
    for version in (0, 3, 5):
        for title, values in {
            "unknown member": {"member_id": "stranger"}, "old generation": {"generation_id": generation - 1},
            "unknown group": {"group_id": f"{t}-none"}, "empty group": {"group_id": ""}, "good": {"assignments": assigned},
            "other protocol": {"protocol_name": "other", "protocol_type": "consumer"},
        }.items():  # fmt: skip
            sync = {"group_id": t, "generation_id": generation, "member_id": member, "assignments": []}
            if version == 5:
                sync |= {"protocol_type": "consumer", "protocol_name": "range"}
            d.ask(f"sync: {title}", "SyncGroup", version, _place(d, t, values), **{**sync, **values})
    beat: dict[str, Any] = {"group_id": t, "generation_id": generation, "member_id": member}
    wrong: dict[str, dict[str, Any]] = {
        "good": {}, "unknown member": {"member_id": "stranger"}, "old generation": {"generation_id": generation - 1},
        "unknown group": {"group_id": f"{t}-none"}, "empty group": {"group_id": ""}, "empty member": {"member_id": ""},
    }  # fmt: skip
    for version in (0, 3, 4):
        for title, values in wrong.items():
            d.ask(f"heartbeat: {title}", "Heartbeat", version, _place(d, t, values), **{**beat, **values})
        d.ask("heartbeat: not the coordinator", "Heartbeat", version, other, **beat)
    d.ask("heartbeat: unknown instance", "Heartbeat", 4, at, **beat, group_instance_id="i")
    place = {"name": t, "partitions": [{"partition_index": 0, "committed_offset": 5, "committed_metadata": "m"}]}
    create(d, t)
    for version in (2, 5, 7, 8, 9):
        commit = {"group_id": t, "generation_id_or_member_epoch": generation, "member_id": member, "topics": [place]}
        for title, values in wrong.items():
            changed = {
                {"generation_id": "generation_id_or_member_epoch"}.get(key, key): one for key, one in values.items()
            }
            if title != "empty group":
                d.ask(f"commit: {title}", "OffsetCommit", version, _place(d, t, values), **{**commit, **changed})
        outside = {"generation_id_or_member_epoch": -1, "member_id": ""}
        d.ask("commit: from outside", "OffsetCommit", version, at, **{**commit, **outside})
        d.ask("commit: a group without members", "OffsetCommit", version, d.coordinator(f"{t}-simple"),
              **{**commit, **outside, "group_id": f"{t}-simple"})  # fmt: skip
        d.ask("commit: nothing", "OffsetCommit", version, at, **{**commit, "topics": []})
        unknown = {"name": f"{t}-none", "partitions": place["partitions"]}
        d.ask("commit: unknown topic", "OffsetCommit", version, at, **{**commit, "topics": [unknown]})
        far = {"name": t, "partitions": [{"partition_index": 9, "committed_offset": 5, "committed_metadata": None}]}
        d.ask("commit: unknown partition", "OffsetCommit", version, at, **{**commit, "topics": [far]})
        long = {
            "name": t,
            "partitions": [{"partition_index": 0, "committed_offset": 5, "committed_metadata": "m" * 5000}],
        }
        d.ask("commit: long metadata", "OffsetCommit", version, at, **{**commit, "topics": [long]})
    d.ask("commit: strange id", "OffsetCommit", 10, at, group_id=t, generation_id_or_member_epoch=generation,
          member_id=member, topics=[{"topic_id": STRANGE_ID, "partitions": place["partitions"]}])  # fmt: skip
    for version in (1, 5, 7):
        for title, group, topics in (
            ("there", t, [{"name": t, "partition_indexes": [0, 1]}]),
            ("unknown group", f"{t}-none", [{"name": t, "partition_indexes": [0]}]),
            ("none", t, []), ("unknown topic", t, [{"name": f"{t}-none", "partition_indexes": [0]}]), ("all", t, None),
        ):  # fmt: skip
            if topics is not None or version >= 2:
                d.ask(
                    f"committed: {title}", "OffsetFetch", version, d.coordinator(group), group_id=group, topics=topics
                )
        d.ask("committed: not the coordinator", "OffsetFetch", version, other, group_id=t, topics=[])
    for version in (8, 9):
        d.ask("committed: all", "OffsetFetch", version, at, groups=[{"group_id": t, "topics": None}])
        d.ask("committed: no groups", "OffsetFetch", version, at, groups=[])
        d.ask(
            "committed: some",
            "OffsetFetch",
            version,
            at,
            groups=[{"group_id": t, "topics": [{"name": t, "partition_indexes": [0, 7]}]}],
        )
    d.ask("committed: strange id", "OffsetFetch", 10, at,
          groups=[{"group_id": t, "topics": [{"topic_id": STRANGE_ID, "partition_indexes": [0]}]}])  # fmt: skip
    for version in (0, 3, 5, 6):
        d.ask("group: there", "DescribeGroups", version, at, groups=[t])
        d.ask("group: unknown", "DescribeGroups", version, d.coordinator(f"{t}-none"), groups=[f"{t}-none"])
        d.ask("group: not the coordinator", "DescribeGroups", version, other, groups=[t])
        d.ask("group: none", "DescribeGroups", version, at, groups=[])
    for version in (0, 2):
        d.ask("delete group: with members", "DeleteGroups", version, at, groups_names=[t])
        d.ask("delete group: unknown", "DeleteGroups", version, d.coordinator(f"{t}-none"), groups_names=[f"{t}-none"])
        d.ask("delete group: none", "DeleteGroups", version, at, groups_names=[])
        d.ask("delete group: not the coordinator", "DeleteGroups", version, other, groups_names=[t])
    gone = [{"name": t, "partitions": [{"partition_index": 0}, {"partition_index": 9}]}]
    d.ask(
        "delete offsets: unknown group",
        "OffsetDelete",
        0,
        d.coordinator(f"{t}-none"),
        group_id=f"{t}-none",
        topics=gone,
    )
    d.ask("delete offsets: subscribed", "OffsetDelete", 0, at, group_id=t, topics=gone)
    d.ask("delete offsets: unknown topic", "OffsetDelete", 0, d.coordinator(f"{t}-simple"), group_id=f"{t}-simple",
          topics=[{"name": f"{t}-none", "partitions": [{"partition_index": 0}]}])  # fmt: skip
    d.ask(
        "delete offsets: no members",
        "OffsetDelete",
        0,
        d.coordinator(f"{t}-simple"),
        group_id=f"{t}-simple",
        topics=gone,
    )
    for version in (0, 2):
        d.ask("leave: unknown member", "LeaveGroup", version, at, group_id=t, member_id="stranger")
        d.ask(
            "leave: unknown group",
            "LeaveGroup",
            version,
            d.coordinator(f"{t}-none"),
            group_id=f"{t}-none",
            member_id="x",
        )
        d.ask("leave: empty group", "LeaveGroup", version, at, group_id="", member_id="x")
    for version in (3, 5):
        d.ask("leave: unknown member", "LeaveGroup", version, at, group_id=t, members=[{"member_id": "stranger"}])
        d.ask(
            "leave: unknown instance",
            "LeaveGroup",
            version,
            at,
            group_id=t,
            members=[{"member_id": "", "group_instance_id": "i"}],
        )
        d.ask("leave: nobody", "LeaveGroup", version, at, group_id=t, members=[])
    d.ask("leave", "LeaveGroup", 2, at, group_id=t, member_id=member)
    d.ask("heartbeat: after leaving", "Heartbeat", 4, at, **beat)
    d.ask("delete group: at last", "DeleteGroups", 2, at, groups_names=[t])
    d.ask("delete group: once more", "DeleteGroups", 2, at, groups_names=[t])


def coordinators(d: Dialogue, t: str) -> None:
    d.coordinator(t)
    for version in (0, 2, 3):
        d.ask("coordinator", "FindCoordinator", version, key=t, key_type=0)
        d.ask("coordinator: no name", "FindCoordinator", version, key="", key_type=0)
    d.ask("coordinator: strange kind", "FindCoordinator", 3, key=t, key_type=9)
    for version in (4, 5, 6):
        d.ask("coordinators", "FindCoordinator", version, key_type=0, coordinator_keys=[t])
        d.ask("coordinators: none", "FindCoordinator", version, key_type=0, coordinator_keys=[])
        d.ask("coordinators: strange kind", "FindCoordinator", version, key_type=9, coordinator_keys=[t])


# ---- partitions and brokers


def leaders(d: Dialogue, t: str) -> None:
    create(d, t)
    for version in (0, 1, 2):
        for title, topic, number in (
            ("preferred already", t, 0),
            ("unknown topic", f"{t}-none", 0),
            ("unknown partition", t, 9),
        ):
            d.ask(
                f"elect: {title}", "ElectLeaders", version, topic_partitions=[{"topic": topic, "partitions": [number]}]
            )
        d.ask("elect: nothing", "ElectLeaders", version, topic_partitions=[])
    d.ask(
        "elect: unclean, not needed",
        "ElectLeaders",
        2,
        election_type=1,
        topic_partitions=[{"topic": t, "partitions": [0]}],
    )
    for version in (0, 1):
        for title, topic, number, replicas in (
            ("unknown topic", f"{t}-none", 0, [1]), ("unknown partition", t, 9, [1]), ("unknown broker", t, 0, [77]),
            ("twice the same", t, 0, [1, 1]), ("no replicas", t, 0, []), ("negative broker", t, 0, [-1]),
            ("cancel what is not", t, 0, None), ("as it is", t, 0, [1, 2, 3]),
        ):  # fmt: skip
            d.ask(f"reassign: {title}", "AlterPartitionReassignments", version,
                  topics=[{"name": topic, "partitions": [{"partition_index": number, "replicas": replicas}]}])  # fmt: skip
        d.ask("reassign: nothing", "AlterPartitionReassignments", version, topics=[])
    d.ask("reassign: another factor, forbidden", "AlterPartitionReassignments", 1, allow_replication_factor_change=False,
          topics=[{"name": t, "partitions": [{"partition_index": 0, "replicas": [1]}]}])  # fmt: skip
    d.ask(
        "reassignments: unknown topic",
        "ListPartitionReassignments",
        0,
        topics=[{"name": f"{t}-none", "partition_indexes": [0]}],
    )
    d.ask("reassignments: none", "ListPartitionReassignments", 0, topics=[])


def groups_in_doubt(d: Dialogue, t: str) -> None:
    """Groups between two phases, members whose metadata cannot be read, unknown groups and ids."""
    create(d, t)
    d.rest(t)
    place = [{"name": t, "partitions": [{"partition_index": 0}, {"partition_index": 9}]}]
    gone = [{"name": f"{t}-none", "partitions": [{"partition_index": 0}]}]
    topic_id = d.raw("Metadata", 12, topics=[{"name": t}]).topics[0].topic_id
    for title, metadata, kind in (
        ("readable", SUBSCRIPTION, "consumer"), ("unreadable", b"x", "consumer"), ("of another kind", b"x", "connect"),
        ("cut short", SUBSCRIPTION[:-1], "consumer"), ("of version 3", b"\0\3" + SUBSCRIPTION[2:], "consumer"),
        ("of a negative version", b"\xff\xff" + SUBSCRIPTION[2:], "consumer"),
    ):  # fmt: skip
        group = f"{t}-{title}"
        at = d.coordinator(group)
        protocols = [{"name": "range", "metadata": metadata}]
        joined = d.raw("JoinGroup", 3, at, **_join(group, protocol_type=kind, protocols=protocols))
        member, generation = joined.member_id, joined.generation_id
        d.shown(group, "CompletingRebalance")
        d.ask(f"{title}, not synced: group", "DescribeGroups", 5, at, groups=[group])
        d.ask(f"{title}, not synced: delete offsets", "OffsetDelete", 0, at, group_id=group, topics=place)
        for version, names in ((4, {}), (5, {}), (5, {"protocol_type": kind}), (5, {"protocol_name": "range"})):
            d.ask(f"{title}: sync with {list(names)}", "SyncGroup", version, at, group_id=group, generation_id=generation,
                  member_id="stranger", assignments=[], **names)  # fmt: skip
        d.raw("SyncGroup", 3, at, group_id=group, generation_id=generation, member_id=member,
              assignments=[{"member_id": member, "assignment": b"a"}])  # fmt: skip
        d.shown(group, "Stable")
        d.ask(f"{title}: group", "DescribeGroups", 5, at, groups=[group])
        commit = {"name": t, "partitions": [{"partition_index": 0, "committed_offset": 5, "committed_metadata": "m"}]}
        d.raw("OffsetCommit", 7, at, group_id=group, generation_id_or_member_epoch=generation, member_id=member,
              topics=[commit])  # fmt: skip
        d.ask(f"{title}: delete offsets", "OffsetDelete", 0, at, group_id=group, topics=place)
        d.ask(f"{title}: delete offsets of no topic", "OffsetDelete", 0, at, group_id=group, topics=gone)
        d.raw("LeaveGroup", 2, at, group_id=group, member_id=member)
        d.shown(group, "Empty")
        d.ask(f"{title}, left: group", "DescribeGroups", 5, at, groups=[group])
        wanted = [{"topic_id": id, "partition_indexes": [0]} for id in (STRANGE_ID, topic_id, STRANGE_ID[::-1])]
        d.answers[f"{title}: order of topics [OffsetFetch v10]"] = [
            [one.topic_id == topic_id, [[part.committed_offset, part.error_code] for part in one.partitions]]
            for one in d.raw("OffsetFetch", 10, at, groups=[{"group_id": group, "topics": wanted}]).groups[0].topics
        ]
        d.ask(f"{title}, left: delete offsets", "OffsetDelete", 0, at, group_id=group, topics=place)
    for title, group in (("no name", ""), ("unknown", f"{t}-none")):
        for topics in ([], gone, place):
            d.ask(f"delete offsets: {title}, {len(topics) and len(topics[0]['partitions'])} partitions", "OffsetDelete", 0,
                  d.coordinator(group) if group else None, group_id=group, topics=topics)  # fmt: skip


def metrics_subscribed(d: Dialogue, t: str) -> None:
    """Subscriptions to the metrics of clients, which are settings."""
    SET, DELETE, APPEND, SUBTRACT = range(4)
    cases: dict[str, tuple[str, list[tuple[str, int, str | None]]]] = {
        "metrics": (t, [("metrics", SET, "a,b")]), "interval": (t, [("interval.ms", SET, "1000")]),
        "match": (t, [("match", SET, "client_id=a.*")]), "append": (t, [("metrics", APPEND, "c")]),
        "subtract": (t, [("metrics", SUBTRACT, "a")]), "append to a number": (t, [("interval.ms", APPEND, "1")]),
        "no name": ("", [("metrics", SET, "a")]), "strange key": (t, [("metric", SET, "a")]),
        "delete a strange one": (t, [("metric", DELETE, None)]), "null": (t, [("metrics", SET, None)]),
        "short interval": (t, [("interval.ms", SET, "99")]), "long interval": (t, [("interval.ms", SET, "3600001")]),
        "no interval": (t, [("interval.ms", SET, "soon")]), "strange match": (t, [("match", SET, "client=a")]),
        "match without a pattern": (t, [("match", SET, "client_id")]), "nothing": (t, []),
        "delete what is not set": (t, [("metrics", DELETE, None)]), "empty list": (t, [("metrics", SET, "")]),
    }  # fmt: skip
    for title, (name, changes) in cases.items():
        configs = [{"name": key, "config_operation": op, "value": value} for key, op, value in changes]
        d.ask(f"subscribe, validate only: {title}", "IncrementalAlterConfigs", 1, validate_only=True,
              resources=[{"resource_type": 16, "resource_name": name, "configs": configs}])  # fmt: skip
    for title in ("metrics", "append", "match"):
        configs = [{"name": key, "config_operation": op, "value": value} for key, op, value in cases[title][1]]
        d.ask(f"subscribe: {title}", "IncrementalAlterConfigs", 1,
              resources=[{"resource_type": 16, "resource_name": t, "configs": configs}])  # fmt: skip
    d.known_by_all(16, t)
    for title, name, keys in (
        ("there", t, None),
        ("one key", t, ["metrics"]),
        ("unknown", f"{t}-none", None),
        ("no name", "", None),
    ):
        d.ask(f"subscription: {title}", "DescribeConfigs", 4, include_synonyms=True,
              resources=[{"resource_type": 16, "resource_name": name, "configuration_keys": keys}])  # fmt: skip
    d.ask("subscriptions", "ListConfigResources", 0)
    d.ask("subscriptions: among all", "ListConfigResources", 1, resource_types=[16])
    configs = [{"name": key, "config_operation": DELETE, "value": None} for key in ("metrics", "match")]
    d.ask("unsubscribe", "IncrementalAlterConfigs", 1,
          resources=[{"resource_type": 16, "resource_name": t, "configs": configs}])  # fmt: skip


def quotas(d: Dialogue, t: str) -> None:
    """Quotas of users, client ids and addresses: what is legal, and which entities a filter finds."""
    user, client, both = {"user": t}, {"client-id": t}, {"user": t, "client-id": t}
    set_one = [("producer_byte_rate", 1024.0)]
    Case = tuple[dict[str, str | None], list[tuple[str, float | None]]]
    cases: dict[str, Case] = {
        "a user": (user, set_one),
        "a client id": (client, set_one),
        "both": (both, set_one),
        "a default user": ({"user": None}, set_one),
        "an address": ({"ip": "10.9.8.7"}, [("connection_creation_rate", 5.0)]),
        "no entity": ({}, set_one),
        "a strange type": ({"group": t}, set_one),
        "an empty name": ({"user": ""}, set_one),
        "an empty type": ({"": t}, set_one),
        "an address with a user": ({"ip": "10.9.8.7", "user": t}, set_one),
        "not an address": ({"ip": "10.9.8.777"}, [("connection_creation_rate", 5.0)]),
        "bytes of an address": ({"ip": "10.9.8.7"}, set_one),
        "connections of a user": (user, [("connection_creation_rate", 5.0)]),
        "a strange key": (user, [("no_such", 1.0)]),
        "an empty key": (user, [("", 1.0)]),
        "zero": (user, [("producer_byte_rate", 0.0)]),
        "below zero": (user, [("request_percentage", -1.0)]),
        "a fraction of a byte": (user, [("consumer_byte_rate", 1.5)]),
        "nearly whole": (user, [("consumer_byte_rate", 2.0000001)]),
        "a fraction of a percent": (user, [("request_percentage", 0.5)]),
        "a fraction of a change": (user, [("controller_mutation_rate", 0.5)]),
        "a fraction of a connection": ({"ip": None}, [("connection_creation_rate", 0.5)]),
        "more than a long": (user, [("producer_byte_rate", 1e19)]),
        "more than an int": ({"ip": None}, [("connection_creation_rate", 3e9)]),
        "much time": (user, [("request_percentage", 1e9)]),
        "a key twice": (user, [*set_one, *set_one]),
        "remove what is not set": (user, [("consumer_byte_rate", None)]),
        "remove a strange key": (user, [("no_such", None)]),
        "nothing": (user, []),
        "good and bad": (user, [*set_one, ("no_such", 1.0)]),
        "a long name": ({"user": "x" * 500}, set_one),
        "a name with signs": ({"user": "CN=a/b, O=c*<default>"}, set_one),
    }

    def entry(entity: dict[str, str | None], ops: list[tuple[str, float | None]]) -> dict[str, Any]:
        return {
            "entity": [{"entity_type": type, "entity_name": name} for type, name in entity.items()],
            "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops],
        }

    for title, case in cases.items():
        for version in (0, 1):
            d.ask(
                f"quota, validate only: {title}",
                "AlterClientQuotas",
                version,
                entries=[entry(*case)],
                validate_only=True,
            )
    d.ask("quota: no entries", "AlterClientQuotas", 1, entries=[])
    d.ask("quota: an entity twice", "AlterClientQuotas", 1, entries=[entry(*cases["a user"])] * 2, validate_only=True)
    for title in ("a user", "a client id", "both", "a fraction of a percent", "remove what is not set", "good and bad"):
        d.ask(f"quota: {title}", "AlterClientQuotas", 1, entries=[entry(*cases[title])])
    defaults = [
        ({"user": None, "client-id": t}, [("consumer_byte_rate", 1e12)]),
        ({"user": t, "client-id": None}, [("consumer_byte_rate", 1e12)]),
        ({"ip": "10.9.8.7"}, [("connection_creation_rate", 1e6)]),
    ]
    d.ask("quota: defaults", "AlterClientQuotas", 1, entries=[entry(*one) for one in defaults])
    EXACT, DEFAULT, ANY_NAME = range(3)
    d.quotas_shown(
        [(user, {"producer_byte_rate", "request_percentage"}), *((one, set(dict(ops))) for one, ops in defaults)]
    )
    filters: dict[str, list[tuple[str, int, str | None]]] = {
        "the user": [("user", EXACT, t)],
        "the client id": [("client-id", EXACT, t)],
        "both": [("user", EXACT, t), ("client-id", EXACT, t)],
        "any client id of the user": [("user", EXACT, t), ("client-id", ANY_NAME, None)],
        "the user by default": [("user", EXACT, t), ("client-id", DEFAULT, None)],
        "the client id of any user": [("client-id", EXACT, t), ("user", ANY_NAME, None)],
        "the client id of the default user": [("client-id", EXACT, t), ("user", DEFAULT, None)],
        "an address": [("ip", EXACT, "10.9.8.7")],
        "unknown": [("user", EXACT, f"{t}-none")],
        "a type twice": [("user", EXACT, t), ("user", ANY_NAME, None)],
        "an empty type": [("", EXACT, t)],
        "a strange type": [("group", EXACT, t)],
        "a strange match": [("user", 7, t)],
        "exact without a name": [("user", EXACT, None)],
        "default with a name": [("user", DEFAULT, t)],
        "any with a name": [("user", ANY_NAME, t)],
        "an address and a user": [("ip", EXACT, "10.9.8.7"), ("user", EXACT, t)],
        "an empty name": [("user", EXACT, "")],
    }
    for title, components in filters.items():
        parts = [{"entity_type": type, "match_type": how, "match": match} for type, how, match in components]
        for strict in (False, True):
            for version in (0, 1):
                d.ask(
                    f"quotas, {'strict' if strict else 'not strict'}: {title}",
                    "DescribeClientQuotas",
                    version,
                    components=parts,
                    strict=strict,
                )
    gone = [
        entry(user, [("producer_byte_rate", None), ("request_percentage", None)]),
        entry(client, [("producer_byte_rate", None)]),
        entry(both, [("producer_byte_rate", None)]),
        *(entry(one, [(key, None) for key, _ in ops]) for one, ops in defaults),
    ]
    d.ask("quota: removed", "AlterClientQuotas", 1, entries=gone)
    d.quotas_shown([(user, set()), (both, set()), *((one, set[str]()) for one, _ in defaults)])


def throttled(d: Dialogue, t: str) -> None:
    """How long a client is told to wait: exactly, for what it sends first."""
    create(d, t, 1, 1)
    parts = [{"entity_type": "client-id", "entity_name": "answers"}]

    def limit(rate: float | None) -> None:
        op = {"key": "producer_byte_rate", "value": rate or 0.0, "remove": rate is None}
        d.raw("AlterClientQuotas", 1, entries=[{"entity": parts, "ops": [op]}])
        d.quotas_shown([({"client-id": "answers"}, set() if rate is None else {"producer_byte_rate"})])

    limit(1000.0)
    try:
        reply = d.raw("Produce", 12, d.leader(t), **produce(d, t, batch(bytes(40_000))))
        d.answers["throttled: 40000 bytes [Produce v12]"] = reply.throttle_time_ms
        d.renew()
    finally:
        limit(None)


def credentials(d: Dialogue, t: str) -> None:
    """SCRAM credentials: of users who have none, and changes of users who are named once, twice, and wrongly."""
    users: dict[str, list[dict[str, str]] | None] = {
        "all": None,
        "no user": [],
        "unknown": [{"name": f"{t}-none"}],
        "twice": [{"name": t}, {"name": t}],
        "two": [{"name": t}, {"name": ""}],
    }
    for title, wanted in users.items():
        d.ask(f"credentials: {title}", "DescribeUserScramCredentials", 0, users=wanted)

    def upsertion(user: str, mechanism: int = 1, iterations: int = 4096) -> dict[str, Any]:
        salted = {"salt": b"salt", "salted_password": bytes(32 * mechanism)}
        return {"name": user, "mechanism": mechanism, "iterations": iterations, **salted}

    def deletion(user: str, mechanism: int = 1) -> dict[str, Any]:
        return {"name": user, "mechanism": mechanism}

    a, b = f"{t}-a", f"{t}-b"
    d.ask("credentials: made", "AlterUserScramCredentials", 0, deletions=[], upsertions=[upsertion(a)])
    wanted_changes: dict[str, tuple[list[Any], list[Any]]] = {
        "two mechanisms": ([], [upsertion(b), upsertion(b, 2)]),
        "one mechanism twice": ([], [upsertion(b), upsertion(b)]),
        "two mechanisms, and another user": ([], [upsertion(b), upsertion(b, 2), upsertion(f"{t}-c")]),
        "deleted and made": ([deletion(a)], [upsertion(a)]),
        "deleted and made of another mechanism": ([deletion(a)], [upsertion(a, 2)]),
        "deleted twice": ([deletion(a), deletion(a)], []),
        "deleted of two mechanisms": ([deletion(a), deletion(a, 2)], []),
        "one that is not there, and one that is": ([deletion(a, 2), deletion(a)], []),
        "one that is not there, and made": ([deletion(b)], [upsertion(b)]),
        "too few iterations, then enough": ([], [upsertion(b, 1, 1), upsertion(b, 2)]),
        "enough iterations, then too few": ([], [upsertion(b), upsertion(b, 2, 1)]),
        "three times": ([], [upsertion(b), upsertion(b, 2), upsertion(b, 1, 1)]),
        "unknown mechanism, then a known one": ([], [upsertion(b, 9), upsertion(b)]),
        "no name, twice": ([], [upsertion(""), upsertion("", 2)]),
        "gone": ([deletion(a), deletion(f"{t}-c")], []),
    }
    for title, (deletions, upsertions) in wanted_changes.items():
        d.ask(f"credentials: {title}", "AlterUserScramCredentials", 0, deletions=deletions, upsertions=upsertions)


def changes_limited(d: Dialogue, t: str) -> None:
    """What a client may have made and deleted a second (KIP-599), by versions."""
    client = {"client-id": "answers"}

    def limit(rate: float | None) -> None:
        d.raw(
            "AlterClientQuotas",
            1,
            entries=[
                {
                    "entity": [{"entity_type": "client-id", "entity_name": "answers"}],
                    "ops": [{"key": "controller_mutation_rate", "value": rate or 0.0, "remove": rate is None}],
                }
            ],
        )
        d.quotas_shown([(client, set() if rate is None else {"controller_mutation_rate"})])

    def made(name: str, partitions: int) -> dict[str, Any]:
        return {"name": f"{t}-{name}", "num_partitions": partitions, "replication_factor": 1}

    create(d, t, 2)
    limit(0.001)  # what is used up does not come back before the end
    try:
        d.ask("limited: one of two", "CreateTopics", 7, topics=[made("a", 3), made("b", 3)], timeout_ms=10_000)
        d.renew()
        d.ask("limited: validated", "CreateTopics", 7, topics=[made("c", 1)], validate_only=True, timeout_ms=10_000)
        d.renew()
        d.ask(
            "limited: an error comes first",
            "CreateTopics",
            6,
            topics=[{"name": "a b"}, made("c", 0)],
            timeout_ms=10_000,
        )
        for version in (2, 3):
            d.renew()
            d.ask(
                "limited: more partitions",
                "CreatePartitions",
                version,
                topics=[{"name": t, "count": version + 2, "assignments": None}],
                timeout_ms=10_000,
            )
        d.renew()
        d.ask("limited: deleted", "DeleteTopics", 5, topic_names=[t], timeout_ms=10_000)
        d.renew()
        d.ask("limited: deleted all the same", "DeleteTopics", 4, topic_names=[t, f"{t}-a"], timeout_ms=10_000)
        d.renew()
        d.ask("limited: made all the same", "CreateTopics", 5, topics=[made("c", 1)], timeout_ms=10_000)
    finally:
        d.renew()
        limit(None)


def brokers(d: Dialogue, t: str) -> None:
    create(d, t)
    d.ask("unregister: unknown", "UnregisterBroker", 0, broker_id=77)
    d.ask("unregister: negative", "UnregisterBroker", 0, broker_id=-1)
    for version in (0, 1, 2):
        d.ask(
            "features: unknown",
            "UpdateFeatures",
            version,
            feature_updates=[{"feature": "no.such", "max_version_level": 1}],
        )
        d.ask("features: nothing", "UpdateFeatures", version, feature_updates=[])
    for version in (1, 4, 5):
        d.ask(
            "log directories: unknown topic",
            "DescribeLogDirs",
            version,
            topics=[{"topic": f"{t}-none", "partitions": [0]}],
        )
        d.ask("log directories: none", "DescribeLogDirs", version, topics=[])
    d.ask("log directories: move to nowhere", "AlterReplicaLogDirs", 2, d.leader(t),
          dirs=[{"path": "/nowhere", "topics": [{"name": t, "partitions": [0]}]}])  # fmt: skip
    d.ask("log directories: move what is not there", "AlterReplicaLogDirs", 2,
          dirs=[{"path": "/nowhere", "topics": [{"name": f"{t}-none", "partitions": [0]}]}])  # fmt: skip
    d.ask("resources: strange kind", "ListConfigResources", 1, resource_types=[77])
    d.ask("resources: client metrics", "ListConfigResources", 0)
    d.ask("resources: brokers", "ListConfigResources", 1, resource_types=[4])
    for version, values in ((0, {}), (3, {"client_software_name": "x y", "client_software_version": ""})):
        reply = d.raw("ApiVersions", version, **values)
        d.answers[f"versions: error v{version}"] = reply.error_code
    d.ask("sasl", "SaslHandshake", 1, mechanism="PLAIN")


def _in_transactions(ask: Callable[[transactions.Scene], None]) -> Story:
    def story(d: Dialogue, t: str) -> None:
        create(d, t, 2, retention_ms="-1")
        ask(transactions.Scene(d, t))

    return story


TRANSACTIONS: dict[str, Story] = {
    "transactions_in_each_state": _in_transactions(transactions.asked_in_each_state),
    "transactions_that_cannot_be": _in_transactions(transactions.asked_what_cannot_be),
    "transactions_and_markers": _in_transactions(transactions.asked_of_markers),
    "transactions_and_readers": _in_transactions(transactions.asked_of_readers),
    "transactions_and_offsets": _in_transactions(transactions.asked_of_offsets),
    "transactions_shown": _in_transactions(transactions.asked_to_show),
}
STORIES: dict[str, Story] = {
    story.__name__: story
    for story in (
        topics_made, topics_deleted, partitions_added, metadata, settings, settings_altered, produced, idempotent, offsets,
        fetched, records_deleted, groups, groups_in_doubt, coordinators, leaders, metrics_subscribed, quotas,
        changes_limited, throttled, credentials, brokers,
    )
} | TRANSACTIONS  # fmt: skip
