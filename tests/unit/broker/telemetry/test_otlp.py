"""What is read of a client's payload, against OpenTelemetry's own messages; and of bytes that are none."""

import contextlib
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from actors.broker.telemetry import otlp
from actors.broker.telemetry.otlp import Malformed, Point, read

proto = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2", reason="needs opentelemetry-proto")


def pair(key: str, **value: Any) -> dict[str, Any]:
    return {"key": key, "value": value}


def payload(*metrics: dict[str, Any], resource: tuple[Any, ...] = ()) -> bytes:
    return bytes(
        proto.MetricsData(
            resource_metrics=[
                {"resource": {"attributes": resource}, "scope_metrics": [{"scope": {"name": "s"}, "metrics": metrics}]}
            ]
        ).SerializeToString()
    )


def test_numbers_of_every_kind() -> None:
    at = {"time_unix_nano": 5, "start_time_unix_nano": 4}
    found = read(
        payload(
            {"name": "g", "unit": "s", "gauge": {"data_points": [{**at, "as_double": 1.5}, {**at, "as_int": -7}]}},
            {
                "name": "d",
                "sum": {"data_points": [{**at, "as_int": 3}], "aggregation_temporality": 1, "is_monotonic": True},
            },
            {"name": "c", "sum": {"data_points": [{**at, "as_double": 4.0}], "aggregation_temporality": 2}},
            {"name": "h", "histogram": {"data_points": [{**at, "count": 2, "sum": 9.5, "bucket_counts": [1, 1]}]}},
            {"name": "e", "exponential_histogram": {"data_points": [{**at, "count": 3, "sum": 1.0, "scale": 2}]}},
            {"name": "s", "summary": {"data_points": [{**at, "count": 4, "sum": 2.0}]}},
        )
    )
    assert found == [
        Point("g", (), 1.5, False), Point("g", (), -7.0, False), Point("d", (), 3.0, True), Point("c", (), 4.0, False),
        Point("h.count", (), 2.0, False), Point("h.sum", (), 9.5, False), Point("e.count", (), 3.0, False),
        Point("e.sum", (), 1.0, False), Point("s.count", (), 4.0, False), Point("s.sum", (), 2.0, False),
    ]  # fmt: skip


def test_labels_are_those_of_the_client_and_of_the_number() -> None:
    attributes = [
        pair("topic", string_value="t"),
        pair("n", int_value=-3),
        pair("b", bool_value=True),
        pair("d", double_value=0.5),
    ]
    point = {"as_int": 1, "attributes": attributes}
    resource = (pair("client_rack", string_value="r1"), pair("topic", string_value="hidden"))
    (found,) = read(payload({"name": "g", "gauge": {"data_points": [point]}}, resource=resource))
    assert found.labels == (("b", "true"), ("client_rack", "r1"), ("d", "0.5"), ("n", "-3"), ("topic", "t"))


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a", b"\x0a\x05ab", b"\xff" * 11, b"\x0b", b"\x0e\x00", payload({"gauge": {"data_points": []}}),
        payload({"name": "n" * 513}), payload({"name": "g", "gauge": {"data_points": [{"attributes": [pair("")]}]}}),
        payload({"name": "g", "gauge": {"data_points": [{"attributes": [pair(str(n)) for n in range(33)]}]}}),
    ],
)  # fmt: skip
def test_what_is_no_payload_is_told_so(data: bytes) -> None:
    with pytest.raises(Malformed):
        read(data)


@pytest.mark.parametrize("limit", ["FIELDS_MAX", "POINTS_MAX"])
def test_a_payload_has_so_much_and_no_more(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = payload({"name": "g", "gauge": {"data_points": [{"as_int": n} for n in range(1, 30)]}})
    assert len(read(data)) == 29
    monkeypatch.setattr(otlp, limit, 28)
    with pytest.raises(Malformed):
        read(data)


@pytest.mark.parametrize("where", ["top", "resource", "metric"])
def test_fields_that_say_nothing_cost_little(where: str) -> None:
    """A megabyte of them is a kilobyte when it is compressed, and anybody may push that."""
    empty = b"\x78\x00" * 500_000
    body = {
        "top": lambda: empty,
        "resource": lambda: bounded(1, empty),
        "metric": lambda: bounded(1, bounded(2, bounded(2, empty))),
    }
    with pytest.raises(Malformed, match=r"30001 fields with 0 data points"):
        read(body[where]())


def bounded(number: int, data: bytes) -> bytes:
    size, left = b"", len(data)
    while left > 127:
        size += bytes([left & 127 | 128])
        left >>= 7
    return bytes([number << 3 | 2]) + size + bytes([left]) + data


@pytest.mark.long
def test_the_largest_payloads_of_clients_are_read() -> None:
    """A consumer of a thousand partitions, with more labels than any client has."""
    labels = [pair(str(n), string_value="v") for n in range(20)]
    points = [{"as_double": float(n), "attributes": labels} for n in range(1000)]
    assert len(read(payload(*({"name": f"m{n}", "gauge": {"data_points": points}} for n in range(4))))) == 4000
    bare = [{"as_double": float(n)} for n in range(1, 20_001)]
    assert len(read(payload({"name": "m", "gauge": {"data_points": bare}}))) == 20_000


def test_a_payload_is_read_in_slices() -> None:
    data = payload(*({"name": f"m{n}", "gauge": {"data_points": [{"as_int": 1}]}} for n in range(50)))
    slices = list(otlp.reading(data))
    assert len(slices) == 50 and max(slices) < 20


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 120), st.integers(0, 255))
def test_any_bytes_are_read_or_refused(noise: bytes, place: int, byte: int) -> None:
    data = bytearray(
        payload({"name": "g", "gauge": {"data_points": [{"as_int": 1, "attributes": [pair("a", int_value=1)]}]}})
    )
    data[place % len(data)] = byte
    for one in (noise, bytes(data), bytes(data[:place])):
        with contextlib.suppress(Malformed):
            read(one)
