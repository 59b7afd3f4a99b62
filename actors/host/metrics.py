"""The metrics of a node over HTTP, as Prometheus reads them (extra `metrics`; setting `rayft.metrics.listen`).

This file alone decides how an MBean's name becomes a name of Prometheus: as the JMX exporter does without rules. The
name consists of the domain, the value of the first property and the attribute. The other properties are labels:

    kafka.controller:type=KafkaController,name=MetadataLag    ->  kafka_controller_KafkaController_Value{name="MetadataLag"}

And how a name that a client gives to what it pushes (KIP-714) does: what is no letter or digit becomes an underscore, and a
name that does not begin as those of Kafka's clients do is told apart from the broker's own by `client_`:

    org.apache.kafka.producer.request.latency.avg             ->  org_apache_kafka_producer_request_latency_avg
    queue.size                                                ->  client_queue_size
"""

import gzip
import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import parse_qs

from actors.host.net.http_door import HttpDoor, PageRequest
from actors.host.net.server import PortTaken
from actors.node.metrics import Sample
from actors.settings.keys import ConfigError

SETTING = "rayft.metrics.listen"
CLIENTS = "org_apache_kafka_"
FORMS_MAX = 8
"""Forms of one page that are kept while it is sent."""
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
    if sample.labels is not None:
        name = _ILLEGAL.sub("_", sample.mbean)
        labels = {_label(key): value for key, value in sample.labels}
        return name if name.startswith(CLIENTS) else f"client_{name}", labels
    domain, _, rest = sample.mbean.partition(":")
    properties = [pair.partition("=")[::2] for pair in rest.split(",")]
    name = _ILLEGAL.sub("_", "_".join((domain, properties[0][1], sample.attribute)))
    return name, {_ILLEGAL.sub("_", key): value for key, value in properties[1:]}


def _label(key: str) -> str:
    name = _ILLEGAL.sub("_", key)
    return name if name[:1].isalpha() else f"label_{name}"


class Endpoint:
    """The HTTP server of one node: one thread, which calls `read` for the present values."""

    def __init__(self, where: tuple[str, int], read: Callable[[], Sequence[Sample]]) -> None:
        """Raises ConfigError if prometheus-client is not installed, and PortTaken if the port is not free."""
        try:
            import prometheus_client.exposition  # noqa: F401
        except ImportError:
            raise ConfigError(
                f"{SETTING} needs the package prometheus-client: install rayft[metrics], or leave the setting out."
            ) from None
        host, port = where
        try:
            self._door = HttpDoor(host or "127.0.0.1", port, lambda: _Page(read()))
        except OSError as error:
            raise PortTaken(
                f"{SETTING}={host}:{port} cannot be used ({error.strerror}): stop the process that "
                f"uses it, or write another."
            ) from None
        self.port: int = self._door.port
        self.open_to_others = not ipaddress.ip_address(self._door.host.partition("%")[0]).is_loopback
        """Whether other machines may reach it."""

    @property
    def bytes_kept(self) -> int:
        """The bytes that are kept for those that ask for metrics."""
        return self._door.bytes_kept

    def close(self) -> None:
        """Stop serving, and close the connections."""
        self._door.close()


class _Page:
    """The values of one moment, in each form that somebody asks for."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._families = list(_families(samples))
        self._forms: dict[tuple[str, bool, tuple[str, ...]], tuple[dict[str, str], bytes]] = {}

    def form(self, asked: PageRequest) -> tuple[dict[str, str], bytes]:
        """(headers, body) as a request asks for them. Equal ones are encoded once."""
        from prometheus_client.exposition import choose_encoder, gzip_accepted

        encoder, kind = choose_encoder(asked.headers.get("accept", ""))
        packed = gzip_accepted(asked.headers.get("accept-encoding", ""))
        names = tuple(parse_qs(asked.query).get("name[]", ()))
        found = self._forms.get((kind, packed, names))
        if found is None:
            body = bytes(encoder(_Families([one for one in self._families if not names or one.name in names])))
            headers = {"Content-Type": kind}
            if packed:
                headers["Content-Encoding"], body = "gzip", gzip.compress(body)
            found = headers, body
            if len(self._forms) < FORMS_MAX:
                self._forms[kind, packed, names] = found
        return found


class _Families:
    """What an encoder of prometheus-client takes for a registry."""

    def __init__(self, families: Sequence[Any]) -> None:
        self._families = families

    def collect(self) -> Sequence[Any]:
        """The families of metrics, all of them."""
        return self._families


def _families(samples: Sequence[Sample]) -> Iterable[Any]:
    """Samples with the same name form a family."""
    from prometheus_client.core import GaugeMetricFamily

    families: dict[str, Any] = {}
    seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for sample in samples:
        name, labels = named(sample)
        if sample.labels is not None:
            # Two of a client's names may have become one, and Prometheus takes nothing of a page with a number twice.
            if (name, frozenset(labels.items())) in seen:
                continue
            seen.add((name, frozenset(labels.items())))
        family = families.get(name)
        if family is None:
            family = families[name] = GaugeMetricFamily(name, sample.mbean.partition(",")[0])
        family.add_sample(name, labels, sample.value)
    return families.values()
