"""The metrics of a node sent to an OpenTelemetry collector (setting `rayft.metrics.otlp.endpoint`): OTLP over HTTP, as
protobuf.

They are those of the page, under the same names. This file alone decides what of them becomes what, when they are sent, and
what becomes of a failure. Rules:

1. One thread sends every `rayft.metrics.otlp.interval.ms`. What could not be sent is not sent again: it is in the next
   numbers, as all of them count from the start of the process. Whatever fails, the next numbers are sent.
2. A counter is a monotonic sum. A summary without a sum of its values is one as well, under its name with `_count`.
3. A number that is none (NaN) is left out.
4. A collector has `WHOLE_S` for its answer. One that redirects has not taken the numbers: they would go elsewhere as a GET,
   without a body, and the headers with them, in which a token may be.

It needs the extra `otlp` (opentelemetry-proto), and is imported only where the setting has a value.
"""

import contextlib
import gzip
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from actors.host.work import web
from actors.node.metrics.family import COUNTER, Family, Sample, Summary
from actors.node.metrics.partitions import FAMILIES, FOLLOWERS, LAG, Columns
from actors.settings.keys import ConfigError

try:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
        ExportMetricsServiceResponse,
    )
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, Metric
except ImportError:
    raise ConfigError("rayft.metrics.otlp.endpoint needs opentelemetry-proto: pip install 'rayft[otlp]'.") from None

ENDPOINT, HEADERS = "rayft.metrics.otlp.endpoint", "rayft.metrics.otlp.headers"
WAIT_S = 10.0
"""How many seconds a collector may be silent."""
WHOLE_S = 30.0
TROUBLE_CHARACTERS = 300
"""How many characters of what a collector says go to the log."""
ANSWER_BYTES_MAX = 1 << 16
REST_S = 0.002
"""The pause behind each slice of partitions, in which the node's thread has the interpreter."""
_URL = re.compile(r"https?://[^/\s@]+(/\S*)?")
_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*=\s*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)")


def endpoint(text: str) -> str:
    """The URL of the setting. Raises ConfigError."""
    if "@" in text.partition("//")[2].partition("/")[0]:
        raise ConfigError(
            f"{ENDPOINT} has a user in it, and perhaps a password: write {HEADERS}=Authorization=... for that."
        )
    if _URL.fullmatch(text.strip()) is None:
        raise ConfigError(f"{ENDPOINT}={text} is no URL: write for example http://localhost:4318/v1/metrics.")
    return text.strip()


def headers(text: str) -> dict[str, str]:
    """The headers of the setting: NAME=VALUE, several with commas between. Raises ConfigError, which shows no value."""
    found = {}
    for place, one in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
        match = _HEADER.fullmatch(one)
        if match is None:
            raise ConfigError(f"{HEADERS}: the entry {place} is not NAME=VALUE.")
        found[match[1]] = match[2]
    return found


class Sender:
    """The thread that sends a node's metrics, until `close`."""

    def __init__(
        self,
        url: str,
        interval_s: float,
        metrics: Callable[[], Sequence[Sample | Columns]],
        resource: Mapping[str, str],
        more_headers: Mapping[str, str] = {},
    ) -> None:
        """`resource`: what the collector is told of the node; `more_headers`: those of the requests, besides the usual."""
        self._url, self._interval_s, self._metrics = url, interval_s, metrics
        self._resource = dict(resource)
        self._headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip", **more_headers}
        self._since_ns = time.time_ns()
        self._trouble = ""
        self._told = ""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()

    def news(self) -> str | None:
        """A sentence if sending has begun to fail, fails for another reason, or works again since the last call."""
        trouble = self._trouble
        if trouble == self._told:
            return None
        self._told = trouble
        return (
            f"metrics are not sent to {self._url}: {trouble}" if trouble else f"metrics are sent to {self._url} again"
        )

    def close(self) -> None:
        """End the thread that sends. A request that is under way is given up."""
        self._closing.set()
        self._thread.join(0.5)

    def _run(self) -> None:
        while not self._closing.wait(self._interval_s):
            try:
                parts = self._metrics()
                if parts:
                    self._trouble = self._send(encoded(parts, self._resource, self._since_ns, time.time_ns()))
            except Exception as error:  # whatever it is, an operator must learn of it, and the next ones are sent
                self._trouble = (str(error) or repr(error))[:TROUBLE_CHARACTERS]

    def _send(self, body: bytes) -> str:
        """Send one request. Returns what the collector has against it; empty: nothing."""
        asked = urllib.request.Request(self._url, gzip.compress(body, 1), self._headers, method="POST")
        deadline = web.Deadline(WHOLE_S)
        try:
            with deadline, contextlib.closing(web.opener(deadline, _Stays()).open(asked, timeout=WAIT_S)) as answer:
                told = ExportMetricsServiceResponse.FromString(answer.read(ANSWER_BYTES_MAX)).partial_success
        except urllib.error.HTTPError as error:
            error.close()
            raise
        if told.rejected_data_points or told.error_message:
            return f"{told.rejected_data_points} numbers were refused: {told.error_message[:200]}"
        return ""


