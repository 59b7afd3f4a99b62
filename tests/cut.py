"""A stream of bytes that a real connection (`host/net/link.py`) cuts into frames, without a socket."""

from collections.abc import Iterable

from actors.host.net.link import Link, Reader
from actors.wire.errors import WireError


class Cut:
    """The node's side of one inbound connection: it takes each frame."""

    def __init__(self, limit_bytes: int) -> None:
        self.frames: list[memoryview] = []
        self.refused: WireError | None = None
        self.reader = Reader(1 << 30)
        self.link = Link(self, self.reader, 1, "PLAINTEXT", limit_bytes, "127.0.0.1")  # type: ignore[arg-type]

    def received(self, _conn: int, frame: memoryview) -> bool:
        self.frames.append(frame)
        return True

    def too_large(self, _link: Link, size: int) -> None:
        self.refused = WireError("frame", f"has a length of {size}", 0)

    def arrive(self, data: bytes) -> None:
        """Bytes come from the peer, in as many reads as the connection makes room for."""
        while data and self.refused is None:
            buffer = self.link.get_buffer(len(data))
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            self.link.buffer_updated(count)
            data = data[count:]


def frames_of(chunks: Iterable[bytes], limit_bytes: int) -> list[memoryview]:
    """The frames of a stream that arrives in `chunks`. Raises WireError where a length is not allowed."""
    cut = Cut(limit_bytes)
    for chunk in chunks:
        cut.arrive(chunk)
    if cut.refused is not None:
        raise cut.refused
    return cut.frames
