"""Record batches of magic 2 in plain Python: `fastpath.records.batch` must agree, byte for byte and verdict for verdict."""

import struct
from typing import NamedTuple

from tests.reference.crc32c import crc32c
from tests.reference.varint import Bad, decode_varint, encode_varint

HEADER = struct.Struct(">qiibIhiqqqhii")


class Row(NamedTuple):
    """A record before it has an offset."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


class Fields(NamedTuple):
    """The header as it lies in the bytes."""

    base_offset: int
    length: int
    epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int


def sized(data: bytes | None) -> bytes:
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


def record(row: Row, timestamp_delta: int, offset_delta: int) -> bytes:
    body = b"\0" + encode_varint(timestamp_delta) + encode_varint(offset_delta) + sized(row.key) + sized(row.value)
    body += encode_varint(len(row.headers)) + b"".join(sized(name) + sized(value) for name, value in row.headers)
    return sized(body)


def build(
    rows: list[Row],
    base_offset: int = 0,
    epoch: int = -1,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    count, base, latest = len(rows), rows[0].timestamp, max(row.timestamp for row in rows)
    body = b"".join(record(row, row.timestamp - base, i) for i, row in enumerate(rows))
    return sealed(
        Fields(base_offset, 0, epoch, 2, 0, attributes, count - 1, base, latest, *producer, count),
        body,
    )


def sealed(fields: Fields, body: bytes) -> bytes:
    """Header and body with the length and CRC that belong to them."""
    fields = fields._replace(length=HEADER.size - 12 + len(body))
    crc = crc32c((HEADER.pack(*fields) + body)[21:])
    return HEADER.pack(*fields._replace(crc=crc)) + body


def fields(data: bytes, pos: int = 0) -> Fields:
    return Fields(*HEADER.unpack_from(data, pos))


def read_sized(data: bytes, pos: int, nullable: bool = True) -> tuple[bytes | None, int]:
    size, pos = decode_varint(data, pos, 32)
    if size == -1 and nullable:
        return None, pos
    if size < 0 or pos + size > len(data):
        raise Bad("size")
    return data[pos : pos + size], pos + size


def read_record(data: bytes, pos: int) -> tuple[Row, int, int]:
    """(record with its timestamp delta, offset delta, position behind it)."""
    body, behind = read_sized(data, pos, nullable=False)
    assert body is not None
    if not body:
        raise Bad("empty record")
    timestamp_delta, pos = decode_varint(body, 1, 64)
    offset_delta, pos = decode_varint(body, pos, 32)
    key, pos = read_sized(body, pos)
    value, pos = read_sized(body, pos)
    count, pos = decode_varint(body, pos, 32)
    if count < 0:
        raise Bad("header count")
    headers = []
    for _ in range(count):
        name, pos = read_sized(body, pos, nullable=False)
        content, pos = read_sized(body, pos)
        assert name is not None
        headers.append((name, content))
    if pos != len(body):
        raise Bad("left over")
    return Row(key, value, timestamp_delta, tuple(headers)), offset_delta, behind


def rows(body: bytes, count: int) -> list[tuple[int, Row]]:
    """(offset delta, record with its timestamp delta) of an uncompressed body."""
    found, pos = [], 0
    for _ in range(count):
        row, delta, pos = read_record(body, pos)
        found.append((delta, row))
    if pos != len(body):
        raise Bad("left over")
    return found


def check(data: bytes, client: bool = True, keyed: bool = False) -> list[Fields]:
    """The headers of the batches that fill `data`; Bad when a broker must refuse them."""
    found, pos = [], 0
    while pos < len(data):
        if len(data) - pos < HEADER.size:
            raise Bad("cut")
        head = fields(data, pos)
        end = pos + 12 + head.length
        if head.magic != 2 or head.length < HEADER.size - 12 or end > len(data):
            raise Bad("frame")
        if head.last_offset_delta < 0 or not 0 <= head.count <= head.last_offset_delta + 1:
            raise Bad("counts")
        if crc32c(data[pos + 21 : end]) != head.crc:
            raise Bad("crc")
        if client:
            check_client(head, data[pos + HEADER.size : end], keyed)
        found.append(head)
        pos = end
    return found


def check_client(head: Fields, body: bytes, keyed: bool) -> None:
    codec, control = head.attributes & 7, head.attributes & 32
    if codec > 4 or control or head.count < 1 or head.count != head.last_offset_delta + 1:
        raise Bad("rules")
    if codec == 0 and refused(head, body, keyed):
        raise Bad("records")


def refused(
    head: Fields, body: bytes, keyed: bool, oldest_ms: int = -(1 << 63), newest_ms: int = (1 << 63) - 1
) -> list[tuple[int, bool]]:
    """Of decompressed records those that a client may not send: (index, whether its key is missing, else its time). Bad
    when they are not the records that the header tells of. A header that claims one time for all of them is asked too,
    and then a record may be as old as it is."""
    read = rows(body, head.count)
    if [delta for delta, _ in read] != list(range(head.count)):
        raise Bad("offsets")
    stamped = head.attributes & 8
    found = []
    for index, (_, row) in enumerate(read):
        time = timestamp(head, row)
        if keyed and row.key is None:
            found.append((index, True))
        elif time != -1 and (time > newest_ms or (time < oldest_ms and not stamped)):
            found.append((index, False))
    if stamped and not found and not (head.max_timestamp != -1 and oldest_ms <= head.max_timestamp <= newest_ms):
        return [(index, False) for index in range(head.count)]
    return found


def timestamp(head: Fields, row: Row) -> int:
    """Of a record of `rows`, in 64 bits."""
    return (head.base_timestamp + row.timestamp + (1 << 63)) % (1 << 64) - (1 << 63)
