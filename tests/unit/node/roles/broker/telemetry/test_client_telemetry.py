"""GetTelemetrySubscriptions and PushTelemetry of a broker, from the request to its page of metrics."""

from typing import Any

import pytest

from actors.broker.telemetry.otlp import Malformed
from actors.metadata import ops
from actors.node.api.handlers.push_telemetry import push_telemetry
from actors.node.metrics.clients import pushed, pushed_parts
from actors.node.roles.broker.telemetry import client_telemetry
from actors.node.roles.broker.telemetry.client_telemetry import points
from actors.node.runtime.answers import Later
from actors.node.runtime.calls import Call, Listener
from actors.ports import WorkKind, to_end
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import compression
from tests.unit.node.roles.broker.lab import Lab

LISTEN = {"rayft.metrics.listen": "127.0.0.1:9404", "telemetry.max.bytes": "2000"}
SUBSCRIPTION = 16


def point(name: bytes, value: int, *, delta: bool = False) -> bytes:
    """A payload with one whole number, by hand."""
    number = b"\x0a\x09\x31" + value.to_bytes(8, "little")
    body = (
        (b"\x3a" + bytes([len(number) + 2]) + number + b"\x10\x01")
        if delta
        else b"\x2a" + bytes([len(number)]) + number
    )
    metric = b"\x0a" + bytes([len(name)]) + name + body
    scope = b"\x12" + bytes([len(metric)]) + metric
    resource = b"\x12" + bytes([len(scope)]) + scope
    return b"\x0a" + bytes([len(resource)]) + resource


def made(settings: dict[str, str] = LISTEN, **subscription: str) -> Lab:
    lab = Lab(1, settings)
    if subscription:
        lab.commit(
            *(ops.ConfigSet(SUBSCRIPTION, "s", name.replace("_", "."), text) for name, text in subscription.items())
        )
    return lab


def ask(lab: Lab, id: bytes = bytes(16)) -> Any:
    request = message("GetTelemetrySubscriptionsRequest")(client_instance_id=id)
    return lab.call(1, "GetTelemetrySubscriptions", 0, request).reply


def push(lab: Lab, asked: Any, payload: bytes, codec: int = 0, **changes: Any) -> ErrorCode:
    values = {
        "client_instance_id": asked.client_instance_id, "subscription_id": asked.subscription_id,
        "compression_type": codec, "metrics": payload,
    }  # fmt: skip
    return ErrorCode(
        lab.call(1, "PushTelemetry", 0, message("PushTelemetryRequest")(**values | changes)).reply.error_code
    )


def page(lab: Lab) -> dict[tuple[str, str], float]:
    """(name, client id) of what clients have pushed."""
    node = lab.nodes[1].node
    found = [one for part in pushed_parts(node.broker.telemetry.clients) for one in part]
    return {(one.family.name, one.labels[one.family.labels.index("client_id")]): one.value for one in found}


def served(lab: Lab) -> set[int]:
    request = message("ApiVersionsRequest")(client_software_name="some-client", client_software_version="1.2")
    return {one.api_key for one in lab.call(1, "ApiVersions", 3, request).reply.api_keys}


def test_clients_are_asked_only_where_metrics_are_shown() -> None:
    assert {71, 72} <= served(made())
    lab = made({})
    assert not {71, 72} & served(lab)
    assert ask(lab).error_code == push(lab, ask(lab), b"") == ErrorCode.UNSUPPORTED_VERSION


def test_what_a_client_pushes_is_on_the_page() -> None:
    lab = made(
        metrics="queue.", interval_ms="1000", match="client_software_name=some-.*,client_source_address=127.0.0.1"
    )
    served(lab)
    found = ask(lab)
    assert found.error_code == 0 and found.requested_metrics == ["queue."] and found.push_interval_ms == 1000
    assert (
        found.accepted_compression_types == [4, 3, 1, 2]
        and found.telemetry_max_bytes == 2000
        and found.delta_temporality
    )
    assert found.client_instance_id != bytes(16)
    assert push(lab, found, point(b"queue.depth", 7)) is ErrorCode.NONE
    assert page(lab) == {("client_queue_depth", "client"): 7.0}
    lab.pass_ms(1000)
    for codec in range(5):
        payload = point(b"org.apache.kafka.x", 2, delta=True)
        packed = compression.compress(codec, payload) if codec else payload
        assert push(lab, found, packed, codec) is ErrorCode.NONE, codec
        lab.pass_ms(1000)
    assert page(lab)["org_apache_kafka_x", "client"] == 10.0
    lab.pass_ms(70_000)
    assert page(lab) == {}, "it has not come for a minute"


