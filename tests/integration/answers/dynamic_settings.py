"""Every setting: whether a running cluster takes another value of it, where, and what is described then.

The questions are made from what Apache Kafka describes. Each setting gets a legal value other than its own: on one broker,
on all brokers, and with the prefix of a listener; settings of topics, groups and subscriptions likewise. For what is taken
the entry with its synonyms is kept, and what of a topic changes with it.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.integration.answers.dialogue import ELIGIBLE, Dialogue

SECONDS = 10
TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
SET, DELETE = 0, 1
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(1, 10)
VALUES = {
    "cleanup.policy": "compact",
    "log.cleanup.policy": "compact",
    "compression.type": "gzip",
    "message.timestamp.type": "LogAppendTime",
    "log.message.timestamp.type": "LogAppendTime",
    "consumer.assignment.interval.ms": "2000",
    "share.auto.offset.reset": "earliest",
    "share.isolation.level": "read_committed",
    "share.delivery.count.limit": "6",
    "local.retention.bytes": "-1",
    "local.retention.ms": "-1",
    "log.local.retention.bytes": "-1",
    "log.local.retention.ms": "1000",
    "compression.gzip.level": "5",
    "leader.replication.throttled.replicas": "0:1",
    "follower.replication.throttled.replicas": "0:1",
    "metrics": "org.apache.kafka.consumer.",
    "match": "client_id=a",
    "ssl.client.auth": "requested",
    "ssl.enabled.protocols": "TLSv1.2",
    "ssl.protocol": "TLSv1.2",
    "sasl.enabled.mechanisms": "PLAIN",
    "max.connections.per.ip.overrides": "127.0.0.1:1000",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
    "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "log.cleaner.io.buffer.load.factor": "0.8",
    "sasl.kerberos.ticket.renew.window.factor": "0.7",
    "sasl.login.refresh.window.factor": "0.7",
    "sasl.login.refresh.window.jitter": "0.2",
    "log.cleaner.min.cleanable.ratio": "0.3",
    "min.cleanable.dirty.ratio": "0.3",
}
"""Where the next number is no legal value."""
LEFT_ALONE = frozenset((ELIGIBLE, "listeners", "advertised.listeners", "log.dirs", "log.dir", "metadata.log.dir"))
"""What is written by itself, and what depends on the machine."""
Asked = Callable[..., Any]


def another(name: str, kind: int, value: str | None) -> str:
    """A legal value other than this one."""
    if name in VALUES:
        return VALUES[name]
    if kind == BOOLEAN:
        return "false" if value == "true" else "true"
    if kind in (INT, SHORT, LONG):
        number = 1_000_000 if value is None else int(value)
        return "1000" if number >= (1 << 31) - 1 else str(number + 1)
    return {DOUBLE: "0.5", PASSWORD: "secret", CLASS: "org.example.Nothing"}.get(kind, "x")


def described(d: Dialogue, kind: int, name: str, keys: list[str] | None) -> dict[str, list[Any]]:
    """Setting -> what is described, with its synonyms."""
    reply = d.raw(
        "DescribeConfigs", 4, include_synonyms=True,
        resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
    ).results[0]  # fmt: skip
    return {
        one.name: [
            one.value, one.read_only, one.config_source, one.is_sensitive, one.config_type,
            [[same.name, same.value, same.source] for same in one.synonyms],
        ]
        for one in reply.configs
    }  # fmt: skip


def changed(d: Dialogue, kind: int, name: str, key: str, op: int, value: str | None, *, dry: bool = False) -> int:
    """The error code of one change."""
    configs = [{"name": key, "config_operation": op, "value": value}]
    reply = d.raw(
        "IncrementalAlterConfigs", 1, validate_only=dry,
        resources=[{"resource_type": kind, "resource_name": name, "configs": configs}],
    )  # fmt: skip
    return int(reply.responses[0].error_code)


def replaced(d: Dialogue, kind: int, name: str, key: str, value: str) -> int:
    """The error code of AlterConfigs, which changes nothing here."""
    resource = {"resource_type": kind, "resource_name": name, "configs": [{"name": key, "value": value}]}
    return int(d.raw("AlterConfigs", 2, validate_only=True, resources=[resource]).responses[0].error_code)


def settled(found: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    """What is found once it holds, or what is found after `SECONDS`."""
    end = time.monotonic() + SECONDS
    while not holds(value := found()) and time.monotonic() < end:
        time.sleep(0.05)
    return value


def steady(found: Callable[[], Any]) -> Any:
    """What is found twice in a row: Apache Kafka shows a new source before the value."""
    seen: list[Any] = [object()]
    settled(found, lambda value: seen[0] == value or bool(seen.insert(0, value)))
    return seen[0]


def tried(d: Dialogue, kind: int, name: str, key: str, value: str, shown: tuple[int, str, str]) -> dict[str, Any]:
    """What becomes of one change. `shown`: the entry to look at, (kind, name, key)."""
    see_kind, see_name, see_key = shown
    before = described(d, see_kind, see_name, [see_key]).get(see_key)
    code = changed(d, kind, name, key, SET, value)
    answer: dict[str, Any] = {"error": code}
    if name:  # where it is for all brokers, Apache Kafka guards a setting of its own against being left out
        answer["replaced"] = replaced(d, kind, name, key, value)
    if code == 0:
        look = lambda: described(d, see_kind, see_name, [see_key]).get(see_key)  # noqa: E731
        settled(look, lambda entry: entry != before)
        answer["described"] = steady(look)
    return answer


def topics_part(d: Dialogue, topic: str, before: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """What of a topic is described in another way than before."""
    return {key: entry for key, entry in described(d, TOPIC, topic, None).items() if entry != before.get(key)}


def put_back(d: Dialogue, kind: int, name: str, key: str, see: Callable[[], Any], before: Any) -> None:
    """Take a value away again, and wait until that is seen."""
    changed(d, kind, name, key, DELETE, None)
    settled(see, lambda now: now == before)


def ask(bootstrap_servers: str, mark: str, names: dict[str, list[Any]] | None = None) -> dict[str, Any]:
    """Setting -> what became of it. `names`: (kind, value) of each broker setting by name, as Apache Kafka has them;
    None: the cluster is Apache Kafka."""
    d = Dialogue(bootstrap_servers)
    try:
        settled(lambda: d.raw("Metadata", 1, topics=[]).brokers, bool)
    finally:
        d.close()
    d = Dialogue(bootstrap_servers)
    try:
        return dict(_ask(d, mark, names))
    finally:
        d.close()


def _ask(d: Dialogue, mark: str, names: dict[str, list[Any]] | None) -> Iterator[tuple[str, Any]]:
    broker = str(d.broker_ids[0])
    if names is None:
        whole = described(d, BROKER, broker, None)
        names = {key: [entry[4], None if entry[3] else entry[0]] for key, entry in sorted(whole.items())}
    yield "names", names
    topic = f"s-{mark}"
    new = {"name": topic, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    d.raw("CreateTopics", 5, topics=[new], timeout_ms=10_000)
    d.settled(topic, 1)
    of_topic = described(d, TOPIC, topic, None)
    for key, (kind, value) in names.items():
        if key in LEFT_ALONE:
            continue
        new_value = another(key, kind, value)
        answer: dict[str, Any] = {"value": new_value}
        for title, entity in (("broker", broker), ("all brokers", "")):
            see = lambda key=key: described(d, BROKER, broker, [key]).get(key)  # noqa: E731
            before = see()
            answer[title] = tried(d, BROKER, entity, key, new_value, (BROKER, broker, key))
            if answer[title]["error"] == 0:
                if part := topics_part(d, topic, of_topic):
                    answer[title]["topic"] = part
                put_back(d, BROKER, entity, key, see, before)
                settled(lambda: topics_part(d, topic, of_topic), lambda part: not part)
        answer["listener"] = changed(d, BROKER, broker, f"listener.name.else.{key}", SET, new_value, dry=True)
        yield key, answer
    for title, kind, entity in (
        ("topic", TOPIC, topic),
        ("group", GROUP, f"g-{mark}"),
        ("metrics", METRICS, f"c-{mark}"),
    ):
        for key, entry in sorted(described(d, kind, entity, None).items()):
            new_value = another(key, entry[4], entry[0])
            see = lambda key=key, kind=kind, entity=entity: described(d, kind, entity, [key]).get(key)  # noqa: E731
            answer = {"value": new_value, "first": entry} | tried(d, kind, entity, key, new_value, (kind, entity, key))
            put_back(d, kind, entity, key, see, entry)
            yield f"{title}: {key}", answer
