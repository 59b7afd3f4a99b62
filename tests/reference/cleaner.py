"""A compaction in plain Python, record by record: `fastpath.records.cleaner` must leave the same bytes.

Written from the rules at the head of cleaner.pyx, with whole lists in memory.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fastpath.records import compression
from fastpath.records.batch import Header, headers, records
from fastpath.records.cleaner import Aborted, LastBatch
from tests.reference import batch as slow
from tests.reference.offset_map import OffsetMap

TRANSACTIONAL, CONTROL, APPEND_TIME, HORIZON, CODEC = 0x10, 0x20, 0x08, 0x40, 0x07


class Item(NamedTuple):
    """One record as it was written."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Any


class Transactions:
    def __init__(self, aborted: Iterable[Aborted] = ()) -> None:
        self.aborted = list(aborted)
        self.met: set[Aborted] = set()
        self.committing: set[int] = set()
        self.kept: list[Aborted] = []

    def covering(self, head: Header) -> Aborted | None:
        for one in self.aborted:
            if one.producer_id == head.producer_id and one.first_offset <= head.base_offset <= one.last_offset:
                return one
        return None

    def data_goes(self, head: Header) -> bool:
        one = self.covering(head)
        if one is None:
            self.committing.add(head.producer_id)
        else:
            self.met.add(one)
        return one is not None

    def marker_may_go(self, head: Header, kind: int) -> bool:
        one = self.covering(head)
        if kind == 0 and one in self.met:
            assert one is not None
            self.met.discard(one)
            self.kept.append(one)
            return False
        if kind == 1 and head.producer_id in self.committing:
            self.committing.discard(head.producer_id)
            return False
        return kind in (0, 1)


def items(data: bytes, head: Header) -> list[Item]:
    return [Item(*record) for record in records(data, head.position)]


def fill(offsets: OffsetMap, data: bytes, start_offset: int, transactions: Transactions) -> bool:
    """Enter the keys; whether the map is full."""
    for head in headers(data):
        if head.last_offset < start_offset:
            continue
        aborted = head.attributes & TRANSACTIONAL and not head.attributes & CONTROL and transactions.data_goes(head)
        if not aborted and not head.attributes & CONTROL:
            for item in items(data, head):
                wanted = item.key is not None and item.offset >= start_offset
                if wanted and not offsets.add(item.key or b"", item.offset):
                    return True
        offsets.latest_offset = max(offsets.latest_offset, head.last_offset)
    return False


def clean(
    offsets: OffsetMap,
    transactions: Transactions,
    last_batches: Sequence[LastBatch],
    data: bytes,
    *,
    now_ms: int,
    delete_retention_ms: int,
    last_offset: int,
) -> bytes:
    out = b""
    for head in headers(data):
        found = items(data, head)
        discard = marker = False
        over = bool(head.attributes & HORIZON) and now_ms >= head.base_timestamp
        if head.attributes & CONTROL:
            kind = int.from_bytes((found[0].key or b"")[2:4], "big") if found else -1
            marker = not found or transactions.marker_may_go(head, kind)
            discard = marker and over
        elif head.attributes & TRANSACTIONAL:
            discard = transactions.data_goes(head)
        kept = []
        for item in found:
            if discard:
                continue
            if not head.attributes & CONTROL and item.offset <= offsets.latest_offset:
                if item.key is None or item.offset < offsets.offset(item.key):
                    continue
                if item.value is None and over:
                    continue
            kept.append(item)
        out += _left(data, head, found, kept, marker, last_batches, now_ms + delete_retention_ms, last_offset)
    return out


def _left(
    data: bytes,
    head: Header,
    found: list[Item],
    kept: list[Item],
    marker: bool,
    last_batches: Sequence[LastBatch],
    horizon_ms: int,
    last_offset: int,
) -> bytes:
    whole = bytes(data[head.position : head.position + head.size])
    fields = slow.fields(whole)
    if not kept:
        mine = [one for one in last_batches if one.producer_id == head.producer_id and head.producer_id >= 0]
        tells = any(
            one.last_offset == head.last_offset
            if one.last_offset >= 0
            else bool(head.attributes & CONTROL) and one.producer_epoch == head.producer_epoch
            for one in mine
        )
        if not tells and head.last_offset != last_offset:
            return b""
        attributes = head.attributes & (APPEND_TIME | TRANSACTIONAL | CONTROL)
        return slow.sealed(fields._replace(attributes=attributes, base_timestamp=-1, count=0), b"")
    horizon = (marker or any(item.value is None for item in kept)) and not head.attributes & HORIZON
    if len(kept) == len(found) and not horizon:
        return whole
    base = horizon_ms if horizon else head.base_timestamp
    body = b"".join(
        slow.record(
            slow.Row(item.key, item.value, item.timestamp, item.headers),
            _delta(item, head, base),
            item.offset - head.base_offset,
        )
        for item in kept
    )
    codec = head.attributes & CODEC
    latest = head.max_timestamp if head.attributes & APPEND_TIME else max(item.timestamp for item in kept)
    changed = fields._replace(
        attributes=head.attributes | (HORIZON if horizon else 0),
        base_timestamp=base,
        max_timestamp=latest,
        count=len(kept),
    )
    return slow.sealed(changed, compression.compress(codec, body) if codec else body)


def _delta(item: Item, head: Header, base: int) -> int:
    return item.timestamp - base
