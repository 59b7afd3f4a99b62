"""Records of `__transaction_state`: Apache Kafka's bytes, both ways, and what cannot be read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.transactions.records import TransactionLine, key, read, record
from actors.broker.transactions.state import (
    AT_REST,
    BY_NUMBER,
    NO_EPOCH,
    NO_ID,
    NO_TIME_MS,
    NO_TIMEOUT_MS,
    Transaction,
    TransactionState,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-4.3.1" / "transaction_state" / "records.txt"
ROWS = [line.split() for line in GOLDEN.read_text().splitlines()]
ONE = frozenset((("t", 3),))


def made(
    producer: int, previous: int, next: int, epoch: int, state: TransactionState, partitions: frozenset[tuple[str, int]],
    started: int, updated: int, client: int,
) -> Transaction:  # fmt: skip
    return Transaction(producer, epoch, -1, previous, next, 60000, state, partitions, started, updated, client)


def kept(
    producer: int, previous: int, next: int, epoch: int, next_epoch: int, state: TransactionState
) -> Transaction:  # fmt: skip
    found = made(producer, previous, next, epoch, state, ONE, 1, 2, 2)
    return found._replace(next_epoch=next_epoch, timeout_ms=NO_TIMEOUT_MS)


EXPECTED = {
    "empty": ("a", made(1000, 1000, -1, 0, TransactionState.EMPTY, frozenset(), -1, 1700000000000, 0)),
    "ongoing": ("my-id", made(1000, 1000, -1, 5, TransactionState.ONGOING, ONE, 1700000000001, 1700000000002, 2)),
    "prepare-commit": ("my-id", made(1000, 1000, 1001, 32767, TransactionState.PREPARE_COMMIT, ONE, 1, 2, 2)),
    "prepare-abort": ("\u00fc\u4e16", made(7, 6, -1, 1, TransactionState.PREPARE_ABORT, frozenset(), 1, 2, 0)),
    "complete-commit": ("my-id", made(1001, 1000, -1, 0, TransactionState.COMPLETE_COMMIT, frozenset(), 1, 3, 2)),
    "kept": ("my-id", kept(1000, 1000, 1000, 5, 6, TransactionState.ONGOING)),
    "kept-beyond": ("my-id", kept(1000, 1000, 1002, 32766, 0, TransactionState.ONGOING)),
    "kept-prepare-commit": ("my-id", kept(1000, 1002, 1002, 32767, 7, TransactionState.PREPARE_COMMIT)),
    "complete-abort": ("my-id", made(1001, 1001, -1, 0, TransactionState.COMPLETE_ABORT, frozenset(), 1, 3, 0)),
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_apache_kafkas_records_are_read_and_written(row: list[str]) -> None:
    name, level, key_bytes, value = row[0], int(row[1]), bytes.fromhex(row[2]), bytes.fromhex(row[3])
    id, transaction = EXPECTED[name]
    flexible = min(level, 1)
    assert record(id, transaction, flexible) == (key_bytes, value)
    if not flexible:
        transaction = transaction._replace(previous_id=NO_ID, next_id=NO_ID, client_version=0)
    assert read(key_bytes, value) == TransactionLine(id, transaction)


def test_all_of_apache_kafkas_states_are_here() -> None:
    assert {row[0] for row in ROWS} == set(EXPECTED)
    assert [BY_NUMBER[number].shown for number in range(8)] == [
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
        "PrepareEpochFence",
    ]  # fmt: skip


def test_a_null_value_removes_and_other_keys_mean_nothing() -> None:
    assert record("a", None, 1) == (key("a"), None)
    assert read(key("a"), None) == TransactionLine("a", None)
    assert read(b"\0\1\0\1a", b"\0\0") is None
    assert read(None, b"x") is None
    assert read(b"\0", b"x") is None


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\2", b"\x7f\xff" + b"x" * 50])
def test_a_value_of_later_software_is_not_taken_for_a_removal(value: bytes) -> None:
    line = read(key("a"), value)
    assert line is not None and line.id == "a" and line.transaction is None and line.strange


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_a_value_that_is_cut_is_strange_at_each_length(row: list[str]) -> None:
    key_bytes, value = bytes.fromhex(row[2]), bytes.fromhex(row[3])
    for size in range(len(value)):
        line = read(key_bytes, value[:size])
        assert line is not None and line.strange, size


@pytest.mark.parametrize("status", [6, 7, 8, 127, 255])
def test_a_state_that_is_never_written_is_strange(status: int) -> None:
    value = bytearray(record("a", EXPECTED["empty"][1], 0)[1] or b"")
    value[2 + 8 + 2 + 4] = status
    line = read(key("a"), bytes(value))
    assert line is not None and line.transaction is None and "state" in line.strange


@pytest.mark.parametrize(("next_id", "next_epoch"), [(NO_ID, 0), (NO_ID, 32767), (1001, -2), (-7, 1)])
def test_a_next_epoch_without_a_producer_id_is_strange(next_id: int, next_epoch: int) -> None:
    transaction = EXPECTED["kept"][1]._replace(next_id=next_id, next_epoch=next_epoch)
    line = read(*record("a", transaction, 1))
    assert line is not None and line.transaction is None and f"next epoch {next_epoch}" in line.strange


def test_a_kept_transaction_is_written_with_its_pair_at_every_level() -> None:
    transaction = EXPECTED["kept"][1]
    assert record("a", transaction, 0) == record("a", transaction, 1)
    assert record("a", transaction._replace(next_epoch=NO_EPOCH), 0) != record("a", transaction, 1)


def test_at_rest_nobody_has_another_pair() -> None:
    transaction = EXPECTED["complete-commit"][1]
    line = read(*record("a", transaction._replace(next_id=7, next_epoch=3), 1))
    assert line is not None and line.transaction == transaction and not line.transaction.kept


@given(
    st.text(min_size=1, max_size=40),
    st.sampled_from(
        [
            state
            for state in TransactionState
            if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
        ]
    ),
    st.sets(st.tuples(st.text(min_size=1, max_size=5), st.integers(0, 2**31 - 1)), max_size=6),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.integers(-1, 2**63 - 1),
)
def test_what_is_written_is_read(
    id: str, state: TransactionState, partitions: set[tuple[str, int]], producer: int, epoch: int, started: int
) -> None:
    kept = frozenset() if state in AT_REST else frozenset(partitions)
    transaction = made(producer, producer, -1, epoch, state, kept, started if started >= 0 else NO_TIME_MS, 5, 2)
    try:
        written = record(id, transaction, 1)
    except UnicodeEncodeError:
        return  # a lone surrogate never arrives: names are UTF-8
    assert read(*written) == TransactionLine(id, transaction)
