"""How a connection cuts what arrives into frames."""

import random

import pytest

from actors.host.net.link import SCRATCH_BYTES
from actors.wire.errors import WireError
from tests.cut import Cut, frames_of

SIZES = (0, 1, 50, 1000, 16_384, 16_385, SCRATCH_BYTES - 4, SCRATCH_BYTES, 70_000, 300_000)


def framed(frames: list[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@pytest.mark.parametrize("seed", range(12))
def test_a_stream_may_arrive_in_any_pieces(seed: int) -> None:
    rng = random.Random(seed)
    frames = [rng.randbytes(rng.choice(SIZES)) for _ in range(40)]
    stream, chunks, at = framed(frames), [], 0
    while at < len(stream):
        size = rng.choice((1, 3, 4, 5, 100, 5000, 65_536, 200_000))
        chunks.append(stream[at : at + size])
        at += size
    assert [bytes(frame) for frame in frames_of(chunks, 300_000)] == frames


def test_a_frame_owns_what_it_shows() -> None:
    cut = Cut(300_000)
    cut.arrive(framed([b"small", bytes(200_000)]))
    cut.arrive(framed([b"later", b"x" * 200_000]))
    small, large = cut.frames[:2]
    large[:2] = b"ok"  # writable
    assert bytes(small) == b"small"
    assert bytes(large[:3]) == b"ok\0"


def test_a_connection_without_bytes_of_a_frame_holds_no_more_than_a_length() -> None:
    cut = Cut(300_000)
    cut.arrive(framed([b"whole"]) + b"\0\0\1")
    assert cut.link._frame is None
    assert cut.link._head == b"\0\0\1"
    cut.arrive(b"\0" + bytes(256))
    assert [len(frame) for frame in cut.frames] == [5, 256]


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_length_that_is_not_allowed_ends_the_stream_behind_what_came_before(size: int, at_once: bool) -> None:
    stream = framed([b"x"]) + size.to_bytes(4, "big", signed=True) + framed([b"never"])
    cut = Cut(1000)
    for chunk in [stream] if at_once else [stream[at : at + 1] for at in range(len(stream))]:
        cut.arrive(chunk)
    assert [bytes(frame) for frame in cut.frames] == [b"x"]
    assert isinstance(cut.refused, WireError)
    assert str(size) in str(cut.refused)


def test_the_largest_frame_is_taken() -> None:
    assert [len(frame) for frame in frames_of([framed([bytes(1000)])], 1000)] == [1000]
