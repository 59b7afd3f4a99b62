"""Frames and headers, against kio's headers and a stream cut everywhere."""

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as Header1
from kio.schema.request_header.v2.header import RequestHeader as Header2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from actors.wire import framing
from actors.wire.errors import WireError
from actors.wire.messages import encode, message
from fastpath.messages.headers import plain_request_header


@pytest.mark.parametrize("client_id", [None, "", "client", "größe"])
@pytest.mark.parametrize(("version", "foreign"), [(8, Header1), (9, Header2)])
def test_request_headers_are_kios(client_id: str | None, version: int, foreign: type) -> None:
    body = message("MetadataRequest")()
    frame = b"".join(framing.encode_request("Metadata", version, -7, client_id, body))
    out = io.BytesIO()
    header = foreign(
        request_api_key=i16(3), request_api_version=i16(version), correlation_id=i32(-7), client_id=client_id
    )
    entity_writer(foreign)(out, header)
    assert frame == (len(frame) - 4).to_bytes(4, "big") + out.getvalue() + encode(body, version)
    header, position = framing.decode_request_header(memoryview(frame)[4:])
    assert header == (3, version, -7, client_id)
    assert framing.decode_request("Metadata", version, frame[4:], position) == body


def test_a_header_with_tags() -> None:
    frame = bytes.fromhex("0003000900000001000161" + "02" + "0003aabbcc" + "7f00") + encode(
        message("MetadataRequest")(), 9
    )
    header, position = framing.decode_request_header(frame)
    assert header.client_id == "a"
    assert framing.decode_request("Metadata", 9, frame, position) == message("MetadataRequest")()


def test_headers_of_unknown_requests_can_be_read() -> None:
    assert framing.decode_request_header(bytes.fromhex("0012006300000001ffff00"))[0] == (18, 99, 1, None)
    assert framing.decode_request_header(bytes.fromhex("7fff000000000001000161")) == ((32767, 0, 1, "a"), 11)


@pytest.mark.parametrize(
    "data", ["", "0003", "00030009000000010005", "0003000900000001fffe", "000300090000000100026161",
             "000300090000000100016101", "0003000900000001000161ffffffffff"]
)  # fmt: skip
def test_damaged_headers(data: str) -> None:
    with pytest.raises(WireError, match="RequestHeader"):
        framing.decode_request_header(bytes.fromhex(data))


def test_responses() -> None:
    for name, version, size in (("Metadata", 8, 4), ("Metadata", 9, 5), ("ApiVersions", 0, 4), ("ApiVersions", 4, 4)):
        body = message(f"{name}Response")()
        frame = b"".join(framing.encode_response(name, version, 77, body))
        assert frame == (len(frame) - 4).to_bytes(4, "big") + frame[4 : 4 + size] + encode(body, version)
        assert framing.response_header(frame[4:], name, version) == (77, size)
        assert framing.correlation_id(frame[4:]) == 77
        assert framing.decode_response(name, version, frame[4:]) == body


@pytest.mark.parametrize("version", [4, 7])
def test_an_error_message_that_is_too_long_for_a_string_is_cut(version: int) -> None:
    cls = message("CreateTopicsResponse")
    told = [cls.CreatableTopicResult(name=name, error_message=name * 40_000) for name in ("a", "\u20ac")]
    frame = b"".join(framing.encode_response("CreateTopics", version, 1, cls(topics=told)))
    topics = framing.decode_response("CreateTopics", version, frame[4:]).topics
    assert [topic.error_message for topic in topics] == ["a" * 1000, "\u20ac" * 1000]
    with pytest.raises(WireError, match="name: string longer"):
        framing.encode_response("CreateTopics", version, 1, cls(topics=[cls.CreatableTopicResult(name="a" * 40_000)]))


def test_a_version_too_new_is_answered_in_version_0() -> None:
    """ApiVersions: code 35 and our range, as every client expects."""
    cls = message("ApiVersionsResponse")
    body = cls(error_code=35, api_keys=[cls.ApiVersion(api_key=18, min_version=0, max_version=4)])
    frame = b"".join(framing.encode_response("ApiVersions", 0, 1, body))
    assert frame.hex() == "00000010" + "00000001" + "0023" + "00000001" + "001200000004"


