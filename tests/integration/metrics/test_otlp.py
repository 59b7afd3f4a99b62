"""A real node sends its metrics to an OpenTelemetry collector: a small receiver that decodes them with OpenTelemetry's own
classes. They are those of its page; a collector that refuses or is away is told once in the log."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import rayft
from actors.host.cluster import probe
from bench.ports import free_port
from tests.integration.answers.dialogue import Broker, Dialogue
from tests.integration.answers.stories import batch
from tests.integration.conftest import until
from tests.integration.metrics.test_metrics_of_a_load import produce

service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
TOKEN = "Bearer of the test"


class Collector:
    """A receiver of OTLP over HTTP."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], Any]] = []
        self.refuses = 0
        """The status that it answers in place of 200; -1: it takes everything but five numbers."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                told = service.ExportMetricsServiceRequest.FromString(gzip.decompress(body))
                outer.requests.append(({name.lower(): text for name, text in self.headers.items()}, told))
                answer = service.ExportMetricsServiceResponse()
                if outer.refuses == -1:
                    answer.partial_success.rejected_data_points = 5
                    answer.partial_success.error_message = "too old"
                data = answer.SerializeToString()
                self.send_response(outer.refuses if outer.refuses > 0 else 200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/metrics"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def numbers(self) -> dict[str, Any]:
        """The newest numbers, by name and labels."""
        found: dict[str, Any] = {}
        for metric in self.requests[-1][1].resource_metrics[0].scope_metrics[0].metrics:
            kind = metric.WhichOneof("data")
            for point in getattr(metric, kind).data_points:
                pairs = ",".join(f'{one.key}="{one.value.string_value}"' for one in point.attributes)
                key = f"{metric.name}{{{pairs}}}" if pairs else metric.name
                assert key not in found and point.time_unix_nano
                if kind == "summary":
                    found[key + " summary"] = point
                else:
                    found[key] = getattr(point, point.WhichOneof("value"))
        return found

    def metric(self, name: str) -> Any:
        metrics = self.requests[-1][1].resource_metrics[0].scope_metrics[0].metrics
        (found,) = [one for one in metrics if one.name == name]
        return found


@contextmanager
def collector() -> Iterator[Collector]:
    one = Collector()
    try:
        yield one
    finally:
        one.server.shutdown()
        one.server.server_close()


def maps(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


def test_what_a_collector_gets_is_what_the_page_shows_and_trouble_is_told_once(tmp_path: Path) -> None:
    port = free_port()
    with collector() as there:
        settings = {
            "rayft.metrics.listen": f"127.0.0.1:{port}",
            "rayft.metrics.otlp.endpoint": there.url,
            "rayft.metrics.otlp.interval.ms": "1000",
            "rayft.metrics.otlp.headers": f"Authorization={TOKEN}, X-Scope=a",
        }
        with rayft.Cluster(1, 1, tmp_path / "c", settings, combined=True) as cluster:
            (broker,) = cluster.broker_ids
            dialogue = Dialogue(cluster.bootstrap_servers)
            topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
            dialogue.raw("CreateTopics", 5, 1, timeout_ms=10_000, topics=[topic])
            dialogue.settled("t", 1)
            client = Broker(cluster.address(broker))
            for _ in range(7):
                assert produce(client, "t", {0: batch(b"x")}) == [0]
            ended = 'kafka_log_log_logendoffset{topic="t",partition="0"}'
            until(lambda: there.requests and there.numbers().get(ended) == 7)
            found, page = there.numbers(), probe.metrics(("127.0.0.1", port))
            requests = 'kafka_network_requestmetrics_requests_total{request="Produce",version="9"}'
            assert found[requests] == page[requests] == 7
            took = found['kafka_network_requestmetrics_totaltimems{request="Produce"} summary']
            assert (
                took.count == 7 and took.sum == page['kafka_network_requestmetrics_totaltimems_sum{request="Produce"}']
            )
            assert [one.quantile for one in took.quantile_values] == [0.5, 0.75, 0.95, 0.98, 0.99, 0.999]
            counted = there.metric("kafka_network_requestmetrics_requests_total")
            assert counted.sum.is_monotonic and counted.sum.aggregation_temporality == 2
            assert counted.sum.data_points[0].start_time_unix_nano < counted.sum.data_points[0].time_unix_nano
            plain = {name.partition(" ")[0].partition("{")[0] for name in found}
            families = {name.partition("{")[0].removesuffix("_sum") for name in page}
            assert plain - families == set() and len(plain) > 150
            headers, told = there.requests[-1]
            assert (headers["authorization"], headers["x-scope"]) == (TOKEN, "a")
            resource = {one.key: one.value.string_value for one in told.resource_metrics[0].resource.attributes}
            assert resource["service.name"] == "rayft" and resource["service.instance.id"] == str(broker)
            assert resource["service.namespace"] == cluster.cluster_id
            for refuses, words in ((503, "HTTP Error 503"), (-1, "5 numbers were refused: too old"), (0, "again")):
                there.refuses = refuses
                until(lambda words=words: words in cluster.log(broker))
            assert cluster.log(broker).count("HTTP Error 503") == 1 and TOKEN not in cluster.log(broker)
            assert "_upb" in maps(cluster.pids[broker])
            client.close()
            dialogue.close()


def test_a_node_that_sends_nothing_imports_nothing_of_it(cluster: Any) -> None:
    assert all("_upb" not in maps(pid) for pid in cluster.pids.values())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rayft.metrics.otlp.endpoint": "localhost:4318"}, "is no URL: write for example"),
        (
            {"rayft.metrics.otlp.endpoint": "http://h:1/", "rayft.metrics.otlp.headers": "a=b,secret"},
            "rayft.metrics.otlp.headers: the entry 2 is not NAME=VALUE",
        ),
    ],
)
def test_wrong_settings_stop_the_start_with_a_sentence(settings: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(rayft.ClusterError) as refused, rayft.Cluster(1, 1, tmp_path / "c", settings, combined=True):
        pass
    log = "".join(path.read_text() for path in (tmp_path / "c").glob("*.log"))
    assert words in str(refused.value) + log and "secret" not in log
