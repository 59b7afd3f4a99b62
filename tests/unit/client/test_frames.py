"""Bytes as frames: cut anywhere, small and large, and lengths that cannot be."""

import pytest

from actors.client.errors import NoKafka
from actors.client.frames import SCRATCH_BYTES, Frames


def feed(frames: Frames, data: bytes, step: int) -> list[bytes]:
    """Give bytes in pieces of a size."""
    found = []
    for start in range(0, len(data), step):
        piece = data[start : start + step]
        while piece:
            room = frames.buffer()
            count = min(len(room), len(piece))
            room[:count] = piece[:count]
            piece = piece[count:]
            found += [bytes(one) for one in frames.filled(count)]
    return found


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("step", [1, 3, 4, 5, 1000, SCRATCH_BYTES, 1 << 20])
def test_frames_of_all_sizes_in_pieces_of_all_sizes(step: int) -> None:
    sizes = (4, 5, 60, SCRATCH_BYTES - 5, SCRATCH_BYTES - 4, SCRATCH_BYTES - 3, SCRATCH_BYTES, 200_000, 4, 7)
    bodies = [bytes([n + 1]) * size for n, size in enumerate(sizes)]
    frames = Frames(1 << 20)
    assert feed(frames, b"".join(map(framed, bodies)), step) == bodies
    assert not frames.cut


def test_a_frame_is_not_overwritten_by_the_next() -> None:
    frames = Frames(1000)
    room = frames.buffer()
    room[:9] = framed(b"first")
    (first,) = frames.filled(9)
    frames.buffer()[:9] = framed(b"other")
    (other,) = frames.filled(9)
    assert (bytes(first), bytes(other)) == (b"first", b"other")


def test_half_a_frame_is_cut() -> None:
    frames = Frames(1000)
    assert feed(frames, framed(b"12345678")[:6], 6) == []
    assert frames.cut


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "answers HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "speaks TLS"),
        (b"\x00\x00\x00\x01\x00", "frame of 1 bytes, which is too short"),
        (b"\xff\xff\xff\xff", "negative length"),
        (b"\x00\x10\x00\x00", "frame of 1048576 bytes, and receive.message.max.bytes is 1000"),
    ],
)
def test_lengths_that_cannot_be(data: bytes, words: str) -> None:
    frames = Frames(1000)
    frames.buffer()[: len(data)] = data
    with pytest.raises(NoKafka, match=words):
        frames.filled(len(data))


def test_a_large_frame_is_not_copied() -> None:
    frames = Frames(1 << 20)
    head = (100_000).to_bytes(4, "big")
    frames.buffer()[:4] = head
    assert frames.filled(4) == []
    room = frames.buffer()
    assert len(room) == 100_000
    room[:] = bytes(100_000)
    (frame,) = frames.filled(100_000)
    room[5] = 7
    assert frame[5] == 7
