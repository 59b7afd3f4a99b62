"""The metrics of a node over HTTP."""

import builtins
import socket
from typing import Any
from urllib.request import urlopen

import pytest

from actors.host.metrics import Endpoint, address, named
from actors.host.net.server import PortTaken
from actors.node.metrics import Sample
from actors.settings.keys import ConfigError

LAG = "kafka.controller:type=KafkaController,name=MetadataLag"


def test_names_are_those_of_the_jmx_exporter() -> None:
    assert named(Sample(LAG, "Value", 3)) == ("kafka_controller_KafkaController_Value", {"name": "MetadataLag"})
    assert named(Sample("kafka.server:type=A,name=B,stage=Q", "50thPercentile", 0)) == (
        "kafka_server_A_50thPercentile",
        {"name": "B", "stage": "Q"},
    )
    assert named(Sample("kafka.server:type=Produce,user=a%2Cb,client-id=", "byte-rate", 0)) == (
        "kafka_server_Produce_byte_rate",
        {"user": "a%2Cb", "client_id": ""},
    )


def test_whoever_asks_gets_the_numbers_of_that_moment() -> None:
    pytest.importorskip("prometheus_client")
    lag = [1.0]
    endpoint = Endpoint(
        ("127.0.0.1", 0), lambda: [Sample(LAG, "Value", lag[0]), Sample(LAG + "2", "Value", float("nan"))]
    )
    try:
        url = f"http://127.0.0.1:{endpoint.port}/metrics"
        line = 'kafka_controller_KafkaController_Value{name="MetadataLag"}'
        assert f"{line} 1.0\n" in urlopen(url).read().decode()
        lag[0] = 7
        text = urlopen(url).read().decode()
        assert f"{line} 7.0\n" in text and 'name="MetadataLag2"} NaN\n' in text
    finally:
        endpoint.close()
    with pytest.raises(OSError):
        urlopen(url, timeout=5)


def test_a_port_that_is_taken_is_one_sentence() -> None:
    pytest.importorskip("prometheus_client")
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(PortTaken, match=r"rayft.metrics.listen"):
        Endpoint(("127.0.0.1", taken.getsockname()[1]), list)


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("prometheus_client"):
            raise ImportError(name)
        return whole(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"install rayft\[metrics\]"):
        Endpoint(("127.0.0.1", 0), list)


@pytest.mark.parametrize("text", ["", "9404", "h:", "h:99999", "a b:1", "http://h:1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write host:port"):
        address(text)
    assert address("[::1]:5") == ("::1", 5) and address(":9404") == ("", 9404)
