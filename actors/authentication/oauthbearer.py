"""SASL OAUTHBEARER (RFC 7628; KIP-255, KIP-768): a client shows a token that names its user.

This file alone decides how the messages are read and what a refusal looks like. Rules:

1. The first message is `n,[a=name],^A auth=Bearer TOKEN ^A [extension=value ^A]... ^A`, where ^A is the byte 1. Extensions
   are read and mean nothing.
2. A token that is refused is answered with `{"status":"invalid_token"}`. The client answers with the byte 1, and only then
   the exchange has failed, with the same words. A message that cannot be read fails at once.
3. A client may not name another user than its token does.
"""

import re
from collections.abc import Callable, Hashable

from actors.authentication.exchange import Accepted, Awaited, Challenge, ExchangeStep, Rejected

MESSAGE_BYTES_MAX = 80 << 10
WAIT_MS_MAX = 5000
"""How long a login waits for a fresh key set."""
CLOSE = b"\x01"
INVALID_TOKEN = '{"status":"invalid_token"}'
_FIRST = re.compile(
    r"n,(?:a=(?P<acts_as>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x20-\x7e\t\r\n]+\x01)*)\x01"
)
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")


class First:
    """The first message of a client. `token` is never shown."""

    def __init__(self, message: bytes) -> None:
        """`message` is the client's first token. Raises Rejected if it cannot be read."""
        if len(message) > MESSAGE_BYTES_MAX:
            raise Rejected(f"an OAUTHBEARER message of {len(message)} bytes, more than {MESSAGE_BYTES_MAX}")
        try:
            match = _FIRST.fullmatch(message.decode("ascii"))
        except UnicodeDecodeError:
            match = None
        if match is None:
            raise Rejected("a first OAUTHBEARER message that cannot be read")
        pairs: dict[str, str] = {}
        for pair in match["pairs"].split("\x01")[:-1]:
            name, _, value = pair.partition("=")
            if name in pairs:
                raise Rejected(f"a first OAUTHBEARER message with {name[:40]} twice")
            pairs[name] = value
        found = _AUTH.fullmatch(pairs.get("auth", ""))
        if found is None or found["scheme"].lower() != "bearer":
            raise Rejected("a first OAUTHBEARER message without a bearer token")
        self.token: str = found["token"]
        self.acts_as = (match["acts_as"] or "").replace("=2C", ",").replace("=3D", "=")


class TokenVerdict:
    """The result of checking a token: `subject` and how long the token is good, in ms; or why it is refused."""

    __slots__ = ("lifetime_ms", "refused", "subject")

    def __init__(self, subject: str = "", lifetime_ms: int = 0, refused: str = "") -> None:
        self.subject = subject
        self.lifetime_ms = lifetime_ms
        self.refused = refused


Check = Callable[[str], "TokenVerdict | Hashable"]
"""Checks a token: it returns a verdict, or the key that is signalled when there may be one."""


class OAuthBearer:
    """One exchange of OAUTHBEARER: a token, and if it is refused the byte that ends the exchange."""

    def __init__(self, check: Check, at_last: Callable[[str], TokenVerdict]) -> None:
        """`check` judges a token; `at_last` gives the verdict when nothing more is waited for."""
        self._check = check
        self._at_last = at_last
        self._next: Callable[[bytes], ExchangeStep] = self._first

    def respond(self, token: bytes) -> ExchangeStep:
        """The answer to the first message, or to the byte that ends it. Raises Rejected."""
        return self._next(token)

    def _first(self, message: bytes) -> ExchangeStep:
        first = First(message)
        found = self._check(first.token)
        if isinstance(found, TokenVerdict):
            return self._told(first, found)
        self._next = self._early
        return Awaited(found, WAIT_MS_MAX, lambda: self._told(first, self._at_last(first.token)))

    def _told(self, first: First, verdict: TokenVerdict) -> ExchangeStep:
        if verdict.refused:
            self._refused = verdict.refused
            self._next = self._close
            return Challenge(INVALID_TOKEN.encode())
        self._next = self._over
        if first.acts_as not in ("", verdict.subject):
            raise Rejected(f"user {verdict.subject!r} may not act as {first.acts_as[:80]!r}")
        return Accepted(b"", f"User:{verdict.subject}", verdict.lifetime_ms)

    def _close(self, message: bytes) -> ExchangeStep:
        self._next = self._over
        # Kafka's server would take another first message here. One token a login is enough for any client.
        raise Rejected(self._refused, INVALID_TOKEN if message == CLOSE else None)

    def _early(self, message: bytes) -> ExchangeStep:
        raise Rejected("an OAUTHBEARER message before the answer to the one before")

    def _over(self, message: bytes) -> ExchangeStep:
        raise Rejected("an OAUTHBEARER message after the last")