def test_settings_of_a_subscription_count_from_the_next_question_on() -> None:
    lab = made()
    assert ask(lab).requested_metrics == []
    lab.commit(ops.ConfigSet(SUBSCRIPTION, "s", "metrics", "a,b"))
    lab.pass_ms(1000)
    found = ask(lab)
    assert found.requested_metrics == ["a", "b"] and found.push_interval_ms == 300_000
    lab.commit(ops.ConfigSet(SUBSCRIPTION, "s", "metrics", None))
    lab.pass_ms(1000)
    assert push(lab, found, b"") is ErrorCode.UNKNOWN_SUBSCRIPTION_ID


@pytest.mark.parametrize(
    ("payload", "codec", "error"),
    [
        (b"\xff", 0, ErrorCode.INVALID_RECORD), (b"no frame", 4, ErrorCode.INVALID_RECORD),
        (bytes(2001), 0, ErrorCode.TELEMETRY_TOO_LARGE), (b"x", 7, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (b"", 0, ErrorCode.NONE),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_and_the_client_goes_on(payload: bytes, codec: int, error: ErrorCode) -> None:
    lab = made(metrics="*", interval_ms="1000")
    found = ask(lab)
    assert push(lab, found, payload, codec) is error
    lab.pass_ms(1000)
    assert push(lab, found, point(b"x", 1)) is ErrorCode.NONE


def test_a_payload_that_unpacks_to_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_telemetry, "PAYLOAD_BYTES_MAX", 10_000)
    assert to_end(points(4, compression.compress(4, bytes([0x10, 0]) * 4_000))) == []
    with pytest.raises(compression.TooLarge):
        to_end(points(4, compression.compress(4, bytes([0x10, 0]) * 6_000)))
    with pytest.raises(Malformed):
        to_end(points(0, b"\xff"))


def test_the_names_that_a_client_gives_are_made_to_fit() -> None:
    found = pushed("kafka.server-x", (("a.b", "c,d"), ("1", "x"), ("__name__", "y"), ("a-b", "e")), 1.0)
    assert found.family.name == "client_kafka_server_x", "never one of the broker's own"
    labels = dict(zip(found.family.labels, found.labels, strict=True))
    assert labels == {"a_b": "e", "label_1": "x", "label___name__": "y"}


def test_what_clients_push_is_read_by_a_thread_of_its_own_and_so_much_at_once() -> None:
    lab, answers = made(LISTEN, metrics="*"), []
    most = client_telemetry.READINGS_MAX
    for number in range(most + 3):
        asked = ask(lab, bytes([number + 1] * 16))
        request = message("PushTelemetryRequest")(
            client_instance_id=asked.client_instance_id,
            subscription_id=asked.subscription_id,
            metrics=point(b"org.apache.kafka.x", 1),
        )
        call = Call(7, Listener.CLIENT, "PLAINTEXT", 72, 0, "c", "127.0.0.1", "User:ANONYMOUS", memoryview(b""))
        answers.append(push_telemetry(lab.nodes[1].node.dispatch.broker, request, call))
    assert {type(one) for one in answers[:most]} == {Later} and {one.kind for one in answers[:most]} == {
        WorkKind.TELEMETRY
    }
    assert [one.reply.error_code for one in answers[most:]] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED] * 3
    first = answers[0]
    result = to_end(first.job)
    first.seen(result)
    assert first.then(result).reply.error_code == ErrorCode.NONE
    assert lab.nodes[1].node.broker.telemetry.readings == most - 1


def test_a_push_that_unpacks_to_much_costs_a_slice_each_time() -> None:
    """Whatever the job does, others of its thread have their turn in between."""
    metric = b"\x12\x03\x0a\x01x"  # a metric with a name and no data
    scope = metric * 5_000
    job = points(4, compression.compress(4, wrapped(wrapped(scope, 0x12), 0x0A)))
    slices = 0
    while not isinstance(job(), list):
        slices += 1
    assert slices >= 2


def wrapped(data: bytes, tag: int) -> bytes:
    size, left = b"", len(data)
    while left > 127:
        size += bytes([left & 127 | 128])
        left >>= 7
    return bytes([tag]) + size + bytes([left]) + data