class _Stays(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it is the error that it is."""

    def redirect_request(self, *_: Any) -> None:
        return None


def encoded(parts: Sequence[Sample | Columns], resource: Mapping[str, str], since_ns: int, at_ns: int) -> bytes:
    """A request with all these numbers. `since_ns`: when the counters began; `at_ns`: now; both in ns since 1970."""
    request = ExportMetricsServiceRequest()
    of_node = request.resource_metrics.add()
    of_node.resource.attributes.extend(_attributes(resource.items()))
    scope = of_node.scope_metrics.add()
    scope.scope.name = "rayft"
    metrics: dict[str, Metric] = {}

    def metric(name: str, family: Family) -> Any:
        found = metrics.get(name)
        if found is None:
            found = metrics[name] = scope.metrics.add(name=_text(name), description=_text(family.help))
        return found

    for one in parts:
        if isinstance(one, Columns):
            for family, labels, value in _of_columns(one):
                metric(family.name, family).gauge.data_points.add(
                    attributes=_attributes(labels), time_unix_nano=at_ns, as_int=value
                )
            time.sleep(REST_S)
        else:
            _add(one, metric, since_ns, at_ns)
    found: bytes = request.SerializeToString()
    return found


def _add(sample: Sample, metric: Callable[[str, Family], Any], since_ns: int, at_ns: int) -> None:
    family, value = sample.family, sample.value
    labels = _attributes(zip(family.labels, sample.labels, strict=False))
    if isinstance(value, Summary) and value.total is not None:
        point = metric(family.name, family).summary.data_points.add(
            attributes=labels, start_time_unix_nano=since_ns, time_unix_nano=at_ns, count=value.times, sum=value.total
        )
        for share, quantile in value.quantiles:
            point.quantile_values.add(quantile=share, value=quantile)
        return
    counted = isinstance(value, Summary) or family.kind == COUNTER
    name = family.name + "_count" if isinstance(value, Summary) else family.name
    number = float(value.times if isinstance(value, Summary) else value)
    if number != number:
        return
    if counted:
        of = metric(name, family).sum
        of.aggregation_temporality, of.is_monotonic = AGGREGATION_TEMPORALITY_CUMULATIVE, True
        of.data_points.add(attributes=labels, start_time_unix_nano=since_ns, time_unix_nano=at_ns, as_double=number)
    else:
        metric(name, family).gauge.data_points.add(attributes=labels, time_unix_nano=at_ns, as_double=number)


def _of_columns(columns: Columns) -> Iterator[tuple[Family, tuple[tuple[str, str], ...], int]]:
    places = [(("topic", one.topic), ("partition", str(one.number))) for one in columns.partitions]
    for column, family in FAMILIES.items():
        for labels, value in zip(places, columns.of(column), strict=True):
            yield family, labels, value
    for labels, value in zip(places, columns.of("lag"), strict=True):
        if value >= 0:
            yield LAG, (("clientId", FOLLOWERS), *labels), value


def _attributes(pairs: Iterable[tuple[str, str]]) -> list[Any]:
    return [KeyValue(key=_text(name), value=AnyValue(string_value=_text(value))) for name, value in pairs]


def _text(text: str) -> str:
    """Text as protobuf takes it: what is no UTF-8 becomes a question mark."""
    return text if text.isascii() else text.encode(errors="replace").decode()
