"""The guard of the page: who may ask it for what.

This file alone decides that. Rules:

1. The Host header must name an address at which the page is served: a name that somebody's DNS points at this machine
   does not. An Origin, where a browser sends one, must be the page's own; so must Sec-Fetch-Site for the API.
2. The page itself, its scripts and styles have nothing to hide. Everything below `/api/` wants the token, in the cookie
   that the printed address sets or as `Authorization: Bearer`; at an address beyond loopback it wants the password.
3. Wrong secrets are answered slowly. Of a password, which can be guessed, none is tried for a while after TRIES_MAX wrong
   ones in TRIES_S; and only those are tried that no other site can send: at the login and as `Authorization: Bearer`. A
   token has so many bits that it needs none of that, so nobody can lock out whoever has it.
4. Only GET and HEAD, and POST where the table says so. An address has at most TARGET_BYTES_MAX, a body BODY_BYTES_MAX.
5. A change is a POST below CHANGES, which exists only where the page was started with --allow-changes. It is JSON, which no
   form of another site sends, and has the page's own Origin, or the token or password itself beside it: a cookie that a
   browser adds to whatever it is made to send is not enough.
6. No answer may be kept, framed or read by another origin, and the page may load nothing of another origin.
"""

import asyncio
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

API = "/api/"
LOGIN = "/api/v1/login"
POSTED = frozenset({LOGIN, "/api/v1/ask"})
CHANGES = ("/api/v1/changes/", "/api/v1/tried/")
"""What is posted below these, where changes are allowed."""
JSON = "application/json"
TARGET_BYTES_MAX = 4096
BODY_BYTES_MAX = 64 << 10
TRIES_MAX, TRIES_S = 10, 60.0
LOGIN_S = 10.0
"""How long a secret may take to come, s: a client that has none yet must not hold a connection."""
WRONG_S = 1.0
"""How long a wrong secret has to wait for its answer, s."""
HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'; require-trusted-types-for 'script'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class Access(NamedTuple):
    """How the page is reached."""

    origins: frozenset[str]
    """The page's own origins: `http://127.0.0.1:8421`."""
    secret: str
    """The token in the printed address, or the password."""
    cookie: str
    """The name of the cookie. Cookies are shared by the ports of a host, so it names the port."""
    is_secure: bool
    """Whether the page is served with TLS."""
    is_password: bool = False
    """Whether the secret is a password that somebody chose."""
    may_change: bool = False
    """Whether the page may change something (--allow-changes)."""

    @property
    def hosts(self) -> frozenset[str]:
        """The values of Host that are its own."""
        return frozenset(one.partition("://")[2] for one in self.origins)


