"""Small documents from a file or a web server: the key sets of identity providers.

This file alone decides how they are fetched: in a thread of their own, with a time limit for each wait and one for the
whole, from the first address that is tried to the last byte, and no further than the size that is asked for. What a web
server redirects to is followed if it is the web too, and never to a file.
"""

import contextlib
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from actors.host.work import web
from actors.ports import Download

WAIT_S = 10.0
"""How many seconds a download waits for a connection, and for the next bytes."""
WHOLE_S = 30.0
PIECE_BYTES = 64 << 10


class Unfetched(OSError):
    """A document that could not be fetched. The text says why."""


def begin(wanted: Download, ended: Callable[[int, object], None]) -> None:
    """Begin to fetch a document; `ended(token, bytes or Unfetched)` is called from another thread."""

    def run() -> None:
        result: object
        try:
            result = fetch(wanted)
        except Unfetched as error:
            result = error.with_traceback(None)
        except Exception as error:  # the node that waits must learn of it, whatever it is
            result = Unfetched(type(error).__name__)
        ended(wanted.token, result)

    try:
        threading.Thread(target=run, name="download", daemon=True).start()
    except RuntimeError:
        ended(wanted.token, Unfetched("there is no thread for it now"))


def fetch(wanted: Download) -> bytes:
    """Fetch a document and return its bytes. Raises Unfetched."""
    parts = urlsplit(wanted.url)
    try:
        if parts.scheme == "file":
            with open(unquote(parts.path), "rb") as file:
                data = file.read(wanted.bytes_max + 1)
        else:
            data = _from_web(wanted, parts.scheme)
    except urllib.error.HTTPError as error:
        error.close()
        raise Unfetched(f"the server answers {error.code}") from None
    except urllib.error.URLError as error:
        raise Unfetched(str(error.reason)) from None
    except OSError as error:
        raise Unfetched(error.strerror or str(error) or type(error).__name__) from None
    if len(data) > wanted.bytes_max:
        raise Unfetched(f"it has more than {wanted.bytes_max} bytes")
    return data


def _from_web(wanted: Download, scheme: str) -> bytes:
    deadline = web.Deadline(WHOLE_S)
    trusted = ssl.create_default_context(cafile=wanted.trusted or None) if scheme == "https" else None
    opener = web.opener(deadline, _Web(), trusted)
    request = urllib.request.Request(wanted.url, headers={"Accept": "application/json", "User-Agent": "rayft"})
    pieces: list[bytes] = []
    size = 0
    with deadline, contextlib.closing(opener.open(request, timeout=WAIT_S)) as answer:
        while size <= wanted.bytes_max and (piece := answer.read1(PIECE_BYTES)):
            pieces.append(piece)
            size += len(piece)
    return b"".join(pieces)


class _Web(urllib.request.HTTPRedirectHandler):
    """Follows redirects within the web, but never from https to http: a server that is not authenticated could name
    keys of its own."""

    def redirect_request(self, request, file, code, message, headers, url):  # type: ignore[no-untyped-def]
        allowed = ("https:",) if request.full_url.startswith("https:") else ("http:", "https:")
        if not url.startswith(allowed):
            raise Unfetched(f"the server redirects to something else than {allowed[0]}//")
        return super().redirect_request(request, file, code, message, headers, url)
