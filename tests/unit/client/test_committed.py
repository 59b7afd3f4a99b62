"""Which batches a reader of committed records is given, against a reader that goes record by record."""

import random

import pytest

from actors.client.committed import Committed
from fastpath.records.batch import Builder, patch
from fastpath.records.scan import scan

TRANSACTIONAL, CONTROL = 0x10, 0x20


def batch(offset: int, producer: int = -1, attributes: int = 0, marker: int | None = None, count: int = 1) -> bytes:
    builder = Builder(attributes=attributes, producer_id=producer, producer_epoch=0, timestamp_ms=1)
    for _ in range(count):
        builder.append(b"\0\0\0" + bytes([marker]) if marker is not None else None, b"v")
    data = bytearray(builder.build())
    patch(data, 0, offset, 0)
    return bytes(data)


def chosen(data: bytes, aborted: list[tuple[int, int]]) -> list[int]:
    headers, after, fault = scan(data, 0, len(data))
    assert fault is None and after == len(data)
    kept = Committed(aborted).of(headers)
    return [int(offset) for offset in headers["base_offset"][kept]]


def test_nothing_is_left_out_where_nothing_was_aborted() -> None:
    data = batch(0) + batch(1, 7, TRANSACTIONAL) + batch(2, 7, TRANSACTIONAL | CONTROL, marker=1)
    assert chosen(data, []) == [0, 1]


def test_an_aborted_transaction_ends_with_its_own_marker() -> None:
    data = b"".join(
        [
            batch(0, 7, TRANSACTIONAL),
            batch(1, 8, TRANSACTIONAL),
            batch(2, 8, TRANSACTIONAL | CONTROL, marker=0),  # another producer's
            batch(3, 7, TRANSACTIONAL),
            batch(4, 7, TRANSACTIONAL | CONTROL, marker=0),
            batch(5, 7, TRANSACTIONAL),
            batch(6, 7, TRANSACTIONAL | CONTROL, marker=1),
        ]
    )
    assert chosen(data, [(7, 0), (8, 1)]) == [5]
    assert chosen(data, [(7, 0)]) == [1, 5]


def test_a_transaction_that_was_committed_before_is_kept() -> None:
    data = b"".join(
        [
            batch(0, 7, TRANSACTIONAL),
            batch(1, 7, TRANSACTIONAL | CONTROL, marker=1),
            batch(2, 7, TRANSACTIONAL, count=3),
            batch(5, 7),  # not transactional: an idempotent producer's of the same id
            batch(6, 7, TRANSACTIONAL | CONTROL, marker=0),
        ]
    )
    assert chosen(data, [(7, 2)]) == [0, 5]


@pytest.mark.parametrize("seed", range(40))
def test_random_logs(seed: int) -> None:
    """Transactions of several producers, in any order, cut into two answers at any place: what is told of each is what
    overlaps it."""
    draw = random.Random(seed)
    offset, log = 0, []
    open_since: dict[int, int] = {}
    ended: list[tuple[int, int, int]] = []
    right: dict[int, int] = {}
    """First offset of a batch -> its producer, or -1 outside of transactions."""
    for _ in range(draw.randint(5, 40)):
        producer = draw.randint(1, 3)
        step = draw.random()
        if step < 0.25:
            log.append((offset, batch(offset)))
            right[offset] = -1
            offset += 1
        elif step < 0.7 or producer not in open_since:
            open_since.setdefault(producer, offset)
            count = draw.randint(1, 3)
            log.append((offset, batch(offset, producer, TRANSACTIONAL, count=count)))
            right[offset] = producer
            offset += count
        else:
            abort = draw.random() < 0.6
            log.append((offset, batch(offset, producer, TRANSACTIONAL | CONTROL, marker=0 if abort else 1)))
            if abort:
                ended.append((producer, open_since[producer], offset))
            del open_since[producer]
            offset += 1
    lost = {at for at, who in right.items() for producer, first, end in ended if who == producer and first <= at < end}
    cut = draw.randint(0, len(log))
    seen = []
    for part in (log[:cut], log[cut:]):
        if part:
            first, data = part[0][0], b"".join(one for _, one in part)
            last = int(scan(data, 0, len(data))[0]["last_offset"][-1])
            told = [(producer, began) for producer, began, end in ended if began <= last and end >= first]
            draw.shuffle(told)
            seen += chosen(data, told)
    assert seen == [at for at in right if at not in lost]


def test_batches_one_by_one_are_judged_as_many_at_once() -> None:
    data = batch(0, 7, TRANSACTIONAL) + batch(1)
    data += batch(2, 7, TRANSACTIONAL | CONTROL, marker=0) + batch(3, 7, TRANSACTIONAL)
    heads = scan(data, 0, len(data))[0]
    one = Committed([(7, 0)])
    single = [one.keeps(int(head["last_offset"]), int(head["producer_id"]), int(head["attributes"])) for head in heads]
    assert single == Committed([(7, 0)]).of(heads).tolist() == [False, True, False, True]
    assert Committed([]).of(heads).tolist() == [True, True, False, True]