class Guard:
    """The application behind it is asked only what may be asked."""

    def __init__(self, app: ASGIApp, access: Access, ends: Iterable[Callable[[], None]] = ()) -> None:
        """`ends`: what is called when the page is about to end."""
        self._app = app
        self.ends = tuple(ends)
        self._access = access
        self._session = secrets.token_urlsafe(32)
        """The value of the cookie: another secret than the token, so that the address alone has that."""
        self._wrong: deque[float] = deque(maxlen=TRIES_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        answer = await self._answer(scope, receive)
        await (answer or self._app)(scope, _bounded(receive), _sealed(send, scope["path"]))

    async def _answer(self, scope: Scope, receive: Receive) -> Response | None:
        """The answer to a request that is not passed on; None: it is."""
        headers = Headers(scope=scope)
        if refused := self._refused(scope, headers):
            return refused
        path, query = scope["path"], scope["query_string"].decode("latin-1")
        if path == "/" and "token=" in query and not self._access.is_password:
            return await self._entered(parse_qs(query).get("token", [""])[0], RedirectResponse("/", 303))
        if path == LOGIN:
            try:
                async with asyncio.timeout(LOGIN_S):
                    given = await _text(receive)
            except TimeoutError:
                return _error(408, "The secret did not come: try again.")
            return await self._entered(given, JSONResponse({"ok": True}))
        may_cookie = not path.startswith(CHANGES) or "origin" in headers
        if path.startswith(API) and not await self._known(headers, may_cookie):
            return _error(
                401,
                "The page wants to know you: open the address that rayft ui printed, or give the token or password.",
            )
        return None

    def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        path, hosts = scope["path"], headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._access.hosts:
            return _error(421, "This address is not the page's: open the one that rayft ui printed.")
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._access.origins:
            return _error(403, "Another site may not ask this page.")
        site = headers.get("sec-fetch-site", "same-origin")
        if path.startswith(API) and site not in ("same-origin", "none"):
            return _error(403, "Another site may not ask this page.")
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > TARGET_BYTES_MAX:
            return _error(414, f"The address is longer than {TARGET_BYTES_MAX} bytes.")
        if scope["method"] in ("GET", "HEAD") or (scope["method"] == "POST" and path in POSTED):
            return None
        if not self._access.may_change:
            return _error(
                405, "This page only reads: start rayft ui with --allow-changes where it is to change things."
            )
        if scope["method"] != "POST" or not path.startswith(CHANGES):
            return _error(405, "Changes are POST to /api/v1/changes/.")
        return _no_change(headers)

    async def _known(self, headers: Headers, may_cookie: bool) -> bool:
        """Whether a request has the secret. `may_cookie`: also in the cookie."""
        cookie = cookie_parser(headers.get("cookie", "")).get(self._access.cookie) if may_cookie else None
        if cookie is not None and _same(cookie, self._session):
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and await self._tried(_utf8(given))

    async def _entered(self, given: str, answer: Response) -> Response:
        """The answer to somebody who gives a secret: with the cookie if it is the right one."""
        if not await self._tried(given):
            return _error(401, "That is not the token or the password of this page.")
        answer.set_cookie(
            self._access.cookie, self._session, httponly=True, samesite="strict", secure=self._access.is_secure
        )
        return answer

    async def _tried(self, given: str) -> bool:
        now = time.monotonic()
        if self._access.is_password and len(self._wrong) == TRIES_MAX and now - self._wrong[0] < TRIES_S:
            return False
        if _same(given, self._access.secret):
            return True
        self._wrong.append(now)
        await asyncio.sleep(WRONG_S)
        return False


def _no_change(headers: Headers) -> Response | None:
    """Why a change is not even looked at; None: it is."""
    if headers.get("origin") is None and headers.get("authorization") is None:
        return _error(403, "A change needs the page's own Origin, or Authorization: Bearer with the token.")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        return _error(415, f"A change is a JSON object: send Content-Type {JSON}.")
    return None


def _same(one: str, other: str) -> bool:
    """Whether two secrets are the same, in a time that does not tell how much of them is."""
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode())


def _utf8(given: str) -> str:
    """What a header says: HTTP gives its bytes as Latin-1, and clients send UTF-8."""
    return given.encode("latin-1").decode("utf-8", "surrogateescape")


async def _text(receive: Receive) -> str:
    """The body of a login: the secret alone."""
    body = bytearray()
    while len(body) <= TARGET_BYTES_MAX:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] == "http.disconnect":
            return ""
        if not message.get("more_body"):
            return str(body, "utf-8", "replace").strip()
    return ""


class TooLong(Exception):
    """The body of a request is longer than BODY_BYTES_MAX."""


def _bounded(receive: Receive) -> Receive:
    left = BODY_BYTES_MAX

    async def bounded() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise TooLong(f"What was sent is longer than {BODY_BYTES_MAX} bytes.")
        return message

    return bounded


def _sealed(send: Send, path: str) -> Send:
    async def sealed(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers["cache-control"] = "no-store" if path.startswith(API) or path == "/" else "no-cache"
        await send(message)

    return sealed


def _error(code: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, code)