def test_the_drafts() -> None:
    body = message("v19:ControllerHeartbeatResponse")(error_code=41)
    frame = b"".join(framing.encode_response("ControllerHeartbeat", 0, 1, body))[4:]
    assert framing.decode_response("v19:ControllerHeartbeat", 0, frame) == body
    with pytest.raises(WireError):
        framing.decode_response("v28:ControllerHeartbeat", 0, frame)
    longer = b"".join(
        framing.encode_response("ControllerHeartbeat", 0, 1, message("v28:ControllerHeartbeatResponse")())
    )
    with pytest.raises(WireError, match="4 bytes left over"):
        framing.decode_response("v19:ControllerHeartbeat", 0, longer[4:])
    assert [framing.latest_version(name) for name in ("BrokerHeartbeat", "AlterIsr", "rpc:BrokerHeartbeat")] == [
        0,
        0,
        2,
    ]


def test_bytes_behind_a_released_request_are_kafkas_habit() -> None:
    body = message("MetadataRequest")()
    assert framing.decode_request("Metadata", 4, encode(body, 4) + b"more", 0) == body
    heartbeat = encode(message("v28:ControllerHeartbeatRequest")(), 0)
    with pytest.raises(WireError, match="left over"):
        framing.decode_request("v28:ControllerHeartbeat", 0, heartbeat + b"more", 0)


def test_a_client_id_that_is_not_utf_8_becomes_what_java_makes_of_it() -> None:
    frame = bytes([0, 18, 0, 0, 0, 0, 0, 1, 0, 4]) + b"caf\xe9"
    assert framing.decode_request_header(frame) == ((18, 0, 1, "caf\ufffd"), len(frame))
    with pytest.raises(WireError, match="string longer than 32767 bytes"):
        framing.decode_request_header(frame[:8] + b"\x2a\xab" + b"\xff" * 10923)


def test_a_header_with_more_tags_than_anybody_sends_is_refused_at_once() -> None:
    """They are passed over one by one: a frame of 100 MB has room for 50 million."""
    head = bytes([0, 18, 0, 3, 0, 0, 0, 1, 0xFF, 0xFF])
    assert framing.decode_request_header(head + b"\x02" + b"\x05\0\x06\x01x")[1] == len(head) + 6
    with pytest.raises(WireError, match="tags"):
        framing.decode_request_header(head + b"\xff\xff\xff\xff\x0f" + bytes(2_000_000))


@given(st.data())
def test_a_plain_header_is_read_as_any_other(data: st.DataObject) -> None:
    key = data.draw(st.sampled_from([0, 1, 3, 18, 50, 0x7FFF, -1]) | st.integers(-0x8000, 0x7FFF))
    version = data.draw(st.integers(-1, 20))
    client = data.draw(st.binary(max_size=12) | st.text("abc-é", max_size=200).map(str.encode))
    size = data.draw(st.sampled_from([len(client), -1, -2, len(client) + 1]))
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + bytes(3) + b"\x07"
    frame += size.to_bytes(2, "big", signed=True) + client + data.draw(st.sampled_from([b"", b"\0", b"\0\0", b"\x01"]))
    frame = frame[: data.draw(st.integers(0, len(frame)) | st.just(len(frame)))]
    plain = plain_request_header(frame, framing._flexible_from())
    if plain is not None:
        assert framing._decode_request_header(frame) == (plain[:4], plain[4])
    else:
        with contextlib.suppress(WireError):
            header, position = framing._decode_request_header(frame)
            tagged = position > 10 + max(size, 0) and frame[10 + max(size, 0)] != 0
            assert tagged or not (header.client_id or "").isascii(), "it is plain"


def test_the_leading_error_of_a_response_lies_behind_its_correlation_id() -> None:
    frame = framing.encode_response("ApiVersions", 0, 7, message("ApiVersionsResponse")(error_code=35))
    frame = b"".join(bytes(part) for part in frame)[4:]
    assert framing.correlation_id(frame) == 7 and framing.leading_error(frame) == 35
    assert framing.leading_error(frame[:4]) == 0
