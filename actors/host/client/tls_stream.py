"""TLS over a socket that does not wait, in large pieces.

OpenSSL takes a record from a socket with two calls to the system, for its length and for its 16 KiB; with a Python call
for each that is half the time of a read. So the system gives many records at once here, and OpenSSL finds them in memory.
This file alone decides how much comes and goes at once: `READ_BYTES` of ciphertext, `WRITE_BYTES` of plaintext.
"""

import contextlib
import socket
import ssl
from collections.abc import Sequence
from copy import copy

READ_BYTES = 256 << 10
WRITE_BYTES = 256 << 10
RECORD_BYTES = 16 << 10


class TlsStream:
    """One end of TLS over a socket, with the calls of a socket. What would wait raises BlockingIOError."""

    __slots__ = ("_broken", "_incoming", "_outgoing", "_room", "_tls", "_unsent", "sock")

    def __init__(self, context: ssl.SSLContext, sock: socket.socket, host: str, room: memoryview) -> None:
        """A stream before its handshake. `room`: where ciphertext comes; connections of one thread may share it. Raises
        ValueError for a name that cannot be one of a host."""
        self.sock = sock
        self._room = room
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._unsent = memoryview(b"")
        self._broken: ssl.SSLError | None = None
        """What has ended the reading, behind what was read: OpenSSL says it once."""

    @property
    def has_unsent(self) -> bool:
        """Whether ciphertext waits for the socket to take it."""
        return bool(self._unsent) or bool(self._outgoing.pending)

    def fileno(self) -> int:
        """The socket's descriptor, for a selector."""
        return self.sock.fileno()

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()

    def do_handshake(self) -> None:
        """Go on with the handshake as far as what has come allows. A refusal is told to the peer. Raises BlockingIOError,
        OSError."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
                if not self._fill():
                    self._incoming.write_eof()
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self.flush()
                raise
            else:
                self.flush()
                return

    def flush(self) -> None:
        """Give the socket what it has not taken. Raises BlockingIOError, OSError."""
        while self.has_unsent:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            self._unsent = self._unsent[self.sock.send(self._unsent) :]

    def recv_into(self, room: memoryview) -> int:
        """Read what is there, as far as there is room; 0: the peer has ended it. Raises BlockingIOError, OSError."""
        while True:
            with contextlib.suppress(BlockingIOError):
                return self.held_into(room)
            if not self._fill():
                self._incoming.write_eof()

    def held_into(self, room: memoryview) -> int:
        """Read what has been taken from the system already, and otherwise as `recv_into`."""
        count, ended = self._decrypted(room)
        if not count and not ended:
            raise BlockingIOError
        return count

    def _decrypted(self, room: memoryview) -> tuple[int, bool]:
        """How many bytes of what came are in `room` now, and whether the peer has ended it."""
        count = 0
        if self._broken is not None:
            raise copy(self._broken)
        try:
            while count < len(room):
                got = int(self._tls.read(len(room) - count, room[count:]))  # type: ignore[call-overload]
                if not got:
                    return count, True
                count += got
        except ssl.SSLWantReadError:
            if self._outgoing.pending:  # the peer wants another key, say
                with contextlib.suppress(BlockingIOError):
                    self.flush()
        except ssl.SSLEOFError:  # it ended without a word of TLS: frames say what is whole
            return count, True
        except ssl.SSLError as error:
            self._broken = copy(error)  # without the frames that it was raised in, and what they hold
            if not count:
                raise
        return count, False

    def _fill(self) -> int:
        """Take what has come from the system; 0: the peer has ended it. Raises BlockingIOError, OSError."""
        count = self.sock.recv_into(self._room)
        self._incoming.write(self._room[:count])
        return count

    def sendmsg(self, parts: Sequence[memoryview]) -> int:
        """Send the beginning of some parts. Returns how many bytes were taken, which `flush` may have to send on.
        Raises BlockingIOError, OSError."""
        self.flush()
        count = 0
        small: list[memoryview] = []
        for part in parts:
            if len(part) < RECORD_BYTES:
                small.append(part)
                count += len(part)
            else:
                self._encrypt(small)
                piece = part[: WRITE_BYTES - count]
                self._tls.write(piece)  # type: ignore[arg-type]
                count += len(piece)
            if count >= WRITE_BYTES:
                break
        self._encrypt(small)
        with contextlib.suppress(BlockingIOError):
            self.flush()
        return count

    def _encrypt(self, small: list[memoryview]) -> None:
        """Make records of some small parts together, and forget them."""
        if small:
            self._tls.write(b"".join(small))
            small.clear()
