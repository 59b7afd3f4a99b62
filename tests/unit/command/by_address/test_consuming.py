"""What is printed of a topic, what is committed of that, and what is told where records were lost."""

import argparse
import io
import time
from typing import Any

import pytest

from actors.client.errors import ClientError
from actors.client.operations.fetching import Diverged, Fetched, OutOfRange
from actors.client.operations.group_offsets.places import Span
from actors.client.operations.groups import Committed
from actors.command.by_address import consuming
from actors.command.output.record_format import PrintedRecord
from actors.wire.errors import ErrorCode
from fastpath.records.batch import Builder
from tests.unit.command.by_address.test_words import options


def test_a_terminal_without_unicode_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    terminal = Terminal(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", terminal)
    consuming._writer(options(json=False, format=r"%v\n"))(PrintedRecord("t", 0, 0, 5, None, "café".encode(), ()))
    terminal.flush()
    assert terminal.buffer.getvalue() == b"caf\\u00e9\n"  # type: ignore[attr-defined]


class Leaves:
    """A fetcher that notes what it is told."""

    def __init__(self) -> None:
        self.left: list[tuple[str, int]] = []
        self.sought: list[tuple[str, int, int]] = []

    def leave(self, topic: str, partition: int) -> None:
        self.left.append((topic, partition))

    def position(self, topic: str, partition: int) -> int:
        return 12

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self.sought.append((topic, partition, offset))


def reader(**given: Any) -> Any:
    """A reader of partition t/0 that has not read anything, without a cluster."""
    made = object.__new__(consuming._Reader)
    made._kafka = argparse.Namespace(config=argparse.Namespace(check_crcs=True, isolation=0))
    made.printed = []
    made._write = lambda one: made.printed.append(one.offset)
    made._left, made._group, made._ends, made._fetcher = None, None, {}, Leaves()
    made._open, made._shown, made._committed, made._epochs = {PART}, {}, {}, {}
    for name, value in given.items():
        setattr(made, f"_{name}", value)
    return made


PART = ("t", 0)


def fetched(first: int, count: int, position: int = 0, epoch: int = -1) -> Fetched:
    """A batch of records from an offset on, as the answer to a Fetch at a position in it."""
    builder = Builder(base_offset=first, timestamp_ms=5)
    for _ in range(count):
        builder.append(None, b"x", 5)
    data = bytes(builder.build())
    return Fetched("t", 0, position or first, memoryview(data), first + count, 0, 0, 0, (), epoch)


def test_records_behind_the_end_are_not_printed_and_the_partition_is_left() -> None:
    one = reader(ends={PART: 13})
    one._print(PART, fetched(10, 2))
    assert (one.printed, one._shown, one._open) == ([10, 11], {PART: 12}, {PART})
    one._print(PART, fetched(12, 5))
    assert (one.printed, one._shown, one._open) == ([10, 11, 12], {PART: 13}, set())
    assert one._fetcher.left == [PART]


def test_records_in_front_of_the_position_are_not_printed() -> None:
    one = reader()
    one._print(PART, fetched(10, 5, position=13))
    assert one.printed == [13, 14] and one._shown == {PART: 15}


def test_what_was_not_printed_is_not_committed() -> None:
    one = reader(left=3, group="g")
    one._print(PART, fetched(10, 5))
    assert one.printed == [10, 11, 12] and one._shown == {PART: 13} and one._left == 0


def test_only_what_has_moved_is_committed_and_an_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    committed: list[dict[Any, int]] = []
    epochs: list[int] = []
    told: list[ClientError | None] = [None, None, ClientError("group g: no", 30)]

    def run(steps: Any) -> Any:
        return {PART: told.pop(0)}

    one = reader(group="g", shown={PART: 5})
    one._kafka.run = run

    def commit(group: str, new: dict[Any, Committed]) -> Any:
        committed.append({part: one.offset for part, one in new.items()})
        epochs.append(*(one.leader_epoch for one in new.values()))
        return iter(())

    monkeypatch.setattr(consuming.groups, "commit", commit)
    for offset in (5, 5, 6):
        one._shown[PART] = offset
        one.commit()
    one._shown[PART] = 7
    with pytest.raises(ClientError, match="group g: no"):
        one.commit()
    assert committed == [{PART: 5}, {PART: 6}, {PART: 7}] and one._committed == {PART: 6}
    assert epochs == [-1, -1, -1]
    told.append(None)
    one._print(PART, fetched(7, 3, epoch=4))
    one.commit()
    assert (committed[-1], epochs[-1]) == ({PART: 10}, 4), "the leader epoch of what is in front of it"
    told.append(None)
    one._lost(PART, 8, 10)
    one.commit()
    assert (committed[-1], epochs[-1]) == ({PART: 8}, -1)


def test_what_was_lost_is_told_and_reading_goes_on_behind_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = reader(ends={PART: 7}, shown={PART: 9})
    one._go_on(PART, Diverged("t", 0, 9, 7))
    assert one._fetcher.sought == [("t", 0, 7)] and one._open == set(), "which is the end"
    assert one._shown == {PART: 7}, "what is committed is in the log"
    assert capsys.readouterr().err == "rayft: t/0: offsets 7 to 8 were lost with their leader\n"
    for offset, span, wanted in ((3, (5, 20), 5), (90, (5, 20), 20)):
        one._kafka.run = lambda _, span=span: {PART: Span(*span)}
        one._go_on(PART, OutOfRange("t", 0, offset))
        assert one._fetcher.sought[-1] == ("t", 0, wanted)
        assert f"has no offset {offset} any more: it is read from {wanted}" in capsys.readouterr().err


@pytest.mark.parametrize(("latest", "shown"), [(7, 7), (12, 12), (13, None)])
def test_what_was_lost_is_not_waited_for(latest: int, shown: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing comes, since the log was cut; 13: it was not, and the rest is late."""
    answers: list[Any] = [[], [], [fetched(12, 1)]]

    def start(steps: Any) -> Any:
        steps.close()
        return argparse.Namespace(done=True, result=lambda: {PART: Span(0, latest)})

    one = reader(ends={PART: 13}, shown={PART: 12}, commit_s=time.monotonic(), looking=None)
    one._kafka.start = start
    one._reading = argparse.Namespace(next=lambda: answers.pop(0))
    one.read()
    assert one._open == set() and one._shown == {PART: 13 if shown is None else shown}
    assert one.printed == ([12] if shown is None else [])
    assert capsys.readouterr().err == (
        "" if shown is None else f"rayft: t/0: offsets {latest} to 12 were lost with their leader\n"
    )


def test_a_group_whose_offsets_are_in_a_transaction_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Kafka's own consumers do (KIP-447): what is being committed would be printed again. It is said once."""
    answers: list[Any] = [
        ClientError("unstable", ErrorCode.UNSTABLE_OFFSET_COMMIT),
        ClientError("unstable", ErrorCode.UNSTABLE_OFFSET_COMMIT),
        {PART: Committed(7, -1, "")},
    ]
    asked: list[Any] = []
    monkeypatch.setattr(consuming.groups, "committed", lambda *some, **more: asked.append(more))

    def run(steps: Any) -> Any:
        found = answers.pop(0)
        if isinstance(found, ClientError):
            raise found
        return found

    one = reader(spans={PART: Span(0, 9)}, group="g")
    one._kafka.run = run
    assert one._begin(None) == {PART: 7}
    assert asked == 3 * [{"stable": True, "tries": consuming.STABLE_TRIES}]
    assert capsys.readouterr().err == (
        "rayft: group g: a transaction that commits offsets is open, and its end is waited for\n"
    )
