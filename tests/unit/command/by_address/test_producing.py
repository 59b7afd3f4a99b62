"""Lines of an input: how they are read, put together and written, and what Ctrl-C leaves."""

import argparse
import io
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors.command.by_address import producing
from actors.host.cluster_error import ClusterError
from fastpath.records.batch import Builder
from tests.unit.command.by_address.test_words import options


class Slow(io.BytesIO):
    """A pipe that gives what is written at a time."""

    def __init__(self, *parts: bytes) -> None:
        super().__init__()
        self.parts = list(parts)

    def read1(self, size: int | None = -1, /) -> bytes:
        return self.parts.pop(0) if self.parts else b""


def lines(separator: bytes | None, *parts: bytes) -> list[list[tuple[int, bytes | None, bytes]]]:
    return [[tuple(one) for one in some] for some in producing._chunks(Slow(*parts), separator, 100)]


def test_lines_are_whole_and_given_as_soon_as_they_are() -> None:
    assert lines(None, b"a\nb", b"c\n", b"\nlast") == [
        [(1, None, b"a")],
        [(2, None, b"bc")],
        [(3, None, b"")],
        [(4, None, b"last")],
    ]
    assert lines(None) == [] and lines(None, b"\n") == [[(1, None, b"")]]


def test_a_key_ends_at_the_first_separator() -> None:
    assert lines(b"::", b"k::v::w\n") == [[(1, b"k", b"v::w")]]


def test_a_line_without_a_key_is_told_after_those_before_it() -> None:
    found = producing._chunks(Slow(b"a:1\nb\nc:3\n"), b":", 100)
    assert [one.value for one in next(found)] == [b"1"]
    with pytest.raises(ClusterError, match=r"^line 2 has no key: ':' is not in it$"):
        next(found)


class Endless(io.BytesIO):
    """A megabyte a time without an end of a line, so many times, and then one."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def read1(self, size: int | None = -1, /) -> bytes:
        self.left -= 1
        return bytes(1 << 20) if self.left > 0 else b"x\nbehind" if self.left == 0 else b""


def test_a_line_that_does_not_end_is_counted_and_not_kept() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ClusterError, match=r"^line 1 has 104857601 bytes, and max.request.size is 1048576$"):
            next(producing._chunks(Endless(101), None, 1 << 20))
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_many_partitions_are_written_together_and_four_batches_of_one() -> None:
    target = object.__new__(producing._Target)
    target._topic = "t"
    batches = []
    for part in [*range(1000), *[7] * 9]:
        batches.append((part, Builder(timestamp_ms=5)))
        batches[-1][1].append(None, b"x", 5)
    requests = [[part for (_, part), _ in data] for data, _ in target._requests(batches)]
    assert requests == [[*range(1000), 7, 7, 7], [7] * 4, [7] * 2]


class Interrupted(io.BytesIO):
    """A terminal on which Ctrl-C is typed behind a line and a half."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = [b"a\nhal"]

    def read1(self, size: int | None = -1, /) -> bytes:
        if self.parts:
            return self.parts.pop()
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("when", "code", "done", "sentence"),
    [
        ([], 0, ["a", "committed", "said"], "3 records were written to t\n"),
        (
            [True], 130, ["a", "aborted"],
            "rayft: interrupted while lines were written; 3 records were written to t\n",
        ),
    ],
)  # fmt: skip
def test_ctrl_c_ends_the_input_or_where_lines_are_written_the_transaction(
    when: list[bool], code: int, done: list[str], sentence: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    @contextmanager
    def connected(*_: Any, **__: Any) -> Iterator[Any]:
        yield argparse.Namespace(config=argparse.Namespace(request_bytes_max=100))

    monkeypatch.setattr(producing, "connected", connected)
    made: list[str] = []

    class Target:
        def __init__(self, *_: Any) -> None:
            pass

        def begin(self) -> None:
            pass

        def write(self, lines: list[producing.InputLine]) -> None:
            made.extend(one.value.decode() for one in lines)
            if when:
                raise KeyboardInterrupt

        def end(self) -> None:
            made.append("committed")

        def given_up(self) -> str:
            made.append("aborted")
            return "3 records were written to t"

        def said(self) -> str:
            made.append("said")
            return "3 records were written to t"

    monkeypatch.setattr(producing, "_Target", Target)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Interrupted()))
    given = options(topic="t", partition=None, header=[], key_separator=None, compression=None)
    assert producing.run(given) == code
    assert made == done and capsys.readouterr().err == sentence
