"""The metrics about a broker's clients: quotas (KIP-13, KIP-124, KIP-219), and what clients push themselves (KIP-714).

This file alone decides how the name that a client gives to what it pushes becomes a name for Prometheus: what is no letter
or digit becomes an underscore, and a name that does not begin as those of Kafka's clients do is told apart from the
broker's own by `client_`:

    org.apache.kafka.producer.request.latency.avg             ->  org_apache_kafka_producer_request_latency_avg
    queue.size                                                ->  client_queue_size
"""

import re
from collections.abc import Iterator, Sequence

from actors.broker.telemetry.clients import Clients
from actors.node.metrics.broker import OfBroker
from actors.node.metrics.controller import ACCOUNTS_SHOWN_MAX, labels
from actors.node.metrics.family import GAUGE, Family, Row, Sample, Value, counter, gauge, gauges
from actors.quotas.levels import CONSUMER, PRODUCER, REQUEST

OF_KAFKAS_CLIENTS = "org_apache_kafka_"
TELEMETRY = "kafka.server:type=ClientMetrics,name="
SHOWN = ("client_id", "client_instance_id", "client_software_name", "client_software_version")
"""Labels of what a client has pushed, besides its own. They win over its own."""
PUSHED_A_PART = 200
BY_CLIENT = ("user", "client_id")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_]")


class Accounts:
    """The rates, or the throttle times, of clients with one kind of quota."""

    def __init__(self, key: str, throttled: bool) -> None:
        self._key = key
        self._throttled = throttled

    def __call__(self, of: OfBroker) -> Iterator[tuple[tuple[str, ...], Value]]:
        now_ms = of.runtime.now.mono_ms
        for name, account in of.role.quotas.accounts[self._key].newest(ACCOUNTS_SHOWN_MAX, now_ms):
            yield labels(name), (account.throttled if self._throttled else account.measure).measure(now_ms)


def _quota(type: str, attribute: str, what: str, key: str) -> tuple[Row[OfBroker], ...]:
    source = f"kafka.server:type={type},user=X,client-id=X,name="
    name = f"kafka_server_{type.lower()}_"
    return (
        gauges(name + attribute.replace("-", "_"), source + attribute, BY_CLIENT, what, Accounts(key, False)),
        gauges(
            name + "throttle_time",
            source + "throttle-time",
            BY_CLIENT,
            "How long those clients were made to wait on average, in ms.",
            Accounts(key, True),
        ),
    )


QUOTAS: tuple[Row[OfBroker], ...] = (
    *_quota("Produce", "byte-rate", "Bytes a second that clients with a quota write.", PRODUCER),
    *_quota("Fetch", "byte-rate", "Bytes a second that clients with a quota read.", CONSUMER),
    *_quota("Request", "request-time", "Percent of a thread's time that clients with a quota take.", REQUEST),
)
PUSHES: tuple[Row[OfBroker], ...] = (
    gauge(
        "kafka_server_clientmetrics_clientmetricsinstancecount",
        TELEMETRY + "ClientMetricsInstanceCount",
        "Clients that are asked for their metrics.",
        lambda of: len(of.role.telemetry.clients),
    ),
    gauge(
        "kafka_server_clientmetrics_clientmetricsunknownsubscriptionrequestcount",
        TELEMETRY + "ClientMetricsUnknownSubscriptionRequestCount",
        "How often a client pushed for a subscription that has changed.",
        lambda of: of.role.telemetry.clients.unknown_subscriptions,
    ),
    gauge(
        "kafka_server_clientmetrics_clientmetricsthrottlecount",
        TELEMETRY + "ClientMetricsThrottleCount",
        "How often a client came too early.",
        lambda of: of.role.telemetry.clients.throttled,
    ),
    gauge(
        "kafka_server_clientmetrics_clientmetricspluginerrorcount",
        TELEMETRY + "ClientMetricsPluginErrorCount",
        "How often what a client pushed could not be read.",
        lambda of: of.role.telemetry.clients.malformed,
    ),
    counter(
        "rayft_client_metrics_series_passed_over_total",
        "KIP-714",
        "Numbers of clients for which there was no room.",
        lambda of: of.role.telemetry.clients.passed_over,
    ),
)
"""How it goes with what clients push."""


def pushed_parts(clients: Clients) -> Iterator[list[Sample]]:
    """What clients push, `PUSHED_A_PART` numbers at a time. A client that comes or goes meanwhile may be missing. Of two
    numbers whose names have become one the first counts: Prometheus takes nothing of a page that has a number twice."""
    for client in clients.known():
        own = [(key, client.attributes.get(key, "")) for key in SHOWN]
        series = list(client.series.items())
        seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
        for begin in range(0, len(series), PUSHED_A_PART):
            part = []
            for (name, given), value in series[begin : begin + PUSHED_A_PART]:
                sample = pushed(name, (*given, *own), value)
                key = sample.family.name, frozenset(zip(sample.family.labels, sample.labels, strict=True))
                if key not in seen:
                    seen.add(key)
                    part.append(sample)
            yield part


def pushed(name: str, given: Sequence[tuple[str, str]], value: float) -> Sample:
    """A number that a client has pushed, under a name and labels that Prometheus takes. Of two labels whose names have
    become one the last counts."""
    legal = _ILLEGAL.sub("_", name)
    shown = {_label(key): text for key, text in given}
    family = Family(
        legal if legal.startswith(OF_KAFKAS_CLIENTS) else f"client_{legal}", GAUGE, "Pushed by clients.", tuple(shown)
    )
    return Sample(family, tuple(shown.values()), value)


def _label(key: str) -> str:
    name = _ILLEGAL.sub("_", key)
    return name if name[:1].isalpha() else f"label_{name}"
