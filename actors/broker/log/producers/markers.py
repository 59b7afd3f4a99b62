"""Control batches that end a transaction (KIP-98): how they look, and how they are read.

A marker is a batch of one record with the producer's id and epoch, base sequence -1, and the attributes transactional and
control. Key and value are big-endian:

    key    version int16 = 0 | type int16: 0 abort, 1 commit
    value  version int16 = 0 | coordinator epoch int32

A later version may have more behind these fields, so only a shorter key or value is refused. A control batch that says
anything else ends no transaction.
"""

import struct
from typing import NamedTuple

from actors.ports import Buffer
from fastpath.records.batch import Builder, CorruptBatch, records

TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT, COMMIT = 0, 1
RECORDS_BYTES_MAX = 4096
"""The most bytes of a compressed control batch: a larger one is no marker."""
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class Marker(NamedTuple):
    """How a transaction ended, and which epoch of the transaction coordinator's partition said so."""

    commit: bool
    coordinator_epoch: int


def build(producer_id: int, producer_epoch: int, marker: Marker, timestamp_ms: int) -> bytearray:
    """The bytes of a marker, before it gets its offset and leader epoch."""
    builder = Builder(
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp_ms=timestamp_ms,
    )
    key = _KEY.pack(0, COMMIT if marker.commit else ABORT)
    builder.append(key, _VALUE.pack(0, marker.coordinator_epoch), timestamp_ms)
    return builder.build()


def read(data: Buffer, position: int) -> Marker | None:
    """The marker in the control batch at `position`; None: the batch holds no marker, or none that is known."""
    try:
        for record in records(data, position, output_bytes_max=RECORDS_BYTES_MAX):
            key, value = record.key, record.value
            if key is None or value is None or len(key) < _KEY.size or len(value) < _VALUE.size:
                return None
            version, kind = _KEY.unpack_from(key)
            value_version, coordinator_epoch = _VALUE.unpack_from(value)
            if version < 0 or value_version < 0 or kind not in (ABORT, COMMIT):
                return None
            return Marker(kind == COMMIT, coordinator_epoch)
    except CorruptBatch:
        pass
    return None
