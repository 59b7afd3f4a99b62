"""Brokers that are only registered: a controller counts them as alive and places replicas on them, and nothing runs.

They speak the RPCs of their side: KIP-631's BrokerHeartbeat to rayft, BrokerRegistration and BrokerHeartbeat to Apache
Kafka. The controllers must give long leases (`LONG_LEASES`), so that one heartbeat lasts for a whole run; and the connection
of that heartbeat stays open, since rayft looks after a broker whose connection was lost.
"""

import time
import uuid
from typing import Any

from actors.wire.messages import message
from bench import frames

LONG_LEASES = {
    "rayft": {"registration.lease.timeout.ms": "3600000"},
    "Apache Kafka": {"broker.session.timeout.ms": "3600000"},
}
"""Settings of the controllers, by side."""
SECONDS_MAX = 60
KNOWS_ALL = 1 << 40
"""An offset that no metadata log of a run reaches."""


def register(side: str, controller: tuple[str, int], broker: tuple[str, int], ids: range) -> frames.Connection:
    """Register brokers at the active controller, and wait until they are not fenced. `broker`: one that runs. Returns the
    connection that has to stay open for as long as they are to be alive."""
    asked = frames.Connection(broker)
    reply = asked.ask(
        "ApiVersions", 4, message("ApiVersionsRequest")(client_software_name="b", client_software_version="1")
    )
    cluster_id = asked.ask("Metadata", 9, message("MetadataRequest")(topics=[])).cluster_id
    asked.close()
    connection = frames.Connection(controller)
    one = _on_rayft if side == "rayft" else _on_kafka
    for id in ids:
        one(connection, id, cluster_id, reply.supported_features)
    return connection


def _on_rayft(connection: frames.Connection, id: int, cluster_id: str, supported: list[Any]) -> None:
    kind = message("v28:BrokerHeartbeatRequest")
    listener = kind.Listener(name="PLAINTEXT", host="127.0.0.1", port=9, security_protocol=0)
    incarnation, epoch, end = uuid.uuid4().bytes, -1, time.monotonic() + SECONDS_MAX
    while True:
        request = kind(
            target_state=3,
            broker_id=id,
            broker_epoch=epoch,
            lease_start_time_ms=time.monotonic_ns() // 1_000_000,
            cur_metadata_offset=KNOWS_ALL,
            listeners=[listener],
            features=_features(kind, supported),
            cluster_id=cluster_id,
            incarnation_id=incarnation,
        )
        reply = connection.ask("v28:BrokerHeartbeat", 0, request)
        epoch = reply.broker_epoch
        if reply.next_state == 3 and epoch >= 0:
            return
        _again(id, reply.error_code, end)


def _on_kafka(connection: frames.Connection, id: int, cluster_id: str, supported: list[Any]) -> None:
    kind, beat = message("BrokerRegistrationRequest"), message("rpc:BrokerHeartbeatRequest")
    request = kind(
        broker_id=id,
        cluster_id=cluster_id,
        incarnation_id=uuid.uuid4().bytes,
        listeners=[kind.Listener(name="PLAINTEXT", host="127.0.0.1", port=9, security_protocol=0)],
        features=_features(kind, supported),
        rack=None,
        log_dirs=[uuid.uuid4().bytes],
    )
    reply, end = connection.ask("BrokerRegistration", 4, request), time.monotonic() + SECONDS_MAX
    if reply.error_code:
        raise RuntimeError(f"broker {id} is not registered: error {reply.error_code}")
    while True:
        request = beat(
            broker_id=id, broker_epoch=reply.broker_epoch, current_metadata_offset=KNOWS_ALL, want_fence=False
        )
        answer = connection.ask("rpc:BrokerHeartbeat", 1, request)
        if not answer.error_code and not answer.is_fenced:
            return
        _again(id, answer.error_code, end)


def _features(kind: Any, supported: list[Any]) -> list[Any]:
    """What the broker that runs supports."""
    return [
        kind.Feature(name=one.name, min_supported_version=one.min_version, max_supported_version=one.max_version)
        for one in supported
    ]


def _again(id: int, error: int, end: float) -> None:
    if time.monotonic() > end:
        raise RuntimeError(f"broker {id} stays fenced: error {error}")
    time.sleep(0.05)
