"""Frames: what surrounds a message on a connection.

This file alone decides lengths and headers. A frame is an int32 length and that many bytes: a header, then the message.
Request headers 1 and 2 differ in a tag section, and so do response headers 0 and 1. The flexible versions of an API
(KIP-482) take the longer header. Only the answer to ApiVersions always has header 0, because a client that asks cannot
know yet which headers this node speaks. The version of a header follows from key and version alone: where the drafts of
KIP-631 and released Kafka use one key for two APIs (50, 51, 56), both APIs are flexible.

`BrokerHeartbeat`, `ControllerHeartbeat` and `AlterIsr` without a prefix mean the drafts' RPCs here (KIP-631, KIP-497);
the released BrokerHeartbeat (63) is `rpc:BrokerHeartbeat`.
"""

import struct
from functools import cache
from typing import Any, NamedTuple

from actors.wire import limits
from actors.wire.errors import TooManyEntries, WireError
from actors.wire.messages import (
    API_VERSIONS,
    Buffer,
    Message,
    Rpc,
    decode,
    decode_counted,
    decode_exact,
    encode_parts,
    head,
    message,
    names,
    requests,
)
from fastpath.messages.headers import plain_request_header

_REQUEST = struct.Struct(">hhih")
_DRAFTS = {"BrokerHeartbeat", "ControllerHeartbeat", "AlterIsr"}
CORRELATION_BYTES = 4
"""The correlation id, with which each response begins."""
HEADER_TAGS_MAX = 256
STRING_BYTES_MAX = 0x7FFF
MESSAGE = "error_message"
MESSAGE_CHARACTERS_MAX = 1000


class RequestHeader(NamedTuple):
    """The header of a request: API, version, and the client. `client_id` may be null."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def is_draft(name: str) -> bool:
    """Whether an API without a prefix is one of the drafts, whose layout depends on the level (A02)."""
    return name in _DRAFTS


def rpc(name: str) -> Rpc:
    """The row of an API. The drafts' APIs are found without their prefix too."""
    return requests(f"v28:{name}" if name in _DRAFTS else name)


def latest_version(name: str) -> int:
    """The newest version that this node offers."""
    return rpc(name).advertised[-1]


# ---- requests -----------------------------------------------------------------------------------------------------


@cache
def _flexible_from() -> dict[int, int]:
    """First version with header 2 by API key; keys without one are missing."""
    first: dict[int, int] = {}
    for name in (*names(), *names("v28")):
        if name.endswith("Request"):
            found = head(name)
            if found.flexible.last >= 0:
                first[found.number] = min(found.flexible.first, first.get(found.number, found.flexible.first))
    return first


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """(header, position of the message) of a request without its length. Raises WireError.

    A header of any key and version is read, known or not, so that the caller can refuse the request. An unknown key is
    read as header 1. Bytes of the client id that are not UTF-8 become U+FFFD, as in Java.
    """
    plain = plain_request_header(frame, _flexible_from())
    if plain is not None:
        key, version, correlation_id, client_id, position = plain
        return RequestHeader(key, version, correlation_id, client_id), position
    return _decode_request_header(frame)


def _decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """(header, position of the message) of any request, including one with an unknown key or a long header."""
    view = memoryview(frame)
    if len(view) < _REQUEST.size:
        raise WireError("RequestHeader", "cut short", len(view))
    key, version, correlation_id, size = _REQUEST.unpack_from(view)
    position = _REQUEST.size
    client_id = None
    if size >= 0:
        if position + size > len(view):
            raise WireError("RequestHeader.client_id", "cut short", position)
        try:
            client_id = str(view[position : position + size], "utf-8")
        except UnicodeDecodeError:
            client_id = _repaired(view[position : position + size], position)
        position += size
    elif size < -1:
        raise WireError("RequestHeader.client_id", "negative length", position - 2)
    first = _flexible_from().get(key)
    if first is not None and version >= first:
        position = _skip_tags(view, position, "RequestHeader")
    return RequestHeader(key, version, correlation_id, client_id), position


def _repaired(data: memoryview, position: int) -> str:
    text = str(data, "utf-8", "replace")
    if len(text.encode()) > STRING_BYTES_MAX:  # the group coordinator writes client ids into its records
        raise WireError("RequestHeader.client_id", "string longer than 32767 bytes", position)
    return text


def decode_request(name: str, version: int, frame: Buffer, position: int) -> Any:
    """The request at `position`. Raises WireError, also for more entries than `limits` allows.

    In the drafts, bytes left over are an error too, since the two drafts' layouts of a message differ in length only
    (A02). Released RPCs may have bytes left over, as Kafka's own broker allows.
    """
    kind, whole, entries_max = _request(name)
    if whole:
        return decode_exact(kind, version, frame, position, entries_max)
    return decode(kind, version, frame, position, entries_max)[0]


def decode_counted_request(name: str, version: int, frame: Buffer, position: int) -> tuple[Any, int]:
    """The request at `position`, and how many entries it has. Raises WireError, as `decode_request`."""
    kind, whole, entries_max = _request(name)
    return decode_counted(kind, version, frame, position, entries_max, whole)


def is_longer(name: str, version: int, frame: Buffer, position: int, entries: int) -> bool:
    """Whether the request at `position` has more than so many entries, or more than it may have. No more than these are
    read; a request that cannot be read has no more."""
    kind, whole, entries_max = _request(name)
    try:
        decode_counted(kind, version, frame, position, min(entries, entries_max), whole)
    except TooManyEntries:
        return True
    except WireError:
        return False
    return False


