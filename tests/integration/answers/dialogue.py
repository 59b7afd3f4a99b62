"""Sends requests to a cluster, of either software, and reduces each answer to what must be the same on both.

Values that differ from cluster to cluster are replaced: ids, addresses, paths, sentences, times; one that is not empty
becomes "~". Lists whose order has no meaning are sorted. The result is plain JSON.
"""

import contextlib
import json
import socket
import time
from collections.abc import Callable
from typing import Any

from actors.wire import framing
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

SECONDS = 20
ANY = frozenset(
    (
        "host", "port", "cluster_id", "throttle_time_ms", "topic_id", "member_id", "leader", "members", "rack",
        "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "controller_id", "producer_id", "session_id",
        "node_id", "log_dir", "documentation", "broker_id", "replicas", "client_id", "client_host", "node_endpoints",
        "current_leader", "partition_size", "sent_at", "controller_listener_name", "last_known_elr",
        "eligible_leader_replicas", "offline_replicas", "transaction_start_time_ms", "last_timestamp", "coordinator_epoch",
    )
)  # fmt: skip
"""Attributes whose value is replaced: an empty value stays empty, any other becomes "~"."""
LEFT_OUT = frozenset(("error_message", "record_errors", "log_append_time_ms", "total_bytes", "usable_bytes"))
"""Error sentences, the places to which they point, and facts about a disk that rayft does not report."""
ELIGIBLE = "min.insync.replicas"
"""With eligible leader replicas (KIP-966) Apache Kafka writes this setting for all brokers by itself."""
SORTED = frozenset(
    (
        "topics", "responses", "results", "groups", "partitions", "resources", "brokers", "configs", "coordinators",
        "entries", "entity", "values", "transaction_states", "active_producers", "unknown_state_filters",
        "results_by_transaction", "topic_results", "results_by_topic_v3_and_below", "results_by_partition",
    )
)  # fmt: skip
EMPTY: tuple[Any, ...] = (None, "", 0, -1, b"", bytes(16), [])
PATIENCE = frozenset((ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,))


def fill(struct: Any, root: type[Any], cls: type[Any], values: dict[str, Any]) -> Any:
    """A message from plain dicts and lists."""
    given = {}
    for field in struct.fields:
        if field.attribute in values:
            value = values[field.attribute]
            if field.struct is not None and value is not None:
                inner = getattr(root, field.struct.name)
                value = (
                    [fill(field.struct, root, inner, one) for one in value]
                    if field.array
                    else fill(field.struct, root, inner, value)
                )
            given[field.attribute] = value
    unknown = set(values) - set(given)
    assert not unknown, f"{cls.__name__} has no {unknown}"
    return cls(**given)


def request(name: str, **values: Any) -> Any:
    """`request("Metadata", topics=[{"name": "a"}])`."""
    cls = message(f"{name}Request")
    return fill(cls.__struct__, cls, cls, values)


def plain(struct: Any, value: Any, version: int) -> dict[str, Any]:
    """An answer as dicts and lists, reduced."""
    found: dict[str, Any] = {}
    for field in struct.fields:
        if version not in field.versions or field.attribute in LEFT_OUT:
            continue
        one = getattr(value, field.attribute)
        if field.attribute in ANY:
            absent = one < 0 if field.attribute == "producer_id" else one in EMPTY
            found[field.attribute] = None if absent else "~"
        elif field.struct is not None:
            if field.array:
                many = None if one is None else [plain(field.struct, part, version) for part in one]
                if field.attribute == "aborted_transactions":
                    many = many or None
                if many is not None and field.attribute == "configs":
                    many = [part for part in many if part.get("name") != ELIGIBLE]
                if many is not None and field.attribute in SORTED:
                    many.sort(key=lambda part: json.dumps(part, sort_keys=True))
                found[field.attribute] = many
            else:
                found[field.attribute] = None if one is None else plain(field.struct, one, version)
        elif field.array and field.attribute in SORTED:
            found[field.attribute] = sorted(one) if one is not None else None
        elif field.type in ("bytes", "records"):
            found[field.attribute] = None if one is None else len(one)
        else:
            found[field.attribute] = one
    return found


def codes(answer: Any) -> set[int]:
    """Every error code in an answer."""
    if isinstance(answer, dict):
        inner = set().union(*(codes(part) for part in answer.values())) if answer else set()
        return inner | ({answer["error_code"]} if "error_code" in answer else set())
    return set().union(*(codes(part) for part in answer)) if isinstance(answer, list) and answer else set()


class Closed(Exception):
    """The broker closed the connection instead of answering."""


