"""Metrics of clients in their broker (KIP-714): when they are taken at all, and what is known of their senders.

Which client is asked for what, `broker/telemetry/` decides. Rules of this file:

1. Clients are asked where the broker shows or sends metrics itself (`rayft.metrics.listen`, `rayft.metrics.otlp.endpoint`):
   theirs stand beside its own.
   Elsewhere ApiVersions does not name the APIs, as Apache Kafka does not without a plug-in that receives metrics.
2. Subscriptions are looked up when a client comes and the metadata has moved, once a second at most.
3. A payload is decompressed, to `PAYLOAD_BYTES_MAX` at most, and read outside the loop, by a thread that does nothing else.
   While `READINGS_MAX` payloads wait for it, clients are asked to come later.
"""

from collections.abc import Mapping

from actors.broker.log.slices import Sliced, Step, Steps, cost
from actors.broker.telemetry import otlp
from actors.broker.telemetry.clients import BYTES_MAX, Clients, Subscription, subscription
from actors.broker.telemetry.otlp import Point
from actors.node.net.request_channel import RequestChannel
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.calls import Call
from actors.node.runtime.runtime import Runtime
from actors.settings.client_metrics import subscription_settings
from fastpath.records import compression

CLIENT_METRICS = 16
"""The type of the config resource that is a subscription."""
LOOK_MS = 1000
EXPIRE_MS = 10_000
PAYLOAD_BYTES_MAX = 16 << 20
FIELD_COST = 1000
"""The cost of reading a field, beside a byte that is decompressed."""
READINGS_MAX = 16
"""The most payloads that are being read, or wait for it. The thread that reads them has a third of a second for each at
most."""
ATTRIBUTE_MAX = 256
"""The most characters of a name that a client gives itself; what is more is not looked at."""
NAME = "telemetry"


class ClientTelemetry:
    """The metrics that clients of this broker push."""

    def __init__(self, runtime: Runtime, requests: RequestChannel, cache: MetadataCache) -> None:
        value = runtime.config.value
        self.on = bool(value("rayft.metrics.listen") or value("rayft.metrics.otlp.endpoint"))
        """Whether clients are asked at all."""
        self.clients = Clients(
            value("telemetry.max.bytes"), runtime.random.uuid, runtime.ledger.account("ClientMetrics", BYTES_MAX)
        )
        self._runtime = runtime
        self._requests = requests
        self._cache = cache
        self._software: dict[int, tuple[str, str]] = {}
        """The name and the version of a client's software, by connection."""
        self._seen_offset = self._look_ms = -1
        self._given: dict[str, dict[str, str]] = {}
        """The subscriptions as they were set, by name."""
        self._timed = False
        self.readings = 0
        """The number of payloads that are being read, or wait for it."""

    @property
    def busy(self) -> bool:
        """Whether so many payloads wait that no other is taken now."""
        return self.readings >= READINGS_MAX

    def introduced(self, connection: int, name: str, version: str) -> None:
        """Note what software a client is, as it has said in ApiVersions."""
        self._software[connection] = name[:ATTRIBUTE_MAX], version[:ATTRIBUTE_MAX]
        self._requests.when_closed(connection, NAME, lambda: self._closed(connection))

    def attributes(self, call: Call) -> Mapping[str, str]:
        """The attributes with which the expressions of a subscription are matched, save the client instance id."""
        found = {"client_source_address": call.client_host}
        connection = self._requests.connections.get(call.connection)
        if connection is not None and connection.peer_port:
            found["client_source_port"] = str(connection.peer_port)
        if call.client_id is not None:
            found["client_id"] = call.client_id
        software = self._software.get(call.connection)
        if software is not None:
            found["client_software_name"], found["client_software_version"] = software
        return {name: value[:ATTRIBUTE_MAX] for name, value in found.items()}

    def refresh(self, connection: int) -> None:
        """Look whether the subscriptions have changed, when a client comes."""
        self._requests.when_closed(connection, NAME, lambda: self._closed(connection))
        if not self._timed:
            self._timed = True
            self._runtime.waiting.timers.at(self._runtime.now.mono_ms + EXPIRE_MS, self._expire)
        image, now_ms = self._cache.image, self._runtime.now.mono_ms
        if image.next_offset == self._seen_offset or now_ms < self._look_ms:
            return
        self._seen_offset, self._look_ms = image.next_offset, now_ms + LOOK_MS
        given = {name: dict(set) for (type, name), set in image.configs.items() if type == CLIENT_METRICS and set}
        if given != self._given:
            self._given = given
            self.clients.subscribe([self._subscription(name, values) for name, values in given.items()])

    def _subscription(self, name: str, values: Mapping[str, str]) -> Subscription:
        found, wrong = subscription(*subscription_settings(values))
        if wrong:
            self._runtime.log.warning(f"the subscription {name!r} to metrics of clients matches no client: {wrong}")
        return found

    def _expire(self) -> None:
        self.clients.expire(self._runtime.now.mono_ms)
        self._timed = bool(len(self.clients))
        if self._timed:
            self._runtime.waiting.timers.at(self._runtime.now.mono_ms + EXPIRE_MS, self._expire)

    def _closed(self, connection: int) -> None:
        self._software.pop(connection, None)
        self.clients.closed(connection)


def points(codec: int, payload: bytes) -> Sliced[list[Point]]:
    """A job that reads a payload's points, outside the loop and in slices. It raises CompressionError, Malformed."""
    return Sliced(_reading(codec, payload))


def _reading(codec: int, payload: bytes) -> Steps[list[Point]]:
    data = payload if codec == 0 else compression.decompress(codec, memoryview(payload), PAYLOAD_BYTES_MAX)
    yield Step(cost(codec, len(data)), len(data))
    fields = otlp.reading(data)
    while True:
        try:
            spent = next(fields)
        except StopIteration as end:
            found: list[Point] = end.value
            return found
        yield Step(spent * FIELD_COST, len(data))