@cache
def _request(name: str) -> tuple[type[Any], bool, int]:
    """The message of a request, whether bytes left over are an error, and how many entries it may have. A draft request
    is the same at both levels of `metadata.format`."""
    draft = ":" in name or name in _DRAFTS
    kind = message(f"v28:{name}Request" if draft and ":" not in name else f"{name}Request")
    return kind, draft, limits.entries_max(name)


def encode_request(name: str, version: int, correlation_id: int, client_id: str | None, body: Any) -> list[Buffer]:
    """A whole frame, its length included, as buffers to send one after the other. Raises WireError."""
    found = type(body).__schema__.head
    client = b"" if client_id is None else client_id.encode()
    prefix = _REQUEST.pack(found.number, version, correlation_id, -1 if client_id is None else len(client)) + client
    if found.flexible.first <= version <= found.flexible.last:
        prefix += b"\0"
    return encode_parts(body, version, prefix, True)


# ---- responses ----------------------------------------------------------------------------------------------------


def encode_response(name: str, version: int, correlation_id: int, body: Any) -> list[Buffer]:
    """A whole frame, its length included. Raises WireError.

    An error message that repeats text of a request may exceed the length of a string. Then all long error messages are
    cut."""
    found = type(body).__schema__.head
    prefix = correlation_id.to_bytes(CORRELATION_BYTES, "big", signed=True)
    if found.flexible.first <= version <= found.flexible.last and found.number != API_VERSIONS:
        prefix += b"\0"
    try:
        return encode_parts(body, version, prefix, True)
    except WireError as error:
        if not error.path.endswith(MESSAGE):
            raise
    _cut_messages(body)
    return encode_parts(body, version, prefix, framed=True)


def _cut_messages(value: Message) -> None:
    """Cut the error messages in a response or a struct."""
    for name in value.__layout__.names:
        held = getattr(value, name)
        if name == MESSAGE and held is not None:
            setattr(value, name, held[:MESSAGE_CHARACTERS_MAX])
        for one in held if isinstance(held, list) else (held,):
            if isinstance(one, Message):
                _cut_messages(one)


def correlation_id(frame: Buffer) -> int:
    """The correlation id of a response. Raises WireError."""
    if len(frame) < CORRELATION_BYTES:
        raise WireError("ResponseHeader.correlation_id", "cut short", 0)
    return int.from_bytes(frame[:CORRELATION_BYTES], "big", signed=True)


def leading_error(frame: Buffer) -> int:
    """The error code at the head of a response whose header has no tagged fields, as an ApiVersions has; 0 if the frame
    ends before it."""
    code = frame[CORRELATION_BYTES : CORRELATION_BYTES + 2]
    return int.from_bytes(code, "big", signed=True)


def response_header(frame: Buffer, name: str, version: int) -> tuple[int, int]:
    """(correlation id, position of the message) of a response to `name`. Raises WireError."""
    found = correlation_id(frame)
    if rpc(name).response_header(version):
        return found, _skip_tags(memoryview(frame), CORRELATION_BYTES, "ResponseHeader")
    return found, CORRELATION_BYTES


def decode_response(name: str, version: int, frame: Buffer) -> Any:
    """The response in a frame without its length. Raises WireError, also for bytes left over."""
    kind, tagged = _response(name, version)
    if tagged and len(frame) > CORRELATION_BYTES and frame[CORRELATION_BYTES] == 0:  # no tags, as nearly always
        position = CORRELATION_BYTES + 1
    else:
        _, position = response_header(frame, name, version)
    return decode_exact(kind, version, frame, position)


def throttle_time_place(name: str, version: int, frame: Buffer) -> int:
    """Where in a response, without its length, the throttle time is; 0: the API has none in front. Raises WireError."""
    first = _response(name, version)[0].__struct__.fields[0]
    if first.attribute != "throttle_time_ms" or version not in first.versions:
        return 0
    _, position = response_header(frame, name, version)
    return position if position + 4 <= len(frame) else 0


@cache
def _response(name: str, version: int) -> tuple[type[Any], bool]:
    """The message of a response, and whether its header has a tag section."""
    prefixed = f"v28:{name}" if name in _DRAFTS else name
    return message(f"{prefixed}Response"), bool(rpc(name).response_header(version))


def _skip_tags(view: memoryview, position: int, name: str) -> int:
    """The position behind a tag section. No tag in a header has a meaning here. Each costs time, so few are allowed."""
    start = position
    count, position = decode_uvarint(view, position, name)
    if count > HEADER_TAGS_MAX:
        raise WireError(name, f"{count} tags, more than {HEADER_TAGS_MAX}", start)
    for _ in range(count):
        _, position = decode_uvarint(view, position, name)
        size, position = decode_uvarint(view, position, name)
        position += size
        if position > len(view):
            raise WireError(name, "cut short", len(view))
    return position


def decode_uvarint(view: memoryview, position: int, name: str) -> tuple[int, int]:
    """(number, position behind it) of an unsigned variable-length number. Raises WireError, in which `name` is the
    field's."""
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(view):
            raise WireError(name, "cut short", position)
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise WireError(name, "variable-length number longer than 32 bits", position)