class Broker:
    """A connection, opened when it is first used."""

    def __init__(self, address: tuple[str, int], patience_seconds: float = SECONDS) -> None:
        self._address = address
        self._patience_seconds = patience_seconds
        self._socket: socket.socket | None = None
        self._correlation = 0

    def ask(self, name: str, version: int, body: Any, *, silent: bool = False) -> Any:
        """The decoded answer; None if the request has none. Raises Closed."""
        self._correlation += 1
        frame = b"".join(framing.encode_request(name, version, self._correlation, "answers", body))
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._address, self._patience_seconds)
            self._socket.sendall(frame)
            return (
                None
                if silent
                else framing.decode_response(name, version, self._read(int.from_bytes(self._read(4), "big")))
            )
        except (ConnectionError, TimeoutError) as error:
            self.close()
            raise Closed(str(error)) from None

    def _read(self, size: int) -> bytes:
        assert self._socket is not None
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError("closed")
            data += part
        return bytes(data)

    def close(self) -> None:
        """Close the connection. The next request opens another one."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket = None


class Dialogue:
    """Requests to one cluster. The answers are kept by their titles."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.answers: dict[str, Any] = {}
        self._brokers = [
            Broker((host, int(port))) for host, _, port in (one.rpartition(":") for one in bootstrap_servers.split(","))
        ]
        self._by_id: dict[int, Broker] = {}
        for node in self._brokers[0].ask("Metadata", 1, request("Metadata", topics=[])).brokers:
            self._by_id[node.node_id] = Broker((node.host, node.port))

    @property
    def broker_ids(self) -> list[int]:
        """All brokers."""
        return sorted(self._by_id)

    def raw(self, name: str, version: int, at: int | None = None, **values: Any) -> Any:
        """Send a request. Returns its answer unreduced, and does not keep it."""
        return self._to(at).ask(name, version, request(name, **values))

    def ask(self, title: str, name: str, version: int, at: int | None = None, **values: Any) -> dict[str, Any] | str:
        """Send a request and keep the reduced answer. `at`: a broker's id, by default the first broker's."""
        key = f"{title} [{name} v{version}]"
        assert key not in self.answers, key
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                reply = self._to(at).ask(name, version, request(name, **values))
            except Closed:
                self.answers[key] = "closed"
                return "closed"
            answer = plain(message(f"{name}Response").__struct__, reply, version)
            if not codes(answer) & PATIENCE or time.monotonic() > deadline:
                self.answers[key] = json.loads(json.dumps(answer))
                return answer
            time.sleep(0.05)

    def leader(self, topic: str, number: int = 0) -> int:
        """Id of the partition's leader, once the leader itself knows of it."""
        return self._until(lambda: self._leader(topic, number))

    def coordinator(self, name: str, *, transactions: bool = False) -> int:
        """Id of the coordinator of a group, or of a transactional id."""
        return self._until(lambda: self._coordinator(name, int(transactions)))

    def rest(self, group: str) -> None:
        """Wait until the coordinators of all names derived from a group's have loaded their groups."""
        for n in range(64):
            self._until(lambda name=f"{group}-{n}": self._loaded(name) or None)  # type: ignore[misc]

    def shown(self, group: str, state: str) -> None:
        """Wait until the group's coordinator shows it in this state: Apache Kafka's coordinator shows what is
        committed."""
        at = self.coordinator(group)
        self._until(lambda: self.raw("DescribeGroups", 5, at, groups=[group]).groups[0].group_state == state or None)

    def settled(self, topic: str, partitions: int) -> None:
        """Wait until every broker knows the topic with this number of partitions and their leaders."""
        self._until(lambda: all(self._knows(id, topic, partitions) for id in self._by_id) or None)

    def known_by_all(self, kind: int, name: str) -> None:
        """Wait until every broker lists a resource that has settings."""
        self._until(lambda: all(self._lists(id, kind, name) for id in self._by_id) or None)

    def quotas_shown(self, wanted: list[tuple[dict[str, str | None], set[str]]]) -> None:
        """Wait until every broker shows exactly these keys for each entity."""
        self._until(lambda: all(self._shows(id, *one) for id in self._by_id for one in wanted) or None)

    def renew(self) -> None:
        """Go on with new connections: the old ones may be muted."""
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for broker in (*self._brokers, *self._by_id.values()):
            broker.close()

    def _loaded(self, group: str) -> bool:
        return bool(self.raw("OffsetFetch", 7, self.coordinator(group), group_id=group, topics=[]).error_code == 0)

    def _shows(self, id: int, entity: dict[str, str | None], keys: set[str]) -> bool:
        parts = [{"entity_type": type, "match_type": int(name is None), "match": name} for type, name in entity.items()]
        found = self.raw("DescribeClientQuotas", 1, id, components=parts, strict=True).entries
        return {value.key for entry in found for value in entry.values} == keys

    def _lists(self, id: int, kind: int, name: str) -> bool:
        found = self.raw("ListConfigResources", 1, id, resource_types=[kind]).config_resources
        return any(one.resource_name == name for one in found)

    def _knows(self, id: int, topic: str, partitions: int) -> bool:
        reply = self.raw("Metadata", 4, id, topics=[{"name": topic}], allow_auto_topic_creation=False)
        found = reply.topics[0].partitions
        return len(found) == partitions and all(one.leader_id >= 0 for one in found)

    def _leader(self, topic: str, number: int) -> int | None:
        reply = self.raw("Metadata", 4, topics=[{"name": topic}], allow_auto_topic_creation=False)
        return next((one.leader_id for one in reply.topics[0].partitions if one.partition_index == number), None)

    def _coordinator(self, name: str, kind: int) -> int | None:
        reply = self.raw("FindCoordinator", 2, key=name, key_type=kind)
        return None if reply.error_code else int(reply.node_id)

    def _until(self, found: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + SECONDS
        while (value := found()) is None:
            assert time.monotonic() < deadline, "the cluster does not come to rest"
            time.sleep(0.05)
        return value

    def _to(self, at: int | None) -> Broker:
        return self._brokers[0] if at is None else self._by_id[at]
