"""The pages of a node over HTTP: metrics, and whether it lives and is ready."""

import gzip
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from actors.host.metrics.endpoint import Endpoint, Node, address
from actors.host.metrics.text import OPEN, PLAIN
from actors.host.net.server import PortTaken
from actors.node.metrics.family import GAUGE, Family, Sample
from actors.settings.keys import ConfigError

LAG = Family("kafka_lag", GAUGE, "How far behind.")
OTHER = Family("kafka_other", GAUGE, "Something else.")


class Asked:
    """A node that says what the test wants."""

    def __init__(self) -> None:
        self.lag = 1.0
        self.lacking: str | None = ""
        self.scrapes = 0
        self.takes_s = 0.0
        self.endpoint = Endpoint(("127.0.0.1", 0), Node(self.metrics, lambda: self.lacking))

    def metrics(self) -> list[Any]:
        self.scrapes += 1
        time.sleep(self.takes_s)
        if self.lacking is None:
            return []
        return [Sample(LAG, (), self.lag), Sample(OTHER, (), float("nan"))]

    def get(self, path: str, **headers: str) -> Any:
        url = f"http://127.0.0.1:{self.endpoint.port}{path}"
        return urlopen(
            Request(url, headers={name.replace("_", "-"): text for name, text in headers.items()}), timeout=10
        )

    def refused(self, path: str) -> tuple[int, str]:
        with pytest.raises(HTTPError) as found:
            self.get(path)
        return found.value.code, found.value.read().decode()


@pytest.fixture
def asked() -> Iterator[Asked]:
    one = Asked()
    yield one
    one.endpoint.close()


def test_whoever_asks_gets_the_numbers_of_that_moment(asked: Asked) -> None:
    text = asked.get("/metrics").read().decode()
    assert "kafka_lag 1\n" in text and "kafka_other NaN\n" in text
    asked.lag = 7.5
    assert "kafka_lag 7.5\n" in asked.get("/metrics").read().decode()
    asked.endpoint.close()
    with pytest.raises(OSError):
        asked.get("/metrics")


def test_the_format_the_packing_and_the_names_are_those_that_were_asked_for(asked: Asked) -> None:
    plain = asked.get("/metrics")
    assert plain.headers["Content-Type"] == PLAIN and b"# EOF" not in plain.read()
    found = asked.get("/metrics", Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert found.headers["Content-Type"] == OPEN and found.read().endswith(b"# EOF\n")
    packed = asked.get("/metrics?name[]=kafka_lag", Accept_Encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    lines = gzip.decompress(packed.read()).decode().splitlines()
    assert lines == ["# HELP kafka_lag How far behind.", "# TYPE kafka_lag gauge", "kafka_lag 1"]
    assert "Content-Encoding" not in asked.get("/metrics", Accept_Encoding="gzip;q=0, identity").headers


def test_live_is_a_node_that_answers_and_ready_one_that_lacks_nothing(asked: Asked) -> None:
    assert asked.get("/live").read() == b"live\n" and asked.get("/ready").read() == b"ready\n"
    asked.lacking = "its broker is fenced"
    assert asked.refused("/ready") == (503, "not ready: its broker is fenced\n")
    assert asked.get("/live").read() == b"live\n", "a fenced broker is not to be killed"
    asked.lacking = None
    assert asked.refused("/live")[0] == asked.refused("/ready")[0] == 503
    assert asked.scrapes == 0, "nobody has asked for metrics"


def test_a_node_that_does_not_answer_has_no_page_that_looks_whole(asked: Asked) -> None:
    asked.lacking = None
    assert asked.refused("/metrics") == (503, "the node does not answer\n"), "Prometheus would say that it is up"
    asked.lacking = ""
    assert b"kafka_lag 1\n" in asked.get("/metrics").read()


def test_live_does_not_rest_for_the_metrics_that_strangers_ask_for(asked: Asked) -> None:
    asked.takes_s = 1.0
    asked.get("/metrics").read()
    began_s = time.monotonic()
    for _ in range(3):
        assert asked.get("/live").read() == b"live\n"
    assert time.monotonic() - began_s < 1.0, "a probe waits for a second at most by default, and then kills the node"


def test_other_paths_are_not_found(asked: Asked) -> None:
    code, text = asked.refused("/nothing")
    assert code == 404 and "/metrics" in text


def test_a_port_that_is_taken_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(PortTaken, match=r"rayft.metrics.listen"):
        Endpoint(("127.0.0.1", taken.getsockname()[1]), Node(list, lambda: ""))


@pytest.mark.parametrize("text", ["", "9404", "h:", "h:99999", "a b:1", "http://h:1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write host:port"):
        address(text)
    assert address("[::1]:5") == ("::1", 5) and address(":9404") == ("", 9404)
