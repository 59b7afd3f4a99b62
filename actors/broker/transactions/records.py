"""Transactional ids as records of `__transaction_state`, in Apache Kafka's form.

Key: int16 version 0, then the id. Value: int16 version, then the fields of that version; a null value removes the id.
Version 0 is written while `transaction.version` is 0, version 1 (flexible, with tags) from 1 on, and always for a
transaction that its producer has kept (KIP-939): version 0 has no place for the pair that the producer got.

A value of another version was written by later software, and a damaged one by nobody knows whom. Neither is ever replaced
or removed: `TransactionLine.strange` says so, and the coordinator refuses every request for its id. To forget it would give
its producer id to nobody and leave its transaction open.
"""

from typing import NamedTuple

from actors.broker.coordinators.coordination import Record
from actors.broker.transactions.state import (
    AT_REST,
    BY_NUMBER,
    NO_EPOCH,
    NO_ID,
    NO_TIME_MS,
    Transaction,
    TransactionState,
)
from actors.wire.errors import WireError
from actors.wire.messages import decode, encode, message

KEY, VALUE = "transaction:TransactionLogKey", "transaction:TransactionLogValue"
KEY_VERSION = 0
FLEXIBLE = 1
VERSIONS = range(2)


class TransactionLine(NamedTuple):
    """A decoded record. `transaction` None: the id is removed, or the record cannot be read here, and `strange` is a
    sentence why."""

    id: str
    transaction: Transaction | None
    strange: str = ""


def key(id: str) -> bytes:
    """The key of a transactional id."""
    return KEY_VERSION.to_bytes(2, "big") + encode(message(KEY)(transactional_id=id), KEY_VERSION)


def record(id: str, transaction: Transaction | None, version: int) -> Record:
    """The record of a transactional id, or its removal (None). `version`: of the value, 0 or 1."""
    if transaction is None:
        return key(id), None
    if transaction.next_epoch != NO_EPOCH:
        version = FLEXIBLE
    Value = message(VALUE)
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(number)
    body = Value(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.number,
        transaction_partitions=None
        if transaction.state is TransactionState.EMPTY
        else [Value.PartitionsSchema(topic=topic, partition_ids=numbers) for topic, numbers in topics.items()],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )
    if version >= FLEXIBLE:
        body.previous_producer_id = transaction.previous_id
        body.next_producer_id = transaction.next_id
        body.next_producer_epoch = transaction.next_epoch
        body.client_transaction_version = transaction.client_version
    return key(id), version.to_bytes(2, "big") + encode(body, version)


def read(key: bytes | None, value: bytes | None) -> TransactionLine | None:
    """The content of a record; None for kinds of keys that are not known here. Raises WireError on a damaged key."""
    if key is None or len(key) < 2 or int.from_bytes(key[:2], "big") != KEY_VERSION:
        return None
    name, _ = decode(KEY, KEY_VERSION, memoryview(key), 2)
    id: str = name.transactional_id
    if value is None:
        return TransactionLine(id, None)
    version = int.from_bytes(value[:2], "big")
    if version not in VERSIONS:
        return TransactionLine(id, None, f"transactional id {id!r} has a value of version {version}, known are 0 and 1")
    try:
        data, _ = decode(VALUE, version, memoryview(value), 2)
    except WireError as error:
        return TransactionLine(id, None, f"transactional id {id!r} has a damaged value: {error}")
    state = BY_NUMBER.get(data.transaction_status)
    if state is None or state in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
        return TransactionLine(
            id, None, f"transactional id {id!r} has the state {data.transaction_status}, which is never written"
        )
    flexible, at_rest = version >= FLEXIBLE, state in AT_REST
    next_id, next_epoch = (data.next_producer_id, data.next_producer_epoch) if flexible else (NO_ID, NO_EPOCH)
    if next_epoch != NO_EPOCH and min(next_id, next_epoch) < 0:
        return TransactionLine(
            id, None, f"transactional id {id!r} has the next epoch {next_epoch} of the producer id {next_id}"
        )
    partitions = frozenset(
        (topic.topic, number) for topic in data.transaction_partitions or () for number in topic.partition_ids
    )
    return TransactionLine(
        id,
        Transaction(
            producer_id=data.producer_id,
            producer_epoch=data.producer_epoch,
            last_epoch=NO_EPOCH,
            previous_id=data.previous_producer_id if flexible else NO_ID,
            next_id=NO_ID if at_rest else next_id,
            timeout_ms=data.transaction_timeout_ms,
            state=state,
            partitions=frozenset() if at_rest else partitions,
            started_ms=data.transaction_start_timestamp_ms if data.transaction_start_timestamp_ms >= 0 else NO_TIME_MS,
            updated_ms=data.transaction_last_update_timestamp_ms,
            client_version=data.client_transaction_version if flexible else 0,
            next_epoch=NO_EPOCH if at_rest else next_epoch,
        ),
    )
