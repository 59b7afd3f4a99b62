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
ACTIVE, SHUTDOWN = 3, 4
"""States of a broker in KIP-631's heartbeats."""
KNOWS_ALL = 1 << 40
"""An offset that no metadata log of a run reaches."""


def register(side: str, controller: tuple[str, int], broker: tuple[str, int], ids: range) -> frames.Connection:
    """Register brokers at the active controller, and wait until they are not fenced. `broker`: one that runs. Returns the
    connection that has to stay open for as long as they are to be alive."""
    cluster_id, supported = introduced(broker)
    connection = frames.Connection(controller)
    for id in ids:
        FakeBroker(side, id, cluster_id, supported).join(connection)
    return connection


def introduced(broker: tuple[str, int]) -> tuple[str, list[Any]]:
    """(cluster id, supported features) of a broker that runs."""
    asked = frames.Connection(broker)
    reply = asked.ask(
        "ApiVersions", 4, message("ApiVersionsRequest")(client_software_name="b", client_software_version="1")
    )
    cluster_id = str(asked.ask("Metadata", 9, message("MetadataRequest")(topics=[])).cluster_id)
    asked.close()
    return cluster_id, list(reply.supported_features)


class FakeBroker:
    """A broker of which only the registration and the heartbeats exist."""

    def __init__(self, side: str, id: int, cluster_id: str, supported: list[Any]) -> None:
        self.id = id
        self.epoch = -1
        self._ours = side == "rayft"
        self._cluster_id = cluster_id
        self._supported = supported
        self._incarnation = uuid.uuid4().bytes
        self.connection: frames.Connection | None = None
        """The connection of its newest heartbeat."""

    def join(self, connection: frames.Connection) -> None:
        """Register, or come back, and wait until it is not fenced."""
        self.connection, end = connection, time.monotonic() + SECONDS_MAX
        if self._ours:
            self._incarnation, self.epoch = uuid.uuid4().bytes, -1
        elif self.epoch < 0:
            self._register()
        while not self.beat(connection):
            if time.monotonic() > end:
                raise RuntimeError(f"broker {self.id} stays fenced")
            time.sleep(0.01)

    def beat(self, connection: frames.Connection) -> bool:
        """Send a heartbeat; whether it is answered that the broker is not fenced."""
        self.connection = connection
        if self._ours:
            reply = self._beat_ours(connection, ACTIVE)
            return bool(reply.next_state == ACTIVE and reply.broker_epoch >= 0)
        answer = self._beat_theirs(connection)
        return not answer.error_code and not answer.is_fenced

    def lose(self) -> None:
        """Let the controller find the broker lost: its connection ends, and nobody listens at its address. Apache Kafka
        looks at sessions alone, so there the broker says that it wants to be fenced."""
        assert self.connection is not None
        if self._ours:
            self.connection.close()
        else:
            self._beat_theirs(self.connection, want_fence=True)

    def stop(self) -> None:
        """Ask for a controlled shutdown."""
        assert self.connection is not None
        if self._ours:
            self._beat_ours(self.connection, SHUTDOWN)
        else:
            self._beat_theirs(self.connection, want_shut_down=True)

    def _beat_ours(self, connection: frames.Connection, target: int) -> Any:
        kind = message("v28:BrokerHeartbeatRequest")
        listener = kind.Listener(name="PLAINTEXT", host="127.0.0.1", port=9, security_protocol=0)
        request = kind(
            target_state=target,
            broker_id=self.id,
            broker_epoch=self.epoch,
            lease_start_time_ms=time.monotonic_ns() // 1_000_000,
            cur_metadata_offset=KNOWS_ALL,
            listeners=[listener],
            features=_features(kind, self._supported),
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation,
        )
        reply = connection.ask("v28:BrokerHeartbeat", 0, request)
        if reply.broker_epoch >= 0:
            self.epoch = reply.broker_epoch
        return reply

    def _beat_theirs(self, connection: frames.Connection, **wants: bool) -> Any:
        kind = message("rpc:BrokerHeartbeatRequest")
        request = kind(
            broker_id=self.id,
            broker_epoch=self.epoch,
            current_metadata_offset=KNOWS_ALL,
            **{"want_fence": False, **wants},
        )
        return connection.ask("rpc:BrokerHeartbeat", 1, request)

    def _register(self) -> None:
        """Register with Apache Kafka."""
        assert self.connection is not None
        kind = message("BrokerRegistrationRequest")
        self._incarnation = uuid.uuid4().bytes
        request = kind(
            broker_id=self.id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation,
            listeners=[kind.Listener(name="PLAINTEXT", host="127.0.0.1", port=9, security_protocol=0)],
            features=_features(kind, self._supported),
            rack=None,
            log_dirs=[uuid.uuid4().bytes],
        )
        reply = self.connection.ask("BrokerRegistration", 4, request)
        if reply.error_code:
            raise RuntimeError(f"broker {self.id} is not registered: error {reply.error_code}")
        self.epoch = reply.broker_epoch


def _features(kind: Any, supported: list[Any]) -> list[Any]:
    """What the broker that runs supports."""
    return [
        kind.Feature(name=one.name, min_supported_version=one.min_version, max_supported_version=one.max_version)
        for one in supported
    ]
