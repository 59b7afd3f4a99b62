"""Which records of a fetch are shown: those from the position on, none of aborted transactions, no markers."""

import pytest

from actors.client.committed import CONTROL, TRANSACTIONAL
from actors.client.errors import ClientError
from actors.client.operations.fetching import Fetched
from actors.client.operations.records import records
from fastpath.records.batch import Builder


def batch(offset: int, values: list[bytes], producer: int = -1, attributes: int = 0) -> bytes:
    builder = Builder(offset, 1, attributes, producer, 0 if producer >= 0 else -1, 0 if producer >= 0 else -1, 5)
    for value in values:
        builder.append(b"\x00\x00\x00\x01" if attributes & CONTROL else None, value, 5)
    return bytes(builder.build())


def fetched(data: bytes, offset: int = 0, aborted: tuple[tuple[int, int], ...] = ()) -> Fetched:
    return Fetched("t", 0, offset, memoryview(data), 100, 100, 100, 0, aborted)


def shown(found: Fetched) -> list[tuple[int, bytes | None]]:
    return [(one.offset, one.value) for one in records(found)]


LOG = b"".join((
    batch(0, [b"plain"]),
    batch(1, [b"lost", b"too"], 7, TRANSACTIONAL),
    batch(3, [b"other"], 8, TRANSACTIONAL),
    batch(4, [b"mark"], 7, TRANSACTIONAL | CONTROL),
    batch(5, [b"kept"], 7, TRANSACTIONAL),
    batch(6, [b"mark"], 7, TRANSACTIONAL | CONTROL),
))  # fmt: skip


def test_an_aborted_transaction_ends_at_its_producers_marker() -> None:
    assert shown(fetched(LOG, aborted=((7, 1),))) == [(0, b"plain"), (3, b"other"), (5, b"kept")]


def test_without_aborted_ones_all_is_shown_but_markers() -> None:
    assert [offset for offset, _ in shown(fetched(LOG))] == [0, 1, 2, 3, 5]


def test_records_before_the_position_are_left_out() -> None:
    assert [offset for offset, _ in shown(fetched(LOG, 2))] == [2, 3, 5]


@pytest.mark.parametrize("codec", range(5))
def test_every_codec(codec: int) -> None:
    assert shown(fetched(batch(9, [b"x" * 100], attributes=codec))) == [(9, b"x" * 100)]


def test_damage_has_topic_partition_and_offset() -> None:
    data = bytearray(batch(0, [b"fine"]) + batch(1, [b"broken"]))
    data[-2] ^= 1
    with pytest.raises(ClientError, match=r"^partition t/0 at offset 1: the batch's CRC does not match its bytes$"):
        shown(fetched(bytes(data)))
