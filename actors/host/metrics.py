"""A node's metrics over HTTP, as Prometheus reads them (extra `metrics`; setting `rayft.metrics.listen`).

This file alone decides how an MBean's name becomes a name of Prometheus: as the JMX exporter does without rules. The
name consists of the domain, the value of the first property and the attribute. The other properties are labels:

    kafka.controller:type=KafkaController,name=MetadataLag    ->  kafka_controller_KafkaController_Value{name="MetadataLag"}
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from actors.config import ConfigError
from actors.host.server import PortTaken
from actors.node.metrics import Sample

SETTING = "rayft.metrics.listen"
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:/\s]*):(?P<port>[0-9]{1,5})")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_]")


def address(text: str) -> tuple[str, int]:
    """(host, port) of the setting. Raises ConfigError."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > 65535:
        raise ConfigError(f"{SETTING}={text} is no address: write host:port, for example 127.0.0.1:9404.")
    return match["host"].strip("[]"), int(match["port"])


def named(sample: Sample) -> tuple[str, dict[str, str]]:
    """(name, labels) of a sample for Prometheus."""
    domain, _, rest = sample.mbean.partition(":")
    properties = [pair.partition("=")[::2] for pair in rest.split(",")]
    name = _ILLEGAL.sub("_", "_".join((domain, properties[0][1], sample.attribute)))
    return name, {_ILLEGAL.sub("_", key): value for key, value in properties[1:]}


class Endpoint:
    """The HTTP server of one node. Its threads call `read`, which returns the present values."""

    def __init__(self, where: tuple[str, int], read: Callable[[], Sequence[Sample]]) -> None:
        """Raises ConfigError if prometheus-client is not installed, and PortTaken if the port is not free."""
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError:
            raise ConfigError(
                f"{SETTING} needs the package prometheus-client: install rayft[metrics], or leave the setting out."
            ) from None
        registry = CollectorRegistry()
        registry.register(_Collector(read))
        host, port = where
        try:
            self._server, self._thread = start_http_server(port, host or "0.0.0.0", registry)
        except OSError as error:
            raise PortTaken(
                f"{SETTING}={host}:{port} cannot be used ({error.strerror}): stop the process that "
                f"uses it, or write another."
            ) from None
        self.port: int = self._server.server_port

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Collector:
    """Asks the node for its metrics at each scrape."""

    def __init__(self, read: Callable[[], Sequence[Sample]]) -> None:
        self._read = read

    def describe(self) -> list[Any]:
        """Nothing: before the node runs, its metrics are not known."""
        return []

    def collect(self) -> Iterator[Any]:
        """The present samples. Those with the same name form a family."""
        from prometheus_client.core import GaugeMetricFamily

        families: dict[str, Any] = {}
        for sample in self._read():
            name, labels = named(sample)
            family = families.get(name)
            if family is None:
                family = families[name] = GaugeMetricFamily(name, sample.mbean.partition(",")[0])
            family.add_sample(name, labels, sample.value)
        yield from families.values()
