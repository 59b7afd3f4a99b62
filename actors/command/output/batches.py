"""`rayft dump`: batches and records of a log segment or a checkpoint, for people.

This file alone decides how they are printed. Secrets are not: of a credential, a token and a password one sees that it is
there. The dialect of a metadata file is found in the meta.properties beside its directory, or else by the directory's name
(A09). A file elsewhere is taken for a topic's.
"""

from pathlib import Path
from typing import TextIO

from actors.host import storage
from actors.metadata.bootstrap import BOOTSTRAP
from actors.metadata.ops import ConfigSet, EntitySet, Op
from actors.ports import Batch
from actors.settings.secret import HIDDEN, shown
from fastpath.records import batch

FAMILIES = {"__kafka_metadata-0": "drafts", "__cluster_metadata-0": "released"}
SHOWN_BYTES = 200
SECRETS = frozenset({"salt", "stored_key", "server_key", "hmac"})
"""The secret fields of credentials and tokens: with some of them others can pretend to be a server, or guess
passwords."""


def dump(path: Path, out: TextIO, batches_only: bool = False) -> None:
    """Print a file. Raises ValueError if it cannot be read, or has bytes that are no batch."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): name log files or checkpoints.") from None
    family = _family(path)
    out.write(f"{path}: {len(data)} bytes{', metadata, ' + family if family else ''}\n")
    position = 0
    for head in batch.headers(data):
        batch.verify(data, head.position)
        position = head.position + head.size
        kind = " control" if head.attributes & 0x20 else ""
        out.write(
            f"{head.base_offset}..{head.last_offset} epoch {head.epoch}{kind} records {head.count} bytes {head.size} "
            f"at {head.position} time {head.max_timestamp} codec {head.attributes & 7}"
            + (
                f" producer {head.producer_id}:{head.producer_epoch}:{head.base_sequence}"
                if head.producer_id >= 0
                else ""
            )
            + "\n"
        )
        if not batches_only:
            whole = Batch(head.base_offset, head.last_offset, head.epoch, memoryview(data)[head.position : position])
            for line in _records(whole, family, bool(kind)):
                out.write(f"  {line}\n")
    if position < len(data):
        out.write(f"{len(data) - position} bytes at {position} are no whole batch: a torn tail\n")


def _records(whole: Batch, family: str, control: bool) -> list[str]:
    if control and family:
        from actors.metadata.batches import controls

        return [f"{offset} {record!r}" for offset, record in controls(whole.data)]
    if family:
        from actors.metadata.dialects import dialect

        return [f"{offset} {_without_secrets(op)!r}" for offset, op in dialect(family).decode(whole)]
    return [
        f"{record.offset} time {record.timestamp} key {_text(record.key)} value {_text(record.value)}"
        + "".join(
            f" {_text(name.encode() if isinstance(name, str) else name)}={_text(value)}"
            for name, value in record.headers
        )
        for record in batch.records(whole.data)
    ]


def _without_secrets(op: Op) -> Op:
    if isinstance(op, EntitySet):
        return op._replace(fields=tuple((name, HIDDEN if name in SECRETS else one) for name, one in op.fields))
    if isinstance(op, ConfigSet):
        return op._replace(value=shown(op.name, op.value))
    return op


def _text(data: bytes | None) -> str:
    if data is None:
        return "null"
    shown = repr(bytes(data[:SHOWN_BYTES]))[1:]
    return shown if len(data) <= SHOWN_BYTES else f"{shown}... ({len(data)} bytes)"


def _family(path: Path) -> str:
    """The family of a metadata file, `drafts` or `released`, or empty for the log of a topic."""
    directory = path.resolve().parent
    if directory.name not in FAMILIES and path.name == BOOTSTRAP:
        try:
            own = storage.read(str(directory))
        except storage.StorageError:  # Apache Kafka's
            own = None
        return own.family if own is not None else "released"
    if directory.name not in FAMILIES:
        return ""
    try:
        meta = storage.read(str(directory.parent))
    except storage.StorageError:
        meta = None
    return meta.family if meta is not None else FAMILIES[directory.name]
