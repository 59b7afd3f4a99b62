"""How a client logs in to a server: the exchange of tokens by mechanism (RFC 4616, RFC 5802, RFC 7628)."""

import json
from collections.abc import Callable
from functools import lru_cache

from actors.authentication import client as logins
from actors.authentication.exchange import Rejected
from actors.authentication.scram import Mechanism, salted
from actors.client.properties import Login
from actors.ports import Random

SCRAM = {mechanism.sasl_name: mechanism for mechanism in Mechanism}
_salted = lru_cache(maxsize=16)(salted)
"""A cache of salted passwords: salting takes milliseconds, and a client logs in at the same few servers again and
again."""
CLOSE = b"\x01"
Token = Callable[[], str]
"""A function that gives the bearer token of a login that begins now. Raises ClientError."""


class BearerLogin:
    """A login by OAUTHBEARER. A server that does not take the token says so in JSON, and then fails the exchange."""

    def __init__(self, token: str, extensions: tuple[tuple[str, str], ...] = ()) -> None:
        pairs = "".join(f"\x01{name}={value}" for name, value in extensions)
        self._first = f"n,,\x01auth=Bearer {token}{pairs}\x01\x01".encode()
        self.told = ""
        """The reason for which the server refuses the token."""

    def first(self) -> bytes:
        """The first message of the exchange, with the token."""
        return self._first

    def next(self, token: bytes) -> bytes | None:
        """The next message of the exchange; None: the token was taken; else the byte that ends a failed exchange."""
        if not token or self.told:
            return None
        try:
            said = json.loads(bytes(token))
            self.told = ", ".join(f"{name} {value}" for name, value in said.items())[:200]
        except (ValueError, AttributeError):
            self.told = "in words that cannot be read"
        return CLOSE


def begin(login: Login, random: Random, token: Token | None = None) -> logins.Login:
    """A login for one connection. Raises ClientError if there is no token."""
    if login.mechanism in SCRAM:
        nonce = random.uuid() + random.uuid()
        return logins.ScramLogin(
            SCRAM[login.mechanism], login.name, login.password, nonce, _salted, by_token=bool(login.extensions)
        )
    if login.mechanism == "OAUTHBEARER":
        return BearerLogin(login.token or (token() if token is not None else ""), login.extensions)
    return logins.PlainLogin(login.name, login.password)


def refusal(mechanism: str, login: logins.Login, said: str | None, error: Rejected | None = None) -> str:
    """The reason why a login failed, as the end of a sentence that begins with the server."""
    if error is not None:
        return f"failed its own side of {mechanism}: {error}"
    told = getattr(login, "told", "") or (said or "").rstrip(".")
    wrong = "the token is wrong or has expired" if mechanism == "OAUTHBEARER" else "the name or the password is wrong"
    return f"refused the login by {mechanism}: {wrong}" + (f" ({told})" if told else "")
